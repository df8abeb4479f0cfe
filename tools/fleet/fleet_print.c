#include "fleet_print.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/format.h"
#include "common/grid.h"
#include "common/json_member.h"
#include "common/text.h"
#include "fleet_notes.h"

enum { TEXT_SIZE = 256, DIGEST_SHOWN = 12 };

/* What of a partition is still to be done, in messages. */
struct rest {
    bool lag_known, split_known;
    uint64_t lag;         /* not committed: waiting or uncommitted */
    uint64_t waiting;     /* learned by nobody yet */
    uint64_t uncommitted; /* learned by the owner since its last commit */
};

struct status {
    const struct fleet_view *view;
    const uint64_t *ends;
    json_t **infos;     /* (daemon_count,), what each says of itself; NULL: nothing */
    struct rest *rests; /* (partition_count,) */
};

/* What nobody has, or a daemon whose lease is over, is learned again from what is committed. */
static bool waiting_of(const struct status *s, size_t p, uint64_t lag, uint64_t *waiting) {
    int owner = s->view->partitions[p].owner;
    char number[FORMAT_SIZE];
    double said;
    *waiting = lag;
    if (owner < 0 || !s->view->daemons[owner].living)
        return true;
    snprintf(number, sizeof number, "%zu", p);
    if (!member_number(json_object_get(s->infos[owner], "lags"), number, &said))
        return false;
    if (said < (double)lag)
        *waiting = (uint64_t)said;
    return true;
}

static struct rest rest_of(const struct status *s, size_t p) {
    struct rest rest = {.lag_known = s->ends[p] != UINT64_MAX};
    uint64_t learned = s->view->partitions[p].learned;
    rest.lag = rest.lag_known && s->ends[p] > learned ? s->ends[p] - learned : 0;
    rest.split_known = rest.lag_known && waiting_of(s, p, rest.lag, &rest.waiting);
    rest.uncommitted = rest.split_known ? rest.lag - rest.waiting : 0;
    return rest;
}

static int status_open(struct status *s, const struct fleet_view *view, const uint64_t *ends,
                       struct error *error) {
    *s = (struct status){.view = view, .ends = ends};
    s->infos = calloc(view->daemon_count + 1, sizeof(json_t *));
    s->rests = calloc(view->partition_count + 1, sizeof *s->rests);
    if (!s->infos || !s->rests)
        return error_no_memory(error);
    for (size_t d = 0; d < view->daemon_count; d++)
        s->infos[d] = json_loads(view->daemons[d].info, 0, NULL);
    for (size_t p = 0; p < view->partition_count; p++)
        s->rests[p] = rest_of(s, p);
    return 0;
}

static void status_close(struct status *s) {
    for (size_t d = 0; s->infos && d < s->view->daemon_count; d++)
        json_decref(s->infos[d]);
    free(s->infos);
    free(s->rests);
}

enum { OF_NOBODY = -1, OF_ALL = -2 };

/* Of the partitions of one daemon, or of nobody, or of all. */
static size_t sum_of(const struct status *s, int owner, struct rest *sum) {
    size_t count = 0;
    *sum = (struct rest){.lag_known = true, .split_known = true};
    for (size_t p = 0; p < s->view->partition_count; p++) {
        const struct rest *rest = &s->rests[p];
        if (owner != OF_ALL && s->view->partitions[p].owner != owner)
            continue;
        count++;
        sum->lag_known &= rest->lag_known;
        sum->split_known &= rest->split_known;
        sum->lag += rest->lag;
        sum->waiting += rest->waiting;
        sum->uncommitted += rest->uncommitted;
    }
    return count;
}

static const char *state_of(const struct fleet_daemon *daemon, const json_t *info) {
    const char *said = member_string(info, "state");
    return !daemon->living                         ? "gone"
           : daemon->draining                      ? "drained"
           : said && strcmp(said, "draining") == 0 ? "stopping"
           : said                                  ? said
                                                   : "joining";
}

/* ---- For people ---- */

static const char *count_or_unknown(char text[FORMAT_SIZE], bool known, uint64_t count) {
    if (!known)
        return "-";
    return format_grouped(text, (double)count);
}

