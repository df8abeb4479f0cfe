#include "web_reply.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

enum { SENTENCE_SIZE = 512 };

static size_t pending;

size_t reply_pending(void) {
    return pending;
}

struct reply reply_object(unsigned status, json_t *object) {
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text)
        return (struct reply){.status =
                                  status == MHD_HTTP_OK ? MHD_HTTP_SERVICE_UNAVAILABLE : status,
                              .type = REPLY_JSON,
                              .body = ""};
    return (struct reply){
        .status = status, .type = REPLY_JSON, .body = text, .size = strlen(text), .owned = true};
}

struct reply reply_error(unsigned status, const char *format, ...) {
    char sentence[SENTENCE_SIZE];
    TEXT_FORMAT(sentence, sizeof sentence, format);
    return reply_object(status, json_pack("{s:s}", "error", sentence));
}

bool reply_begin(struct reply_text *text) {
    *text = (struct reply_text){0};
    text->stream = open_memstream(&text->text, &text->size);
    return text->stream != NULL;
}

struct reply reply_end(struct reply_text *text, const char *type) {
    bool failed = ferror(text->stream) != 0;
    if (fclose(text->stream) == 0 && !failed)
        return (struct reply){.status = MHD_HTTP_OK,
                              .type = type,
                              .body = text->text,
                              .size = text->size,
                              .owned = true};
    free(text->text);
    return reply_error(MHD_HTTP_SERVICE_UNAVAILABLE, "out of memory");
}

void reply_headers(struct MHD_Response *response) {
    static const char *const headers[][2] = {
        {"Content-Security-Policy",
         "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
         "connect-src 'self'; manifest-src 'none'; base-uri 'none'; form-action 'none'; "
         "frame-ancestors 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
}

/* The body of a reply that is being sent; counts as pending. */
struct body {
    char *text;
    size_t size;
};

static void sent(void *context) {
    struct body *body = context;
    pending -= body->size;
    free(body->text);
    free(body);
}

static struct MHD_Response *owned_response(struct reply *reply) {
    struct body *body = malloc(sizeof *body);
    if (!body) {
        free((void *)reply->body);
        return NULL;
    }
    *body = (struct body){(void *)reply->body, reply->size};
    pending += body->size;
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback_cls(body->size, body->text, sent, body);
    if (!response)
        sent(body);
    return response;
}

void reply_unchanged(struct reply *reply) {
    reply->status = MHD_HTTP_NOT_MODIFIED;
    reply->body = "";
    reply->size = 0;
}

enum MHD_Result reply_send(struct MHD_Connection *connection, struct reply *reply) {
    struct MHD_Response *response =
        reply->owned ? owned_response(reply)
                     : MHD_create_response_from_buffer(reply->size, (void *)reply->body,
                                                       MHD_RESPMEM_PERSISTENT);
    reply->body = NULL;
    if (!response)
        return MHD_NO;
    reply_headers(response);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, reply->type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL,
                            reply->etag ? "no-cache" : "no-store");
    if (reply->etag)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, reply->etag);
    for (size_t i = 0; i < REPLY_EXTRA && reply->extra[i].name; i++)
        MHD_add_response_header(response, reply->extra[i].name, reply->extra[i].value);
    enum MHD_Result result = MHD_queue_response(connection, reply->status, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- Query ---- */

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

void query_write_list(FILE *stream, const void *rows, size_t offset, size_t row, size_t count,
                      int digits) {
    fputc('[', stream);
    for (size_t i = 0; i < count; i++) {
        const void *value = (const char *)rows + i * row + offset;
        fputs(i ? "," : "", stream);
        query_write_number(stream, *(const double *)value, digits);
    }
    fputc(']', stream);
}

void query_write_text(FILE *stream, const char *text) {
    json_t *string = json_string(text);
    if (!string || json_dumpf(string, stream, JSON_ENCODE_ANY))
        fputs("\"\"", stream);
    json_decref(string);
}

void member_write_text(FILE *stream, const char *name, const char *text) {
    fprintf(stream, ",\"%s\":", name);
    if (text)
        query_write_text(stream, text);
    else
        fputs("null", stream);
}

void member_write_number(FILE *stream, const char *name, double value, int digits) {
    fprintf(stream, ",\"%s\":", name);
    query_write_number(stream, value, digits);
}

void member_write_count(FILE *stream, const char *name, uint64_t value) {
    fprintf(stream, ",\"%s\":%" PRIu64, name, value);
}

void member_write_list(FILE *stream, const char *name, const void *rows, size_t offset, size_t row,
                       size_t count, int digits) {
    fprintf(stream, ",\"%s\":", name);
    query_write_list(stream, rows, offset, row, count, digits);
}
