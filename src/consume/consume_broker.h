/* How the configured broker is reached and who logs in, for whoever connects to it: the reader of
   this room, and the link of a fleet. The texts are the configuration's. */
#ifndef RUNNEL_CONSUME_BROKER_H
#define RUNNEL_CONSUME_BROKER_H

struct config;
struct error;
struct kafka_options;
struct url;

/* examples.redis. EX_CONFIG: what is wrong with the address, or with the file of the password. */
int consume_redis_url(const struct config *config, struct url *url, struct error *error);

/* examples.kafka. */
void consume_kafka_options(const struct config *config, struct kafka_options *options);

#endif
