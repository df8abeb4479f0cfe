/* What the topic `status`, and the command of that name, say. */
#ifndef RUNNEL_STATUS_H
#define RUNNEL_STATUS_H

struct daemon;
struct json_text;

/* Add the fields of topic `status`: an announce_fields. */
void status_write(struct daemon *daemon, struct json_text *text);

#endif
