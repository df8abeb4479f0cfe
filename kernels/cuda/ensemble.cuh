/* Engines that are played together: one queue of uploads, one buffer of results, and common
   launches. An engine that is played alone is an ensemble of one.

   Their plans are cut into segments: the first segments of all are played together, then the
   second ones, and so on. Segments of equal shape, of networks of equal shape, form one
   *branch*: the same launches, with one more member in blockIdx.z, and the same bits as alone.
   Different branches run in parallel, in the streams of their first members, as branches of one
   graph. Members that differ in one segment may share the next one. */
#ifndef RUNNEL_CUDA_ENSEMBLE_CUH
#define RUNNEL_CUDA_ENSEMBLE_CUH

#include "engine.cuh"

/* The queues and their arrays, for one play: gathered in pinned memory, then copied to the
   device. */
struct upload {
    char *host, *device;
    size_t capacity;
};

/* Results of one play, in pinned memory that the device writes. */
struct download {
    char *host;
    size_t capacity;
};

struct captured {
    cudaGraphExec_t graph; /* NULL: known shapes without a graph */
    struct shape *shapes;  /* (ensemble.count,) of the captured graph */
    uint32_t nodes;
    uint64_t used; /* when the shapes were last used; 0: never, the place is free */
};

/* Offsets in bytes. */
struct upload_layout {
    size_t segments, steps, scores, inputs, targets, size;
};

struct download_layout {
    size_t losses, scored, outputs, updates, measures, size;
};

/* An engine's part of the current play. */
struct playing {
    const struct engine_part *part; /* NULL: none */
    struct upload_layout up;
    struct download_layout down;
    struct cutter cutter;
};

struct ensemble {
    size_t count;
    struct engine *engines[TOGETHER_MAX];
    uint8_t equal[TOGETHER_MAX]; /* the first engine with an equal network */
    struct playing playing[TOGETHER_MAX];
    cudaEvent_t fork, join; /* events of branches; NULL with one engine */
    struct upload upload;
    struct download download;
    struct captured graphs[GRAPHS_MAX];
    struct shape *shapes; /* (GRAPHS_MAX, count) of these */
    uint64_t clock;       /* of graphs: segments played */
    size_t graph_nodes;
    bool graphs_end;      /* no more graphs are created, since one failed */
    bool graphs_reported; /* this was reported */
};

/* ---- ensemble.cu ---- */

/* The ensemble of these engines, and of those that they were played with before. NULL: out of
   memory; all stay in their ensembles, and for several engines a warning was logged. */
struct ensemble *ensemble_of(const struct engine_part *parts, size_t count);
void ensemble_dissolve(struct ensemble *x);

/* ---- branch.cu ---- */

/* All streams follow that of the first engine, and it follows them. */
static inline cudaStream_t ensemble_stream(const struct ensemble *x) {
    return x->engines[0]->stream;
}

/* The kernels of a segment, one after the other; shapes (count,). */
cudaError_t ensemble_enqueue(struct ensemble *x, const struct shape *shapes);

/* Whether two segments have the same kernels. */
bool same_shapes(const struct shape *a, const struct shape *b, size_t count);

/* An upper bound of the launches of a segment; of one of its branches without cuBLAS's. */
size_t branch_nodes(const struct engine *e, const struct shape *shape);
size_t ensemble_nodes(const struct ensemble *x, const struct shape *shapes);

/* Recomputes deviations of the engine's units, before a play. */
cudaError_t ensemble_refresh(struct ensemble *x, size_t member);

/* ---- graphs.cu ---- */

/* Runs ensemble_enqueue's kernels by a graph if there is one or it can be created. */
cudaError_t ensemble_replay(struct ensemble *x, const struct shape *shapes);
void ensemble_forget_graphs(struct ensemble *x);

/* ---- plan.cu ---- */

void ensemble_release_buffers(struct ensemble *x);

#endif
