/* Reads a file, plain or compressed with gzip (zlib), or a pipe as its bytes arrive. A compressed
   pipe is not supported: use zcat. */
#ifndef RUNNEL_FEED_INPUT_H
#define RUNNEL_FEED_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct input;

/* Opens a file; "-" is standard input. Fails with EX_NOINPUT. */
int input_open(struct input **input, const char *path, struct error *error);
void input_close(struct input **input);

/* Returns the path, or "standard input". */
const char *input_name(const struct input *input);

/* Whether it can be read only once. */
bool input_is_pipe(const struct input *input);

/* The three functions return 1, 0 at the end, or -1 on an error (EX_IOERR, EX_DATAERR). Pointers
   are valid until the next call.

   input_chunk: the next bytes, at least one.
   input_line: the next line without its newline; with `more`, the last line again with its newline
   and the line after it. The line and the byte after it may be written.
   input_read: exactly `size` bytes, or fewer at the end; returns how many. */
int input_chunk(struct input *input, const unsigned char **data, size_t *size, struct error *error);
int input_line(struct input *input, bool more, char **line, size_t *size, struct error *error);
int input_read(struct input *input, void *data, size_t size, size_t *got, struct error *error);

/* Returns the number of the last line, from 1; with `more`, of its first line. */
uint64_t input_line_number(const struct input *input);

int input_rewind(struct input *input, struct error *error);

/* Returns the share of the file that is read, or NAN for a pipe. */
double input_done(const struct input *input);

#endif
