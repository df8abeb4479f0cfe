#include "source.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/module.h"
#include "learner/learner_export.h"
#include "parts.h"
#include "parts/distributions.h"
#include "parts/words.h"

/* ---- ZeroMQ ---- */

/* Returns {"classes": {"words": [..], "forgets": ..}}, with the words in the order of ids, or
   {"levels": [..]} of quantiles. NULL: neither, or out of memory. */
static char *describe_more(const void *context) {
    const struct learner *learner = ((const struct daemon *)context)->learner;
    size_t n = learner ? words_lexicon_of_classes(learner_host(learner)) : SIZE_MAX, count = 0;
    const double *levels = learner ? distributions_levels(learner_host(learner), &count) : NULL;
    json_t *all = NULL;
    if (n != SIZE_MAX)
        all = json_pack("{s:{s:o,s:b}}", "classes", "words", learner_words_list(learner, n),
                        "forgets", (int)words_lexicon(learner_host(learner), n).forgets);
    else if (count)
        all = json_pack("{s:[]}", "levels");
    for (size_t k = 0; k < count; k++)
        json_array_append_new(json_object_get(all, "levels"), json_real(levels[k]));
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}

static int open_socket(struct daemon *daemon, struct error *error) {
    ingest_answer_more(daemon->ingest, describe_more, daemon);
    return daemon->config->examples_socket == EXAMPLES_ROUTER
               ? acknowledge_open(&daemon->acknowledge, ingest_socket(daemon->ingest),
                                  &daemon->model, error)
               : 0;
}

static void close_socket(struct daemon *daemon) {
    acknowledge_close(&daemon->acknowledge);
}

static const char *endpoint(const struct daemon *daemon) {
    return ingest_endpoint(daemon->ingest);
}

static void poll_socket(const struct daemon *daemon, zmq_pollitem_t *item) {
    *item = (zmq_pollitem_t){.socket = ingest_socket(daemon->ingest), .events = ZMQ_POLLIN};
}

static void idle(struct daemon *daemon) {
    ingest_idle(daemon->ingest);
}

static int take(struct daemon *daemon, uint64_t now, struct example *example, struct error *error) {
    return ingest_take(daemon->ingest, now, example, error);
}

/* Only a ROUTER's client gets answers. */
static int answer(struct daemon *daemon, const struct example *example,
                  const struct source_answer *reply, struct error *error) {
    struct acknowledge_entry entry = {
        .key = example->key,
        .key_size = example->key_size,
        .acknowledgement = {.status = (uint8_t)reply->status,
                            .reason = (uint16_t)reply->why,
                            .epoch = example->epoch,
                            .sequence = example->sequence,
                            .position = reply->position},
        .steps = example->steps,
    };
    if (reply->status == WIRE_REJECTED)
        ingest_reject(daemon->ingest, example, reply->reason, reply->text);
    if (reply->status == WIRE_REJECTED || !daemon->acknowledge)
        return 0;
    entry.peer = ingest_peer(daemon->ingest, &entry.peer_size);
    if (example->result && reply->status == WIRE_ACCEPTED) {
        entry.example = learner_taken(daemon->learner) + 1;
        if (example->quantiles)
            entry.levels = distributions_levels(learner_host(daemon->learner), &entry.level_count);
        learner_want_outputs(daemon->learner, true);
    }
    return acknowledge_add(daemon->acknowledge, &entry, error);
}

static int settle(struct daemon *daemon, struct error *error) {
    (void)error;
    acknowledge_send(daemon->acknowledge, journal_durable(daemon->journal));
    return 0;
}

static bool repeats(const struct daemon *daemon) {
    return daemon->acknowledge != NULL;
}

static const struct source_ops source_socket = {
    .open = open_socket,
    .close = close_socket,
    .endpoint = endpoint,
    .poll = poll_socket,
    .idle = idle,
    .take = take,
    .answer = answer,
    .settle = settle,
    .repeats = repeats,
};

/* ---- The choice of a source ---- */

#define MODULE_FILE "runnel-cluster.so"
#define MODULE_VARIABLE "RUNNEL_CLUSTER_MODULE"

/* Loads the module for examples.`key`, which needs the library. */
static const struct source_ops *load_module(const char *key, const char *library,
                                            struct error *error) {
    char path[MODULE_PATH_SIZE];
    if (!module_find(path, MODULE_FILE, MODULE_VARIABLE)) {
        error_set(error, EX_UNAVAILABLE,
                  "examples.%s: " MODULE_FILE " not found beside the program or in %s; install "
                  "runnel again, name the file in " MODULE_VARIABLE ", or build it: install "
                  "lib%s-dev and configure --with-%s",
                  key, module_directory, library, key);
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        error_set(
            error, EX_UNAVAILABLE,
            "examples.%s: cannot load " MODULE_FILE
            "%s: %.512s; install the missing library, or the program and the module from one build",
            key, getenv(MODULE_VARIABLE) ? " (" MODULE_VARIABLE " names it)" : "", dlerror());
        return NULL;
    }
    const struct source_module *module = dlsym(handle, SOURCE_MODULE_SYMBOL);
    if (module && strcmp(module->version, PACKAGE_VERSION) == 0 && module->layout == DAEMON_LAYOUT)
        return &module->ops;
    error_set(
        error, EX_UNAVAILABLE,
        "examples.%s: %s is from another build; install the program and the module from one build",
        key, path);
    dlclose(handle);
    return NULL;
}

const struct source_ops *source_choose(const struct config *config, struct error *error) {
    return *config->consume.redis.stream  ? load_module("redis", "hiredis", error)
           : *config->consume.kafka.topic ? load_module("kafka", "rdkafka", error)
                                          : &source_socket;
}
