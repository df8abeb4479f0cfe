#include "recent.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "common/finite.h"
#include "habit.h"
#include "novelty.h"

void recent_begin(struct recent *recent) {
    memset(recent, 0, sizeof *recent);
    tail_begin(&recent->tail);
}

/* Those before the first are 0. The sum is made anew, for one that is kept would drift. */
static double mean_of(const struct recent *recent) {
    double sum = 0;
    for (size_t n = 0; n < RECENT_SPAN; n++)
        sum += recent->losses[n];
    return sum / RECENT_SPAN;
}

double recent_take(struct recent *recent, double loss, bool learn) {
    double score = NAN, t = recent->count;
    if (!isfinite(loss))
        return NAN;
    recent->losses[(uint64_t)t % RECENT_SPAN] = fmax(loss, 0);
    recent->count++;
    double mean = mean_of(recent);
    if (tail_knows(&recent->tail))
        score = novelty_patient(tail_unlikeliness(&recent->tail, mean), t);
    if (learn && t >= NOVELTY_DELAY)
        tail_learn(&recent->tail, mean);
    return score;
}

bool recent_valid(const struct recent *recent) {
    bool valid = habit_is_count(recent->count) && tail_valid(&recent->tail);
    for (size_t n = 0; valid && n < RECENT_SPAN; n++)
        valid = recent->losses[n] >= 0 && recent->losses[n] <= FINITE_MOST;
    return valid;
}
