#include "report_csv.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/format.h"

/* A value as RFC 4180 has it, with the comma before it. */
static void put_text(FILE *to, const char *text) {
    fputc(',', to);
    if (!text)
        return;
    bool quoted = text[strcspn(text, ",\"\r\n")] != '\0';
    if (quoted)
        fputc('"', to);
    for (; *text; text++)
        fprintf(to, *text == '"' ? "\"%c" : "%c", *text);
    if (quoted)
        fputc('"', to);
}

static void put_number(FILE *to, double value) {
    char number[FORMAT_SIZE];
    fprintf(to, ",%s", isnan(value) ? "" : format_exact(number, value));
}

static void put_count(FILE *to, uint64_t value) {
    if (value == EXPERIMENT_UNKNOWN)
        fputc(',', to);
    else
        fprintf(to, ",%" PRIu64, value);
}

/* Keys of all variants, each once: (count,), to be freed. */
static const char **find_keys(const struct experiment_results *results, size_t *count) {
    size_t most = 1;
    for (size_t i = 0; i < results->variant_count; i++)
        most += results->variants[i].setting_count;
    const char **keys = calloc(most, sizeof *keys);
    *count = 0;
    for (size_t i = 0; keys && i < results->variant_count; i++)
        for (size_t k = 0; k < results->variants[i].setting_count; k++) {
            const char *key = results->variants[i].settings[k].key;
            size_t place = 0;
            while (place < *count && strcmp(keys[place], key) != 0)
                place++;
            if (place == *count)
                keys[(*count)++] = key;
        }
    return keys;
}

static const struct experiment_variant *variant_of(const struct experiment_results *results,
                                                   size_t number) {
    for (size_t i = 0; i < results->variant_count; i++)
        if (results->variants[i].variant == number)
            return &results->variants[i];
    return NULL;
}

static const struct experiment_stream *stream_of(const struct experiment_results *results,
                                                 size_t number) {
    for (size_t i = 0; i < results->stream_count; i++)
        if (results->streams[i].stream == number)
            return &results->streams[i];
    return NULL;
}

static const char *setting_of(const struct experiment_variant *variant, const char *key) {
    for (size_t k = 0; variant && k < variant->setting_count; k++)
        if (!strcmp(variant->settings[k].key, key))
            return variant->settings[k].value;
    return NULL;
}

static void put_head(FILE *to, const char *const *keys, size_t key_count) {
    fputs("run,variant,stream,seed,state", to);
    for (size_t k = 0; k < key_count; k++)
        put_text(to, keys[k]);
    fputs(",parameters,examples,rejected,steps,scored,updates,skipped,started,seconds,cpu_seconds",
          to);
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
        put_text(to, experiment_measures[n].name);
    fputs(",losses_digest,parameters_digest,digest,data,version,device,error\n", to);
}

static void put_run(FILE *to, const struct experiment_results *results,
                    const struct experiment_run *run, const char *const *keys, size_t key_count) {
    const struct experiment_variant *variant = variant_of(results, run->variant);
    const struct experiment_stream *stream = stream_of(results, run->stream);
    const uint64_t counts[] = {run->parameters, run->examples, run->rejected, run->steps,
                               run->scored,     run->updates,  run->skipped};
    bool over = run->state != EXPERIMENT_WAITING;
    fprintf(to, "%" PRId64, run->run);
    put_text(to, variant ? variant->name : NULL);
    put_text(to, stream ? stream->name : NULL);
    fprintf(to, ",%" PRId64, run->seed);
    put_text(to, experiment_state_name(run->state));
    for (size_t k = 0; k < key_count; k++)
        put_text(to, setting_of(variant, keys[k]));
    for (size_t n = 0; n < sizeof counts / sizeof *counts; n++)
        if (over)
            put_count(to, counts[n]);
        else
            put_text(to, NULL);
    put_number(to, run->started);
    put_number(to, run->seconds);
    put_number(to, run->cpu_seconds);
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
        put_number(to, experiment_figure(&run->figures, n));
    put_text(to, run->losses_digest);
    put_text(to, run->parameters_digest);
    put_text(to, run->digest);
    put_text(to, run->data);
    put_text(to, run->version);
    put_text(to, run->device);
    put_text(to, run->error);
    fputc('\n', to);
}

int report_csv(const struct experiment_results *results, FILE *to) {
    size_t key_count;
    const char **keys = find_keys(results, &key_count);
    if (!keys)
        return -1;
    put_head(to, keys, key_count);
    for (size_t i = 0; i < results->run_count; i++)
        put_run(to, results, &results->runs[i], keys, key_count);
    free(keys);
    return 0;
}
