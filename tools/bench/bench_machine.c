#include "bench_machine.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <unistd.h>

#include "ceilings.h"
#include "common/error.h"

const char *const machine_level_names[LEVELS] = {"L1", "L2", "L3", "memory"};

enum {
    SLICES = 8,              /* in a round, each about as long as a small network's cycle */
    OPERATIONS_ROUNDS = 250, /* about 40 us */
    SLICE_BYTES = 4 << 20,   /* least bytes read of a cache in one slice */
    WARM_UP = 16,            /* passes before timing, while the cache has other data */
    HUGE_PAGE = 2 << 20,
    CACHE_INDEXES = 16,
    CACHE_PATH_SIZE = 96,
    MEMORY_MAX = 128 << 20,
};

/* A number such as "512K" from a file of the kernel; 0 if missing. */
static size_t read_size(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    unsigned long value = 0;
    char unit = 0;
    int got = fscanf(file, "%lu%c", &value, &unit);
    fclose(file);
    if (got < 1)
        return 0;
    return unit == 'K' ? value << 10 : unit == 'M' ? value << 20 : value;
}

static bool is_instruction_cache(const char *path) {
    char type[16] = "";
    FILE *file = fopen(path, "r");
    if (!file)
        return true;
    if (!fgets(type, sizeof type, file))
        type[0] = '\0';
    fclose(file);
    return strncmp(type, "Instruction", strlen("Instruction")) == 0;
}

static void cache_path(char path[CACHE_PATH_SIZE], int index, const char *file) {
    snprintf(path, CACHE_PATH_SIZE, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, file);
}

/* The caches of the first processor, from Linux. */
static void read_capacities(struct machine *machine) {
    for (int index = 0; index < CACHE_INDEXES; index++) {
        char path[CACHE_PATH_SIZE];
        cache_path(path, index, "type");
        if (is_instruction_cache(path))
            continue;
        cache_path(path, index, "level");
        size_t level = read_size(path);
        cache_path(path, index, "size");
        if (level >= 1 && level <= LEVEL_L3 + 1)
            machine->capacity[level - 1] = read_size(path);
    }
}

static void read_processor(struct machine *machine) {
    snprintf(machine->processor, sizeof machine->processor, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) != 0 || !colon)
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(machine->processor, sizeof machine->processor, "%.60s", colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

static size_t round_down(size_t size) {
    const size_t unit = CEILINGS_MULTIPLE * sizeof(float);
    return size / unit * unit;
}

/* Buffers well inside their level and well outside the previous one. */
static void choose_buffers(struct machine *machine) {
    size_t memory = 4 * machine->capacity[LEVEL_L3];
    machine->buffer_size[LEVEL_L1] = round_down(machine->capacity[LEVEL_L1] / 2);
    machine->buffer_size[LEVEL_L2] = round_down(machine->capacity[LEVEL_L2] / 2);
    size_t third = machine->capacity[LEVEL_L3] / 4, twice = 2 * machine->capacity[LEVEL_L2];
    machine->buffer_size[LEVEL_L3] = round_down(third > twice ? third : twice);
    machine->buffer_size[LEVEL_MEMORY] = round_down(memory > MEMORY_MAX ? MEMORY_MAX : memory);
}

static const struct ceilings *find_loops(const char *instructions) {
#ifdef RUNNEL_X86
    if (strcmp(instructions, ceilings_avx512.name) == 0)
        return &ceilings_avx512;
    if (strcmp(instructions, ceilings_avx2.name) == 0)
        return &ceilings_avx2;
#else
    (void)instructions;
#endif
    return &ceilings_baseline;
}

void machine_open(struct machine *machine, const char *instructions) {
    static const size_t assumed[LEVELS] = {32 << 10, 1 << 20, 32 << 20, SIZE_MAX};
    machine->loops = find_loops(instructions);
    machine->reported = true;
    stopwatch_open(&machine->stopwatch, false);
    read_processor(machine);
    read_capacities(machine);
    machine->capacity[LEVEL_MEMORY] = SIZE_MAX;
    for (int level = 0; level < LEVELS; level++)
        if (machine->capacity[level] == 0) {
            machine->capacity[level] = assumed[level];
            machine->reported = false;
        }
    choose_buffers(machine);
}

/* Uses huge pages if available: a ceiling is the machine's best speed. */
static int open_buffers(struct machine *machine, struct error *error) {
    for (int level = 0; level < LEVELS && !machine->buffers[LEVEL_MEMORY]; level++) {
        size_t size = machine->buffer_size[level];
        void *mapped = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED)
            return error_set(error, EX_OSERR, "out of memory for a buffer of %zu MiB", size >> 20);
        machine->mapped[level] = mapped;
        uintptr_t start = ((uintptr_t)mapped + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        madvise((void *)start, size, MADV_HUGEPAGE);
        machine->buffers[level] = (float *)start;
        for (size_t i = 0; i < size / sizeof(float); i++)
            machine->buffers[level][i] = 1.0f;
    }
    return 0;
}

static void measure_level(struct machine *machine, int level) {
    const struct ceilings *loops = machine->loops;
    size_t size = machine->buffer_size[level], n = size / sizeof(float);
    size_t rounds = SLICE_BYTES / size + 1;
    float *buffer = machine->buffers[level];
    if (level != LEVEL_MEMORY)
        loops->read(buffer, n, WARM_UP);
    for (int slice = 0; slice < (level == LEVEL_MEMORY ? 1 : SLICES); slice++) {
        stopwatch_lap(&machine->stopwatch);
        loops->read(buffer, n, rounds);
        series_add(&machine->read[level],
                   (double)(rounds * size) / stopwatch_lap(&machine->stopwatch));
        loops->update(buffer, n, rounds);
        series_add(&machine->update[level],
                   2.0 * (double)(rounds * size) / stopwatch_lap(&machine->stopwatch));
    }
}

int machine_round(struct machine *machine, struct error *error) {
    if (open_buffers(machine, error))
        return -1;
    for (int slice = 0; slice < SLICES; slice++) {
        stopwatch_lap(&machine->stopwatch);
        double operations = machine->loops->multiply_add(OPERATIONS_ROUNDS);
        series_add(&machine->multiply_add, operations / stopwatch_lap(&machine->stopwatch));
    }
    for (int level = 0; level < LEVELS; level++)
        measure_level(machine, level);
    return 0;
}

void machine_close(struct machine *machine) {
    for (int level = 0; level < LEVELS; level++)
        if (machine->mapped[level])
            munmap(machine->mapped[level], machine->buffer_size[level] + HUGE_PAGE);
}

struct machine_figures machine_figures(struct machine *machine) {
    struct machine_figures figures = {.multiply_add =
                                          series_figure(&machine->multiply_add, 1 - QUIET)};
    for (int level = 0; level < LEVELS; level++) {
        figures.read[level] = series_figure(&machine->read[level], 1 - QUIET);
        figures.update[level] = series_figure(&machine->update[level], 1 - QUIET);
    }
    return figures;
}
