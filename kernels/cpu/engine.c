/* The CPU engine: a loop over a plan's operations. Its arithmetic is in files compiled once per
   instruction set. */
#include "engine/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#ifdef __GLIBC__
#    include <gnu/libc-version.h>
#endif

#include "common/denormals.h"
#include "common/error.h"
#include "formulas.h"

#include "activities.h"
#include "bank.h"
#include "measure.h"
#include "memory.h"
#include "network.h"
#include "slot.h"
#include "solve.h"
#include "updates.h"

enum { DESCRIPTION_SIZE = 128 };

struct engine {
    const struct model *model;
    struct engine_options options;
    const struct kernels *kernels;
    struct network network;
    struct slot_layout layout;
    float *slots;             /* (options.slots, layout.size) */
    struct solution solution; /* of a solved output */
    uint64_t updates;
    size_t longest_run;                    /* STEPs that are computed together */
    size_t newest;                         /* ring position of the newest step */
    size_t ahead;                          /* steps of the plan that are already computed */
    bool stale;                            /* the units' deviations must be recomputed */
    const union value **inputs, **targets; /* (ring,), (ring, horizons) of a run or window */
    char description[DESCRIPTION_SIZE];
};

/* The best instruction set of this machine; $RUNNEL_ISA overrides it, for tests. */
static const struct kernels *choose_kernels(struct error *error) {
    const struct kernels *sets[3];
    size_t count = 0;
#ifdef RUNNEL_X86
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        sets[count++] = &kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        sets[count++] = &kernels_avx2;
#endif
    sets[count++] = &kernels_baseline;
    const char *wanted = getenv("RUNNEL_ISA");
    if (!wanted || !*wanted)
        return sets[0];
    for (size_t i = 0; i < count; i++)
        if (strcmp(sets[i]->name, wanted) == 0)
            return sets[i];
    error_set(error, EX_UNAVAILABLE,
              "RUNNEL_ISA=%s: instruction set not supported by this machine or build; unset "
              "RUNNEL_ISA, or use baseline",
              wanted);
    return NULL;
}

/* Below avx2 the C library's exp and log choose at run time whether to fuse products and sums. */
static const char *libm_variant(void) {
#if defined(RUNNEL_X86)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return " without fma";
#endif
    return "";
}

static float *slot(const struct engine *e, size_t index) {
    return e->slots + index * e->layout.size;
}

static void cpu_close(struct engine **engine) {
    struct engine *e = *engine;
    if (!e)
        return;
    network_close(&e->network);
    memory_release(e->slots, e->options.slots * e->layout.size * sizeof(float));
    solution_close(&e->solution);
    free(e->inputs);
    free(e->targets);
    free(e);
    *engine = NULL;
}

static int cpu_open(struct engine **engine, const struct model *model,
                    const struct engine_options *options, const char *device, struct error *error) {
    (void)device;
    *engine = NULL;
    struct engine *e = calloc(1, sizeof *e);
    if (!e)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the CPU engine");
    e->model = model;
    e->options = *options;
    e->kernels = choose_kernels(error);
    if (!e->kernels)
        goto fail;
    denormals_to_zero();
    if (network_open(&e->network, model, options->rule, options->window,
                     optimizer_moments(&options->optimizer), options->threads, error))
        goto fail;
    e->layout = slot_lay_out(&e->network);
    /* a reader's arrays hold one message, and MEASURE reads them */
    e->longest_run = network_reader(&e->network) ? 1 : e->network.ring;
    if (model->solved && solution_open(&e->solution, model, error))
        goto fail;
    e->slots = memory_reserve(options->slots * e->layout.size * sizeof(float));
    e->inputs = calloc(e->network.ring, sizeof *e->inputs);
    e->targets = calloc(e->network.ring * model->horizons, sizeof *e->targets);
    if (!e->slots || !e->inputs || !e->targets) {
        error_set(error, EX_UNAVAILABLE,
                  "out of memory for %zu streams with a window of %zu steps; lower "
                  "learning.max_streams or learning.window",
                  options->slots, options->window);
        goto fail;
    }
#ifdef __GLIBC__
    const char *libc = gnu_get_libc_version();
#else
    const char *libc = "unknown";
#endif
    snprintf(e->description, sizeof e->description, "cpu %s%s, compiler %s, libc %s",
             e->kernels->name, libm_variant(), __VERSION__, libc);
    *engine = e;
    return 0;
fail:
    cpu_close(&e);
    return -1;
}

