/* Entries of Redis streams as messages: their IDs and fields. */
#ifndef RUNNEL_REDIS_ENTRY_H
#define RUNNEL_REDIS_ENTRY_H

#include <hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "message.h"

enum { REDIS_ID_SIZE = 48, REDIS_SECOND_BITS = 21 };

/* Parses "MILLISECONDS-SECOND". */
struct redis_id redis_id_parse(const char *text);
const char *redis_id_print(char text[REDIS_ID_SIZE], struct redis_id id);

/* Returns a number below, equal to or above 0. */
int redis_id_compare(struct redis_id a, struct redis_id b);

/* Converts an ID to an epoch and a sequence of 53 bits, in the same order, and back. Returns false
   if the second part has more than REDIS_SECOND_BITS bits. */
bool redis_id_number(struct redis_id id, struct message_number *number);
struct redis_id redis_id_of(uint32_t epoch, uint64_t sequence);

/* Returns the ID's Unix time, or 0 if the ID is not a time. */
double redis_id_time(struct redis_id id);

/* Finds the example in the fields (a list: name, value, ...). `field` names its field. With NULL it
   is the only field, or all fields as a JSON object. Returns false if it is not there. `*object` is
   NULL before, and freed with the message. */
bool redis_payload(const redisReply *fields, const char *field, struct message *message,
                   char **object);

/* Whether the reply is a list that contains only texts. */
bool redis_are_texts(const redisReply *list);

/* Returns the value of a name in a list of names and values, or NULL. */
const redisReply *redis_member(const redisReply *list, const char *name);

#endif
