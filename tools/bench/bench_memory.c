#include "bench_memory.h"

#include <stdio.h>
#ifdef __GLIBC__
#    include <malloc.h>
#endif

#include "config/config.h"
#include "model/rule.h"

static const size_t EXPERTS = 13000000;  /* of symbols, besides their table */
static const size_t OVERHEAD = 48000000; /* program, libraries, and their queued messages */

static uint64_t allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);

/* The sender and the learner allocate in different threads. */
static void count(void) {
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
}

void *__wrap_malloc(size_t size) {
    count();
    return __real_malloc(size);
}

void *__wrap_calloc(size_t number, size_t size) {
    count();
    return __real_calloc(number, size);
}

void *__wrap_realloc(void *memory, size_t size) {
    count();
    return __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    count();
    return __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size) {
    count();
    return __real_posix_memalign(memory, alignment, size);
}

uint64_t bench_allocations(void) {
    return __atomic_load_n(&allocations, __ATOMIC_RELAXED);
}

size_t bench_heap(void) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#else
    return 0;
#endif
}

struct resident bench_resident(pid_t process) {
    struct resident resident = {0, 0};
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)process);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        unsigned long kib;
        if (sscanf(line, "VmRSS: %lu kB", &kib) == 1)
            resident.now = kib << 10;
        else if (sscanf(line, "VmHWM: %lu kB", &kib) == 1)
            resident.peak = kib << 10;
    }
    if (file)
        fclose(file);
    return resident;
}

size_t bench_memory_bound(const struct config *config, const struct model *model, size_t streams,
                          size_t members) {
    size_t blocks = 1 + optimizer_moments(&config->learning.optimizer) + 1;
    size_t windows = streams * (slot_record_size(model, config->learning.window) +
                                rule_record_size(model, config->learning.rule));
    size_t network = sizeof(float) * (model->parameters * blocks + windows);
    size_t table =
        config->preset == PRESET_SYMBOLS ? config->symbols.memory / 16 * 17 + EXPERTS : 0;
    return (members ? members : 1) * network + table + OVERHEAD;
}
