/* preset: symbols. Symbols are recorded while the learner plans, and learned in the order of
   examples after the play: the experts need what all examples before have taught, and the network's
   distribution. A network plans its scores as ever (targets.c), and their losses are replaced by
   those of the mixture. The first symbol of a stream, and all without a network, are scored here.
 */
#include "symbols.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/machine.h"
#include "common/unaligned.h"
#include "forecast/forecast.h"
#include "part.h"
#include "prediction.h"
#include "rows.h"
#include "symbols/orders.h"
#include "symbols/symbols.h"
#include "words.h"

/* Rows of errors after those of the kinds of inputs: those of listed members and orders follow. */
enum {
    KIND_EXPERTS = SYMBOLS_INPUTS,
    KIND_MIXTURE,
    KIND_MEMBERS,
    KINDS_MAX = KIND_MEMBERS + SYMBOLS_NETWORKS_MAX + ORDERS_BASELINES
};
_Static_assert((int)SYMBOLS_ORDERS == (int)ORDERS_BASELINES, "the last rows");
enum { SHARES_EVERY = 8 }; /* measuring them costs a tenth of a symbol */
enum { LEAST_OWN = 1 << 16 };

#define MIB 1048576.0
#define OWN_BYTES (11.5 * MIB) /* besides the table and repeats */
#define RECENT 0.998           /* decay of recall */

/* A symbol of the plan. */
struct planned_symbol {
    uint32_t slot, symbol, before, after; /* symbols that have appeared, 0 = all */
    size_t score;                         /* of the baseline; SIZE_MAX: none */
    size_t scores[SYMBOLS_NETWORKS_MAX];  /* of members; SIZE_MAX: none */
    bool first, learn;
};

struct counts {
    struct part_host *host;
    size_t symbols, lexicon; /* SIZE_MAX: symbols are not words */
    size_t first, kinds;     /* row of the first member, and all rows */
    unsigned combined;
    bool network, own, apart, measures;
    size_t table_count, top, guess_row; /* guesses of the mixture, and of the experts */
    struct symbols **tables;            /* (1 or slots,) */
    struct symbols_place *places;       /* (slots,) */
    struct orders *orders;
    struct planned_symbol *planned; /* (plan_steps,) */
    size_t cursor;                  /* the step that is delivered */
    bool taken;                     /* its symbol has been learned */
    struct symbols_guess *guesses;  /* (plan_steps, guess_row) */
    struct gathered gathered;
    double *probabilities;               /* (symbols,) of a network, by classes */
    float *distributions;                /* (members, symbols) by symbols */
    double weight, recalled, reciprocal; /* recent sums */
    double shares[SYMBOLS_INPUTS];       /* of the newest of SHARES_EVERY symbols */
    unsigned symbols_taken;
};

/* ---- Memory ---- */

static bool part_wanted(const struct part_host *host) {
    return host->config->preset == PRESET_SYMBOLS;
}

static struct symbols *table_of(const struct counts *c, uint32_t slot) {
    return c->tables[c->own ? slot : 0];
}

static const struct symbols_header *header_of(const struct symbols *table) {
    return symbols_arrays(table)->numbers;
}

static int check_memory(const struct counts *c, size_t memory, struct error *error) {
    double each = (double)memory * 9 / 8 + OWN_BYTES, all = each * (double)c->table_count;
    double machine = machine_memory("");
    if (machine <= 0 || all <= (c->own ? machine / 2 : machine))
        return 0;
    return error_set(error, EX_CONFIG,
                     "memory: the experts need %.0f MiB, more than %sthe %.0f MiB of this machine "
                     "(or control group); %s",
                     all / MIB, c->own ? "half of " : "", machine / MIB,
                     c->own ? "lower learning.max_streams, or use tables: shared" : "lower it");
}

