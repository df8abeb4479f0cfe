/* One value: its text into the draft. */
#include "config_internal.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/threads.h"

enum { PORT_MAX = 65535 };

#define KEEP_MIN 1048576.0

static const char KEEP_UNITS[] = "KMGT"; /* each 1024 times the one before */

void *config_value_home(const struct config_key *key, size_t layer, const struct draft *draft) {
    size_t step = config_key_layered(key) ? layer * sizeof(struct layer) : 0;
    return (char *)draft + key->offset + step;
}

/* A whole number in decimal digits. Leading zeros are refused: YAML 1.1 reads them as octal. */
static bool parse_whole(const char *text, double *value) {
    const char *digits = text + (*text == '-' || *text == '+');
    size_t length = strlen(digits);
    if (!length || strspn(digits, "0123456789") != length || (length > 1 && *digits == '0'))
        return false;
    *value = strtod(text, NULL);
    return true;
}

/* A finite decimal number; strtod alone would take hexadecimal, "inf" and "nan" too. */
static bool parse_real(const char *text, double *value) {
    char *end;
    if (!*text || strspn(text, "+-.0123456789eE") != strlen(text))
        return false;
    *value = strtod(text, &end);
    return !*end && isfinite(*value);
}

static bool in_range(const struct config_key *key, double value) {
    return value >= key->minimum && value <= key->maximum &&
           !(key->flags & KEY_BELOW && value == key->maximum);
}

/* The words that YAML 1.1 takes for a truth value. */
static bool parse_boolean(const char *text, bool *value) {
    static const char *const yes = "true|True|TRUE|yes|Yes|YES|on|On|ON";
    static const char *const no = "false|False|FALSE|no|No|NO|off|Off|OFF";
    *value = config_words_contain(yes, text, NULL);
    return *value || config_words_contain(no, text, NULL);
}

static bool is_name(const char *text, size_t size) {
    size_t length = strlen(text);
    if (!length || length >= size || !strcmp(text, ".") || !strcmp(text, ".."))
        return false;
    for (const char *c = text; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
              strchr("-_.", *c)))
            return false;
    return true;
}

bool config_label_good(const char *text) {
    return is_name(text, CONFIG_MEMBER_NAME_SIZE) && !strchr(text, '.');
}

bool config_tag_good(const char *text) {
    return is_name(text, CONFIG_MEMBER_NAME_SIZE);
}

static bool is_device(const char *text) {
    double number;
    if (config_words_contain("auto|cpu|cuda", text, NULL))
        return true;
    return !strncmp(text, "cuda:", 5) && isdigit((unsigned char)text[5]) &&
           parse_whole(text + 5, &number) && number < CONFIG_CUDA_DEVICES_MAX;
}

/* tcp://HOST:PORT; only what is bound may leave host or port open. */
static bool is_tcp(const char *address, bool bound) {
    const char *colon = strrchr(address, ':');
    double port;
    if (!colon || colon == address || strpbrk(address, " \t/"))
        return false;
    if (*address == '*' && (colon != address + 1 || !bound))
        return false;
    if (*address == '[' ? colon[-1] != ']' : memchr(address, ':', colon - address) != NULL)
        return false;
    if (!strcmp(colon + 1, "*"))
        return bound;
    return isdigit((unsigned char)colon[1]) && parse_whole(colon + 1, &port) &&
           port >= (bound ? 0 : 1) && port <= PORT_MAX;
}

static bool is_endpoint(const char *text, bool bound) {
    static const char tcp[] = "tcp://", ipc[] = "ipc://";
    if (strlen(text) >= CONFIG_ENDPOINT_SIZE)
        return false;
    if (!strncmp(text, tcp, sizeof tcp - 1))
        return is_tcp(text + sizeof tcp - 1, bound);
    if (strncmp(text, ipc, sizeof ipc - 1))
        return false;
    const char *path = text + sizeof ipc - 1;
    return *path && strlen(path) <= CONFIG_IPC_PATH_MAX && (bound || strcmp(path, "*"));
}

