/* A disk that fails on demand, for code that writes through SQLite: its default VFS with a
   counter before every write and every sync. */
#ifndef RUNNEL_FAULTY_DISK_H
#define RUNNEL_FAULTY_DISK_H

enum disk_fault {
    DISK_WELL,
    DISK_FULL,      /* a write fails: no room */
    DISK_BROKEN,    /* a write fails: an error */
    DISK_SHORT,     /* half of a write is done, then it fails: no room */
    DISK_SYNC,      /* a sync fails */
    DISK_STALL,     /* a sync blocks while this fault is set */
    DISK_KILL,      /* the process is killed before a write or sync */
    DISK_KILL_TORN, /* half of a write is done, then the process is killed; or before a sync */
    DISK_KILL_SYNC, /* the process is killed before a sync */
};

/* Call it once, before SQLite is used. */
void faulty_disk_install(void);

/* Lets every call of the fault's kind fail after that many more calls. */
void faulty_disk(enum disk_fault fault, int after);

#endif
