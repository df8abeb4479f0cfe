/* An experiment from its YAML: streams, variants of a configuration, seeds, and the report.
   docs/reference/experiments.md explains every key.

   The specification owns all texts. Values of keys are YAML, like after the '=' of an override. */
#ifndef RUNNEL_EXPERIMENT_SPEC_H
#define RUNNEL_EXPERIMENT_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum {
    SPEC_VARIANTS_MAX = 4096,
    SPEC_SEEDS_MAX = 1000,
    SPEC_NAME_MAX = 120, /* bytes of the name of an experiment, a variant or a stream */
};

/* A setting of a key. */
struct spec_setting {
    const char *brief; /* as written: "rate" */
    const char *key;   /* its path; for all layers: "model.layers.N.norm" */
    const char *value;
    size_t line; /* for errors */
};
struct spec_settings {
    struct spec_setting *rows; /* (count,) in their order */
    size_t count;
};

/* A base configuration: a file, or a text that is written to one. */
struct spec_base {
    const char *path; /* NULL: no own base, or a text */
    const char *text; /* NULL: a file */
    bool named;       /* the text has a name */
};

struct spec_stream {
    const char *name;
    bool replay;              /* recorded by runnel-replay, else by runnel-feed */
    const char *const *words; /* (word_count,) its arguments as written */
    size_t word_count;
    const char *const *arguments; /* the same with ${NAME} replaced, ended by NULL */
    struct spec_base base;
    struct spec_settings set;
};

struct spec_variant {
    const char *name;
    struct spec_settings set;
};

enum spec_keep { SPEC_LOSSES = 1, SPEC_WEIGHTS = 2, SPEC_PARAMETERS = 4 };

struct experiment_spec {
    const char *path, *directory; /* path of the file; base of relative names in it */
    const char *text;
    const char *name;
    struct spec_base base;
    struct spec_settings set;
    struct spec_stream *streams; /* (stream_count,) */
    size_t stream_count;
    struct spec_variant *variants; /* (variant_count,) list and grid multiplied */
    size_t variant_count;
    int64_t *seeds; /* (seed_count,) */
    size_t seed_count;
    const char *measure; /* NULL: the default */
    double recent;
    uint64_t points;
    unsigned keep; /* a set of enum spec_keep */
    void *memory;
};

/* Reads the file. -1: EX_NOINPUT if it cannot be read, else EX_CONFIG; the error names file,
   line and key, and the variant if any. Call spec_clear in either case. */
int spec_read(struct experiment_spec *spec, const char *path, struct error *error);
void spec_clear(struct experiment_spec *spec);

/* Replaces the seeds by 1 to `count`. */
int spec_set_seeds(struct experiment_spec *spec, uint64_t count, struct error *error);

/* Each run has its own seed, which would replace a variant's: -1 (EX_CONFIG) if a variant sets
   one. Members of a live daemon do use their variants' seeds. */
int spec_check_seeds(const struct experiment_spec *spec, struct error *error);

/* Adds a setting of all runs, "rate=0.1", which overrides the variants'. `extra` is (count,). */
int spec_resolve(struct experiment_spec *spec, const char *override, struct spec_setting *setting,
                 struct error *error);

/* The configuration of a run, for config_load. */
struct spec_overrides {
    const char **values; /* (count,) "KEY=VALUE" */
    size_t count;
    void *memory;
};

/* The overrides of a variant on a stream with a seed; `extra` (extra_count,) come last, before
   the seed. */
int spec_overrides(struct spec_overrides *overrides, const struct experiment_spec *spec,
                   size_t variant, size_t stream, int64_t seed, const struct spec_setting *extra,
                   size_t extra_count, struct error *error);
void spec_overrides_clear(struct spec_overrides *overrides);

const struct spec_base *spec_base_of(const struct experiment_spec *spec, size_t stream);

/* The arguments as one line, quoted for a shell if needed. NULL: out of memory. */
char *spec_command(void **memory, const struct spec_stream *stream);

#endif
