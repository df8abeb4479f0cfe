#include "bench_report.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "ceilings.h"
#include "common/text.h"
#include "config/config.h"
#include "engine/cuda_module.h"
#include "model/model.h"

/* ---- Findings: quiet values, floors and ratios ---- */

struct findings {
    struct machine_figures machine; /* ceilings of the CPU; all zero on a GPU */
    struct figure parts[PARTS];
    struct floor_work work[MODES];
    double barriers[MODES][PHASES], launches[MODES]; /* numbers per example on a GPU */
    struct floor_time phases[MODES][PHASES], floor[MODES];
    double p50, p99; /* microseconds of single examples */
};

static const double MICRO = 1e6, P50 = 0.5, P99 = 0.99, KILO = 1e3, MEGA = 1e6, GIGA = 1e9,
                    PERCENT = 100;

static size_t networks(const struct bench_report *report) {
    bool none = report->config->members_given && !report->config->member_count;
    return report->members ? report->members : !none;
}

/* Number of threads that play networks in parallel. */
static size_t threads(const struct bench_report *report) {
    size_t most = networks(report);
    return report->threads > most ? most : report->threads ? report->threads : 1;
}

static void find_cpu_floor(const struct bench_report *report, struct findings *f,
                           enum bench_mode mode, size_t plan) {
    const struct machine *machine = &report->machine;
    f->work[mode] = floor_of(floor_work(report->config, report->model, plan), networks(report));
    size_t count = threads(report);
    for (int phase = 0; phase < PHASES; phase++)
        f->phases[mode][phase] =
            floor_side_by_side(floor_phase(&f->work[mode], phase, machine, &f->machine), count);
    f->floor[mode] = floor_side_by_side(floor_total(&f->work[mode], machine, &f->machine), count);
}

static void find_gpu_floor(const struct bench_report *report, struct findings *f,
                           enum bench_mode mode, size_t plan) {
    const struct gpu_play play = {report->gpu, report->scope, plan, networks(report)};
    struct gpu_work work = gpu_work(report->config, report->model, &play);
    f->work[mode] = work.work;
    f->launches[mode] = work.launches;
    for (int phase = 0; phase < PHASES; phase++) {
        f->barriers[mode][phase] = work.barriers[phase];
        f->phases[mode][phase] = gpu_phase(&work, phase, &play);
    }
    f->floor[mode] = gpu_total(&work, &play);
}

/* Sorts the report's series. */
static void findings_make(struct bench_report *report, struct findings *f) {
    *f = (struct findings){0};
    if (!report->gpu)
        f->machine = machine_figures(&report->machine);
    for (int part = 0; part < PARTS; part++)
        f->parts[part] = series_figure(&report->parts[part], QUIET);
    for (int mode = 0; mode < MODES && networks(report); mode++)
        (report->gpu ? find_gpu_floor : find_cpu_floor)(report, f, mode,
                                                        mode == MODE_SINGLE ? 1 : report->plan);
    f->p50 = series_quantile(&report->latencies, P50) * MICRO;
    f->p99 = series_quantile(&report->latencies, P99) * MICRO;
}

/* Microseconds per example in that mode. */
static const struct figure *findings_whole(const struct findings *f, enum bench_mode mode) {
    return &f->parts[mode == MODE_SINGLE ? PART_SINGLE : PART_QUEUED];
}

/* Microseconds per example of one member alone, with --members. */
static const struct figure *findings_lone(const struct findings *f, enum bench_mode mode) {
    return &f->parts[mode == MODE_SINGLE ? PART_LONE_SINGLE : PART_LONE_QUEUED];
}

/* Floor over measured time: 1 is the fastest possible. */
static double findings_ratio(const struct findings *f, enum bench_mode mode) {
    return f->floor[mode].floor * MICRO / findings_whole(f, mode)->quiet;
}

/* Microseconds per example outside of the engine's three parts: plan, copies, scoring, clocks. */
static double findings_rest(const struct findings *f, enum bench_mode mode) {
    const struct figure *p = f->parts;
    double forward = p[mode == MODE_SINGLE ? PART_FORWARD_SINGLE : PART_FORWARD_QUEUED].quiet;
    return findings_whole(f, mode)->quiet - forward - p[PART_BACKWARD].quiet -
           p[PART_OPTIMIZER].quiet;
}

