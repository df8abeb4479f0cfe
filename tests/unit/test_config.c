/* Valid configurations: defaults, spellings, overrides, paths, the digest, changes while
   running, and the shipped files and the manual against the table of keys. */
#include "config_testing.h"

#include <sysexits.h>

static void test_defaults(void **state) {
    struct config c = good(BASE, NULL);
    assert_string_equal(c.name, "a");
    assert_string_equal(c.device, "auto");
    assert_int_equal(c.seed, 1);
    assert_false(c.architecture.input.scale != SCALE_NONE || c.architecture.input.hold);
    assert_true(c.architecture.layers[0].norm);
    assert_true(c.architecture.layers[0].gain == 1 && c.architecture.layers[0].forget_bias == 0);
    assert_int_equal(c.architecture.output.target, TARGET_GIVEN);
    assert_int_equal(c.learning.window, 16);
    assert_int_equal(c.learning.stride, 16);
    assert_int_equal(c.learning.max_streams, 1024);
    assert_true(c.learning.clip == 0);
    assert_int_equal(c.learning.optimizer.kind, OPTIMIZER_adam);
    assert_true(c.learning.optimizer.rate == 0.001 && c.learning.optimizer.beta1 == 0 &&
                c.learning.optimizer.pull == 0 && c.learning.optimizer.beta2 == 0.999 &&
                c.learning.optimizer.epsilon == 1e-8 && c.learning.optimizer.alpha == 0.99 &&
                c.learning.optimizer.momentum == 0 && c.learning.optimizer.weight_decay == 0 &&
                !c.learning.optimizer.nesterov);
    assert_string_equal(c.examples.endpoint, "tcp://127.0.0.1:5570");
    assert_string_equal(c.statistics.endpoint, "tcp://127.0.0.1:5571");
    assert_string_equal(c.control.endpoint, "tcp://127.0.0.1:5572");
    assert_false(c.examples.connect || c.statistics.connect || c.control.connect || c.predictions);
    assert_int_equal(c.examples_socket, EXAMPLES_PULL);
    assert_int_equal(c.statistics_every, 100);
    assert_int_equal(c.checkpoint.examples, 100000);
    assert_true(c.checkpoint.seconds == 60);
    assert_true(c.journal.enabled);
    assert_int_equal(c.journal.sync, JOURNAL_FULL);
    assert_true(c.journal.keep == JOURNAL_KEEP_CHECKPOINT);
    assert_string_equal(c.initial, "");
    assert_int_equal(good(BASE "learning: {window: 7}\n", NULL).learning.stride, 7);
}

static void test_journal(void **state) {
    struct config c = good(BASE "state: {journal: {enabled: false, sync: off, keep: all}}\n", NULL);
    assert_false(c.journal.enabled);
    assert_int_equal(c.journal.sync, JOURNAL_OFF);
    assert_true(c.journal.keep == JOURNAL_KEEP_ALL);
    c = good(BASE "state: {journal: {sync: normal, keep: 10G}}\n", NULL);
    assert_int_equal(c.journal.sync, JOURNAL_NORMAL);
    assert_true(c.journal.keep == 10ull << 30);
    assert_true(good(BASE, "state.journal.keep=1M").journal.keep == 1 << 20);
    assert_true(good(BASE, "state.journal.keep=3000000").journal.keep == 3000000);
}

