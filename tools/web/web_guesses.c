#include "web_guesses.h"

#include <arpa/inet.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/complain.h"

#define REFUSED_FIRST 1.0 /* seconds */
#define REFUSED_MOST 300.0
#define FORGOTTEN_AFTER 3600.0

enum { WRONG_FREE = 10, NETWORK_BYTES = 8 };

/* The beginning of an IPv4-mapped address. */
static const unsigned char mapped[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

static void read_address(unsigned char own[GUESSES_ADDRESS_SIZE], const struct sockaddr *address) {
    memset(own, 0, GUESSES_ADDRESS_SIZE);
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        memcpy(own, mapped, sizeof mapped);
        memcpy(own + sizeof mapped, &in->sin_addr, sizeof in->sin_addr);
    } else if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
        bool four = IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr);
        memcpy(own, &in6->sin6_addr, four ? GUESSES_ADDRESS_SIZE : NETWORK_BYTES);
    }
}

/* NULL for an unknown address. The count restarts after FORGOTTEN_AFTER seconds without a wrong
   token. */
static struct guesser *find(struct guesses *guesses, const unsigned char *address, double now) {
    for (size_t i = 0; i < guesses->count; i++) {
        struct guesser *guesser = &guesses->guessers[i];
        if (memcmp(guesser->address, address, GUESSES_ADDRESS_SIZE) != 0)
            continue;
        if (now > guesser->until + FORGOTTEN_AFTER)
            guesser->wrong = 0;
        return guesser;
    }
    return NULL;
}

static struct guesser *add(struct guesses *guesses, const unsigned char *address) {
    struct guesser *place = &guesses->guessers[0];
    if (guesses->count < GUESSES_ADDRESSES)
        place = &guesses->guessers[guesses->count++];
    else
        for (size_t i = 1; i < guesses->count; i++)
            if (guesses->guessers[i].newest < place->newest)
                place = &guesses->guessers[i];
    *place = (struct guesser){0};
    memcpy(place->address, address, GUESSES_ADDRESS_SIZE);
    return place;
}

double guesses_wait(struct guesses *guesses, const struct sockaddr *address, double now) {
    unsigned char own[GUESSES_ADDRESS_SIZE];
    read_address(own, address);
    const struct guesser *guesser = find(guesses, own, now);
    if (!guesser || guesser->until <= now)
        return 0;
    guesses->refused++;
    memcpy(guesses->newest, own, sizeof own);
    return guesser->until - now;
}

void guesses_add(struct guesses *guesses, const struct sockaddr *address, const char *token,
                 double now) {
    unsigned char own[GUESSES_ADDRESS_SIZE];
    read_address(own, address);
    struct guesser *guesser = find(guesses, own, now);
    guesses->wrong++;
    if (!guesser)
        guesser = add(guesses, own);
    if (guesser->wrong == 0 || strncmp(guesser->last, token, sizeof guesser->last - 1) != 0) {
        snprintf(guesser->last, sizeof guesser->last, "%s", token);
        guesser->until = now;
        if (++guesser->wrong >= WRONG_FREE)
            guesser->until += fmin(ldexp(REFUSED_FIRST, guesser->wrong - WRONG_FREE), REFUSED_MOST);
    }
    guesser->newest = now;
    memcpy(guesses->newest, own, sizeof own);
}

void guesses_report(struct guesses *guesses) {
    unsigned long long wrong = guesses->wrong - guesses->reported_wrong;
    unsigned long long refused = guesses->refused - guesses->reported_refused;
    bool four = memcmp(guesses->newest, mapped, sizeof mapped) == 0;
    char name[INET6_ADDRSTRLEN] = "?";
    if (wrong + refused == 0)
        return;
    inet_ntop(four ? AF_INET : AF_INET6, guesses->newest + (four ? sizeof mapped : 0), name,
              sizeof name);
    complain(0,
             "%llu request%s with a wrong token and %llu rejected unchecked, the newest from %s%s",
             wrong, wrong == 1 ? "" : "s", refused, name, four ? "" : "/64");
    guesses->reported_wrong = guesses->wrong;
    guesses->reported_refused = guesses->refused;
}
