/* Notifications to the service manager (sd_notify of systemd, see runneld@.service). They do
   nothing without a manager ($NOTIFY_SOCKET) or without libsystemd, and ignore errors: learning
   does not depend on a manager. A process has one manager; call from one thread only. */
#ifndef RUNNEL_NOTIFY_H
#define RUNNEL_NOTIFY_H

#include <stdint.h>

/* The daemon has started and its sockets are open, or it has finished reloading. */
void notify_ready(void);

/* The daemon is reading the configuration again, until notify_ready. */
void notify_reloading(void);

/* Sets the one-line state that `systemctl status` displays. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Examples are being learned, or none is waiting. May be called at any rate: it forwards the calls
   that the watchdog needs. The manager restarts the daemon after WatchdogSec without one. */
void notify_alive(void);

/* Returns when notify_alive is due next (CLOCK_MONOTONIC in ns); UINT64_MAX: no watchdog. */
uint64_t notify_alive_due(void);

/* Starting, stopping or one step of learning works and takes at least this long from now. Repeat
   before that time has passed. */
void notify_extend(unsigned seconds);

/* The daemon is stopping, for any reason. */
void notify_stopping(void);

#endif
