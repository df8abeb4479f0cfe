/* Reading JSON that has not been checked. */
#ifndef RUNNEL_JSON_MEMBER_H
#define RUNNEL_JSON_MEMBER_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

/* A member of an object. False or NULL when `object` is not one, the member is missing, or it is of
   another type (so null is as good as missing) or, a number, not finite. */
bool member_number(const json_t *object, const char *key, double *value);
const char *member_string(const json_t *object, const char *key);

/* The numbers of the list `key`: how many, at most `most`; 0 when there is no such list, it is
   longer, or one of them is negative or beyond 2^53. What is no number counts as 0. */
size_t member_counts(const json_t *object, const char *key, double *counts, size_t most);

#endif
