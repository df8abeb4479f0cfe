#include "build-config.h"

#include "alert_post.h"

#include <stdlib.h>
#include <strings.h>
#include <sysexits.h>

#include <curl/curl.h>

#include "common/error.h"

enum {
    ANSWER_MAX = 1 << 20, /* bytes: a longer answer is cut off */
    STATUS_FIRST = 200,
    STATUS_AFTER = 300,
    STATUS_BUSY = 429,
    STATUS_SERVER = 500,
};

bool post_is_url(const char *text) {
    CURLU *url = curl_url();
    char *scheme = NULL;
    bool good = url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
                curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                (strcasecmp(scheme, "http") == 0 || strcasecmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_url_cleanup(url);
    return good;
}

static size_t pass_over(char *bytes, size_t size, size_t count, void *context) {
    size_t *total = context;
    (void)bytes;
    *total += size * count;
    return *total > ANSWER_MAX ? 0 : size * count;
}

static int judge(CURLcode result, long status, bool *again, struct error *error) {
    bool answered = result == CURLE_OK || result == CURLE_WRITE_ERROR; /* the latter cut off */
    *again = !answered || status >= STATUS_SERVER || status == STATUS_BUSY;
    if (!answered)
        return error_set(error, EX_UNAVAILABLE, "cannot post: %s", curl_easy_strerror(result));
    if (status >= STATUS_FIRST && status < STATUS_AFTER)
        return 0;
    return error_set(error, EX_UNAVAILABLE, "cannot post: the server answered %ld", status);
}

int post_send(const char *url, const json_t *alert, double seconds, bool *again,
              struct error *error) {
    size_t answered = 0;
    long status = 0;
    *again = false;
    char *text = json_dumps(alert, JSON_COMPACT);
    CURL *curl = curl_easy_init();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
    int done = -1;
    if (!text || !curl || !headers) {
        error_set(error, EX_OSERR, "cannot post: out of memory");
        goto end;
    }
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "runnel-alert/" PACKAGE_VERSION);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(seconds * 1e3) + 1);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, pass_over);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answered);
    CURLcode result = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    done = judge(result, status, again, error);
end:
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    free(text);
    return done;
}
