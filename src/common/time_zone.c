#include "time_zone.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "error.h"
#include "time_zone_internal.h"

enum { FILE_SIZE_MAX = 1 << 16, PATH_SIZE = 128, HEADER_SIZE = 44, VERSION_AT = 4, COUNTS_AT = 20 };

/* No transition is farther from 1970: the oldest that RFC 8536 allows. */
#define TIME_MAX (INT64_C(1) << 59)

static const char *const directories[] = {"/usr/share/zoneinfo", "/usr/lib/zoneinfo",
                                          "/usr/share/lib/zoneinfo", "/etc/zoneinfo"};

static const char shown[] = "found \"%s\", %s; allowed is a zone of tzdata such as Europe/Berlin, "
                            "or UTC";

/* The file of a zone, or what of it has not been read. */
struct bytes {
    const unsigned char *at;
    size_t left;
};

/* What a header counts, in its order. */
struct counts {
    uint32_t utc, standard, leaps, times, types, characters;
};

bool time_zone_good(const char *name) {
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "+-_/";
    size_t length = strlen(name);
    return length > 0 && length < TIME_ZONE_NAME_SIZE && strspn(name, allowed) == length &&
           name[0] != '/' && name[length - 1] != '/' && !strstr(name, "//");
}

/* ---- Reading ---- */

static int64_t read_signed(const unsigned char *at, size_t size) {
    uint64_t bits = at[0] & 0x80 ? UINT64_MAX : 0;
    for (size_t n = 0; n < size; n++)
        bits = bits << 8 | at[n];
    return (int64_t)bits;
}

/* The next bytes; NULL: there are not so many. */
static const unsigned char *cut(struct bytes *bytes, size_t size) {
    const unsigned char *at = bytes->at;
    if (size > bytes->left)
        return NULL;
    bytes->at += size;
    bytes->left -= size;
    return at;
}

static bool read_header(struct bytes *bytes, struct counts *counts, char *version) {
    const unsigned char *header = cut(bytes, HEADER_SIZE);
    uint32_t *const fields[] = {&counts->utc,   &counts->standard, &counts->leaps,
                                &counts->times, &counts->types,    &counts->characters};
    if (!header || memcmp(header, "TZif", VERSION_AT) != 0)
        return false;
    *version = (char)header[VERSION_AT];
    for (size_t n = 0; n < sizeof fields / sizeof *fields; n++) {
        *fields[n] = (uint32_t)read_signed(header + COUNTS_AT + n * 4, 4);
        if (*fields[n] > FILE_SIZE_MAX)
            return false;
    }
    return true;
}

/* The tables after a header; times have so many bytes. `zone` NULL: they are passed over. */
static bool read_tables(struct bytes *bytes, const struct counts *counts, size_t size,
                        struct time_zone *zone) {
    enum { TYPE_SIZE = 6, COUNT_SIZE = 4 };
    const unsigned char *times = cut(bytes, counts->times * size);
    const unsigned char *of_time = cut(bytes, counts->times);
    const unsigned char *types = cut(bytes, (size_t)counts->types * TYPE_SIZE);
    if (!times || !of_time || !types || !cut(bytes, counts->characters) ||
        !cut(bytes, counts->leaps * (size + COUNT_SIZE)) || !cut(bytes, counts->standard) ||
        !cut(bytes, counts->utc))
        return false;
    if (!zone)
        return true;
    zone->leaps = counts->leaps > 0;
    if (counts->types == 0 || zone->leaps || counts->times > TIME_ZONE_SHIFTS_MAX)
        return false;
    zone->before = (double)read_signed(types, COUNT_SIZE);
    for (size_t n = 0; n < counts->times; n++) {
        int64_t at = read_signed(times + n * size, size);
        if (of_time[n] >= counts->types || at < -TIME_MAX || at > TIME_MAX)
            return false;
        zone->shifts[n] = (struct time_zone_shift){
            (double)at, (double)read_signed(types + (size_t)of_time[n] * TYPE_SIZE, COUNT_SIZE)};
        if (n && zone->shifts[n].at <= zone->shifts[n - 1].at)
            return false;
    }
    zone->count = (int)counts->times;
    return true;
}

