/* A checkpoint that is being written: checkpoint_write.c, and the rows of its streams
   checkpoint_write_streams.c, which stream_state.c puts somewhere else. */
#ifndef RUNNEL_CHECKPOINT_WRITING_H
#define RUNNEL_CHECKPOINT_WRITING_H

#include "checkpoint_internal.h"

struct writing {
    const struct checkpoint_layout *layout;
    struct learner *learner;
    struct safetensors_writer *writer; /* NULL: */
    struct safetensors_memory *memory; /* the bytes go there */
    void *buffer;                      /* (checkpoint_buffer_size) */
};

int writing_put(struct writing *writing, const void *bytes, size_t size, struct error *error);

/* What the stream in a slot has of an entry that has rows of streams. */
int writing_row(struct writing *writing, const struct checkpoint_entry *of, uint32_t slot,
                struct error *error);

/* Of a part of anomalies; also of a slot that is no stream's. */
int writing_watch(struct writing *writing, enum checkpoint_part part, uint32_t slot,
                  struct error *error);

#endif
