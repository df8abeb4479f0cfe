/* preset: forecast, scale: forecast, experts and members. */
#include "config_testing.h"

#include "forecast/forecast.h"

#define WHOLE "name: a\npreset: forecast\nmodel: {input: {size: 2}}\n"

/* Without a preset: five lines, the input in line 4, the output in line 5. */
#define FORECAST(output)                                                                           \
    "name: a\nmodel:\n  layers: [{cell: lstm, size: 4}]\n"                                         \
    "  input: {kind: real, size: 2, scale: forecast}\n"                                            \
    "  output: {loss: squared, target: next" output "}\n"

static void check_error(const char *text, const char *override, const char *sentence) {
    struct config config;
    struct error error = {0};
    if (load(&config, text, strlen(text), override, &error) == 0)
        fail_msg("accepted: %s%s", text, override ? override : "");
    if (!strstr(error.text, sentence))
        fail_msg("%s\ninstead of\n%s", error.text, sentence);
}

static void test_preset_is_whole(void **state) {
    struct config c = good(WHOLE, NULL);
    const struct architecture *a = &c.architecture;
    assert_int_equal(a->layer_count, 1);
    assert_string_equal(cell_kind(a->layers[0].cell)->kind.name, "gru");
    assert_int_equal(a->layers[0].size, 64);
    assert_string_equal(norm_kind(a->layers[0].norm)->kind.name, "layer");
    assert_int_equal(a->input.scale, SCALE_FORECAST);
    assert_true(a->input.hold && a->output.skip && a->output.solved);
    assert_int_equal(a->output.size, 2);
    assert_int_equal(a->output.target, TARGET_NEXT);
    assert_int_equal(c.learning.window, 16);
    assert_int_equal(c.learning.stride, 4);
    assert_true(c.learning.optimizer.rate == 0.0003 && c.learning.clip == 1);
    assert_int_equal(c.learning.max_streams, 128);
    assert_int_equal(c.experts, EXPERTS_ALL);
    assert_int_equal(c.combined, COMBINE_MLPOLY);
    assert_true(c.anomaly.enabled && c.anomaly.memory == 4000 && c.anomaly.surprise);
    assert_true(c.anomaly.rule.threshold == 1.5 && c.anomaly.rule.rest == 100);
    assert_true(c.anomaly.rule.fatigue == 0.2 && c.anomaly.rule.recovery == 700);
    assert_true(c.members_given);
    assert_int_equal(c.member_count, 2);
    assert_string_equal(c.members[0].name, "change");
    assert_int_equal(c.members[0].output.relative, RELATIVE_AR12);
    assert_string_equal(c.members[1].name, "level");
    assert_int_equal(c.members[1].output.relative, RELATIVE_NONE);
}

/* Anomaly scores do not affect learning: a checkpoint fits with and without them. */
static void test_anomalies_are_not_in_the_digest(void **state) {
    struct config on = good(WHOLE, NULL);
    assert_string_equal(good(WHOLE, "anomaly.enabled=false").compatible, on.compatible);
    assert_string_equal(good(WHOLE, "anomaly.memory=7").compatible, on.compatible);
    assert_false(good(FORECAST(""), NULL).anomaly.enabled);
    check_error(FORECAST(""), "anomaly.threshold=2",
                "anomaly.threshold: requires enabled: true, got enabled: false");
}

