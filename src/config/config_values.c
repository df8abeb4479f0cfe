/* Types of values: each is one constant below its functions. */
#include "config_values.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "anomaly/shape.h"
#include "common/format.h"
#include "common/threads.h"
#include "common/wire.h"

enum { PORT_MAX = 65535 };

#define AUTO "auto"
#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define TRUTHS "false|true"

void config_add(struct config_text *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t left = to->size - to->used;
    int length = to->out ? vfprintf(to->out, format, arguments)
                         : vsnprintf(to->text + to->used, left, format, arguments);
    va_end(arguments);
    if (length > 0 && !to->out)
        to->used += (size_t)length < left ? (size_t)length : left - 1;
}

/* ---- Texts in YAML and JSON ---- */

/* Length of the UTF-8 character, or 0 if it is invalid; `*code` is its number. */
static size_t decode(const char *text, unsigned *code) {
    const unsigned char *byte = (const unsigned char *)text;
    size_t size = *byte < 0x80 ? 1 : *byte < 0xE0 ? 2 : *byte < 0xF0 ? 3 : 4;
    if (!wire_is_utf8(text, strnlen(text, size)))
        return 0;
    *code = size == 1 ? *byte : *byte & (0x7FU >> size);
    for (size_t n = 1; n < size; n++)
        *code = *code << 6 | (byte[n] & 0x3F);
    return size;
}

/* Add the text in double quotes, as in JSON; YAML also reads this. */
static void add_quoted(struct config_text *to, const char *text) {
    unsigned code = 0;
    config_add(to, "\"");
    if (!to->out)
        config_add(to, "%s", text);
    for (size_t size; *text && to->out; text += size ? size : 1) {
        size = decode(text, &code);
        bool escaped = code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 ||
                       code == 0x2029 || code == 0xFEFF || code == 0xFFFE || code == 0xFFFF;
        if (!size)
            config_add(to, "?");
        else if (escaped) /* YAML readers reject or fold it */
            config_add(to, "\\u%04x", code);
        else
            config_add(to, "%s%.*s", *text == '"' || *text == '\\' ? "\\" : "", (int)size, text);
    }
    config_add(to, "\"");
}

/* Whether a YAML reader could interpret the plain text as another type. */
static bool is_special(const char *text) {
    static const char *const words[] = {"null", "true", "false", "yes",  "no",  "on",
                                        "off",  "y",    "n",     ".nan", ".inf"};
    for (size_t n = 0; n < sizeof words / sizeof *words; n++)
        if (!strcasecmp(text, words[n]))
            return true;
    return strspn(text, DIGITS ".+-_:eExXoOabcdfABCDF") == strlen(text) &&
           strpbrk(text, DIGITS ".");
}

static bool is_plain(const char *text) {
    size_t length = strlen(text);
    return length && strspn(text, LETTERS DIGITS "_./+-@:") == length && !strchr("+-@:", *text) &&
           text[length - 1] != ':' && !is_special(text);
}

void config_add_text(struct config_text *to, const char *text) {
    if (!to->out || (!to->json && is_plain(text)))
        config_add(to, "%s", text);
    else
        add_quoted(to, text);
}

/* ---- Words ---- */

bool config_words_contain(const char *words, const char *word, size_t *place) {
    size_t number = 0, length = strlen(word);
    for (const char *w = words;; number++, w++) {
        size_t this = strcspn(w, "|");
        if (this == length && memcmp(w, word, length) == 0) {
            if (place)
                *place = number;
            return true;
        }
        w += this;
        if (!*w)
            return false;
    }
}

const char *config_word(const char *words, size_t place, size_t *length) {
    while (place-- > 0)
        words += strcspn(words, "|") + 1;
    *length = strcspn(words, "|");
    return words;
}

void config_words_add(char words[CONFIG_TEXT_SIZE], const char *word) {
    size_t used = strlen(words);
    snprintf(words + used, CONFIG_TEXT_SIZE - used, "%s%s", used ? "|" : "", word);
}

size_t config_words_count(const char *words) {
    size_t count = 1;
    for (; *words; words++)
        count += *words == '|';
    return count;
}

void config_words_list(const char *words, char *text, size_t size) {
    struct config_text to = {.text = text, .size = size};
    *text = 0;
    for (const char *w = words; *w;) {
        size_t length = strcspn(w, "|");
        config_add(&to, "%s%.*s", w == words ? "" : w[length] ? ", " : " or ", (int)length, w);
        w += length + (w[length] == '|');
    }
}

