/* A frame as runnel-top composes it before a terminal or a file gets it: a grid of characters with
   styles. Nothing here knows of curses, so that a frame can also be printed. */
#ifndef RUNNEL_TOP_CANVAS_H
#define RUNNEL_TOP_CANVAS_H

#include <stdbool.h>
#include <stdio.h>
#include <wchar.h>

struct terminal;

enum style {
    STYLE_PLAIN,
    STYLE_DIM,
    STYLE_STRONG,
    STYLE_GOOD,
    STYLE_WARN,
    STYLE_BAD,
    STYLE_LINE,  /* a curve */
    STYLE_BAND,  /* what surrounds it */
    STYLE_BAR,   /* the line at the top of a panel, or a question */
    STYLE_OTHER, /* that line of a panel whose daemon gets no keys */
    STYLES,
};

struct cell {
    wchar_t character; /* 0: covered by the wide one before it */
    enum style style;
};

/* Plain data, zero to begin with. */
struct canvas {
    int rows, columns;
    bool utf8; /* whether more than ASCII can be shown */
    struct cell *cells;
};

/* A rectangle of it; everything is drawn into one, and what lies outside is clipped. */
struct area {
    int top, left, rows, columns;
};

/* Make it a blank one of that size. -1 when out of memory. */
int canvas_reset(struct canvas *canvas, int rows, int columns);
void canvas_close(struct canvas *canvas);

struct area canvas_all(const struct canvas *canvas);

/* The area's rows from `row`, at most `rows` of them; what is not there has 0 rows. */
struct area area_rows(const struct area *area, int row, int rows);
struct area area_columns(const struct area *area, int column, int columns);

/* Put a printable character that takes one column. */
void canvas_put(struct canvas *canvas, const struct area *area, int row, int column,
                enum style style, wchar_t character);

/* Write text in the locale's encoding; what cannot be shown becomes '?'. Returns the column after
   it, also where it was clipped. */
int canvas_print(struct canvas *canvas, const struct area *area, int row, int column,
                 enum style style, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Write text over as many rows as it needs from `row` on, each from `column`, broken at blanks
   where that can be. Returns how many rows; with canvas NULL nothing is written. */
int canvas_wrap(struct canvas *canvas, const struct area *area, int row, int column,
                enum style style, const char *text);

/* The same as canvas_print so that it ends at the area's last column. */
void canvas_print_right(struct canvas *canvas, const struct area *area, int row, enum style style,
                        const char *text);

/* Fill a row with blanks of that style. */
void canvas_fill(struct canvas *canvas, const struct area *area, int row, enum style style);

/* A heading: a rule across the area with the text in it. */
void canvas_heading(struct canvas *canvas, const struct area *area, int row, const char *text);

/* The columns that a text takes. */
int canvas_width(const char *text);

/* Write it as lines of text without blanks at their ends. */
void canvas_write(const struct canvas *canvas, FILE *file);

/* The first where the canvas is UTF-8, else the second. */
const char *canvas_text(const struct canvas *canvas, const char *utf8, const char *ascii);

/* ---- Terminal ----

   The terminal: shows canvases, gives keys. The only part that knows of curses. */

/* Keys that are no characters. */
enum {
    KEY_NONE = 0,
    KEY_TAB = '\t',
    KEY_RETURN = '\n',
    KEY_ESCAPE = 27,
    KEY_ERASE = 0x100,
    KEY_GO_LEFT,
    KEY_GO_RIGHT,
    KEY_GO_UP,
    KEY_GO_DOWN,
    KEY_PAGE_UP,
    KEY_PAGE_DOWN,
    KEY_FIRST,
    KEY_LAST,
    KEY_BACK_TAB,
    KEY_OTHER,
};

/* Take standard input and output. Returns EX_OK, or complains and returns an exit status. */
int terminal_open(struct terminal **terminal);
void terminal_close(struct terminal **terminal);

/* Give the terminal back as it was, from a signal handler that ends the program at once. */
void terminal_abandon(void);

/* Its size now. */
void terminal_size(int *rows, int *columns);

/* It has changed its size, or others have written on it: what is shown next is shown whole. */
void terminal_resized(struct terminal *terminal);

void terminal_show(struct terminal *terminal, const struct canvas *canvas);

/* The next key that waits, KEY_NONE when none does. */
int terminal_key(struct terminal *terminal);

#endif
