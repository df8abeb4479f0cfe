/* Reports the kernel and thread of a bad access, before it ends the program. */
#include "grid.h"
#include <signal.h>

namespace hostcuda {

namespace {

/* A separate stack, since the fault may be a stack overflow. */
alignas(16) char stack[64 << 10];
struct sigaction before, before_traps;

/* A trap of -fsanitize=alignment is an illegal instruction, at the address of the access. */
void report_trap(int, siginfo_t *info, void *) {
    if (current) {
        report("%s: misaligned access at %s", whereabouts().c_str(), place(info->si_addr).c_str());
    }
    sigaction(SIGILL, &before_traps, nullptr);
}

void on_crash(int, siginfo_t *info, void *) {
    if (current) {
        report("%s: bad access to %p", whereabouts().c_str(), info->si_addr);
    } else if (is_device(info->si_addr)) {
        report("host code reaches for %p, which is the device's", info->si_addr);
    }
    sigaction(SIGSEGV, &before, nullptr); /* the access is repeated, and ends the program */
}

} // namespace

void watch_accesses() {
#if !defined(__SANITIZE_ADDRESS__)
    struct sigaction now;
    if (sigaction(SIGSEGV, nullptr, &now) != 0 || now.sa_sigaction == on_crash) {
        return;
    }
    stack_t alternate = {};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    struct sigaction ours = {};
    ours.sa_sigaction = on_crash;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaltstack(&alternate, nullptr);
    before = now;
    sigaction(SIGSEGV, &ours, nullptr);
    ours.sa_sigaction = report_trap;
    sigaction(SIGILL, &ours, &before_traps);
#else
    (void)on_crash;
    (void)report_trap;
    (void)stack;
#endif
}

} // namespace hostcuda
