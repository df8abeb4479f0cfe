/* A change in a series, as a detector reports it. */
#ifndef RUNNEL_ALERT_CHANGE_H
#define RUNNEL_ALERT_CHANGE_H

enum change_kind {
    CHANGE_NONE,
    CHANGE_ROSE,
    CHANGE_FELL,
    CHANGE_BACK,   /* after a rise: the series is back at its old mean */
    CHANGE_STAYED, /* after a rise: the new mean is usual now */
};

struct change {
    enum change_kind kind;
    double before, after; /* means of the series; 0 with CHANGE_NONE */
};

#endif
