#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/hash.h"
#include "config_read.h"

enum { FILE_SIZE_MAX = 1 << 20 };

size_t config_prefix(const struct share_config *prefixes, const char *key, size_t key_size) {
    size_t found = SIZE_MAX, longest = 0;
    for (size_t n = 0; n < prefixes->count; n++) {
        size_t size = strlen(prefixes->prefixes[n]);
        if (size < longest || size > key_size || memcmp(prefixes->prefixes[n], key, size) != 0)
            continue;
        found = n;
        longest = size;
    }
    return found;
}

/* The text of the file, which the caller frees; NULL on error. */
static char *read_file(const char *path, size_t *size, struct error *error) {
    FILE *file = fopen(path, "rb");
    char *text = malloc(FILE_SIZE_MAX + 1), *result = NULL;
    if (!file) {
        error_set(error, EX_NOINPUT, "%s: cannot open the configuration file: %s", path,
                  error_of_file(errno));
    } else if (!text) {
        error_set(error, EX_SOFTWARE, "%s: out of memory", path);
    } else {
        *size = fread(text, 1, FILE_SIZE_MAX + 1, file);
        if (ferror(file))
            error_set(error, EX_NOINPUT, "%s: cannot read the configuration file: %s", path,
                      strerror(errno));
        else if (*size > FILE_SIZE_MAX)
            error_set(error, EX_CONFIG, "%s: not a configuration: larger than %d bytes", path,
                      FILE_SIZE_MAX);
        else
            result = text;
    }
    if (!result)
        free(text);
    if (file)
        fclose(file);
    return result;
}

void config_digest(struct config *config) {
    unsigned all = KEY_DIGEST | KEY_DECIDES;
    struct config own = *config;
    if (config->members_given) /* this network does not exist */
        own.learning.optimizer.rate = own.learning.clip = 0;
    uint64_t digest = config_digest_of(&own, all, 0);
    if (*config->initial)
        digest = hash_bytes(digest, &config->initial_digest, sizeof config->initial_digest);
    if (config->members_given)
        digest = hash_bytes(digest, "members", sizeof "members");
    for (size_t n = 0; config->members_given && n < config->member_count; n++) {
        const char *name = config->members[n].name;
        config_member(config, n, &own);
        uint64_t value = config_digest_of(&own, all, 0);
        digest = hash_bytes(hash_bytes(digest, name, strlen(name) + 1), &value, sizeof value);
    }
    snprintf(config->digest, CONFIG_DIGEST_SIZE, "%016" PRIx64, digest);
}

/* The digest of the tensors of model.initial. A missing file is reported elsewhere. */
static uint64_t digest_of_file(const char *path) {
    enum { BLOCK_SIZE = 1 << 16 };
    uint64_t digest = HASH_BEGIN;
    struct stat status;
    unsigned char *block = malloc(BLOCK_SIZE);
    FILE *file =
        *path && stat(path, &status) == 0 && S_ISREG(status.st_mode) ? fopen(path, "rbe") : NULL;
    for (size_t size; block && file && (size = fread(block, 1, BLOCK_SIZE, file)) > 0;)
        digest = hash_keyed(digest, block, size);
    if (file)
        fclose(file);
    free(block);
    return digest;
}

/* Keeps `read`, the values before defaults. */
static int check(struct reading *reading, struct reading *read, bool earlier) {
    *reading = *read;
    reading->earlier = read->earlier = earlier;
    return config_check(reading) || config_check_outputs(reading, read) ||
           config_check_members(reading, read);
}

static int load(struct config *config, const char *path, const char *const *overrides,
                size_t override_count, bool earlier, struct error *error) {
    size_t size;
    int status = -1;
    char *text = read_file(path, &size, error);
    struct reading *reading = calloc(1, sizeof *reading), *read = calloc(1, sizeof *read);
    if (!text)
        goto done;
    if (!reading || !read) {
        error_set(error, EX_SOFTWARE, "%s: out of memory", path);
        goto done;
    }
    reading->origin = (struct config_origin){.path = path, .verb = "--set", .error = error};
    if (config_read_text(reading, text, size) != 0)
        goto done;
    config_preset_layers(reading);
    for (size_t n = 0; n < override_count; n++)
        if (config_read_override(reading, overrides[n]) != 0)
            goto done;
    *read = *reading;
    if (check(reading, read, true))
        goto done;
    struct config *kept = &read->draft.config;
    memcpy(kept->earlier.compatible, reading->draft.config.compatible, CONFIG_DIGEST_SIZE);
    memcpy(kept->earlier.optimizer, reading->draft.config.optimizer, CONFIG_DIGEST_SIZE);
    kept->earlier.used = earlier;
    if (check(reading, read, earlier))
        goto done;
    *config = reading->draft.config;
    config->initial_digest = digest_of_file(config->initial);
    config_digest(config);
    status = 0;
done:
    free(read);
    free(reading);
    free(text);
    return status;
}

int config_load(struct config *config, const char *path, const char *const *overrides,
                size_t override_count, struct error *error) {
    return load(config, path, overrides, override_count, false, error);
}

int config_load_earlier(struct config *config, const char *path, const char *const *overrides,
                        size_t override_count, struct error *error) {
    return load(config, path, overrides, override_count, true, error);
}

/* The keys that may change while the daemon runs, as "a, b or c". */
static void list_in_flight(char *text, size_t size) {
    char words[CONFIG_TEXT_SIZE] = "";
    for (size_t k = 0; k < config_key_count; k++)
        if (config_keys[k].flags & KEY_IN_FLIGHT)
            config_words_add(words, config_keys[k].path);
    config_words_list(words, text, size);
}

int config_set(struct config *config, const char *key, const char *value, struct error *error) {
    enum { VALUE_MAX = 100 };
    const struct config_key *row = NULL;
    char meant[CONFIG_MEANT_SIZE], may[CONFIG_TEXT_SIZE];
    enum path_kind kind = *key ? config_path_kind(key, &row, NULL) : PATH_UNKNOWN;
    list_in_flight(may, sizeof may);
    if (kind == PATH_UNKNOWN)
        return error_set(error, EX_CONFIG, "set: unknown key \"%.*s\"%s; expected %s",
                         CONFIG_SHOWN_MAX, key, config_path_meant(key, meant), may);
    if (!row || !(row->flags & KEY_IN_FLIGHT))
        return error_set(error, EX_CONFIG,
                         "set: %s cannot change while the daemon runs; expected %s", key, may);
    if (strlen(value) > VALUE_MAX) {
        config_value_expected(row, may, sizeof may);
        return error_set(error, EX_CONFIG,
                         "set: %s: expected %s of at most %d bytes, got %zu bytes", key, may,
                         VALUE_MAX, strlen(value));
    }
    struct reading *reading = calloc(1, sizeof *reading);
    size_t size = strlen(key) + strlen("=") + strlen(value) + 1;
    char *override = malloc(size);
    int status = -1;
    if (!reading || !override) {
        error_set(error, EX_SOFTWARE, "set: out of memory");
        goto done;
    }
    snprintf(override, size, "%s=%s", key, value);
    reading->draft.config = *config;
    reading->origin = (struct config_origin){.path = "set", .verb = "set", .error = error};
    status = config_read_override(reading, override);
    if (status == 0 && !config_given(reading, key)) {
        config_value_expected(row, may, sizeof may);
        status = error_set(error, EX_CONFIG, "set: %s: expected %s, got an empty value", key, may);
    }
    if (status == 0)
        *config = reading->draft.config;
done:
    free(override);
    free(reading);
    return status;
}
