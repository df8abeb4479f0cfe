#include "commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "abnormal.h"
#include "announce.h"
#include "build-config.h"
#include "checkpoints.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/fields.h"
#include "common/json_text.h"
#include "common/log.h"
#include "common/text.h"
#include "common/wire.h"
#include "feedback.h"
#include "journalling.h"
#include "learner/learner_export.h"
#include "moving.h"
#include "observe.h"
#include "parts.h"
#include "parts/anomalies.h"
#include "parts/symbols.h"
#include "parts/times.h"
#include "parts/words.h"
#include "report.h"
#include "rollback.h"
#include "run.h"
#include "settings.h"
#include "source.h"

/* ---- The reply of `status` ---- */

/* Counts the words of each vocabulary; returns whether there is one. */
static bool count_words(const struct learner *learner, struct status_fields *status,
                        struct field_count *words, struct field_count *capacities) {
    size_t count = words_lexicons(learner_host(learner));
    for (size_t n = 0; n < count; n++) {
        const struct learner_lexicon lexicon = words_lexicon(learner_host(learner), n);
        words[n] = (struct field_count){lexicon.name, lexicon.size};
        capacities[n] = (struct field_count){lexicon.name, lexicon.capacity};
    }
    status->words_by = (struct field_tally){words, count};
    status->words_capacity = (struct field_tally){capacities, count};
    return count > 0;
}

void commands_status(struct daemon *daemon, struct json_text *text) {
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
        .backwards = times_backwards(learner_host(daemon->learner)),
        .rejected = ingest_rejected(daemon->ingest, REJECT_NOT),
        .rejected_by = report_rejected(daemon->ingest, rejected_by),
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
    if (daemon->source->report)
        has |= daemon->source->report(daemon, &status);
    security_report(daemon->security, &status, counts);
    if (security_has_keys(daemon->security))
        has |= FIELD_HAS(NEED_KEYS);
    observe_report(daemon, &status);
    status.alarms_rate = anomalies_rate(learner_host(daemon->learner));
    if (*status.alarms_rate) {
        const struct anomalies_rates rates = anomalies_rates(learner_host(daemon->learner));
        status.alarms_nominal = rates.nominal;
        status.alarms_observed = rates.observed;
        has |= FIELD_HAS(NEED_RATE);
    }
    struct symbols_usage usage;
    if (symbols_usage(learner_host(daemon->learner), &usage)) {
        status.table_memory = usage.memory;
        status.table_used = usage.used;
        status.table_replaced = usage.replaced;
        has |= FIELD_HAS(NEED_SYMBOLS);
    }
    if (targets_are_labels(&daemon->model))
        has |= FIELD_HAS(NEED_LABELS);
    if (count_words(daemon->learner, &status, words, capacities))
        has |= FIELD_HAS(NEED_WORDS);
    fields_write(text, FIELDS_OF_STATUS, &status, has);
    report_words(text, daemon->learner);
}

/* ---- Commands ---- */

