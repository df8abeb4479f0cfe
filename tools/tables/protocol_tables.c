/* Writes the tables of fields (common/fields.def) into docs/reference/protocol.md, the metrics made
   of them into docs/reference/metrics.md, and lists of fields into docs/man/runneld.8. It copies a
   page from standard input to standard output and replaces the lines between

     <!-- fields of NAME: written by `make documents` -->
     <!-- end of fields -->

   or the same with "metrics". In a manual these lines are comments of mdoc. Exit status: 0, or 65
   for an unknown table or one without an end. */
#include "build-config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/fields.h"

struct page {
    const char *begin, *end; /* lines around a table; the name follows `begin` */
    void (*put)(const struct field_table *table);
};

static bool has_needs(const struct field_table *table) {
    for (int i = 0; i < table->count; i++)
        if (*field_need_text(table->fields[i].need))
            return true;
    return false;
}

static void put_text(const char *text) {
    for (; *text; text++)
        printf(*text == '|' ? "\\%c" : "%c", *text);
}

/* Counts and shares name their unit in their meaning; the page has the unit of losses. */
static void put_meaning(const struct field *field) {
    bool named = field->type != FIELD_NUMBER || !strcmp(field->unit, "share");
    const char *unit = named || !strcmp(field->unit, "nats") ? "" : field->unit;
    put_text(field->meaning);
    printf("%s%s%s", *unit ? " (" : "", unit, *unit ? ")" : "");
    printf("%s", field->type == FIELD_TALLY ? ", as counts" : "");
    if (field->null) {
        printf("; `null`: ");
        put_text(field->null);
    }
}

static void put_table(const struct field_table *table) {
    bool needs = has_needs(table);
    printf(needs ? "| field | only with | |\n|---|---|---|\n" : "| field | |\n|---|---|\n");
    for (int i = 0; i < table->count; i++) {
        const char *need = field_need_text(table->fields[i].need);
        printf("| `%s` |", table->fields[i].path);
        if (needs)
            printf(*need ? " %s |" : "%s |", need);
        printf(" ");
        put_meaning(&table->fields[i]);
        printf(" |\n");
    }
}

static const struct field_table *member_table(const struct field *field) {
    bool columns = field == &fields_of_loss[FIELD_columns];
    return &field_tables[columns ? FIELDS_OF_COLUMN : FIELDS_OF_EXPERT];
}

/* A metric for each member, with the row's label. */
static void put_metrics_of_rows(const struct field *field) {
    const struct field_table *table = member_table(field);
    for (int i = 0; i < table->count; i++)
        printf("| `runnel_%s_%s{%s}` | `%s`: `%s` |\n", field->metric.name, table->fields[i].name,
               field->metric.name, field->path, table->fields[i].path);
}

static void put_metric(const struct field *field) {
    const char *label = field->metric.label ? field->metric.label : "reason";
    bool tally = field->type == FIELD_TALLY;
    printf("| `runnel_%s%s%s%s%s` | `%s` |\n", field->metric.name,
           field->metric.kind == METRIC_COUNTER ? "_total" : "", tally ? "{" : "",
           tally ? label : "", tally ? "}" : "", field->path);
}

static void put_metrics(const struct field_table *table) {
    printf("| metric | field |\n|---|---|\n");
    for (int i = 0; i < table->count; i++)
        if (table->fields[i].metric.name && table->fields[i].type == FIELD_ROWS)
            put_metrics_of_rows(&table->fields[i]);
        else if (table->fields[i].metric.name)
            put_metric(&table->fields[i]);
}

/* Prints Markdown as running text of mdoc, each sentence on its own line. Links keep only their
   text, and code loses its quotes. */
static void put_plain(const char *text) {
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text; text++)
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (!strncmp(text, "](", 2))
            text +=
                strcspn(text, ")") - !strchr(text, ')'); /* not beyond the end of an open link */
        else if (!strncmp(text, ". ", 2))
            puts("."), text++;
        else if (!strchr("`[", *text))
            putchar(*text);
}

static void put_list(const struct field_table *table) {
    puts(".Bl -tag -width Ds -compact");
    for (int i = 0; i < table->count; i++) {
        printf(".It Va %s\n", table->fields[i].path);
        put_plain(table->fields[i].meaning);
        putchar('\n');
    }
    puts(".El");
}

static const struct page pages[] = {
    {"<!-- fields of ", "<!-- end of fields -->\n", put_table},
    {"<!-- metrics of ", "<!-- end of metrics -->\n", put_metrics},
    {".\\\" fields of ", ".\\\" end of fields\n", put_list},
};

static const struct page *find_page(const char *line) {
    for (size_t n = 0; n < sizeof pages / sizeof *pages; n++)
        if (strncmp(line, pages[n].begin, strlen(pages[n].begin)) == 0)
            return &pages[n];
    return NULL;
}

/* The table of that name, which ends with a colon. */
static const struct field_table *find_table(const char *name) {
    size_t size = strcspn(name, ":");
    for (int i = 0; i < FIELD_TABLES; i++)
        if (strlen(field_tables[i].name) == size && !memcmp(field_tables[i].name, name, size))
            return &field_tables[i];
    return NULL;
}

/* Skip the old table. */
static bool skip_table(const struct page *page, char **line, size_t *size) {
    while (getline(line, size, stdin) >= 0)
        if (strcmp(*line, page->end) == 0)
            return true;
    return false;
}

int main(void) {
    char *line = NULL;
    size_t size = 0;
    int status = EX_OK;
    while (status == EX_OK && getline(&line, &size, stdin) >= 0) {
        fputs(line, stdout);
        const struct page *page = find_page(line);
        if (!page)
            continue;
        const struct field_table *table = find_table(line + strlen(page->begin));
        if (table)
            page->put(table);
        if (table && skip_table(page, &line, &size)) {
            fputs(page->end, stdout);
            continue;
        }
        fprintf(stderr, "protocol_tables: no such table, or it has no end: %s", line);
        status = EX_DATAERR;
    }
    free(line);
    return fflush(stdout) || ferror(stdout) ? EX_IOERR : status;
}
