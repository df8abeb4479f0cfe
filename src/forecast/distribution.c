#include "distribution.h"

#include <math.h>
#include <string.h>

#define FLOOR 1e-3 /* of a weight: the tails */
#define STICK 0.12 /* of the atoms: the newest value */
#define PRIOR 100.0
#define FORGET 0.002
#define FAR 30.0
#define KEEP 0.999 /* of the regression */
#define RIDGE 30.0
#define WEIGHT_RATE 0.04
#define TINY 1e-12

enum { SLOW = 3, SHAPES = 4, BEFORE_CAP = 31, HALF = 17, SOLVE_MOST = 200, WEIGHT_NEAR = 12 };

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

/* Centers, widths and inverse widths of the parts. */
struct mixture {
    const struct distribution *of;
    double at_atom[DISTRIBUTION_ATOMS][2]; /* M just below and at each, for quantiles */
    double center[DISTRIBUTION_PARTS], width[DISTRIBUTION_PARTS], inverse[DISTRIBUTION_PARTS];
};

static void expand(struct mixture *m, const struct distribution *d) {
    static const double mean = 2 * M_LN2; /* of |z| of a logistic distribution */
    double last = d->scale[DISTRIBUTION_SCALES - 1];
    m->of = d;
    for (size_t j = 0; j < DISTRIBUTION_PARTS - SHAPES; j++) {
        m->center[j] = d->point;
        m->width[j] = d->scale[j / SHAPES] * shapes[j % SHAPES] / mean;
    }
    for (size_t n = 0; n < SHAPES; n++) {
        m->center[DISTRIBUTION_PARTS - SHAPES + n] = d->point + aside[n][0] * last;
        m->width[DISTRIBUTION_PARTS - SHAPES + n] = aside[n][1] * last / mean;
    }
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        m->inverse[j] = 1 / m->width[j];
}

/* 1 / (1 + exp(-z)) of all parts. */
static void logistics(const double *restrict z, double *restrict out) {
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++) {
        double e = exp(fmax(-fabs(z[j]), -700)), near = 1 / (1 + e);
        out[j] = z[j] >= 0 ? near : e / (1 + e);
    }
}

static double mixture_at(const struct mixture *m, double x) {
    double z[DISTRIBUTION_PARTS], f[DISTRIBUTION_PARTS], sum = 0;
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        z[j] = (x - m->center[j]) / m->width[j];
    logistics(z, f);
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        sum += m->of->weight[j] * f[j];
    return sum;
}

/* M(x) with its first two derivatives. */
static double mixture_slopes(const struct mixture *m, double x, double *first, double *second) {
    double z[DISTRIBUTION_PARTS], f[DISTRIBUTION_PARTS], sum = 0;
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        z[j] = (x - m->center[j]) * m->inverse[j];
    logistics(z, f);
    *first = *second = 0;
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++) {
        double w = m->of->weight[j], slope = w * f[j] * (1 - f[j]) * m->inverse[j];
        sum += w * f[j];
        *first += slope;
        *second += slope * (1 - 2 * f[j]) * m->inverse[j];
    }
    return sum;
}

/* ---- F ---- */

/* M with lattice and bounds at x, or just below x. */
static double middle(const struct mixture *m, double x, bool below) {
    const struct distribution *d = m->of;
    double at = x;
    if (d->lattice > 0) {
        double k = x / d->lattice, near = floor(k + 0.5);
        k = fabs(k - near) < 1e-3 ? near - below : floor(k);
        at = (k + 0.5) * d->lattice;
    }
    double f = mixture_at(m, at);
    const struct distribution_value *least = &d->ends[0], *most = &d->ends[1];
    if (least->weight > 0 && (x < least->value || (below && x <= least->value)))
        f *= least->weight;
    if (most->weight > 0 && (x > most->value || (!below && x >= most->value)))
        f = 1 - most->weight * (1 - f);
    return f;
}

