#include "bench_gpu.h"

#include "config/config.h"
#include "learner/cuda_module.h"

enum {
    FORWARD_NODES = 2,  /* begin, finish */
    BACKWARD_NODES = 2, /* loss, output */
    UPDATE_NODES = 2,   /* norm, update */
    SOLVE_NODES = 2,    /* covariance, weights */
};

static const double GPU_CACHE_SHARE = 0.8;

struct gpu_work gpu_work(const struct config *config, const struct model *model, size_t plan,
                         size_t networks) {
    const struct architecture *a = &config->architecture;
    double window = (double)config->learning.window, stride = (double)config->learning.stride;
    double layers = (double)a->layer_count,
           together = (double)plan < stride ? (double)plan : stride;
    double moments = (double)optimizer_moments(&config->learning.optimizer);
    double block = sizeof(float) * (double)model->learned;
    struct gpu_work gpu = {.work = floor_work(config, model, plan), .launches = 1 / together};
    gpu.work.phases[PHASE_BACKWARD].updated = 0;
    gpu.work.phases[PHASE_OPTIMIZER].updated = 2 * block * (1 + moments) / stride + gpu.work.solved;
    gpu.work.updated_set = block * (1 + moments) + gpu.work.solved / 2;
    gpu.work = floor_of(gpu.work, networks);
    gpu.work.weights_set *= (double)networks;
    gpu.work.updated_set *= (double)networks;
    gpu.nodes[PHASE_FORWARD] = (together + layers + FORWARD_NODES) / together;
    gpu.nodes[PHASE_BACKWARD] = (BACKWARD_NODES + window + layers - 1 + (a->input.embedding > 0) +
                                 (stride < window ? window + layers : 0)) /
                                stride;
    gpu.nodes[PHASE_OPTIMIZER] = UPDATE_NODES / stride + (model->solved ? SOLVE_NODES : 0);
    return gpu;
}

static double charge(double bytes, double set, const struct cuda_figures *figures) {
    bool cached = set <= GPU_CACHE_SHARE * (double)figures->cache;
    return bytes / (cached ? figures->cache_read : figures->copy);
}

struct floor_time gpu_phase(const struct gpu_work *work, enum floor_phase phase,
                            const struct cuda_figures *figures) {
    const struct work *w = &work->work.phases[phase];
    struct floor_time time = {
        .flops = w->flops / figures->multiply_add,
        .bytes = charge(w->weights_read, work->work.weights_set, figures) +
                 charge(w->updated, work->work.updated_set, figures),
        .stages = work->nodes[phase] * figures->node,
    };
    time.floor = (time.flops > time.bytes ? time.flops : time.bytes) + time.stages;
    return time;
}

struct floor_time gpu_total(const struct gpu_work *work, const struct cuda_figures *figures) {
    double launch = work->launches * (figures->graph_launch - figures->node);
    struct floor_time total = {.stages = launch, .floor = launch};
    for (int phase = 0; phase < PHASES; phase++) {
        struct floor_time time = gpu_phase(work, phase, figures);
        total.flops += time.flops;
        total.bytes += time.bytes;
        total.stages += time.stages;
        total.floor += time.floor;
    }
    return total;
}
