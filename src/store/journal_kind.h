/* The kinds of entries, as numbers of the file (docs/reliability.md, "The file"): a number is never
   used for another kind. */
#ifndef RUNNEL_JOURNAL_KIND_H
#define RUNNEL_JOURNAL_KIND_H

#include <stddef.h>

enum journal_kind {
    JOURNAL_EXAMPLE = 1,
    JOURNAL_COMMAND, /* any command before format 4; since then one that this version cannot name */
    JOURNAL_RESET,
    JOURNAL_SET,
    JOURNAL_FORGET,
    JOURNAL_ADOPT,
    JOURNAL_IMPORT,
    JOURNAL_SKIP,      /* the place of a dead letter */
    JOURNAL_PARTITION, /* the place of a partition that has come */
    JOURNAL_FEEDBACK,  /* `normal` */
    JOURNAL_ROLLBACK,
    JOURNAL_KINDS
};

/* The kind of a command by the beginning of its text, for files of earlier formats. */
enum journal_kind journal_command_kind(const char *text, size_t size);

#endif
