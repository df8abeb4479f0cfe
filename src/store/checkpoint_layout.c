#include "checkpoint_layout.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/hash.h"
#include "common/streams.h"
#include "common/text.h"
#include "learner/learner_state.h"
#include "parts/anomalies.h"
#include "parts/part.h"
#include "parts/words.h"

enum { DESCRIPTION_SHOWN = 350 /* bytes of a description in an error */ };

/* Adds an entry, with the prefix of a member if it has a name. NULL: out of memory. */
static struct safetensors_entry *add(struct checkpoint_layout *layout, const char *member,
                                     const char *name, const struct checkpoint_entry *of) {
    assert(layout->count < layout->capacity);
    struct checkpoint_entry *entry = &layout->of[layout->count];
    struct safetensors_entry *tensor = &layout->entries[layout->count++];
    *entry = *of;
    parameters_name(member ? member : "", name, entry->name);
    tensor->name = entry->name;
    return tensor;
}

static void add_plain(struct checkpoint_layout *layout, enum checkpoint_kind kind, const char *name,
                      enum safetensors_type type, uint64_t rows, uint64_t width) {
    const struct checkpoint_entry of = {.kind = kind};
    struct safetensors_entry *entry = add(layout, NULL, name, &of);
    entry->type = type;
    entry->rank = width ? 2 : 1;
    entry->shape[0] = rows;
    entry->shape[1] = width;
}

bool checkpoint_is_start(const struct checkpoint_layout *layout,
                         const struct checkpoint_entry *of) {
    return of->kind == ENTRY_TENSOR && of->block &&
           of->block - 1 == learner_start_moment(layout->learner, of->member);
}

/* Adds parameters by their own names, then optimizer.moment_1.NAME and so on, and start.NAME. */
static void add_tensors(struct checkpoint_layout *layout, size_t member) {
    const struct learner *learner = layout->learner;
    const struct model *model = learner_member_model(learner, member);
    struct safetensors_entry entries[MODEL_TENSORS_MAX];
    char name[CHECKPOINT_NAME_SIZE];
    parameters_entries(model, entries);
    for (size_t block = 0; block <= learner_moments(learner, member); block++)
        for (size_t n = 0; n < (block ? model->learned_count : model->tensor_count); n++) {
            const struct checkpoint_entry of = {
                .kind = ENTRY_TENSOR, .member = member, .block = block, .tensor = n};
            if (block == 0)
                snprintf(name, sizeof name, "%s", entries[n].name);
            else if (checkpoint_is_start(layout, &of))
                snprintf(name, sizeof name, "start.%s", entries[n].name);
            else
                snprintf(name, sizeof name, "optimizer.moment_%zu.%s", block, entries[n].name);
            struct safetensors_entry *entry =
                add(layout, learner_member_name(learner, member), name, &of);
            const char *own = entry->name;
            *entry = entries[n];
            entry->name = own;
        }
}

struct checkpoint_slots checkpoint_slots(const struct learner *learner,
                                         const struct state_row *row) {
    const struct streams *streams = learner_streams_table(learner);
    return (struct checkpoint_slots){
        learner, row->flags & STATE_ALONE ? STREAMS_NONE : streams_oldest(streams), 0,
        row->flags & STATE_SHARED ? anomalies_shared(learner_host(learner)) : 0};
}

bool checkpoint_next_slot(struct checkpoint_slots *slots, uint32_t *slot) {
    *slot = slots->next;
    if (*slot != STREAMS_NONE) {
        slots->next = streams_newer(learner_streams_table(slots->learner), *slot);
        return true;
    }
    if (slots->shared == slots->count)
        return false;
    *slot = learner_shared_slot(slots->learner, slots->shared++);
    return true;
}

static uint64_t count_used(const struct learner *learner, struct state_place place) {
    const struct state_row *row = place.row;
    struct checkpoint_slots slots = checkpoint_slots(learner, row);
    uint64_t count = 0;
    while (checkpoint_next_slot(&slots, &place.slot))
        for (size_t n = 0; row->at(&place, n); n++)
            count += row->used(&place, n);
    return count;
}

