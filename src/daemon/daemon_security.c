#include <string.h>

#include "common/address.h"
#include "common/log.h"
#include "daemon_state.h"

void daemon_announce_security(struct daemon *daemon, bool all) {
    struct security_notice notice;
    while (security_announce(daemon->security, all ? UINT64_MAX : daemon_clock(), &notice)) {
        log_warning("%s", notice.text);
        json_t *details =
            json_pack("{s:I, s:s, s:s, s:s}", "count", (json_int_t)notice.count, "reason",
                      notice.reason, "socket", notice.socket, "address", notice.address);
        if (*notice.key)
            json_object_set_new(details, "key", json_string(notice.key));
        daemon_event(daemon, "refused", details, "%s", notice.text);
    }
}

void daemon_warn_exposed(const struct config *config) {
    const struct socket_config *sockets[SOCKET_ROLES] = {&config->examples, &config->statistics,
                                                         &config->control};
    for (size_t i = 0; i < SOCKET_ROLES && !*config->security.secret; i++)
        if (!sockets[i]->connect && !address_is_local(sockets[i]->endpoint))
            log_warning("%s: other machines can reach it, nothing is encrypted and nobody is asked "
                        "who they are, since security.insecure is true",
                        sockets[i]->endpoint);
}
