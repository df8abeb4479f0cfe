/* Words hashed to symbols, in place of a vocabulary: the hash is FNV-1a of 64 bits over the word's
   UTF-8, the symbol its remainder by the number of symbols. It counts as minus that where the
   topmost bit of the hash is 1 (Weinberger and others, 2009), so that words that share one do not
   add up. docs/reference/words.md says it with an example: other programs may compute it. */
#ifndef RUNNEL_WORD_HASH_H
#define RUNNEL_WORD_HASH_H

#include "hash.h"

static inline uint32_t word_hash(const char *word, size_t size, size_t symbols) {
    const uint64_t hash = hash_bytes(HASH_BEGIN, word, size);
    uint32_t minus = (uint32_t)(hash >> 63) << 31; /* SYMBOL_MINUS */
    return (uint32_t)(hash % symbols) | minus;
}

#endif