static double body(const struct mixture *m, double x, bool below) {
    const struct distribution *d = m->of;
    double atoms = 0;
    for (size_t n = 0; n < (size_t)d->atom_count; n++)
        if (below ? d->atoms[n].value < x : d->atoms[n].value <= x)
            atoms += d->atoms[n].weight;
    double f = (1 - d->share) * middle(m, x, below) + atoms;
    return f < 1 ? f : 1;
}

/* The last of the rising numbers that is at most x, but not the end of all. */
static size_t bin_of(const double *rising, double x) {
    size_t bin = 0;
    while (bin + 1 < DISTRIBUTION_BINS && (rising ? rising[bin + 1] : edge(bin + 1)) <= x)
        bin++;
    return bin;
}

static double corrected(const struct distribution *d, double u) {
    const double *c = d->correction;
    size_t b = bin_of(NULL, u);
    return c[b] + (c[b + 1] - c[b]) * (u - edge(b)) / (edge(b + 1) - edge(b));
}

double distribution_cdf(const struct distribution *issued, double x, bool below) {
    struct mixture m;
    expand(&m, issued);
    return corrected(issued, body(&m, x, below));
}

/* ---- Quantiles ---- */

/* Where M was solved last: its log odds there, and the slope of x over them. */
struct hint {
    double x, odds, slope;
};

/* x with M(x) = u: Halley's method on log odds, in which a logistic distribution is a line, within
   a bracket; it begins on the line through the last solution. */
static double solve(const struct mixture *m, double u, struct hint *hint) {
    const struct distribution *d = m->of;
    double low = -INFINITY, high = INFINITY, reach = 4 * d->unit;
    u = clip(u, TINY, 1 - TINY);
    double odds = log(u / (1 - u)), x = hint->x + (odds - hint->odds) * hint->slope;
    for (size_t n = 0; n < SOLVE_MOST; n++) {
        double first, second, f = mixture_slopes(m, x, &first, &second), next = NAN;
        if (f < u)
            low = x;
        else
            high = x;
        if (f > 0 && f < 1 && first > 0) {
            double error = log(f / (1 - f)) - odds, slope = first / (f * (1 - f));
            double bend = second / (f * (1 - f)) - slope * slope * (1 - 2 * f);
            next = x - 2 * error * slope / (2 * slope * slope - error * bend);
            hint->slope = 1 / slope;
        }
        if (fabs(next - x) <= 1e-5 * d->unit) { /* the next step would be near its third power */
            x = next;
            break;
        }
        if (!(next > low && next < high) || (n > 20 && isfinite(high - low))) {
            next = isinf(low) ? high - reach : isinf(high) ? low + reach : low + (high - low) / 2;
            reach *= 2;
            if (next == x || !isfinite(next))
                break;
        }
        x = next;
    }
    hint->x = x;
    hint->odds = odds;
    return d->lattice > 0 ? floor(x / d->lattice + 0.5) * d->lattice : x;
}

static double middle_quantile(const struct mixture *m, double u, struct hint *hint) {
    const struct distribution_value *least = &m->of->ends[0], *most = &m->of->ends[1];
    if (least->weight > 0) {
        if (u < middle(m, least->value, true))
            return fmin(solve(m, u / least->weight, hint), least->value);
        if (u <= middle(m, least->value, false))
            return least->value;
    }
    if (most->weight > 0) {
        if (u > middle(m, most->value, false))
            return fmax(solve(m, 1 - (1 - u) / most->weight, hint), most->value);
        if (u >= middle(m, most->value, true))
            return most->value;
    }
    return solve(m, u, hint);
}

static void expand_atoms(struct mixture *m) {
    for (size_t n = 0; n < (size_t)m->of->atom_count; n++)
        for (int at = 0; at < 2; at++)
            m->at_atom[n][at] = middle(m, m->of->atoms[n].value, !at);
}

