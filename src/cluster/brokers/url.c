#include "url.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "common/text.h"

enum { PORT_MAX = 65535, HEXADECIMAL = 16 };

/* Copies the bytes; if `quoted`, %41 becomes A. Returns -1 if they are too long or have an invalid
   %. */
static int copy_part(char part[URL_PART_MAX], const char *text, size_t size, bool quoted) {
    size_t used = 0;
    for (size_t n = 0; n < size; n++) {
        char digits[3] = "", *end = digits;
        char byte = text[n];
        if (quoted && byte == '%') {
            if (n + 2 >= size)
                return -1;
            memcpy(digits, text + n + 1, 2);
            byte = (char)strtol(digits, &end, HEXADECIMAL);
            n += 2;
        }
        if (*end || (quoted && byte == '\0') || used + 1 >= URL_PART_MAX)
            return -1;
        part[used++] = byte;
    }
    part[used] = '\0';
    return 0;
}

static bool is_one_of(const char *word, const char *words) {
    size_t size = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += size)
        if ((at == words || at[-1] == ' ') && (at[size] == ' ' || at[size] == '\0'))
            return size > 0;
    return false;
}

/* Parses "host:port" or "[::1]:port". */
static int parse_host(struct url *url, const char *text, size_t size) {
    const char *end = text + size, *close = NULL, *colon = NULL;
    if (size > 0 && *text == '[' && !(close = memchr(text, ']', size)))
        return -1;
    for (const char *at = close ? close : text; at < end && !colon; at++)
        if (*at == ':')
            colon = at;
    if (close && (colon ? colon : end) != close + 1)
        return -1;
    const char *first = close ? text + 1 : text;
    const char *last = close ? close : colon ? colon : end;
    if (copy_part(url->host, first, (size_t)(last - first), false))
        return -1;
    if (!colon)
        return 0;
    char digits[URL_PART_MAX], *rest;
    if (copy_part(digits, colon + 1, (size_t)(end - colon - 1), false))
        return -1;
    long port = strtol(digits, &rest, 10);
    url->port = (int)port;
    return *digits < '0' || *digits > '9' || *rest || port < 1 || port > PORT_MAX ? -1 : 0;
}

/* Parses the part after "SCHEME://". */
static int parse_rest(struct url *url, const char *text) {
    size_t host = strcspn(text, "/");
    const char *at = NULL;
    for (size_t n = 0; n < host; n++)
        if (text[n] == '@')
            at = text + n;
    if (at) {
        const char *colon = memchr(text, ':', (size_t)(at - text));
        const char *user = colon ? colon : at;
        if (copy_part(url->user, text, (size_t)(user - text), true) ||
            (colon && copy_part(url->password, colon + 1, (size_t)(at - colon - 1), true)))
            return -1;
        host -= (size_t)(at + 1 - text);
        text = at + 1;
    }
    const char *path = text + host;
    bool slash = host > 0 && strchr(path, '@'); /* a slash in a password must be %2F */
    return slash || parse_host(url, text, host) || copy_part(url->path, path, strlen(path), false)
               ? -1
               : 0;
}

/* Shows only the part after '@': a message must not contain a password. */
static int fail_form(const char *option, const char *text, const char *form, struct error *error) {
    const char *at = strrchr(text, '@');
    return error_set(error, EX_USAGE, "%s: expected %s, got '%s%s'", option, form, at ? "..." : "",
                     at ? at : text);
}

int url_parse(struct url *url, const char *option, const char *text, const char *schemes,
              const char *form, struct error *error) {
    const char *colon = strstr(text, "://");
    *url = (struct url){.port = 0};
    if (!colon || copy_part(url->scheme, text, (size_t)(colon - text), false) ||
        !is_one_of(url->scheme, schemes) || parse_rest(url, colon + 3) ||
        (!*url->host && !*url->path))
        return fail_form(option, text, form, error);
    bool six = strchr(url->host, ':');
    snprintf(url->name, sizeof url->name, "%s://%s%s%s", url->scheme, six ? "[" : "", url->host,
             six ? "]" : "");
    if (url->port)
        text_append(url->name, sizeof url->name, ":%d", url->port);
    text_append(url->name, sizeof url->name, "%s", url->path);
    return 0;
}

const char *broker_key(char name[BROKER_KEY_SIZE], const char *section, const char *option) {
    snprintf(name, BROKER_KEY_SIZE, "%s%s%s", section ? section : "--", section ? "." : "", option);
    for (char *at = section ? strchr(name, '-') : NULL; at; at = strchr(at, '-'))
        *at = '_';
    return name;
}

int url_login(struct url *url, const char *user, const char *file, struct error *error) {
    char key[BROKER_KEY_SIZE];
    if (user && (*user || !url->section) && copy_part(url->user, user, strlen(user), false))
        return error_set(error, EX_USAGE, "%s: user name is longer than %d bytes",
                         broker_key(key, url->section, "user"), URL_PART_MAX - 1);
    if (!file || (!*file && url->section))
        return 0;
    FILE *stream = fopen(file, "re");
    if (!stream)
        return error_set(error, EX_NOINPUT, "%s: cannot open %s: %s",
                         broker_key(key, url->section, "password-file"), file,
                         error_of_file(errno));
    char *line = fgets(url->password, sizeof url->password, stream);
    fclose(stream);
    if (!line || strlen(line) + 1 == sizeof url->password)
        return error_set(error, EX_USAGE,
                         "%s: the first line of %s must be a password of 1 to %d bytes",
                         broker_key(key, url->section, "password-file"), file, URL_PART_MAX - 2);
    url->password[strcspn(url->password, "\r\n")] = '\0';
    return 0;
}
