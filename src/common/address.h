/* What an endpoint of ZeroMQ says by itself, without a socket. */
#ifndef RUNNEL_ADDRESS_H
#define RUNNEL_ADDRESS_H

#include <stdbool.h>

/* Whether only this machine can reach what is bound there: ipc, or tcp on a loopback address or the
   name of an interface that has no others. */
bool address_is_local(const char *endpoint);

/* Whether it is an ipc endpoint without a file ("ipc://@NAME"): no mode of a file or directory says
   who may reach it. */
bool address_is_abstract(const char *endpoint);

#endif
