#include "feed_schema.h"

#include <jansson.h>

#include "feed.h"

static json_t *names(const struct source *source, bool y, size_t count) {
    json_t *list = json_array();
    for (size_t k = 0; k < count; k++)
        if (json_array_append_new(list, json_string(source->type->column(source, y, k)))) {
            json_decref(list); /* not UTF-8: how many there are is what counts */
            return json_integer((json_int_t)count);
        }
    return list;
}

static const char *dtype(const struct shape *shape) {
    return shape->kind == VALUE_CLASS ? "uint32" : "float32";
}

/* Of examples that name their columns, in whatever order: types are the model's affair. */
static json_t *named(const struct source *source) {
    return json_pack("{s:{s:o, s:i}}", "schema", "names", names(source, false, source->x.count),
                     "targets", (int)source->y.count);
}

/* Of examples of numbers. */
static json_t *numbered(const struct source *source) {
    json_t *schema = json_pack("{s:{s:s, s:o, s:o}}", "schema", "dtype", dtype(&source->x),
                               "columns", names(source, false, source->x.count), "targets",
                               names(source, true, source->y.count));
    if (schema && source->y.count > 0)
        json_object_set_new(json_object_get(schema, "schema"), "target_dtype",
                            json_string(dtype(&source->y)));
    return schema;
}

char *schema_of(const struct source *source) {
    json_t *schema = source->named ? named(source) : numbered(source);
    char *text = schema ? json_dumps(schema, JSON_COMPACT) : NULL;
    json_decref(schema);
    return text;
}
