#include "distribution.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/finite.h"
#include "common/vectors.h"

#define FLOOR 1e-3 /* of a weight: the tails */
#define STICK 0.12 /* of the atoms: the newest value */
#define PRIOR 100.0
#define FORGET 0.002
#define FAR 30.0   /* times the mean error: more counts as this */
#define WILD 1e6   /* times the size: one value must not widen all that follow */
#define KEEP 0.999 /* of the regression */
#define RIDGE 30.0
#define TINY 1e-12
#define SHARE_MOST 0.995 /* of atoms */
/* Bounds of what a state reaches, for checkpoints. */
#define SCALE_LEAST 1e-30
#define WEIGHT_LEAST 1e-6
#define MASS_MOST 1e3
#define NEAR 2e-3 /* in log odds */

enum { SLOW = 3, SHAPES = 4, ASIDE = DISTRIBUTION_PARTS - SHAPES, BEFORE_CAP = 31, ALIKE = 12 };
enum { HALF = 17, SOLVE_MOST = 200, LANES = 4, CRPS_LEVELS = 20 };

static const double rates[DISTRIBUTION_RATES] = {0.3, 0.1, 0.03, 0.01, 0.003};
static const double shapes[SHAPES] = {0.4, 1.0, 2.5, 8.0};
static const double first_weights[SHAPES] = {0.25, 0.6, 0.1, 0.05};

/* Place and width of the parts aside, in the last scale. */
static const double aside[SHAPES][2] = {{-0.5, 0.7}, {-1.5, 1.5}, {0.5, 0.7}, {1.5, 1.5}};

static const double lower_edges[HALF] = {0,   0.0005, 0.002, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075,
                                         0.1, 0.14,   0.18,  0.22,  0.27, 0.32, 0.38,  0.44};
static const double lattices[DISTRIBUTION_LATTICES] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1e0,
                                                       1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7};

static double edge(size_t n) {
    return n < HALF ? lower_edges[n] : n == HALF ? 0.5 : 1 - lower_edges[DISTRIBUTION_BINS - n];
}

static double clip(double x, double low, double high) {
    return x < low ? low : x > high ? high : x;
}

/* ---- Mixture ---- */

/* A value with B just below it and at it, and the sum of the atoms below. */
struct jump {
    double value, low, high, before;
};

struct mixture {
    const struct distribution *of;
    double x, f; /* evaluated last */
    double center[DISTRIBUTION_PARTS], width[DISTRIBUTION_PARTS], inverse[DISTRIBUTION_PARTS];
    struct jump jumps[DISTRIBUTION_ATOMS + 3]; /* atoms and ends, for quantiles */
    size_t jump_count;
};

static void expand(struct mixture *m, const struct distribution *d) {
    static const double mean = 2 * M_LN2; /* of |z| of a logistic distribution */
    double last = d->scale[DISTRIBUTION_SCALES - 1];
    m->of = d;
    m->x = NAN;
    for (size_t j = 0; j < ASIDE; j++) {
        m->center[j] = d->point;
        m->width[j] = d->scale[j / SHAPES] * shapes[j % SHAPES] / mean;
    }
    for (size_t n = 0; n < SHAPES; n++) {
        m->center[ASIDE + n] = d->point + aside[n][0] * last;
        m->width[ASIDE + n] = aside[n][1] * last / mean;
    }
}

/* Writes exp(-|z|). The series has the same bits on every processor, unlike the C library. */
VECTOR_BODY void exponentials(const double *restrict z, double *restrict out, size_t count) {
    double k[DISTRIBUTION_PARTS], rest[DISTRIBUTION_PARTS];
    for (size_t j = 0; j < count; j++) {
        double x = -fabs(z[j]);
        x = x > -700 ? x : -700;
        k[j] = x * M_LOG2E + 0x1.8p52; /* a whole number in the lowest bits */
        double whole = k[j] - 0x1.8p52;
        rest[j] = x - whole * 0x1.62e42feep-1 - whole * 0x1.a39ef35793c76p-33;
    }
    for (size_t j = 0; j < count; j++) {
        double r = rest[j], r2 = r * r, r4 = r2 * r2, power;
        double p = 1. / 2 + r * (1. / 6) + r2 * (1. / 24 + r * (1. / 120));
        double q = 1. / 720 + r * (1. / 5040) + r2 * (1. / 40320 + r * (1. / 362880));
        double o =
            1. / 3628800 + r * (1. / 39916800) + r2 * (1. / 479001600 + r * (1. / 6227020800));
        uint64_t bits;
        memcpy(&bits, &k[j], sizeof bits);
        bits = (bits + 1023) << 52;
        memcpy(&power, &bits, sizeof power);
        out[j] = power + power * (r + r2 * (p + r4 * (q + r4 * o)));
    }
}

