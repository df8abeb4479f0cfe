#include "feed.h"

#include <string.h>

volatile sig_atomic_t feed_signals;
void (*feed_meanwhile)(void *context);
void *feed_meanwhile_context;

const char *stream_name(struct stream *stream, const char *key, size_t size) {
    if (size > WIRE_KEY_MAX)
        return "it is longer than 255 bytes";
    if (!wire_is_utf8(key, size))
        return "it is not UTF-8 text";
    memcpy(stream->key, key, size);
    stream->key[size] = '\0';
    stream->key_size = size;
    stream->sequence = 0;
    return NULL;
}
