#include "build-config.h"

#include "watch_screen.h"

#include <errno.h>
#include <langinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "tools/shared/ending.h"

enum {
    BAR_SIZE = 1024,
    COLUMNS_DEFAULT = 80, /* a terminal that does not say */
    COLUMNS_LEAST = 20,
    HELD_START = 64 * 1024,
};

/* No attributes, to the first column, erase to the end of the screen. Ctrl-C makes a terminal
   forget what it has not shown yet, so the end of a bar may be missing. */
#define TAKE_AWAY "\033[0m\r\033[J"
#define BAR_BEGIN "\033[7m" /* reverse video */
#define BAR_END "\033[0m\r"

struct screen {
    bool terminal, utf8;
    bool ascii; /* a terminal that shows nothing else */
    int columns;
    char bar[BAR_SIZE];
    unsigned long lines;
    bool bar_changed;
    bool bar_drawn; /* the terminal shows a bar, the cursor at its beginning */
    char *held;     /* bytes to be written; the bar is drawn after them */
    size_t held_size, held_room;
    bool failed; /* memory was short: said by the next flush */
};

static volatile sig_atomic_t bar_possible; /* for a signal handler */

static int terminal_columns(void) {
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return COLUMNS_DEFAULT;
    return size.ws_col < COLUMNS_LEAST ? COLUMNS_LEAST : size.ws_col;
}

int screen_open(struct screen **screen, bool plain) {
    struct screen *s = calloc(1, sizeof *s);
    if (!s)
        return -1;
    s->held = malloc(HELD_START);
    s->held_room = HELD_START;
    if (!s->held) {
        free(s);
        return -1;
    }
    const char *kind = getenv("TERM");
    s->terminal = !plain && isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
    bar_possible = s->terminal;
    s->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    s->ascii = !s->utf8 && isatty(STDOUT_FILENO);
    s->columns = isatty(STDOUT_FILENO) ? terminal_columns() : SCREEN_PLAIN_COLUMNS;
    *screen = s;
    return 0;
}

void screen_abandon(void) {
    if (bar_possible)
        ending_write(TAKE_AWAY, sizeof TAKE_AWAY - 1);
}

unsigned long screen_lines(const struct screen *s) {
    return s->lines;
}

bool screen_has_bar(const struct screen *s) {
    return s->terminal;
}

int screen_columns(const struct screen *s) {
    return s->columns;
}

bool screen_is_utf8(const struct screen *s) {
    return s->utf8;
}

/* The bytes of `text` that take at most `columns`; *used says how many columns they take. Bytes
   that are no character of the locale count as one column each. */
static size_t fitting(const char *text, int columns, int *used) {
    mbstate_t state = {0};
    size_t bytes = 0;
    *used = 0;
    while (text[bytes]) {
        wchar_t character;
        size_t length = mbrtowc(&character, text + bytes, strlen(text + bytes), &state);
        int width = 1;
        if (length == (size_t)-1 || length == (size_t)-2) {
            length = 1;
            memset(&state, 0, sizeof state);
        } else {
            width = wcwidth(character);
        }
        if (width < 0)
            width = 1;
        if (*used + width > columns)
            break;
        *used += width;
        bytes += length;
    }
    return bytes;
}

int screen_width(const char *text) {
    int used;
    fitting(text, (int)strlen(text) * 2, &used);
    return used;
}

static void hold(struct screen *s, const char *bytes, size_t size) {
    if (s->held_size + size > s->held_room) {
        size_t room = 2 * (s->held_size + size);
        char *held = realloc(s->held, room);
        if (!held) {
            s->failed = true;
            return;
        }
        s->held = held;
        s->held_room = room;
    }
    memcpy(s->held + s->held_size, bytes, size);
    s->held_size += size;
}

static void hold_text(struct screen *s, const char *text) {
    hold(s, text, strlen(text));
}

static void take_bar_away(struct screen *s) {
    if (s->bar_drawn)
        hold_text(s, TAKE_AWAY);
    s->bar_drawn = false;
}

/* The last column stays empty: a character there would make some terminals wrap. The cursor goes
   back to the first one, so that what a user types (or the ^C that ends all this) does not wrap
   either, and a terminal that becomes narrower wraps the bar below the cursor, where it is erased.
 */
static void draw_bar(struct screen *s) {
    int used, room = s->columns - 1;
    size_t bytes = fitting(s->bar, room, &used);
    if (used == 0)
        return;
    hold_text(s, BAR_BEGIN);
    hold(s, s->bar, bytes);
    for (; used < room; used++)
        hold_text(s, " ");
    hold_text(s, BAR_END);
    s->bar_drawn = true;
}

void screen_resized(struct screen *s) {
    if (!isatty(STDOUT_FILENO))
        return;
    s->columns = terminal_columns();
    take_bar_away(s);
    s->bar_changed = true;
}

/* To a terminal of another encoding single bytes of a UTF-8 character may be control characters. */
static void make_safe(const struct screen *s, char *bytes, size_t size) {
    for (size_t i = 0; s->ascii && i < size; i++)
        if ((unsigned char)bytes[i] >= 0x80)
            bytes[i] = '?';
}

void screen_line(struct screen *s, const char *text) {
    take_bar_away(s);
    size_t begin = s->held_size;
    hold_text(s, text);
    make_safe(s, s->held + begin, s->held_size - begin);
    hold_text(s, "\n");
    s->lines++;
}

void screen_bar(struct screen *s, const char *text) {
    if (!s->terminal || strcmp(s->bar, text) == 0)
        return;
    size_t size = strnlen(text, BAR_SIZE - 1);
    memcpy(s->bar, text, size);
    s->bar[size] = '\0';
    make_safe(s, s->bar, size);
    s->bar_changed = true;
}

static int write_held(struct screen *s) {
    while (s->held_size > 0) {
        ssize_t written = write(STDOUT_FILENO, s->held, s->held_size);
        if (written < 0)
            return errno == EINTR || errno == EAGAIN ? 0 : -1;
        s->held_size -= (size_t)written;
        memmove(s->held, s->held + written, s->held_size);
    }
    return 0;
}

int screen_flush(struct screen *s) {
    if (s->terminal && (!s->bar_drawn || s->bar_changed)) {
        take_bar_away(s);
        draw_bar(s);
        s->bar_changed = false;
    }
    if (s->failed) {
        errno = ENOMEM;
        return -1;
    }
    return write_held(s);
}

void screen_close(struct screen **screen) {
    struct screen *s = *screen;
    if (!s)
        return;
    s->bar_drawn = s->terminal;
    take_bar_away(s);
    write_held(s);
    bar_possible = 0;
    free(s->held);
    free(s);
    *screen = NULL;
}