static double quantile(const struct mixture *m, double level, struct hint *hint) {
    const struct distribution *d = m->of;
    const double *c = d->correction;
    size_t b = bin_of(c, level);
    double u = edge(b) + (edge(b + 1) - edge(b)) * (level - c[b]) / (c[b + 1] - c[b]);
    double below = 0, floor_value = -INFINITY, rest = 1 - d->share;
    for (size_t n = 0; n < (size_t)d->atom_count; n++) {
        const struct distribution_value *atom = &d->atoms[n];
        if (u < rest * m->at_atom[n][0] + below)
            return clip(middle_quantile(m, (u - below) / rest, hint), floor_value, atom->value);
        if (u <= rest * m->at_atom[n][1] + below + atom->weight)
            return atom->value;
        below += atom->weight;
        floor_value = atom->value;
    }
    return fmax(middle_quantile(m, fmin((u - below) / rest, 1 - TINY), hint), floor_value);
}

void distribution_quantiles(const struct distribution *issued, const double *levels, size_t count,
                            double *values) {
    struct mixture m;
    struct hint hint = {.x = issued->point};
    if (issued->issued > 0) {
        expand(&m, issued);
        expand_atoms(&m);
    }
    for (size_t n = 0; n < count; n++)
        values[n] = issued->issued > 0 ? quantile(&m, levels[n], &hint) : NAN;
}

/* ---- Scores ---- */

double distribution_crps(const struct distribution *issued, double truth) {
    double levels[DISTRIBUTION_CRPS_LEVELS], values[DISTRIBUTION_CRPS_LEVELS], sum = 0;
    for (size_t j = 0; j < DISTRIBUTION_CRPS_LEVELS; j++)
        levels[j] = ((double)j + 0.5) / DISTRIBUTION_CRPS_LEVELS;
    distribution_quantiles(issued, levels, DISTRIBUTION_CRPS_LEVELS, values);
    for (size_t j = 0; j < DISTRIBUTION_CRPS_LEVELS; j++)
        sum += (truth >= values[j] ? levels[j] : levels[j] - 1) * (truth - values[j]);
    return 2 * sum / DISTRIBUTION_CRPS_LEVELS;
}

double distribution_log_score(const struct distribution *issued, double truth) {
    struct mixture m;
    double width = fmax(issued->lattice, 0.1 * issued->unit);
    expand(&m, issued);
    double mass = corrected(issued, body(&m, truth + width / 2, false)) -
                  corrected(issued, body(&m, truth - width / 2, true));
    return -log(fmax(mass, TINY) / width);
}

double distribution_normal(double level) {
    double low = -8, high = 8;
    for (int n = 0; n < 60; n++) {
        double x = (low + high) / 2;
        if (erfc(-x * M_SQRT1_2) / 2 < level)
            low = x;
        else
            high = x;
    }
    return (low + high) / 2;
}

/* ---- Learning ---- */

static void begin(struct distribution_state *s) {
    double sum = DISTRIBUTION_SCALES + SHAPES * 0.25;
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        s->weight[j] = (j < DISTRIBUTION_PARTS - SHAPES ? first_weights[j % SHAPES] : 0.25) / sum;
    for (size_t i = 0; i < DISTRIBUTION_FEATURES; i++)
        s->covariance[i][i] = 1 / RIDGE;
    s->share[0] = s->share[1] = 0.05;
    s->begun = 1;
}

/* The mass of each part around the truth. */
static void masses(const struct mixture *m, double y, double *mass) {
    const struct distribution *d = m->of;
    double half = fmax(d->lattice / 2, 1e-3 * d->unit);
    double from[DISTRIBUTION_PARTS], to[DISTRIBUTION_PARTS];
    double at_from[DISTRIBUTION_PARTS], at_to[DISTRIBUTION_PARTS];
    bool least = d->ends[0].weight > 0 && y <= d->ends[0].value;
    bool most = d->ends[1].weight > 0 && y >= d->ends[1].value;
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++) {
        double high = (y + half - m->center[j]) / m->width[j];
        double low = (y - half - m->center[j]) / m->width[j];
        bool above = low > 0; /* by the upper tail, where differences are exact */
        from[j] = above ? -high : low;
        to[j] = above ? -low : high;
        if (least || most) {
            from[j] = -INFINITY;
            to[j] = least ? high : -low;
        }
    }
    logistics(to, at_to);
    logistics(from, at_from);
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        mass[j] = fmax(at_to[j] - at_from[j], TINY) + TINY;
}