/* Writes 1 / (1 + exp(-z)) of all parts. */
VECTOR_BODY void logistics(const double *restrict z, double *restrict out) {
    double e[DISTRIBUTION_PARTS];
    exponentials(z, e, DISTRIBUTION_PARTS);
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        out[j] = (z[j] >= 0 ? 1 : e[j]) / (1 + e[j]);
}

/* Adds in the same order whatever the size of vectors. */
VECTOR_BODY double sum_up(const double *restrict terms) {
    typedef double lanes
        __attribute__((vector_size(LANES * sizeof(double)), aligned(8), may_alias));
    const lanes *of = (const lanes *)terms;
    lanes sum = of[0];
    for (size_t n = 1; n < DISTRIBUTION_PARTS / LANES; n++)
        sum += of[n];
    return sum[0] + sum[1] + (sum[2] + sum[3]);
}

/* M(x), which is kept: callers need it at one place several times. */
VECTOR_BODY void mixture_at_body(struct mixture *m, double x, double *sum) {
    double z[DISTRIBUTION_PARTS], f[DISTRIBUTION_PARTS];
    if (x != m->x) {
        for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
            z[j] = (x - m->center[j]) / m->width[j];
        logistics(z, f);
        for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
            f[j] *= m->of->weight[j];
        m->x = x;
        m->f = sum_up(f);
    }
    *sum = m->f;
}

VECTOR_CLONES(mixture_at, (struct mixture * m, double x, double *sum), (m, x, sum))

/* M(x) and its first three derivatives. The four shapes of a scale are powers of one root. */
VECTOR_BODY void mixture_slopes_body(const struct mixture *m, double x, double *sums) {
    double z[DISTRIBUTION_SCALES + SHAPES], roots[DISTRIBUTION_SCALES + SHAPES];
    double e[DISTRIBUTION_PARTS], terms[4][DISTRIBUTION_PARTS];
    for (size_t n = 0; n < DISTRIBUTION_SCALES; n++)
        z[n] = (x - m->of->point) * m->inverse[n * SHAPES + 1] * (1. / 40);
    for (size_t n = 0; n < SHAPES; n++)
        z[DISTRIBUTION_SCALES + n] = (x - m->center[ASIDE + n]) * m->inverse[ASIDE + n];
    exponentials(z, roots, DISTRIBUTION_SCALES + SHAPES);
    for (size_t n = 0; n < DISTRIBUTION_SCALES; n++) {
        double e1 = roots[n], e4 = e1 * e1 * (e1 * e1), e8 = e4 * e4, e16 = e8 * e8;
        double *of = e + n * SHAPES;
        of[0] = e16 * e16 * (e16 * e16) * (e16 * e16 * e4); /* 100 = 40 / 0.4 */
        of[1] = e16 * e16 * e8;
        of[2] = e16;
        of[3] = e4 * e1;
    }
    memcpy(e + ASIDE, roots + DISTRIBUTION_SCALES, SHAPES * sizeof *e);
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++) {
        double f = (x >= m->center[j] ? 1 : e[j]) / (1 + e[j]), v = f * (1 - f);
        double inverse = m->inverse[j], w = m->of->weight[j];
        terms[0][j] = w * f;
        terms[1][j] = w * v * inverse;
        terms[2][j] = terms[1][j] * inverse * (1 - 2 * f);
        terms[3][j] = terms[1][j] * inverse * inverse * (1 - 6 * v);
    }
    for (size_t n = 0; n < 4; n++)
        sums[n] = sum_up(terms[n]);
}

