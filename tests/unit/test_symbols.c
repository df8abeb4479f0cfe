/* Properties of the mixture of count experts. Its losses are compared by
 * tests/support/play_symbols.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/random.h"
#include "symbols/kneser.h"
#include "symbols/orders.h"
#include "symbols/symbols.h"

enum { MEMORY = 1 << 16, BYTES = 256 };

static const char text[] = "host-7 sshd[311]: session opened for user anna by uid=0\n"
                           "host-9 sshd[405]: session closed for user paul\n";

static const struct symbols_options of_bytes = {.bytes = 1,
                                                .symbols = BYTES,
                                                .seen = BYTES,
                                                .memory = MEMORY,
                                                .experts = ((1u << SYMBOLS_kneser) - 1) |
                                                           1u << SYMBOLS_LATE};

/* Classes of which only the first has appeared. */
static struct symbols_options of_classes(size_t symbols) {
    return (struct symbols_options){.symbols = symbols,
                                    .seen = 1,
                                    .memory = MEMORY,
                                    .experts = symbols_experts(false, symbols)};
}

static struct symbols *opened(struct symbols_options options) {
    struct symbols *symbols;
    assert_int_equal(symbols_open(&symbols, &options, NULL), 0);
    assert_true(symbols_valid(symbols));
    return symbols;
}

static double loss_of(struct symbols *symbols, struct symbols_place *place, uint32_t symbol,
                      bool learn) {
    double loss = symbols_take(symbols, place, symbol, NULL, learn, NULL).mixture;
    assert_true(isfinite(loss) && loss >= 0);
    return loss;
}

/* The mean loss of the text, in nats a byte. */
static double read_text(struct symbols *symbols, struct symbols_place *place, bool learn) {
    double sum = 0;
    for (const char *c = text; *c; c++)
        sum += loss_of(symbols, place, (unsigned char)*c, learn);
    return sum / (double)(sizeof text - 1);
}

static size_t bytes_of(const struct symbols_array *array) {
    return array->count * (array->type == 'f' ? sizeof(symbols_real) : sizeof(uint64_t));
}

static void copy(struct symbols *to, const struct symbols *from) {
    for (size_t n = 0; n < SYMBOLS_ARRAYS; n++)
        memcpy(symbols_arrays(to)[n].numbers, symbols_arrays(from)[n].numbers,
               bytes_of(&symbols_arrays(from)[n]));
    assert_true(symbols_valid(to));
}

static bool same(const struct symbols *a, const struct symbols *b) {
    bool equal = true;
    for (size_t n = 0; n < SYMBOLS_ARRAYS; n++)
        equal &= !memcmp(symbols_arrays(a)[n].numbers, symbols_arrays(b)[n].numbers,
                         bytes_of(&symbols_arrays(a)[n]));
    return equal;
}

static void a_second_reading_costs_little_in_any_stream(void **state) {
    struct symbols *symbols = opened(of_bytes);
    struct symbols_place one = {0}, other = {0};
    struct symbols_guess top;
    assert_true(read_text(symbols, &one, true) > 3);
    assert_true(read_text(symbols, &one, true) < 1);
    assert_true(read_text(symbols, &other, true) < 1);
    assert_int_equal(symbols_top(symbols, &other, NULL, false, &top, 1), 1);
    assert_int_equal(top.symbol, 'h');
    assert_true(top.probability > 0.5);
    symbols_close(&symbols);
    (void)state;
}

static void each_expert_alone_learns_a_period(void **state) {
    for (int expert = 0; expert < SYMBOLS_kneser; expert++) {
        struct symbols_options options = of_bytes;
        options.experts = (size_t)1 << expert;
        struct symbols *symbols = opened(options);
        struct symbols_place place = {0};
        double shares[SYMBOLS_INPUTS], sum = 0;
        for (int n = 0; n < 40; n++)
            read_text(symbols, &place, true);
        assert_true(read_text(symbols, &place, true) < 1.5);
        symbols_take(symbols, &place, 'h', NULL, true, shares);
        for (int n = 0; n < SYMBOLS_INPUTS; n++) {
            assert_true(shares[n] >= 0);
            sum += shares[n];
        }
        assert_float_equal(sum, 1, 1e-9);
        assert_true(shares[expert] > 0.3 && shares[SYMBOLS_NETWORK] == 0);
        symbols_close(&symbols);
    }
    (void)state;
}

