/* The access history of every word of memory, and the check at each access. */
#include "race.h"
#include "count.h"
#include <algorithm>
#include <sys/mman.h>

namespace hostcuda {
namespace race {

bool on;

namespace {

constexpr size_t WORD = 4;

struct cell {
    access write;
    access other;   /* the first of the reads and atomics since; further ones */
    uint32_t more;  /* are in this list; 0: none */
    uint32_t visit; /* for shared memory: the block of this history */
};

/* The same access by threads of one block that have the same clock: lanes by warp. */
struct crowd {
    access a; /* by one of them */
    uint32_t lanes[THREADS_LIMIT / 32];
    uint32_t next;
};

struct region {
    const char *start, *end;
    const char *kind;
    const void *made;
    cell *cells; /* zero at first; only touched pages use memory */
};

/* The shared memory of one block of the gang. */
struct shared_region {
    region of;
    uint32_t visit; /* the block of the following */
    bool lent;      /* another block used it */
    access end;     /* of that block */
};

std::vector<region> regions; /* by address */
const region *last;
std::vector<shared_region> shared_regions; /* of each block of the gang */
std::vector<crowd> crowds(1);
uint32_t unused; /* of `crowds` */

/* Destroyed first at the program's end: accesses of later destructors are not watched. */
struct watch {
    ~watch() {
        on = false;
    }
} the_watch;

cell *new_cells(size_t bytes) {
    void *cells = mmap(nullptr, (bytes + WORD) / WORD * sizeof(cell), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED) {
        perror("hostcuda: no memory to watch accesses with");
        abort();
    }
    return (cell *)cells;
}

const region *region_of(const char *at) {
    if (last && at >= last->start && at < last->end) {
        return last;
    }
    auto found = std::upper_bound(regions.begin(), regions.end(), at,
                                  [](const char *a, const region &r) { return a < r.end; });
    if (found == regions.end() || at < found->start) {
        return nullptr;
    }
    return last = &*found;
}

/* ---- The reads and atomics of a word ---- */

void release(uint32_t list) {
    while (list) {
        const uint32_t next = crowds[list].next;
        crowds[list].next = unused;
        unused = list;
        list = next;
    }
}

uint32_t take(const access &a, uint32_t next) {
    uint32_t index = unused;
    if (index) {
        unused = crowds[index].next;
    } else {
        index = (uint32_t)crowds.size();
        crowds.push_back({});
    }
    crowd &c = crowds[index];
    memset(c.lanes, 0, sizeof c.lanes);
    c.a = a;
    c.lanes[a.warp] = a.lanes;
    c.next = next;
    return index;
}

bool before(const access &a, const access &now) {
    if (a.operation != now.operation) {
        return operation_before(a.operation);
    }
    return !current || before_current(a);
}

/* Those of one warp in it; false: none. */
bool of_warp(const crowd &c, unsigned warp, access *a) {
    *a = c.a;
    a->warp = (uint16_t)warp;
    a->lanes = c.lanes[warp];
    return a->lanes != 0;
}

bool before(const crowd &c, const access &now) {
    access a;
    bool all = true;
    for (unsigned warp = 0; warp < THREADS_LIMIT / 32 && all; ++warp) {
        all = !of_warp(c, warp, &a) || before(a, now);
    }
    return all;
}

bool same_but_thread(const access &a, const access &b) {
    return a.operation == b.operation && a.block == b.block && a.when == b.when &&
           a.bytes == b.bytes && a.how == b.how;
}

/* Whether `now` includes `a`, if that happened before. */
bool covers(const access &now, const access &a) {
    return a.how == now.how && !(a.bytes & ~now.bytes);
}

/* Adds `now` to them. */
void remember(cell &c, const access &now) {
    if (same_but_thread(c.other, now) && c.other.warp == now.warp) {
        c.other.lanes |= now.lanes;
        return;
    }
    for (uint32_t list = c.more; list; list = crowds[list].next) {
        if (same_but_thread(crowds[list].a, now)) {
            crowds[list].lanes[now.warp] |= now.lanes;
            return;
        }
    }
    for (uint32_t *link = &c.more; *link;) {
        crowd &old = crowds[*link];
        if (covers(now, old.a) && before(old, now)) {
            const uint32_t gone = *link;
            *link = old.next;
            old.next = unused;
            unused = gone;
        } else {
            link = &old.next;
        }
    }
    if (!c.other.operation || (covers(now, c.other) && before(c.other, now))) {
        c.other = now;
    } else {
        c.more = take(now, c.more);
    }
}

/* ---- One access ---- */

std::string described(const char *at, const region &r) {
    char text[160];
    if (!r.kind) {
        const size_t rank = (size_t)((const shared_region *)&r - shared_regions.data());
        snprintf(text, sizeof text, "shared memory of block %u, byte %td",
                 number(cluster_block((unsigned)rank)), at - r.start);
        return text;
    }
    snprintf(text, sizeof text, "byte %td of %td of %s memory from ", at - r.start, r.end - r.start,
             r.kind);
    return text + place(r.made);
}

void check(const access &old, const access &now, const char *at, const region &r) {
    if (old.operation && (old.bytes & now.bytes) && !before(old, now)) {
        report_race(old, now, described(at, r));
    }
}

void meet(cell &c, const access &now, const char *at, const region &r) {
    const bool alone = now.how != way::read && now.how != way::atomic;
    check(c.write, now, at, r);
    if (now.how != way::read || c.more || c.other.how == way::atomic) {
        if (c.other.operation && (alone || c.other.how != now.how)) {
            check(c.other, now, at, r);
        }
        for (uint32_t list = c.more; list; list = crowds[list].next) {
            access old = crowds[list].a;
            for (unsigned warp = 0; warp < THREADS_LIMIT / 32 && (alone || old.how != now.how);
                 ++warp) {
                if (of_warp(crowds[list], warp, &old)) {
                    check(old, now, at, r);
                }
            }
        }
    }
    if (!alone) {
        remember(c, now);
        return;
    }
    c.write = now;
    if (now.bytes == 0xf || !(c.other.bytes & ~now.bytes)) {
        release(c.more);
        c.more = 0;
        c.other = access();
    }
}

/* Whether the same thread repeats its access with the same clock, without a write since. */
bool again(const cell &c, const access &now) {
    const access &a = now.how == way::write ? c.write : c.other;
    return same_but_thread(a, now) && a.warp == now.warp && (a.lanes & now.lanes) == now.lanes &&
           (now.how == way::read || (now.how == way::write && !c.other.operation));
}

access access_now(way how, int32_t code) {
    access now = {};
    if (current) {
        now = current_access();
    } else {
        now.lanes = 1;
    }
    now.operation = operation_now();
    now.how = how;
    now.code = code;
    return now;
}

/* `visited`: 0, or that of the block in its shared memory. */
void met_words(const char *at, size_t size, access now, const region &r, uint32_t visited) {
    while (size > 0) {
        const size_t offset = (size_t)(at - r.start), within = offset % WORD;
        const size_t bytes = std::min(WORD - within, size);
        now.bytes = (uint8_t)(((1u << bytes) - 1) << within);
        cell &c = r.cells[offset / WORD];
        if (visited && c.visit != visited) {
            release(c.more);
            c = cell();
            c.visit = visited;
        }
        if (!again(c, now)) {
            meet(c, now, at, r);
        }
        at += bytes;
        size -= bytes;
    }
}

/* ---- Shared memory ---- */

shared_region &shared_of(const block &b) {
    const char *start = (const char *)shared_memory;
    while (shared_regions.size() <= b.rank) {
        const region whole = {start, start + SHARED_LIMIT, nullptr, nullptr,
                              new_cells(SHARED_LIMIT)};
        shared_regions.push_back({whole, 0, false, {}});
    }
    shared_region &shared = shared_regions[b.rank];
    if (shared.visit != visit(b)) {
        shared.visit = visit(b);
        shared.lent = false;
        shared.end = access();
    }
    return shared;
}

void met_shared(const char *at, size_t size, const access &now, const block &home) {
    shared_region &shared = shared_of(home);
    if (&home != current->home) {
        access start = {now.operation, number(home), 1, 1, 0, 0xf, way::start, 0};
        shared.lent = true;
        if (!before(start, now)) {
            report_race(start, now, described(at, shared.of));
        } else if (shared.end.operation) {
            report_race(shared.end, now, described(at, shared.of));
        }
    }
    met_words(at, size, now, shared.of, shared.visit);
}

} // namespace

/* Accesses by other blocks must have happened before. */
void close_block(const block &b) {
    shared_region &shared = shared_of(b);
    if (!shared.lent) {
        return;
    }
    at_barrier(b); /* what one of its threads knows delays the end */
    shared.end = access_now(way::end, 0);
    shared.end.bytes = 0xf;
    for (size_t i = 0; i < b.shared.size(); ++i) {
        cell &c = shared.of.cells[i];
        if (c.visit == shared.visit) {
            meet(c, shared.end, shared.of.start + i * WORD, shared.of);
        }
    }
}

void met(const void *address, size_t size, way how, const void *code) {
    const char *at = (const char *)address;
    if (!on && !(count::on && current)) {
        return;
    }
    const block *home = home_of(at);
    const region *r = home ? nullptr : region_of(at);
    size = r ? std::min(size, (size_t)(r->end - at)) : size;
    if (home && on) {
        met_shared(at, size, access_now(how, code_of(code)), *home);
    } else if (home) {
        count::met_shared(size, how == way::write, home == current->home);
    } else if (r && on) {
        met_words(at, size, access_now(how, code_of(code)), *r, 0);
    } else if (r) {
        count::met_memory(r->kind, (uint32_t *)r->cells, (size_t)(at - r->start), size,
                          how == way::write);
    }
}

void watch_memory(const void *at, size_t size, const char *kind, const void *made) {
    if (!on && !count::on) {
        return;
    }
    const region r = {(const char *)at, (const char *)at + size, kind, made, new_cells(size)};
    regions.insert(std::upper_bound(regions.begin(), regions.end(), r,
                                    [](const region &a, const region &b) { return a.end < b.end; }),
                   r);
    last = nullptr;
}

void forget_memory(const void *at) {
    for (auto r = regions.begin(); r != regions.end(); ++r) {
        if (r->start == at) {
            const size_t bytes = (size_t)(r->end - r->start);
            munmap(r->cells, (bytes + WORD) / WORD * sizeof(cell));
            regions.erase(r);
            break;
        }
    }
    last = nullptr;
}

} // namespace race
} // namespace hostcuda
