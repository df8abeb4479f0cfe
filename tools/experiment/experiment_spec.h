/* An experiment as its YAML says: which streams, which variants of a configuration, which seeds,
   and what is to be reported. docs/reference/experiments.md explains every key.

   All texts are the specification's. Values of keys are YAML, as after the '=' of an override. */
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

/* A key that is set. */
struct spec_setting {
    const char *brief; /* as it was written: "rate" */
    const char *key;   /* its path; a layer's N: "model.layers.N.norm" */
    const char *value;
    size_t line; /* where, for errors */
};
struct spec_settings {
    struct spec_setting *rows; /* (count,) in their order */
    size_t count;
};

/* A base configuration: a file, or a text that is to become one. */
struct spec_base {
    const char *path; /* NULL: none of its own, or a text */
    const char *text; /* NULL: a file */
    bool named;       /* the text has a name */
};

struct spec_stream {
    const char *name;
    bool replay;              /* by runnel-replay, else by runnel-feed */
    const char *const *words; /* (word_count,) its arguments as they were written */
    size_t word_count;
    const char *const *arguments; /* likewise, ended by NULL: ${NAME} replaced */
    struct spec_base base;
    struct spec_settings set;
};

struct spec_variant {
    const char *name;
    struct spec_settings set;
};

enum spec_keep { SPEC_LOSSES = 1, SPEC_WEIGHTS = 2, SPEC_PARAMETERS = 4 };

struct experiment_spec {
    const char *path, *directory; /* of the file; that of relative names in it */
    const char *text;
    const char *name;
    struct spec_base base;
    struct spec_settings set;
    struct spec_stream *streams; /* (stream_count,) */
    size_t stream_count;
    struct spec_variant *variants; /* (variant_count,) list and grid multiplied out */
    size_t variant_count;
    int64_t *seeds; /* (seed_count,) */
    size_t seed_count;
    const char *measure; /* NULL: by the rule */
    double recent;
    uint64_t points;
    unsigned keep; /* a set of enum spec_keep */
    void *memory;
};

/* Read the file. -1: EX_NOINPUT when it cannot be read, else EX_CONFIG; the sentence names file,
   line and key, of a variant its name, too. The specification is to be cleared in either case. */
int spec_read(struct experiment_spec *spec, const char *path, struct error *error);
void spec_clear(struct experiment_spec *spec);

/* Seeds 1 to `count` in place of those that it says. */
int spec_set_seeds(struct experiment_spec *spec, uint64_t count, struct error *error);

/* Each run has a seed of its own, which would replace a variant's: -1 (EX_CONFIG) where one has.
   Members of a live daemon do have what their variants say. */
int spec_check_seeds(const struct experiment_spec *spec, struct error *error);

/* Take one more setting of all runs, "rate=0.1", before which variants' come. `extra` is (count,).
 */
int spec_resolve(struct experiment_spec *spec, const char *override, struct spec_setting *setting,
                 struct error *error);

/* The configuration of a run, as config_load takes it. */
struct spec_overrides {
    const char **values; /* (count,) "KEY=VALUE" */
    size_t count;
    void *memory;
};

/* That of a variant on a stream with a seed; `extra` (extra_count,) come last but for the seed. */
int spec_overrides(struct spec_overrides *overrides, const struct experiment_spec *spec,
                   size_t variant, size_t stream, int64_t seed, const struct spec_setting *extra,
                   size_t extra_count, struct error *error);
void spec_overrides_clear(struct spec_overrides *overrides);

/* The base that a stream has. */
const struct spec_base *spec_base_of(const struct experiment_spec *spec, size_t stream);

/* The arguments as one line, quoted as for a shell where that is needed. NULL: out of memory. */
char *spec_command(void **memory, const struct spec_stream *stream);

#endif
