/* Watches every access of the CUDA engine's kernel (tests/hostcuda/race.h): a race of any two
   threads, in whatever order they ran, fails the launch. Networks are played alone by one block,
   and together by few blocks of a grid, and by clusters, with permuted blocks and threads: no bit
   of any result may change. The cases use every phase of the kernel, with every cell, norm, loss
   and optimizer. A case's name as argument plays only that, once. tests/programs/test_races.py
   checks the detector itself. Skipped if the watched module was not built. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "played_cases.h"
#include "under_test.h"

enum { SKIP = 77 };

/* By one block, in short plans; then in the other scopes, also in long plans, which keep numbers in
   shared memory; members then together. Then on a device on which the network has as many blocks
   as it can use: briefly, since these are slow. */
static void play_case(void **state) {
    const struct played *named = *state;
    struct played played = *named, brief = *named;
    FILE *block = played_in_scope(&played, "block", "4", "0");
    played.together = true;
    played_check(block, &played, "grid", "4", "7");
    played.at_once = SIZE_MAX;
    played_check(block, &played, "block", "4", "5");
    played_check(block, &played, "cluster", "4", "3");
    fclose(block);
    if (brief.steps)
        brief.steps = brief.window = 2;
    brief.runs = !brief.steps;
    fclose(played_in_scope(&brief, "grid", "132", "0"));
}

static int play_once(const char *name) {
    struct played members = played_members;
    members.together = true;
    if (strcmp(members.name, name) == 0) {
        fclose(played_results(&members, (const char *[]){NULL}));
        return 0;
    }
    for (size_t n = 0; n < PLAYED_CASES; n++)
        if (strcmp(played_cases[n].name, name) == 0) {
            fclose(played_results(&played_cases[n], (const char *[]){NULL}));
            return 0;
        }
    fprintf(stderr, "no case %s\n", name);
    return 1;
}

/* The watched module: already set, or next to the usual one. */
static bool use_module(void) {
    const char *module = getenv("RUNNEL_CUDA_MODULE");
    char path[4096];
    if (!module || !strstr(module, "hostcuda"))
        return false;
    snprintf(path, sizeof path, "%.*s/runnel-races.so", (int)(strrchr(module, '/') - module),
             module);
    if (!strstr(module, "runnel-races") && setenv("RUNNEL_CUDA_MODULE", path, 1))
        return false;
    return access(getenv("RUNNEL_CUDA_MODULE"), R_OK) == 0;
}

int main(int count, char **arguments) {
    struct CMUnitTest tests[PLAYED_CASES + 1] = {
        {"members", play_case, NULL, NULL, (void *)&played_members}};
    if (!use_module())
        return SKIP;
    while (under_test_is_cpu())
        if (!under_test_next())
            return 1;
    if (count > 1)
        return play_once(arguments[1]);
    for (size_t n = 0; n < PLAYED_CASES; n++)
        tests[n + 1] = (struct CMUnitTest){played_cases[n].name, play_case, NULL, NULL,
                                           (void *)&played_cases[n]};
    return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
