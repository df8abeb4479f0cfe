/* Numbers of 4 bytes in a message, which may be unaligned. */
#ifndef RUNNEL_UNALIGNED_H
#define RUNNEL_UNALIGNED_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The address of number k. */
static inline const void *unaligned_at(const void *numbers, size_t k) {
    return (const char *)numbers + k * sizeof(float);
}

/* Number k, a float32. */
static inline float unaligned_float(const void *numbers, size_t k) {
    float value;
    memcpy(&value, unaligned_at(numbers, k), sizeof value);
    return value;
}

/* Number k, a uint32. */
static inline uint32_t unaligned_id(const void *numbers, size_t k) {
    uint32_t value;
    memcpy(&value, unaligned_at(numbers, k), sizeof value);
    return value;
}

#endif