/* The number of edits (insert, delete, replace, swap neighbours) from `a` to `b`, for short
   words: the optimal string alignment distance. Ignores case. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    enum { WORD_MAX = 32 };
    size_t rows[WORD_MAX + 1][WORD_MAX + 1];
    if (a_length > WORD_MAX || b_length > WORD_MAX)
        return SIZE_MAX;
    for (size_t i = 0; i <= a_length; i++)
        for (size_t j = 0; j <= b_length; j++) {
            if (i == 0 || j == 0) {
                rows[i][j] = i + j;
                continue;
            }
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            size_t best = rows[i - 1][j - 1] + (x != y);
            size_t shorter = rows[i - 1][j] < rows[i][j - 1] ? rows[i - 1][j] : rows[i][j - 1];
            if (shorter + 1 < best)
                best = shorter + 1;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                y == tolower((unsigned char)a[i - 2]) && rows[i - 2][j - 2] + 1 < best)
                best = rows[i - 2][j - 2] + 1;
            rows[i][j] = best;
        }
    return rows[a_length][b_length];
}

bool config_word_nearer(const char *word, size_t length, const char *text, size_t *best) {
    enum { LETTERS_PER_EDIT = 3 };
    size_t size = strlen(text), edits = distance(word, length, text, size);
    size_t longer = size > length ? size : length;
    if (edits >= *best || edits > 1 + longer / LETTERS_PER_EDIT || edits >= longer)
        return false;
    *best = edits;
    return true;
}

const char *config_word_meant(const char *words, const char *text, char meant[CONFIG_TEXT_SIZE]) {
    size_t best = SIZE_MAX;
    *meant = 0;
    for (const char *word = words; *word; word += strcspn(word, "|"), word += *word == '|') {
        size_t length = strcspn(word, "|");
        bool same = !strncmp(word, text, length) && !text[length];
        if (config_word_nearer(word, length, text, &best))
            snprintf(meant, CONFIG_TEXT_SIZE, same ? "" : " (did you mean \"%.*s\"?)", (int)length,
                     word);
    }
    return meant;
}

static void add_word(struct config_text *to, const char *words, size_t place) {
    char text[CONFIG_TEXT_SIZE];
    size_t length;
    const char *word = config_word(words, place, &length);
    snprintf(text, sizeof text, "%.*s", (int)length, word);
    config_add_text(to, text);
}

/* The words that YAML 1.1 reads as truth values. */
static bool parse_boolean(const char *text, bool *value) {
    static const char *const yes = "true|True|TRUE|yes|Yes|YES|on|On|ON";
    static const char *const no = "false|False|FALSE|no|No|NO|off|Off|OFF";
    *value = config_words_contain(yes, text, NULL);
    return *value || config_words_contain(no, text, NULL);
}

/* A word by its index among `words`, or after false and true. */
static int word_store(const struct config_key *key, const char *text, bool quoted, void *where) {
    bool truth;
    size_t place;
    if (key->type->truths && !quoted && parse_boolean(text, &truth))
        place = truth;
    else if (key->words && config_words_contain(key->words, text, &place))
        place += key->type->truths;
    else
        return -1;
    if (key->type->size == sizeof(bool))
        *(bool *)where = place == 1;
    else
        *(unsigned *)where = (unsigned)place;
    return 0;
}

static void word_print(const struct config_key *key, const void *where, struct config_text *to) {
    bool two = key->type->size == sizeof(bool);
    size_t place = two ? *(const bool *)where : *(const unsigned *)where;
    size_t truths = key->type->truths;
    if (place < truths)
        config_add(to, place ? "true" : "false");
    else
        add_word(to, key->words, place - truths);
}

#define WORD .store = word_store, .print = word_print

const struct value_type value_word = {"word", "$words", sizeof(unsigned), WORD};

const struct value_type value_choice = {"word", "$words", sizeof(bool), WORD};

const struct value_type value_boolean = {"truth value", "true or false", sizeof(bool), .truths = 2,
                                         WORD};

const struct value_type value_truth = {"truth value or word", "$truths", sizeof(unsigned),
                                       .truths = 2, WORD};

/* ---- Numbers ---- */

