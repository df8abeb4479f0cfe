/* Checks launches, and registers kernels. */
#include "simulate.h"
#ifdef __SSE__
#    include <xmmintrin.h>
#endif

#include <map>

using namespace hostcuda;

namespace {

/* Kernels are compiled with -ftz=true: denormals are zero while one runs. */
struct flush_to_zero {
#ifdef __SSE__
    static constexpr unsigned FLUSH = 0x8040; /* both results and operands */
    unsigned before = _mm_getcsr();
    flush_to_zero() {
        _mm_setcsr(before | FLUSH);
    }
    ~flush_to_zero() {
        _mm_setcsr(before);
    }
#endif
};

constexpr size_t ARGUMENTS_LIMIT = 4096;
constexpr unsigned CLUSTER_LIMIT = 8, CLUSTER_LIMIT_ASKED = 16;
constexpr int THREADS_MULTIPROCESSOR = 2048, BLOCKS_MULTIPROCESSOR = 32;

struct permission {
    int shared = (int)SHARED_DEFAULT;
    int carveout = -1, large_clusters = 0;
};
std::map<const void *, permission> permissions;

/* Addresses of the no-operations before every kernel with __launch_bounds__. */
extern "C" {
extern const unsigned char *const __start___patchable_function_entries[]
    __attribute__((weak, visibility("hidden")));
extern const unsigned char *const __stop___patchable_function_entries[]
    __attribute__((weak, visibility("hidden")));
}

/* The first number of a kernel's __launch_bounds__; THREADS_LIMIT without them. */
unsigned launch_bound(const void *kernel) {
#ifdef __x86_64__
    constexpr size_t INSTRUCTION = 1;
#else
    constexpr size_t INSTRUCTION = 4;
#endif
    for (auto at = __start___patchable_function_entries; at < __stop___patchable_function_entries;
         ++at) {
        const size_t bytes = (size_t)((const unsigned char *)kernel - *at);
        if (bytes >= INSTRUCTION && bytes <= THREADS_LIMIT * INSTRUCTION &&
            memcmp(*at, *at + INSTRUCTION, bytes - INSTRUCTION) == 0) {
            return (unsigned)(bytes / INSTRUCTION);
        }
    }
    return THREADS_LIMIT;
}

unsigned most_threads(const void *kernel) {
    return min(launch_bound(kernel), setting().threads);
}

size_t volume(const dim3 &d) {
    return (size_t)d.x * d.y * d.z;
}

int resident(size_t threads, size_t shared) {
    const size_t rounded = (threads + warpSize - 1) / warpSize * warpSize;
    const size_t bytes = shared + SHARED_RESERVED;
    return min(min(BLOCKS_MULTIPROCESSOR, (int)(SHARED_MULTIPROCESSOR / bytes)),
               (int)(THREADS_MULTIPROCESSOR / rounded));
}

cudaError_t check_shared(const launch &work) {
    const std::string &name = place(work.kernel);
    if (work.shared > (size_t)permissions[work.kernel].shared) {
        return fail(cudaErrorInvalidValue,
                    "%s: %zu bytes of shared memory, of %d that are allowed "
                    "(cudaFuncAttributeMaxDynamicSharedMemorySize)",
                    name.c_str(), work.shared, permissions[work.kernel].shared);
    }
    return cudaSuccess;
}

cudaError_t check_sizes(const launch &work, size_t arguments) {
    const std::string &name = place(work.kernel);
    const size_t threads = volume(work.block);
    if (threads == 0 || threads > THREADS_LIMIT || work.block.z > 64 || volume(work.grid) == 0 ||
        work.grid.x > 0x7fffffffu || work.grid.y > 65535 || work.grid.z > 65535) {
        return fail(cudaErrorInvalidConfiguration, "%s: a grid of (%u, %u, %u) x (%u, %u, %u)",
                    name.c_str(), work.grid.x, work.grid.y, work.grid.z, work.block.x, work.block.y,
                    work.block.z);
    }
    if (threads > most_threads(work.kernel)) {
        return fail(cudaErrorInvalidValue, "%s: a block of %zu threads, of %u that are allowed",
                    name.c_str(), threads, most_threads(work.kernel));
    }
    if (arguments > ARGUMENTS_LIMIT) {
        return fail(cudaErrorInvalidValue, "%s: %zu bytes of arguments, of %zu that are allowed",
                    name.c_str(), arguments, ARGUMENTS_LIMIT);
    }
    const size_t cluster = volume(work.cluster);
    const size_t limit =
        permissions[work.kernel].large_clusters ? CLUSTER_LIMIT_ASKED : CLUSTER_LIMIT;
    if (cluster == 0 || cluster > limit || work.grid.x % work.cluster.x ||
        work.grid.y % work.cluster.y || work.grid.z % work.cluster.z) {
        return fail(cudaErrorInvalidClusterSize, "%s: clusters of (%u, %u, %u)", name.c_str(),
                    work.cluster.x, work.cluster.y, work.cluster.z);
    }
    return cudaSuccess;
}

cudaError_t check_cooperative(const launch &work) {
    if (!work.cooperative) {
        return cudaSuccess;
    }
    const std::string &name = place(work.kernel);
    if (volume(work.cluster) > 1) {
        return fail(cudaErrorNotSupported, "%s: no clusters in a cooperative grid here",
                    name.c_str());
    }
    const size_t most =
        (size_t)resident(volume(work.block), work.shared) * (size_t)setting().multiprocessors;
    if (volume(work.grid) > most) {
        return fail(cudaErrorCooperativeLaunchTooLarge, "%s: %zu blocks, of %zu that fit",
                    name.c_str(), volume(work.grid), most);
    }
    return cudaSuccess;
}

} // namespace

