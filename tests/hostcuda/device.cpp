/* Devices, settings from the environment, errors, and failures requested by tests. */
#include "race.h"
#include <stdarg.h>
#include <stdlib.h>

#include "common/random.h"

namespace hostcuda {

namespace {

constexpr size_t MEMORY = (size_t)16 << 30;
constexpr int L2_CACHE = 50 << 20, REGISTERS = 64 << 10, GRID_LIMIT = 0x7fffffff;
constexpr int THREADS_MULTIPROCESSOR = 2048, BLOCKS_MULTIPROCESSOR = 32, GRID_LIMIT_YZ = 65535;
constexpr int CAPABILITY = 90;

/* One entry of HOSTCUDA_FAIL. */
struct failure {
    std::string function;
    long call;
    cudaError_t error;
};

struct state {
    settings set;
    std::vector<failure> failures;
    uint64_t random;
    cudaError_t last = cudaSuccess, sticky = cudaSuccess;
    std::string reports;
};

thread_local int current_device;

const char *variable(const char *name) {
    const char *text = getenv(name);
    return text && *text ? text : nullptr;
}

uint64_t number(const char *name, uint64_t otherwise) {
    const char *text = variable(name);
    return text ? strtoull(text, nullptr, 0) : otherwise;
}

cudaError_t error_named(const std::string &name) {
#define X(error, value, text)                                                                      \
    if (name == #error) {                                                                          \
        return error;                                                                              \
    }
    HOSTCUDA_ERRORS(X)
#undef X
    fprintf(stderr, "hostcuda: HOSTCUDA_FAIL names %s, which is no error here\n", name.c_str());
    exit(EXIT_FAILURE);
}

/* FUNCTION:N[:ERROR], separated by commas. */
std::vector<failure> read_failures(const char *text) {
    std::vector<failure> list;
    const std::string all = text ? text : "";
    for (size_t start = 0; start < all.size();) {
        const size_t end = min(all.find(',', start), all.size());
        const std::string entry = all.substr(start, end - start);
        const size_t first = entry.find(':'), second = entry.find(':', first + 1);
        if (first == std::string::npos) {
            fprintf(stderr, "hostcuda: HOSTCUDA_FAIL wants FUNCTION:N[:ERROR], got %s\n",
                    entry.c_str());
            exit(EXIT_FAILURE);
        }
        failure f = {entry.substr(0, first), strtol(entry.c_str() + first + 1, nullptr, 10),
                     cudaErrorUnknown};
        if (second != std::string::npos) {
            f.error = error_named(entry.substr(second + 1));
        } else if (f.function.find("Alloc") != std::string::npos || f.function == "cudaMalloc") {
            f.error = cudaErrorMemoryAllocation;
        }
        list.push_back(f);
        start = end + 1;
    }
    return list;
}

state read_environment() {
    state s;
    s.set.seed = number("HOSTCUDA_SEED", 0);
    s.set.devices = (int)number("HOSTCUDA_DEVICES", 1);
    s.set.driver = (int)number("HOSTCUDA_DRIVER", CUDART_VERSION);
    s.set.multiprocessors = (int)number("HOSTCUDA_SMS", 132);
    s.set.capability = (int)number("HOSTCUDA_CAPABILITY", CAPABILITY);
    s.set.threads = (unsigned)number("HOSTCUDA_THREADS", THREADS_LIMIT);
    s.set.memory = number("HOSTCUDA_MEMORY", MEMORY);
    s.set.trace = number("HOSTCUDA_TRACE", 0) != 0;
    s.set.simulator = variable("HOSTCUDA_SIMULATOR");
    s.random = s.set.seed;
    s.failures = read_failures(variable("HOSTCUDA_FAIL"));
    return s;
}

state &now() {
    static state s = read_environment();
    return s;
}

/* A context with such an error is lost. */
bool lasting(cudaError_t error) {
    switch (error) {
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
        return true;
    default:
        return false;
    }
}

std::string vformat(const char *format, va_list arguments) {
    char text[1024];
    vsnprintf(text, sizeof text, format, arguments);
    return text;
}

cudaDeviceProp properties() {
    cudaDeviceProp p = {};
    snprintf(p.name, sizeof p.name, "hostcuda (no GPU)");
    p.totalGlobalMem = setting().memory;
    p.sharedMemPerBlock = SHARED_DEFAULT;
    p.sharedMemPerBlockOptin = SHARED_LIMIT;
    p.sharedMemPerMultiprocessor = SHARED_MULTIPROCESSOR;
    p.reservedSharedMemPerBlock = SHARED_RESERVED;
    p.totalConstMem = 64 << 10;
    p.regsPerBlock = p.regsPerMultiprocessor = REGISTERS;
    p.warpSize = warpSize;
    p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = THREADS_LIMIT;
    p.maxThreadsDim[2] = 64;
    p.maxGridSize[0] = GRID_LIMIT;
    p.maxGridSize[1] = p.maxGridSize[2] = GRID_LIMIT_YZ;
    p.major = setting().capability / 10;
    p.minor = setting().capability % 10;
    p.multiProcessorCount = setting().multiprocessors;
    p.canMapHostMemory = p.concurrentKernels = p.unifiedAddressing = p.ECCEnabled = 1;
    p.cooperativeLaunch = p.clusterLaunch = p.asyncEngineCount = 1;
    p.memoryBusWidth = 6144;
    p.l2CacheSize = L2_CACHE;
    p.persistingL2CacheMaxSize = L2_CACHE / 2;
    p.maxThreadsPerMultiProcessor = THREADS_MULTIPROCESSOR;
    p.maxBlocksPerMultiProcessor = BLOCKS_MULTIPROCESSOR;
    return p;
}

} // namespace

const settings &setting() {
    return now().set;
}

int device() {
    return current_device;
}

uint64_t chance(uint64_t limit) {
    return random_bits(&now().random) % limit;
}

void poison(void *at, size_t size) {
    uint32_t *word = (uint32_t *)at;
    for (size_t i = 0; i < size / sizeof *word; ++i) {
        word[i] = POISON;
    }
    memset((char *)at + size / sizeof *word * sizeof *word, 0xff, size % sizeof *word);
}

void report(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const std::string text = vformat(format, arguments);
    va_end(arguments);
    fprintf(stderr, "hostcuda: %s\n", text.c_str());
    now().reports += text + "\n";
}

const std::string &reports() {
    return now().reports;
}

cudaError_t note(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) {
        now().last = error;
    }
    if (lasting(error) && now().sticky == cudaSuccess) {
        now().sticky = error;
    }
    return error;
}

