/* Properties of ZeroMQ endpoints that follow from their text. */
#ifndef RUNNEL_ADDRESS_H
#define RUNNEL_ADDRESS_H

#include <stdbool.h>

/* Whether only this machine can reach a bound endpoint: ipc, or tcp on a loopback address or on
   an interface that has no other addresses. */
bool address_is_local(const char *endpoint);

/* Whether this is an ipc endpoint without a file ("ipc://@NAME"), which has no file permissions. */
bool address_is_abstract(const char *endpoint);

#endif
