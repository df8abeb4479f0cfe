/* The one table of keys, and questions about their paths. */
#include "config_internal.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct draft, config.member)
#define IN_LAYER(member) (AT(architecture.layers) + offsetof(struct layer, member))
#define IN_DRAFT(member) offsetof(struct draft, member)

#define CELL "model.layers.*.cell"
#define NORM "model.layers.*.norm"
#define KIND "learning.optimizer.kind"

#define COUNT_MAX 9007199254740991.0 /* 2^53 - 1: exact as a JSON number too */
#define INPUT_MAX 1e6
#define LAYER_SIZE_MAX 65536
#define COMPONENTS_MAX 1024
#define WINDOW_MAX 65536
#define STREAMS_MAX 1048576
#define EVERY_MAX 1e9
#define SECONDS_MAX 31536000.0 /* a year */
#define RATE_MAX 100
#define DECAY_MAX 100
#define CLIP_MAX 1e9
#define START_MAX 100     /* of the starting values of gains and biases */
#define EPSILON_MIN 1e-30 /* 0 would divide 0 by 0 where a gradient is 0 */

#define RANGE(low, high) .minimum = (low), .maximum = (high)
#define WHEN(path, words) .when = (path), .is = (words)

/* clang-format off */
const struct config_key config_keys[] = {
    {"name", VALUE_NAME, AT(name), .flags = KEY_REQUIRED,
     .what = "what this daemon is called"},
    {"seed", VALUE_COUNT, AT(seed), RANGE(0, COUNT_MAX), .fallback = "1", .flags = KEY_DIGEST,
     .what = "seed of the starting weights"},
    {"device", VALUE_DEVICE, AT(device), .fallback = "auto",
     .what = "what computes"},

    {"model.initial", VALUE_PATH, AT(initial),
     .what = "file of tensors to start from"},
    {"model.input.kind", VALUE_WORD, AT(architecture.input.kind), .words = "real|symbol",
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "what an input is"},
    {"model.input.size", VALUE_SIZE, AT(architecture.input.size), RANGE(1, INPUT_MAX),
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "numbers in an input, or size of the alphabet"},
    {"model.input.embedding", VALUE_SIZE, AT(architecture.input.embedding),
     RANGE(0, LAYER_SIZE_MAX), .fallback = "0", WHEN("model.input.kind", "symbol"),
     .flags = KEY_DIGEST, .what = "width of the learned embedding, 0 = one-hot"},
    {"model.input.scale", VALUE_CHOICE, AT(architecture.input.standard), .words = "none|standard",
     .fallback = "none", WHEN("model.input.kind", "real"), .flags = KEY_DIGEST,
     .what = "running standardization of inputs"},
    {"model.input.missing", VALUE_CHOICE, AT(architecture.input.hold), .words = "reject|hold",
     .fallback = "reject", WHEN("model.input.kind", "real"), .flags = KEY_DIGEST,
     .what = "what becomes of a NaN input"},

    {CELL, VALUE_WORD, IN_LAYER(cell), .words = "dense|rnn|gru|lstm",
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "the layer's kind"},
    {"model.layers.*.size", VALUE_SIZE, IN_LAYER(size), RANGE(1, LAYER_SIZE_MAX),
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "units of the layer"},
    {NORM, VALUE_CHOICE, IN_LAYER(norm), .words = "none|layer", .fallback = "layer",
     .flags = KEY_DIGEST, .what = "layer normalization"},
    {"model.layers.*.activation", VALUE_WORD, IN_LAYER(activation), .words = "relu|tanh|identity",
     .fallback = "relu", WHEN(CELL, "dense"), .flags = KEY_DIGEST,
     .what = "function of a dense layer"},
    {"model.layers.*.gain", VALUE_FLOAT, IN_LAYER(gain), RANGE(0, START_MAX), .fallback = "1.0",
     WHEN(NORM, "layer"), .flags = KEY_DIGEST, .what = "starting value of the gains"},
    {"model.layers.*.forget_bias", VALUE_FLOAT, IN_LAYER(forget_bias),
     RANGE(-START_MAX, START_MAX), .fallback = "0.0", WHEN(CELL, "lstm"), .flags = KEY_DIGEST,
     .what = "added to the forget gate's starting bias"},

    {"model.output.loss", VALUE_WORD, AT(architecture.output.loss),
     .words = "squared|gaussian|softmax|bernoulli|mixture", .flags = KEY_REQUIRED | KEY_DIGEST,
     .what = "what is minimized"},
    {"model.output.size", VALUE_SIZE, AT(architecture.output.size), RANGE(1, INPUT_MAX),
     .flags = KEY_DIGEST, .what = "numbers in a target, or classes"},
    {"model.output.components", VALUE_SIZE, AT(architecture.output.components),
     RANGE(1, COMPONENTS_MAX), WHEN("model.output.loss", "mixture"),
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "normal distributions in the mixture"},
    {"model.output.target", VALUE_WORD, AT(architecture.output.target), .words = "given|next",
     .fallback = "given", .flags = KEY_DIGEST, .what = "where targets come from"},

    {"learning.window", VALUE_SIZE, AT(learning.window), RANGE(1, WINDOW_MAX), .fallback = "16",
     .flags = KEY_DIGEST, .what = "steps that the gradient reaches back"},
    {"learning.stride", VALUE_SIZE, AT(learning.stride), RANGE(1, WINDOW_MAX),
     .flags = KEY_DIGEST, .what = "steps between two updates"},
    {KIND, VALUE_WORD, AT(learning.optimizer.kind), .words = "sgd|rmsprop|adam|adamw",
     .fallback = "adam", .flags = KEY_DIGEST, .what = "the optimizer"},
    {"learning.optimizer.rate", VALUE_REAL, AT(learning.optimizer.rate), RANGE(0, RATE_MAX),
     .fallback = "0.001", .flags = KEY_IN_FLIGHT, .what = "learning rate"},
    {"learning.optimizer.momentum", VALUE_REAL, AT(learning.optimizer.momentum), RANGE(0, 1),
     .fallback = "0", WHEN(KIND, "sgd"), .flags = KEY_DIGEST | KEY_BELOW,
     .what = "share of the previous step that is kept"},
    {"learning.optimizer.nesterov", VALUE_BOOLEAN, AT(learning.optimizer.nesterov),
     .fallback = "false", WHEN(KIND, "sgd"), .flags = KEY_DIGEST,
     .what = "Nesterov's momentum"},
    {"learning.optimizer.alpha", VALUE_REAL, AT(learning.optimizer.alpha), RANGE(0, 1),
     .fallback = "0.99", WHEN(KIND, "rmsprop"), .flags = KEY_DIGEST | KEY_BELOW,
     .what = "decay of the squared gradient's average"},
    {"learning.optimizer.beta1", VALUE_REAL, AT(learning.optimizer.beta1), RANGE(0, 1),
     .fallback = "0.9", WHEN(KIND, "adam|adamw"), .flags = KEY_DIGEST | KEY_BELOW,
     .what = "decay of the gradient's average"},
    {"learning.optimizer.beta2", VALUE_REAL, AT(learning.optimizer.beta2), RANGE(0, 1),
     .fallback = "0.999", WHEN(KIND, "adam|adamw"), .flags = KEY_DIGEST | KEY_BELOW,
     .what = "decay of the squared gradient's average"},
    {"learning.optimizer.epsilon", VALUE_REAL, AT(learning.optimizer.epsilon),
     RANGE(EPSILON_MIN, 1), .fallback = "1e-8", WHEN(KIND, "rmsprop|adam|adamw"),
     .flags = KEY_DIGEST, .what = "added to the divisor"},
    {"learning.optimizer.weight_decay", VALUE_REAL, AT(learning.optimizer.weight_decay),
     RANGE(0, DECAY_MAX), .fallback = "0", .flags = KEY_DIGEST,
     .what = "pull of the parameters towards 0"},
    {"learning.clip", VALUE_REAL, AT(learning.clip), RANGE(0, CLIP_MAX), .fallback = "0",
     .flags = KEY_IN_FLIGHT, .what = "largest gradient norm, 0 = no clipping"},
    {"learning.max_streams", VALUE_SIZE, AT(learning.max_streams), RANGE(1, STREAMS_MAX),
     .fallback = "1024", .flags = KEY_DIGEST, .what = "streams remembered at once"},

    {"examples.bind", VALUE_BIND, AT(examples.endpoint),
     .what = "where feeders connect"},
    {"examples.connect", VALUE_CONNECT, IN_DRAFT(examples_connect),
     .what = "a bound feeder to connect to"},
    {"examples.socket", VALUE_WORD, AT(examples_socket), .words = "pull|sub|router", .fallback = "pull",
     .what = "ZeroMQ socket type"},
    {"statistics.bind", VALUE_BIND, AT(statistics.endpoint),
     .what = "where subscribers connect"},
    {"statistics.connect", VALUE_CONNECT, IN_DRAFT(statistics_connect),
     .what = "a bound proxy to connect to"},
    {"statistics.every", VALUE_COUNT, AT(statistics_every), RANGE(1, EVERY_MAX),
     .fallback = "100", .flags = KEY_IN_FLIGHT, .what = "examples between two loss messages"},
    {"statistics.predictions", VALUE_BOOLEAN, AT(predictions), .fallback = "false",
     .flags = KEY_RELOAD, .what = "publish every prediction"},
    {"control.bind", VALUE_BIND, AT(control.endpoint),
     .what = "where controllers connect"},
    {"control.connect", VALUE_CONNECT, IN_DRAFT(control_connect),
     .what = "a bound proxy to connect to"},

    {"security.secret", VALUE_PATH, AT(security.secret),
     .what = "file of the daemon's secret key"},
    {"security.allow.examples", VALUE_PATH, AT(security.allow[SOCKET_EXAMPLES]),
     .flags = KEY_RELOAD, .what = "file of the keys that may send examples"},
    {"security.allow.statistics", VALUE_PATH, AT(security.allow[SOCKET_STATISTICS]),
     .flags = KEY_RELOAD, .what = "file of the keys that may read statistics"},
    {"security.allow.control", VALUE_PATH, AT(security.allow[SOCKET_CONTROL]),
     .flags = KEY_RELOAD, .what = "file of the keys that may control"},
    {"security.insecure", VALUE_BOOLEAN, AT(security.insecure), .fallback = "false",
     .flags = KEY_RELOAD, .what = "bind beyond this machine without keys"},

    {"state.directory", VALUE_PATH, AT(state_directory),
     .what = "where checkpoints are kept"},
    {"state.checkpoint.examples", VALUE_COUNT, AT(checkpoint.examples), RANGE(0, COUNT_MAX),
     .fallback = "100000", .flags = KEY_RELOAD, .what = "examples between two checkpoints, 0 = not by count"},
    {"state.checkpoint.seconds", VALUE_REAL, AT(checkpoint.seconds), RANGE(0, SECONDS_MAX),
     .fallback = "60", .flags = KEY_RELOAD, .what = "seconds between two checkpoints, 0 = not by time"},
    {"state.journal.enabled", VALUE_BOOLEAN, AT(journal.enabled), .fallback = "true",
     .what = "write what is learned to a journal"},
    {"state.journal.sync", VALUE_WORD, AT(journal.sync), .words = "full|normal|off",
     .fallback = "full", .what = "what an acknowledged example outlives"},
    {"state.journal.keep", VALUE_KEEP, AT(journal.keep), .words = "checkpoint|all",
     .fallback = "checkpoint", .what = "which examples stay in the journal"},
};
/* clang-format on */

