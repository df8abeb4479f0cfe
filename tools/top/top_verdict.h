/* The three questions that one glance should answer: is it learning, is it healthy, is it keeping
   up. Each answer is a few words with a style. */
#ifndef RUNNEL_TOP_VERDICT_H
#define RUNNEL_TOP_VERDICT_H

#include "top_canvas.h"
#include "top_watched.h"

enum { VERDICT_SIZE = 64 };

struct verdict {
    enum style style;
    char text[VERDICT_SIZE];
};

/* Of the newest messages. With `utf8` the direction of the loss has an arrow. */
struct verdict verdict_learning(const struct watched *watched, bool utf8);

/* Of what is under the cursor; layers may be NULL. */
struct verdict verdict_health(const struct watched *watched, const json_t *layers);
struct verdict verdict_pace(const struct watched *watched);

/* Red when over the last tenth of the examples the simplest forecast was better. */
enum style verdict_skill(const struct watched *watched);

/* How much a layer's share of saturated units matters. */
enum style verdict_saturation(double share);

/* How many more of a counted field there are under the cursor than a minute before. */
double verdict_recent(const struct watched *watched, enum loss_field field);

#endif
