/* The printed configuration has the same digests, and prints the same text again. And the
   coverage of the digests. */
#include "config_testing.h"

#include <glob.h>
#include <sysexits.h>

#define FORECAST(rest) "name: a\npreset: forecast\nmodel: {input: {size: 3}}\n" rest

/* The printed text; the caller frees it. */
static char *printed(const struct config *config, const struct config *configured) {
    struct error error = {0};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    if (config_print(out, config, configured, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void check_again(struct config *config, const char *what) {
    char *text = printed(config, config);
    struct error error = {0};
    struct config *again = calloc(1, sizeof *again);
    assert_non_null(again);
    if (load(again, text, strlen(text), NULL, &error) != 0)
        fail_msg("%s:\n%s\n%s", what, text, error.text);
    if (strcmp(again->digest, config->digest) || strcmp(again->compatible, config->compatible))
        fail_msg("%s has other digests than what it is printed as:\n%s", what, text);
    char *second = printed(again, NULL);
    assert_string_equal(second, text);
    free(second);
    free(text);
    free(again);
}

static void test_shipped_configurations(void **state) {
    static const char *const patterns[] = {"conf/*.yaml", "conf/bench/*.yaml",
                                           "tests/unit/conf/*.yaml"};
    const char *root = getenv("srcdir");
    for (size_t p = 0; p < COUNT(patterns); p++) {
        char pattern[CONFIG_PATH_SIZE];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/%s", root ? root : ".", patterns[p]);
        assert_int_equal(glob(pattern, 0, NULL, &found), 0);
        for (size_t n = 0; n < found.gl_pathc; n++) {
            struct config *config = calloc(1, sizeof *config);
            struct error error = {0};
            if (config_load(config, found.gl_pathv[n], NULL, 0, &error) != 0)
                fail_msg("%s", error.text);
            check_again(config, found.gl_pathv[n]);
            free(config);
        }
        globfree(&found);
    }
}

static const char *const texts[] = {
    BASE,
    /* Texts that YAML interprets as other types, and every kind of number. */
    "name: \"off\"\nseed: 9007199254740991\n" MODEL
    "learning: {optimizer: {kind: sgd, rate: 3.3e-7, momentum: 0.1, nesterov: true}, clip: 0.3}\n"
    "state: {directory: '/tmp/a b: \"c\" #d \xe5\xa4\xa7\xe9\x98\xaa', journal: {sync: 'off', "
    "keep: 10G}}\n"
    "statistics: {predictions: all, seconds: 0.1}\nexamples: {socket: sub, connect: "
    "'tcp://10.0.0.1:5570'}\n",
    BASE "learning: {optimizer: {kind: cocob}, window: 9, stride: 2}\n"
         "control: {bind: 'ipc:///tmp/it is'}\n",
    NEXT("kind: symbol, vocabulary: {capacity: 7, forget: lru}", "loss: softmax"),
    NEXT("kind: symbol, hash: 64, embedding: 3", "loss: softmax"),
    NEXT("kind: real, size: 3, scale: standard, memory: 100, limit: 30, missing: hold, time: [gap]",
         "loss: gaussian, size: 3, ahead: [1, 6], relative: true, skip: true"),
    NEXT("time: [day, gap], time_zone: Europe/Berlin, scale: standard, memory: 50, columns: "
         "[{name: load}, {name: 'on', scale: none, mask: true, missing: hold}, {name: host, kind: "
         "symbol, vocabulary: {capacity: 5, unknown: reject}, embedding: 2}, {name: h, kind: "
         "symbol, hash: 9}, {name: s, kind: symbol, size: 4}, {name: w, kind: cycle, period: 7, "
         "harmonics: 2}, {name: quiet, memory: 9, limit: 4}]",
         "loss: squared, columns: [load, quiet]"),
    NEXT("columns: [{name: host, kind: symbol, vocabulary: {capacity: 5}}]", "loss: softmax"),
    "name: a\nmodel:\n  layers: [{cell: lstm, size: 4, norm: recurrent_batch, norm_steps: 3, gain: "
    "0.1, forget_bias: 1}, {cell: dense, size: 3, norm: none, activation: tanh}]\n"
    "  input: {kind: real, size: 2, scale: standard}\n"
    "  output: {loss: softmax, vocabulary: {capacity: 4}, target: later, patience: 9, columns: "
    "[state]}\n",
    "name: a\nmodel:\n  layers: [{cell: rtu, size: 4, radius: [0.5, 0.75]}, {cell: gru, size: 3, "
    "recurrent: diagonal, memory: 20}, {cell: rtu, size: 2}]\n"
    "  input: {kind: real, size: 2}\n  output: {loss: squared, size: 2}\n"
    "learning: {rule: snap1, stride: 3}\n",
    "name: a\nmodel:\n  layers: [{cell: conv, channels: 4, kernel: 3, norm_groups: 2}, {cell: "
    "conv, "
    "channels: 3, kernel: 2, stride: 2, norm: batch, activation: tanh}, {cell: gru, size: 4}]\n"
    "  input: {kind: real, size: 72, shape: [2, 6, 6]}\n  output: {loss: squared, size: 2}\n",
    "name: a\nmodel:\n  layers: [{cell: rnn, size: 4, norm: batch, norm_momentum: 0.3}]\n"
    "  input: {kind: real, size: 3}\n  output: {loss: mixture, components: 2, target: next}\n",
    FORECAST(""),
    FORECAST("experts: [last, ar12]\ncombine: best\nmembers: []\n"),
    FORECAST("anomaly: {share: ['web-', \"\\\"\\u2028\"], threshold: 2.5}\n"),
    FORECAST("anomaly: {enabled: false}\nmembers: [{name: change}, {name: 'no', set: "
             "{model.layers.0.norm: none, learning.window: 8, seed: 4}}, {name: sgd, set: "
             "{learning.optimizer.kind: sgd, learning.optimizer.rate: 1e-3}}, {name: cocob, set: "
             "{learning.optimizer.kind: cocob, learning.optimizer.rate: auto}}, {name: lstm, set: "
             "{model.layers.0.cell: lstm, model.layers.0.forget_bias: 1}}, {name: two, set: "
             "{model.layers: '[{cell: gru, size: 5}, {cell: rnn, size: 4, norm: rms}]', "
             "model.output.relative: none}}]\n"),
    "name: a\nmodel:\n  input: {scale: forecast, missing: hold, columns: [{name: x}, {name: y, "
    "missing: reject}]}\n  layers: [{cell: gru, size: 4}]\n"
    "  output: {loss: squared, target: next, relative: last}\n"
    "learning: {optimizer: {kind: rmsprop, alpha: 0.5}}\nmembers: [{name: b, set: "
    "{learning.optimizer.kind: cocob, learning.optimizer.rate: auto}}]\n",
    BASE
    "statistics: {predictions: true}\npublish: {mqtt: 'mqtt://a:1', topic: '{stream}', user: u, "
    "password_file: p, messages: [prediction, event]}\n"
    "security: {insecure: true}\nexamples: {bind: 'tcp://*:5570'}\n",
    BASE "statistics: {predictions: true}\npublish: {kafka: 'a:1,b:2', settings: [a.b=c]}\n",
    BASE "statistics: {predictions: true}\npublish: {redis: 'redis://a:1', keep: 7}\n",
    BASE "tags: {site: osaka, run: '7', 'on': \"off\", note: 'a, b: {c} # \"d\"'}\n",
    BASE "tags:\n",
    "name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: real, size: 2}\n"
    "  output: {loss: squared, size: 2}\nlearning: {rule: rtrl, stride: 3}\n",
    FORECAST("members: [{name: a}, {name: b, set: {learning.rule: rtrl, model.output.readout: "
             "gradient}}]\n"),
    "name: a\npreset: symbols\nmodel: {input: {size: 256}}\n",
    "name: a\npreset: symbols\nmodel: {input: {size: 9}}\nlearning: {window: 8}\n",
    "name: a\npreset: symbols\nmodel: {input: {size: 9}}\nmembers: []\n",
    "name: a\npreset: symbols\nmodel: {input: {vocabulary: {capacity: 99}}}\ntables: own\nmemory: "
    "65536\nexperts: [orders, repeat]\ncombine: experts\nmembers: []\nstatistics: {top: 0}\n",
    "name: a\nmodel:\n  input: {kind: symbol, vocabulary: {capacity: 8}, sequence: {layers: "
    "[{cell: "
    "gru, size: 7, gain: 0.3}, {cell: rtu, size: 3, radius: [0.5, 0.75]}], pool: attention, "
    "longest: 9}}\n  layers: []\n  output: {loss: softmax, target: next, sequence: {layers: "
    "[{cell: "
    "lstm, size: 6, forget_bias: 1}]}}\n",
    "name: a\nmodel:\n  input: {kind: real, size: 3, sequence: {layers: [{cell: gru, size: 7}]}}\n"
    "  outputs: [{name: 'no', loss: softmax, size: 4, sequence: {layers: [{cell: gru, size: 6}], "
    "embedding: 3, longest: 30}}, {name: b, loss: squared, size: 3, target: same, weight: 0.1, "
    "sequence: {layers: [{cell: gru, size: 5}]}}]\n",
    NEXT("kind: real, size: 3", "loss: ranking, size: 5, negatives: 7, score: cosine, temperature: "
                                "0.3, candidates: {layers: [{cell: dense, size: 8}]}"),
    "name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: real, size: 3}\n  outputs: "
    "[{name: a, loss: ranking, size: 5, negatives: 7, objective: hinge, margin: 0.3, candidates: "
    "{kind: symbol, size: 8}}, {name: '1', loss: gaussian, size: 3, target: previous}]\n",
    BASE "security: {secret: s, allow: {control: c}, quota: {bytes: 0}}\n",
};

static void test_printed_and_read_again(void **state) {
    for (size_t n = 0; n < COUNT(texts); n++) {
        struct config config = good(texts[n], NULL);
        check_again(&config, texts[n]);
    }
}

/* The text for people. */
static void test_text(void **state) {
    struct config config = good("name: a\nseed: 7\nmodel:\n  input: {kind: real, size: 2}\n"
                                "  layers: [{cell: gru, size: 4}, {cell: dense, size: 3}]\n"
                                "  output: {loss: squared, size: 2}\nstate: {directory: /s}\n"
                                "learning: {optimizer: {rate: 1e-5}}\n",
                                NULL);
    struct config now = config;
    now.learning.optimizer.rate = 0.3;
    char *text = printed(&now, &config);
    static const char begin[] =
        "name: a\npreset: none\nseed: 7\ndevice: auto\ndevice_scope: auto\nmodel:\n  input:\n    "
        "kind: real\n"
        "    size: 2\n    scale: none\n    missing: reject\n    time: []\n  layers:\n"
        "    - cell: gru\n      size: 4\n      norm: layer\n      gain: 1\n      recurrent: full\n"
        "      memory: 0\n"
        "    - cell: dense\n      size: 3\n      norm: layer\n      activation: relu\n"
        "      taps: 1\n      dilation: 1\n      residual: false\n      gain: 1\n  output:\n    "
        "loss: squared\n    size: 2\n    target: given\n";
    assert_int_equal(strncmp(text, begin, strlen(begin)), 0);
    assert_non_null(strstr(text, "\n    rate: 0.3  # set while running; configured: 1.0e-05\n"));
    assert_non_null(strstr(text, "\n  directory: /s\n"));
    free(text);
}

/* Changes that affect learning; the first one is the original. */
static void test_digest_covers(void **state) {
    static const char *const others[] = {
        "learning.optimizer.rate=0.01",
        "learning.optimizer.rate=0.001",
        "learning.clip=1",
        "seed=2",
        "learning.window=8",
        "learning.optimizer.beta1=0.5",
        "anomaly.enabled=true",
        "model.layers.0={cell: dense, size: 4}",
        "model.layers.0={cell: dense, size: 4, taps: 2}",
        "model.layers.0={cell: dense, size: 4, taps: 2, dilation: 2}",
    };
    static struct config seen[COUNT(others)];
    for (size_t n = 0; n < COUNT(others); n++) {
        seen[n] = good(BASE "learning: {optimizer: {rate: 0.1}}\n", others[n]);
        for (size_t m = 0; m < n; m++)
            assert_string_not_equal(seen[m].digest, seen[n].digest);
    }
    for (size_t n = 1; n < 3; n++)
        assert_string_equal(seen[n].compatible, seen[0].compatible);
    static const char *const same[] = {"statistics.every=7", "name=b", "state.directory=/tmp",
                                       "device=cpu", "learning.stride=16"};
    for (size_t n = 0; n < COUNT(same); n++)
        assert_string_equal(good(BASE, same[n]).digest, good(BASE, NULL).digest);
}

/* A value set while running has the digest of a file with this value, also for members. */
static void test_digest_in_flight(void **state) {
    struct config config = good(BASE, NULL);
    config.learning.optimizer.rate = 0.25;
    config.learning.clip = 3;
    config_digest(&config);
    assert_string_equal(config.digest,
                        good(BASE "learning: {clip: 3, optimizer: {rate: 0.25}}\n", NULL).digest);

    config = good(FORECAST("anomaly: {threshold: 2}\n"), NULL);
    for (size_t n = 0; n < config.member_count; n++)
        config.members[n].learning.optimizer.rate = 0.25;
    config.anomaly.rule.threshold = 3;
    config_digest(&config);
    assert_string_equal(
        config.digest,
        good(FORECAST("anomaly: {threshold: 3}\nlearning: {optimizer: {rate: 0.25}}\n"), NULL)
            .digest);
    check_again(&config, "members of another rate");

    config = good(FORECAST(""), NULL);
    struct config configured = config;
    config.members[1].learning.clip = 5;
    config_digest(&config);
    check_again(&config, "a member of another clip");
    char *text = printed(&config, &configured);
    assert_non_null(strstr(text, "\n      learning.clip: 5  # set while running; configured: 1\n"));
    free(text);
}

/* Other initial tensors change the digest; their location does not. */
static void test_digest_of_initial(void **state) {
    char one[] = "/tmp/test-config-initial-XXXXXX", two[] = "/tmp/test-config-initial-XXXXXX";
    int a = mkstemp(one), b = mkstemp(two);
    char text[2 * CONFIG_TEXT_SIZE];
    char digest[CONFIG_DIGEST_SIZE];
    assert_true(a >= 0 && b >= 0);
    assert_int_equal(write(a, "tensors", 7), 7);
    assert_int_equal(write(b, "tensors", 7), 7);
    snprintf(text, sizeof text, "model.initial=%s", one);
    strcpy(digest, good(BASE, text).digest);
    assert_string_not_equal(digest, good(BASE, NULL).digest);
    snprintf(text, sizeof text, "model.initial=%s", two);
    assert_string_equal(digest, good(BASE, text).digest);
    assert_int_equal(write(b, "!", 1), 1);
    assert_string_not_equal(digest, good(BASE, text).digest);
    close(a);
    close(b);
    unlink(one);
    unlink(two);
}

/* Names of a run, also set one by one on the command line. */
static void test_tags(void **state) {
    struct config config = good(BASE "tags: {site: osaka, run: 7}\n", "tags.site=");
    assert_int_equal(config.tags.count, 1);
    assert_string_equal(config.tags.list[0].name, "run");
    assert_string_equal(config.tags.list[0].text, "7");
    config = good(BASE "tags: {site: osaka}\n", "tags.site=kyoto");
    assert_int_equal(config.tags.count, 1);
    assert_string_equal(config.tags.list[0].text, "kyoto");
    assert_string_equal(config.digest, good(BASE, NULL).digest);
    static const char *const wrong[][2] = {
        {"tags={a b: c}", "invalid tag name \"a b\"; expected"},
        {"tags.a/b=c", "invalid tag name \"a/b\""},
        {"tags={a: [b]}", "expected a text of at most 127 bytes, got a list"},
        {"tags={a: }", "expected a mapping of at most 32 names to texts"},
        {"tags=[a]", "expected a mapping of at most 32 names to texts"},
        {"tags={a: b, a: c}", "duplicate key"},
    };
    for (size_t n = 0; n < COUNT(wrong); n++) {
        struct error error = {0};
        assert_int_equal(load(&config, BASE, strlen(BASE), wrong[n][0], &error), -1);
        if (!strstr(error.text, wrong[n][1]))
            fail_msg("%s: %s", wrong[n][0], error.text);
    }
    char many[16 * (CONFIG_TAGS_MAX + 2)] = "tags={";
    for (int n = 0; n <= CONFIG_TAGS_MAX; n++)
        sprintf(many + strlen(many), "t%d: x, ", n);
    strcat(many, "}");
    struct error error = {0};
    assert_int_equal(load(&config, BASE, strlen(BASE), many, &error), -1);
    assert_non_null(strstr(error.text, "too many tags; the limit is 32"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped_configurations),
        cmocka_unit_test(test_printed_and_read_again),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_digest_covers),
        cmocka_unit_test(test_digest_in_flight),
        cmocka_unit_test(test_digest_of_initial),
        cmocka_unit_test(test_tags),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
