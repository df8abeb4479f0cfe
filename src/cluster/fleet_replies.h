/* Parses Redis's replies to fleet_scripts.h. */
#ifndef RUNNEL_FLEET_REPLIES_H
#define RUNNEL_FLEET_REPLIES_H

#include <hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "fleet_link.h"

/* Returns the text of an element, or of the reply itself if it is not a list; "": not a text. */
const char *reply_text(const redisReply *reply, size_t element);

/* Whether it is a number or a text with one. */
bool reply_number(const redisReply *reply, uint64_t *number);

/* Parses "EPOCH SEQUENCE" at the beginning of a text. */
bool reply_offset(const char *text, struct fleet_offset *offset);

/* Parses a partition's entry in `offsets` into a claim; "": no commit. */
bool reply_committed(const char *text, struct fleet_claim *claim);

/* Parses the reply to SCRIPT_LOOK into a view, as `look` of struct fleet_link_ops. Returns 0 or an
   error. Free the view in any case. */
enum { REPLY_NONSENSE = 1, REPLY_NO_MEMORY };
int reply_view(const redisReply *reply, struct fleet_view *view);

#endif
