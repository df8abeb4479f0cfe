/* The list holds the parts of incidents that are open somewhere, in the order of their begins. It
   keeps keys, since slots of forgotten streams are reused while the plan is not yet played. */
#include "incidents.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "anomalies.h"
#include "common/clock.h"
#include "config/config.h"
#include "part.h"

#define NUMBERS(type) (sizeof(type) / sizeof(double))

struct listed {
    uint32_t before, after;
    bool is_listed;
    bool silenced; /* of the first of an incident: as it was published */
    size_t group, key_size;
    char key[WIRE_KEY_MAX];
};

struct incidents {
    struct part_host *host;
    struct anomaly *anomaly;
    struct share_config groups;
    double rest;
    size_t columns, size;
    const uint16_t *at;
    uint32_t end;                   /* of the list: a slot after all streams */
    double *state;                  /* (slots, size) */
    double *shares;                 /* (columns,) */
    struct incident_column *newest; /* (columns,) */
    struct listed *list;            /* (slots + 1,) */
};

static struct incident *part_at(const struct incidents *i, uint32_t slot) {
    return (struct incident *)(void *)incidents_state(i, slot);
}

static struct incident_column *columns_at(const struct incidents *i, uint32_t slot) {
    return (struct incident_column *)(void *)(part_at(i, slot) + 1);
}

struct incidents *incidents_open(struct part_host *host, const struct config *config,
                                 struct anomaly *anomaly, size_t columns, const uint16_t *at) {
    struct incidents *i = calloc(1, sizeof *i);
    if (!i)
        return NULL;
    i->host = host;
    i->anomaly = anomaly;
    i->groups = config->anomaly.group;
    i->rest = config->anomaly.rule.rest;
    i->columns = columns;
    i->at = at;
    i->size = NUMBERS(struct incident) + columns * NUMBERS(struct incident_column);
    i->end = (uint32_t)host->slots;
    i->state = calloc(host->slots, i->size * sizeof *i->state);
    i->shares = calloc(columns + 1, sizeof *i->shares);
    i->newest = calloc(columns + 1, sizeof *i->newest);
    i->list = calloc(host->slots + 1, sizeof *i->list);
    if (!i->state || !i->shares || !i->newest || !i->list) {
        incidents_close(i);
        return NULL;
    }
    i->list[i->end].before = i->list[i->end].after = i->end;
    return i;
}

void incidents_close(struct incidents *i) {
    if (!i)
        return;
    free(i->state);
    free(i->shares);
    free(i->newest);
    free(i->list);
    free(i);
}

/* ---- The list ---- */

static void unlist(struct incidents *i, uint32_t slot) {
    struct listed *one = &i->list[slot];
    if (!one->is_listed)
        return;
    i->list[one->before].after = one->after;
    i->list[one->after].before = one->before;
    one->is_listed = false;
}

static void list(struct incidents *i, uint32_t slot, const char *key, size_t key_size) {
    struct listed *one = &i->list[slot];
    double begin = part_at(i, slot)->begin.example;
    unlist(i, slot);
    one->before = i->list[i->end].before;
    while (one->before != i->end && part_at(i, one->before)->begin.example > begin)
        one->before = i->list[one->before].before;
    one->after = i->list[one->before].after;
    i->list[one->before].after = i->list[one->after].before = slot;
    one->is_listed = true;
    one->group = config_prefix(&i->groups, key, key_size);
    memcpy(one->key, key, one->key_size = key_size);
}

/* The part of the same incident as `of` after the one in `slot`; after the end the first. */
static uint32_t next_part(const struct incidents *i, uint32_t of, uint32_t slot) {
    if (i->list[of].group == SIZE_MAX)
        return slot == i->end ? of : i->end;
    do
        slot = i->list[slot].after;
    while (slot != i->end && part_at(i, slot)->number != part_at(i, of)->number);
    return slot;
}

/* Data without times are silenced by the clock. It decides only what is published, and enters no
   state: a stream of such data that is abnormal since before a kill may be announced again. */