const size_t config_key_count = sizeof config_keys / sizeof *config_keys;
_Static_assert(sizeof config_keys / sizeof *config_keys <= CONFIG_KEYS_MAX, "places are too few");

/* How a path relates to a key's, component by component; '*' stands for any number. */
enum relation {
    RELATION_NONE,
    RELATION_ABOVE,       /* the path is a mapping around the key */
    RELATION_ABOVE_LAYER, /* likewise a list: what comes next is '*' */
    RELATION_SAME,
    RELATION_BELOW, /* the path goes on below the key */
};

static bool is_number(const char *text, size_t length) {
    static const size_t digits_max = 6;
    size_t digits = strspn(text, "0123456789");
    bool padded = length > 1 && *text == '0';
    return length > 0 && length <= digits_max && digits >= length && !padded;
}

static enum relation relate(const char *key, const char *path, size_t *layer, bool *any_layer) {
    *any_layer = true;
    while (*path) {
        size_t key_length = strcspn(key, "."), length = strcspn(path, ".");
        if (*key == '*') {
            if (!is_number(path, length))
                return RELATION_NONE;
            *layer = strtoul(path, NULL, 10);
            *any_layer = false;
        } else if (key_length != length || memcmp(key, path, length) != 0) {
            return RELATION_NONE;
        }
        key += key_length;
        path += length;
        if (!*key)
            return *path ? RELATION_BELOW : RELATION_SAME;
        key++;
        if (*path && !*++path)
            return RELATION_NONE; /* it ends with a dot */
    }
    return *key == '*' ? RELATION_ABOVE_LAYER : RELATION_ABOVE;
}

