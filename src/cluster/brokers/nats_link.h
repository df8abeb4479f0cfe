/* Connections to NATS. The programs reconnect themselves: a reconnect by the library would hide
   lost messages. */
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
    struct url address; /* set by nats_check */
};

/* Rows for a table of options: `field` of `type` is a struct nats_options. */
#define NATS_OPTIONS(type, field)                                                                  \
    {"url", 0, "URL", "the server: " NATS_URL_FORM " (default " NATS_URL ")",                      \
     OPTION_TEXT(type, field.url)},                                                                \
        {"user", 0, "NAME", "log in as NAME", OPTION_TEXT(type, field.user)},                      \
        {"password-file", 0, "FILE", "log in with the password in the first line of FILE",         \
         OPTION_FILE(type, field.password_file)},                                                  \
        {"cafile", 0, "FILE",                                                                      \
         "tls: accept server certificates of these authorities, in addition to the system's",      \
         OPTION_FILE(type, field.authorities)},                                                    \
    {                                                                                              \
        "credentials", 0, "FILE", "log in with the JWT and the key of the user in FILE",           \
            OPTION_FILE(type, field.credentials)                                                   \
    }

/* Reads the options. Fails with EX_USAGE or EX_NOINPUT. */
int nats_check(struct nats_options *options, struct error *error);

/* Checks only the files that the options name. */
int nats_check_files(const struct nats_options *options, struct error *error);

/* Connects within a few seconds, and does not reconnect. Returns -1 with EX_TEMPFAIL and a clause
   if the server is not available, or with EX_NOPERM and a whole sentence. */
int nats_connect(natsConnection **connection, const struct nats_options *options,
                 struct error *error);

/* Sets the error for an answer of JetStream or the library, as nats_connect does. Returns -1. */
int nats_fail(const struct nats_options *options, natsStatus status, jsErrCode code,
              struct error *error);

#endif