static int open_tables(struct counts *c, const struct config *config, struct error *error) {
    struct symbols_options options = {.bytes = !config->symbols.others,
                                      .symbols = c->symbols,
                                      .seen = c->lexicon == SIZE_MAX ? c->symbols : 1,
                                      .memory = config->symbols.memory,
                                      .experts = config->experts >> EXPERTS,
                                      .network = c->network ? c->host->member_count : 0,
                                      .apart = c->apart};
    for (size_t left = c->table_count; left > 1 && options.memory > LEAST_OWN;
         left = (left + 1) / 2)
        options.memory /= 2;
    if (check_memory(c, options.memory, error))
        return -1;
    c->tables = calloc(c->table_count, sizeof *c->tables);
    for (size_t n = 0; c->tables && n < c->table_count; n++)
        if (symbols_open(&c->tables[n], &options, error))
            return -1;
    return c->tables ? 0 : error_no_memory(error);
}

static int part_open(void **self, struct part_host *host, struct error *error) {
    const struct config *config = host->config;
    struct counts *c = *self = calloc(1, sizeof *c);
    if (!c)
        return error_no_memory(error);
    c->host = host;
    c->symbols = host->model->architecture.input.size;
    c->lexicon = words_lexicon_of_classes(host);
    c->combined = config->combined;
    c->network = host->member_count && c->combined != COMBINE_EXPERTS;
    c->own = config->symbols.own;
    c->table_count = c->own ? host->slots : 1;
    c->apart = c->network && config->predictions == PREDICTIONS_ALL;
    c->top = config->statistics_top;
    size_t listed = config->members_given ? host->member_count : 0;
    c->first = config->members_given ? KIND_MEMBERS : SYMBOLS_NETWORK;
    c->kinds = host->forecasts = KIND_MEMBERS + listed + ORDERS_BASELINES;
    c->guess_row = SYMBOLS_GUESSES(c->top, c->apart ? 1 + host->member_count : 0);
    c->places = calloc(host->slots, sizeof *c->places);
    c->orders = calloc(1, sizeof *c->orders);
    c->probabilities = calloc(c->symbols, sizeof *c->probabilities);
    c->distributions = calloc(host->member_count + 1, c->symbols * sizeof *c->distributions);
    host->errors.experts = calloc(c->kinds, sizeof *host->errors.experts);
    if (!c->places || !c->orders || !c->probabilities || !c->distributions || !host->errors.experts)
        return error_no_memory(error);
    return open_tables(c, config, error);
}

static void part_close(void *self) {
    struct counts *c = self;
    for (size_t n = 0; c->tables && n < c->table_count; n++)
        symbols_close(&c->tables[n]);
    free(c->tables);
    free(c->places);
    free(c->orders);
    free(c->planned);
    free(c->guesses);
    free(c->gathered.rows);
    free(c->probabilities);
    free(c->distributions);
    free(c);
}

static size_t part_step_bytes(const void *self) {
    const struct counts *c = self;
    return sizeof *c->planned + c->guess_row * sizeof *c->guesses;
}

static bool part_plan_open(void *self) {
    struct counts *c = self;
    c->planned = calloc(c->host->plan_steps, sizeof *c->planned);
    c->guesses = calloc(c->host->plan_steps, c->guess_row * sizeof *c->guesses);
    return c->planned && c->guesses;
}

static void part_reset(void *self) {
    struct counts *c = self;
    for (size_t n = 0; n < c->table_count; n++)
        symbols_reset(c->tables[n]);
    memset(c->places, 0, c->host->slots * sizeof *c->places);
    memset(c->orders, 0, sizeof *c->orders);
    c->weight = c->recalled = c->reciprocal = 0;
}

static void begin_stream(struct counts *c, uint32_t slot) {
    c->places[slot] = (struct symbols_place){0};
    if (c->own)
        symbols_reset(c->tables[slot]);
}

/* While planning, the slot's earlier stream is not played yet. */
static void part_begin(void *self, uint32_t slot, enum part_begin when) {
    if (when == BEGIN_NOW)
        begin_stream(self, slot);
}

