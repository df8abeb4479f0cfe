/* Words hashed to symbols, in place of a vocabulary: the hash is FNV-1a of 64 bits over the word's
   UTF-8, the symbol its remainder by the number of symbols. docs/words.md says it with an
   example: other programs may compute it. */
#ifndef RUNNEL_WORD_HASH_H
#define RUNNEL_WORD_HASH_H

#include "hash.h"

static inline uint32_t word_hash(const char *word, size_t size, size_t symbols) {
    return (uint32_t)(hash_bytes(HASH_BEGIN, word, size) % symbols);
}

#endif
