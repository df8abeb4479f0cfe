/* The losses of a daemon's members from a recording (tools/history/history.h,
   docs/reference/recordings.md). A loss message is a row of level 0; a row of level k stands for
   10^k of them. Each level keeps only its newest rows: older messages are read from the next level.
   Rows are weighted by their examples, so that means are those over all examples. */
#include "live.h"

#include <ctype.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/database.h"
#include "common/error.h"
#include "experiment_memory.h"
#include "experiment_spec.h"
#include "experiment_store.h"

struct live {
    struct config config;                                    /* with its members */
    char names[CONFIG_MEMBERS_MAX][CONFIG_MEMBER_NAME_SIZE]; /* (variants,) of members */
};

/* ---- Constraints of members ---- */

/* All members have the same stream, input and horizon, as in config_members.c. */
static bool can_differ(const char *key) {
    static const char *const own[] = {"model.layers.", "model.output.", "learning.", "seed"};
    static const char *const shared[] = {"learning.max_streams", "learning.threads", "learning.pin",
                                         "model.output.ahead"};
    bool can = false;
    for (size_t n = 0; n < sizeof own / sizeof *own; n++)
        can |= !strncmp(key, own[n], strlen(own[n]));
    for (size_t n = 0; n < sizeof shared / sizeof *shared; n++)
        can &= strcmp(key, shared[n]) != 0;
    return can;
}

static int check_variants(const struct experiment_spec *spec, struct error *error) {
    if (spec->stream_count != 1)
        return error_set(error, EX_CONFIG,
                         "%s: --live: expected one stream, got %zu; remove the others", spec->path,
                         spec->stream_count);
    if (spec->variant_count > CONFIG_MEMBERS_MAX)
        return error_set(
            error, EX_CONFIG,
            "%s: --live: expected at most %d variants (members of a daemon), got %zu; remove some",
            spec->path, CONFIG_MEMBERS_MAX, spec->variant_count);
    for (size_t i = 0; i < spec->variant_count; i++) {
        const struct spec_variant *variant = &spec->variants[i];
        if (variant->set.count > CONFIG_SETS_MAX)
            return error_set(error, EX_CONFIG,
                             "%s: --live: variant %s sets %zu keys, but a member may set at most "
                             "%d; move common keys into `set`",
                             spec->path, variant->name, variant->set.count, CONFIG_SETS_MAX);
        for (size_t k = 0; k < variant->set.count; k++)
            if (!can_differ(variant->set.rows[k].key))
                return error_set(
                    error, EX_CONFIG,
                    "%s: --live: variant %s sets %s, which must be the same in all members of a "
                    "daemon; expected keys of model.layers, model.output (except ahead), learning "
                    "(except max_streams, threads and pin), or seed",
                    spec->path, variant->name, variant->set.rows[k].key);
    }
    return 0;
}

/* Letters, digits, '-' and '_'; differs from earlier names. */
static void member_name(struct live *live, size_t place, const char *variant) {
    char *name = live->names[place];
    size_t used = 0;
    for (const char *c = variant; *c && used + 1 < CONFIG_MEMBER_NAME_SIZE; c++) {
        bool plain = isalnum((unsigned char)*c) || *c == '_' || *c == '-';
        if (plain || (used && name[used - 1] != '-'))
            name[used++] = plain ? *c : '-';
    }
    while (used && name[used - 1] == '-')
        used--;
    name[used] = '\0';
    bool taken = !used;
    for (size_t i = 0; i < place; i++)
        taken |= !strcmp(live->names[i], name);
    if (!taken)
        return;
    enum { ROOM = 4 }; /* "-12" */
    used = used < CONFIG_MEMBER_NAME_SIZE - ROOM ? used : CONFIG_MEMBER_NAME_SIZE - ROOM;
    snprintf(name + used, CONFIG_MEMBER_NAME_SIZE - used, "%s%zu", used ? "-" : "variant-",
             place + 1);
}

/* "members=[{name: a, set: {KEY: VALUE, ...}}, ...]" */
static const char *members_text(void **memory, const struct experiment_spec *spec,
                                struct live *live) {
    char *text = memory_copy(memory, "members=[");
    for (size_t i = 0; text && i < spec->variant_count; i++) {
        const struct spec_settings *set = &spec->variants[i].set;
        member_name(live, i, spec->variants[i].name);
        text =
            memory_print(memory, "%s%s{name: \"%s\", set: {", text, i ? ", " : "", live->names[i]);
        for (size_t k = 0; text && k < set->count; k++)
            text = memory_print(memory, "%s%s%s: %s", text, k ? ", " : "", set->rows[k].key,
                                set->rows[k].value);
        text = text ? memory_print(memory, "%s}}", text) : NULL;
    }
    return text ? memory_print(memory, "%s]", text) : NULL;
}