/* A stream's positions are those of its daemon's history, which moves only with its own table. */
static void part_adopt(void *self, uint32_t slot, enum part_adopt what) {
    struct symbols_place *place = &((struct counts *)self)->places[slot];
    if (what == ADOPT_ARRIVED && !((struct counts *)self)->own) {
        place->written = 0;
        place->follow = (struct symbols_follow){0};
    }
}

const char *symbols_row_name(const struct part_host *host, size_t n) {
    static const char *const others[] = {"frequencies", CONFIG_NETWORK, "constant", "experts",
                                         "mixture",     "order1",       "order2",   "order3"};
    size_t listed = host->forecasts - KIND_MEMBERS - ORDERS_BASELINES;
    return n < SYMBOLS_EXPERTS ? symbols_names[n]
           : n >= KIND_MEMBERS && n < KIND_MEMBERS + listed
               ? host->members[n - KIND_MEMBERS].name
               : others[n - SYMBOLS_EXPERTS - (n < KIND_MEMBERS ? 0 : listed)];
}

bool symbols_measure(const struct part_host *host, bool wanted) {
    struct counts *c = part_find(host, &symbols_part);
    if (c)
        c->measures = wanted;
    return c;
}

bool symbols_usage(const struct part_host *host, struct symbols_usage *usage) {
    const struct counts *c = part_find(host, &symbols_part);
    *usage = (struct symbols_usage){0};
    for (size_t n = 0; c && n < c->table_count; n++) {
        const struct symbols_header *header = header_of(c->tables[n]);
        usage->memory += header->options.memory;
        usage->used += (double)header->used;
        usage->replaced += header->replaced;
    }
    double slots = (double)usage->memory / SYMBOLS_LINE * SYMBOLS_SLOTS;
    usage->used /= slots;
    usage->full = (double)usage->replaced > slots;
    return c;
}

/* ---- Planning ---- */

/* Word k is symbol k + 1. The unknown is symbol 0, as is a word in the example that brings it. */
static void part_input(void *self, struct step *step) {
    struct counts *c = self;
    struct planned_symbol *planned = &c->planned[step->number];
    uint32_t id = unaligned_id(step->x, 0);
    *planned = (struct planned_symbol){.slot = step->slot,
                                       .symbol = id,
                                       .score = SIZE_MAX,
                                       .first = c->host->planned->begins && step->t == 0,
                                       .learn = step->example->learn};
    if (c->lexicon == SIZE_MAX)
        return;
    const struct learner_lexicon words = words_lexicon(c->host, c->lexicon);
    bool known = id < words.capacity && words.appeared[id] <= c->host->appeared;
    bool last = step->t == step->example->steps - 1;
    planned->symbol = known ? id + 1 : 0;
    planned->before = (uint32_t)c->host->known_classes + 1;
    planned->after = last ? (uint32_t)words.size + 1 : planned->before;
}

/* Without a network the baselines get their targets here. Scores of members follow. */
static void part_score(void *self, struct step *step) {
    struct counts *c = self;
    struct planned_symbol *planned = &c->planned[step->number];
    union value symbol = {.id = unaligned_id(step->x, 0)};
    for (size_t m = 0; m < c->host->member_count; m++) {
        const struct member *member = &c->host->members[m];
        planned->scores[m] = member->windows[step->slot].open ? member->plan.scores : SIZE_MAX;
    }
    if (c->host->member_count || planned->first)
        return;
    part_target(c->host, &(struct target_arrival){.slot = step->slot,
                                                  .age = 1,
                                                  .value = &symbol,
                                                  .original = step->x,
                                                  .learn = planned->learn,
                                                  .classes = c->host->appeared});
    planned->score = c->host->members[0].plan.scores++;
}

/* ---- After the plan has been played ---- */

