#include "build-config.h"

#include "alert_replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/complain.h"
#include "common/json_member.h"

/* False when the line is no message that has a topic and a time. */
static bool parse(const char *line, struct message *message, double *now) {
    *message = (struct message){.topic = TOPICS, .body = json_loads(line, 0, NULL)};
    const char *topic = member_string(message->body, "topic");
    if (topic)
        message->topic = topic_find(topic, strlen(topic));
    return message->topic != TOPICS && member_number(message->body, "time", now);
}

int replay(const char *path, bool (*take)(void *context, const struct message *message, double now),
           void *context) {
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (!file)
        return complain(EX_NOINPUT, "cannot open '%s': %s", path, strerror(errno));
    char *line = NULL;
    size_t size = 0, number = 0, wrong = 0, first = 0;
    double now = 0;
    bool more = true;
    while (more && getline(&line, &size, file) >= 0) {
        struct message message;
        number++;
        if (parse(line, &message, &now))
            more = take(context, &message, now);
        else if (wrong++ == 0)
            first = number;
        message_clear(&message);
    }
    int status = EX_OK;
    if (ferror(file) && errno != EINTR)
        status = complain(EX_IOERR, "cannot read '%s': %s", path, strerror(errno));
    if (wrong > 0)
        complain(EX_OK,
                 "%s: %zu line%s no message as runnel-watch --json writes them; the first "
                 "is line %zu",
                 path, wrong, wrong == 1 ? " is" : "s are", first);
    free(line);
    if (file != stdin)
        fclose(file);
    return status;
}
