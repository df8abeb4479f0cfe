/* Plays the cases of an executable specification against src/symbols/symbols.h: play_symbols
   CASE.json... prints one line a case, and exits with 1 when any loss or probability differs by
   more than 1e-4, or a symbol of the top whose probability differs by more than that from the next
   one's. A case: keys (bytes, symbols, memory: log2, seen, net); events [stream, symbol or word,
   learn]; loss of each; k; top: after each tenth event [symbol or word, probability]...; network: a
   distribution for each event and each top; capacity: symbols are words; tables: own, one of each
   stream. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "symbols/symbols.h"

enum { STREAMS = 8, WORDS = 64 };

static const double most = sizeof(symbols_real) == sizeof(float) ? 1e-4 : 1e-6;
static double worst;

static void compare(double want, double got) {
    double difference = fabs(got - want);
    if (!(difference <= worst))
        worst = isnan(difference) ? (double)INFINITY : difference;
}

/* ---- A case ---- */

struct play {
    const json_t *of;
    struct symbols *symbols[STREAMS];
    struct symbols_place places[STREAMS];
    bool own, words;
    size_t capacity, known; /* words */
    const char *word[WORDS];
    float *network;
    size_t networks;
};

static size_t option(const struct play *play, const char *key, size_t missing) {
    const json_t *value = json_object_get(json_object_get(play->of, "keys"), key);
    return value ? (size_t)json_integer_value(value) : missing;
}

static struct symbols *symbols_of(struct play *play, size_t stream) {
    struct symbols **symbols = &play->symbols[play->own ? stream : 0];
    struct symbols_options options = {
        .bytes = option(play, "bytes", 1),
        .symbols = option(play, "symbols", 256),
        .seen = option(play, "seen", option(play, "symbols", 256)),
        .memory = (size_t)1 << option(play, "memory", 26),
        .experts = symbols_experts(option(play, "bytes", 1), option(play, "symbols", 256)),
        .network = option(play, "net", 0),
    };
    if (!*symbols && symbols_open(symbols, &options, NULL))
        exit(1);
    return *symbols;
}

/* The next distribution of the case; NULL without a network. */
static const float *network_of(struct play *play) {
    const json_t *row = json_array_get(json_object_get(play->of, "network"), play->networks++);
    for (size_t n = 0; n < json_array_size(row); n++)
        play->network[n] = (float)json_real_value(json_array_get(row, n));
    return row ? play->network : NULL;
}

/* A word is the unknown symbol 0 when it appears, and number + 1 later. */
static uint32_t symbol_of(struct play *play, const json_t *value) {
    if (!play->words)
        return (uint32_t)json_integer_value(value);
    for (size_t n = 0; n < play->known; n++)
        if (strcmp(play->word[n], json_string_value(value)) == 0)
            return (uint32_t)n + 1;
    if (play->known < play->capacity)
        play->word[play->known++] = json_string_value(value);
    return 0;
}

static bool is_symbol(const struct play *play, const json_t *value, uint32_t symbol) {
    if (!play->words)
        return json_integer_value(value) == symbol;
    return symbol ? json_is_string(value) &&
                        strcmp(json_string_value(value), play->word[symbol - 1]) == 0
                  : json_is_null(value);
}

static void compare_top(struct play *play, struct symbols *symbols, size_t stream, size_t number) {
    struct symbols_guess top[SYMBOLS_TOP_MAX];
    const json_t *want = json_array_get(json_object_get(play->of, "top"), number);
    size_t k = (size_t)json_integer_value(json_object_get(play->of, "k"));
    size_t count = symbols_top(symbols, &play->places[stream], network_of(play), false, top, k);
    if (count != json_array_size(want))
        worst = INFINITY;
    for (size_t n = 0; n < count && n < json_array_size(want); n++) {
        const json_t *guess = json_array_get(want, n);
        double p = json_real_value(json_array_get(guess, 1));
        compare(p, top[n].probability);
        bool close = false; /* to a neighbour */
        for (size_t m = n ? n - 1 : 0; m < n + 2 && m <= json_array_size(want); m++) {
            const json_t *other = json_array_get(json_array_get(want, m), 1);
            close |= m != n && (!other || fabs(json_real_value(other) - p) <= most);
        }
        if (!close && !is_symbol(play, json_array_get(guess, 0), top[n].symbol))
            worst = INFINITY;
    }
}

/* The states after it must be valid. */
static void play(const json_t *of) {
    const json_t *events = json_object_get(of, "events"), *tables = json_object_get(of, "tables");
    struct play play = {.of = of, .own = tables && !strcmp(json_string_value(tables), "own")};
    play.words = json_object_get(of, "capacity");
    play.capacity = (size_t)json_integer_value(json_object_get(of, "capacity"));
    play.network = calloc(option(&play, "symbols", 256), sizeof *play.network);
    if (play.capacity > WORDS || !play.network)
        exit(1);
    for (size_t n = 0; n < json_array_size(events); n++) {
        const json_t *event = json_array_get(events, n);
        size_t stream = (size_t)json_integer_value(json_array_get(event, 0)) % STREAMS;
        struct symbols *symbols = symbols_of(&play, stream);
        uint32_t symbol = symbol_of(&play, json_array_get(event, 1));
        struct symbols_loss loss =
            symbols_take(symbols, &play.places[stream], symbol, network_of(&play),
                         json_integer_value(json_array_get(event, 2)), NULL);
        if (play.words)
            symbols_appeared(symbols, play.known + 1);
        compare(json_real_value(json_array_get(json_object_get(of, "loss"), n)), loss.mixture);
        if (n % 10 == 9)
            compare_top(&play, symbols, stream, n / 10);
    }
    for (size_t n = 0; n < STREAMS; n++) {
        if (play.symbols[n] && !symbols_valid(play.symbols[n]))
            worst = INFINITY;
        symbols_close(&play.symbols[n]);
    }
    free(play.network);
}

int main(int argc, char **argv) {
    int failed = argc < 2;
    for (int n = 1; n < argc; n++) {
        json_error_t error;
        json_t *of = json_load_file(argv[n], 0, &error);
        worst = json_array_size(json_object_get(of, "events")) ? 0 : INFINITY;
        play(of);
        printf("%s %s: differs by %g at most\n", worst <= most ? "ok  " : "FAIL", argv[n], worst);
        failed |= !(worst <= most);
        json_decref(of);
    }
    return failed;
}
