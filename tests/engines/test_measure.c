/* Compares MEASURE with the oracle's state and directly computed sums, and its statistics over
   updates and probes with the h, losses and weights that a test can read. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "oracle.h"
#include "under_test.h"

enum { INPUTS = 3, SIZE = 21, STEPS = 5, AGES = 5, WINDOW = 7, SEED = 11, ROLES = 3 };

static const double TOLERANCE = 1e-5;

static void assert_near(double found, double expected, const char *what) {
    if (!(fabs(found - expected) <= TOLERANCE * (1.0 + fabs(expected))))
        fail_msg("%s is %.9g, but should be %.9g", what, found, expected);
}

/* Population mean and standard deviation. */
static struct mean_std mean_std_of(const double *values, size_t count) {
    struct mean_std m = {0.0, 0.0};
    for (size_t k = 0; k < count; k++)
        m.mean += values[k] / (double)count;
    for (size_t k = 0; k < count; k++)
        m.std += (values[k] - m.mean) * (values[k] - m.mean) / (double)count;
    m.std = sqrt(m.std);
    return m;
}

static void assert_mean_std(struct mean_std found, const double *values, size_t count,
                            const char *what) {
    struct mean_std expected = mean_std_of(values, count);
    assert_near(found.mean, expected.mean, what);
    assert_near(found.std, expected.std, what);
}

static void range(const double *values, size_t count, double *minimum, double *maximum) {
    *minimum = *maximum = values[0];
    for (size_t k = 1; k < count; k++) {
        *minimum = fmin(*minimum, values[k]);
        *maximum = fmax(*maximum, values[k]);
    }
}

static void assert_units(const struct unit_statistics *found, const double *values, size_t count,
                         double saturation, const char *what) {
    double minimum, maximum;
    size_t saturated = 0;
    range(values, count, &minimum, &maximum);
    for (size_t k = 0; k < count; k++)
        saturated += fabs(values[k]) > saturation;
    assert_mean_std((struct mean_std){found->mean, found->std}, values, count, what);
    assert_near(found->minimum, minimum, what);
    assert_near(found->maximum, maximum, what);
    assert_near(found->norm, norm(values, count), what);
    assert_near(found->saturated, (double)saturated / (double)count, what);
}

/* Over all tensors of the layer with these roles. */
static void assert_parameters(const struct parameter_statistics *found, const struct fixture *f,
                              const double *parameters, const enum tensor_role *roles,
                              const char *what) {
    double values[AGES * 9 * SIZE], minimum = 0.0, maximum = 0.0;
    size_t count = 0;
    for (size_t n = 0; n < ROLES; n++) {
        const struct tensor *tensor = model_find(&f->model, roles[n], 0);
        if (!tensor)
            continue;
        memcpy(values + count, parameters + tensor->offset, tensor_size(tensor) * sizeof *values);
        count += tensor_size(tensor);
    }
    if (count)
        range(values, count, &minimum, &maximum);
    else
        values[count++] = 0.0;
    assert_mean_std((struct mean_std){found->mean, found->std}, values, count, what);
    assert_near(found->minimum, minimum, what);
    assert_near(found->maximum, maximum, what);
}

static void assert_histogram(const uint32_t *found, const double *h, size_t size) {
    uint32_t expected[MEASURE_BINS] = {0};
    for (size_t k = 0; k < size; k++) {
        double bin = floor((h[k] + 1.0) / 2.0 * MEASURE_BINS);
        expected[(size_t)fmin(fmax(bin, 0.0), MEASURE_BINS - 1.0)]++;
    }
    assert_memory_equal(found, expected, sizeof expected);
}