static void put_count(json_t *object, const char *key, uint64_t value) {
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

/* Replies with the current fields of the topics `status` and `loss`. */
static int status(void *context, const json_t *request, struct control_answer *answer,
                  struct error *error) {
    (void)request, (void)error;
    struct daemon *daemon = context;
    struct loss_fields loss;
    struct json_text text = {0};
    observe_recent(daemon, &loss);
    json_object_set_new(answer->fields, "run", json_string(publish_run(daemon->publish)));
    put_count(answer->fields, "examples", daemon_examples(daemon));
    put_count(answer->fields, "steps", daemon_steps(daemon));
    json_object_set_new(answer->fields, "time", json_real(clock_unix()));
    json_text_begin(&text);
    commands_status(daemon, &text);
    report_loss(&text, &loss, &daemon->model, daemon->learner, observe_queued(daemon),
                daemon->ingest);
    json_t *fields = json_text_end(&text) ? json_loadb(text.bytes, text.size, 0, NULL) : NULL;
    json_object_update(answer->fields, fields);
    json_decref(fields);
    json_text_free(&text);
    return 0;
}

/* Replies with the current configuration and its source. */
static int config(void *context, const json_t *request, struct control_answer *answer,
                  struct error *error) {
    (void)request;
    const struct daemon *daemon = context;
    const struct config_source *source = settings_source(daemon);
    const char *json = settings_json(daemon);
    char *yaml = settings_yaml(daemon);
    json_t *object = json && yaml ? json_loads(json, 0, NULL) : NULL;
    if (object) {
        json_object_set_new(answer->fields, "name", json_string(daemon->config->name));
        json_object_set_new(answer->fields, "digest", json_string(daemon->config->digest));
        json_object_set_new(answer->fields, "file",
                            json_of_text(source->path, strlen(source->path)));
        json_object_set_new(answer->fields, "yaml", json_of_text(yaml, strlen(yaml)));
        json_object_set_new(answer->fields, "configuration", object);
    } else {
        error_set(error, EX_OSERR, "cannot send the configuration: out of memory; try again later");
    }
    free(yaml);
    return object ? 0 : -1;
}

/* Digits of a number: those of JSON, unless more are needed for the exact value. */
enum { PLAIN = 15, EXACT = 17 };

/* Returns the value as text, as written in the file, to be freed; NULL: a list or mapping. */
static char *value_text(const json_t *value) {
    if (json_is_string(value))
        return strdup(json_string_value(value));
    if (!json_is_number(value) && !json_is_boolean(value))
        return NULL;
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(PLAIN));
    if (!text || !json_is_real(value) || strtod(text, NULL) == json_real_value(value))
        return text;
    free(text);
    return json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(EXACT));
}

/* Waits until the entry is durable, so that the reply holds after a crash. */
static int journal_command(struct daemon *daemon, enum journal_kind kind, json_t *command,
                           struct error *error) {
    journalling_append_command(daemon, kind, command);
    return journalling_sync(daemon, error) ? run_fail(daemon, error) : 0;
}

/* Expands the short names of keys, as in experiments; a member's keys have full names. */
static int find_key(const char *name, char path[CONFIG_KEY_NAME_SIZE], struct error *error) {
    static const char MEMBERS[] = "members.";
    if (strncmp(name, MEMBERS, sizeof MEMBERS - 1) != 0 || strlen(name) >= CONFIG_KEY_NAME_SIZE)
        return config_key_meant(name, path, error);
    strcpy(path, name);
    return 0;
}

static int set(void *context, const json_t *request, struct control_answer *answer,
               struct error *error) {
    struct daemon *daemon = context;
    const json_t *key = json_object_get(request, "key"), *value = json_object_get(request, "value");
    char *text = value_text(value), quoted[TEXT_QUOTE_SIZE], path[CONFIG_KEY_NAME_SIZE];
    int result = -1;
    if (!json_is_string(key) || !text) {
        error_set(error, EX_USAGE,
                  "set: expected a key and a value, for example {\"command\": \"set\", \"key\": "
                  "\"learning.optimizer.rate\", \"value\": 0.0003}");
        goto done;
    }
    if (find_key(json_string_value(key), path, error) || settings_set(daemon, path, text, error))
        goto done;
    if (settings_is_learned_with(path) &&
        journal_command(daemon, JOURNAL_SET,
                        json_pack("{s:s, s:s, s:s}", "command", "set", "key", path, "value", text),
                        error))
        goto done;
    text_quote(quoted, text, strlen(text));
    announce_logged(daemon, log_info, "set", json_pack("{s:s, s:O}", "key", path, "value", value),
                    "%s set to %s", path, quoted);
    announce_status(daemon);
    json_object_set_new(answer->fields, "key", json_string(path));
    json_object_set(answer->fields, "value", (json_t *)value);
    result = 0;
done:
    free(text);
    return result;
}

static int checkpoint(void *context, const json_t *request, struct control_answer *answer,
                      struct error *error) {
    (void)request, (void)error;
    struct daemon *daemon = context;
    checkpoints_request(daemon);
    answer->later = true;
    return 0;
}