VECTOR_CLONES(mixture_slopes, (const struct mixture *m, double x, double *sums), (m, x, sums))

/* ---- F ---- */

/* M with lattice and bounds at x, or just below x. */
static double middle(struct mixture *m, double x, bool below) {
    const struct distribution *d = m->of;
    double at = x, f;
    if (d->lattice > 0) {
        double k = x / d->lattice, near = floor(k + 0.5);
        k = fabs(k - near) < 1e-3 ? near - below : floor(k);
        at = (k + 0.5) * d->lattice;
    }
    mixture_at(m, at, &f);
    const struct distribution_value *least = &d->ends[0], *most = &d->ends[1];
    if (least->weight > 0 && (x < least->value || (below && x <= least->value)))
        f *= least->weight;
    if (most->weight > 0 && (x > most->value || (!below && x >= most->value)))
        f = 1 - most->weight * (1 - f);
    return f;
}

static double body(struct mixture *m, double x, bool below) {
    const struct distribution *d = m->of;
    double atoms = 0;
    for (size_t n = 0; n < (size_t)d->atom_count; n++)
        if (below ? d->atoms[n].value < x : d->atoms[n].value <= x)
            atoms += d->atoms[n].weight;
    double f = (1 - d->share) * middle(m, x, below) + atoms;
    return f < 1 ? f : 1;
}

static double corrected(const struct distribution *d, double u) {
    const double *c = d->correction;
    size_t b = 0;
    while (b + 1 < DISTRIBUTION_BINS && edge(b + 1) <= u)
        b++;
    return c[b] + (c[b + 1] - c[b]) * (u - edge(b)) / (edge(b + 1) - edge(b));
}

/* ---- Quantiles ---- */

/* The inverse of M near a place: x as a series in log odds, in which a logistic distribution is a
   line. Levels rise: each begins in the bin and at the jump of the last one. */
struct inverse {
    double x, odds, series[3];
    size_t bin, jump;
};

static void invert(const struct mixture *m, double x, struct inverse *at) {
    double f[4];
    mixture_slopes(m, x, f);
    double v = f[0] * (1 - f[0]), t = 2 * f[0] - 1, steep = 1 / f[1], first = v * steep;
    double bend = f[2] * steep * first, second = t + bend;
    double third = 2 - 6 * v + 3 * t * bend + f[3] * steep * first * first;
    at->x = x;
    at->odds = log(f[0] / (1 - f[0]));
    at->series[0] = first;
    at->series[1] = -first * second / 2;
    at->series[2] = first * (3 * second * second - third) / 6;
}

/* Returns x with M(x) = u, on the lattice. Where the series fails it halves a bracket. */
static double solve(const struct mixture *m, double u, struct inverse *at) {
    const struct distribution *d = m->of;
    double low = -INFINITY, high = INFINITY, reach = 4 * d->unit, x = at->x;
    u = clip(u, TINY, 1 - TINY);
    double odds = log(u / (1 - u));
    for (size_t n = 0; n < SOLVE_MOST; n++) {
        double far = odds - at->odds, *s = at->series;
        double rest = far * far * far * s[2];
        x = at->x + far * s[0] + (fabs(far) < 2 ? far * far * s[1] + rest : 0);
        if (fabs(far) <= NEAR && fabs(rest) <= 1e-11 * d->unit)
            break;
        *(far > 0 ? &low : &high) = at->x;
        if (!(x > low && x < high) || (n > 20 && isfinite(high - low))) {
            x = isinf(low) ? high - reach : isinf(high) ? low + reach : low + (high - low) / 2;
            reach *= 2;
            if (!(x > low && x < high))
                break;
        }
        invert(m, x, at);
    }
    return d->lattice > 0 ? floor(x / d->lattice + 0.5) * d->lattice : x;
}

/* Adds a jump of B before the one at infinity. */
static void add_jump(struct mixture *m, double value, double weight) {
    struct jump *jump = &m->jumps[m->jump_count++];
    jump[1] = (struct jump){INFINITY, INFINITY, INFINITY, jump->before + weight};
    jump->value = value;
    jump->low = body(m, value, true);
    jump->high = body(m, value, false);
}

