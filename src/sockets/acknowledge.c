#include "acknowledge.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <zmq.h>

#include "common/error.h"
#include "learner/learner.h"
#include "parts/prediction.h"

enum { BYTES_MIN = 1 << 16 };

/* An entry of the queue. The peer, the key and, if requested, the levels,
   quantiles and prediction follow it. */
struct waiting {
    size_t size; /* size of the entry and its data */
    size_t peer_size, key_size, numbers, levels;
    uint64_t position; /* the entry may be sent once the journal is durable up to here */
    uint64_t example;  /* number of the example, see struct acknowledge_entry */
    bool ready;        /* no result is requested, or it is known */
    bool scored;       /* the result has a loss */
    float loss;
    unsigned char bytes[WIRE_ACKNOWLEDGEMENT_SIZE];
};

struct acknowledge {
    void *socket;
    const struct model *model;
    double *numbers; /* (model.outputs,) */
    char *bytes;     /* entries from offset `first` to `end` */
    size_t first, end, capacity;
    size_t results;    /* entries that are not ready */
    uint64_t position; /* position of the newest entry; later ones are sent after it */
};

int acknowledge_open(struct acknowledge **acknowledge, void *socket, const struct model *model,
                     struct error *error) {
    struct acknowledge *a = *acknowledge = calloc(1, sizeof *a);
    if (a)
        *a = (struct acknowledge){.socket = socket, .model = model, .capacity = BYTES_MIN};
    if (a && (a->bytes = malloc(a->capacity)) &&
        (a->numbers = malloc(model->outputs * sizeof *a->numbers)))
        return 0;
    acknowledge_close(acknowledge);
    return error_set(error, EX_OSERR, "out of memory for acknowledgements");
}

void acknowledge_close(struct acknowledge **acknowledge) {
    if (*acknowledge) {
        free((*acknowledge)->bytes);
        free((*acknowledge)->numbers);
    }
    free(*acknowledge);
    *acknowledge = NULL;
}

static size_t aligned(size_t size) {
    const size_t unit = _Alignof(struct waiting);
    return (size + unit - 1) / unit * unit;
}

static struct waiting *at(const struct acknowledge *a, size_t offset) {
    return (struct waiting *)(void *)(a->bytes + offset);
}

/* Make room for `size` bytes at the end: move the entries to the front, or grow. */
static int make_room(struct acknowledge *a, size_t size, struct error *error) {
    if (a->end + size <= a->capacity)
        return 0;
    memmove(a->bytes, a->bytes + a->first, a->end - a->first);
    a->end -= a->first;
    a->first = 0;
    if (2 * (a->end + size) <= a->capacity)
        return 0;
    size_t capacity = 2 * (a->end + size);
    char *grown = realloc(a->bytes, capacity);
    if (!grown)
        return error_set(error, EX_OSERR, "out of memory for acknowledgements");
    a->bytes = grown;
    a->capacity = capacity;
    return 0;
}

/* The levels, then the quantiles. */
static double *quantiles_of(struct waiting *w) {
    return (double *)(void *)((char *)(w + 1) + aligned(w->peer_size + w->key_size));
}

static size_t quantiles_count(const struct waiting *w) {
    return (1 + w->numbers) * w->levels;
}

static float *prediction(struct waiting *w) {
    return (float *)(void *)(quantiles_of(w) + quantiles_count(w));
}

int acknowledge_add(struct acknowledge *a, const struct acknowledge_entry *entry,
                    struct error *error) {
    size_t numbers = entry->example ? entry->steps * a->model->outputs : 0;
    size_t texts = aligned(entry->peer_size + entry->key_size);
    size_t quantiles = (1 + numbers) * entry->level_count * sizeof(double);
    size_t size = aligned(sizeof(struct waiting) + texts + quantiles + numbers * sizeof(float));
    if (make_room(a, size, error))
        return -1;
    struct waiting *w = at(a, a->end);
    *w = (struct waiting){.size = size,
                          .peer_size = entry->peer_size,
                          .key_size = entry->key_size,
                          .numbers = numbers,
                          .levels = entry->level_count,
                          .example = entry->example,
                          .ready = !entry->example};
    uint64_t position = entry->acknowledgement.position;
    a->position = position > a->position ? position : a->position;
    w->position = a->position;
    wire_acknowledgement_pack(&entry->acknowledgement, w->bytes);
    char *text = (char *)(w + 1);
    memcpy(text, entry->peer, entry->peer_size);
    memcpy(text + entry->peer_size, entry->key, entry->key_size);
    if (w->levels)
        memcpy(quantiles_of(w), entry->levels, w->levels * sizeof(double));
    a->results += !w->ready;
    a->end += size;
    return 0;
}

static void keep_result(struct acknowledge *a, struct waiting *w, const struct learned *learned) {
    size_t outputs = a->model->outputs;
    size_t row = outputs * w->levels * sizeof(double);
    float *to = prediction(w);
    for (size_t t = 0; t < learned->output_steps && learned_has_outputs(learned); t++) {
        prediction_of(a->model, learned, t, a->numbers);
        for (size_t k = 0; k < outputs; k++)
            to[t * outputs + k] = (float)a->numbers[k];
        if (row)
            memcpy(quantiles_of(w) + (1 + t * outputs) * w->levels,
                   prediction_quantiles(learned, t), row);
    }
    if (!learned_has_outputs(learned) || learned->output_steps == 0) /* labels have none */
        w->numbers = 0;
    w->scored = learned->scored > 0;
    w->loss = (float)learned->loss;
    w->ready = true;
    a->results--;
}

void acknowledge_learned(struct acknowledge *a, const struct learned *learned) {
    if (a->results == 0)
        return;
    for (size_t offset = a->first; offset < a->end; offset += at(a, offset)->size)
        if (!at(a, offset)->ready && at(a, offset)->example == learned->examples) {
            keep_result(a, at(a, offset), learned);
            return;
        }
}

bool acknowledge_wants_results(const struct acknowledge *a) {
    return a && a->results > 0;
}

/* False: the client is gone, or its queue is full. */
static bool send_frame(const struct acknowledge *a, const void *bytes, size_t size, bool more) {
    return zmq_send(a->socket, bytes, size, ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0)) >= 0;
}

static void send_entry(const struct acknowledge *a, struct waiting *w) {
    const char *text = (const char *)(w + 1);
    bool result = w->example > 0;
    if (!send_frame(a, text, w->peer_size, true) ||
        !send_frame(a, text + w->peer_size, w->key_size, true) ||
        !send_frame(a, w->bytes, sizeof w->bytes, result) || !result)
        return;
    if (send_frame(a, prediction(w), w->numbers * sizeof(float), true) &&
        send_frame(a, &w->loss, w->scored ? sizeof w->loss : 0, w->levels) && w->levels)
        send_frame(a, quantiles_of(w), quantiles_count(w) * sizeof(double), false);
}

void acknowledge_send(struct acknowledge *a, uint64_t durable) {
    while (a && a->first < a->end) {
        struct waiting *w = at(a, a->first);
        if (w->position > durable || !w->ready)
            return;
        send_entry(a, w);
        a->first += w->size;
    }
}
