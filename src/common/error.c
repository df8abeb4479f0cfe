#include "error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "text.h"

int error_set(struct error *error, int status, const char *format, ...) {
    if (!error)
        return -1;
    va_list arguments;
    va_start(arguments, format);
    error->status = status;
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    text_clean(error->text);
    return -1;
}

int error_no_memory(struct error *error) {
    return error_set(error, EX_OSERR, "out of memory");
}

int error_prefix(struct error *error, const char *format, ...) {
    if (!error)
        return -1;
    char text[ERROR_TEXT_SIZE];
    memcpy(text, error->text, sizeof text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    size_t used = strnlen(error->text, sizeof error->text);
    size_t left = sizeof error->text - used;
    snprintf(error->text + used, left, ": %.*s", (int)left, text);
    text_clean(error->text);
    return -1;
}

const char *error_of_file(int number) {
    return number == ENOENT ? "file not found" : strerror(number);
}
