/* The CUDA engine in every scope, on devices of several sizes, in one plan or many, and with
   networks played together: every bit equals that of each network alone, played by one block. Each
   time the tests' runtime ($HOSTCUDA_SEED, tests/hostcuda) runs threads and blocks in another
   order, as a GPU may. The cases use every phase of the kernel, with every cell, norm, loss,
   optimizer and kind of input. Skipped without that runtime: a GPU has one size and no seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "played_cases.h"
#include "under_test.h"

enum { MEMBERS = 2, BRIEF = 4, SKIP = 77 };

/* Short plans read all numbers from memory; long ones keep some on chip. Large devices are slow
   here: they play less. */
static void scopes_change_no_bit(void **state) {
    static const char *const SMALL[][2] = {{"cluster", "8"}, {"grid", "4"}, {"grid", "16"}};
    const struct played *named = *state;
    size_t place = (size_t)(named - played_cases) % (sizeof SMALL / sizeof *SMALL);
    struct played played = *named, brief = *named;
    if (!under_test_plays())
        return;
    played.members = MEMBERS;
    played.at_once = 1;
    FILE *block = played_in_scope(&played, "block", "4", "0");
    played.together = true;
    played.at_once = SIZE_MAX;
    played_check(block, &played, "block", "4", "1");
    played_check(block, &played, "cluster", "16", "2");
    played_check(block, &played, "grid", "8", "3");
    fclose(block);
    if (brief.steps)
        brief.steps = brief.window = BRIEF;
    brief.runs = !brief.steps;
    block = played_in_scope(&brief, "block", "4", "0");
    played_check(block, &brief, SMALL[place][0], SMALL[place][1], "4");
    brief.at_once = SIZE_MAX;
    played_check(block, &brief, "grid", "132", "5");
    fclose(block);
}

int main(void) {
    struct CMUnitTest tests[PLAYED_CASES];
    const char *module = getenv("RUNNEL_CUDA_MODULE");
    if (!module || !strstr(module, "hostcuda"))
        return SKIP;
    while (under_test_is_cpu())
        if (!under_test_next())
            return 1;
    for (size_t n = 0; n < PLAYED_CASES; n++)
        tests[n] = (struct CMUnitTest){played_cases[n].name, scopes_change_no_bit, NULL, NULL,
                                       (void *)&played_cases[n]};
    return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
