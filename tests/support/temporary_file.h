/* One file in a directory of the test's own. */
#ifndef RUNNEL_TESTS_TEMPORARY_FILE_H
#define RUNNEL_TESTS_TEMPORARY_FILE_H

#include <stddef.h>

/* The names, from make_directory on. The file is the test's to make; see store. */
extern char directory[], path[];

/* cmocka's setup and teardown of a group. */
int make_directory(void **unused);
int remove_directory(void **unused);

/* Make the file hold these bytes; fails the running test when it cannot. */
void store(const void *bytes, size_t size);

#endif