/* As state_of; who is to hand over what it has, and has some left, is not drained yet. */
static const char *state_for_people(const struct fleet_daemon *daemon, const json_t *info,
                                    size_t partitions) {
    return daemon->living && daemon->draining && partitions > 0 ? "draining"
                                                                : state_of(daemon, info);
}

static void put_row(struct grid *grid, size_t row, const char *who, const char *learned,
                    size_t partitions, const struct rest *rest) {
    char waiting[FORMAT_SIZE], uncommitted[FORMAT_SIZE];
    grid_put(grid, row, "%s\t%zu\t%s\t%s\t%s", who, partitions, learned,
             count_or_unknown(waiting, rest->split_known, rest->waiting),
             count_or_unknown(uncommitted, rest->split_known, rest->uncommitted));
}

static void put_daemon(struct grid *grid, const struct status *s, size_t d) {
    enum { CONTROL = 7 };
    const struct fleet_daemon *daemon = &s->view->daemons[d];
    const json_t *info = s->infos[d];
    const char *control = member_string(info, "control");
    double examples = 0, rate = 0;
    char name[TEXT_SIZE], state[TEXT_SIZE], who[2 * TEXT_SIZE], count[FORMAT_SIZE],
        speed[FORMAT_SIZE], learned[2 * FORMAT_SIZE];
    struct rest sum;
    size_t partitions = sum_of(s, (int)d, &sum);
    member_number(info, "examples", &examples);
    member_number(info, "rate", &rate);
    snprintf(who, sizeof who, "%s\t%s", text_copy(name, sizeof name, daemon->name),
             text_copy(state, sizeof state, state_for_people(daemon, info, partitions)));
    snprintf(learned, sizeof learned, "%s\t%s", format_grouped(count, examples),
             daemon->living ? format_rate(speed, rate) : "-");
    put_row(grid, d, who, learned, partitions, &sum);
    text_copy(grid_text(grid, d, CONTROL), GRID_TEXT_SIZE, control ? control : "");
}

static int print_daemons(const struct status *s) {
    struct rest sum;
    struct grid grid;
    size_t row = s->view->daemon_count;
    if (grid_open(&grid, row + 2, 0,
                  "-daemon\t-state\tpartitions\texamples\tper s\twaiting\t"
                  "uncommitted\t-control"))
        return -1;
    for (size_t d = 0; d < row; d++)
        put_daemon(&grid, s, d);
    size_t free = sum_of(s, OF_NOBODY, &sum);
    if (free > 0)
        put_row(&grid, row++, "nobody\t", "\t", free, &sum);
    size_t all = sum_of(s, OF_ALL, &sum);
    put_row(&grid, row++, "all\t", "\t", all, &sum);
    grid.row_count = row;
    grid_print(&grid, stdout, 0, grid_width());
    grid_close(&grid);
    return 0;
}

static int print_partitions(const struct status *s) {
    struct grid grid;
    if (grid_open(&grid, s->view->partition_count, 0,
                  "-partition\t-daemon\tcommitted\tstreams\twaiting\tuncommitted"))
        return -1;
    for (size_t p = 0; p < s->view->partition_count; p++) {
        const struct fleet_partition *partition = &s->view->partitions[p];
        const struct rest *rest = &s->rests[p];
        char name[TEXT_SIZE] = "nobody", counts[4][FORMAT_SIZE];
        if (partition->owner >= 0)
            text_copy(name, sizeof name, s->view->daemons[partition->owner].name);
        grid_put(&grid, p, "%zu\t%s\t%s\t%s\t%s\t%s", p, name,
                 format_grouped(counts[0], (double)partition->learned),
                 format_grouped(counts[1], (double)partition->states),
                 count_or_unknown(counts[2], rest->split_known, rest->waiting),
                 count_or_unknown(counts[3], rest->split_known, rest->uncommitted));
    }
    putchar('\n');
    grid_print(&grid, stdout, 0, grid_width());
    grid_close(&grid);
    return 0;
}

