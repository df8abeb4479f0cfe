#include "fiber.h"
#include "hostcuda.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#if !defined(__x86_64__)
#    include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#    include <sanitizer/common_interface_defs.h>
#endif

namespace hostcuda {

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr size_t STACK_SIZE = 256 << 10;
#else
constexpr size_t STACK_SIZE = 64 << 10;
#endif
/* The kernel limits mappings, and a guard page splits one into two: later stacks have none. */
constexpr size_t GUARDED = 8192;
constexpr uint64_t CANARY = 0x5ca1ab1e0ddba11u;

std::vector<char *> stacks; /* bottoms; kept until the program ends */

char *new_stack() {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *mapping = mmap(nullptr, page + STACK_SIZE, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        perror("hostcuda: no memory for a thread's stack");
        abort();
    }
    if (stacks.size() < GUARDED) {
        mprotect(mapping, page, PROT_NONE);
    }
    return (char *)mapping + page;
}

char *stack_of(unsigned number) {
    while (stacks.size() <= number) {
        stacks.push_back(new_stack());
    }
    return stacks[number];
}

} // namespace

void fiber_adopt(fiber &self) {
    self.saved = nullptr;
#if defined(__SANITIZE_ADDRESS__)
    pthread_attr_t attributes;
    void *bottom;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &bottom, &self.size);
    pthread_attr_destroy(&attributes);
    self.bottom = (char *)bottom;
#endif
#if !defined(__x86_64__)
    static ucontext_t own;
    self.saved = &own;
#endif
}

bool fiber_whole(unsigned number) {
    uint64_t word;
    memcpy(&word, stacks[number], sizeof word);
    return word == CANARY;
}

void fiber_entered() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
}

#if defined(__x86_64__)

extern "C" void hostcuda_switch(void **save, void *load);
asm(".text\n"
    ".globl hostcuda_switch\n"
    ".hidden hostcuda_switch\n"
    ".type hostcuda_switch, @function\n"
    "hostcuda_switch:\n"
    "    pushq %rbp\n"
    "    pushq %rbx\n"
    "    pushq %r12\n"
    "    pushq %r13\n"
    "    pushq %r14\n"
    "    pushq %r15\n"
    "    movq %rsp, (%rdi)\n"
    "    movq %rsi, %rsp\n"
    "    popq %r15\n"
    "    popq %r14\n"
    "    popq %r13\n"
    "    popq %r12\n"
    "    popq %rbx\n"
    "    popq %rbp\n"
    "    ret\n"
    ".size hostcuda_switch, .-hostcuda_switch\n");

namespace {
/* What hostcuda_switch pops: six registers, the address to continue at, and an empty return
   address. */
enum { REGISTERS = 6, FRAME = REGISTERS + 2 };

void start(fiber &f, void (*entry)()) {
    void **top = (void **)(f.bottom + f.size);
    void **frame = top - FRAME;
    memset(frame, 0, FRAME * sizeof *frame);
    frame[REGISTERS] = (void *)entry;
    f.saved = frame;
}

void change(fiber &from, fiber &to) {
    hostcuda_switch(&from.saved, to.saved);
}
} // namespace

#else

namespace {
void start(fiber &f, void (*entry)()) {
    /* At the stack's far end, after the canary. */
    ucontext_t *context = (ucontext_t *)(f.bottom + 64);
    const size_t used = 64 + (sizeof *context + 63) / 64 * 64;
    getcontext(context);
    context->uc_stack.ss_sp = f.bottom + used;
    context->uc_stack.ss_size = f.size - used;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    f.saved = context;
}

void change(fiber &from, fiber &to) {
    swapcontext((ucontext_t *)from.saved, (ucontext_t *)to.saved);
}
} // namespace

#endif

void fiber_prepare(fiber &f, unsigned number, void (*entry)()) {
    f.bottom = stack_of(number);
    f.size = STACK_SIZE;
    f.fake = nullptr;
    ASAN_UNPOISON_MEMORY_REGION(f.bottom, f.size);
    memcpy(f.bottom, &CANARY, sizeof CANARY);
    start(f, entry);
}

void fiber_switch(fiber &from, fiber &to, bool last) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(last ? nullptr : &from.fake, to.bottom, to.size);
#else
    (void)last;
#endif
    change(from, to);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from.fake, nullptr, nullptr);
#endif
}

} // namespace hostcuda