/* A whole number in decimal digits. Leading zeros are rejected: YAML 1.1 reads them as octal. */
static bool parse_whole(const char *text, double *value) {
    const char *digits = text + (*text == '-' || *text == '+');
    size_t length = strlen(digits);
    if (!length || strspn(digits, DIGITS) != length || (length > 1 && *digits == '0'))
        return false;
    *value = strtod(text, NULL);
    return true;
}

/* A finite decimal number; strtod alone also accepts hexadecimal, "inf" and "nan". */
static bool parse_real(const char *text, double *value) {
    char *end;
    if (!*text || strspn(text, "+-." DIGITS "eE") != strlen(text))
        return false;
    *value = strtod(text, &end);
    return !*end && isfinite(*value);
}

static bool in_range(const struct config_key *key, double value) {
    return value >= key->minimum && value <= key->maximum &&
           !(key->flags & KEY_BELOW && value == key->maximum);
}

static int number_store(const struct config_key *key, const char *text, bool quoted, void *where) {
    const struct value_type *type = key->type;
    double value;
    if (type->automatic && !strcmp(text, AUTO))
        value = *type->automatic;
    else if (quoted || !(type->whole ? parse_whole(text, &value) : parse_real(text, &value)) ||
             !in_range(key, value))
        return -1;
    if (type == &value_count)
        *(uint64_t *)where = (uint64_t)value;
    else if (type->whole)
        *(size_t *)where = (size_t)value;
    else if (type == &value_float)
        *(float *)where = (float)value;
    else
        *(double *)where = value;
    return 0;
}

static double number_get(const struct config_key *key, const void *where) {
    const struct value_type *type = key->type;
    return type == &value_count   ? (double)*(const uint64_t *)where
           : type->whole          ? (double)*(const size_t *)where
           : type == &value_float ? (double)*(const float *)where
                                  : *(const double *)where;
}

/* In a document with the fewest digits that give the same number. Some YAML readers require a
   point in a number with an exponent: 1.0e-05. */
static void number_print(const struct config_key *key, const void *where, struct config_text *to) {
    const double value = number_get(key, where), *automatic = key->type->automatic;
    const bool is_float = key->type == &value_float;
    char text[FORMAT_SIZE];
    if (automatic && value == *automatic) {
        config_add_text(to, AUTO);
        return;
    }
    if (key->type->whole || !to->out) {
        config_add(to, key->type->whole ? "%.0f" : is_float ? "%.9g" : "%.17g", value);
        return;
    }
    if (is_float)
        for (int digits = 1; digits == 1 || (float)strtod(text, NULL) != (float)value; digits++)
            snprintf(text, sizeof text, "%.*g", digits, value);
    else
        format_exact(text, value);
    size_t length = strcspn(text, "e");
    bool point = memchr(text, '.', length) != NULL;
    config_add(to, "%.*s%s%s", (int)length, text, text[length] && !point ? ".0" : "",
               text + length);
}

#define NUMBER .store = number_store, .print = number_print
#define WHOLE_NUMBER .whole = true, NUMBER

const struct value_type value_size = {"whole number", "a whole number from $low to $high",
                                      sizeof(size_t), WHOLE_NUMBER};

const struct value_type value_count = {"whole number", "a whole number from $low to $high",
                                       sizeof(uint64_t), WHOLE_NUMBER};

static const double threads_auto = 0;

const struct value_type value_threads = {"whole number or word",
                                         "a whole number from $low to $high, or auto",
                                         sizeof(size_t), .automatic = &threads_auto, WHOLE_NUMBER};

const struct value_type value_real = {"number", "a number from $low to $high", sizeof(double),
                                      NUMBER};

const struct value_type value_float = {"number", "a number from $low to $high", sizeof(float),
                                       NUMBER};

static const double rate_auto = RATE_AUTO;

const struct value_type value_rate = {"number or word", "a number from $low to $high, or auto",
                                      sizeof(double), .automatic = &rate_auto, NUMBER};

static int share_store(const struct config_key *key, const char *text, bool quoted, void *where) {
    bool on = !strcmp(text, "true");
    if (quoted || (!on && strcmp(text, "false") != 0))
        return number_store(key, text, quoted, where);
    *(double *)where = on ? SHAPE_SHARE : 0;
    return 0;
}

const struct value_type value_share = {"number or truth value",
                                       "false, true (0.5) or a number from $low to $high",
                                       sizeof(double), .store = share_store, .print = number_print};

