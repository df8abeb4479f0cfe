/* Addresses of Redis, and ids of its entries, where hiredis's header is not needed. */
#ifndef RUNNEL_REDIS_URL_H
#define RUNNEL_REDIS_URL_H

#include <stdint.h>

#define REDIS_URL "redis://127.0.0.1:6379"
#define REDIS_URL_SCHEMES "redis unix"
#define REDIS_URL_FORM "redis://HOST[:PORT][/DATABASE] or unix:///PATH"

/* See redis_entry.h. */
struct redis_id {
    uint64_t first, second;
};

#endif