static void test_prefixes_of_keys_that_share(void **state) {
    struct config c = good(WHOLE "anomaly: {share: [web-, '']}\n", NULL);
    assert_int_equal(c.anomaly.share.count, 2);
    assert_string_equal(c.anomaly.share.prefixes[0], "web-");
    assert_string_equal(c.anomaly.share.prefixes[1], "");
    assert_string_equal(c.compatible, good(WHOLE, NULL).compatible);
    c = good(WHOLE "anomaly: {share: [web-, '']}\n", "anomaly.share=db-"); /* replaces those */
    assert_int_equal(c.anomaly.share.count, 1);
    assert_string_equal(c.anomaly.share.prefixes[0], "db-");
    assert_int_equal(good(WHOLE, "anomaly.share=[]").anomaly.share.count, 0);
    char many[CONFIG_SHARE_SIZE + sizeof "[]"];
    snprintf(many, sizeof many, "[%0*d]", CONFIG_SHARE_SIZE, 0);
    const char *const wrong[] = {"[a, ~]", "{a: 1}", "[a, b, a]", "[\"a\\0b\"]", many};
    for (size_t n = 0; n < sizeof wrong / sizeof *wrong; n++) {
        char override[CONFIG_TEXT_SIZE];
        snprintf(override, sizeof override, "anomaly.share=%s", wrong[n]);
        check_error(WHOLE, override, "anomaly.share: expected");
    }
}

static void the_longest_prefix_counts(void **state) {
    const struct config c = good(WHOLE, "anomaly.group=[web-, db-, web-eu-]");
    assert_int_equal(config_prefix(&c.anomaly.group, "web-eu-1", 8), 2);
    assert_int_equal(config_prefix(&c.anomaly.group, "web-1", 5), 0);
    assert_true(config_prefix(&c.anomaly.group, "web", 3) == SIZE_MAX);
    assert_string_equal(c.digest, good(WHOLE, NULL).digest); /* it only regroups */
    (void)state;
}

static void rates_of_alarms(void **state) {
    static const struct {
        const char *text;
        struct alarm_rate rate;
    } RATES[] = {{"1 per month", {1, 2592000, true}},
                 {"2 per 2 weeks", {2, 1209600, true}},
                 {"0.5 per day", {0.5, 86400, true}},
                 {"3 per 10,000 examples", {3, 10000, false}}};
    static const char *const WRONG[] = {"1",
                                        "per month",
                                        "1 per year",
                                        "1 per months old",
                                        "0 per month",
                                        "1 per 0 days",
                                        "1 per 2weeks",
                                        "-1 per day",
                                        "3 per 10.000 examples",
                                        "2 per example"};
    for (size_t n = 0; n < sizeof RATES / sizeof *RATES; n++) {
        char override[64];
        struct alarm_rate rate;
        snprintf(override, sizeof override, "anomaly.rate=%s", RATES[n].text);
        assert_true(config_alarm_rate(good(WHOLE, override).anomaly.rate, &rate));
        assert_true(rate.alarms == RATES[n].rate.alarms && rate.every == RATES[n].rate.every &&
                    rate.time == RATES[n].rate.time);
    }
    for (size_t n = 0; n < sizeof WRONG / sizeof *WRONG; n++) {
        char override[64];
        snprintf(override, sizeof override, "anomaly.rate=%s", WRONG[n]);
        check_error(WHOLE, override, "anomaly.rate: expected a rate such as 1 per month");
    }
}

static void shares_of_shape(void **state) {
    static const char *const texts[] = {"false", "true", "0.2", "10"};
    static const double shares[] = {0, 0.5, 0.2, 10};
    char override[64];
    assert_true(good(WHOLE, NULL).anomaly.shape == 0);
    for (size_t n = 0; n < sizeof shares / sizeof *shares; n++) {
        snprintf(override, sizeof override, "anomaly.shape=%s", texts[n]);
        assert_true(good(WHOLE, override).anomaly.shape == shares[n]);
    }
    check_error(WHOLE, "anomaly.shape=11",
                "anomaly.shape: expected false, true (0.5) or a number from 0 to 10 (");
    check_error(WHOLE, "anomaly.shape=often", "anomaly.shape: expected false, true (0.5) or");
}