static void without_learning_only_the_place_moves(void **state) {
    struct symbols *symbols = opened(of_bytes), *before = opened(of_bytes);
    struct symbols_place place = {0}, unlearned;
    read_text(symbols, &place, true);
    copy(before, symbols);
    unlearned = place;
    double loss = read_text(symbols, &unlearned, false);
    assert_true(same(symbols, before));
    assert_true(unlearned.steps == place.steps + sizeof text - 1);
    assert_true(loss_of(symbols, &unlearned, 0, false) > 0); /* never seen, never learned */
    assert_true(read_text(symbols, &place, true) != loss);
    symbols_close(&symbols);
    symbols_close(&before);
    (void)state;
}

static void a_copy_continues_with_the_same_bits(void **state) {
    struct symbols *symbols = opened(of_bytes), *other = opened(of_bytes);
    struct symbols_place place = {0}, moved;
    for (int n = 0; n < 50; n++)
        read_text(symbols, &place, true);
    copy(other, symbols);
    moved = place;
    for (int n = 0; n < 3; n++)
        assert_true(read_text(symbols, &place, true) == read_text(other, &moved, true));
    assert_true(same(symbols, other));
    assert_memory_equal(&place, &moved, sizeof place);
    symbols_close(&symbols);
    symbols_close(&other);
    (void)state;
}

/* The top of all symbols has their probabilities, and is sorted. */
static void the_top_is_exact(void **state) {
    for (size_t count = 3; count <= 90; count *= 5) {
        struct symbols *symbols = opened(of_classes(count));
        struct symbols_place place = {0};
        struct symbols_guess top[SYMBOLS_TOP_MAX];
        uint64_t seed = count;
        for (int n = 0; n < 2000; n++) {
            double u = random_uniform(&seed, 0, 1);
            loss_of(symbols, &place, (uint32_t)(u * u * (double)(count - 1)), true);
        }
        size_t found = symbols_top(symbols, &place, NULL, false, top, count);
        assert_true(found + 1 >= count - 1 && found <= count); /* the last one did not appear */
        double sum = 0;
        for (size_t n = 0; n < found; n++) {
            struct symbols_place there = place;
            assert_true(n == 0 || top[n].probability <= top[n - 1].probability);
            assert_float_equal(loss_of(symbols, &there, top[n].symbol, false),
                               -log(top[n].probability), 1e-9);
            sum += top[n].probability;
        }
        assert_float_equal(sum, 1, 1e-9);
        symbols_close(&symbols);
    }
    (void)state;
}

static void a_vocabulary_grows(void **state) {
    struct symbols *symbols = opened(of_classes(SYMBOLS_MAX));
    struct symbols_place place = {0};
    struct symbols_guess top[4];
    assert_true(loss_of(symbols, &place, 0, true) == 0); /* the only one */
    assert_int_equal(symbols_top(symbols, &place, NULL, false, top, 4), 1);
    symbols_appeared(symbols, 3);
    assert_int_equal(symbols_top(symbols, &place, NULL, false, top, 4), 3);
    for (int n = 0; n < 50; n++)
        loss_of(symbols, &place, n % 2 ? SYMBOLS_MAX - 1 : 1, true);
    assert_int_equal(symbols_top(symbols, &place, NULL, false, top, 1), 1);
    assert_int_equal(top->symbol, 1);
    symbols_close(&symbols);
    (void)state;
}

/* A network that knows the next symbol helps, also as the last of several; one that fails does no
   lasting harm; and the second mixture is that of a daemon without a network. */
