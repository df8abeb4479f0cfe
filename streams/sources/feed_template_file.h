/* The file that keeps templates' ids: "ID TEXT" a line, in the order in which templates were made
   and changed; of several lines with the same id the last one counts. It is locked as long as it is
   open. */
#ifndef RUNNEL_FEED_TEMPLATE_FILE_H
#define RUNNEL_FEED_TEMPLATE_FILE_H

#include <stdint.h>

struct error;
struct template_file;

/* Takes a line that was read: the text is terminated and may be written to. */
typedef int template_load(void *context, uint32_t id, char *text, struct error *error);

/* Open or make it, and hand on what is in it. A last line without newline, as a crash leaves it, is
   cut off. Errors: as drain_open has them. */
int template_file_open(struct template_file **file, const char *path, template_load *load,
                       void *context, struct error *error);
void template_file_close(struct template_file **file);

/* Add a line; it is on the disk then. */
int template_file_append(struct template_file *file, uint32_t id, const char *text,
                         struct error *error);

#endif
