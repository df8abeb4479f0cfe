#include "bench_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "config.h"
#include "cpu/ceilings.h"
#include "report.h"

static const char *const mode_names[MODES] = {"one at a time", "queued"};
static const char *const mode_keys[MODES] = {"single", "queued"};
static const char *const part_keys[PARTS] = {
    "single", "queued", "forward_single", "forward_queued", "backward", "optimizer", "socket",
};
static const char *const optimizer_names[] = {
    [OPTIMIZER_SGD] = "sgd",
    [OPTIMIZER_RMSPROP] = "rmsprop",
    [OPTIMIZER_ADAM] = "adam",
    [OPTIMIZER_ADAMW] = "adamw",
};

/* The report's series in order, and what follows from them. */
struct findings {
    struct machine_figures machine;
    struct figure parts[PARTS];
    struct floor_work work[MODES];
    struct floor_time floor[MODES];
};

static void find(struct bench_report *report, struct findings *f) {
    f->machine = machine_figures(&report->machine);
    for (int part = 0; part < PARTS; part++)
        f->parts[part] = series_figure(&report->parts[part]);
    for (int mode = 0; mode < MODES; mode++) {
        f->work[mode] =
            floor_work(report->config, report->model, mode == MODE_SINGLE ? 1 : report->plan);
        f->floor[mode] = floor_total(&f->work[mode], &report->machine, &f->machine);
    }
}

static const double MICRO = 1e6, KILO = 1e3, MEGA = 1e6, GIGA = 1e9, PERCENT = 100;

/* Floor over measured: 1 is as fast as the machine can be. */
static double ratio(const struct findings *f, enum bench_mode mode) {
    return f->floor[mode].floor * MICRO /
           f->parts[mode == MODE_SINGLE ? PART_SINGLE : PART_QUEUED].median;
}

/* What an example takes beside the engine's three parts: plan, copies, scoring, clocks. */
static double rest(const struct findings *f, enum bench_mode mode) {
    const struct figure *p = f->parts;
    double whole = p[mode == MODE_SINGLE ? PART_SINGLE : PART_QUEUED].median;
    double forward = p[mode == MODE_SINGLE ? PART_FORWARD_SINGLE : PART_FORWARD_QUEUED].median;
    return whole - forward - p[PART_BACKWARD].median - p[PART_OPTIMIZER].median;
}

/* ---- for people ---- */

static void print_head(const struct bench_report *r) {
    const struct config *c = r->config;
    char summary[REPORT_SUMMARY_SIZE];
    report_summary(&c->architecture, summary);
    printf("%s: %s; %zu parameters\n", c->name, summary, r->model->parameters);
    printf("window %zu, stride %zu, %s; %s; %s\n", c->learning.window, c->learning.stride,
           optimizer_names[c->learning.optimizer.kind], r->machine.processor, r->device);
}

static void print_level(const struct bench_report *r, const struct machine_figures *m, int level) {
    char size[32] = "";
    if (level != LEVEL_MEMORY)
        snprintf(size, sizeof size, "%zu KiB", r->machine.capacity[level] >> 10);
    const struct figure *read = &m->read[level], *update = &m->update[level];
    printf("  %-6s %10s   read %6.1f (best %6.1f, spread %2.0f%%)   update %6.1f (best %6.1f, "
           "spread %2.0f%%) GB/s\n",
           machine_level_names[level], size, read->median / GIGA, read->maximum / GIGA,
           read->spread * PERCENT, update->median / GIGA, update->maximum / GIGA,
           update->spread * PERCENT);
}

static void print_machine(const struct bench_report *r, const struct findings *f) {
    const struct figure *rate = &f->machine.multiply_add;
    printf("\nThis machine's ceilings, one core, %s, median of %zu rounds%s\n",
           r->machine.loops->name, r->rounds,
           r->machine.told ? "" : " (it does not tell all cache sizes: assumed)");
    printf("  multiply-add        %6.1f (best %6.1f, spread %2.0f%%) GFLOP/s\n",
           rate->median / GIGA, rate->maximum / GIGA, rate->spread * PERCENT);
    for (int level = 0; level < LEVELS; level++)
        print_level(r, &f->machine, level);
}

