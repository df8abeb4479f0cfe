#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "checkpoint_internal.h"
#include "learner/scaler.h"
#include "learner/streams.h"
#include "learner/truth.h"

/* ---- Whether a file is whole ---- */

static int read_bytes(int descriptor, const char *path, void *bytes, size_t size,
                      struct error *error) {
    for (size_t done = 0; done < size;) {
        ssize_t count = read(descriptor, (char *)bytes + done, size - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return error_set(error, EX_IOERR, "%s cannot be read: %s", path,
                             count < 0 ? strerror(errno) : "it ends too early");
        done += (size_t)count;
    }
    return 0;
}

static int sum_file(int descriptor, const char *path, uint64_t size, struct error *error) {
    enum { PIECE_SIZE = 1 << 16 };
    unsigned char piece[PIECE_SIZE];
    uint32_t sum = 0;
    for (uint64_t left = size - CHECKPOINT_CHECKSUM_SIZE; left;) {
        size_t part = left < PIECE_SIZE ? (size_t)left : PIECE_SIZE;
        if (read_bytes(descriptor, path, piece, part, error))
            return -1;
        sum = libdeflate_crc32(sum, piece, part);
        left -= part;
    }
    int64_t kept;
    if (read_bytes(descriptor, path, &kept, sizeof kept, error))
        return -1;
    if (kept == (int64_t)sum)
        return 0;
    return error_set(error, EX_IOERR, "%s is damaged: its checksum does not fit its bytes", path);
}

static int check_sum(const struct safetensors *file, const char *path, uint64_t *bytes,
                     struct error *error) {
    const struct safetensors_entry *checksum = safetensors_find(file, "checksum");
    const struct safetensors_entry *last = safetensors_at(file, safetensors_count(file) - 1);
    if (checksum != last || checksum->size != CHECKPOINT_CHECKSUM_SIZE)
        return error_set(error, EX_IOERR, "%s is damaged: its checksum is missing", path);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = descriptor < 0 ? -1 : lseek(descriptor, 0, SEEK_END);
    int status;
    if (size < CHECKPOINT_CHECKSUM_SIZE || lseek(descriptor, 0, SEEK_SET) != 0)
        status = error_set(error, EX_IOERR, "%s cannot be read: %s", path, strerror(errno));
    else
        status = sum_file(descriptor, path, (uint64_t)size, error);
    if (descriptor >= 0)
        close(descriptor);
    *bytes = (uint64_t)size;
    return status;
}

/* Whatever the format, the checksum is the last entry. */
static int verify(const struct safetensors *file, const char *path,
                  struct checkpoint_report *report, struct error *error) {
    const char *format = safetensors_metadata(file, "format");
    const char *examples = safetensors_metadata(file, "examples");
    const char *time = safetensors_metadata(file, "time");
    if (!format || !safetensors_count(file) || !examples || !time)
        return error_set(error, EX_IOERR, "%s is a safetensors file, but no checkpoint", path);
    if (check_sum(file, path, &report->bytes, error))
        return -1;
    report->examples = strtoull(examples, NULL, 10);
    report->time = strtod(time, NULL);
    return 0;
}

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

/* ---- What is in it ---- */

struct reading {
    const char *path;
    const struct config *config;
    const struct model *model;
    struct learner *learner;
    struct safetensors *file;
    struct checkpoint_layout layout;
    void *buffer;
};

static int damaged(const struct reading *reading, const char *what, struct error *error) {
    return error_set(error, EX_IOERR, "%s is damaged: %s", reading->path, what);
}

/* One row of a part of a member, or all of a part whose rows are not streams. What the file lacks
   leaves `bytes` as they are. */
static int read_member_row(const struct reading *reading, enum checkpoint_part part, size_t member,
                           size_t row, void *bytes, size_t size, struct error *error) {
    const struct checkpoint_layout *layout = &reading->layout;
    const struct safetensors_entry *entry = &layout->entries[layout->parts[member][part]];
    if (layout->of[layout->parts[member][part]].lacked)
        return 0;
    return safetensors_read(reading->file, entry, row * size, bytes, size, error);
}

static int read_row(const struct reading *reading, enum checkpoint_part part, size_t row,
                    void *bytes, size_t size, struct error *error) {
    return read_member_row(reading, part, 0, row, bytes, size, error);
}

static bool has_part(const struct reading *reading, enum checkpoint_part part) {
    return reading->layout.parts[0][part] != SIZE_MAX;
}

static int check_digest(const struct reading *reading, struct error *error) {
    const char *digest = safetensors_metadata(reading->file, "digest");
    const char *description = safetensors_metadata(reading->file, "description");
    char ours[CHECKPOINT_DESCRIPTION_SIZE];
    if (digest && !strcmp(digest, reading->config->digest))
        return 0;
    checkpoint_describe(reading->config, ours);
    if (!description)
        description = "?";
    return error_set(
        error, EX_CONFIG,
        "%s is of another configuration (%.350s%s; now %.350s%s): go back to that one, "
        "or give this one a directory of its own with state.directory, or move "
        "this directory away, checkpoints and journal together",
        reading->path, description, strlen(description) > 350 ? "..." : "", ours,
        strcmp(ours, description) ? "" : ", other details of model or learning");
}

/* What it has of predictions that are not kept now. */
static size_t count_needless(const struct reading *reading) {
    static const char *const names[] = {"learner.coverage", "streams.said", "streams.levels",
                                        "streams.errors"};
    size_t count = 0;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        count += safetensors_find(reading->file, names[n]) != NULL;
    return learner_truth(reading->learner) ? 0 : count;
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

/* The layout with the file's own number of streams, and every entry as the layout says. */
static int check_entries(struct reading *reading, struct error *error) {
    const struct safetensors_entry *keys = safetensors_find(reading->file, "streams.keys");
    if (!keys || keys->rank != 2 || keys->shape[0] > reading->config->learning.max_streams)
        return damaged(reading, "its streams are missing or too many", error);
    struct checkpoint_layout *layout = &reading->layout;
    if (checkpoint_layout_open(layout, reading->learner, keys->shape[0], error))
        return -1;
    reading->buffer = malloc(checkpoint_buffer_size(layout));
    if (!reading->buffer)
        return error_set(error, EX_UNAVAILABLE, "out of memory while reading %s", reading->path);
    if (safetensors_count(reading->file) !=
        layout->count - mark_lacked(reading) + count_needless(reading))
        return damaged(reading, "it has not the tensors that its configuration needs", error);
    for (size_t n = 0; n < layout->count; n++) {
        struct safetensors_entry *wanted = &layout->entries[n];
        const struct safetensors_entry *found = safetensors_find(reading->file, wanted->name);
        if (layout->of[n].lacked)
            continue;
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

static bool all_finite(const float *values, size_t count) {
    for (size_t k = 0; k < count; k++)
        if (!isfinite(values[k]))
            return false;
    return true;
}

static bool all_finite_doubles(const double *values, size_t count) {
    for (size_t k = 0; k < count; k++)
        if (!isfinite(values[k]))
            return false;
    return true;
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
    if (!all_finite_doubles(reading->buffer, entry->shape[0]))
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
        if ((part == PART_TENSOR && read_tensor(reading, n, error)) ||
            (part == PART_SOLUTION && read_solution(reading, n, error)))
            return -1;
    }
    return 0;
}

static int read_rates(const struct reading *reading, size_t member, struct error *error) {
    double r[CHECKPOINT_RATES];
    if (read_member_row(reading, PART_RATES, member, 0, r, sizeof r, error))
        return -1;
    for (size_t n = 0; n < CHECKPOINT_RATES; n++)
        if (!isfinite(r[n]) || (r[n] < 0 && (n % 2 || r[n] != RATE_AUTO)))
            return damaged(reading, "learning rate or clip is no number", error);
    learner_write_rates(reading->learner, member, &(struct learner_rates){r[0], r[1], r[2], r[3]});
    return 0;
}

static int read_member(const struct reading *reading, size_t member, struct error *error) {
    uint64_t updates;
    if (read_member_row(reading, PART_UPDATES, member, 0, &updates, sizeof updates, error) ||
        learner_write(reading->learner, member, ENGINE_UPDATES, 0, &updates, error))
        return -1;
    return 0;
}

static int read_coverage(const struct reading *reading, struct error *error) {
    double c[CHECKPOINT_COVERAGE] = {0};
    if (!learner_truth(reading->learner))
        return 0;
    if (read_row(reading, PART_COVERAGE, 0, c, sizeof c, error))
        return -1;
    if (!(c[1] >= 0 && c[0] >= c[1] && c[3] >= 0 && c[2] >= c[3] && isfinite(c[0] + c[2])))
        return damaged(reading, "the coverage of its intervals cannot be", error);
    truth_write_coverage(learner_truth(reading->learner),
                         &(struct truth_coverage){c[0], c[1], c[2], c[3]});
    return 0;
}

static int read_counters(const struct reading *reading, struct error *error) {
    uint64_t c[CHECKPOINT_COUNTERS];
    size_t members = learner_members(reading->learner);
    for (size_t m = 0; m < members; m++)
        if (read_member(reading, m, error))
            return -1;
    if (read_row(reading, PART_COUNTERS, 0, c, sizeof c, error))
        return -1;
    learner_write_counters(reading->learner,
                           &(struct learner_counters){c[0], c[1], c[2], c[3], c[4], c[5]});
    for (size_t m = 0; m < members || m == 0; m++)
        if (read_rates(reading, m, error))
            return -1;
    return read_coverage(reading, error);
}

/* `counts`: the first of its parts. */
static int read_scaler(const struct reading *reading, struct scaler *scaler,
                       enum checkpoint_part counts, struct error *error) {
    for (size_t k = 0; scaler && k < scaler_size(scaler); k++) {
        struct scaler_number number;
        if (read_row(reading, counts, k, &number.count, sizeof number.count, error) ||
            read_row(reading, counts + 1, k, &number.mean, sizeof number.mean, error) ||
            read_row(reading, counts + 2, k, &number.squares, sizeof number.squares, error))
            return -1;
        if (!isfinite(number.mean) || !isfinite(number.squares) || number.squares < 0)
            return damaged(reading, "the scaler's statistics are not finite", error);
        scaler_write(scaler, k, &number);
        float *first = scaler_first(scaler, k);
        if (first && read_row(reading, counts + 3, k, first, SCALER_FIRST * sizeof *first, error))
            return -1;
        for (size_t n = 0; first && n < SCALER_FIRST; n++)
            if (!isfinite(first[n]))
                return damaged(reading, "the scaler's first values are not finite", error);
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

/* ---- Streams ---- */

static bool symbol_fits(const float *bits, size_t size) {
    uint32_t id;
    memcpy(&id, bits, sizeof id);
    return id < size;
}

/* Whether an engine can resume from a record: symbols of the alphabet, classes of the output, and
   as many targets among the closed steps as the window says. Other numbers may be anything. */
static bool record_valid(const struct reading *reading, size_t member, const float *record,
                         const struct learner_window *window) {
    const struct model *model = learner_member_model(reading->learner, member);
    const struct input *input = &model->architecture.input;
    const struct output *output = &model->architecture.output;
    bool symbols = input->kind == INPUT_SYMBOL, classes = loss_kind(output->loss)->class_id;
    size_t width = model->features, ring = learner_ring(reading->learner, member);
    size_t solved = model->solved ? model->solved - 1 : 0, size = model->target_size;
    size_t places = model->open == 1 ? 1 : ring, terms = 0;
    size_t stride = model->state_size + width + model->horizons * (size + 1);
    const float *positions = record + model->state_size + places * (model->outputs + solved);
    for (size_t p = 0; p < ring; p++) {
        const float *x = positions + p * stride + model->state_size;
        const float *y = x + width, *kept = y + model->horizons * size;
        size_t age = (window->next + ring - p) % ring; /* steps before the next one */
        bool closed = age > window->open && age <= window->open + window->closed;
        if (symbols && !symbol_fits(x, input->size))
            return false;
        for (size_t h = 0; h < model->horizons; h++) {
            if ((kept[h] != 0 && kept[h] != 1) ||
                (kept[h] == 1 && classes && !symbol_fits(y + h * size, output->size)))
                return false;
            terms += closed && kept[h] == 1;
        }
    }
    return terms == window->terms;
}

static int read_window(const struct reading *reading, size_t member, size_t row,
                       struct learner_window *window, struct error *error) {
    int64_t w[CHECKPOINT_WINDOW];
    if (read_member_row(reading, PART_WINDOWS, member, row, w, sizeof w, error))
        return -1;
    for (size_t n = 0; n < CHECKPOINT_WINDOW; n++)
        if (w[n] < 0 || w[n] > INT32_MAX)
            return damaged(reading, "a stream's window cannot be", error);
    *window = (struct learner_window){(uint32_t)w[0], (uint32_t)w[1], (uint32_t)w[2],
                                      (uint32_t)w[3], (uint32_t)w[4]};
    if (!learner_window_valid(reading->learner, member, window))
        return damaged(reading, "a stream's window cannot be", error);
    return 0;
}

/* A mean may be NaN: nothing had been observed. */
static int read_scales(const struct reading *reading, size_t row, double *scales,
                       struct error *error) {
    size_t size = reading->model->target_size, places = learner_places(reading->learner);
    if (read_row(reading, PART_SCALES, row, scales, places * 2 * size * sizeof *scales, error))
        return -1;
    for (size_t n = 0; n < places; n++, scales += 2 * size)
        for (size_t k = 0; k < size; k++)
            if (isinf(scales[k]) || !isfinite(scales[size + k]) || scales[size + k] < 0)
                return damaged(reading, "a stream's scale cannot be", error);
    return 0;
}

/* Those of the open steps that are there must have as many targets as their records say. */
static int read_open_steps(const struct reading *reading, size_t row, uint32_t slot,
                           struct error *error) {
    struct learner *learner = reading->learner;
    for (size_t place = 0; place < learner_places(learner); place++) {
        int64_t numbers[CHECKPOINT_OPEN];
        if (read_row(reading, PART_OPEN, row * learner_places(learner) + place, numbers,
                     sizeof numbers, error))
            return -1;
        *learner_open_step(learner, slot, place) =
            (struct learner_open){.producer = (uint64_t)numbers[0],
                                  .sequence = (uint64_t)numbers[1],
                                  .epoch = (uint32_t)numbers[2],
                                  .steps = (uint32_t)numbers[3],
                                  .known = (uint32_t)numbers[4],
                                  .terms = (uint32_t)numbers[5]};
        for (size_t n = 2; n < CHECKPOINT_OPEN; n++)
            if (numbers[n] < 0 || numbers[n] > UINT32_MAX)
                return damaged(reading, "what is known of an open step cannot be", error);
        if (numbers[4] > 1 || (size_t)numbers[5] > reading->model->horizons)
            return damaged(reading, "what is known of an open step cannot be", error);
    }
    return 0;
}

static int read_floats(const struct reading *reading, enum checkpoint_part part, size_t row,
                       float *values, size_t count, struct error *error) {
    if (read_row(reading, part, row, values, count * sizeof *values, error))
        return -1;
    for (size_t k = 0; k < count; k++)
        if (isinf(values[k]))
            return damaged(reading, "what a stream's targets are relative to cannot be", error);
    return 0;
}

/* What waits for targets. */
static int read_open(const struct reading *reading, size_t row, uint32_t slot,
                     struct error *error) {
    struct learner *learner = reading->learner;
    size_t size = reading->model->target_size, places = learner_places(learner);
    double *scales = learner_scale(learner, slot, 0);
    float *bases = learner_base(learner, slot, 0), *last = learner_last(learner, slot);
    if (has_part(reading, PART_SCALES) && read_scales(reading, row, scales, error))
        return -1;
    if (has_part(reading, PART_BASES) &&
        read_floats(reading, PART_BASES, row, bases, places * size, error))
        return -1;
    if (has_part(reading, PART_LASTS) && read_floats(reading, PART_LASTS, row, last, size, error))
        return -1;
    return has_part(reading, PART_OPEN) ? read_open_steps(reading, row, slot, error) : 0;
}

static int read_forecast(const struct reading *reading, size_t row, uint32_t slot,
                         struct error *error) {
    const struct learner_forecast forecast = learner_forecast(reading->learner, slot);
    if (!forecast.experts)
        return 0;
    if (read_row(reading, PART_EXPERTS, row, forecast.experts,
                 forecast.experts_size * sizeof(double), error) ||
        read_row(reading, PART_MIXTURE, row, forecast.mixture,
                 forecast.mixture_size * sizeof(double), error))
        return -1;
    if (!all_finite_doubles(forecast.experts, forecast.experts_size) ||
        !all_finite_doubles(forecast.mixture, forecast.mixture_size) ||
        !learner_forecast_valid(reading->learner, slot))
        return damaged(reading, "what a stream's experts keep cannot be", error);
    return 0;
}

/* A checkpoint of before has none. */
static int read_baseline(const struct reading *reading, size_t row, uint32_t slot,
                         struct error *error) {
    size_t size = learner_baseline_size(reading->learner);
    if (!size)
        return 0;
    if (reading->layout.of[reading->layout.parts[0][PART_BASELINE]].lacked) {
        learner_lose_baseline(reading->learner, slot);
        return 0;
    }
    if (read_row(reading, PART_BASELINE, row, learner_baseline(reading->learner, slot),
                 size * sizeof(double), error))
        return -1;
    if (!learner_baseline_valid(reading->learner, slot))
        return damaged(reading, "a stream's baseline cannot be", error);
    return 0;
}

static int read_truths(const struct reading *reading, size_t row, uint32_t slot,
                       struct error *error) {
    struct truth *truth = learner_truth(reading->learner);
    const struct truth_state s = truth_state(truth, slot);
    if (read_row(reading, PART_SAID, row, s.said, s.said_size * sizeof(double), error))
        return -1;
    if (s.levels &&
        (read_row(reading, PART_LEVELS, row, s.levels, s.levels_size * sizeof(double), error) ||
         read_row(reading, PART_ERRORS, row, s.errors, s.errors_size * sizeof(float), error)))
        return -1;
    if (!truth_written(truth, slot))
        return damaged(reading, "what a stream's predictions keep cannot be", error);
    return 0;
}

/* Of one member: its window and its slot. */
static int read_member_stream(const struct reading *reading, size_t member, size_t row,
                              uint32_t slot, struct error *error) {
    struct learner *learner = reading->learner;
    struct learner_window window;
    size_t size = learner_record_size(learner, member) * sizeof(float);
    if (read_window(reading, member, row, &window, error) ||
        read_member_row(reading, PART_RECORDS, member, row, reading->buffer, size, error))
        return -1;
    if (!record_valid(reading, member, reading->buffer, &window))
        return damaged(reading, "a stream's record cannot be", error);
    learner_write_window(learner, member, slot, &window);
    return learner_write(learner, member, ENGINE_SLOT, slot, reading->buffer, error);
}

static int read_stream(const struct reading *reading, size_t row, struct error *error) {
    struct learner *learner = reading->learner;
    unsigned char key[CHECKPOINT_KEY];
    const char *name = (const char *)key + 1;
    if (read_row(reading, PART_KEYS, row, key, sizeof key, error))
        return -1;
    if (!wire_is_utf8(name, key[0]) ||
        streams_find(learner_streams_table(learner), name, key[0]) != STREAMS_NONE)
        return damaged(reading, "a stream's key is no UTF-8 or there twice", error);
    uint32_t slot = learner_add_stream(learner, name, key[0]);
    for (size_t m = 0; m < learner_members(learner); m++)
        if (read_member_stream(reading, m, row, slot, error))
            return -1;
    float *held = learner_held(learner, slot);
    size_t size = reading->model->architecture.input.size;
    if (held && read_row(reading, PART_HELD, row, held, size * sizeof *held, error))
        return -1;
    if (read_open(reading, row, slot, error))
        return -1;
    if (read_baseline(reading, row, slot, error))
        return -1;
    if (learner_truth(learner) && read_truths(reading, row, slot, error))
        return -1;
    return read_forecast(reading, row, slot, error);
}

static int read_streams(const struct reading *reading, struct error *error) {
    for (size_t row = 0; row < reading->layout.streams; row++)
        if (read_stream(reading, row, error))
            return -1;
    return 0;
}

/* ---- All of it ---- */

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
    if (check_format(reading->file, reading->path, error) || check_digest(reading, error) ||
        check_entries(reading, error) || read_tensors(reading, error) ||
        read_counters(reading, error) || read_scalers(reading, error) ||
        read_streams(reading, error))
        return -1;
    compare_device(reading, report);
    return 0;
}

int checkpoint_read(const char *path, const struct config *config, struct learner *learner,
                    struct checkpoint_report *report, struct error *error) {
    struct reading reading = {
        .path = path, .config = config, .model = learner_model(learner), .learner = learner};
    int status = -1;
    if (safetensors_open(&reading.file, path, error) || verify(reading.file, path, report, error))
        status = error->status == EX_IOERR ? CHECKPOINT_NOT_WHOLE : -1;
    else
        status = read_all(&reading, report, error);
    safetensors_close(&reading.file);
    checkpoint_layout_close(&reading.layout);
    free(reading.buffer);
    return status;
}
