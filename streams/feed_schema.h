/* The schema of a source's examples: see docs/protocol.md. */
#ifndef RUNNEL_FEED_SCHEMA_H
#define RUNNEL_FEED_SCHEMA_H

struct source;

/* The message, to be freed; NULL when out of memory. The source's type has `column`. */
char *schema_of(const struct source *source);

#endif
