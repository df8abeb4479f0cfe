#include "ceilings.h"

#include "cpu/vector.h"

enum {
    CHAINS = 12, /* more than latency times units of any core; fits 16 registers with 2 constants */
    TURNS = 64,  /* multiply-adds of a chain in one round */
    PLACES = CEILINGS_PLACES,
    PAIR = 2, /* vectors per place in one turn: enough sums to hide an addition's latency */
};

/* Makes the compiler treat the value as used. */
#if defined(__x86_64__) || defined(__i386__)
#    define KEEP(v) __asm__ volatile("" : : "x"(v))
#elif defined(__aarch64__)
#    define KEEP(v) __asm__ volatile("" : : "w"(v))
#else
#    define KEEP(v) __asm__ volatile("" : : "m"(v))
#endif

static double multiply_add(size_t rounds) {
    vector chain[CHAINS];
    const vector a = vector_broadcast(0.999f), b = vector_broadcast(1e-3f);
    for (int i = 0; i < CHAINS; i++)
        chain[i] = vector_broadcast((float)i);
    for (size_t round = 0; round < rounds; round++)
        for (int turn = 0; turn < TURNS; turn++)
            for (int i = 0; i < CHAINS; i++)
                chain[i] = chain[i] * a + b;
    for (int i = 0; i < CHAINS; i++)
        KEEP(chain[i]);
    return 2.0 * LANES * CHAINS * TURNS * (double)rounds;
}

static void read_all(const float *p, size_t n, size_t rounds) {
    size_t part = n / PLACES;
    vector sum[PLACES][PAIR];
    for (int place = 0; place < PLACES; place++)
        for (int k = 0; k < PAIR; k++)
            sum[place][k] = vector_broadcast(0.0f);
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < part; i += PAIR * LANES)
            for (size_t place = 0; place < PLACES; place++)
                for (size_t k = 0; k < PAIR; k++)
                    sum[place][k] += vector_load(p + place * part + i + k * LANES);
    for (int place = 0; place < PLACES; place++)
        for (int k = 0; k < PAIR; k++)
            KEEP(sum[place][k]);
}

static void update_all(float *p, size_t n, size_t rounds) {
    size_t part = n / PLACES;
    const vector a = vector_broadcast(0.999f), b = vector_broadcast(1e-3f);
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < part; i += PAIR * LANES)
            for (size_t place = 0; place < PLACES; place++)
                for (size_t k = 0; k < PAIR; k++) {
                    float *x = p + place * part + i + k * LANES;
                    vector_store(x, vector_load(x) * a + b);
                }
}

#define ISA_TEXT_(isa) #isa
#define ISA_TEXT(isa) ISA_TEXT_(isa)
#define ceilings_table ISA_NAME(ceilings)

const struct ceilings ceilings_table = {
    .name = ISA_TEXT(ISA),
    .multiply_add = multiply_add,
    .read = read_all,
    .update = update_all,
};
