/* FNV-1a, 64 bits: for tables and digests, never against somebody who chooses what is hashed. */
#ifndef RUNNEL_HASH_H
#define RUNNEL_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_BEGIN 0xCBF29CE484222325u

/* The hash of what was hashed before, HASH_BEGIN for nothing, and of these bytes after it. */
static inline uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
    static const uint64_t prime = 0x100000001B3;
    const unsigned char *byte = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ byte[i]) * prime;
    return hash;
}

#endif