/* "checkpoint", "all", or bytes: "10G". */
static int keep_store(const struct config_key *key, const char *text, bool quoted, void *where) {
    enum { DIGITS_SIZE = 20, UNIT_BITS = 10, KEEP_MIN = 1048576 };
    static const char units[] = "KMGT"; /* each 1024 times the previous one */
    char digits[DIGITS_SIZE];
    uint64_t *keep = where;
    size_t length = strlen(text), place;
    double bytes;
    (void)quoted;
    if (config_words_contain(key->words, text, &place)) {
        *keep = place ? JOURNAL_KEEP_ALL : JOURNAL_KEEP_CHECKPOINT;
        return 0;
    }
    if (length == 0 || length >= sizeof digits)
        return -1;
    const char *unit = strchr(units, text[length - 1]);
    snprintf(digits, sizeof digits, "%.*s", (int)(length - (unit != NULL)), text);
    if (!parse_whole(digits, &bytes))
        return -1;
    if (unit)
        bytes = ldexp(bytes, UNIT_BITS * (int)(unit + 1 - units));
    if (bytes < KEEP_MIN || bytes > CONFIG_COUNT_MAX)
        return -1;
    *keep = (uint64_t)bytes;
    return 0;
}

static void keep_print(const struct config_key *key, const void *where, struct config_text *to) {
    uint64_t keep = *(const uint64_t *)where;
    if (keep == JOURNAL_KEEP_ALL || keep == JOURNAL_KEEP_CHECKPOINT)
        add_word(to, key->words, keep == JOURNAL_KEEP_ALL);
    else
        config_add(to, "%" PRIu64, keep);
}

const struct value_type value_keep = {"word or size",
                                      "checkpoint, all, or a size of at least 1M such as 10G",
                                      sizeof(uint64_t), .store = keep_store, .print = keep_print};

/* ---- Texts ---- */

static int text_store(const struct config_key *key, const char *text, bool quoted, void *where) {
    (void)quoted;
    if (strlen(text) >= key->type->size || !key->type->good(text))
        return -1;
    strcpy(where, text);
    return 0;
}

static void text_print(const struct config_key *key, const void *where, struct config_text *to) {
    (void)key;
    config_add_text(to, where);
}

#define TEXT .is_text = true, .store = text_store, .print = text_print

static bool is_text(const char *text) {
    return *text != 0;
}

const struct value_type value_text = {"text", "a text of 1 to $bytes bytes", CONFIG_ADDRESS_SIZE,
                                      .good = is_text, TEXT};

static bool is_name(const char *text) {
    return *text && strcmp(text, ".") != 0 && strcmp(text, "..") != 0 &&
           strspn(text, LETTERS DIGITS "-_.") == strlen(text);
}

bool config_name_good(const char *text) {
    return is_name(text) && strlen(text) < CONFIG_MEMBER_NAME_SIZE;
}

bool config_label_good(const char *text) {
    return config_name_good(text) && !strchr(text, '.');
}

const struct value_type value_name = {"text", "1 to $bytes letters, digits, '-', '_' and '.'",
                                      CONFIG_NAME_SIZE, .good = is_name, TEXT};

const struct value_type value_label = {
    "text", "mlpoly, average, best, or the name of an expert or a member", CONFIG_MEMBER_NAME_SIZE,
    .good = is_name, TEXT};

static bool is_output_name(const char *text) {
    return *text && strspn(text, "abcdefghijklmnopqrstuvwxyz" DIGITS "_-") == strlen(text);
}

const struct value_type value_output_name = {"text", "1 to $bytes of a-z, 0-9, '_' and '-'",
                                             OUTPUT_NAME_SIZE, .good = is_output_name, TEXT};

const struct value_type value_zone = {"time zone",
                                      "a time zone of tzdata such as Europe/Berlin, or UTC",
                                      TIME_ZONE_NAME_SIZE, .good = time_zone_good, TEXT};

/* A number with commas between digits allowed, from 1e-9 to 1e12. */
static bool next_number(const char **text, double *value) {
    char digits[CONFIG_RATE_SIZE], *end;
    size_t size = 0;
    while (**text == ' ')
        (*text)++;
    for (; strchr("0123456789.,", **text) && **text && size < sizeof digits - 1; (*text)++)
        if (**text != ',')
            digits[size++] = **text;
    digits[size] = 0;
    *value = strtod(digits, &end);
    return size > 0 && *end == 0 && *value >= 1e-9 && *value <= 1e12;
}

