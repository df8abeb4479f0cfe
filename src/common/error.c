#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "text.h"

int error_set(struct error *error, int status, const char *format, ...) {
    if (!error)
        return -1;
    error->status = status;
    TEXT_FORMAT(error->text, sizeof error->text, format);
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
    TEXT_FORMAT(error->text, sizeof error->text, format);
    size_t used = strnlen(error->text, sizeof error->text);
    size_t left = sizeof error->text - used;
    snprintf(error->text + used, left, ": %.*s", (int)left, text);
    text_clean(error->text);
    return -1;
}

const char *error_of_file(int number) {
    return number == ENOENT ? "file not found" : strerror(number);
}
