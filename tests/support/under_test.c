#include "under_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "engine/engines.h"

static const char *device = "cpu";

const char *under_test_device(void) {
    return device;
}

void under_test_use(const char *name) {
    device = name;
}

bool under_test_is_cpu(void) {
    return strcmp(device, "cpu") == 0;
}

const struct engine_ops *under_test_ops(void) {
    struct engines_choice choice;
    struct error error;
    if (engines_choose(&choice, device, NULL, &error))
        fail_msg("%s", error.text);
    return choice.ops;
}

/* Whether machine and build support the instruction set; if so it is used. */
static bool use_instruction_set(const char *name) {
    const struct architecture architecture = {
        .input = {.size = 1}, .layers = {{.size = 1}}, .layer_count = 1, .output = {.size = 1}};
    const struct engine_options options = {.window = 1, .slots = 1};
    struct engine *engine = NULL;
    struct model model;
    model_build(&model, &architecture);
    setenv("RUNNEL_ISA", name, 1);
    if (cpu_engine.open(&engine, &model, &options, "cpu", NULL))
        return false;
    cpu_engine.close(&engine);
    return true;
}

void under_test_above_engines(void) {
#ifdef RUNNEL_SANITIZERS
    unsetenv("RUNNEL_CUDA_MODULE");
#endif
}

bool under_test_plays(void) {
#ifdef RUNNEL_SANITIZERS
    static uint32_t count;
    const uint32_t golden_ratio = 2654435769u; /* a factor that scatters consecutive numbers */
    return ++count * golden_ratio < UINT32_MAX / 3;
#else
    return true;
#endif
}

const char *under_test_next(void) {
    static const char *const sets[] = {"avx512", "avx2", "baseline"};
    static size_t next = 0;
    while (next < sizeof sets / sizeof *sets) {
        const char *name = sets[next++];
        if (use_instruction_set(name)) {
#ifdef RUNNEL_SANITIZERS
            next = sizeof sets / sizeof *sets;
#endif
            return name;
        }
    }
    const char *module = getenv("RUNNEL_CUDA_MODULE");
    unsetenv("RUNNEL_ISA");
    if (!under_test_is_cpu() || !module || !*module)
        return NULL;
    device = "cuda";
    return device;
}
