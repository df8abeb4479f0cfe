/* What the control socket asks for: status, set, checkpoint, export, adopt, import, pause, resume,
   reset, forget, normal, abnormal, rollback, shutdown. docs/reference/protocol.md has requests and replies.
 */
#ifndef RUNNEL_COMMANDS_H
#define RUNNEL_COMMANDS_H

#include "sockets/control.h"

/* For control_open; the context is the daemon. */
extern const struct control_command commands[];

/* Add the fields of topic `status`, which the command has, too: an announce_fields. */
struct daemon;
struct json_text;
void commands_status(struct daemon *daemon, struct json_text *text);

#endif