/* Computes the networks' distributions after a step or, with `scores`, before it. */
static const float *distribute(struct counts *c, size_t step, const size_t *scores) {
    const struct part_host *host = c->host;
    memset(c->distributions, 0, host->member_count * c->symbols * sizeof *c->distributions);
    for (size_t m = 0; m < host->member_count; m++) {
        const struct results *results = &host->members[m].results;
        const float *outputs = scores ? results->scored : results->outputs;
        float *to = c->distributions + m * c->symbols;
        size_t at = scores ? scores[m] : step;
        if (at == SIZE_MAX)
            continue;
        outputs += at * host->model->outputs;
        prediction_of_head(host->model, &(struct learned){0}, 0, outputs, c->probabilities);
        for (size_t k = 0; k < c->symbols; k++)
            to[c->lexicon == SIZE_MAX ? k : (k + 1) % c->symbols] = (float)c->probabilities[k];
    }
    return host->member_count ? c->distributions : NULL;
}

/* Finds the most probable symbols of a distribution. */
static size_t top_of(const struct counts *c, const float *network, struct symbols_guess *top) {
    size_t count = 0;
    for (uint32_t k = 0; k < c->symbols; k++) {
        double p = (double)network[k];
        size_t at = count < c->top ? count++ : c->top;
        for (; at > 0 && top[at - 1].probability < p; at--)
            if (at < c->top)
                top[at] = top[at - 1];
        if (at < c->top)
            top[at] = (struct symbols_guess){k, p};
    }
    return count;
}

static size_t guess(struct counts *c, uint32_t slot, const float *network,
                    struct symbols_guess *top) {
    return c->combined >= COMBINE_NETWORK && network
               ? top_of(c, network + (c->combined - COMBINE_NETWORK) * c->symbols, top)
               : symbols_top(table_of(c, slot), &c->places[slot], network, false, top, c->top);
}

static uint32_t class_of(const struct counts *c, uint32_t symbol) {
    return c->lexicon == SIZE_MAX ? symbol : (uint32_t)((symbol + c->symbols - 1) % c->symbols);
}

/* Converts symbols to classes, and ends a shorter list. */
static void end_guesses(const struct counts *c, struct symbols_guess *top, size_t count) {
    for (size_t n = 0; n < count; n++)
        top[n].symbol = class_of(c, top[n].symbol);
    if (count < c->top)
        top[count].probability = 0;
}

/* Looks for the symbol among those that are most probable before it, and keeps these. The unknown
   word is never found and has no rank. The first symbol of a stream does not count: nothing was
   published before it. */
static void measure(struct counts *c, struct planned *example, const float *network) {
    const struct planned_symbol *at = &c->planned[c->cursor];
    struct symbols_guess *top = c->guesses + c->cursor * c->guess_row + 1;
    size_t count = guess(c, at->slot, network, top), n = 0, rank = 1;
    bool words = c->lexicon != SIZE_MAX;
    for (; n < count && top[n].symbol != at->symbol; n++)
        rank += !words || top[n].symbol != 0;
    bool found = n < count && (!words || at->symbol != 0);
    if (!at->first) {
        c->weight = RECENT * c->weight + (1 - RECENT);
        c->recalled = RECENT * c->recalled + (1 - RECENT) * found;
        c->reciprocal = RECENT * c->reciprocal + (1 - RECENT) * (found ? 1 / (double)rank : 0);
    }
    example->observed++;
    example->correct += n < count && n == 0;
    end_guesses(c, top, count);
}

