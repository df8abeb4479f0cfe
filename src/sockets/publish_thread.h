/* The thread that has the statistics socket: sends what is in the queue, and knows what subscribers
   want.

   libzmq's reports cannot be believed to the end: an unsubscription from a connection that never
   subscribed is reported like one of the last subscriber. So each connection has its own record,
   which only its own reports change, and which is dropped when the connection is gone. What is
   wanted is what any record says. */
#ifndef RUNNEL_PUBLISH_THREAD_H
#define RUNNEL_PUBLISH_THREAD_H

#include "publish.h"

struct publish_queue;
struct publish_thread;

/* Start it with the socket, which is its own from now on, until publish_thread_stop; it takes from
   the queue. Errors: EX_OSERR. */
int publish_thread_start(struct publish_thread **thread, void *socket, struct publish_queue *queue,
                         struct security *security, struct error *error);

/* What the queue has is handed to libzmq first. */
void publish_thread_stop(struct publish_thread **thread);

/* There is something in the queue. */
void publish_thread_wake(struct publish_thread *thread);

/* As of publish.h. */
int publish_thread_descriptor(const struct publish_thread *thread);
bool publish_thread_news(struct publish_thread *thread);
bool publish_thread_wanted(const struct publish_thread *thread, enum topic topic);

#endif
