#include "build-config.h"

#include "record_source.h"

#include <sysexits.h>

#include "common/complain.h"
#include "common/json_member.h"
#include "common/text.h"

static void note(void *context, const char *text) {
    struct source *source = context;
    source->note(source, text);
}

int source_open(struct source *s, const struct runnel_peer *peer, double silence,
                bool predictions) {
    const bool topics[TOPICS] = {
        [TOPIC_STATUS] = true, [TOPIC_LOSS] = true,
        [TOPIC_STATE] = true,  [TOPIC_PREDICTION] = predictions,
        [TOPIC_EVENT] = true,
    };
    s->endpoint = peer->endpoint;
    health_open(&s->health, s->endpoint, silence, note, s);
    return link_open(&s->link, peer, topics);
}

void source_close(struct source *s) {
    link_close(&s->link);
}

static void take_status(struct source *s, const json_t *body) {
    const char *name = member_string(body, "name"), *device = member_string(body, "device");
    const char *model = member_string(body, "model");
    char clean_device[65], clean_model[257];
    if (!name || s->named)
        return;
    s->named = true;
    complain(EX_OK, "recording %s: %s; %s", text_copy(s->name, sizeof s->name, name),
             text_copy(clean_model, sizeof clean_model, model ? model : ""),
             text_copy(clean_device, sizeof clean_device, device ? device : ""));
}

static void take_change(struct source *s, enum runnel_kind change) {
    bool hindered = change == RUNNEL_HINDERED && !s->hindrance_said;
    s->refused |= change == RUNNEL_REFUSED;
    s->hindrance_said |= hindered;
    if (hindered || change == RUNNEL_REFUSED)
        s->note(s, link_refusal(s->link));
    health_changed(&s->health, change);
}

bool source_receive(struct source *s, struct message *message) {
    enum runnel_kind kind;
    while ((kind = link_next(s->link, message)) != RUNNEL_MESSAGE) {
        if (kind == RUNNEL_NOTHING)
            return false;
        take_change(s, kind);
    }
    if (health_message(&s->health, message))
        s->named = false;
    if (!message->problem && message->topic == TOPIC_STATUS)
        take_status(s, message->body);
    return true;
}

void source_tick(struct source *s, bool last) {
    health_tick(&s->health, last);
}
