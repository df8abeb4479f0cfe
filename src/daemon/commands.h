/* What the control socket asks for: status, set, checkpoint, export, adopt, import, pause, resume,
   reset, forget, normal, abnormal, rollback, shutdown. docs/protocol.md has requests and replies.
 */
#ifndef RUNNEL_COMMANDS_H
#define RUNNEL_COMMANDS_H

#include "sockets/control.h"

/* For control_open; the context is the daemon. */
extern const struct control_command commands[];

#endif