/* The format of PyYAML: block style, and an anchor for a repeated layer. */
static void test_anchors_and_styles(void **state) {
    static const char block[] = "name: handwriting\nmodel:\n  input:\n    kind: real\n    size: 3\n"
                                "  layers:\n  - &id001\n    cell: lstm\n    size: 10\n"
                                "    norm: layer\n  - *id001\n  - *id001\n  output:\n"
                                "    loss: mixture\n    size: 3\n    components: 4\n"
                                "    target: next\nlearning:\n  window: 8\n  stride: 8\n"
                                "  optimizer:\n    kind: adam\n    rate: 0.003\n  clip: 1.0\n";
    static const char flow[] =
        "{name: other, 'model': {\"input\": {kind: \"real\", size: 3}, layers: [{cell: lstm, "
        "size: 10}, {size: 10, cell: 'lstm'}, {cell: lstm, size: 10, forget_bias: 0}], output: "
        "{loss: mixture, components: 4, target: next}}, learning: {window: 8, optimizer: {rate: "
        "3e-3}, clip: 1}}";
    struct config a = good(block, NULL), b = good(flow, NULL);
    assert_int_equal(a.architecture.layer_count, 3);
    assert_int_equal(a.architecture.layers[2].cell, CELL_lstm);
    assert_int_equal(a.architecture.layers[2].size, 10);
    assert_int_equal(a.architecture.output.components, 4);
    assert_int_equal(b.architecture.output.size, 3);
    assert_true(b.learning.optimizer.rate == 0.003);
    assert_string_equal(a.compatible, b.compatible);
}

/* Values that YAML 1.1 would interpret otherwise are read with the type of their key. */
static void test_spellings(void **state) {
    static const struct {
        const char *value;
        double rate;
    } numbers[] = {{"1.0e-8", 1e-8}, {"1e-8", 1e-8},  {"0.003", 0.003}, {".5", 0.5},
                   {"5.", 5},        {"+1E-2", 0.01}, {"100", 100},     {"0", 0}};
    for (size_t n = 0; n < COUNT(numbers); n++) {
        char text[CONFIG_TEXT_SIZE];
        snprintf(text, sizeof text, BASE "learning: {optimizer: {rate: %s}}\n", numbers[n].value);
        assert_true(good(text, NULL).learning.optimizer.rate == numbers[n].rate);
    }
    static const char *const yes[] = {"true", "True", "yes", "on", "ON"};
    for (size_t n = 0; n < COUNT(yes); n++) {
        char override[CONFIG_TEXT_SIZE];
        snprintf(override, sizeof override, "statistics.predictions=%s", yes[n]);
        assert_true(good(BASE, override).predictions);
        assert_false(good(BASE "statistics: {predictions: off}\n", NULL).predictions);
    }
    assert_string_equal(good("name: 010\n" MODEL, NULL).name, "010");
    assert_string_equal(good("name: no\n" MODEL, NULL).name, "no");
    assert_int_equal(good(BASE "seed: 9007199254740991\n", NULL).seed, 9007199254740991);
    assert_int_equal(good("\xef\xbb\xbf" BASE "learning:\nstate: ~\n", NULL).learning.window, 16);
    assert_int_equal(good("%YAML 1.1\n---\n" BASE "...\n", NULL).learning.window, 16);
}

static void test_losses_and_targets(void **state) {
    static const char *const texts[] = {
        NEXT("kind: real, size: 3, scale: standard", "loss: squared, size: 3"),
        NEXT("kind: real, size: 3, scale: standard, missing: hold", "loss: gaussian, size: 3"),
        NEXT("kind: real, size: 3", "loss: bernoulli, size: 3"),
        NEXT("kind: real, size: 3", "loss: mixture, components: 1"),
        NEXT("kind: symbol, size: 3, embedding: 2", "loss: softmax, size: 3"),
        BASE "learning: {optimizer: {kind: sgd, momentum: 0.9, nesterov: true}}\n",
        BASE "learning: {optimizer: {kind: rmsprop, alpha: 0.9, epsilon: 1e-6}}\n",
        BASE "learning: {optimizer: {kind: adamw, beta1: 0.8, weight_decay: 0.01}}\n",
    };
    for (size_t n = 0; n < COUNT(texts); n++)
        good(texts[n], NULL);
    static const char *const given[] = {"squared", "gaussian", "softmax", "bernoulli"};
    for (size_t n = 0; n < COUNT(given); n++) {
        char override[CONFIG_TEXT_SIZE];
        snprintf(override, sizeof override, "model.output={loss: %s, size: 7}", given[n]);
        struct config c = good(BASE, override);
        assert_int_equal(c.architecture.output.size, 7);
        snprintf(override, sizeof override, "model.output.loss=%s", given[n]);
        good(BASE, override);
    }
}

