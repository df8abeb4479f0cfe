/* The CUDA engine's memory: its data on the device, and its pinned memory. */
#ifndef RUNNEL_CUDA_ENGINE_CUH
#define RUNNEL_CUDA_ENGINE_CUH

#include "tile.cuh"

enum {
    DESCRIPTION_SIZE = 320,
    KIB = 1024,
    RUN_MAX = 64, /* steps of one run: longer runs are split */
    WALKED_MAX = MODEL_TENSORS_MAX,
};

/* Memory under layout. Its blocks are placed once to find its size, then for their addresses. */
struct arena {
    char *start;
    size_t size;
};

/* NULL for a block that does not exist. */
static inline void *place_block(struct arena *arena, size_t bytes) {
    size_t at = arena->size;
    arena->size += (bytes + GRAIN - 1) / GRAIN * GRAIN;
    return bytes ? (void *)((uintptr_t)arena->start + at) : NULL;
}

static inline float *place_floats(struct arena *arena, size_t count) {
    return (float *)place_block(arena, count * sizeof(float));
}

static inline double *place_doubles(struct arena *arena, size_t count) {
    return (double *)place_block(arena, count * sizeof(double));
}

/* Pinned memory that the device reads or writes, at the same address as the host. */
struct buffer {
    char *at;
    size_t capacity;
};

struct engine {
    const struct model *model;
    struct engine_options options;
    struct cuda_device device;
    const char *way_out; /* for errors */
    enum scope scope;
    struct network network;  /* with the device's pointers */
    struct least_squares ls; /* of a solved output */
    struct encoded_part parts[MODEL_PARTS_MAX];
    struct walked walked[WALKED_MAX];
    struct strip *strips;           /* (strip_count + 1,) */
    size_t shared;                  /* of a block, before what it keeps: floats */
    size_t resident;                /* parameters and moments: floats */
    cudaStream_t stream, played_on; /* its own; of its newest play */
    char *arena;                    /* its memory on the device */
    struct network *on_device;
    uint32_t newest; /* position of the newest step */
    bool launched;   /* the current play */
    bool stale;      /* the units' deviations must be recomputed */
    struct buffer upload, download;
    char *received;  /* (upload.capacity,) on the device */
    size_t uploaded; /* bytes */
    float *slot;     /* (slot.size,) in host memory, for reading and writing */
    char description[DESCRIPTION_SIZE], fingerprint[DESCRIPTION_SIZE];
};

/* Shared memory of a block, in bytes. */
static inline size_t block_bytes(const struct engine *e) {
    size_t inbox = e->scope == SCOPE_CLUSTER ? e->network.inbox_size : 0;
    return (e->shared + inbox) * sizeof(float);
}

/* ---- describe.cu ---- */

void engine_describe_network(struct engine *e);

/* ---- memory.cu ---- */

/* Lays out all memory, checks that it fits, and allocates it on the device, all zero. */
int engine_allocate(struct engine *e, struct error *error);
void engine_release(struct engine *e);

/* Offset of a tensor in the block of parameters, and numbers in a row. */
struct placed {
    uint32_t offset, ld;
};
/* The part of x whose embedding the tensor is; NULL: none. */
const struct encoded_part *engine_input_part(const struct engine *e, const struct tensor *tensor);

struct placed engine_placed(const struct engine *e, const struct tensor *tensor);

/* ---- walk.cu ---- */

/* Deals matrices in strips, before the layout. */
int engine_cut_strips(struct engine *e, struct error *error);

/* Describes how each tensor's gradient is computed, after the layout. */
void engine_walk(struct engine *e);

/* ---- cut.cu ---- */

/* Segments under construction, in pinned memory. */
struct cutter {
    struct engine *e;
    const struct plan *plan;
    struct segment *segments;
    struct step_entry *steps;
    struct score_entry *scores;
    uint32_t count, step_count, score_count, updates, measures;
    size_t learned; /* steps of the updates' windows */
};

/* Cuts the plan; the arrays have room for one segment per operation. */
void engine_cut(struct cutter *c);

/* ---- play.cu ---- */

/* Floats of shared memory that a block needs, before what it keeps. */
size_t engine_shared(const struct network *n);

/* Checks that the device can run the kernel. */
int engine_prepare(const struct engine *e, struct error *error);

/* Whether the device can run a cluster of the kernel, as it was compiled. */
bool engine_has_clusters(const struct engine *e);

void engine_release_buffers(struct engine *e);

/* Bytes on the device for a play of such a plan. */
size_t engine_plan_bytes(const struct engine *e, const struct plan *plan);

/* Memory for such a plan. */
int engine_reserve(struct engine *e, const struct plan *plan, struct error *error);

int engine_play(struct engine *e, const struct plan *plan, const struct results *results,
                struct error *error);
int engine_play_together(const struct engine_part *parts, size_t count, struct error *error);

#endif
