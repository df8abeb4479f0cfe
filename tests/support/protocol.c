#include "protocol.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire.h"
#include "hash_engine.h"
#include "parts/scaler.h"

enum {
    STREAMS_MAX = 16,
    WINDOW_MAX = 16,
    SIZE_MAX_NUMBERS = 16,
    STEPS_MAX = 64,
    OUTPUT_NUMBERS_MAX = 64
};

struct step {
    uint64_t before, x, y;
    bool learned; /* has a y to learn */
};

struct stream {
    bool used;
    char key[256];
    size_t last_use;
    uint64_t state, output; /* after the newest step */
    struct step window[WINDOW_MAX];
    size_t length, closed;
    bool open;
    struct step open_step;
    float held[SIZE_MAX_NUMBERS];
    double mean[SIZE_MAX_NUMBERS], deviation[SIZE_MAX_NUMBERS]; /* the scaler at its newest step */
};

struct protocol {
    const struct workload *workload;
    struct stream streams[STREAMS_MAX];
    uint64_t parameters;
    struct scaler *scaler;
    struct observations *observations;
    struct observation *now; /* of the current example */
    double loss_sum;
    float outputs[STEPS_MAX * OUTPUT_NUMBERS_MAX]; /* of its steps */
};

static void update(struct protocol *p, struct stream *s) {
    uint64_t chain = p->parameters, state = s->window[0].before;
    size_t terms = 0;
    for (size_t n = 0; n < s->length; n++) {
        state = hash_state(p->parameters, state, s->window[n].x);
        if (n >= s->length - s->closed && s->window[n].learned) {
            chain = hash_term(chain, hash_output(p->parameters, state), s->window[n].y);
            terms++;
        }
    }
    s->closed = 0;
    if (!terms)
        return;
    const struct config *config = &p->workload->config;
    uint64_t gradient =
        hash_gradient(chain, state, terms, config->learning.optimizer.rate, config->learning.clip);
    struct update_result result = hash_update(gradient);
    p->now->skipped += !result.applied;
    if (!result.applied)
        return;
    p->now->updates++;
    p->now->gradient_norm = result.gradient_norm;
    p->now->update_ratio = result.update_ratio;
    p->parameters = hash_updated(gradient);
}

static void close_step(struct protocol *p, struct stream *s, struct step step) {
    size_t window = p->workload->config.learning.window;
    if (s->length == window)
        memmove(s->window, s->window + 1, --s->length * sizeof *s->window);
    s->window[s->length++] = step;
    if (++s->closed == p->workload->config.learning.stride)
        update(p, s);
}

/* The observer's data of one score, besides its loss; `raw` is the original y of `next`. With
   `scale: standard` the prediction is converted back by its own scaler, and numbers without a
   value then are not predicted. */
static void count_score(struct protocol *p, const struct stream *s, const union value *y,
                        const union value *raw) {
    uint64_t output = s->output;
    const struct output *kind = &p->workload->config.architecture.output;
    size_t best = 0;
    if (kind->loss == LOSS_softmax) {
        for (size_t k = 0; k < kind->size; k++)
            if (hash_output_number(output, k) > hash_output_number(output, best))
                best = k;
        p->now->observed++;
        p->now->correct += best == y->id;
        return;
    }
    for (size_t k = 0; k < kind->size && kind->loss != LOSS_mixture; k++) {
        bool scaled = p->scaler && kind->target == TARGET_NEXT && kind->loss != LOSS_bernoulli;
        if (isnan(y[k].real) || (scaled && isnan(s->mean[k])))
            continue;
        p->now->observed++;
        double error = (double)hash_output_number(output, k) - y[k].real;
        if (scaled)
            error = (s->mean[k] - raw[k].real) + s->deviation[k] * hash_output_number(output, k);
        if (kind->loss == LOSS_bernoulli)
            p->now->correct += (hash_output_number(output, k) >= 0) == (y[k].real >= 0.5f);
        else
            p->now->squared_error += error * error;
    }
}

