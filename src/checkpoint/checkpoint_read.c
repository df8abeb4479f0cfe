#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "checkpoint_reading.h"
#include "common/finite.h"
#include "learner/scaler.h"
#include "learner/truth.h"

static int check_format(const struct safetensors *file, const char *path, struct error *error) {
    const char *format = safetensors_metadata(file, "format");
    const char *version = safetensors_metadata(file, "version");
    if (!strcmp(format, CHECKPOINT_FORMAT) || !strcmp(format, CHECKPOINT_FORMAT_BEFORE))
        return 0;
    return error_set(error, EX_CONFIG,
                     "%s has the format %.40s of runneld %.40s, but this one reads %s: continue "
                     "with that version, or give this one a directory of its own with "
                     "state.directory",
                     path, format, version ? version : "?", CHECKPOINT_FORMAT);
}

int reading_damaged(const struct reading *reading, const char *what, struct error *error) {
    return error_set(error, EX_IOERR, "%s is damaged: %s", reading->path, what);
}

int reading_bytes(const struct reading *reading, const struct safetensors_entry *entry,
                  uint64_t first, void *bytes, size_t size, struct error *error) {
    if (reading->file)
        return safetensors_read(reading->file, entry, first, bytes, size, error);
    if (first > entry->size || size > entry->size - first)
        return reading_damaged(reading, "what it has of a stream is too short", error);
    if (size)
        memcpy(bytes, reading->blob + entry->begin + first, size);
    return 0;
}

int reading_member_row(const struct reading *reading, enum checkpoint_part part, size_t member,
                       size_t row, void *bytes, size_t size, struct error *error) {
    const struct checkpoint_layout *layout = &reading->layout;
    const struct safetensors_entry *entry = &layout->entries[layout->parts[member][part]];
    if (layout->of[layout->parts[member][part]].lacked)
        return 0;
    return reading_bytes(reading, entry, row * size, bytes, size, error);
}

int reading_row(const struct reading *reading, enum checkpoint_part part, size_t row, void *bytes,
                size_t size, struct error *error) {
    return reading_member_row(reading, part, 0, row, bytes, size, error);
}

static bool all_finite(const float *values, size_t count) {
    for (size_t k = 0; k < count; k++)
        if (!isfinite(values[k]))
            return false;
    return true;
}

/* Whether only what can begin anew is another. All daemons of a fleet learn alike. */
static bool lasts(struct reading *reading, const char *digest) {
    const char *lasting = safetensors_metadata(reading->file, "lasting");
    const char *optimizer = safetensors_metadata(reading->file, "optimizer");
    reading->begins = digest && lasting && optimizer && reading->config->fleet.lease <= 0 &&
                      !strcmp(lasting, reading->config->lasting);
    reading->moments = reading->begins && strcmp(optimizer, reading->config->optimizer) != 0;
    return reading->begins;
}

static int check_digest(struct reading *reading, struct checkpoint_report *report,
                        struct error *error) {
    const char *digest = safetensors_metadata(reading->file, "digest");
    const char *description = safetensors_metadata(reading->file, "description");
    char ours[CHECKPOINT_DESCRIPTION_SIZE];
    if (digest && !strcmp(digest, reading->config->compatible))
        return 0;
    checkpoint_describe(reading->config, ours);
    if (!description)
        description = "?";
    if (lasts(reading, digest)) {
        snprintf(report->before, sizeof report->before, "%s", digest);
        checkpoint_warn(
            report,
            "%s was learned with another window, stride, rule or optimizer (%.250s; now "
            "%.250s): parameters and statistics are kept, windows of streams%s begin "
            "anew",
            reading->path, description, ours,
            reading->moments ? " and the optimizer's moments" : "");
        return 0;
    }
    return error_set(
        error, EX_CONFIG,
        "%s is of another configuration (%.350s%s; now %.350s%s): go back to that one, "
        "or give this one a directory of its own with state.directory, or move "
        "this directory away, checkpoints and journal together",
        reading->path, description, strlen(description) > 350 ? "..." : "", ours,
        strcmp(ours, description) ? "" : ", other details of model or learning");
}

static bool has_named(const struct reading *reading, const char *name) {
    return name && safetensors_find(reading->file, name);
}

/* What it has of predictions, or of anomalies, that are not kept now. */
static size_t count_needless(const struct reading *reading) {
    bool truths = !learner_truth(reading->learner), watch = !learner_watches(reading->learner);
    size_t count = !watch && !learner_shared(reading->learner) &&
                   has_named(reading, checkpoint_watch(PART_SHARED));
    for (enum checkpoint_part part = 0; part < PARTS; part++)
        count += (truths && has_named(reading, checkpoint_truth(part))) ||
                 (watch && has_named(reading, checkpoint_watch(part)));
    return count;
}

