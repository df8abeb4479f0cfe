#include "status.h"

#include "build-config.h"
#include "checkpoints.h"
#include "common/fields.h"
#include "consuming.h"
#include "fleet.h"
#include "journalling.h"
#include "observe.h"
#include "parts.h"
#include "report.h"
#include "run.h"
#include "settings.h"
#include "source.h"

/* Vocabularies' sizes; whether there are any. */
static bool count_words(const struct learner *learner, struct status_fields *status,
                        struct field_count *words, struct field_count *capacities) {
    size_t count = learner_lexicons(learner);
    for (size_t n = 0; n < count; n++) {
        const struct learner_lexicon lexicon = learner_lexicon(learner, n);
        words[n] = (struct field_count){lexicon.name, lexicon.size};
        capacities[n] = (struct field_count){lexicon.name, lexicon.capacity};
    }
    status->words_by = (struct field_tally){words, count};
    status->words_capacity = (struct field_tally){capacities, count};
    return count > 0;
}

void status_write(struct daemon *daemon, struct json_text *text) {
    const struct config *config = daemon->config;
    char summary[CONFIG_NETWORKS_SIZE], names[2][MODEL_NAMES_SIZE];
    struct field_count counts[SECURITY_FAILURES], rejected_by[REJECT_REASONS];
    struct field_count words[COLUMNS_MAX + 1], capacities[COLUMNS_MAX + 1];
    unsigned has = 0;
    struct schema schema;
    ingest_schema(daemon->ingest, &schema);
    config_networks(config, summary);
    struct status_fields status = {
        .name = config->name,
        .state = run_state(daemon),
        .device = learner_device(daemon->learner),
        .threads = learner_thread_count(daemon->learner),
        .model = summary,
        .column_names = model_column_names(&config->architecture, false, names[0]),
        .target_names = model_column_names(&config->architecture, true, names[1]),
        .parameters = learner_parameters(daemon->learner),
        .digest = config->digest,
        .compatible = config->compatible,
        .seed = config->seed,
        .tags = settings_tags(daemon),
        .configuration = settings_json(daemon),
        .version = PACKAGE_VERSION,
        .uptime = run_uptime(daemon),
        .every = config->statistics_every,
        .every_seconds = config->statistics_seconds,
        .clip = learner_clip(daemon->learner),
        .predictions = config->predictions != PREDICTIONS_NONE,
        .state_directory = config->state_directory,
        .resumed = *daemon->resumed.path ? daemon->resumed.path : NULL,
        .sockets_examples = daemon->source->endpoint(daemon),
        .sockets_statistics = publish_endpoint(daemon->publish),
        .sockets_control = control_endpoint(daemon->control),
        .schema_dtype = schema.dtype,
        .schema_columns = schema.columns,
        .schema_target_dtype = schema.target_dtype,
        .schema_targets = schema.targets,
        .schema_target = schema.target,
        .forgotten = learner_counters(daemon->learner).forgotten,
        .backwards = learner_backwards(daemon->learner),
        .examples_per_second = observe_speed(daemon),
        .rejected = ingest_rejected(daemon->ingest, REJECT_NOT),
        .rejected_by = report_rejected(daemon->ingest, rejected_by),
        .input_scale = observe_out_of_scale(daemon),
        .dropped = publish_dropped(daemon->publish),
    };
    if (config->architecture.input.column_count || config->architecture.output.column_count)
        has |= FIELD_HAS(NEED_COLUMNS);
    if (config->architecture.input.time)
        has |= FIELD_HAS(NEED_TIMES);
    if (checkpoints_report(daemon, &status))
        has |= FIELD_HAS(NEED_CHECKPOINT);
    if (journalling_report(daemon, &status))
        has |= FIELD_HAS(NEED_JOURNAL);
    if (consuming_report(daemon, &status))
        has |= FIELD_HAS(NEED_CONSUMER);
    if (fleet_report(daemon, &status))
        has |= FIELD_HAS(NEED_FLEET);
    security_report(daemon->security, &status, counts);
    if (security_has_keys(daemon->security))
        has |= FIELD_HAS(NEED_KEYS);
    observe_report_labels(daemon, &status);
    if (daemon->model.architecture.output.target == TARGET_LATER)
        has |= FIELD_HAS(NEED_LABELS);
    if (count_words(daemon->learner, &status, words, capacities))
        has |= FIELD_HAS(NEED_WORDS);
    fields_write(text, FIELDS_OF_STATUS, &status, has);
    consuming_reported(daemon);
    report_words(text, daemon->learner);
}