/* ---- The configuration ---- */

/* The part common to all variants, on the one stream with the first seed. */
static int load(const struct experiment_plan *plan, const char *members, struct config *config,
                struct error *error) {
    struct spec_variant none = {.name = ""};
    struct experiment_spec common = *plan->spec;
    struct spec_overrides overrides;
    common.variants = &none;
    common.variant_count = 1;
    if (spec_overrides(&overrides, &common, 0, 0, common.seeds[0], plan->extra, plan->extra_count,
                       error))
        return -1;
    const char **values = memory_take(&overrides.memory, (overrides.count + 1) * sizeof *values);
    int status = values ? 0 : error_no_memory(error);
    if (!status) {
        if (overrides.count)
            memcpy(values, overrides.values, overrides.count * sizeof *values);
        values[overrides.count] = members;
        status =
            config_load(config, plan->bases[0], values, overrides.count + (members != NULL), error);
    }
    spec_overrides_clear(&overrides);
    return status;
}

static int resolve(const struct experiment_plan *plan, struct live *live, struct error *error) {
    void *memory = NULL;
    const char *members = members_text(&memory, plan->spec, live);
    int status = members ? load(plan, NULL, &live->config, error) : error_no_memory(error);
    if (!status && !input_has_experts(&live->config.architecture.input))
        status = error_set(error, EX_CONFIG,
                           "%s: --live requires model.input.scale: forecast; add it to `set`, or "
                           "use preset: forecast",
                           plan->spec->path);
    if (!status)
        status = load(plan, members, &live->config, error);
    memory_clear(&memory);
    return status;
}

/* The caller frees the result; NULL: errors as for live_print. */
static struct live *live_resolve(const struct experiment_plan *plan, struct error *error) {
    if (check_variants(plan->spec, error))
        return NULL;
    struct live *live = calloc(1, sizeof *live);
    if (!live)
        error_no_memory(error);
    else if (resolve(plan, live, error)) {
        free(live);
        live = NULL;
    }
    return live;
}

/* ---- Printing ---- */

static void print_head(const struct experiment_plan *plan, const struct live *live, FILE *to) {
    const struct experiment_spec *spec = plan->spec;
    void *memory = NULL;
    const char *feed = spec_command(&memory, &spec->streams[0]);
    fprintf(to, "# %s on a live stream: one daemon, whose members are the variants.\n", spec->name);
    for (size_t i = 0; i < spec->variant_count; i++)
        fprintf(to, "#   %s: %s\n", live->names[i], spec->variants[i].name);
    fprintf(to,
            "# With this in %s.daemon.yaml, run each command in its own terminal:\n"
            "#   runneld --config %s.daemon.yaml\n"
            "#   runnel-record --output %s.db\n"
            "#   %s\n"
            "# and then, at any time:\n"
            "#   runnel-experiment --live %s --recording %s.db\n",
            spec->name, spec->name, spec->name, feed ? feed : "runnel-feed ...", spec->path,
            spec->name);
    memory_clear(&memory);
}

int live_print(const struct experiment_plan *plan, FILE *to, struct error *error) {
    struct live *live = live_resolve(plan, error);
    if (!live)
        return -1;
    print_head(plan, live, to);
    int status = config_print(to, &live->config, NULL, error);
    free(live);
    return status;
}

enum { FACTOR = 10, LEVELS_MOST = 16, BUSY_MS = 10000, SQL_SIZE = 512 };

struct recording {
    sqlite3 *file;
    struct database_clock clock;
    const char *path;
    int64_t run;
    int64_t messages; /* number of loss messages in the run */
    double every;     /* examples between two messages, at most */
    double start;     /* examples before those of the messages */
    const struct output *output;
};

static int fail(const struct recording *r, struct error *error) {
    return error_set(error, EX_DATAERR, "cannot read the recording %s: %s", r->path,
                     database_message(r->file));
}

static sqlite3_stmt *prepare(const struct recording *r, const char *sql, struct error *error) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(r->file, sql, -1, &statement, NULL) != SQLITE_OK)
        fail(r, error);
    return statement;
}

/* ---- The run ---- */

