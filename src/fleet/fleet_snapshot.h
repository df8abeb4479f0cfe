/* A machine as bytes: a line that says what they are and which version, numbers of 7 bits a byte
   from the lowest, texts after their sizes, and at the end the FNV-1a hash of all before. What is
   in it, in which order, fleet_snapshot_save.c says. */
#ifndef RUNNEL_FLEET_SNAPSHOT_H
#define RUNNEL_FLEET_SNAPSHOT_H

#define SNAPSHOT_HEAD "runnel fleet machine "
#define SNAPSHOT_VERSION "1\n"

enum {
    SNAPSHOT_HASH_SIZE = 8,
    SNAPSHOT_BITS = 7,
    SNAPSHOT_MORE = 1 << SNAPSHOT_BITS, /* another byte follows */
    SNAPSHOT_NUMBER_SIZE = 10,          /* of 64 bits */
};

#endif
