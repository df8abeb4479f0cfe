/* A checkpoint that is being read: checkpoint_verify.c (whether its file is whole),
   checkpoint_read.c, and for its streams and words checkpoint_read_streams.c and
   checkpoint_read_words.c. */
#ifndef RUNNEL_CHECKPOINT_READING_H
#define RUNNEL_CHECKPOINT_READING_H

#include "checkpoint_internal.h"

struct reading {
    const char *path; /* or what else it is read from, for people */
    const struct config *config;
    const struct model *model;
    struct learner *learner;
    struct safetensors *file;  /* NULL: */
    const unsigned char *blob; /* entries' bytes are there, each from its `begin` on */
    struct checkpoint_layout layout;
    bool begins;  /* windows begin anew: window, stride, rule or optimizer are others, */
    bool moments; /* and so do moments: the optimizer is */
    uint64_t contexts, holds; /* of anomalies: so many have been read */
    void *buffer;             /* (checkpoint_buffer_size) */
};

/* "PATH is damaged: WHAT" (EX_IOERR). Returns -1. */
int reading_damaged(const struct reading *reading, const char *what, struct error *error);

/* Bytes of an entry, from its byte `first` on: -1 when it has not so many. */
int reading_bytes(const struct reading *reading, const struct safetensors_entry *entry,
                  uint64_t first, void *bytes, size_t size, struct error *error);

/* One row of a part of a member, or all of a part whose rows are not streams. What the file lacks
   leaves `bytes` as they are. */
int reading_member_row(const struct reading *reading, enum checkpoint_part part, size_t member,
                       size_t row, void *bytes, size_t size, struct error *error);

/* The same of a part that all members share. */
int reading_row(const struct reading *reading, enum checkpoint_part part, size_t row, void *bytes,
                size_t size, struct error *error);

/* Whether there is a use for the part. */
static inline bool reading_has(const struct reading *reading, enum checkpoint_part part) {
    return reading->layout.parts[0][part] != SIZE_MAX;
}

/* Whatever the format, the checksum is the last entry. Fills `report` but for its warnings.
   EX_IOERR: the file is not whole, or no checkpoint. */
int reading_verify(const struct safetensors *file, const char *path,
                   struct checkpoint_report *report, struct error *error);

/* Add the words of all vocabularies to the learner, which has none. */
int reading_words(const struct reading *reading, struct error *error);

/* What the row says of a stream, into a slot in which it has begun: -1 as below. */
int reading_stream(struct reading *reading, size_t row, uint32_t slot, struct error *error);

/* Add all streams to the learner, which has none. -1: damaged, or the engine has failed. */
int reading_streams(struct reading *reading, struct error *error);

#endif
