/* The terminal: shows canvases, gives keys. The only part that knows of curses. */
#ifndef RUNNEL_TOP_TERMINAL_H
#define RUNNEL_TOP_TERMINAL_H

#include <stdbool.h>

#include "top_canvas.h"

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

struct terminal;

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
