/* Device memory and pinned host memory. Each allocation is a separate mapping that ends at a
   page's end, between protected pages: an access beyond it ends the program (the core dump has
   fiber and kernel), and one into the rounding bytes is found later. Host code cannot access
   device memory while no kernel or copy runs. */
#include "race.h"
#include <map>
#include <sys/mman.h>
#include <unistd.h>

namespace hostcuda {

namespace {

constexpr size_t ALIGNMENT = 256;
constexpr size_t RED_ZONE = 256;
constexpr unsigned char RED = 0xb6;

struct allocation {
    char *mapping, *body; /* the body is between two guard pages */
    size_t mapped, whole; /* bytes of both */
    size_t size;
    side where;
    int device;
};

std::map<char *, allocation> allocations; /* by address */
std::map<int, size_t> used;               /* bytes on each device */
unsigned accesses;

size_t rounded(size_t size, size_t unit) {
    return (size + unit - 1) / unit * unit;
}

void allow(const allocation &a, bool yes) {
    if (a.where == side::device) {
        mprotect(a.body, a.whole, yes ? PROT_READ | PROT_WRITE : PROT_NONE);
    }
}

/* Bytes right before the allocation, and all after it. */
template <typename Visit> void red_zones(char *at, const allocation &a, Visit visit) {
    const size_t before = min((size_t)(at - a.body), RED_ZONE);
    visit(at - before, before);
    visit(at + a.size, (size_t)(a.body + a.whole - (at + a.size)));
}

const char *kind(side where) {
    return where == side::device ? "device" : "pinned";
}

/* A protected mapping. A GPU simulator (simulate.h) uses 32 bits of an address, and treats those
   below its heap as shared and local memory. */
void *map_pages(size_t size) {
    constexpr uintptr_t HEAP = 0xd0000000, HEAP_END = 0xfff00000;
    static uintptr_t next = HEAP;
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    if (!setting().simulator) {
        return mmap(nullptr, size, PROT_NONE, flags, -1, 0);
    }
    void *at = MAP_FAILED;
    if (size <= HEAP_END - next) {
        at = mmap((void *)next, size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
        next += size;
    }
    return at;
}

/* `made`: the code that requested it. */
char *map_new(size_t size, side where, const void *made) {
    watch_accesses();
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    allocation a;
    a.size = size;
    a.whole = rounded(rounded(size, ALIGNMENT), page);
    a.mapped = a.whole + 2 * page;
    a.where = where;
    a.device = device();
    void *mapping = map_pages(a.mapped);
    if (mapping == MAP_FAILED) {
        return nullptr;
    }
    a.mapping = (char *)mapping;
    a.body = a.mapping + page;
    if (mprotect(a.body, a.whole, PROT_READ | PROT_WRITE) != 0) {
        munmap(mapping, a.mapped);
        return nullptr;
    }
    char *at = a.body + a.whole - rounded(size, ALIGNMENT);
    red_zones(at, a, [](char *zone, size_t bytes) {
        memset(zone, RED, bytes);
        ASAN_POISON_MEMORY_REGION(zone, bytes);
    });
    poison(at, size);
    allow(a, accesses > 0);
    allocations[at] = a;
    race::watch_memory(at, size, kind(where), made);
    return at;
}

void unmap(char *at, const allocation &a) {
    red_zones(at, a, [](char *zone, size_t bytes) { ASAN_UNPOISON_MEMORY_REGION(zone, bytes); });
    munmap(a.mapping, a.mapped);
}

/* The allocation whose mapping contains `at`. */
std::map<char *, allocation>::iterator find(const void *at) {
    for (auto i = allocations.begin(); i != allocations.end(); ++i) {
        const allocation &a = i->second;
        if ((const char *)at >= a.mapping && (const char *)at < a.mapping + a.mapped) {
            return i;
        }
    }
    return allocations.end();
}

cudaError_t pin(void **pointer, size_t size, const void *made) {
    *pointer = nullptr;
    if (size > 0) {
        *pointer = map_new(size, side::host, made);
    }
    return size > 0 && !*pointer ? note(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t free_one(const char *function, void *at, side where) {
    if (!at) {
        return cudaSuccess;
    }
    cudaError_t error = drain_all();
    if (error == cudaSuccess) {
        error = check_red_zones();
    }
    auto found = allocations.find((char *)at);
    if (found == allocations.end() || found->second.where != where) {
        return fail(cudaErrorInvalidValue, "%s: %p is no start of %s memory", function, at,
                    kind(where));
    }
    if (where == side::device) {
        used[found->second.device] -= rounded(found->second.size, ALIGNMENT);
    }
    race::forget_memory(at);
    unmap(found->first, found->second);
    allocations.erase(found);
    return error;
}

} // namespace

access::access() {
    if (accesses++ == 0) {
        watch_accesses();
        for (auto &entry : allocations) {
            allow(entry.second, true);
        }
    }
}

access::~access() {
    if (--accesses == 0) {
        for (auto &entry : allocations) {
            allow(entry.second, false);
        }
    }
}

bool within(const char *what, side where, const void *at, size_t size) {
    if (size == 0) {
        return true;
    }
    auto found = find(at);
    if (found == allocations.end()) {
        if (where == side::host && at) {
            return true; /* memory unknown to the runtime */
        }
        fail(cudaErrorInvalidValue, "%s: %p is no memory of the device", what, at);
        return false;
    }
    const allocation &a = found->second;
    if (where == side::host && a.where == side::device) {
        fail(cudaErrorInvalidValue, "%s: %p is the device's, not the host's", what, at);
        return false;
    }
    const char *start = found->first;
    if ((const char *)at < start || (const char *)at + size > start + a.size) {
        fail(cudaErrorInvalidValue, "%s: %zu bytes from byte %td of %zu bytes of %s memory", what,
             size, (const char *)at - start, a.size, kind(a.where));
        return false;
    }
    return true;
}

bool is_pinned(const void *at) {
    auto found = find(at);
    return found != allocations.end() && found->second.where == side::host;
}

bool is_device(const void *at) {
    auto found = find(at);
    return found != allocations.end() && found->second.where == side::device;
}

void each_allocation(const std::function<void(char *at, size_t size)> &visit) {
    for (auto &entry : allocations) {
        visit(entry.first, entry.second.size);
    }
}

cudaError_t check_red_zones() {
#if !defined(__SANITIZE_ADDRESS__)
    const access open;
    for (auto &entry : allocations) {
        bool whole = true;
        red_zones(entry.first, entry.second, [&](char *zone, size_t bytes) {
            for (size_t i = 0; i < bytes; ++i) {
                whole = whole && (unsigned char)zone[i] == RED;
            }
        });
        if (!whole) {
            return fault(cudaErrorIllegalAddress, "somebody wrote around %zu bytes of %s memory",
                         entry.second.size, kind(entry.second.where));
        }
    }
#endif
    return cudaSuccess;
}

void release_memory() {
    for (auto &entry : allocations) {
        race::forget_memory(entry.first);
        unmap(entry.first, entry.second);
    }
    allocations.clear();
    used.clear();
}

} // namespace hostcuda

using namespace hostcuda;

extern "C" {

cudaError_t cudaMemGetInfo(size_t *free, size_t *total) {
    HOSTCUDA_BEGIN();
    *total = setting().memory;
    *free = *total - used[device()];
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **pointer, size_t size) {
    HOSTCUDA_BEGIN();
    *pointer = nullptr;
    if (size == 0) {
        return cudaSuccess;
    }
    if (size > setting().memory || rounded(size, ALIGNMENT) > setting().memory - used[device()]) {
        return note(cudaErrorMemoryAllocation);
    }
    *pointer = map_new(size, side::device, __builtin_return_address(0));
    if (!*pointer) {
        return note(cudaErrorMemoryAllocation);
    }
    used[device()] += rounded(size, ALIGNMENT);
    return cudaSuccess;
}

cudaError_t cudaFree(void *pointer) {
    HOSTCUDA_BEGIN();
    return free_one(__func__, pointer, side::device);
}

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags) {
    HOSTCUDA_BEGIN();
    if (flags &
        ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined)) {
        return fail(cudaErrorInvalidValue, "cudaHostAlloc: unknown flags %#x", flags);
    }
    return pin(pointer, size, __builtin_return_address(0));
}

cudaError_t cudaMallocHost(void **pointer, size_t size) {
    HOSTCUDA_BEGIN();
    return pin(pointer, size, __builtin_return_address(0));
}

cudaError_t cudaFreeHost(void *pointer) {
    HOSTCUDA_BEGIN();
    return free_one(__func__, pointer, side::host);
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
    HOSTCUDA_BEGIN();
    if (flags != 0 || !is_pinned(host)) {
        return fail(cudaErrorInvalidValue, "cudaHostGetDevicePointer: %p is not pinned", host);
    }
    *device = host;
    return cudaSuccess;
}
}
