#include "config_yaml.h"

#include <ctype.h>
#include <stdio.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/text.h"
#include "config.h"

enum {
    DEPTH_MAX = 16,     /* nesting of mappings and lists: several times that of any key */
    ANCHORS_MAX = 1000, /* libyaml compares each anchor with all earlier ones */
};

static int __attribute__((format(printf, 3, 4)))
fail(struct yaml_problem *problem, yaml_mark_t mark, const char *format, ...) {
    TEXT_FORMAT(problem->text, sizeof problem->text, format);
    problem->mark = mark;
    return -1;
}

/* libyaml reports only an offset for reader errors: find its line and column. */
static yaml_mark_t mark_of_offset(const char *text, size_t size, size_t offset) {
    yaml_mark_t mark = {0};
    for (size_t i = 0; i < offset && i < size; i++) {
        mark.column++;
        if (text[i] == '\n') {
            mark.line++;
            mark.column = 0;
        }
    }
    return mark;
}

/* Whether the line is indented by a tab: YAML's own error is not helpful then. */
static bool has_tab(const char *text, size_t size, size_t line) {
    size_t at = 0;
    for (; line > 0 && at < size; at++)
        line -= text[at] == '\n';
    while (at < size && text[at] == ' ')
        at++;
    return at < size && text[at] == '\t';
}

static int fail_syntax(const yaml_parser_t *parser, const char *text, size_t size,
                       struct yaml_problem *at) {
    yaml_mark_t none = {0};
    const char *problem = parser->problem ? parser->problem : "unreadable";
    if (parser->error == YAML_MEMORY_ERROR)
        return fail(at, none, "out of memory");
    if (parser->error == YAML_READER_ERROR)
        return fail(at, mark_of_offset(text, size, parser->problem_offset),
                    "not YAML: %s; expected text in UTF-8", problem);
    yaml_mark_t mark = parser->problem_mark;
    char context[CONFIG_TEXT_SIZE] = "";
    if (parser->context)
        snprintf(context, sizeof context, " %s that begins in line %zu", parser->context,
                 parser->context_mark.line + 1);
    return fail(at, mark, "not YAML: %s%s%s", problem, context,
                has_tab(text, size, mark.line) ? "; use spaces for indentation, not tabs" : "");
}

static bool has_anchor(const yaml_event_t *event) {
    return (event->type == YAML_SCALAR_EVENT && event->data.scalar.anchor) ||
           (event->type == YAML_SEQUENCE_START_EVENT && event->data.sequence_start.anchor) ||
           (event->type == YAML_MAPPING_START_EVENT && event->data.mapping_start.anchor);
}

/* Limit the cost of a text before libyaml loads it: its time is quadratic in the depth and in
   the number of anchors. Text that is not YAML is left to the loading parser. */
