/* The words of model.initial: weights go by ids, so a file that `export` wrote from a model with
   vocabularies has the words that its rows belong to, and learning begins with these. One that has
   none, as made by hand, leaves every word to come. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/wire.h"
#include "learner_internal.h"
#include "learner_state.h"
#include "model/safetensors.h"

/* Words are used in the order of their ids, before any example. */
#define NEVER UINT64_MAX

static int refuse(const struct learner *learner, const char *name, const char *what,
                  struct error *error) {
    return error_set(error, EX_CONFIG,
                     "%s: its vocabulary \"%.*s\" %s: it is of another model; change the model, or "
                     "use another file",
                     learner->initial, CONFIG_NAME_SIZE, name, what);
}

static bool is_word(const json_t *word) {
    return json_is_string(word) && json_string_length(word) <= WIRE_WORD_MAX;
}

/* Whether a list can be that vocabulary: at most as many words as there are ids, each once. */
static int check_list(const struct learner *learner, const struct lexicon *lexicon,
                      const json_t *list, struct error *error) {
    json_t *seen = json_object();
    const char *wrong = NULL;
    size_t n;
    json_t *word;
    if (!json_is_array(list))
        wrong = list ? "is no list" : "is missing";
    else if (json_array_size(list) > lexicon->of.capacity)
        wrong = "has more words than its capacity here";
    json_array_foreach(list, n, word) {
        if (wrong)
            break;
        if (!is_word(word))
            wrong = "has what is no word";
        else if (json_object_get(seen, json_string_value(word)))
            wrong = "has a word twice";
        else
            json_object_set_new(seen, json_string_value(word), json_true());
    }
    json_decref(seen);
    return wrong ? refuse(learner, lexicon->name, wrong, error) : 0;
}

static const struct lexicon *lexicon_named(const struct words *words, const char *name) {
    for (size_t n = 0; words && n < words->count; n++)
        if (strcmp(words->of[n].name, name) == 0)
            return &words->of[n];
    return NULL;
}

static int check(const struct learner *learner, json_t *all, struct error *error) {
    const struct words *words = learner->words;
    const char *name;
    json_t *list;
    if (!json_is_object(all))
        return error_set(error, EX_CONFIG, "%s: its vocabulary is no JSON object",
                         learner->initial);
    json_object_foreach(all, name, list) {
        if (!lexicon_named(words, name))
            return refuse(learner, name, "is not one of this model's", error);
    }
    for (size_t n = 0; words && n < words->count; n++)
        if (check_list(learner, &words->of[n], json_object_get(all, words->of[n].name), error))
            return -1;
    return 0;
}

int words_read_initial(struct learner *learner, struct error *error) {
    struct safetensors *file = NULL;
    if (!*learner->initial)
        return 0;
    if (safetensors_open(&file, learner->initial, error))
        return -1;
    const char *text = safetensors_metadata(file, "vocabulary");
    json_t *all = text ? json_loads(text, 0, NULL) : NULL;
    int status = text ? check(learner, all, error) : 0;
    safetensors_close(&file);
    if (status || !learner->words) {
        json_decref(all);
        return status;
    }
    json_decref(learner->words->initial);
    learner->words->initial = all;
    return 0;
}

void words_write_initial(struct learner *learner) {
    struct words *words = learner->words;
    for (size_t n = 0; words && words->initial && n < words->count; n++) {
        struct lexicon *lexicon = &words->of[n];
        const json_t *list = json_object_get(words->initial, lexicon->name), *word;
        size_t id;
        json_array_foreach(list, id, word) {
            learner_add_word(learner, n, json_string_value(word), json_string_length(word), id + 1);
            lexicon->used[id] = NEVER;
        }
    }
    if (words)
        words_count_classes(learner);
}
