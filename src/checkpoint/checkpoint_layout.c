#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "checkpoint_internal.h"
#include "common/hash.h"
#include "learner/scaler.h"
#include "learner/streams.h"
#include "learner/truth.h"

/* ---- Entries ---- */

enum engine_block checkpoint_block(size_t block) {
    return block == 0 ? ENGINE_PARAMETERS : (enum engine_block)(ENGINE_MOMENTS + block - 1);
}

/* A tensor of the model in one of the blocks: parameters by its own name, then
   optimizer.moment_1.NAME and so on. */
static void name_tensor(size_t block, const char *tensor, char name[CHECKPOINT_NAME_SIZE]) {
    if (block == 0)
        snprintf(name, CHECKPOINT_NAME_SIZE, "%s", tensor);
    else
        snprintf(name, CHECKPOINT_NAME_SIZE, "optimizer.moment_%zu.%s", block, tensor);
}

/* How the names of what is kept of each stream begin: stream_state.h takes it along. */
#define OF_STREAMS "streams."

/* The next entry: of a member of that name, if it has one. */
static struct safetensors_entry *add(struct checkpoint_layout *layout, const char *member,
                                     const char *name, const struct checkpoint_entry *of) {
    assert(layout->count < layout->capacity);
    struct checkpoint_entry *entry = &layout->of[layout->count];
    struct safetensors_entry *tensor = &layout->entries[layout->count];
    *entry = *of;
    entry->rows = !strncmp(name, OF_STREAMS, strlen(OF_STREAMS));
    parameters_name(member, name, entry->name);
    tensor->name = entry->name;
    if (of->part != PART_TENSOR)
        layout->parts[of->member][of->part] = layout->count;
    layout->count++;
    return tensor;
}

static void add_tensors(struct checkpoint_layout *layout, const struct learner *learner,
                        size_t member) {
    const struct model *model = learner_member_model(learner, member);
    size_t blocks = 1 + learner_moments(learner, member);
    struct safetensors_entry entries[MODEL_TENSORS_MAX];
    char name[CHECKPOINT_NAME_SIZE];
    parameters_entries(model, entries);
    for (size_t block = 0; block < blocks; block++)
        for (size_t n = 0; n < (block ? model->learned_count : model->tensor_count); n++) {
            const struct checkpoint_entry of = {
                .part = PART_TENSOR, .member = member, .block = block, .tensor = n};
            name_tensor(block, entries[n].name, name);
            struct safetensors_entry *entry =
                add(layout, learner_member_name(learner, member), name, &of);
            const char *own = entry->name;
            *entry = entries[n];
            entry->name = own;
        }
}

/* Of a member, or with `member` 0 and no name of all. */
static void add_part(struct checkpoint_layout *layout, enum checkpoint_part part, size_t member,
                     const char *of, const char *name, enum safetensors_type type, size_t rank,
                     uint64_t rows, uint64_t columns) {
    const struct checkpoint_entry entry = {.part = part, .member = member};
    struct safetensors_entry *added = add(layout, of, name, &entry);
    added->type = type;
    added->rank = rank;
    added->shape[0] = rows;
    added->shape[1] = columns;
}

static void add_shared(struct checkpoint_layout *layout, enum checkpoint_part part,
                       const char *name, enum safetensors_type type, size_t rank, uint64_t rows,
                       uint64_t columns) {
    add_part(layout, part, 0, "", name, type, rank, rows, columns);
}

/* What checkpoints of before lack. */
static void add_later(struct checkpoint_layout *layout, enum checkpoint_part part, const char *name,
                      enum safetensors_type type, uint64_t rows, uint64_t columns) {
    add_shared(layout, part, name, type, 2, rows, columns);
    layout->of[layout->count - 1].later = true;
}

static void add_member(struct checkpoint_layout *layout, const struct learner *learner,
                       size_t member) {
    const struct model *model = learner_member_model(learner, member);
    const char *name = learner_member_name(learner, member);
    add_tensors(layout, learner, member);
    add_part(layout, PART_UPDATES, member, name, "optimizer.updates", SAFETENSORS_I64, 1, 1, 0);
    if (!model->solved)
        return;
    const struct least_squares ls = engine_solution(model);
    add_part(layout, PART_SOLUTION, member, name, "output.solution", SAFETENSORS_F64, 1,
             least_squares_size(&ls), 0);
}