/* Endpoints that other machines can reach require keys, or this. */
#define OPEN "security: {insecure: true}\n"

static void test_endpoints(void **state) {
    static const char *const endpoints[] = {
        "tcp://*:5570",     "tcp://127.0.0.1:*",  "tcp://0.0.0.0:0", "tcp://eth0:1",
        "tcp://[::1]:5570", "tcp://a.example:80", "ipc:///tmp/a",    "ipc://@abstract",
    };
    for (size_t n = 0; n < COUNT(endpoints); n++) {
        char text[CONFIG_TEXT_SIZE];
        snprintf(text, sizeof text, BASE OPEN "examples: {bind: \"%s\", socket: sub}\n",
                 endpoints[n]);
        struct config c = good(text, NULL);
        assert_string_equal(c.examples.endpoint, endpoints[n]);
        assert_false(c.examples.connect);
        assert_int_equal(c.examples_socket, EXAMPLES_SUB);
    }
    /* Without keys, local endpoints may be bound, and all endpoints may be connected to. */
    static const char *const local[] = {"tcp://127.0.0.1:*", "tcp://127.8.9.10:1", "tcp://[::1]:1",
                                        "tcp://[::ffff:127.0.0.1]:1", "ipc:///tmp/a"};
    for (size_t n = 0; n < COUNT(local); n++) {
        char text[CONFIG_TEXT_SIZE];
        snprintf(text, sizeof text, BASE "examples: {bind: \"%s\"}\n", local[n]);
        assert_false(good(text, NULL).security.insecure);
    }
    assert_string_equal(
        good(BASE "control: {bind: \"tcp://*:1\"}\nsecurity: {secret: /k}\n", NULL).security.secret,
        "/k");
    struct config c = good(BASE "examples: {connect: \"tcp://a:1\"}\n"
                                "statistics: {bind: \"tcp://127.0.0.1:*\"}\n"
                                "control: {bind: \"tcp://127.0.0.1:*\"}\n",
                           NULL);
    assert_true(c.examples.connect);
    assert_string_equal(c.examples.endpoint, "tcp://a:1");
    c = good(BASE OPEN "examples: {connect: \"tcp://a:1\"}\n", "examples.bind=tcp://b:2");
    assert_false(c.examples.connect);
    assert_string_equal(c.examples.endpoint, "tcp://b:2");
    c = good(BASE "examples: {bind: \"tcp://a:1\"}\n", "examples.connect=tcp://b:2");
    assert_true(c.examples.connect);
    assert_string_equal(c.examples.endpoint, "tcp://b:2");
    c = good(BASE "examples: {connect: \"tcp://a:1\"}\n", "examples.connect=");
    assert_false(c.examples.connect);
    assert_string_equal(c.examples.endpoint, "tcp://127.0.0.1:5570");
}

static void test_overrides(void **state) {
    static const char text[] = BASE "learning: {window: 8, stride: 2, optimizer: {beta1: 0.5}}\n"
                                    "state: {directory: /d}\n";
    assert_int_equal(good(text, "learning.window=32").learning.window, 32);
    assert_int_equal(good(text, "learning.window=32").learning.stride, 2);
    assert_int_equal(good(text, "learning.stride=").learning.stride, 8);
    assert_int_equal(good(text, "learning= ~").learning.window, 16);
    assert_true(good(text, "learning.optimizer={kind: sgd, rate: 0.1}").learning.optimizer.rate ==
                0.1);
    assert_int_equal(good(text, "learning.optimizer={kind: sgd}").learning.optimizer.kind,
                     OPTIMIZER_sgd);
    assert_int_equal(good(text, "model.layers.0.size=64").architecture.layers[0].size, 64);
    struct config c = good(text, "model.layers=[{cell: gru, size: 3}, {cell: rnn, size: 5}]");
    assert_int_equal(c.architecture.layer_count, 2);
    assert_int_equal(c.architecture.layers[1].cell, CELL_rnn);
    assert_int_equal(c.architecture.layers[1].size, 5);
    assert_string_equal(good("seed: 1\n" MODEL, "name=b").name, "b");
}

