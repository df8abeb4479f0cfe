/* What is in the messages of a broker: an example each (docs/reference/brokers.md). Numbers, "1.5 2 3" or
   "1.5,2,3", are its x, and so is a list of JSON, a number, a string or an object, which names
   columns; an object with "x" or "label_of" is the whole example, as protocol.md has it. */
#ifndef RUNNEL_MESSAGE_H
#define RUNNEL_MESSAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum { MESSAGE_WHY_SIZE = 256 };

/* The numbers that somebody else gave an example: a broker, which may give it a second time. They
   rise in the stream, with gaps; `sequence` is below 2^53. */
struct message_number {
    uint64_t producer; /* whose numbers these are: not 0 */
    uint32_t epoch;
    uint64_t sequence;
};

/* An id of Redis: see redis_entry.h. */
struct redis_id {
    uint64_t first, second;
};

struct message {
    const char *id;  /* for sentences: what the broker calls it */
    const char *key; /* the stream, unless --stream or the message names another */
    size_t key_size;
    const char *bytes;
    size_t size;
    double time;                         /* Unix time, or 0; that in the message comes first */
    const struct message_number *number; /* the broker's, or NULL */
};

/* The example as JSON; the memory is used again. All zero: empty. */
struct message_text {
    char *text; /* (size,) */
    size_t size, capacity;
    bool failed; /* no memory for it */
};
void message_text_free(struct message_text *text);

/* Says which number the example of the stream `key` gets, and whether that is sparse: 1; 0: none.
   -1: an error; of EX_DATAERR the message is bad. `value` is the whole example, and may be changed;
   NULL: it has only x. */
typedef int message_numbered(void *context, const struct message *message, json_t *value,
                             const char *key, size_t size, struct message_number *number,
                             bool *sparse, struct error *error);

/* Of a message that has the broker's number: that one, which is sparse; the example of a label is
   of the same epoch unless it says another. */
message_numbered message_broker_number;

/* Make the example. `forced` names its stream unless the message does; NULL: its key. 1; 0: it is
   none, and `why` says so; -1: out of memory, or what `numbered` says. */
int message_example(struct message_text *text, const struct message *message, const char *forced,
                    message_numbered *numbered, void *context, char why[MESSAGE_WHY_SIZE],
                    struct error *error);

#endif
