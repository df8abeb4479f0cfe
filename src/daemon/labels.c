#include "labels.h"

#include <math.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/fields.h"
#include "common/example.h"
#include "parts.h"

/* A bin holds what is below its end and not in the one before; the last holds all others. */
struct bin {
    double end;
    const char *name;
};

static const struct bin AGES[] = {
    {1, "0"},      {2, "1"},      {4, "2-3"},      {8, "4-7"},         {16, "8-15"},
    {32, "16-31"}, {64, "32-63"}, {128, "64-127"}, {1024, "128-1023"}, {INFINITY, "1024-"},
};

static const struct bin DELAYS[] = {
    {0, "negative"}, {1, "1s"},     {10, "10s"},    {60, "1min"},         {600, "10min"},
    {3600, "1h"},    {86400, "1d"}, {604800, "7d"}, {INFINITY, "longer"},
};

enum {
    AGE_BINS = sizeof AGES / sizeof *AGES,
    DELAY_BINS = sizeof DELAYS / sizeof *DELAYS,
};

struct labels {
    uint64_t taken;
    struct field_count ages[AGE_BINS], delays[DELAY_BINS], refused[LABEL_REFUSALS];
};

int labels_open(struct daemon *daemon, struct error *error) {
    struct labels *labels = daemon->labels = calloc(1, sizeof *labels);
    if (!labels)
        return error_no_memory(error);
    for (int n = 0; n < AGE_BINS; n++)
        labels->ages[n].name = AGES[n].name;
    for (int n = 0; n < DELAY_BINS; n++)
        labels->delays[n].name = DELAYS[n].name;
    for (int n = 0; n < LABEL_REFUSALS; n++)
        labels->refused[n].name = learner_label_refusal((enum label_refusal)n);
    return 0;
}

void labels_close(struct daemon *daemon) {
    free(daemon->labels);
    daemon->labels = NULL;
}

static void count(struct field_count *counts, const struct bin *bins, double value) {
    size_t n = 0;
    while (!(value < bins[n].end) && isfinite(bins[n].end))
        n++;
    counts[n].count++;
}

void labels_add(struct daemon *daemon, const struct example *label, size_t age, double time) {
    struct labels *labels = daemon->labels;
    labels->taken++;
    count(labels->ages, AGES, (double)age);
    if (label->time > 0 && time > 0)
        count(labels->delays, DELAYS, label->time - time);
}

void labels_refuse(struct daemon *daemon, enum label_refusal why) {
    daemon->labels->refused[why].count++;
}

void labels_report(const struct daemon *daemon, struct status_fields *status) {
    const struct labels *labels = daemon->labels;
    status->labels_taken = labels->taken;
    status->labels_age = (struct field_tally){labels->ages, AGE_BINS};
    status->labels_delay = (struct field_tally){labels->delays, DELAY_BINS};
    status->labels_refused = (struct field_tally){labels->refused, LABEL_REFUSALS};
}