static const char *const mode_names[MODES] = {"one at a time", "queued"};

/* ---- The text form ---- */

static void print_head(const struct bench_report *r) {
    const struct config *c = r->config;
    char summary[MODEL_SUMMARY_SIZE];
    struct architecture architecture = c->architecture;
    if (!networks(r))
        architecture.layer_count = 0;
    model_summary(&architecture, summary);
    if (r->members)
        printf("%s: %zu networks of %s; %zu parameters each\n", c->name, r->members, summary,
               r->model->learned);
    else
        printf("%s: %s; %zu parameters\n", c->name, summary, networks(r) ? r->model->learned : 0);
    printf("window %zu, stride %zu, %s; %s; %s%s%s%s\n", c->learning.window, c->learning.stride,
           optimizer_kind(c->learning.optimizer.kind)->name,
           r->gpu ? r->gpu->device.name : r->machine.processor, r->device, *r->why ? " (" : "",
           r->why, *r->why ? ")" : "");
}

static void print_level(const struct bench_report *r, const struct machine_figures *m, int level) {
    char size[32] = "";
    if (level != LEVEL_MEMORY)
        snprintf(size, sizeof size, "%zu KiB", r->machine.capacity[level] >> 10);
    const struct figure *read = &m->read[level], *update = &m->update[level];
    printf("  %-6s %10s   read %6.1f (median %6.1f, spread %2.0f%%)   update %6.1f (median "
           "%6.1f, spread %2.0f%%) GB/s\n",
           machine_level_names[level], size, read->quiet / GIGA, read->median / GIGA,
           read->spread * PERCENT, update->quiet / GIGA, update->median / GIGA,
           update->spread * PERCENT);
}

static void print_machine(const struct bench_report *r, const struct findings *f) {
    const struct figure *rate = &f->machine.multiply_add;
    printf("\nThis machine's ceilings, one core, %s, 95th percentile in %zu rounds%s\n",
           r->machine.loops->name, r->rounds,
           r->machine.reported
               ? ""
               : " (cache sizes are partly assumed: this machine does not report all)");
    printf("  multiply-add        %6.1f (median %6.1f, spread %2.0f%%) GFLOP/s\n",
           rate->quiet / GIGA, rate->median / GIGA, rate->spread * PERCENT);
    for (int level = 0; level < LEVELS; level++)
        print_level(r, &f->machine, level);
}

static void print_gpu(const struct cuda_figures *g) {
    const struct cuda_device *d = &g->device;
    printf("\nThis GPU's ceilings: capability %d.%d, %d multiprocessors, driver %d, runtime %d\n",
           d->capability_major, d->capability_minor, d->multiprocessors, d->driver, d->runtime);
    printf("  launch %.2f us, round trip through pinned memory %.2f us\n", g->launch * MICRO,
           g->round_trip * MICRO);
    for (int scope = SCOPE_BLOCK; scope <= SCOPE_GRID; scope++)
        if (g->barriers[scope] > 0)
            printf("  barrier of a %s %.3f us\n", scope_name((enum scope)scope),
                   g->barriers[scope] * MICRO);
    printf("  copy %.0f GB/s (read and written); L2 cache %zu KiB, read %.0f GB/s; multiply-add "
           "%.0f GFLOP/s\n",
           g->copy / GIGA, g->cache >> 10, g->cache_read / GIGA, g->multiply_add / GIGA);
}

static void print_floor_line(const char *name, const struct work *work,
                             const struct floor_time *time) {
    printf("  %-36s%12.1f%12.1f%12.1f%10.2f%10.2f%13.2f%10.2f\n", name, work->flops / KILO,
           work->weights_read / KILO, work->updated / KILO, time->flops * MICRO,
           time->bytes * MICRO, time->barriers * MICRO, time->floor * MICRO);
}