enum path_kind config_path_kind(const char *path, const struct config_key **key, size_t *layer) {
    for (size_t k = 0; k < config_key_count; k++) {
        size_t number = 0;
        bool any_layer;
        enum relation relation = relate(config_keys[k].path, path, &number, &any_layer);
        if (relation == RELATION_NONE || relation == RELATION_BELOW)
            continue;
        if (layer)
            *layer = number;
        if (key)
            *key = relation == RELATION_SAME ? &config_keys[k] : NULL;
        return relation == RELATION_SAME          ? PATH_KEY
               : relation == RELATION_ABOVE_LAYER ? PATH_LIST
                                                  : PATH_MAPPING;
    }
    return PATH_UNKNOWN;
}

bool config_key_below(const struct config_key *key, const char *path, size_t *layer,
                      bool *any_layer) {
    enum relation relation = relate(key->path, path, layer, any_layer);
    return relation != RELATION_NONE && relation != RELATION_BELOW;
}

bool config_key_layered(const struct config_key *key) {
    return strchr(key->path, '*') != NULL;
}

void config_key_path(const struct config_key *key, size_t layer, char path[CONFIG_KEY_SIZE]) {
    const char *star = strchr(key->path, '*');
    if (star)
        snprintf(path, CONFIG_KEY_SIZE, "%.*s%zu%s", (int)(star - key->path), key->path, layer,
                 star + 1);
    else
        snprintf(path, CONFIG_KEY_SIZE, "%s", key->path);
}

