/* All networks of a configuration in one line. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/hash.h"
#include "config.h"

enum { SHAPES_TOLD = 6, NAMES_TOLD = 3 };

static void __attribute__((format(printf, 2, 3)))
append(char text[CONFIG_NETWORKS_SIZE], const char *format, ...) {
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, CONFIG_NETWORKS_SIZE - used, format, arguments);
    va_end(arguments);
}

static void summarize(const struct config *config, size_t member,
                      char summary[MODEL_SUMMARY_SIZE]) {
    struct architecture architecture;
    config_member_network(config, member, &architecture);
    model_summary(&architecture, summary);
}

/* Of each member the first one that is described alike. */
static void find_alike(const struct config *config, size_t first[CONFIG_MEMBERS_MAX]) {
    uint64_t hashes[CONFIG_MEMBERS_MAX];
    for (size_t m = 0; m < config->member_count; m++) {
        char summary[MODEL_SUMMARY_SIZE];
        summarize(config, m, summary);
        hashes[m] = hash_bytes(HASH_BEGIN, summary, strlen(summary));
        first[m] = 0;
        while (hashes[first[m]] != hashes[m])
            first[m]++;
    }
}

/* "; member wide: lstm 70 norm > squared 2, next" of the members like this one, without the input,
   which is that of all. */
static void append_others(const struct config *config, const size_t *first, size_t member,
                          char text[CONFIG_NETWORKS_SIZE]) {
    char summary[MODEL_SUMMARY_SIZE];
    size_t count = 0;
    for (size_t m = member; m < config->member_count; m++)
        count += first[m] == member;
    append(text, "; member%s ", count == 1 ? "" : "s");
    for (size_t m = member, told = 0; m < config->member_count && told < NAMES_TOLD; m++)
        if (first[m] == member)
            append(text, "%s%s", told++ ? ", " : "", config->members[m].name);
    if (count > NAMES_TOLD)
        append(text, " and %zu more", count - NAMES_TOLD);
    summarize(config, member, summary);
    const char *input_end = strstr(summary, " > ");
    append(text, ": %s", input_end ? input_end + strlen(" > ") : summary);
}

void config_networks(const struct config *config, char text[CONFIG_NETWORKS_SIZE]) {
    size_t first[CONFIG_MEMBERS_MAX], shapes = 0,
                                      members = config->members_given ? config->member_count : 0;
    text[0] = '\0';
    if (members == 0) {
        model_summary(&config->architecture, text);
        return;
    }
    find_alike(config, first);
    summarize(config, 0, text);
    for (size_t m = 1; m < members; m++)
        if (first[m] == m && shapes++ < SHAPES_TOLD)
            append_others(config, first, m, text);
    if (shapes > SHAPES_TOLD)
        append(text, "; %zu more kinds of networks", shapes - SHAPES_TOLD);
}