static void test_preset_is_overridden(void **state) {
    struct config c =
        good(WHOLE "learning: {stride: 8}\nmembers: []\nexperts: [ar3, last]\n", NULL);
    assert_int_equal(c.learning.stride, 8);
    assert_int_equal(c.learning.window, 16);
    assert_true(c.members_given && c.member_count == 0);
    assert_int_equal(c.experts, 1u << EXPERT_ar3 | 1u << EXPERT_last);
    c = good(WHOLE, "model.layers=[{cell: lstm, size: 8}, {cell: gru, size: 4, norm: none}]");
    assert_int_equal(c.architecture.layer_count, 2);
    assert_int_equal(good(WHOLE, "model.layers.0.size=8").architecture.layers[0].size, 8);
    check_error(WHOLE, "model.layers=[{cell: lstm}]", "model.layers.0.size: missing");
    check_error(WHOLE, "model.input.scale=none",
                "model.input.scale: expected forecast with preset: forecast");
}

static void test_looks_ahead(void **state) {
    struct config c = good(WHOLE, "model.output.ahead=[1, 6, 24]");
    struct model model;
    enum { COLUMNS = 2, HORIZONS = 3 };
    for (size_t m = 0; m < c.member_count; m++) {
        bool base = c.members[m].output.relative == RELATIVE_AR12;
        struct architecture architecture;
        config_member_network(&c, m, &architecture);
        model_build(&model, &architecture);
        assert_int_equal(model.horizons, HORIZONS);
        assert_int_equal(model.open, 24);
        assert_int_equal(model.outputs, HORIZONS * COLUMNS);
        assert_int_equal(model.features, (2 + (1 + base) * HORIZONS) * COLUMNS);
    }
    assert_string_not_equal(c.compatible, good(WHOLE, NULL).compatible);
    assert_string_equal(good(WHOLE, "model.output.ahead=1").compatible,
                        good(WHOLE, NULL).compatible);
}

static void test_members_set(void **state) {
    struct config c = good(FORECAST("") "members:\n"
                                        "  - {name: a}\n"
                                        "  - {name: b, set: {model.layers.0.size: 8, seed: 5, "
                                        "learning.optimizer.rate: 0.5, learning.window: 4}}\n"
                                        "combine: b\n",
                           NULL);
    assert_int_equal(c.members[0].layers[0].size, 4);
    assert_int_equal(c.members[1].layers[0].size, 8);
    assert_int_equal(c.members[0].seed, 1);
    assert_int_equal(c.members[1].seed, 5);
    assert_true(c.members[1].learning.optimizer.rate == 0.5);
    assert_int_equal(c.members[1].learning.window, 4);
    assert_int_equal(c.members[1].learning.stride, 4);
    assert_int_equal(c.combined, COMBINE_ONE + EXPERT_known + 1);
    assert_int_equal(good(FORECAST(""), "combine=network").combined, COMBINE_ONE + EXPERT_known);
    assert_int_equal(good(FORECAST(""), "combine=mean").combined, COMBINE_ONE + EXPERT_mean);
}

/* `count` members; all except the first set `sets`. The caller frees the text. */
static char *many_members(size_t count, const char *sets) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    fputs(WHOLE "members:\n  - {name: m0}\n", out);
    for (size_t n = 1; n < count; n++)
        fprintf(out, "  - {name: m%zu, set: {seed: %zu%s}}\n", n, n, sets);
    fclose(out);
    return text;
}

/* Each member equals a configuration with its values, and one more member is an error. */
static void test_most_members(void **state) {
    char *text = many_members(CONFIG_MEMBERS_MAX, ", model.layers.0.size: 5");
    struct config *c = malloc(2 * sizeof *c), *lone = c + 1;
    struct architecture of;
    *c = good(text, NULL);
    free(text);
    assert_int_equal(c->member_count, CONFIG_MEMBERS_MAX);
    *lone = good(WHOLE, "model.layers.0.size=5");
    for (size_t n = 1; n < c->member_count; n++) {
        config_member_network(c, n, &of);
        assert_int_equal(c->members[n].seed, n);
        assert_int_equal(of.layer_count, 1);
        assert_int_equal(of.layers[0].size, 5);
        assert_memory_equal(&of.input, &lone->architecture.input, sizeof of.input);
    }
    free(c);
    text = many_members(CONFIG_MEMBERS_MAX + 1, "");
    check_error(text, NULL, ":5:3: members: expected at most 64 members, got 65");
    free(text);
}

