/* What Redis answers to fleet_scripts.h, read. */
#ifndef RUNNEL_FLEET_REPLIES_H
#define RUNNEL_FLEET_REPLIES_H

#include <hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "fleet_link.h"

/* The text of an element, or of the reply itself where it has none; "": there is no text. */
const char *reply_text(const redisReply *reply, size_t element);

/* Whether it is a number, as one or as a text. */
bool reply_number(const redisReply *reply, uint64_t *number);

/* "EPOCH SEQUENCE"; what follows is not looked at. */
bool reply_offset(const char *text, struct fleet_offset *offset);

/* All of a partition's entry in `offsets`, into a claim; "": nothing is committed. */
bool reply_committed(const char *text, struct fleet_claim *claim);

/* SCRIPT_LOOK's answer into a view, as struct fleet_link_ops' look: 0, or what is wrong. The view
   is to be freed in any case. */
enum { REPLY_NONSENSE = 1, REPLY_NO_MEMORY };
int reply_view(const redisReply *reply, struct fleet_view *view);

#endif
