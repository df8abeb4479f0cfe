/* Which column of results.sqlite is which field. */
#include "experiment_store_internal.h"

#define OF(type, struct_name, name, field)                                                         \
    { name, STORE_##type, offsetof(struct struct_name, field) }
#define TABLE(of, struct_name, text, order, most)                                                  \
    { text, of, sizeof of / sizeof *of, sizeof(struct struct_name), order, most }

static const struct store_column of_streams[] = {
    OF(COUNT, experiment_stream, "stream", stream),
    OF(LABEL, experiment_stream, "name", name),
    OF(TEXT, experiment_stream, "command", command),
    OF(TEXT, experiment_stream, "digest", digest),
    OF(COUNT, experiment_stream, "examples", examples),
    OF(COUNT, experiment_stream, "bytes", bytes),
    OF(TEXT, experiment_stream, "files", files),
};
static const struct store_column of_variants[] = {
    OF(COUNT, experiment_variant, "variant", variant),
    OF(LABEL, experiment_variant, "name", name),
};
static const struct store_column of_settings[] = {
    OF(LABEL, experiment_setting, "key", key),
    OF(TEXT, experiment_setting, "short", brief),
    OF(LABEL, experiment_setting, "value", value),
};
#define RUN(type, name) OF(type, experiment_run, #name, name)
#define FIGURE(name) OF(REAL, experiment_run, #name, figures.name)
static const struct store_column of_runs[] = {
    RUN(WHOLE, run),
    RUN(COUNT, variant),
    RUN(COUNT, stream),
    RUN(WHOLE, seed),
    RUN(STATE, state),
    RUN(TEXT, error),
    RUN(TEXT, configuration),
    RUN(TEXT, digest),
    RUN(TEXT, data),
    RUN(TEXT, version),
    RUN(TEXT, device),
    RUN(COUNT, parameters),
    RUN(COUNT, examples),
    RUN(COUNT, rejected),
    RUN(COUNT, steps),
    RUN(COUNT, scored),
    RUN(COUNT, updates),
    RUN(COUNT, skipped),
    RUN(REAL, started),
    RUN(REAL, seconds),
    RUN(REAL, cpu_seconds),
    FIGURE(mean),
    FIGURE(recent),
    FIGURE(baseline),
    FIGURE(baseline_recent),
    FIGURE(skill),
    FIGURE(skill_recent),
    FIGURE(rmse),
    FIGURE(mae),
    FIGURE(accuracy),
    FIGURE(bits),
    RUN(TEXT, losses_digest),
    RUN(TEXT, parameters_digest),
};
#define POINT(type, name) OF(type, experiment_point, #name, name)
static const struct store_column of_points[] = {
    POINT(COUNT, examples),   POINT(COUNT, scored),       POINT(REAL, mean),
    POINT(REAL, baseline),    POINT(REAL, gradient_norm), POINT(REAL, update_ratio),
    POINT(REAL, weight_norm),
};
static const struct store_column of_columns[] = {
    OF(NAME, experiment_column, "name", name),
    OF(REAL, experiment_column, "rmse", rmse),
    OF(REAL, experiment_column, "mae", mae),
    OF(REAL, experiment_column, "skill", skill),
};
static const struct store_column of_experts[] = {
    OF(NAME, experiment_expert, "name", name),
    OF(REAL, experiment_expert, "mean", mean),
    OF(REAL, experiment_expert, "weight", weight),
};
static const struct store_column of_weights[] = {
    OF(COUNT, experiment_weight, "point", point),
    OF(NAME, experiment_weight, "tensor", tensor),
    OF(REAL, experiment_weight, "norm", norm),
    OF(REAL, experiment_weight, "change", change),
};

enum { FEW = 1 << 16, MANY = 1 << 20 };
const struct store_table
    store_streams = TABLE(of_streams, experiment_stream, "streams", "stream", FEW),
    store_variants = TABLE(of_variants, experiment_variant, "variants", "variant", FEW),
    store_settings = TABLE(of_settings, experiment_setting, "settings", "key", FEW),
    store_runs = TABLE(of_runs, experiment_run, "runs", "variant, stream, seed", MANY),
    store_points = TABLE(of_points, experiment_point, "curves", "point", MANY),
    store_columns = TABLE(of_columns, experiment_column, "columns", "place", FEW),
    store_experts = TABLE(of_experts, experiment_expert, "experts", "place", FEW),
    store_weights = TABLE(of_weights, experiment_weight, "weights", "point, place", MANY);