/* All members have room for a text for each key, but not for the longest ones. */
static void test_members_that_set_much(void **state) {
    enum { KEYS = 8, VALUE = 170 };
    char sets[KEYS * (VALUE + sizeof ", key0: ")], *at = sets;
    for (int k = 0; k < KEYS; k++)
        at += sprintf(at, ", key%d: %0*d", k, VALUE, 0);
    char *text = many_members(CONFIG_MEMBERS_MAX, sets);
    check_error(text, NULL, "members: the settings of all members exceed 73728 bytes");
    free(text);
    text = many_members(9, sets);
    check_error(text, NULL, "members: member m1 cannot set key0"); /* these still fit */
    free(text);
}

/* Members that set so many bytes, including zeros, and one more that sets another value. */
static char *members_that_set(size_t bytes) {
    enum { AROUND = sizeof "k00=" };
    char *text = NULL;
    size_t size = 0, used = 0;
    FILE *out = open_memstream(&text, &size);
    fputs(WHOLE "members:\n", out);
    for (size_t n = 0; used < bytes; n++, used++) {
        fprintf(out, "  - {name: m%zu, set: {", n);
        for (int k = 0; k < CONFIG_SETS_MAX && used < bytes; k++) {
            size_t one = bytes - used < CONFIG_SET_SIZE ? bytes - used : CONFIG_SET_SIZE;
            fprintf(out, "%sk%02d: %0*d", k ? ", " : "", k, (int)(one - AROUND), 0);
            used += one;
        }
        fputs("}}\n", out);
    }
    fputs("  - {name: more, set: {seed: 1}}\n", out);
    fclose(out);
    return text;
}

/* An earlier member uses the last byte. */
static void test_members_that_set_all_there_is(void **state) {
    char *text = members_that_set(CONFIG_SETS_SIZE);
    check_error(text, NULL, "members: the settings of all members exceed 73728 bytes");
    free(text);
}

