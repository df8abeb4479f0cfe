#include "experiment_plan.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/error.h"
#include "experiment_examples.h"
#include "experiment_memory.h"

void plan_clear(struct experiment_plan *plan) {
    void *memory = plan->memory;
    memory_clear(&memory);
    *plan = (struct experiment_plan){0};
}

size_t plan_left(const struct experiment_plan *plan) {
    size_t left = 0;
    for (size_t n = 0; n < plan->run_count; n++)
        left += !plan->runs[n].over && !plan->runs[n].left_out;
    return left;
}

/* ---- Bases ---- */

/* Writes a base that is a text to a file: "base.yaml", or "base-STREAM.yaml" for a stream. */
static const char *write_base(struct experiment_plan *plan, const struct spec_base *base,
                              const char *stream, const char *directory, struct error *error) {
    char *path = stream ? memory_print(&plan->memory, "%s/base-%s.yaml", directory, stream)
                        : memory_print(&plan->memory, "%s/base.yaml", directory);
    FILE *file = path ? fopen(path, "we") : NULL;
    if (!path) {
        error_no_memory(error);
        return NULL;
    }
    bool written = file != NULL;
    if (file) {
        if (!base->named)
            written &=
                fprintf(file, "name: \"%.*s\"\n", CONFIG_NAME_SIZE - 1, plan->spec->name) > 0;
        written &= fputs(base->text, file) >= 0;
        written &= fclose(file) == 0;
    }
    if (!written) {
        error_set(error, EX_IOERR, "cannot write %s: %s", path, strerror(errno));
        return NULL;
    }
    return path;
}

static int write_bases(struct experiment_plan *plan, const char *directory, struct error *error) {
    const struct experiment_spec *spec = plan->spec;
    plan->bases = memory_take(&plan->memory, (spec->stream_count + 1) * sizeof *plan->bases);
    if (!plan->bases)
        return error_no_memory(error);
    const char *common = NULL;
    for (size_t n = 0; n < spec->stream_count; n++) {
        const struct spec_base *base = spec_base_of(spec, n);
        bool own = base != &spec->base;
        if (base->path)
            plan->bases[n] = base->path;
        else if (!own && common)
            plan->bases[n] = common;
        else
            plan->bases[n] =
                write_base(plan, base, own ? spec->streams[n].name : NULL, directory, error);
        if (!plan->bases[n])
            return -1;
        common = own ? common : plan->bases[n];
    }
    return 0;
}

/* ---- Configurations ---- */

/* Removes "DIRECTORY/base.yaml:3:1: " from an error about a base inside the experiment: the user
   did not write that file, and it is temporary. */
static void hide_file(const char *path, struct error *error) {
    size_t length = strlen(path);
    if (strncmp(error->text, path, length) != 0 || error->text[length] != ':')
        return;
    const char *rest = error->text + length;
    rest += strspn(rest, ":0123456789 ");
    memmove(error->text, rest, strlen(rest) + 1);
    error_prefix(error, "base");
}

static int load(const struct experiment_plan *plan, const struct planned_run *run,
                struct config *config, struct error *error) {
    const struct experiment_spec *spec = plan->spec;
    struct spec_overrides overrides;
    if (spec_overrides(&overrides, spec, run->variant, run->stream, run->seed, plan->extra,
                       plan->extra_count, error))
        return -1;
    int result =
        config_load(config, plan->bases[run->stream], overrides.values, overrides.count, error);
    spec_overrides_clear(&overrides);
    if (result == 0)
        return 0;
    error->status = EX_CONFIG;
    if (spec_base_of(spec, run->stream)->text)
        hide_file(plan->bases[run->stream], error);
    return error_prefix(error, "%s: variant \"%s\", stream %s", spec->path,
                        spec->variants[run->variant].name, spec->streams[run->stream].name);
}

int plan_load(const struct experiment_plan *plan, const struct planned_run *run,
              struct config *config, struct error *error) {
    if (load(plan, run, config, error))
        return -1;
    return strcmp(config->digest, run->digest) == 0
               ? 0
               : error_set(
                     error, EX_CONFIG,
                     "%s changed while the experiment was running; run the same command again",
                     plan->bases[run->stream]);
}