bool config_alarm_rate(const char *text, struct alarm_rate *rate) {
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"example", 0}, {"second", 1},    {"minute", 60},     {"hour", 3600},
                 {"day", 86400}, {"week", 604800}, {"month", 2592000}, {NULL, 0}};
    double count = 1;
    if (!next_number(&text, &rate->alarms) || strncmp(text, " per ", 5) != 0)
        return false;
    text += 5;
    if (isdigit((unsigned char)*text) && /* not 10.000, which may be meant as 10,000 */
        (text[strspn(text, "0123456789,")] != ' ' || !next_number(&text, &count) || *text++ != ' '))
        return false;
    for (size_t n = 0; units[n].name; n++) {
        size_t size = strlen(units[n].name);
        if (strncmp(text, units[n].name, size) != 0)
            continue;
        rate->time = n > 0;
        rate->every = count * (rate->time ? units[n].seconds : 1);
        return (!strcmp(text + size, "") || !strcmp(text + size, "s")) &&
               (rate->time || rate->alarms <= rate->every);
    }
    return false;
}

static bool is_alarm_rate(const char *text) {
    struct alarm_rate rate;
    return config_alarm_rate(text, &rate);
}

const struct value_type value_alarm_rate = {
    "rate",
    "a rate such as 1 per month, 1 per 2 weeks or 3 per 10,000 examples; the units are example, "
    "second, minute, hour, day, week and month (30 days)",
    CONFIG_RATE_SIZE, .good = is_alarm_rate, TEXT};

static bool is_device(const char *text) {
    double number;
    if (config_words_contain("auto|cpu|cuda", text, NULL))
        return true;
    return !strncmp(text, "cuda:", 5) && isdigit((unsigned char)text[5]) &&
           parse_whole(text + 5, &number) && number < CONFIG_CUDA_DEVICES_MAX;
}

const struct value_type value_device = {"word",
                                        "auto, cpu, cuda or cuda:N with N from 0 to $most",
                                        CONFIG_DEVICE_SIZE,
                                        .most = CONFIG_CUDA_DEVICES_MAX - 1,
                                        .good = is_device,
                                        TEXT};

/* Absolute in a document. */
static void path_print(const struct config_key *key, const void *where, struct config_text *to) {
    char whole[2 * CONFIG_PATH_SIZE];
    const char *path = where, *directory = *path != '/' && to->directory ? to->directory : "";
    (void)key;
    snprintf(whole, sizeof whole, "%s%s%s", directory, *directory ? "/" : "", path);
    config_add_text(to, whole);
}

const struct value_type value_path = {
    "path",          "a path of 1 to $bytes bytes", CONFIG_PATH_SIZE,   .good = is_text,
    .is_text = true, .store = text_store,           .print = path_print};

/* tcp://HOST:PORT; '*' is valid only for bound endpoints. */
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
    if (!strncmp(text, tcp, sizeof tcp - 1))
        return is_tcp(text + sizeof tcp - 1, bound);
    if (strncmp(text, ipc, sizeof ipc - 1))
        return false;
    const char *path = text + sizeof ipc - 1;
    return *path && strlen(path) <= CONFIG_IPC_PATH_MAX && (bound || strcmp(path, "*"));
}

static bool can_bind(const char *text) {
    return strlen(text) < CONFIG_ENDPOINT_SIZE && is_endpoint(text, true);
}

static bool can_connect(const char *text) {
    return is_endpoint(text, false);
}

static bool bind_same(const struct config_key *key, const void *a, const void *b) {
    const struct socket_config *left = a, *right = b;
    (void)key;
    return left->connect == right->connect && !strcmp(left->endpoint, right->endpoint);
}

const struct value_type value_bind = {"endpoint",
                                      "tcp://HOST:PORT or ipc://PATH of at most $bytes bytes",
                                      sizeof(struct socket_config),
                                      .bytes = CONFIG_IPC_PATH_MAX,
                                      .good = can_bind,
                                      .is_text = true,
                                      .store = text_store,
                                      .print = text_print,
                                      .same = bind_same};

const struct value_type value_connect = {
    "endpoint",           "tcp://HOST:PORT or ipc://PATH of at most $bytes bytes, without '*'",
    CONFIG_ENDPOINT_SIZE, .bytes = CONFIG_IPC_PATH_MAX,
    .good = can_connect,  TEXT};

