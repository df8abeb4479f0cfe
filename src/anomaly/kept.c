#include "kept.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "common/finite.h"
#include "habit.h"

#define NUMBERS(type) (sizeof(type) / sizeof(double))
#define NEAR 1.0 /* seconds: users read times in whole seconds */

size_t kept_size(size_t columns, size_t width) {
    return NUMBERS(struct kept) + columns * KEPT_ALARMS * (1 + KEPT_STEPS * width);
}

double *kept_steps(const struct kept *kept, size_t width, size_t k, size_t alarm) {
    const double *first = (const double *)(const void *)(kept + 1);
    return (double *)first + (k * KEPT_ALARMS + alarm) * (1 + KEPT_STEPS * width);
}

double *kept_append(struct kept *kept, size_t width, size_t k, size_t alarm) {
    double *steps = kept_steps(kept, width, k, alarm), before = fmin(*steps, KEPT_STEPS - 1);
    *steps = before + 1;
    return steps + 1 + (size_t)before * width;
}

bool kept_takes(const struct kept *kept, size_t alarm, double steps) {
    return kept->alarms[alarm].steps > 0 && steps - kept->alarms[alarm].steps < KEPT_STEPS;
}

static size_t newest_of(const struct kept *kept) {
    return ((size_t)kept->next + KEPT_ALARMS - 1) % KEPT_ALARMS;
}

void kept_add(struct kept *kept, size_t columns, size_t width, const struct kept_alarm *alarm) {
    size_t at = (size_t)kept->next;
    kept->alarms[at] = *alarm;
    kept->next = (double)((at + 1) % KEPT_ALARMS);
    for (size_t k = 0; k < columns; k++)
        memset(kept_steps(kept, width, k, at), 0, (1 + KEPT_STEPS * width) * sizeof(double));
}

static void remember(const double *context, const struct novelty_memory *memory) {
    float numbers[NOVELTY_CONTEXT];
    for (size_t n = 0; n < NOVELTY_CONTEXT; n++)
        numbers[n] = (float)context[n];
    novelty_remember(memory, numbers);
}

static double *append_context(struct kept *kept, size_t k, size_t alarm,
                              const struct novelty *novelty, const float *floats) {
    double *context = kept_append(kept, NOVELTY_CONTEXT, k, alarm);
    const float *newest = novelty_newest(novelty, floats);
    for (size_t n = 0; n < NOVELTY_CONTEXT; n++)
        context[n] = (double)newest[n];
    return context;
}

void kept_first(struct kept *kept, size_t k, const struct novelty *novelty, const float *floats) {
    append_context(kept, k, newest_of(kept), novelty, floats);
}

void kept_take(struct kept *kept, size_t k, double steps, const struct novelty *novelty,
               const float *floats, const struct novelty_memory *memory) {
    for (size_t a = 0; a < KEPT_ALARMS; a++) {
        if (!kept_takes(kept, a, steps))
            continue;
        const double *context = append_context(kept, k, a, novelty, floats);
        if (kept->alarms[a].normal == 1)
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
    const double *steps = kept_steps(kept, NOVELTY_CONTEXT, k, alarm);
    for (size_t n = 0; n < (size_t)*steps; n++)
        remember(steps + 1 + n * NOVELTY_CONTEXT, memory);
}

/* ---- Checkpoints ---- */

static bool steps_valid(const double *steps, size_t width) {
    return habit_is_count(*steps) && *steps <= KEPT_STEPS &&
           finite_within(steps + 1, KEPT_STEPS * width, (double)FLT_MAX);
}

bool kept_valid(const struct kept *kept, size_t columns, size_t width, double steps) {
    bool valid = habit_is_count(kept->next) && kept->next < KEPT_ALARMS;
    for (size_t a = 0; valid && a < KEPT_ALARMS; a++) {
        const struct kept_alarm *alarm = &kept->alarms[a];
        valid = habit_is_count(alarm->steps) && alarm->steps <= steps && isfinite(alarm->time) &&
                alarm->time >= 0 && fabs(alarm->score) <= FINITE_MOST &&
                (alarm->normal == 0 || alarm->normal == 1);
        for (size_t k = 0; valid && k < columns; k++)
            valid = steps_valid(kept_steps(kept, width, k, a), width);
    }
    return valid;
}
