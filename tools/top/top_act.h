/* Keys that act: they ask, and then a command goes to the daemon's control socket. */
#ifndef RUNNEL_TOP_ACT_H
#define RUNNEL_TOP_ACT_H

#include "top_session.h"

/* Ask whether the selected daemon should do that. */
void act_ask(struct session *session, enum act act);

/* Take a key as an answer to the question that is asked. */
void act_answer(struct session *session, int key);

/* Continue the command on its way, if there is one; true when something is new. */
bool act_step(struct session *session);

#endif
