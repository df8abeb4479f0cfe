/* The happens-before order within a launch. Each thread has a clock that advances at every
   barrier and fence. A __syncthreads sets those of a block to one number, its `base`, so that
   all accesses with smaller clocks happened before. In addition a thread has clocks of its
   warp's lanes and, through fences and atomics, of other threads: a `known`. */
#include "race.h"
#include <map>

namespace hostcuda {
namespace race {

namespace {

/* All of a block's threads up to `floor`, and each up to its own number. */
struct part {
    uint32_t floor = 0;
    std::vector<uint32_t> threads; /* empty: nothing beyond the floor */
};

/* By block. Parts are immutable. */
using known = std::map<uint32_t, std::shared_ptr<const part>>;

struct thread_clock {
    uint32_t now;
    uint32_t lanes_base; /* the base for which `lanes` is valid */
    uint32_t lanes[32];  /* clocks of the warp's lanes that happened before */
    /* Since the block's last barrier; earlier ones are in the block's. */
    bool fenced;
    uint32_t fenced_floor, fenced_lanes[32];
    known sees;  /* happened before */
    known met;   /* will have happened before, after a fence */
    known gives; /* the fenced part of `sees` */
};

struct block_clock {
    uint32_t index, visit, base;
    unsigned first, threads;
    bool fenced;
    part fences;
    known sees, met, gives;
};

std::vector<thread_clock> clocks;                           /* by thread.number */
std::vector<block_clock> blocks;                            /* by block.rank */
std::map<std::pair<const void *, uint32_t>, known> atomics; /* address, visit of shared memory */
uint32_t visits, gang_base;
dim3 extent;

uint32_t grid_index(uint3 i) {
    return i.x + extent.x * (i.y + extent.y * i.z);
}

void join(std::shared_ptr<const part> &to, const std::shared_ptr<const part> &from) {
    if (!to || to == from) {
        to = from;
        return;
    }
    auto both = std::make_shared<part>(*to);
    both->floor = max(both->floor, from->floor);
    both->threads.resize(max(both->threads.size(), from->threads.size()));
    for (size_t i = 0; i < from->threads.size(); ++i) {
        both->threads[i] = max(both->threads[i], from->threads[i]);
    }
    to = both;
}

void join(known &to, const known &from) {
    for (const auto &entry : from) {
        join(to[entry.first], entry.second);
    }
}

block_clock &home(const thread &t) {
    return blocks[t.home->rank];
}

const uint32_t *lanes_of(thread_clock &c, uint32_t base) {
    if (c.lanes_base != base) {
        memset(c.lanes, 0, sizeof c.lanes);
        c.lanes_base = base;
    }
    return c.lanes;
}

/* One thread's fenced clocks become the block's. */
void gather_fences(block_clock &b, unsigned thread, thread_clock &c) {
    b.fenced = true;
    b.fences.floor = max(b.fences.floor, c.fenced_floor);
    b.fences.threads.resize(b.threads);
    const unsigned warp = thread / warpSize * warpSize;
    for (unsigned lane = 0; lane < warpSize && warp + lane < b.threads; ++lane) {
        uint32_t &of = b.fences.threads[warp + lane];
        of = max(of, c.fenced_lanes[lane]);
    }
}

/* A barrier of the block, at clock `next`. */
void pass(block_clock &b, uint32_t next) {
    for (unsigned i = 0; i < b.threads; ++i) {
        thread_clock &c = clocks[b.first + i];
        c.now = next;
        if (c.fenced) {
            gather_fences(b, i, c);
            c.fenced = false;
        }
        for (auto pair : {std::make_pair(&b.sees, &c.sees), std::make_pair(&b.met, &c.met),
                          std::make_pair(&b.gives, &c.gives)}) {
            if (!pair.second->empty()) {
                join(*pair.first, *pair.second);
                pair.second->clear();
            }
        }
    }
    b.base = next;
}

uint32_t newest(const block_clock &b) {
    uint32_t most = 0;
    for (unsigned i = 0; i < b.threads; ++i) {
        most = max(most, clocks[b.first + i].now);
    }
    return most;
}

/* Whether all of the access's lanes except `without` are known. */
bool knows(const known &k, const access &a, uint32_t without) {
    const auto found = k.find(a.block);
    if (found == k.end()) {
        return false;
    }
    const part &p = *found->second;
    for (unsigned lane = 0; lane < warpSize; ++lane) {
        const size_t thread = a.warp * (size_t)warpSize + lane;
        if (a.lanes & ~without & 1u << lane && p.floor < a.when &&
            (thread >= p.threads.size() || p.threads[thread] < a.when)) {
            return false;
        }
    }
    return true;
}

bool in_gang(uint32_t index) {
    for (const block_clock &b : blocks) {
        if (b.index == index) {
            return true;
        }
    }
    return false;
}

} // namespace

void open_launch(const launch &work, size_t gang, size_t threads) {
    extent = work.grid;
    clocks.resize(threads);
    blocks.resize(gang);
    atomics.clear();
    gang_base = 0;
    name_operation(work.kernel);
}

void open_block(const block &b) {
    block_clock &c = blocks[b.rank];
    c = {grid_index(b.index), ++visits, 1, b.first, b.threads, false, {}, {}, {}, {}};
    for (unsigned i = 0; i < b.threads; ++i) {
        thread_clock &t = clocks[b.first + i];
        t.now = 1;
        t.lanes_base = 0;
        t.fenced = false;
        t.sees.clear();
        t.met.clear();
        t.gives.clear();
    }
    gang_base = 0;
}

uint32_t visit(const block &b) {
    return blocks[b.rank].visit;
}

uint32_t number(const block &b) {
    return blocks[b.rank].index;
}

void at_barrier(const block &b) {
    block_clock &c = blocks[b.rank];
    pass(c, newest(c) + 1);
}

void at_gang_barrier() {
    uint32_t most = 0;
    for (const block_clock &b : blocks) {
        most = max(most, newest(b));
    }
    known sees, met, gives;
    for (block_clock &b : blocks) {
        pass(b, most + 1);
        join(sees, b.sees);
        join(met, b.met);
        join(gives, b.gives);
        if (b.fenced) {
            join(gives[b.index], std::make_shared<part>(b.fences));
        }
    }
    for (block_clock &b : blocks) {
        b.sees = sees;
        b.met = met;
        b.gives = gives;
    }
    gang_base = most + 1;
}

void at_warp_barrier(const warp &w, unsigned mask) {
    const uint32_t base = home(*w.first).base;
    uint32_t all[32] = {}, fenced[32] = {}, floor = 0;
    bool any = false;
    known sees, met, gives;
    for (unsigned lane = 0; lane < warpSize; ++lane) {
        if (!(mask >> lane & 1)) {
            continue;
        }
        thread_clock &c = clocks[w.first[lane].number];
        const uint32_t *lanes = lanes_of(c, base);
        for (unsigned other = 0; other < warpSize; ++other) {
            all[other] = max(all[other], lanes[other]);
            fenced[other] = max(fenced[other], c.fenced ? c.fenced_lanes[other] : 0);
        }
        any = any || c.fenced;
        floor = max(floor, c.fenced ? c.fenced_floor : 0);
        all[lane] = max(all[lane], c.now);
        join(sees, c.sees);
        join(met, c.met);
        join(gives, c.gives);
    }
    for (unsigned lane = 0; lane < warpSize; ++lane) {
        if (mask >> lane & 1) {
            thread_clock &c = clocks[w.first[lane].number];
            memcpy(c.lanes, all, sizeof all);
            memcpy(c.fenced_lanes, fenced, sizeof fenced);
            c.fenced = any;
            c.fenced_floor = floor;
            ++c.now;
            c.sees = sees;
            c.met = met;
            c.gives = gives;
        }
    }
}

void at_fence() {
    thread_clock &c = clocks[current->number];
    block_clock &b = home(*current);
    join(c.sees, b.met);
    join(c.sees, c.met);
    join(c.gives, b.sees);
    join(c.gives, c.sees);
    memcpy(c.fenced_lanes, lanes_of(c, b.base), sizeof c.fenced_lanes);
    c.fenced_lanes[current->lane] = c.now;
    c.fenced_floor = b.base - 1;
    c.fenced = true;
    ++c.now;
}

/* A block that has passed a barrier of its own counts at the next one only when all others have
   read the count as well: else its later count, which they need not have seen, would order all that
   it did before. One turn of theirs may already have passed. */
void let_others_read() {
    for (int turn = 0; turn < 2 && blocks.size() > 1; ++turn) {
        hostcuda_yield();
    }
}

void at_atomic(const void *at, half which) {
    thread_clock &c = clocks[current->number];
    block_clock &b = home(*current);
    const char *address = (const char *)at;
    const block *of = home_of(address);
    const std::pair<const void *, uint32_t> place = {address, of ? visit(*of) : 0};
    const auto found = atomics.find(place);
    const bool gives =
        which != half::load && (c.fenced || b.fenced || !c.gives.empty() || !b.gives.empty());
    if (which != half::store && found != atomics.end()) {
        join(c.met, found->second);
    }
    if (!gives) {
        if (which == half::store && found != atomics.end()) {
            atomics.erase(found);
        }
        return;
    }
    known &left = atomics[place];
    if (which == half::store) {
        left.clear();
    }
    join(left, b.gives);
    join(left, c.gives);
    block_clock fences = {b.index, 0, 0, b.first, b.threads, b.fenced, b.fences, {}, {}, {}};
    if (c.fenced) {
        gather_fences(fences, current->number - current->home->first, c);
    }
    join(left[b.index], std::make_shared<part>(fences.fences));
}

access current_access() {
    const thread_clock &c = clocks[current->number];
    access a = {};
    a.block = home(*current).index;
    a.when = c.now;
    a.lanes = 1u << current->lane;
    a.warp = (uint16_t)((current->number - current->home->first) / warpSize);
    return a;
}

bool before_current(const access &a) {
    thread_clock &c = clocks[current->number];
    const block_clock &b = home(*current);
    uint32_t known_lanes = 0;
    if (a.block == b.index) {
        if (a.when < b.base) {
            return true;
        }
        if (a.warp == (current->number - b.first) / warpSize) {
            const uint32_t *lanes = lanes_of(c, b.base);
            known_lanes = 1u << current->lane;
            for (unsigned lane = 0; lane < warpSize; ++lane) {
                known_lanes |= lanes[lane] >= a.when ? 1u << lane : 0;
            }
            if (!(a.lanes & ~known_lanes)) {
                return true;
            }
        }
    } else if (a.when < gang_base && in_gang(a.block)) {
        return true;
    }
    return (!c.sees.empty() && knows(c.sees, a, known_lanes)) ||
           (!b.sees.empty() && knows(b.sees, a, known_lanes));
}

} // namespace race
} // namespace hostcuda
