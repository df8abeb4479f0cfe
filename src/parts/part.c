#include "part.h"

#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "rows.h"

const struct part_kind *const part_kinds[] = {
#define PART(name) &name##_part,
#include "common/parts.def"
    NULL,
};

void parts_collect(struct part_host *host) {
    host->learned = (struct learned){0};
    for (size_t member = 0; member < PART_MEMBERS; member++) {
        size_t count = 0;
        for (size_t n = 0; n < host->part_count; n++) {
            const struct part *part = &host->parts[n];
            const void *has;
            memcpy(&has, (const char *)part->kind + member * sizeof has, sizeof has);
            if (has && !(part->kind->skips && part->kind->skips(part->self, member)))
                host->having[member][count++] = part;
        }
        host->having[member][count] = NULL;
    }
}

int parts_gather(struct gathered *gathered, const struct planned *example, const void *rows,
                 size_t size, struct error *error) {
    if (gathered->capacity < example->steps * size) {
        void *grown = realloc(gathered->rows, example->steps * size);
        if (!grown)
            return error_set(error, EX_UNAVAILABLE, PART_NO_MEMORY, example->steps);
        *gathered = (struct gathered){grown, example->steps * size};
    }
    if (size)
        memcpy((char *)gathered->rows + example->gathered_steps * size, rows,
               example->planned_steps * size);
    return 0;
}

const struct state_row *part_row(size_t n) {
    for (size_t k = 0; part_kinds[k]; k++) {
        if (n < part_kinds[k]->row_count)
            return &part_kinds[k]->rows[n];
        n -= part_kinds[k]->row_count;
    }
    return NULL;
}