/* Errors of consecutive steps are alike far ahead: h of them carry the information of about one. */
static double weight_rate(size_t ahead) {
    return ahead > WEIGHT_NEAR ? WEIGHT_RATE / (double)ahead : WEIGHT_RATE;
}

/* Online expectation maximization; returns the share of the truth's likelihood that M has. */
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
    double rate = fmax(weight_rate(ahead), 1 / (s->truths + 10)) * share;
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
    double gain[DISTRIBUTION_FEATURES], error = fmin(target, 4), trace = 0, along = 0;
    for (size_t i = 0; i < DISTRIBUTION_FEATURES; i++) {
        gain[i] = 0;
        error -= s->regression[i] * f[i];
        trace += s->covariance[i][i];
        for (size_t j = 0; j < DISTRIBUTION_FEATURES; j++)
            gain[i] += s->covariance[i][j] * f[j];
    }
    double keep = trace <= 1e3 ? KEEP : 1;
    for (size_t i = 0; i < DISTRIBUTION_FEATURES; i++)
        along += f[i] * gain[i];
    double k = 1 / (keep + along);
    for (size_t i = 0; i < DISTRIBUTION_FEATURES; i++) {
        s->regression[i] += k * gain[i] * error;
        for (size_t j = 0; j < DISTRIBUTION_FEATURES; j++)
            s->covariance[i][j] = (s->covariance[i][j] - k * gain[i] * gain[j]) / keep;
    }
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

void distribution_learn(struct distribution_state *state, const struct distribution *issued,
                        double truth, size_t ahead) {
    struct distribution_state *s = state;
    struct mixture m;
    expand(&m, issued);
    double low = body(&m, truth, true), high = body(&m, truth, false);
    double share = learn_weights(s, &m, truth, ahead), error = fabs(truth - issued->point);
    size_t repeats = issued->repeats > 0;
    double rate = fmax(0.02, 1 / (s->share_count[repeats] + 4));
    s->share_count[repeats]++;
    s->share[repeats] =
        clip(s->share[repeats] + rate * (1 - share - s->share[repeats]), 1e-4, 0.995);
    double target = log((error + 0.05 * issued->unit) / issued->unit);
    learn_scale(s, issued->feature, target);
    s->truths++;
    double near =
        s->truths > BEFORE_CAP ? fmin(error, FAR * fmax(issued->unit, issued->fast)) : error;
    for (size_t k = 0; k < DISTRIBUTION_RATES; k++)
        s->scale[k] += fmax(rates[k], 1 / s->truths) * (near - s->scale[k]);
    if (issued->hour >= 0) {
        size_t hour = (size_t)issued->hour;
        s->hour_count[hour]++;
        s->hour[hour] += fmax(0.03, 1 / (s->hour_count[hour] + 5)) * (target - s->hour[hour]);
    }
    learn_correction(s, low, high);
}

