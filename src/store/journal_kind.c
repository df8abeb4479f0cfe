#include "journal_kind.h"

#include <string.h>

static const char *const beginnings[JOURNAL_KINDS] = {
    [JOURNAL_RESET] = "{\"command\":\"reset\"",
    [JOURNAL_SET] = "{\"command\":\"set\"",
    [JOURNAL_FORGET] = "{\"command\":\"forget\"",
    [JOURNAL_ADOPT] = "{\"command\":\"adopt\"",
    [JOURNAL_IMPORT] = "{\"command\":\"import\"",
    [JOURNAL_SKIP] = "{\"command\":\"skip\"",
    [JOURNAL_PARTITION] = "{\"command\":\"partition\"",
    [JOURNAL_FEEDBACK] = "{\"command\":\"normal\"",
    [JOURNAL_ROLLBACK] = "{\"command\":\"rollback\"",
};

enum journal_kind journal_command_kind(const char *text, size_t size) {
    for (enum journal_kind kind = JOURNAL_RESET; kind < JOURNAL_KINDS; kind++)
        if (size >= strlen(beginnings[kind]) &&
            !memcmp(text, beginnings[kind], strlen(beginnings[kind])))
            return kind;
    return JOURNAL_COMMAND;
}