/* The newest run of that daemon. */
static int find_run(struct recording *r, const struct live *live, struct experiment_run *run,
                    struct experiment_results *results, struct error *error) {
    sqlite3_stmt *select =
        prepare(r,
                "SELECT id, digest, device, version, parameters, first_time,"
                " first_examples, newest_examples, newest_steps, coalesce(every, ?) FROM runs"
                " WHERE name = ?"
                " ORDER BY newest_time DESC, id DESC LIMIT 1",
                error);
    enum {
        RUN_ID,
        RUN_DIGEST,
        RUN_DEVICE,
        RUN_VERSION,
        RUN_PARAMETERS,
        RUN_FIRST,
        RUN_FROM,
        RUN_TO,
        RUN_STEPS,
        RUN_EVERY
    };
    if (!select)
        return -1;
    sqlite3_bind_int64(select, 1, (sqlite3_int64)live->config.statistics_every);
    sqlite3_bind_text(select, 2, live->config.name, -1, SQLITE_STATIC);
    int code = sqlite3_step(select);
    if (code == SQLITE_ROW) {
        const char *texts[] = {(const char *)sqlite3_column_text(select, RUN_DIGEST),
                               (const char *)sqlite3_column_text(select, RUN_DEVICE),
                               (const char *)sqlite3_column_text(select, RUN_VERSION)};
        char *copies[] = {NULL, NULL, NULL};
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
            copies[i] = texts[i] ? memory_copy(&results->memory, texts[i]) : NULL;
        r->run = sqlite3_column_int64(select, RUN_ID);
        r->output = &live->config.architecture.output;
        r->every = sqlite3_column_double(select, RUN_EVERY);
        r->start = fmax(sqlite3_column_double(select, RUN_FROM) - r->every, 0);
        *run = (struct experiment_run){.run = r->run,
                                       .digest = copies[0],
                                       .device = copies[1],
                                       .version = copies[2],
                                       .parameters =
                                           (uint64_t)sqlite3_column_int64(select, RUN_PARAMETERS),
                                       .started = sqlite3_column_double(select, RUN_FIRST),
                                       .seconds = NAN,
                                       .cpu_seconds = NAN,
                                       .rejected = EXPERIMENT_UNKNOWN,
                                       .scored = EXPERIMENT_UNKNOWN,
                                       .updates = EXPERIMENT_UNKNOWN,
                                       .skipped = EXPERIMENT_UNKNOWN,
                                       .examples = (uint64_t)sqlite3_column_int64(select, RUN_TO),
                                       .steps = (uint64_t)sqlite3_column_int64(select, RUN_STEPS)};
    }
    sqlite3_finalize(select);
    return code == SQLITE_ROW ? 0
           : code == SQLITE_DONE
               ? error_set(error, EX_DATAERR,
                           "%s has no run of daemon %s, the name that --live uses", r->path,
                           live->config.name)
               : fail(r, error);
}

/* The number of a member among the run's experts; -1: not found. */
static int64_t find_expert(const struct recording *r, const char *name, struct error *error) {
    sqlite3_stmt *select =
        prepare(r, "SELECT expert FROM experts WHERE run = ? AND name = ?", error);
    int64_t expert = -1;
    if (!select)
        return -1;
    sqlite3_bind_int64(select, 1, r->run);
    sqlite3_bind_text(select, 2, name, -1, SQLITE_STATIC);
    if (sqlite3_step(select) == SQLITE_ROW)
        expert = sqlite3_column_int64(select, 0);
    else
        error_set(error, EX_DATAERR,
                  "%s: the daemon has no member %s: it ran with a configuration that differs from "
                  "the one of --live",
                  r->path, name);
    sqlite3_finalize(select);
    return expert;
}

/* ---- Means ---- */

/* A column of a table, of one expert or of all (-1). */
struct recorded {
    const char *table, *name;
    int64_t expert;
};

struct mean {
    double sum, weight; /* examples */
};

static void add(struct mean *mean, double value, double examples) {
    if (!isfinite(value) || examples <= 0)
        return;
    mean->sum += examples * value;
    mean->weight += examples;
}

static double mean_of(const struct mean *mean) {
    return mean->weight > 0 ? mean->sum / mean->weight : NAN;
}

/* Rows are read from the newest back; the previous row determines the number of examples of a
   row. */
struct means {
    bool of_scores; /* see weight_up_to */
    struct mean whole, last;
    int64_t recent; /* later messages also count in `last` */
    struct row {
        double value, examples; /* up to here */
        double messages, known; /* messages with a value */
        bool recent;
    } row; /* read last, to be added next */
};

