#include "build-config.h"

#include "web_skill_api.h"

#include <stdlib.h>

#include "web_query.h"

/* As `loss` has them: a list of columns, an object of experts. */
static void write_parts(FILE *stream, bool experts, const struct history_part *parts,
                        size_t count) {
    const struct field_table *table = &field_tables[experts ? FIELDS_OF_EXPERT : FIELDS_OF_COLUMN];
    fputs(experts ? "{" : "[", stream);
    for (size_t i = 0; i < count; i++) {
        if (i)
            fputc(',', stream);
        if (experts) {
            query_write_text(stream, parts[i].name);
            fputc(':', stream);
        }
        for (int n = 0; n < table->count; n++) {
            fprintf(stream, "%c\"%s\":", n ? ',' : '{', table->fields[n].key);
            query_write_number(stream, parts[i].numbers[n], QUERY_VALUE_DIGITS);
        }
        fputc('}', stream);
    }
    fputs(experts ? "}" : "]", stream);
}

static struct reply answer_parts(size_t run, const struct history_part *columns,
                                 size_t column_count, const struct history_part *experts,
                                 size_t expert_count) {
    struct reply_text text;
    if (!reply_begin(&text))
        return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
    fprintf(text.stream, "{\"run\":%zu,\"columns\":", run);
    write_parts(text.stream, false, columns, column_count);
    fputs(",\"experts\":", text.stream);
    write_parts(text.stream, true, experts, expert_count);
    fputc('}', text.stream);
    return reply_end(&text, REPLY_JSON);
}

struct reply skill_answer(const struct feeds *feeds, struct MHD_Connection *connection) {
    struct history_part *columns = NULL, *experts = NULL;
    size_t run = 0, column_count, expert_count;
    struct reply reply;
    bool known;
    if (!query_count(connection, "run", 1, 1e15, &run) || !run)
        return reply_error(MHD_HTTP_BAD_REQUEST, "run must be the id of a run, from /api/runs");
    if (history_has_run(feeds->history, (int64_t)run, &known) ||
        history_parts(feeds->history, (int64_t)run, false, &columns, &column_count) ||
        history_parts(feeds->history, (int64_t)run, true, &experts, &expert_count))
        reply = reply_error(MHD_HTTP_INTERNAL_SERVER_ERROR, "%s", history_error(feeds->history));
    else if (!known)
        reply = reply_error(MHD_HTTP_NOT_FOUND, "there is no run %zu; /api/runs lists them", run);
    else
        reply = answer_parts(run, columns, column_count, experts, expert_count);
    free(columns);
    free(experts);
    return reply;
}
