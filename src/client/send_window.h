/* Examples that were sent and are not answered yet, in their order: they may have to be sent again.
   Example n of all that were ever added has number n, from 0. */
#ifndef RUNNEL_SEND_WINDOW_H
#define RUNNEL_SEND_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire.h"

struct error;
struct frames;
struct runnel_example;
struct window;

enum {
    WINDOW_EXAMPLES = 10000, /* unless set */
    WINDOW_BYTES = 64 << 20, /* or one example, if that is more */
};

/* For so many examples at once; 0: WINDOW_EXAMPLES. */
int window_open(struct window **window, size_t examples, struct error *error);
void window_close(struct window **window);

bool window_has_room(const struct window *window, const struct runnel_example *example);

/* Add a copy of the example, which needs a header that no other of its stream has, and room.
   The header of JSON only says which numbers are in it. */
int window_add(struct window *window, const struct runnel_example *example, uint64_t producer,
               struct error *error);

uint64_t window_oldest(const struct window *window);  /* number of the oldest that waits, */
uint64_t window_end(const struct window *window);     /* and of the next that will be added */
uint64_t window_waiting(const struct window *window); /* how many wait for their answers */

/* The frames of example `number`, from window_oldest on, as they are sent. False: it is answered.
 */
bool window_get(const struct window *window, uint64_t number, struct frames *frames);

/* Example `number`, which window_get has given, was sent. */
void window_sent(struct window *window, uint64_t number);

/* The answer belongs to an example before number `sent`, which then waits no more; whether it was
   sent only `once`. False: to none that waits. */
bool window_answer(struct window *window, uint64_t sent, const char *key, size_t key_size,
                   const struct wire_acknowledgement *answer, bool *once);

#endif
