#include "build-config.h"

#include <curses.h>

#include "top_terminal.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sysexits.h>
#include <termios.h>
#include <unistd.h>

#include "common/complain.h"
#include "tools/shared/ending.h"

enum {
    ESCAPE_MS = 25, /* within which the rest of a key's sequence comes */
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
    struct cell *shown; /* the frame before; owned, NULL when it does not count */
    int rows, columns;  /* of it */
};

/* Without colours everything that matters is distinguished by bold and reverse. */
static void make_styles(struct terminal *t) {
    static const attr_t plain[STYLES] = {
        [STYLE_DIM] = A_NORMAL,      [STYLE_STRONG] = A_BOLD, [STYLE_WARN] = A_BOLD,
        [STYLE_BAD] = A_REVERSE,     [STYLE_LINE] = A_BOLD,   [STYLE_BAR] = A_REVERSE,
        [STYLE_OTHER] = A_UNDERLINE,
    };
    memcpy(t->attributes, plain, sizeof plain);
}

/* The 256 have shades that can be read on a light and on a dark ground. */
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

/* What a signal handler needs to give the terminal back. */
static struct {
    volatile sig_atomic_t taken;
    struct termios modes; /* as they were */
    size_t size;
    char bytes[LEAVE_SIZE]; /* no attributes, cursor and keys as usual, the screen of before */
} leaving;

/* Of terminfo; its header, <term.h>, makes macros of words like "columns" and "lines". */
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
                        "cannot draw on a terminal of the kind '%s': set TERM to what it is, or "
                        "use --once or runnel-watch",
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

/* The characters from `column` on that have one style; returns how many cells they cover. */
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

/* Whether the row is unchanged: most are, and curses need not redraw them. */
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
