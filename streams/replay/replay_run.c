#include "replay_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "replay_control.h"
#include "replay_import.h"
#include "replay_journal.h"
#include "replay_left_out.h"
#include "streams/feed.h"
#include "streams/feed_delivery.h"
#include "streams/feed_streams.h"

enum {
    UNPACED_EXAMPLES = 256, /* between two looks around at full speed */
    COMMAND_SHOWN = 200,    /* characters: it may have all of a stream's state */
};

struct replay {
    const struct replay_settings *settings;
    struct replay_journal *journal;
    struct replay_left_out *left_out;
    struct delivery delivery;
    struct streams streams;         /* with the next number of each */
    uint64_t first, last, position; /* to be replayed; the next one of them */
    double due, time;               /* of that one; in the journal, of the one before */
    uint64_t commands;              /* that were not sent */
    bool repeated;                  /* the daemon already has all of it, see check_first */
};

static double done(const void *context) {
    const struct replay *replay = context;
    return (double)(replay->position - replay->first) / (double)(replay->last - replay->first + 1);
}

/* What is to be replayed, and what of it is there. */
static int find_range(struct replay *replay, struct error *error) {
    const struct replay_settings *settings = replay->settings;
    unsigned long long oldest = replay_journal_oldest(replay->journal);
    unsigned long long newest = replay_journal_newest(replay->journal);
    unsigned long long first = settings->first;
    if (newest < oldest || newest < first)
        return error_set(error, EX_DATAERR,
                         "%s: there is nothing to replay: it ends at entry %llu%s", settings->path,
                         newest, newest < oldest ? ", and none is kept" : "");
    if (first < oldest && settings->common.epoch_given)
        return error_set(
            error, EX_DATAERR,
            "%s: it begins at entry %llu, those before are pruned: say --from %llu, so "
            "that the numbers of --epoch are the same whenever this is called",
            settings->path, oldest, oldest);
    if (first < oldest)
        progress_warn("%s: entries %llu to %llu are missing: they are pruned", settings->path,
                      first, oldest - 1);
    if (settings->last != UINT64_MAX && settings->last > newest)
        progress_warn("%s: it ends at entry %llu", settings->path, newest);
    replay->first = first < oldest ? oldest : first;
    replay->last = settings->last < newest ? settings->last : newest;
    replay->position = replay->first;
    if (replay->last < replay->first)
        return error_set(error, EX_DATAERR,
                         "%s: there is nothing to replay: it begins at entry %llu", settings->path,
                         oldest);
    return 0;
}

/* New numbers count the examples of a stream from the first that is replayed. */
static int renumber(struct replay *replay, struct replay_entry *entry, struct error *error) {
    struct held_stream *held = streams_find(&replay->streams, entry->stream.key, error);
    if (!held)
        return -1;
    entry->numbered = true;
    entry->header.epoch = (uint32_t)replay->settings->common.epoch;
    entry->header.producer = replay->settings->common.to.producer;
    entry->header.sequence = held->stream.sequence++;
    return 0;
}

/* A producer of a pull socket may have used a number twice: a router would take that for a
   duplicate. */
static int check_number(struct replay *replay, const struct replay_entry *entry,
                        struct error *error) {
    const struct wire_header *header = &entry->header;
    struct held_stream *held = streams_find(&replay->streams, entry->stream.key, error);
    if (!held)
        return -1;
    bool same = header->producer == held->producer; /* as that of the entry before */
    if (same && (header->epoch < held->epoch ||
                 (header->epoch == held->epoch && header->sequence < held->stream.sequence)))
        return error_set(error, EX_DATAERR,
                         "%s: entry %llu has no higher number than the entry before it in its "
                         "stream, which --socket router takes for a duplicate: --epoch gives all "
                         "entries new numbers",
                         replay->settings->path, (unsigned long long)entry->position);
    held->epoch = header->epoch;
    held->producer = header->producer;
    held->stream.sequence = header->sequence + 1;
    return 0;
}

