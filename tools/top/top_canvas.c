#include "build-config.h"

#include "top_canvas.h"

#include <curses.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sysexits.h>
#include <termios.h>

#include "common/complain.h"
#include "common/text.h"
#include "tools/shared/ending.h"

enum { TEXT_SIZE = 1024 };

#define RULE L'─'

int canvas_reset(struct canvas *c, int rows, int columns) {
    size_t count = (size_t)rows * (size_t)columns;
    if (rows != c->rows || columns != c->columns || !c->cells) {
        struct cell *cells = realloc(c->cells, (count ? count : 1) * sizeof *cells);
        if (!cells)
            return -1;
        c->cells = cells;
        c->rows = rows;
        c->columns = columns;
    }
    for (size_t i = 0; i < count; i++)
        c->cells[i] = (struct cell){L' ', STYLE_PLAIN};
    return 0;
}

void canvas_close(struct canvas *c) {
    free(c->cells);
    *c = (struct canvas){.cells = NULL};
}

struct area canvas_all(const struct canvas *c) {
    return (struct area){0, 0, c->rows, c->columns};
}

static int between(int low, int value, int high) {
    return value < low ? low : value > high ? high : value;
}

struct area area_rows(const struct area *area, int row, int rows) {
    int first = between(0, row, area->rows), count = between(0, rows, area->rows - first);
    return (struct area){area->top + first, area->left, count, area->columns};
}

struct area area_columns(const struct area *area, int column, int columns) {
    int first = between(0, column, area->columns);
    int count = between(0, columns, area->columns - first);
    return (struct area){area->top, area->left + first, area->rows, count};
}

static bool is_inside(const struct area *area, int row, int column) {
    return row >= 0 && row < area->rows && column >= 0 && column < area->columns;
}

void canvas_put(struct canvas *c, const struct area *area, int row, int column, enum style style,
                wchar_t character) {
    if (is_inside(area, row, column))
        c->cells[(area->top + row) * c->columns + area->left + column] =
            (struct cell){character, style};
}

/* Reads the next character of the text and its bytes and columns; false at the end. */
static bool next_character(const char **text, wchar_t *character, int *width) {
    mbstate_t state = {0};
    size_t bytes = mbrtowc(character, *text, MB_LEN_MAX, &state);
    if (bytes == 0)
        return false;
    bool whole = bytes != (size_t)-1 && bytes != (size_t)-2;
    if (!whole)
        *character = L'?';
    *text += whole ? bytes : 1;
    *width = wcwidth(*character);
    if (*width < 0) {
        *character = L' ';
        *width = 1;
    }
    return true;
}

static int put_text(struct canvas *c, const struct area *area, int row, int column,
                    enum style style, const char *text) {
    wchar_t character;
    for (int width; next_character(&text, &character, &width); column += width) {
        if (width == 0 || column + width > area->columns)
            continue;
        canvas_put(c, area, row, column, style, character);
        if (width == 2)
            canvas_put(c, area, row, column + 1, style, 0);
    }
    return column;
}

