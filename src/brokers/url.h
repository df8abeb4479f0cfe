/* Addresses of brokers: SCHEME://[USER[:PASSWORD]@]HOST[:PORT][/PATH], or SCHEME:///PATH of a
   socket in the file system. */
#ifndef RUNNEL_URL_H
#define RUNNEL_URL_H

struct error;

enum { URL_PART_MAX = 256 };

struct url {
    char scheme[URL_PART_MAX];                       /* "redis" */
    char user[URL_PART_MAX], password[URL_PART_MAX]; /* "" = none */
    char host[URL_PART_MAX];                         /* without the brackets of IPv6; "" = none */
    int port;                                        /* 0 = none */
    char path[URL_PART_MAX];                         /* after the host, with its '/'; or "" */
    char name[2 * URL_PART_MAX];                     /* the address without user and password */
    const char *login; /* what says who logs in, for sentences; NULL: --user and --password-file */
};

/* Read the address that `option` was given; %41 is A in user and password. `schemes` are those that
   there may be, between blanks; `form` says what is expected. EX_USAGE. */
int url_parse(struct url *url, const char *option, const char *text, const char *schemes,
              const char *form, struct error *error);

/* Take the user, and the first line of the file as the password; both may be NULL. EX_NOINPUT,
   EX_USAGE. */
int url_login(struct url *url, const char *user, const char *file, struct error *error);

#endif