static int load_all(struct experiment_plan *plan, struct error *error) {
    struct config *config = calloc(1, sizeof *config);
    int result = config ? 0 : error_no_memory(error);
    for (size_t n = 0; n < plan->run_count && result == 0; n++) {
        result = load(plan, &plan->runs[n], config, error);
        if (result == 0)
            strcpy(plan->runs[n].digest, config->digest);
    }
    free(config);
    return result;
}

static int list_runs(struct experiment_plan *plan, const char *only, struct error *error) {
    const struct experiment_spec *spec = plan->spec;
    size_t count = spec->variant_count * spec->stream_count * spec->seed_count, matching = 0;
    plan->runs = memory_take(&plan->memory, (count + 1) * sizeof *plan->runs);
    if (!plan->runs)
        return error_no_memory(error);
    for (size_t seed = 0; seed < spec->seed_count; seed++)
        for (size_t stream = 0; stream < spec->stream_count; stream++)
            for (size_t variant = 0; variant < spec->variant_count; variant++) {
                struct planned_run *run = &plan->runs[plan->run_count++];
                *run = (struct planned_run){
                    .variant = variant, .stream = stream, .seed = spec->seeds[seed]};
                run->left_out = only && fnmatch(only, spec->variants[variant].name, 0) != 0;
                matching += !run->left_out;
            }
    return matching ? 0
                    : error_set(error, EX_USAGE, "--only %s: no variant of %s matches", only,
                                spec->path);
}

int plan_make(struct experiment_plan *plan, struct experiment_spec *spec,
              const struct plan_options *options, struct error *error) {
    *plan = (struct experiment_plan){.spec = spec};
    plan->extra = memory_take(&plan->memory, (options->set_count + 1) * sizeof *plan->extra);
    if (!plan->extra)
        return error_no_memory(error);
    for (size_t n = 0; n < options->set_count; n++)
        if (spec_resolve(spec, options->sets[n], &plan->extra[plan->extra_count++], error))
            return -1;
    return write_bases(plan, options->directory, error) || list_runs(plan, options->only, error) ||
                   load_all(plan, error)
               ? -1
               : 0;
}

struct entering {
    struct experiment_plan *plan;
    const struct experiment_spec *spec;
    struct experiment_store *store;
    struct experiment_results found;
    struct error *error;
};

/* "RESULTS has ...; choose another directory ...". */
#define REFUSE(e, what, ...)                                                                       \
    error_set((e)->error, EX_DATAERR,                                                              \
              "%s " what                                                                           \
              "; choose another directory with -o, or discard the results with --again",           \
              experiment_store_path((e)->store), __VA_ARGS__)

/* ---- Checks against existing results ---- */

static const char *kept_text(const struct experiment_spec *spec, char text[32]) {
    snprintf(text, 32, "%s%s%s", spec->keep & SPEC_LOSSES ? "losses " : "",
             spec->keep & SPEC_WEIGHTS ? "weights " : "",
             spec->keep & SPEC_PARAMETERS ? "parameters " : "");
    return text;
}

static bool any_over(const struct entering *e) {
    for (size_t n = 0; n < e->found.run_count; n++)
        if (e->found.runs[n].state != EXPERIMENT_WAITING &&
            e->found.runs[n].state != EXPERIMENT_FAILED)
            return true;
    return false;
}

static int check_figures(const struct entering *e) {
    char kept[32];
    const struct experiment_results *found = &e->found;
    if (!any_over(e))
        return 0;
    if (found->version && strcmp(found->version, PACKAGE_VERSION) != 0)
        return REFUSE(e, "has results of version %.60s; version %s may compute different bits",
                      found->version, PACKAGE_VERSION);
    if (found->recent != e->spec->recent || found->points != e->spec->points)
        return REFUSE(e,
                      "has runs with report.recent %g and points %llu, but the experiment now has "
                      "%g and %llu",
                      found->recent, (unsigned long long)found->points, e->spec->recent,
                      (unsigned long long)e->spec->points);
    if (strcmp(found->kept ? found->kept : "", kept_text(e->spec, kept)) != 0)
        return REFUSE(e, "has runs with report.keep \"%.40s\", but the experiment now has \"%s\"",
                      found->kept ? found->kept : "", kept);
    return 0;
}

/* ---- Streams ---- */

