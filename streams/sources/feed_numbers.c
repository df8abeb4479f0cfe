#include "feed_numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

void numbers_set_producer(json_t *value, uint64_t producer) {
    char digits[sizeof "0123456789abcdef"];
    snprintf(digits, sizeof digits, "%" PRIx64, producer);
    json_object_set_new(value, "producer", json_string(digits));
}

static uint64_t producer_of(const json_t *value) {
    const char *text = json_string_value(json_object_get(value, "producer"));
    uint64_t producer;
    return text && wire_producer_parse(text, &producer) == 0 ? producer : 0;
}

static uint32_t epoch_of(const json_t *value) {
    return (uint32_t)json_integer_value(json_object_get(value, "epoch"));
}

/* Labels without numbers of their own have those after the newest example's: `number` may be one of
   them. */
static bool is_taken(const struct held_stream *held, uint64_t number) {
    uint64_t next = held->stream.sequence;
    return number < next && number + held->labels >= next;
}

void numbers_taken(struct held_stream *held, uint64_t producer, uint32_t epoch) {
    held->producer = producer;
    held->epoch = epoch;
    held->seen = true;
    held->labels = 0;
}

int numbers_of_example(struct held_stream *held, const json_t *value, struct error *error) {
    const json_t *sequence = json_object_get(value, "sequence");
    uint64_t producer = producer_of(value), number = (uint64_t)json_integer_value(sequence);
    uint32_t epoch = epoch_of(value);
    if (sequence && held->epoch == epoch && held->producer == producer && is_taken(held, number))
        return error_set(error, EX_DATAERR,
                         "the \"sequence\" %" PRIu64 " was given to a label that had none: where "
                         "examples have numbers of their own, give labels theirs in the same count",
                         number);
    numbers_taken(held, producer, epoch);
    return 0;
}

static void set_missing(json_t *value, const char *name, uint32_t number) {
    if (!json_object_get(value, name))
        json_object_set_new(value, name, json_integer(number));
}

int numbers_of_label(const struct source *source, struct held_stream *held, json_t *value,
                     struct error *error) {
    bool numbered = json_object_get(value, "sequence"), named = json_object_get(value, "producer");
    held->labels = numbered ? 0 : held->labels + 1;
    if (held->seen) {
        set_missing(value, "epoch", held->epoch);
        set_missing(value, "label_epoch", held->epoch);
        if (!named)
            numbers_set_producer(value, held->producer);
        return 0;
    }
    if (numbered || named)
        return 0;
    if (!source->epoch_given)
        return error_set(error, EX_DATAERR,
                         "a label without \"sequence\", of a stream of which this call has sent no "
                         "example: give it a number, and its example's producer and epoch");
    set_missing(value, "label_epoch", source->epoch);
    return 0;
}
