#include "decode_numbers.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/wire.h"

enum { SCAN_BLOCK = 8 }; /* numbers checked at once */

const char *shape_name(const struct shape *shape, size_t k, char name[NUMBER_NAME_SIZE]) {
    if (shape->columns)
        snprintf(name, NUMBER_NAME_SIZE, "%s's column %s", shape->name, shape->columns[k].name);
    else
        snprintf(name, NUMBER_NAME_SIZE, "%s", shape->name);
    return name;
}

size_t shape_column(const struct shape *shape, const char *name, size_t first) {
    for (size_t n = 0, k = first < shape->width ? first : 0; n < shape->width;
         n++, k = k + 1 < shape->width ? k + 1 : 0)
        if (strcmp(shape->columns[k].name, name) == 0)
            return k;
    return shape->width;
}

const char *shape_names(const struct shape *shape, char text[SHAPE_NAMES_SIZE]) {
    const size_t most = SHAPE_NAMES_SIZE - sizeof ", ...";
    size_t length = 0;
    *text = '\0';
    for (size_t k = 0; k < shape->width; k++) {
        const char *name = shape->columns[k].name, *comma = k ? ", " : "";
        bool fits = length + strlen(comma) + strlen(name) <= most;
        length += (size_t)snprintf(text + length, SHAPE_NAMES_SIZE - length, "%s%s", comma,
                                   fits ? name : "...");
        if (!fits)
            break;
    }
    return text;
}

enum reject_reason reject_rows(const struct shape *shape, size_t rows, char why[REJECT_WHY_SIZE]) {
    if (shape->longest)
        return reject(shape->wrong_size, why, "%s has %zu atoms; model.%s.sequence.longest is %zu",
                      shape->name, rows, shape->wrong_size == REJECT_X_SIZE ? "input" : "output",
                      shape->longest);
    return reject(shape->wrong_size, why, "%s has %zu steps, expected at most %d", shape->name,
                  rows, EXAMPLE_STEPS_MAX);
}

const char *shape_type(const struct shape *shape) {
    if (shape_mixed(shape))
        return "mixed";
    return shape->whole ? "uint32" : "float32";
}

struct range column_range(const struct column *column, bool unit, const char *loss) {
    bool symbol = column_is_symbol(column);
    return (struct range){.whole = symbol,
                          .loss = loss,
                          .size = (uint32_t)column->size,
                          .low = unit ? 0 : -FLT_MAX,
                          .high = unit ? 1 : FLT_MAX,
                          .null_allowed = !symbol && column->hold,
                          .words = column->vocabulary.capacity > 0,
                          .minus = column->hash > 0};
}

bool range_same(const struct range *a, const struct range *b) {
    return !a->whole && !b->whole && a->low == b->low && a->high == b->high &&
           a->null_allowed == b->null_allowed;
}

static bool whole_ok(uint32_t value, const struct range *range) {
    return value < range->size || (range->null_allowed && value == WIRE_NO_CLASS) ||
           (range->words && value == WIRE_WORD) ||
           (range->minus && (value & ~SYMBOL_MINUS) < range->size);
}

static bool real_ok(float value, const struct range *range) {
    return ((value >= range->low) & (value <= range->high)) |
           (range->null_allowed & (value != value));
}

static bool number_ok(const unsigned char *number, const struct range *range) {
    uint32_t whole;
    float real;
    memcpy(&whole, number, sizeof whole);
    memcpy(&real, number, sizeof real);
    return range->whole ? whole_ok(whole, range) : real_ok(real, range);
}

static bool reals_ok(const unsigned char *numbers, size_t count, const struct range *range) {
    const struct range r = *range;
    bool good = true;
    for (; count >= SCAN_BLOCK; count -= SCAN_BLOCK, numbers += SCAN_BLOCK * NUMBER_SIZE) {
        float block[SCAN_BLOCK];
        memcpy(block, numbers, sizeof block);
        int bad = 0;
        for (size_t i = 0; i < SCAN_BLOCK; i++)
            bad |= !real_ok(block[i], &r);
        good &= !bad;
    }
    for (; count > 0; count--, numbers += NUMBER_SIZE) {
        float real;
        memcpy(&real, numbers, sizeof real);
        good &= real_ok(real, &r);
    }
    return good;
}

static bool wholes_ok(const unsigned char *numbers, size_t count, const struct range *range) {
    bool good = true;
    for (; count > 0; count--, numbers += NUMBER_SIZE) {
        uint32_t whole;
        memcpy(&whole, numbers, sizeof whole);
        good &= whole_ok(whole, range);
    }
    return good;
}

/* Check rows whose columns have different ranges. */
static bool rows_ok(const unsigned char *numbers, size_t count, const struct range *ranges,
                    size_t width) {
    bool good = true;
    for (size_t i = 0, k = 0; i < count; i++, numbers += NUMBER_SIZE) {
        good &= number_ok(numbers, &ranges[k]);
        k = k + 1 < width ? k + 1 : 0;
    }
    return good;
}

/* Reject the first invalid number of a frame. `ranges`: one for each number of a step, or NULL:
   `range` is valid for all. */
static enum reject_reason reject_number(const struct shape *shape, const struct range *range,
                                        const struct range *ranges, const unsigned char *numbers,
                                        char *why) {
    char name[NUMBER_NAME_SIZE];
    size_t i = 0;
    while (number_ok(numbers + i * NUMBER_SIZE, ranges ? &ranges[i % shape->width] : range))
        i++;
    range = ranges ? &ranges[i % shape->width] : range;
    shape_name(shape, i % shape->width, name);
    uint32_t whole;
    float real;
    memcpy(&whole, numbers + i * NUMBER_SIZE, sizeof whole);
    memcpy(&real, numbers + i * NUMBER_SIZE, sizeof real);
    size_t step = i / shape->width;
    const char *row = shape_row(shape);
    if (range->whole)
        return reject(shape->wrong_value, why, "%s is %u at %s %zu, expected 0..%u%s", name, whole,
                      row, step, range->size - 1,
                      real >= 1 && real < (float)range->size ? " (float32? send uint32)" : "");
    if (isnan(real))
        return reject(shape->wrong_value, why,
                      "%s is NaN at %s %zu, but %s does not have missing: hold", name, row, step,
                      shape->wrong_size == REJECT_Y_SIZE || shape->longest ? "a message"
                      : shape->columns                                     ? "that column"
                                                                           : "the model's input");
    if (isinf(real))
        return reject(shape->wrong_value, why, "%s is infinite at %s %zu", name, row, step);
    return reject(shape->wrong_value, why, "%s is %g at %s %zu, expected 0..1 (%s)", name,
                  (double)real, row, step, range->loss);
}

enum reject_reason check_numbers(const struct shape *shape, const struct range *range,
                                 const struct range *ranges, const void *numbers, size_t count,
                                 char why[REJECT_WHY_SIZE]) {
    bool good = ranges         ? rows_ok(numbers, count, ranges, shape->width)
                : range->whole ? wholes_ok(numbers, count, range)
                               : reals_ok(numbers, count, range);
    return good ? REJECT_NOT : reject_number(shape, range, ranges, numbers, why);
}
