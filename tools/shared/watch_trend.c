#include "watch_trend.h"

#include <math.h>
#include <string.h>

#define SIGNIFICANT 2.0 /* standard errors */
#define LARGEST 1e100   /* prevents overflow of sums and differences */

void trend_add(struct trend *trend, double value) {
    if (trend->count == TREND_VALUES)
        memmove(trend->values, trend->values + 1, --trend->count * sizeof *trend->values);
    trend->values[trend->count++] = fmax(-LARGEST, fmin(LARGEST, value));
}

/* For i = 0..n-1 and values v: slope b = sum (i - mean i)(v - mean v) / sum (i - mean i)^2,
   residual r = v - mean v - b (i - mean i), and the standard error of b is sqrt(sum r^2 / (n - 2) /
   sum (i - mean i)^2). */
double trend_slope(const struct trend *trend, double *error) {
    size_t n = trend->count;
    double mean = 0, middle = (double)(n - 1) / 2, products = 0, squares = 0, residuals = 0;
    for (size_t i = 0; i < n; i++)
        mean += trend->values[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        double distance = (double)i - middle;
        products += distance * (trend->values[i] - mean);
        squares += distance * distance;
    }
    double slope = products / squares;
    for (size_t i = 0; i < n; i++) {
        double residual = trend->values[i] - mean - slope * ((double)i - middle);
        residuals += residual * residual;
    }
    *error = sqrt(residuals / (double)(n - 2) / squares);
    return slope;
}

enum direction trend_direction(const struct trend *trend) {
    if (trend->count < TREND_LEAST)
        return TREND_UNKNOWN;
    double error, slope = trend_slope(trend, &error);
    if (!(fabs(slope) > SIGNIFICANT * error))
        return TREND_FLAT;
    return slope < 0 ? TREND_FALLING : TREND_RISING;
}

char *trend_histogram(const double *values, size_t count, bool utf8,
                      char picture[TREND_PICTURE_SIZE]) {
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const letters[] = {"_", ".", "-", "^"};
    const char *const *heights = utf8 ? blocks : letters;
    int top = utf8 ? 7 : 3;
    double high = 0;
    for (size_t i = 0; i < count; i++)
        high = fmax(high, values[i]);
    *picture = '\0';
    for (size_t i = 0; i < count; i++) {
        double share = high > 0 ? values[i] / high : 0;
        strcat(picture, heights[(int)(share * top + 0.5)]);
    }
    return picture;
}
