/* The commands of the control socket; docs/reference/protocol.md lists requests and replies. */
#ifndef RUNNEL_COMMANDS_H
#define RUNNEL_COMMANDS_H

#include "sockets/control.h"

/* For control_open; the context is the daemon. */
extern const struct control_command commands[];

/* Adds the fields of topic `status`, which the reply of the command also has (see
   announce_fields). */
struct daemon;
struct json_text;
void commands_status(struct daemon *daemon, struct json_text *text);

#endif