/* Prepares quantiles. Atoms are sorted and within the bounds. */
static void expand_all(struct mixture *m, const struct distribution *d, struct inverse *at) {
    expand(m, d);
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        m->inverse[j] = 1 / m->width[j];
    m->jump_count = 0;
    m->jumps[0] = (struct jump){INFINITY, INFINITY, INFINITY, 0};
    if (d->ends[0].weight > 0)
        add_jump(m, d->ends[0].value, 0);
    for (size_t n = 0; n < (size_t)d->atom_count; n++)
        add_jump(m, d->atoms[n].value, d->atoms[n].weight);
    if (d->ends[1].weight > 0)
        add_jump(m, d->ends[1].value, 0);
    at->bin = at->jump = 0;
    invert(m, d->point, at);
}

static double quantile(const struct mixture *m, double level, struct inverse *at) {
    const struct distribution *d = m->of;
    const double *c = d->correction;
    while (at->bin + 1 < DISTRIBUTION_BINS && c[at->bin + 1] <= level)
        at->bin++;
    size_t b = at->bin;
    double u = edge(b) + (edge(b + 1) - edge(b)) * (level - c[b]) / (c[b + 1] - c[b]);
    while (u > m->jumps[at->jump].high)
        at->jump++;
    const struct jump *jump = &m->jumps[at->jump];
    if (u >= jump->low)
        return jump->value;
    u = fmin((u - jump->before) / (1 - d->share), 1 - TINY);
    if (d->ends[0].weight > 0 && at->jump == 0)
        u /= d->ends[0].weight;
    if (d->ends[1].weight > 0 && at->jump == m->jump_count)
        u = 1 - (1 - u) / d->ends[1].weight;
    return clip(solve(m, u, at), at->jump > 0 ? jump[-1].value : -INFINITY, jump->value);
}

void distribution_quantiles(const struct distribution *d, const double *levels, size_t count,
                            double *values) {
    struct mixture m;
    struct inverse at;
    if (d->issued > 0)
        expand_all(&m, d, &at);
    for (size_t n = 0; n < count; n++)
        values[n] = d->issued > 0 ? quantile(&m, levels[n], &at) : NAN;
}

/* ---- Scores ---- */

/* The normal quantile, within +-8: a rational approximation, then Halley's method. */
static double normal(double level) {
    double tail = fmax(fmin(level, 1 - level), 1e-16), t = sqrt(-2 * log(tail));
    double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for (int n = 0; n < 2; n++) {
        double step = (erfc(z * M_SQRT1_2) / 2 - tail) * sqrt(2 * M_PI) * exp(z * z / 2);
        z += step / (1 - step * z / 2);
    }
    return copysign(fmin(z, 8), level - 0.5);
}

struct distribution_score distribution_score(const struct distribution *d, double truth) {
    struct mixture m;
    struct inverse at;
    struct distribution_score score = {.crps = 0};
    double half = fmax(d->lattice, 0.1 * d->unit) / 2, mass[2];
    expand_all(&m, d, &at);
    for (size_t j = 0; j < CRPS_LEVELS; j++) {
        double level = ((double)j + 0.5) / CRPS_LEVELS;
        double off = truth - quantile(&m, level, &at);
        score.crps += (off >= 0 ? level : level - 1) * off * 2 / CRPS_LEVELS;
    }
    for (int n = 0; n < 2; n++) { /* at a lattice both have the same M */
        score.pit[n] = corrected(d, body(&m, truth, !n));
        mass[n] = corrected(d, body(&m, n ? truth + half : truth - half, !n));
    }
    score.z = normal((score.pit[0] + score.pit[1]) / 2);
    score.log_score = -log(fmax(mass[1] - mass[0], TINY) / (2 * half));
    return score;
}

/* ---- Checks ---- */

static bool within(const double *numbers, size_t size, double least, double most) {
    bool valid = true;
    for (size_t n = 0; n < size / sizeof *numbers; n++)
        valid = valid && numbers[n] >= least && numbers[n] <= most;
    return valid;
}