/* The weight of the first `examples` examples. An example without a forecast has no loss. With
   several horizons an example has the mean over its horizons, and an expert's value is a mean
   over the scores of all horizons. */
static double weight_up_to(const struct recording *r, bool of_scores, double examples) {
    size_t horizons = of_scores && r->output->ahead.count ? r->output->ahead.count : 1;
    double sum = 0;
    for (size_t h = 0; h < horizons; h++)
        sum += fmax(examples - (double)output_ahead(r->output, h), 0);
    return sum / (double)horizons;
}

static void add_row(const struct recording *r, struct means *means, double before) {
    const struct row *row = &means->row;
    double examples = weight_up_to(r, means->of_scores, row->examples) -
                      weight_up_to(r, means->of_scores, fmax(before, r->start));
    examples = fmin(examples, r->every * row->messages);
    double weight = row->messages > 0 ? examples * row->known / row->messages : 0;
    add(&means->whole, row->value, weight);
    if (row->recent)
        add(&means->last, row->value, weight);
}

/* The rows of one level for messages before *`end`, which becomes the first covered one. */
static int add_level(const struct recording *r, const struct recorded *of, int level, int64_t size,
                     int64_t *end, struct means *means, struct error *error) {
    char sql[SQL_SIZE];
    int64_t first = *end;
    snprintf(sql, sizeof sql,
             "SELECT number, examples, messages, %s%s, messages%s%s%s FROM %s%s WHERE run = ?1%s%s"
             " AND number >= 0 AND (number + 1) * ?3 <= ?4 ORDER BY number DESC",
             of->name, level ? "_mean" : "", level ? " - coalesce(" : "", level ? of->name : "",
             level ? "_missing, 0)" : "", of->table, level ? "_levels" : "",
             of->expert < 0 ? "" : " AND expert = ?2", level ? " AND level = ?5" : "");
    sqlite3_stmt *select = prepare(r, sql, error);
    if (!select)
        return -1;
    sqlite3_bind_int64(select, 1, r->run);
    if (of->expert >= 0)
        sqlite3_bind_int64(select, 2, of->expert);
    sqlite3_bind_int64(select, 3, size);
    sqlite3_bind_int64(select, 4, *end);
    if (level)
        sqlite3_bind_int64(select, 5, level);
    enum { ROW_NUMBER, ROW_EXAMPLES, ROW_MESSAGES, ROW_VALUE, ROW_KNOWN };
    int code;
    while ((code = sqlite3_step(select)) == SQLITE_ROW) {
        bool known = sqlite3_column_type(select, ROW_VALUE) != SQLITE_NULL;
        double examples = sqlite3_column_double(select, ROW_EXAMPLES);
        first = sqlite3_column_int64(select, ROW_NUMBER) * size;
        add_row(r, means, examples);
        means->row = (struct row){.value = known ? sqlite3_column_double(select, ROW_VALUE) : NAN,
                                  .examples = examples,
                                  .messages = sqlite3_column_double(select, ROW_MESSAGES),
                                  .known = sqlite3_column_double(select, ROW_KNOWN),
                                  .recent = first >= means->recent};
    }
    sqlite3_finalize(select);
    *end = first;
    return code == SQLITE_DONE ? 0 : fail(r, error);
}

/* Over the whole run, and over its last share. */
static int add_column(const struct recording *r, const struct recorded *of, double share,
                      double *all, double *recent, struct error *error) {
    int64_t end = r->messages, size = 1;
    struct means means = {.of_scores = of->expert >= 0,
                          .recent = end - (int64_t)ceil(share * (double)end)};
    for (int level = 0; level < LEVELS_MOST && end > 0; level++, size *= FACTOR)
        if (add_level(r, of, level, size, &end, &means, error))
            return -1;
    add_row(r, &means, 0);
    *all = mean_of(&means.whole);
    *recent = mean_of(&means.last);
    return 0;
}

static int count_messages(struct recording *r, struct error *error) {
    sqlite3_stmt *select = prepare(
        r, "SELECT max(number) + 1 FROM loss WHERE run = ? AND number < 1000000000000000", error);
    if (!select)
        return -1;
    sqlite3_bind_int64(select, 1, r->run);
    r->messages = sqlite3_step(select) == SQLITE_ROW ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_finalize(select);
    return r->messages > 0 ? 0
                           : error_set(error, EX_DATAERR,
                                       "%s has no loss messages of that daemon yet", r->path);
}

/* ---- Results ---- */

/* The daemon's own forecast, from all members and experts, is the last variant. */
static const char COMBINED[] = "all together";

