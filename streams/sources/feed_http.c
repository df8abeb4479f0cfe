#include "feed_http.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <curl/curl.h>

#include "streams/feed.h"

enum {
    ANSWER_MAX = 64 << 20, /* bytes */
    REDIRECTS_MAX = 5,
    TOKEN_SIZE = 4096,
    WHY_SIZE = 256,
    STATUS_GOOD = 200,
    STATUS_UNAUTHORIZED = 401,
    STATUS_FORBIDDEN = 403,
};

struct http {
    CURL *curl;
    char *name; /* the URL without user and password */
    struct retry retry;
    char *answer; /* (capacity,) terminated */
    size_t size, capacity;
    bool no_memory; /* out of memory for the answer */
    char reason[CURL_ERROR_SIZE];
};

static size_t append_bytes(char *bytes, size_t size, size_t count, void *context) {
    struct http *p = context;
    size_t more = size * count, needed = p->size + more + 1;
    if (needed > ANSWER_MAX)
        return 0;
    if (needed > p->capacity) {
        char *grown = realloc(p->answer, 2 * needed);
        if (!grown) {
            p->no_memory = true;
            return 0;
        }
        p->answer = grown;
        p->capacity = 2 * needed;
    }
    memcpy(p->answer + p->size, bytes, more);
    p->size += more;
    p->answer[p->size] = '\0';
    return more;
}

/* Returns non-zero to give up. */
static int look_after(void *context, curl_off_t down, curl_off_t downloaded, curl_off_t up,
                      curl_off_t uploaded) {
    struct error ignored;
    (void)context, (void)down, (void)downloaded, (void)up, (void)uploaded;
    return feed_tick(&ignored) < 0;
}

