/* The time that a line of a log begins with. */
#ifndef RUNNEL_STAMP_H
#define RUNNEL_STAMP_H

/* Read it: Unix seconds to `*time`, and what follows it is returned; NULL when there is none. `now`
   (Unix seconds) gives the year where the line has none. The forms are

       2016-07-01T12:34:56.789Z    also with / in the date, a blank for the T, a comma for the
   point, without the fraction, and +01:00, +0100 or +01 for the Z Jul  1 12:34:56 syslog
       1467376496.789              Unix seconds, ten digits and perhaps a fraction

   in brackets or not, and after syslog's priority (<34>, <34>1) or not. Without a zone it is local
   time, that of TZ. */
const char *stamp_read(const char *line, double now, double *time);

/* ".789" or ",789", or nothing: what follows. */
const char *stamp_fraction(const char *text, double *fraction);

/* "Z", "+01:00", "+0100", "+01", also after a blank: what follows, and the offset in seconds. NULL:
   the text has no zone. */
const char *stamp_zone(const char *text, long *offset);

#endif