/* ---- Playing ---- */

/* The number of STEPs from operation `i` on without an operation between them that changes the
   network's state: they are computed together. */
static size_t run_length(const struct engine *e, const struct plan *plan, size_t i) {
    uint32_t slot = plan->operations[i].slot;
    size_t position = plan->operations[i].position, count = 0;
    for (; i < plan->count && count < e->longest_run; i++) {
        const struct operation *o = &plan->operations[i];
        if (o->kind == OPERATION_MEASURE || (o->kind == OPERATION_SCORE && o->slot == slot))
            continue;
        if (o->kind != OPERATION_STEP || o->slot != slot ||
            o->position != network_position(&e->network, position, count))
            break;
        count++;
    }
    return count;
}

static void bound(float *numbers, size_t count) {
    for (size_t k = 0; k < count; k++)
        numbers[k] = formula_bounded(numbers[k]);
}

/* Keeps a step's x in its slot. */
static union value *keep_input(const struct engine *e, float *kept, const union value *x) {
    const struct model *model = e->model;
    size_t atoms = input_is_message(&model->architecture.input); /* the first number counts them */
    memcpy(kept, x, e->layout.input_size * sizeof *x);
    if (input_is_real(&model->architecture.input) && !model->part_count)
        bound(kept + atoms, e->layout.input_size - atoms);
    for (size_t n = 0; n < model->part_count; n++)
        if (!model->parts[n].size)
            bound(kept + model->parts[n].from, model->parts[n].width);
    return (union value *)kept;
}

/* Computes the run of STEPs that begins at operation `i`, and keeps each step's x and state
   before it. */
static void compute_run(struct engine *e, const struct plan *plan, size_t i) {
    const struct operation *first = &plan->operations[i];
    const struct network *n = &e->network;
    float *s = slot(e, first->slot);
    size_t count = run_length(e, plan, i), t = 0;
    for (; t < count; i++) {
        const struct operation *o = &plan->operations[i];
        if (o->kind != OPERATION_STEP)
            continue;
        e->inputs[t++] = keep_input(e, slot_input(&e->layout, s, o->position),
                                    plan->inputs + o->value * e->layout.input_size);
    }
    struct network_steps steps = {first->position, count, s, e->inputs};
    size_t position = first->position;
    float *before = slot_before(&e->layout, s, position), *after;
    memcpy(before, s, n->state * sizeof *before);
    e->kernels->forward(&e->network, &steps, 0);
    for (t = 1; t <= count; t++, before = after) {
        size_t next = network_position(n, first->position, t);
        after = t < count ? slot_before(&e->layout, s, next) : s;
        slot_gather(n, position, before, after);
        position = next;
    }
    e->ahead = count;
}

/* h of the last layer, or what it would get. */
static const float *top_output(const struct network *n, size_t position) {
    return n->layer_count ? n->layers[n->layer_count - 1].output + position * n->wide
                          : n->encoded + position * n->inputs;
}

/* Keeps h of the last layer, or what it would get, and the step's x with a skip path. */
static void keep_hidden(const struct engine *e, float *s, size_t position) {
    const struct network *n = &e->network;
    const float *x = slot_input(&e->layout, s, position);
    float *kept = slot_solved(&e->layout, s, position);
    memcpy(kept, top_output(n, position), n->width * sizeof *kept);
    if (e->model->architecture.output.skip)
        memcpy(kept + n->width, x, e->layout.input_size * sizeof *kept);
}

