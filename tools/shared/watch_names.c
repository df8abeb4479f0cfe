#include "watch_names.h"

#include <stdio.h>
#include <string.h>

#include "common/text.h"

enum { LEAST = 3 };

static const char BETWEEN[] = ", ";

/* The next name from `at` on and its length; NULL after the last. */
static const char *name_at(const char *at, size_t *length) {
    const char *end = at ? strstr(at, BETWEEN) : NULL;
    *length = end ? (size_t)(end - at) : at ? strlen(at) : 0;
    return at && *length > 0 ? at : NULL;
}

static const char *after(const char *name, size_t length) {
    return name[length] ? name + length + strlen(BETWEEN) : NULL;
}

const char *names_cut(char name[NAME_SIZE], const char *text, int width) {
    int least = width > LEAST ? width : LEAST;
    size_t length = strlen(text), room = least < NAME_SIZE ? (size_t)least : NAME_SIZE - 1;
    if (length <= room)
        return text_copy(name, NAME_SIZE, text);
    size_t head = (room - 1) / 2;
    const char *tail = text + length - (room - 1 - head);
    while ((*tail & 0xC0) == 0x80) /* do not begin within a UTF-8 character */
        tail++;
    text_copy(name, head + 1, text);
    size_t used = strlen(name);
    name[used++] = '~';
    text_copy(name + used, NAME_SIZE - used, tail);
    return name;
}

const char *names_find(const char *names, size_t target, size_t *length) {
    const char *at = name_at(names, length);
    for (size_t n = 0; at && n < target; n++)
        at = name_at(after(at, *length), length);
    return at;
}

const char *names_target(char name[NAME_SIZE], const char *names, size_t target, int width) {
    char whole[NAME_SIZE];
    size_t length;
    const char *at = names_find(names, target, &length);
    if (at)
        snprintf(whole, sizeof whole, "%.*s", (int)length, at);
    else
        snprintf(whole, sizeof whole, "%zu", target);
    return names_cut(name, whole, width);
}

int names_longest(const char *names, int most) {
    size_t length, longest = 0;
    for (const char *at = name_at(names, &length); at; at = name_at(after(at, length), &length))
        longest = length > longest ? length : longest;
    if (longest > NAME_SIZE - 1)
        longest = NAME_SIZE - 1;
    return longest < (size_t)most ? (int)longest : most;
}
