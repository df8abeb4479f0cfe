#include "bench_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "bench_findings.h"
#include "common/text.h"
#include "config/config.h"
#include "cpu/ceilings.h"
#include "learner/cuda_module.h"
#include "model/model.h"

static const char *const mode_names[MODES] = {"one at a time", "queued"};

static const double MICRO = 1e6, KILO = 1e3, MEGA = 1e6, GIGA = 1e9, PERCENT = 100;
static const double NOISY = 0.1; /* spread of times, from which a ratio of them is doubtful */

static void print_head(const struct bench_report *r) {
    const struct config *c = r->config;
    char summary[MODEL_SUMMARY_SIZE];
    model_summary(&c->architecture, summary);
    if (r->members)
        printf("%s: %zu networks of %s; %zu parameters each\n", c->name, r->members, summary,
               r->model->learned);
    else
        printf("%s: %s; %zu parameters\n", c->name, summary, r->model->learned);
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
           r->machine.reported ? "" : " (it does not report all cache sizes: assumed)");
    printf("  multiply-add        %6.1f (best %6.1f, spread %2.0f%%) GFLOP/s\n",
           rate->median / GIGA, rate->maximum / GIGA, rate->spread * PERCENT);
    for (int level = 0; level < LEVELS; level++)
        print_level(r, &f->machine, level);
}

static void print_gpu(const struct cuda_figures *g) {
    const struct cuda_device *d = &g->device;
    printf("\nThis GPU's ceilings: capability %d.%d, %d multiprocessors, driver %d, runtime %d\n",
           d->capability_major, d->capability_minor, d->multiprocessors, d->driver, d->runtime);
    printf("  graph launch %.2f us, each further node %.2f us; grid barrier %.2f us; "
           "cluster exchange ",
           g->graph_launch * MICRO, g->node * MICRO, g->grid_barrier * MICRO);
    if (g->cluster > 0)
        printf("%.2f us", g->cluster * MICRO);
    else
        printf("none");
    printf("\n  round trip through pinned memory %.2f us\n", g->round_trip * MICRO);
    printf("  copy %.0f GB/s (read and written); L2 cache %zu KiB, read %.0f GB/s; multiply-add "
           "%.0f GFLOP/s\n",
           g->copy / GIGA, g->cache >> 10, g->cache_read / GIGA, g->multiply_add / GIGA);
}

static void print_floor_line(const char *name, const struct work *work,
                             const struct floor_time *time) {
    printf("  %-36s%12.1f%12.1f%12.1f%10.2f%10.2f%10.2f%10.2f\n", name, work->flops / KILO,
           work->weights_read / KILO, work->updated / KILO, time->flops * MICRO,
           time->bytes * MICRO, time->stages * MICRO, time->floor * MICRO);
}

static void print_floor(const struct findings *f, enum bench_mode mode) {
    struct work sum = {0};
    printf("\nWhat one example needs, %-14s%12s%12s%12s%10s%10s%10s%10s\n", mode_names[mode],
           "kflop", "kB read", "kB updated", "flops us", "bytes us", "stages us", "floor us");
    for (int phase = 0; phase < PHASES; phase++) {
        const struct work *w = &f->work[mode].phases[phase];
        print_floor_line(floor_phase_names[phase], w, &f->phases[mode][phase]);
        sum.flops += w->flops;
        sum.weights_read += w->weights_read;
        sum.updated += w->updated;
    }
    print_floor_line(f->launches[mode] > 0 ? "sum, and launches" : "sum", &sum, &f->floor[mode]);
    printf("  working sets: weights %.0f kB; what is updated %.0f kB\n",
           f->work[mode].weights_set / KILO, f->work[mode].updated_set / KILO);
    if (f->launches[mode] > 0)
        printf("  stages: %.2f forward, %.2f backward, %.2f optimizer; launches: %.3f\n",
               f->nodes[mode][PHASE_FORWARD], f->nodes[mode][PHASE_BACKWARD],
               f->nodes[mode][PHASE_OPTIMIZER], f->launches[mode]);
}

static void print_figure(const char *name, const struct figure *figure) {
    printf("  %-24s%10.2f%10.2f%9.0f%%", name, figure->median, figure->minimum,
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
    printf("%10.2f%9.0f%%\n", f->floor[mode].floor * MICRO, findings_ratio(f, mode) * PERCENT);
    if (mode == MODE_SINGLE)
        printf("  %-24s%10.2f  p99 %10.2f (%zu examples)\n", "    latency p50", f->p50, f->p99,
               r->latencies.count);
    if (r->split)
        print_split(f, mode);
}

static void print_times(const struct bench_report *r, const struct findings *f) {
    const struct figure *socket = &f->parts[PART_SOCKET];
    printf("\nMicroseconds for an example%9s%10s%10s%10s%10s\n", "median", "best", "spread",
           "floor", "of it");
    for (int mode = 0; mode < MODES; mode++)
        print_mode(r, f, mode);
    if (socket->median > 0) {
        print_figure("through the socket", socket);
        printf("    %.0f examples/s, %.0f%% of the rate in-process (queued)\n",
               MICRO / socket->median, f->parts[PART_QUEUED].median / socket->median * PERCENT);
    }
    printf("  (queued: %zu examples in one plan; %% of it: floor over median)\n", r->plan);
}

/* A ratio of two times is no better known than these. */
static void print_noise(const struct findings *f) {
    double most = 0;
    for (int mode = 0; mode < MODES; mode++)
        most = fmax(most, fmax(findings_whole(f, mode)->spread, findings_lone(f, mode)->spread));
    if (most > NOISY)
        printf("  (noisy: the times spread by up to %.0f%%, and 'times as long' is as uncertain; "
               "measure longer with --seconds, with nothing beside it)\n",
               most * PERCENT);
}

static void print_members(const struct bench_report *r, const struct findings *f) {
    double count = (double)r->members;
    printf("\nMicroseconds for an example in each of %zu members%13s%10s%16s%14s\n", r->members,
           "median", "floor", "one network", "times as long");
    for (int mode = 0; mode < MODES; mode++) {
        double all = findings_whole(f, mode)->median, lone = findings_lone(f, mode)->median;
        printf("  %-58s%10.2f%10.2f%16.2f%14.2f\n", mode_names[mode], all / count,
               f->floor[mode].floor * MICRO / count, lone, all / lone);
    }
    printf(
        "  (%zu thread%s; one network: the first member alone; times as long: all members, beside "
        "that)\n",
        r->threads, text_s(r->threads));
    print_noise(f);
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
    for (int mode = 0; mode < MODES; mode++)
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
