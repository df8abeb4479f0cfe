/* A list for each group, and one for the streams without, holds the parts of open incidents. It
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
    bool silenced; /* of a head, or a stream without a group: as the incident was published */
    size_t group;  /* groups.count: none */
    size_t key_size;
    char key[WIRE_KEY_MAX];
};

struct incidents {
    struct part_host *host;
    struct anomaly *anomaly;
    struct share_config groups;
    double rest;
    size_t columns, size;
    bool unordered; /* parts were read: see order */
    const uint16_t *at;
    uint32_t heads;                 /* of the lists, by group: slots after all streams */
    double *state;                  /* (slots, size) */
    double *shares;                 /* (columns,) */
    struct incident_column *newest; /* (columns,) */
    struct listed *list;            /* (slots + groups + 1,) */
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
    i->heads = (uint32_t)host->slots;
    i->state = calloc(host->slots, i->size * sizeof *i->state);
    i->shares = calloc(columns + 1, sizeof *i->shares);
    i->newest = calloc(columns + 1, sizeof *i->newest);
    i->list = calloc(host->slots + i->groups.count + 1, sizeof *i->list);
    if (!i->state || !i->shares || !i->newest || !i->list) {
        incidents_close(i);
        return NULL;
    }
    for (uint32_t head = i->heads; head <= i->heads + i->groups.count; head++)
        i->list[head].before = i->list[head].after = head;
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

/* ---- Lists ---- */

static bool is_alone(const struct incidents *i, uint32_t slot) {
    return i->list[slot].group == i->groups.count;
}

static uint32_t head_of(const struct incidents *i, uint32_t slot) {
    return i->heads + (uint32_t)i->list[slot].group;
}

static bool *silenced_of(const struct incidents *i, uint32_t slot) {
    return &i->list[is_alone(i, slot) ? slot : head_of(i, slot)].silenced;
}

static void unlist(struct incidents *i, uint32_t slot) {
    struct listed *one = &i->list[slot];
    if (!one->is_listed)
        return;
    i->list[one->before].after = one->after;
    i->list[one->after].before = one->before;
    one->is_listed = false;
}

static size_t group_of(const struct incidents *i, const char *key, size_t key_size) {
    size_t group = config_prefix(&i->groups, key, key_size);
    return group == SIZE_MAX ? i->groups.count : group;
}

/* Parts of a group are in the order of their begins, unless it is yet to be ordered. */
static void insert(struct incidents *i, uint32_t slot) {
    uint32_t head = head_of(i, slot), before = i->list[head].before;
    while (!i->unordered && !is_alone(i, slot) && before != head &&
           part_at(i, before)->begin.example > part_at(i, slot)->begin.example)
        before = i->list[before].before;
    i->list[slot].before = before;
    i->list[slot].after = i->list[before].after;
    i->list[before].after = i->list[i->list[slot].after].before = slot;
    i->list[slot].is_listed = true;
}

static void list(struct incidents *i, uint32_t slot, const char *key, size_t key_size) {
    struct listed *one = &i->list[slot];
    unlist(i, slot);
    one->group = group_of(i, key, key_size);
    memcpy(one->key, key, one->key_size = key_size);
    insert(i, slot);
}

/* As far as a state shows it, which does not contain the clock. */
static bool was_silenced(const struct incident *part) {
    return part->silence > 0 && part->end.time <= part->silence;
}

/* The part of the same incident as `of` after the one in `slot`; the first after the head, and the
   head after the last. A group has several incidents only after a hand-over or another grouping. */
static uint32_t next_part(const struct incidents *i, uint32_t of, uint32_t slot) {
    uint32_t head = head_of(i, of);
    if (is_alone(i, of))
        return slot == head ? of : head;
    do
        slot = i->list[slot].after;
    while (slot != head && part_at(i, slot)->number != part_at(i, of)->number);
    return slot;
}

/* Whether a part is open: most likely the newest. */
static bool is_open(const struct incidents *i, uint32_t of) {
    uint32_t head = head_of(i, of), slot = i->list[head].before;
    if (is_alone(i, of))
        return part_at(i, of)->open == 1;
    while (slot != head &&
           (part_at(i, slot)->open == 0 || part_at(i, slot)->number != part_at(i, of)->number))
        slot = i->list[slot].before;
    return slot != head;
}

/* Orders groups with parts from a checkpoint or another daemon, and unlists those of incidents that
   have ended. */
static void order(struct incidents *i) {
    bool wanted = i->unordered;
    i->unordered = false;
    for (uint32_t head = i->heads; wanted && head < i->heads + i->groups.count; head++) {
        uint32_t first = i->list[head].after, next;
        bool several = false;
        double number = 0; /* of an open part */
        for (uint32_t slot = first; slot != head; slot = i->list[slot].after)
            if (part_at(i, slot)->open == 1) {
                several |= number > 0 && number != part_at(i, slot)->number;
                number = part_at(i, slot)->number;
            }
        for (uint32_t slot = first; slot != head; slot = i->list[slot].after)
            if (part_at(i, slot)->number != number && !(several && is_open(i, slot)))
                unlist(i, slot);
        first = i->list[head].after;
        i->list[head] = (struct listed){.before = head, .after = head, .silenced = true};
        for (uint32_t slot = first; slot != head; slot = next) {
            next = i->list[slot].after;
            insert(i, slot);
            i->list[head].silenced &= was_silenced(part_at(i, slot));
        }
    }
}

/* Data without times are silenced by the clock. It decides only what is published, and enters no
   state: a stream of such data that is abnormal since before a kill may be announced again. */
static bool is_silenced(const struct incident *part, double time) {
    return part->silence > 0 && (time > 0 ? time : clock_unix()) <= part->silence;
}

static bool is_whole_silenced(const struct incidents *i, uint32_t of) {
    uint32_t head = head_of(i, of), slot = head;
    while ((slot = next_part(i, of, slot)) != head)
        if (!is_silenced(part_at(i, slot), part_at(i, slot)->end.time))
            return false;
    return true;
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

/* Streams that are not silenced come first, and alone have shares. Values are those of the first
   stream. Returns false while the journal is replayed. */
static bool publish(const struct incidents *i, uint32_t of, uint64_t example, bool ended) {
    const struct learner_observer *observer = &i->host->observer;
    uint32_t head = head_of(i, of), first = head;
    double steps = 0;
    struct learner_incident whole = {
        .ended = ended,
        .silenced = is_whole_silenced(i, of),
        .group = is_alone(i, of) ? NULL : i->groups.prefixes[i->list[of].group],
        .blame = {.kind = ALARM_LEVEL,
                  .example = example,
                  .columns = i->columns,
                  .at = i->at,
                  .result = {.shares = i->shares}},
        .newest = i->newest,
    };
    memset(i->shares, 0, i->columns * sizeof *i->shares);
    for (int silenced = 0; silenced < 2; silenced++)
        for (uint32_t slot = next_part(i, of, head); slot != head; slot = next_part(i, of, slot)) {
            const struct listed *one = &i->list[slot];
            const struct incident *part = part_at(i, slot);
            if (is_silenced(part, part->end.time) != (silenced == 1))
                continue;
            if (first == head) {
                first = slot;
                whole.sum = *part;
            } else
                incident_join(&whole.sum, part);
            if (whole.stream_count < LEARNER_INCIDENT_STREAMS)
                whole.streams[whole.stream_count++] = (struct learner_key){one->key, one->key_size};
            if (silenced && !whole.silenced)
                continue;
            steps += part->steps;
            for (size_t k = 0; k < i->columns; k++)
                i->shares[k] += columns_at(i, slot)[k].share;
        }
    for (size_t k = 0; k < i->columns; k++)
        i->shares[k] = i->shares[k] > 0 ? i->shares[k] / steps : (double)NAN;
    whole.before = columns_at(i, first);
    keep_values(i, first, NULL, i->newest);
    return observer->incident && observer->incident(observer->context, &whole);
}

/* Publishes the end, and unlists the incident, if no part is open. */
static void end_whole(struct incidents *i, uint32_t of, uint64_t example) {
    uint32_t head = head_of(i, of);
    order(i);
    if (is_open(i, of))
        return;
    publish(i, of, example, true);
    for (uint32_t next, slot = next_part(i, of, head); slot != head; slot = next) {
        next = next_part(i, of, slot);
        unlist(i, slot);
    }
}

/* ---- Steps ---- */

/* Returns the number of the incident that the stream's alarm begins or joins. */
static double number_of(const struct incidents *i, const struct planned *example, double own) {
    size_t group = group_of(i, example->key, example->key_size);
    uint32_t head = i->heads + (uint32_t)group, slot = i->list[head].before;
    for (; group < i->groups.count && slot != head; slot = i->list[slot].before)
        if (part_at(i, slot)->open == 1)
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
    bool begins = false;
    order(i);
    if (part->open == 0) {
        if (!alarm)
            return false;
        double number = number_of(i, example, peak.at.example);
        begins = !i->list[slot].is_listed || part->number != number;
        if (begins) {
            incident_begin(part, number);
            keep_values(i, slot, step->x, columns_at(i, slot));
        }
        part->open = 1;
    }
    if (incident_add(part, (double)anomaly_steps(i->anomaly, slot), &peak, alarm))
        add_shares(i, slot, step);
    if (begins)
        list(i, slot, example->key, example->key_size);
    begins = begins && part->number == peak.at.example;
    bool published = true, silenced = is_whole_silenced(i, slot), *before = silenced_of(i, slot);
    if (begins || (*before && !silenced))
        published = publish(i, slot, step->example, false);
    *before = silenced || (!published && !begins && peak.at.time == 0);
    return silenced;
}

void incidents_played(struct incidents *i, const struct planned *example) {
    struct incident *part = part_at(i, example->slot);
    part->newest = example->time > 0 ? example->time : 0;
    if (incident_ends(part, (double)anomaly_steps(i->anomaly, example->slot), i->rest))
        end_whole(i, example->slot, i->host->counters.examples + 1);
}

static void incidents_clear(struct incidents *i, uint32_t slot) {
    unlist(i, slot);
    memset(incidents_state(i, slot), 0, i->size * sizeof *i->state);
}

void incidents_drop(struct incidents *i, uint32_t slot, uint64_t example) {
    if (i->list[slot].is_listed && part_at(i, slot)->open == 1) {
        part_at(i, slot)->open = 0;
        end_whole(i, slot, example);
    }
    incidents_clear(i, slot);
}

void incidents_expect(struct incidents *i, uint32_t slot) {
    const struct listed *one = &i->list[slot];
    size_t key_size;
    const char *key = streams_key(i->host->streams, slot, &key_size);
    if (one->key_size == key_size && !memcmp(one->key, key, key_size))
        incidents_clear(i, slot);
    else
        incidents_drop(i, slot, i->host->counters.examples);
    i->unordered = true;
}

void incidents_arrived(struct incidents *i, uint32_t slot) {
    order(i);
    if (i->list[slot].is_listed)
        *silenced_of(i, slot) = true;
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

size_t incidents_count(struct incidents *i) {
    size_t count = 0;
    order(i);
    for (uint32_t head = i->heads; head <= i->heads + i->groups.count; head++)
        for (uint32_t slot = i->list[head].after; slot != head; slot = i->list[slot].after)
            count +=
                next_part(i, slot, head) == slot && is_open(i, slot) && !is_whole_silenced(i, slot);
    return count;
}

/* ---- State ---- */

size_t incidents_size(const struct incidents *i) {
    return i->size;
}

double *incidents_state(const struct incidents *i, uint32_t slot) {
    return i->state + (size_t)slot * i->size;
}

void incidents_reset(struct incidents *i) {
    for (uint32_t head = i->heads; head <= i->heads + i->groups.count; head++)
        while (i->list[head].after != head)
            incidents_clear(i, i->list[head].after);
}

bool incidents_valid(const struct incidents *i, uint32_t slot) {
    const struct incident *part = part_at(i, slot);
    return incident_valid(part, columns_at(i, slot), i->columns) &&
           part->step <= (double)anomaly_steps(i->anomaly, slot);
}

void incidents_filled(struct incidents *i, uint32_t slot) {
    const struct incident *part = part_at(i, slot);
    size_t key_size;
    const char *key = streams_key(i->host->streams, slot, &key_size);
    unlist(i, slot);
    if (part->number == 0 || (part->open == 0 && group_of(i, key, key_size) == i->groups.count))
        return;
    i->unordered = true;
    list(i, slot, key, key_size);
    i->list[slot].silenced = was_silenced(part);
}