static void add_kept(struct checkpoint_layout *layout, struct state_place place, size_t member) {
    struct learner *learner = layout->learner;
    const struct state_row *row = place.row;
    const struct checkpoint_entry of = {
        .kind = ENTRY_KEPT, .row = row, .self = place.self, .member = member};
    place.member = member;
    size_t size = state_row_size(&place);
    if (!size)
        return;
    struct safetensors_entry *entry =
        add(layout, row->flags & STATE_MEMBERS ? learner_member_name(learner, member) : NULL,
            row->name, &of);
    bool once = row->flags & STATE_ONCE;
    entry->type = row->type;
    entry->rank = once && !row->width ? 1 : 2;
    entry->shape[0] = once                       ? size
                      : row->used                ? count_used(learner, place)
                      : row->flags & STATE_ALONE ? anomalies_shared(learner_host(learner))
                                                 : layout->streams;
    entry->shape[1] = once ? row->width : size;
}

static uint64_t count_words(const struct learner *learner) {
    uint64_t count = 0;
    for (size_t n = 0; n < words_lexicons(learner_host(learner)); n++)
        count += words_lexicon(learner_host(learner), n).size;
    return count;
}

static void add_all(struct checkpoint_layout *layout, const struct state_place *rows,
                    size_t count) {
    struct learner *learner = layout->learner;
    size_t members = learner_members(learner);
    bool streams = false;
    for (size_t m = 0; m < members; m++)
        add_tensors(layout, m);
    for (size_t n = 0; n < count; n++) {
        const struct state_row *row = rows[n].row;
        if (!streams && !(row->flags & STATE_ONCE)) {
            if (words_lexicons(learner_host(learner)))
                add_plain(layout, ENTRY_WORDS, "learner.words", SAFETENSORS_U8,
                          count_words(learner), CHECKPOINT_WORD_SIZE);
            add_plain(layout, ENTRY_KEYS, "streams.keys", SAFETENSORS_U8, layout->streams,
                      CHECKPOINT_KEY_SIZE);
            streams = true;
        }
        if (!(row->flags & STATE_MEMBERS) || (row->flags & STATE_ALWAYS && !members))
            add_kept(layout, rows[n], 0);
        else
            for (size_t m = 0; m < members; m++)
                add_kept(layout, rows[n], m);
    }
    add_plain(layout, ENTRY_CHECKSUM, "checksum", SAFETENSORS_I64, 1, 0);
}

bool checkpoint_is_row(const struct checkpoint_entry *of) {
    return of->kind == ENTRY_KEPT && !(of->row->flags & (STATE_ONCE | STATE_ALONE));
}

bool checkpoint_is_watched(const struct checkpoint_entry *of) {
    return of->kind == ENTRY_KEPT && of->row->flags & STATE_WATCH && !(of->row->flags & STATE_ONCE);
}

size_t checkpoint_row_size(const struct safetensors_entry *entry) {
    struct safetensors_entry one = *entry;
    uint64_t size = 0;
    one.shape[0] = 1;
    safetensors_measure(&one, &size);
    return (size_t)size;
}

size_t checkpoint_piece_size(const struct safetensors_entry *entry,
                             const struct checkpoint_entry *of) {
    uint64_t size = 0;
    if (of->kind == ENTRY_TENSOR || (of->kind == ENTRY_KEPT && of->row->flags & STATE_ONCE))
        safetensors_measure(entry, &size);
    return size ? (size_t)size : checkpoint_row_size(entry);
}

int checkpoint_layout_open(struct checkpoint_layout *layout, struct learner *learner,
                           size_t streams, struct error *error) {
    size_t count = learner_rows(learner, NULL), most = 0, members = learner_members(learner);
    struct state_place *rows = calloc(count, sizeof *rows);
    *layout = (struct checkpoint_layout){.learner = learner, .streams = streams};
    layout->capacity = count * (members + 1) + ENTRY_CHECKSUM;
    for (size_t m = 0; m < members; m++)
        layout->capacity +=
            (1 + learner_moments(learner, m)) * learner_member_model(learner, m)->tensor_count;
    layout->entries = calloc(layout->capacity, sizeof *layout->entries);
    layout->of = calloc(layout->capacity, sizeof *layout->of);
    if (rows && layout->entries && layout->of) {
        learner_rows(learner, rows);
        add_all(layout, rows, count);
        for (size_t n = 0; n < layout->count; n++) {
            size_t size = checkpoint_piece_size(&layout->entries[n], &layout->of[n]);
            most = size > most ? size : most;
        }
        layout->buffer = malloc(most);
    }
    free(rows);
    if (layout->buffer)
        return 0;
    return error_set(error, EX_UNAVAILABLE, "out of memory for the entries of a checkpoint");
}

