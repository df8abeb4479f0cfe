/* The happens-before order of launches, copies and fills: a vector clock over chains. A chain is
   a list of operations, each of which happens after all earlier ones: a stream's. The host is chain
   0, and its tick advances when it enqueues something. */
#include "race.h"
#include <map>

namespace hostcuda {
namespace race {

void past::join(const past &other) {
    if (ticks.size() < other.ticks.size()) {
        ticks.resize(other.ticks.size());
    }
    for (size_t i = 0; i < other.ticks.size(); ++i) {
        ticks[i] = max(ticks[i], other.ticks[i]);
    }
}

namespace {

/* Operations of a stream to which events may still point. */
constexpr size_t KEPT = 256;

struct operation_entry {
    uint32_t chain, tick;
    const void *kernel;
};

struct stream_history {
    uint64_t first = 0;      /* number of the operation before the first kept one */
    std::deque<past> passed; /* the past after each */
};

std::vector<operation_entry> operations = {{0, 0, nullptr}};
std::vector<uint32_t> ticks = {0}; /* of each chain so far */
std::map<cudaStream_t, stream_history> histories;
past host;
uint32_t host_operation; /* of the host's current tick; 0: without an access so far */

bool running;
uint32_t running_operation;
past running_past;

uint32_t &tick_in(past &p, size_t chain) {
    if (p.ticks.size() <= chain) {
        p.ticks.resize(chain + 1);
    }
    return p.ticks[chain];
}

uint32_t new_operation(past &p, size_t chain) {
    tick_in(p, chain) = ++ticks[chain];
    operations.push_back({(uint32_t)chain, ticks[chain], nullptr});
    return (uint32_t)operations.size() - 1;
}

/* Runs what happens after all of `p`, in a chain that `p` fully contains. */
void start(past p) {
    running_past = std::move(p);
    running = true;
    size_t chain = 1;
    while (chain < ticks.size() && tick_in(running_past, chain) != ticks[chain]) {
        ++chain;
    }
    if (chain == ticks.size()) {
        ticks.push_back(0);
    }
    running_operation = new_operation(running_past, chain);
}

} // namespace

std::shared_ptr<const past> issue() {
    if (!on) {
        return nullptr;
    }
    auto known = std::make_shared<past>(host);
    tick_in(*known, 0) = ticks[0];
    tick_in(host, 0) = ++ticks[0];
    host_operation = 0;
    return known;
}

void begin_operation(cudaStream_t stream, const std::shared_ptr<const past> &issued,
                     const std::vector<mark> &after) {
    if (!on) {
        return;
    }
    past p = issued ? *issued : past();
    stream_history &own = histories[stream];
    if (!own.passed.empty()) {
        p.join(own.passed.back());
    }
    for (const mark &m : after) {
        const stream_history &other = histories[m.stream];
        if (m.number > other.first && m.number - other.first <= other.passed.size()) {
            p.join(other.passed[m.number - other.first - 1]);
        }
    }
    start(std::move(p));
}

void end_operation(cudaStream_t stream) {
    if (on) {
        running = false;
        histories[stream].passed.push_back(running_past);
    }
}

void host_waited(cudaStream_t stream, uint64_t number) {
    if (!on) {
        return;
    }
    stream_history &h = histories[stream];
    if (number > h.first && number - h.first <= h.passed.size()) {
        host.join(h.passed[number - h.first - 1]);
    }
    for (; h.passed.size() > KEPT; h.passed.pop_front()) {
        ++h.first;
    }
    tick_in(host, 0) = ticks[0];
}

void reset_order() {
    operations.resize(1);
    ticks.assign(1, 0);
    histories.clear();
    host = past();
    host_operation = 0;
    running = false;
    forget_reported();
}

bool in_operation() {
    return running;
}

uint32_t operation_now() {
    if (running) {
        return running_operation;
    }
    if (!host_operation) {
        tick_in(host, 0) = ticks[0];
        operations.push_back({0, ticks[0], nullptr});
        host_operation = (uint32_t)operations.size() - 1;
    }
    return host_operation;
}

bool operation_before(uint32_t operation) {
    const operation_entry &o = operations[operation];
    const past &p = running ? running_past : host;
    return o.chain < p.ticks.size() && p.ticks[o.chain] >= o.tick;
}

void name_operation(const void *kernel) {
    operations[running_operation].kernel = kernel;
}

std::string operation_name(uint32_t operation) {
    const operation_entry &o = operations[operation];
    if (o.kernel) {
        const std::string &name = place(o.kernel);
        return name.substr(0, name.find(" ("));
    }
    return o.chain == 0 ? "the host" : "a copy, fill or product";
}

} // namespace race
} // namespace hostcuda
