#include "incident.h"

#include <float.h>

#include "common/finite.h"
#include "habit.h"

enum { REASONS = 5 };
#define ALARMS_MOST 1e12 /* their sum over all streams is an integer of 64 bits */

void incident_begin(struct incident *incident, double number) {
    *incident = (struct incident){
        .number = number, .open = 1, .newest = incident->newest, .silence = incident->silence};
}

bool incident_add(struct incident *incident, double step, const struct incident_peak *peak,
                  bool alarm) {
    bool begins = incident->steps == 0;
    bool added = !begins && incident->step == step && incident->end.example == peak->at.example;
    if (begins)
        incident->begin = peak->at;
    if (begins || peak->excess > incident->peak.excess)
        incident->peak = *peak;
    incident->end = peak->at;
    incident->step = step;
    incident->steps += !added;
    incident->alarms += alarm;
    return !added;
}

bool incident_ends(struct incident *incident, double step, double rest) {
    if (incident->open == 0 || step == incident->step || step - incident->step < rest)
        return false;
    incident->open = 0;
    return true;
}

void incident_join(struct incident *incident, const struct incident *part) {
    if (part->begin.example < incident->begin.example)
        incident->begin = part->begin;
    if (part->end.example > incident->end.example)
        incident->end = part->end;
    if (part->peak.excess > incident->peak.excess)
        incident->peak = part->peak;
    incident->steps += part->steps;
    incident->alarms += part->alarms;
}

static bool at_valid(const struct incident_at *at) {
    return habit_is_count(at->example) && at->time >= 0 && at->time <= DBL_MAX;
}

bool incident_valid(const struct incident *i, const struct incident_column *columns, size_t count) {
    bool valid = habit_is_count(i->number) && (i->open == 0 || (i->open == 1 && i->number > 0)) &&
                 (i->number == 0) == (i->steps == 0) && habit_is_count(i->step) &&
                 at_valid(&i->begin) && at_valid(&i->end) && at_valid(&i->peak.at) &&
                 finite_within(&i->peak.score, 2, FINITE_MOST) && habit_is_count(i->peak.reason) &&
                 i->peak.reason < REASONS && habit_is_count(i->steps) &&
                 habit_is_count(i->alarms) && i->alarms <= ALARMS_MOST &&
                 finite_within(&i->newest, 2, DBL_MAX);
    for (size_t k = 0; valid && k < count; k++)
        valid = habit_is_count(columns[k].count) && columns[k].count <= INCIDENT_VALUES &&
                finite_within(&columns[k].share, sizeof *columns / sizeof(double), FINITE_MOST);
    return valid;
}
