/* The JSON of messages and replies: each function adds the fields of one topic to an object, as
   defined in common/fields.def. Numbers that are unknown or not finite become null; bytes that are
   not UTF-8 become question marks. */
#ifndef RUNNEL_REPORT_H
#define RUNNEL_REPORT_H

#include <stddef.h>

#include "common/fields.h"
#include "sockets/frames.h"

struct ingest;
struct json_text;
struct layer_statistics;
struct learned;
struct learner;
struct model;

/* Counts the rejected examples of this run by reason in `counts`. */
struct field_tally report_rejected(const struct ingest *ingest,
                                   struct field_count counts[REJECT_REASONS]);

/* Topic `loss`: `metrics`, and figures of learner and ingest. `queued` examples have been taken and
   not yet learned. */
void report_loss(struct json_text *text, const struct loss_fields *metrics,
                 const struct model *model, const struct learner *learner, size_t queued,
                 const struct ingest *ingest);

/* Topic `state`: `layers` of the one network or the first member, one object each, and `members` by
   name if they are listed. Statistics are (members,) of (layers,). A layer has only the fields of
   its cell and norm. */
void report_state(struct json_text *text, const struct learner *learner,
                  const struct layer_statistics *const *statistics);

/* Topic `prediction`. An example with several steps has a list of predictions. The form by loss:
     squared             [a, ..]
     gaussian            {"mean": [..], "sd": [..]}
     softmax, bernoulli  [probability, ..]
     mixture             {"end", "weights": [..], "mean1", "mean2", "sd1", "sd2", "rho"}
   Targets of `next` have original units, by the scaling of the example: null before the first
   observation, and an sd also while the values do not vary.

   Then `interval` and `scored`, from the reported truths (truth.h), and `data_time`.

   If classes are words, a prediction is {"words": [..], "probabilities": [..]}, the `top` most
   probable, null for the unknown class, and a target is a word.

   With preset: symbols also {"symbols": [..], "probabilities": [..]}; with `experts` and a network
   `experts`, the same of the experts and the network.

   With `experts`, and scale: forecast, also `experts`, the forecasts of each expert and member, and
   `weights` of each column at the last step. */
void report_prediction(struct json_text *text, const struct model *model,
                       const struct learner *learner, bool experts, size_t top,
                       const struct learned *learned);

/* Topic `status`: `vocabulary`, an object {"size", "capacity", "newest": [..]} for each vocabulary
   by name; absent without one. */
void report_words(struct json_text *text, const struct learner *learner);

#endif
