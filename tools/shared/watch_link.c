#include "watch_link.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/complain.h"

enum { REFUSAL_SIZE = 512 };

struct link {
    struct runnel_subscriber *subscriber;
    char refusal[REFUSAL_SIZE];
};

int link_open(struct link **link, const struct runnel_peer *peer, const bool topics[TOPICS]) {
    const char *names[TOPICS + 1] = {NULL};
    struct runnel_error error;
    struct link *l = calloc(1, sizeof *l);
    if (!l)
        return complain(EX_UNAVAILABLE, "out of memory");
    for (int topic = 0, count = 0; topic < TOPICS; topic++)
        if (topics[topic])
            names[count++] = topic_names[topic];
    if (runnel_subscriber_open(&l->subscriber, peer, names, &error)) {
        free(l);
        return error.status == EX_USAGE ? complain_usage("%s", error.text)
                                        : complain(error.status, "%s", error.text);
    }
    *link = l;
    return EX_OK;
}

void link_close(struct link **link) {
    struct link *l = *link;
    if (!l)
        return;
    runnel_subscriber_close(&l->subscriber);
    free(l);
    *link = NULL;
}

void link_unparsed(struct link *l) {
    runnel_subscriber_unparsed(l->subscriber);
}

int link_descriptor(const struct link *l) {
    return runnel_subscriber_descriptor(l->subscriber);
}

void link_wait(struct link *l, int wake, double seconds, bool *woken) {
    struct pollfd items[] = {{.fd = link_descriptor(l), .events = POLLIN},
                             {.fd = wake, .events = POLLIN}};
    poll(items, 2, clock_milliseconds(seconds));
    *woken = items[1].revents != 0;
}

/* A newline in JSON is white space between two tokens, never part of a string. */
static char *on_one_line(const char *text, size_t size) {
    char *line = malloc(size + 1);
    if (!line)
        return NULL;
    while (size > 0 && text[size - 1] != '}')
        size--;
    while (size > 0 && *text != '{')
        text++, size--;
    memcpy(line, text, size);
    line[size] = '\0';
    for (char *c = line; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    return line;
}

static void read_message(struct message *message) {
    const struct runnel_news *news = &message->news;
    message->topic = topic_find(news->topic, strlen(news->topic));
    message->problem = news->problem;
    if (news->problem)
        return;
    message->body = json_incref(news->json);
    message->text = on_one_line(news->text, news->size);
    if (!message->text)
        message->problem = "out of memory";
}

enum runnel_kind link_next(struct link *l, struct message *message) {
    *message = (struct message){.topic = TOPICS};
    enum runnel_kind kind = runnel_subscriber_next(l->subscriber, &message->news);
    if (kind == RUNNEL_MESSAGE)
        read_message(message);
    if (message->news.why)
        snprintf(l->refusal, sizeof l->refusal, "%s", message->news.why);
    return kind;
}

const char *link_refusal(const struct link *l) {
    return l->refusal;
}

void message_clear(struct message *message) {
    json_decref(message->body);
    free(message->text);
    *message = (struct message){.topic = TOPICS};
}
