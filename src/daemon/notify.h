/* Notifications to the service manager (systemd's sd_notify): see runneld@.service.

   Does nothing when no manager asked for them ($NOTIFY_SOCKET), or when runnel was built without
   libsystemd. Nothing fails: a manager that cannot be notified is no reason to stop learning. Like
   the environment that it comes from there is one manager a process; to be called from one thread.
 */
#ifndef RUNNEL_NOTIFY_H
#define RUNNEL_NOTIFY_H

#include <stdint.h>

/* Started: the sockets are there. Or no longer reloading. */
void notify_ready(void);

/* The configuration is being read again; notify_ready says that this is over. */
void notify_reloading(void);

/* The state in one line, as `systemctl status` shows it. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Examples are being learned, or none waits. To be called as often as one likes: it passes on what
   the watchdog needs. A manager that does not get it for as long as its WatchdogSec restarts the
   daemon. */
void notify_alive(void);

/* When notify_alive is wanted next, CLOCK_MONOTONIC in ns; UINT64_MAX: no watchdog. */
uint64_t notify_alive_due(void);

/* Starting, stopping, or one step of learning, goes well and takes at least so long from now on:
   to be repeated before that has passed. */
void notify_extend(unsigned seconds);

/* On its way out, for whatever reason. */
void notify_stopping(void);

#endif
