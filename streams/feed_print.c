#include "feed_print.h"

#include <errno.h>
#include <float.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "feed.h"
#include "runnel.h"

/* The fewest digits that give the same float32 again. */
static void print_real(float value) {
    enum { DIGITS_MIN = 6, DIGITS_MAX = FLT_DECIMAL_DIG, ROOM = 32 };
    char text[ROOM];
    for (int digits = DIGITS_MIN; digits <= DIGITS_MAX; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    fputs(isnan(value) ? "null" : text, stdout);
}

static void print_value(const unsigned char *bytes, enum value_kind kind) {
    if (kind == VALUE_CLASS) {
        uint32_t id;
        memcpy(&id, bytes, sizeof id);
        if (id == WIRE_NO_CLASS)
            fputs("null", stdout);
        else
            printf("%u", id);
        return;
    }
    float value;
    memcpy(&value, bytes, sizeof value);
    print_real(value);
}

/* [1, 2] for one step or a number a step, [[1, 2], [3, 4]] for several. */
static void print_values(const void *values, size_t steps, const struct shape *shape) {
    const unsigned char *bytes = values;
    bool nested = steps > 1 && shape->count > 1;
    for (size_t i = 0; i < steps * shape->count; i++, bytes += VALUE_SIZE) {
        bool first = i % shape->count == 0;
        fputs(i == 0 ? (nested ? "[[" : "[") : nested && first ? "], [" : ", ", stdout);
        print_value(bytes, shape->kind);
    }
    fputs(nested ? "]]" : "]", stdout);
}

static void print_header(const struct runnel_example *e, uint64_t producer) {
    if (e->flags & WIRE_END)
        fputs(", \"end\": true", stdout);
    if (e->flags & WIRE_DO_NOT_LEARN)
        fputs(", \"learn\": false", stdout);
    if (producer)
        printf(", \"producer\": \"%llx\"", (unsigned long long)producer);
    printf(", \"epoch\": %u, \"sequence\": %llu", e->epoch, (unsigned long long)e->sequence);
    if (e->time != 0)
        printf(", \"time\": %.6f", e->time);
}

static int print_failed(struct error *error) {
    return error_set(error, EX_IOERR, "standard output: cannot be written: %s", strerror(errno));
}

static char *quoted(const char *bytes, size_t size) {
    json_t *value = json_stringn(bytes ? bytes : "", size);
    char *text = value ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    return text;
}

int print_example(const struct runnel_example *e, size_t steps, const struct shape *x,
                  const struct shape *y, uint64_t producer, struct error *error) {
    if (e->json) {
        fwrite(e->json, 1, e->json_size, stdout);
        return putchar('\n') == EOF ? print_failed(error) : 0;
    }
    char *text = quoted(e->key, e->key_size);
    char *note = quoted(e->note, e->note_size);
    if (!text || !note) {
        free(text);
        free(note);
        return error_no_memory(error);
    }
    bool label = e->flags & WIRE_LABEL;
    printf("{\"stream\": %s, ", text);
    free(text);
    if (label)
        printf("\"label_of\": %llu, \"label_epoch\": %u", (unsigned long long)e->label_sequence,
               e->label_epoch);
    else
        fputs("\"x\": ", stdout);
    if (!label)
        print_values(e->x, steps, x);
    if (e->y) {
        fputs(", \"y\": ", stdout);
        print_values(e->y, steps, y);
    }
    if (e->headed)
        print_header(e, producer);
    if (e->note)
        printf(", \"note\": %s", note);
    free(note);
    return puts("}") == EOF ? print_failed(error) : 0;
}

int print_finish(struct error *error) {
    return fflush(stdout) == EOF || ferror(stdout) ? print_failed(error) : 0;
}