/* What it lacks, since it is older or nobody could ask for it then; returns how many. */
static size_t mark_lacked(struct reading *reading) {
    struct checkpoint_layout *layout = &reading->layout;
    size_t count = 0;
    for (size_t n = 0; n < layout->count; n++) {
        struct checkpoint_entry *of = &layout->of[n];
        of->lacked = of->later && !safetensors_find(reading->file, layout->entries[n].name);
        count += of->lacked;
    }
    return count;
}

static bool shares_alike(const struct reading *reading) {
    const char *found = safetensors_metadata(reading->file, CHECKPOINT_SHARE);
    char share[CHECKPOINT_SHARE_SIZE];
    checkpoint_share(reading->config, share);
    return learner_shared(reading->learner) ? found && !strcmp(found, share) : !found;
}

/* Memories of another size, or of other streams, are of no use: they begin anew, and all that
 * belongs to them. */
static void mark_resized(struct reading *reading) {
    static const enum checkpoint_part parts[] = {PART_WATCH, PART_CONTEXTS};
    struct checkpoint_layout *layout = &reading->layout;
    const char *memory = safetensors_metadata(reading->file, CHECKPOINT_MEMORY);
    bool fit = !reading_has(reading, PART_CONTEXTS) ||
               (memory && strtoull(memory, NULL, 10) == reading->config->anomaly.memory &&
                shares_alike(reading));
    for (size_t n = 0; n < 2; n++) {
        size_t at = layout->parts[0][parts[n]];
        if (at == SIZE_MAX)
            continue;
        const struct safetensors_entry *wanted = &layout->entries[at];
        const struct safetensors_entry *found = safetensors_find(reading->file, wanted->name);
        fit &= found && found->rank == wanted->rank && found->shape[1] == wanted->shape[1];
    }
    for (size_t n = 0; n < layout->count; n++)
        if (layout->of[n].part >= PART_WATCH && layout->of[n].part <= PART_ALARMS)
            layout->of[n].lacked |= !fit;
}

/* What windows and moments consist of; of records the states are read. */
static void mark_begun(struct reading *reading) {
    struct checkpoint_layout *layout = &reading->layout;
    for (size_t n = 0; n < layout->count && reading->begins; n++) {
        struct checkpoint_entry *of = &layout->of[n];
        enum checkpoint_part part = of->part;
        of->lacked |= part == PART_WINDOWS || part == PART_SCALES || part == PART_BASES ||
                      part == PART_OPEN || part == PART_OPEN_TIMES || part == PART_OPEN_CLASSES;
        of->lacked |= reading->moments && ((part == PART_TENSOR && of->block > 0) ||
                                           part == PART_UPDATES || part == PART_RATES);
        const struct safetensors_entry *found =
            safetensors_find(reading->file, layout->entries[n].name);
        if (part == PART_RECORDS && found)
            layout->entries[n].shape[1] = found->shape[1];
    }
}

/* The layout with the file's own number of streams, and every entry as the layout says. */
static int check_entries(struct reading *reading, struct error *error) {
    const struct safetensors_entry *keys = safetensors_find(reading->file, "streams.keys");
    if (!keys || keys->rank != 2 || keys->shape[0] > reading->config->learning.max_streams)
        return reading_damaged(reading, "its streams are missing or too many", error);
    struct checkpoint_layout *layout = &reading->layout;
    if (checkpoint_layout_open(layout, reading->learner, keys->shape[0], error))
        return -1;
    reading->buffer = malloc(checkpoint_buffer_size(layout));
    if (!reading->buffer)
        return error_set(error, EX_UNAVAILABLE, "out of memory while reading %s", reading->path);
    size_t count = layout->count - mark_lacked(reading) + count_needless(reading);
    if (!reading->begins && safetensors_count(reading->file) != count)
        return reading_damaged(reading, "it has not the tensors that its configuration needs",
                               error);
    mark_resized(reading);
    mark_begun(reading);
    for (size_t n = 0; n < layout->count; n++) {
        struct safetensors_entry *wanted = &layout->entries[n];
        const struct safetensors_entry *found = safetensors_find(reading->file, wanted->name);
        if (layout->of[n].lacked)
            continue;
        if (found && layout->of[n].varies)
            wanted->shape[0] = found->shape[0];
        if (!found || found->type != wanted->type || found->rank != wanted->rank ||
            memcmp(found->shape, wanted->shape, wanted->rank * sizeof *wanted->shape))
            return error_set(error, EX_IOERR,
                             "%s is damaged: tensor %s is missing or of another type or shape",
                             reading->path, wanted->name);
        wanted->begin = found->begin;
        wanted->size = found->size;
    }
    return 0;
}