static int check_cost(const char *text, size_t size, struct yaml_problem *problem) {
    yaml_parser_t parser;
    yaml_event_t event;
    size_t depth = 0, anchors = 0;
    bool more = true;
    int status = 0;
    if (!yaml_parser_initialize(&parser))
        return fail(problem, (yaml_mark_t){0}, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    while (more && yaml_parser_parse(&parser, &event)) {
        bool begins =
            event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        bool ends = event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        depth = depth + begins - ends;
        anchors += has_anchor(&event);
        if (depth > DEPTH_MAX)
            status = fail(problem, event.start_mark,
                          "lists and mappings nested more than %d levels deep", DEPTH_MAX);
        else if (anchors > ANCHORS_MAX)
            status =
                fail(problem, event.start_mark, "too many anchors; the limit is %d", ANCHORS_MAX);
        more = !status && event.type != YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return status;
}

int config_yaml_load(yaml_document_t *document, const char *text, size_t size,
                     struct yaml_problem *problem) {
    yaml_parser_t parser;
    yaml_document_t second;
    yaml_mark_t begin = {0};
    int status = -1;
    if (check_cost(text, size, problem))
        return -1;
    if (!yaml_parser_initialize(&parser))
        return fail(problem, begin, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    if (!yaml_parser_load(&parser, document)) {
        fail_syntax(&parser, text, size, problem);
        goto done;
    }
    if (!yaml_document_get_root_node(document)) {
        status = fail(problem, begin, "empty configuration: `name` and `model` are required");
    } else if (!yaml_parser_load(&parser, &second)) {
        status = fail_syntax(&parser, text, size, problem);
    } else {
        status = 0;
        if (yaml_document_get_root_node(&second))
            status = fail(problem, second.start_mark,
                          "second document; expected one document in a file");
        yaml_document_delete(&second);
    }
    if (status != 0)
        yaml_document_delete(document);
done:
    yaml_parser_delete(&parser);
    return status;
}

/* ---- Errors ---- */

/* Number of bytes of an override that an error may show: only the key for brokers, whose value
   may contain a password. */
static int shown_size(const char *override) {
    static const char *const brokers[] = {"publish", "examples.redis", "examples.kafka",
                                          "examples="};
    for (size_t n = 0; n < sizeof brokers / sizeof *brokers; n++)
        if (!strncmp(override, brokers[n], strlen(brokers[n])))
            return (int)strcspn(override, "=");
    return CONFIG_KEY_NAME_SIZE;
}

const char *config_rename(const struct config_origin *origin, const char *text, char *to,
                          size_t size) {
    size_t length = origin->from ? strlen(origin->from) : 0, used = 0;
    while (*text && used + 1 < size) {
        bool here =
            length && !strncmp(text, origin->from, length) && !isalnum((unsigned char)text[length]);
        int added = here ? snprintf(to + used, size - used, "%s", origin->to) : 1;
        to[used] = here ? to[used] : *text;
        used += (size_t)added;
        text += here ? length : 1;
    }
    to[used < size ? used : size - 1] = 0;
    return to;
}

int config_fail_at(const struct config_origin *origin, const struct place *place, const char *path,
                   const char *format, va_list arguments) {
    char plain[ERROR_TEXT_SIZE], sentence[ERROR_TEXT_SIZE], name[CONFIG_TEXT_SIZE];
    vsnprintf(plain, sizeof plain, format, arguments);
    config_rename(origin, plain, sentence, sizeof sentence);
    path = config_rename(origin, path, name, sizeof name);
    const char *colon = *path ? ": " : "";
    size_t size = strlen(path);
    if (*path && place && place->override && !strncmp(place->override, path, size) &&
        place->override[size] == '=') /* the override names the key */
        return error_set(origin->error, EX_CONFIG, "%s %s: %s", origin->verb, path, sentence);
    if (place && place->override)
        return error_set(origin->error, EX_CONFIG, "%s %.*s: %s%s%s", origin->verb,
                         shown_size(place->override), place->override, path, colon, sentence);
    if (origin->member) /* its value may make the value of another key invalid */
        return error_set(origin->error, EX_CONFIG, "%s %s%s%s", origin->verb, path, colon,
                         sentence);
    if (place)
        return error_set(origin->error, EX_CONFIG, "%s:%zu:%zu: %s%s%s", origin->path, place->line,
                         place->column, path, colon, sentence);
    return error_set(origin->error, EX_CONFIG, "%s: %s%s%s", origin->path, path, colon, sentence);
}

struct place walk_place(const struct walk *walk, const yaml_node_t *node) {
    return (struct place){.given = true,
                          .all = walk->all,
                          .override = walk->override,
                          .line = node->start_mark.line + 1,
                          .column = node->start_mark.column + 1};
}

int walk_fail(const struct walk *walk, const yaml_node_t *node, const char *path,
              const char *format, ...) {
    struct place place = walk_place(walk, node);
    va_list arguments;
    va_start(arguments, format);
    config_fail_at(walk->origin, &place, path, format, arguments);
    va_end(arguments);
    return -1;
}

int walk_load(struct walk *walk, const char *text, size_t size) {
    struct yaml_problem problem;
    if (config_yaml_load(&walk->document, text, size, &problem) == 0)
        return 0;
    return walk_fail(walk, &(yaml_node_t){.start_mark = problem.mark}, "", "%s", problem.text);
}

/* ---- Nodes ---- */

bool walk_is_null(const yaml_node_t *node) {
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    bool null = false;
    for (size_t n = 0; walk_is_plain(node) && n < sizeof words / sizeof *words; n++)
        null |= !strcmp(walk_text(node), words[n]);
    return null;
}

const char *walk_shown(const yaml_node_t *node, char text[CONFIG_TEXT_SIZE]) {
    if (node->type == YAML_MAPPING_NODE)
        return "a mapping";
    if (node->type == YAML_SEQUENCE_NODE)
        return "a list";
    if (walk_is_null(node))
        return "nothing";
    size_t length = strlen(walk_text(node));
    bool whole = length <= CONFIG_SHOWN_MAX;
    int cut = (int)(whole ? length : CONFIG_SHOWN_MAX);
    while (!whole && cut > 0 && (walk_text(node)[cut] & 0xC0) == 0x80)
        cut--; /* do not cut a UTF-8 character */
    snprintf(text, CONFIG_TEXT_SIZE, "%s\"%.*s%s\"", walk_is_plain(node) ? "" : "the text ", cut,
             walk_text(node), whole ? "" : "...");
    return text;
}

int walk_once(const struct walk *walk, const yaml_node_t *mapping, const yaml_node_pair_t *pair,
              const char *path) {
    const yaml_node_t *key = walk_node(walk, pair->key);
    for (yaml_node_pair_t *p = mapping->data.mapping.pairs.start; p < pair; p++) {
        const yaml_node_t *first = walk_node(walk, p->key);
        if (!strcmp(walk_text(first), walk_text(key)))
            return walk_fail(walk, key, path, "duplicate key, first in line %zu",
                             first->start_mark.line + 1);
    }
    return 0;
}
