#include <jansson.h>
#include <stdio.h>

#include "bench_findings.h"
#include "bench_report.h"
#include "config/config.h"
#include "cpu/ceilings.h"
#include "learner/cuda_module.h"

static const char *const mode_keys[MODES] = {"single", "queued"};
static const char *const part_keys[PARTS] = {
    "single",    "queued", "forward_single", "forward_queued", "backward",
    "optimizer", "socket", "lone_single",    "lone_queued",
};

static const double MICRO = 1e6, GIGA = 1e9;

static json_t *figure_json(const struct figure *figure, double unit) {
    return json_pack("{s:f, s:f, s:f, s:f}", "median", figure->median / unit, "minimum",
                     figure->minimum / unit, "maximum", figure->maximum / unit, "spread",
                     figure->spread);
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
    return json_pack("{s:I, s:I, s:s, s:f, s:f}", "window", (json_int_t)config->learning.window,
                     "stride", (json_int_t)config->learning.stride, "optimizer",
                     optimizer_kind(o->kind)->name, "rate", o->rate, "clip", config->learning.clip);
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
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, "
                     "s:f, s:f}",
                     "name", d->name, "index", d->index, "capability_major", d->capability_major,
                     "capability_minor", d->capability_minor, "multiprocessors", d->multiprocessors,
                     "driver", d->driver, "runtime", d->runtime, "memory", (json_int_t)d->memory,
                     "cache", (json_int_t)g->cache, "graph_launch_us", g->graph_launch * MICRO,
                     "node_us", g->node * MICRO, "grid_barrier_us", g->grid_barrier * MICRO,
                     "cluster_us", g->cluster * MICRO, "round_trip_us", g->round_trip * MICRO,
                     "copy_gbs", g->copy / GIGA, "cache_read_gbs", g->cache_read / GIGA, "gflops",
                     g->multiply_add / GIGA);
}

static json_t *phase_json(const struct findings *f, enum bench_mode mode, int phase) {
    const struct work *w = &f->work[mode].phases[phase];
    const struct floor_time *time = &f->phases[mode][phase];
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "flops", w->flops, "weights_read",
                     w->weights_read, "updated", w->updated, "flops_us", time->flops * MICRO,
                     "bytes_us", time->bytes * MICRO, "nodes", f->nodes[mode][phase], "stages_us",
                     time->stages * MICRO);
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
    json_object_set_new(object, "stages_us", json_real(total->stages * MICRO));
    json_object_set_new(object, "floor_us", json_real(total->floor * MICRO));
    json_object_set_new(object, "ratio", json_real(findings_ratio(f, mode)));
    if (r->split)
        json_object_set_new(object, "rest_us", json_real(findings_rest(f, mode)));
    return object;
}

/* Of each of them, and beside one that learns alone. */
static json_t *members_json(const struct bench_report *r, const struct findings *f) {
    json_t *object =
        json_pack("{s:I, s:I}", "count", (json_int_t)r->members, "threads", (json_int_t)r->threads);
    double count = (double)r->members;
    for (int mode = 0; mode < MODES; mode++) {
        double all = findings_whole(f, mode)->median, lone = findings_lone(f, mode)->median;
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

void bench_report_json(struct bench_report *report) {
    struct findings f;
    findings_make(report, &f);
    json_t *object =
        json_pack("{s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:o}", "name", report->config->name,
                  "device", report->device, "parameters", (json_int_t)report->model->learned,
                  "rounds", (json_int_t)report->rounds, "plan", (json_int_t)report->plan, "model",
                  architecture_json(report->config), "learning", learning_json(report->config),
                  "memory", memory_json(&report->memory));
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
    for (int mode = 0; mode < MODES; mode++)
        json_object_set_new(object, mode_keys[mode], floor_json(report, &f, mode));
    if (report->members)
        json_object_set_new(object, "members", members_json(report, &f));
    if (report->daemon.examples)
        json_object_set_new(object, "daemon", memory_json(&report->daemon));
    json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(object);
}
