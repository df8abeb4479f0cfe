#include "complain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "error.h"
#include "text.h"

enum { LINE_SIZE = 2 * ERROR_TEXT_SIZE };

static void write_line(char *text) {
    text_clean(text);
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
}

int complain(int status, const char *format, ...) {
    char text[LINE_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    write_line(text);
    return status;
}

int complain_error(const struct error *error) {
    return complain(error->status, "%s", error->text);
}

int complain_usage(const char *format, ...) {
    char text[LINE_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    write_line(text);
    fprintf(stderr, "Try '%s --help'.\n", program_invocation_short_name);
    return EX_USAGE;
}

int complain_output(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EX_OK;
    return complain(EX_IOERR, "cannot write to standard output: %s", strerror(errno));
}
