/* Addresses of brokers: SCHEME://[USER[:PASSWORD]@]HOST[:PORT][/PATH], or SCHEME:///PATH of a
   socket in the file system. */
#ifndef RUNNEL_URL_H
#define RUNNEL_URL_H

struct error;

#define REDIS_URL "redis://127.0.0.1:6379"
#define REDIS_URL_SCHEMES "redis unix"
#define REDIS_URL_FORM "redis://HOST[:PORT][/DATABASE] or unix:///PATH"

enum { URL_PART_MAX = 256 };

struct url {
    char scheme[URL_PART_MAX];                       /* "redis" */
    char user[URL_PART_MAX], password[URL_PART_MAX]; /* "" = none */
    char host[URL_PART_MAX];                         /* without the brackets of IPv6; "" = none */
    int port;                                        /* 0 = none */
    char path[URL_PART_MAX];                         /* after the host, with its '/'; or "" */
    char name[2 * URL_PART_MAX];                     /* the address without user and password */
    const char *section;                             /* as broker_key: whose keys say who logs in */
};

/* What the user calls an option, "password-file": "examples.redis.password_file" in a section of
   the configuration, "--password-file" with NULL. Returns `name`. */
enum { BROKER_KEY_SIZE = 128 };
const char *broker_key(char name[BROKER_KEY_SIZE], const char *section, const char *option);

/* Read the address that `option` was given; %41 is A in user and password. `schemes` are those that
   there may be, between blanks; `form` says what is expected. EX_USAGE. */
int url_parse(struct url *url, const char *option, const char *text, const char *schemes,
              const char *form, struct error *error);

/* Take the user, and the first line of the file as the password; both may be NULL. Of a section, ""
   is none, too. EX_NOINPUT, EX_USAGE. */
int url_login(struct url *url, const char *user, const char *file, struct error *error);

#endif
