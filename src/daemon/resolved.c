#include "resolved.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/error.h"
#include "common/text.h"
#include "config/config.h"
#include "parts.h"

enum { LINE_SIZE = 1024 };

struct resolved {
    char *json, *tags;
};

int resolved_open(struct daemon *daemon, struct error *error) {
    daemon->resolved = calloc(1, sizeof *daemon->resolved);
    return daemon->resolved ? 0 : error_no_memory(error);
}

void resolved_close(struct daemon *daemon) {
    if (!daemon->resolved)
        return;
    free(daemon->resolved->json);
    free(daemon->resolved->tags);
    free(daemon->resolved);
    daemon->resolved = NULL;
}

/* What `print` writes, in the place of what was there. */
static void renew(char **text, const struct config *config,
                  int (*print)(FILE *out, const struct config *config, struct error *error)) {
    size_t size;
    struct error error;
    free(*text);
    *text = NULL;
    FILE *out = open_memstream(text, &size);
    bool whole = out && print(out, config, &error) == 0;
    if (out && (fclose(out) || !whole)) {
        free(*text);
        *text = NULL;
    }
}

void resolved_renew(struct daemon *daemon) {
    renew(&daemon->resolved->json, daemon->config, config_print_json);
    renew(&daemon->resolved->tags, daemon->config, config_print_tags);
}

const char *resolved_json(const struct daemon *daemon) {
    return daemon->resolved->json;
}

const char *resolved_tags(const struct daemon *daemon) {
    return daemon->resolved->tags;
}

/* A line of a comment. */
static void remark(FILE *out, const char *what, const char *text) {
    char clean[LINE_SIZE];
    fprintf(out, "# %s%s\n", what, text_copy(clean, sizeof clean, text));
}

char *resolved_yaml(const struct daemon *daemon, const struct config *configured,
                    const struct config_source *source) {
    char *text = NULL;
    size_t size;
    struct error error;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fprintf(out, "# The configuration in force of runneld %s, digest %s\n", PACKAGE_VERSION,
            daemon->config->digest);
    remark(out, "read from ", source->path);
    for (size_t n = 0; n < source->override_count; n++)
        remark(out, "with --set ", source->overrides[n]);
    bool whole = config_print(out, daemon->config, configured, &error) == 0;
    if (fclose(out) || !whole) {
        free(text);
        text = NULL;
    }
    return text;
}
