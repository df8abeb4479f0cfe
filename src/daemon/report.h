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

/* Topic `vector`: h of the first network, a list of each step if they are several. */
void report_vector(struct json_text *text, const struct learned *learned);

/* Topic `prediction` (docs/reference/protocol.md). `experts`: with the forecasts of each expert and
   member, and their weights at the last step. Of classes that are words, and with preset: symbols,
   it has the `top` most probable. */
void report_prediction(struct json_text *text, const struct model *model,
                       const struct learner *learner, bool experts, size_t top,
                       const struct learned *learned);

/* Topic `status`: `vocabulary`, an object {"size", "capacity", "newest": [..]} for each vocabulary
   by name; absent without one. */
void report_words(struct json_text *text, const struct learner *learner);

#endif
