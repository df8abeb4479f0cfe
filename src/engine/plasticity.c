#include "plasticity.h"

#include <math.h>

#include "engine.h"

static const double LEAST_WEIGHT = 0.01, GROWN = 2, LOST = 0.5, MOST_PROBES = 0x1p53;

bool plasticity_add(struct plasticity *p, const struct update_result *update) {
    p->probes++;
    p->mean += fmax(1 / p->probes, LEAST_WEIGHT) * (update->plasticity - p->mean);
    if (p->probes < 1 / LEAST_WEIGHT) /* too few for a best */
        return false;
    p->best = fmax(p->best, p->mean);
    if (!(update->growth >= GROWN * fmax(p->growth, 1)) || p->mean >= LOST * p->best)
        return false;
    p->growth = update->growth;
    return true;
}

static bool is_count(double x) {
    return x >= 0 && x <= MOST_PROBES && floor(x) == x;
}

static bool is_share(double x) {
    return x >= 0 && x <= 1;
}

bool plasticity_valid(const struct plasticity *p) {
    return is_count(p->planned) && is_count(p->probes) && is_share(p->mean) && is_share(p->best) &&
           isfinite(p->growth) && p->growth >= 0;
}
