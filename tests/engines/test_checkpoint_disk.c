/* The state directory: its lock, failing disks, and death at every step of writing. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cmocka.h>

#include "saved_run.h"

enum { POLL_MS = 60000 };

/* ---- Disk faults, by the linker's --wrap ---- */

enum fault { FAULT_NONE, FAULT_KILL, FAULT_ERROR };

static enum fault fault;
static const char *fault_call; /* the call that fails; NULL = any */
static int fault_after;        /* successful calls before the fault */

/* Whether the call must fail; may not return. */
static bool must_fail(const char *call) {
    if (fault == FAULT_NONE || (fault_call && strcmp(fault_call, call)) || fault_after-- > 0)
        return false;
    if (fault == FAULT_KILL)
        kill(getpid(), SIGKILL);
    fault = FAULT_NONE;
    errno = ENOSPC;
    return true;
}

ssize_t __real_write(int file, const void *bytes, size_t size);
ssize_t __wrap_write(int file, const void *bytes, size_t size);
int __real_fsync(int file);
int __wrap_fsync(int file);
int __real_linkat(int from, const char *old, int to, const char *newer, int flags);
int __wrap_linkat(int from, const char *old, int to, const char *newer, int flags);
int __real_unlinkat(int directory, const char *name, int flags);
int __wrap_unlinkat(int directory, const char *name, int flags);
int __real_renameat(int from, const char *old, int to, const char *newer);
int __wrap_renameat(int from, const char *old, int to, const char *newer);

ssize_t __wrap_write(int file, const void *bytes, size_t size) {
    return must_fail("write") ? -1 : __real_write(file, bytes, size);
}

int __wrap_fsync(int file) {
    return must_fail("fsync") ? -1 : __real_fsync(file);
}

int __wrap_linkat(int from, const char *old, int to, const char *newer, int flags) {
    return must_fail("linkat") ? -1 : __real_linkat(from, old, to, newer, flags);
}

int __wrap_unlinkat(int directory, const char *name, int flags) {
    return must_fail("unlinkat") ? -1 : __real_unlinkat(directory, name, flags);
}

int __wrap_renameat(int from, const char *old, int to, const char *newer) {
    return must_fail("renameat") ? -1 : __real_renameat(from, old, to, newer);
}

/* ---- The directory ---- */

