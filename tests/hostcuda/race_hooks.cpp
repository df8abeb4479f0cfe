/* The hooks of code compiled with -fsanitize=thread, with their names in libtsan, and the
   functions of libc that move many bytes (linked with --wrap). */
#include "count.h"
#include "race.h"
#include "simulate.h"
#include <stdlib.h>

using hostcuda::race::met;
using hostcuda::race::way;

#define HERE __builtin_return_address(0)

namespace {

void strong(const void *at, size_t size, hostcuda::race::half which, const void *code) {
    if (hostcuda::race::on) {
        met(at, size, way::atomic, code);
        if (hostcuda::current) {
            hostcuda::race::at_atomic(at, which);
        }
    } else if (hostcuda::count::on && hostcuda::current) {
        met(at, size, way::read, code);
        const char *address = (const char *)at;
        if (which == hostcuda::race::half::both && !hostcuda::home_of(address)) {
            hostcuda::count::met_barrier();
        }
    }
}

} // namespace

void hostcuda_atomic_access(const void *at, size_t size, const void *code) {
    strong(at, size, hostcuda::race::half::both, code);
}

void hostcuda_fence(void) {
    if (hostcuda::race::on && hostcuda::current) {
        hostcuda::race::at_fence();
        hostcuda::race::let_others_read();
    }
}

extern "C" {

void __tsan_init(void);
void __tsan_init(void) {
    const char *wanted = getenv("HOSTCUDA_RACES"), *count = getenv("HOSTCUDA_COUNT");
    hostcuda::count::on = count && strcmp(count, "0") != 0;
    hostcuda::race::on = !hostcuda::count::on && (!wanted || strcmp(wanted, "0") != 0);
}

#define HOOKS(size)                                                                                \
    void __tsan_read##size(void *at);                                                              \
    void __tsan_read##size(void *at) {                                                             \
        met(at, size, way::read, HERE);                                                            \
    }                                                                                              \
    void __tsan_write##size(void *at);                                                             \
    void __tsan_write##size(void *at) {                                                            \
        hostcuda::simulate::wrote(at, size);                                                       \
        met(at, size, way::write, HERE);                                                           \
    }                                                                                              \
    void __tsan_unaligned_read##size(void *at);                                                    \
    void __tsan_unaligned_read##size(void *at) {                                                   \
        met(at, size, way::read, HERE);                                                            \
    }                                                                                              \
    void __tsan_unaligned_write##size(void *at);                                                   \
    void __tsan_unaligned_write##size(void *at) {                                                  \
        met(at, size, way::write, HERE);                                                           \
    }                                                                                              \
    void __tsan_read_write##size(void *at);                                                        \
    void __tsan_read_write##size(void *at) {                                                       \
        met(at, size, way::read, HERE);                                                            \
        hostcuda::simulate::wrote(at, size);                                                       \
        met(at, size, way::write, HERE);                                                           \
    }                                                                                              \
    void __tsan_unaligned_read_write##size(void *at);                                              \
    void __tsan_unaligned_read_write##size(void *at) {                                             \
        met(at, size, way::read, HERE);                                                            \
        met(at, size, way::write, HERE);                                                           \
    }                                                                                              \
    /* PTX: a volatile access is a relaxed one */                                                  \
    void __tsan_volatile_read##size(void *at);                                                     \
    void __tsan_volatile_read##size(void *at) {                                                    \
        strong(at, size, hostcuda::race::half::load, HERE);                                        \
    }                                                                                              \
    void __tsan_volatile_write##size(void *at);                                                    \
    void __tsan_volatile_write##size(void *at) {                                                   \
        strong(at, size, hostcuda::race::half::store, HERE);                                       \
    }                                                                                              \
    void __tsan_unaligned_volatile_read##size(void *at);                                           \
    void __tsan_unaligned_volatile_read##size(void *at) {                                          \
        strong(at, size, hostcuda::race::half::load, HERE);                                        \
    }                                                                                              \
    void __tsan_unaligned_volatile_write##size(void *at);                                          \
    void __tsan_unaligned_volatile_write##size(void *at) {                                         \
        strong(at, size, hostcuda::race::half::store, HERE);                                       \
    }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
#undef HOOKS

void __tsan_read_range(void *at, unsigned long size);
void __tsan_read_range(void *at, unsigned long size) {
    met(at, size, way::read, HERE);
}
void __tsan_write_range(void *at, unsigned long size);
void __tsan_write_range(void *at, unsigned long size) {
    met(at, size, way::write, HERE);
}
void __tsan_func_entry(void *);
void __tsan_func_entry(void *) {
    if (hostcuda::current && hostcuda::setting().trace) {
        hostcuda::called(HERE);
    }
}
void __tsan_func_exit(void);
void __tsan_func_exit(void) {
}
void __tsan_vptr_update(void **, void *);
void __tsan_vptr_update(void **, void *) {
}
void __tsan_vptr_read(void **);
void __tsan_vptr_read(void **) {
}

