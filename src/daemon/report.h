/* What messages and replies carry, as JSON: each function adds the fields of one topic to an
   object, as common/fields.def has them. Numbers that are not there yet, or not finite, become
   null; text that is not UTF-8 gets question marks. */
#ifndef RUNNEL_REPORT_H
#define RUNNEL_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "common/fields.h"
#include "sockets/frames.h"

struct ingest;
struct json_text;
struct layer_statistics;
struct learned;
struct learner;
struct model;

/* What has been rejected in this run, by reason, over `counts`. */
struct field_tally report_rejected(const struct ingest *ingest,
                                   struct field_count counts[REJECT_REASONS]);

/* Topic `loss`: `metrics`, and what learner and ingest say; `queued` examples have been taken and
   wait to be learned. */
void report_loss(struct json_text *text, const struct loss_fields *metrics,
                 const struct model *model, const struct learner *learner, size_t queued,
                 const struct ingest *ingest);

/* Topic `state`: `layers` of the one network or the first member, one object each; of listed
   members `members`, by name, too. Statistics are (members,) of (layers,). What a cell or norm does
   not have is not there. */
void report_state(struct json_text *text, const struct learner *learner,
                  const struct layer_statistics *const *statistics);

/* Topic `prediction`. With T steps, T > 1, the prediction is a list of T. What one is, by loss:
     squared             [a, ..]
     gaussian            {"mean": [..], "sd": [..]}
     softmax, bernoulli  [probability, ..]
     mixture             {"end", "weights": [..], "mean1", "mean2", "sd1", "sd2", "rho"}
   Targets of `next` are given back in original units, as the example was scaled: null where nothing
   has been observed yet, and an sd also where nothing has varied yet.

   Then `interval` and `scored`, from what was told (truth.h), and `data_time`.

   Where classes are words, a prediction is {"words": [..], "probabilities": [..]}, the `top` most
   probable, null for what is not known, and a target is a word.

   With `experts`, and scale: forecast, also `experts`, what each of them and each member
   says, likewise, and `weights`, of each column at the last step. */
void report_prediction(struct json_text *text, const struct model *model,
                       const struct learner *learner, bool experts, size_t top,
                       const struct learned *learned);

/* Topic `status`: `vocabulary`, of each by name {"size", "capacity", "newest": [..]}; nothing where
   there is none. */
void report_words(struct json_text *text, const struct learner *learner);

#endif
