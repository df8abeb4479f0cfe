/* A file with one line: how far a source has been read, as its server names the place. */
#ifndef RUNNEL_FEED_CURSOR_H
#define RUNNEL_FEED_CURSOR_H

struct error;

/* What is in it, to be freed; NULL where there is no such file. -1 (EX_NOINPUT, EX_DATAERR). */
int cursor_read(const char *path, char **cursor, struct error *error);

/* Put it there: it is on the disk then, or that of before is still there (EX_IOERR). */
int cursor_write(const char *path, const char *cursor, struct error *error);

#endif
