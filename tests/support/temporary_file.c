#include "temporary_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const char name[] = "file.safetensors";
char directory[] = "/tmp/runnel-test.XXXXXX";
char path[sizeof directory + sizeof name];

int make_directory(void **unused) {
    (void)unused;
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return 0;
}

int remove_directory(void **unused) {
    (void)unused;
    unlink(path);
    return rmdir(directory);
}

void store(const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}
