/* The time at the beginning of a line of a log. */
#ifndef RUNNEL_STAMP_H
#define RUNNEL_STAMP_H

/* Read it as Unix seconds to `*time`, and return the rest of the line; NULL if the line has no
   time. `now` (Unix seconds) determines the year if the line has none. The forms are
       2016-07-01T12:34:56.789Z    also with / in the date, a blank for the T, a comma for the
                                   point, without the fraction, and +01:00, +0100 or +01 for the Z
       Jul  1 12:34:56             syslog
       1467376496.789              Unix seconds, ten digits and an optional fraction
   with or without brackets, and with or without syslog's priority (<34>, <34>1). A time without a
   zone is local time, that of TZ. */
const char *stamp_read(const char *line, double now, double *time);

/* Read ".789" or ",789", or nothing. Returns the rest. */
const char *stamp_fraction(const char *text, double *fraction);

/* Read "Z", "+01:00", "+0100" or "+01", also after a blank. Returns the rest, and the offset in
   seconds. NULL: the text has no zone. */
const char *stamp_zone(const char *text, long *offset);

#endif
