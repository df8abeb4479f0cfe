#include "engines.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "common/module.h"
#include "config/config.h"
#include "cuda_module.h"
#include "engine_threads.h"

enum { COUNT_SIZE = 32, SIZE_TEXT = 96, WHY_SIZE = ERROR_TEXT_SIZE - sizeof "auto: " };

#define MODULE_FILE "runnel-cuda.so"

/* ---- The module ---- */

static const struct cuda_module *no_module(struct error *error) {
    error_set(
        error, EX_UNAVAILABLE,
        "CUDA engine not found: %s is neither in the program's directory nor in %s; build with "
        "configure --with-cuda, set RUNNEL_CUDA_MODULE to its path, or use device: cpu or auto",
        MODULE_FILE, module_directory);
    return NULL;
}

/* `device` selects the remedy in the error. */
static const struct cuda_module *load_module(const char *path, const char *device,
                                             struct error *error) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        error_set(error, EX_UNAVAILABLE,
                  "cannot load the CUDA engine: %s; install the missing library, or add its "
                  "directory to LD_LIBRARY_PATH%s",
                  dlerror(), cuda_way_out(device));
        return NULL;
    }
    const struct cuda_module *module = dlsym(handle, CUDA_MODULE_SYMBOL);
    if (module && module->interface == CUDA_MODULE_INTERFACE)
        return module;
    if (module)
        error_set(error, EX_UNAVAILABLE,
                  "%s: expected interface %d, got %d of another version of runnel; install both "
                  "from one build%s",
                  path, CUDA_MODULE_INTERFACE, module->interface, cuda_way_out(device));
    else
        error_set(error, EX_UNAVAILABLE,
                  "%s: not a CUDA engine of runnel: symbol " CUDA_MODULE_SYMBOL
                  " not found; unset RUNNEL_CUDA_MODULE%s",
                  path, cuda_way_out(device));
    dlclose(handle);
    return NULL;
}

/* The module for `device`, loaded on first use; `found`: it exists. */
static const struct cuda_module *have_module(const char *device, bool *found, struct error *error) {
    static const struct cuda_module *loaded;
    char path[MODULE_PATH_SIZE];
    *found = loaded || module_find(path, MODULE_FILE, "RUNNEL_CUDA_MODULE");
    if (!*found)
        return no_module(error);
    if (!loaded)
        loaded = load_module(path, device, error);
    return loaded;
}

const struct cuda_module *engines_cuda(struct error *error) {
    bool found;
    return have_module("cuda", &found, error);
}

/* ---- The choice ---- */

/* "25 thousand" or "3.2 million" */
static void print_count(char text[COUNT_SIZE], size_t count) {
    const double thousand = 1e3, million = 1e6;
    if ((double)count < thousand)
        snprintf(text, COUNT_SIZE, "%zu", count);
    else if ((double)count < million - thousand / 2)
        snprintf(text, COUNT_SIZE, "%.0f thousand", (double)count / thousand);
    else
        snprintf(text, COUNT_SIZE, "%.1f million", (double)count / million);
}

static void use_cpu(struct engines_choice *choice, const char *reason) {
    choice->ops = &cpu_engine;
    snprintf(choice->why, sizeof choice->why, "auto: %.*s", WHY_SIZE, reason);
}

/* The criteria of the choice: the networks that learn, and the threads that would play them on the
   CPU. */
struct load {
    size_t networks, threads;
    size_t parameters; /* of all networks */
};

static void add_network(struct load *load, const struct architecture *architecture) {
    struct model model;
    model_build(&model, architecture);
    load->networks++;
    load->parameters += model.learned;
}

static struct load load_of(const struct config *config) {
    struct load load = {.threads = 1};
    if (!config->members_given)
        add_network(&load, &config->architecture);
    for (size_t n = 0; config->members_given && n < config->member_count; n++) {
        struct architecture architecture;
        config_member_network(config, n, &architecture);
        add_network(&load, &architecture);
    }
    size_t threads = engine_threads_count(config);
    if (load.networks > 1) /* a single network cannot use more */
        load.threads = threads < load.networks ? threads : load.networks;
    return load;
}

