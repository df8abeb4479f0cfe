#include "build-config.h"

#include "record_source.h"

#include <string.h>
#include <sysexits.h>

#include "tools/shared/tool.h"

static void note(void *context, const char *text) {
    struct source *source = context;
    source->note(source, text);
}

int source_open(struct source *s, const char *endpoint, const struct key_client *keys,
                double silence) {
    static const bool topics[TOPICS] = {
        [TOPIC_STATUS] = true, [TOPIC_LOSS] = true, [TOPIC_STATE] = true, [TOPIC_EVENT] = true};
    s->endpoint = endpoint;
    health_open(&s->health, endpoint, silence, note, s);
    return link_open(&s->link, endpoint, keys, topics);
}

void source_close(struct source *s) {
    link_close(&s->link);
    health_close(&s->health);
}

static void take_status(struct source *s, const json_t *body) {
    const char *name = tool_string(body, "name"), *device = tool_string(body, "device");
    const char *model = tool_string(body, "model");
    char clean_device[65], clean_model[257];
    if (!name || s->named)
        return;
    s->named = true;
    tool_fail(EX_OK, "recording %s: %s; %s", tool_clean(s->name, sizeof s->name, name),
              tool_clean(clean_model, sizeof clean_model, model ? model : ""),
              tool_clean(clean_device, sizeof clean_device, device ? device : ""));
}

bool source_receive(struct source *s, struct message *message) {
    if (!link_receive(s->link, message))
        return false;
    if (health_message(&s->health, message))
        s->named = false;
    if (!message->problem && message->topic == TOPIC_STATUS)
        take_status(s, message->body);
    return true;
}

void source_tick(struct source *s, bool last) {
    enum link_change change;
    while ((change = link_changed(s->link)) != LINK_SAME) {
        s->refused |= change == LINK_REFUSED;
        bool hindered = change == LINK_HINDERED && !s->hindrance_said;
        s->hindrance_said |= hindered;
        if (hindered || change == LINK_REFUSED)
            s->note(s, link_refusal(s->link));
        health_changed(&s->health, change);
    }
    health_tick(&s->health, last);
}
