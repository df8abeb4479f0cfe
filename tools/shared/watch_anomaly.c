#include "watch_anomaly.h"

#include <math.h>
#include <string.h>

#include "common/json_member.h"

static double number(const json_t *object, const char *key) {
    double value;
    return member_number(object, key, &value) ? value : NAN;
}

static const char *string(const json_t *object, const char *key) {
    const char *text = member_string(object, key);
    return text ? text : "";
}

bool anomaly_of(const json_t *body, struct anomaly *a) {
    if (strcmp(string(body, "kind"), "anomaly") != 0)
        return false;
    *a = (struct anomaly){
        .stream = string(body, "stream"),
        .reason = string(body, "reason"),
        .text = string(body, "text"),
        .note = string(body, "note"),
        .example = number(body, "example"),
        .data_time = number(body, "data_time"),
        .time = number(body, "time"),
        .score = number(body, "score"),
        .threshold = number(body, "threshold"),
        .columns = json_object_get(body, "columns"),
    };
    return true;
}

struct anomaly_column anomaly_column(const struct anomaly *a, size_t i) {
    const json_t *column = json_array_get(a->columns, i);
    const char *score = json_object_get(column, "share") ? "share" : "score"; /* of level */
    return (struct anomaly_column){number(column, "column"), string(column, "name"),
                                   number(column, score), number(column, "forecast"),
                                   number(column, "truth")};
}
