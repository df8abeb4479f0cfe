/* Hashes of 64 bits: for tables and digests. */
#ifndef RUNNEL_HASH_H
#define RUNNEL_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- FNV-1a: never against somebody who chooses what is hashed ---- */

#define HASH_BEGIN 0xCBF29CE484222325u

/* The hash of what was hashed before, HASH_BEGIN for nothing, and of these bytes after it. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    static const uint64_t prime = 0x100000001B3;
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * prime;
    return hash;
}

/* ---- With a secret seed: nobody can choose bytes that share a hash ---- */

static inline uint64_t hash_mix(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The hash of what `seed` is a hash of, and of these bytes after it: eight bytes in the time that
   FNV-1a takes for one. */
static inline uint64_t hash_keyed(uint64_t seed, const void *bytes, size_t size) {
    static const uint64_t odd = 0x9E3779B97F4A7C15;
    const unsigned char *byte = bytes;
    uint64_t hash = seed ^ hash_mix(size ^ odd, seed | 1), word;
    for (; size >= sizeof word; size -= sizeof word, byte += sizeof word) {
        memcpy(&word, byte, sizeof word);
        hash = hash_mix(hash ^ word, odd);
    }
    word = 0;
    if (size)
        memcpy(&word, byte, size); /* nothing may stand at NULL */
    return hash_mix(hash ^ word, odd ^ seed);
}

#endif
