/* HOSTCUDA_WEAK=1: a block's stores to memory that others can read stay private. A __threadfence
   publishes those that happened before it, the end of the launch all: until then other blocks
   read the old values. Blocks run one after the other, so it is enough to restore the old words
   when a block ends. An atomic publishes its own word. Blocks of a cluster or a cooperative
   grid, which take turns, publish all stores at once. */
#include "race.h"
#include <unordered_map>

namespace hostcuda {
namespace race {

namespace {

constexpr size_t WORD = 4;

struct held {
    uint32_t old;
    uint8_t bytes; /* stored bytes, a bit each */
    access by;
};

struct stored {
    char *at;
    uint32_t value;
    uint8_t bytes;
};

bool weak;
std::unordered_map<char *, held> buffer; /* of the running block, by word */
std::vector<std::vector<stored>> ended;  /* of ended blocks */

void put(char *at, uint32_t value, uint8_t bytes) {
    for (size_t i = 0; i < WORD; ++i) {
        if (bytes >> i & 1) {
            at[i] = (char)(value >> 8 * i);
        }
    }
}

/* Little-endian, like put(). */
uint32_t get(const char *at) {
    uint32_t value = 0;
    for (size_t i = 0; i < WORD; ++i) {
        value |= (uint32_t)(unsigned char)at[i] << 8 * i;
    }
    return value;
}

} // namespace

void weak_open_launch(size_t gang) {
    weak = on && setting().weak && gang == 1;
}

void weak_store(const void *at, size_t size) {
    if (!weak || !current) {
        return;
    }
    for (char *byte = (char *)at, *end = byte + size; byte < end; ++byte) {
        char *word = (char *)((uintptr_t)byte / WORD * WORD);
        auto found = buffer.find(word);
        if (found == buffer.end()) {
            found = buffer.emplace(word, held{get(word), 0, {}}).first;
        }
        found->second.bytes |= (uint8_t)(1u << (byte - word));
        found->second.by = current_access();
    }
}

void weak_atomic(const void *at) {
    if (weak && !buffer.empty()) {
        buffer.erase((char *)((uintptr_t)at / WORD * WORD));
    }
}

/* Called before the thread's clock advances. */
void weak_fence() {
    for (auto i = buffer.begin(); weak && i != buffer.end();) {
        i = before_current(i->second.by) ? buffer.erase(i) : std::next(i);
    }
}

void weak_close_block() {
    if (!weak) {
        return;
    }
    ended.emplace_back();
    for (const auto &entry : buffer) {
        ended.back().push_back({entry.first, get(entry.first), entry.second.bytes});
        put(entry.first, entry.second.old, entry.second.bytes);
    }
    buffer.clear();
}

/* In any order of the blocks; without a seed the last block's first. */
void weak_close_launch() {
    while (!ended.empty()) {
        std::swap(ended[permuted ? chance(ended.size()) : ended.size() - 1], ended.back());
        for (const stored &s : ended.back()) {
            put(s.at, s.value, s.bytes);
        }
        ended.pop_back();
    }
    weak = false;
}

} // namespace race
} // namespace hostcuda
