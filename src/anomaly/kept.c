#include "kept.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/finite.h"
#include "habit.h"

#define NEAR 1.0 /* seconds: users read times in whole seconds */

size_t kept_size(size_t columns) {
    return (sizeof(struct kept) + columns * KEPT_ALARMS * sizeof(struct kept_contexts)) /
           sizeof(double);
}

static struct kept_contexts *contexts_of(struct kept *kept, size_t k, size_t alarm) {
    return (struct kept_contexts *)(void *)(kept + 1) + k * KEPT_ALARMS + alarm;
}

static const struct kept_contexts *contexts_in(const struct kept *kept, size_t k, size_t alarm) {
    return (const struct kept_contexts *)(const void *)(kept + 1) + k * KEPT_ALARMS + alarm;
}

static size_t newest_of(const struct kept *kept) {
    return ((size_t)kept->next + KEPT_ALARMS - 1) % KEPT_ALARMS;
}

void kept_add(struct kept *kept, size_t columns, const struct kept_alarm *alarm) {
    size_t at = (size_t)kept->next;
    kept->alarms[at] = *alarm;
    kept->next = (double)((at + 1) % KEPT_ALARMS);
    for (size_t k = 0; k < columns; k++)
        memset(contexts_of(kept, k, at), 0, sizeof(struct kept_contexts));
}

static void remember(const double *context, const struct novelty_memory *memory) {
    float numbers[NOVELTY_CONTEXT];
    for (size_t n = 0; n < NOVELTY_CONTEXT; n++)
        numbers[n] = (float)context[n];
    novelty_remember(memory, numbers);
}

static double *append(struct kept *kept, size_t k, size_t alarm, const struct novelty *novelty,
                      const float *floats) {
    struct kept_contexts *of = contexts_of(kept, k, alarm);
    double *context = of->contexts[(size_t)of->count++];
    const float *newest = novelty_newest(novelty, floats);
    for (size_t n = 0; n < NOVELTY_CONTEXT; n++)
        context[n] = (double)newest[n];
    return context;
}

void kept_first(struct kept *kept, size_t k, const struct novelty *novelty, const float *floats) {
    append(kept, k, newest_of(kept), novelty, floats);
}

void kept_take(struct kept *kept, size_t k, double steps, const struct novelty *novelty,
               const float *floats, const struct novelty_memory *memory) {
    for (size_t a = 0; a < KEPT_ALARMS; a++) {
        const struct kept_alarm *alarm = &kept->alarms[a];
        if (alarm->steps == 0 || steps - alarm->steps >= KEPT_STEPS)
            continue;
        const double *context = append(kept, k, a, novelty, floats);
        if (alarm->normal == 1)
            remember(context, memory);
    }
}

size_t kept_find(const struct kept *kept, double at) {
    size_t newest = newest_of(kept), found = KEPT_ALARMS;
    double near = NEAR;
    if (isnan(at))
        return kept->alarms[newest].steps > 0 ? newest : KEPT_ALARMS;
    for (size_t n = 0; n < KEPT_ALARMS; n++) {
        size_t a = (newest + KEPT_ALARMS - n) % KEPT_ALARMS;
        double distance = fabs(kept->alarms[a].time - at);
        if (kept->alarms[a].steps == 0 || kept->alarms[a].time == 0 || !(distance < near))
            continue;
        near = distance;
        found = a;
    }
    return found;
}

void kept_enter(const struct kept *kept, size_t alarm, size_t k,
                const struct novelty_memory *memory) {
    const struct kept_contexts *of = contexts_in(kept, k, alarm);
    for (size_t n = 0; n < (size_t)of->count; n++)
        remember(of->contexts[n], memory);
}

/* ---- Checkpoints ---- */

static bool contexts_valid(const struct kept_contexts *of) {
    bool valid = habit_is_count(of->count) && of->count <= KEPT_STEPS;
    for (size_t n = 0; n < KEPT_STEPS; n++)
        for (size_t i = 0; i < NOVELTY_CONTEXT; i++)
            valid &= fabs(of->contexts[n][i]) <= (double)FLT_MAX;
    return valid;
}

bool kept_valid(const struct kept *kept, size_t columns) {
    bool valid = habit_is_count(kept->next) && kept->next < KEPT_ALARMS;
    for (size_t a = 0; valid && a < KEPT_ALARMS; a++) {
        const struct kept_alarm *alarm = &kept->alarms[a];
        valid = habit_is_count(alarm->steps) && isfinite(alarm->time) && alarm->time >= 0 &&
                fabs(alarm->score) <= FINITE_MOST && (alarm->normal == 0 || alarm->normal == 1);
        for (size_t k = 0; valid && k < columns; k++)
            valid = contexts_valid(contexts_in(kept, k, a));
    }
    return valid;
}
