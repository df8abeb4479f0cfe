/* Connections to NATS, made anew by who uses them: the library's own way to connect again would
   hide what was lost. */
#ifndef RUNNEL_NATS_LINK_H
#define RUNNEL_NATS_LINK_H

#include <nats/nats.h>

#include "common/options.h"
#include "url.h"

struct error;

#define NATS_URL "nats://127.0.0.1:4222"
#define NATS_URL_SCHEMES "nats tls"
#define NATS_URL_FORM "nats://HOST[:PORT] or tls://HOST[:PORT]"

struct nats_options {
    const char *url, *user, *password_file, *credentials, *authorities;
    struct url address; /* nats_check fills it */
};

/* Rows of a table of options: `field` of `type` is a struct nats_options. */
#define NATS_OPTIONS(type, field)                                                                  \
    {"url", 0, "URL", "the server: " NATS_URL_FORM " (default " NATS_URL ")",                      \
     OPTION_TEXT(type, field.url)},                                                                \
        {"user", 0, "NAME", "log in as NAME", OPTION_TEXT(type, field.user)},                      \
        {"password-file", 0, "FILE", "log in with the first line of FILE",                         \
         OPTION_FILE(type, field.password_file)},                                                  \
        {"cafile", 0, "FILE",                                                                      \
         "tls: who may have signed the server's certificate, beside those of the system",          \
         OPTION_FILE(type, field.authorities)},                                                    \
    {                                                                                              \
        "credentials", 0, "FILE", "log in with the user's JWT and key in FILE",                    \
            OPTION_FILE(type, field.credentials)                                                   \
    }

/* Read what the options say. EX_USAGE, EX_NOINPUT. */
int nats_check(struct nats_options *options, struct error *error);

/* The part of it that follows the address. */
int nats_check_files(const struct nats_options *options, struct error *error);

/* Connect: some seconds at most, and never again by itself. -1: EX_TEMPFAIL, it is not there, and
   the text is a clause that says why; EX_NOPERM with a sentence. */
int nats_connect(natsConnection **connection, const struct nats_options *options,
                 struct error *error);

/* What an answer of JetStream, or of the library, means: as above. Returns -1. */
int nats_judge(const struct nats_options *options, natsStatus status, jsErrCode code,
               struct error *error);

#endif
