#include "topics.h"

#include <string.h>

#define TOPIC_NAME(number, name) name,
const char *const topic_names[TOPICS] = {TOPIC_LIST(TOPIC_NAME)};

enum topic topic_find(const char *name, size_t size) {
    int topic = 0;
    while (topic < TOPICS &&
           (strlen(topic_names[topic]) != size || memcmp(topic_names[topic], name, size) != 0))
        topic++;
    return (enum topic)topic;
}
