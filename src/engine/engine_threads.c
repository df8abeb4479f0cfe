#include "engine_threads.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/machine.h"
#include "common/threads.h"
#include "config/config.h"

/* Least work (parameters times steps of all plans) for which threads pay: they need some 15 us
   to meet, and this is three multiply-adds each. */
enum { LEAST_WORK = 1 << 16 };

/* ---- Number and CPUs of threads ---- */

/* Reads CPUs from a valid text, "0,2-5", into `cpus` (THREADS_CPUS_MAX,). */
static size_t read_cpus(const char *text, int *cpus) {
    size_t count = 0;
    for (const char *c = text; *c;) {
        char *end;
        long first = strtol(c, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long cpu = first; cpu <= last && count < THREADS_CPUS_MAX; cpu++)
            cpus[count++] = (int)cpu;
        c = *end ? end + 1 : end;
    }
    return count;
}

size_t engine_threads_default(size_t networks, size_t cpus, double quota) {
    if (quota < (double)cpus) /* a second thread would wait with 1.5 CPUs */
        cpus = (size_t)quota;
    size_t most = cpus > 1 ? cpus - 1 : 1;
    size_t count = networks < most ? networks : most;
    return count < 1 ? 1 : count < THREADS_MAX ? count : THREADS_MAX;
}

size_t engine_threads_count(const struct config *config) {
    size_t networks = config->members_given ? config->member_count : 1;
    return config->threads.count
               ? config->threads.count
               : engine_threads_default(networks, threads_cpus(NULL), machine_cpus(machine_root()));
}

static int check_pins(const char *pin, size_t threads, size_t cpus, bool listed,
                      struct error *error) {
    if (threads <= cpus)
        return 0;
    return error_set(error, EX_CONFIG,
                     "learning.pin: %s has %zu CPUs, fewer than learning.threads: %zu; lower "
                     "learning.threads, or %s",
                     pin, cpus, threads, listed ? "list more" : "let the daemon use more CPUs");
}

int engine_threads_open(struct threads **threads, const struct config *config,
                        const struct engine_ops *ops, struct error *error) {
    int cpus[THREADS_CPUS_MAX];
    const char *pin = config->threads.pin;
    bool pinned = *pin && strcmp(pin, "false") != 0, listed = pinned && strcmp(pin, "true") != 0;
    size_t count = engine_threads_count(config), available = threads_cpus(cpus);
    struct error why;
    *threads = NULL;
    if (ops->play_together) /* a device plays all of them in parallel, from this thread */
        return 0;
    if (listed)
        available = read_cpus(pin, cpus);
    if (listed && !config->threads.count && count > available)
        count = available;
    if (pinned && check_pins(pin, count, available, listed, error))
        return -1;
    if (count == 1 && !pinned)
        return 0;
    if (threads_open(threads, count, pinned ? cpus : NULL, &why) == 0)
        return 0;
    return error_set(error, why.status, "%s: %s", pinned ? "learning.pin" : "learning.threads",
                     why.text);
}

/* ---- Playing ---- */

struct playing {
    const struct engine_ops *ops;
    const struct engine_part *parts;
    int status[THREADS_PARTS_MAX];
    struct error errors[THREADS_PARTS_MAX];
};

static void play_part(void *context, size_t part) {
    struct playing *p = context;
    const struct engine_part *one = &p->parts[part];
    p->status[part] = p->ops->play(one->engine, one->plan, one->results, &p->errors[part]);
}

static int play_in_turn(const struct engine_ops *ops, const struct engine_part *parts, size_t count,
                        struct error *error) {
    for (size_t n = 0; n < count; n++)
        if (ops->play(parts[n].engine, parts[n].plan, parts[n].results, error))
            return -1;
    return 0;
}

int engine_threads_play(struct threads *threads, const struct engine_ops *ops,
                        const struct engine_part *parts, size_t count, size_t work,
                        struct error *error) {
    _Static_assert((int)CONFIG_MEMBERS_MAX <= (int)THREADS_PARTS_MAX, "a part for each member");
    threads_pin_caller(threads);
    if (count > 1 && ops->play_together)
        return ops->play_together(parts, count, error);
    if (count < 2 || threads_count(threads) < 2 || work < LEAST_WORK)
        return play_in_turn(ops, parts, count, error);
    struct playing playing; /* holds 64 errors, few of which are used */
    playing.ops = ops;
    playing.parts = parts;
    threads_run(threads, play_part, &playing, count);
    for (size_t n = 0; n < count; n++)
        if (playing.status[n]) {
            *error = playing.errors[n];
            return -1;
        }
    return 0;
}
