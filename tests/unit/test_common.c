/* Untrusted text, numbers for people, and the hash. */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/format.h"
#include "common/hash.h"
#include "common/machine.h"
#include "common/quantile.h"
#include "common/text.h"

enum { TEXT_SIZE = 64 };

static void assert_clean(const char *text, const char *cleaned, const char *copied) {
    char bytes[TEXT_SIZE], copy[TEXT_SIZE];
    strcpy(bytes, text);
    text_clean(bytes);
    assert_string_equal(bytes, cleaned);
    assert_string_equal(text_copy(copy, sizeof copy, text), copied);
}

static void test_clean(void **state) {
    assert_clean("", "", "");
    assert_clean("a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80", "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80",
                 "a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_clean("a\033[2J\n\x7f", "a?[2J??", "a [2J  ");
    assert_clean("\xc2\x9b"
                 "2J\xc2\xa0",
                 "??2J\xc2\xa0", "  2J\xc2\xa0"); /* U+009B, U+00A0 */
    assert_clean("\xe2\x80\xa8|\xe2\x80\xae|\xe2\x81\xa6|\xd8\x9c|\xe2\x80\x8f|\xe2\x80\x90",
                 "???|???|???|??|???|\xe2\x80\x90", "   |   |   |  |   |\xe2\x80\x90");
    assert_clean("\xff\x80z\xc0\xaf", "??z??", "  z  "); /* a NUL and a slash in overlong form */
    assert_clean("\xed\xa0\x80 \xf4\x90\x80\x80", "??? ????", "        ");
    assert_clean("\xe2\x82"
                 "a",
                 "??a", "  a");
    assert_clean("a\xe2\x82", "a??", "a"); /* truncated by the sender */
}

static void test_copy_cuts_whole_characters(void **state) {
    char copy[TEXT_SIZE];
    assert_string_equal(text_copy(copy, 4, "abcdef"), "abc");
    assert_string_equal(text_copy(copy, 4, "ab\xc3\xbc"), "ab");
    assert_string_equal(text_copy(copy, 5, "ab\xc3\xbc"), "ab\xc3\xbc");
    assert_string_equal(text_copy(copy, 1, "a"), "");
}

static void test_quote(void **state) {
    char text[TEXT_QUOTE_SIZE], large[2 * TEXT_QUOTE_SIZE];
    assert_string_equal(text_quote(text, "a\0b", 3), "'a?b'");
    memset(large, 'x', sizeof large);
    text_quote(text, large, sizeof large);
    assert_int_equal(strlen(text), TEXT_QUOTE_SIZE - 1);
    assert_string_equal(text + TEXT_QUOTE_SIZE - 5, "...'");
}

static void test_hash(void **state) {
    (void)state; /* the test vectors of FNV's authors */
    assert_true(hash_bytes(HASH_BEGIN, "", 0) == 0xCBF29CE484222325u);
    assert_true(hash_bytes(HASH_BEGIN, "a", 1) == 0xAF63DC4C8601EC8Cu);
    assert_true(hash_bytes(hash_bytes(HASH_BEGIN, "foo", 3), "bar", 3) == 0x85944171F73967E8u);
}

static void test_format(void **state) {
    static const struct {
        format_function *format;
        double value;
        const char *text;
    } cases[] = {
        {format_number, 0.0123, "0.0123"},
        {format_number, 12.345, "12.345"},
        {format_number, 1.23e-5, "1.23e-5"},
        {format_number, 12346, "12.35k"},
        {format_number, 9999.96, "10000.0"},
        {format_number, -1e300, "-1e300"},
        {format_number, NAN, "-"},
        {format_setting, 0.0003, "0.0003"},
        {format_setting, 2.5e-5, "2.5e-5"},
        {format_rate, 20, "20.0"},
        {format_rate, 12345, "12.3k"},
        {format_rate, 999999, "1.00M"},
        {format_grouped, 1234567, "1,234,567"},
        {format_grouped, -1000, "-1,000"},
        {format_percent, 0.125, "12.50%"},
        {format_microseconds, 950, "950us"},
        {format_microseconds, 12345, "12.3ms"},
        {format_microseconds, 1.23e6, "1.23s"},
        {format_duration, 0.3, "0.3 s"},
        {format_duration, 200, "3 min 20 s"},
        {format_duration, 18720, "5 h 12 min"},
        {format_duration, 273600, "3 d 4 h"},
        {format_bytes, 512, "512 B"},
        {format_bytes, 1.23e6, "1.23 MB"},
    };
    char text[FORMAT_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(cases[i].format(text, cases[i].value), cases[i].text);
    assert_string_equal(format_count(text, 12345, 5), "12345");
    assert_string_equal(format_count(text, 123456, 5), "123k");
}

static void test_milliseconds(void **state) {
    assert_int_equal(clock_milliseconds(0), 0);
    assert_int_equal(clock_milliseconds(-1), 0);
    assert_int_equal(clock_milliseconds(0.25), 250);
    assert_int_equal(clock_milliseconds(1e-9), 1);
    assert_int_equal(clock_milliseconds(1e9), INT_MAX);
    assert_int_equal(clock_milliseconds(INFINITY), INT_MAX);
    assert_int_equal(clock_milliseconds(-INFINITY), 0);
    assert_int_equal(clock_milliseconds(NAN), 0);
}

/* Write a file below `root`, and the directories on its way. */
static void put(const char *root, const char *path, const char *text) {
    char whole[PATH_MAX];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = strchr(whole + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(whole, S_IRWXU);
        *at = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_machine(void **state) {
    char root[] = "/tmp/test_common-XXXXXX", command[sizeof root + TEXT_SIZE];
    assert_non_null(mkdtemp(root));
    double all = machine_memory(root);
    assert_true(all > 0);
    /* Version 2: a group without a limit, within one with a limit, within one with a larger
       limit. */
    put(root, "/proc/self/cgroup", "0::/system.slice/runnel.slice/runneld.service\n");
    put(root, "/sys/fs/cgroup/system.slice/runnel.slice/runneld.service/memory.max", "max\n");
    put(root, "/sys/fs/cgroup/system.slice/runnel.slice/memory.max", "1048576\n");
    put(root, "/sys/fs/cgroup/system.slice/memory.max", "4194304\n");
    assert_true(machine_memory(root) == 1048576);
    /* In a container the group is the root; a limit above the machine's memory has no effect. */
    put(root, "/proc/self/cgroup", "0::/\n");
    put(root, "/sys/fs/cgroup/memory.max", "2097152\n");
    assert_true(machine_memory(root) == 2097152);
    put(root, "/sys/fs/cgroup/memory.max", "9223372036854771712\n");
    assert_true(machine_memory(root) == all);
    /* Version 1, with the path on the host. */
    put(root, "/proc/self/cgroup",
        "12:cpu,cpuacct:/docker/a\n5:freezer,memory:/docker/a\n1:name=systemd:/memory\nodd\n");
    put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "3145728\n");
    put(root, "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
    assert_true(machine_memory(root) == 3145728);
    put(root, "/proc/self/cgroup", "5:memory_of_another:/\n");
    assert_true(machine_memory(root) == all);
    assert_true(machine_cpus(root) == INFINITY);
    /* CPUs, version 2: the lower limit of a container and of the group around it. */
    put(root, "/proc/self/cgroup", "0::/system.slice/runnel.slice\n");
    put(root, "/sys/fs/cgroup/system.slice/runnel.slice/cpu.max", "max 100000\n");
    assert_true(machine_cpus(root) == INFINITY);
    put(root, "/sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n");
    assert_true(machine_cpus(root) == 1.5);
    put(root, "/sys/fs/cgroup/system.slice/runnel.slice/cpu.max", "400000 100000\n");
    assert_true(machine_cpus(root) == 1.5);
    /* Version 1: the period has its own file. */
    put(root, "/proc/self/cgroup", "12:cpu,cpuacct:/docker/a\n5:freezer,memory:/docker/a\n");
    put(root, "/sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "-1\n");
    put(root, "/sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000\n");
    assert_true(machine_cpus(root) == INFINITY);
    put(root, "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "600000\n");
    put(root, "/sys/fs/cgroup/cpu/cpu.cfs_period_us", "200000\n");
    assert_true(machine_cpus(root) == 3);
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

static void test_quantiles(void **state) {
    double values[] = {4, 1, INFINITY, 3, 2};
    const uint32_t bins[] = {0, 1, 0, 3};
    quantile_sort(values, 5);
    assert_true(quantile(values, 4, 0.25) == 1.75 && quantile(values, 4, 0.5) == 2.5);
    assert_true(quantile(values, 1, 0.99) == 1 && quantile(values, 4, 1) == 4);
    assert_true(quantile(values, 5, 0.75) == 4 && quantile(values, 5, 1) == INFINITY);
    assert_int_equal(quantile_bin(bins, 4, 4, 0.25), 1);
    assert_int_equal(quantile_bin(bins, 4, 4, 0.26), 3);
    assert_int_equal(quantile_bin(bins, 4, 5, 1), 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),   cmocka_unit_test(test_copy_cuts_whole_characters),
        cmocka_unit_test(test_quote),   cmocka_unit_test(test_hash),
        cmocka_unit_test(test_format),  cmocka_unit_test(test_milliseconds),
        cmocka_unit_test(test_machine), cmocka_unit_test(test_quantiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