/* Learns the symbol of the step that is delivered. Returns its loss. `scored`: by networks. */
static double take_symbol(struct counts *c, struct planned *example, bool scored) {
    const struct planned_symbol *at = &c->planned[c->cursor];
    struct symbols *table = table_of(c, at->slot);
    struct symbols_place *place = &c->places[at->slot];
    double losses[KINDS_MAX];
    const float *network = scored ? distribute(c, c->cursor, at->scores) : NULL;
    for (size_t n = 0; n < c->kinds; n++)
        losses[n] = NAN;
    if (at->first)
        begin_stream(c, at->slot);
    symbols_appeared(table, at->before);
    if ((c->measures || example->outputs) && c->top)
        measure(c, example, network);
    orders_take(c->orders, place, at->symbol, header_of(table)->seen, at->learn,
                losses + c->kinds - ORDERS_BASELINES);
    const struct symbols_loss loss =
        symbols_take(table, place, at->symbol, network, at->learn,
                     c->symbols_taken++ % SHARES_EVERY ? NULL : c->shares);
    losses[KIND_MIXTURE] = loss.mixture;
    for (size_t m = 0; m < c->host->member_count; m++) {
        const double *alone = c->host->members[m].results.losses;
        bool known = scored && at->scores[m] != SIZE_MAX && !isnan(alone[at->scores[m]]);
        losses[c->first + m] = known ? alone[at->scores[m]] : loss.mixture;
    }
    if (c->apart || !c->network)
        losses[KIND_EXPERTS] = loss.experts;
    for (size_t n = 0; n < c->kinds; n++) {
        c->host->errors.experts[n].loss += losses[n];
        c->host->errors.experts[n].weight += n < SYMBOLS_INPUTS ? c->shares[n] : NAN;
    }
    c->taken = true;
    double of = losses[c->combined < COMBINE_NETWORK ? KIND_MIXTURE
                                                     : c->first + c->combined - COMBINE_NETWORK];
    c->guesses[c->cursor * c->guess_row] =
        (struct symbols_guess){class_of(c, at->symbol), exp(-of)};
    return of;
}

static void part_scored(void *self, struct planned *example, struct scored *score) {
    struct counts *c = self;
    if (!c->taken)
        score->loss = take_symbol(c, example, true);
}

static void predict(struct counts *c, size_t step) {
    uint32_t slot = c->planned[step].slot;
    const float *network = distribute(c, step, NULL);
    struct symbols_guess *top = c->guesses + step * c->guess_row + 1 + c->top;
    end_guesses(c, top, guess(c, slot, network, top));
    if (!c->apart)
        return;
    top += c->top;
    end_guesses(c, top,
                symbols_top(table_of(c, slot), &c->places[slot], network, true, top, c->top));
    for (size_t m = 0; m < c->host->member_count; m++) {
        top += c->top;
        end_guesses(c, top, top_of(c, network + m * c->symbols, top));
    }
}

static void part_played(void *self, struct planned *example, size_t step) {
    static const double nothing;
    struct counts *c = self;
    const struct planned_symbol *at = &c->planned[step];
    if (!c->taken) {
        struct scored scored = {.number = at->score,
                                .step = step,
                                .loss = take_symbol(c, example, false),
                                /* frequencies of a new stream, unless `number` has others */
                                .baseline = log(at->before ? at->before : (double)c->symbols),
                                .of_baseline = &nothing};
        c->host->score(c->host, example, &scored);
    }
    symbols_appeared(table_of(c, at->slot), at->after);
    if (example->outputs && c->top)
        predict(c, step);
    c->taken = false;
    c->cursor = step + 1;
}

static int part_gather(void *self, const struct planned *example, size_t first_step,
                       struct error *error) {
    struct counts *c = self;
    return parts_gather(&c->gathered, example, c->guesses + first_step * c->guess_row,
                        c->guess_row * sizeof *c->guesses, error);
}

static void part_report(void *self, const struct planned *example, const struct given *given) {
    const struct counts *c = self;
    given->learned->guess_row = c->guess_row;
    given->learned->guess_count = c->top;
    given->learned->guess_bytes = header_of(c->tables[0])->options.bytes;
    given->learned->guesses = !example->outputs ? NULL
                              : c->gathered.rows && example->gathered_steps
                                  ? c->gathered.rows
                                  : c->guesses + given->first_step * c->guess_row;
}

static int part_next(void *self, const struct planned *unfinished, size_t last,
                     struct error *error) {
    struct counts *c = self;
    (void)unfinished, (void)last, (void)error;
    c->cursor = 0;
    c->host->members[0].plan.scores = 0; /* without a network nothing else does it */
    return 0;
}

