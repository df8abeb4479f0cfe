/* Clients of MQTT 3.1.1, whose packets leave when mosquitto_loop_write is called and at no other
   time: so an acknowledgement can wait until it is true. */
#ifndef RUNNEL_MQTT_LINK_H
#define RUNNEL_MQTT_LINK_H

#include <stdbool.h>

#include <mosquitto.h>

struct error;
struct url;

#define MQTT_URL "mqtt://127.0.0.1:1883"
#define MQTT_URL_SCHEMES "mqtt mqtts unix"
#define MQTT_URL_FORM "mqtt://HOST[:PORT], mqtts://HOST[:PORT] or unix:///PATH"

/* A client that is not connected, with the login of the address; `authorities`: the file of those
   that may have signed the broker's certificate, NULL: the system's. `context` is what callbacks
   get. EX_USAGE, EX_OSERR. */
int mqtt_open(struct mosquitto **client, const struct url *url, const char *name, bool clean,
              const char *authorities, void *context, struct error *error);

/* Begin a connection: CONNECT is on its way when this returns. EX_TEMPFAIL: it is not there, with a
   clause that says why. */
int mqtt_connect(struct mosquitto *client, const struct url *url, struct error *error);

/* What a broker answers to CONNECT, 0 for yes: EX_TEMPFAIL; EX_NOPERM or EX_UNAVAILABLE with a
   sentence. */
int mqtt_judge(const struct url *url, int code, struct error *error);

/* What a function of mosquitto's has returned: 0, or EX_TEMPFAIL with its reason. */
int mqtt_check(int code, struct error *error);

#endif
