/* The files of the page, compiled into the program, and the chart library, read from its package.
 */
#ifndef RUNNEL_WEB_PAGES_H
#define RUNNEL_WEB_PAGES_H

#include "web_reply.h"

struct pages {
    char *chart; /* owned */
    size_t chart_size;
};

/* EX_OK, or complains and returns an exit status. */
int pages_open(struct pages *pages, const char *chart_file);
void pages_close(struct pages *pages);

/* The file at that path: true with `reply` filled. */
bool pages_find(const struct pages *pages, const char *path, struct reply *reply);

#endif
