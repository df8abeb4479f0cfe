/* What is wrong with one daemon, kept so that nothing is reported twice: a condition is reported
   when it begins and when it is over, and between two beginnings of one kind is a least time. What
   comes sooner is reported when that time has passed: as a beginning if the condition still holds,
   else as passed, with a count. The second event of a stream is reported at once, and only further
   ones wait: so an alarm is never late.

   Times are on two clocks: that of who calls, and the data's, where it is known. What may be
   reported after so many seconds may be once either has moved on so far: so a year that is replayed
   within minutes has the alerts that the year had. */
#ifndef RUNNEL_ALERT_BOOK_H
#define RUNNEL_ALERT_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

enum alert_kind {
    ALERT_SILENCE,
    ALERT_RESTART,
    ALERT_NON_FINITE,
    ALERT_RISING,
    ALERT_PAGE_HINKLEY,
    ALERT_ADWIN,
    ALERT_DEAD,
    ALERT_SATURATED,
    ALERT_QUEUE,
    ALERT_REJECTED,
    ALERT_JOURNAL,
    ALERT_DISK,
    ALERT_GAP,
    ALERT_INPUT_SCALE,
    ALERT_WORSE_THAN_BASELINE,
    ALERT_ANOMALY,
    ALERT_IDLE,
    ALERT_KINDS
};

extern const char *const alert_names[ALERT_KINDS];

/* The kind of that name (not terminated), ALERT_KINDS when there is none. */
enum alert_kind alert_find(const char *name, size_t size);

enum alert_state {
    ALERT_BEGAN,
    ALERT_STILL, /* reported again, as a reminder */
    ALERT_OVER,
    ALERT_PASSED, /* began and ended too soon after the last report to be reported then */
    ALERT_STATES
};

extern const char *const alert_states[ALERT_STATES];

enum {
    ALERT_TEXT_SIZE = 320,
    ALERT_NAME_SIZE = 128,
    ALERT_NOTE_SIZE = WIRE_NOTE_MAX + 1,
    ALERT_RUN_SIZE = 64,
    ALERT_STREAMS = 256, /* whose last report is known; of more, the longest ago is forgotten */
};

/* What is reported. Times are in seconds, on the clock of who calls the book. */
struct alert {
    enum alert_kind kind;
    enum alert_state state;
    char text[ALERT_TEXT_SIZE];   /* a sentence */
    char stream[ALERT_NAME_SIZE]; /* that it is about; "" = none is known */
    char note[ALERT_NOTE_SIZE];   /* of its example, for people; "" = it has none */
    double value, limit;          /* what was measured and its limit; NAN = no number */
    double now, since;            /* since when the condition has held */
    double data_time, data_since; /* the same in data time; NAN = not known */
    uint64_t times;               /* that it has begun since the last report, this one included */
};

struct book {
    bool watched[ALERT_KINDS];
    double data_time;   /* of the newest message that has one; NAN = none yet. Set it at will */
    const char *stream; /* that what begins now is about; NULL = none. Set it at will */
    double interval;    /* seconds between two beginnings of a kind */
    double again;       /* seconds after which what still holds is reported again; 0 = never */
    double ticked;      /* when the last tick was */
    void (*say)(void *context, const struct alert *alert);
    void *context;
    struct condition {
        bool holds, said;
        bool continued; /* reported a second time within the interval */
        double calm;    /* seconds after which it is over; INFINITY = when book_over is called */
        struct moment {
            double now, data;
        } renewed, said_last; /* its last and its reported beginning; -INFINITY = never */
        double reminded;
        struct alert alert;                            /* of the newest beginning */
    } conditions[ALERT_KINDS], streams[ALERT_STREAMS]; /* of book_event: a stream each */
    size_t stream_count;
};

void book_open(struct book *book, const bool watched[ALERT_KINDS], double interval, double again,
               void (*say)(void *context, const struct alert *alert), void *context);

/* The condition of a kind holds now; the sentence is used only when it begins. book_over ends it,
   with a sentence of its own; nothing happens when it does not hold. */
void book_begin(struct book *book, enum alert_kind kind, double now, double value, double limit,
                const char *format, ...) __attribute__((format(printf, 6, 7)));
void book_over(struct book *book, enum alert_kind kind, double now, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Something that has happened once: it is over when it has not happened again for `calm` seconds;
   with 0 it is an instant that is never over. */
void book_happened(struct book *book, enum alert_kind kind, double now, double calm, double value,
                   const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Something that has happened once in a stream, and is never over: each stream has a least time of
   its own. Of one kind only. The event's kind, texts, value, limit and `now` are read. */
void book_event(struct book *book, const struct alert *event);

/* Time has passed: reports what was held back, what still holds and what is over. book_next:
   seconds until there is something to do. */
void book_tick(struct book *book, double now);

/* The end: reports what is held back, as of the last tick. */
void book_end(struct book *book);
double book_next(const struct book *book, double now);

#endif
