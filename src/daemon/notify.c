#include "notify.h"

#ifdef RUNNEL_SYSTEMD

#    include <inttypes.h>
#    include <stdbool.h>
#    include <systemd/sd-daemon.h>

#    include "common/clock.h"
#    include "common/text.h"

#    define NS_PER_MICROSECOND 1000ull

enum {
    STATUS_SIZE = 512,
    ALIVE_IN_WATCHDOG = 4, /* forwarded calls per WatchdogSec: one may be late */
};

struct watchdog {
    bool known;
    uint64_t interval; /* ns between two forwarded calls, 0: no watchdog */
    uint64_t due;      /* CLOCK_MONOTONIC in ns */
};

static struct watchdog *the_watchdog(void) {
    static struct watchdog watchdog;
    uint64_t microseconds;
    if (!watchdog.known && sd_watchdog_enabled(0, &microseconds) > 0)
        watchdog.interval = microseconds * NS_PER_MICROSECOND / ALIVE_IN_WATCHDOG;
    watchdog.known = true;
    return &watchdog;
}

void notify_ready(void) {
    sd_notify(0, "READY=1");
}

/* The time distinguishes this reload from later ones. */
void notify_reloading(void) {
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
               (uint64_t)(clock_ns() / NS_PER_MICROSECOND));
}

void notify_status(const char *format, ...) {
    char text[STATUS_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    for (char *at = text; *at; at++)
        if (*at == '\n') /* a newline would begin another assignment */
            *at = ' ';
    sd_notifyf(0, "STATUS=%s", text);
}

void notify_alive(void) {
    struct watchdog *watchdog = the_watchdog();
    if (!watchdog->interval)
        return;
    uint64_t now = clock_ns();
    if (now < watchdog->due)
        return;
    watchdog->due = now + watchdog->interval;
    sd_notify(0, "WATCHDOG=1");
}

uint64_t notify_alive_due(void) {
    struct watchdog *watchdog = the_watchdog();
    return watchdog->interval ? watchdog->due : UINT64_MAX;
}

void notify_extend(unsigned seconds) {
    static const unsigned long long microseconds = 1000000;
    sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu", seconds * microseconds);
}

void notify_stopping(void) {
    sd_notify(0, "STOPPING=1");
}

#else

void notify_ready(void) {
}

void notify_reloading(void) {
}

void notify_status(const char *format, ...) {
    (void)format;
}

void notify_alive(void) {
}

uint64_t notify_alive_due(void) {
    return UINT64_MAX;
}

void notify_extend(unsigned seconds) {
    (void)seconds;
}

void notify_stopping(void) {
}

#endif
