/* Syncing a directory: the names of its files, as they were made, changed and removed, are on the
   disk then. A file system that cannot sync one has nothing to sync. */
#ifndef RUNNEL_SYNC_H
#define RUNNEL_SYNC_H

/* 0, or -1 with errno. */
int sync_directory(const char *path);

/* The one that the path is in. */
int sync_directory_of(const char *path);

#endif