static void learn_with(size_t networks) {
    struct symbols_options options = of_classes(32), apart = options;
    apart.network = networks;
    apart.apart = 1;
    struct symbols *symbols = opened(apart), *alone = opened(options);
    struct symbols_place place = {0}, there = {0};
    float network[SYMBOLS_NETWORKS_MAX * 32], *last = network + (networks - 1) * 32;
    uint64_t seed = 1;
    double known = 0, unknown = 0;
    for (int n = 0; n < 3000; n++) {
        uint32_t symbol = (uint32_t)random_below(&seed, 32);
        for (size_t i = 0; i < 32 * networks; i++)
            network[i] = i % 32 == (symbol + 1) % 32 ? 0.69F : 0.01F;
        for (uint32_t i = 0; i < 32; i++)
            last[i] = n == 1000 ? NAN : i == symbol ? 0.69F : 0.01F;
        struct symbols_loss loss = symbols_take(symbols, &place, symbol, network, true, NULL);
        assert_true(loss.experts == loss_of(alone, &there, symbol, true));
        assert_true(isfinite(loss.mixture));
        known += n >= 2000 ? loss.mixture / 1000 : 0;
        unknown += n >= 2000 ? loss.experts / 1000 : 0;
    }
    assert_true(unknown > 3.3 && known < 0.6);
    assert_true(symbols_valid(symbols));
    symbols_close(&symbols);
    symbols_close(&alone);
}

static void a_network_is_one_more_input(void **state) {
    for (size_t networks = 1; networks <= SYMBOLS_NETWORKS_MAX; networks++)
        learn_with(networks);
    (void)state;
}

/* ---- A repeat that keeps a position ---- */

enum { PASSAGE = 2500, RIGHT = 100 };

/* Two streams learn a passage each in turn; then each third symbol of both is another one. Returns
   the mean loss of the symbols that are not. */
static double loss_after_differences(struct symbols_options options) {
    struct symbols *symbols = opened(options);
    struct symbols_place places[2] = {0};
    uint64_t seed = 11;
    uint32_t passages[2][PASSAGE];
    double sum = 0;
    for (int n = 0; n < 2 * PASSAGE; n++)
        passages[n % 2][n / 2] = (uint32_t)random_below(&seed, BYTES);
    for (int n = 0; n < 2 * PASSAGE; n++)
        loss_of(symbols, &places[n % 2], passages[n % 2][n / 2], true);
    for (int n = 0; n < 2 * PASSAGE; n++) {
        bool differs = n / 2 > RIGHT && n / 2 % 3 == 0;
        uint32_t symbol = passages[n % 2][n / 2] ^ (differs ? 1 + (uint32_t)n % 255 : 0);
        double loss = loss_of(symbols, &places[n % 2], symbol, true);
        sum += n / 2 > RIGHT && !differs ? loss : 0;
    }
    symbols_close(&symbols);
    return sum / (2 * (PASSAGE - RIGHT) * 2 / 3);
}

static void a_passage_goes_on_after_differences(void **state) {
    struct symbols_options without = of_bytes;
    without.memory = 1 << 22; /* and a history of 8192 symbols */
    struct symbols_options with = without;
    without.experts &= ~((size_t)1 << SYMBOLS_position);
    double loss = loss_after_differences(with);
    assert_true(loss < 1.5 && loss < loss_after_differences(without) / 2);
    (void)state;
}

/* By default, the first 4096 symbols have the losses of the experts that the specification has:
   those of a given list without position and kneser. */
static void late_experts_begin_late(void **state) {
    const struct symbols_options options[] = {of_bytes, of_classes(BYTES)};
    for (int k = 0; k < 2; k++) {
        struct symbols_options early = options[k];
        early.experts &= (1u << SYMBOLS_position) - 1;
        struct symbols *all = opened(options[k]), *others = opened(early);
        struct symbols_place place = {0}, there = {0};
        bool begun = false;
        for (int n = 0; n < 8000; n++) {
            uint32_t symbol = (unsigned char)text[n % (sizeof text - 1)] + (uint32_t)(n % 29 == 0);
            double loss = loss_of(all, &place, symbol, true);
            begun |= fabs(loss - loss_of(others, &there, symbol, true)) > 1e-6;
            assert_true(!begun || n >= 4096);
        }
        assert_true(begun);
        symbols_close(&all);
        symbols_close(&others);
    }
    (void)state;
}