cudaError_t fail(cudaError_t error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const std::string text = vformat(format, arguments);
    va_end(arguments);
    report("%s (%s)", text.c_str(), cudaGetErrorName(error));
    return note(error);
}

cudaError_t fault(cudaError_t error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const std::string text = vformat(format, arguments);
    va_end(arguments);
    report("%s", text.c_str());
    return note(error);
}

cudaError_t begin(const char *function) {
    state &s = now();
    if (s.set.driver < CUDART_VERSION) {
        return note(cudaErrorInsufficientDriver);
    }
    if (s.set.devices == 0) {
        return note(cudaErrorNoDevice);
    }
    if (s.sticky) {
        return note(s.sticky);
    }
    for (failure &f : s.failures) {
        if (f.function == function && --f.call == 0) {
            return fail(f.error, "%s fails, as HOSTCUDA_FAIL asks", function);
        }
    }
    return cudaSuccess;
}

} // namespace hostcuda

using namespace hostcuda;

extern "C" {

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 0;
    HOSTCUDA_BEGIN();
    *count = setting().devices;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    HOSTCUDA_BEGIN();
    if (device < 0 || device >= setting().devices) {
        return note(cudaErrorInvalidDevice);
    }
    current_device = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    HOSTCUDA_BEGIN();
    *device = current_device;
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned flags) {
    HOSTCUDA_BEGIN();
    if (flags & ~(unsigned)(cudaDeviceScheduleMask | cudaDeviceMapHost)) {
        return fail(cudaErrorInvalidValue, "cudaSetDeviceFlags: unknown flags %#x", flags);
    }
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = setting().driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *found, int device) {
    HOSTCUDA_BEGIN();
    if (device < 0 || device >= setting().devices) {
        return note(cudaErrorInvalidDevice);
    }
    *found = properties();
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    HOSTCUDA_BEGIN();
    if (device < 0 || device >= setting().devices) {
        return note(cudaErrorInvalidDevice);
    }
    const cudaDeviceProp p = properties();
    const struct {
        enum cudaDeviceAttr attribute;
        int value;
    } known[] = {
        {cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock},
        {cudaDevAttrMaxBlockDimX, p.maxThreadsDim[0]},
        {cudaDevAttrMaxBlockDimY, p.maxThreadsDim[1]},
        {cudaDevAttrMaxBlockDimZ, p.maxThreadsDim[2]},
        {cudaDevAttrMaxGridDimX, p.maxGridSize[0]},
        {cudaDevAttrMaxGridDimY, p.maxGridSize[1]},
        {cudaDevAttrMaxGridDimZ, p.maxGridSize[2]},
        {cudaDevAttrMaxSharedMemoryPerBlock, (int)p.sharedMemPerBlock},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)p.sharedMemPerBlockOptin},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, (int)p.sharedMemPerMultiprocessor},
        {cudaDevAttrReservedSharedMemoryPerBlock, (int)p.reservedSharedMemPerBlock},
        {cudaDevAttrWarpSize, p.warpSize},
        {cudaDevAttrMaxRegistersPerBlock, p.regsPerBlock},
        {cudaDevAttrMaxRegistersPerMultiprocessor, p.regsPerMultiprocessor},
        {cudaDevAttrClockRate, 1000000}, /* kHz: clock64 counts nanoseconds */
        {cudaDevAttrMemoryClockRate, 1000000},
        {cudaDevAttrGlobalMemoryBusWidth, p.memoryBusWidth},
        {cudaDevAttrMultiProcessorCount, p.multiProcessorCount},
        {cudaDevAttrKernelExecTimeout, 0},
        {cudaDevAttrIntegrated, p.integrated},
        {cudaDevAttrCanMapHostMemory, p.canMapHostMemory},
        {cudaDevAttrConcurrentKernels, p.concurrentKernels},
        {cudaDevAttrL2CacheSize, p.l2CacheSize},
        {cudaDevAttrMaxPersistingL2CacheSize, p.persistingL2CacheMaxSize},
        {cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor},
        {cudaDevAttrMaxBlocksPerMultiprocessor, p.maxBlocksPerMultiProcessor},
        {cudaDevAttrAsyncEngineCount, p.asyncEngineCount},
        {cudaDevAttrUnifiedAddressing, p.unifiedAddressing},
        {cudaDevAttrComputeCapabilityMajor, p.major},
        {cudaDevAttrComputeCapabilityMinor, p.minor},
        {cudaDevAttrCooperativeLaunch, p.cooperativeLaunch},
        {cudaDevAttrClusterLaunch, p.clusterLaunch},
    };
    for (const auto &k : known) {
        if (k.attribute == attribute) {
            *value = k.value;
            return cudaSuccess;
        }
    }
    return fail(cudaErrorInvalidValue, "cudaDeviceGetAttribute: attribute %d is unknown here",
                (int)attribute);
}

cudaError_t cudaDeviceSynchronize(void) {
    HOSTCUDA_BEGIN();
    return drain_all();
}

/* Removes everything, and reads the environment again. */
cudaError_t cudaDeviceReset(void) {
    release_streams();
    release_memory();
    release_kernels();
    race::reset_order();
    now() = read_environment();
    current_device = 0;
    return cudaSuccess;
}

cudaError_t cudaPeekAtLastError(void) {
    return now().last;
}

cudaError_t cudaGetLastError(void) {
    const cudaError_t last = now().last;
    now().last = now().sticky;
    return last;
}

const char *cudaGetErrorString(cudaError_t error) {
    switch (error) {
#define X(name, number, text)                                                                      \
    case name:                                                                                     \
        return text;
        HOSTCUDA_ERRORS(X)
#undef X
    }
    return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define X(name, number, text)                                                                      \
    case name:                                                                                     \
        return #name;
        HOSTCUDA_ERRORS(X)
#undef X
    }
    return "unrecognized error code";
}
}
