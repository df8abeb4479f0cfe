#include "silence.h"

#include <math.h>
#include <string.h>

enum {
    LEAP = 10,        /* times what is too long for a stream: nobody watched it meanwhile */
    LAGGING_MOST = 2, /* examples by place of a stream: then the data have begun again earlier */
};

static double deadline_of(const struct heard *heard) {
    const struct habit *silences = &heard->silences;
    if (silences->ended < HABIT_KNOWN || silences->told == 1)
        return INFINITY;
    return heard->last + habit_limit(silences, 0);
}

/* Streams whose time stamps lag do not take it back. */
static void advance(struct silence *silence, size_t slots, double time) {
    double confirmed = fmin(time, silence->newest), before = silence->clock;
    silence->newest = time;
    silence->lagging = confirmed < before ? silence->lagging + 1 : 0;
    silence->clock = fmax(before, confirmed);
    if (silence->lagging > LAGGING_MOST * slots) {
        silence->lagging = 0;
        silence->clock = confirmed;
        silence->earliest = 0; /* look at all of them */
    }
    silence->leap = before > 0 ? silence->clock - before : 0;
}

/* A leap of the clock is no habit: it does not count, or at most as LEAP while little is known. */
static void end_pause(struct habit *silences, double pause, double leap) {
    double limit = habit_limit(silences, 0);
    if (limit > 0 && leap > LEAP * limit)
        pause -= leap;
    if (!(pause > 0))
        return;
    silences->now = limit > 0 ? fmin(pause, LEAP * limit) : pause;
    if (silences->ended >= HABIT_KNOWN && pause > limit)
        silences->told = 1;
    habit_end(silences, 0);
}

void silence_heard(struct silence *silence, struct heard *heard, size_t slots, double time,
                   bool begins) {
    if (begins)
        memset(heard, 0, sizeof *heard);
    silence->leap = 0;
    if (time > 0)
        advance(silence, slots, time);
    if (time > 0 && heard->last > 0 && silence->clock > heard->last)
        end_pause(&heard->silences, silence->clock - heard->last, silence->leap);
    /* The clock may leap to where a stream begins: that is no pause of its. */
    heard->last = begins && time > silence->clock ? 0 : silence->clock;
    heard->silences.told = 0;
    silence->earliest = fmin(silence->earliest, deadline_of(heard));
}

bool silence_may_be(struct silence *silence) {
    if (silence->clock <= silence->earliest)
        return false;
    silence->earliest = INFINITY;
    return true;
}

bool silence_is(struct silence *silence, struct heard *heard) {
    if (heard->last > silence->clock) { /* the data have begun again, earlier: it may be gone */
        heard->last = silence->clock;
        heard->silences.told = 1;
        return false;
    }
    double deadline = deadline_of(heard);
    if (silence->clock <= deadline) {
        silence->earliest = fmin(silence->earliest, deadline);
        return false;
    }
    heard->silences.told = 1;
    if (silence->leap <= LEAP * (deadline - heard->last))
        return true;
    heard->last = silence->clock; /* the leap is no pause of its */
    return false;
}

void silence_go_on(struct silence *silence, const struct heard *heard) {
    silence->clock = silence->newest = fmax(silence->clock, heard->last);
    silence->earliest = 0;
}

void silence_moved(struct silence *silence, struct heard *heard) {
    heard->last = silence->clock;
    if (!(silence->clock > 0))
        heard->silences.told = 1; /* until it is heard here */
    silence->earliest = fmin(silence->earliest, deadline_of(heard));
}

bool silence_valid(const struct heard *heard) {
    return heard->last >= 0 && isfinite(heard->last) && habit_valid(&heard->silences);
}