static bool is_target(const struct protocol *p, const union value *y) {
    const struct output *kind = &p->workload->config.architecture.output;
    size_t seen = 0;
    if (kind->loss == LOSS_softmax)
        return y->id != WIRE_NO_CLASS;
    if (kind->loss == LOSS_mixture && isnan(y[0].real) != isnan(y[1].real))
        return !isnan(y[2].real); /* half a point is not valid */
    for (size_t k = 0; k < kind->size; k++)
        seen += !isnan(y[k].real);
    return seen > 0;
}

/* Scores the stream's newest output, and records in the step which part is learned. */
static void score(struct protocol *p, const struct stream *s, struct step *step,
                  const union value *y, const union value *raw, bool learn) {
    step->learned = false;
    if (!y || !is_target(p, y))
        return;
    step->y = hash_values(y, p->workload->model.target_size);
    step->learned = learn;
    p->now->scored++;
    p->loss_sum += hash_loss(s->output, step->y);
    count_score(p, s, y, raw);
}

/* x as input of the network, and as a target of `next`. */
static void read_x(struct protocol *p, struct stream *s, const char *bytes, union value *x,
                   union value *y) {
    const struct input *input = &p->workload->config.architecture.input;
    memcpy(x, bytes, p->workload->x_size * sizeof *x);
    memcpy(y, x, p->workload->x_size * sizeof *x);
    for (size_t k = 0; input->kind == INPUT_REAL && k < input->size; k++) {
        bool seen = !isnan(x[k].real);
        float raw = seen ? x[k].real : s->held[k];
        s->held[k] = raw;
        x[k].real = p->scaler ? scaler_scale(p->scaler, k, raw) : raw;
        if (isnan(raw))
            x[k].real = 0;
        y[k].real = seen ? x[k].real : NAN;
    }
}

static void read_scaler(const struct protocol *p, double *mean, double *deviation) {
    for (size_t k = 0; k < p->workload->x_size; k++) {
        struct scaler_number number = scaler_read(p->scaler, k);
        mean[k] = number.count ? number.mean : NAN;
        deviation[k] = scaler_deviations(p->scaler)[k];
    }
}

static void play_step(struct protocol *p, struct stream *s, const struct example *e, size_t t) {
    const struct model *model = &p->workload->model;
    size_t x_bytes = p->workload->x_size * sizeof(union value);
    union value x[SIZE_MAX_NUMBERS], next[SIZE_MAX_NUMBERS], y[SIZE_MAX_NUMBERS];
    union value raw[SIZE_MAX_NUMBERS];
    memcpy(raw, (const char *)e->x + t * x_bytes, x_bytes);
    read_x(p, s, (const char *)e->x + t * x_bytes, x, next);
    if (s->open) {
        score(p, s, &s->open_step, next, raw, e->learn);
        close_step(p, s, s->open_step);
    }
    struct step step = {.before = s->state, .x = hash_values(x, p->workload->x_size)};
    s->state = hash_state(p->parameters, s->state, step.x);
    s->output = hash_output(p->parameters, s->state);
    for (size_t k = 0; k < model->outputs; k++)
        p->outputs[t * model->outputs + k] = hash_output_number(s->output, k);
    if (model->architecture.output.target == TARGET_NEXT) {
        s->open = true;
        if (p->scaler)
            read_scaler(p, s->mean, s->deviation);
        s->open_step = step;
        return;
    }
    size_t y_bytes = model->target_size * sizeof(union value);
    if (e->y)
        memcpy(y, (const char *)e->y + t * y_bytes, y_bytes);
    uint64_t measured = s->state;
    score(p, s, &step, e->y ? y : NULL, NULL, e->learn);
    close_step(p, s, step);
    assert_int_equal(s->state, measured); /* an update does not change the running state */
}