static bool regression_valid(const struct distribution_state *s) {
    return within(s->regression, sizeof s->regression, -1e6, 1e6) &&
           within(&s->covariance[0][0], sizeof s->covariance, -1e9, 1e9);
}

/* ---- Learning ---- */

static void begin_regression(struct distribution_state *s) {
    memset(s->regression, 0, sizeof s->regression);
    memset(s->covariance, 0, sizeof s->covariance);
    for (size_t i = 0; i < DISTRIBUTION_FEATURES; i++)
        s->covariance[i][i] = 1 / RIDGE;
}

static void begin(struct distribution_state *s) {
    double sum = DISTRIBUTION_SCALES + SHAPES * 0.25;
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        s->weight[j] = (j < ASIDE ? first_weights[j % SHAPES] : 0.25) / sum;
    begin_regression(s);
    s->share[0] = s->share[1] = 0.05;
    s->begun = 1;
}

/* The mass of each part around the truth, by the upper tail above the center: differences are exact
   there. */
VECTOR_BODY void masses_body(const struct mixture *m, double y, double *restrict mass) {
    const struct distribution *d = m->of;
    double half = fmax(d->lattice / 2, 1e-3 * d->unit);
    bool least = d->ends[0].weight > 0 && y <= d->ends[0].value;
    bool most = d->ends[1].weight > 0 && y >= d->ends[1].value;
    double from[DISTRIBUTION_PARTS], to[DISTRIBUTION_PARTS], at[2][DISTRIBUTION_PARTS];
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++) {
        double high = (y + half - m->center[j]) / m->width[j];
        double low = (y - half - m->center[j]) / m->width[j];
        bool above = least ? false : most ? true : low > 0;
        from[j] = least || most ? -INFINITY : above ? -high : low;
        to[j] = above ? -low : high;
    }
    logistics(from, at[0]);
    logistics(to, at[1]);
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++) {
        double part = at[1][j] - at[0][j];
        mass[j] = (part > TINY ? part : TINY) + TINY;
    }
}

VECTOR_CLONES(masses, (const struct mixture *m, double y, double *mass), (m, y, mass))

/* Online expectation maximization; returns the share of the truth's likelihood that M has. Far
   ahead, consecutive errors are alike: beyond ALIKE steps `ahead` of them count as one. */
static double learn_weights(struct distribution_state *s, const struct mixture *m, double y,
                            size_t ahead) {
    const struct distribution *d = m->of;
    double mass[DISTRIBUTION_PARTS], total = 0, atom = 0, sum = 0;
    masses(m, y, mass);
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        total += s->weight[j] * mass[j];
    for (size_t n = 0; n < (size_t)d->atom_count; n++)
        atom += d->atoms[n].value == y ? d->atoms[n].weight : 0;
    double share = (1 - d->share) * total / ((1 - d->share) * total + atom);
    double rate = fmax(ahead > ALIKE ? 0.04 / (double)ahead : 0.04, 1 / (s->truths + 10)) * share;
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++) {
        double w = s->weight[j];
        s->weight[j] = fmax((1 - rate) * w + rate * w * mass[j] / total, FLOOR);
        sum += s->weight[j];
    }
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        s->weight[j] /= sum;
    return share;
}

/* Recursive least squares on the logarithm of the error. */
static void learn_scale(struct distribution_state *s, const double *f, double target) {
    double gain[DISTRIBUTION_FEATURES], guess = 0, trace = 0, along = 0;
    for (size_t i = 0; i < DISTRIBUTION_FEATURES; i++) {
        gain[i] = 0;
        guess += s->regression[i] * f[i];
        trace += s->covariance[i][i];
        for (size_t j = 0; j < DISTRIBUTION_FEATURES; j++)
            gain[i] += s->covariance[i][j] * f[j];
    }
    double keep = trace <= 1e3 ? KEEP : 1;
    for (size_t i = 0; i < DISTRIBUTION_FEATURES; i++)
        along += f[i] * gain[i];
    double k = 1 / (keep + along), error = fmin(target, 4) - guess;
    for (size_t i = 0; i < DISTRIBUTION_FEATURES; i++) {
        s->regression[i] += k * gain[i] * error;
        for (size_t j = 0; j < DISTRIBUTION_FEATURES; j++)
            s->covariance[i][j] = (s->covariance[i][j] - k * gain[i] * gain[j]) / keep;
    }
    if (!regression_valid(s)) /* only after an impossible checkpoint */
        begin_regression(s);
}

