/* Wrong tokens, by the address that they come from. Ten may be wrong; from then on each one has the
   address refused for twice as long as the one before, 1 second to 5 minutes, in which nothing that
   it sends is compared with the token. The same wrong token again is a client that was not told of
   a new one, and counts once. An IPv6 address stands for its network of 64 bits. */
#ifndef RUNNEL_WEB_GUESSES_H
#define RUNNEL_WEB_GUESSES_H

#include <stddef.h>

struct sockaddr;

enum { GUESSES_ADDRESSES = 1024, GUESSES_ADDRESS_SIZE = 16, GUESSES_TOKEN_SIZE = 129 };

/* All zero at first. */
struct guesses {
    unsigned long long wrong, refused; /* requests since the start */
    struct guesser {
        unsigned char address[GUESSES_ADDRESS_SIZE]; /* IPv6, or IPv4 as such */
        int wrong;                                   /* different ones in succession */
        double newest, until; /* of the wrong ones; when it is heard again. CLOCK_MONOTONIC */
        char last[GUESSES_TOKEN_SIZE];
    } guessers[GUESSES_ADDRESSES]; /* (count,); the one that was wrong longest ago makes room */
    size_t count;
    unsigned char newest[GUESSES_ADDRESS_SIZE];  /* who was wrong or refused last */
    unsigned long long said_wrong, said_refused; /* of those above */
};

/* Seconds for which the address is not to be heard, 0 = it is. Not 0: it is counted as refused. */
double guesses_wait(struct guesses *guesses, const struct sockaddr *address, double now);

/* It has sent this token, which is wrong. */
void guesses_add(struct guesses *guesses, const struct sockaddr *address, const char *token,
                 double now);

/* Write a line about what has come since the last one, if anything has. */
void guesses_say(struct guesses *guesses);

#endif
