/* The bank of a ranking: the last targets of all streams as they came. They are read by the current
 * parameters whenever a target is ranked among them. */
#ifndef RUNNEL_CPU_BANK_H
#define RUNNEL_CPU_BANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

struct bank {
    size_t most, size; /* targets, and numbers in one */
    uint64_t next;     /* number of the next target; they have the numbers before it */
    size_t count;
    union value *targets; /* (most, size) target `number` is at number % most */
    bool *repeated;       /* (most,) an equal target came later */
    uint32_t *others;     /* (most,) places of the candidates beside a target: bank_others */
};

/* Puts a target (size,) into the bank. */
void bank_put(struct bank *bank, const union value *y);

/* Fills in bank->others, from the oldest on: the places of those that differ from y (size,).
   Returns their number. */
size_t bank_others(const struct bank *bank, const union value *y);

/* Copies the bank into its block (ENGINE_BANK), or back. */
void bank_copy(struct bank *bank, uint32_t *block, bool read);

#endif
