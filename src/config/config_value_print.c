/* One value: what is allowed, and out of the draft again as a text. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config_internal.h"

#define FALSE_TRUE "false|true" /* CONFIG_TRUTHS */

void config_value_expected(const struct config_key *key, char *text, size_t size) {
    char words[CONFIG_TEXT_SIZE];
    switch (key->type) {
    case VALUE_WORD:
    case VALUE_CHOICE:
        config_words_list(key->words, words, sizeof words);
        snprintf(text, size, "%s", words);
        break;
    case VALUE_BOOLEAN:
        snprintf(text, size, "true or false");
        break;
    case VALUE_SIZE:
    case VALUE_COUNT:
        snprintf(text, size, "a whole number from %.0f to %.0f", key->minimum, key->maximum);
        break;
    case VALUE_REAL:
    case VALUE_FLOAT:
        snprintf(text, size,
                 key->flags & KEY_BELOW ? "a number from %.10g to below %.10g"
                                        : "a number from %.10g to %.10g",
                 key->minimum, key->maximum);
        break;
    case VALUE_RATE:
        snprintf(text, size, "a number from %.10g to %.10g, or %s", key->minimum, key->maximum,
                 CONFIG_RATE_WORD);
        break;
    case VALUE_THREADS:
        snprintf(text, size, "a whole number from %.0f to %.0f, or %s", key->minimum, key->maximum,
                 CONFIG_THREADS_WORD);
        break;
    case VALUE_PIN:
        snprintf(text, size, "false, true, or ascending CPUs as in [0, 2, 3] or \"0,2-3\"");
        break;
    case VALUE_TRUTH:
        snprintf(words, sizeof words, FALSE_TRUE "|%s", key->words);
        config_words_list(words, text, size);
        break;
    case VALUE_AHEAD:
        snprintf(text, size,
                 "a whole number from %.0f to %.0f, or an ascending list of at most %d, as in "
                 "[1, 6, 24]",
                 key->minimum, key->maximum, AHEAD_MAX);
        break;
    case VALUE_SET:
        config_words_list(key->words, words, sizeof words);
        snprintf(text, size, "a list of %s, each once", words);
        break;
    case VALUE_MEMBERS:
        snprintf(text, size,
                 "a list of at most %d, as in [{name: a}, {name: b, set: {KEY: VALUE}}]",
                 CONFIG_MEMBERS_MAX);
        break;
    case VALUE_COLUMNS:
        snprintf(text, size,
                 "a list of 1 to %d, as in [{name: load}, {name: host, kind: symbol, size: 8}]",
                 COLUMNS_MAX);
        break;
    case VALUE_COLUMN_NAMES:
        snprintf(text, size, "a list of names, each once, of target: next those of columns");
        break;
    case VALUE_PREFIXES:
        snprintf(text, size, "a list of at most %d texts of at most %d bytes, each once",
                 CONFIG_SHARES_MAX, CONFIG_SHARE_SIZE - 1);
        break;
    case VALUE_TAGS:
        snprintf(text, size, "a mapping of at most %d names to texts, as in {site: osaka}",
                 CONFIG_TAGS_MAX);
        break;
    case VALUE_LABEL:
        snprintf(text, size, "mlpoly, average, best, or the name of an expert or a member");
        break;
    case VALUE_KEEP:
        snprintf(text, size, "checkpoint, all, or a size of at least 1M such as 10G");
        break;
    case VALUE_ZONE:
        snprintf(text, size, "a time zone of tzdata such as Europe/Berlin, or UTC");
        break;
    case VALUE_NAME:
        snprintf(text, size, "1 to %d letters, digits, '-', '_' and '.'", CONFIG_NAME_SIZE - 1);
        break;
    case VALUE_DEVICE:
        snprintf(text, size, "auto, cpu, cuda or cuda:N with N from 0 to %d",
                 CONFIG_CUDA_DEVICES_MAX - 1);
        break;
    case VALUE_TEXT:
        snprintf(text, size, "a text of 1 to %d bytes", CONFIG_ADDRESS_SIZE - 1);
        break;
    case VALUE_PATH:
        snprintf(text, size, "a path of 1 to %d bytes", CONFIG_PATH_SIZE - 1);
        break;
    case VALUE_BIND:
        snprintf(text, size, "tcp://HOST:PORT or ipc://PATH of at most %d bytes",
                 CONFIG_IPC_PATH_MAX);
        break;
    case VALUE_CONNECT:
        snprintf(text, size, "tcp://HOST:PORT or ipc://PATH of at most %d bytes, without '*'",
                 CONFIG_IPC_PATH_MAX);
        break;
    }
}

static void print_set(const struct config_key *key, unsigned set, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "["), length;
    const char *before = "";
    for (size_t n = 0; n < config_words_count(key->words) && used < size; n++) {
        const char *word = config_word(key->words, n, &length);
        if (!(set >> n & 1))
            continue;
        used += (size_t)snprintf(text + used, size - used, "%s%.*s", before, (int)length, word);
        before = ", ";
    }
    if (used < size)
        snprintf(text + used, size - used, "]");
}

