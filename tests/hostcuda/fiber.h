/* Fibers: separate stacks, and a switch that saves the registers that a call preserves. */
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

/* The caller's fiber. */
void fiber_adopt(fiber &self);

/* Makes `f` run `entry` at its first switch, on the pool's stack of that number. `entry` begins
   with fiber_entered() and never returns. */
void fiber_prepare(fiber &f, unsigned number, void (*entry)());
void fiber_entered();

/* Continues in `to`; returns after a switch back. It does not return with `last`. */
void fiber_switch(fiber &from, fiber &to, bool last = false);

/* False if the stack of that number was written to its end. */
bool fiber_whole(unsigned number);

} // namespace hostcuda

#endif
