/* Reports of races. */
#include "race.h"
#include <dlfcn.h>
#include <set>

namespace hostcuda {
namespace race {

const char anchor = 0;

namespace {

constexpr size_t MOST = 40; /* reports; later races are only counted */

std::set<std::pair<int32_t, int32_t>> told;
unsigned count;

const void *address_of(int32_t code) {
    return &anchor + code;
}

std::string trimmed(std::string line) {
    while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) {
        line.pop_back();
    }
    return line.substr(line.rfind('/') == std::string::npos ? 0 : line.rfind('/') + 1);
}

/* "device.cuh:105 in optimize, called at optimizer.cu:40" by binutils' addr2line; without it an
   offset into the file. */
std::string line_of(int32_t code) {
    const void *address = address_of(code);
    Dl_info found;
    std::string text;
    if (code && dladdr(address, &found) && found.dli_fname) {
        char command[512], line[512];
        /* the call before the return address */
        const size_t offset = (size_t)((const char *)address - (const char *)found.dli_fbase) - 1;
        snprintf(command, sizeof command, "addr2line -i -f -s -C -e '%s' 0x%zx 2>/dev/null",
                 found.dli_fname, offset);
        FILE *output = popen(command, "r");
        std::string last;
        for (int n = 0; output && fgets(line, sizeof line, output); ++n) {
            const std::string function = trimmed(line);
            if (!fgets(line, sizeof line, output)) {
                break;
            }
            const std::string at = trimmed(line), file = at.substr(0, at.find(" ("));
            if (n == 0 && at[0] != '?') {
                text = file + " in " + without_types(function);
            } else {
                last = ", called at " + file; /* the kernel's own line is last */
            }
        }
        text += text.empty() ? "" : last;
        if (output) {
            pclose(output);
        }
    }
    return text.empty() ? place(address) : text;
}

std::string verb(way how) {
    const char *const verbs[] = {"a read", "a write", "an atomic", "the start", "the end"};
    return verbs[(int)how];
}

std::string actor(const access &a, bool kernel) {
    if (!kernel) {
        return "";
    }
    char text[80];
    snprintf(text, sizeof text, " by block %u, thread %u", a.block,
             a.warp * (unsigned)warpSize + (unsigned)__builtin_ctz(a.lanes));
    return text;
}

std::string described(const access &a, bool of_other) {
    const std::string name = operation_name(a.operation);
    const bool kernel = name.compare(0, 2, "a ") != 0 && name != "the host";
    if (a.how == way::start || a.how == way::end) {
        return verb(a.how) + " of block " + std::to_string(a.block);
    }
    return verb(a.how) + actor(a, kernel) + (of_other || !kernel ? " of " + name : "") +
           (a.code ? " at " + line_of(a.code) : "");
}

} // namespace

int32_t code_of(const void *address) {
    return address ? (int32_t)((const char *)address - &anchor) : 0;
}

bool report_race(const access &first, const access &second, const std::string &what) {
    ++count;
    if (!told.insert({first.code, second.code}).second || told.size() > MOST) {
        return false;
    }
    const bool other = first.operation != second.operation;
    const std::string text = "race in " + operation_name(second.operation) + " on " + what + ": " +
                             described(first, other) + "; " + described(second, false) +
                             "; nothing orders them";
    if (!in_operation()) {
        fault(cudaErrorLaunchFailure, "%s", text.c_str());
        take_count();
    } else {
        report("%s", text.c_str());
    }
    return true;
}

void forget_reported() {
    told.clear();
    count = 0;
}

unsigned take_count() {
    const unsigned taken = count;
    count = 0;
    return taken;
}

} // namespace race
} // namespace hostcuda
