/* Tables of texts in reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/grid.h"

enum { COLUMNS = 30, ROWS = 2, WIDTH = 200 };

/* Each column keeps its title and texts, for any number of columns. */
static void prints_all_columns(void **unused) {
    struct grid grid;
    char *text = NULL, expected[4 * WIDTH] = "", word[16];
    size_t size;
    assert_int_equal(grid_open(&grid, ROWS, COLUMNS - 1, "-c10"), 0);
    for (int i = 0; i < COLUMNS; i++) {
        snprintf(word, sizeof word, "c%d", 10 + i);
        size_t column =
            i > 0 ? grid_add(&grid, word, true, 0) : 0; /* grid_open added the first one */
        assert_int_equal(column, i);
        for (size_t row = 0; row < ROWS; row++)
            snprintf(grid_text(&grid, row, column), GRID_TEXT_SIZE, "%zu%d", row + 1, 10 + i);
    }
    for (int row = 0; row <= ROWS; row++)
        for (int i = 0; i < COLUMNS; i++)
            snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%c%d%s",
                     "c12"[row], 10 + i, i + 1 < COLUMNS ? "  " : "\n");
    FILE *to = open_memstream(&text, &size);
    grid_print(&grid, to, 0, WIDTH);
    fclose(to);
    assert_string_equal(text, expected);
    free(text);
    grid_close(&grid);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(prints_all_columns)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
