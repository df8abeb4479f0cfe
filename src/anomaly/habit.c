#include "habit.h"

#include <math.h>

#define WHOLE_MOST 9007199254740992.0

bool habit_is_count(double value) {
    return value >= 0 && value <= WHOLE_MOST && value == floor(value);
}

double habit_limit(const struct habit *habit, double least) {
    return fmax(HABIT_FACTOR * habit->longest, least);
}

bool habit_goes_on(struct habit *habit, double known) {
    habit->now++;
    if (habit->reported == 1 || known < HABIT_KNOWN ||
        habit->now <= habit_limit(habit, HABIT_LEAST))
        return false;
    habit->reported = 1;
    return true;
}

void habit_end(struct habit *habit, double least) {
    double longest = habit->now;
    if (habit->reported == 1)
        longest = fmin(longest, habit_limit(habit, least));
    habit->longest = fmax(habit->longest, longest);
    habit->ended++;
    habit->now = habit->reported = 0;
}

bool habit_valid(const struct habit *habit) {
    return habit->now >= 0 && habit->longest >= 0 && habit_is_count(habit->ended) &&
           (habit->reported == 0 || habit->reported == 1) && isfinite(habit->now + habit->longest);
}
