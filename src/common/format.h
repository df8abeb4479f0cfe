/* Numbers for people. Each function writes at most FORMAT_SIZE bytes, including the terminating
   zero, and returns `text`. */
#ifndef RUNNEL_FORMAT_H
#define RUNNEL_FORMAT_H

enum { FORMAT_SIZE = 40 };

typedef char *format_function(char text[FORMAT_SIZE], double value);

/* A loss: 4 digits or decimals, at most 7 columns: 0.0123 12.345 1.23e-5 12.35k; "-" for NaN. */
format_function format_number;
/* The fewest digits that give the same number again. */
format_function format_exact;
/* A setting as people write it, at most 7 columns: 0.001 0.0003 2.5e-5. */
format_function format_setting;
/* 3 digits, at most 5 columns: 20.0 950 12.3k. */
format_function format_rate;
/* Exact up to `width` columns, else like format_rate. */
char *format_count(char text[FORMAT_SIZE], double value, int width);
/* Exact, with separators: 1,234,567. */
format_function format_grouped;
/* A share: 0.125 is 12.50%. */
format_function format_percent;
/* A signed number: +0.231 -12.5. */
format_function format_skill;
/* A time in microseconds: 950us 12.3ms 1.23s. */
format_function format_microseconds;
/* A time in seconds: 0.3 s, 45 s, 3 min 20 s, 5 h 12 min, 3 d 4 h. */
format_function format_duration;
/* The seconds left of a run: 45 s, 3:07, 2:05:00; "?" if unknown. */
format_function format_left;
/* 512 B, 1.23 MB */
format_function format_bytes;
/* Local time of a Unix time: 14:03:59, and with the date 2026-01-31 14:03:59. */
format_function format_clock;
format_function format_date;

#endif
