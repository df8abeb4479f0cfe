#include "damaged.h"

#include <stdlib.h>
#include <string.h>

#include "announce.h"
#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "common/wire.h"
#include "journalling.h"
#include "learner/changes.h"
#include "learner/learner_state.h"
#include "parts.h"

void damaged_announce(struct daemon *daemon, const char *key, size_t key_size) {
    char quoted[TEXT_QUOTE_SIZE];
    json_t *stream = json_stringn(key, key_size);
    text_quote(quoted, key, key_size);
    /* A list: the numbers of its examples stay. */
    journalling_append_command(daemon, JOURNAL_FORGET,
                               json_pack("{s:s, s:[O]}", "command", "forget", "streams", stream));
    announce_logged(daemon, log_warning, "forget", json_pack("{s:o}", "stream", stream),
                    "forgot stream %s: its state was invalid; it begins anew", quoted);
}

static int check(struct daemon *daemon, uint32_t slot, float *record, struct error *error) {
    char copy[WIRE_KEY_MAX];
    size_t key_size;
    int status = learner_check_stream(daemon->learner, slot, record, error);
    if (status <= 0)
        return status;
    const char *key = streams_key(learner_streams_table(daemon->learner), slot, &key_size);
    memcpy(copy, key, key_size);
    if (learner_forget(daemon->learner, copy, key_size, error) < 0)
        return -1;
    damaged_announce(daemon, copy, key_size);
    return 0;
}

static float *open_record(const struct learner *learner) {
    size_t size = 1;
    for (size_t m = 0; m < learner_members(learner); m++)
        if (learner_record_size(learner, m) > size)
            size = learner_record_size(learner, m);
    return malloc(size * sizeof(float));
}

int damaged_check(struct daemon *daemon, uint64_t since, struct error *error) {
    const struct streams *streams = learner_streams_table(daemon->learner);
    const struct changes *changes = learner_changes(daemon->learner);
    bool known = since > 0 && changes && since >= changes_known(changes);
    int status = learner_flush(daemon->learner, error);
    float *record = open_record(daemon->learner);
    if (status == 0 && !record)
        status = error_no_memory(error);
    for (uint32_t slot = streams_oldest(streams), newer; slot != STREAMS_NONE && status == 0;
         slot = newer) {
        newer = streams_newer(streams, slot);
        if (!known || changes_of(changes, slot) > since)
            status = check(daemon, slot, record, error);
    }
    free(record);
    return status;
}