static const struct experiment_stream *stream_named(const struct entering *e, const char *name) {
    for (size_t n = 0; n < e->found.stream_count; n++)
        if (!strcmp(e->found.streams[n].name, name))
            return &e->found.streams[n];
    return NULL;
}

static size_t next_stream(const struct entering *e) {
    size_t next = 0;
    for (size_t n = 0; n < e->found.stream_count; n++)
        if (e->found.streams[n].stream >= next)
            next = e->found.streams[n].stream + 1;
    return next;
}

/* A recorded stream must have the same command and files; missing files are not compared. */
static int check_stream(const struct entering *e, const struct experiment_stream *stream,
                        const char *command, const char *files) {
    if (!stream->digest)
        return 0;
    if (strcmp(stream->command, command) != 0)
        return REFUSE(e,
                      "has stream %s recorded by \"%.150s\", but the experiment now has \"%.150s\"",
                      stream->name, stream->command, command);
    if (stream->files && strcmp(files, "[]") != 0 && strcmp(stream->files, files) != 0)
        return REFUSE(e,
                      "has stream %s recorded from a file that changed later (%.150s, now %.150s)",
                      stream->name, stream->files, files);
    return 0;
}

static int enter_streams(const struct entering *e) {
    struct experiment_plan *plan = e->plan;
    size_t next = next_stream(e);
    for (size_t n = 0; n < e->spec->stream_count; n++) {
        const char *name = e->spec->streams[n].name;
        const struct experiment_stream *there = stream_named(e, name);
        char *command = spec_command(&plan->memory, &e->spec->streams[n]);
        char *files = record_files(&plan->memory, e->spec, n);
        if (!command || !files)
            return error_no_memory(e->error);
        if (there && check_stream(e, there, command, files))
            return -1;
        plan->stream_numbers[n] = there ? there->stream : next++;
        const struct experiment_stream row = {
            .stream = plan->stream_numbers[n], .name = name, .command = command, .files = files};
        if ((!there || !there->digest) && experiment_store_stream(e->store, &row, e->error))
            return -1;
    }
    return 0;
}

/* ---- Variants ---- */

static size_t number_of_variant(const struct entering *e, const char *name, size_t *next) {
    for (size_t n = 0; n < e->found.variant_count; n++)
        if (!strcmp(e->found.variants[n].name, name))
            return e->found.variants[n].variant;
    return (*next)++;
}

static int compare_settings(const void *a, const void *b) {
    return strcmp(((const struct experiment_setting *)a)->key,
                  ((const struct experiment_setting *)b)->key);
}

static int enter_variant(const struct entering *e, size_t n) {
    const struct spec_variant *variant = &e->spec->variants[n];
    struct experiment_setting *rows =
        memory_take(&e->plan->memory, (variant->set.count + 1) * sizeof *rows);
    if (!rows)
        return error_no_memory(e->error);
    for (size_t s = 0; s < variant->set.count; s++)
        rows[s] = (struct experiment_setting){.key = variant->set.rows[s].key,
                                              .brief = variant->set.rows[s].brief,
                                              .value = variant->set.rows[s].value};
    qsort(rows, variant->set.count, sizeof *rows, compare_settings);
    const struct experiment_variant row = {.variant = e->plan->variant_numbers[n],
                                           .name = variant->name,
                                           .settings = rows,
                                           .setting_count = variant->set.count};
    return experiment_store_variant(e->store, &row, e->error);
}

static int enter_variants(const struct entering *e) {
    size_t next = 0;
    for (size_t n = 0; n < e->found.variant_count; n++)
        if (e->found.variants[n].variant >= next)
            next = e->found.variants[n].variant + 1;
    for (size_t n = 0; n < e->spec->variant_count; n++) {
        e->plan->variant_numbers[n] = number_of_variant(e, e->spec->variants[n].name, &next);
        if (enter_variant(e, n))
            return -1;
    }
    return 0;
}

/* ---- Runs ---- */

static int enter_run(const struct entering *e, struct planned_run *planned) {
    const struct experiment_run *run =
        experiment_run_of(&e->found, e->plan->variant_numbers[planned->variant],
                          e->plan->stream_numbers[planned->stream], planned->seed);
    planned->over = run && (run->state == EXPERIMENT_DONE || run->state == EXPERIMENT_NONFINITE);
    if (!planned->over)
        return experiment_store_plan(e->store, e->plan->variant_numbers[planned->variant],
                                     e->plan->stream_numbers[planned->stream], planned->seed,
                                     e->error);
    if (run->digest && strcmp(run->digest, planned->digest) == 0)
        return 0;
    return REFUSE(e,
                  "has results of variant \"%.150s\" on stream %.100s with a different "
                  "configuration (give the new variant another name to keep both)",
                  e->spec->variants[planned->variant].name, e->spec->streams[planned->stream].name);
}

