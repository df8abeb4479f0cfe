#include "json_member.h"

#include <math.h>

#define EXACT_MAX 9007199254740992.0 /* 2^53: integers up to here are exact in a double */

bool member_number(const json_t *object, const char *key, double *value) {
    const json_t *member = json_object_get(object, key);
    if (!json_is_number(member))
        return false;
    *value = json_number_value(member);
    return isfinite(*value);
}

const char *member_string(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

size_t member_counts(const json_t *object, const char *key, double *counts, size_t most) {
    const json_t *list = json_object_get(object, key);
    size_t size = json_array_size(list);
    if (size > most)
        return 0;
    for (size_t i = 0; i < size; i++) {
        counts[i] = json_number_value(json_array_get(list, i));
        if (!(counts[i] >= 0 && counts[i] <= EXACT_MAX))
            return 0;
    }
    return size;
}