static void play_step(struct engine *e, const struct plan *plan, size_t i, float *output) {
    const struct operation *o = &plan->operations[i];
    if (e->ahead == 0)
        compute_run(e, plan, i);
    e->ahead--;
    e->newest = o->position;
    float *s = slot(e, o->slot);
    for (size_t h = 0; h < e->model->horizons; h++)
        *slot_learned(&e->layout, s, o->position, h) = 0.0f;
    if (e->model->kept)
        keep_hidden(e, s, o->position);
    const float *a = e->network.output + o->position * e->network.padded;
    memcpy(slot_output(&e->layout, s, o->position), a, e->network.padded * sizeof(float));
    if (output)
        memcpy(output, a, e->model->outputs * sizeof(float));
}

/* The loss of a late head, from h of the step and by today's parameters. */
static double late_loss(struct engine *e, const struct model_head *head, const float *h,
                        const union value *y, float *ranks) {
    return head->scored ? e->kernels->rank(&e->network, head, h, y, ranks)
                        : e->kernels->write(&e->network, head, h, y);
}

static double loss_of(const struct engine *e, const struct model_head *head, const float *a,
                      const union value *y) {
    return e->kernels->loss(e->model, head, a + head->at, y, 1.0F, NULL, e->network.loss_scratch);
}

/* The bank of a head that ranks; NULL: it does not. */
static struct bank *bank_of(const struct engine *e, const struct model_head *head) {
    bool ranks = head->late && head->scored;
    return ranks ? &network_of_output(&e->network, head->output)->bank : NULL;
}

/* Keeps a target to learn from. One without others to rank it among only comes into the bank. */
static void keep_target(struct engine *e, const struct operation *o, const union value *y,
                        double loss) {
    float *s = slot(e, o->slot), *kept = slot_target(&e->layout, s, o->position, o->horizon);
    const struct model_head *head = &e->model->heads[o->horizon];
    struct bank *bank = e->model->late ? bank_of(e, head) : NULL;
    *slot_learned(&e->layout, s, o->position, o->horizon) = !bank || loss == loss;
    memcpy(kept, y, head->target_size * sizeof *y);
    if (!bank)
        return;
    bool numbers = !output_has_classes(model_output(e->model, head->output));
    for (size_t k = 0; numbers && k < head->target_size; k++)
        kept[k] = formula_finite(kept[k]); /* others are ranked among it for long */
    bank_put(bank, (const union value *)kept);
}

static double play_score(struct engine *e, const struct operation *o, const union value *y,
                         float *scored) {
    float *s = slot(e, o->slot);
    const struct model_head *head = &e->model->heads[o->horizon];
    const float *a = slot_output(&e->layout, s, o->position);
    double loss;
    if (head->late) {
        loss = late_loss(e, head, slot_solved(&e->layout, s, o->position), y, scored);
    } else {
        memcpy(scored, a + head->at, head->scored * sizeof(float));
        loss = loss_of(e, head, a, y);
    }
    if (o->learn)
        keep_target(e, o, y, loss);
    return loss;
}

/* sum |g|^2 over the gradient in double, if its sum in float overflowed. */
static double squares_in_double(const struct network *n) {
    double sum = 0;
    for (size_t i = 0; i < n->trained; i++)
        sum += (double)n->gradient[i] * (double)n->gradient[i];
    return sum;
}

/* A window's steps, with its inputs in e->inputs. */
static struct network_steps window_steps(struct engine *e, const struct operation *o) {
    float *s = slot(e, o->slot);
    for (size_t t = 0; t < o->length; t++)
        e->inputs[t] =
            (union value *)slot_input(&e->layout, s, network_position(&e->network, o->position, t));
    return (struct network_steps){o->position, o->length, slot_before(&e->layout, s, o->position),
                                  e->inputs};
}

static void play_advance(struct engine *e, const struct operation *o) {
    struct network_steps steps = window_steps(e, o);
    if (!o->fresh)
        e->kernels->forward(&e->network, &steps, steps.count);
    e->kernels->backward(&e->network, &steps, NULL, slot_kept(&e->layout, slot(e, o->slot)));
}

