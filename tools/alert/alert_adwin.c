#include "alert_adwin.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define INSERTED_MOST 10.0      /* deviations */
#define INSERTED_LEAST 5.0      /* units: in the smallest part that causes no cut */
#define DEVIATION_LEAST 1e-9    /* if the window does not vary */
#define NEAR 0.25               /* of a rise: below it the series is back */
#define DEVIATION_RELATIVE 1e-3 /* of the mean */

void adwin_open(struct adwin *w, double delta) {
    memset(w, 0, sizeof *w);
    w->delta = delta;
}

double adwin_mean(const struct adwin *w) {
    return w->count > 0 ? w->sum / (double)w->count : 0;
}

/* The additional sum of squares of two joined sets: s = s0 + s1 + n0 n1 / (n0 + n1) (mean0 -
   mean1)^2 */
static double between(double n0, double sum0, double n1, double sum1) {
    double distance = sum0 / n0 - sum1 / n1;
    return n0 * n1 / (n0 + n1) * distance * distance;
}

static void drop_first(struct adwin_row *row, int count) {
    row->count -= count;
    memmove(row->buckets, row->buckets + count, (size_t)row->count * sizeof *row->buckets);
}

static int last_row(const struct adwin *w) {
    int row = ADWIN_ROWS - 1;
    while (row > 0 && w->rows[row].count == 0)
        row--;
    return row;
}

static void drop_oldest(struct adwin *w) {
    int last = last_row(w);
    struct adwin_bucket oldest = w->rows[last].buckets[0];
    double size = ldexp(1, last);
    drop_first(&w->rows[last], 1);
    w->count -= (uint64_t)size;
    w->sum -= oldest.sum;
    double rest = (double)w->count;
    w->squares -= oldest.squares;
    if (w->count > 0)
        w->squares -= between(size, oldest.sum, rest, w->sum);
    w->squares = fmax(0, w->squares);
}

/* Joins two buckets of a full row to one of the next row. */
static void compress(struct adwin *w) {
    for (int i = 0; i + 1 < ADWIN_ROWS && w->rows[i].count > ADWIN_BUCKETS; i++) {
        const struct adwin_bucket *a = &w->rows[i].buckets[0], *b = a + 1;
        double size = ldexp(1, i);
        struct adwin_row *next = &w->rows[i + 1];
        next->buckets[next->count++] = (struct adwin_bucket){
            .sum = a->sum + b->sum,
            .squares = a->squares + b->squares + between(size, a->sum, size, b->sum),
        };
        drop_first(&w->rows[i], 2);
    }
    if (w->rows[ADWIN_ROWS - 1].count > ADWIN_BUCKETS)
        drop_oldest(w);
}

static void insert(struct adwin *w, double value) {
    double count = (double)w->count, mean = adwin_mean(w);
    if (w->count >= ADWIN_WARM) {
        double deviation =
            fmax(sqrt(w->squares / count), fmax(DEVIATION_LEAST, DEVIATION_RELATIVE * fabs(mean)));
        double most = fmax(INSERTED_LEAST, INSERTED_MOST * deviation);
        value = mean + fmax(-most, fmin(most, value - mean));
    }
    if (w->count > 0)
        w->squares += between(count, w->sum, 1, value);
    w->count++;
    w->sum += value;
    w->rows[0].buckets[w->rows[0].count++] = (struct adwin_bucket){.sum = value};
    compress(w);
}

/* Whether the means of the parts differ by more than chance; fills `change`. */
static bool differ(const struct adwin *w, double count0, double sum0, struct change *change) {
    double count = (double)w->count, count1 = count - count0;
    if (count0 < ADWIN_PART || count1 < ADWIN_PART)
        return false;
    double logarithm = log(2 * log(count) / w->delta),
           share = (1 / count0 + 1 / count1) * logarithm;
    double bound = sqrt(2 * w->squares / count * share) + 2.0 / 3 * share;
    double before = sum0 / count0, after = (w->sum - sum0) / count1;
    if (!(fabs(after - before) > bound))
        return false;
    *change = (struct change){after > before ? CHANGE_ROSE : CHANGE_FELL, before, after};
    return true;
}

static bool find_cut(const struct adwin *w, struct change *change) {
    double count = 0, sum = 0;
    for (int i = last_row(w); i >= 0; i--) {
        for (int k = 0; k < w->rows[i].count; k++) {
            count += ldexp(1, i);
            sum += w->rows[i].buckets[k].sum;
            if (differ(w, count, sum, change))
                return true;
        }
    }
    return false;
}

/* The first cut is the change. Further cuts remove the rest of the old values. */
static struct change cut(struct adwin *w) {
    struct change first = {0}, more;
    while (w->count > ADWIN_WARM && find_cut(w, first.kind == CHANGE_NONE ? &first : &more))
        drop_oldest(w);
    return first;
}

/* Mean of the newest ADWIN_PART values or one less. */
static double newest(const struct adwin *w) {
    double sum = 0;
    for (int k = 0; k < w->rows[0].count; k++)
        sum += w->rows[0].buckets[k].sum;
    return sum / w->rows[0].count;
}

static struct change ended(struct adwin *w, enum change_kind kind) {
    w->since = 0;
    return (struct change){.kind = kind, .before = w->before, .after = newest(w)};
}

/* A rise is found again until its old values have left the window. */
static struct change settle(struct adwin *w, struct change change) {
    if (w->since == 0 && change.kind != CHANGE_ROSE)
        return change;
    if (w->since == 0) {
        w->since = 1;
        w->before = change.before;
        w->near = change.before + NEAR * (change.after - change.before);
        return change;
    }
    w->since = change.kind == CHANGE_ROSE ? 1 : w->since + 1;
    if (w->since > ADWIN_PART && newest(w) < w->near)
        return ended(w, CHANGE_BACK);
    if (w->since > ADWIN_SETTLED)
        return ended(w, CHANGE_STAYED);
    return (struct change){0};
}

struct change adwin_add(struct adwin *w, double value) {
    insert(w, value);
    return settle(w, cut(w));
}