static void named_experts_begin_at_once(void **state) {
    const struct symbols_options options[] = {of_bytes, of_classes(BYTES)};
    for (int k = 0; k < 2; k++) {
        struct symbols_options named = options[k];
        named.experts &= ~((size_t)1 << SYMBOLS_LATE);
        struct symbols *early = opened(named), *late = opened(options[k]);
        struct symbols_place place = {0}, there = {0};
        double gain = 0;
        for (int n = 0; n < 1000; n++) {
            uint32_t symbol = (unsigned char)text[n % (sizeof text - 1)] + (uint32_t)(n % 29 == 0);
            gain -= loss_of(early, &place, symbol, true) - loss_of(late, &there, symbol, true);
        }
        assert_true(gain > 10);
        symbols_close(&early);
        symbols_close(&late);
    }
    (void)state;
}

/* ---- Kneser-Ney ---- */

enum { WORDS = 40, MEMORY_OF_WORDS = 1 << 26 };

/* Counts of followers after two words and after one, and of contexts. */
struct counted {
    double two[WORDS][WORDS][WORDS], one[WORDS][WORDS], contexts[WORDS];
};

/* The probability of a word after a context with these counts; of the rest as in `lower`. */
static double discounted(const double *counts, size_t word, double lower) {
    double all = 0, kinds = 0;
    for (size_t n = 0; n < WORDS; n++) {
        all += counts[n];
        kinds += counts[n] > 0;
    }
    return all == 0 ? lower : (fmax(counts[word] - 0.85, 0) + 0.85 * kinds * lower) / all;
}

static void kneser_interpolates_with_discounts(void **state) {
    struct kneser kneser = {0};
    struct counted *counted = calloc(1, sizeof *counted);
    uint64_t *numbers = calloc(kneser_size(MEMORY_OF_WORDS, WORDS), sizeof *numbers), seed = 13;
    uint32_t newest = 0, before = 0;
    double contexts = 0, halves[2];
    assert_true(numbers && counted);
    kneser_open(&kneser, MEMORY_OF_WORDS, WORDS, numbers);
    for (int n = 0; n < 3000; n++) {
        double sum = 0;
        kneser_begin(&kneser, (before * WORDS + newest) * 65537ULL, newest, WORDS);
        for (uint32_t word = 0; word < WORDS; word++) {
            double p = (counted->contexts[word] + 0.5) / (contexts + 0.5 * WORDS);
            p = discounted(counted->one[newest], word, p);
            p = discounted(counted->two[before][newest], word, p);
            kneser_halves(&kneser, (uint32_t[]){word, word + 1, WORDS}, halves);
            assert_true(fabs(halves[0] - p) < 1e-9);
            sum += p;
        }
        assert_float_equal(sum, 1, 1e-9);
        kneser_halves(&kneser, (uint32_t[]){0, 15, SYMBOLS_MAX}, halves);
        assert_true(fabs(halves[0] + halves[1] - 1) < 1e-9);
        uint32_t word = (7 * newest + (uint32_t)random_below(&seed, 5) * before) % WORDS;
        kneser_learn(&kneser, word);
        if (counted->two[before][newest][word]++ == 0 && counted->one[newest][word]++ == 0)
            counted->contexts[word]++, contexts++;
        before = newest;
        newest = word;
    }
    free(numbers);
    free(counted);
    (void)state;
}