/* sums (rows,) = W v, with the bias of that role if the model has it. */
static size_t project(const struct fixture *f, const double *parameters, enum tensor_role weight,
                      enum tensor_role bias, const double *v, double *sums) {
    const struct tensor *w = model_find(&f->model, weight, 0);
    const struct tensor *b = model_find(&f->model, bias, 0);
    for (size_t row = 0; row < w->rows; row++) {
        sums[row] = b ? parameters[b->offset + row] : 0.0;
        for (size_t k = 0; k < w->columns; k++)
            sums[row] += parameters[w->offset + row * w->columns + k] * v[k];
        if (!w->columns) /* diagonal */
            sums[row] += parameters[w->offset + row] * v[row % SIZE];
    }
    return w->rows;
}

static void check_summed(const struct fixture *f, const double *parameters, enum cell cell,
                         const double *x, const double *h) {
    double sums[4 * SIZE], recurrent[4 * SIZE];
    const struct layer_statistics *found = &f->measures[0];
    size_t rows = project(f, parameters, TENSOR_WEIGHT_IH, TENSOR_BIAS_IH, x, sums);
    if (cell_kind(cell)->states > 0 && !cell_kind(cell)->columns) {
        bool gated = cell != CELL_rnn;
        project(f, parameters, TENSOR_WEIGHT_HH, TENSOR_BIAS_HH, h, recurrent);
        if (gated)
            assert_mean_std(found->summed_recurrent, recurrent, rows, "summed recurrent");
        for (size_t k = 0; k < rows && !gated; k++)
            sums[k] += recurrent[k];
    }
    assert_mean_std(found->summed_inputs, sums, rows, "summed inputs");
}

static void check(enum cell cell, enum norm norm, bool diagonal) {
    static const enum tensor_role gains[ROLES] = {TENSOR_GAIN_IH, TENSOR_GAIN_HH,
                                                  TENSOR_GAIN_INNER};
    static const enum tensor_role means[ROLES] = {TENSOR_MEAN_IH, TENSOR_MEAN_HH,
                                                  TENSOR_MEAN_INNER};
    static const enum tensor_role variances[ROLES] = {TENSOR_VAR_IH, TENSOR_VAR_HH,
                                                      TENSOR_VAR_INNER};
    static const enum tensor_role biases[ROLES] = {TENSOR_NORM_BIAS_IH, TENSOR_NORM_BIAS_HH,
                                                   TENSOR_NORM_BIAS_INNER};
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = INPUTS},
        .layers =
            {{.cell = cell, .size = SIZE, .norm = norm, .norm_steps = AGES, .diagonal = diagonal}},
        .layer_count = 1,
        .output = {.loss = LOSS_squared, .size = 1},
    };
    const struct optimizer sgd = {.kind = OPTIMIZER_sgd};
    struct fixture *f;
    union value x[STEPS][INPUTS];
    if (!fixture_takes(&architecture))
        return;
    fixture_open(&f, &architecture, &sgd, WINDOW, 2, SEED);
    float *values = calloc(f->model.parameters, sizeof *values);
    double *parameters = calloc(f->model.parameters, sizeof *parameters);
    fixture_read(f, ENGINE_PARAMETERS, values);
    for (size_t k = 0; k < f->model.parameters; k++)
        parameters[k] = (double)values[k];

    double state[2 * SIZE + 1] = {0}, before[2 * SIZE + 1] = {0}, inputs[INPUTS], output[1];
    fixture_step(f, 1, 0, (const union value[INPUTS]){{.real = 9.0F}});
    for (size_t t = 0; t < STEPS; t++) {
        fixture_random_input(f, x[t]);
        fixture_step(f, 0, t, x[t]);
        memcpy(before, state, sizeof before);
        oracle_step(&f->model, parameters, state, x[t], output);
    }
    fixture_measure(f, 0);
    fixture_play(f, 0.0, 0.0);
    for (size_t k = 0; k < INPUTS; k++)
        inputs[k] = (double)x[STEPS - 1][k].real;

    const struct layer_statistics *found = &f->measures[0];
    const double saturated_hidden = 0.99, saturated_cell = 5.0;
    check_summed(f, parameters, cell, inputs, before);
    if (cell_kind(cell)->states > 0 && !layer_normalizes_output(f->model.architecture.layers)) {
        assert_units(&found->hidden, state, layer_width(f->model.architecture.layers),
                     saturated_hidden, "hidden");
        assert_histogram(found->histogram, state, layer_width(f->model.architecture.layers));
    }
    if (cell == CELL_lstm)
        assert_units(&found->cell, state + SIZE, SIZE, saturated_cell, "cell");
    assert_parameters(&found->gain, f, parameters, gains, "gain");
    assert_parameters(&found->bias, f, parameters, biases, "bias");
    assert_parameters(&found->running_mean, f, parameters, means, "running mean");
    assert_parameters(&found->running_var, f, parameters, variances, "running variance");
    free(values);
    free(parameters);
    fixture_close(&f);
}

