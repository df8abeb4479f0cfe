/* Who may read: everybody on a loopback address, and elsewhere who has the token. */
#ifndef RUNNEL_WEB_ACCESS_H
#define RUNNEL_WEB_ACCESS_H

#include <stdbool.h>

#include <microhttpd.h>

#include "web_guesses.h"

enum { ACCESS_TOKEN_LEAST = 16, ACCESS_TOKEN_MOST = 128, ACCESS_SESSION = 32 };

struct access {
    bool guarded; /* there is a token */
    char token[ACCESS_TOKEN_MOST + 1];
    char session[ACCESS_SESSION + 1]; /* random digits, which only who has shown the token knows */
    struct guesses guesses;
    unsigned wait; /* of ACCESS_NOT_HEARD: seconds */
};

/* Read the token: the first line of a file that group and others may not read. EX_OK, or complains
   and returns an exit status. */
int access_read(struct access *access, const char *path);

enum access_verdict {
    ACCESS_GRANTED,
    ACCESS_COOKIE,  /* granted by ?token= in the address: to be kept as a cookie */
    ACCESS_RENEW,   /* granted by the token in a cookie of another run: to be sent again */
    ACCESS_NO_HOST, /* the name in `Host` is not one of the machine itself */
    ACCESS_NO_TOKEN,
    ACCESS_NOT_HEARD, /* too many wrong tokens came from its address */
    ACCESS_FOREIGN,   /* a page of another site asks, and not by a link */
};

/* Without a token, pages of other sites could read this one under a name of theirs that leads to
   127.0.0.1; so only names that mean the machine itself are taken. */
enum access_verdict access_check(struct access *access, struct MHD_Connection *connection);

/* The value of the header Set-Cookie that keeps token and session. */
enum { ACCESS_COOKIE_SIZE = ACCESS_TOKEN_MOST + ACCESS_SESSION + 64 };
void access_cookie(const struct access *access, char text[ACCESS_COOKIE_SIZE]);

#endif
