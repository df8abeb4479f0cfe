/* Lists the events that blocked threads of a launch wait for. */
#include "grid.h"

namespace hostcuda {

namespace {

/* Threads of one block with the same wait. */
struct group {
    const block *home;
    waits state;
    const void *caller;
    hostcuda_collective what; /* for waits::warp */
    unsigned mask;
    unsigned count;
};

group of(const thread &t) {
    group g = {t.home, t.state, nullptr, HOSTCUDA_SYNCWARP, 0, 0};
    if (t.state != waits::nothing && t.state != waits::gone) {
        g.caller = t.caller;
    }
    if (t.state == waits::warp) {
        g.what = t.what;
        g.mask = t.mask;
    }
    return g;
}

bool alike(const group &a, const group &b) {
    return a.home == b.home && a.state == b.state && a.caller == b.caller && a.what == b.what &&
           a.mask == b.mask;
}

void report_group(const group &g) {
    char what[64] = "";
    switch (g.state) {
    case waits::nothing:
        snprintf(what, sizeof what, "run");
        break;
    case waits::warp:
        snprintf(what, sizeof what, "wait in %s with mask %08x", name(g.what), g.mask);
        break;
    case waits::block:
        snprintf(what, sizeof what, "wait in __syncthreads");
        break;
    case waits::cluster:
        snprintf(what, sizeof what, "wait for their cluster");
        break;
    case waits::grid:
        snprintf(what, sizeof what, "wait for the grid");
        break;
    default:
        snprintf(what, sizeof what, "have exited");
    }
    report("    block (%u, %u, %u): %u threads %s%s%s", g.home->index.x, g.home->index.y,
           g.home->index.z, g.count, what, g.caller ? ", called by " : "",
           g.caller ? place(g.caller).c_str() : "");
}

} // namespace

void report_waits(const std::vector<thread> &threads, const char *what) {
    std::vector<group> groups;
    for (const thread &t : threads) {
        const group wanted = of(t);
        size_t i = 0;
        while (i < groups.size() && !alike(groups[i], wanted)) {
            ++i;
        }
        if (i == groups.size()) {
            groups.push_back(wanted);
        }
        ++groups[i].count;
    }
    fault(cudaErrorLaunchTimeout, "%s: %s", place(kernel()).c_str(), what);
    for (const group &g : groups) {
        report_group(g);
    }
}

} // namespace hostcuda
