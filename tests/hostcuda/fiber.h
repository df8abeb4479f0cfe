/* Fibers: a stack each, and a switch that saves what a call preserves. */
#ifndef HOSTCUDA_FIBER_H
#define HOSTCUDA_FIBER_H

#include <stddef.h>

namespace hostcuda {

struct fiber {
    void *saved = nullptr; /* stack pointer, or ucontext_t, while it does not run */
    char *bottom = nullptr;
    size_t size = 0;
    void *fake = nullptr; /* AddressSanitizer's */
};

/* The fiber on which the caller runs. */
void fiber_adopt(fiber &self);

/* Make `f` run `entry` when it is switched to first, on the pool's stack of that number. `entry`
   begins with fiber_entered() and never returns. */
void fiber_prepare(fiber &f, unsigned number, void (*entry)());
void fiber_entered();

/* Continue in `to`; returns when somebody switches back. With `last`, nobody will. */
void fiber_switch(fiber &from, fiber &to, bool last = false);

/* False when the stack of that number has been written to its end. */
bool fiber_whole(unsigned number);

} // namespace hostcuda

#endif
