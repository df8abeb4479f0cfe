/* The CUDA engine's own memory: what stands on the device, what is pinned, and the graphs that were
   captured so far. */
#ifndef RUNNEL_CUDA_ENGINE_CUH
#define RUNNEL_CUDA_ENGINE_CUH

#include "gradient.cuh"
#include "inputs.cuh"
#include "solve.cuh"

enum {
    DESCRIPTION_SIZE = 320,
    GRAPHS_MAX = 64,
    RUN_MAX = 64, /* steps of one run: what is longer is played as several */
    WALKED_MAX = MODEL_TENSORS_MAX,
};

struct engine {
    const struct model *model;
    struct engine_options options;
    struct cuda_device device;
    const char *way_out; /* when it cannot be used */
    struct network network;
    struct gradient_plan gradient;
    struct solution solution; /* of an output that is solved */
    struct encoding encoding; /* of an x that is encoded, and its parts: */
    struct encoded_part parts[MODEL_PARTS_MAX];
    struct walked walked[WALKED_MAX];
    unsigned threads; /* of a block, but for gradient and optimizer */
    cudaStream_t stream;
    char *arena; /* all that it keeps on the device, in it, in grains, beside network.at: */
    uint32_t at_tensors, at_parts, at_workspace; /* gradient.tensors, encoding.parts, cuBLAS's */
    struct ensemble *ensemble;                   /* with which it is played; NULL: not yet */
    uint32_t newest;                             /* position of the newest step played */
    bool stale;                                  /* units' deviations must be recomputed */
    size_t plans; /* bytes of the device that its part of the longest play takes, by memory.cu */
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

/* Give each product of a wave its blocks. The network's sizes are there. */
void engine_share(struct engine *e);

/* Those of a forward, again: so many in all. No bit depends on them. */
void share_forward(struct network *n, unsigned threads, uint32_t most);

/* ---- memory.cu ---- */

/* Lay everything out, see that it fits, and take it from the device, all zero. */
int engine_allocate(struct engine *e, struct error *error);
void engine_release(struct engine *e);

/* What plans take is budgeted when an engine opens, and taken when it is first played: so much of
   its device's budget has been taken, or (less than 0) been added to it. */
void budget_taken(const struct engine *e, int64_t bytes);

/* ---- graphs.cu ---- */

/* Bytes of the device that graphs take at most, of one engine or of several that are played
   together, by estimate: without them all is slower, and nothing fails. */
size_t graphs_budget(const struct engine *e);

/* Where a tensor stands: offset in the block of parameters, and numbers in a row. */
struct placed {
    uint32_t offset, ld;
};
/* The part of x whose embedding the tensor is; NULL: of none. */
const struct encoded_part *engine_input_part(const struct engine *e, const struct tensor *tensor);

struct placed engine_placed(const struct engine *e, const struct tensor *tensor);

/* ---- walk.cu ---- */

/* Say what each tensor's gradient is made of. All has been laid out. */
void engine_walk(struct engine *e);

/* ---- cut.cu ---- */

/* Which kernels a segment has. */
struct shape {
    uint32_t steps, length;
    bool played; /* false: the engine has no such segment */
    bool recompute, measure, lead_solve, solve;
};

/* What is being gathered, in pinned memory. */
struct cutter {
    struct engine *e;
    const struct plan *plan;
    struct segment *segments;
    struct step_entry *steps;
    struct score_entry *scores;
    struct shape *shapes; /* (plan.count,) */
    uint32_t count, step_count, score_count, updates, measures;
};

/* Cut the plan; the arrays have room for as many as it has operations. */
void engine_cut(struct cutter *c);

/* ---- branch.cu ---- */

/* Checks that the device can run every kernel of the engine. */
int engine_prepare(const struct engine *e, struct error *error);

/* ---- plan.cu ---- */

/* Bytes of the device that a play of such a plan takes. */
size_t engine_plan_bytes(const struct engine *e, const struct plan *plan);

int engine_play(struct engine *e, const struct plan *plan, const struct results *results,
                struct error *error);
int engine_play_together(const struct engine_part *parts, size_t count, struct error *error);

#endif