static void learn_correction(struct distribution_state *s, double low, double high) {
    s->mass = (1 - FORGET) * s->mass + 1;
    for (size_t b = 0; b < DISTRIBUTION_BINS; b++) {
        double from = edge(b), to = edge(b + 1), part;
        if (high - low < TINY)
            part = from <= high && (high < to || b == DISTRIBUTION_BINS - 1);
        else
            part = fmax(0, fmin(high, to) - fmax(low, from)) / (high - low);
        s->histogram[b] = (1 - FORGET) * s->histogram[b] + part;
    }
}

void distribution_learn(struct distribution_state *s, const struct distribution *d, double truth,
                        size_t ahead) {
    struct mixture m;
    expand(&m, d);
    double low = body(&m, truth, true), high = body(&m, truth, false);
    double share = learn_weights(s, &m, truth, ahead), error = fabs(truth - d->point);
    size_t repeats = d->repeats > 0;
    double rate = fmax(0.02, 1 / (s->share_count[repeats] + 4));
    s->share_count[repeats]++;
    s->share[repeats] =
        clip(s->share[repeats] + rate * (1 - share - s->share[repeats]), 1e-4, SHARE_MOST);
    double target = log((error + 0.05 * d->unit) / d->unit);
    learn_scale(s, d->feature, target);
    s->truths++;
    double near = s->truths > BEFORE_CAP ? fmin(error, FAR * fmax(d->unit, d->fast)) : error;
    for (size_t k = 0; k < DISTRIBUTION_RATES; k++)
        s->scale[k] += fmax(rates[k], 1 / s->truths) * (near - s->scale[k]);
    if (d->hour >= 0) {
        size_t hour = (size_t)d->hour;
        s->hour_count[hour]++;
        s->hour[hour] += fmax(0.03, 1 / (s->hour_count[hour] + 5)) * (target - s->hour[hour]);
    }
    learn_correction(s, low, high);
}

void distribution_miss(struct distribution_state *s) {
    s->change = 0;
}

static void see_repeats(struct distribution_state *s, double y) {
    size_t place = DISTRIBUTION_TABLE, least = 0;
    for (size_t i = 0; i < DISTRIBUTION_TABLE; i++) {
        s->table[i].weight *= 0.98;
        if (s->table[i].weight > 1e-6 && s->table[i].value == y)
            place = i;
        if (s->table[i].weight < s->table[least].weight)
            least = i;
    }
    bool known = place < DISTRIBUTION_TABLE;
    struct distribution_value *row = &s->table[known ? place : least];
    *row = (struct distribution_value){y, (known ? row->weight : 0) + 0.02};
}

static void see_lattice(struct distribution_state *s, double y) {
    for (size_t k = 0; k < DISTRIBUTION_LATTICES; k++) {
        double v = fabs(y) / lattices[k], near = floor(v + 0.5);
        bool multiple = near >= 1 && v < 1e5 && fabs(v - near) < 1e-6 + 2e-7 * v;
        s->multiples[k] = multiple ? s->multiples[k] + 1 : 0;
    }
}

void distribution_see(struct distribution_state *s, double value) {
    if (s->begun == 0)
        begin(s);
    bool first = s->values == 0;
    s->repeats = !first && s->last == value;
    s->change = first ? 0 : fabs(value - s->last);
    s->last = value;
    s->values++;
    double size =
        s->values > BEFORE_CAP && s->size > 0 ? fmin(fabs(value), WILD * s->size) : fabs(value);
    s->size += fmax(0.003, 1 / s->values) * (size - s->size);
    see_repeats(s, value);
    if (s->change > 0 && value != 0)
        see_lattice(s, value);
    for (size_t end = 0; end < 2; end++) {
        struct distribution_value *e = &s->ends[end];
        if (first || (end == 0 ? value < e->value : value > e->value))
            *e = (struct distribution_value){value, 1};
        else if (value == e->value)
            e->weight++;
    }
}

