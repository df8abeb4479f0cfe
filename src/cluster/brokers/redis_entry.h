/* Entries of Redis's streams as messages: what their ids and fields mean. */
#ifndef RUNNEL_REDIS_ENTRY_H
#define RUNNEL_REDIS_ENTRY_H

#include <hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "message.h"

enum { REDIS_ID_SIZE = 48, REDIS_SECOND_BITS = 21 };

/* "MILLISECONDS-SECOND" */
struct redis_id redis_id_parse(const char *text);
const char *redis_id_print(char text[REDIS_ID_SIZE], struct redis_id id);

/* Below 0, 0, or above. */
int redis_id_compare(struct redis_id a, struct redis_id b);

/* The id as epoch and sequence: 53 bits of it, and the epoch above them; they rise as ids do.
   False: its second part has more than REDIS_SECOND_BITS bits. And back. */
bool redis_id_number(struct redis_id id, struct message_number *number);
struct redis_id redis_id_of(uint32_t epoch, uint64_t sequence);

/* Its Unix time; 0 when it is none. */
double redis_id_time(struct redis_id id);

/* Where in the fields (a list: name, value, ..) the example is: in `field`, or with NULL in the
   only one; several are an object of JSON. False: nowhere. `*object`, before NULL, is freed with
   the message. */
bool redis_payload(const redisReply *fields, const char *field, struct message *message,
                   char **object);

/* Whether it is a list, and of texts alone. */
bool redis_are_texts(const redisReply *list);

/* The value of a name in a list of names and values; NULL: there is none. */
const redisReply *redis_member(const redisReply *list, const char *name);

#endif
