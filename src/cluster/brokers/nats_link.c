#include "nats_link.h"

#include <stdbool.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"

enum { CONNECT_MS = 3000, PING_MS = 10000 };

int nats_check(struct nats_options *options, struct error *error) {
    if (url_parse(&options->address, "--url", options->url, NATS_URL_SCHEMES, NATS_URL_FORM,
                  error) < 0 ||
        url_login(&options->address, options->user, options->password_file, error) < 0)
        return -1;
    return nats_check_files(options, error);
}

static bool is_secure(const struct nats_options *options) {
    return strcmp(options->address.scheme, "tls") == 0;
}

int nats_check_files(const struct nats_options *options, struct error *error) {
    if (options->authorities && !is_secure(options))
        return error_set(error, EX_USAGE, "--cafile: requires an address that begins with tls://");
    if (options->authorities && access(options->authorities, R_OK) < 0)
        return error_set(error, EX_NOINPUT, "--cafile: cannot read %s", options->authorities);
    if (options->credentials && access(options->credentials, R_OK) < 0)
        return error_set(error, EX_NOINPUT, "--credentials: cannot read %s", options->credentials);
    return 0;
}

int nats_fail(const struct nats_options *options, natsStatus status, jsErrCode code,
              struct error *error) {
    natsStatus newest;
    const char *why = nats_GetLastError(&newest);
    if (status == NATS_CONNECTION_AUTH_FAILED || status == NATS_NOT_PERMITTED)
        return error_set(error, EX_NOPERM,
                         "%s: access denied: %s; see --user, --password-file and --credentials",
                         options->address.name, why ? why : natsStatus_GetText(status));
    if (code == JSStreamNotFoundErr)
        return error_set(error, EX_TEMPFAIL, "JetStream stream not found");
    return error_set(error, EX_TEMPFAIL, "%s", why && *why ? why : natsStatus_GetText(status));
}

int nats_connect(natsConnection **connection, const struct nats_options *options,
                 struct error *error) {
    const struct url *url = &options->address;
    natsOptions *settings = NULL;
    natsStatus status = natsOptions_Create(&settings);
    if (status == NATS_OK)
        status = natsOptions_SetURL(settings, url->name);
    if (status == NATS_OK)
        status = natsOptions_SetName(settings, "runnel");
    if (status == NATS_OK && *url->user)
        status = natsOptions_SetUserInfo(settings, url->user, url->password);
    if (status == NATS_OK && options->credentials)
        status = natsOptions_SetUserCredentialsFromFiles(settings, options->credentials, NULL);
    if (status == NATS_OK && is_secure(options))
        status = natsOptions_SetSecure(settings, true);
    if (status == NATS_OK && is_secure(options) && options->authorities)
        status = natsOptions_LoadCATrustedCertificates(settings, options->authorities);
    if (status == NATS_OK && is_secure(options))
        status = natsOptions_SetExpectedHostname(settings, url->host);
    if (status == NATS_OK)
        status = natsOptions_SetAllowReconnect(settings, false);
    if (status == NATS_OK)
        status = natsOptions_SetTimeout(settings, CONNECT_MS);
    if (status == NATS_OK)
        status = natsOptions_SetPingInterval(settings, PING_MS);
    if (status == NATS_OK)
        status = natsConnection_Connect(connection, settings);
    natsOptions_Destroy(settings);
    return status == NATS_OK ? 0 : nats_fail(options, status, 0, error);
}
