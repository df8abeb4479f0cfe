/* The CUDA engine's memory: its data on the device, its pinned memory, and its captured graphs. */
#ifndef RUNNEL_CUDA_ENGINE_CUH
#define RUNNEL_CUDA_ENGINE_CUH

#include "gradient.cuh"
#include "inputs.cuh"
#include "solve.cuh"

enum {
    DESCRIPTION_SIZE = 320,
    GRAPHS_MAX = 64,
    RUN_MAX = 64, /* steps of one run: longer runs are split */
    WALKED_MAX = MODEL_TENSORS_MAX,
};

struct engine {
    const struct model *model;
    struct engine_options options;
    struct cuda_device device;
    const char *way_out; /* for errors */
    struct network network;
    struct gradient_plan gradient;
    struct solution solution; /* of a solved output */
    struct encoding encoding; /* the encoding of x, and its parts: */
    struct encoded_part parts[MODEL_PARTS_MAX];
    struct walked walked[WALKED_MAX];
    unsigned threads; /* threads of a block, except for gradient and optimizer */
    cudaStream_t stream;
    char *arena; /* its memory on the device, with offsets in grains, besides network.at: */
    uint32_t at_tensors, at_parts, at_workspace; /* gradient.tensors, encoding.parts, cuBLAS's */
    struct ensemble *ensemble;                   /* the ensemble that plays it; NULL: none yet */
    uint32_t newest;                             /* position of the newest step */
    bool stale;                                  /* the units' deviations must be recomputed */
    size_t plans; /* bytes on the device for its part of the longest play, by memory.cu */
    float *slot;  /* (slot.size,) in host memory, for reading and writing */
    char description[DESCRIPTION_SIZE];
};

static inline char *engine_at(const struct engine *e, uint32_t at) {
    return e->arena + grains(at);
}

static inline float *engine_floats(const struct engine *e, uint32_t at) {
    return (float *)engine_at(e, at);
}

/* ---- describe.cu ---- */

void engine_describe_network(struct engine *e);

/* ---- share.cu ---- */

/* Assigns blocks to each product of a wave. The network's sizes must be set. */
void engine_share(struct engine *e);

/* Assigns the blocks of a forward again, in total `blocks`. No bit depends on them. */
void share_forward(struct network *n, unsigned threads, uint32_t most);

/* ---- memory.cu ---- */

/* Lays out all memory, checks that it fits, and allocates it on the device, all zero. */
int engine_allocate(struct engine *e, struct error *error);
void engine_release(struct engine *e);

/* Memory for plans is budgeted when an engine opens, and allocated when it is first played.
   Subtracts `bytes` from the device's budget, or adds them if negative. */
void budget_taken(const struct engine *e, int64_t bytes);

/* ---- graphs.cu ---- */

/* Upper bound of the bytes that graphs use on the device, of one engine or of several that are
   played together, by estimate: with less memory they are slower, without failures. */
size_t graphs_budget(const struct engine *e);

/* Offset of a tensor in the block of parameters, and numbers in a row. */
struct placed {
    uint32_t offset, ld;
};
/* The part of x whose embedding the tensor is; NULL: none. */
const struct encoded_part *engine_input_part(const struct engine *e, const struct tensor *tensor);

struct placed engine_placed(const struct engine *e, const struct tensor *tensor);

/* ---- walk.cu ---- */

/* Describes how each tensor's gradient is computed, after the layout. */
void engine_walk(struct engine *e);

/* ---- cut.cu ---- */

/* The kernels of a segment. */
struct shape {
    uint32_t steps, length;
    bool played; /* false: the engine has no such segment */
    bool recompute, measure, lead_solve, solve, probe;
};

/* Segments under construction, in pinned memory. */
struct cutter {
    struct engine *e;
    const struct plan *plan;
    struct segment *segments;
    struct step_entry *steps;
    struct score_entry *scores;
    struct shape *shapes; /* (plan.count,) */
    uint32_t count, step_count, score_count, updates, measures;
};

/* Cuts the plan; the arrays have room for one segment per operation. */
void engine_cut(struct cutter *c);

/* ---- branch.cu ---- */

/* Checks that the device can run every kernel of the engine. */
int engine_prepare(const struct engine *e, struct error *error);

/* ---- plan.cu ---- */

/* Bytes on the device for a play of such a plan. */
size_t engine_plan_bytes(const struct engine *e, const struct plan *plan);

int engine_play(struct engine *e, const struct plan *plan, const struct results *results,
                struct error *error);
int engine_play_together(const struct engine_part *parts, size_t count, struct error *error);

#endif
