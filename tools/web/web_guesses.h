/* Wrong tokens by address. An address may send ten; each further one blocks the address, first for
   1 second and then twice as long each time, up to 5 minutes. Tokens of a blocked address are not
   compared. A repeated wrong token counts once: it is a client with an old token. An IPv6 address
   counts as its 64-bit network. */
#ifndef RUNNEL_WEB_GUESSES_H
#define RUNNEL_WEB_GUESSES_H

#include <stddef.h>

struct sockaddr;

enum { GUESSES_ADDRESSES = 1024, GUESSES_ADDRESS_SIZE = 16, GUESSES_TOKEN_SIZE = 129 };

/* Initialize with zeros. */
struct guesses {
    unsigned long long wrong, refused; /* requests since the program started */
    struct guesser {
        unsigned char address[GUESSES_ADDRESS_SIZE]; /* IPv6, or IPv4-mapped */
        int wrong;                                   /* different wrong tokens in succession */
        /* CLOCK_MONOTONIC of the newest wrong token, and of the end of the block */
        double newest, until;
        char last[GUESSES_TOKEN_SIZE];
    } guessers[GUESSES_ADDRESSES]; /* (count,); the oldest one is replaced */
    size_t count;
    unsigned char newest[GUESSES_ADDRESS_SIZE]; /* address of the last wrong or refused request */
    unsigned long long reported_wrong, reported_refused; /* counts at the last report */
};

/* Seconds until the address is no longer blocked; 0 = not blocked. A blocked request is counted as
   refused. */
double guesses_wait(struct guesses *guesses, const struct sockaddr *address, double now);

void guesses_add(struct guesses *guesses, const struct sockaddr *address, const char *token,
                 double now);

/* Prints a line if there were wrong or refused requests since the last one. */
void guesses_report(struct guesses *guesses);

#endif