/* "0,2-5", as taskset(1) has it: ascending ranges. */
static bool cpus_good(const char *text) {
    long before = -1;
    if (strlen(text) >= CONFIG_PIN_SIZE)
        return false;
    for (const char *c = text;; c++) {
        char *end;
        long first = isdigit((unsigned char)*c) ? strtol(c, &end, 10) : -1, last = first;
        if (first < 0)
            return false;
        if (*end == '-')
            last = isdigit((unsigned char)end[1]) ? strtol(end + 1, &end, 10) : -1;
        if (first <= before || last < first || last >= THREADS_CPUS_MAX)
            return false;
        before = last;
        c = end;
        if (!*c)
            return true;
        if (*c != ',')
            return false;
    }
}

static int store_text(bool good, const char *text, void *where) {
    if (!good)
        return -1;
    strcpy(where, text);
    return 0;
}

static int store_word(const struct config_key *key, const char *text, void *where) {
    size_t place;
    if (!config_words_contain(key->words, text, &place))
        return -1;
    if (key->type == VALUE_CHOICE)
        *(bool *)where = place == 1;
    else
        *(unsigned *)where = (unsigned)place;
    return 0;
}

static int store_truth(const struct config_key *key, const char *text, bool quoted,
                       unsigned *where) {
    bool boolean;
    size_t place;
    if (!quoted && parse_boolean(text, &boolean))
        *where = boolean;
    else if (config_words_contain(key->words, text, &place))
        *where = CONFIG_TRUTHS + (unsigned)place;
    else
        return -1;
    return 0;
}

/* One more of a list. */
static int store_in_set(const struct config_key *key, const char *text, unsigned *set) {
    size_t place;
    if (!strcmp(text, CONFIG_EMPTY_SET)) {
        *set = 0;
        return 0;
    }
    if (!config_words_contain(key->words, text, &place) || *set >> place & 1)
        return -1;
    *set |= 1u << place;
    return 0;
}

static int store_number(const struct config_key *key, const char *text, void *where) {
    double value;
    bool whole = key->type == VALUE_SIZE || key->type == VALUE_COUNT;
    if (!(whole ? parse_whole(text, &value) : parse_real(text, &value)) || !in_range(key, value))
        return -1;
    if (key->type == VALUE_SIZE)
        *(size_t *)where = (size_t)value;
    else if (key->type == VALUE_COUNT)
        *(uint64_t *)where = (uint64_t)value;
    else if (key->type == VALUE_REAL || key->type == VALUE_RATE)
        *(double *)where = value;
    else
        *(float *)where = (float)value;
    return 0;
}

static int store_threads(const struct config_key *key, const char *text, bool quoted,
                         size_t *threads) {
    double value;
    *threads = 0;
    if (!strcmp(text, CONFIG_THREADS_WORD))
        return 0;
    if (quoted || !parse_whole(text, &value) || !in_range(key, value))
        return -1;
    *threads = (size_t)value;
    return 0;
}

static int store_pin(const char *text, bool quoted, char pin[CONFIG_PIN_SIZE]) {
    bool boolean;
    if (!quoted && parse_boolean(text, &boolean))
        return store_text(true, boolean ? "true" : "false", pin);
    return store_text(cpus_good(text), text, pin);
}

static int store_rate(const struct config_key *key, const char *text, bool quoted, double *rate) {
    if (!strcmp(text, CONFIG_RATE_WORD))
        *rate = RATE_AUTO;
    else
        return quoted ? -1 : store_number(key, text, rate);
    return 0;
}

/* "checkpoint", "all", or bytes: "10G". */
static int store_keep(const struct config_key *key, const char *text, uint64_t *keep) {
    enum { DIGITS_SIZE = 20, UNIT_BITS = 10 };
    char digits[DIGITS_SIZE];
    size_t length = strlen(text), place;
    double bytes;
    if (config_words_contain(key->words, text, &place)) {
        *keep = place ? JOURNAL_KEEP_ALL : JOURNAL_KEEP_CHECKPOINT;
        return 0;
    }
    if (length == 0 || length >= sizeof digits)
        return -1;
    const char *unit = strchr(KEEP_UNITS, text[length - 1]);
    snprintf(digits, sizeof digits, "%.*s", (int)(length - (unit != NULL)), text);
    if (!parse_whole(digits, &bytes))
        return -1;
    if (unit)
        bytes = ldexp(bytes, UNIT_BITS * (int)(unit + 1 - KEEP_UNITS));
    if (bytes < KEEP_MIN || bytes > CONFIG_COUNT_MAX)
        return -1;
    *keep = (uint64_t)bytes;
    return 0;
}

