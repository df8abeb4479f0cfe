/* Charts as SVG in a page of HTML: elements alone, without a style of their own. The page's style
   gives them their look: the classes are those of report_style.h, colours are var(--c0) and so on
   of common/palette.def. Texts are escaped here. What is not finite is not drawn. */
#ifndef RUNNEL_REPORT_SVG_H
#define RUNNEL_REPORT_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* One curve: which of the looks of the palette it has (SVG_GREY: none of them), and its points. */
enum { SVG_GREY = -1 };
struct svg_curve {
    const char *name;
    int look;
    const double *x, *y;      /* (count,) */
    const double *low, *high; /* (count,) of a band; NULL: none */
    size_t count;
    bool dots; /* the points themselves as well */
};

struct svg_chart {
    const char *title, *x_title, *y_title;
    const struct svg_curve *curves;
    size_t count;
    bool log_x;
    const double *floor; /* what is less is not shown, unless all is; NULL: all is shown */
    int id;              /* another for each chart of a page */
};
void svg_lines(FILE *to, const struct svg_chart *chart);

/* A row a variant: its values as dots, their mean as a stroke. */
struct svg_row {
    const char *name;
    int look;
    const double *values; /* (count,) */
    size_t count;
    double mean;
};
/* A mean below the floor is written at the edge. */
void svg_rows(FILE *to, const char *title, const char *x_title, const struct svg_row *rows,
              size_t count, const double *floor);

/* A field for each pair of values of two keys, the darker the better. */
struct svg_heat {
    const char *title, *across, *down; /* names of the keys */
    const char *const *columns, *const *rows;
    size_t column_count, row_count;
    const double *values; /* (row_count, column_count) */
    bool larger_better;
    const double *floor; /* what is less is as pale as that */
};
void svg_heat(FILE *to, const struct svg_heat *heat);

/* A line as a curve of that look is drawn: of a legend. */
void svg_sample(FILE *to, int look);

/* A text of HTML or XML; bytes that are no text become '?'. */
void svg_text(FILE *to, const char *text);

#endif