static void print_ahead(const struct ahead *ahead, char *text, size_t size) {
    bool list = ahead->count > 1;
    size_t used = (size_t)snprintf(text, size, "%s", list ? "[" : "");
    for (size_t n = 0; n < ahead->count && used < size; n++)
        used += (size_t)snprintf(text + used, size - used, "%s%zu", n ? ", " : "", ahead->steps[n]);
    if (list && used < size)
        snprintf(text + used, size - used, "]");
}

/* "change, level (model.output.relative=none)" */
static void print_members(const struct config *config, char *text, size_t size) {
    size_t used = 0;
    *text = 0;
    for (size_t n = 0; config->members_given && n < config->member_count && used < size; n++) {
        const struct member_config *member = &config->members[n];
        used += (size_t)snprintf(text + used, size - used, "%s%s", n ? ", " : "", member->name);
        const char *set = config->sets + member->sets;
        for (; *set && used < size; set += strlen(set) + 1)
            used += (size_t)snprintf(text + used, size - used, " (%s)", set);
    }
    if (config->members_given && !config->member_count)
        snprintf(text, size, "[]");
}

static void print_prefixes(const struct share_config *share, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "[");
    for (size_t n = 0; n < share->count && used < size; n++)
        used += (size_t)snprintf(text + used, size - used, "%s\"%s\"", n ? ", " : "",
                                 share->prefixes[n]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

/* "site: osaka, run: 7" */
static void print_tags(const struct tags_config *tags, char *text, size_t size) {
    size_t used = 0;
    *text = 0;
    for (size_t n = 0; n < tags->count && used < size; n++)
        used += (size_t)snprintf(text + used, size - used, "%s%s: %s", n ? ", " : "",
                                 tags->list[n].name, tags->list[n].text);
}

void config_value_print(const struct config_key *key, size_t layer, const struct draft *draft,
                        char *text, size_t size) {
    const void *where = config_value_home(key, layer, draft);
    switch (key->type) {
    case VALUE_WORD:
    case VALUE_CHOICE: {
        size_t place = key->type == VALUE_CHOICE ? *(const bool *)where : *(const unsigned *)where;
        size_t length;
        const char *word = config_word(key->words, place, &length);
        snprintf(text, size, "%.*s", (int)length, word);
        break;
    }
    case VALUE_BOOLEAN:
        snprintf(text, size, "%s", *(const bool *)where ? "true" : "false");
        break;
    case VALUE_TRUTH: {
        unsigned value = *(const unsigned *)where;
        size_t length;
        const char *word = value < CONFIG_TRUTHS
                               ? config_word(FALSE_TRUE, value, &length)
                               : config_word(key->words, value - CONFIG_TRUTHS, &length);
        snprintf(text, size, "%.*s", (int)length, word);
        break;
    }
    case VALUE_AHEAD:
        print_ahead(where, text, size);
        break;
    case VALUE_SET:
        print_set(key, *(const unsigned *)where, text, size);
        break;
    case VALUE_MEMBERS:
        print_members(&draft->config, text, size);
        break;
    case VALUE_COLUMNS:
        config_print_columns(&draft->config.architecture.input, text, size);
        break;
    case VALUE_COLUMN_NAMES:
        config_print_column_names(draft, text, size);
        break;
    case VALUE_PREFIXES:
        print_prefixes(where, text, size);
        break;
    case VALUE_TAGS:
        print_tags(where, text, size);
        break;
    case VALUE_SIZE:
        snprintf(text, size, "%zu", *(const size_t *)where);
        break;
    case VALUE_THREADS:
        snprintf(text, size, "%zu", *(const size_t *)where);
        if (!*(const size_t *)where)
            snprintf(text, size, "%s", CONFIG_THREADS_WORD);
        break;
    case VALUE_COUNT:
        snprintf(text, size, "%" PRIu64, *(const uint64_t *)where);
        break;
    case VALUE_RATE:
        if (*(const double *)where == RATE_AUTO) {
            snprintf(text, size, "%s", CONFIG_RATE_WORD);
            break;
        }
        /* fall through */
    case VALUE_REAL:
        snprintf(text, size, "%.17g", *(const double *)where);
        break;
    case VALUE_FLOAT:
        snprintf(text, size, "%.9g", (double)*(const float *)where);
        break;
    case VALUE_KEEP: {
        uint64_t keep = *(const uint64_t *)where;
        if (keep == JOURNAL_KEEP_ALL || keep == JOURNAL_KEEP_CHECKPOINT)
            snprintf(text, size, "%s", keep == JOURNAL_KEEP_ALL ? "all" : "checkpoint");
        else
            snprintf(text, size, "%" PRIu64, keep);
        break;
    }
    case VALUE_NAME:
    case VALUE_LABEL:
    case VALUE_ZONE:
    case VALUE_PIN:
    case VALUE_DEVICE:
    case VALUE_TEXT:
    case VALUE_PATH:
    case VALUE_BIND:
    case VALUE_CONNECT:
        snprintf(text, size, "%s", (const char *)where);
    }
}
