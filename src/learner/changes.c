#include "changes.h"

#include <stdlib.h>

#include "common/error.h"
#include "common/streams.h"

struct changes {
    uint64_t known;       /* all changes after this entry are known */
    uint64_t *marks;      /* (slots,) the entry that changed the stream in the slot */
    struct streams *left; /* removed streams, oldest first */
    uint64_t *left_with;  /* (slots,) of `left` */
};

int changes_open(struct changes **changes, size_t slots, struct error *error) {
    struct changes *opened = *changes = calloc(1, sizeof *opened);
    if (!opened)
        return error_no_memory(error);
    opened->marks = calloc(slots, sizeof *opened->marks);
    opened->left_with = calloc(slots, sizeof *opened->left_with);
    int status = opened->marks && opened->left_with ? streams_open(&opened->left, slots, error)
                                                    : error_no_memory(error);
    if (status)
        changes_close(changes);
    return status;
}

void changes_close(struct changes **changes) {
    if (*changes) {
        streams_close(&(*changes)->left);
        free((*changes)->marks);
        free((*changes)->left_with);
    }
    free(*changes);
    *changes = NULL;
}

/* Each stream has needed at least one entry, so the numbers suffice for all. */
void changes_begin(struct changes *changes, const struct streams *streams, uint64_t position) {
    if (!changes)
        return;
    uint64_t left = streams_count(streams);
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot)) {
        left--;
        changes->marks[slot] = position > left ? position - left : 1;
    }
    streams_clear(changes->left);
    changes->known = position;
}

/* Drops the oldest of the removed streams. */
static void drop(struct changes *changes) {
    uint32_t oldest = streams_oldest(changes->left);
    if (changes->left_with[oldest] > changes->known)
        changes->known = changes->left_with[oldest];
    streams_remove(changes->left, oldest);
}

void changes_mark(struct changes *changes, uint32_t slot, uint64_t position) {
    if (changes)
        changes->marks[slot] = position;
}

void changes_add(struct changes *changes, const char *key, size_t key_size) {
    if (!changes || streams_count(changes->left) == 0)
        return;
    uint32_t slot = streams_find(changes->left, key, key_size);
    if (slot != STREAMS_NONE)
        streams_remove(changes->left, slot);
}

void changes_remove(struct changes *changes, const char *key, size_t key_size, uint64_t position) {
    if (!changes)
        return;
    if (streams_count(changes->left) == streams_capacity(changes->left))
        drop(changes);
    changes->left_with[streams_add(changes->left, key, key_size)] = position;
}

uint64_t changes_of(const struct changes *changes, uint32_t slot) {
    return changes ? changes->marks[slot] : 0;
}

uint64_t changes_known(const struct changes *changes) {
    return changes ? changes->known : UINT64_MAX;
}

const struct streams *changes_left(const struct changes *changes) {
    return changes->left;
}

uint64_t changes_left_with(const struct changes *changes, uint32_t slot) {
    return changes->left_with[slot];
}

void changes_settle(struct changes *changes, uint64_t position) {
    while (changes && streams_count(changes->left) &&
           changes->left_with[streams_oldest(changes->left)] <= position)
        drop(changes);
}
