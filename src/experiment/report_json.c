#include <math.h>
#include <string.h>

#include "common/json_text.h"
#include "report_table.h"

static json_t *text_or_null(const char *text) {
    return text ? json_of_text(text, strlen(text)) : json_null();
}

static json_t *count_of(size_t count) {
    return json_integer((json_int_t)count);
}

static json_t *json_of_sample(const struct statistics_sample *sample) {
    return json_pack("{so so so so so}", "count", count_of(sample->count), "mean",
                     json_of_number(sample->mean), "deviation", json_of_number(sample->deviation),
                     "minimum", json_of_number(sample->least), "maximum",
                     json_of_number(sample->greatest));
}

static json_t *json_of_settings(const struct experiment_variant *variant) {
    json_t *settings = json_object();
    for (size_t k = 0; k < variant->setting_count; k++)
        json_object_set_new(settings, variant->settings[k].key,
                            text_or_null(variant->settings[k].value));
    return settings;
}

static json_t *json_of_cell(const struct experiment_variant *variant,
                            const struct summary_cell *cell, bool first) {
    json_t *seeds = json_array(), *values = json_object();
    for (size_t i = 0; i < cell->run_count; i++)
        json_array_append_new(seeds, json_integer(cell->runs[i].seed));
    json_object_set_new(values, "variant", text_or_null(variant->name));
    json_object_set_new(values, "settings", json_of_settings(variant));
    json_object_set_new(values, "seeds", seeds);
    json_object_set_new(values, "done", count_of(cell->done));
    json_object_set_new(values, "nonfinite", count_of(cell->nonfinite));
    json_object_set_new(values, "failed", count_of(cell->failed));
    json_object_set_new(values, "waiting", count_of(cell->waiting));
    json_object_set_new(values, "measure", json_of_sample(&cell->measure));
    json_object_set_new(values, "loss", json_of_sample(&cell->mean));
    json_object_set_new(values, "skill", json_of_sample(&cell->skill));
    json_object_set_new(values, "baseline", json_of_number(cell->baseline));
    json_object_set_new(values, "rank", json_of_number(cell->rank));
    json_object_set_new(values, "best", json_boolean(cell->best));
    json_object_set_new(values, "seconds_per_example", json_of_number(cell->seconds));
    if (!first)
        json_object_set_new(values, "to_first",
                            json_pack("{so so so so}", "pairs", count_of(cell->test.pairs),
                                      "difference", json_of_number(cell->test.mean), "p",
                                      json_of_number(cell->test.p), "p_holm",
                                      json_of_number(cell->holm)));
    return values;
}

static json_t *json_of_stream(const struct summary *summary, const struct summary_stream *stream) {
    json_t *cells = json_array();
    for (size_t i = 0; i < summary->results->variant_count; i++)
        json_array_append_new(
            cells, json_of_cell(&summary->results->variants[i], &stream->cells[i], i == 0));
    return json_pack("{so so so so so sb sb so so so}", "name", text_or_null(stream->stream->name),
                     "digest", text_or_null(stream->stream->digest), "examples",
                     count_of(stream->stream->examples), "measure",
                     text_or_null(experiment_measures[stream->measure].name), "seeds",
                     count_of(stream->seeds), "skill_is_difference", stream->likely,
                     "larger_better", experiment_measures[stream->measure].larger_better,
                     "baseline", json_of_number(stream->baseline), "verdict",
                     text_or_null(stream->verdict), "variants", cells);
}

json_t *report_json(const struct summary *summary) {
    const struct experiment_results *results = summary->results;
    json_t *streams = json_array(), *ranks = json_object(), *keys = json_array();
    json_t *titles = json_object();
    for (size_t k = 0; k < summary->key_count; k++)
        json_array_append_new(keys, json_pack("[oo]", text_or_null(summary->keys[k].key),
                                              text_or_null(summary->keys[k].brief)));
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
        json_object_set_new(titles, experiment_measures[n].name,
                            json_string(experiment_measures[n].title));
    for (size_t k = 0; k < results->stream_count; k++)
        json_array_append_new(streams, json_of_stream(summary, &summary->streams[k]));
    for (size_t i = 0; i < results->variant_count; i++)
        json_object_set_new(ranks, results->variants[i].name, json_of_number(summary->ranks[i]));
    return json_pack("{so so so so so so so so so so sb so so}", "name",
                     text_or_null(results->name), "version", text_or_null(results->version),
                     "device", text_or_null(summary_device(results)), "started",
                     json_of_number(results->started), "runs", count_of(results->run_count), "over",
                     count_of(summary->over), "nonfinite", count_of(summary->nonfinite), "failed",
                     count_of(summary->failed), "ranks", ranks, "keys", keys, "named_by_settings",
                     summary_named_by_settings(summary), "titles", titles, "streams", streams);
}