void distribution_miss(struct distribution_state *state) {
    state->change = 0;
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

void distribution_see(struct distribution_state *state, double value) {
    struct distribution_state *s = state;
    if (s->begun == 0)
        begin(s);
    bool first = s->values == 0;
    s->repeats = !first && s->last == value;
    s->change = first ? 0 : fabs(value - s->last);
    s->last = value;
    s->values++;
    s->size += fmax(0.003, 1 / s->values) * (fabs(value) - s->size);
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
        f[i] = i ? clip(f[i], -4, 4) : 1;
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
    bool sticks = false;
    struct mixture m;
    d->atom_count = 0;
    for (size_t i = 0; i < DISTRIBUTION_TABLE; i++)
        total += s->table[i].weight > 0.03 ? s->table[i].weight : 0;
    for (size_t i = 0; i < DISTRIBUTION_TABLE; i++) {
        struct distribution_value atom = s->table[i];
        if (!(atom.weight > 0.03))
            continue;
        bool newest = atom.value == s->last;
        sticks |= newest;
        insert(d, (struct distribution_value){atom.value, (1 - STICK) * atom.weight / total +
                                                              (newest ? STICK : 0)});
    }
    if (!sticks)
        insert(d, (struct distribution_value){s->last, STICK});
    size_t count = (size_t)d->atom_count;
    expand(&m, d);
    for (size_t n = 0; n < count; n++) {
        double v = d->atoms[n].value;
        near[n] = count > 1
                      ? mixture_at(&m, v + d->unit / 4) - mixture_at(&m, v - d->unit / 4) + TINY
                      : 1;
        most = fmax(most, near[n]);
    }
    total = 0;
    for (size_t n = 0; n < count; n++)
        total += d->atoms[n].weight *= near[n] / most;
    for (size_t n = 0; n < count; n++)
        d->atoms[n].weight *= d->share / total;
}

void distribution_issue(const struct distribution_state *state, double point, double time,
                        const double *experts, size_t count, struct distribution *issued) {
    const struct distribution_state *s = state;
    struct distribution *d = issued;
    *d = (struct distribution){0};
    if (s->values < 2 || !isfinite(point))
        return;
    d->issued = 1;
    d->point = point;
    d->hour = isfinite(time) ? fmod(floor(time / 3600), 24) : -1;
    if (isfinite(time) && d->hour < 0)
        d->hour += 24;
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

static bool finite_numbers(const double *numbers, size_t size) {
    for (size_t n = 0; n < size / sizeof *numbers; n++)
        if (!isfinite(numbers[n]))
            return false;
    return true;
}

bool distribution_state_valid(const struct distribution_state *state) {
    const struct distribution_state *s = state;
    bool valid = finite_numbers(&s->begun, sizeof *s) && s->truths >= 0 && s->values >= 0 &&
                 s->size >= 0 && s->mass >= 0 && (s->begun == 1 || s->values == 0);
    for (size_t k = 0; k < DISTRIBUTION_RATES; k++)
        valid = valid && s->scale[k] >= 0;
    for (size_t j = 0; j < DISTRIBUTION_PARTS; j++)
        valid = valid && s->weight[j] >= 0 && s->weight[j] <= 1 && (!s->begun || s->weight[j] > 0);
    for (size_t n = 0; n < 2; n++)
        valid = valid && s->share[n] >= 0 && s->share[n] < 1 && s->share_count[n] >= 0;
    for (size_t b = 0; b < DISTRIBUTION_BINS; b++)
        valid = valid && s->histogram[b] >= 0;
    return valid;
}

bool distribution_valid(const struct distribution *issued) {
    const struct distribution *d = issued;
    bool valid = finite_numbers(&d->issued, sizeof *d) && d->atom_count >= 0 &&
                 d->atom_count <= DISTRIBUTION_ATOMS && d->atom_count == floor(d->atom_count) &&
                 d->hour >= -1 && d->hour < DISTRIBUTION_HOURS && d->hour == floor(d->hour);
    for (size_t k = 0; k < DISTRIBUTION_SCALES; k++)
        valid = valid && (d->issued == 0 || d->scale[k] > 0);
    for (size_t b = 0; b < DISTRIBUTION_BINS; b++)
        valid = valid && (d->issued == 0 || d->correction[b + 1] > d->correction[b]);
    return valid && d->lattice >= 0 && d->share >= 0 && d->share < 1;
}
