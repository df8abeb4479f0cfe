#include "log.h"

#include <stdarg.h>
#include <stdio.h>

static void __attribute__((format(printf, 2, 0)))
line(const char *level, const char *format, va_list arguments) {
    char text[2048];
    vsnprintf(text, sizeof text, format, arguments);
    fprintf(stderr, "runneld: %s%s\n", level, text); /* one call, so that lines stay whole */
}

void log_info(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    line("", format, arguments);
    va_end(arguments);
}

void log_warning(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    line("warning: ", format, arguments);
    va_end(arguments);
}

void log_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    line("error: ", format, arguments);
    va_end(arguments);
}