static void part_figures(const void *self, double *figures) {
    const struct counts *c = self;
    figures[FIGURE_recall] = c->recalled / c->weight; /* NAN without one */
    figures[FIGURE_reciprocal_rank] = c->reciprocal / c->weight;
}

/* ---- Checkpoints ---- */

static size_t array_size(const struct state_place *p) {
    const struct counts *c = p->self;
    bool once = p->row->flags & STATE_ONCE;
    return once == c->own ? 0 : symbols_arrays(c->tables[0])[p->row->which].count;
}

static void *array_at(const struct state_place *p, size_t n) {
    const struct counts *c = p->self;
    return (void)n, symbols_arrays(table_of(c, c->own ? p->slot : 0))[p->row->which].numbers;
}

static int array_filled(const struct state_place *p) {
    return !symbols_valid(((const struct counts *)p->self)->tables[0]);
}

static void *place_at(const struct state_place *p, size_t n) {
    return (void)n, &((struct counts *)p->self)->places[p->slot];
}

static void *follow_at(const struct state_place *p, size_t n) {
    return (void)n, &((struct counts *)p->self)->places[p->slot].written;
}

static void *orders_at(const struct state_place *p, size_t n) {
    return (void)n, ((struct counts *)p->self)->orders;
}

static const char *part_valid(void *self, uint32_t slot) {
    const struct counts *c = self;
    return !symbols_place_valid(&c->places[slot])      ? "streams.symbols"
           : c->own && !symbols_valid(c->tables[slot]) ? "streams.symbols_weights"
                                                       : NULL;
}

#define ARRAY(name, type, flags, number, ...)                                                      \
    STATE_ROW("symbols." name, type, STATE_ONCE | STATE_LATER | (flags), .which = (number),        \
              .size = array_size, .at = array_at, __VA_ARGS__),                                    \
        STATE_ROW("streams.symbols_" name, type, STATE_LATER | (flags), .which = (number),         \
                  .size = array_size, .at = array_at)

/* Those of experts belong to the second mixture, which can be switched on and off. */
static const struct state_row rows[] = {
    ARRAY("seen", U64, STATE_SIZED, 0),
    ARRAY("table", U64, STATE_SIZED, 1),
    ARRAY("repeats", U64, STATE_SIZED, 2),
    ARRAY("maps", F64, STATE_SIZED, 3),
    ARRAY("weights", F32, STATE_SIZED, 4),
    ARRAY("last", F32, STATE_SIZED, 5),
    ARRAY("correction", F32, STATE_SIZED, 6, .filled = array_filled),
    ARRAY("experts_weights", F32, STATE_SIZED | STATE_TRUTH, 7),
    ARRAY("experts_last", F32, STATE_SIZED | STATE_TRUTH, 8),
    ARRAY("experts_correction", F32, STATE_SIZED | STATE_TRUTH, 9, .filled = array_filled),
    ARRAY("history", U64, STATE_SIZED, 10),
    ARRAY("kneser", U64, STATE_SIZED, 11),
    STATE_ROW("symbols.orders", U32, STATE_ONCE | STATE_LATER, .count = ORDERS_ENTRIES,
              .at = orders_at),
    STATE_ROW("streams.symbols", U64, 0,
              .count = offsetof(struct symbols_place, written) / sizeof(uint64_t), .at = place_at),
    STATE_ROW("streams.symbols_position", U64, STATE_LATER, .count = 2, .at = follow_at),
};

const struct part_kind symbols_part = {
    .name = "symbols",
    .wanted = part_wanted,
    .open = part_open,
    .close = part_close,
    .step_bytes = part_step_bytes,
    .plan_open = part_plan_open,
    .reset = part_reset,
    .begin = part_begin,
    .adopt = part_adopt,
    .input = part_input,
    .score = part_score,
    .played = part_played,
    .scored = part_scored,
    .gather = part_gather,
    .report = part_report,
    .figures = part_figures,
    .next = part_next,
    STATE_ROWS(rows),
    .valid = part_valid,
};