static int enter_runs(const struct entering *e) {
    if (experiment_store_unplan(e->store, e->error))
        return -1;
    for (size_t n = 0; n < e->plan->run_count; n++)
        if (enter_run(e, &e->plan->runs[n]))
            return -1;
    return 0;
}

/* The device's text determines the last bits. */
static int find_device(const struct entering *e) {
    for (size_t n = 0; n < e->found.run_count && !e->plan->device; n++) {
        const char *device = e->found.runs[n].device;
        if (!device || strncmp(device, "cpu ", strlen("cpu ")) != 0)
            continue;
        e->plan->device = memory_copy(&e->plan->memory, device);
        if (!e->plan->device)
            return error_no_memory(e->error);
    }
    return 0;
}

/* ---- The whole plan ---- */

static char *seeds_text(struct experiment_plan *plan) {
    char *text = memory_copy(&plan->memory, "[");
    for (size_t n = 0; n < plan->spec->seed_count && text; n++)
        text = memory_print(&plan->memory, "%s%s%lld", text, n ? ", " : "",
                            (long long)plan->spec->seeds[n]);
    return text ? memory_print(&plan->memory, "%s]", text) : NULL;
}

/* Stores the experiment's properties; numbers as text. */
static int store_properties(const struct entering *e) {
    const struct experiment_spec *spec = e->spec;
    char recent[32], points[32], started[32], kept[32];
    char *seeds = seeds_text(e->plan);
    if (!seeds)
        return error_no_memory(e->error);
    snprintf(recent, sizeof recent, "%.17g", spec->recent);
    snprintf(points, sizeof points, "%llu", (unsigned long long)spec->points);
    snprintf(started, sizeof started, "%.3f", clock_unix());
    const struct {
        const char *key, *value;
    } properties[] = {{"format", "1"},
                      {"name", spec->name},
                      {"measure", spec->measure},
                      {"recent", recent},
                      {"points", points},
                      {"keep", kept_text(spec, kept)},
                      {"version", PACKAGE_VERSION},
                      {"text", spec->text},
                      {"yaml_path", spec->path},
                      {"seeds", seeds},
                      {"started", started},
                      {"finished", NULL}};
    for (size_t n = 0; n < sizeof properties / sizeof *properties; n++) {
        bool begun = !strcmp(properties[n].key, "started") && any_over(e);
        if (!begun &&
            experiment_store_set(e->store, properties[n].key, properties[n].value, e->error))
            return -1;
    }
    return 0;
}

static int store_total(const struct entering *e) {
    struct experiment_progress progress;
    char total[32];
    if (experiment_store_progress(e->store, &progress, e->error))
        return -1;
    snprintf(total, sizeof total, "%llu", (unsigned long long)progress.total);
    return experiment_store_set(e->store, "total", total, e->error);
}

int plan_enter(struct experiment_plan *plan, struct experiment_store *store, struct error *error) {
    const struct experiment_spec *spec = plan->spec;
    struct entering e = {.plan = plan, .spec = spec, .store = store, .error = error};
    plan->variant_numbers =
        memory_take(&plan->memory, (spec->variant_count + 1) * sizeof *plan->variant_numbers);
    plan->stream_numbers =
        memory_take(&plan->memory, (spec->stream_count + 1) * sizeof *plan->stream_numbers);
    if (!plan->variant_numbers || !plan->stream_numbers)
        return error_no_memory(error);
    if (experiment_store_begin(store, error))
        return -1;
    int result = experiment_store_read(store, &e.found, error);
    if (result == 0)
        result = check_figures(&e) || enter_streams(&e) || enter_variants(&e) || enter_runs(&e) ||
                         find_device(&e) || store_properties(&e) || store_total(&e) ||
                         experiment_store_commit(store, error)
                     ? -1
                     : 0;
    if (result)
        experiment_store_undo(store);
    experiment_results_clear(&e.found);
    return result;
}