int canvas_print(struct canvas *c, const struct area *area, int row, int column, enum style style,
                 const char *format, ...) {
    char text[TEXT_SIZE], clean[TEXT_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    return put_text(c, area, row, column, style, text_copy(clean, sizeof clean, text));
}

/* The number of bytes that fit into the columns: up to a blank, if there is one. */
static size_t line_bytes(const char *text, int columns) {
    const char *at = text, *blank = NULL;
    wchar_t character;
    int used = 0;
    while (*at) {
        const char *before = at;
        int width;
        next_character(&at, &character, &width);
        used += width;
        if (used > columns && before > text)
            return (size_t)((blank ? blank : before) - text);
        if (character == L' ' && before > text)
            blank = before;
    }
    return (size_t)(at - text);
}

int canvas_wrap(struct canvas *c, const struct area *area, int row, int column, enum style style,
                const char *text) {
    int rows = 0, room = area->columns - column;
    while (room > 0 && (*text || rows == 0)) {
        size_t bytes = line_bytes(text, room);
        if (c)
            canvas_print(c, area, row + rows, column, style, "%.*s", (int)bytes, text);
        rows++;
        text += bytes;
        text += *text == ' ';
    }
    return rows;
}

int canvas_width(const char *text) {
    wchar_t character;
    int columns = 0;
    for (int width; next_character(&text, &character, &width);)
        columns += width;
    return columns;
}

void canvas_print_right(struct canvas *c, const struct area *area, int row, enum style style,
                        const char *text) {
    int column = area->columns - canvas_width(text);
    canvas_print(c, area, row, column > 0 ? column : 0, style, "%s", text);
}

void canvas_fill(struct canvas *c, const struct area *area, int row, enum style style) {
    for (int column = 0; column < area->columns; column++)
        canvas_put(c, area, row, column, style, L' ');
}

void canvas_heading(struct canvas *c, const struct area *area, int row, const char *text) {
    for (int column = 0; column < area->columns; column++)
        canvas_put(c, area, row, column, STYLE_DIM, c->utf8 ? RULE : L'-');
    canvas_print(c, area, row, 1, STYLE_STRONG, " %s ", text);
}

void canvas_write(const struct canvas *c, FILE *file) {
    for (int row = 0; row < c->rows; row++) {
        const struct cell *cells = c->cells + row * c->columns;
        int used = c->columns;
        while (used > 0 && cells[used - 1].character == L' ')
            used--;
        for (int column = 0; column < used; column++)
            if (cells[column].character)
                fprintf(file, "%lc", (wint_t)cells[column].character);
        fputc('\n', file);
    }
}

const char *canvas_text(const struct canvas *c, const char *utf8, const char *ascii) {
    return c->utf8 ? utf8 : ascii;
}

/* ---- Terminal ---- */

enum {
    ESCAPE_MS = 25, /* maximum time between the characters of a key's sequence */
    MANY_COLORS = 256,
    RUN_MAX = 512, /* characters written at once */
    DEFAULT_ROWS = 24,
    DEFAULT_COLUMNS = 80,
    LEAVE_SIZE = 256,
    DELETE = 127,
    BACKSPACE = 8,
};

struct terminal {
    SCREEN *screen;
    attr_t attributes[STYLES];
    short pairs[STYLES];
    struct cell *shown; /* the previous frame; owned, NULL = unknown */
    int rows, columns;  /* of the previous frame */
};

/* Without colours, bold and reverse mark everything important. */
static void make_styles(struct terminal *t) {
    static const attr_t plain[STYLES] = {
        [STYLE_DIM] = A_NORMAL,      [STYLE_STRONG] = A_BOLD, [STYLE_WARN] = A_BOLD,
        [STYLE_BAD] = A_REVERSE,     [STYLE_LINE] = A_BOLD,   [STYLE_BAR] = A_REVERSE,
        [STYLE_OTHER] = A_UNDERLINE,
    };
    memcpy(t->attributes, plain, sizeof plain);
}

/* 256 colours include shades that are readable on light and dark backgrounds. */
static void make_colors(struct terminal *t) {
    static const short many[STYLES] = {[STYLE_DIM] = 244, [STYLE_GOOD] = 34, [STYLE_WARN] = 172,
                                       [STYLE_BAD] = 196, [STYLE_LINE] = 33, [STYLE_BAND] = 244};
    static const short few[STYLES] = {[STYLE_GOOD] = COLOR_GREEN,
                                      [STYLE_WARN] = COLOR_YELLOW,
                                      [STYLE_BAD] = COLOR_RED,
                                      [STYLE_LINE] = COLOR_CYAN};
    start_color();
    const short *colors = COLORS >= MANY_COLORS ? many : few;
    short ground = use_default_colors() == OK ? -1 : COLOR_BLACK;
    for (short style = 0; style < STYLES; style++)
        if (colors[style] > 0 && init_pair((short)(style + 1), colors[style], ground) == OK)
            t->pairs[style] = (short)(style + 1);
    t->attributes[STYLE_BAD] = A_BOLD;
    t->attributes[STYLE_LINE] = A_NORMAL;
}

static bool has_capability(const char *name) {
    const char *text = tigetstr(name);
    return text && text != (const char *)-1;
}

/* State that a signal handler needs to restore the terminal. */
static struct {
    volatile sig_atomic_t taken;
    struct termios modes; /* original modes */
    size_t size;
    char bytes[LEAVE_SIZE]; /* resets attributes, cursor, keys and screen */
} leaving;

/* Declared here, since <term.h> defines macros with names such as "columns" and "lines". */
extern int tputs(const char *capability, int lines_affected, int (*put)(int byte));

static int add_byte(int byte) {
    if (leaving.size < sizeof leaving.bytes)
        leaving.bytes[leaving.size++] = (char)byte;
    return byte;
}

static void prepare_leaving(void) {
    static const char *const names[] = {"sgr0", "cnorm", "rmkx", "rmcup"};
    leaving.size = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (has_capability(names[i]))
            tputs(tigetstr(names[i]), 1, add_byte);
}

void terminal_abandon(void) {
    if (!leaving.taken)
        return;
    leaving.taken = 0;
    ending_write(leaving.bytes, leaving.size);
    tcsetattr(STDIN_FILENO, TCSANOW, &leaving.modes);
}

int terminal_open(struct terminal **terminal) {
    const char *kind = getenv("TERM"), *mono = getenv("NO_COLOR");
    struct terminal *t = calloc(1, sizeof *t);
    if (!t)
        return complain(EX_UNAVAILABLE, "out of memory");
    bool modes = tcgetattr(STDIN_FILENO, &leaving.modes) == 0;
    t->screen = newterm(NULL, stdout, stdin);
    if (t->screen && !has_capability("cup")) {
        endwin();
        delscreen(t->screen);
        t->screen = NULL;
    }
    if (!t->screen) {
        free(t);
        return complain(EX_UNAVAILABLE,
                        "terminal type '%s' is not supported: set TERM to the right type, or use "
                        "--once or runnel-watch",
                        kind ? kind : "");
    }
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    curs_set(0);
    make_styles(t);
    if (has_colors() && !(mono && *mono))
        make_colors(t);
    prepare_leaving();
    leaving.taken = modes;
    *terminal = t;
    return EX_OK;
}

void terminal_close(struct terminal **terminal) {
    struct terminal *t = *terminal;
    if (!t)
        return;
    leaving.taken = 0;
    endwin();
    delscreen(t->screen);
    free(t->shown);
    free(t);
    *terminal = NULL;
}

void terminal_size(int *rows, int *columns) {
    struct winsize size;
    *rows = DEFAULT_ROWS;
    *columns = DEFAULT_COLUMNS;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
        *rows = size.ws_row;
        *columns = size.ws_col;
    }
}