/* Later overrides see the results of earlier ones. */
static void test_several_overrides(void **state) {
    static const char *const overrides[] = {
        "learning.optimizer={kind: sgd}",
        "learning.optimizer.momentum=0.5",
        "learning.optimizer.nesterov=true",
        "model.layers=[{cell: gru, size: 3}, {cell: rnn, size: 5}]",
        "model.layers.1.size=6",
        "model.layers.0={cell: dense, size: 7, activation: tanh}"};
    struct config c = good(BASE "learning: {optimizer: {beta1: 0.5}}\n", NULL);
    struct error error = {0};
    if (config_load(&c, path, overrides, COUNT(overrides), &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(c.learning.optimizer.kind, OPTIMIZER_sgd);
    assert_true(c.learning.optimizer.momentum == 0.5 && c.learning.optimizer.nesterov);
    assert_int_equal(c.architecture.layers[0].activation, ACTIVATION_tanh);
    assert_int_equal(c.architecture.layers[0].size, 7);
    assert_int_equal(c.architecture.layers[1].size, 6);
}

static void check_path(const char *text, const char *override, const char *initial,
                       const char *state_directory) {
    char expected[CONFIG_PATH_SIZE];
    struct config c = good(text, override);
    snprintf(expected, sizeof expected, "%s%s", *initial == '.' ? directory : "",
             initial + (*initial == '.'));
    assert_string_equal(c.initial, expected);
    snprintf(expected, sizeof expected, "%s%s", *state_directory == '.' ? directory : "",
             state_directory + (*state_directory == '.'));
    assert_string_equal(c.state_directory, expected);
}

/* An expected path that begins with '.' is in the file's own directory. */
static void test_paths(void **state) {
    static const char initial[] = "name: a\nmodel:\n  initial: w/x.safetensors\n"
                                  "  input: {kind: real, size: 2}\n"
                                  "  layers: [{cell: lstm, size: 4}]\n"
                                  "  output: {loss: squared, size: 2}\n";
    static const char home[] = "/home/user/.local/state/runnel/a";
    check_path(BASE, NULL, "", home);
    check_path(initial, NULL, "./w/x.safetensors", home);
    check_path(initial, "model.initial=w/y", "w/y", home);
    check_path(initial, "model.initial=/w/y", "/w/y", home);
    check_path(initial, "model.initial=~/y", "/home/user/y", home);
    check_path(initial, "model.initial=", "", home);
    check_path(BASE "state: {directory: s}\n", NULL, "", "./s");
    check_path(BASE "state: {directory: ~/s}\n", NULL, "", "/home/user/s");
    check_path(BASE "state: {directory: /s}\n", NULL, "", "/s");
    char below[2 * CONFIG_PATH_SIZE] = "";
    assert_non_null(getcwd(below, CONFIG_PATH_SIZE));
    check_path(BASE, "state.directory=s", "", strcat(below, "/s"));
    setenv("XDG_STATE_HOME", "/xdg", 1);
    check_path(BASE, NULL, "", "/xdg/runnel/a");
    setenv("STATE_DIRECTORY", "/var/lib/runnel:/var/lib/other", 1);
    check_path(BASE, NULL, "", "/var/lib/runnel");
    check_path(BASE "state: {directory: /s}\n", NULL, "", "/s");
    unsetenv("STATE_DIRECTORY");
    setenv("XDG_STATE_HOME", "not/absolute", 1);
    check_path(BASE, NULL, "", home);
    unsetenv("XDG_STATE_HOME");
}

static void check_path_error(const char *override, const char *sentence) {
    struct config c;
    struct error error = {0};
    assert_int_equal(load(&c, BASE, strlen(BASE), override, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    if (!strstr(error.text, sentence))
        fail_msg("%s lacks %s", error.text, sentence);
}

static void test_path_errors(void **state) {
    static char huge[CONFIG_PATH_SIZE + 64];
    unsetenv("HOME");
    check_path_error(NULL, ":1:1: state.directory: missing; expected a path, because "
                           "$STATE_DIRECTORY, $XDG_STATE_HOME and $HOME are not set");
    check_path_error("state.directory=~/s", "cannot resolve \"~/s\": $HOME is not set");
    memset(huge, 'x', sizeof huge - 1);
    huge[0] = '/';
    setenv("HOME", huge, 1);
    check_path_error(NULL, "state.directory: the default from the environment has ");
    check_path_error("model.initial=~/s",
                     "model.initial: expected a path of at most 4095 bytes, got ");
    setenv("HOME", "/home/user", 1);
    snprintf(huge, sizeof huge, "state.directory=");
    memset(huge + strlen(huge), 'x', CONFIG_PATH_SIZE);
    check_path_error(huge, "expected a path of 1 to 4095 bytes");
}

#define DIGEST_TEXT                                                                                \
    "name: a\nmodel:\n  input: {kind: real, size: 3}\n  layers:\n"                                 \
    "    - {cell: lstm, size: 4}\n    - {cell: dense, size: 4}\n"                                  \
    "  output: {loss: squared, size: 3, target: given}\n"

static void digest_of(const char *override, char digest[CONFIG_DIGEST_SIZE]) {
    struct config c = good(DIGEST_TEXT, override);
    memcpy(digest, c.compatible, CONFIG_DIGEST_SIZE);
}

/* A change of each key of the digest; all other keys leave it unchanged. */
#define GRID(keys)                                                                                 \
    "model={input: {kind: real, size: 16, shape: [1, 4, 4]}, layers: [{cell: conv, " keys "}], "   \
    "output: {loss: squared, size: 3}}"
static const struct {
    const char *key, *override;
} digest_changes[] = {
    {"seed", "seed=2"},
    {"model.input.kind", "model.input={kind: symbol, size: 3}"},
    {"model.input.size", "model.input.size=4"},
    {"model.input.embedding", "model.input={kind: symbol, size: 3, embedding: 2}"},
    {"model.input.scale", "model.input.scale=standard"},
    {"model.input.memory", "model.input={kind: real, size: 3, scale: standard, memory: 1000}"},
    {"model.input.limit", "model.input={kind: real, size: 3, scale: standard, limit: 30}"},
    {"model.input.shape", "model.input={kind: real, size: 3, shape: [3, 1, 1]}"},
    {"model.input.missing", "model.input.missing=hold"},
    {"model.layers.*.cell", "model.layers.0.cell=gru"},
    {"model.layers.*.size", "model.layers.1.size=5"},
    {"model.layers.*.channels", GRID("channels: 4, kernel: 1")},
    {"model.layers.*.kernel", GRID("channels: 3, kernel: 2")},
    {"model.layers.*.stride", GRID("channels: 3, kernel: 1, stride: 2")},
    {"model.layers.*.norm_groups", GRID("channels: 3, kernel: 1, norm_groups: 3")},
    {"model.layers.*.norm", "model.layers.1.norm=none"},
    {"model.layers.*.activation", "model.layers.1.activation=tanh"},
    {"model.layers.*.gain", "model.layers.0.gain=0.5"},
    {"model.layers.*.norm_momentum",
     "model.layers.0={cell: lstm, size: 4, norm: batch, norm_momentum: 0.5}"},
    {"model.layers.*.norm_steps",
     "model.layers.0={cell: lstm, size: 4, norm: recurrent_batch, norm_steps: 3}"},
    {"model.layers.*.forget_bias", "model.layers.0.forget_bias=1"},
    {"model.layers.*.radius", "model.layers.0={cell: rtu, size: 4, radius: [0.5, 0.9]}"},
    {"model.layers.*.recurrent", "model.layers.0={cell: lstm, size: 4, recurrent: diagonal}"},
    {"model.layers.*.memory",
     "model.layers.0={cell: lstm, size: 4, recurrent: diagonal, memory: 9}"},
    {"model.output.loss", "model.output.loss=gaussian"},
    {"model.output.size", "model.output.size=4"},
    {"model.output.components", "model.output={loss: mixture, components: 2}"},
    {"model.output.target", "model.output.target=next"},
    {"model.output.patience", "model.output={loss: squared, size: 3, target: later, patience: 7}"},
    {"learning.window", "learning.window=17"},
    {"learning.stride", "learning.stride=4"},
    {"learning.rule", "learning.rule=rtrl"},
    {"learning.optimizer.kind", "learning.optimizer.kind=adamw"},
    {"learning.optimizer.momentum", "learning.optimizer={kind: sgd, momentum: 0.9}"},
    {"learning.optimizer.nesterov", "learning.optimizer={kind: sgd, momentum: 0.9, nesterov: yes}"},
    {"learning.optimizer.alpha", "learning.optimizer={kind: rmsprop, alpha: 0.9}"},
    {"learning.optimizer.beta1", "learning.optimizer.beta1=0.8"},
    {"learning.optimizer.pull", "learning.optimizer.pull=0.03"},
    {"learning.optimizer.beta2", "learning.optimizer.beta2=0.99"},
    {"learning.optimizer.epsilon", "learning.optimizer.epsilon=1e-7"},
    {"learning.optimizer.weight_decay", "learning.optimizer.weight_decay=0.1"},
    {"learning.max_streams", "learning.max_streams=2"},
};

static const char *const digest_same[] = {
    "name=b",
    "device=cpu",
    "device_scope=grid",
    "model.initial=/x",
    "learning.optimizer.rate=0.5",
    "learning.clip=1",
    "learning.stride=16",
    "statistics.every=1",
    "statistics.predictions=yes",
    "examples={connect: \"tcp://a:1\", socket: sub}",
    "control.bind=ipc:///x",
    "state={directory: /s, checkpoint: {examples: 1, seconds: 1}}",
    "state.journal={enabled: no, sync: normal, keep: all}",
    "learning.optimizer={kind: adam, beta1: 0.0, epsilon: 0.00000001}",
};

static void test_digest(void **state) {
    char plain[CONFIG_DIGEST_SIZE], seen[COUNT(digest_changes)][CONFIG_DIGEST_SIZE];
    digest_of(NULL, plain);
    /* Future versions must accept today's checkpoints: this changes only with the computation. */
    assert_string_equal(plain, "e5ffd890335e48c4");
    /* With the defaults of earlier versions, whose checkpoints continue with them. */
    struct config config = good(DIGEST_TEXT, NULL);
    assert_string_equal(config.earlier.compatible, "789fc7c8561cb5f5");
    for (size_t n = 0; n < COUNT(digest_changes); n++) {
        digest_of(digest_changes[n].override, seen[n]);
        assert_string_not_equal(seen[n], plain);
        for (size_t m = 0; m < n; m++)
            assert_string_not_equal(seen[n], seen[m]);
    }
    for (size_t n = 0; n < COUNT(digest_same); n++) {
        digest_of(digest_same[n], seen[0]);
        assert_string_equal(seen[0], plain);
    }
    for (size_t k = 0; k < config_key_count; k++) {
        size_t n = 0;
        while (n < COUNT(digest_changes) && strcmp(digest_changes[n].key, config_keys[k].path))
            n++;
        bool forecast = config_keys[k].flags & KEY_CHANGED || /* see test_config_forecast */
                        (config_keys[k].when && !strcmp(config_keys[k].is, "forecast"));
        if (!forecast)
            assert_int_equal(n < COUNT(digest_changes), (config_keys[k].flags & KEY_DIGEST) != 0);
    }
}

static void check_set_error(struct config *config, const char *key, const char *value,
                            const char *sentence) {
    struct config before = *config;
    struct error error = {0};
    assert_int_equal(config_set(config, key, value, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    assert_string_equal(error.text, sentence);
    assert_memory_equal(config, &before, sizeof before);
}

static void test_cocob(void **state) {
    static const char text[] = BASE "learning: {optimizer: {kind: cocob}}\n";
    struct config c = good(text, NULL), d = good(text, "learning.optimizer.alpha=50");
    char why[CONFIG_WHY_SIZE];
    assert_true(c.learning.optimizer.rate == RATE_AUTO && c.learning.optimizer.alpha == 100);
    assert_true(d.learning.optimizer.alpha == 50);
    assert_string_not_equal(c.compatible, d.compatible);
    d = good(text, "learning.optimizer.rate=auto");
    assert_true(d.learning.optimizer.rate == RATE_AUTO);
    assert_string_equal(c.compatible, d.compatible);
    assert_true(config_rate_fits(&c.learning.optimizer, RATE_AUTO, why));
    assert_false(config_rate_fits(&c.learning.optimizer, 0, why));
    assert_string_equal(why, "expected auto, got 0: kind: cocob has no learning rate");
    c = good(BASE "learning: {optimizer: {kind: rmsprop}}\n", NULL);
    assert_true(c.learning.optimizer.rate == 0.001 && c.learning.optimizer.alpha == 0.99);
}

/* Only the first rule has a window. With others any window is valid, and only defines the
   default of the stride. */
static void test_rule(void **state) {
    static const char text[] = BASE "learning: {window: 4, stride: 3, rule: rtrl}\n";
    struct config c = good(text, NULL), d = good(text, "learning.window=2");
    assert_int_equal(c.learning.rule, RULE_rtrl);
    assert_int_equal(c.learning.window, 3);
    assert_int_equal(d.learning.stride, 3);
    assert_string_equal(c.digest, d.digest);
    d = good(text, "learning.stride=2");
    assert_string_not_equal(c.digest, d.digest);
    c = good(BASE "learning: {window: 5, rule: rtrl}\n", NULL);
    assert_int_equal(c.learning.stride, 5);
}

#define MAY "learning.optimizer.rate, learning.clip, anomaly.threshold or statistics.every"

static void test_set(void **state) {
    struct config c = good(BASE, NULL), first = c;
    struct error error = {0};
    assert_int_equal(config_set(&c, "learning.optimizer.rate", "0.0003", &error), 0);
    assert_int_equal(config_set(&c, "learning.clip", "2", &error), 0);
    assert_int_equal(config_set(&c, "statistics.every", " 5", &error), 0);
    assert_true(c.learning.optimizer.rate == 0.0003 && c.learning.clip == 2);
    assert_int_equal(c.statistics_every, 5);
    assert_string_equal(c.compatible, first.compatible);
    check_set_error(&c, "learning.clip", "-1",
                    "set learning.clip: expected a number from 0 to 1000000000 "
                    "(largest gradient norm, 0 = no clipping), got \"-1\"");
    char digits[102] = "";
    memset(digits, '1', sizeof digits - 1);
    check_set_error(&c, "learning.clip", digits,
                    "set: learning.clip: expected a number from 0 to 1000000000 of at most 100 "
                    "bytes, got 101 bytes");
    check_set_error(&c, "learning.clip", "\"1\"",
                    "set learning.clip: expected a number from 0 to "
                    "1000000000 (largest gradient norm, 0 = no clipping), got the text \"1\"");
    check_set_error(&c, "learning.optimizer.rate", "",
                    "set: learning.optimizer.rate: expected a number from 0 to 100, or auto, got "
                    "an empty value");
    check_set_error(&c, "learning.optimizer.rate", "null",
                    "set: learning.optimizer.rate: expected a number from 0 to 100, or auto, got "
                    "an empty value");
    check_set_error(&c, "learning.window", "3",
                    "set: learning.window cannot change while the daemon runs; expected " MAY);
    check_set_error(&c, "learning.optimizer", "{rate: 1}",
                    "set: learning.optimizer cannot change while the daemon runs; expected " MAY);
    check_set_error(&c, "model.layers.7.size", "3",
                    "set: model.layers.7.size cannot change while the daemon runs; expected " MAY);
    check_set_error(
        &c, "rate", "3",
        "set: unknown key \"rate\" (did you mean \"learning.optimizer.rate\"?); expected " MAY);
    check_set_error(&c, "", "3", "set: unknown key \"\"; expected " MAY);
    check_set_error(&c, "x=y\n", "3", "set: unknown key \"x=y?\"; expected " MAY);
}

static void check_meant(const char *name, const char *meant) {
    char found[CONFIG_KEY_NAME_SIZE];
    struct error error;
    assert_int_equal(config_key_meant(name, found, &error), 0);
    assert_string_equal(found, meant);
}

static void check_not_meant(const char *name, const char *sentence) {
    char found[CONFIG_KEY_NAME_SIZE];
    struct error error;
    assert_int_equal(config_key_meant(name, found, &error), -1);
    assert_int_equal(error.status, EX_CONFIG);
    assert_string_equal(error.text, sentence);
}

static void test_short_names(void **state) {
    check_meant("rate", "learning.optimizer.rate");
    check_meant("optimizer.kind", "learning.optimizer.kind");
    check_meant("learning.window", "learning.window");
    check_meant("optimizer", "learning.optimizer");
    check_meant("layers", "model.layers");
    check_meant("name", "name");
    check_meant("memory", "memory");
    check_meant("norm", "model.layers.N.norm");
    check_meant("stride", "learning.stride");
    check_meant("shape", "anomaly.shape");
    check_meant("embedding", "model.input.embedding");
    check_meant("0.stride", "model.layers.0.stride");
    check_meant("size", "model.layers.N.size");
    check_meant("output.size", "model.output.size");
    check_meant("0.norm", "model.layers.0.norm");
    check_meant("layers.12.norm", "model.layers.12.norm");
    check_meant("model.layers.N.norm", "model.layers.N.norm");
    check_not_meant(
        "kind",
        "ambiguous key \"kind\"; expected one of model.input.kind, model.output.candidates.kind or "
        "learning.optimizer.kind");
    check_not_meant("nrom", "unknown key \"nrom\"; runneld --explain lists all keys");
    check_not_meant("learning.windwo", "unknown key \"learning.windwo\" (did you mean "
                                       "\"learning.window\"?); runneld --explain lists all keys");
    check_not_meant("", "unknown key \"\"; runneld --explain lists all keys");
    check_not_meant(
        "ate", "unknown key \"ate\" (did you mean \"name\"?); runneld --explain lists all keys");
}

#define TWO_LAYERS                                                                                 \
    "name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: lstm, size: 4}, "          \
    "{cell: dense, size: 3}]\n  output: {loss: squared, size: 2}\n"

static void check_wrong(const char *override, const char *sentence) {
    struct config c;
    struct error error = {0};
    assert_int_equal(load(&c, TWO_LAYERS, strlen(TWO_LAYERS), override, &error), -1);
    assert_string_equal(error.text, sentence);
}

static void test_all_layers(void **state) {
    struct config c = good(TWO_LAYERS, "model.layers.N.size=9");
    assert_int_equal(c.architecture.layers[0].size, 9);
    assert_int_equal(c.architecture.layers[1].size, 9);
    c = good(TWO_LAYERS, "model.layers.N.forget_bias=2"); /* not supported by a dense layer */
    assert_true(c.architecture.layers[0].forget_bias == 2);
    check_wrong("model.layers.N.norm_steps=4",
                "--set model.layers.N.norm_steps=4: model.layers.0.norm_steps: requires norm: "
                "recurrent_batch, got norm: layer");
    check_wrong("model.layers.1.forget_bias=2", "--set model.layers.1.forget_bias: requires cell: "
                                                "lstm, got cell: dense");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_names),
        cmocka_unit_test(test_all_layers),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_journal),
        cmocka_unit_test(test_anchors_and_styles),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_losses_and_targets),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_several_overrides),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_path_errors),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_cocob),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
