#include "wild.h"

#include <math.h>

/* Distance of a wild value from the mean of all nearer ones, in their deviations; a memory
   forgets less wild ones in time. If all nearer values are constant, the unit is their size. */
static const double wild = 1e3, wild_of_constant = 1e15;

/* Sort by distance from the median, the nearest first. */
static void sort_by_distance(double *values, size_t count) {
    double origin = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t n = 1; n < count; n++) {
            double value = values[n], key = pass ? fabs(value - origin) : value;
            size_t at = n;
            for (; at > 0 && key < (pass ? fabs(values[at - 1] - origin) : values[at - 1]); at--)
                values[at] = values[at - 1];
            values[at] = value;
        }
        origin = values[count / 2];
    }
}

double wild_distance(double *values, size_t count, size_t most, double *median) {
    double mean = 0, squares = 0;
    sort_by_distance(values, count);
    *median = values[0];
    for (size_t n = 0; n < count; n++) {
        double sd = n ? sqrt(squares / (double)n) : 0;
        double far = sd > 0 ? wild * sd : wild_of_constant * fmax(fabs(mean), 1);
        if (n + most >= count && fabs(values[n] - mean) > far)
            return fabs(values[n] - *median);
        squares = welford(values[n], (double)n + 1, &mean, squares);
    }
    return INFINITY;
}
