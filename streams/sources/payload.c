#include "payload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "common/text.h"

struct payload {
    struct source *source;
    struct streams streams; /* streams that runnel-feed numbers */
    struct stream other;    /* stream of the newest example that the broker has numbered */
    struct message_text text;
    struct mapping *mapping; /* NULL: messages are examples */
    struct step *step;       /* the current step */
};

int payload_open(struct payload **result, struct source *source, struct error *error) {
    struct payload *payload = *result = calloc(1, sizeof *payload);
    if (!payload)
        return error_no_memory(error);
    payload->source = source;
    payload->streams.numbers = 1; /* rows are not held here */
    return fields_open(&payload->mapping, source, error);
}

void payload_close(struct payload **payload) {
    if (!*payload)
        return;
    streams_close(&(*payload)->streams);
    mapping_close(&(*payload)->mapping);
    message_text_free(&(*payload)->text);
    free(*payload);
    *payload = NULL;
}

/* ---- Numbers ---- */

/* Whether the example's own numbers are valid. */
static bool is_own(const json_t *value) {
    static const json_int_t most = ((json_int_t)1 << 53) - 1; /* exact in all JSON readers */
    const json_t *sequence = json_object_get(value, "sequence");
    const json_t *epoch = json_object_get(value, "epoch");
    const json_t *producer = json_object_get(value, "producer");
    uint64_t number;
    return json_is_integer(sequence) && json_integer_value(sequence) >= 0 &&
           json_integer_value(sequence) <= most &&
           (!epoch || (json_is_integer(epoch) && json_integer_value(epoch) >= 0 &&
                       json_integer_value(epoch) <= UINT32_MAX)) &&
           (!producer || (json_is_string(producer) &&
                          wire_producer_parse(json_string_value(producer), &number) == 0));
}

/* Notes the numbers of the stream's newest example. */
static void numbers_taken(struct held_stream *held, uint64_t producer, uint32_t epoch) {
    held->producer = producer;
    held->epoch = epoch;
    held->seen = true;
    held->labels = 0;
}

/* Numbers an example or label that has no sequence. */
static int number_ours(struct payload *payload, struct held_stream *held, json_t *value,
                       struct message_number *number, struct step *step, struct error *error) {
    const struct source *source = payload->source;
    bool label = value && json_object_get(value, "label_of");
    if (label && numbers_of_label(source, held, value, error) < 0)
        return -1;
    *number = (struct message_number){source->producer, source->epoch, held->stream.sequence};
    if (label && held->seen) {
        number->producer = held->producer;
        number->epoch = held->epoch;
    } else if (!label) {
        numbers_taken(held, source->producer, source->epoch);
    }
    step->epoch = number->epoch;
    return 1;
}

/* Checks an example or label with a sequence. */
static int number_own(struct payload *payload, struct held_stream *held, json_t *value,
                      struct step *step, struct error *error) {
    bool label = json_object_get(value, "label_of");
    if (!is_own(value))
        return error_set(error, EX_DATAERR, "invalid epoch, sequence or producer");
    if ((label ? numbers_of_label(payload->source, held, value, error)
               : numbers_of_example(held, value, error)) < 0)
        return -1;
    held->stream.sequence = (uint64_t)json_integer_value(json_object_get(value, "sequence"));
    step->epoch = (uint32_t)json_integer_value(json_object_get(value, "epoch"));
    return 0;
}

/* Sets stream and number of the example: the broker's, its own (in JSON), or new ones. */
static int number_step(void *context, const struct message *message, json_t *value, const char *key,
                       size_t size, struct message_number *number, bool *sparse,
                       struct error *error) {
    struct payload *payload = context;
    struct step *step = payload->step;
    const struct source *source = payload->source;
    const json_t *own = value ? json_object_get(value, "sequence") : NULL;
    const char *bad = stream_name(&payload->other, key, size);
    if (bad)
        return error_set(error, EX_DATAERR, "invalid stream name: %s", bad);
    step->stream = &payload->other;
    if (message->number) {
        step->number = message->number;
        return message_broker_number(NULL, message, value, key, size, number, sparse, error);
    }
    if (!source->numbers)
        return 0;
    struct held_stream *held = streams_find(&payload->streams, payload->other.key, error);
    if (!held)
        return -1;
    step->stream = &held->stream;
    step->own_number = own != NULL;
    return own ? number_own(payload, held, value, step, error)
               : number_ours(payload, held, value, number, step, error);
}

/* ---- Examples ---- */

/* Handles a message that is not an example. */
static int refuse(struct payload *payload, const struct message *message, char *why,
                  struct error *error) {
    struct source *source = payload->source;
    bool broker = source->type->settled;
    text_clean(why);
    if (source->strict)
        return error_set(error, EX_DATAERR, "message %s is not an example: %s%s (--strict)",
                         message->id, why, broker ? "; it stays at the broker" : "");
    if (source->skipped++ == 0)
        feed_print("message %s is not an example: %s. It is counted%s, and so are all others; "
                   "--verbose lists them, --strict ends at the first",
                   message->id, why, broker ? " and acknowledged to the broker" : "");
    else
        feed_detail("message %s is not an example: %s", message->id, why);
    return 0;
}

int payload_step(struct payload *payload, const struct message *message, struct step *step,
                 struct error *error) {
    char why[MESSAGE_WHY_SIZE];
    struct message mapped = *message;
    payload->step = step;
    int status = payload->mapping ? mapping_message(payload->mapping, &mapped, why, error) : 1;
    if (status > 0)
        status = message_example(&payload->text, &mapped, payload->source->forced, number_step,
                                 payload, why, error);
    if (status == 0)
        return refuse(payload, message, why, error);
    step->json = payload->text.text;
    step->json_size = payload->text.size;
    return status;
}

/* ---- Fields ---- */

int fields_open(struct mapping **mapping, const struct source *source, struct error *error) {
    static const struct mapping_names NAMES = {"--field", "--key-field", "--time-field",
                                               "--time-format", "--strict"};
    const struct field_options *fields = &source->fields;
    return mapping_open(mapping,
                        &(struct mapping_options){.fields = fields->columns.values,
                                                  .count = fields->columns.count,
                                                  .key = fields->key,
                                                  .time = fields->time,
                                                  .format = fields->time_format,
                                                  .strict = source->strict,
                                                  .names = &NAMES,
                                                  .report = feed_print},
                        error);
}

/* ---- Numbers ---- */

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

/* Whether an earlier label without a number got `number`, one of those after the newest
   example's. */
static bool is_taken(const struct held_stream *held, uint64_t number) {
    uint64_t next = held->stream.sequence;
    return number < next && number + held->labels >= next;
}

int numbers_of_example(struct held_stream *held, const json_t *value, struct error *error) {
    const json_t *sequence = json_object_get(value, "sequence");
    uint64_t producer = producer_of(value), number = (uint64_t)json_integer_value(sequence);
    uint32_t epoch = epoch_of(value);
    if (sequence && held->epoch == epoch && held->producer == producer && is_taken(held, number))
        return error_set(error, EX_DATAERR,
                         "\"sequence\" %" PRIu64 " is already the number of a label without one; "
                         "number labels and examples in one sequence",
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
                         "the label has no \"sequence\", and this call has sent no example of its "
                         "stream; add a number, and the producer and epoch of its example");
    set_missing(value, "label_epoch", source->epoch);
    return 0;
}
