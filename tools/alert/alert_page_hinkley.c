#include "alert_page_hinkley.h"

#include <math.h>

#define SUMMED_MOST 10.0        /* deviations */
#define LEARNED_MOST 3.0        /* deviations */
#define DEVIATION_LEAST 1e-9    /* if the series does not vary */
#define DEVIATION_RELATIVE 1e-3 /* of the mean */

void page_hinkley_open(struct page_hinkley *t, double delta, double lambda) {
    *t = (struct page_hinkley){.delta = delta, .lambda = lambda};
}

static double clamp(double value, double most) {
    return fmax(-most, fmin(most, value));
}

static double deviation(const struct page_hinkley *t) {
    return fmax(sqrt(t->variance), fmax(DEVIATION_LEAST, DEVIATION_RELATIVE * fabs(t->mean)));
}

/* Running mean and population variance. After PAGE_HINKLEY_MEMORY values the weights fade. */
static void learn(struct page_hinkley *t, double value) {
    if (t->count < PAGE_HINKLEY_MEMORY)
        t->count++;
    double distance = value - t->mean;
    t->mean += distance / t->count;
    t->variance += (distance * (value - t->mean) - t->variance) / t->count;
}

static struct change found(struct page_hinkley *t, enum change_kind kind, double after) {
    /* Values since the beginning of a rise are not part of the usual series. */
    if (kind == CHANGE_ROSE) {
        t->mean = t->usual_mean;
        t->variance = t->usual_variance;
    }
    struct change change = {.kind = kind, .before = t->mean, .after = after};
    if (kind != CHANGE_ROSE && kind != CHANGE_BACK)
        page_hinkley_open(t, t->delta, t->lambda);
    t->rise = t->fall = t->since = 0;
    t->since_count = 0;
    t->away = kind == CHANGE_ROSE;
    return change;
}

static struct change wait_for_return(struct page_hinkley *t, double value) {
    t->recent[t->away++ % PAGE_HINKLEY_BACK] = value;
    double mean = 0;
    for (int i = 0; i < PAGE_HINKLEY_BACK; i++)
        mean += t->recent[i] / PAGE_HINKLEY_BACK;
    if (t->away > PAGE_HINKLEY_BACK && mean - t->mean < t->delta * deviation(t))
        return found(t, CHANGE_BACK, mean);
    if (t->away > PAGE_HINKLEY_STAY)
        return found(t, CHANGE_STAYED, mean);
    return (struct change){0};
}

static struct change test(struct page_hinkley *t, double value) {
    if (t->rise <= 0) {
        t->usual_mean = t->mean;
        t->usual_variance = t->variance;
    }
    double x = (value - t->mean) / deviation(t), summed = clamp(x, SUMMED_MOST);
    t->rise = fmax(0, t->rise + summed - t->delta);
    t->fall = fmax(0, t->fall - summed - t->delta);
    t->since = t->rise > 0 ? t->since + value : 0;
    t->since_count = t->rise > 0 ? t->since_count + 1 : 0;
    if (t->rise > t->lambda)
        return found(t, CHANGE_ROSE, t->since / t->since_count);
    if (t->fall > t->lambda)
        return found(t, CHANGE_FELL, value);
    learn(t, t->mean + clamp(x, LEARNED_MOST) * deviation(t));
    return (struct change){0};
}

struct change page_hinkley_add(struct page_hinkley *t, double value) {
    if (t->away > 0)
        return wait_for_return(t, value);
    if (t->count >= PAGE_HINKLEY_WARM)
        return test(t, value);
    learn(t, value);
    return (struct change){0};
}
