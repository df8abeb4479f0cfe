#include "oracle.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { W = ORACLE_WIDTH_MAX, TAPS_MAX = 4 };

static const double LN_EPSILON = 1e-5;
static const double PI = 3.14159265358979323846;

/* The current step, with the parameters of its layer. */
struct place {
    const struct model *model;
    const double *parameters;
    size_t layer, age; /* age: of the step, since the stream began */
};

/* Values normalized by running statistics in an update's steps: at the place of each mean's
   number. */
struct seen {
    double *sums, *squares, *steps; /* (model.parameters,) */
};
static struct seen *seen;

static const double *values(const struct place *at, enum tensor_role role) {
    const struct tensor *tensor = model_find(at->model, role, at->layer);
    assert(tensor);
    return at->parameters + tensor->offset;
}

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

/* log(1 + exp(x)) */
static double softplus(double x) {
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

/* a = weight x */
static void multiply(const double *weight, size_t rows, size_t columns, const double *x,
                     double *a) {
    for (size_t row = 0; row < rows; row++) {
        a[row] = 0.0;
        for (size_t k = 0; k < columns; k++)
            a[row] += weight[row * columns + k] * x[k];
    }
}

static void add(double *a, const double *b, size_t count) {
    for (size_t k = 0; k < count; k++)
        a[k] += b[k];
}

/* The sum of squares of row `row` of a matrix. */
static double row_squares(const struct place *at, enum tensor_role role, size_t row) {
    const struct tensor *tensor = model_find(at->model, role, at->layer);
    double squares = 0.0;
    for (size_t k = 0; k < tensor->columns; k++) {
        double w = at->parameters[tensor->offset + row * tensor->columns + k];
        squares += w * w;
    }
    return squares;
}

/* Mean and deviation of one number, for norms of units: */
static void of_unit(const struct place *at, const struct layer *layer, size_t place, size_t unit,
                    size_t units, double a, double *mean, double *deviation) {
    *mean = 0.0;
    if (layer->norm == NORM_weight) {
        bool joined = layer->cell == CELL_rnn;
        double squares = 1.0 - LN_EPSILON; /* an inner value: deviation 1 */
        if (place == PLACE_IH)
            squares = row_squares(at, TENSOR_WEIGHT_IH, unit) +
                      (joined ? row_squares(at, TENSOR_WEIGHT_HH, unit) : 0.0);
        if (place == PLACE_HH)
            squares = row_squares(at, TENSOR_WEIGHT_HH, unit);
        *deviation = sqrt(squares + LN_EPSILON);
        return;
    }
    size_t age = layer->norm == NORM_recurrent_batch ? at->age : 0;
    if (age > 0 && age > layer->norm_steps - 1)
        age = layer->norm_steps - 1;
    size_t number = age * units + unit;
    *mean = values(at, TENSOR_MEAN_IH + place)[number];
    *deviation = sqrt(values(at, TENSOR_VAR_IH + place)[number] + LN_EPSILON);
    if (!seen)
        return;
    number += model_find(at->model, TENSOR_MEAN_IH + place, at->layer)->offset;
    seen->sums[number] += a;
    seen->squares[number] += (a - *mean) * (a - *mean);
    seen->steps[number]++;
}

/* layer: mean = mean(a); rms: 0; deviation = sqrt(mean((a - mean)^2) + epsilon). Over the units
   first..end. */
static void of_group(const struct layer *layer, const double *a, size_t first, size_t end,
                     double *mean, double *deviation) {
    double count = (double)(end - first), variance = 0.0;
    *mean = 0.0;
    for (size_t k = first; k < end && layer->norm == NORM_layer; k++)
        *mean += a[k] / count;
    for (size_t k = first; k < end; k++)
        variance += (a[k] - *mean) * (a[k] - *mean) / count;
    *deviation = sqrt(variance + LN_EPSILON);
}

/* g (a - mean) / deviation + b; groups of `middle` and the rest of the units. */
static void normalize(const struct place *at, const struct layer *layer, size_t place, double *a,
                      size_t units, size_t middle) {
    const double *gain = values(at, TENSOR_GAIN_IH + place);
    const double *bias = values(at, TENSOR_NORM_BIAS_IH + place);
    bool groups = layer->norm == NORM_layer || layer->norm == NORM_rms;
    double mean[2] = {0}, deviation[2] = {0};
    if (groups)
        of_group(layer, a, 0, middle, &mean[0], &deviation[0]);
    if (groups && middle < units)
        of_group(layer, a, middle, units, &mean[1], &deviation[1]);
    for (size_t k = 0; k < units; k++) {
        double m = mean[k >= middle], d = deviation[k >= middle];
        if (!groups)
            of_unit(at, layer, place, k, units, a[k], &m, &d);
        a[k] = gain[k] * (a[k] - m) / d + bias[k];
    }
}

static double activated(enum activation activation, double a) {
    return activation == ACTIVATION_relu   ? fmax(a, 0.0)
           : activation == ACTIVATION_tanh ? tanh(a)
                                           : a;
}

/* Normalizes units (channels, positions) by groups of channels, or each channel by running
   statistics. */
static void normalize_grid(const struct place *at, const struct layer *layer, double *a) {
    size_t positions = layer->shape.rows * layer->shape.columns;
    size_t units = layer->size / layer->norm_groups * positions;
    for (size_t k = 0; k < layer->size * positions; k++) {
        double mean = 0.0, deviation = 1.0;
        if (layer->norm == NORM_batch)
            of_unit(at, layer, PLACE_IH, k / positions, layer->size, a[k], &mean, &deviation);
        a[k] = (a[k] - mean) / deviation;
    }
    for (size_t first = 0; first < layer->size * positions; first += units) {
        double mean = 0.0, deviation = 1.0;
        if (layer->norm != NORM_batch)
            of_group(layer, a, first, first + units, &mean, &deviation);
        for (size_t k = first; k < first + units; k++)
            a[k] = values(at, TENSOR_GAIN_IH)[k / positions] * (a[k] - mean) / deviation +
                   values(at, TENSOR_NORM_BIAS_IH)[k / positions];
    }
}

static void conv(const struct place *at, const struct layer *layer, const double *x, double *h) {
    struct grid_shape from = at->model->input_shape[at->layer];
    size_t K = layer->kernel, unit = 0;
    for (size_t out = 0; out < layer->shape.channels; out++)
        for (size_t row = 0; row < layer->shape.rows; row++)
            for (size_t column = 0; column < layer->shape.columns; column++, unit++) {
                const double *w = values(at, TENSOR_WEIGHT_IH) + out * from.channels * K * K;
                h[unit] = values(at, TENSOR_BIAS_IH)[out];
                for (size_t in = 0; in < from.channels; in++)
                    for (size_t i = 0; i < K; i++)
                        for (size_t j = 0; j < K; j++)
                            h[unit] +=
                                *w++ * x[(in * from.rows + row * layer->stride + i) * from.columns +
                                         column * layer->stride + j];
            }
    if (layer->norm)
        normalize_grid(at, layer, h);
    for (size_t k = 0; k < unit; k++)
        h[k] = activated(layer->activation, h[k]);
}

static void dense(const struct place *at, const struct layer *layer, size_t inputs, const double *x,
                  double *h) {
    size_t H = layer->size;
    multiply(values(at, TENSOR_WEIGHT_IH), H, inputs, x, h);
    add(h, values(at, TENSOR_BIAS_IH), H);
    if (layer->norm)
        normalize(at, layer, PLACE_IH, h, H, H);
    for (size_t k = 0; k < H; k++)
        h[k] = activated(layer->activation, h[k]);
}

/* The inputs of all taps, those of an input beside each other, as torch.nn.Conv1d. Moves the delay
   line (layer_delay, inputs). Returns `row`. */
static double *taps(const struct layer *layer, size_t inputs, double *line, const double *x,
                    double *row) {
    size_t count = layer_taps(layer), delay = layer_delay(layer);
    assert(count <= TAPS_MAX);
    for (size_t k = 0; k < inputs; k++) {
        for (size_t j = 0; j + 1 < count; j++)
            row[k * count + j] = line[j * layer->dilation * inputs + k];
        row[k * count + count - 1] = x[k];
    }
    for (size_t n = 1; n <= delay; n++)
        memcpy(line + (n - 1) * inputs, n < delay ? line + n * inputs : x, inputs * sizeof *x);
    return row;
}

static void rnn(const struct place *at, const struct layer *layer, size_t inputs, const double *x,
                double *h) {
    size_t H = layer->size;
    double a[W], recurrent[W];
    multiply(values(at, TENSOR_WEIGHT_IH), H, inputs, x, a);
    add(a, values(at, TENSOR_BIAS_IH), H);
    multiply(values(at, TENSOR_WEIGHT_HH), H, H, h, recurrent);
    add(a, recurrent, H);
    if (layer->norm)
        normalize(at, layer, PLACE_IH, a, H, H);
    else
        add(a, values(at, TENSOR_BIAS_HH), H);
    for (size_t k = 0; k < H; k++)
        h[k] = tanh(a[k]);
}

static void lstm(const struct place *at, const struct layer *layer, size_t inputs, const double *x,
                 double *h) {
    size_t H = layer->size;
    double a[4 * W], recurrent[4 * W], inner[W], *c = h + H;
    multiply(values(at, TENSOR_WEIGHT_IH), 4 * H, inputs, x, a);
    add(a, values(at, TENSOR_BIAS_IH), 4 * H);
    multiply(values(at, TENSOR_WEIGHT_HH), 4 * H, H, h, recurrent);
    if (layer->norm) {
        normalize(at, layer, PLACE_IH, a, 4 * H, 4 * H);
        normalize(at, layer, PLACE_HH, recurrent, 4 * H, 4 * H);
    } else {
        add(recurrent, values(at, TENSOR_BIAS_HH), 4 * H);
    }
    add(a, recurrent, 4 * H);
    const double *i = a, *f = a + H, *g = a + 2 * H, *o = a + 3 * H;
    for (size_t k = 0; k < H; k++)
        inner[k] = c[k] = sigmoid(f[k]) * c[k] + sigmoid(i[k]) * tanh(g[k]);
    if (layer->norm)
        normalize(at, layer, PLACE_INNER, inner, H, H);
    for (size_t k = 0; k < H; k++)
        h[k] = sigmoid(o[k]) * tanh(inner[k]);
}

static void gru(const struct place *at, const struct layer *layer, size_t inputs, const double *x,
                double *h) {
    size_t H = layer->size;
    double ax[3 * W], ah[3 * W];
    multiply(values(at, TENSOR_WEIGHT_IH), 3 * H, inputs, x, ax);
    add(ax, values(at, TENSOR_BIAS_IH), 3 * H);
    multiply(values(at, TENSOR_WEIGHT_HH), 3 * H, H, h, ah);
    if (layer->norm) {
        normalize(at, layer, PLACE_IH, ax, 3 * H, 2 * H);
        normalize(at, layer, PLACE_HH, ah, 3 * H, 2 * H);
    } else {
        add(ah, values(at, TENSOR_BIAS_HH), 3 * H);
    }
    for (size_t k = 0; k < H; k++) {
        double r = sigmoid(ax[k] + ah[k]), z = sigmoid(ax[H + k] + ah[H + k]);
        double n = tanh(ax[2 * H + k] + r * ah[2 * H + k]);
        h[k] = (1.0 - z) * n + z * h[k];
    }
}

/* A damped rotation of (h, c) by an angle of its own for each unit. */
static void rotate(const struct place *at, size_t H, const double *a, double *h, double *c) {
    const double *log_decay = values(at, TENSOR_UNIT_0), *log_phase = values(at, TENSOR_UNIT_1);
    for (size_t k = 0; k < H; k++) {
        double r = exp(-exp(log_decay[k])), angle = exp(log_phase[k]), m = sqrt(1.0 - r * r);
        double turned = r * cos(angle) * h[k] - r * sin(angle) * c[k] + m * a[k];
        c[k] = r * cos(angle) * c[k] + r * sin(angle) * h[k] + m * a[H + k];
        h[k] = turned;
    }
}

/* Units that do not hear one another: `state` (H, or 2 H) moves; `out` is normalized. */
static void columns(const struct place *at, const struct layer *layer, size_t inputs,
                    const double *x, double *state, double *out) {
    size_t H = layer->size, rows = cell_kind(layer->cell)->gates * H, width = layer_width(layer);
    double a[4 * W], b[4 * W] = {0}, *h = state, *c = state + H, mean, deviation;
    multiply(values(at, TENSOR_WEIGHT_IH), rows, inputs, x, a);
    add(a, values(at, TENSOR_BIAS_IH), rows);
    for (size_t k = 0; k < rows && layer->diagonal; k++)
        b[k] = values(at, TENSOR_WEIGHT_HH)[k] * h[k % H] + values(at, TENSOR_BIAS_HH)[k];
    for (size_t k = 0; k < H; k++) {
        double i = a[k] + b[k], f = a[H + k] + b[H + k], z = sigmoid(f);
        if (layer->cell == CELL_rnn)
            h[k] = tanh(i);
        if (layer->cell == CELL_mingru)
            h[k] = (1.0 - sigmoid(i)) * h[k] + sigmoid(i) * f;
        if (layer->cell == CELL_gru)
            h[k] = (1.0 - z) * tanh(a[2 * H + k] + sigmoid(i) * b[2 * H + k]) + z * h[k];
        if (layer->cell != CELL_lstm)
            continue;
        c[k] = z * c[k] + sigmoid(i) * tanh(a[2 * H + k] + b[2 * H + k]);
        h[k] = sigmoid(a[3 * H + k] + b[3 * H + k]) * tanh(c[k]);
    }
    if (layer->cell == CELL_rtu)
        rotate(at, H, a, h, c);
    memcpy(out, state, width * sizeof *out);
    if (!layer_normalizes_output(layer))
        return;
    of_group(layer, out, 0, width, &mean, &deviation);
    for (size_t k = 0; k < width; k++)
        out[k] = values(at, TENSOR_GAIN_IH)[k] * (out[k] - mean) / deviation +
                 values(at, TENSOR_NORM_BIAS_IH)[k];
}

/* Column by column: numbers, a symbol's row, or 1 at its place; negated for hashed symbols. */
static void encode_columns(const struct place *at, const struct input *input, const union value *x,
                           double *encoded) {
    for (size_t n = 0; n < input->column_count; n++) {
        const struct column *column = &input->columns[n];
        size_t numbers =
            column->kind == COLUMN_REAL ? 1 + (size_t)column->mask : 2 * column->harmonics;
        if (column->kind != COLUMN_SYMBOL) {
            for (size_t k = 0; k < numbers; k++)
                *encoded++ = (double)(x++)->real;
            continue;
        }
        char name[MODEL_TENSOR_NAME_SIZE];
        snprintf(name, sizeof name, "embedding.%s.weight", column->name);
        const struct tensor *table = model_named(at->model, name);
        uint32_t id = x->id & ~SYMBOL_MINUS;
        double sign = (x++)->id & SYMBOL_MINUS ? -1.0 : 1.0;
        for (size_t k = 0; k < (column->embedding ? column->embedding : column->size); k++)
            *encoded++ = sign * (table ? at->parameters[table->offset + id * table->columns + k]
                                       : (double)(k == id));
    }
}

/* The input of the first layer from x. */
static void encode(const struct place *at, const union value *x, double *encoded) {
    const struct input *input = &at->model->architecture.input;
    uint32_t id = x->id & ~SYMBOL_MINUS; /* id of a symbol, whose row may be negated */
    double sign = x->id & SYMBOL_MINUS ? -1.0 : 1.0;
    if (input->column_count) {
        encode_columns(at, input, x, encoded);
    } else if (input->kind == INPUT_REAL) {
        for (size_t k = 0; k < input->size; k++)
            encoded[k] = (double)x[k].real;
    } else if (input->embedding) {
        const double *rows = values(at, TENSOR_EMBEDDING);
        for (size_t k = 0; k < input->embedding; k++)
            encoded[k] = sign * rows[id * input->embedding + k];
    } else {
        for (size_t k = 0; k < input->size; k++)
            encoded[k] = k == id ? sign : 0.0;
    }
}

void oracle_step(const struct model *model, const double *parameters, double *state,
                 const union value *x, double *output) {
    struct place at = {model, parameters, 0, 0};
    if (model->ages)
        at.age = (size_t)state[model->age_offset]++;
    double encoded[W], hidden[2][W], row[TAPS_MAX * W];
    encode(&at, x, encoded);
    const double *from = encoded;
    for (size_t n = 0; n < model->architecture.layer_count; n++) {
        const struct layer *layer = &model->architecture.layers[n];
        size_t inputs = model->input_width[n];
        double *h = state + model->state_offset[n];
        assert(layer_width(layer) <= W && inputs <= W);
        at.layer = n;
        if (layer_is_columns(layer)) {
            columns(&at, layer, inputs, from, h, hidden[n % 2]);
            from = hidden[n % 2];
            continue;
        }
        switch (layer->cell) {
        case CELL_dense:
            dense(&at, layer, inputs * layer_taps(layer), taps(layer, inputs, h, from, row),
                  hidden[n % 2]);
            h = hidden[n % 2];
            for (size_t k = 0; k < inputs && layer->residual; k++)
                h[k] += from[k];
            break;
        case CELL_conv:
            h = hidden[n % 2];
            conv(&at, layer, from, h);
            break;
        case CELL_rnn:
            rnn(&at, layer, inputs, from, h);
            break;
        case CELL_gru:
            gru(&at, layer, inputs, from, h);
            break;
        case CELL_lstm:
            lstm(&at, layer, inputs, from, h);
            break;
        case CELL_mingru:
        case CELL_rtu:
        case CELLS:
            break;
        }
        from = h;
    }
    at.layer = 0;
    size_t last = layer_width(&model->architecture.layers[model->architecture.layer_count - 1]);
    multiply(values(&at, TENSOR_OUTPUT_WEIGHT), model->outputs, last, from, output);
    add(output, values(&at, TENSOR_OUTPUT_BIAS), model->outputs);
    if (!model->architecture.output.skip)
        return;
    double skipped[ORACLE_OUTPUTS_MAX];
    multiply(values(&at, TENSOR_OUTPUT_SKIP), model->outputs, model->input_width[0], encoded,
             skipped);
    add(output, skipped, model->outputs);
}

static double maximum(const double *a, size_t count) {
    double largest = a[0];
    for (size_t k = 1; k < count; k++)
        largest = fmax(largest, a[k]);
    return largest;
}

/* log sum exp(a - bias) */
static double log_sum(const double *a, size_t count, double bias) {
    double largest = maximum(a, count), sum = 0.0;
    for (size_t k = 0; k < count; k++)
        sum += exp(a[k] - largest);
    return largest - bias + log(sum);
}

/* -log N(x | mean, deviation, rho) mixed over components, Graves (2013), equations 24 to 26. */
static double mixture_density(const double *a, size_t M, double y1, double y2) {
    const double *logit = a, *m1 = a + M, *m2 = a + 2 * M, *s1 = a + 3 * M, *s2 = a + 4 * M,
                 *r = a + 5 * M;
    double terms[W];
    for (size_t j = 0; j < M; j++) {
        /* 1 - rho^2 = 1 / cosh(r)^2 */
        double rho = tanh(r[j]), log_cosh = fabs(r[j]) + log1p(exp(-2.0 * fabs(r[j]))) - log(2.0);
        double d1 = (y1 - m1[j]) * exp(-s1[j]), d2 = (y2 - m2[j]) * exp(-s2[j]);
        double z = (d1 * d1 + d2 * d2 - 2.0 * rho * d1 * d2) * exp(2.0 * log_cosh);
        terms[j] = logit[j] - 0.5 * z - log(2.0 * PI) - s1[j] - s2[j] + log_cosh;
    }
    return log_sum(logit, M, 0.0) - log_sum(terms, M, 0.0);
}

/* ---- Losses, as functions of all of a step's outputs a ---- */

/* The mean over observed numbers of that of number k. */
typedef double number_loss(const double *a, size_t size, size_t k, double y);

static double mean_loss(number_loss *loss, size_t size, const double *a, const union value *y) {
    double sum = 0.0;
    size_t observed = 0;
    for (size_t k = 0; k < size; k++)
        if (!isnan(y[k].real)) {
            sum += loss(a, size, k, (double)y[k].real);
            observed++;
        }
    return observed ? sum / (double)observed : NAN;
}

static double squared_number(const double *a, size_t size, size_t k, double y) {
    (void)size;
    return (a[k] - y) * (a[k] - y);
}

static double gaussian_number(const double *a, size_t size, size_t k, double y) {
    double error = a[k] - y, log_variance = a[size + k];
    return 0.5 * (log(2.0 * PI) + log_variance + error * error * exp(-log_variance));
}

static double bernoulli_number(const double *a, size_t size, size_t k, double y) {
    (void)size;
    return softplus(a[k]) - y * a[k];
}

static double oracle_squared(const struct output *output, const double *a, const union value *y) {
    return mean_loss(squared_number, output->size, a, y);
}

static double oracle_gaussian(const struct output *output, const double *a, const union value *y) {
    return mean_loss(gaussian_number, output->size, a, y);
}

static double oracle_bernoulli(const struct output *output, const double *a, const union value *y) {
    return mean_loss(bernoulli_number, output->size, a, y);
}

static double oracle_softmax(const struct output *output, const double *a, const union value *y) {
    return log_sum(a, output->size, a[y->id]);
}

static double oracle_mixture(const struct output *output, const double *a, const union value *y) {
    bool drawn = !isnan(y[0].real) && !isnan(y[1].real), ended = !isnan(y[2].real);
    if (!drawn && !ended)
        return NAN;
    double loss = 0.0;
    if (drawn)
        loss += mixture_density(a + 1, output->components, (double)y[0].real, (double)y[1].real);
    if (ended)
        loss += softplus(a[0]) - (double)y[2].real * a[0];
    return loss;
}

/* It needs more than a step's activations. */
static double oracle_ranking(const struct output *output, const double *a, const union value *y) {
    (void)output, (void)a, (void)y;
    return NAN;
}

double oracle_loss(const struct model *model, const double *a, const union value *y) {
    typedef double kind_loss(const struct output *output, const double *a, const union value *y);
    static kind_loss *const losses[LOSSES] = {
#define LOSS(name, walk) [LOSS_##name] = oracle_##name,
#include "kernels/kinds.def"
    };
    const struct output *output = &model->architecture.output;
    return losses[output->loss](output, a, y);
}

double oracle_mean_loss(const struct model *model, const double *parameters,
                        const struct oracle_window *window) {
    enum { STATE_MAX = 2 * W * MODEL_LAYERS_MAX };
    double state[STATE_MAX], output[ORACLE_OUTPUTS_MAX], sum = 0.0;
    size_t inputs = model->features;
    size_t terms = 0;
    assert(model->state_size <= STATE_MAX && model->outputs <= ORACLE_OUTPUTS_MAX);
    memcpy(state, window->state, model->state_size * sizeof *state);
    for (size_t t = 0; t < window->length; t++) {
        oracle_step(model, parameters, state, window->inputs + t * inputs, output);
        if (t + window->closed < window->length || !window->learned[t])
            continue;
        sum += oracle_loss(model, output, window->targets + t * model->target_size);
        terms++;
    }
    return terms ? sum / (double)terms : NAN;
}

void oracle_gradient(const struct model *model, double *parameters,
                     const struct oracle_window *window, double *gradient) {
    const double step = 1e-5;
    for (size_t k = 0; k < model->learned; k++) {
        double value = parameters[k];
        parameters[k] = value + step;
        double above = oracle_mean_loss(model, parameters, window);
        parameters[k] = value - step;
        double below = oracle_mean_loss(model, parameters, window);
        parameters[k] = value;
        gradient[k] = (above - below) / (2.0 * step);
    }
}

void oracle_absorb(const struct model *model, double *parameters,
                   const struct oracle_window *window) {
    enum { STATE_MAX = 2 * W * MODEL_LAYERS_MAX };
    double state[STATE_MAX], output[ORACLE_OUTPUTS_MAX];
    size_t inputs = model->features;
    double *numbers = calloc(3 * model->parameters, sizeof *numbers);
    struct seen s = {numbers, numbers + model->parameters, numbers + 2 * model->parameters};
    memcpy(state, window->state, model->state_size * sizeof *state);
    for (size_t t = 0; t < window->length; t++) {
        seen = t + window->closed < window->length ? NULL : &s;
        oracle_step(model, parameters, state, window->inputs + t * inputs, output);
    }
    seen = NULL;
    for (size_t n = model->learned_count; n < model->tensor_count; n++) {
        const struct tensor *mean = &model->tensors[n];
        if (mean->role < TENSOR_MEAN_IH || mean->role > TENSOR_MEAN_INNER)
            continue;
        enum tensor_role role = TENSOR_VAR_IH + (mean->role - TENSOR_MEAN_IH);
        const struct tensor *var = model_find(model, role, mean->layer);
        double momentum = (double)model->architecture.layers[mean->layer].norm_momentum;
        for (size_t k = 0; k < tensor_size(mean); k++) {
            size_t at = mean->offset + k;
            double steps = s.steps[at], *m = &parameters[at], *v = &parameters[var->offset + k];
            if (steps == 0.0)
                continue;
            *m = (1.0 - momentum) * *m + momentum * s.sums[at] / steps;
            *v = (1.0 - momentum) * *v + momentum * s.squares[at] / steps;
        }
    }
    free(numbers);
}

static void clip_norm(double *gradient, size_t count, double clip) {
    const double torchs_epsilon = 1e-6;
    double squares = 0.0;
    for (size_t k = 0; k < count; k++)
        squares += gradient[k] * gradient[k];
    double factor = fmin(1.0, clip / (sqrt(squares) + torchs_epsilon));
    for (size_t k = 0; k < count; k++)
        gradient[k] *= factor;
}

/* ---- Optimizers: one step of one parameter p ---- */

struct parameter_step {
    const struct optimizer *o;
    double t;                                        /* counts updates from 1 */
    double *first, *second, *third, *fourth, *fifth; /* of this parameter */
};

static double oracle_sgd(const struct parameter_step *s, double p, double g) {
    const struct optimizer *o = s->o;
    g += o->weight_decay * p;
    if (o->momentum == 0.0)
        return p - o->rate * g;
    *s->first = o->momentum * *s->first + g;
    return p - o->rate * (o->nesterov ? g + o->momentum * *s->first : *s->first);
}

static double oracle_rmsprop(const struct parameter_step *s, double p, double g) {
    const struct optimizer *o = s->o;
    g += o->weight_decay * p;
    *s->first = o->alpha * *s->first + (1.0 - o->alpha) * g * g;
    return p - o->rate * g / (sqrt(*s->first) + o->epsilon);
}

static double adam_without_decay(const struct parameter_step *s, double p, double g) {
    const struct optimizer *o = s->o;
    double *mean = s->first, *squares = s->second, only = 0.0;
    if (o->beta1 == 0.0) {
        mean = &only;
        squares = s->first;
    }
    *mean = o->beta1 * *mean + (1.0 - o->beta1) * g;
    *squares = o->beta2 * *squares + (1.0 - o->beta2) * g * g;
    double m = *mean / (1.0 - pow(o->beta1, s->t));
    double v = *squares / (1.0 - pow(o->beta2, s->t));
    return p - o->rate * m / (sqrt(v) + o->epsilon);
}

static double oracle_adam(const struct parameter_step *s, double p, double g) {
    return adam_without_decay(s, p, g + s->o->weight_decay * p);
}

static double oracle_adamw(const struct parameter_step *s, double p, double g) {
    return adam_without_decay(s, p - s->o->rate * s->o->weight_decay * p, g);
}

/* Here g is the negative gradient, like in the paper. */
static double oracle_cocob(const struct parameter_step *s, double p, double gradient) {
    const struct optimizer *o = s->o;
    double g = -(gradient + o->weight_decay * p);
    double *start = s->first, *L = s->second, *theta = s->third, *G = s->fourth, *reward = s->fifth;
    if (s->t == 1.0)
        *start = p;
    *L = fmax(*L, fabs(g));
    *G += fabs(g);
    *reward = fmax(*reward + (p - *start) * g, 0.0);
    *theta += g;
    if (*L == 0.0)
        return *start;
    return *start + *theta / (*L * fmax(*G + *L, o->alpha * *L)) * (*L + *reward);
}

void oracle_update(const struct optimizer *o, double clip, size_t update, size_t count,
                   double *parameters, double *gradient, double *const moments[MOMENTS_MAX]) {
    typedef double kind_step(const struct parameter_step *s, double p, double g);
    static kind_step *const steps[OPTIMIZERS] = {
#define OPTIMIZER(name) [OPTIMIZER_##name] = oracle_##name,
#include "kernels/kinds.def"
    };
    if (clip > 0.0)
        clip_norm(gradient, count, clip);
    for (size_t k = 0; k < count; k++) {
        struct parameter_step step = {o,
                                      (double)update,
                                      &moments[0][k],
                                      &moments[1][k],
                                      &moments[2][k],
                                      &moments[3][k],
                                      &moments[4][k]};
        parameters[k] = steps[o->kind](&step, parameters[k], gradient[k]);
        if (o->pull > 0.0)
            parameters[k] -= o->rate * o->pull * (parameters[k] - moments[optimizer_start(o)][k]);
    }
}