/* ---- Issuing ---- */

static void issue_scales(const struct distribution_state *s, struct distribution *d,
                         const double *experts, size_t count) {
    double least = 1e-6 * s->size + 1e-12, begins = fmax(s->change, 1e-9 * fabs(d->point) + 1e-12);
    for (size_t k = 0; k < DISTRIBUTION_RATES; k++)
        d->scale[k] = s->truths > 0 ? fmax(s->scale[k], least) : begins;
    double unit = d->unit = d->scale[SLOW], spread = 0, *f = d->feature, guess = 0;
    d->fast = d->scale[0];
    for (size_t n = 0; n < count; n++)
        spread += fabs(experts[n] - d->point);
    spread = count && spread < INFINITY ? spread / (double)count : 0;
    f[0] = 1;
    for (size_t k = 0; k < 3; k++)
        f[1 + k] = log(d->scale[k] / unit + 0.03);
    f[4] = log(s->change / unit + 0.1);
    f[5] = log(spread / unit + 0.05);
    f[6] = log((fabs(d->point) + 0.02 * s->size + 1e-300) / (1.02 * s->size + 1e-300));
    f[7] = d->hour >= 0 ? s->hour[(size_t)d->hour] : 0;
    for (size_t i = 0; i < DISTRIBUTION_FEATURES; i++) {
        f[i] = clip(f[i], -4, 4);
        guess += s->regression[i] * f[i];
    }
    guess *= fmin(s->truths / 30, 1);
    d->scale[DISTRIBUTION_SCALES - 1] = fmax(unit * exp(clip(guess, -3.5, 2.5)) / 0.6, least);
}

static void insert(struct distribution *d, struct distribution_value atom) {
    size_t n = (size_t)d->atom_count++;
    for (; n > 0 && d->atoms[n - 1].value > atom.value; n--)
        d->atoms[n] = d->atoms[n - 1];
    d->atoms[n] = atom;
}

static void issue_atoms(const struct distribution_state *s, struct distribution *d) {
    double total = 0, most = 0, near[DISTRIBUTION_ATOMS];
    struct mixture m;
    expand(&m, d);
    for (size_t i = 0; i < DISTRIBUTION_TABLE; i++)
        total += s->table[i].weight > 0.03 ? s->table[i].weight : 0;
    for (size_t i = 0; i < DISTRIBUTION_TABLE; i++) {
        struct distribution_value atom = s->table[i];
        bool again = atom.weight > 0.03, newest = atom.weight > 1e-6 && atom.value == s->last;
        atom.weight = (again ? (1 - STICK) * atom.weight / total : 0) + (newest ? STICK : 0);
        if (again || newest)
            insert(d, atom);
    }
    size_t count = (size_t)d->atom_count;
    for (size_t n = 0; n < count; n++) {
        double v = d->atoms[n].value, low = 0, high = 1;
        if (count > 1) {
            mixture_at(&m, v - d->unit / 4, &low);
            mixture_at(&m, v + d->unit / 4, &high);
        }
        near[n] = high - low + TINY;
        most = fmax(most, near[n]);
    }
    total = 0;
    for (size_t n = 0; n < count; n++)
        total += d->atoms[n].weight *= near[n] / most;
    for (size_t n = 0; n < count; n++)
        d->atoms[n].weight *= d->share / total;
}

