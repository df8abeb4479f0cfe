#include "statistics.h"

#include <math.h>
#include <string.h>

#include "activities.h"

static void tally_add(struct tally *t, double value) {
    t->minimum = t->count == 0 || value < t->minimum ? value : t->minimum;
    t->maximum = t->count == 0 || value > t->maximum ? value : t->maximum;
    t->count++;
    t->sum += value;
    t->squares += value * value;
}

void tally_numbers(struct tally *t, struct values n) {
    for (size_t row = 0; row < n.rows; row++)
        for (size_t i = 0; i < n.size; i++)
            tally_add(t, (double)n.at[row * n.stride + i]);
}

static struct tally tally_of(struct values n) {
    struct tally t = {0};
    tally_numbers(&t, n);
    return t;
}

static struct mean_std mean_std(const struct tally *t) {
    if (t->count == 0)
        return (struct mean_std){0, 0};
    double mean = t->sum / t->count, variance = t->squares / t->count - mean * mean;
    return (struct mean_std){mean, variance > 0 ? sqrt(variance) : 0};
}

static struct mean_std sum_statistics(struct values n) {
    struct tally t = tally_of(n);
    return mean_std(&t);
}

static struct unit_statistics units(struct values n, double limit) {
    struct tally t = tally_of(n);
    struct mean_std m = mean_std(&t);
    size_t beyond = 0;
    for (size_t i = 0; i < n.size; i++)
        beyond += fabs((double)n.at[i]) > limit;
    return (struct unit_statistics){m.mean,    m.std,           t.minimum,
                                    t.maximum, sqrt(t.squares), (double)beyond / (double)n.size};
}

static struct parameter_statistics parameters(const struct tally *t) {
    struct mean_std m = mean_std(t);
    return (struct parameter_statistics){m.mean, m.std, t->minimum, t->maximum};
}

static struct parameter_statistics vectors(const struct values at[PLACES]) {
    struct tally t = {0};
    for (size_t place = 0; place < PLACES; place++)
        tally_numbers(&t, at[place]);
    return parameters(&t);
}

static struct activity_statistics activity(const double *head, double age, size_t size) {
    const double *a = head + ACTIVITY_HEAD + size;
    size_t dormant = 0, saturated = 0;
    double mean = 0;
    for (size_t i = 0; i < size; i++)
        mean += a[i] / (double)size;
    for (size_t i = 0; i < size; i++) {
        dormant += a[i] <= ACTIVITY_DORMANT * mean;
        saturated += a[i] > ACTIVITY_SATURATED;
    }
    return activity_statistics(head, age, (double)dormant / (double)size,
                               (double)saturated / (double)size);
}

static void histogram(struct values n, uint32_t bins[MEASURE_BINS]) {
    for (size_t i = 0; i < n.size; i++) {
        double bin = floor(((double)n.at[i] + 1) / 2 * MEASURE_BINS);
        bins[bin >= MEASURE_BINS ? MEASURE_BINS - 1 : bin > 0 ? (size_t)bin : 0]++;
    }
}

void statistics_compute(const struct measured *from, struct layer_statistics *to) {
    memset(to, 0, sizeof *to);
    to->summed_inputs = sum_statistics(from->summed_inputs);
    to->summed_recurrent = sum_statistics(from->summed_recurrent);
    to->hidden = units(from->hidden, ENGINE_SATURATED_HIDDEN);
    if (from->cell.rows)
        to->cell = units(from->cell, ENGINE_SATURATED_CELL);
    to->units = activity(from->activity, from->age, from->hidden.size);
    to->weights = activity_weights(from->activity, from->norm);
    to->gain = vectors(from->gain);
    to->bias = vectors(from->bias);
    to->running_mean = parameters(&from->running_mean);
    to->running_var = parameters(&from->running_var);
    histogram(from->hidden, to->histogram);
}
