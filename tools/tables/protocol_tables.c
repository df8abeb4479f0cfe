/* Updates the tables of fields (common/fields.def) in docs/reference/protocol.md and
   docs/man/runneld.8. Copies a page from standard input to standard output and replaces the text
   between

     <!-- fields of NAME: written by `make documents` -->
     <!-- end of fields -->

   In a manual these lines are comments of mdoc. Exit status: 0, or 65 if a table is unknown or has
   no end line. */
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

/* The optional columns of a table: those with a value in any row. */
struct columns {
    bool need, unit, null;
};

static struct columns columns_of(const struct field_table *table) {
    struct columns has = {0};
    for (int i = 0; i < table->count; i++) {
        has.need |= *field_need_text(table->fields[i].need) != '\0';
        has.unit |= *table->fields[i].unit != '\0';
        has.null |= table->fields[i].null != NULL;
    }
    return has;
}

static void put_text(const char *text) {
    for (; *text; text++)
        printf(*text == '|' ? "\\%c" : "%c", *text);
}

static void put_cell(bool wanted, const char *text) {
    if (!wanted)
        return;
    printf(" ");
    put_text(text);
    printf(*text ? " |" : "|");
}

static void put_table(const struct field_table *table) {
    struct columns has = columns_of(table);
    printf("| field |%s%s |%s\n", has.need ? " only with |" : "", has.unit ? " unit |" : "",
           has.null ? " `null` when |" : "");
    printf("|---|%s%s---|%s\n", has.need ? "---|" : "", has.unit ? "---|" : "",
           has.null ? "---|" : "");
    for (int i = 0; i < table->count; i++) {
        const struct field *field = &table->fields[i];
        printf("| `%s` |", field->path);
        put_cell(has.need, field_need_text(field->need));
        put_cell(has.unit, field_unit_text(field));
        printf(" ");
        put_text(field->meaning);
        printf("%s |",
               field->type == FIELD_TALLY ? ": an object with a count for each that occurred" : "");
        put_cell(has.null, field->null ? field->null : "");
        printf("\n");
    }
}

/* Prints Markdown as plain text for mdoc, one sentence per line: without the targets of links and
   without backquotes. */
static void put_plain(const char *text) {
    if (*text == '.' || *text == '\'')
        fputs("\\&", stdout);
    for (; *text; text++)
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (!strncmp(text, "](", 2))
            text +=
                strcspn(text, ")") - !strchr(text, ')'); /* stops at the end of an unclosed link */
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
    {".\\\" fields of ", ".\\\" end of fields\n", put_list},
};

static const struct page *find_page(const char *line) {
    for (size_t n = 0; n < sizeof pages / sizeof *pages; n++)
        if (strncmp(line, pages[n].begin, strlen(pages[n].begin)) == 0)
            return &pages[n];
    return NULL;
}

/* `name` ends with a colon. */
static const struct field_table *find_table(const char *name) {
    size_t size = strcspn(name, ":");
    for (int i = 0; i < FIELD_TABLES; i++)
        if (strlen(field_tables[i].name) == size && !memcmp(field_tables[i].name, name, size))
            return &field_tables[i];
    return NULL;
}

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
        fprintf(stderr, "protocol_tables: unknown table, or no end line: %s", line);
        status = EX_DATAERR;
    }
    free(line);
    return fflush(stdout) || ferror(stdout) ? EX_IOERR : status;
}
