/* What keys do. */
#ifndef RUNNEL_TOP_KEYS_H
#define RUNNEL_TOP_KEYS_H

#include "top_session.h"

/* Take a key of terminal_key. */
void keys_take(struct session *session, int key);

#endif
