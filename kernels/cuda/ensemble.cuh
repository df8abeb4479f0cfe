/* Engines that are played together: one queue of uploads, one buffer of results, and one launch
   after the other for all of them. An engine that is played alone is an ensemble of one.

   Their plans are cut into segments, and the first segments of all are played together, then the
   second ones. Of those, segments of equal shape, of networks of equal shape, are one *branch*: the
   same launches, with a member more in blockIdx.z, and the same bits as each alone. Different
   branches run side by side, in the streams of their first members, as branches of one graph. So
   nobody falls out of step for good: what does not go together in one segment may in the next. */
#ifndef RUNNEL_CUDA_ENSEMBLE_CUH
#define RUNNEL_CUDA_ENSEMBLE_CUH

#include "engine.cuh"

/* The queues and their arrays, for one play: gathered in pinned memory, then copied to the device.
 */
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
    cudaGraphExec_t graph; /* NULL: the shapes were met, but have none */
    struct shape *shapes;  /* (ensemble.count,) what it was captured for */
    uint32_t nodes;
    uint64_t used; /* when the shapes were last met; 0: never, the place is free */
};

/* Offsets in bytes. */
struct upload_layout {
    size_t segments, steps, scores, inputs, targets, size;
};

struct download_layout {
    size_t losses, scored, outputs, updates, measures, size;
};

/* An engine's part of the play that is under way. */
struct playing {
    const struct engine_part *part; /* NULL: it has none */
    struct upload_layout up;
    struct download_layout down;
    struct cutter cutter;
};

struct ensemble {
    size_t count;
    struct engine *engines[TOGETHER_MAX];
    uint8_t equal[TOGETHER_MAX]; /* the first engine whose network is equal to this one's */
    struct playing playing[TOGETHER_MAX];
    cudaEvent_t fork, join; /* of branches; NULL with one engine */
    struct upload upload;
    struct download download;
    struct captured graphs[GRAPHS_MAX];
    struct shape *shapes; /* (GRAPHS_MAX, count) of these */
    uint64_t clock;       /* of graphs: segments played */
    size_t graph_nodes;
    bool graphs_end;  /* no more are made: one could not be, */
    bool graphs_told; /* which was said */
};

/* ---- ensemble.cu ---- */

/* The ensemble of these engines, and of those that they were played with before. NULL: it cannot be
   had, and all stay in those that they are in; of several this has been said. */
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

/* An upper bound of the launches of a segment; of one branch of it without what cuBLAS makes. */
size_t branch_nodes(const struct engine *e, const struct shape *shape);
size_t ensemble_nodes(const struct ensemble *x, const struct shape *shapes);

/* Deviations of the engine's units, before it is played. */
cudaError_t ensemble_refresh(struct ensemble *x, size_t member);

/* ---- graphs.cu ---- */

/* The same as a graph, where there is one, or can be. */
cudaError_t ensemble_replay(struct ensemble *x, const struct shape *shapes);
void ensemble_forget_graphs(struct ensemble *x);

/* ---- plan.cu ---- */

void ensemble_release_buffers(struct ensemble *x);

#endif
