/* The tables `loss_columns` and `loss_experts`: rows beside each of `loss`, for each column of the
   targets and for each expert and member. */
#include "build-config.h"

#include "history_internal.h"

#include <stdlib.h>

#include "common/text.h"

/* ---- Writing ---- */

static int take_part(struct history *h, enum history_kind kind, int64_t run, int part,
                     const struct history_row *message, const json_t *object) {
    struct history_row row = {.number = message->number, .at = message->at};
    history_row_fill(&row, &history_tables[kind], object);
    return history_row_insert(h, (struct history_place){kind, run, part, 0}, &row);
}

static int name_expert(struct history *h, int64_t run, int expert, const char *name) {
    char clean[HISTORY_NAME_SIZE];
    sqlite3_stmt *replace = history_prepare(h, "INSERT OR REPLACE INTO experts VALUES (?, ?, ?)");
    if (!replace)
        return -1;
    sqlite3_bind_int64(replace, 1, run);
    sqlite3_bind_int(replace, 2, expert);
    sqlite3_bind_text(replace, 3, text_copy(clean, sizeof clean, name), -1, SQLITE_TRANSIENT);
    int status = history_done(h, replace);
    sqlite3_finalize(replace);
    return status;
}

int history_parts_take(struct history *h, int64_t run, const struct history_row *row,
                       const json_t *body, int *named) {
    const json_t *columns = field_member(&fields_of_loss[FIELD_columns], body);
    json_t *experts = (json_t *)field_member(&fields_of_loss[FIELD_experts], body), *object;
    const char *name;
    int part = 0;
    for (; part < HISTORY_PARTS && part < (int)json_array_size(columns); part++)
        if (take_part(h, KIND_COLUMNS, run, part, row, json_array_get(columns, (size_t)part)))
            return -1;
    part = 0;
    json_object_foreach(experts, name, object) {
        if (part == HISTORY_PARTS)
            break;
        if (part >= *named && name_expert(h, run, part, name))
            return -1;
        if (take_part(h, KIND_EXPERTS, run, part++, row, object))
            return -1;
    }
    *named = part > *named ? part : *named;
    return 0;
}

/* ---- Reading ---- */

struct reading {
    struct history_part *part; /* to be filled */
    int columns;
    bool found;
};

static bool take_numbers(void *context, const struct history_row *row) {
    struct reading *reading = context;
    for (int i = 0; i < reading->columns; i++)
        reading->part->numbers[i] = row->values[i].mean;
    reading->found = true;
    return true;
}

static int read_name(struct history *h, int64_t run, int expert, char name[HISTORY_NAME_SIZE]) {
    sqlite3_stmt *select =
        history_prepare(h, "SELECT name FROM experts WHERE run = ? AND expert = ?");
    if (!select)
        return -1;
    sqlite3_bind_int64(select, 1, run);
    sqlite3_bind_int(select, 2, expert);
    int code = sqlite3_step(select);
    const char *text = code == SQLITE_ROW ? (const char *)sqlite3_column_text(select, 0) : NULL;
    text_copy(name, HISTORY_NAME_SIZE, text ? text : "");
    int status = code == SQLITE_ROW || code == SQLITE_DONE ? 0 : history_fail(h);
    sqlite3_finalize(select);
    return status;
}

/* The parts of the message of that number, until there is no further one. */
static int read_parts(struct history *h, enum history_kind kind, int64_t run, int64_t number,
                      struct history_part *list, size_t *count) {
    struct history_place place = {.kind = kind, .run = run};
    struct reading reading = {.columns = history_tables[kind].count, .found = true};
    for (; place.part < HISTORY_PARTS; place.part++) {
        reading.part = &list[place.part];
        reading.found = false;
        if (history_rows(h, &place, number, number, take_numbers, &reading))
            return -1;
        if (!reading.found)
            break;
        if (kind == KIND_EXPERTS && read_name(h, run, place.part, list[place.part].name))
            return -1;
    }
    *count = (size_t)place.part;
    return 0;
}

int history_parts(struct history *h, int64_t run, bool experts, struct history_part **list,
                  size_t *count) {
    enum history_kind kind = experts ? KIND_EXPERTS : KIND_COLUMNS;
    double position[HISTORY_AXES];
    int64_t newest;
    *list = NULL;
    *count = 0;
    if (h->lacks[kind][0]) /* the file has no such table */
        return 0;
    *list = calloc(HISTORY_PARTS, sizeof **list);
    if (!*list)
        return history_memory(h);
    struct history_place losses = {.kind = KIND_LOSS, .run = run};
    return history_row_last(h, &losses, &newest, position) ||
                   (newest >= 0 && read_parts(h, kind, run, newest, *list, count))
               ? -1
               : 0;
}
