/* Words that become symbols and classes: vocabularies (docs/reference/words.md). */
#ifndef RUNNEL_WORDS_H
#define RUNNEL_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct example;
struct part_host;
struct streams;

/* Vocabularies: of inputs, of classes, or one of both. */
struct learner_lexicon {
    const char *name;      /* "input", "output" */
    size_t size, capacity; /* words that there are, and can be */
    bool classes;          /* they are classes */
    bool forgets;          /* forget: lru: an id may become another word's */
    const struct streams
        *words;               /* slots are ids, 0 .. size - 1; by order of use with forget: lru */
    const uint64_t *appeared; /* (size,) by id: greater is newer */
    uint64_t count;           /* that have appeared */
};
size_t words_lexicons(const struct part_host *host);
struct learner_lexicon words_lexicon(const struct part_host *host, size_t n);
size_t words_lexicon_of_classes(const struct part_host *host); /* SIZE_MAX: there is none */

/* The word of an id, not terminated; NULL: it has none, or stands for what is not known. */
const char *words_word(const struct part_host *host, size_t lexicon, uint32_t id, size_t *size);

/* What would be rejected since it has a word beyond a vocabulary with unknown: reject: the
   vocabulary's name, and the word, NULL of a number that has none. Else NULL. */
const char *words_refused(const struct part_host *host, const struct example *example,
                          const char **word, size_t *size);

/* Put a vocabulary back: its words in the order of their ids, then in that in which they were used.
   -1: they cannot be its. Then say that all are there. */
int words_add(const struct part_host *host, size_t lexicon, const char *word, size_t size,
              uint64_t appeared);
int words_use(const struct part_host *host, size_t lexicon, uint32_t id);
void words_written(const struct part_host *host);

#endif
