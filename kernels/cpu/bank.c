#include "bank.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

bool bank_open(struct bank *bank, const struct model *model, size_t output) {
    bank->most = model_output(model, output)->ranking.negatives;
    bank->size = output_candidate_size(model_output(model, output));
    bank->targets = calloc(bank->most, bank->size * sizeof *bank->targets);
    bank->repeated = calloc(bank->most, sizeof *bank->repeated);
    bank->others = calloc(bank->most, sizeof *bank->others);
    return bank->targets && bank->repeated && bank->others;
}

void bank_close(struct bank *bank) {
    free(bank->targets);
    free(bank->repeated);
    free(bank->others);
    *bank = (struct bank){0};
}

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

void bank_read(const struct bank *bank, uint32_t *block) {
    memcpy(block + BANK_NEXT, &bank->next, sizeof bank->next);
    block[BANK_COUNT] = (uint32_t)bank->count;
    memcpy(block + BANK_HEAD, bank->targets, bank->most * bank->size * sizeof *block);
}

void bank_write(struct bank *bank, const uint32_t *block) {
    memcpy(&bank->next, block + BANK_NEXT, sizeof bank->next);
    bank->count = block[BANK_COUNT] < bank->most ? block[BANK_COUNT] : bank->most;
    memcpy(bank->targets, block + BANK_HEAD, bank->most * bank->size * sizeof *block);
    memset(bank->repeated, 0, bank->most * sizeof *bank->repeated);
    for (size_t n = 0; n < bank->count; n++)
        for (size_t later = n + 1; later < bank->count; later++)
            bank->repeated[place_of(bank, n)] |=
                equals(bank, place_of(bank, n), target_at(bank, place_of(bank, later)));
}