void terminal_resized(struct terminal *t) {
    int rows, columns;
    terminal_size(&rows, &columns);
    resizeterm(rows, columns);
    free(t->shown);
    t->shown = NULL;
}

/* Shows the characters from `column` on that have one style. Returns the number of cells. */
static int show_run(struct terminal *t, const struct canvas *c, int row, int column) {
    const struct cell *cells = c->cells + row * c->columns;
    enum style style = cells[column].style;
    wchar_t text[RUN_MAX];
    int end = column, length = 0;
    while (end < c->columns && length < RUN_MAX && cells[end].style == style) {
        if (cells[end].character)
            text[length++] = cells[end].character;
        end++;
    }
    attr_set(t->attributes[style], t->pairs[style], NULL);
    mvaddnwstr(row, column, text, length);
    return end - column;
}

/* Whether the row is unchanged, so that curses need not redraw it. */
static bool is_shown(const struct terminal *t, const struct canvas *c, int row) {
    size_t width = (size_t)c->columns * sizeof *c->cells;
    return t->shown && c->rows == t->rows && c->columns == t->columns &&
           memcmp(t->shown + row * c->columns, c->cells + row * c->columns, width) == 0;
}

static void remember(struct terminal *t, const struct canvas *c) {
    size_t size = (size_t)c->rows * (size_t)c->columns * sizeof *c->cells;
    struct cell *shown = realloc(t->shown, size + 1);
    if (!shown)
        free(t->shown);
    t->shown = shown;
    t->rows = c->rows;
    t->columns = c->columns;
    if (shown)
        memcpy(shown, c->cells, size);
}

void terminal_show(struct terminal *t, const struct canvas *c) {
    if (!t->shown)
        clearok(stdscr, TRUE);
    for (int row = 0; row < c->rows && row < LINES; row++)
        for (int column = is_shown(t, c, row) ? COLS : 0; column < c->columns && column < COLS;)
            column += show_run(t, c, row, column);
    refresh();
    remember(t, c);
}

int terminal_key(struct terminal *t) {
    static const struct {
        int curses, ours;
    } keys[] = {
        {ERR, KEY_NONE},         {'\r', KEY_RETURN},        {KEY_ENTER, KEY_RETURN},
        {DELETE, KEY_ERASE},     {BACKSPACE, KEY_ERASE},    {KEY_BACKSPACE, KEY_ERASE},
        {KEY_LEFT, KEY_GO_LEFT}, {KEY_RIGHT, KEY_GO_RIGHT}, {KEY_UP, KEY_GO_UP},
        {KEY_DOWN, KEY_GO_DOWN}, {KEY_PPAGE, KEY_PAGE_UP},  {KEY_NPAGE, KEY_PAGE_DOWN},
        {KEY_HOME, KEY_FIRST},   {KEY_END, KEY_LAST},       {KEY_BTAB, KEY_BACK_TAB},
    };
    (void)t;
    int key = getch();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].curses == key)
            return keys[i].ours;
    return key < KEY_ERASE ? key : KEY_OTHER;
}
