/* Activity of units (kernels/activities.h). Bound by its bytes: two rows an update, and all every
   16th time. */
#include "activities.h"

#include "network.h"

double activity_norm(const struct network *n, const struct network_layer *l) {
    return sqrt(
        sum_of_squares(n->parameters + l->matrices.from, l->matrices.end - l->matrices.from));
}

/* (h - m) . q */
static double product(const float *h, const double *m, const double *q, size_t size) {
    double sum = 0;
#pragma omp simd reduction(+ : sum)
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
#pragma omp simd
    for (size_t i = 0; i < size; i++) {
        m[i] += of_mean * ((double)h[i] - m[i]);
        a[i] += of_size * (fabs((double)h[i]) - a[i]);
    }
    if (activity_samples(age))
        add_sample(head, h, size, age);
}

void activity_add(const struct network *n, size_t position) {
    double age = ++n->activity[0];
    for (size_t c = 0; c < n->model->chain_count; c++) {
        const struct network *chain = n->chains[c];
        if (c && !chain->ran) /* its arrays are those of an earlier target */
            continue;
        for (size_t k = 0; k < chain->layer_count; k++) {
            const struct network_layer *l = &chain->layers[k];
            add_layer(network_head(chain, k), l->output + network_newest(chain, position) * l->wide,
                      l->width, age);
        }
    }
}
