/* Bytes of a file as symbols, one step each: their value 0..255, or their index among the distinct
   bytes of an alphabet. The stream has no target: a model with `target: next` learns to predict the
   next byte. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "feed_input.h"
#include "feed_permutation.h"
#include "streams/feed.h"

enum { BYTES = 256, NOT_A_SYMBOL = -1 };

struct text {
    struct source source;
    const char *alphabet; /* NULL: every byte is a symbol; "auto"; or a file */
    struct permutation permutation;
    uint64_t seed;
    bool end;           /* the last byte ends the sequence */
    int symbols[BYTES]; /* symbol of each byte, or NOT_A_SYMBOL */
    size_t count;       /* symbols of the alphabet */
    const unsigned char *chunk;
    size_t left;     /* remaining bytes of the chunk */
    uint64_t offset; /* offset of the next byte in the file */
    uint64_t line;
    uint32_t symbol; /* the step's x */
};

static const struct option_row OPTIONS[] = {
    {"alphabet", 0, "FILE",
     "number the distinct bytes of this file 0..n-1; auto: of the input file, and print the "
     "alphabet (default: a byte's own value, an alphabet of 256)",
     OPTION_FILE(struct text, alphabet)},
    {"permute", 0, "N", "draw another order of the symbols every N bytes",
     OPTION_COUNT(struct text, permutation.every, 0, UINT64_MAX)},
    {"seed", 0, "SEED", "seed of these orders", OPTION_COUNT(struct text, seed, 0, UINT64_MAX)},
    {"end", 0, NULL, "the last byte of the file ends the sequence", OPTION_FLAG(struct text, end)},
    OPTIONS_END,
};

/* Numbers the distinct bytes of the rest of the input by value. */
static int learn_alphabet(struct text *text, struct input *input, struct error *error) {
    const unsigned char *chunk;
    size_t size;
    int status, count = 0;
    bool seen[BYTES] = {false};
    while ((status = input_chunk(input, &chunk, &size, error)) > 0)
        for (size_t i = 0; i < size; i++)
            seen[chunk[i]] = true;
    if (status < 0)
        return -1;
    for (int byte = 0; byte < BYTES; byte++)
        text->symbols[byte] = seen[byte] ? count++ : NOT_A_SYMBOL;
    text->count = (size_t)count;
    if (count == 0)
        return error_set(error, EX_DATAERR, "%s: empty file; an alphabet needs at least one byte",
                         input_name(input));
    feed_print("alphabet of %d symbols from %s; set the model's input.size to this number", count,
               input_name(input));
    for (int byte = 0; byte < BYTES; byte++)
        if (seen[byte])
            feed_detail(isgraph(byte) ? "symbol %d is byte %d, '%c'" : "symbol %d is byte %d",
                        text->symbols[byte], byte, byte);
    return 0;
}

static int open_alphabet(struct text *text, struct error *error) {
    for (int byte = 0; byte < BYTES; byte++)
        text->symbols[byte] = byte;
    text->count = BYTES;
    if (!text->alphabet)
        return 0;
    if (strcmp(text->alphabet, "auto") == 0) {
        if (text->source.once)
            return error_set(error, EX_USAGE,
                             "--alphabet auto: cannot read a pipe twice; use a file instead");
        return learn_alphabet(text, text->source.input, error) < 0
                   ? -1
                   : input_rewind(text->source.input, error);
    }
    struct input *input;
    if (input_open(&input, text->alphabet, error) < 0)
        return -1;
    int status = learn_alphabet(text, input, error);
    input_close(&input);
    return status;
}

static int rewind_text(struct source *source, uint64_t pass, struct error *error) {
    struct text *text = (struct text *)source;
    (void)pass;
    text->left = 0;
    text->offset = 0;
    text->line = 1;
    return input_rewind(source->input, error);
}

static int open_text(struct source *source, char **operands, struct error *error) {
    struct text *text = (struct text *)source;
    if (input_open(&source->input, operands[0], error) < 0)
        return -1;
    source->x = (struct shape){VALUE_CLASS, 1};
    source->once = input_is_pipe(source->input);
    text->line = 1;
    return open_alphabet(text, error) < 0
               ? -1
               : permutation_open(&text->permutation, text->count, text->seed, error);
}

static int refill(struct text *text, struct error *error) {
    return text->left > 0 ? 1 : input_chunk(text->source.input, &text->chunk, &text->left, error);
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct text *text = (struct text *)source;
    int symbol = NOT_A_SYMBOL;
    while (symbol == NOT_A_SYMBOL) {
        int status = refill(text, error);
        if (status <= 0)
            return status;
        unsigned char byte = *text->chunk++;
        text->left--;
        text->offset++;
        symbol = text->symbols[byte];
        if (symbol == NOT_A_SYMBOL && !source->skip_bad)
            return error_set(error, EX_DATAERR,
                             "%s:%llu: byte %llu is 0x%02X, which is not in the alphabet of %s; "
                             "use --skip-bad to skip such bytes",
                             input_name(source->input), (unsigned long long)text->line,
                             (unsigned long long)text->offset, byte, text->alphabet);
        source->skipped += symbol == NOT_A_SYMBOL;
        text->line += byte == '\n';
    }
    permutation_advance(&text->permutation);
    text->symbol = text->permutation.to[symbol];
    step->x = &text->symbol;
    if (!text->end)
        return 1;
    int more = refill(text, error); /* whether this was the last byte */
    step->end = more == 0;
    return more < 0 ? -1 : 1;
}

static void close_text(struct source *source) {
    free(((struct text *)source)->permutation.to);
    input_close(&source->input);
}

const struct source_type source_text = {
    .command = {"text", "FILE", "the bytes of a file as symbols", .complete = COMPLETE_FILE,
                .rows = OPTIONS},
    .bundles = true,
    .size = sizeof(struct text),
    .open = open_text,
    .next = next,
    .rewind = rewind_text,
    .close = close_text,
};
