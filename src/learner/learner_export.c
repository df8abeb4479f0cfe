#include "learner_export.h"

#include <stdlib.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/json_text.h"
#include "model/parameters.h"
#include "parts/scaler.h"
#include "parts/scaling.h"
#include "parts/words.h"

enum { DIGITS = 17 /* all digits of a number in JSON */ };

/* Returns numbers as a JSON list, to be freed; NULL: out of memory. */
static char *list_text(const double *numbers, size_t size) {
    json_t *list = json_array();
    for (size_t k = 0; k < size; k++)
        json_array_append_new(list, json_of_number(numbers[k]));
    char *text =
        json_array_size(list) == size ? json_dumps(list, JSON_REAL_PRECISION(DIGITS)) : NULL;
    json_decref(list);
    return text;
}

enum { EXPORT_SCALERS = 2, EXPORT_TEXTS = 3 + 2 * EXPORT_SCALERS };

/* The __metadata__ of the safetensors file. It depends only on the learned state: equal daemons
   export equal bytes. */
struct export_texts {
    char *numbers[2 * EXPORT_SCALERS]; /* numbers of scalers; NULL with scale: none */
    char *words;                       /* words of vocabularies; NULL without */
    struct safetensors_text lines[EXPORT_TEXTS];
    size_t count;
};

json_t *learner_words_list(const struct learner *learner, size_t lexicon) {
    json_t *words = json_array();
    for (uint32_t id = 0; id < words_lexicon(learner_host(learner), lexicon).size; id++) {
        size_t size;
        const char *word = words_word(learner_host(learner), lexicon, id, &size);
        json_array_append_new(words, json_stringn(word, size));
    }
    return words;
}

/* Returns {"input": ["web-3", ..], ..}: the words of each vocabulary in the order of their ids.
   NULL: out of memory. */
static char *words_text(const struct learner *learner) {
    json_t *all = json_object();
    for (size_t n = 0; n < words_lexicons(learner_host(learner)); n++)
        json_object_set_new(all, words_lexicon(learner_host(learner), n).name,
                            learner_words_list(learner, n));
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

static int write_texts(struct export_texts *texts, struct learner *learner, const char *digest,
                       struct error *error) {
    const struct scaler *scalers[EXPORT_SCALERS] = {scaling_scaler(learner_host(learner)),
                                                    scaling_target_scaler(learner_host(learner))};
    static const char *const names[EXPORT_SCALERS][2] = {{"scaler.mean", "scaler.deviation"},
                                                         {"targets.mean", "targets.deviation"}};
    *texts = (struct export_texts){.lines = {{"format", "pt"}, {"digest", digest}}, .count = 2};
    for (size_t n = 0; n < 2 * EXPORT_SCALERS; n++) {
        const struct scaler *scaler = scalers[n / 2];
        if (!scaler)
            continue;
        texts->numbers[n] = list_text(n % 2 ? scaler_deviations(scaler) : scaler_means(scaler),
                                      scaler_size(scaler));
        if (!texts->numbers[n])
            return error_set(error, EX_OSERR, "out of memory for the scaler; try again later");
        texts->lines[texts->count++] =
            (struct safetensors_text){names[n / 2][n % 2], texts->numbers[n]};
    }
    if (!words_lexicons(learner_host(learner)))
        return 0;
    texts->words = words_text(learner);
    if (!texts->words)
        return error_set(error, EX_OSERR, "out of memory for the vocabulary; try again later");
    texts->lines[texts->count++] = (struct safetensors_text){"vocabulary", texts->words};
    return 0;
}

/* The tensors of all networks, with members' names as prefixes. */
struct export {
    size_t count, largest;              /* tensors; numbers in the largest */
    struct safetensors_entry *entries;  /* (count,) */
    char(*names)[PARAMETERS_NAME_SIZE]; /* (count,) */
    float *values;                      /* (largest,) */
};

static int export_open(struct export *export, const struct learner *learner, struct error *error) {
    *export = (struct export){0};
    for (size_t m = 0; m < learner_members(learner); m++) {
        const struct model *model = learner_member_model(learner, m);
        export->count += model->tensor_count;
        export->largest = model->parameters > export->largest ? model->parameters : export->largest;
    }
    export->entries = calloc(export->count + 1, sizeof *export->entries);
    export->names = calloc(export->count + 1, sizeof *export->names);
    export->values = calloc(export->largest + 1, sizeof *export->values);
    if (!export->entries || !export->names || !export->values)
        return error_set(error, EX_OSERR, "out of memory for the parameters; try again later");
    struct safetensors_entry *entries = export->entries;
    for (size_t m = 0; m < learner_members(learner); m++) {
        const struct model *model = learner_member_model(learner, m);
        parameters_entries(model, entries);
        for (size_t n = 0; n < model->tensor_count; n++, entries++) {
            char *name = export->names[entries - export->entries];
            parameters_name(learner_member_name(learner, m), model->tensors[n].name, name);
            entries->name = name;
        }
    }
    return 0;
}

static void export_close(struct export *export) {
    free(export->entries);
    free(export->names);
    free(export->values);
}

/* Writes one tensor of the learner, or of a member's `values`. */
static int put_tensor(struct learner *learner, struct safetensors_writer *writer,
                      struct export *export, size_t member, size_t tensor, const float *values,
                      struct error *error) {
    const struct model *model = learner_member_model(learner, member);
    size_t size = tensor_size(&model->tensors[tensor]) * sizeof *export->values;
    if (values)
        return safetensors_put(writer, values + model->tensors[tensor].offset, size, error);
    return learner_read_parameters(learner, member, tensor, export->values, error) ||
                   safetensors_put(writer, export->values, size, error)
               ? -1
               : 0;
}

/* Writes all parameters, one tensor after another. */
static int put_parameters(struct learner *learner, struct safetensors_writer *writer,
                          struct export *export, const float *values, struct error *error) {
    for (size_t m = 0; m < learner_members(learner); m++) {
        const struct model *model = learner_member_model(learner, m);
        for (size_t i = 0; i < model->tensor_count; i++)
            if (put_tensor(learner, writer, export, m, i, values, error))
                return -1;
        values = values ? values + model->parameters : NULL;
    }
    return 0;
}

int learner_export(struct learner *learner, const char *digest, struct safetensors_memory *memory,
                   struct error *error) {
    return learner_export_values(learner, digest, NULL, memory, error);
}

int learner_export_values(struct learner *learner, const char *digest, const float *values,
                          struct safetensors_memory *memory, struct error *error) {
    int result = -1;
    struct safetensors_writer *writer = NULL;
    struct export_texts texts = {0};
    struct export export;
    *memory = (struct safetensors_memory){0};
    if (export_open(&export, learner, error) || write_texts(&texts, learner, digest, error) ||
        safetensors_start(&writer, export.entries, export.count, texts.lines, texts.count,
                          safetensors_to_memory, memory, error) ||
        put_parameters(learner, writer, &export, values, error) ||
        safetensors_finish(&writer, error))
        goto done;
    result = 0;
done:
    if (result) {
        safetensors_abandon(&writer);
        free(memory->bytes);
        *memory = (struct safetensors_memory){0};
    }
    for (size_t n = 0; n < 2 * EXPORT_SCALERS; n++)
        free(texts.numbers[n]);
    free(texts.words);
    export_close(&export);
    return result;
}
