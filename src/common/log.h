/* Lines on stderr for the user of the daemon: "runneld: TEXT". If stderr is the journal of
   systemd, "<PRIORITY>TEXT" (sd-daemon(3)): the journal adds the name. */
#ifndef RUNNEL_LOG_H
#define RUNNEL_LOG_H

void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
