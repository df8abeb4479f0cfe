/* Labels that change nothing: why, in a word and in a sentence. */
#include <inttypes.h>
#include <stdio.h>

#include "example.h"
#include "learner_internal.h"

enum { WHY_SIZE = 192 };

const char *learner_label_refusal(enum label_refusal why) {
    static const char *const names[] = {
        [LABEL_UNKNOWN] = "unknown",
        [LABEL_LABELLED] = "labelled",
        [LABEL_CLOSED] = "closed",
        [LABEL_SIZE] = "size",
    };
    return names[why];
}

static void say(const struct example *label, enum label_refusal reason, size_t steps,
                char why[WHY_SIZE]) {
    uint64_t of = label->label_sequence;
    switch (reason) {
    case LABEL_UNKNOWN:
        snprintf(why, WHY_SIZE,
                 "its stream has no open step of the example %" PRIu64 " of epoch %" PRIu32
                 ": it never came, or is labelled, or closed by model.output.patience or the end "
                 "of its sequence",
                 of, label->label_epoch);
        return;
    case LABEL_LABELLED:
        snprintf(why, WHY_SIZE, "the example %" PRIu64 " is labelled already", of);
        return;
    case LABEL_CLOSED:
        snprintf(why, WHY_SIZE,
                 "the first steps of the example %" PRIu64 " are closed already by "
                 "model.output.patience",
                 of);
        return;
    default:
        snprintf(why, WHY_SIZE, "it has %zu targets, but the example %" PRIu64 " has %zu steps",
                 label->steps, of, steps);
    }
}

void label_refuse(const struct learner_observer *observer, const struct example *label,
                  enum label_refusal reason, size_t steps) {
    char why[WHY_SIZE];
    if (!observer->refused)
        return;
    say(label, reason, steps, why);
    observer->refused(observer->context, label, reason, why);
}
