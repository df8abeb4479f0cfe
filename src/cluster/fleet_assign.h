/* Which daemon of a fleet is to have which partition. */
#ifndef RUNNEL_FLEET_ASSIGN_H
#define RUNNEL_FLEET_ASSIGN_H

#include <stddef.h>

struct error;
struct fleet_view;

enum { FLEET_NOBODY = -1 };

/* Share out `partitions` among `daemons`, which are numbered by their names in order: every daemon
   gets as many as any other, or one more, and as few partitions as possible move. Whoever knows
   the same `owner` comes to the same `to`. `owner` and `to` are (partitions,): a daemon's number,
   or FLEET_NOBODY; `to` has that where there are no daemons. Both may be the same array.
   `room` is (2 * daemons,), for the function's own use. */
void fleet_assign(size_t partitions, size_t daemons, const int *owner, int *to, size_t *room);

/* `to` of all partitions of a view, for those of its daemons who are there and not drained. -1: out
   of memory. */
int fleet_assign_view(struct fleet_view *view, struct error *error);

#endif
