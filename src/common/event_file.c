#include "build-config.h"

#include "event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "complain.h"

enum { HOST_SIZE = 65, NAMES_TRIED = 1000 };

struct bytes {
    unsigned char *at;
    size_t size, room;
    bool short_of_memory;
};

struct event_file {
    FILE *stream;
    struct bytes event, summary, value, histogram; /* each goes into the one before it */
    struct bytes plugin, info, entry, inner;       /* likewise, into `value` */
    int failed;                                    /* errno */
};

/* ---- Protocol buffers: (field << 3 | type), then the value ---- */

enum { VARINT = 0, FIXED64 = 1, BLOCK = 2, FIXED32 = 5 };

/* Fields of Event, of Summary.Value, and of HistogramProto. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };
enum {
    SUMMARY_VALUE = 1,
    VALUE_TAG = 1,
    VALUE_SIMPLE = 2,
    VALUE_HISTOGRAM = 5,
    VALUE_TENSOR = 8,
    VALUE_METADATA = 9,
};
enum {
    HISTOGRAM_MINIMUM = 1,
    HISTOGRAM_MAXIMUM = 2,
    HISTOGRAM_COUNT = 3,
    HISTOGRAM_SUM = 4,
    HISTOGRAM_SQUARES = 5,
    HISTOGRAM_LIMITS = 6,
    HISTOGRAM_BUCKETS = 7,
};

static void put_bytes(struct bytes *b, const void *data, size_t size) {
    if (b->size + size > b->room) {
        size_t room = 2 * (b->size + size);
        unsigned char *bigger = realloc(b->at, room);
        if (!bigger) {
            b->short_of_memory = true;
            return;
        }
        b->at = bigger;
        b->room = room;
    }
    if (size)
        memcpy(b->at + b->size, data, size);
    b->size += size;
}

static void put_varint(struct bytes *b, uint64_t value) {
    do {
        unsigned char byte = (unsigned char)(value & 0x7f);
        value >>= 7;
        byte |= value ? 0x80 : 0;
        put_bytes(b, &byte, 1);
    } while (value);
}

static void put_key(struct bytes *b, int field, int type) {
    put_varint(b, (uint64_t)field << 3 | (uint64_t)type);
}

static void put_double(struct bytes *b, int field, double value) {
    put_key(b, field, FIXED64);
    put_bytes(b, &value, sizeof value);
}

static void put_block(struct bytes *b, int field, const void *data, size_t size) {
    put_key(b, field, BLOCK);
    put_varint(b, size);
    put_bytes(b, data, size);
}

static void put_text(struct bytes *b, int field, const char *text) {
    put_block(b, field, text, strlen(text));
}

static void put_number(struct bytes *b, int field, uint64_t number) {
    put_key(b, field, VARINT);
    put_varint(b, number);
}

static void put_inner(struct bytes *b, int field, const struct bytes *inner) {
    put_block(b, field, inner->at, inner->size);
    b->short_of_memory |= inner->short_of_memory;
}

/* ---- TFRecord: u64 length, masked CRC of it, data, masked CRC of it ---- */

/* CRC-32C (Castagnoli), which zlib has not: the polynomial, bits reversed. */
static uint32_t crc32c(const unsigned char *data, size_t size) {
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (0x82f63b78u & -(crc & 1));
    }
    return ~crc;
}

