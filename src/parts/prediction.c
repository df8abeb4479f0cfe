#include "prediction.h"

#include <math.h>
#include <string.h>

#include "observer.h"
#include "truth.h"

typedef double meaning(double activation);

static double as_it_is(double a) {
    return a;
}

static double sigmoid(double a) {
    return 1 / (1 + exp(-a));
}

static double root_of_exponential(double a) {
    return exp(a / 2);
}

static void softmax(const float *outputs, size_t size, double *numbers) {
    double largest = outputs[0], sum = 0;
    for (size_t k = 1; k < size; k++)
        largest = fmax(largest, outputs[k]);
    for (size_t k = 0; k < size; k++)
        sum += exp(outputs[k] - largest);
    for (size_t k = 0; k < size; k++)
        numbers[k] = exp(outputs[k] - largest) / sum;
}

static void convert(enum part_meaning means, const float *outputs, size_t size, double *numbers) {
    static meaning *const meanings[] = {
        [MEANS_ITSELF] = as_it_is, [MEANS_PROBABILITY] = sigmoid,
        [MEANS_EXPONENTIAL] = exp, [MEANS_ROOT_OF_EXPONENTIAL] = root_of_exponential,
        [MEANS_TANH] = tanh,
    };
    if (means == MEANS_SHARE) {
        softmax(outputs, size, numbers);
        return;
    }
    for (size_t k = 0; k < size; k++)
        numbers[k] = meanings[means]((double)outputs[k]);
}

/* Unscale standardized numbers, y = mean + deviation z. A level is moved and stretched. */
static void unscale_level(const struct learned *learned, size_t size, double *numbers) {
    for (size_t k = 0; k < size; k++)
        numbers[k] = numbers[k] * learned->target_deviation[k] + learned->target_mean[k];
}

/* A width is only stretched. */
static void unscale_width(const struct learned *learned, size_t size, double *numbers) {
    for (size_t k = 0; k < size; k++)
        numbers[k] =
            learned->target_deviation[k] == 0 ? NAN : numbers[k] * learned->target_deviation[k];
}

void prediction_of_head(const struct model *model, const struct learned *learned, size_t head,
                        const float *outputs, double *numbers) {
    const struct output *output = model_output(model, model->heads[head].output);
    const struct loss_part *part = loss_kind(output->loss)->parts;
    bool scaled = learned->target_mean && model_scales(model, head);
    for (; part->extent != EXTENT_NONE; part++) {
        size_t size = loss_part_size(part, output->size, output->components);
        convert(part->meaning, outputs, size, numbers);
        if (scaled && part->unit == UNIT_LEVEL)
            unscale_level(learned, size, numbers);
        else if (scaled && part->unit == UNIT_WIDTH)
            unscale_width(learned, size, numbers);
        outputs += size;
        numbers += size;
    }
}

void prediction_of(const struct model *model, const struct learned *learned, size_t t,
                   double *numbers) {
    if (learned->forecasts) {
        memcpy(numbers, learned->forecasts + t * learned->forecast_row,
               model->outputs * sizeof *numbers);
        return;
    }
    if (learned->guesses) {
        const struct symbols_guess *top =
            learned->guesses + t * learned->guess_row + 1 + learned->guess_count;
        memset(numbers, 0, model->outputs * sizeof *numbers);
        for (size_t n = 0; n < learned->guess_count && top[n].probability > 0; n++)
            numbers[top[n].symbol] = top[n].probability;
        return;
    }
    const float *outputs = learned->outputs + t * model->outputs;
    for (size_t h = 0; h < model->horizons; h++) {
        const struct model_head *head = &model->heads[h];
        for (size_t k = 0; head->late && k < head->scored; k++)
            numbers[head->at + k] = NAN;
        if (!head->late)
            prediction_of_head(model, learned, h, outputs + head->at, numbers + head->at);
    }
}

const double *prediction_quantiles(const struct learned *learned, size_t t) {
    return truth_step_notes(learned->truth, learned->first_bounds + t);
}