static void print_floor(const struct bench_report *r, const struct findings *f,
                        enum bench_mode mode) {
    const struct floor_work *work = &f->work[mode];
    printf("\nWhat one example needs, %-14s%12s%12s%12s%10s%10s%10s\n", mode_names[mode], "kflop",
           "kB read", "kB updated", "flops us", "bytes us", "floor us");
    for (int phase = 0; phase < PHASES; phase++) {
        const struct work *w = &work->phases[phase];
        struct floor_time time = floor_phase(work, phase, &r->machine, &f->machine);
        printf("  %-36s%12.1f%12.1f%12.1f%10.2f%10.2f%10.2f\n", floor_phase_names[phase],
               w->flops / KILO, w->weights_read / KILO, w->updated / KILO, time.flops * MICRO,
               time.bytes * MICRO, time.floor * MICRO);
    }
    const struct floor_time *total = &f->floor[mode];
    printf("  %-72s%10.2f%10.2f%10.2f\n", "sum", total->flops * MICRO, total->bytes * MICRO,
           total->floor * MICRO);
    printf("  working sets: weights %.0f kB; with gradient and moments %.0f kB\n",
           work->weights_set / KILO, work->updated_set / KILO);
}

static void print_figure(const char *name, const struct figure *figure) {
    printf("  %-24s%10.2f%10.2f%9.0f%%", name, figure->median, figure->minimum,
           figure->spread * PERCENT);
}

static void print_mode(const struct findings *f, enum bench_mode mode) {
    print_figure(mode_names[mode], &f->parts[mode == MODE_SINGLE ? PART_SINGLE : PART_QUEUED]);
    printf("%10.2f%9.0f%%\n", f->floor[mode].floor * MICRO, ratio(f, mode) * PERCENT);
    print_figure("    forward",
                 &f->parts[mode == MODE_SINGLE ? PART_FORWARD_SINGLE : PART_FORWARD_QUEUED]);
    print_figure("\n      backward", &f->parts[PART_BACKWARD]);
    print_figure("\n      optimizer", &f->parts[PART_OPTIMIZER]);
    printf("\n  %-24s%10.2f\n", "    rest", rest(f, mode));
}

static void print_times(const struct bench_report *r, const struct findings *f) {
    const struct figure *socket = &f->parts[PART_SOCKET];
    printf("\nMicroseconds for an example%9s%10s%10s%10s%10s\n", "median", "best", "spread",
           "floor", "of it");
    for (int mode = 0; mode < MODES; mode++)
        print_mode(f, mode);
    if (socket->median > 0) {
        print_figure("through the socket", socket);
        printf("    %.0f examples/s, %.0f%% of the rate in-process (queued)\n",
               MICRO / socket->median, f->parts[PART_QUEUED].median / socket->median * PERCENT);
    }
    printf("  (queued: %zu examples in one plan; %% of it: floor over median)\n", r->plan);
}

static void print_memory(const char *who, const struct bench_memory *m) {
    printf("  %-24s%.1f MB resident (%.1f at most), bound %.1f MB; growth over %" PRIu64
           " examples: %ld kB\n",
           who, (double)m->resident.now / MEGA, (double)m->resident.peak / MEGA,
           (double)m->bound / MEGA, m->examples, m->resident_growth / 1000);
}

void bench_report_text(struct bench_report *report) {
    struct findings f;
    find(report, &f);
    print_head(report);
    print_machine(report, &f);
    for (int mode = 0; mode < MODES; mode++)
        print_floor(report, &f, mode);
    print_times(report, &f);
    const struct bench_memory *m = &report->memory;
    printf("\nMemory\n");
    print_memory("in-process", m);
    printf("  %-24s%" PRIu64 " over %" PRIu64 " examples, heap growth %ld bytes; skipped updates "
           "%" PRIu64 "\n",
           "allocations", m->allocations, m->examples, m->heap_growth, m->skipped);
    if (report->daemon.bound)
        print_memory("runneld", &report->daemon);
}

/* ---- JSON ---- */

static json_t *figure_json(const struct figure *figure, double unit) {
    return json_pack("{s:f, s:f, s:f, s:f}", "median", figure->median / unit, "minimum",
                     figure->minimum / unit, "maximum", figure->maximum / unit, "spread",
                     figure->spread);
}

