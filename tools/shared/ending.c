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
static volatile sig_atomic_t asked, resized;

static void on_signal(int number) {
    int saved = errno;
    uint64_t one = 1;
    if (number == SIGWINCH) {
        resized = 1;
    } else if (asked) {
        signal(number, SIG_DFL);
        raise(number);
    } else {
        asked = 1;
    }
    if (write(wake, &one, sizeof one) < 0)
        errno = saved; /* the buffer is full, so the reader wakes anyway */
    errno = saved;
}

static int catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake < 0)
        return complain(EX_UNAVAILABLE, "cannot wait for signals: %s", strerror(errno));
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_NODEFER};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &action, NULL);
    return EX_OK;
}

int ending_catch_signals(void) {
    signal(SIGPIPE, SIG_IGN);
    return catch_signals();
}

int ending_catch_resize(void) {
    int status = catch_signals();
    sigaction(SIGWINCH, &(struct sigaction){.sa_handler = on_signal}, NULL);
    return status;
}

bool ending_resized(void) {
    uint64_t signals;
    bool found = read(wake, &signals, sizeof signals) > 0 && resized;
    if (found)
        resized = 0;
    return found;
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
