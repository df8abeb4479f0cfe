/* JSON written directly into a growing buffer, for messages that are written thousands of times
   a second; use jansson elsewhere. The output is identical to jansson's with JSON_COMPACT |
   JSON_REAL_PRECISION(15).

   `key` is the name of the member, plain ASCII without quotes or escapes; NULL in a list. Close
   opened objects and lists in order. If out of memory, the text becomes empty and stays empty
   until json_text_begin. Nothing else can fail. */
#ifndef RUNNEL_JSON_TEXT_H
#define RUNNEL_JSON_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_text {
    char *bytes; /* (size,), not terminated */
    size_t size, capacity;
    bool follows; /* the next value needs a comma */
    bool failed;  /* out of memory since json_text_begin */
};

/* Begin a new text with the { of its root. A struct json_text of zeros is valid. */
void json_text_begin(struct json_text *text);
/* Write the } of the root. False: out of memory; the text is empty. */
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

/* The bytes of a text. If it is not valid UTF-8, '?' replaces each byte that is not ASCII. */
void json_text_string(struct json_text *text, const char *key, const char *bytes, size_t size);

/* A value that is already JSON text; null if it is NULL. */
void json_text_raw(struct json_text *text, const char *key, const char *value);

/* The members of a jansson object; nothing if it is empty or NULL. */
void json_text_members(struct json_text *text, const json_t *object);

/* A jansson value: a number, null if it is not finite; or a UTF-8 text. In other texts each byte
   that is not ASCII becomes '?'. */
json_t *json_of_number(double value);
json_t *json_of_text(const char *text, size_t size);

#endif
