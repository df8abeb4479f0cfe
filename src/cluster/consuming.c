#include "consuming.h"

#include <sysexits.h>

#include "common/error.h"
#include "daemon/parts.h"

int consuming_start(struct daemon *daemon, size_t partition, const struct consume_place *after,
                    struct error *error) {
    struct journal_place found;
    const char *name = consume_name(daemon->cluster->consume, partition);
    uint32_t number = journal_partition(daemon->journal, name);
    if (!number)
        return error_set(error, EX_UNAVAILABLE,
                         "the journal in %s keeps the places of %d partitions, and cannot keep "
                         "that of %s: give this daemon a directory of its own with state.directory",
                         daemon->config->state_directory, JOURNAL_PARTITIONS, name);
    bool known = after || journal_place(daemon->journal, number, &found);
    struct consume_place place = {0};
    if (after)
        place = *after;
    else if (known)
        place = (struct consume_place){found.epoch, found.sequence, found.count};
    daemon->cluster->numbers[partition] = number;
    consume_start(daemon->cluster->consume, partition, known ? &place : NULL);
    return 0;
}
