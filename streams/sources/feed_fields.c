#include "feed_fields.h"

int fields_open(struct mapping **mapping, const struct source *source, struct error *error) {
    static const struct mapping_names NAMES = {"--field", "--key-field", "--time-field",
                                               "--time-format", "--strict"};
    const struct field_options *fields = &source->fields;
    return mapping_open(mapping,
                        &(struct mapping_options){.fields = fields->columns.values,
                                                  .count = fields->columns.count,
                                                  .key = fields->key,
                                                  .time = fields->time,
                                                  .format = fields->time_format,
                                                  .strict = source->strict,
                                                  .names = &NAMES,
                                                  .say = feed_say},
                        error);
}