static void any_followers_are_harmless(void **state) {
    struct symbols *symbols = opened(of_classes(SYMBOLS_MAX));
    const struct symbols_array *array = &symbols_arrays(symbols)[SYMBOLS_ARRAYS - 1];
    struct symbols_place place = {0};
    struct symbols_guess top[5];
    uint64_t seed = 17;
    assert_string_equal(array->name, "kneser");
    for (size_t n = 0; n < array->count; n++)
        ((uint64_t *)array->numbers)[n] = random_bits(&seed);
    for (int n = 0; n < 20000; n++) {
        loss_of(symbols, &place, (uint32_t)random_below(&seed, n % 9 ? 50 : SYMBOLS_MAX), true);
        assert_true(n % 100 || symbols_top(symbols, &place, NULL, false, top, 5) == 5 || n < 5);
    }
    assert_true(symbols_valid(symbols));
    symbols_close(&symbols);
    (void)state;
}

/* ---- Baselines ---- */

enum { CLASSES = 5, CONTEXTS = (CLASSES + 1) * (CLASSES + 1) * (CLASSES + 1) };

/* The number of the place's newest symbols, so many. */
static size_t context_of(const struct symbols_place *place, size_t order) {
    size_t context = 0;
    for (size_t n = 1; n <= order; n++)
        context = context * (CLASSES + 1) +
                  (place->steps >= n ? place->newest[(place->steps - n) % 64] + 1 : 0);
    return context;
}

static void baselines_count_what_followed(void **state) {
    struct orders *orders = calloc(1, sizeof *orders);
    double(*counts)[CONTEXTS][CLASSES] = calloc(ORDERS_BASELINES + 1, sizeof *counts);
    struct symbols_place place = {0};
    double losses[ORDERS_BASELINES];
    uint64_t seed = 3;
    assert_true(orders && counts);
    for (size_t n = 0; n < 3000; n++) {
        uint32_t symbol = (uint32_t)(random_below(&seed, CLASSES) * random_below(&seed, 2));
        bool learn = random_below(&seed, 10) > 0;
        orders_take(orders, &place, symbol, CLASSES, learn, losses);
        for (size_t k = 1; k <= ORDERS_BASELINES; k++) {
            double *row = counts[k][context_of(&place, k)], sum = 0;
            for (size_t c = 0; c < CLASSES; c++)
                sum += row[c];
            double p = (row[symbol] + 0.5) / (sum + CLASSES / 2.0);
            assert_float_equal(losses[k - 1], -log(p), 1e-9);
            row[symbol] += learn;
        }
        place.newest[place.steps++ % 64] = symbol;
    }
    free(orders);
    free(counts);
    (void)state;
}

/* After 2^20 symbols in a context its frequencies stay: they do not exceed the entropy. */
static void baselines_of_long_streams_are_frequencies(void **state) {
    struct orders *orders = calloc(1, sizeof *orders);
    struct symbols_place place = {0};
    double losses[ORDERS_BASELINES], sum = 0;
    uint64_t seed = 4;
    assert_non_null(orders);
    for (size_t n = 0; n < 3400000; n++) {
        uint32_t symbol = (uint32_t)random_below(&seed, 2);
        orders_take(orders, &place, symbol, 2, true, losses);
        sum += n < 3300000 ? 0 : losses[0] / 100000;
        place.newest[place.steps++ % 64] = symbol;
    }
    assert_float_equal(sum, log(2), 1e-4);
    free(orders);
    (void)state;
}

/* More contexts than the table has room for, or random counts: losses stay finite. */
static void any_counts_are_harmless(void **state) {
    struct orders *orders = calloc(1, sizeof *orders);
    struct symbols_place place = {0};
    double losses[ORDERS_BASELINES];
    uint64_t seed = 5;
    assert_non_null(orders);
    for (size_t n = 0; n < ORDERS_ENTRIES; n++)
        orders->counts[n] = (uint32_t)random_bits(&seed);
    for (size_t n = 0; n < 200000; n++) {
        uint32_t symbol = (uint32_t)random_below(&seed, 1000);
        orders_take(orders, &place, symbol, 1000, true, losses);
        for (size_t k = 0; k < ORDERS_BASELINES; k++)
            assert_true(isfinite(losses[k]) && losses[k] >= 0);
        place.newest[place.steps++ % 64] = symbol;
    }
    free(orders);
    (void)state;
}

/* ---- Damaged checkpoints ---- */