static void print_floor(const struct findings *f, enum bench_mode mode) {
    struct work sum = {0};
    printf("\nCost of one example, %-17s%12s%12s%12s%10s%10s%13s%10s\n", mode_names[mode], "kflop",
           "kB read", "kB updated", "flops us", "bytes us", "barriers us", "floor us");
    for (int phase = 0; phase < PHASES; phase++) {
        const struct work *w = &f->work[mode].phases[phase];
        print_floor_line(floor_phase_names[phase], w, &f->phases[mode][phase]);
        sum.flops += w->flops;
        sum.weights_read += w->weights_read;
        sum.updated += w->updated;
    }
    print_floor_line(f->launches[mode] > 0 ? "sum, and launches" : "sum", &sum, &f->floor[mode]);
    printf("  working sets: weights %.0f kB; updated memory %.0f kB\n",
           f->work[mode].weights_set / KILO, f->work[mode].updated_set / KILO);
    if (f->launches[mode] > 0)
        printf("  barriers: %.2f forward, %.2f backward, %.2f optimizer; launches: %.3f\n",
               f->barriers[mode][PHASE_FORWARD], f->barriers[mode][PHASE_BACKWARD],
               f->barriers[mode][PHASE_OPTIMIZER], f->launches[mode]);
}

static void print_figure(const char *name, const struct figure *figure) {
    printf("  %-24s%10.2f%10.2f%9.0f%%", name, figure->quiet, figure->median,
           figure->spread * PERCENT);
}

static void print_split(const struct findings *f, enum bench_mode mode) {
    print_figure("    forward",
                 &f->parts[mode == MODE_SINGLE ? PART_FORWARD_SINGLE : PART_FORWARD_QUEUED]);
    putchar('\n');
    print_figure("    backward", &f->parts[PART_BACKWARD]);
    putchar('\n');
    print_figure("    optimizer", &f->parts[PART_OPTIMIZER]);
    printf("\n  %-24s%10.2f\n", "    rest", findings_rest(f, mode));
}

static void print_mode(const struct bench_report *r, const struct findings *f,
                       enum bench_mode mode) {
    print_figure(mode_names[mode], findings_whole(f, mode));
    if (networks(r))
        printf("%10.2f%9.0f%%", f->floor[mode].floor * MICRO, findings_ratio(f, mode) * PERCENT);
    putchar('\n');
    if (mode == MODE_SINGLE)
        printf("  %-24s%10.2f  p99 %10.2f (%zu examples)\n", "    latency p50", f->p50, f->p99,
               r->latencies.count);
    if (r->split)
        print_split(f, mode);
}

/* The median cycle over the quiet one. */
static double disturbance(const struct findings *f) {
    const struct figure *single = findings_whole(f, MODE_SINGLE);
    return single->median / single->quiet;
}

/* Share of the time in which the thread did not run. */
static double waited(const struct bench_report *r) {
    return fmax(1 - r->learned.ran / r->learned.seconds, 0);
}

static void print_disturbance(const struct bench_report *r, const struct findings *f) {
    printf("  disturbance: the median is %.2f times the quiet value", disturbance(f));
    if (r->learned.wall)
        printf(" (wall clock)\n");
    else
        printf(" (CPU time); the thread did not run for %.0f%% of the time\n", waited(r) * PERCENT);
}

static void print_times(const struct bench_report *r, const struct findings *f) {
    const struct figure *socket = &f->parts[PART_SOCKET];
    printf("\nMicroseconds for an example%9s%10s%10s%10s%10s\n", "quiet", "median", "spread",
           "floor", "floor %");
    for (int mode = 0; mode < MODES; mode++)
        print_mode(r, f, mode);
    if (socket->quiet > 0) {
        print_figure("through the socket", socket);
        printf("    %.0f examples/s, %.0f%% of the rate in-process (queued)\n",
               MICRO / socket->quiet, f->parts[PART_QUEUED].quiet / socket->quiet * PERCENT);
    }
    printf(
        "  (queued: %zu examples in one plan; quiet: 5th percentile; floor %%: floor over quiet)\n",
        r->plan);
    print_disturbance(r, f);
}

static void print_members(const struct bench_report *r, const struct findings *f) {
    double count = (double)r->members;
    printf("\nMicroseconds for an example in each of %zu members%13s%10s%16s%14s\n", r->members,
           "quiet", "floor", "one network", "times as long");
    for (int mode = 0; mode < MODES; mode++) {
        double all = findings_whole(f, mode)->quiet, lone = findings_lone(f, mode)->quiet;
        printf("  %-58s%10.2f%10.2f%16.2f%14.2f\n", mode_names[mode], all / count,
               f->floor[mode].floor * MICRO / count, lone, all / lone);
    }
    printf("  (%zu thread%s; one network: the first member alone; times as long: all members over "
           "one network)\n",
           r->threads, text_s(r->threads));
}

