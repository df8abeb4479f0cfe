/* Members of unchecked JSON. */
#ifndef RUNNEL_JSON_MEMBER_H
#define RUNNEL_JSON_MEMBER_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* A member of an object. False or NULL if `object` is not an object, or if the member is
   missing, of another type (such as null), or not finite. */
bool member_number(const json_t *object, const char *key, double *value);
const char *member_string(const json_t *object, const char *key);

/* Copy at most `most` numbers of the list `key`, and return how many. 0 if the list is missing
   or longer, or contains a number that is negative or beyond 2^53. Elements of other types count
   as 0. */
size_t member_counts(const json_t *object, const char *key, double *counts, size_t most);

#endif
