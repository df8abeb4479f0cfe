/* Usage: replay [HARNESS FILE...]

   Replaces libFuzzer's main for other compilers: plays these files or, as a test, all seeds that
   seeds.py has written to $builddir/tests/fuzz/seeds, each with all of its prefixes, so that
   fixed bugs stay fixed. Seeds named good-... must be accepted: they reach code after a module's
   first checks. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "fuzz.h"

enum { PATH_SIZE = 4096, SEED_SIZE_MAX = 1 << 20, BEGINNINGS_MAX = 1 << 10 };

/* The harness gets a block of exactly that size, so that a sanitizer detects every access
   beyond. */
static bool play(const struct fuzz_harness *harness, const uint8_t *bytes, size_t size) {
    struct fuzz_input input = {bytes, size};
    void *block = fuzz_block(&input, &size);
    bool accepted = harness->play(block, size);
    free(block);
    return accepted;
}

/* Plays a file; returns 1 if accepted, 0 if not, -1 if it cannot be read. */
static int play_file(const struct fuzz_harness *harness, const char *path, bool beginnings) {
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = malloc(SEED_SIZE_MAX);
    size_t size = file && bytes ? fread(bytes, 1, SEED_SIZE_MAX, file) : 0;
    int result = -1;
    if (file && bytes && !ferror(file))
        result = play(harness, bytes, size);
    else
        perror(path);
    for (size_t n = 0; result >= 0 && beginnings && n < size && n < BEGINNINGS_MAX; n++)
        play(harness, bytes, n);
    if (file)
        fclose(file);
    free(bytes);
    return result;
}

static bool play_seeds(const struct fuzz_harness *harness, const char *build) {
    static const char good[] = "good-";
    char directory[PATH_SIZE], path[PATH_SIZE + NAME_MAX + sizeof "/"];
    size_t played = 0, accepted = 0, failed = 0;
    const struct dirent *entry;
    snprintf(directory, sizeof directory, "%s/tests/fuzz/seeds/%s", build, harness->name);
    DIR *seeds = opendir(directory);
    while (seeds && (entry = readdir(seeds))) {
        if (*entry->d_name == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        int result = play_file(harness, path, true);
        bool refused = result == 0 && strncmp(entry->d_name, good, strlen(good)) == 0;
        if (refused)
            fprintf(stderr, "%s was refused\n", path);
        failed += result < 0 || refused;
        accepted += result > 0;
        played++;
    }
    if (seeds)
        closedir(seeds);
    printf("%s: %zu seeds, %zu of them accepted, %zu failures\n", directory, played, accepted,
           failed);
    return accepted > 0 && failed == 0;
}

int main(int count, char **arguments) {
    const char *build = getenv("builddir");
    bool good = true;
    if (count == 1) {
        for (const struct fuzz_harness *harness = fuzz_harnesses; harness->name; harness++)
            good &= play_seeds(harness, build ? build : ".");
        return good ? EXIT_SUCCESS : EXIT_FAILURE;
    }
    const struct fuzz_harness *harness = fuzz_harness(arguments[1]);
    if (!harness) {
        fprintf(stderr, "%s: no harness is called %s\n", arguments[0], arguments[1]);
        return EX_USAGE;
    }
    for (int n = 2; n < count; n++) {
        int result = play_file(harness, arguments[n], false);
        if (result >= 0)
            printf("%s: %s\n", arguments[n], result ? "accepted" : "refused");
        good &= result >= 0;
    }
    return good ? EXIT_SUCCESS : EX_NOINPUT;
}