/* What is known of the open steps of streams. */
static void add_open(struct checkpoint_layout *layout, struct learner *learner, size_t streams) {
    const struct model *model = learner_model(learner);
    size_t places = learner_places(learner), size = model->target_size;
    bool given = model->architecture.output.target == TARGET_GIVEN; /* none is open for long */
    if (learner_scale(learner, 0, 0) && !given)
        add_shared(layout, PART_SCALES, "streams.scales", SAFETENSORS_F64, 2, streams,
                   places * 2 * size);
    if (learner_base(learner, 0, 0) && !given)
        add_shared(layout, PART_BASES, "streams.bases", SAFETENSORS_F32, 2, streams, places * size);
    if (learner_last(learner, 0))
        add_shared(layout, PART_LASTS, "streams.lasts", SAFETENSORS_F32, 2, streams, size);
    if (learner_open_step(learner, 0, 0) && model->open > 1)
        add_shared(layout, PART_OPEN, "streams.open", SAFETENSORS_I64, 2, streams,
                   places * CHECKPOINT_OPEN);
    if (learner_open_step(learner, 0, 0) && model->architecture.output.target == TARGET_LATER)
        add_later(layout, PART_OPEN_TIMES, "streams.open_times", SAFETENSORS_F64, streams, places);
    if (learner_lexicon_of_classes(learner) != SIZE_MAX && !given)
        add_later(layout, PART_OPEN_CLASSES, "streams.open_classes", SAFETENSORS_I64, streams,
                  places);
}

static void add_scaler(struct checkpoint_layout *layout, enum checkpoint_part first,
                       const char *name, size_t size, bool limited) {
    static const char *const parts[] = {"counts", "means", "squares", "first"};
    char names[sizeof parts / sizeof *parts][CHECKPOINT_NAME_SIZE];
    for (unsigned n = 0; n < 3U + limited; n++) {
        snprintf(names[n], sizeof names[n], "%s.%s", name, parts[n]);
        add_shared(layout, first + n, names[n],
                   n == 0   ? SAFETENSORS_I64
                   : n == 3 ? SAFETENSORS_F32
                            : SAFETENSORS_F64,
                   n == 3 ? 2 : 1, size, n == 3 ? SCALER_FIRST : 0);
    }
}

/* What the simplest forecast of a stream is made of. */
static void add_baseline(struct checkpoint_layout *layout, struct learner *learner,
                         size_t streams) {
    size_t size = learner_baseline_size(learner);
    if (!size)
        return;
    add_later(layout, PART_BASELINE, "streams.baseline", SAFETENSORS_F64, streams, size);
}

/* What is known of the columns of real inputs. */
static void add_scales(struct checkpoint_layout *layout, struct learner *learner, size_t streams) {
    const struct architecture *architecture = &learner_model(learner)->architecture;
    const struct input *input = &architecture->input;
    const struct output *output = &architecture->output;
    const struct learner_forecast forecast = learner_forecast(learner, 0);
    if (input->hold && !forecast.experts)
        add_shared(layout, PART_HELD, "streams.held", SAFETENSORS_F32, 2, streams, input->size);
    if (learner_times(learner, 0))
        add_shared(layout, PART_TIMES, "streams.times", SAFETENSORS_F64, 2, streams, LEARNER_TIMES);
    add_open(layout, learner, streams);
    if (learner_scaler(learner))
        add_scaler(layout, PART_COUNTS, "scaler", input->size,
                   scaler_first(learner_scaler_state(learner), 0) != NULL);
    if (learner_output_scaler(learner))
        add_scaler(layout, PART_TARGET_COUNTS, "targets", output->size, output->limit > 0);
    if (!forecast.experts)
        return;
    add_shared(layout, PART_EXPERTS, "streams.experts", SAFETENSORS_F64, 2, streams,
               forecast.experts_size);
    add_shared(layout, PART_MIXTURE, "streams.mixture", SAFETENSORS_F64, 2, streams,
               forecast.mixture_size);
}

const char *checkpoint_truth(enum checkpoint_part part) {
    static const char *const names[PARTS] = {
        [PART_COVERAGE] = "learner.coverage",
        [PART_SAID] = "streams.said",
        [PART_LEVELS] = "streams.levels",
        [PART_ERRORS] = "streams.errors",
    };
    return names[part];
}

static void add_truth(struct checkpoint_layout *layout, enum checkpoint_part part,
                      enum safetensors_type type, uint64_t rows, uint64_t columns) {
    add_later(layout, part, checkpoint_truth(part), type, rows, columns);
}

