/* Writes the fields (common/fields.def) into docs/reference/protocol.md, the metrics made of them
   into docs/reference/metrics.md, and lists of fields into docs/man/runneld.8. It copies a page
   from standard input to standard output and replaces the lines between

     <!-- fields of NAME: written by `make documents` -->
     <!-- end of fields -->

   or the same with "metrics". In a manual these lines are comments of mdoc. Exit status: 0, or 65
   for an unknown table or one without an end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/fields.h"

enum { COLUMNS = 98, NAME_COLUMNS = 53, ITEM_SIZE = 4096 };

struct page {
    const char *begin, *end; /* lines around a table; the name follows `begin` */
    void (*put)(const struct field_table *table);
};

/* The first member of an object names the condition of all. */
static bool is_named_before(const struct field_table *table, int i) {
    const struct field *field = &table->fields[i], *previous = &table->fields[i ? i - 1 : 0];
    return i > 0 && *field->group && !strcmp(field->group, previous->group) &&
           field->need == previous->need;
}

/* Prints an item of a list, its words wrapped at COLUMNS. A minus must not begin a line: it would
   begin another item. */
static void put_item(char *text) {
    size_t column = (size_t)printf("-");
    for (char *rest = text, *word; (word = strtok_r(rest, " ", &rest));) {
        bool wraps = column + 1 + strlen(word) > COLUMNS && strcmp(word, "-") != 0;
        column = (wraps ? 1 : column) + 1 + strlen(word);
        printf("%s %s", wraps ? "\n " : "", word);
    }
    putchar('\n');
}

/* Counts and shares name their unit in their meaning; the page has the unit of losses. */
static void put_field(const struct field *field, const char *need) {
    char text[ITEM_SIZE];
    bool named = field->type != FIELD_NUMBER || !strcmp(field->unit, "share");
    const char *unit = named || !strcmp(field->unit, "nats") ? "" : field->unit;
    snprintf(text, sizeof text, "`%s`: %s%s%s%s%s%s%s%s%s%s", field->path, *need ? "with " : "",
             need, *need ? ": " : "", field->meaning, *unit ? " (" : "", unit, *unit ? ")" : "",
             field->type == FIELD_TALLY ? ", as counts" : "", field->null ? "; `null`: " : "",
             field->null ? field->null : "");
    put_item(text);
}

static void put_fields(const struct field_table *table) {
    putchar('\n');
    for (int i = 0; i < table->count; i++)
        put_field(&table->fields[i],
                  is_named_before(table, i) ? "" : field_need_text(table->fields[i].need));
    putchar('\n');
}

static const struct field_table *member_table(const struct field *field) {
    bool columns = field == &fields_of_loss[FIELD_columns];
    return &field_tables[columns ? FIELDS_OF_COLUMN : FIELDS_OF_EXPERT];
}

/* A line of a block of code: the metric, and its field or a member of each row of the field. */
static void put_metric(const struct field *field, const char *end, const char *label,
                       const char *member) {
    int size = printf("runnel_%s%s%s", field->metric.name, *end ? "_" : "", end);
    if (*label)
        size += printf("{%s}", label);
    printf("%*s%s%s%s\n", NAME_COLUMNS - size, " ", field->path, *member ? ": " : "", member);
}

static void put_metrics_of_rows(const struct field *field) {
    const struct field_table *table = member_table(field);
    for (int i = 0; i < table->count; i++)
        put_metric(field, table->fields[i].name, field->metric.name, table->fields[i].path);
}

static void put_metrics(const struct field_table *table) {
    puts("\n```");
    for (int i = 0; i < table->count; i++) {
        const struct field *field = &table->fields[i];
        const char *end = field->metric.kind == METRIC_COUNTER ? "total" : "", *label = "";
        if (field->type == FIELD_TALLY)
            label = field->metric.label ? field->metric.label : "reason";
        if (field->metric.name && field->type == FIELD_ROWS)
            put_metrics_of_rows(field);
        else if (field->metric.name)
            put_metric(field, end, label, "");
    }
    puts("```\n");
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
    {"<!-- fields of ", "<!-- end of fields -->\n", put_fields},
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