/* One more; an empty one is that of every key. */
static int store_prefix(const char *text, struct share_config *share) {
    if (share->count == CONFIG_SHARES_MAX || strlen(text) >= CONFIG_SHARE_SIZE)
        return -1;
    for (size_t n = 0; n < share->count; n++)
        if (!strcmp(share->prefixes[n], text))
            return -1;
    strcpy(share->prefixes[share->count++], text);
    return 0;
}

int config_value_add(const struct config_key *key, const char *text, bool first,
                     struct draft *draft) {
    struct ahead *ahead = config_value_home(key, 0, draft);
    double value;
    if (first)
        *ahead = (struct ahead){0};
    if (!parse_whole(text, &value) || !in_range(key, value) || ahead->count == AHEAD_MAX ||
        (ahead->count && (size_t)value <= ahead->steps[ahead->count - 1]))
        return -1;
    ahead->steps[ahead->count++] = (size_t)value;
    return 0;
}

int config_value_add_cpu(const char *text, bool first, char pin[CONFIG_PIN_SIZE]) {
    char all[2 * CONFIG_PIN_SIZE];
    if (strlen(text) >= CONFIG_PIN_SIZE)
        return -1;
    snprintf(all, sizeof all, "%s%s%s", first ? "" : pin, first ? "" : ",", text);
    return store_text(cpus_good(all), all, pin);
}

int config_value_store(const struct config_key *key, size_t layer, const char *text, bool quoted,
                       struct draft *draft) {
    void *where = config_value_home(key, layer, draft);
    bool boolean;
    switch (key->type) {
    case VALUE_WORD:
    case VALUE_CHOICE:
        return store_word(key, text, where);
    case VALUE_BOOLEAN:
        if (quoted || !parse_boolean(text, &boolean))
            return -1;
        *(bool *)where = boolean;
        return 0;
    case VALUE_SIZE:
    case VALUE_COUNT:
    case VALUE_REAL:
    case VALUE_FLOAT:
        return quoted ? -1 : store_number(key, text, where);
    case VALUE_AHEAD:
        return quoted ? -1 : config_value_add(key, text, true, draft);
    case VALUE_RATE:
        return store_rate(key, text, quoted, where);
    case VALUE_THREADS:
        return store_threads(key, text, quoted, where);
    case VALUE_PIN:
        return store_pin(text, quoted, where);
    case VALUE_TRUTH:
        return store_truth(key, text, quoted, where);
    case VALUE_SET:
        return store_in_set(key, text, where);
    case VALUE_MEMBERS:
    case VALUE_TAGS:
        return -1; /* no text: a list */
    case VALUE_COLUMNS:
    case VALUE_COLUMN_NAMES: /* likewise, but none */
        *(size_t *)where = 0;
        return *text ? -1 : 0;
    case VALUE_PREFIXES:
        return store_prefix(text, where);
    case VALUE_KEEP:
        return store_keep(key, text, where);
    case VALUE_NAME:
        return store_text(is_name(text, CONFIG_NAME_SIZE), text, where);
    case VALUE_ZONE:
        return store_text(time_zone_good(text), text, where);
    case VALUE_LABEL:
        return store_text(is_name(text, CONFIG_MEMBER_NAME_SIZE), text, where);
    case VALUE_DEVICE:
        return store_text(is_device(text), text, where);
    case VALUE_TEXT:
        return store_text(*text && strlen(text) < CONFIG_ADDRESS_SIZE, text, where);
    case VALUE_PATH:
        return store_text(*text && strlen(text) < CONFIG_PATH_SIZE, text, where);
    case VALUE_BIND:
        return store_text(is_endpoint(text, true), text, where);
    case VALUE_CONNECT:
        return store_text(is_endpoint(text, false), text, where);
    }
    return -1;
}

/* All that a list of members fills. */
#define MEMBERS_SIZE                                                                               \
    (offsetof(struct config, sets) + sizeof(((struct config *)0)->sets) -                          \
     offsetof(struct config, members_given))

