/* Addresses of Redis, where hiredis's header is not needed. */
#ifndef RUNNEL_REDIS_URL_H
#define RUNNEL_REDIS_URL_H

#define REDIS_URL "redis://127.0.0.1:6379"
#define REDIS_URL_SCHEMES "redis unix"
#define REDIS_URL_FORM "redis://HOST[:PORT][/DATABASE] or unix:///PATH"

#endif
