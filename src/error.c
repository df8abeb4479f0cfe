#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *error, int status, const char *format, ...) {
    if (!error)
        return -1;
    va_list arguments;
    va_start(arguments, format);
    error->status = status;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return -1;
}

int error_prefix(struct error *error, const char *format, ...) {
    if (!error)
        return -1;
    char text[ERROR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : strnlen(text, sizeof text);
    snprintf(text + used, sizeof text - used, ": %s", error->text);
    memcpy(error->text, text, sizeof text);
    return -1;
}
