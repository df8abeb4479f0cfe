/* Columns of a table by name or number, and what their cells say. */
#ifndef RUNNEL_FEED_COLUMNS_H
#define RUNNEL_FEED_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum { CELL_WHY_SIZE = 200 }; /* also of a time: common/moment.h */

struct columns {
    const char *file; /* for messages */
    char **names;     /* (count,) owned; numbers from 1 when the file has no header line */
    double *factors;  /* (count,) what cells are multiplied with */
    size_t count;
    const char *missing; /* words of missing cells, between commas */
};

#define MISSING_WORDS "nan,null,NA,N/A,-"

/* Take the names from the fields of the header line, or number them. */
int columns_open(struct columns *columns, const char *file, char **fields, size_t count,
                 bool header, struct error *error);
void columns_close(struct columns *columns);

/* Some of the columns, by index, in the order in which they were asked for. */
struct selection {
    size_t *indices; /* owned */
    size_t count;
};

#define COLUMNS_LIST_HELP "by name, number, range or pattern: a,b,4-6,c..f,'load*'"

/* Select "a,b,4,6-8,c..f,load*": each item a name or, if no column has that name, a number from 1,
   a range of these or of names, or a pattern of glob(7), which adds those that are not selected
   yet. Errors (EX_USAGE) name the option and the columns that there are. */
int columns_select(const struct columns *columns, const char *option, const char *list,
                   struct selection *selection, struct error *error);
int columns_find(const struct columns *columns, const char *option, const char *name, size_t *index,
                 struct error *error);

/* "a=0.01,b=2": set factors. */
int columns_multiply(struct columns *columns, const char *option, const char *list,
                     struct error *error);

/* What a cell says; false: `why` says in a clause what was found and what is expected.
     real   a decimal number, times the column's factor, that fits 32 bits; NaN: it is missing
     class  a whole number below WIRE_NO_CLASS; WIRE_NO_CLASS: it is missing */
bool cell_real(const struct columns *columns, size_t column, const char *cell, float *value,
               char why[CELL_WHY_SIZE]);
bool cell_class(const struct columns *columns, const char *cell, uint32_t *value,
                char why[CELL_WHY_SIZE]);

/* Whether the cell is empty or one of the words, with or without blanks around it. */
bool cell_missing(const struct columns *columns, const char *cell);

#endif
