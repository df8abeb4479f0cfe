/* The journal of a daemon (docs/reliability.md, "The file"), read while that daemon may be writing
   it. A block of entries is copied and the file let go before they are handed out: a long reading
   would keep the daemon's write-ahead log from being used again. */
#ifndef RUNNEL_REPLAY_JOURNAL_H
#define RUNNEL_REPLAY_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/journal_block.h"
#include "streams/feed.h"

struct replay_journal;

/* An example, or a command. Pointers are valid until the next entry is read. */
struct replay_entry {
    uint64_t position;
    double time; /* Unix time at which the daemon took it */
    enum journal_kind kind;
    const char *command;       /* its JSON; NULL: it is an example */
    struct stream stream;      /* named */
    bool numbered;             /* the header has epoch and sequence, */
    struct wire_header header; /* and flags and the producer's time */
    const void *words;         /* where its flags say so */
    size_t words_size;
    struct wire_label label; /* of what example it is a label, where its flags say so */
    const void *x, *y;       /* y NULL = none */
    size_t x_size, y_size, steps;
};

/* Open the file, or journal.sqlite in the directory of that name. EX_NOINPUT: there is none;
   EX_DATAERR: it is no journal, or of another format. */
int replay_journal_open(struct replay_journal **journal, const char *path, struct error *error);
void replay_journal_close(struct replay_journal **journal);

/* The file itself, also where a directory was given. */
const char *replay_journal_path(const struct replay_journal *journal);

/* As of the opening: entries from `oldest` to `newest` are there; none when newest < oldest. */
uint64_t replay_journal_oldest(const struct replay_journal *journal);
uint64_t replay_journal_newest(const struct replay_journal *journal);

/* -1: EX_IOERR; EX_DATAERR when the entry is damaged, or not there any more. */
int replay_journal_read(struct replay_journal *journal, uint64_t position,
                        struct replay_entry *entry, struct error *error);

/* The next block from an entry on that may have a command of this kind (in a file of an earlier
   format, just the next block): its entries from `first` (>= `from`) to `last`. 1; 0: there is
   none; -1 as above. */
int replay_journal_find(struct replay_journal *journal, uint64_t from, enum journal_kind kind,
                        uint64_t *first, uint64_t *last, struct error *error);

#endif
