/* Configurations: the file's text, then further texts: an override, a change at run time after
   '!' (KEY=VALUE), or the file's new text after '@'. A byte that YAML does not use (SEPARATOR)
   separates them. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/wire.h"
#include "config/config.h"
#include "fuzz.h"
#include "model/model.h"
#include "sockets/decode.h"

enum { SEPARATOR = 0x1E, TEXTS_MAX = 8, POISON = 0xA5 };

/* The input as texts. The first may contain zeros; the others end at their first zero. */
struct texts {
    char *text[TEXTS_MAX];
    size_t size[TEXTS_MAX], count;
};

static void split(struct texts *texts, struct fuzz_input input) {
    texts->count = 0;
    do {
        const uint8_t *end = input.size ? memchr(input.bytes, SEPARATOR, input.size) : NULL;
        size_t size = end ? (size_t)(end - input.bytes) : input.size;
        char *text = malloc(size + 1);
        REQUIRE(text, "no memory");
        if (size)
            memcpy(text, input.bytes, size);
        text[size] = '\0';
        texts->text[texts->count] = text;
        texts->size[texts->count++] = size;
        size += end != NULL;
        input.bytes += size;
        input.size -= size;
    } while (input.size && texts->count < TEXTS_MAX);
}

static void require_error(const struct error *error, const struct config *config,
                          const struct config *before) {
    fuzz_require_sentence(error->text);
    REQUIRE(error->status == EX_CONFIG || error->status == EX_USAGE, "the status %d of \"%s\"",
            error->status, error->text);
    REQUIRE(!memcmp(config, before, sizeof *config), "changed in spite of \"%s\"", error->text);
}

/* An accepted configuration can be built: its parameters and the largest frame are counted
   correctly. */
static void require_buildable(const struct config *config) {
    static struct model model;
    struct decoder *decoder;
    memset(&model, 0, sizeof model);
    model_build(&model, &config->architecture);
    unsigned __int128 sum = 0;
    for (size_t n = 0; n < model.tensor_count; n++) {
        const struct tensor *tensor = &model.tensors[n];
        REQUIRE(tensor->offset == sum, "the offset of %s", tensor->name);
        sum += (unsigned __int128)tensor->rows * (tensor->columns ? tensor->columns : 1);
    }
    REQUIRE(model.parameters == sum, "%zu parameters", model.parameters);
    REQUIRE(decoder_open(&decoder, &model, true, NULL) == 0, "no decoder");
    const struct input *input = &config->architecture.input;
    unsigned __int128 numbers = input->kind == INPUT_SYMBOL ? 1 : input->size;
    size_t rows = input_is_message(input) ? input->sequence.longest : EXAMPLE_STEPS_MAX;
    REQUIRE(decoder_frame_max(decoder) >= numbers * rows * sizeof(float), "a frame of %zu bytes",
            decoder_frame_max(decoder));
    decoder_close(&decoder);
    REQUIRE(*config->name && strlen(config->digest) == CONFIG_DIGEST_SIZE - 1, "name or digest");
    REQUIRE(config->learning.stride >= 1 && config->learning.stride <= config->learning.window &&
                config->learning.max_streams >= 1,
            "window, stride or streams");
}

/* A running daemon's configurations: that of the file, and the current one. */
struct running {
    struct config configured, current;
    const char *overrides[TEXTS_MAX];
    size_t override_count;
};

static bool load(struct running *running, const char *path) {
    static struct config before, again;
    struct error error = {0};
    memset(&before, POISON, sizeof before);
    running->configured = again = before;
    if (config_load(&running->configured, path, running->overrides, running->override_count,
                    &error) != 0) {
        require_error(&error, &running->configured, &before);
        return false;
    }
    require_buildable(&running->configured);
    REQUIRE(!config_load(&again, path, running->overrides, running->override_count, &error) &&
                !memcmp(&running->configured, &again, sizeof again),
            "a second load gives another configuration");
    return true;
}

static void set(struct running *running, char *text) {
    static struct config before;
    struct error error = {0};
    char *equals = strchr(text, '=');
    if (!equals)
        return;
    *equals = '\0';
    before = running->current;
    if (config_set(&running->current, text, equals + 1, &error) != 0)
        require_error(&error, &running->current, &before);
}

static void require_text(void *context, enum config_way way, const char *key, const char *value) {
    REQUIRE(way < CONFIG_WAYS && *key && wire_is_utf8(value, strlen(value)),
            "%s is reported as \"%s\"", key, value);
    ++*(size_t *)context;
}

static void reload(struct running *running, const char *text) {
    static struct config before;
    static struct running wanted;
    size_t changes = 0;
    before = running->current;
    wanted = *running;
    if (!load(&wanted, fuzz_file(FUZZ_FIRST, text, strlen(text))))
        return;
    config_reload(&running->current, &wanted.current, &running->configured, &wanted.configured,
                  require_text, &changes);
    REQUIRE(changes || !memcmp(&before, &running->current, sizeof before),
            "a change is not reported");
    running->configured = wanted.current;
    require_buildable(&running->configured);
}

static bool run(const struct texts *texts) {
    static struct running running;
    static char digest[CONFIG_DIGEST_SIZE];
    running.override_count = 0;
    for (size_t n = 1; n < texts->count; n++)
        if (*texts->text[n] != '!' && *texts->text[n] != '@')
            running.overrides[running.override_count++] = texts->text[n];
    if (!load(&running, fuzz_file(FUZZ_GIVEN, texts->text[0], texts->size[0])))
        return false;
    running.current = running.configured;
    memcpy(digest, running.current.digest, sizeof digest);
    for (size_t n = 1; n < texts->count; n++) {
        if (*texts->text[n] == '!')
            set(&running, texts->text[n] + 1);
        else if (*texts->text[n] == '@')
            reload(&running, texts->text[n] + 1);
        require_buildable(&running.current);
        REQUIRE(!strcmp(running.current.digest, digest), "a change in flight changed the digest");
    }
    return true;
}

bool fuzz_config(const uint8_t *bytes, size_t size) {
    struct texts texts;
    setenv("HOME", "/home/user", 1);
    unsetenv("STATE_DIRECTORY");
    unsetenv("XDG_STATE_HOME");
    split(&texts, (struct fuzz_input){bytes, size});
    bool accepted = run(&texts);
    for (size_t n = 0; n < texts.count; n++)
        free(texts.text[n]);
    return accepted;
}