void distribution_issue(const struct distribution_state *s, double point, double time,
                        const double *experts, size_t count, struct distribution *d) {
    *d = (struct distribution){0};
    if (s->values < 2 || !isfinite(point))
        return;
    d->issued = 1;
    d->point = point;
    d->hour = isfinite(time) ? fmod(fmod(floor(time / 3600), 24) + 24, 24) : -1;
    issue_scales(s, d, experts, count);
    memcpy(d->weight, s->weight, sizeof d->weight);
    for (size_t k = 0; k < DISTRIBUTION_LATTICES; k++)
        if (s->multiples[k] >= 30)
            d->lattice = lattices[k];
    if (d->lattice < 0.02 * d->unit)
        d->lattice = 0;
    for (size_t end = 0; end < 2 && s->ends[0].value < s->ends[1].value; end++)
        if (s->ends[end].weight >= fmax(3, 0.002 * s->values))
            d->ends[end] =
                (struct distribution_value){s->ends[end].value, 1 / (s->ends[end].weight + 1)};
    d->repeats = s->repeats;
    d->share = s->share[s->repeats > 0];
    issue_atoms(s, d);
    for (size_t b = 0; b < DISTRIBUTION_BINS; b++)
        d->correction[b + 1] =
            d->correction[b] +
            (s->histogram[b] + PRIOR * (edge(b + 1) - edge(b))) / (s->mass + PRIOR);
    d->correction[DISTRIBUTION_BINS] = 1;
}

/* ---- Checkpoints ---- */

bool distribution_state_valid(const struct distribution_state *s) {
    double sum = 0;
    for (size_t b = 0; b < DISTRIBUTION_BINS; b++)
        sum += s->histogram[b];
    bool valid = within(&s->begun, sizeof *s, -FINITE_SQUARE_MOST, FINITE_SQUARE_MOST) &&
                 (s->begun == 1 || s->values == 0) && s->truths >= 0 && s->values >= 0 &&
                 s->change >= 0 && s->size >= 0 && s->mass >= 0 && s->mass <= MASS_MOST &&
                 fabs(sum - s->mass) <= 1e-6 * (1 + s->mass) && regression_valid(s) &&
                 within(s->scale, sizeof s->scale, 0, FINITE_SQUARE_MOST) &&
                 within(s->weight, sizeof s->weight, s->begun > 0 ? WEIGHT_LEAST : 0, 1) &&
                 within(s->hour_count, sizeof s->hour_count, 0, FINITE_SQUARE_MOST) &&
                 within(s->share, sizeof s->share, 0, SHARE_MOST) &&
                 within(s->share_count, sizeof s->share_count, 0, FINITE_SQUARE_MOST) &&
                 within(s->histogram, sizeof s->histogram, 0, MASS_MOST);
    for (size_t n = 0; n < DISTRIBUTION_TABLE; n++)
        valid = valid && s->table[n].weight >= 0 && s->table[n].weight <= 1.01;
    return valid && s->ends[0].weight >= 0 && s->ends[1].weight >= 0;
}

bool distribution_valid(const struct distribution *d) {
    bool valid = within(&d->issued, sizeof *d, -FINITE_MOST, FINITE_MOST) && d->atom_count >= 0 &&
                 d->atom_count <= DISTRIBUTION_ATOMS && d->atom_count == floor(d->atom_count) &&
                 d->hour >= -1 && d->hour < DISTRIBUTION_HOURS && d->hour == floor(d->hour) &&
                 d->share >= 0 && d->share <= SHARE_MOST &&
                 within(d->weight, sizeof d->weight, 0, 1) &&
                 within(d->feature, sizeof d->feature, -4, 4);
    for (size_t n = 0; n < DISTRIBUTION_ATOMS; n++)
        valid = valid && d->atoms[n].weight >= 0 && d->atoms[n].weight <= 1;
    for (size_t n = 0; n < 2; n++)
        valid = valid && d->ends[n].weight >= 0 && d->ends[n].weight <= 1;
    for (size_t b = 0; b < DISTRIBUTION_BINS && d->issued != 0; b++)
        valid = valid && d->correction[b + 1] > d->correction[b] && d->correction[b + 1] <= 1;
    return valid &&
           (d->lattice == 0 ||
            (d->lattice >= lattices[0] && d->lattice <= lattices[DISTRIBUTION_LATTICES - 1])) &&
           (d->issued == 0 || (within(d->scale, sizeof d->scale, SCALE_LEAST, FINITE_MOST) &&
                               d->unit >= SCALE_LEAST && d->fast >= SCALE_LEAST));
}