/* The update's loss again, with the parameters after it, beside the loss before. */
static void probe(struct engine *e, const struct network_steps *steps,
                  const struct network_targets *targets, double before,
                  struct update_result *result) {
    struct network *n = &e->network;
    size_t horizons = e->model->horizons;
    double loss = 0;
    e->kernels->forward(n, steps, targets->from);
    for (size_t k = targets->from * horizons; k < steps->count * horizons; k++) {
        size_t position = network_position(n, steps->first, k / horizons);
        const struct model_head *head = &e->model->heads[k % horizons];
        const union value *y = e->targets[k];
        if (y)
            loss += (double)head->weight *
                    (head->late ? late_loss(e, head, top_output(n, position), y, NULL)
                                : loss_of(e, head, n->output + position * n->padded, y));
    }
    result->plasticity = activity_removed(before, loss / (double)targets->terms);
    measure_growth(e->kernels, n, result);
}

/* Whether there is something to rank the target among. */
static bool has_others(const struct engine *e, size_t head, const float *y) {
    const struct bank *bank = bank_of(e, &e->model->heads[head]);
    return !bank || bank_others(bank, (const union value *)y) > 0;
}

/* Fills in the targets of the window's last steps that are learned. Those of a ranking without
   others in its bank are left out. Returns their number, as in network_targets. */
static size_t gather_targets(const struct engine *e, float *s, const struct operation *o) {
    size_t horizons = e->model->horizons, terms = 0;
    for (size_t t = 0; t < o->length; t++) {
        size_t position = network_position(&e->network, o->position, t), learned = 0;
        for (size_t h = 0; h < horizons; h++) {
            bool is = t + o->closed >= o->length && *slot_learned(&e->layout, s, position, h) > 0;
            is = is &&
                 (!e->model->late || has_others(e, h, slot_target(&e->layout, s, position, h)));
            e->targets[t * horizons + h] =
                is ? (union value *)slot_target(&e->layout, s, position, h) : NULL;
            learned += is;
        }
        terms += e->model->architecture.other_count ? learned > 0 : learned;
    }
    return terms;
}

static struct update_result play_update(struct engine *e, const struct plan *plan,
                                        const struct operation *o) {
    struct network *n = &e->network;
    float *s = slot(e, o->slot);
    struct network_steps steps = window_steps(e, o);
    struct network_targets targets = {o->length - o->closed, e->targets, gather_targets(e, s, o)};
    if (!targets.terms)
        return (struct update_result){.empty = true};
    if (!o->fresh)
        e->kernels->forward(n, &steps, targets.from);
    else if (e->model->solved)
        e->kernels->output(n, &steps, targets.from); /* the output was solved again since */
    struct network_gradient g = e->kernels->backward(n, &steps, &targets, slot_kept(&e->layout, s));
    if (!isfinite(g.squares))
        g.squares = squares_in_double(n);
    struct update_result result = {.gradient_norm = sqrt(g.squares), .plasticity = (double)NAN};
    double factor = update_clip_factor(plan->clip, result.gradient_norm);
    if (!update_applies(g.loss, g.squares, factor))
        return result;
    struct network_change change =
        e->kernels->optimize(n, &e->options.optimizer, plan->rate, factor, ++e->updates);
    e->kernels->activity(n, network_position(n, o->position, o->length - 1));
    e->kernels->absorb(n, network_position(n, o->position, targets.from), o->closed);
    e->kernels->refresh(n);
    result.applied = true;
    result.squares = change.before;
    result.update_ratio = change.before > 0 ? sqrt(change.squares / change.before) : 0;
    if (o->probe)
        probe(e, &steps, &targets, g.loss, &result);
    return result;
}

/* Copies what is published of a step besides outputs, from the network's arrays. */
static void keep_results(const struct engine *e, const struct plan *plan,
                         const struct results *results, size_t step) {
    const struct network *n = &e->network;
    size_t weights = input_weights(&e->model->architecture.input);
    if (plan->hidden)
        memcpy(results->hidden + step * n->width, top_output(n, e->newest),
               n->width * sizeof(float));
    if (plan->outputs && weights && results->attention)
        memcpy(results->attention + step * weights, network_reader(n)->pooled,
               weights * sizeof(float));
}