static void makes_the_directory_for_its_owner(void **unused) {
    struct checkpoint *checkpoint;
    struct checkpoint_report report;
    struct error error;
    struct stat status;
    assert_int_equal(checkpoint_open(&checkpoint, state, NULL), 0);
    assert_int_equal(stat(state, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    assert_int_equal(checkpoint_load(checkpoint, NULL, NULL, &report, NULL), 0);
    assert_int_equal(checkpoint_finish(checkpoint, NULL, NULL), 0);
    checkpoint_close(&checkpoint);
    assert_null(checkpoint);
    const char *below_a_file = file_in_state("lock/state");
    assert_int_equal(checkpoint_open(&checkpoint, below_a_file, &error), -1);
    assert_int_equal(error.status, EX_IOERR);
    assert_non_null(strstr(error.text, below_a_file));
    assert_null(checkpoint);
}

/* The state directory and its parent are created: both entries must be synced. */
static void puts_new_directories_on_disk(void **unused) {
    enum { MADE = 2 };
    struct checkpoint *checkpoint;
    struct error error;
    char parent[sizeof state];
    snprintf(parent, sizeof parent, "%.*s", (int)(strrchr(state, '/') - state), state);
    for (int after = 0; after <= MADE; after++) {
        fault_call = "fsync";
        fault_after = after;
        fault = FAULT_ERROR;
        int status = checkpoint_open(&checkpoint, state, &error);
        fault = FAULT_NONE;
        assert_int_equal(status, after < MADE ? -1 : 0);
        if (status) {
            assert_int_equal(error.status, EX_IOERR);
            assert_non_null(strstr(error.text, state));
            assert_non_null(strstr(error.text, strerror(ENOSPC)));
        }
        checkpoint_close(&checkpoint);
        unlink(file_in_state("lock"));
        rmdir(state);
        assert_int_equal(rmdir(parent), 0);
    }
    assert_int_equal(checkpoint_open(&checkpoint, state, &error), 0);
    checkpoint_close(&checkpoint);
}

static void locks_out_a_second_process(void **unused) {
    struct checkpoint *checkpoint, *second;
    struct error error;
    char pid[24];
    snprintf(pid, sizeof pid, " %ld:", (long)getpid());
    assert_int_equal(checkpoint_open(&checkpoint, state, NULL), 0);
    assert_int_equal(checkpoint_open(&second, state, &error), -1);
    assert_int_equal(error.status, EX_UNAVAILABLE);
    assert_non_null(strstr(error.text, state));
    assert_non_null(strstr(error.text, pid));
    checkpoint_close(&checkpoint);
    assert_int_equal(checkpoint_open(&checkpoint, state, &error), 0);
    checkpoint_close(&checkpoint);
}

static void reports_when_it_is_on_disk(void **unused) {
    struct workload *workload = sensor_workload();
    struct checkpoint_report report;
    struct run *run = run_open_with_state(workload);
    take(run, workload, 0, 10);
    assert_int_equal(checkpoint_poll(run->checkpoint, &report, NULL), 0);
    assert_int_equal(checkpoint_start(run->checkpoint, &workload->config, run->learner, NULL), 0);
    assert_int_equal(checkpoint_start(run->checkpoint, &workload->config, run->learner, NULL), -1);
    struct pollfd ready = {.fd = checkpoint_descriptor(run->checkpoint), .events = POLLIN};
    assert_int_equal(poll(&ready, 1, POLL_MS), 1);
    assert_int_equal(checkpoint_poll(run->checkpoint, &report, NULL), 1);
    assert_int_equal(report.examples, 10);
    assert_int_equal(poll(&ready, 1, 0), 0);
    assert_int_equal(checkpoint_poll(run->checkpoint, &report, NULL), 0);
    run_close(run);
    workload_close(&workload);
}

/* ---- Failing disks, and death ---- */

/* Another checkpoint fails at the call with an error, and leaves the two earlier ones unchanged. */
static void assert_survives_error(struct run *run, const struct workload *workload,
                                  const char *call, int after) {
    struct checkpoint_report report;
    struct error error;
    fault_call = call;
    fault_after = after;
    fault = FAULT_ERROR;
    int status = checkpoint_start(run->checkpoint, &workload->config, run->learner, &error);
    if (!status)
        status = checkpoint_finish(run->checkpoint, &report, &error);
    fault = FAULT_NONE;
    assert_int_equal(status, -1);
    assert_int_equal(error.status, EX_IOERR);
    assert_non_null(strstr(error.text, state));
    assert_non_null(strstr(error.text, strerror(ENOSPC)));
    assert_int_equal(access(file_in_state("checkpoint.tmp"), F_OK), -1);
    learner_close(&run->learner);
    open_learner(run, workload, &cpu_engine);
    assert_int_equal(load(run, workload, &report, NULL), 1);
    assert_int_equal(report.examples, 20);
}

static void reports_a_full_disk(void **unused) {
    struct workload *workload = sensor_workload();
    struct run *run = write_two(workload);
    assert_survives_error(run, workload, "write", 0);
    assert_survives_error(run, workload, "fsync", 0);
    assert_survives_error(run, workload, "unlinkat", 0);
    assert_survives_error(run, workload, "renameat", 0);
    take(run, workload, 20, 10);
    save(run, workload); /* the next one succeeds */
    run_close(run);
    workload_close(&workload);
}

/* Another process writes a third checkpoint and dies at its disk call number `call`; returns
   whether it died. */
static bool die_at(const struct workload *workload, int call) {
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct run *run = run_open(workload);
        struct checkpoint_report report;
        if (checkpoint_open(&run->checkpoint, state, NULL) ||
            load(run, workload, &report, NULL) != 1)
            _exit(EX_SOFTWARE);
        take(run, workload, 20, 10);
        fault_call = NULL;
        fault_after = call;
        fault = FAULT_KILL;
        if (checkpoint_start(run->checkpoint, &workload->config, run->learner, NULL) ||
            checkpoint_finish(run->checkpoint, &report, NULL) != 1)
            _exit(EX_IOERR);
        _exit(EX_OK);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status))
        assert_int_equal(WEXITSTATUS(status), EX_OK);
    return WIFSIGNALED(status);
}

static void death_leaves_a_whole_checkpoint(void **unused) {
    enum { CALLS = 1000 }; /* more than the actual number */
    struct workload *workload = sensor_workload();
    bool died = true, old = false, newer = false;
    int deaths = 0;
    for (int call = 0; died && call < CALLS; call++) {
        run_close(write_two(workload));
        died = die_at(workload, call);
        deaths += died;
        struct checkpoint_report report;
        struct error error;
        struct run *run = run_open_with_state(workload);
        if (load(run, workload, &report, &error) != 1)
            fail_msg("after death at call %d: %s", call, error.text);
        old |= report.examples == 20;
        newer |= report.examples == 30;
        save(run, workload); /* leftovers do not matter */
        run_close(run);
        unlink(file_in_state("checkpoint.safetensors"));
        unlink(file_in_state("checkpoint.previous.safetensors"));
    }
    assert_false(died);
    assert_true(old && newer && deaths >= 6); /* write, fsync, unlink, link, rename, fsync */
    workload_close(&workload);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(makes_the_directory_for_its_owner, make_state,
                                        remove_state),
        cmocka_unit_test_setup_teardown(puts_new_directories_on_disk, make_state, remove_state),
        cmocka_unit_test_setup_teardown(locks_out_a_second_process, make_state, remove_state),
        cmocka_unit_test_setup_teardown(reports_when_it_is_on_disk, make_state, remove_state),
        cmocka_unit_test_setup_teardown(reports_a_full_disk, make_state, remove_state),
        cmocka_unit_test_setup_teardown(death_leaves_a_whole_checkpoint, make_state, remove_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