static uint32_t masked_crc(const void *data, size_t size) {
    uint32_t crc = crc32c(data, size);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static void write_record(struct event_file *f, const struct bytes *event) {
    uint64_t length = event->size;
    uint32_t of_length = masked_crc(&length, sizeof length);
    uint32_t of_event = masked_crc(event->at, event->size);
    errno = 0;
    if (event->short_of_memory)
        f->failed = ENOMEM;
    else if (fwrite(&length, sizeof length, 1, f->stream) != 1 ||
             fwrite(&of_length, sizeof of_length, 1, f->stream) != 1 ||
             fwrite(event->at, event->size, 1, f->stream) != 1 ||
             fwrite(&of_event, sizeof of_event, 1, f->stream) != 1)
        f->failed = errno ? errno : EIO;
}

/* ---- Events ---- */

void event_begin(struct event_file *f, double wall_time, int64_t step) {
    f->event.size = f->summary.size = 0;
    put_double(&f->event, EVENT_TIME, wall_time);
    put_key(&f->event, EVENT_STEP, VARINT);
    put_varint(&f->event, (uint64_t)step);
}

static void begin_value(struct event_file *f, const char *tag) {
    f->value.size = 0;
    put_block(&f->value, VALUE_TAG, tag, strlen(tag));
}

void event_scalar(struct event_file *f, const char *tag, double value) {
    float simple = (float)value;
    begin_value(f, tag);
    put_key(&f->value, VALUE_SIMPLE, FIXED32);
    put_bytes(&f->value, &simple, sizeof simple);
    put_block(&f->summary, SUMMARY_VALUE, f->value.at, f->value.size);
}

void event_histogram(struct event_file *f, const char *tag, const double *counts,
                     const double *edges, size_t count, double mean, double deviation) {
    double total = 0;
    for (size_t i = 0; i < count; i++)
        total += counts[i];
    f->histogram.size = 0;
    put_double(&f->histogram, HISTOGRAM_MINIMUM, edges[0]);
    put_double(&f->histogram, HISTOGRAM_MAXIMUM, edges[count]);
    put_double(&f->histogram, HISTOGRAM_COUNT, total);
    put_double(&f->histogram, HISTOGRAM_SUM, total * mean);
    put_double(&f->histogram, HISTOGRAM_SQUARES, total * (deviation * deviation + mean * mean));
    put_block(&f->histogram, HISTOGRAM_LIMITS, edges + 1, count * sizeof *edges);
    put_block(&f->histogram, HISTOGRAM_BUCKETS, counts, count * sizeof *counts);
    begin_value(f, tag);
    put_block(&f->value, VALUE_HISTOGRAM, f->histogram.at, f->histogram.size);
    put_block(&f->summary, SUMMARY_VALUE, f->value.at, f->value.size);
}

void event_end(struct event_file *f) {
    put_block(&f->event, EVENT_SUMMARY, f->summary.at, f->summary.size);
    f->event.short_of_memory |=
        f->summary.short_of_memory || f->value.short_of_memory || f->histogram.short_of_memory;
    write_record(f, &f->event);
}

/* ---- hparams: HParamsPluginData of tensorboard/plugins/hparams/plugin_data.proto ---- */

enum { PLUGIN_EXPERIMENT = 2, PLUGIN_START = 3, PLUGIN_END = 4 };
enum { EXPERIMENT_DESCRIPTION = 1, EXPERIMENT_HPARAM = 4, EXPERIMENT_METRIC = 5 };
enum { HPARAM_NAME = 1, HPARAM_TYPE = 4 };
enum { METRIC_NAME = 1, NAME_TAG = 2 };
enum { START_HPARAM = 1, START_GROUP = 4, START_TIME = 5 };
enum { END_STATUS = 1, END_TIME = 2, STATUS_SUCCESS = 1, STATUS_FAILURE = 2 };
enum { MAP_KEY = 1, MAP_VALUE = 2 };
/* google.protobuf.Value */
enum { VALUE_NUMBER = 2, VALUE_STRING = 3, VALUE_BOOL = 4 };
/* SummaryMetadata, and TensorProto: TensorBoard skips a value without one. */
enum { METADATA_PLUGIN = 1, PLUGIN_NAME = 1, PLUGIN_CONTENT = 2 };
enum { TENSOR_TYPE = 1, TENSOR_SHAPE = 2, TENSOR_FLOAT = 5, SHAPE_SIZE = 2, TYPE_FLOAT = 1 };

static bool is_number(const char *text, double *number) {
    char *end;
    *number = strtod(text, &end);
    return end != text && !*end && isfinite(*number);
}

enum event_setting_type event_setting_type(const char *text) {
    double number;
    if (is_number(text, &number))
        return EVENT_NUMBER;
    return strcmp(text, "true") != 0 && strcmp(text, "false") != 0 ? EVENT_TEXT : EVENT_FLAG;
}

/* An event of its own: what is in f->info as `part` of the plugin's data, under that tag. */
static void write_plugin(struct event_file *f, double time, const char *tag, int part) {
    static const char NAME[] = "hparams";
    struct bytes *inner = &f->inner, *entry = &f->entry;
    float zero = 0;
    f->plugin.size = entry->size = inner->size = 0;
    put_inner(&f->plugin, part, &f->info);
    event_begin(f, time, 0);
    begin_value(f, tag);
    put_number(inner, 1, 1); /* a tensor of one zero: shape (1,) */
    put_inner(entry, SHAPE_SIZE, inner);
    inner->size = 0;
    put_number(inner, TENSOR_TYPE, TYPE_FLOAT);
    put_inner(inner, TENSOR_SHAPE, entry);
    put_block(inner, TENSOR_FLOAT, &zero, sizeof zero);
    put_inner(&f->value, VALUE_TENSOR, inner);
    entry->size = inner->size = 0;
    put_text(entry, PLUGIN_NAME, NAME);
    put_inner(entry, PLUGIN_CONTENT, &f->plugin);
    put_inner(inner, METADATA_PLUGIN, entry);
    put_inner(&f->value, VALUE_METADATA, inner);
    put_inner(&f->summary, SUMMARY_VALUE, &f->value);
    event_end(f);
}

void event_experiment(struct event_file *f, double time, const char *description,
                      const struct event_setting *settings, size_t count,
                      const char *const *metrics, size_t metric_count) {
    f->info.size = 0;
    put_text(&f->info, EXPERIMENT_DESCRIPTION, description);
    for (size_t i = 0; i < count; i++) {
        f->entry.size = 0;
        put_text(&f->entry, HPARAM_NAME, settings[i].name);
        put_number(&f->entry, HPARAM_TYPE, settings[i].type);
        put_inner(&f->info, EXPERIMENT_HPARAM, &f->entry);
    }
    for (size_t i = 0; i < metric_count; i++) {
        f->entry.size = f->inner.size = 0;
        put_text(&f->inner, NAME_TAG, metrics[i]);
        put_inner(&f->entry, METRIC_NAME, &f->inner);
        put_inner(&f->info, EXPERIMENT_METRIC, &f->entry);
    }
    write_plugin(f, time, "_hparams_/experiment", PLUGIN_EXPERIMENT);
}

static void put_setting(struct event_file *f, const struct event_setting *setting) {
    double number;
    f->entry.size = f->inner.size = 0;
    if (setting->type == EVENT_NUMBER && is_number(setting->text, &number))
        put_double(&f->inner, VALUE_NUMBER, number);
    else if (setting->type == EVENT_FLAG)
        put_number(&f->inner, VALUE_BOOL, strcmp(setting->text, "true") == 0);
    else
        put_text(&f->inner, VALUE_STRING, setting->text);
    put_text(&f->entry, MAP_KEY, setting->name);
    put_inner(&f->entry, MAP_VALUE, &f->inner);
    put_inner(&f->info, START_HPARAM, &f->entry);
}

void event_session_start(struct event_file *f, double time, const char *group,
                         const struct event_setting *settings, size_t count) {
    f->info.size = 0;
    for (size_t i = 0; i < count; i++)
        put_setting(f, &settings[i]);
    if (group)
        put_text(&f->info, START_GROUP, group);
    put_double(&f->info, START_TIME, time);
    write_plugin(f, time, "_hparams_/session_start_info", PLUGIN_START);
}

void event_session_end(struct event_file *f, double time, bool failed) {
    f->info.size = 0;
    put_number(&f->info, END_STATUS, failed ? STATUS_FAILURE : STATUS_SUCCESS);
    put_double(&f->info, END_TIME, time);
    write_plugin(f, time, "_hparams_/session_end_info", PLUGIN_END);
}

/* ---- The file ---- */

/* TensorBoard knows event files by "tfevents" in their names, and reads those of a directory in the
   names' order. */
static FILE *create(const char *directory, char *path, size_t size) {
    char host[HOST_SIZE];
    if (gethostname(host, sizeof host))
        snprintf(host, sizeof host, "localhost");
    host[sizeof host - 1] = '\0';
    int file = -1;
    for (int i = 0; file < 0 && i < NAMES_TRIED; i++) {
        snprintf(path, size, "%s/events.out.tfevents.%010lld.%03d.%s.%ld", directory,
                 (long long)time(NULL), i, host, (long)getpid());
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0 && errno != EEXIST)
            return NULL;
    }
    FILE *stream = file < 0 ? NULL : fdopen(file, "w");
    if (file >= 0 && !stream)
        close(file);
    return stream;
}

