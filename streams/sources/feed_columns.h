/* Columns of a table by name or number, and the values of their cells. */
#ifndef RUNNEL_FEED_COLUMNS_H
#define RUNNEL_FEED_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum { CELL_WHY_SIZE = 200 }; /* also sufficient for common/moment.h */

struct columns {
    const char *file; /* for messages */
    char **names;     /* (count,) owned; numbers from 1 if the file has no header line */
    double *factors;  /* (count,) factors of the cells */
    size_t count;
    const char *missing; /* words for missing cells, separated by commas */
};

#define MISSING_WORDS "nan,null,NA,N/A,-"

/* Takes the names from the fields of the header line, or numbers the columns. */
int columns_open(struct columns *columns, const char *file, char **fields, size_t count,
                 bool header, struct error *error);
void columns_close(struct columns *columns);

/* Indices of columns, in the requested order. */
struct selection {
    size_t *indices; /* owned */
    size_t count;
};

#define COLUMNS_LIST_HELP "by name, number, range or pattern: a,b,4-6,c..f,'load*'"

/* Selects columns by "a,b,4,6-8,c..f,load*". Each item is a name or, if no column has it, a number
   from 1, a range of numbers or names, or a glob(7) pattern for columns not selected yet. Errors
   (EX_USAGE) name the option and the existing columns. */
int columns_select(const struct columns *columns, const char *option, const char *list,
                   struct selection *selection, struct error *error);
int columns_find(const struct columns *columns, const char *option, const char *name, size_t *index,
                 struct error *error);

/* Sets factors: "a=0.01,b=2". */
int columns_multiply(struct columns *columns, const char *option, const char *list,
                     struct error *error);

/* Parses a cell; returns false with the expected and the actual text in `why`.

   real: a decimal number times the column's factor, in the range of float32; NaN: missing
   class: a whole number below WIRE_NO_CLASS; WIRE_NO_CLASS: missing */
bool cell_real(const struct columns *columns, size_t column, const char *cell, float *value,
               char why[CELL_WHY_SIZE]);
bool cell_class(const struct columns *columns, const char *cell, uint32_t *value,
                char why[CELL_WHY_SIZE]);

/* Whether the cell, without blanks around it, is empty or one of the missing words. */
bool cell_missing(const struct columns *columns, const char *cell);

#endif
