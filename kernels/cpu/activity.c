#include "activity.h"

#include <math.h>

#include "activities.h"

/* In four sums, which do not wait for each other; a matrix has a multiple of 16 numbers. */
static double weights_norm(const struct network *n, const struct network_layer *l) {
    double sums[4] = {0};
    for (size_t i = l->matrices.from; i < l->matrices.end; i += 4)
        for (size_t k = 0; k < 4; k++)
            sums[k] += (double)n->parameters[i + k] * (double)n->parameters[i + k];
    return sqrt(sums[0] + sums[1] + (sums[2] + sums[3]));
}

void activity_begin(const struct network *n, double *block) {
    double *head = block + 1;
    for (size_t k = 0; k < n->layer_count; k++) {
        head[ACTIVITY_START] = weights_norm(n, &n->layers[k]);
        head += activity_numbers(n->layers[k].size);
    }
}

/* (h - m) . q */
static double product(const float *h, const double *m, const double *q, size_t size) {
    double sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += ((double)h[i] - m[i]) * q[i];
    return sum;
}

/* The newest q replaces the oldest, after the products with all of them. */
static void add_sample(double *head, const float *h, size_t size, double age) {
    const double *m = head + ACTIVITY_HEAD;
    double *ring = head + ACTIVITY_HEAD + 2 * size, *q = ring + activity_row(age) * size, sum = 0;
    for (size_t r = 0; r < ACTIVITY_RING; r++) {
        double p = product(h, m, ring + r * size, size);
        sum += p * p;
    }
    for (size_t i = 0; i < size; i++)
        q[i] = (double)h[i] - m[i];
    if (activity_sampled(age) > 0)
        activity_add_sample(head, age, product(h, m, q, size), sum);
}

static void add_layer(double *head, const float *h, size_t size, double age) {
    double *restrict m = head + ACTIVITY_HEAD, *restrict a = m + size;
    double of_mean = activity_weight(age, ACTIVITY_LEAST_OF_MEAN);
    double of_size = activity_weight(age, ACTIVITY_LEAST_OF_SIZE);
    for (size_t i = 0; i < size; i++) {
        m[i] += of_mean * ((double)h[i] - m[i]);
        a[i] += of_size * (fabs((double)h[i]) - a[i]);
    }
    if (activity_samples(age))
        add_sample(head, h, size, age);
}

void activity_add(const struct network *n, double *block, size_t position) {
    double *head = block + 1, age = ++block[0];
    for (size_t k = 0; k < n->layer_count; k++) {
        const struct network_layer *l = &n->layers[k];
        add_layer(head, l->hidden + position * l->padded, l->size, age);
        head += activity_numbers(l->size);
    }
}

static const double *head_of(const struct network *n, const double *block, size_t layer) {
    const double *head = block + 1;
    for (size_t k = 0; k < layer; k++)
        head += activity_numbers(n->layers[k].size);
    return head;
}

void activity_read(const struct network *n, const double *block, size_t layer,
                   struct layer_statistics *s) {
    const double *head = head_of(n, block, layer), age = block[0];
    size_t size = n->layers[layer].size, dormant = 0, saturated = 0;
    const double *a = head + ACTIVITY_HEAD + size;
    double sum = 0;
    for (size_t i = 0; i < size; i++)
        sum += a[i];
    for (size_t i = 0; i < size; i++) {
        dormant += a[i] <= ACTIVITY_DORMANT * (sum / (double)size);
        saturated += a[i] > ACTIVITY_SATURATED;
    }
    s->units = activity_statistics(head, age, (double)dormant / (double)size,
                                   (double)saturated / (double)size);
    s->weights = activity_weights(head, weights_norm(n, &n->layers[layer]));
}

void activity_growth(const struct network *n, const double *block, struct update_result *result) {
    for (size_t k = 0; k < n->layer_count; k++)
        activity_add_growth(
            result, (uint32_t)k,
            activity_weights(head_of(n, block, k), weights_norm(n, &n->layers[k])).growth);
}
