/* Syncing a directory: makes creations, renames and removals of its files durable. A file system
   that does not support it does not need it. */
#ifndef RUNNEL_SYNC_H
#define RUNNEL_SYNC_H

/* 0, or -1 with errno. */
int sync_directory(const char *path);

int sync_directory_of(const char *path);

#endif
