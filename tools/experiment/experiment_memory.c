#include "experiment_memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    struct piece *next;
    max_align_t bytes[];
};

void *memory_take(void **memory, size_t size) {
    struct piece *piece = calloc(1, sizeof *piece + size);
    if (!piece)
        return NULL;
    piece->next = *memory;
    *memory = piece;
    return piece->bytes;
}

char *memory_copy(void **memory, const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = memory_take(memory, size);
    return copy ? memcpy(copy, text, size) : NULL;
}

char *memory_print(void **memory, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = length < 0 ? NULL : memory_take(memory, (size_t)length + 1);
    if (!text)
        return NULL;
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}

void memory_clear(void **memory) {
    for (struct piece *piece = *memory, *next; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    *memory = NULL;
}