static void layers_are_measured(void **state) {
    for (enum cell cell = 0; cell < CELLS; cell++)
        for (enum norm norm = 0; norm < NORMS; norm++)
            for (int d = 0; d <= (cell_kind(cell)->states > 0 && !cell_kind(cell)->columns); d++)
                check(cell, norm, d);
}

/* All positions of all channels: h is the sum without norm and function. */
static void grids_are_measured(void **state) {
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = 12, .shape = {1, 3, 4}},
        .layers = {{.cell = CELL_conv,
                    .norm = NORM_none,
                    .activation = ACTIVATION_identity,
                    .shape.channels = 3,
                    .kernel = 2}},
        .layer_count = 1,
        .output = {.loss = LOSS_squared, .size = 1},
    };
    const struct optimizer sgd = {.kind = OPTIMIZER_sgd};
    struct fixture *f;
    union value x[12];
    if (!fixture_takes(&architecture))
        return;
    fixture_open(&f, &architecture, &sgd, WINDOW, 2, SEED);
    fixture_random_input(f, x);
    fixture_step(f, 0, 0, x);
    fixture_measure(f, 0);
    fixture_play(f, 0.0, 0.0);
    const struct layer_statistics *found = &f->measures[0];
    assert_true(found->hidden.std > 0);
    assert_near(found->summed_inputs.mean, found->hidden.mean, "mean");
    assert_near(found->summed_inputs.std, found->hidden.std, "deviation");
    size_t units = 0;
    for (size_t k = 0; k < MEASURE_BINS; k++)
        units += found->histogram[k];
    assert_int_equal(units, 3 * 2 * 3);
    fixture_close(&f);
}

/* ---- Over updates ---- */

enum { LAYERS = 2, UPDATES = 16 * 12, RING = 8, EVERY = 16, PROBE = 5 };

/* One layer's numbers, as defined in kernels/activities.h. */
struct units {
    double m[SIZE], a[SIZE], ring[RING][SIZE], e1, e2, start;
};

static void units_add(struct units *u, const float *h, size_t age) {
    double q[SIZE], square = 0, products = 0, samples = (double)age / EVERY - RING;
    for (size_t i = 0; i < SIZE; i++) {
        u->m[i] += fmax(1.0 / (double)age, 0.01) * ((double)h[i] - u->m[i]);
        u->a[i] += fmax(1.0 / (double)age, 0.001) * (fabs((double)h[i]) - u->a[i]);
        q[i] = (double)h[i] - u->m[i];
        square += q[i] * q[i];
    }
    if (age % EVERY)
        return;
    for (size_t r = 0; r < RING; r++) {
        double product = 0;
        for (size_t i = 0; i < SIZE; i++)
            product += q[i] * u->ring[r][i];
        products += product * product / RING;
    }
    if (samples > 0) {
        u->e1 += fmax(1 / samples, 0.002) * (square - u->e1);
        u->e2 += fmax(1 / samples, 0.002) * (products - u->e2);
    }
    memcpy(u->ring[age / EVERY % RING], q, sizeof q);
}

