/* Positions in the journal and times, as one writes them on a command line. */
#ifndef RUNNEL_CTL_TIME_H
#define RUNNEL_CTL_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* Digits alone, below 2^53. */
bool position_read(const char *text, uint64_t *position);

/* Unix time of "@1769860800.5", or of a date and time as ISO 8601 has it: 2026-01-31T12:00, with a
   blank for the T, with :SECONDS and a fraction of them, with Z or an offset such as +09:00.
   Without one it is this machine's local time. */
bool time_read(const char *text, double *time);

#endif
