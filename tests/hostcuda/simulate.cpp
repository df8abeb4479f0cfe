#include "simulate.h"
#include <dlfcn.h>
#include <fstream>
#include <map>
#include <math.h>
#include <stdlib.h>

namespace hostcuda {
namespace simulate {

namespace {

constexpr size_t CHUNK = 256;    /* bytes: granularity of changes */
constexpr size_t GAP = 16 << 10; /* bytes: largest gap within one copy */
constexpr size_t LARGE =
    4 << 20; /* bytes: of larger memory only parts that this runtime has written are read */
constexpr double SMALL = 1e-2; /* a difference is relative to |number| + SMALL */
constexpr double NEAR = 1e-3;  /* of two doubles that might be floats */
constexpr int TO_DEVICE = 1, TO_HOST = 2;

/* The content of 8 bytes. */
enum content : uint8_t { FLOATS, DOUBLE, EITHER };

/* An allocation in the simulator. */
struct mirror {
    std::vector<char> known;       /* the simulator's content; empty: unknown */
    std::vector<uint8_t> contents; /* of each 8 bytes */
};

struct extent {
    unsigned x, y, z;
};

/* GPGPU-Sim's functions. */
struct simulator {
    int (*link)(void *, int, const char *, unsigned, void *, void *);
    void (*register_kernel)(void **, const char *, char *, const char *, int, void *, void *,
                            void *, void *);
    unsigned (*configure)(extent, extent, size_t, void *);
    int (*launch)(const char *, extent, extent, const void **, size_t, void *);
    int (*copy)(void *, const void *, size_t, int);
    int (*wait)(void);
    std::map<std::string, std::string> symbols;      /* of the PTX file's kernels, by name */
    std::map<const void *, const std::string *> met; /* registered kernels */
};

simulator there;
std::map<char *, mirror> mirrors;
bool running; /* a kernel of this runtime */

/* The difference of two memories. */
struct difference {
    /* places of 8 bytes: written; unequal; unequal beyond rounding: integers, or one of two not
       finite */
    size_t changed, unequal, broken;
    double absolute, relative; /* the largest of numbers */
    std::string where;
};

/* ---- The library ---- */

template <typename F> bool find(void *library, const char *name, F *function) {
    *(void **)function = dlsym(library, name);
    if (!*function) {
        report("%s has no %s: is it GPGPU-Sim's libcudart.so?", setting().simulator, name);
    }
    return *function != nullptr;
}

/* The names of the file's kernels: ".entry NAME(". */
bool read_symbols(const char *path) {
    const std::string mark = ".entry ";
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        const size_t at = line.find(mark);
        if (at != std::string::npos) {
            const size_t from = at + mark.size();
            const std::string symbol = line.substr(from, line.find_first_of("( \r", from) - from);
            there.symbols[readable(symbol.c_str())] = symbol;
        }
    }
    if (there.symbols.empty()) {
        report("HOSTCUDA_PTX=%s has no kernel", path);
    }
    return !there.symbols.empty();
}

/* GPGPU-Sim appends the file's name to a directory's name in the environment's memory. */
void name_directory() {
    static char room[1 << 14] = "PTX_JIT_PATH=/";
    putenv(room);
}

bool load() {
    const char *ptx = getenv("HOSTCUDA_PTX");
    if (!ptx || *ptx != '/' || !getenv("HOSTCUDA_SIMULATED")) {
        report("HOSTCUDA_SIMULATOR needs HOSTCUDA_PTX, a whole path, and HOSTCUDA_SIMULATED");
        return false;
    }
    void *library = dlopen(setting().simulator, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!library) {
        report("%s", dlerror());
        return false;
    }
    if (!find(library, "cuLinkAddFile_v2", &there.link) ||
        !find(library, "__cudaRegisterFunction", &there.register_kernel) ||
        !find(library, "__cudaPushCallConfiguration", &there.configure) ||
        !find(library, "cudaLaunchKernel", &there.launch) ||
        !find(library, "cudaMemcpy", &there.copy) ||
        !find(library, "cudaThreadSynchronize", &there.wait) || !read_symbols(ptx)) {
        return false;
    }
    name_directory();
    constexpr int PTX = 1;
    return there.link(nullptr, PTX, ptx + 1, 0, nullptr, nullptr) == 0;
}

/* The kernel's symbol in PTX; nullptr, after a report, if not found. */
const std::string *registered(const void *kernel) {
    auto met = there.met.find(kernel);
    if (met != there.met.end()) {
        return met->second;
    }
    const std::string name = place(kernel).substr(0, place(kernel).find(" ("));
    auto symbol = there.symbols.find(name);
    if (symbol == there.symbols.end()) {
        report("%s is not in HOSTCUDA_PTX", name.c_str());
        return nullptr;
    }
    std::string text = symbol->second;
    there.register_kernel((void **)1, (const char *)kernel, &text[0], text.c_str(), -1, nullptr,
                          nullptr, nullptr, nullptr);
    return there.met[kernel] = &symbol->second;
}

/* ---- Memory ---- */

mirror &mirror_of(char *at, size_t size) {
    mirror &m = mirrors[at];
    if (m.contents.size() != (size + 7) / 8) {
        m.known.clear();
        m.contents.assign((size + 7) / 8, FLOATS);
    }
    return m;
}

/* Copies changes to the simulator, in as few copies as possible, since each waits for a thread. */
void send(char *at, size_t size) {
    mirror &m = mirror_of(at, size);
    const bool all = m.known.size() != size;
    m.known.resize(size);
    size_t begin = 0, end = 0; /* of the range to copy */
    for (size_t from = 0; from < size; from += CHUNK) {
        const size_t bytes = std::min(CHUNK, size - from);
        if (!all && memcmp(&m.known[from], at + from, bytes) == 0) {
            continue;
        }
        if (end > begin && from - end > GAP) {
            there.copy(at + begin, at + begin, end - begin, TO_DEVICE);
            begin = end;
        }
        begin = end > begin ? begin : from;
        end = from + bytes;
        memcpy(&m.known[from], at + from, bytes);
    }
    if (end > begin) {
        there.copy(at + begin, at + begin, end - begin, TO_DEVICE);
    }
}

/* Reads the simulator's results in a large allocation, for parts that this runtime has written. */
void receive_large(char *at, size_t size, const std::vector<char> &before) {
    for (size_t from = 0; from < size; from += CHUNK) {
        const size_t bytes = std::min(CHUNK, size - from);
        if (memcmp(at + from, &before[from], bytes) != 0) {
            there.copy(&mirrors[at].known[from], at + from, bytes, TO_HOST);
        }
    }
}

/* The same for adjacent allocations. */
void receive_span(const std::vector<std::pair<char *, size_t>> &side_by_side) {
    if (side_by_side.empty()) {
        return;
    }
    char *begin = side_by_side.front().first;
    std::vector<char> image((size_t)(side_by_side.back().first - begin) +
                            side_by_side.back().second);
    there.copy(image.data(), begin, image.size(), TO_HOST);
    for (const auto &one : side_by_side) {
        memcpy(mirrors[one.first].known.data(), &image[(size_t)(one.first - begin)], one.second);
    }
}

void receive(const std::map<char *, std::vector<char>> &before) {
    std::vector<std::pair<char *, size_t>> side_by_side;
    each_allocation([&](char *at, size_t size) {
        const char *end =
            side_by_side.empty() ? at : side_by_side.back().first + side_by_side.back().second;
        if (size > LARGE || (size_t)(at - end) > GAP) {
            receive_span(side_by_side);
            side_by_side.clear();
        }
        if (size > LARGE) {
            receive_large(at, size, before.at(at));
        } else {
            side_by_side.emplace_back(at, size);
        }
    });
    receive_span(side_by_side);
}

template <typename T> T at_byte(const char *memory, size_t byte) {
    T value;
    memcpy(&value, memory + byte, sizeof value);
    return value;
}

/* ---- Comparison ---- */

/* Whether the bits are those of an integer, or of nothing that a kernel computes: they flush
   denormal floats to zero. */
bool is_whole(uint32_t bits) {
    return bits << 1 != 0 && bits << 1 >> 24 == 0; /* -0 is a number */
}

bool is_whole(uint64_t bits) {
    return bits << 1 != 0 && bits << 1 >> 53 == 0;
}

/* How two numbers agree; not good: the difference exceeds rounding. */
struct verdict {
    bool good;
    double absolute, relative;
};

template <typename Number, typename Bits> verdict compare(const char *here, const char *simulated) {
    const double a = (double)at_byte<Number>(here, 0), b = (double)at_byte<Number>(simulated, 0);
    const Bits of_a = at_byte<Bits>(here, 0), of_b = at_byte<Bits>(simulated, 0);
    if (of_a == of_b || (std::isnan(a) && std::isnan(b))) {
        return {true, 0, 0};
    }
    const double absolute = fabs(a - b);
    const bool good = !is_whole(of_a) && !is_whole(of_b) && std::isfinite(absolute);
    return {good, absolute, absolute / (std::max(fabs(a), fabs(b)) + SMALL)};
}

/* For the content of up to 8 bytes. */
verdict compare(const char *here, const char *simulated, size_t bytes, uint8_t what) {
    const verdict whole = bytes == 8 ? compare<double, uint64_t>(here, simulated) : verdict();
    if (bytes == 8 && (what == DOUBLE || (what == EITHER && whole.good && whole.relative < NEAR))) {
        return whole;
    }
    verdict all = {true, 0, 0};
    for (size_t byte = 0; byte + 4 <= bytes; byte += 4) {
        const verdict one = compare<float, uint32_t>(here + byte, simulated + byte);
        all.good = all.good && one.good;
        all.absolute = std::max(all.absolute, one.absolute);
        all.relative = std::max(all.relative, one.relative);
    }
    return all;
}

/* `where` becomes that of the first broken place, else of the largest difference. */
void count(difference *d, const verdict &v, const std::string &where) {
    ++d->unequal;
    if (v.good ? !d->broken && v.relative >= d->relative : !d->broken) {
        d->where = where;
    }
    d->broken += !v.good;
    if (v.good) {
        d->absolute = std::max(d->absolute, v.absolute);
        d->relative = std::max(d->relative, v.relative);
    }
}

std::string described(const char *here, const char *simulated, size_t bytes, size_t byte,
                      size_t size) {
    char text[128];
    uint64_t a = 0, b = 0;
    memcpy(&a, here, bytes);
    memcpy(&b, simulated, bytes);
    snprintf(text, sizeof text, "byte %zu of %zu: %016llx here, %016llx there", byte, size,
             (unsigned long long)a, (unsigned long long)b);
    return text;
}

/* `before`: the content at the kernel's start. */
void compare_memory(const char *here, size_t size, const mirror &m, const std::vector<char> &before,
                    difference *d) {
    for (size_t byte = 0; byte + 4 <= size; byte += 8) {
        const char *simulated = &m.known[byte];
        const size_t bytes = std::min<size_t>(8, size - byte);
        const bool equal = memcmp(here + byte, simulated, bytes) == 0;
        d->changed += !equal || memcmp(simulated, &before[byte], bytes) != 0;
        if (!equal) {
            count(d, compare(here + byte, simulated, bytes, m.contents[byte / 8]),
                  described(here + byte, simulated, bytes, byte, size));
        }
    }
}

void report_launch(const launch &work, const std::string &symbol, const difference &d) {
    std::ofstream file(getenv("HOSTCUDA_SIMULATED"), std::ios::app);
    char text[512];
    snprintf(text, sizeof text,
             "{\"kernel\": \"%s\", \"grid\": [%u, %u, %u], \"threads\": %u, \"changed\": %zu, "
             "\"unequal\": %zu, \"broken\": %zu, \"absolute\": %.9g, \"relative\": %.9g, "
             "\"where\": \"%s\"}\n",
             symbol.c_str(), work.grid.x, work.grid.y, work.grid.z, work.block.x, d.changed,
             d.unequal, d.broken, d.absolute, d.relative, d.where.c_str());
    file << text;
}

/* ---- A launch ---- */

cudaError_t run_there(const launch &work) {
    const extent grid = {work.grid.x, work.grid.y, work.grid.z};
    const extent block = {work.block.x, work.block.y, work.block.z};
    std::vector<const void *> arguments = work.arguments;
    there.configure(grid, block, work.shared, nullptr);
    const int status = there.launch((const char *)work.kernel, grid, block, arguments.data(),
                                    work.shared, nullptr);
    there.wait();
    return status ? fault(cudaErrorLaunchFailure, "the simulator: error %d", status) : cudaSuccess;
}

} // namespace

void wrote(const void *at, size_t size) {
    if (!running || size < 8) {
        return;
    }
    auto found = mirrors.upper_bound((char *)at);
    if (found == mirrors.begin()) {
        return;
    }
    --found;
    const size_t byte = (size_t)((const char *)at - found->first);
    std::vector<uint8_t> &contents = found->second.contents;
    if (size == 8 && byte % 8 == 0 && byte / 8 < contents.size()) {
        contents[byte / 8] = DOUBLE;
    }
    constexpr size_t QUAD = 16; /* a float4 is not a store of many */
    for (size_t i = byte / 8; size > QUAD && i < (byte + size) / 8 && i < contents.size(); ++i) {
        contents[i] = contents[i] == FLOATS ? EITHER : contents[i];
    }
}

cudaError_t play(const launch &work) {
    static const bool loaded = load();
    const std::string *symbol = loaded ? registered(work.kernel) : nullptr;
    if (!symbol) {
        return hostcuda::note(cudaErrorInvalidDeviceFunction);
    }
    const access open;
    std::map<char *, std::vector<char>> before;
    each_allocation([&](char *at, size_t size) {
        send(at, size);
        before[at] = mirrors[at].known;
    });
    running = true;
    cudaError_t error = run(work);
    running = false;
    error = error ? error : run_there(work);
    if (error) {
        return error;
    }
    difference d = {};
    receive(before);
    each_allocation([&](char *at, size_t size) {
        const mirror &m = mirrors[at];
        compare_memory(at, size, m, before[at], &d);
        memcpy(at, m.known.data(), size);
    });
    report_launch(work, *symbol, d);
    return cudaSuccess;
}

} // namespace simulate
} // namespace hostcuda
