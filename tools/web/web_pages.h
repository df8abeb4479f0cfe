/* The files of the page, compiled into the program, and the chart library, read from its package.
 */
#ifndef RUNNEL_WEB_PAGES_H
#define RUNNEL_WEB_PAGES_H

#include "web_reply.h"

enum { PAGES = 38, PAGE_ETAG_SIZE = 20 };

struct pages {
    char *chart; /* owned */
    size_t chart_size;
    char chart_etag[PAGE_ETAG_SIZE], etags[PAGES][PAGE_ETAG_SIZE];
};

/* EX_OK, or complains and returns an exit status. */
int pages_open(struct pages *pages, const char *chart_file);
void pages_close(struct pages *pages);

/* The file at that path: true with `reply` filled, which lasts as long as `pages`. */
bool pages_find(const struct pages *pages, const char *path, struct reply *reply);

#endif