/* ---- The compiler's atomics, with at least the requested order on the host ---- */

#define ATOMICS(bits, T)                                                                           \
    T __tsan_atomic##bits##_load(const volatile T *at, int);                                       \
    T __tsan_atomic##bits##_load(const volatile T *at, int) {                                      \
        strong((const void *)at, sizeof(T), hostcuda::race::half::load, HERE);                     \
        return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                              \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile T *at, T value, int);                                \
    void __tsan_atomic##bits##_store(volatile T *at, T value, int) {                               \
        strong((const void *)at, sizeof(T), hostcuda::race::half::store, HERE);                    \
        __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                             \
    }                                                                                              \
    CHANGE(bits, T, exchange, __atomic_exchange_n)                                                 \
    CHANGE(bits, T, fetch_add, __atomic_fetch_add)                                                 \
    CHANGE(bits, T, fetch_sub, __atomic_fetch_sub)                                                 \
    CHANGE(bits, T, fetch_and, __atomic_fetch_and)                                                 \
    CHANGE(bits, T, fetch_or, __atomic_fetch_or)                                                   \
    CHANGE(bits, T, fetch_xor, __atomic_fetch_xor)                                                 \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile T *at, T *expected, T value, int,   \
                                                      int);                                        \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile T *at, T *expected, T value, int,   \
                                                      int) {                                       \
        strong((const void *)at, sizeof(T), hostcuda::race::half::both, HERE);                     \
        return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,           \
                                           __ATOMIC_SEQ_CST);                                      \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile T *at, T *expected, T value, int,     \
                                                    int);                                          \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile T *at, T *expected, T value, int,     \
                                                    int) {                                         \
        strong((const void *)at, sizeof(T), hostcuda::race::half::both, HERE);                     \
        return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,           \
                                           __ATOMIC_SEQ_CST);                                      \
    }
#define CHANGE(bits, T, name, builtin)                                                             \
    T __tsan_atomic##bits##_##name(volatile T *at, T value, int);                                  \
    T __tsan_atomic##bits##_##name(volatile T *at, T value, int) {                                 \
        strong((const void *)at, sizeof(T), hostcuda::race::half::both, HERE);                     \
        return builtin(at, value, __ATOMIC_SEQ_CST);                                               \
    }
ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)
#undef ATOMICS
#undef CHANGE

void __tsan_atomic_thread_fence(int);
void __tsan_atomic_thread_fence(int) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int);
void __tsan_atomic_signal_fence(int) {
}

/* ---- libc: `real` exists in programs linked with --wrap ---- */

void *__real_memcpy(void *to, const void *from, size_t size) __attribute__((weak));
void *__real_memmove(void *to, const void *from, size_t size) __attribute__((weak));
void *__real_memset(void *at, int value, size_t size) __attribute__((weak));
void *__wrap_memcpy(void *to, const void *from, size_t size);
void *__wrap_memmove(void *to, const void *from, size_t size);
void *__wrap_memset(void *at, int value, size_t size);

void *__wrap_memcpy(void *to, const void *from, size_t size) {
    met(from, size, way::read, HERE);
    met(to, size, way::write, HERE);
    return __real_memcpy(to, from, size);
}

void *__wrap_memmove(void *to, const void *from, size_t size) {
    met(from, size, way::read, HERE);
    met(to, size, way::write, HERE);
    return __real_memmove(to, from, size);
}

void *__wrap_memset(void *at, int value, size_t size) {
    met(at, size, way::write, HERE);
    return __real_memset(at, value, size);
}

/* Called by newer compilers instead. */
void *__tsan_memcpy(void *to, const void *from, size_t size);
void *__tsan_memmove(void *to, const void *from, size_t size);
void *__tsan_memset(void *at, int value, size_t size);

void *__tsan_memcpy(void *to, const void *from, size_t size) {
    met(from, size, way::read, HERE);
    met(to, size, way::write, HERE);
    return memmove(to, from, size);
}

void *__tsan_memmove(void *to, const void *from, size_t size) {
    return __tsan_memcpy(to, from, size);
}

void *__tsan_memset(void *at, int value, size_t size) {
    met(at, size, way::write, HERE);
    return memset(at, value, size);
}
}
