/* Words hashed to symbols, without a vocabulary. The hash is FNV-1a of 64 bits over the word's
   UTF-8; the symbol is its remainder by the number of symbols. A topmost bit of 1 makes the
   symbol count negatively (Weinberger and others, 2009), so that words with the same symbol do
   not add up. docs/reference/words.md has an example for other implementations. */
#ifndef RUNNEL_WORD_HASH_H
#define RUNNEL_WORD_HASH_H

#include "hash.h"

static inline uint32_t word_hash(const char *word, size_t size, size_t symbols) {
    const uint64_t hash = hash_bytes(HASH_BEGIN, word, size);
    uint32_t minus = (uint32_t)(hash >> 63) << 31; /* SYMBOL_MINUS */
    return (uint32_t)(hash % symbols) | minus;
}

#endif
