/* The state of one stream as one blob: every row that a checkpoint has of the stream, in
   little-endian order:
     8 bytes    "RNSTREAM"
     u32        format, STREAM_STATE_FORMAT
     u32        CRC-32 of the rest
     17 bytes   digest of the configuration (config.h: compatible), and a zero
     17 bytes   the hash of anomaly.share (as in a checkpoint's metadata), or zeros
     u64        contexts in a memory of anomalies
     u8, bytes  the stream's key
     u16        rows; of each: u8 and bytes of its name, u64 and its bytes

   State that all streams share is not included: parameters, scalers, counters, shared memories,
   the clock of streams that stop and times of it. In a model with vocabularies a word's id is valid
   only in its daemon, so streams cannot move. */
#ifndef RUNNEL_STREAM_STATE_H
#define RUNNEL_STREAM_STATE_H

#include <stdbool.h>
#include <stddef.h>

struct config;
struct error;
struct learner;
struct stream_state;

enum { STREAM_STATE_FORMAT = 1 };

/* For any number of streams of that learner, while learner and configuration exist and
   learner_keep_truths is not called. EX_CONFIG: streams cannot move; EX_UNAVAILABLE: out of
   memory. */
int stream_state_open(struct stream_state **state, const struct config *config,
                      struct learner *learner, struct error *error);
void stream_state_close(struct stream_state **state);

/* Returns whether bytes begin like a blob. */
bool stream_state_is(const void *bytes, size_t size);

/* Returns an upper bound of a blob's bytes for this learner. */
size_t stream_state_size(const struct stream_state *state);

/* Exports the state of the stream; the bytes are valid until the next call with this state. 0; 1:
   not in memory; -1: the device has failed, or out of memory. */
int stream_state_export(struct stream_state *state, const char *key, size_t key_size,
                        const unsigned char **bytes, size_t *size, struct error *error);

/* Checks whether a blob is whole and has this configuration, and returns its stream. 0, or 1 with
   an error (EX_DATAERR). */
int stream_state_look(const struct stream_state *state, const void *bytes, size_t size,
                      const char **key, size_t *key_size, struct error *error);

/* Replaces the state of the stream, as the most recently used; without room, the least recently
   used stream is forgotten. 0; 1 (EX_DATAERR): unchanged, unless a stream was lost; -1: the device
   has failed, or out of memory. */
int stream_state_adopt(struct stream_state *state, const void *bytes, size_t size,
                       struct error *error);

/* Returns whether the last adoption was refused and its displaced stream could not be restored:
   that stream was forgotten. */
bool stream_state_lost(const struct stream_state *state, const char **key, size_t *key_size);

#endif