static void print_memory(const char *who, const struct bench_memory *m) {
    char bound[32] = "none";
    if (m->bound)
        snprintf(bound, sizeof bound, "%.1f MB", (double)m->bound / MEGA);
    printf("  %-24s%.1f MB resident (%.1f at most), bound %s; growth over %" PRIu64
           " examples: %ld kB\n",
           who, (double)m->resident.now / MEGA, (double)m->resident.peak / MEGA, bound, m->examples,
           m->resident_growth / 1000);
}

void bench_report_text(struct bench_report *report) {
    struct findings f;
    findings_make(report, &f);
    print_head(report);
    if (report->gpu)
        print_gpu(report->gpu);
    else
        print_machine(report, &f);
    for (int mode = 0; mode < MODES && networks(report); mode++)
        print_floor(&f, mode);
    print_times(report, &f);
    if (report->members)
        print_members(report, &f);
    const struct bench_memory *m = &report->memory;
    printf("\nMemory\n");
    print_memory("in-process", m);
    printf("  %-24s%" PRIu64 " over %" PRIu64 " examples, heap growth %ld bytes; skipped updates "
           "%" PRIu64 "\n",
           "allocations", m->allocations, m->examples, m->heap_growth, m->skipped);
    if (report->daemon.examples)
        print_memory("runneld", &report->daemon);
}

static const char *const mode_keys[MODES] = {"single", "queued"};
static const char *const part_keys[PARTS] = {
    "single",    "queued", "forward_single", "forward_queued", "backward",
    "optimizer", "socket", "lone_single",    "lone_queued",
};

/* ---- JSON ---- */

static json_t *figure_json(const struct figure *figure, double unit) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f}", "quiet", figure->quiet / unit, "median",
                     figure->median / unit, "minimum", figure->minimum / unit, "maximum",
                     figure->maximum / unit, "spread", figure->spread);
}

static json_t *architecture_json(const struct config *config) {
    const struct architecture *a = &config->architecture;
    json_t *layers = json_array();
    for (size_t i = 0; i < a->layer_count; i++)
        json_array_append_new(layers, json_pack("{s:s, s:I, s:s}", "cell",
                                                cell_kind(a->layers[i].cell)->kind.name, "size",
                                                (json_int_t)a->layers[i].size, "norm",
                                                norm_kind(a->layers[i].norm)->kind.name));
    return json_pack(
        "{s:s, s:I, s:I, s:o, s:s, s:I, s:I, s:s}", "input", input_kind_name(a->input.kind),
        "inputs", (json_int_t)a->input.size, "embedding", (json_int_t)a->input.embedding, "layers",
        layers, "loss", loss_kind(a->output.loss)->name, "size", (json_int_t)a->output.size,
        "components", (json_int_t)a->output.components, "target", target_name(a->output.target));
}

static json_t *learning_json(const struct config *config) {
    const struct optimizer *o = &config->learning.optimizer;
    return json_pack(
        "{s:I, s:I, s:s, s:s, s:f, s:f, s:f}", "window", (json_int_t)config->learning.window,
        "stride", (json_int_t)config->learning.stride, "rule",
        rule_kind(config->learning.rule)->name, "optimizer", optimizer_kind(o->kind)->name, "rate",
        o->rate, "beta1", o->beta1, "clip", config->learning.clip);
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

static json_t *gpu_json(const struct cuda_figures *g) {
    const struct cuda_device *d = &g->device;
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:f, s:{s:f, s:f, s:f}, s:f, "
                     "s:f, s:f, s:f}",
                     "name", d->name, "index", d->index, "capability_major", d->capability_major,
                     "capability_minor", d->capability_minor, "multiprocessors", d->multiprocessors,
                     "driver", d->driver, "runtime", d->runtime, "memory", (json_int_t)d->memory,
                     "cache", (json_int_t)g->cache, "launch_us", g->launch * MICRO, "barriers_us",
                     "block", g->barriers[SCOPE_BLOCK] * MICRO, "cluster",
                     g->barriers[SCOPE_CLUSTER] * MICRO, "grid", g->barriers[SCOPE_GRID] * MICRO,
                     "round_trip_us", g->round_trip * MICRO, "copy_gbs", g->copy / GIGA,
                     "cache_read_gbs", g->cache_read / GIGA, "gflops", g->multiply_add / GIGA);
}

