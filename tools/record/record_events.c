#include "build-config.h"

#include "record_events.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "common/complain.h"

enum { HOST_SIZE = 65, NAMES_TRIED = 1000 };

struct bytes {
    unsigned char *at;
    size_t size, room;
    bool short_of_memory;
};

struct event_file {
    FILE *stream;
    struct bytes event, summary, value, histogram; /* each goes into the one before it */
    int failed;                                    /* errno */
};

/* ---- Protocol buffers: (field << 3 | type), then the value ---- */

enum { VARINT = 0, FIXED64 = 1, BLOCK = 2, FIXED32 = 5 };

/* Fields of Event, of Summary.Value, and of HistogramProto. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_HISTOGRAM = 5 };
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
    free(f);
    *file = NULL;
    errno = failed;
    return failed ? -1 : 0;
}