static json_t *architecture_json(const struct config *config) {
    static const char *const cells[] = {"dense", "rnn", "gru", "lstm"};
    static const char *const losses[] = {"squared", "gaussian", "softmax", "bernoulli", "mixture"};
    const struct architecture *a = &config->architecture;
    json_t *layers = json_array();
    for (size_t i = 0; i < a->layer_count; i++)
        json_array_append_new(layers,
                              json_pack("{s:s, s:I, s:b}", "cell", cells[a->layers[i].cell], "size",
                                        (json_int_t)a->layers[i].size, "norm", a->layers[i].norm));
    return json_pack("{s:s, s:I, s:I, s:o, s:s, s:I, s:I, s:s}", "input",
                     a->input.kind == INPUT_REAL ? "real" : "symbol", "inputs",
                     (json_int_t)a->input.size, "embedding", (json_int_t)a->input.embedding,
                     "layers", layers, "loss", losses[a->output.loss], "size",
                     (json_int_t)a->output.size, "components", (json_int_t)a->output.components,
                     "target", a->output.target == TARGET_NEXT ? "next" : "given");
}

static json_t *learning_json(const struct config *config) {
    const struct optimizer *o = &config->learning.optimizer;
    return json_pack("{s:I, s:I, s:s, s:f, s:f}", "window", (json_int_t)config->learning.window,
                     "stride", (json_int_t)config->learning.stride, "optimizer",
                     optimizer_names[o->kind], "rate", o->rate, "clip", config->learning.clip);
}

static json_t *machine_json(const struct machine *machine, const struct machine_figures *figures) {
    json_t *levels = json_array();
    for (int level = 0; level < LEVELS; level++) {
        size_t size = level == LEVEL_MEMORY ? 0 : machine->capacity[level];
        json_array_append_new(levels,
                              json_pack("{s:s, s:I, s:o, s:o}", "name", machine_level_names[level],
                                        "bytes", (json_int_t)size, "read_gbs",
                                        figure_json(&figures->read[level], GIGA), "update_gbs",
                                        figure_json(&figures->update[level], GIGA)));
    }
    return json_pack("{s:s, s:s, s:o, s:o}", "processor", machine->processor, "instructions",
                     machine->loops->name, "gflops", figure_json(&figures->multiply_add, GIGA),
                     "levels", levels);
}

static json_t *floor_json(const struct bench_report *r, const struct findings *f,
                          enum bench_mode mode) {
    json_t *object = json_object();
    for (int phase = 0; phase < PHASES; phase++) {
        const struct work *w = &f->work[mode].phases[phase];
        struct floor_time time = floor_phase(&f->work[mode], phase, &r->machine, &f->machine);
        json_object_set_new(object, floor_phase_names[phase],
                            json_pack("{s:f, s:f, s:f, s:f, s:f}", "flops", w->flops,
                                      "weights_read", w->weights_read, "updated", w->updated,
                                      "flops_us", time.flops * MICRO, "bytes_us",
                                      time.bytes * MICRO));
    }
    json_object_set_new(object, "flops_us", json_real(f->floor[mode].flops * MICRO));
    json_object_set_new(object, "bytes_us", json_real(f->floor[mode].bytes * MICRO));
    json_object_set_new(object, "floor_us", json_real(f->floor[mode].floor * MICRO));
    json_object_set_new(object, "ratio", json_real(ratio(f, mode)));
    json_object_set_new(object, "rest_us", json_real(rest(f, mode)));
    return object;
}

static json_t *memory_json(const struct bench_memory *m) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "examples",
                     (json_int_t)m->examples, "allocations", (json_int_t)m->allocations, "skipped",
                     (json_int_t)m->skipped, "heap_growth", (json_int_t)m->heap_growth,
                     "resident_growth", (json_int_t)m->resident_growth, "resident",
                     (json_int_t)m->resident.now, "resident_peak", (json_int_t)m->resident.peak,
                     "bound", (json_int_t)m->bound);
}

void bench_report_json(struct bench_report *report) {
    struct findings f;
    find(report, &f);
    json_t *object = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "name", report->config->name, "device",
        report->device, "parameters", (json_int_t)report->model->parameters, "rounds",
        (json_int_t)report->rounds, "plan", (json_int_t)report->plan, "model",
        architecture_json(report->config), "learning", learning_json(report->config), "machine",
        machine_json(&report->machine, &f.machine), "memory", memory_json(&report->memory));
    json_t *parts = json_object();
    for (int part = 0; part < PARTS; part++)
        if (f.parts[part].median > 0)
            json_object_set_new(parts, part_keys[part], figure_json(&f.parts[part], 1));
    json_object_set_new(object, "us", parts);
    for (int mode = 0; mode < MODES; mode++)
        json_object_set_new(object, mode_keys[mode], floor_json(report, &f, mode));
    if (report->daemon.bound)
        json_object_set_new(object, "daemon", memory_json(&report->daemon));
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(object);
}
