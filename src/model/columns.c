#include "columns.h"

#include <stdio.h>
#include <string.h>

const char *column_kind_name(enum column_kind kind) {
    static const char *const names[] = {"real", "symbol", "cycle"};
    return kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

size_t columns_of_kind(const struct column *columns, size_t count, enum column_kind kind) {
    size_t of = 0;
    for (size_t k = 0; k < count; k++)
        of += columns[k].kind == kind && !columns[k].known;
    return of;
}

size_t column_width(const struct column *column) {
    enum { SIN_AND_COS = 2 };
    switch (column->kind) {
    case COLUMN_SYMBOL:
        return column->embedding ? column->embedding : column->size;
    case COLUMN_CYCLE:
        return SIN_AND_COS * column->harmonics;
    case COLUMN_REAL:
        break;
    }
    return 1 + column->mask;
}

size_t column_features(const struct column *column) {
    return column->kind == COLUMN_SYMBOL ? 1 : column_width(column);
}

const char *columns_text(const struct column *columns, size_t count, char text[COLUMNS_TEXT_SIZE]) {
    enum { MORE_SIZE = 24 }; /* ", and 255 more" */
    size_t used = 0;
    *text = 0;
    for (size_t k = 0; k < count; k++) {
        char one[COLUMN_NAME_SIZE + sizeof ", float32"];
        int length = snprintf(one, sizeof one, "%s%s %s", k ? ", " : "", columns[k].name,
                              columns[k].kind == COLUMN_SYMBOL ? "uint32" : "float32");
        if (used + (size_t)length + MORE_SIZE > COLUMNS_TEXT_SIZE) {
            snprintf(text + used, COLUMNS_TEXT_SIZE - used, ", and %zu more", count - k);
            break;
        }
        memcpy(text + used, one, (size_t)length + 1);
        used += (size_t)length;
    }
    return text;
}
