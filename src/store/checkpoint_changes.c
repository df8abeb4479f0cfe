#include "checkpoint_changes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/hash.h"
#include "common/text.h"
#include "learner/learner_state.h"
#include "parts/anomalies.h"
#include "parts/part.h"

enum { DESCRIPTION_SHOWN = 350 /* bytes of a description in an error */ };

void checkpoint_warn(struct checkpoint_report *report, const char *format, ...) {
    size_t used = strlen(report->warning);
    char *end = report->warning + used;
    size_t room = sizeof report->warning - used;
    va_list arguments;
    if (used && room > sizeof "; ") {
        memcpy(end, "; ", sizeof "; ");
        end += 2;
        room -= 2;
    }
    va_start(arguments, format);
    vsnprintf(end, room, format, arguments);
    va_end(arguments);
    text_clean(end);
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