static json_t *phase_json(const struct findings *f, enum bench_mode mode, int phase) {
    const struct work *w = &f->work[mode].phases[phase];
    const struct floor_time *time = &f->phases[mode][phase];
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "flops", w->flops, "weights_read",
                     w->weights_read, "updated", w->updated, "flops_us", time->flops * MICRO,
                     "bytes_us", time->bytes * MICRO, "barriers", f->barriers[mode][phase],
                     "barriers_us", time->barriers * MICRO);
}

static json_t *floor_json(const struct bench_report *r, const struct findings *f,
                          enum bench_mode mode) {
    const struct floor_time *total = &f->floor[mode];
    json_t *object = json_object();
    for (int phase = 0; phase < PHASES; phase++)
        json_object_set_new(object, floor_phase_names[phase], phase_json(f, mode, phase));
    json_object_set_new(object, "launches", json_real(f->launches[mode]));
    json_object_set_new(object, "flops_us", json_real(total->flops * MICRO));
    json_object_set_new(object, "bytes_us", json_real(total->bytes * MICRO));
    json_object_set_new(object, "barriers_us", json_real(total->barriers * MICRO));
    json_object_set_new(object, "floor_us", json_real(total->floor * MICRO));
    json_object_set_new(object, "ratio", json_real(findings_ratio(f, mode)));
    if (r->split)
        json_object_set_new(object, "rest_us", json_real(findings_rest(f, mode)));
    return object;
}

/* Times per member, and of one member alone. */
static json_t *members_json(const struct bench_report *r, const struct findings *f) {
    json_t *object =
        json_pack("{s:I, s:I}", "count", (json_int_t)r->members, "threads", (json_int_t)r->threads);
    double count = (double)r->members;
    for (int mode = 0; mode < MODES; mode++) {
        double all = findings_whole(f, mode)->quiet, lone = findings_lone(f, mode)->quiet;
        json_object_set_new(object, mode_keys[mode],
                            json_pack("{s:f, s:f, s:f, s:f}", "us", all / count, "floor_us",
                                      f->floor[mode].floor * MICRO / count, "lone_us", lone,
                                      "times_lone", all / lone));
    }
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

static json_t *disturbance_json(const struct bench_report *r, const struct findings *f) {
    json_t *object = json_pack("{s:s, s:f}", "clock", r->learned.wall ? "wall" : "thread",
                               "median_over_quiet", disturbance(f));
    if (!r->learned.wall)
        json_object_set_new(object, "not_running", json_real(waited(r)));
    return object;
}

void bench_report_json(struct bench_report *report) {
    struct findings f;
    findings_make(report, &f);
    json_t *object = json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o}", "name", report->config->name, "device",
        report->device, "parameters", (json_int_t)(networks(report) ? report->model->learned : 0),
        "rounds", (json_int_t)report->rounds, "plan", (json_int_t)report->plan, "model",
        architecture_json(report->config), "learning", learning_json(report->config), "memory",
        memory_json(&report->memory));
    if (report->gpu)
        json_object_set_new(object, "gpu", gpu_json(report->gpu));
    else
        json_object_set_new(object, "machine", machine_json(&report->machine, &f.machine));
    json_t *parts = json_object();
    for (int part = 0; part < PARTS; part++)
        if (f.parts[part].median > 0)
            json_object_set_new(parts, part_keys[part], figure_json(&f.parts[part], 1));
    json_object_set_new(object, "us", parts);
    json_object_set_new(object, "latency_us",
                        json_pack("{s:f, s:f, s:I}", "p50", f.p50, "p99", f.p99, "examples",
                                  (json_int_t)report->latencies.count));
    json_object_set_new(object, "disturbance", disturbance_json(report, &f));
    for (int mode = 0; mode < MODES && networks(report); mode++)
        json_object_set_new(object, mode_keys[mode], floor_json(report, &f, mode));
    if (report->members)
        json_object_set_new(object, "members", members_json(report, &f));
    if (report->daemon.examples)
        json_object_set_new(object, "daemon", memory_json(&report->daemon));
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(object);
}
