/* JSON written straight into a growing buffer, for messages that are made thousands of times a
   second; objects of jansson serve everywhere else. What is written is what jansson would write
   with JSON_COMPACT | JSON_REAL_PRECISION(15), byte for byte.

   `key` is the member's name, plain ASCII without quotes or escapes; NULL inside a list. What is
   opened must be closed, in order. When out of memory the text becomes empty and stays so until
   json_text_begin: nothing here can fail otherwise. */
#ifndef RUNNEL_JSON_TEXT_H
#define RUNNEL_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_text {
    char *bytes; /* (size,), not terminated */
    size_t size, capacity;
    bool follows; /* what comes next is not the first, and needs a comma */
    bool failed;  /* out of memory since json_text_begin */
};

/* A new text, { of its root written; all zeros is a struct json_text that was never used. */
void json_text_begin(struct json_text *text);
/* The root's }. False: out of memory, there is no text. */
bool json_text_end(struct json_text *text);
void json_text_free(struct json_text *text);

void json_text_open_object(struct json_text *text, const char *key);
void json_text_close_object(struct json_text *text);
void json_text_open_list(struct json_text *text, const char *key);
void json_text_close_list(struct json_text *text);

/* A real number with up to 15 digits, rounded to nearest; null when it is not finite. */
void json_text_number(struct json_text *text, const char *key, double number);
void json_text_count(struct json_text *text, const char *key, uint64_t count);
void json_text_flag(struct json_text *text, const char *key, bool flag);
void json_text_null(struct json_text *text, const char *key);

/* Bytes of UTF-8; of other bytes each that is not ASCII becomes '?'. */
void json_text_string(struct json_text *text, const char *key, const char *bytes, size_t size);

/* A value that is written already, as text; null when it is NULL. */
void json_text_raw(struct json_text *text, const char *key, const char *value);

/* The members of an object of jansson; none when it is empty or NULL. */
void json_text_members(struct json_text *text, const json_t *object);

/* A value of jansson: a number, null when it is not finite; a text of UTF-8, or else of its ASCII,
   with '?' for what is not. */
json_t *json_of_number(double value);
json_t *json_of_text(const char *text, size_t size);

#endif