static bool is_silenced(const struct incident *part, double time) {
    return part->silence > 0 && (time > 0 ? time : clock_unix()) <= part->silence;
}

/* The whole incident, without columns. */
static struct learner_incident gather(const struct incidents *i, uint32_t of) {
    size_t group = i->list[of].group;
    struct learner_incident whole = {
        .ended = true,
        .silenced = true,
        .group = group == SIZE_MAX ? NULL : i->groups.prefixes[group],
    };
    for (uint32_t slot = i->end; (slot = next_part(i, of, slot)) != i->end;) {
        const struct incident *part = part_at(i, slot);
        const struct listed *one = &i->list[slot];
        if (whole.stream_count == 0)
            whole.sum = *part;
        else
            incident_join(&whole.sum, part);
        whole.ended &= part->open == 0;
        whole.silenced &= is_silenced(part, part->end.time);
        if (whole.stream_count < LEARNER_INCIDENT_STREAMS)
            whole.streams[whole.stream_count++] = (struct learner_key){one->key, one->key_size};
    }
    return whole;
}

/* The newest values of each column, without those of x. */
static void keep_values(const struct incidents *i, uint32_t slot, const float *x,
                        struct incident_column *columns) {
    for (size_t k = 0; k < i->columns; k++) {
        columns[k].share = 0;
        columns[k].count = (double)anomaly_recent(i->anomaly, slot, k, x && !isnan(x[k]),
                                                  INCIDENT_VALUES, columns[k].values);
    }
}

/* Values are those of the first stream. Returns false while the journal is replayed. */
static bool publish(const struct incidents *i, uint32_t of, struct learner_incident *whole) {
    const struct learner_observer *observer = &i->host->observer;
    uint32_t first = next_part(i, of, i->end);
    memset(i->shares, 0, i->columns * sizeof *i->shares);
    for (uint32_t slot = i->end; (slot = next_part(i, of, slot)) != i->end;)
        for (size_t k = 0; k < i->columns; k++)
            i->shares[k] += columns_at(i, slot)[k].share / whole->sum.steps;
    for (size_t k = 0; k < i->columns; k++)
        i->shares[k] = i->shares[k] > 0 ? i->shares[k] : (double)NAN;
    keep_values(i, first, NULL, i->newest);
    whole->blame = (struct learner_alarm){.kind = ALARM_LEVEL,
                                          .example = i->host->counters.examples + 1,
                                          .columns = i->columns,
                                          .at = i->at,
                                          .result = {.shares = i->shares}};
    whole->before = columns_at(i, first);
    whole->newest = i->newest;
    return observer->incident && observer->incident(observer->context, whole);
}

/* Unlists the incident if no part is open. */
static void end_whole(struct incidents *i, uint32_t of) {
    struct learner_incident whole = gather(i, of);
    if (!whole.ended)
        return;
    publish(i, of, &whole);
    for (uint32_t next, slot = next_part(i, of, i->end); slot != i->end; slot = next) {
        next = next_part(i, of, slot);
        unlist(i, slot);
    }
}

/* ---- Steps ---- */

/* Returns the number of the incident that the stream's alarm begins or joins. */
static double number_of(const struct incidents *i, const struct planned *example, double own) {
    size_t group = config_prefix(&i->groups, example->key, example->key_size);
    uint32_t slot = group == SIZE_MAX ? i->end : i->list[i->end].after;
    for (; slot != i->end; slot = i->list[slot].after)
        if (i->list[slot].group == group && part_at(i, slot)->open == 1)
            return part_at(i, slot)->number;
    return own;
}

/* Shares of scores sum up to 1; those of level are shares already. */
static void add_shares(const struct incidents *i, uint32_t slot, const struct learner_alarm *step) {
    const double *scores = anomalies_alarm_scores(step);
    struct incident_column *columns = columns_at(i, slot);
    double sum = 0;
    if (isnan(step->score)) {
        columns[step->column].share++;
        return;
    }
    for (size_t k = 0; k < i->columns; k++)
        sum += scores[k] > 0 ? scores[k] : 0;
    sum = step->kind == ALARM_LEVEL ? 1 : sum;
    for (size_t k = 0; k < i->columns; k++)
        columns[k].share += scores[k] > 0 ? scores[k] / sum : 0;
}

