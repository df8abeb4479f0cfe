#include "bank.h"

#include <string.h>

#include "engine/engine.h"
#include "memory.h"

/* The place of the target that is so much newer than the oldest. */
static size_t place_of(const struct bank *bank, size_t n) {
    return (size_t)((bank->next - bank->count + n) % bank->most);
}

static union value *target_at(const struct bank *bank, size_t place) {
    return bank->targets + place * bank->size;
}

static bool equals(const struct bank *bank, size_t place, const union value *y) {
    return memcmp(target_at(bank, place), y, bank->size * sizeof *y) == 0;
}

void bank_put(struct bank *bank, const union value *y) {
    for (size_t n = 0; n < bank->count; n++)
        if (equals(bank, place_of(bank, n), y))
            bank->repeated[place_of(bank, n)] = true;
    size_t place = (size_t)(bank->next % bank->most);
    memcpy(target_at(bank, place), y, bank->size * sizeof *y);
    bank->repeated[place] = false;
    bank->count += bank->count < bank->most;
    bank->next++;
}

size_t bank_others(const struct bank *bank, const union value *y) {
    size_t count = 0;
    for (size_t n = 0; n < bank->count; n++)
        if (!equals(bank, place_of(bank, n), y))
            bank->others[count++] = (uint32_t)place_of(bank, n);
    return count;
}

void bank_copy(struct bank *bank, uint32_t *block, bool read) {
    uint32_t count = (uint32_t)bank->count;
    memory_copy(&bank->next, block + BANK_NEXT, sizeof bank->next, read);
    memory_copy(&count, block + BANK_COUNT, sizeof count, read);
    memory_copy(bank->targets, block + BANK_HEAD, bank->most * bank->size * sizeof *block, read);
    bank->count = count < bank->most ? count : bank->most;
    for (size_t n = 0; n < bank->count && !read; n++) {
        bool *repeated = &bank->repeated[place_of(bank, n)];
        *repeated = false;
        for (size_t later = n + 1; later < bank->count; later++)
            *repeated |= equals(bank, place_of(bank, n), target_at(bank, place_of(bank, later)));
    }
}
