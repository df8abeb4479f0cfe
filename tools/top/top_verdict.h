/* Short answers to three questions: is the daemon learning, is it healthy, does it keep up. Each
   answer is a few words with a style. */
#ifndef RUNNEL_TOP_VERDICT_H
#define RUNNEL_TOP_VERDICT_H

#include "top_canvas.h"
#include "top_watched.h"

enum { VERDICT_SIZE = 64 };

struct verdict {
    enum style style;
    char text[VERDICT_SIZE];
};

/* Uses the newest messages. With `utf8` the direction of the loss has an arrow. */
struct verdict verdict_learning(const struct watched *watched, bool utf8);

/* Uses the sample under the cursor; layers may be NULL. */
struct verdict verdict_health(const struct watched *watched, const json_t *layers);
struct verdict verdict_pace(const struct watched *watched);

/* Red if the baseline was better over the last tenth of the examples. */
enum style verdict_skill(const struct watched *watched);

/* The style of a layer's share of saturated or dormant units. */
enum style verdict_share(double share);

/* The increase of a counter in the minute before the cursor. */
double verdict_recent(const struct watched *watched, enum loss_field field);

#endif
