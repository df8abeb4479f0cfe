#include "watch_lines.h"

#include <errno.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum {
    COLUMNS_DEFAULT = 80, /* a terminal that does not say */
    COLUMNS_LEAST = 20,
    HELD_START = 64 * 1024,
    LINE_SIZE = 2048,
};

struct lines {
    bool utf8;
    bool ascii; /* a terminal that shows nothing else */
    bool coloured;
    int columns;
    unsigned long count;
    char *held; /* bytes to be written */
    size_t held_size, held_room;
    bool failed; /* out of memory: said by the next flush */
};

static int terminal_columns(void) {
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return COLUMNS_DEFAULT;
    return size.ws_col < COLUMNS_LEAST ? COLUMNS_LEAST : size.ws_col;
}

static bool has_colours(void) {
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(none && *none) && terminal && strcmp(terminal, "dumb") != 0;
}

int lines_open(struct lines **lines) {
    struct lines *l = calloc(1, sizeof *l);
    if (!l)
        return -1;
    l->held = malloc(HELD_START);
    l->held_room = HELD_START;
    if (!l->held) {
        free(l);
        return -1;
    }
    l->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    l->ascii = !l->utf8 && isatty(STDOUT_FILENO);
    l->coloured = has_colours();
    l->columns = LINES_PLAIN_COLUMNS;
    lines_resized(l);
    *lines = l;
    return 0;
}

unsigned long lines_count(const struct lines *l) {
    return l->count;
}

int lines_columns(const struct lines *l) {
    return l->columns;
}

bool lines_are_utf8(const struct lines *l) {
    return l->utf8;
}

bool lines_are_coloured(const struct lines *l) {
    return l->coloured;
}

void lines_resized(struct lines *l) {
    if (isatty(STDOUT_FILENO))
        l->columns = terminal_columns();
}

int lines_width(const char *text) {
    mbstate_t state = {0};
    int used = 0;
    while (*text) {
        wchar_t character;
        size_t length = mbrtowc(&character, text, strlen(text), &state);
        int width = 1;
        if (length == (size_t)-1 || length == (size_t)-2) {
            length = 1; /* no character of the locale: a column a byte */
            memset(&state, 0, sizeof state);
        } else {
            width = wcwidth(character);
        }
        used += width < 0 ? 1 : width;
        text += length;
    }
    return used;
}

static void hold(struct lines *l, const char *bytes, size_t size) {
    if (l->held_size + size > l->held_room) {
        size_t room = 2 * (l->held_size + size);
        char *held = realloc(l->held, room);
        if (!held) {
            l->failed = true;
            return;
        }
        l->held = held;
        l->held_room = room;
    }
    memcpy(l->held + l->held_size, bytes, size);
    l->held_size += size;
}

/* To a terminal of another encoding single bytes of a UTF-8 character may be control characters. */
static void make_safe(const struct lines *l, char *bytes, size_t size) {
    for (size_t i = 0; l->ascii && i < size; i++)
        if ((unsigned char)bytes[i] >= 0x80)
            bytes[i] = '?';
}

void lines_add(struct lines *l, const char *text) {
    size_t begin = l->held_size;
    hold(l, text, strlen(text));
    make_safe(l, l->held + begin, l->held_size - begin);
    hold(l, "\n", 1);
    l->count++;
}

static void add_cells(struct lines *l, const struct lines_table *table, const char *const *texts,
                      const char *rest) {
    char line[LINE_SIZE];
    size_t used = 0;
    for (size_t n = 0; n < table->count && used < sizeof line; n++) {
        int blanks = abs(table->widths[n]) - lines_width(texts[n]);
        int left = table->widths[n] < 0 || blanks < 0 ? 0 : blanks;
        int right = table->widths[n] < 0 && blanks > 0 ? blanks : 0;
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%*s%s%*s", n ? " " : "", left,
                                 "", texts[n], right, "");
    }
    if (used < sizeof line)
        snprintf(line + used, sizeof line - used, "%s", rest);
    lines_add(l, line);
}

void lines_row(struct lines *l, const struct lines_table *table, unsigned long *header,
               const char *const *texts, const char *rest) {
    if (!*header || l->count - *header >= LINES_HEADER_EVERY) {
        add_cells(l, table, table->titles, "");
        *header = l->count;
    }
    add_cells(l, table, texts, rest);
}

int lines_flush(struct lines *l) {
    if (l->failed) {
        errno = ENOMEM;
        return -1;
    }
    while (l->held_size > 0) {
        ssize_t written = write(STDOUT_FILENO, l->held, l->held_size);
        if (written < 0)
            return errno == EINTR || errno == EAGAIN ? 0 : -1;
        l->held_size -= (size_t)written;
        memmove(l->held, l->held + written, l->held_size);
    }
    return 0;
}

void lines_close(struct lines **lines) {
    struct lines *l = *lines;
    if (!l)
        return;
    lines_flush(l);
    free(l->held);
    free(l);
    *lines = NULL;
}
