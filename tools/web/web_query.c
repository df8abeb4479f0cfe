#include "build-config.h"

#include "web_query.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *query_text(struct MHD_Connection *connection, const char *name) {
    return MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, name);
}

bool query_number(struct MHD_Connection *connection, const char *name, double least, double most,
                  double *value) {
    const char *text = query_text(connection, name);
    char *end;
    if (!text)
        return true;
    if (!*text || text[strspn(text, "0123456789+-.eE")])
        return false;
    *value = strtod(text, &end);
    return !*end && *value >= least && *value <= most;
}

bool query_count(struct MHD_Connection *connection, const char *name, double least, double most,
                 size_t *value) {
    double number = (double)*value;
    if (!query_number(connection, name, least, most, &number) || number != floor(number))
        return false;
    *value = (size_t)number;
    return true;
}

void query_write_number(FILE *stream, double value, int digits) {
    if (isfinite(value))
        fprintf(stream, "%.*g", digits, value);
    else
        fputs("null", stream);
}

void query_write_text(FILE *stream, const char *text) {
    json_t *string = json_string(text);
    if (!string || json_dumpf(string, stream, JSON_ENCODE_ANY))
        fputs("\"\"", stream);
    json_decref(string);
}