/* Commands are carried out only once: a call that repeats an earlier one must not send them. */
static int check_first(struct replay *replay, struct error *error) {
    if (!replay->settings->control || replay->delivery.progress.examples != 1)
        return 0;
    if (delivery_settle(&replay->delivery, error) < 0)
        return -1;
    if (replay->delivery.counts.duplicates == 0)
        return 0;
    if (replay->delivery.counts.outdated > 0)
        return error_set(error, EX_DATAERR,
                         "the daemon has a greater epoch of that stream than entry %llu: only a "
                         "greater --epoch, which gives all entries new numbers, has them learned",
                         (unsigned long long)replay->position);
    replay->repeated = true;
    return error_set(error, EX_DATAERR,
                     "the daemon already has entry %llu, and perhaps the commands after it, "
                     "which must not be carried out twice; if an earlier call stopped early, "
                     "continue with the --from that it printed, else all is there",
                     (unsigned long long)replay->position);
}

static int send_example(struct replay *replay, struct replay_entry *entry, struct error *error) {
    if (entry->header.flags & WIRE_LABEL && replay->settings->common.epoch_given)
        return error_set(error, EX_DATAERR,
                         "%s: entry %llu is a label, which names its example by the number that it "
                         "has in the journal, and --epoch gives examples new ones: replay without "
                         "--epoch",
                         replay->settings->path, (unsigned long long)entry->position);
    if (replay->settings->common.epoch_given && renumber(replay, entry, error) < 0)
        return -1;
    if (replay->settings->common.to.kind == RUNNEL_ROUTER && !entry->numbered)
        return error_set(error, EX_DATAERR,
                         "%s: entry %llu has no number, which --socket router needs: --epoch gives "
                         "all entries new numbers",
                         replay->settings->path, (unsigned long long)entry->position);
    if (replay->settings->common.to.kind == RUNNEL_ROUTER &&
        !replay->settings->common.epoch_given && check_number(replay, entry, error) < 0)
        return -1;
    const struct wire_header *header = &entry->header;
    const struct runnel_example example = {
        .key = entry->stream.key,
        .key_size = entry->stream.key_size,
        .x = entry->x,
        .y = entry->y,
        .x_size = entry->x_size,
        .y_size = entry->y_size,
        .headed = entry->numbered || header->flags || header->time != 0,
        .flags = header->flags,
        .epoch = header->epoch,
        .sequence = header->sequence,
        .time = header->time,
        .label_epoch = entry->label.epoch,
        .label_sequence = entry->label.sequence,
        .words = entry->words,
        .words_size = entry->words_size,
    };
    runnel_sender_identify(replay->delivery.sender, header->producer);
    if (delivery_send(&replay->delivery, &example, entry->steps, error) < 0)
        return -1;
    return check_first(replay, error);
}

/* The place of a broker's partition: it changes nothing of what is learned. */
static bool is_place(const struct replay_entry *entry) {
    return entry->kind == JOURNAL_SKIP || entry->kind == JOURNAL_PARTITION;
}

static int carry_out(const struct replay *replay, const struct replay_entry *entry,
                     struct error *error) {
    const struct replay_settings *settings = replay->settings;
    struct runnel_peer peer = {settings->control, settings->common.to.keys.server,
                               settings->common.to.keys.own};
    if (entry->kind == JOURNAL_IMPORT)
        return replay_import(&peer, replay_journal_path(replay->journal), entry->command, error);
    if (entry->kind != JOURNAL_ROLLBACK)
        return replay_command(&peer, entry->command, error);
    char *text = replay_left_out_rollback(replay->left_out, entry->command);
    int status = text ? replay_command(&peer, text, error) : error_no_memory(error);
    free(text);
    return status;
}

