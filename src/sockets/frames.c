#include "frames.h"

#include "common/text.h"

const char *reject_name(enum reject_reason reason) {
    static const char *const names[REJECT_REASONS] = {
        "none",        "frames",  "json",    "key",        "x_size",   "x_value",
        "y_size",      "y_value", "y_given", "header",     "conflict", "sequence_jump",
        "not_allowed", "schema",  "label",   "vocabulary",
    };
    return names[reason];
}

enum reject_reason reject(enum reject_reason reason, char why[REJECT_WHY_SIZE], const char *format,
                          ...) {
    TEXT_FORMAT(why, REJECT_WHY_SIZE, format);
    return reason;
}