/* ---- Lists of words and numbers ---- */

/* Read the items of a list. */
static int items_read(const struct walk *walk, const yaml_node_t *node,
                      const struct config_key *key, const char *path, void *where) {
    bool may_be_empty =
        key->type->empty || (key->fallback && !strcmp(key->fallback, CONFIG_EMPTY_SET));
    if (node->type != YAML_SEQUENCE_NODE || (!walk_items(node) && !may_be_empty))
        return config_fail_value(walk, node, key, path);
    memset(where, 0, key->type->size);
    for (size_t n = 0; n < walk_items(node); n++) {
        const yaml_node_t *item = walk_node(walk, node->data.sequence.items.start[n]);
        if (!walk_has_text(item) ||
            key->type->add(key, walk_text(item), !walk_is_plain(item), where) != 0)
            return config_fail_value(walk, item, key, path);
    }
    return 0;
}

/* A single value is a list of one. */
static int items_store(const struct config_key *key, const char *text, bool quoted, void *where) {
    memset(where, 0, key->type->size);
    return key->type->add(key, text, quoted, where);
}

#define ITEMS .store = items_store, .read = items_read

static int ahead_add(const struct config_key *key, const char *text, bool quoted, void *where) {
    struct ahead *ahead = where;
    double value;
    if (quoted || !parse_whole(text, &value) || !in_range(key, value) ||
        ahead->count == AHEAD_MAX ||
        (ahead->count && (size_t)value <= ahead->steps[ahead->count - 1]))
        return -1;
    ahead->steps[ahead->count++] = (size_t)value;
    return 0;
}

static void ahead_print(const struct config_key *key, const void *where, struct config_text *to) {
    const struct ahead *ahead = where;
    bool list = ahead->count > 1;
    (void)key;
    config_add(to, "%s", list ? "[" : "");
    for (size_t n = 0; n < ahead->count; n++)
        config_add(to, "%s%zu", n ? ", " : "", ahead->steps[n]);
    config_add(to, "%s", list ? "]" : "");
}

/* A rising list is a count and its numbers. */
static int rising_add(const struct config_key *key, const char *text, bool quoted, void *where) {
    size_t *count = where;
    double *of = (double *)(count + 1), value;
    if (quoted || !parse_real(text, &value) || !in_range(key, value) || *count == key->type->most ||
        (*count && value <= of[*count - 1]))
        return -1;
    of[(*count)++] = value;
    return 0;
}

static void rising_print(const struct config_key *key, const void *where, struct config_text *to) {
    const size_t *count = where;
    const double *of = (const double *)(count + 1);
    (void)key;
    config_add(to, "[");
    for (size_t n = 0; n < *count; n++)
        config_add(to, "%s%.15g", n ? ", " : "", of[n]);
    config_add(to, "]");
}

#define RISING .add = rising_add, .read = items_read, .print = rising_print
_Static_assert(offsetof(struct levels, of) == sizeof(size_t) &&
                   offsetof(struct radius, of) == sizeof(size_t),
               "a rising list");

const struct value_type value_radius = {"list of numbers",
                                        "two rising numbers from $low to $high, as in [0.9, 0.999]",
                                        sizeof(struct radius), .most = 2, RISING};

const struct value_type value_levels = {
    "list of numbers",     "a rising list of at most $most numbers from $low to $high",
    sizeof(struct levels), .most = LEVELS_MAX,
    .empty = true,         RISING};

const struct value_type value_ahead = {
    "whole number or list of them",
    "a whole number from $low to $high, or an ascending list of at most $most, as in [1, 6, 24]",
    sizeof(struct ahead),
    .most = AHEAD_MAX,
    .whole = true,
    .either = true,
    .add = ahead_add,
    ITEMS,
    .print = ahead_print};

/* Channels, rows and columns: zeros are not given. */
static int shape_add(const struct config_key *key, const char *text, bool quoted, void *where) {
    struct grid_shape *s = where;
    size_t *next = !s->channels ? &s->channels : !s->rows ? &s->rows : &s->columns;
    double value;
    if (quoted || !parse_whole(text, &value) || !in_range(key, value) || *next)
        return -1;
    *next = (size_t)value;
    return 0;
}

