#include "split.h"

#include "matrix.h"

/* One product, with the data that each part needs. */
struct product {
    const struct network *n;
    const float *w;
    size_t rows, columns, parts;
    const float *bias;
    const float *const *x; /* (count,) */
    float *const *y;       /* (count,) */
    const float *d;
    float *out;
    size_t stride, count;
    bool turn;
};

/* The rows, or columns, of one part. */
static struct range rows_of(const struct product *p, size_t part) {
    size_t panels = matrix_panels(p->rows);
    return (struct range){
        matrix_panel_row(p->rows, threads_share(panels, part, p->parts)),
        matrix_panel_row(p->rows, threads_share(panels, part + 1, p->parts)),
    };
}

static struct range columns_of(const struct product *p, size_t part) {
    size_t groups = p->columns / MATRIX_GROUP;
    size_t from = threads_share(groups, part, p->parts) * MATRIX_GROUP;
    size_t end = threads_share(groups, part + 1, p->parts) * MATRIX_GROUP;
    return (struct range){from, part + 1 == p->parts ? p->columns : end};
}

static void project(void *context, size_t part) {
    const struct product *p = context;
    matrix_project(p->w, p->rows, p->columns, p->bias, p->x, p->y, p->count, rows_of(p, part));
}

static void multiply(void *context, size_t part) {
    const struct product *p = context;
    matrix_multiply(p->w, p->rows, p->columns, p->bias, *p->x, *p->y, p->turn, rows_of(p, part));
}

static void transposed(void *context, size_t part) {
    const struct product *p = context;
    matrix_transposed(p->w, p->rows, p->columns, p->d, p->out, p->turn, columns_of(p, part));
}

static void transposed_many(void *context, size_t part) {
    const struct product *p = context;
    matrix_transposed_many(p->w, p->rows, p->columns, p->d, p->out, p->stride, p->count,
                           columns_of(p, part));
}

static void gradient(void *context, size_t part) {
    const struct product *p = context;
    matrix_gradient(p->out, p->rows, p->columns, p->d, p->x, p->count,
                    p->n->pack + part * p->n->window * p->n->positions * MATRIX_PANEL,
                    p->n->squares, rows_of(p, part));
}

static void run(struct product *p, threads_part *play, size_t pieces, size_t count) {
    p->parts = split_parts(p->n, p->rows * p->columns * count, pieces);
    threads_run(p->n->threads, play, p, p->parts);
}

void split_project(const struct network *n, const float *w, size_t rows, size_t columns,
                   const float *bias, const float *const *x, float *const *y, size_t count) {
    struct product p = {n, w, rows, columns, .bias = bias, .x = x, .y = y, .count = count};
    run(&p, project, matrix_panels(rows), count);
}

void split_multiply(const struct network *n, const float *w, size_t rows, size_t columns,
                    const float *bias, const float *x, float *y, bool turn) {
    struct product p = {n, w, rows, columns, .bias = bias, .x = &x, .y = &y, .turn = turn};
    run(&p, multiply, matrix_panels(rows), 1);
}

void split_transposed(const struct network *n, const float *w, size_t rows, size_t columns,
                      const float *d, float *out, bool turn) {
    struct product p = {n, w, rows, columns, .d = d, .out = out, .turn = turn};
    run(&p, transposed, columns / MATRIX_GROUP, 1);
}

void split_transposed_many(const struct network *n, const float *w, size_t rows, size_t columns,
                           const float *d, float *out, size_t stride, size_t count) {
    struct product p = {n, w, rows, columns, .d = d, .out = out, .stride = stride, .count = count};
    run(&p, transposed_many, columns / MATRIX_GROUP, count);
}

double split_gradient(const struct network *n, float *out, size_t rows, size_t columns,
                      const float *d, const float *const *x, size_t count) {
    float *to = n->adds ? n->added : out;
    struct product p = {n, NULL, rows, columns, .d = d, .x = x, .out = to, .count = count};
    double squares = 0;
    run(&p, gradient, matrix_panels(rows), count);
    for (size_t i = 0; n->adds && i < rows * columns; i++)
        out[i] += to[i];
    for (size_t panel = 0; panel < matrix_panels(rows); panel++)
        squares += n->squares[panel];
    return squares;
}
