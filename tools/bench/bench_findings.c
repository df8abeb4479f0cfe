#include "bench_findings.h"

#include "bench_gpu.h"
#include "config/config.h"

static const double MICRO = 1e6, P50 = 0.5, P99 = 0.99;

static size_t networks(const struct bench_report *report) {
    return report->members ? report->members : 1;
}

/* That play networks side by side. */
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
    struct gpu_work work = gpu_work(report->config, report->model, plan, networks(report));
    f->work[mode] = work.work;
    f->launches[mode] = work.launches;
    for (int phase = 0; phase < PHASES; phase++) {
        f->nodes[mode][phase] = work.nodes[phase];
        f->phases[mode][phase] = gpu_phase(&work, phase, report->gpu);
    }
    f->floor[mode] = gpu_total(&work, report->gpu);
}

void findings_make(struct bench_report *report, struct findings *f) {
    *f = (struct findings){0};
    if (!report->gpu)
        f->machine = machine_figures(&report->machine);
    for (int part = 0; part < PARTS; part++)
        f->parts[part] = series_figure(&report->parts[part]);
    for (int mode = 0; mode < MODES; mode++)
        (report->gpu ? find_gpu_floor : find_cpu_floor)(report, f, mode,
                                                        mode == MODE_SINGLE ? 1 : report->plan);
    f->p50 = latencies_quantile(&report->latencies, P50) * MICRO;
    f->p99 = latencies_quantile(&report->latencies, P99) * MICRO;
}

const struct figure *findings_whole(const struct findings *f, enum bench_mode mode) {
    return &f->parts[mode == MODE_SINGLE ? PART_SINGLE : PART_QUEUED];
}

const struct figure *findings_lone(const struct findings *f, enum bench_mode mode) {
    return &f->parts[mode == MODE_SINGLE ? PART_LONE_SINGLE : PART_LONE_QUEUED];
}

double findings_ratio(const struct findings *f, enum bench_mode mode) {
    return f->floor[mode].floor * MICRO / findings_whole(f, mode)->median;
}

double findings_rest(const struct findings *f, enum bench_mode mode) {
    const struct figure *p = f->parts;
    double forward = p[mode == MODE_SINGLE ? PART_FORWARD_SINGLE : PART_FORWARD_QUEUED].median;
    return findings_whole(f, mode)->median - forward - p[PART_BACKWARD].median -
           p[PART_OPTIMIZER].median;
}
