#include "record_board.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/complain.h"
#include "common/program.h"
#include "tools/history/history.h"

struct board {
    int to, from; /* pipes */
    pid_t child;  /* 0: it has ended */
};

/* Returns the exit status of the child, which prints its own errors. */
static int end_child(struct board *b) {
    if (!b->child)
        return EX_OK;
    close(b->to);
    close(b->from);
    int status = program_wait(b->child);
    b->child = 0;
    return status >= 0 ? status : complain(EX_IOERR, "runnel-plot (writes event files) was killed");
}

static int fail(struct board *b) {
    int status = end_child(b);
    return status != EX_OK ? status
                           : complain(EX_IOERR, "runnel-plot (writes event files) has ended");
}

int board_close(struct board **board) {
    int status = *board ? end_child(*board) : EX_OK;
    free(*board);
    *board = NULL;
    return status;
}

static int write_text(struct board *b, const char *text, size_t size) {
    while (b->child && size) {
        ssize_t written = write(b->to, text, size);
        if (written < 0 && errno != EINTR)
            break;
        text += written > 0 ? written : 0;
        size -= written > 0 ? (size_t)written : 0;
    }
    return size ? fail(b) : EX_OK;
}

int board_flush(struct board *b) {
    char answer;
    ssize_t size = -1;
    int status = write_text(b, "\n", 1);
    while (status == EX_OK && (size = read(b->from, &answer, 1)) < 0 && errno == EINTR)
        ;
    return status != EX_OK || size == 1 ? status : fail(b);
}

/* ---- Fields of messages: [[tag, path], ...] ---- */

/* latency_us.p50 becomes latency_us/p50; a field without a group belongs to the loss or the run. */
static void add_field(json_t *list, const struct field *field, bool alone) {
    const char *group = *field->group || !alone            ? field->group
                        : strcmp(field->unit, "nats") == 0 ? "loss"
                                                           : "run";
    json_t *tag = json_sprintf("%s%s%s", group, *group ? "/" : "", field->key);
    json_t *path =
        *field->group ? json_pack("[ss]", field->group, field->key) : json_pack("[s]", field->key);
    json_array_append_new(list, json_pack("[oo]", tag, path));
}

static json_t *fields_of(const struct field *const *columns, int count, bool alone) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        add_field(list, columns[i], alone);
    return list;
}

static json_t *fields_of_table(enum field_table_of table) {
    json_t *list = json_array();
    for (int i = 0; i < field_tables[table].count; i++)
        add_field(list, &field_tables[table].fields[i], false);
    return list;
}

static int write_line(struct board *b, json_t *json) {
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    int status =
        text ? write_text(b, text, strlen(text)) : complain(EX_UNAVAILABLE, "out of memory");
    free(text);
    json_decref(json);
    return status == EX_OK ? write_text(b, "\n", 1) : status;
}

static int write_fields(struct board *b) {
    json_t *fields = json_pack(
        "{so so so so}", "loss", fields_of(history_loss_columns, HISTORY_LOSS_COLUMNS, true),
        "column", fields_of_table(FIELDS_OF_COLUMN), "expert", fields_of_table(FIELDS_OF_EXPERT),
        "layer", fields_of(history_layer_columns, HISTORY_LAYER_COLUMNS, false));
    int status = write_line(b, fields);
    return status == EX_OK ? board_flush(b) : status;
}

/* ---- Messages ---- */

static int start_child(struct board *b, const char *directory) {
    int to[2], from[2];
    char option[PATH_MAX + sizeof "--tensorboard="];
    snprintf(option, sizeof option, "--tensorboard=%s", directory);
    if (pipe2(to, O_CLOEXEC))
        return complain(EX_UNAVAILABLE, "cannot create a pipe: %s", strerror(errno));
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]);
        close(to[1]);
        return complain(EX_UNAVAILABLE, "cannot create a pipe: %s", strerror(errno));
    }
    b->child =
        program_start((const char *const[]){"runnel-plot", option, "-", NULL}, to[0], from[1], -1);
    int reason = errno;
    close(to[0]);
    close(from[1]);
    b->to = to[1];
    b->from = from[0];
    if (b->child > 0)
        return EX_OK;
    close(b->to);
    close(b->from);
    b->child = 0;
    return complain(EX_UNAVAILABLE, "cannot start runnel-plot (writes event files): %s",
                    strerror(reason));
}

int board_open(struct board **board, const char *directory) {
    struct board *b = *board = calloc(1, sizeof *b);
    if (!b)
        return complain(EX_UNAVAILABLE, "out of memory");
    int status = start_child(b, directory);
    if (status == EX_OK)
        status = write_fields(b);
    if (status != EX_OK)
        board_close(board);
    return status;
}

int board_take(struct board *b, size_t source, const char *name, const struct message *message) {
    enum topic topic = message->topic;
    if (topic != TOPIC_STATUS && topic != TOPIC_LOSS && topic != TOPIC_STATE)
        return EX_OK;
    return write_line(
        b, json_pack("[IssO]", (json_int_t)source, name, topic_names[topic], message->body));
}
