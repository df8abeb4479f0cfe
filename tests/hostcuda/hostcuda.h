/* Internal functions shared by the runtime's files. Only one thread at a time may call them. */
#ifndef HOSTCUDA_HOSTCUDA_H
#define HOSTCUDA_HOSTCUDA_H

#include "cuda_runtime.h"
#include <memory>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#    include <sanitizer/asan_interface.h>
#else
#    define ASAN_POISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#    define ASAN_UNPOISON_MEMORY_REGION(at, size) ((void)(at), (void)(size))
#endif

/* The one array behind `extern __shared__ float shared_memory[]`, and a guard after it. */
extern float shared_memory[];

namespace hostcuda {

/* A signalling NaN: the content of uninitialized memory. */
constexpr uint32_t POISON = 0x7fa00000u;
constexpr size_t SHARED_DEFAULT = 48 << 10;
constexpr size_t SHARED_LIMIT = 227 << 10;
constexpr size_t SHARED_MULTIPROCESSOR = 228 << 10;
constexpr size_t SHARED_RESERVED = 1 << 10;
constexpr unsigned THREADS_LIMIT = 1024;

void poison(void *at, size_t size);

/* ---- device.cpp: settings, errors ---- */

struct settings {
    uint64_t seed;                                    /* 0: natural order */
    int devices, driver, multiprocessors, capability; /* 90: 9.0 */
    unsigned threads;                                 /* threads of a block, for any kernel */
    size_t memory;
    bool trace;
    const char *simulator; /* nullptr: launches are not simulated */
};
const settings &setting();
int device();

/* A number below `limit`, from the seed. */
uint64_t chance(uint64_t limit);

/* Begins every call of the runtime: an error without device or driver, after an earlier sticky
   error, or if HOSTCUDA_FAIL requests one. */
cudaError_t begin(const char *function);

/* An error of this call: reports it on stderr, stores it for cudaGetLastError, and returns it. */
cudaError_t fail(cudaError_t error, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Does the same without a report: for errors without misuse. */
cudaError_t note(cudaError_t error);

/* A device error: reports it; every later call also returns it, until cudaDeviceReset. */
cudaError_t fault(cudaError_t error, const char *format, ...) __attribute__((format(printf, 2, 3)));
void report(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Reports since the program's start or cudaDeviceReset, line by line. */
const std::string &reports();

/* "name (file+0xoffset)" of an address in code. */
const std::string &place(const void *address);

/* Traces the first call of the function at an address by a kernel. */
void called(const void *address);

/* A function's name without what it returns and its parameters. Arguments of a template stay: a
   kernel may have several instances. */
std::string without_types(std::string name);

/* The same of a mangled name. */
std::string readable(const char *symbol);

/* ---- grid.cpp: one launch ---- */

struct launch {
    const void *kernel;
    std::function<void()> body;
    std::vector<const void *> arguments; /* each parameter of the kernel, in the body */
    dim3 grid, block, cluster;
    size_t shared;
    bool cooperative;
};
cudaError_t run(const launch &work);

/* ---- memory.cpp ---- */

/* Device memory is accessible while one of these lives; otherwise host code cannot access it. */
struct access {
    access();
    ~access();
    access(const access &) = delete;
    access &operator=(const access &) = delete;
};
/* Reports later bad accesses before they end the program (crash.cpp). */
void watch_accesses();

enum class side { device, host };

/* Whether [at, at + size) is on that side, within one allocation; reports `what` otherwise. */
bool within(const char *what, side where, const void *at, size_t size);
bool is_pinned(const void *at);
bool is_device(const void *at);
void each_allocation(const std::function<void(char *at, size_t size)> &visit);
cudaError_t check_red_zones();
void release_memory();

/* ---- stream.cpp ---- */

/* Enqueues `work` in `stream`. */
cudaError_t enqueue(cudaStream_t stream, std::function<cudaError_t()> work);

/* Whether the stream belongs to the current device, as a launch requires. */
bool is_current(cudaStream_t stream);

/* Runs all work of the stream, or of all streams. */
cudaError_t drain(cudaStream_t stream);
cudaError_t drain_all();
void release_streams();
void release_kernels();

} // namespace hostcuda

/* The first line of every CUDA function. */
#define HOSTCUDA_BEGIN()                                                                           \
    do {                                                                                           \
        if (cudaError_t begun = hostcuda::begin(__func__)) {                                       \
            return begun;                                                                          \
        }                                                                                          \
    } while (0)

#endif
