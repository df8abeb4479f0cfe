/* Denormal numbers: too close to zero for the usual representation. */
#ifndef RUNNEL_DENORMALS_H
#define RUNNEL_DENORMALS_H

#include <stdint.h>
#if defined(__SSE__)
#    include <xmmintrin.h>
#endif

/* Round denormal numbers to zero in this thread: they are a hundred times slower and not useful. */
static inline void denormals_to_zero(void) {
#if defined(__SSE__)
    enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040 };
    _mm_setcsr(_mm_getcsr() | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | (UINT64_C(1) << 24)));
#endif
}

#endif