static int cpu_play(struct engine *e, const struct plan *plan, const struct results *results,
                    struct error *error) {
    (void)error;
    size_t steps = 0, scores = 0, updates = 0, measures = 0, outputs = e->model->outputs;
    denormals_to_zero();
    e->ahead = 0;
    if (e->stale)
        e->kernels->refresh(&e->network);
    if (e->stale && e->network.activity[0] == 0)
        measure_begin(e->kernels, &e->network);
    e->stale = false;
    for (size_t i = 0; i < plan->count; i++) {
        const struct operation *o = &plan->operations[i];
        switch (o->kind) {
        case OPERATION_FORGET:
            slot_forget(&e->layout, slot(e, o->slot));
            break;
        case OPERATION_STEP:
            play_step(e, plan, i, plan->outputs ? results->outputs + steps * outputs : NULL);
            keep_results(e, plan, results, steps);
            steps++;
            break;
        case OPERATION_SCORE:
            results->losses[scores] =
                play_score(e, o, plan->targets + o->value * e->layout.target_size,
                           results->scored + scores * e->model->scored);
            scores++;
            break;
        case OPERATION_UPDATE:
            results->updates[updates++] = play_update(e, plan, o);
            break;
        case OPERATION_ADVANCE:
            play_advance(e, o);
            break;
        case OPERATION_SOLVE:
            solution_learn(&e->solution, &e->network,
                           slot_solved(&e->layout, slot(e, o->slot), o->position),
                           plan->targets + o->value * e->layout.target_size);
            break;
        case OPERATION_MEASURE:
            measure_step(e->kernels, &e->network, e->newest,
                         results->measures + measures++ * e->model->layer_count);
            break;
        }
    }
    return 0;
}

/* ---- Reading and writing ---- */

static float *block_of(const struct engine *e, enum engine_block block) {
    return block == ENGINE_PARAMETERS ? e->network.parameters
                                      : e->network.moments[block - ENGINE_MOMENTS];
}

static void copy_banks(const struct engine *e, uint32_t *block, bool read) {
    for (size_t k = 0; k <= e->model->architecture.other_count; k++) {
        if (engine_bank_size(e->model, k))
            bank_copy(&network_of_output(&e->network, k)->bank, block, read);
        block += engine_bank_size(e->model, k);
    }
}

static void copy_block(struct engine *e, enum engine_block block, size_t index, void *data,
                       bool read) {
    if (block == ENGINE_UPDATES)
        memory_copy(&e->updates, data, sizeof e->updates, read);
    else if (block == ENGINE_SOLUTION)
        memory_copy(e->solution.block, data, least_squares_size(&e->solution.ls) * sizeof(double),
                    read);
    else if (block == ENGINE_ACTIVITY)
        memory_copy(e->network.activity, data, engine_activity_size(e->model) * sizeof(double),
                    read);
    else if (block == ENGINE_BANK)
        copy_banks(e, data, read);
    else if (block == ENGINE_SLOT)
        slot_copy(&e->layout, &e->network, slot(e, index), data, read);
    else
        network_copy(&e->network, block_of(e, block), &e->model->tensors[index], data, read);
}

static int cpu_read(struct engine *e, enum engine_block block, size_t index, void *data,
                    struct error *error) {
    copy_block(e, block, index, data, true);
    return (void)error, 0;
}

static int cpu_write(struct engine *e, enum engine_block block, size_t index, const void *data,
                     struct error *error) {
    e->stale = true;
    copy_block(e, block, index, (void *)data, false);
    if (block == ENGINE_PARAMETERS && e->model->solved)
        solution_begin(&e->solution, &e->network, &e->model->tensors[index]);
    return (void)error, 0;
}

static const char *cpu_describe(const struct engine *e) {
    return e->description;
}

const struct engine_ops cpu_engine = {
    .name = "cpu",
    .open = cpu_open,
    .play = cpu_play,
    .play_together = NULL,
    .read = cpu_read,
    .write = cpu_write,
    .describe = cpu_describe,
    .close = cpu_close,
};
