/* Images and labels in the IDX format of MNIST (LeCun, Cortes and Burges): a magic number 0x00 0x00
   TYPE DIMENSIONS, the dimensions as big-endian u32, and the data in row-major order. Only TYPE
   0x08, unsigned bytes, is supported. An example is one image: x is its pixels over 255, in [0, 1],
   and y its label. It is a sequence of its own, so that no state passes from one image to the
   next. */
#include <stdlib.h>
#include <sysexits.h>

#include "feed_input.h"
#include "feed_permutation.h"
#include "streams/feed.h"

enum {
    IDX_UNSIGNED_BYTE = 0x08,
    MAGIC_SIZE = 4,
    DIMENSION_SIZE = 4,
    DIMENSIONS_MAX = 4,
    GREYS = 256,
    SIDE_MAX = 4096, /* of the squares of --average */
};
#define PIXELS_MAX (1u << 24) /* of one image */

/* One IDX file in memory. */
struct table {
    const char *path;
    unsigned char *bytes;      /* (count, size) */
    size_t count, size, width; /* width: the last dimension */
};

struct idx {
    struct source source;
    struct table images, labels;
    bool shuffle;
    uint64_t shuffle_seed, seed;
    uint64_t side; /* of the squares of pixels that are averaged */
    struct permutation pixels, classes;
    uint32_t *order; /* (count,) order of the images */
    size_t position;
    float greys[GREYS]; /* gray value of each byte */
    float *x;           /* (x.count,) */
    uint32_t y;
};

static const struct option_row OPTIONS[] = {
    {"shuffle", 0, "SEED", "random order, different in each pass",
     OPTION_COUNT(struct idx, shuffle_seed, 0, UINT64_MAX), OPTION_GIVEN(struct idx, shuffle)},
    {"average", 0, "N", "average squares of N x N pixels",
     OPTION_COUNT(struct idx, side, 1, SIDE_MAX)},
    {"permute-pixels", 0, "N", "draw another order of the pixels every N images",
     OPTION_COUNT(struct idx, pixels.every, 0, UINT64_MAX)},
    {"permute-labels", 0, "N", "draw another order of the labels every N images",
     OPTION_COUNT(struct idx, classes.every, 0, UINT64_MAX)},
    {"seed", 0, "SEED", "seed of these orders", OPTION_COUNT(struct idx, seed, 0, UINT64_MAX)},
    OPTIONS_END,
};

static void set_defaults(struct source *source) {
    ((struct idx *)source)->side = 1;
}