namespace hostcuda {

void release_kernels() {
    permissions.clear();
}

} // namespace hostcuda

cudaError_t hostcuda_enqueue_kernel(const cudaLaunchConfig_t *config, const void *kernel,
                                    size_t size, std::function<void()> body,
                                    std::vector<const void *> arguments) {
    if (cudaError_t begun = begin("cudaLaunchKernelEx")) {
        return begun;
    }
    launch work = {kernel,           std::move(body), std::move(arguments),     config->gridDim,
                   config->blockDim, dim3(1, 1, 1),   config->dynamicSmemBytes, false};
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        const cudaLaunchAttribute &a = config->attrs[i];
        if (a.id == cudaLaunchAttributeCooperative) {
            work.cooperative = a.val.cooperative != 0;
        } else if (a.id == cudaLaunchAttributeClusterDimension) {
            work.cluster = dim3(a.val.clusterDim.x, a.val.clusterDim.y, a.val.clusterDim.z);
        } else if (a.id != cudaLaunchAttributeIgnore) {
            return fail(cudaErrorNotSupported, "%s: launch attribute %d is unknown here",
                        place(kernel).c_str(), (int)a.id);
        }
    }
    if (!is_current(config->stream)) {
        return fail(cudaErrorInvalidResourceHandle, "%s: its stream belongs to another device",
                    place(kernel).c_str());
    }
    cudaError_t error = check_sizes(work, size);
    error = error ? error : check_shared(work);
    error = error ? error : check_cooperative(work);
    if (error) {
        return error;
    }
    return enqueue(config->stream, [work] {
        if (setting().trace) {
            fprintf(stderr, "hostcuda: %s<<<(%u, %u, %u), (%u, %u, %u), %zu>>>%s\n",
                    place(work.kernel).c_str(), work.grid.x, work.grid.y, work.grid.z, work.block.x,
                    work.block.y, work.block.z, work.shared,
                    work.cooperative ? " cooperative" : "");
        }
        const flush_to_zero as_compiled;
        return setting().simulator ? simulate::play(work) : run(work);
    });
}

extern "C" {

cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value) {
    HOSTCUDA_BEGIN();
    permission &p = permissions[kernel];
    switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || value > (int)SHARED_LIMIT) {
            return fail(cudaErrorInvalidValue, "%s: %d bytes of shared memory, of %zu that are",
                        place(kernel).c_str(), value, SHARED_LIMIT);
        }
        p.shared = value; /* also for sizes without permission, and for the whole process */
        if (setting().trace) {
            fprintf(stderr, "hostcuda: %s may have %d bytes\n", place(kernel).c_str(), value);
        }
        return cudaSuccess;
    case cudaFuncAttributePreferredSharedMemoryCarveout:
        p.carveout = value;
        return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
        p.large_clusters = value;
        return cudaSuccess;
    }
    return fail(cudaErrorInvalidValue, "%s: attribute %d", __func__, (int)attribute);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel) {
    HOSTCUDA_BEGIN();
    *attributes = {};
    attributes->maxThreadsPerBlock = (int)most_threads(kernel);
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    attributes->maxDynamicSharedSizeBytes = permissions[kernel].shared;
    attributes->preferredShmemCarveout = permissions[kernel].carveout;
    attributes->nonPortableClusterSizeAllowed = permissions[kernel].large_clusters;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel,
                                                          int threads, size_t shared) {
    HOSTCUDA_BEGIN();
    if (threads <= 0) {
        return fail(cudaErrorInvalidValue, "%s: %d threads", __func__, threads);
    }
    const bool fits =
        threads <= (int)most_threads(kernel) && shared <= (size_t)permissions[kernel].shared;
    *blocks = fits ? resident((size_t)threads, shared) : 0;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *kernel,
                                           const cudaLaunchConfig_t *config) {
    HOSTCUDA_BEGIN();
    size_t cluster = 1;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            const auto &d = config->attrs[i].val.clusterDim;
            cluster = (size_t)d.x * d.y * d.z;
        }
    }
    const size_t limit = permissions[kernel].large_clusters ? CLUSTER_LIMIT_ASKED : CLUSTER_LIMIT;
    const bool fits = cluster > 0 && cluster <= limit && volume(config->blockDim) > 0 &&
                      volume(config->blockDim) <= most_threads(kernel) &&
                      config->dynamicSmemBytes <= (size_t)permissions[kernel].shared;
    const size_t blocks = (size_t)resident(volume(config->blockDim), config->dynamicSmemBytes) *
                          (size_t)setting().multiprocessors;
    *clusters = fits ? (int)std::max<size_t>(blocks / cluster, 1) : 0; /* as launches allow */
    return cudaSuccess;
}
}