/* Predictions that wait for their truth, and their intervals. */
static void add_truths(struct checkpoint_layout *layout, struct learner *learner, size_t streams) {
    const struct truth_state state = truth_state(learner_truth(learner), 0);
    add_truth(layout, PART_SAID, SAFETENSORS_F64, streams, state.said_size);
    if (!state.levels)
        return;
    add_truth(layout, PART_LEVELS, SAFETENSORS_F64, streams, state.levels_size);
    add_truth(layout, PART_ERRORS, SAFETENSORS_F32, streams, state.errors_size);
}

const char *checkpoint_watch(enum checkpoint_part part) {
    static const char *const names[PARTS] = {
        [PART_THRESHOLDS] = "learner.thresholds", [PART_WATCH] = "streams.anomaly",
        [PART_HOLDS] = "streams.anomaly_held",    [PART_SHARED] = "shared.anomaly",
        [PART_CONTEXTS] = "streams.contexts",     [PART_ALARMS] = "streams.alarms",
    };
    return names[part];
}

static void add_watched(struct checkpoint_layout *layout, enum checkpoint_part part,
                        enum safetensors_type type, uint64_t rows, uint64_t columns) {
    add_later(layout, part, checkpoint_watch(part), type, rows, columns);
}

/* Of all streams: contexts, and how many hold what is missing. */
struct used {
    uint64_t contexts, holds;
};

static struct used count_used(struct learner *learner) {
    const struct streams *streams = learner_streams_table(learner);
    size_t memories = learner_anomaly(learner, 0).memories;
    struct used used = {0, 0};
    for (size_t n = 0; n < learner_shared(learner); n++)
        for (size_t m = 0; m < memories; m++)
            used.contexts += learner_contexts(learner, learner_shared_slot(learner, n), m).count;
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot)) {
        used.holds += learner_anomaly(learner, slot).holds;
        for (size_t m = 0; m < memories; m++)
            used.contexts += learner_contexts(learner, slot, m).count;
    }
    return used;
}

/* Rows as many as have been used. */
static void add_used(struct checkpoint_layout *layout, enum checkpoint_part part,
                     enum safetensors_type type, uint64_t rows, uint64_t columns) {
    add_watched(layout, part, type, rows, columns);
    layout->of[layout->count - 1].varies = true;
}

/* How abnormal streams are. */
static void add_watch(struct checkpoint_layout *layout, struct learner *learner, size_t streams) {
    const struct anomaly_state state = learner_anomaly(learner, 0);
    const struct used used = count_used(learner);
    add_watched(layout, PART_WATCH, SAFETENSORS_F64, streams, state.numbers_size);
    if (learner_shared(learner))
        add_watched(layout, PART_SHARED, SAFETENSORS_F64, learner_shared(learner),
                    state.numbers_size);
    if (state.held_size)
        add_used(layout, PART_HOLDS, SAFETENSORS_F64, used.holds, state.held_size);
    if (state.memories)
        add_used(layout, PART_CONTEXTS, SAFETENSORS_F32, used.contexts, ANOMALY_CONTEXT);
    add_watched(layout, PART_ALARMS, SAFETENSORS_F64, streams, state.alarms_size);
}

static uint64_t count_words(const struct learner *learner) {
    uint64_t count = 0;
    for (size_t n = 0; n < learner_lexicons(learner); n++)
        count += learner_lexicon(learner, n).size;
    return count;
}

