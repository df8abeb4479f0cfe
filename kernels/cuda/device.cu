#include "device.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuda_check(cudaError_t status, const char *what, struct error *error) {
    if (status == cudaSuccess)
        return 0;
    cudaGetLastError(); /* clears the reported error, unless the device is lost */
    return error_set(error, EX_UNAVAILABLE, "%s: CUDA error: %s (%s)", what,
                     cudaGetErrorString(status), cudaGetErrorName(status));
}

/* The N of "cuda:N"; 0 for "cuda" and "auto". -1: not a number. */
static int index_of(const char *device) {
    const char *colon = strchr(device, ':');
    if (!colon)
        return 0;
    char *end;
    long index = strtol(colon + 1, &end, 10);
    return *end || end == colon + 1 || index < 0 || index > INT32_MAX ? -1 : (int)index;
}

/* CUDA represents 13.0 as 13000. */
enum { MAJOR = 1000, MINOR = 10 };

/* The oldest compute capability: the kernels use its features, and are tuned for its shared
   memory. */
enum { CAPABILITY_MAJOR = 8 };

static int count_devices(const char *device, int *count, struct cuda_device *found,
                         struct error *error) {
    cudaError_t status = cudaRuntimeGetVersion(&found->runtime);
    if (status == cudaSuccess)
        status = cudaDriverGetVersion(&found->driver);
    if (status == cudaSuccess)
        status = cudaGetDeviceCount(count);
    cudaGetLastError();
    if (status == cudaErrorInsufficientDriver && found->driver > 0)
        return error_set(error, EX_UNAVAILABLE,
                         "the NVIDIA driver supports CUDA %d.%d, but this build requires %d.%d; "
                         "update the driver%s",
                         found->driver / MAJOR, found->driver % MAJOR / MINOR,
                         found->runtime / MAJOR, found->runtime % MAJOR / MINOR,
                         cuda_way_out(device));
    if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver ||
        (status == cudaSuccess && *count == 0))
        return error_set(
            error, EX_UNAVAILABLE,
            "no GPU found that CUDA supports, or its driver is missing; check with nvidia-smi%s",
            cuda_way_out(device));
    return cuda_check(status, "finding a GPU", error);
}

int cuda_probe(const char *device, struct cuda_device *found, struct error *error) {
    int count = 0;
    memset(found, 0, sizeof *found);
    if (count_devices(device, &count, found, error))
        return -1;
    found->index = index_of(device);
    if (found->index < 0 || found->index >= count)
        return error_set(error, EX_UNAVAILABLE, "this machine has %d GPU%s, counted from cuda:0",
                         count, count == 1 ? "" : "s");
    struct cudaDeviceProp properties;
    if (cuda_check(cudaGetDeviceProperties(&properties, found->index), "reading the GPU's name",
                   error))
        return -1;
    snprintf(found->name, sizeof found->name, "%.*s", CUDA_NAME_SIZE - 1, properties.name);
    found->capability_major = properties.major;
    found->capability_minor = properties.minor;
    found->multiprocessors = properties.multiProcessorCount;
    found->memory = properties.totalGlobalMem;
    found->shared = properties.sharedMemPerBlockOptin;
    if (properties.major < CAPABILITY_MAJOR)
        return error_set(error, EX_UNAVAILABLE,
                         "%s has compute capability %d.%d, but the CUDA engine requires %d.0 or "
                         "newer; choose a newer GPU (cuda:N)%s",
                         found->name, properties.major, properties.minor, CAPABILITY_MAJOR,
                         cuda_way_out(device));
    return 0;
}

int cuda_select(struct cuda_device *device, struct error *error) {
    if (cuda_check(cudaSetDevice(device->index), "selecting the GPU", error))
        return -1;
    return cuda_check(cudaMemGetInfo(&device->free_memory, &device->memory),
                      "reading the GPU's free memory", error);
}