static int read_tensor(struct reading *reading, size_t n, struct error *error) {
    const struct safetensors_entry *entry = &reading->layout.entries[n];
    const struct checkpoint_entry *of = &reading->layout.of[n];
    const struct model *model = learner_member_model(reading->learner, of->member);
    size_t count = tensor_size(&model->tensors[of->tensor]);
    if (safetensors_read(reading->file, entry, 0, reading->buffer, entry->size, error))
        return -1;
    if (of->block == 0 && !all_finite(reading->buffer, count))
        return error_set(error, EX_IOERR,
                         "%s has numbers that are not finite in tensor %s: its network is lost",
                         reading->path, entry->name);
    return learner_write(reading->learner, of->member, checkpoint_block(of->block), of->tensor,
                         reading->buffer, error);
}

static int read_solution(struct reading *reading, size_t n, struct error *error) {
    const struct safetensors_entry *entry = &reading->layout.entries[n];
    if (safetensors_read(reading->file, entry, 0, reading->buffer, entry->size, error))
        return -1;
    if (!finite_within(reading->buffer, entry->shape[0], DBL_MAX))
        return error_set(error, EX_IOERR, "%s is damaged: %s is not finite", reading->path,
                         entry->name);
    return learner_write(reading->learner, reading->layout.of[n].member, ENGINE_SOLUTION, 0,
                         reading->buffer, error);
}

/* Tensors, then what rounds to some of them. */
static int read_tensors(struct reading *reading, struct error *error) {
    const struct checkpoint_layout *layout = &reading->layout;
    for (size_t n = 0; n < layout->count; n++) {
        enum checkpoint_part part = layout->of[n].part;
        if (layout->of[n].lacked)
            continue;
        if ((part == PART_TENSOR && read_tensor(reading, n, error)) ||
            (part == PART_SOLUTION && read_solution(reading, n, error)))
            return -1;
    }
    return 0;
}

static int read_rates(const struct reading *reading, size_t member, struct error *error) {
    double r[CHECKPOINT_RATES];
    if (reading->moments) /* those configured, which are this optimizer's */
        return 0;
    if (reading_member_row(reading, PART_RATES, member, 0, r, sizeof r, error))
        return -1;
    for (size_t n = 0; n < CHECKPOINT_RATES; n++)
        if (!isfinite(r[n]) || (r[n] < 0 && (n % 2 || r[n] != RATE_AUTO)))
            return reading_damaged(reading, "learning rate or clip is no number", error);
    learner_write_rates(reading->learner, member, &(struct learner_rates){r[0], r[1], r[2], r[3]});
    return 0;
}

static int read_member(const struct reading *reading, size_t member, struct error *error) {
    uint64_t updates = 0;
    if (reading_member_row(reading, PART_UPDATES, member, 0, &updates, sizeof updates, error) ||
        learner_write(reading->learner, member, ENGINE_UPDATES, 0, &updates, error))
        return -1;
    return 0;
}

static int read_backwards(const struct reading *reading, struct error *error) {
    uint64_t count;
    if (!reading_has(reading, PART_BACKWARDS))
        return 0;
    if (reading_row(reading, PART_BACKWARDS, 0, &count, sizeof count, error))
        return -1;
    learner_write_backwards(reading->learner, count);
    return 0;
}

#define COVERAGE_ROUNDING 1e-9

static int read_coverage(const struct reading *reading, struct error *error) {
    double c[CHECKPOINT_COVERAGE] = {0};
    if (!learner_truth(reading->learner))
        return 0;
    if (reading_row(reading, PART_COVERAGE, 0, c, sizeof c, error))
        return -1;
    /* Checkpoints of before have a share above 1 by rounding. */
    if (c[3] > c[2] && c[3] <= c[2] * (1 + COVERAGE_ROUNDING))
        c[3] = c[2];
    if (!(c[1] >= 0 && c[0] >= c[1] && c[3] >= 0 && c[2] >= c[3] && isfinite(c[0] + c[2])))
        return reading_damaged(reading, "the coverage of its intervals cannot be", error);
    truth_write_coverage(learner_truth(reading->learner),
                         &(struct truth_coverage){c[0], c[1], c[2], c[3]});
    return 0;
}

static int read_thresholds(const struct reading *reading, struct error *error) {
    struct learner *learner = reading->learner;
    if (!learner_watches(learner))
        return 0;
    const struct learner_thresholds now = learner_thresholds(learner);
    double t[CHECKPOINT_THRESHOLDS] = {now.threshold, now.configured};
    if (reading_row(reading, PART_THRESHOLDS, 0, t, sizeof t, error))
        return -1;
    if (!(t[0] >= 0 && t[1] >= 0 && isfinite(t[0] + t[1])))
        return reading_damaged(reading, "the threshold of its alarms is no number", error);
    learner_write_thresholds(learner, &(struct learner_thresholds){t[0], t[1]});
    return 0;
}