/* Sends the parameters as safetensors, as described in docs/reference/protocol.md. */
static int export_parameters(struct daemon *daemon, struct control_answer *answer,
                             struct error *error) {
    struct safetensors_memory memory;
    if (daemon->config->preset == PRESET_SYMBOLS && !learner_members(daemon->learner))
        return error_set(error, EX_USAGE,
                         "export: no parameters: the configuration has no network (members: []); "
                         "use `runnel-ctl backup DIRECTORY` to copy the experts");
    if (learner_export(daemon->learner, daemon->config->compatible, &memory, error))
        return -1;
    json_object_update_new(answer->fields,
                           json_pack("{s:I, s:I, s:I}", "examples",
                                     (json_int_t)learner_counters(daemon->learner).examples,
                                     "parameters", (json_int_t)learner_parameters(daemon->learner),
                                     "bytes", (json_int_t)memory.size));
    answer->blob = memory.bytes;
    answer->blob_size = memory.size;
    return 0;
}

/* Sends the parameters, or the state of one stream. */
static int export(void *context, const json_t *request, struct control_answer *answer,
                  struct error *error) {
    return json_object_get(request, "stream") ? moving_export(context, request, answer, error)
                                              : export_parameters(context, answer, error);
}

static void set_paused(struct daemon *daemon, bool paused, struct control_answer *answer) {
    const char *done = paused ? "paused" : "resumed";
    uint64_t examples = daemon_examples(daemon);
    if (run_pause(daemon, paused)) {
        announce_logged(daemon, log_info, done, NULL, "%s after %" PRIu64 " example%s", done,
                        examples, text_s(examples));
        announce_status(daemon);
    }
    json_object_set_new(answer->fields, "state", json_string(run_state(daemon)));
}

static int pause_learning(void *context, const json_t *request, struct control_answer *answer,
                          struct error *error) {
    (void)request, (void)error;
    set_paused(context, true, answer);
    return 0;
}

static int resume_learning(void *context, const json_t *request, struct control_answer *answer,
                           struct error *error) {
    (void)request, (void)error;
    set_paused(context, false, answer);
    return 0;
}

static int announce_reset(struct daemon *daemon, const char *member,
                          struct control_answer *answer) {
    log_info("reset: member %s starts from scratch", member);
    announce_event(daemon, "reset", json_pack("{s:s}", "member", member),
                   "member %s starts from scratch", member);
    put_count(answer->fields, "examples", daemon_examples(daemon));
    json_object_set_new(answer->fields, "member", json_string(member));
    return 0;
}

static int reset(void *context, const json_t *request, struct control_answer *answer,
                 struct error *error) {
    struct daemon *daemon = context;
    uint64_t forgotten = daemon_examples(daemon);
    const json_t *named = json_object_get(request, "member");
    const char *member = json_string_value(named);
    if (named && !member)
        return error_set(error, EX_USAGE, "reset: invalid member: expected a name, or no member");
    int result = settings_reset(daemon, member, error);
    if (result < 0)
        return run_abort(daemon, error);
    if (result)
        return -1;
    json_t *command = json_pack("{s:s}", "command", "reset");
    if (member)
        json_object_set_new(command, "member", json_string(member));
    if (journal_command(daemon, JOURNAL_RESET, command, error))
        return -1;
    if (member)
        return announce_reset(daemon, member, answer);
    log_info("reset: discarded the learning of %" PRIu64 " example%s", forgotten,
             text_s(forgotten));
    announce_event(daemon, "reset", NULL, "discarded the learning of %" PRIu64 " example%s",
                   forgotten, text_s(forgotten));
    announce_status(daemon);
    put_count(answer->fields, "examples", daemon_examples(daemon));
    return 0;
}

/* Returns the stream that a request names; NULL with an error for the client. */
static const char *stream_of(const json_t *request, size_t *size, struct error *error) {
    const json_t *stream = json_object_get(request, "stream");
    *size = json_string_length(stream);
    if (json_is_string(stream) && *size <= WIRE_KEY_MAX)
        return json_string_value(stream);
    error_set(error, EX_USAGE,
              "forget: expected a stream of at most %d bytes, for example {\"command\": "
              "\"forget\", \"stream\": "
              "\"host-3\"}",
              WIRE_KEY_MAX);
    return NULL;
}

/* Returns an error if neither memory nor journal has the stream. A journal that cannot be read ends
   the daemon. */