static int shape_read(const struct walk *walk, const yaml_node_t *node,
                      const struct config_key *key, const char *path, void *where) {
    if (items_read(walk, node, key, path, where) != 0)
        return -1;
    return ((struct grid_shape *)where)->columns ? 0 : config_fail_value(walk, node, key, path);
}

static void shape_print(const struct config_key *key, const void *where, struct config_text *to) {
    const struct grid_shape *shape = where;
    (void)key;
    if (shape->channels)
        config_add(to, "[%zu, %zu, %zu]", shape->channels, shape->rows, shape->columns);
}

const struct value_type value_shape = {
    "list of numbers",         "three whole numbers from $low to $high, as in [1, 28, 28]",
    sizeof(struct grid_shape), .add = shape_add,
    .read = shape_read,
    .print = shape_print};

/* "0,2-5" as in taskset(1): ascending ranges. */
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

static int pin_store(const struct config_key *key, const char *text, bool quoted, void *where) {
    bool boolean;
    if (quoted || !parse_boolean(text, &boolean))
        return text_store(key, text, quoted, where);
    strcpy(where, boolean ? "true" : "false");
    return 0;
}

static int pin_add(const struct config_key *key, const char *text, bool quoted, void *where) {
    char all[2 * CONFIG_PIN_SIZE];
    const char *pin = where;
    if (strlen(text) >= CONFIG_PIN_SIZE)
        return -1;
    snprintf(all, sizeof all, "%s%s%s", pin, *pin ? "," : "", text);
    return text_store(key, all, quoted, where);
}

static void pin_print(const struct config_key *key, const void *where, struct config_text *to) {
    const char *pin = where;
    if (*pin == 't' || *pin == 'f')
        config_add(to, "%s", pin);
    else
        text_print(key, where, to);
}

const struct value_type value_pin = {"truth value, text or list of CPUs",
                                     "false, true, or ascending CPUs as in [0, 2, 3] or \"0,2-3\"",
                                     CONFIG_PIN_SIZE,
                                     .good = cpus_good,
                                     .is_text = true,
                                     .either = true,
                                     .store = pin_store,
                                     .add = pin_add,
                                     .read = items_read,
                                     .print = pin_print};

static int set_add(const struct config_key *key, const char *text, bool quoted, void *where) {
    unsigned *set = where;
    size_t place;
    (void)quoted;
    if (!strcmp(text, CONFIG_EMPTY_SET)) {
        *set = 0;
        return 0;
    }
    if (!config_words_contain(key->words, text, &place) || *set >> place & 1)
        return -1;
    *set |= 1u << place;
    return 0;
}

static void set_print(const struct config_key *key, const void *where, struct config_text *to) {
    unsigned set = *(const unsigned *)where;
    const char *before = "[";
    for (size_t n = 0; n < config_words_count(key->words); n++)
        if (set >> n & 1) {
            config_add(to, "%s", before);
            add_word(to, key->words, n);
            before = ", ";
        }
    config_add(to, set ? "]" : CONFIG_EMPTY_SET);
}

const struct value_type value_set = {
    "list of words",   "a list of $words, each once", sizeof(unsigned), .add = set_add, ITEMS,
    .print = set_print};

/* Add one more prefix; an empty one matches every key. */
static int prefix_add(const struct config_key *key, const char *text, bool quoted, void *where) {
    struct share_config *share = where;
    (void)key, (void)quoted;
    if (share->count == CONFIG_SHARES_MAX || strlen(text) >= CONFIG_SHARE_SIZE)
        return -1;
    for (size_t n = 0; n < share->count; n++)
        if (!strcmp(share->prefixes[n], text))
            return -1;
    strcpy(share->prefixes[share->count++], text);
    return 0;
}

static void prefixes_print(const struct config_key *key, const void *where,
                           struct config_text *to) {
    const struct share_config *share = where;
    (void)key;
    config_add(to, "[");
    for (size_t n = 0; n < share->count; n++) {
        config_add(to, n ? ", " : "");
        add_quoted(to, share->prefixes[n]);
    }
    config_add(to, "]");
}

const struct value_type value_prefixes = {
    "list of texts",
    "a list of at most $most texts of at most $bytes bytes, each once",
    sizeof(struct share_config),
    .most = CONFIG_SHARES_MAX,
    .bytes = CONFIG_SHARE_SIZE - 1,
    .either = true,
    .empty = true,
    .add = prefix_add,
    ITEMS,
    .print = prefixes_print};

