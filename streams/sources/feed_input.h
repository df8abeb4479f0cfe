/* A file to read from, plain or compressed with gzip (through zlib), or a pipe, whose bytes are
   handed on as they come. A compressed pipe is refused: use zcat. */
#ifndef RUNNEL_FEED_INPUT_H
#define RUNNEL_FEED_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct input;

/* Open a file, "-" for standard input. Errors: EX_NOINPUT. */
int input_open(struct input **input, const char *path, struct error *error);
void input_close(struct input **input);

/* The path, or "standard input". */
const char *input_name(const struct input *input);

/* It can be read only once. */
bool input_is_pipe(const struct input *input);

/* All three read on: 1 when there is something, 0 at the end, -1 on errors (EX_IOERR, EX_DATAERR).
   What they point to is valid until the next call.

   chunk: the next bytes, at least one.
   line: up to the next newline, that one left off; `more` = the line before once again, together
   with its newline and the line after it. The line may be written
   to, and so may the byte after it.
   input_read: exactly `size` bytes unless the end comes before; says how many. */
int input_chunk(struct input *input, const unsigned char **data, size_t *size, struct error *error);
int input_line(struct input *input, bool more, char **line, size_t *size, struct error *error);
int input_read(struct input *input, void *data, size_t size, size_t *got, struct error *error);

/* Number of the newest line, from 1; with `more`, of its first. */
uint64_t input_line_number(const struct input *input);

int input_rewind(struct input *input, struct error *error);

/* Share of the file that has been read, NAN of a pipe. */
double input_done(const struct input *input);

#endif
