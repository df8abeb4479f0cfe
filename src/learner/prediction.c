#include "prediction.h"

#include <math.h>

#include "learner.h"

enum { SPREADS = 2, MEANS = 2 }; /* of a mixture's component */

typedef double meaning(double activation);

static double as_it_is(double a) {
    return a;
}

static double sigmoid(double a) {
    return 1 / (1 + exp(-a));
}

static double deviation(double log_variance) {
    return exp(log_variance / 2);
}

static void convert(const float *outputs, size_t size, meaning *means, double *numbers) {
    for (size_t k = 0; k < size; k++)
        numbers[k] = means((double)outputs[k]);
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

static void mixture(const float *outputs, size_t components, double *numbers) {
    numbers[0] = sigmoid(outputs[0]);
    size_t at = 1;
    softmax(outputs + at, components, numbers + at);
    at += components;
    convert(outputs + at, MEANS * components, as_it_is, numbers + at);
    at += MEANS * components;
    convert(outputs + at, SPREADS * components, exp, numbers + at);
    at += SPREADS * components;
    convert(outputs + at, components, tanh, numbers + at);
}

/* Back from standardized numbers, x = mean + deviation z: a mean is moved and stretched, */
static void unscale_means(const struct learned *learned, size_t size, double *numbers) {
    for (size_t k = 0; k < size; k++)
        numbers[k] = numbers[k] * learned->deviation[k] + learned->mean[k];
}

/* a standard deviation only stretched. */
static void unscale_deviations(const struct learned *learned, size_t size, double *numbers) {
    for (size_t k = 0; k < size; k++)
        numbers[k] = learned->deviation[k] == 0 ? NAN : numbers[k] * learned->deviation[k];
}

void prediction_of(const struct model *model, const struct learned *learned, size_t t,
                   double *numbers) {
    const struct output *output = &model->architecture.output;
    const float *outputs = learned->outputs + t * model->outputs;
    bool scaled = output->target == TARGET_NEXT && learned->mean;
    switch (output->loss) {
    case LOSS_GAUSSIAN:
        convert(outputs, output->size, as_it_is, numbers);
        convert(outputs + output->size, output->size, deviation, numbers + output->size);
        if (scaled) {
            unscale_means(learned, output->size, numbers);
            unscale_deviations(learned, output->size, numbers + output->size);
        }
        break;
    case LOSS_SOFTMAX:
        softmax(outputs, output->size, numbers);
        break;
    case LOSS_BERNOULLI:
        convert(outputs, output->size, sigmoid, numbers);
        break;
    case LOSS_MIXTURE:
        mixture(outputs, output->components, numbers);
        break;
    case LOSS_SQUARED:
        convert(outputs, output->size, as_it_is, numbers);
        if (scaled)
            unscale_means(learned, output->size, numbers);
        break;
    }
}