static int set_token(struct http *p, const char *path, struct error *error) {
    char token[TOKEN_SIZE];
    FILE *file = fopen(path, "r");
    char *line = file ? fgets(token, sizeof token, file) : NULL;
    if (file)
        fclose(file);
    if (!line)
        return error_set(error, EX_NOINPUT, "--token-file %s: cannot read it, or it is empty",
                         path);
    size_t size = strcspn(token, "\r\n");
    if (size == strspn(token, " \t") || size == sizeof token - 1)
        return error_set(error, EX_USAGE,
                         "--token-file %s: expected a token of 1 to %d bytes in the first line",
                         path, TOKEN_SIZE - 2);
    token[size] = '\0';
    curl_easy_setopt(p->curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    return curl_easy_setopt(p->curl, CURLOPT_XOAUTH2_BEARER, token) == CURLE_OK
               ? 0
               : error_no_memory(error);
}

/* Completes the URL, and sets its name. */
static int set_url(struct http *p, const char *text, const char *instead, struct error *error) {
    char *scheme = NULL, *path = NULL, *whole = NULL, *name = NULL;
    CURLU *url = curl_url();
    int status = -1;
    if (!url || curl_url_set(url, CURLUPART_URL, text, CURLU_GUESS_SCHEME) != CURLUE_OK ||
        curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
        (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) ||
        curl_url_get(url, CURLUPART_PATH, &path, 0) != CURLUE_OK) {
        error_set(error, EX_USAGE, "expected a URL such as http://127.0.0.1:9100%s, got '%s'",
                  instead ? instead : "/", text);
        goto end;
    }
    if (instead && strcmp(path, "/") == 0)
        curl_url_set(url, CURLUPART_PATH, instead, 0);
    curl_url_get(url, CURLUPART_URL, &whole, 0);
    curl_url_set(url, CURLUPART_USER, NULL, 0);
    curl_url_set(url, CURLUPART_PASSWORD, NULL, 0);
    curl_url_get(url, CURLUPART_URL, &name, 0);
    p->name = name ? strdup(name) : NULL;
    if (p->name && whole && curl_easy_setopt(p->curl, CURLOPT_URL, whole) == CURLE_OK)
        status = 0;
    else
        error_no_memory(error);
    p->retry.server = p->name;
end:
    curl_free(scheme);
    curl_free(path);
    curl_free(whole);
    curl_free(name);
    curl_url_cleanup(url);
    return status;
}

int http_open(struct http **opened, const char *url, const char *path,
              const struct http_options *options, struct error *error) {
    struct http *p = *opened = calloc(1, sizeof *p);
    if (!p)
        return error_no_memory(error);
    p->curl = curl_easy_init();
    if (!p->curl || append_bytes("", 1, 0, p) != 0)
        return error_no_memory(error);
    curl_easy_setopt(p->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(p->curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(p->curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(p->curl, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
    curl_easy_setopt(p->curl, CURLOPT_NETRC, (long)CURL_NETRC_OPTIONAL);
    curl_easy_setopt(p->curl, CURLOPT_ACCEPT_ENCODING, "");
    curl_easy_setopt(p->curl, CURLOPT_USERAGENT, "runnel-feed/" PACKAGE_VERSION);
    curl_easy_setopt(p->curl, CURLOPT_NOSIGNAL, 1L);
    /* the program handles it: a TLS write to a closed connection raises it */
    signal(SIGPIPE, SIG_IGN);
    curl_easy_setopt(p->curl, CURLOPT_TIMEOUT_MS, (long)(options->timeout * 1e3) + 1);
    curl_easy_setopt(p->curl, CURLOPT_ERRORBUFFER, p->reason);
    curl_easy_setopt(p->curl, CURLOPT_WRITEFUNCTION, append_bytes);
    curl_easy_setopt(p->curl, CURLOPT_WRITEDATA, p);
    curl_easy_setopt(p->curl, CURLOPT_XFERINFOFUNCTION, look_after);
    curl_easy_setopt(p->curl, CURLOPT_NOPROGRESS, 0L);
    if (set_url(p, url, path, error) < 0)
        return -1;
    return options->token_file ? set_token(p, options->token_file, error) : 0;
}

void http_close(struct http **closed) {
    struct http *p = *closed;
    if (!p)
        return;
    curl_easy_cleanup(p->curl);
    free(p->name);
    free(p->answer);
    free(p);
    *closed = NULL;
}

const char *http_name(const struct http *http) {
    return http->name;
}

/* Whether a retry does not help. */
static bool is_final(CURLcode result) {
    return result == CURLE_UNSUPPORTED_PROTOCOL || result == CURLE_URL_MALFORMAT ||
           result == CURLE_SSL_CACERT_BADFILE || result == CURLE_SSL_CERTPROBLEM ||
           result == CURLE_SSL_CRL_BADFILE;
}

/* Sends one request. Returns 1 with an answer, 0 with a reason without one, or -1 on an error. */
static int ask_once(struct http *p, char why[WHY_SIZE], struct error *error) {
    long status = 0;
    p->size = 0;
    p->answer[0] = p->reason[0] = '\0';
    CURLcode result = curl_easy_perform(p->curl);
    curl_easy_getinfo(p->curl, CURLINFO_RESPONSE_CODE, &status);
    if (feed_tick(error) < 0)
        return -1;
    if (result == CURLE_OK && status == STATUS_GOOD)
        return 1;
    if (result == CURLE_OK && (status == STATUS_UNAUTHORIZED || status == STATUS_FORBIDDEN))
        return error_set(error, EX_NOPERM,
                         "%s: access denied: the server answered %ld; set "
                         "http://USER:PASSWORD@HOST, ~/.netrc or --token-file",
                         p->name, status);
    if (result == CURLE_WRITE_ERROR && p->no_memory)
        return error_no_memory(error);
    const char *reason = *p->reason ? p->reason : curl_easy_strerror(result);
    if (is_final(result))
        return error_set(error, EX_UNAVAILABLE, "%s: %s", p->name, reason);
    if (result == CURLE_OK)
        snprintf(why, WHY_SIZE, "the server answered %ld", status);
    else if (result == CURLE_WRITE_ERROR)
        snprintf(why, WHY_SIZE, "the answer is larger than %d MiB", ANSWER_MAX >> 20);
    else
        snprintf(why, WHY_SIZE, "%s", reason);
    return 0;
}

int http_ask(struct http *p, char **answer, size_t *size, struct error *error) {
    char why[WHY_SIZE];
    int status;
    while ((status = ask_once(p, why, error)) == 0)
        if (retry_wait(&p->retry, why, error) < 0)
            return -1;
    *answer = p->answer;
    *size = p->size;
    return status < 0 ? -1 : 0;
}

int http_refuse(struct http *p, const char *why, struct error *error) {
    return retry_wait(&p->retry, why, error);
}

void http_accept(struct http *p) {
    retry_back(&p->retry);
}
