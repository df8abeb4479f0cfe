#include "place.h"

#define FACTOR 0x9E3779B97F4A7C15u
#define LETTERS_MOST 255 /* no expert distinguishes more */

/* ---- Contexts ---- */

static uint64_t of_word(const struct symbols_place *p) {
    return place_hash(p->word ? p->word : place_back(p, 1), 101);
}

static uint64_t of_words(const struct symbols_place *p) {
    return place_hash(place_hash(p->word, p->word_before),
                      place_hash(p->word ? 0 : place_back(p, 1), 102));
}

static uint64_t of_second(const struct symbols_place *p) {
    return place_hash(place_back(p, 2), 103);
}

static uint64_t of_first_and_third(const struct symbols_place *p) {
    return place_hash(place_hash(place_back(p, 1), place_back(p, 3)), 104);
}

static uint64_t of_second_and_third(const struct symbols_place *p, uint64_t number) {
    return place_hash(place_hash(place_back(p, 2), place_back(p, 3)), number);
}

static uint64_t of_pair(const struct symbols_place *p) {
    return of_second_and_third(p, 105);
}

static uint64_t of_two_bytes(const struct symbols_place *p) {
    return of_second_and_third(p, 103);
}

static uint64_t of_field(const struct symbols_place *p) {
    return place_hash(place_hash(p->field, p->fields), 104);
}

static uint64_t of_above(const struct symbols_place *p) {
    return place_hash(place_hash(p->field, p->line[p->fields]), 105);
}

static uint64_t of_column(const struct symbols_place *p) {
    return place_hash(place_hash(place_back(p, 1), p->line[p->fields]), 106);
}

static const struct context kinds[] = {
    {SYMBOLS_word, true, false, of_word},      {SYMBOLS_words, true, true, of_words},
    {SYMBOLS_skip, true, false, of_two_bytes}, {SYMBOLS_field, true, false, of_field},
    {SYMBOLS_above, true, true, of_above},     {SYMBOLS_column, true, false, of_column},
    {SYMBOLS_skip, false, false, of_second},   {SYMBOLS_skip, false, false, of_first_and_third},
    {SYMBOLS_skip, false, false, of_pair},
};

/* The lengths of repeats: of bytes, of at most 16 symbols, of others. */
static const uint32_t lengths[][REPEATS] = {{8, 24}, {16, 24}, {4, 12}};

void contexts_open(struct contexts *contexts, const struct symbols_options *options) {
    bool few = options->symbols <= SYMBOLS_FEW;
    *contexts = (struct contexts){.bytes = options->bytes, .stride = few ? 2 : 1};
    if (options->experts & 1u << SYMBOLS_orders)
        contexts->count = contexts->orders = ORDERS; /* their expert is number 0 */
    for (const struct context *kind = kinds; kind < kinds + sizeof kinds / sizeof *kinds; kind++)
        if (kind->bytes == options->bytes && options->experts & 1u << kind->expert) {
            size_t n = contexts->count++;
            contexts->experts[n] = kind->expert;
            contexts->extends[n] = kind->extends && options->experts & 1u << kind[-1].expert;
            contexts->hash[n] = kind->hash;
        }
    for (size_t r = 0; r < REPEATS; r++) {
        struct span *span = &contexts->repeats[r];
        *span = (struct span){lengths[options->bytes ? 0 : few ? 1 : 2][r], 1};
        for (uint32_t n = 0; n < span->length; n++)
            span->power *= FACTOR;
    }
}

void contexts_hash(const struct contexts *contexts, const struct symbols_place *place,
                   uint64_t *hashes) {
    uint64_t hash = 0;
    for (uint32_t n = 0, back = 0; n < contexts->orders; n++) {
        for (uint32_t i = 0; i < contexts->stride; i++)
            hash = place_hash(hash, place_back(place, ++back));
        hashes[n] = place_hash(hash, n + 1);
    }
    for (size_t n = contexts->orders; n < contexts->count; n++)
        hashes[n] = contexts->hash[n](place);
}

/* ---- The next symbol ---- */

uint32_t place_letter(uint32_t byte) {
    return byte >= 'A' && byte <= 'Z'                   ? byte + ('a' - 'A')
           : (byte >= 'a' && byte <= 'z') || byte > 127 ? byte
                                                        : 0;
}

uint32_t place_kind(uint32_t byte) {
    uint32_t letter = byte | ('a' - 'A');
    return letter >= 'a' && letter <= 'z' ? 0
           : byte <= ' '                  ? 1
           : byte >= '0' && byte <= '9'   ? 2
                                          : 3;
}

static void next_byte(struct symbols_place *place, uint32_t byte) {
    uint32_t letter = place_letter(byte);
    if (!letter)
        place->letters = 0;
    else if (place->letters < LETTERS_MOST)
        place->letters++;
    if (letter) {
        place->word = place_hash(place->word, letter);
    } else if (place->word) {
        place->word_before = place->word;
        place->word = 0;
    }
    switch (byte) {
    case '\n':
    case '\t':
    case ' ':
    case ',':
    case ':':
    case '/':
        place->line[place->fields] = place->field;
        place->field = 0;
        if (byte == '\n')
            place->fields = 0;
        else if (place->fields < SYMBOLS_FIELDS - 1)
            place->fields++;
        break;
    default:
        place->field = place_hash(place->field, byte);
    }
}

void place_next(struct symbols_place *place, const struct contexts *contexts, uint32_t symbol) {
    for (size_t r = 0; r < REPEATS; r++) {
        const struct span *span = &contexts->repeats[r];
        uint64_t leaving =
            place->steps >= span->length ? (uint64_t)place_back(place, span->length) + 1 : 0;
        place->rolling[r] = place->rolling[r] * FACTOR + symbol + 1 - leaving * span->power;
    }
    if (contexts->bytes)
        next_byte(place, symbol);
    place->newest[place->steps++ % SYMBOLS_NEWEST] = symbol;
}
