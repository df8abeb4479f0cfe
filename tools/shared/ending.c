#include "ending.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/complain.h"

static int wake = -1; /* eventfd */
static volatile sig_atomic_t asked;

static void on_signal(int number) {
    int saved = errno;
    uint64_t one = 1;
    if (asked) {
        signal(number, SIG_DFL);
        raise(number);
    }
    asked = 1;
    if (write(wake, &one, sizeof one) < 0)
        errno = saved; /* the buffer is full, so the reader wakes anyway */
    errno = saved;
}

int ending_catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake < 0)
        return complain(EX_UNAVAILABLE, "cannot wait for signals: %s", strerror(errno));
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_NODEFER};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    return EX_OK;
}

bool ending_asked(void) {
    return asked;
}

int ending_descriptor(void) {
    return wake;
}

void ending_write(const void *bytes, size_t size) {
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    fcntl(STDOUT_FILENO, F_SETFL, flags | O_NONBLOCK);
    ssize_t written = write(STDOUT_FILENO, bytes, size);
    (void)written;
    fcntl(STDOUT_FILENO, F_SETFL, flags);
}