static int find_stream(struct daemon *daemon, const char *key, size_t size, struct error *error) {
    char quoted[TEXT_QUOTE_SIZE];
    int numbered = daemon->journal ? journal_has_stream(daemon->journal, key, size, error) : 0;
    if (numbered < 0)
        return run_abort(daemon, error);
    if (numbered || learner_has_stream(daemon->learner, key, size))
        return 0;
    return error_set(error, EX_USAGE, "stream %s not found, neither in memory nor in the journal",
                     text_quote(quoted, key, size));
}

/* Forgets the states of streams that another daemon has now, but keeps the numbers of their
   examples. Ignores streams that are not in memory. */
static int forget_states(struct daemon *daemon, json_t *streams, struct control_answer *answer,
                         struct error *error) {
    json_int_t count = 0;
    int forgotten;
    size_t n;
    json_t *stream;
    json_array_foreach(streams, n, stream) {
        if (!json_is_string(stream) || json_string_length(stream) > WIRE_KEY_MAX)
            return error_set(error, EX_USAGE,
                             "streams: expected a list of streams, texts of at most %d bytes",
                             WIRE_KEY_MAX);
    }
    json_array_foreach(streams, n, stream) {
        if ((forgotten = learner_forget(daemon->learner, json_string_value(stream),
                                        json_string_length(stream), error)) < 0)
            return run_abort(daemon, error);
        count += forgotten == 0;
    }
    if (journal_command(daemon, JOURNAL_FORGET,
                        json_pack("{s:s, s:O}", "command", "forget", "streams", streams), error))
        return -1;
    checkpoints_changed(daemon);
    announce_logged(daemon, log_info, "forget", json_pack("{s:I}", "streams", count),
                    "forgot the states of %" PRIu64 " stream%s", (uint64_t)count,
                    text_s((uint64_t)count));
    json_object_set_new(answer->fields, "streams", json_integer(count));
    return 0;
}

/* The network's parameters and the stream's examples in the journal stay. */
static int forget(void *context, const json_t *request, struct control_answer *answer,
                  struct error *error) {
    struct daemon *daemon = context;
    char quoted[TEXT_QUOTE_SIZE];
    size_t size;
    json_t *streams = json_object_get(request, "streams");
    if (json_is_array(streams) && !json_object_get(request, "stream"))
        return forget_states(daemon, streams, answer, error);
    const char *key = stream_of(request, &size, error);
    if (!key || find_stream(daemon, key, size, error))
        return -1;
    if (learner_forget(daemon->learner, key, size, error) < 0)
        return run_abort(daemon, error);
    json_t *stream = json_object_get(request, "stream");
    if (journalling_forget(daemon, json_pack("{s:s, s:O}", "command", "forget", "stream", stream),
                           key, size, error))
        return run_fail(daemon, error);
    checkpoints_changed(daemon);
    text_quote(quoted, key, size);
    announce_logged(daemon, log_info, "forget", json_pack("{s:O}", "stream", stream),
                    "forgot stream %s: its state and the numbers of its examples", quoted);
    json_object_set(answer->fields, "stream", stream);
    return 0;
}

static int rollback(void *context, const json_t *request, struct control_answer *answer,
                    struct error *error) {
    struct daemon *daemon = context;
    struct rollback_report report;
    int result = rollback_perform(daemon, request, &report, error);
    if (result < 0)
        return run_fail(daemon, error);
    if (result > 0)
        return -1;
    json_object_update_new(answer->fields, rollback_details(&report));
    put_count(answer->fields, "examples", daemon_examples(daemon));
    return 0;
}

static int stop(void *context, const json_t *request, struct control_answer *answer,
                struct error *error) {
    (void)request, (void)error;
    run_stop(context, "shutdown requested");
    answer->last = true;
    json_object_set_new(answer->fields, "state", json_string(run_state(context)));
    return 0;
}

const struct control_command commands[] = {
    {"status", status},
    {"config", config},
    {"set", set},
    {"checkpoint", checkpoint},
    {"export", export},
    {"adopt", moving_adopt},
    {"import", moving_import},
    {"pause", pause_learning},
    {"resume", resume_learning},
    {"reset", reset},
    {"forget", forget},
    {"normal", feedback_normal},
    {"abnormal", abnormal_command},
    {"silence", feedback_silence},
    {"rollback", rollback},
    {"shutdown", stop},
    {NULL, NULL},
};