static double weights_norm(struct fixture *f, size_t layer) {
    static const enum tensor_role roles[] = {TENSOR_WEIGHT_IH, TENSOR_WEIGHT_HH};
    float *values = calloc(f->model.parameters, sizeof *values);
    double squares = 0;
    fixture_read(f, ENGINE_PARAMETERS, values);
    for (size_t r = 0; r < 2; r++) {
        const struct tensor *tensor = model_find(&f->model, roles[r], layer);
        for (size_t k = 0; k < tensor_size(tensor); k++)
            squares += pow((double)values[tensor->offset + k], 2);
    }
    free(values);
    return sqrt(squares);
}

static void assert_activity(struct fixture *f, const struct units *u, size_t layer, size_t age) {
    const struct layer_statistics *found = &f->measures[layer];
    double mean = 0, dormant = 0, saturated = 0, norm = weights_norm(f, layer);
    for (size_t i = 0; i < SIZE; i++)
        mean += u->a[i] / SIZE;
    for (size_t i = 0; i < SIZE; i++) {
        dormant += (u->a[i] <= 0.01 * mean) / (double)SIZE;
        saturated += (u->a[i] > 0.95) / (double)SIZE;
    }
    assert_near(found->units.dormant, dormant, "dormant");
    assert_near(found->units.saturated, saturated, "saturated");
    if (age < EVERY * (RING + 1))
        assert_true(isnan(found->units.rank));
    else
        assert_near(found->units.rank, u->e1 * u->e1 / u->e2, "rank");
    assert_near(found->weights.norm, norm, "norm of the weights");
    assert_near(found->weights.growth, norm / u->start, "growth");
}

/* The first layer is saturated in part and dormant in part. */
static void open_layers(struct fixture **f) {
    const struct architecture architecture = {
        .input = {.kind = INPUT_REAL, .size = INPUTS},
        .layers = {{.cell = CELL_rnn, .size = SIZE, .activation = ACTIVATION_tanh},
                   {.cell = CELL_lstm, .size = SIZE, .norm = NORM_layer}},
        .layer_count = LAYERS,
        .output = {.loss = LOSS_squared, .size = 1},
    };
    const struct optimizer adam = fixture_optimizer(OPTIMIZER_adam, 0);
    fixture_open(f, &architecture, &adam, WINDOW, 2, SEED);
    size_t count = (*f)->model.parameters;
    float *values = calloc(count, sizeof *values);
    fixture_read(*f, ENGINE_PARAMETERS, values);
    for (size_t k = 0; k < SIZE; k++) {
        for (size_t i = 0; i < INPUTS; i++)
            values[model_find(&(*f)->model, TENSOR_WEIGHT_IH, 0)->offset + k * INPUTS + i] *=
                k < 4 ? 0 : 1;
        values[model_find(&(*f)->model, TENSOR_BIAS_IH, 0)->offset + k] = k < 4 ? 0.0F : 9.0F;
        values[model_find(&(*f)->model, TENSOR_BIAS_HH, 0)->offset + k] = 0;
    }
    fixture_write(*f, ENGINE_PARAMETERS, values);
    free(values);
}

/* An update on one step from the zero state, which slot 1 repeats after it. */
static void learn(struct fixture *f, size_t age, bool probe) {
    union value x[INPUTS], y[1];
    fixture_random_input(f, x);
    y[0].real = (float)sin((double)x[0].real) + 2;
    fixture_forget(f, 0);
    fixture_step(f, 0, 0, x);
    fixture_score(f, 0, 0, y, true);
    fixture_update(f, 0, 0, 1, 1, 1, age % 2);
    f->operations[f->plan.count - 1].probe = probe;
    fixture_forget(f, 1);
    fixture_step(f, 1, 0, x);
    fixture_score(f, 1, 0, y, false);
}

static void assert_probe(const struct fixture *f, size_t age) {
    if (age % PROBE) {
        assert_true(isnan(f->updates[0].plasticity) && f->updates[0].growth == 0);
        return;
    }
    double growths[] = {f->measures[0].weights.growth, f->measures[1].weights.growth};
    size_t layer = growths[1] > growths[0];
    assert_near(f->updates[0].plasticity, fmin(fmax(1 - f->losses[1] / f->losses[0], 0), 1),
                "plasticity");
    assert_near(f->updates[0].growth, growths[layer], "largest growth");
    assert_int_equal(f->updates[0].layer, layer);
}

