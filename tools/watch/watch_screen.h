/* Standard output as lines that scroll and, on a terminal, one bar beneath them that is rewritten
   in place. Where output is not a terminal, or TERM is dumb, there is no bar and nothing but lines
   is written.

   Lines and bar are held until screen_flush, which takes the bar away, writes the lines and draws
   the bar again, all in one write: what a terminal shows is always whole. */
#ifndef RUNNEL_WATCH_SCREEN_H
#define RUNNEL_WATCH_SCREEN_H

#include <stdbool.h>

struct screen;

/* Open on standard output. With `plain` there is never a bar. -1 when out of memory. */
int screen_open(struct screen **screen, bool plain);

/* Take the bar away and write what is held; closes nothing of standard output. */
void screen_close(struct screen **screen);

/* Take the bar away without the rest, from a signal handler that ends the program at once. */
void screen_abandon(void);

/* How many lines were added. */
unsigned long screen_lines(const struct screen *screen);

/* Whether there is a bar. */
bool screen_has_bar(const struct screen *screen);

/* Columns that a line may take: the terminal's, else SCREEN_PLAIN_COLUMNS. */
int screen_columns(const struct screen *screen);
enum { SCREEN_PLAIN_COLUMNS = 100 };

/* Whether the terminal shows UTF-8 (from the locale); plain output always may hold it. */
bool screen_is_utf8(const struct screen *screen);

/* The terminal has changed its size, or somebody else has written on it. */
void screen_resized(struct screen *screen);

/* Add a line. The text must be clean (text_copy) and have no newline. What is not ASCII becomes
   '?' on a terminal that does not show UTF-8. */
void screen_line(struct screen *screen, const char *text);

/* Set the bar's text, which is cut to the terminal's width. Clean, no newline. */
void screen_bar(struct screen *screen, const char *text);

/* Write what has changed. -1 when standard output takes no more; errno says why. EINTR is not an
   error: what was not written stays held. */
int screen_flush(struct screen *screen);

/* The columns that a clean text takes. */
int screen_width(const char *text);

#endif
