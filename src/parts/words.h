/* Words that become symbols and classes: vocabularies (docs/reference/words.md). */
#ifndef RUNNEL_WORDS_H
#define RUNNEL_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct example;
struct part_host;
struct streams;
struct target_arrival;

/* A vocabulary: of inputs, of classes, or of both. */
struct learner_lexicon {
    const char *name;      /* "input", "output" */
    size_t size, capacity; /* words in it, and maximum */
    bool classes;          /* has classes */
    bool forgets;          /* forget: lru: an id can pass to another word */
    /* Slots are ids, 0 .. size - 1; with forget: lru in the order of use. */
    const struct streams *words;
    const uint64_t *appeared; /* (size,) by id: greater is newer */
    uint64_t count;           /* words that have appeared */
};
size_t words_lexicons(const struct part_host *host);
struct learner_lexicon words_lexicon(const struct part_host *host, size_t n);
size_t words_lexicon_of_classes(const struct part_host *host); /* SIZE_MAX: none */

/* Whether the classes of that output are that vocabulary's. */
bool words_of_output(const struct part_host *host, size_t output);

/* Returns the word of an id, not terminated; NULL: no word, or the unknown word. */
const char *words_word(const struct part_host *host, size_t lexicon, uint32_t id, size_t *size);

/* Checks for a word beyond a full vocabulary with unknown: reject. Returns the vocabulary's name
   with the word (NULL: a number without one), or NULL if all words fit. */
const char *words_refused(const struct part_host *host, const struct example *example,
                          const char **word, size_t *size);

/* Restore a vocabulary: its words in the order of ids, then of use, then words_written. -1:
   invalid. */
int words_add(const struct part_host *host, size_t lexicon, const char *word, size_t size,
              uint64_t appeared);
int words_use(const struct part_host *host, size_t lexicon, uint32_t id);
void words_written(const struct part_host *host);

/* Uses the unknown for a class, or atoms, that appeared after the step of the prediction:
   part_target does so, too. */
void words_target(const struct part_host *host, const struct target_arrival *target);

#endif