static struct stream *find_stream(struct protocol *p, const struct example *e, size_t use) {
    struct stream *free = NULL, *oldest = NULL;
    for (size_t n = 0; n < p->workload->config.learning.max_streams; n++) {
        struct stream *s = &p->streams[n];
        if (s->used && strlen(s->key) == e->key_size && !memcmp(s->key, e->key, e->key_size))
            return s;
        if (!s->used)
            free = s;
        else if (!oldest || s->last_use < oldest->last_use)
            oldest = s;
    }
    if (!free) {
        struct observations *o = p->observations;
        assert_true(o->count < o->capacity);
        struct observation *observation = &o->list[o->count++];
        memset(observation, 0, sizeof *observation);
        observation->forgotten = true;
        memcpy(observation->key, oldest->key, sizeof oldest->key);
        free = oldest;
    }
    memset(free, 0, sizeof *free);
    free->used = true;
    free->last_use = use;
    memcpy(free->key, e->key, e->key_size);
    for (size_t k = 0; k < SIZE_MAX_NUMBERS; k++)
        free->held[k] = NAN;
    return free;
}

static size_t count_streams(const struct protocol *p) {
    size_t count = 0;
    for (size_t n = 0; n < STREAMS_MAX; n++)
        count += p->streams[n].used;
    return count;
}

static void observe(struct protocol *p, const struct example *e, size_t number,
                    uint64_t last_state) {
    struct observations *o = p->observations;
    struct observation *now = p->now;
    const struct model *model = &p->workload->model;
    now->examples = number;
    now->received = e->received;
    now->loss = now->scored ? p->loss_sum / (double)now->scored : -1;
    now->output_steps = e->steps;
    now->outputs = observed_hash(p->outputs, e->steps * model->outputs * sizeof(float));
    now->streams = count_streams(p);
    double mean[SIZE_MAX_NUMBERS], deviation[SIZE_MAX_NUMBERS];
    if (p->scaler) {
        read_scaler(p, mean, deviation);
        now->scale = observed_hash(mean, o->inputs * sizeof *mean) ^
                     observed_hash(deviation, o->inputs * sizeof *deviation) << 1;
    }
    if (o->measure_every && number % o->measure_every == 0) {
        struct layer_statistics measured[MODEL_LAYERS_MAX] = {0};
        measured[0].hidden.mean = (double)last_state;
        now->measured = observed_hash(measured, o->layers * sizeof *measured);
    }
}

static void play_example(struct protocol *p, const struct example *e, size_t number,
                         uint64_t *steps) {
    struct observations *o = p->observations;
    for (size_t t = 0; p->scaler && t < e->steps; t++)
        scaler_add(p->scaler, (const char *)e->x + t * p->workload->x_size * sizeof(float));
    struct stream *s = find_stream(p, e, number);
    s->last_use = number;
    assert_true(o->count < o->capacity);
    p->now = &o->list[o->count++];
    p->loss_sum = 0;
    memset(p->now, 0, sizeof *p->now);
    memcpy(p->now->key, e->key, e->key_size);
    for (size_t t = 0; t < e->steps; t++)
        play_step(p, s, e, t);
    uint64_t last_state = s->state;
    if (e->end) {
        if (s->closed)
            update(p, s);
        s->used = false;
    }
    *steps += e->steps;
    p->now->steps = *steps;
    observe(p, e, number, last_state);
}

uint64_t protocol_run(const struct workload *workload, uint64_t parameters,
                      struct observations *observations) {
    struct protocol *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->workload = workload;
    p->parameters = parameters;
    p->observations = observations;
    assert_true(workload->config.learning.max_streams <= STREAMS_MAX);
    assert_true(workload->config.learning.window <= WINDOW_MAX);
    assert_true(workload->model.outputs <= OUTPUT_NUMBERS_MAX);
    const struct input *input = &workload->config.architecture.input;
    if (input->scale == SCALE_STANDARD)
        assert_int_equal(
            scaler_open(&p->scaler, workload->x_size, input->memory, input->limit, NULL), 0);
    uint64_t steps = 0;
    for (size_t n = 0; n < workload->count; n++)
        play_example(p, &workload->examples[n], n + 1, &steps);
    scaler_close(&p->scaler);
    parameters = p->parameters;
    free(p);
    return parameters;
}
