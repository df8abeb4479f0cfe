#include "build-config.h"

#include "record_settings.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fields.h"

enum { DIGITS = 15 };

/* Where a daemon is and what it may do decides nothing that is computed. */
static bool is_setting(const char *key) {
    static const char *const others[] = {"name",       "preset",  "device",  "tags",     "examples",
                                         "statistics", "control", "publish", "security", "state"};
    size_t length = strcspn(key, ".");
    for (size_t n = 0; n < sizeof others / sizeof *others; n++)
        if (strlen(others[n]) == length && !memcmp(others[n], key, length))
            return false;
    return true;
}

static enum event_setting_type type_of(const json_t *value) {
    return json_is_number(value) ? EVENT_NUMBER : json_is_boolean(value) ? EVENT_FLAG : EVENT_TEXT;
}

/* To be freed. */
static char *text_of(const json_t *value) {
    return json_is_string(value)
               ? strdup(json_string_value(value))
               : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
}

/* One more; false: out of memory. */
static bool add(struct event_setting *setting, const char *section, const char *key,
                const json_t *value) {
    char *name = NULL;
    if (asprintf(&name, "%s%s", section, key) < 0)
        name = NULL;
    *setting = (struct event_setting){name, text_of(value), type_of(value)};
    return name && setting->text;
}

int settings_write(struct event_file *file, double time, const json_t *status) {
    json_t *keys = (json_t *)field_member(&fields_of_status[STATUS_configuration], status);
    json_t *tags = (json_t *)field_member(&fields_of_status[STATUS_tags], status), *value;
    const char *key;
    size_t count = 0, room = json_object_size(keys) + json_object_size(tags);
    if (!json_object_size(keys))
        return 0;
    struct event_setting *settings = calloc(room, sizeof *settings);
    bool whole = settings != NULL;
    json_object_foreach(keys, key, value) {
        if (whole && is_setting(key))
            whole = add(&settings[count++], "", key, value);
    }
    json_object_foreach(tags, key, value) {
        if (whole)
            whole = add(&settings[count++], "tags.", key, value);
    }
    if (whole)
        event_session_start(file, time, NULL, settings, count);
    for (size_t n = 0; n < count; n++) {
        free((char *)settings[n].name);
        free((char *)settings[n].text);
    }
    free(settings);
    return whole ? 0 : -1;
}