void checkpoint_layout_close(struct checkpoint_layout *layout) {
    free(layout->entries);
    free(layout->of);
    free(layout->buffer);
    *layout = (struct checkpoint_layout){0};
}

/* ---- What differs in a file ---- */

void checkpoint_warn(struct checkpoint_report *report, const char *format, ...) {
    char text[sizeof report->warning];
    TEXT_FORMAT(text, sizeof text, format);
    text_clean(text);
    text_append(report->warning, sizeof report->warning, "%s%s", *report->warning ? "; " : "",
                text);
}

/* Files contain the hash of prefixes as arrays of this size. */
void checkpoint_share(const struct config *config, char text[CHECKPOINT_SHARE_SIZE]) {
    enum { SHARE_HASHED = 64 };
    const struct share_config *share = &config->anomaly.share;
    uint64_t hash = HASH_BEGIN;
    for (size_t n = 0; n < share->count; n++) {
        size_t size = strlen(share->prefixes[n]);
        hash = hash_bytes(hash, share->prefixes[n], size < SHARE_HASHED ? SHARE_HASHED : size);
    }
    snprintf(text, CHECKPOINT_SHARE_SIZE, "%016" PRIx64, hash);
}

void checkpoint_describe(const struct config *config, char text[CHECKPOINT_DESCRIPTION_SIZE]) {
    enum { REACH_SIZE = 32 };
    char summary[MODEL_SUMMARY_SIZE], reach[REACH_SIZE];
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

/* Returns whether only state that can start from scratch differs. All daemons of a fleet must learn
   in the same way. */
static bool lasts(struct checkpoint_layout *layout, const struct safetensors *file,
                  const struct config *config, const char *digest) {
    const char *lasting = safetensors_metadata(file, "lasting");
    const char *optimizer = safetensors_metadata(file, "optimizer");
    layout->begins = digest && lasting && optimizer && config->fleet.lease <= 0 &&
                     !strcmp(lasting, config->lasting);
    layout->moments = layout->begins && strcmp(optimizer, config->optimizer) != 0;
    return layout->begins;
}

int checkpoint_check_digest(struct checkpoint_layout *layout,
                            const struct checkpoint_source *source, const struct config *config,
                            struct checkpoint_report *report, struct error *error) {
    const char *digest = safetensors_metadata(source->file, "digest");
    const char *description = safetensors_metadata(source->file, "description");
    char ours[CHECKPOINT_DESCRIPTION_SIZE];
    if (digest && !strcmp(digest, config->compatible))
        return 0;
    checkpoint_describe(config, ours);
    if (!description)
        description = "?";
    if (lasts(layout, source->file, config, digest)) {
        snprintf(report->before, sizeof report->before, "%s", digest);
        checkpoint_warn(
            report,
            "%s was learned with another window, stride, rule or optimizer (%.250s; now %.250s): "
            "parameters and statistics are kept, windows of streams%s start from scratch",
            source->path, description,
            strcmp(ours, description) ? ours : "other numbers of the optimizer",
            layout->moments ? " and the optimizer's moments" : "");
        return 0;
    }
    return error_set(
        error, EX_CONFIG,
        "%s has another configuration (%.*s%s; now %.*s%s): use that one, set another "
        "state.directory, or move this directory away, checkpoints and journal together",
        source->path, DESCRIPTION_SHOWN, description,
        strlen(description) > DESCRIPTION_SHOWN ? "..." : "", DESCRIPTION_SHOWN, ours,
        strcmp(ours, description) ? "" : ", other details of model, experts or learning");
}

static bool has_entry(const struct checkpoint_layout *layout, const char *name) {
    for (size_t n = 0; n < layout->count; n++)
        if (strcmp(layout->of[n].name, name) == 0)
            return true;
    return false;
}

/* Counts entries of predictions, distributions or anomalies that are not kept any more. */
static size_t count_needless(const struct checkpoint_layout *layout,
                             const struct safetensors *file) {
    const struct state_row *row;
    size_t needless = 0;
    for (size_t n = 0; (row = part_row(n)); n++)
        needless += row->flags & (STATE_TRUTH | STATE_WATCH) && !has_entry(layout, row->name) &&
                    safetensors_find(file, row->name);
    return needless;
}

size_t checkpoint_mark_lacked(struct checkpoint_layout *layout, const struct safetensors *file) {
    size_t count = layout->count + count_needless(layout, file);
    for (size_t n = 0; n < layout->count; n++) {
        struct checkpoint_entry *of = &layout->of[n];
        of->lacked = of->kind == ENTRY_KEPT && of->row->flags & STATE_LATER &&
                     !safetensors_find(file, of->name);
        count -= of->lacked;
    }
    return count;
}

/* Memories of another size or other streams are useless: anomalies start from scratch. */
static void mark_resized(struct checkpoint_layout *layout, const struct safetensors *file,
                         const struct config *config) {
    const char *memory = safetensors_metadata(file, CHECKPOINT_MEMORY);
    const char *found_share = safetensors_metadata(file, CHECKPOINT_SHARE);
    char share[CHECKPOINT_SHARE_SIZE];
    checkpoint_share(config, share);
    const struct safetensors_entry *held = safetensors_find(file, ANOMALY_HELD);
    bool shares = anomalies_shared(learner_host(layout->learner)), fit = !held || !held->shape[0];
    bool alike = memory && strtoull(memory, NULL, 10) == config->anomaly.memory &&
                 (shares ? found_share && !strcmp(found_share, share) : !found_share);
    for (size_t n = 0; n < layout->count; n++) {
        const struct safetensors_entry *wanted = &layout->entries[n];
        const struct safetensors_entry *found = safetensors_find(file, wanted->name);
        const struct checkpoint_entry *of = &layout->of[n];
        if (of->kind != ENTRY_KEPT || !(of->row->flags & STATE_MEMORY))
            continue;
        fit &= found && found->rank == wanted->rank && found->shape[1] == wanted->shape[1] &&
               (alike || !of->row->used);
    }
    for (size_t n = 0; n < layout->count; n++)
        layout->of[n].lacked |= checkpoint_is_watched(&layout->of[n]) && !fit;
}

/* Experts on symbols with another memory. */
static void mark_sized(struct checkpoint_layout *layout, const struct safetensors *file,
                       struct checkpoint_report *report) {
    bool other = false;
    for (size_t n = 0; n < layout->count; n++) {
        const struct safetensors_entry *wanted = &layout->entries[n];
        const struct safetensors_entry *found = safetensors_find(file, wanted->name);
        other |= layout->of[n].kind == ENTRY_KEPT && layout->of[n].row->flags & STATE_SIZED &&
                 found && memcmp(found->shape, wanted->shape, sizeof *wanted->shape * wanted->rank);
    }
    for (size_t n = 0; n < layout->count && other; n++)
        layout->of[n].lacked |=
            layout->of[n].kind == ENTRY_KEPT && layout->of[n].row->flags & STATE_SIZED;
    if (other)
        checkpoint_warn(report, "memory has changed: experts start from scratch, the network and "
                                "streams continue");
}

/* Marks windows and moments that start from scratch; of records, the states are read. With a `pull`
   that the file did not have, starting values stay those of a new network: the current ones would
   hold a network where it has stopped to learn. */
static void mark_begun(struct checkpoint_layout *layout, const struct safetensors *file) {
    for (size_t n = 0; n < layout->count && layout->begins; n++) {
        struct checkpoint_entry *of = &layout->of[n];
        const struct safetensors_entry *found = safetensors_find(file, of->name);
        unsigned flags = of->kind == ENTRY_KEPT ? of->row->flags : 0;
        bool start = checkpoint_is_start(layout, of);
        of->lacked |= flags & STATE_WINDOW || (start && !found) ||
                      (layout->moments && (flags & STATE_MOMENTS ||
                                           (of->kind == ENTRY_TENSOR && of->block > 0 && !start)));
        if (of->kind == ENTRY_KEPT && of->row->lasting && found && found->shape[1])
            layout->entries[n].shape[1] = found->shape[1];
    }
}

void checkpoint_mark_changed(struct checkpoint_layout *layout, const struct safetensors *file,
                             const struct config *config, struct checkpoint_report *report) {
    mark_resized(layout, file, config);
    mark_sized(layout, file, report);
    mark_begun(layout, file);
}