/* Invalid combinations are rejected with a sentence. */
static void test_refused(void **state) {
    static const struct {
        const char *text, *override, *sentence;
    } wrong[] = {
        {"name: a\npreset: forecast\nmodel: {input: {kind: symbol, size: 2, scale: forecast}}\n",
         NULL, "model.input.scale: requires kind: real, got kind: symbol"},
        {FORECAST(", relative: ar12") "experts: [last]\n", NULL,
         "model.output.relative: ar12 is not in experts"},
        {FORECAST(", skip: false"), NULL,
         "model.output.skip: expected true with scale: forecast, whose output always has"},
        {FORECAST(", relative: true"), NULL,
         "model.output.relative: expected none, last or ar12 with scale: forecast, got true"},
        {FORECAST(""), "model.output={loss: gaussian, target: next, readout: rls}",
         "model.output.loss: expected squared with scale: forecast, got gaussian"},
        {FORECAST(""), "model.output={loss: gaussian, target: next}",
         "model.output.loss: expected squared with scale: forecast, got gaussian"},
        {FORECAST(""), "model.output={loss: squared}",
         "model.output.target: expected next with scale: forecast, got given"},
        {BASE, "model.output.relative=ar12", "expected false or true, or with scale: forecast"},
        {BASE, "model.output={loss: squared, size: 2, ahead: 6}",
         "model.output.ahead: requires target: next, got target: given"},
        {BASE, "model.output={loss: squared, size: 2, target: next, ahead: [6, 6]}",
         "model.output.ahead: expected a whole number from 1 to 4096, or an ascending list of at "
         "most 16"},
        {BASE, "model.output={loss: squared, size: 2, target: next, ahead: []}",
         "model.output.ahead: expected a whole number"},
        {BASE, "model.output={loss: squared, size: 2, target: next, ahead: 0}",
         "model.output.ahead: expected a whole number"},
        {BASE, "model.output={loss: squared, size: 2, patience: 6}",
         "model.output.patience: requires target: later, got target: given"},
        {BASE, "model.output={loss: squared, size: 2, target: next, scale: standard}",
         "model.output.scale: requires target: given or later, got target: next"},
        {BASE, "model.output={loss: softmax, size: 2, scale: standard}",
         "model.output.scale: expected none with loss: softmax, got standard"},
        {BASE, "model.output={loss: squared, size: 2, memory: 9}",
         "model.output.memory: requires scale: standard, got scale: none"},
        {FORECAST(""), "model.output={loss: squared, target: later}",
         "model.output.target: expected next with scale: forecast, got later"},
        {BASE, "model.output={loss: softmax, size: 2, relative: true}",
         "model.output.relative: not supported with loss: softmax"},
        {BASE, "model.output.readout=rls", "rls requires scale: forecast"},
        {BASE, "experts=[last]", "experts: requires scale: "},
        {BASE, "members=[]", "members: requires scale: "},
        {WHOLE, "experts=[]", "experts: expected a list of last, mean,"},
        {WHOLE, "experts=[last, last]", "experts: expected a list of last, mean,"},
        {WHOLE "members: [{name: a}, {name: a}]\n", NULL,
         ":4:10: members: duplicate member name a"},
        {WHOLE "members: [{name: ar3}]\n", NULL, "members: invalid member name ar3"},
        {WHOLE "members: [{name: best}]\n", NULL, "members: invalid member name best"},
        {WHOLE "members: [{name: a.b}]\n", NULL, "members: invalid name \"a.b\""},
        {WHOLE "members: [{name: a, set: {model.input.size: 3}}]\n", NULL,
         ":4:10: members: member a cannot set model.input.size"},
        {WHOLE "members: [{name: a, set: {learning.max_streams: 3}}]\n", NULL,
         "members: member a cannot set learning.max_streams"},
        {WHOLE "members: [{name: a, set: {model.output.ahead: 3}}]\n", NULL,
         "members: member a cannot set model.output.ahead"},
        {WHOLE "experts: [last]\nmembers: [{name: a}]\n", NULL,
         "model.output.relative: ar12 is not in experts"},
        {WHOLE "members: [{name: a, set: {model.layers.0.size: many}}]\n", NULL,
         ":4:10: member a: model.layers.0.size: expected a whole number"},
        {WHOLE "members: [{name: a, set: {learning.stride: 20}}]\n", NULL,
         "member a: learning.stride: expected at most"},
        {WHOLE "members: [{name: a, set: {model.output.loss: gaussian}}]\n", NULL,
         ":4:10: member a: model.output.loss: expected squared with scale: forecast"},
        {WHOLE "members: [{name: a, set: {seed: 1, learning.window: 4, seed: 2}}]\n", NULL,
         ":4:56: seed: duplicate key, first in line 4"},
        {WHOLE "members: [{name: a, set: [seed]}]\n", NULL,
         ":4:26: members: expected a mapping in set of member a"},
        {WHOLE, "members=[{nam: a}]", "members: expected a list of at most 64"},
        {WHOLE, "combine=other", "combine: expected mlpoly, average, best"},
    };
    for (size_t n = 0; n < COUNT(wrong); n++)
        check_error(wrong[n].text, wrong[n].override, wrong[n].sentence);
}

/* Only one configuration is on the stack at a time: each has a quarter of a megabyte. */
static const char *compatible(const char *text, const char *override,
                              char digest[CONFIG_DIGEST_SIZE]) {
    const struct config c = good(text, override);
    return strcpy(digest, c.compatible);
}