static size_t value_size(enum value_type type) {
    static const size_t sizes[] = {
        [VALUE_WORD] = sizeof(unsigned),
        [VALUE_CHOICE] = sizeof(bool),
        [VALUE_BOOLEAN] = sizeof(bool),
        [VALUE_SIZE] = sizeof(size_t),
        [VALUE_COUNT] = sizeof(uint64_t),
        [VALUE_REAL] = sizeof(double),
        [VALUE_FLOAT] = sizeof(float),
        [VALUE_RATE] = sizeof(double),
        [VALUE_THREADS] = sizeof(size_t),
        [VALUE_PIN] = CONFIG_PIN_SIZE,
        [VALUE_TRUTH] = sizeof(unsigned),
        [VALUE_AHEAD] = sizeof(struct ahead),
        [VALUE_SET] = sizeof(unsigned),
        [VALUE_MEMBERS] = MEMBERS_SIZE,
        [VALUE_KEEP] = sizeof(uint64_t),
        [VALUE_LABEL] = CONFIG_MEMBER_NAME_SIZE,
        [VALUE_NAME] = CONFIG_NAME_SIZE,
        [VALUE_DEVICE] = CONFIG_DEVICE_SIZE,
        [VALUE_PATH] = CONFIG_PATH_SIZE,
        [VALUE_BIND] = sizeof(struct socket_config),
        [VALUE_CONNECT] = CONFIG_ENDPOINT_SIZE,
        [VALUE_COLUMNS] = sizeof(size_t),
        [VALUE_COLUMN_NAMES] = sizeof(size_t),
        [VALUE_PREFIXES] = sizeof(struct share_config),
        [VALUE_ZONE] = TIME_ZONE_NAME_SIZE,
        [VALUE_TEXT] = CONFIG_ADDRESS_SIZE,
        [VALUE_TAGS] = sizeof(struct tags_config),
    };
    return sizes[type];
}

void config_value_default(const struct config_key *key, size_t layer, struct draft *draft) {
    void *where = config_value_home(key, layer, draft);
    if (key->fallback)
        config_value_store(key, layer, key->fallback, false, draft);
    else if (key->type == VALUE_SIZE)
        *(size_t *)where = 0;
    else if (key->type == VALUE_SET)
        *(unsigned *)where = (1u << config_words_count(key->words)) - 1;
    else if (key->type == VALUE_MEMBERS)
        *(bool *)where = false;
    else if (key->type == VALUE_PREFIXES || key->type == VALUE_TAGS)
        memset(where, 0, value_size(key->type));
    else if (key->type >= VALUE_NAME)
        *(char *)where = 0;
}

/* As written: what else a member has follows from other keys. */
static bool same_members(const struct config *a, const struct config *b) {
    bool same = a->members_given == b->members_given && a->member_count == b->member_count;
    for (size_t n = 0; n < a->member_count && same; n++)
        same = !strcmp(a->members[n].name, b->members[n].name);
    return same && a->sets_size == b->sets_size && !memcmp(a->sets, b->sets, a->sets_size);
}

/* Lists of columns, or of their names. */
static bool same_lists(const struct config_key *key, const struct draft *a, const struct draft *b) {
    char *left = malloc(2 * (size_t)CONFIG_LIST_SIZE), *right = left + CONFIG_LIST_SIZE;
    if (!left)
        return false;
    config_value_print(key, 0, a, left, CONFIG_LIST_SIZE);
    config_value_print(key, 0, b, right, CONFIG_LIST_SIZE);
    bool same = strcmp(left, right) == 0;
    free(left);
    return same;
}

bool config_value_same(const struct config_key *key, size_t layer, const struct draft *a,
                       const struct draft *b) {
    const void *left = config_value_home(key, layer, a), *right = config_value_home(key, layer, b);
    if (key->type == VALUE_BIND && ((const struct socket_config *)left)->connect !=
                                       ((const struct socket_config *)right)->connect)
        return false;
    if (key->type == VALUE_MEMBERS)
        return same_members(&a->config, &b->config);
    if (key->type == VALUE_COLUMNS || key->type == VALUE_COLUMN_NAMES)
        return same_lists(key, a, b);
    return key->type >= VALUE_NAME ? !strcmp(left, right)
                                   : !memcmp(left, right, value_size(key->type));
}

void config_value_copy(const struct config_key *key, size_t layer, const struct draft *from,
                       struct draft *to) {
    memcpy(config_value_home(key, layer, to), config_value_home(key, layer, from),
           value_size(key->type));
}