static int make_room(struct experiment_results *results, const struct experiment_plan *plan) {
    const struct experiment_spec *spec = plan->spec;
    size_t count = spec->variant_count + 1;
    results->name = spec->name;
    results->measure = spec->measure;
    results->recent = spec->recent;
    results->started = results->finished = NAN;
    results->stream_count = 1;
    results->streams = memory_take(&results->memory, sizeof *results->streams);
    results->variants = memory_take(&results->memory, count * sizeof *results->variants);
    results->runs = memory_take(&results->memory, count * sizeof *results->runs);
    if (!results->streams || !results->variants || !results->runs)
        return -1;
    results->variant_count = results->run_count = count;
    results->live = true;
    for (size_t i = 0; i < count; i++) {
        const struct spec_settings *set = i < spec->variant_count ? &spec->variants[i].set : NULL;
        size_t settings = set ? set->count : 0;
        struct experiment_setting *rows =
            memory_take(&results->memory, (settings + 1) * sizeof *rows);
        if (!rows)
            return -1;
        for (size_t k = 0; k < settings; k++)
            rows[k] = (struct experiment_setting){set->rows[k].key, set->rows[k].brief,
                                                  set->rows[k].value};
        results->variants[i] =
            (struct experiment_variant){.variant = i,
                                        .name = set ? spec->variants[i].name : COMBINED,
                                        .settings = rows,
                                        .setting_count = settings};
    }
    return 0;
}

static int fill_run(const struct recording *r, const struct live *live, size_t variant,
                    double share, struct experiment_run *run, struct error *error) {
    struct experiment_figures *f = &run->figures;
    struct recorded column = {"loss", "mean", -1};
    if (variant < CONFIG_MEMBERS_MAX && *live->names[variant]) {
        column.table = "loss_experts";
        column.expert = find_expert(r, live->names[variant], error);
        if (column.expert < 0)
            return -1;
        run->parameters = EXPERIMENT_UNKNOWN; /* the daemon only reports their total */
    }
    for (size_t n = 0; n < EXPERIMENT_FIGURES; n++)
        ((double *)f)[n] = NAN;
    if (add_column(r, &column, share, &f->mean, &f->recent, error) ||
        add_column(r, &(struct recorded){"loss", "baseline", -1}, share, &f->baseline,
                   &f->baseline_recent, error))
        return -1;
    f->skill = 1 - f->mean / f->baseline;
    f->skill_recent = 1 - f->recent / f->baseline_recent;
    run->state = isfinite(f->mean) ? EXPERIMENT_DONE : EXPERIMENT_FAILED;
    run->error = isfinite(f->mean) ? NULL : "no recorded data for this variant";
    return 0;
}

static int fill(struct recording *r, const struct experiment_plan *plan, const struct live *live,
                struct experiment_results *results, struct error *error) {
    struct experiment_run first;
    if (make_room(results, plan))
        return error_no_memory(error);
    if (find_run(r, live, &first, results, error) || count_messages(r, error))
        return -1;
    for (size_t i = 0; i < results->variant_count; i++) {
        struct experiment_run *run = &results->runs[i];
        *run = first;
        run->variant = i;
        run->stream = 0;
        run->seed = plan->spec->seeds[0];
        if (fill_run(r, live, i, results->recent, run, error))
            return -1;
    }
    results->version = first.version;
    results->device = first.device;
    results->started = first.started;
    results->total = results->run_count;
    results->streams[0] = (struct experiment_stream){
        .name = plan->spec->streams[0].name, .command = r->path, .examples = first.examples};
    return 0;
}

int live_report(const struct experiment_plan *plan, const char *path,
                const struct report_options *options, struct error *error) {
    struct recording r = {.path = path, .clock.limit = DATABASE_READ_SECONDS};
    struct experiment_results results = {0};
    struct live *live = live_resolve(plan, error);
    if (!live)
        return -1;
    int status = 0;
    if (database_open(&r.file, path, SQLITE_OPEN_READONLY, &r.clock) != SQLITE_OK)
        status = error_set(error, EX_NOINPUT, "cannot open %s: %s", path,
                           r.file ? sqlite3_errmsg(r.file) : "out of memory");
    if (!status) {
        sqlite3_busy_timeout(r.file, BUSY_MS);
        status = fill(&r, plan, live, &results, error);
    }
    if (!status)
        status = report_results(&results, options, error);
    experiment_results_clear(&results);
    sqlite3_close(r.file);
    free(live);
    return status;
}