/* "\nRULE\n" */
static bool read_footer(struct bytes *bytes, struct time_zone *zone) {
    char rule[TIME_ZONE_NAME_SIZE];
    const unsigned char *end;
    if (!bytes->left || *bytes->at != '\n' || !(end = memchr(bytes->at + 1, '\n', bytes->left - 1)))
        return false;
    size_t length = (size_t)(end - bytes->at - 1);
    if (length >= sizeof rule)
        return false;
    memcpy(rule, bytes->at + 1, length);
    rule[length] = '\0';
    return length == 0 || time_zone_add_rule(zone, rule);
}

/* From version 2 on times of 8 bytes and a rule follow those of 4. */
static bool read_zone(struct bytes bytes, struct time_zone *zone) {
    struct counts counts;
    char version;
    if (!read_header(&bytes, &counts, &version))
        return false;
    if (version == '\0')
        return read_tables(&bytes, &counts, 4, zone);
    return read_tables(&bytes, &counts, 4, NULL) && read_header(&bytes, &counts, &version) &&
           read_tables(&bytes, &counts, 8, zone) && read_footer(&bytes, zone);
}

/* ---- Opening ---- */

/* The file of that name in the first directory that has it. NULL: with errno ENOENT there is none,
   else `path` is the first that cannot be opened. */
static FILE *find_file(const char *name, char path[PATH_SIZE]) {
    char at[PATH_SIZE];
    int failure = 0;
    for (size_t n = 0; n < sizeof directories / sizeof *directories; n++) {
        snprintf(at, sizeof at, "%s/%s", directories[n], name);
        FILE *file = fopen(at, "rbe");
        bool there = file || (errno != ENOENT && errno != ENOTDIR);
        if (there && (file || !failure))
            memcpy(path, at, sizeof at);
        if (file)
            return file;
        failure = failure || !there ? failure : errno;
    }
    errno = failure ? failure : ENOENT;
    return NULL;
}

/* What to say where there is no such file, or it cannot be opened. */
static void explain(char *why, size_t size, const char *path) {
    char other[PATH_SIZE];
    if (errno != ENOENT) {
        snprintf(why, size, "but %s cannot be opened: %s", path, strerror(errno));
        return;
    }
    FILE *any = find_file("Europe/Berlin", other);
    snprintf(why, size, "%s",
             any || errno != ENOENT ? "which is no time zone"
                                    : "but this machine has no tzdata: install it");
    if (any)
        fclose(any);
}

static int read_file(struct time_zone *zone, const char *name, struct error *error) {
    char path[PATH_SIZE], why[PATH_SIZE + 64];
    FILE *file = find_file(name, path);
    if (!file) {
        explain(why, sizeof why, path);
        return error_set(error, EX_CONFIG, shown, name, why);
    }
    unsigned char *bytes = malloc(FILE_SIZE_MAX);
    size_t size = bytes ? fread(bytes, 1, FILE_SIZE_MAX, file) : 0;
    bool good = bytes && read_zone((struct bytes){bytes, size}, zone);
    bool memory = bytes != NULL;
    free(bytes);
    fclose(file);
    if (good)
        return 0;
    if (!memory)
        return error_no_memory(error);
    if (zone->leaps)
        snprintf(why, sizeof why, "whose times count leap seconds: leave out right/");
    else
        snprintf(why, sizeof why, "and %s is no file of a time zone", path);
    return error_set(error, EX_CONFIG, shown, name, why);
}

int time_zone_open(struct time_zone **zone, const char *name, struct error *error) {
    struct time_zone *opened = calloc(1, sizeof *opened);
    *zone = opened;
    if (!opened)
        return error_no_memory(error);
    if (strcmp(name, "UTC") == 0 || (time_zone_good(name) && read_file(opened, name, error) == 0))
        return 0;
    if (!time_zone_good(name))
        error_set(error, EX_CONFIG, shown, name, "which is no name of a time zone");
    time_zone_close(zone);
    return -1;
}

void time_zone_close(struct time_zone **zone) {
    free(*zone);
    *zone = NULL;
}

/* ---- Asking ---- */

double time_zone_offset(const struct time_zone *zone, double time) {
    int low = 0,
        high = zone->count; /* shifts before `low` are not after it, those from `high` are */
    double beyond = zone->repeats ? time - zone->shifts[zone->count - 1].at : -1;
    if (beyond >= 0)
        time -= (double)((int64_t)(beyond / TIME_ZONE_CYCLE_SECONDS) + 1) * TIME_ZONE_CYCLE_SECONDS;
    while (low < high) {
        int middle = (low + high) / 2;
        if (zone->shifts[middle].at <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? zone->shifts[low - 1].offset : zone->before;
}