static uint32_t big_endian(const unsigned char b[DIMENSION_SIZE]) {
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* Reads magic number and dimensions: `count` is the first dimension, `size` the product of the
   others. */
static int read_shape(struct table *table, struct input *input, struct error *error) {
    unsigned char magic[MAGIC_SIZE], dimension[DIMENSION_SIZE];
    size_t got;
    if (input_read(input, magic, sizeof magic, &got, error) < 0)
        return -1;
    if (got < sizeof magic || magic[0] || magic[1])
        return error_set(
            error, EX_DATAERR,
            "%s: not an IDX file: it must begin with two zero bytes, type and dimensions",
            table->path);
    if (magic[2] != IDX_UNSIGNED_BYTE)
        return error_set(error, EX_DATAERR,
                         "%s: expected numbers of type 0x%02X (unsigned bytes), got 0x%02X",
                         table->path, IDX_UNSIGNED_BYTE, magic[2]);
    if (magic[3] < 1 || magic[3] > DIMENSIONS_MAX)
        return error_set(error, EX_DATAERR, "%s: expected 1..%d dimensions, got %d", table->path,
                         DIMENSIONS_MAX, magic[3]);
    table->size = table->width = 1;
    for (int i = 0; i < magic[3]; i++) {
        if (input_read(input, dimension, sizeof dimension, &got, error) < 0)
            return -1;
        if (got < sizeof dimension)
            return error_set(error, EX_DATAERR, "%s: the file ends within its dimensions",
                             table->path);
        uint32_t length = big_endian(dimension);
        if (i == 0)
            table->count = length;
        else if (length == 0 || (table->size *= length) > PIXELS_MAX)
            return error_set(error, EX_DATAERR, "%s: an image must have 1 to %u numbers",
                             table->path, PIXELS_MAX);
        else
            table->width = length;
    }
    return 0;
}

/* Memory grows with the actual data, not with the announced dimensions. */
static int read_bytes(struct table *table, struct input *input, struct error *error) {
    enum { ROOM_FIRST = 1 << 20 };
    size_t wanted = table->count * table->size, have = 0, room = 0, got = 1;
    unsigned char extra;
    while (have < wanted && got > 0) {
        room = room ? 2 * room : ROOM_FIRST;
        room = room < wanted ? room : wanted;
        unsigned char *grown = realloc(table->bytes, room);
        if (!grown)
            return error_no_memory(error);
        table->bytes = grown;
        if (input_read(input, table->bytes + have, room - have, &got, error) < 0)
            return -1;
        have += got;
    }
    if (have < wanted)
        return error_set(error, EX_DATAERR, "%s: expected %zu x %zu bytes, got %zu", table->path,
                         table->count, table->size, have);
    int more = input_read(input, &extra, 1, &got, error);
    if (more < 0)
        return -1;
    if (more > 0)
        return error_set(error, EX_DATAERR, "%s: expected %zu x %zu bytes, but the file is longer",
                         table->path, table->count, table->size);
    return 0;
}

static int read_table(struct table *table, const char *path, struct error *error) {
    struct input *input;
    table->path = path;
    if (input_open(&input, path, error) < 0)
        return -1;
    table->path = path;
    int status = read_shape(table, input, error) < 0 ? -1 : read_bytes(table, input, error);
    input_close(&input);
    return status;
}

static int check(const struct idx *idx, struct error *error) {
    const struct table *images = &idx->images, *labels = &idx->labels;
    if (images->count == 0 || images->count > UINT32_MAX)
        return error_set(error, EX_DATAERR, "%s: contains no images", images->path);
    if (images->width % idx->side || images->size / images->width % idx->side)
        return error_set(error, EX_USAGE, "--average: expected a divisor of %zu and %zu, got %llu",
                         images->size / images->width, images->width,
                         (unsigned long long)idx->side);
    if (!labels->path)
        return 0;
    if (labels->size != 1)
        return error_set(error, EX_DATAERR,
                         "%s: expected one number for each label, got %zu; name the images first, "
                         "the labels second",
                         labels->path, labels->size);
    if (labels->count != images->count)
        return error_set(error, EX_DATAERR, "%s has %zu images, but %s has %zu labels",
                         images->path, images->count, labels->path, labels->count);
    return 0;
}

/* Begins pass number `pass`, in the order of the file or shuffled. */
static int rewind_idx(struct source *source, uint64_t pass, struct error *error) {
    struct idx *idx = (struct idx *)source;
    uint64_t random = idx->shuffle_seed;
    (void)error;
    random = random_bits(&random) + pass;
    idx->position = 0;
    permutation_set(idx->order, idx->images.count);
    if (idx->shuffle)
        permutation_draw(idx->order, idx->images.count, &random);
    return 0;
}

static int open_idx(struct source *source, char **operands, struct error *error) {
    struct idx *idx = (struct idx *)source;
    if (read_table(&idx->images, operands[0], error) < 0 ||
        (operands[1] && read_table(&idx->labels, operands[1], error) < 0) || check(idx, error) < 0)
        return -1;
    size_t classes = 0, pixels = idx->images.size / (idx->side * idx->side);
    source->x = (struct shape){VALUE_REAL, pixels};
    source->y = (struct shape){VALUE_CLASS, operands[1] != NULL};
    idx->order = malloc(idx->images.count * sizeof *idx->order);
    idx->x = malloc(pixels * sizeof *idx->x);
    if (!idx->order || !idx->x)
        return error_no_memory(error);
    for (size_t i = 0; i < idx->labels.count; i++)
        if (idx->labels.bytes[i] >= classes)
            classes = idx->labels.bytes[i] + 1u;
    if (permutation_open(&idx->pixels, pixels, idx->seed, error) < 0 ||
        permutation_open(&idx->classes, classes, idx->seed, error) < 0)
        return -1;
    for (int grey = 0; grey < GREYS; grey++)
        idx->greys[grey] = (float)grey / (GREYS - 1);
    return rewind_idx(source, 0, error);
}

static void read_pixels(struct idx *idx, const unsigned char *pixels) {
    size_t width = idx->images.width, side = idx->side, columns = width / side;
    for (size_t i = 0; i < idx->source.x.count; i++) {
        const unsigned char *corner = pixels + i / columns * side * width + i % columns * side;
        float sum = 0;
        for (size_t k = 0; k < side * side; k++)
            sum += idx->greys[corner[k / side * width + k % side]];
        idx->x[idx->pixels.to[i]] = sum / (float)(side * side);
    }
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct idx *idx = (struct idx *)source;
    (void)error;
    if (idx->position == idx->images.count)
        return 0;
    size_t image = idx->order[idx->position++];
    permutation_advance(&idx->pixels);
    permutation_advance(&idx->classes);
    read_pixels(idx, idx->images.bytes + image * idx->images.size);
    step->x = idx->x;
    if (idx->labels.bytes) {
        idx->y = idx->classes.to[idx->labels.bytes[image]];
        step->y = &idx->y;
    }
    step->end = true;
    return 1;
}

static double done(const struct source *source) {
    const struct idx *idx = (const struct idx *)source;
    return (double)idx->position / (double)idx->images.count;
}

static void close_idx(struct source *source) {
    struct idx *idx = (struct idx *)source;
    free(idx->images.bytes);
    free(idx->labels.bytes);
    free(idx->pixels.to);
    free(idx->classes.to);
    free(idx->order);
    free(idx->x);
}

const struct source_type source_idx = {
    .command = {"idx", "IMAGES [LABELS]", "images and labels in MNIST's IDX format",
                .complete = COMPLETE_FILE, .rows = OPTIONS},
    .size = sizeof(struct idx),
    .set_defaults = set_defaults,
    .open = open_idx,
    .next = next,
    .rewind = rewind_idx,
    .done = done,
    .close = close_idx,
};
