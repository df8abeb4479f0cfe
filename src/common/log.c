#include "log.h"

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

static void line(int priority, const char *level, char *text) {
    text_clean(text); /* so that quoted text cannot add lines */
    /* One call writes the whole line. */
    if (to_journal())
        fprintf(stderr, "<%d>%s%s\n", priority, level, text);
    else
        fprintf(stderr, "runneld: %s%s\n", level, text);
}

void log_info(const char *format, ...) {
    char text[LINE_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    line(LOG_INFO, "", text);
}

void log_warning(const char *format, ...) {
    char text[LINE_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    line(LOG_WARNING, "warning: ", text);
}

void log_error(const char *format, ...) {
    char text[LINE_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    line(LOG_ERR, "error: ", text);
}
