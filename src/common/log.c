#include "log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include "text.h"

enum { LINE_SIZE = 2048 };

/* $JOURNAL_STREAM contains the device and inode of the stream that systemd has connected to its
   journal. A process that a service has started inherits it, even if its stderr is another
   stream. */
static bool to_journal(void) {
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat status;
    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
           fstat(STDERR_FILENO, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

static void __attribute__((format(printf, 3, 0)))
line(int priority, const char *level, const char *format, va_list arguments) {
    char text[LINE_SIZE];
    vsnprintf(text, sizeof text, format, arguments);
    text_clean(text); /* so that quoted text cannot add lines */
    /* One call writes the whole line. */
    if (to_journal())
        fprintf(stderr, "<%d>%s%s\n", priority, level, text);
    else
        fprintf(stderr, "runneld: %s%s\n", level, text);
}

void log_info(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    line(LOG_INFO, "", format, arguments);
    va_end(arguments);
}

void log_warning(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    line(LOG_WARNING, "warning: ", format, arguments);
    va_end(arguments);
}

void log_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    line(LOG_ERR, "error: ", format, arguments);
    va_end(arguments);
}
