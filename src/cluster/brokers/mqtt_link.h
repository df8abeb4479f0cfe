/* Clients of MQTT 3.1.1. They send packets only in mosquitto_loop_write, so that an acknowledgement
   can wait until the daemon has the message. */
#ifndef RUNNEL_MQTT_LINK_H
#define RUNNEL_MQTT_LINK_H

#include <stdbool.h>

#include <mosquitto.h>

struct error;
struct url;

#define MQTT_URL "mqtt://127.0.0.1:1883"
#define MQTT_URL_SCHEMES "mqtt mqtts unix"
#define MQTT_URL_FORM "mqtt://HOST[:PORT], mqtts://HOST[:PORT] or unix:///PATH"

/* Creates a client with the login of the address, not yet connected. `authorities` is the file of
   accepted certificate authorities; NULL: the system's. Callbacks receive `context`. Returns -1
   with EX_USAGE or EX_OSERR. */
int mqtt_open(struct mosquitto **client, const struct url *url, const char *name, bool clean,
              const char *authorities, void *context, struct error *error);

/* Starts a connection: on return, CONNECT is being sent. Fails with EX_TEMPFAIL and a clause as
   reason. */
int mqtt_connect(struct mosquitto *client, const struct url *url, struct error *error);

/* Checks the broker's answer to CONNECT: 0 is success. Fails with EX_TEMPFAIL, or with EX_NOPERM or
   EX_UNAVAILABLE and a whole sentence. */
int mqtt_check_connack(const struct url *url, int code, struct error *error);

/* Checks the result of a mosquitto function. Returns 0, or -1 with EX_TEMPFAIL and the reason. */
int mqtt_check(int code, struct error *error);

#endif
