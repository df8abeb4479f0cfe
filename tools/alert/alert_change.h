/* What a detector of changes says of a series. */
#ifndef RUNNEL_ALERT_CHANGE_H
#define RUNNEL_ALERT_CHANGE_H

enum change_kind {
    CHANGE_NONE,
    CHANGE_ROSE,
    CHANGE_FELL,
    CHANGE_BACK,   /* after a rise: back where it was */
    CHANGE_STAYED, /* after a rise: where it has risen to is what is usual now */
};

struct change {
    enum change_kind kind;
    double before, after; /* means of the series; 0 with CHANGE_NONE */
};

#endif