int event_file_open(struct event_file **file, const char *directory) {
    static const char FORMAT[] = "brain.Event:2";
    char path[PATH_MAX];
    struct event_file *f = calloc(1, sizeof *f);
    if (!f)
        return complain(EX_UNAVAILABLE, "out of memory");
    f->stream = create(directory, path, sizeof path);
    if (!f->stream) {
        free(f);
        return complain(EX_CANTCREAT, "%s cannot be made: %s", path, strerror(errno));
    }
    put_double(&f->event, EVENT_TIME, (double)time(NULL));
    put_block(&f->event, EVENT_VERSION, FORMAT, strlen(FORMAT));
    write_record(f, &f->event);
    *file = f;
    return EX_OK;
}

int event_flush(struct event_file *f) {
    if (!f->failed && fflush(f->stream))
        f->failed = errno;
    errno = f->failed;
    return f->failed ? -1 : 0;
}

int event_file_close(struct event_file **file) {
    struct event_file *f = *file;
    if (!f)
        return 0;
    int failed = event_flush(f) ? errno : 0;
    if (fclose(f->stream) && !failed)
        failed = errno;
    free(f->event.at);
    free(f->summary.at);
    free(f->value.at);
    free(f->histogram.at);
    free(f->plugin.at);
    free(f->info.at);
    free(f->entry.at);
    free(f->inner.at);
    free(f);
    *file = NULL;
    errno = failed;
    return failed ? -1 : 0;
}