bool incidents_take(struct incidents *i, const struct planned *example,
                    const struct learner_alarm *step, bool alarm) {
    uint32_t slot = example->slot;
    struct incident *part = part_at(i, slot);
    const struct incident_peak peak = {
        .at = {(double)step->example, step->time > 0 ? step->time : 0},
        .score = isnan(step->score) ? -1 : step->score,
        .excess = isnan(step->score) ? -1 : step->score - step->threshold,
        .reason = (double)step->kind,
    };
    double before = part->number;
    if (part->open == 0) {
        if (!alarm)
            return false;
        incident_begin(part, number_of(i, example, peak.at.example));
        if (part->number != before)
            keep_values(i, slot, step->x, columns_at(i, slot));
    }
    if (incident_add(part, (double)anomaly_steps(i->anomaly, slot), &peak, alarm))
        add_shares(i, slot, step);
    if (part->number != before)
        list(i, slot, example->key, example->key_size);
    bool begins = part->number != before && part->number == peak.at.example;
    struct listed *first = &i->list[next_part(i, slot, i->end)];
    struct learner_incident whole = gather(i, slot);
    bool published = true;
    if (begins || (first->silenced && !whole.silenced))
        published = publish(i, slot, &whole);
    first->silenced = whole.silenced || (!published && !begins && peak.at.time == 0);
    return whole.silenced;
}

void incidents_played(struct incidents *i, const struct planned *example) {
    struct incident *part = part_at(i, example->slot);
    part->newest = example->time > 0 ? example->time : 0;
    if (incident_ends(part, (double)anomaly_steps(i->anomaly, example->slot), i->rest))
        end_whole(i, example->slot);
}

void incidents_drop(struct incidents *i, uint32_t slot) {
    struct incident *part = part_at(i, slot);
    if (part->open == 1) {
        part->open = 0;
        end_whole(i, slot);
    }
    incidents_clear(i, slot);
}

double incidents_silence(struct incidents *i, uint32_t slot, double seconds, double now) {
    struct incident *part = part_at(i, slot);
    double from = part->newest > 0 ? part->newest : now;
    return part->silence = seconds > 0 ? from + seconds : fmin(part->silence, from);
}

bool incidents_are_silenced(const struct incidents *i, uint32_t slot, double time) {
    const struct incident *part = part_at(i, slot);
    return is_silenced(part, part->newest > 0 ? time : 0);
}

size_t incidents_count(const struct incidents *i) {
    size_t count = 0;
    for (uint32_t slot = i->list[i->end].after; slot != i->end; slot = i->list[slot].after) {
        if (next_part(i, slot, i->end) != slot)
            continue;
        const struct learner_incident whole = gather(i, slot);
        count += !whole.ended && !whole.silenced;
    }
    return count;
}

/* ---- State ---- */

size_t incidents_size(const struct incidents *i) {
    return i->size;
}

double *incidents_state(const struct incidents *i, uint32_t slot) {
    return i->state + (size_t)slot * i->size;
}

void incidents_clear(struct incidents *i, uint32_t slot) {
    unlist(i, slot);
    memset(incidents_state(i, slot), 0, i->size * sizeof *i->state);
}

void incidents_reset(struct incidents *i) {
    while (i->list[i->end].after != i->end)
        incidents_clear(i, i->list[i->end].after);
}

bool incidents_valid(const struct incidents *i, uint32_t slot) {
    return incident_valid(part_at(i, slot), columns_at(i, slot), i->columns);
}

void incidents_filled(struct incidents *i, uint32_t slot) {
    const struct incident *part = part_at(i, slot);
    size_t key_size;
    const char *key = streams_key(i->host->streams, slot, &key_size);
    unlist(i, slot);
    if (part->number == 0)
        return;
    list(i, slot, key, key_size);
    i->list[slot].silenced =
        part->silence > 0 && (part->end.time == 0 || part->end.time <= part->silence);
}
