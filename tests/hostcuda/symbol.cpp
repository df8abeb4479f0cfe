/* Names of addresses, for reports. Kernels are hidden from the dynamic linker, so their names
   are read from the file's symbol table. */
#include "hostcuda.h"
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <map>
#include <set>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hostcuda {

std::string without_types(std::string name) {
    /* demangled names of templates begin with what they return */
    for (const std::string part : {"(anonymous namespace)::", "void "}) {
        for (size_t at; (at = name.find(part)) != std::string::npos;) {
            name.erase(at, part.size());
        }
    }
    return name.substr(0, name.find('('));
}

std::string readable(const char *symbol) {
    int status;
    char *text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
    std::string name = status == 0 ? text : symbol;
    free(text);
    return without_types(name);
}

namespace {

/* The name of the function around `offset` in that ELF file, loaded at `base`; empty: not found. */
std::string function_at(const char *file, size_t size, size_t base, size_t offset) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)file;
    if (header->e_type == ET_EXEC) {
        offset += base;
    }
    const ElfW(Shdr) *sections = (const ElfW(Shdr) *)(file + header->e_shoff);
    if (header->e_shoff == 0 || header->e_shoff + header->e_shnum * sizeof *sections > size) {
        return "";
    }
    for (unsigned i = 0; i < header->e_shnum; ++i) {
        if (sections[i].sh_type != SHT_SYMTAB) {
            continue;
        }
        const ElfW(Sym) *symbols = (const ElfW(Sym) *)(file + sections[i].sh_offset);
        const char *names = file + sections[sections[i].sh_link].sh_offset;
        for (size_t s = 0; s < sections[i].sh_size / sizeof *symbols; ++s) {
            const ElfW(Sym) &symbol = symbols[s];
            if ((symbol.st_info & 0xf) == STT_FUNC && offset >= symbol.st_value &&
                offset < symbol.st_value + symbol.st_size) {
                return readable(names + symbol.st_name);
            }
        }
    }
    return "";
}

std::string function_in(const char *path, size_t base, size_t offset) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    std::string name;
    if (file >= 0 && fstat(file, &status) == 0) {
        const size_t size = (size_t)status.st_size;
        void *content = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
        if (content != MAP_FAILED) {
            name = function_at((const char *)content, size, base, offset);
            munmap(content, size);
        }
    }
    if (file >= 0) {
        close(file);
    }
    return name;
}

std::string look_up(const void *address) {
    Dl_info found;
    if (!dladdr(address, &found) || !found.dli_fname) {
        return "?";
    }
    const size_t offset = (size_t)((const char *)address - (const char *)found.dli_fbase);
    const std::string name = function_in(found.dli_fname, (size_t)found.dli_fbase, offset);
    const char *slash = strrchr(found.dli_fname, '/');
    char text[128];
    snprintf(text, sizeof text, "%s+0x%zx", slash ? slash + 1 : found.dli_fname, offset);
    return name.empty() ? text : name + " (" + text + ")";
}

} // namespace

const std::string &place(const void *address) {
    static std::map<const void *, std::string> known;
    auto entry = known.find(address);
    if (entry == known.end()) {
        entry = known.emplace(address, look_up(address)).first;
    }
    return entry->second;
}

void called(const void *address) {
    static std::set<const void *> known;
    if (known.insert(address).second) {
        report("calls %s", place(address).c_str());
    }
}

} // namespace hostcuda
