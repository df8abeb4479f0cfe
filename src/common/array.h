/* Lists that grow. */
#ifndef RUNNEL_ARRAY_H
#define RUNNEL_ARRAY_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Make room for `count` elements of `size` bytes in the list that the pointer at `list` points to,
   at least doubled if it must grow. False: out of memory; nothing has changed. */
static inline bool array_reserve(void *list, size_t *room, size_t count, size_t size) {
    void *larger;
    if (count <= *room)
        return true;
    const size_t grown = count > 2 * *room ? count : 2 * *room;
    memcpy(&larger, list, sizeof larger); /* pointers of any type */
    larger = realloc(larger, grown * size);
    if (!larger)
        return false;
    memcpy(list, &larger, sizeof larger);
    *room = grown;
    return true;
}

#endif