static void any_table_is_harmless(void **state) {
    struct symbols *symbols = opened(of_bytes);
    uint64_t seed = 7;
    struct symbols_place place;
    for (uint32_t *n = (uint32_t *)&place; n < (uint32_t *)(&place + 1); n++)
        *n = (uint32_t)random_bits(&seed);
    assert_false(symbols_place_valid(&place));
    place.fields %= 32;
    place.letters = 15;
    assert_true(symbols_place_valid(&place));
    for (size_t n = 1; n < SYMBOLS_ARRAYS; n++) { /* all that are integers */
        const struct symbols_array *array = &symbols_arrays(symbols)[n];
        for (size_t i = 0; array->type == 'u' && i < array->count; i++)
            ((uint64_t *)array->numbers)[i] = random_bits(&seed);
    }
    ((struct symbols_header *)symbols_arrays(symbols)->numbers)->learned = random_bits(&seed);
    assert_true(symbols_valid(symbols));
    for (int n = 0; n < 300; n++)
        read_text(symbols, &place, true);
    assert_true(symbols_valid(symbols) && symbols_place_valid(&place));
    assert_true(read_text(symbols, &place, true) < 1);
    symbols_close(&symbols);
    (void)state;
}

static void other_damage_is_found(void **state) {
    struct symbols *symbols = opened(of_bytes), *good = opened(of_bytes);
    struct symbols_options options = of_bytes;
    struct symbols_place place = {0};
    read_text(symbols, &place, true);
    copy(good, symbols);
    struct symbols_header *header = symbols_arrays(symbols)->numbers;
    header->seen = BYTES + 1;
    assert_false(symbols_valid(symbols));
    header->seen = 0;
    assert_false(symbols_valid(symbols));
    for (size_t n = 3; n < SYMBOLS_ARRAYS; n++) {
        const struct symbols_array *array = &symbols_arrays(symbols)[n];
        for (size_t at = 0; array->type != 'u' && at < array->count;
             at += array->count / 7 * 2 + 1) {
            copy(symbols, good);
            if (array->type == 'd')
                ((double *)array->numbers)[at] = NAN;
            else
                ((symbols_real *)array->numbers)[at] = at % 2 ? INFINITY : NAN;
            assert_false(symbols_valid(symbols));
        }
        copy(symbols, good);
        if (array->type == 'd') {
            ((double *)array->numbers)[1] = 0.5; /* part of a step */
            assert_false(symbols_valid(symbols));
        }
    }
    options.experts &= ~((size_t)1 << SYMBOLS_above);
    struct symbols *other = opened(options);
    memcpy(symbols_arrays(other)->numbers, symbols_arrays(good)->numbers,
           bytes_of(symbols_arrays(good)));
    assert_false(symbols_valid(other));
    symbols_reset(other);
    assert_true(symbols_valid(other));
    assert_true(read_text(other, &(struct symbols_place){0}, true) > 3);
    symbols_close(&symbols);
    symbols_close(&good);
    symbols_close(&other);
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_reading_costs_little_in_any_stream),
        cmocka_unit_test(each_expert_alone_learns_a_period),
        cmocka_unit_test(without_learning_only_the_place_moves),
        cmocka_unit_test(a_copy_continues_with_the_same_bits),
        cmocka_unit_test(the_top_is_exact),
        cmocka_unit_test(a_vocabulary_grows),
        cmocka_unit_test(a_network_is_one_more_input),
        cmocka_unit_test(a_passage_goes_on_after_differences),
        cmocka_unit_test(late_experts_begin_late),
        cmocka_unit_test(named_experts_begin_at_once),
        cmocka_unit_test(kneser_interpolates_with_discounts),
        cmocka_unit_test(any_followers_are_harmless),
        cmocka_unit_test(baselines_count_what_followed),
        cmocka_unit_test(baselines_of_long_streams_are_frequencies),
        cmocka_unit_test(any_counts_are_harmless),
        cmocka_unit_test(any_table_is_harmless),
        cmocka_unit_test(other_damage_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
