/* Messages of a broker; each is an example (docs/reference/brokers.md). Its x may be numbers ("1.5
   2 3", "1.5,2,3"), a JSON list, a number, a string, or an object that names columns. An object
   with "x" or "label_of" is a whole example, see protocol.md. */
#ifndef RUNNEL_MESSAGE_H
#define RUNNEL_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum { MESSAGE_WHY_SIZE = 256 };

/* The number that a broker gave an example; a message that is delivered twice has the same number.
   Numbers rise within a stream, with gaps; `sequence` is below 2^53. */
struct message_number {
    uint64_t producer; /* the source of these numbers; not 0 */
    uint32_t epoch;
    uint64_t sequence;
};

/* A Redis entry ID, see redis_entry.h. */
struct redis_id {
    uint64_t first, second;
};

struct message {
    const char *id;  /* the broker's name for it, for messages */
    const char *key; /* the stream, unless --stream or the message names another */
    size_t key_size;
    const char *bytes;
    size_t size;
    /* Unix time or 0; a time in the message takes precedence */
    double time;
    const struct message_number *number; /* the broker's number, or NULL */
};

/* The example as JSON, in memory that is used again. All zero: empty. */
struct message_text {
    char *text; /* (size,) */
    size_t size, capacity;
    bool failed; /* out of memory */
};
void message_text_free(struct message_text *text);

/* Finds the number of the example of stream `key`, and whether it is sparse. `value` is the whole
   example and may be changed; NULL: it has only x. Returns 1, 0 without a number, or -1 on an error
   (EX_DATAERR: invalid message). */
typedef int message_numbered(void *context, const struct message *message, json_t *value,
                             const char *key, size_t size, struct message_number *number,
                             bool *sparse, struct error *error);

/* Uses the broker's number, which is sparse. The example of a label has the same epoch unless the
   label names another. */
message_numbered message_broker_number;

/* Converts the message to an example. `forced` names its stream unless the message does; NULL: its
   key does. Returns 1; 0 if it is not an example, see `why`; -1 out of memory, or the error of
   `numbered`. */
int message_example(struct message_text *text, const struct message *message, const char *forced,
                    message_numbered *numbered, void *context, char why[MESSAGE_WHY_SIZE],
                    struct error *error);

#endif