static void test_digests_of_targets(void) {
    static const char *const changes[] = {
        NULL,
        "model.output.target=next",
        "model.output={loss: squared, size: 2, target: next, ahead: 6}",
        "model.output={loss: squared, size: 2, target: next, ahead: [1, 6]}",
        "model.output={loss: squared, size: 2, target: later}",
        "model.output={loss: squared, size: 2, scale: standard}",
        "model.output={loss: squared, size: 2, scale: standard, memory: 10}",
        "model.output={loss: squared, size: 2, scale: standard, limit: 10}",
        "model.output={loss: squared, size: 2, relative: true}",
    };
    char seen[COUNT(changes)][CONFIG_DIGEST_SIZE], other[CONFIG_DIGEST_SIZE];
    for (size_t n = 0; n < COUNT(changes); n++) {
        compatible(BASE, changes[n], seen[n]);
        for (size_t m = 0; m < n; m++)
            assert_string_not_equal(seen[n], seen[m]);
    }
    /* A written default does not change the digest. */
    assert_string_equal(
        compatible(BASE, "model.output={loss: squared, size: 2, scale: none}", other), seen[0]);
    assert_string_equal(
        compatible(BASE, "model.output={loss: squared, size: 2, target: next, ahead: [1]}", other),
        seen[1]);
}

/* Targets in messages have the scale of the input, if the loss supports a scale. */
static void test_targets_are_scaled_alike(void **state) {
    const struct config same =
        good(BASE, "model.input={kind: real, size: 2, scale: standard, memory: 1000, limit: 30}");
    assert_int_equal(same.architecture.output.scale, SCALE_STANDARD);
    assert_int_equal(same.architecture.output.memory, 1000);
    assert_true(same.architecture.output.limit == 30);
    assert_int_equal(good(BASE, NULL).architecture.output.scale, SCALE_NONE);
}

/* The compatible digest covers everything that a checkpoint depends on, and nothing else. */
static void test_digests_differ(void **state) {
    static const char *const changes[] = {
        NULL,
        "experts=[ar12]",
        "combine=best",
        "members=[]",
        "members=[{name: change}]",
        "members=[{name: other}]",
        "members=[{name: change, set: {learning.stride: 2}}]",
        "members=[{name: change, set: {seed: 2}}]",
        "model.output.relative=last",
        "model.output.readout=gradient",
    };
    char seen[COUNT(changes)][CONFIG_DIGEST_SIZE], other[CONFIG_DIGEST_SIZE],
        another[CONFIG_DIGEST_SIZE];
    for (size_t n = 0; n < COUNT(changes); n++) {
        compatible(WHOLE, changes[n], seen[n]);
        for (size_t m = 0; m < n; m++)
            assert_string_not_equal(seen[n], seen[m]);
    }
    assert_string_equal(compatible(WHOLE, "learning.optimizer.rate=0.5", other), seen[0]);
    assert_string_equal(
        compatible(WHOLE, "members=[{name: change, set: {learning.clip: 2}}]", other), seen[4]);
    assert_string_not_equal(compatible(BASE, "model.output.skip=true", other),
                            compatible(BASE, NULL, another));
    test_digests_of_targets();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_of_alarms),
        cmocka_unit_test(shares_of_shape),
        cmocka_unit_test(test_preset_is_whole),
        cmocka_unit_test(test_anomalies_are_not_in_the_digest),
        cmocka_unit_test(test_prefixes_of_keys_that_share),
        cmocka_unit_test(the_longest_prefix_counts),
        cmocka_unit_test(test_preset_is_overridden),
        cmocka_unit_test(test_looks_ahead),
        cmocka_unit_test(test_members_set),
        cmocka_unit_test(test_most_members),
        cmocka_unit_test(test_members_that_set_much),
        cmocka_unit_test(test_members_that_set_all_there_is),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_digests_differ),
        cmocka_unit_test(test_targets_are_scaled_alike),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
