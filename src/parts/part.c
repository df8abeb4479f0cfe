#include "part.h"

#include <string.h>

#include "rows.h"

const struct part_kind *const part_kinds[] = {
#define PART(name) &name##_part,
#include "common/parts.def"
    NULL,
};

void parts_opened(struct part_host *host) {
    for (size_t member = 0; member < PART_MEMBERS; member++) {
        size_t count = 0;
        for (size_t n = 0; n < host->part_count; n++) {
            const void *has;
            memcpy(&has, (const char *)host->parts[n].kind + member * sizeof has, sizeof has);
            if (has)
                host->having[member][count++] = &host->parts[n];
        }
        host->having[member][count] = NULL;
    }
}

const struct state_row *part_row(size_t n) {
    for (size_t k = 0; part_kinds[k]; k++) {
        if (n < part_kinds[k]->row_count)
            return &part_kinds[k]->rows[n];
        n -= part_kinds[k]->row_count;
    }
    return NULL;
}