/* A command comes after the example before it: what was sent must have been taken. */
static int send_command(struct replay *replay, const struct replay_entry *entry,
                        struct error *error) {
    if (!replay->settings->control) {
        replay->commands++;
        feed_say("entry %llu is a command and is not sent: %.*s",
                 (unsigned long long)entry->position, COMMAND_SHOWN, entry->command);
        return 0;
    }
    if (delivery_settle(&replay->delivery, error) < 0)
        return -1;
    feed_detail("entry %llu: %.*s", (unsigned long long)entry->position, COMMAND_SHOWN,
                entry->command);
    return carry_out(replay, entry, error);
}

static int send_entry(struct replay *replay, struct replay_entry *entry, struct error *error) {
    if (is_place(entry) || replay_left_out_has(replay->left_out, entry))
        return replay_left_out_note(replay->left_out, entry->position, error);
    return entry->command ? send_command(replay, entry, error) : send_example(replay, entry, error);
}

/* When the entry is due: what lay between it and the one before, unless a clock was set back. */
static int pace(struct replay *replay, const struct replay_entry *entry, struct error *error) {
    double speed = replay->settings->speed;
    if (isinf(speed)) {
        bool look = entry->position % UNPACED_EXAMPLES == 0;
        return look ? delivery_listen(&replay->delivery, error) : 0;
    }
    if (entry->position > replay->first)
        replay->due += fmax(entry->time - replay->time, 0) / speed;
    replay->time = entry->time;
    return delivery_pause(&replay->delivery, &replay->due, error);
}

static int send_all(struct replay *replay, struct error *error) {
    struct replay_entry entry;
    replay->due = clock_seconds();
    for (; replay->position <= replay->last; replay->position++) {
        if (feed_signals)
            return error_set(error, FEED_INTERRUPTED, "interrupted");
        if (replay_journal_read(replay->journal, replay->position, &entry, error) < 0 ||
            pace(replay, &entry, error) < 0)
            return -1;
        if (send_entry(replay, &entry, error) < 0)
            return -1;
    }
    return 0;
}

/* Where another call continues: its new numbers start at 0 again, and need another epoch. */
static void tell_position(const struct replay *replay) {
    char epoch[sizeof " with a greater --epoch"] = "";
    if (replay->settings->common.epoch_given)
        strcpy(epoch, " with a greater --epoch");
    if (replay->delivery.started && replay->position <= replay->last && !replay->repeated)
        feed_say("stopped before entry %llu; --from %llu%s continues there",
                 (unsigned long long)replay->position, (unsigned long long)replay->position, epoch);
}

static void tell_again(const struct replay *replay, struct error *error) {
    size_t used = strlen(error->text);
    if (error->status == EX_TEMPFAIL && !replay->settings->control)
        snprintf(error->text + used, sizeof error->text - used,
                 "; the same call has them learned, and nothing twice");
}

int replay_run(const struct replay_settings *settings, struct error *error) {
    struct replay replay = {.settings = settings, .streams.numbers = 1};
    replay.delivery = (struct delivery){.to = settings->common.to,
                                        .linger = settings->common.linger,
                                        .done = done,
                                        .context = &replay};
    int status = replay_journal_open(&replay.journal, settings->path, error);
    if (status == 0)
        status = find_range(&replay, error);
    if (status == 0)
        status = replay_left_out_open(&replay.left_out, replay.journal, settings->path,
                                      replay.first, replay.last, error);
    if (status == 0) {
        status = delivery_open(&replay.delivery, settings->common.wait, error);
        if (status == 0)
            status = send_all(&replay, error);
        bool stopped = status < 0;
        status = delivery_close(&replay.delivery, status, 0, error);
        if (stopped)
            tell_position(&replay);
        if (status < 0)
            tell_again(&replay, error);
        if (replay.commands)
            feed_say("commands of the journal that were not sent: %llu; see --control",
                     (unsigned long long)replay.commands);
    }
    streams_close(&replay.streams);
    replay_left_out_close(&replay.left_out);
    replay_journal_close(&replay.journal);
    return status;
}