/* Where there are averages: how many there have been, and who waits for the next. */
static void print_averages(const struct fleet_view *view) {
    if (view->round > 1 || view->arrived > 0)
        printf(", %" PRIu64 " average%s of parameters", view->round - 1, text_s(view->round - 1));
    if (view->arrived > 0)
        printf(" (%zu daemon%s wait%s for the next)", view->arrived, text_s(view->arrived),
               view->arrived == 1 ? "s" : "");
}

int fleet_print(const char *group, const struct fleet_view *view, const uint64_t *ends,
                bool partitions, struct error *error) {
    char name[TEXT_SIZE], stream[TEXT_SIZE], digest[TEXT_SIZE];
    struct status status;
    int result = status_open(&status, view, ends, error);
    if (result == 0) {
        printf("fleet %s: stream %s, %zu partition%s, configuration %.*s",
               text_copy(name, sizeof name, group), text_copy(stream, sizeof stream, view->stream),
               view->partition_count, text_s(view->partition_count), DIGEST_SHOWN,
               text_copy(digest, sizeof digest, view->digest));
        print_averages(view);
        printf("\n\n");
        if (print_daemons(&status) || (partitions && print_partitions(&status)))
            result = error_no_memory(error);
        fleet_print_notes(view, status.infos);
    }
    status_close(&status);
    return result;
}

/* ---- For programs ---- */

static void add_rest(json_t *object, const struct rest *rest) {
    const struct {
        const char *name;
        bool known;
        uint64_t count;
    } rows[] = {{"lag", rest->lag_known, rest->lag},
                {"waiting", rest->split_known, rest->waiting},
                {"uncommitted", rest->split_known, rest->uncommitted}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        json_object_set_new(object, rows[i].name,
                            rows[i].known ? json_integer((json_int_t)rows[i].count) : json_null());
}

static json_t *daemon_json(const struct status *s, int d) {
    const struct fleet_daemon *daemon = &s->view->daemons[d];
    struct rest sum;
    size_t partitions = sum_of(s, d, &sum);
    json_t *object = json_is_object(s->infos[d]) ? json_copy(s->infos[d]) : json_object();
    json_object_set_new(object, "name", json_string(daemon->name));
    json_object_set_new(object, "state", json_string(state_of(daemon, s->infos[d])));
    json_object_set_new(object, "living", json_boolean(daemon->living));
    json_object_set_new(object, "draining", json_boolean(daemon->draining));
    json_object_set_new(object, "lease", json_real(daemon->lease));
    json_object_set_new(object, "partitions", json_integer((json_int_t)partitions));
    add_rest(object, &sum);
    return object;
}

static json_t *partition_json(const struct status *s, size_t p) {
    const struct fleet_partition *partition = &s->view->partitions[p];
    json_t *object = json_object();
    json_object_set_new(
        object, "daemon",
        partition->owner < 0 ? json_null() : json_string(s->view->daemons[partition->owner].name));
    json_object_set_new(object, "committed", json_integer((json_int_t)partition->learned));
    json_object_set_new(object, "streams", json_integer((json_int_t)partition->states));
    add_rest(object, &s->rests[p]);
    return object;
}

int fleet_print_json(const char *group, const struct fleet_view *view, const uint64_t *ends,
                     struct error *error) {
    struct status status;
    char *text = NULL;
    if (status_open(&status, view, ends, error) == 0) {
        json_t *daemons = json_array(), *partitions = json_array();
        for (size_t d = 0; d < view->daemon_count; d++)
            json_array_append_new(daemons, daemon_json(&status, (int)d));
        for (size_t p = 0; p < view->partition_count; p++)
            json_array_append_new(partitions, partition_json(&status, p));
        json_t *all =
            json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "group", group, "stream", view->stream,
                      "digest", view->digest, "round", (json_int_t)view->round, "daemons", daemons,
                      "partitions", partitions);
        text = all ? json_dumps(all, JSON_COMPACT) : NULL;
        json_decref(all);
    }
    status_close(&status);
    if (!text)
        return error_no_memory(error);
    puts(text);
    free(text);
    return 0;
}
