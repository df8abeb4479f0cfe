/* The words of a checkpoint's vocabularies. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint_reading.h"

enum { NO_WORD = -2 };

/* Row `at` into a vocabulary, and its place in the order of use into `places`, counted from the
   vocabulary's first row. NO_WORD: it cannot be one. */
static int read_word(const struct reading *reading, size_t at, uint32_t *lexicon, size_t *first,
                     uint32_t *places, size_t count, struct error *error) {
    unsigned char row[CHECKPOINT_WORD];
    uint32_t n, place;
    uint64_t appeared;
    if (reading_row(reading, PART_WORDS, at, row, sizeof row, error))
        return -1;
    memcpy(&n, row, sizeof n);
    memcpy(&place, row + 4, sizeof place);
    memcpy(&appeared, row + 8, sizeof appeared);
    if (n < *lexicon || !wire_is_utf8(row + 17, row[16]))
        return NO_WORD;
    if (n > *lexicon)
        *first = at;
    *lexicon = n;
    if (place >= count - *first || places[*first + place] ||
        learner_add_word(reading->learner, n, (const char *)row + 17, row[16], appeared))
        return NO_WORD;
    places[*first + place] = (uint32_t)(at - *first) + 1;
    return 0;
}

/* The words by ids, then in the order in which they were used. */
static int read_lexicons(const struct reading *reading, uint32_t *places, size_t count,
                         struct error *error) {
    uint32_t lexicon = 0;
    size_t first = 0;
    for (size_t at = 0; at < count; at++) {
        int status = read_word(reading, at, &lexicon, &first, places, count, error);
        if (status)
            return status == NO_WORD ? reading_damaged(reading, "its words cannot be", error) : -1;
    }
    for (size_t n = 0, at = 0; n < learner_lexicons(reading->learner); n++) {
        size_t size = learner_lexicon(reading->learner, n).size;
        for (size_t k = 0; k < size; k++, at++)
            if (!places[at] || learner_use_word(reading->learner, n, places[at] - 1))
                return reading_damaged(reading, "the order of its words cannot be", error);
    }
    learner_words_written(reading->learner);
    return 0;
}

int reading_words(const struct reading *reading, struct error *error) {
    if (!reading_has(reading, PART_WORDS))
        return 0;
    size_t count = reading->layout.entries[reading->layout.parts[0][PART_WORDS]].shape[0];
    uint32_t *places = calloc(count + 1, sizeof *places);
    int status = places ? read_lexicons(reading, places, count, error) : error_no_memory(error);
    free(places);
    return status;
}
