#include "alarm.h"

#include <math.h>

#include "common/finite.h"
#include "habit.h"

bool alarm_raised(struct alarm *alarm, const struct alarm_rule *rule, double score, uint64_t step) {
    double tired = 0;
    if (!(score >= rule->threshold))
        return false;
    if (alarm->last > 0) {
        double since = (double)step - (alarm->last - 1);
        tired = alarm->tired * exp(-since / rule->recovery);
        if (since <= rule->rest || score < rule->threshold + tired)
            return false;
    }
    alarm->tired = tired + rule->fatigue;
    alarm->last = (double)step + 1;
    return true;
}

bool alarm_valid(const struct alarm *alarm) {
    return alarm->tired >= 0 && alarm->tired <= FINITE_MOST && habit_is_count(alarm->last);
}