/* "25 thousand parameters", or "64 networks, 0.9 million parameters in total". */
static void print_size(char text[SIZE_TEXT], const struct load *load) {
    char count[COUNT_SIZE];
    print_count(count, load->parameters);
    if (load->networks == 1)
        snprintf(text, SIZE_TEXT, "%s parameters", count);
    else
        snprintf(text, SIZE_TEXT, "%zu networks, %s parameters in total", load->networks, count);
}

static void leave_to_cpu(struct engines_choice *choice, const struct load *load, const char *size) {
    char count[COUNT_SIZE], share[SIZE_TEXT] = "";
    print_count(count, load->parameters / load->threads);
    if (load->threads > 1)
        snprintf(share, sizeof share, " (%s per thread)", count);
    snprintf(choice->why, sizeof choice->why,
             "auto: the model has %s%s; auto uses a GPU from %d,%03d", size, share,
             ENGINES_AUTO_PARAMETERS / 1000, ENGINES_AUTO_PARAMETERS % 1000);
}

/* Whether only the CPU engine supports a network: the key that decides. */
static bool needs_cpu(const struct config *config, char text[MODEL_LACKS_SIZE]) {
    size_t count = config->members_given ? config->member_count : 1;
    snprintf(text, MODEL_LACKS_SIZE, "statistics.vectors");
    if (config->vectors)
        return true;
    for (size_t n = 0; n < count; n++) {
        struct architecture architecture = config->architecture;
        enum rule rule = config->learning.rule;
        if (config->members_given) {
            rule = config->members[n].learning.rule;
            config_member_network(config, n, &architecture);
        }
        snprintf(text, MODEL_LACKS_SIZE, "rule: %s", rule_kind(rule)->name);
        if (rule_kind(rule)->keeps != KEEPS_NOTHING || model_of_cpu(&architecture, text))
            return true;
    }
    return false;
}

static void choose_automatically(struct engines_choice *choice, const struct config *config) {
    char size[SIZE_TEXT], key[MODEL_LACKS_SIZE];
    struct cuda_device device;
    struct error error;
    const struct load load = load_of(config);
    bool found;
    print_size(size, &load);
    choice->automatic = true;
    if (load.parameters / load.threads < ENGINES_AUTO_PARAMETERS) {
        leave_to_cpu(choice, &load, size);
        return;
    }
    if (needs_cpu(config, key)) {
        snprintf(choice->why, sizeof choice->why, "auto: the CUDA engine does not support %s", key);
        return;
    }
    const struct cuda_module *module = have_module("auto", &found, &error);
    if (!found) {
        use_cpu(choice, "runnel-cuda.so not found");
    } else if (!module || module->probe("auto", &device, &error)) {
        use_cpu(choice, error.text);
    } else {
        choice->ops = module->engine;
        snprintf(choice->why, sizeof choice->why, "auto: %s, %s", device.name, size);
    }
}

int engines_choose(struct engines_choice *choice, const char *device, const struct config *config,
                   struct error *error) {
    *choice = (struct engines_choice){.ops = &cpu_engine};
    if (strcmp(device, "cpu") == 0)
        return 0;
    if (strcmp(device, "auto") == 0) {
        choose_automatically(choice, config);
        return 0;
    }
    struct cuda_device found;
    const struct cuda_module *module = engines_cuda(error);
    if (!module || module->probe(device, &found, error))
        return error_prefix(error, "device: %s", device);
    choice->ops = module->engine;
    return 0;
}

bool engines_fall_back(struct engines_choice *choice, const struct error *error) {
    if (!choice->automatic || choice->ops == &cpu_engine)
        return false;
    use_cpu(choice, error->text);
    return true;
}
