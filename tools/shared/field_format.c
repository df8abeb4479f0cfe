#include "build-config.h"

#include "field_format.h"

format_function *field_format(const struct field *field) {
    static format_function *const formats[] = {
        [FORMAT_PLAIN] = format_number,
        [FORMAT_SETTING] = format_setting,
        [FORMAT_RATE] = format_rate,
        [FORMAT_SHARE] = format_percent,
        [FORMAT_MICROSECONDS] = format_microseconds,
        [FORMAT_DURATION] = format_duration,
        [FORMAT_BYTES] = format_bytes,
        [FORMAT_CLOCK] = format_clock,
        [FORMAT_DATE] = format_date,
    };
    bool plain = field->type == FIELD_COUNT && field->format == FORMAT_PLAIN;
    return plain ? NULL : formats[field->format];
}