static void updates_are_counted(void **state) {
    struct units units[LAYERS] = {0};
    struct fixture *f;
    open_layers(&f);
    const size_t at[] = {f->model.state_offset[0], f->model.state_offset[1]};
    float *record = calloc(slot_record_size(&f->model, WINDOW), sizeof *record);
    for (size_t k = 0; k < LAYERS; k++)
        units[k].start = weights_norm(f, k);
    for (size_t age = 1; age <= UPDATES; age++) {
        learn(f, age, age % PROBE == 0);
        fixture_measure(f, 0);
        fixture_play(f, 0.01, 1.0);
        assert_int_equal(f->ops->read(f->engine, ENGINE_SLOT, 0, record, NULL), 0);
        for (size_t k = 0; k < LAYERS; k++) {
            units_add(&units[k], record + at[k], age);
            assert_activity(f, &units[k], k, age);
        }
        assert_probe(f, age);
    }
    free(record);
    fixture_close(&f);
}

/* The same updates in other plans and without probes. */
static void plans_and_probes_change_no_bit(void **state) {
    struct fixture *f[2];
    float *values[2];
    double *activity[2];
    for (size_t n = 0; n < 2; n++) {
        open_layers(&f[n]);
        for (size_t age = 1; age <= UPDATES; age++) {
            learn(f[n], age, n && age % PROBE == 0);
            if (n || age % 6 == 0)
                fixture_play(f[n], 0.01, 1.0);
        }
        values[n] = calloc(f[n]->model.parameters, sizeof *values[n]);
        activity[n] = calloc(engine_activity_size(&f[n]->model), sizeof *activity[n]);
        fixture_read(f[n], ENGINE_PARAMETERS, values[n]);
        assert_int_equal(f[n]->ops->read(f[n]->engine, ENGINE_ACTIVITY, 0, activity[n], NULL), 0);
    }
    assert_memory_equal(values[0], values[1], f[0]->model.parameters * sizeof *values[0]);
    assert_memory_equal(activity[0], activity[1],
                        engine_activity_size(&f[0]->model) * sizeof *activity[0]);
    for (size_t n = 0; n < 2; n++) {
        free(values[n]);
        free(activity[n]);
        fixture_close(&f[n]);
    }
}

/* Weights beyond the root of float's range, at the start or later, leave numbers that a checkpoint
   may contain. */
static void wild_weights_leave_numbers(void **state) {
    for (size_t grown = 0; grown < 2; grown++) {
        struct fixture *f;
        open_layers(&f);
        const struct tensor *weights = model_find(&f->model, TENSOR_WEIGHT_IH, 0);
        float *values = calloc(f->model.parameters, sizeof *values);
        double *activity = calloc(engine_activity_size(&f->model), sizeof *activity);
        if (grown) {
            learn(f, 1, false);
            fixture_play(f, 0.01, 1.0);
        }
        fixture_read(f, ENGINE_PARAMETERS, values);
        for (size_t i = 0; i < tensor_size(weights); i++)
            values[weights->offset + i] = 1e25F;
        fixture_write(f, ENGINE_PARAMETERS, values);
        learn(f, 2, true);
        fixture_play(f, 0.01, 1.0);
        assert_true(f->updates[0].applied && isfinite(f->updates[0].growth));
        assert_int_equal(f->ops->read(f->engine, ENGINE_ACTIVITY, 0, activity, NULL), 0);
        for (size_t i = 0; i < engine_activity_size(&f->model); i++)
            assert_true(isfinite(activity[i]));
        free(activity);
        free(values);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wild_weights_leave_numbers),
        cmocka_unit_test(layers_are_measured),
        cmocka_unit_test(grids_are_measured),
        cmocka_unit_test(updates_are_counted),
        cmocka_unit_test(plans_and_probes_change_no_bit),
    };
    return under_test_run(tests);
}
