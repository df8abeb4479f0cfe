#include "count.h"

namespace hostcuda {
namespace count {

bool on;

namespace {

constexpr size_t SECTOR = 32;
enum { READ, WRITTEN, TOUCHED, STAMPS };

struct bytes {
    uint64_t of[2]; /* read, written */
    std::string text() const {
        return std::to_string(of[READ]) + "+" + std::to_string(of[WRITTEN]);
    }
};

struct progress {
    uint32_t interval; /* since the last dependency; numbers are unique */
    unsigned met;
};

std::vector<progress> blocks; /* by rank in the gang */
uint32_t intervals, launch_interval;
unsigned most;
uint64_t touched;
bytes device, pinned, shared, cluster;

void next(progress &p) {
    p.interval = ++intervals;
    most = max(most, ++p.met);
}

} // namespace

void open_launch(size_t gang) {
    blocks.assign(gang, {});
    launch_interval = ++intervals;
    most = 0;
    touched = 0;
    device = pinned = shared = cluster = {};
}

void open_block(const block &b) {
    blocks[b.rank] = {++intervals, 0};
}

void met_barrier() {
    next(blocks[current->home->rank]);
}

void met_gang_barrier() {
    for (progress &p : blocks) {
        next(p);
    }
}

void met_memory(const char *kind, uint32_t *stamps, size_t offset, size_t size, bool write) {
    const bool of_device = strcmp(kind, "device") == 0;
    const uint32_t interval = blocks[current->home->rank].interval;
    for (size_t sector = offset / SECTOR; size && sector <= (offset + size - 1) / SECTOR;
         ++sector) {
        uint32_t *of = stamps + sector * STAMPS;
        if (of[write] != interval) {
            of[write] = interval;
            (of_device ? device : pinned).of[write] += SECTOR;
        }
        if (of_device && of[TOUCHED] != launch_interval) {
            of[TOUCHED] = launch_interval;
            touched += SECTOR;
        }
    }
}

void met_shared(size_t size, bool write, bool own) {
    (own ? shared : cluster).of[write] += size;
}

void copied(size_t size) {
    if (on) {
        report("count copy %zu", size);
    }
}

void close_launch(const launch &work) {
    const std::string name = place(work.kernel);
    report("count %s blocks=%zu dependencies=%u device=%s touched=%llu pinned=%s shared=%s "
           "cluster=%s",
           name.substr(0, name.find(" (")).c_str(), (size_t)work.grid.x * work.grid.y * work.grid.z,
           most + 1, device.text().c_str(), (unsigned long long)touched, pinned.text().c_str(),
           shared.text().c_str(), cluster.text().c_str());
}

} // namespace count
} // namespace hostcuda
