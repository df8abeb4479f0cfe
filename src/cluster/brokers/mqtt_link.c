#include "mqtt_link.h"

#include <errno.h>
#include <string.h>
#include <sysexits.h>

#include "common/error.h"
#include "url.h"

enum { PORT = 1883, PORT_TLS = 8883, KEEPALIVE_SECONDS = 60 };

/* MQTT 3.1.1, section 3.2.2.3. */
enum { CONNACK_UNAVAILABLE = 3, CONNACK_BAD_LOGIN = 4, CONNACK_FORBIDDEN = 5 };

static bool is_secure(const struct url *url) {
    return strcmp(url->scheme, "mqtts") == 0;
}

int mqtt_check(int code, struct error *error) {
    if (code == MOSQ_ERR_SUCCESS)
        return 0;
    return error_set(error, EX_TEMPFAIL, "%s",
                     code == MOSQ_ERR_ERRNO       ? strerror(errno)
                     : code == MOSQ_ERR_CONN_LOST ? "connection closed"
                                                  : mosquitto_strerror(code));
}

int mqtt_check_connack(const struct url *url, int code, struct error *error) {
    if (code == 0)
        return 0;
    if (code == CONNACK_BAD_LOGIN || code == CONNACK_FORBIDDEN)
        return error_set(error, EX_NOPERM, "%s: access denied: %s; see --user and --password-file",
                         url->name, mosquitto_connack_string(code));
    if (code == CONNACK_UNAVAILABLE)
        return error_set(error, EX_TEMPFAIL, "the broker reports that it is not available");
    return error_set(error, EX_UNAVAILABLE, "%s: connection refused: %s", url->name,
                     mosquitto_connack_string(code));
}

int mqtt_open(struct mosquitto **client, const struct url *url, const char *name, bool clean,
              const char *authorities, void *context, struct error *error) {
    mosquitto_lib_init();
    *client = mosquitto_new(name, clean, context);
    if (!*client)
        return errno == ENOMEM
                   ? error_no_memory(error)
                   : error_set(error, EX_USAGE, "--client-id: invalid client name '%s'", name);
    mosquitto_threaded_set(*client, true);
    if (*url->user &&
        mosquitto_username_pw_set(*client, url->user, *url->password ? url->password : NULL))
        return error_set(error, EX_USAGE, "--user: invalid user name '%s'", url->user);
    if (authorities && !is_secure(url))
        return error_set(error, EX_USAGE,
                         "--cafile: requires an address that begins with mqtts://");
    if (!is_secure(url))
        return 0;
    int code = authorities ? mosquitto_tls_set(*client, authorities, NULL, NULL, NULL, NULL)
                           : mosquitto_int_option(*client, MOSQ_OPT_TLS_USE_OS_CERTS, 1);
    return code == MOSQ_ERR_SUCCESS ? 0
                                    : error_set(error, EX_USAGE, "--cafile: %s: %s",
                                                authorities ? authorities : "system certificates",
                                                mosquitto_strerror(code));
}

int mqtt_connect(struct mosquitto *client, const struct url *url, struct error *error) {
    int preset = is_secure(url) ? PORT_TLS : PORT;
    bool local = strcmp(url->scheme, "unix") == 0;
    return mqtt_check(mosquitto_connect(client, local ? url->path : url->host,
                                        local       ? 0
                                        : url->port ? url->port
                                                    : preset,
                                        KEEPALIVE_SECONDS),
                      error) < 0
               ? -1
               : mqtt_check(mosquitto_loop_write(client, 1), error);
}
