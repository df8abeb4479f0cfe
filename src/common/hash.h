/* Hashes of 64 bits: for tables and digests. */
#ifndef RUNNEL_HASH_H
#define RUNNEL_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- FNV-1a: not safe if an attacker chooses the data ---- */

#define HASH_BEGIN 0xCBF29CE484222325u

/* The hash of the bytes so far and these bytes; begin with HASH_BEGIN. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    static const uint64_t prime = 0x100000001B3;
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * prime;
    return hash;
}

/* ---- With a secret seed: nobody can construct collisions ---- */

#define HASH_ODD 0x9E3779B97F4A7C15u

static inline uint64_t hash_mix(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Less than eight bytes as a number. The size must be hashed as well. */
static inline uint64_t hash_short(const unsigned char *byte, size_t size) {
    uint32_t first, last;
    if (size == 0)
        return 0;
    if (size < sizeof first)
        return (uint64_t)byte[0] << 16 | (uint64_t)byte[size / 2] << 8 | byte[size - 1];
    memcpy(&first, byte, sizeof first);
    memcpy(&last, byte + size - sizeof last, sizeof last);
    return (uint64_t)first << 32 | last;
}

static inline uint64_t hash_word(const unsigned char *byte) {
    uint64_t word;
    memcpy(&word, byte, sizeof word);
    return word;
}

/* The hash of the data behind `seed` and of these bytes: sixteen bytes in the time of one byte
   of FNV-1a. The last word overlaps earlier bytes. */
static inline uint64_t hash_keyed(uint64_t seed, const void *bytes, size_t size) {
    enum { WORD = sizeof(uint64_t), TWO = 2 * WORD };
    const unsigned char *byte = bytes;
    uint64_t hash = seed ^ hash_mix(size ^ HASH_ODD, seed | 1);
    if (size < WORD)
        return hash_mix(hash ^ hash_short(byte, size), HASH_ODD ^ seed);
    size_t n = 0;
    for (; n + TWO < size; n += TWO)
        hash = hash_mix(hash_word(byte + n) ^ seed, hash_word(byte + n + WORD) ^ hash);
    n = size > TWO ? size - TWO : 0;
    hash = hash_mix(hash_word(byte + n) ^ seed, hash_word(byte + size - WORD) ^ hash);
    return hash_mix(hash, HASH_ODD ^ seed);
}

#endif
