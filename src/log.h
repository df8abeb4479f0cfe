/* Lines on stderr for whoever runs the daemon: "runneld: TEXT". */
#ifndef RUNNEL_LOG_H
#define RUNNEL_LOG_H

void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
