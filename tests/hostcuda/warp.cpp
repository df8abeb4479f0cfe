/* Shuffles and votes: each lane leaves its value; the last lane of the mask computes every
   result. */
#include "race.h"

namespace hostcuda {

const char *name(hostcuda_collective what) {
    static const char *const NAMES[] = {"__syncwarp",       "__shfl_sync",     "__shfl_up_sync",
                                        "__shfl_down_sync", "__shfl_xor_sync", "a warp vote"};
    return NAMES[what];
}

namespace {

/* The lane that `t` reads; its own if CUDA keeps the value. */
unsigned source(const thread &t) {
    const unsigned segment = t.lane & ~(t.width - 1), place = t.lane & (t.width - 1);
    switch (t.what) {
    case HOSTCUDA_SHFL:
        return segment + (t.argument & (t.width - 1));
    case HOSTCUDA_SHFL_UP:
        return t.argument <= place ? t.lane - t.argument : t.lane;
    case HOSTCUDA_SHFL_DOWN:
        return t.argument < t.width - place ? t.lane + t.argument : t.lane;
    default: {
        /* xor may reach into lower segments, not into higher ones. */
        const unsigned lane = t.lane ^ t.argument;
        return lane < segment + t.width ? lane : t.lane;
    }
    }
}

uint64_t result(const warp &w, const thread &t) {
    if (t.what == HOSTCUDA_SYNCWARP) {
        return 0;
    }
    if (t.what == HOSTCUDA_BALLOT) {
        uint64_t votes = 0;
        for (unsigned lane = 0; lane < warpSize; ++lane) {
            if (t.mask >> lane & 1 && w.first[lane].value) {
                votes |= (uint64_t)1 << lane;
            }
        }
        return votes;
    }
    const unsigned lane = source(t);
    if (!(t.mask >> lane & 1)) {
        stop("%s: lane %u reads lane %u, which its mask %08x does not name", name(t.what), t.lane,
             lane, t.mask);
    }
    return w.first[lane].value;
}

/* Whether all lanes of `mask` wait with this same mask. */
bool complete(const warp &w, unsigned mask) {
    if ((w.waiting & mask) != mask) {
        return false;
    }
    for (unsigned lane = 0; lane < warpSize; ++lane) {
        if (mask >> lane & 1 && w.first[lane].mask != mask) {
            return false;
        }
    }
    return true;
}

void finish(warp &w, unsigned mask) {
    for (unsigned lane = 0; lane < warpSize; ++lane) {
        if (!(mask >> lane & 1)) {
            continue;
        }
        thread &t = w.first[lane];
        if (t.what != current->what) {
            stop("lane %u waits in %s and lane %u in %s, with one mask %08x", current->lane,
                 name(current->what), lane, name(t.what), mask);
        }
        t.result = result(w, t);
    }
    if (race::on && current->what == HOSTCUDA_SYNCWARP) {
        race::at_warp_barrier(w, mask);
    }
    w.waiting &= ~mask;
    for (unsigned lane = 0; lane < warpSize; ++lane) {
        if (mask >> lane & 1 && &w.first[lane] != current) {
            wake(&w.first[lane]);
        }
    }
}

} // namespace

} // namespace hostcuda

using namespace hostcuda;

uint64_t hostcuda_warp(hostcuda_collective what, unsigned mask, uint64_t value, unsigned argument,
                       unsigned width) {
    thread &t = *current;
    warp &w = *t.lanes;
    if (!(mask >> t.lane & 1)) {
        stop("%s: lane %u calls it with mask %08x, which does not name it", name(what), t.lane,
             mask);
    }
    if (mask & w.gone) {
        stop("%s: mask %08x names lanes %08x, which have exited or never were", name(what), mask,
             mask & w.gone);
    }
    if (width == 0 || width > warpSize || (width & (width - 1)) != 0) {
        stop("%s: width %u is no power of two up to 32", name(what), width);
    }
    t.what = what;
    t.mask = mask;
    t.value = value;
    t.argument = argument;
    t.width = width;
    w.waiting |= 1u << t.lane;
    if (!complete(w, mask)) {
        suspend(waits::warp, __builtin_return_address(0));
        return t.result;
    }
    finish(w, mask);
    if (permuted) {
        yield_turn();
    }
    return t.result;
}

unsigned hostcuda_active(void) {
    return ~current->lanes->gone;
}
