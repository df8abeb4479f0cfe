/* A frame of runnel-top: a grid of characters with styles. Independent of curses, so that a frame
   can also be printed. */
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
    STYLE_BAND,  /* the area around it */
    STYLE_BAR,   /* the top line of a panel, or a question */
    STYLE_OTHER, /* the top line of a panel that is not selected */
    STYLES,
};

struct cell {
    wchar_t character; /* 0: covered by the previous wide one */
    enum style style;
};

/* Initialize with zeros. */
struct canvas {
    int rows, columns;
    bool utf8; /* whether the output can show more than ASCII */
    struct cell *cells;
};

/* A rectangle of the canvas. Drawing is clipped to it. */
struct area {
    int top, left, rows, columns;
};

/* Makes the canvas blank with this size. Returns -1 when out of memory. */
int canvas_reset(struct canvas *canvas, int rows, int columns);
void canvas_close(struct canvas *canvas);

struct area canvas_all(const struct canvas *canvas);

/* At most `rows` rows of the area from `row` on; rows outside the area are left out. */
struct area area_rows(const struct area *area, int row, int rows);
struct area area_columns(const struct area *area, int column, int columns);

/* Writes a printable character that is one column wide. */
void canvas_put(struct canvas *canvas, const struct area *area, int row, int column,
                enum style style, wchar_t character);

/* Writes text in the locale's encoding; other characters become '?'. Returns the column after the
   text, even if it was clipped. */
int canvas_print(struct canvas *canvas, const struct area *area, int row, int column,
                 enum style style, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Writes text over as many rows as it needs from `row` on, each from `column`, broken at blanks if
   possible. Returns the number of rows; writes nothing if canvas is NULL. */
int canvas_wrap(struct canvas *canvas, const struct area *area, int row, int column,
                enum style style, const char *text);

/* Writes text that ends at the area's last column. */
void canvas_print_right(struct canvas *canvas, const struct area *area, int row, enum style style,
                        const char *text);

/* Fills a row with blanks of this style. */
void canvas_fill(struct canvas *canvas, const struct area *area, int row, enum style style);

/* Draws a heading: a rule across the area with the text in it. */
void canvas_heading(struct canvas *canvas, const struct area *area, int row, const char *text);

/* The columns of a text. */
int canvas_width(const char *text);

/* Writes the canvas as lines of text without blanks at their ends. */
void canvas_write(const struct canvas *canvas, FILE *file);

/* Returns the first text if the canvas shows UTF-8, else the second. */
const char *canvas_text(const struct canvas *canvas, const char *utf8, const char *ascii);

/* ---- Terminal ----

   Shows canvases and reads keys. The only part that uses curses. */

/* Keys without a character. */
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

/* Opens standard input and output as a terminal. Returns EX_OK, or prints an error and returns an
   exit status. */
int terminal_open(struct terminal **terminal);
void terminal_close(struct terminal **terminal);

/* Restores the terminal from a signal handler that ends the program. */
void terminal_abandon(void);

void terminal_size(int *rows, int *columns);

/* Call after a change of size, or when others have written to the terminal: the next frame is drawn
   completely. */
void terminal_resized(struct terminal *terminal);

void terminal_show(struct terminal *terminal, const struct canvas *canvas);

/* The next key, or KEY_NONE. */
int terminal_key(struct terminal *terminal);

#endif
