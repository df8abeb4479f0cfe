/* Whether a server of Redis keeps what it has answered. Without that a fleet loses at the server's
   end where it was, and with that what its daemons have learned since; Redis as it comes does not.
 */
#include <stdlib.h>
#include <string.h>

#include "brokers/url.h"
#include "common/log.h"
#include "fleet_redis_internal.h"

/* Whether INFO has such a line; those that an older server does not have are as one would wish. */
static bool says(const char *info, const char *line) {
    const char *found = strstr(info, line);
    size_t size = strlen(line);
    return found && (found == info || found[-1] == '\n') &&
           (found[size] == '\r' || found[size] == '\n' || found[size] == '\0');
}

static void judge(const struct fleet_redis *redis, const char *info) {
    const char *where = redis->url->name;
    if (says(info, "aof_enabled:0"))
        log_warning(
            "%s does not keep on disk what it answers (appendonly is no): when it ends, the "
            "fleet loses where it was, and leaves out what was learned since; set "
            "appendonly yes in its configuration",
            where);
    if (!says(info, "maxmemory:0") && strstr(info, "maxmemory_policy:") &&
        !says(info, "maxmemory_policy:noeviction"))
        log_warning("%s may drop keys of the fleet, and messages, when it is full: set "
                    "maxmemory-policy noeviction in its configuration",
                    where);
}

void fleet_redis_look_at_keeping(struct fleet_redis *redis) {
    redisReply *reply = redisCommand(redis->context, "INFO");
    if (reply && reply->type == REDIS_REPLY_STRING)
        judge(redis, reply->str);
    freeReplyObject(reply);
}