/* The component of `key` right below `path`, and its length; NULL when the key lies elsewhere. */
static const char *child(const struct config_key *key, const char *path, size_t *length) {
    size_t layer;
    bool any_layer;
    enum relation relation = relate(key->path, path, &layer, &any_layer);
    if (relation != RELATION_ABOVE && relation != RELATION_ABOVE_LAYER)
        return NULL;
    const char *at = key->path;
    for (const char *p = path; *p; p += strcspn(p, "."), p += *p == '.')
        at += strcspn(at, ".") + 1;
    *length = strcspn(at, ".");
    return at;
}

/* The next row from `*row` on that has another child of `path` than the row before it: children of
   one name stand together in the table. */
static const char *next_child(const char *path, size_t *row, size_t *length) {
    const char *before = NULL;
    size_t before_length = 0;
    if (*row > 0)
        before = child(&config_keys[*row - 1], path, &before_length);
    for (; *row < config_key_count; (*row)++) {
        const char *name = child(&config_keys[*row], path, length);
        bool same = name && before && *length == before_length && !memcmp(name, before, *length);
        if (name && !same) {
            (*row)++;
            return name;
        }
    }
    return NULL;
}

void config_path_children(const char *path, char *text, size_t size) {
    size_t used = 0, length;
    const char *name;
    text[0] = 0;
    for (size_t row = 0; used < size && (name = next_child(path, &row, &length));)
        used += snprintf(text + used, size - used, "%s%.*s", used ? ", " : "", (int)length, name);
}

