/* The topics of the statistics socket, by number and name. */
#ifndef RUNNEL_TOPICS_H
#define RUNNEL_TOPICS_H

#include <stddef.h>

/* TOPIC(number, name), in the order of docs/reference/protocol.md. This is a macro instead of a
   file, so that it can be used within expressions. */
#define TOPIC_LIST(TOPIC)                                                                          \
    TOPIC(STATUS, "status")                                                                        \
    TOPIC(LOSS, "loss")                                                                            \
    TOPIC(STATE, "state")                                                                          \
    TOPIC(PREDICTION, "prediction")                                                                \
    TOPIC(VECTOR, "vector")                                                                        \
    TOPIC(EVENT, "event")

#define TOPIC_NUMBER(number, name) TOPIC_##number,
enum topic { TOPIC_LIST(TOPIC_NUMBER) TOPICS };

/* " status loss state prediction vector event", a literal. */
#define TOPIC_WORD(number, name) " " name
#define TOPIC_WORDS TOPIC_LIST(TOPIC_WORD)

extern const char *const topic_names[TOPICS];

/* The topic of that name (not terminated); TOPICS if it does not exist. */
enum topic topic_find(const char *name, size_t size);

#endif
