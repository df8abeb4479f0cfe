#include "part.h"

#include "rows.h"

const struct part_kind *const part_kinds[] = {
#define PART(name) &name##_part,
#include "parts.def"
    NULL,
};

const struct state_row *part_row(size_t n) {
    for (size_t k = 0; part_kinds[k]; k++) {
        if (n < part_kinds[k]->row_count)
            return &part_kinds[k]->rows[n];
        n -= part_kinds[k]->row_count;
    }
    return NULL;
}