/* ---- Any value ---- */

int config_value_store(const struct config_key *key, size_t layer, const char *text, bool quoted,
                       void *draft) {
    return key->type->store
               ? key->type->store(key, text, quoted, config_value_home(key, layer, draft))
               : -1;
}

int config_value_read(const struct walk *walk, const yaml_node_t *node,
                      const struct config_key *key, size_t layer, const char *path, void *draft) {
    if (key->type->read && (!key->type->either || node->type == YAML_SEQUENCE_NODE))
        return key->type->read(walk, node, key, path, config_value_home(key, layer, draft));
    return walk_has_text(node) &&
                   config_value_store(key, layer, walk_text(node), !walk_is_plain(node), draft) == 0
               ? 0
               : config_fail_value(walk, node, key, path);
}

void config_value_default(const struct config_key *key, size_t layer, void *draft) {
    void *where = config_value_home(key, layer, draft);
    memset(where, 0, key->type->is_text ? 1 : key->type->size);
    if (key->fallback)
        config_value_store(key, layer, key->earlier ? key->earlier : key->fallback, false, draft);
    else if (key->type == &value_set)
        *(unsigned *)where = (2u << config_words_count(key->words)) - 1; /* one bit more: default */
}

bool config_value_same(const struct config_key *key, size_t layer, const void *a, const void *b) {
    const void *left = config_value_home(key, layer, a), *right = config_value_home(key, layer, b);
    if (key->type->same)
        return key->type->same(key, left, right);
    return key->type->is_text ? !strcmp(left, right) : !memcmp(left, right, key->type->size);
}

void config_value_copy(const struct config_key *key, size_t layer, const void *from, void *to) {
    memcpy(config_value_home(key, layer, to), config_value_home(key, layer, from), key->type->size);
}

void config_value_expected(const struct config_key *key, char *text, size_t size) {
    const struct value_type *type = key->type;
    const char *below = key->flags & KEY_BELOW ? "below " : "";
    char words[CONFIG_TEXT_SIZE];
    struct config_text to = {.text = text, .size = size};
    for (const char *c = type->expected; *c;) {
        size_t length = strcspn(c, "$");
        config_add(&to, "%.*s", (int)length, c);
        c += length;
        if (!*c)
            break;
        if (c[1] == 'm' || c[1] == 'b')
            config_add(&to, "%zu",
                       c[1] == 'm'   ? type->most
                       : type->bytes ? type->bytes
                                     : type->size - 1);
        else if (c[1] == 'l' || c[1] == 'h')
            config_add(&to, type->whole ? "%s%.0f" : "%s%.10g", c[1] == 'h' ? below : "",
                       c[1] == 'h' ? key->maximum : key->minimum);
        else {
            snprintf(words, sizeof words, "%s%s", c[1] == 't' ? TRUTHS "|" : "", key->words);
            config_words_list(words, to.text + to.used, to.size - to.used);
            to.used += strlen(to.text + to.used);
        }
        c += strcspn(c, " ,");
    }
}

void config_value_write(struct config_text *to, const struct config_key *key, size_t layer,
                        const void *draft) {
    key->type->print(key, config_value_home(key, layer, draft), to);
}

void config_value_print(const struct config_key *key, size_t layer, const void *draft, char *text,
                        size_t size) {
    struct config_text to = {.text = text, .size = size};
    *text = 0;
    config_value_write(&to, key, layer, draft);
}

int config_fail_value(const struct walk *walk, const yaml_node_t *node,
                      const struct config_key *key, const char *path) {
    char expected[CONFIG_TEXT_SIZE], found[CONFIG_TEXT_SIZE], meant[CONFIG_TEXT_SIZE];
    const char *text = node->type == YAML_SCALAR_NODE ? walk_text(node) : "";
    config_value_expected(key, expected, sizeof expected);
    if (key->type == &value_prefixes && strchr(text, '=')) { /* the rest may be a secret */
        size_t size = strcspn(text, "=");
        return walk_fail(walk, node, path, "expected %s (%s), got \"%.*s=...\"", expected,
                         key->what, (int)(size < CONFIG_SHOWN_MAX ? size : CONFIG_SHOWN_MAX), text);
    }
    return walk_fail(walk, node, path, "expected %s (%s), got %s%s", expected, key->what,
                     walk_shown(node, found),
                     key->words ? config_word_meant(key->words, text, meant) : "");
}