static void add_all(struct checkpoint_layout *layout, struct learner *learner, size_t streams) {
    size_t members = learner_members(learner);
    for (size_t m = 0; m < members; m++)
        add_member(layout, learner, m);
    add_shared(layout, PART_COUNTERS, "learner.counters", SAFETENSORS_I64, 1, CHECKPOINT_COUNTERS,
               0);
    for (size_t m = 0; m < members || m == 0; m++)
        add_part(layout, PART_RATES, m, learner_member_name(learner, m), "learner.rates",
                 SAFETENSORS_F64, 1, CHECKPOINT_RATES, 0);
    if (learner_times(learner, 0))
        add_shared(layout, PART_BACKWARDS, "learner.backwards", SAFETENSORS_I64, 1, 1, 0);
    if (learner_truth(learner))
        add_truth(layout, PART_COVERAGE, SAFETENSORS_F64, 1, CHECKPOINT_COVERAGE);
    if (learner_watches(learner))
        add_watched(layout, PART_THRESHOLDS, SAFETENSORS_F64, 1, CHECKPOINT_THRESHOLDS);
    if (learner_lexicons(learner)) {
        add_shared(layout, PART_WORDS, "learner.words", SAFETENSORS_U8, 2, count_words(learner),
                   CHECKPOINT_WORD);
        layout->of[layout->count - 1].varies = true;
    }
    add_shared(layout, PART_KEYS, "streams.keys", SAFETENSORS_U8, 2, streams, CHECKPOINT_KEY);
    for (size_t m = 0; m < members; m++)
        add_part(layout, PART_WINDOWS, m, learner_member_name(learner, m), "streams.windows",
                 SAFETENSORS_I64, 2, streams, CHECKPOINT_WINDOW);
    add_scales(layout, learner, streams);
    add_baseline(layout, learner, streams);
    if (learner_truth(learner))
        add_truths(layout, learner, streams);
    if (learner_watches(learner))
        add_watch(layout, learner, streams);
    for (size_t m = 0; m < members; m++)
        add_part(layout, PART_RECORDS, m, learner_member_name(learner, m), "streams.records",
                 SAFETENSORS_F32, 2, streams, learner_record_size(learner, m));
    add_shared(layout, PART_CHECKSUM, "checksum", SAFETENSORS_I64, 1, 1, 0);
}

int checkpoint_layout_open(struct checkpoint_layout *layout, struct learner *learner,
                           size_t streams, struct error *error) {
    memset(layout, 0, sizeof *layout);
    memset(layout->parts, UINT8_MAX, sizeof layout->parts); /* SIZE_MAX each */
    layout->streams = streams;
    layout->capacity = PARTS * CONFIG_MEMBERS_MAX;
    for (size_t m = 0; m < learner_members(learner); m++)
        layout->capacity +=
            (1 + learner_moments(learner, m)) * learner_member_model(learner, m)->tensor_count;
    layout->entries = calloc(layout->capacity, sizeof *layout->entries);
    layout->of = calloc(layout->capacity, sizeof *layout->of);
    if (!layout->entries || !layout->of)
        return error_set(error, EX_UNAVAILABLE, "out of memory for the entries of a checkpoint");
    add_all(layout, learner, streams);
    return 0;
}

void checkpoint_layout_close(struct checkpoint_layout *layout) {
    free(layout->entries);
    free(layout->of);
    layout->entries = NULL;
    layout->of = NULL;
}

/* Of an entry, or of a row of one with a row for each stream. */
static size_t piece_size(const struct safetensors_entry *entry, enum checkpoint_part part) {
    static const size_t bytes = sizeof(double); /* of a number at most */
    bool rows = part >= PART_WORDS && part <= PART_RECORDS && entry->rank == 2;
    size_t columns = entry->rank == 2 && entry->shape[1] ? entry->shape[1] : 1;
    return bytes * columns * (rows ? 1 : entry->shape[0]);
}

size_t checkpoint_buffer_size(const struct checkpoint_layout *layout) {
    size_t most = 0;
    for (size_t n = 0; n < layout->count; n++) {
        size_t size = piece_size(&layout->entries[n], layout->of[n].part);
        most = size > most ? size : most;
    }
    return most;
}

void checkpoint_share(const struct config *config, char text[CHECKPOINT_SHARE_SIZE]) {
    const struct share_config *share = &config->anomaly.share;
    snprintf(text, CHECKPOINT_SHARE_SIZE, "%016" PRIx64,
             hash_bytes(HASH_BEGIN, share->prefixes, share->count * sizeof *share->prefixes));
}

/* ---- For people ---- */

enum { CHECKPOINT_REACH_SIZE = 32 };

void checkpoint_describe(const struct config *config, char text[CHECKPOINT_DESCRIPTION_SIZE]) {
    char summary[MODEL_SUMMARY_SIZE];
    char reach[CHECKPOINT_REACH_SIZE];
    const struct rule_kind *rule = rule_kind(config->learning.rule);
    model_summary(&config->architecture, summary);
    if (rule->keeps == KEEPS_NOTHING)
        snprintf(reach, sizeof reach, "window %zu", config->learning.window);
    else
        snprintf(reach, sizeof reach, "%s", rule->name);
    snprintf(text, CHECKPOINT_DESCRIPTION_SIZE,
             "%s%s, %s, stride %zu, %s, max_streams %zu, seed %" PRIu64, summary,
             config->architecture.input.hold ? ", missing: hold" : "", reach,
             config->learning.stride, optimizer_kind(config->learning.optimizer.kind)->name,
             config->learning.max_streams, config->seed);
}
