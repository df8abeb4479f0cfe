/* Positions of the journal and times on the command line of runnel-ctl. */
#ifndef RUNNEL_CTL_TIME_H
#define RUNNEL_CTL_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* A position: only digits, below 2^53. */
bool ctl_time_read_position(const char *text, uint64_t *position);

/* Unix time of "@1769860800.5" or of an ISO 8601 date and time such as 2026-01-31T12:00. A blank
   may replace the T; seconds with a fraction and Z or an offset such as +09:00 may follow. Without
   an offset it is local time. */
bool ctl_time_read(const char *text, double *time);

/* Seconds of "90s", "10m", "2h", "1d" or "0". */
bool ctl_time_read_duration(const char *text, double *seconds);

#endif
