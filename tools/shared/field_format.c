#include "build-config.h"

#include "field_format.h"

tool_format *field_format(const struct field *field) {
    static tool_format *const formats[] = {
        [FORMAT_PLAIN] = tool_format_number,
        [FORMAT_SETTING] = tool_format_setting,
        [FORMAT_RATE] = tool_format_rate,
        [FORMAT_SHARE] = tool_format_percent,
        [FORMAT_MICROSECONDS] = tool_format_microseconds,
        [FORMAT_DURATION] = tool_format_duration,
        [FORMAT_BYTES] = tool_format_bytes,
        [FORMAT_CLOCK] = tool_format_clock,
        [FORMAT_DATE] = tool_format_date,
    };
    bool plain = field->type == FIELD_COUNT && field->format == FORMAT_PLAIN;
    return plain ? NULL : formats[field->format];
}