static int read_counters(const struct reading *reading, struct error *error) {
    uint64_t c[CHECKPOINT_COUNTERS];
    size_t members = learner_members(reading->learner);
    for (size_t m = 0; m < members; m++)
        if (read_member(reading, m, error))
            return -1;
    if (reading_row(reading, PART_COUNTERS, 0, c, sizeof c, error))
        return -1;
    learner_write_counters(reading->learner,
                           &(struct learner_counters){c[0], c[1], c[2], c[3], c[4], c[5]});
    for (size_t m = 0; m < members || m == 0; m++)
        if (read_rates(reading, m, error))
            return -1;
    return read_coverage(reading, error) || read_thresholds(reading, error) ||
                   read_backwards(reading, error)
               ? -1
               : 0;
}

/* `counts`: the first of its parts. */
static int read_scaler(const struct reading *reading, struct scaler *scaler,
                       enum checkpoint_part counts, struct error *error) {
    for (size_t k = 0; scaler && k < scaler_size(scaler); k++) {
        struct scaler_number number;
        if (reading_row(reading, counts, k, &number.count, sizeof number.count, error) ||
            reading_row(reading, counts + 1, k, &number.mean, sizeof number.mean, error) ||
            reading_row(reading, counts + 2, k, &number.squares, sizeof number.squares, error))
            return -1;
        if (!isfinite(number.mean) || !isfinite(number.squares) || number.squares < 0)
            return reading_damaged(reading, "the scaler's statistics are not finite", error);
        scaler_write(scaler, k, &number);
        float *first = scaler_first(scaler, k);
        if (first &&
            reading_row(reading, counts + 3, k, first, SCALER_FIRST * sizeof *first, error))
            return -1;
        if (first && !all_finite(first, SCALER_FIRST))
            return reading_damaged(reading, "the scaler's first values are not finite", error);
    }
    return 0;
}

static int read_scalers(const struct reading *reading, struct error *error) {
    struct learner *learner = reading->learner;
    if (read_scaler(reading, learner_scaler_state(learner), PART_COUNTS, error) ||
        read_scaler(reading, learner_output_scaler(learner), PART_TARGET_COUNTS, error))
        return -1;
    learner_scaler_written(learner);
    return 0;
}

/* ---- All of it ---- */

static int find_position(const struct reading *reading, uint64_t *position, struct error *error) {
    uint64_t counters[CHECKPOINT_COUNTERS];
    const struct safetensors_entry *entry = safetensors_find(reading->file, "learner.counters");
    if (!entry || entry->size != sizeof counters)
        return reading_damaged(reading, "its counters are missing", error);
    if (safetensors_read(reading->file, entry, 0, counters, sizeof counters, error))
        return -1;
    *position = counters[CHECKPOINT_COUNTERS - 1];
    return 0;
}

static void compare_device(const struct reading *reading, struct checkpoint_report *report) {
    const char *then = safetensors_metadata(reading->file, "device");
    const char *now = learner_device(reading->learner);
    if (then && !strcmp(then, now))
        return;
    checkpoint_warn(report,
                    "%s was written on another device (%.100s; now %.100s): learning resumes, but "
                    "not with the same bits as there",
                    reading->path, then ? then : "?", now);
}

static int read_all(struct reading *reading, struct checkpoint_report *report,
                    struct error *error) {
    if (check_format(reading->file, reading->path, error))
        return -1;
    if (check_digest(reading, report, error))
        return CHECKPOINT_OTHER;
    if (!reading->learner)
        return find_position(reading, &report->position, error);
    if (check_entries(reading, error) || read_tensors(reading, error) ||
        read_counters(reading, error) || read_scalers(reading, error) ||
        reading_words(reading, error) || reading_streams(reading, error))
        return -1;
    learner_resumed(reading->learner);
    compare_device(reading, report);
    return 0;
}

int checkpoint_read(const char *path, const struct config *config, struct learner *learner,
                    struct checkpoint_report *report, struct error *error) {
    struct reading reading = {.path = path,
                              .config = config,
                              .model = learner ? learner_model(learner) : NULL,
                              .learner = learner};
    int status = -1;
    if (safetensors_open(&reading.file, path, error) ||
        reading_verify(reading.file, path, report, error))
        status = error->status == EX_IOERR ? CHECKPOINT_NOT_WHOLE : -1;
    else
        status = read_all(&reading, report, error);
    safetensors_close(&reading.file);
    checkpoint_layout_close(&reading.layout);
    free(reading.buffer);
    return status;
}