/* Edits (insert, delete, replace, swap neighbours) that make `a` of `b`, for short words; the
   optimal string alignment distance. Case does not count. */
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

/* Whether `word` is nearer to `text` than `*best`, and near enough to have been meant. */
static bool nearer(const char *word, size_t word_length, const char *text, size_t *best) {
    enum { LETTERS_PER_EDIT = 3 };
    size_t length = strlen(text), edits = distance(word, word_length, text, length);
    size_t longer = length > word_length ? length : word_length;
    if (edits >= *best || edits > 1 + longer / LETTERS_PER_EDIT || edits >= longer)
        return false;
    *best = edits;
    return true;
}

/* The key elsewhere that ends in the same word, of several the one with the most in common. */
static bool same_word(const char *path, const char *last, char suggestion[CONFIG_KEY_SIZE]) {
    size_t most = 0;
    for (size_t k = 0; k < config_key_count; k++) {
        const char *key = config_keys[k].path, *word = strrchr(key, '.');
        size_t common = 1;
        while (key[common - 1] == path[common - 1] && key[common - 1])
            common++;
        if (word && !strcmp(word + 1, last) && common > most) {
            config_key_path(&config_keys[k], 0, suggestion);
            most = common;
        }
    }
    return most > 0;
}

bool config_path_suggest(const char *path, char suggestion[CONFIG_KEY_SIZE]) {
    const char *dot = strrchr(path, '.');
    const char *last = dot ? dot + 1 : path, *name;
    char parent[CONFIG_KEY_SIZE];
    if (same_word(path, last, suggestion))
        return true;
    snprintf(parent, sizeof parent, "%.*s", dot ? (int)(dot - path) : 0, path);
    size_t best = SIZE_MAX, length;
    size_t used = snprintf(suggestion, CONFIG_KEY_SIZE, "%s%s", parent, *parent ? "." : "");
    for (size_t row = 0; (name = next_child(parent, &row, &length));)
        if (*name != '*' && used + length < CONFIG_KEY_SIZE && nearer(name, length, last, &best)) {
            memcpy(suggestion + used, name, length);
            suggestion[used + length] = 0;
        }
    return best != SIZE_MAX;
}

bool config_word_suggest(const char *words, const char *text, char *suggestion, size_t size) {
    size_t best = SIZE_MAX;
    for (const char *word = words; *word; word += strcspn(word, "|"), word += *word == '|') {
        size_t length = strcspn(word, "|");
        if (nearer(word, length, text, &best))
            snprintf(suggestion, size, "%.*s", (int)length, word);
    }
    return best != SIZE_MAX;
}

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

void config_words_list(const char *words, char *text, size_t size) {
    size_t used = 0;
    for (const char *w = words; *w && used < size;) {
        size_t length = strcspn(w, "|");
        const char *before = w == words ? "" : w[length] ? ", " : " or ";
        used += snprintf(text + used, size - used, "%s%.*s", before, (int)length, w);
        w += length + (w[length] == '|');
    }
}
