/* One file in the test's own directory. */
#ifndef RUNNEL_TESTS_TEMPORARY_FILE_H
#define RUNNEL_TESTS_TEMPORARY_FILE_H

#include <stddef.h>

/* The names, after make_directory. */
extern char directory[], path[];

/* cmocka's setup and teardown of a group. */
int make_directory(void **unused);
int remove_directory(void **unused);

/* Writes these bytes to the file; fails the running test on an error. */
void store(const void *bytes, size_t size);

#endif
