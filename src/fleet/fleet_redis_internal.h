/* A link to Redis, for its own files: fleet_redis.c (members, and what people ask),
   fleet_redis_ask.c (commands and their answers), fleet_redis_claims.c, fleet_redis_states.c,
   fleet_redis_rounds.c, fleet_redis_keeps.c. */
#ifndef RUNNEL_FLEET_REDIS_INTERNAL_H
#define RUNNEL_FLEET_REDIS_INTERNAL_H

#include <hiredis.h>

#include "fleet_link.h"
#include "fleet_scripts.h"

struct url;

enum {
    FLEET_PREFIX_SIZE = sizeof "runnel:{}:" + FLEET_GROUP_MAX,
    FLEET_KEY_SIZE = FLEET_PREFIX_SIZE + 128,
    FLEET_SHA_SIZE = 41,
    FLEET_NUMBER_SIZE = 24,
    FLEET_OFFSET_SIZE = 2 * FLEET_NUMBER_SIZE,
};

struct fleet_redis {
    struct fleet_link link;
    const struct url *url;
    const struct fleet_self *self;
    redisContext *context; /* NULL: not connected */
    bool anew;             /* connected since the last look: what changed before may be undone */
    char prefix[FLEET_PREFIX_SIZE];
    char run[FLEET_ID_SIZE];
    char sha[FLEET_SCRIPTS][FLEET_SHA_SIZE]; /* "" = the server has not been given it */
};

/* ---- fleet_redis_keeps.c ---- */

/* Warn, where the server says that it does not keep what it has answered. The link is connected; a
   user who may not ask INFO is told nothing. */
void fleet_redis_look_at_keeping(struct fleet_redis *redis);

/* ---- Words of a command ---- */

struct fleet_words {
    const char **word;
    size_t *size, count, room;
    char (*number)[FLEET_OFFSET_SIZE]; /* (room,) what was written for this */
};

int fleet_words_open(struct fleet_words *words, size_t room, struct error *error);
void fleet_words_free(struct fleet_words *words);

/* The words that a script begins with, and room for more; for daemons' scripts with name, id
   and run. */
int fleet_words_of_script(struct fleet_redis *redis, struct fleet_words *words, size_t more,
                          struct error *error);
int fleet_words_of_self(struct fleet_redis *redis, struct fleet_words *words, size_t more,
                        struct error *error);

/* What is added lives as long as the words. */
void fleet_add_bytes(struct fleet_words *words, const void *bytes, size_t size);
void fleet_add(struct fleet_words *words, const char *text);
void fleet_add_number(struct fleet_words *words, uint64_t number);
void fleet_add_offset(struct fleet_words *words, struct fleet_offset offset);

/* ---- Asking ---- */

void fleet_redis_disconnect(struct fleet_redis *redis);
int fleet_redis_connect(struct fleet_redis *redis, struct error *error);

/* Of what the server has answered, which is freed unless it is good. NULL: the connection is lost.
   -1 as in fleet_link.h. */
int fleet_redis_check(struct fleet_redis *redis, redisReply *got, redisReply **reply,
                      struct error *error);

/* The next answer of commands that were appended. */
int fleet_redis_next(struct fleet_redis *redis, redisReply **reply, struct error *error);

/* One command; -1 has no reply. */
int fleet_redis_ask(struct fleet_redis *redis, const struct fleet_words *words, redisReply **reply,
                    struct error *error);

/* One script; frees the words. */
int fleet_redis_run(struct fleet_redis *redis, enum fleet_script script, struct fleet_words *words,
                    redisReply **reply, struct error *error);

/* Let the server have it, for words that are appended: those go with its digest. */
int fleet_redis_load(struct fleet_redis *redis, enum fleet_script script, struct error *error);
void fleet_redis_append(struct fleet_redis *redis, enum fleet_script script,
                        struct fleet_words *words);

/* ---- Sentences; -1 ---- */

int fleet_redis_no_sense(const struct fleet_redis *redis, struct error *error);
int fleet_redis_name_is_taken(const struct fleet_redis *redis, struct error *error);

/* What a script answers to a daemon that may not do what it asks for. */
int fleet_redis_judge(const struct fleet_redis *redis, const char *text, struct error *error);

/* ---- Functions of fleet_link.h ---- */

int fleet_redis_take(struct fleet_link *link, struct fleet_claim *claims, size_t count,
                     size_t *taken, struct error *error);
int fleet_redis_ended(struct fleet_link *link, struct fleet_ended *claims, size_t count,
                      struct error *error);
int fleet_redis_settle(struct fleet_link *link, const uint64_t *claims, size_t count,
                       struct error *error);
int fleet_redis_commit(struct fleet_link *link, struct fleet_commit *commits, size_t count,
                       bool release, struct error *error);
int fleet_redis_stage(struct fleet_link *link, size_t partition, uint64_t claim, uint64_t serial,
                      const struct fleet_row *rows, size_t count, struct error *error);
int fleet_redis_states(struct fleet_link *link, size_t partition, fleet_visit *visit, void *context,
                       struct error *error);
int fleet_redis_arrive(struct fleet_link *link, uint64_t serial, const void *parameters,
                       size_t size, uint64_t *round, struct error *error);
int fleet_redis_pass(struct fleet_link *link, uint64_t round, struct error *error);
int fleet_redis_round(struct fleet_link *link, uint64_t round, char **names, struct error *error);
int fleet_redis_parameters(struct fleet_link *link, uint64_t round, const char *name, void **bytes,
                           size_t *size, struct error *error);

#endif
