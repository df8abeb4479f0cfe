/* Broker addresses: SCHEME://[USER[:PASSWORD]@]HOST[:PORT][/PATH], or SCHEME:///PATH for a Unix
   socket. */
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
    /* prefix of the keys for the login, see broker_key */
    const char *section;
};

/* Prints the name of an option for messages: "examples.redis.password_file" for the section
   "examples.redis", "--password-file" for NULL. Returns `name`. */
enum { BROKER_KEY_SIZE = 128 };
const char *broker_key(char name[BROKER_KEY_SIZE], const char *section, const char *option);

/* Parses the address of `option`; %41 is A in user and password. `schemes` lists the accepted
   schemes, separated by blanks; `form` describes them. Fails with EX_USAGE. */
int url_parse(struct url *url, const char *option, const char *text, const char *schemes,
              const char *form, struct error *error);

/* Sets the user, and the first line of the file as the password; both may be NULL. In a section, ""
   means none, too. Fails with EX_NOINPUT or EX_USAGE. */
int url_login(struct url *url, const char *user, const char *file, struct error *error);

#endif
