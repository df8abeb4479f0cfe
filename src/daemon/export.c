#include "export.h"

#include "common/error.h"
#include "learner/learner_export.h"
#include "parts.h"

char *export_classes(const void *context) {
    const struct learner *learner = ((const struct daemon *)context)->learner;
    size_t n = learner ? learner_lexicon_of_classes(learner) : SIZE_MAX;
    if (n == SIZE_MAX)
        return NULL;
    json_t *all = json_pack("{s:{s:o,s:b}}", "classes", "words", learner_words_list(learner, n),
                            "forgets", (int)learner_lexicon(learner, n).forgets);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}

int export_command(void *context, const json_t *request, struct control_answer *answer,
                   struct error *error) {
    (void)request;
    struct daemon *daemon = context;
    struct safetensors_memory memory;
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
