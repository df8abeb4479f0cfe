/* The streams of an experiment: what the feeders are called with. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "experiment_memory.h"
#include "experiment_spec_reading.h"

/* The next word as a shell splits them, without any expansion; NULL at the end, or with *bad where
   a quote is not closed. */
static char *next_word(const char **text, bool *bad, char *word) {
    const char *c = *text + strspn(*text, " \t\n");
    char quote = 0, *end = word;
    if (!*c)
        return NULL;
    for (; *c && (quote || !strchr(" \t\n", *c)); c++) {
        if (*c == quote)
            quote = 0;
        else if (!quote && (*c == '\'' || *c == '"'))
            quote = *c;
        else if (*c == '\\' && quote != '\'' && c[1])
            *end++ = *++c;
        else
            *end++ = *c;
    }
    *end = 0;
    *bad = quote != 0;
    *text = c;
    return *bad ? NULL : word;
}

static int split(struct spec_reading *reading, const yaml_node_t *node, const char *key,
                 const char ***words, size_t *count) {
    const char *text;
    bool bad = false;
    if (yaml_want_text(&reading->yaml, node, key, &text))
        return -1;
    char *word = memory_take(&reading->spec->memory, strlen(text) + 1);
    *words = memory_take(&reading->spec->memory, (strlen(text) + 1) * sizeof **words);
    if (!word || !*words)
        return spec_no_memory(reading);
    while (next_word(&text, &bad, word))
        if (!((*words)[(*count)++] = spec_keep(reading, word)))
            return -1;
    return bad ? yaml_fail(&reading->yaml, node, key, "a quote is not closed") : 0;
}

static int take_words(struct spec_reading *reading, const yaml_node_t *node, const char *key,
                      struct spec_stream *stream) {
    const char **words = NULL;
    size_t count = 0;
    if (node->type != YAML_SEQUENCE_NODE) {
        if (split(reading, node, key, &words, &count))
            return -1;
    } else {
        count = yaml_items(node);
        words = memory_take(&reading->spec->memory, (count + 1) * sizeof *words);
        if (!words)
            return spec_no_memory(reading);
        for (size_t n = 0; n < count; n++)
            if (yaml_want_text(&reading->yaml,
                               yaml_at(&reading->yaml, node->data.sequence.items.start[n]), key,
                               &words[n]))
                return -1;
    }
    stream->words = words;
    stream->word_count = count;
    return count ? 0
                 : yaml_fail(&reading->yaml, node, key,
                             "found nothing; allowed are the arguments of runnel-%s", key);
}

/* ${NAME} is what the environment has. */
static const char *expand(struct spec_reading *reading, const struct spec_stream *stream,
                          const char *word) {
    const char *begin = strstr(word, "${"), *end = begin ? strchr(begin, '}') : NULL;
    if (!end)
        return word;
    const char *name =
        memory_print(&reading->spec->memory, "%.*s", (int)(end - begin) - 2, begin + 2);
    if (!name) {
        spec_no_memory(reading);
        return NULL;
    }
    const char *value = getenv(name);
    if (!value || !*value) {
        error_set(reading->yaml.error, EX_CONFIG,
                  "%s: streams.%s wants ${%s}, which is not set in the environment: call %s=VALUE "
                  "runnel-experiment %s",
                  reading->yaml.path, stream->name, name, name, reading->yaml.path);
        return NULL;
    }
    const char *rest = expand(reading, stream, end + 1);
    const char *all = rest ? memory_print(&reading->spec->memory, "%.*s%s%s", (int)(begin - word),
                                          word, value, rest)
                           : NULL;
    if (rest && !all)
        spec_no_memory(reading);
    return all;
}

static int take_arguments(struct spec_reading *reading, struct spec_stream *stream) {
    const char **arguments =
        memory_take(&reading->spec->memory, (stream->word_count + 1) * sizeof *arguments);
    if (!arguments)
        return spec_no_memory(reading);
    for (size_t n = 0; n < stream->word_count; n++)
        if (!(arguments[n] = expand(reading, stream, stream->words[n])))
            return -1;
    stream->arguments = arguments;
    return 0;
}

static int take_stream(struct spec_reading *reading, const yaml_node_t *node,
                       struct spec_stream *stream) {
    const char *of = memory_print(&reading->spec->memory, "streams.%s", stream->name);
    if (!of)
        return spec_no_memory(reading);
    if (yaml_want_mapping(&reading->yaml, node, of))
        return -1;
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(&reading->yaml, node, n, &key, &value);
        if (!name)
            return -1;
        bool feed = !strcmp(name, "feed"), replay = !strcmp(name, "replay");
        if ((feed || replay) && stream->words)
            return yaml_fail(&reading->yaml, key, of, "found feed beside replay; allowed is one");
        stream->replay |= replay;
        int result = feed || replay          ? take_words(reading, value, name, stream)
                     : !strcmp(name, "base") ? spec_take_base(reading, value, "base", &stream->base)
                     : !strcmp(name, "set")
                         ? spec_take_settings(reading, value, of, NULL, &stream->set)
                         : yaml_fail_unknown(&reading->yaml, key, of, "feed or replay, base, set");
        if (result)
            return -1;
    }
    if (!stream->words)
        return yaml_fail(&reading->yaml, node, of,
                         "missing; needed is feed, the arguments of runnel-feed, or replay");
    return take_arguments(reading, stream);
}

int spec_take_streams(struct spec_reading *reading, const yaml_node_t *node) {
    struct experiment_spec *spec = reading->spec;
    if (yaml_want_mapping(&reading->yaml, node, "streams"))
        return -1;
    spec->streams = memory_take(&spec->memory, (yaml_pairs(node) + 1) * sizeof *spec->streams);
    if (!spec->streams)
        return spec_no_memory(reading);
    for (size_t n = 0; n < yaml_pairs(node); n++) {
        yaml_node_t *key, *value;
        const char *name = yaml_pair(&reading->yaml, node, n, &key, &value);
        struct spec_stream *stream = &spec->streams[spec->stream_count++];
        if (!name || spec_want_name(reading, key, "streams", name) ||
            !(stream->name = spec_keep(reading, name)) || take_stream(reading, value, stream))
            return -1;
    }
    return 0;
}
