/* All that is kept of one stream as one blob, to go elsewhere: every row that a checkpoint has of
   streams, whatever they are. Little-endian:

     8 bytes    "RNSTREAM"
     u32        format, STREAM_STATE_FORMAT
     u32        CRC-32 of all that follows
     17 bytes   digest of the configuration (config.h: compatible), and a zero
     17 bytes   whose memory of anomalies is shared (as a checkpoint's metadata), or zeros
     u64        contexts in a memory of anomalies
     u8, bytes  the stream's key
     u16        rows; of each: u8 and bytes of its name, u64 and its bytes

   What belongs to all streams does not go along: parameters, scalers, counters, memories that
   streams share. Where a model has vocabularies, a word's id is the daemon's own: its streams
   cannot go elsewhere. */
#ifndef RUNNEL_STREAM_STATE_H
#define RUNNEL_STREAM_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct error;
struct learner;
struct stream_state;

enum { STREAM_STATE_FORMAT = 1 };

/* For as many streams of that learner as one likes, for as long as it is there, the configuration
   is, and neither starts or ends to keep predictions (learner_keep_truths). EX_CONFIG: its streams
   cannot go elsewhere; EX_UNAVAILABLE: out of memory. */
int stream_state_open(struct stream_state **state, const struct config *config,
                      struct learner *learner, struct error *error);
void stream_state_close(struct stream_state **state);

/* Whether bytes begin as a blob does. */
bool stream_state_is(const void *bytes, size_t size);

/* A bound of a blob's bytes: none that fits this learner has more. */
size_t stream_state_size(const struct stream_state *state);

/* All that is kept of the stream; the bytes are valid until the next call with this state. 0; 1
   when it is not in memory; -1: the device has failed, or out of memory. */
int stream_state_export(struct stream_state *state, const char *key, size_t key_size,
                        const unsigned char **bytes, size_t *size, struct error *error);

/* Whether a blob is whole, and of this configuration; its stream. 0, or 1 with a sentence
   (EX_DATAERR). */
int stream_state_look(const struct stream_state *state, const void *bytes, size_t size,
                      const char **key, size_t *key_size, struct error *error);

/* The stream goes on from there, as the most recently used; what was kept of it is gone, and
   without room the least recently used stream. 0; 1 with a sentence (EX_DATAERR), and nothing has
   changed, unless a stream was lost; -1: the device has failed, or out of memory. */
int stream_state_adopt(struct stream_state *state, const void *bytes, size_t size,
                       struct error *error);

/* Whether the last adoption was refused and the stream that it had displaced could not be restored:
   that one was forgotten. */
bool stream_state_lost(const struct stream_state *state, const char **key, size_t *key_size);

#endif
