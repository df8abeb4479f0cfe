/* The configuration in force as texts, for `status` and for the command `config`. */
#ifndef RUNNEL_RESOLVED_H
#define RUNNEL_RESOLVED_H

#include <stdio.h>

struct config_source;
struct config;
struct daemon;
struct error;

int resolved_open(struct daemon *daemon, struct error *error);
void resolved_close(struct daemon *daemon);

/* It is another one now. */
void resolved_renew(struct daemon *daemon);

/* All of it, and its tags, as objects of JSON: until it is renewed. NULL: there was no memory. */
const char *resolved_json(const struct daemon *daemon);
const char *resolved_tags(const struct daemon *daemon);

/* As YAML that a daemon takes, to be freed: comments say where it comes from and which values were
   set in flight. NULL: out of memory. */
char *resolved_yaml(const struct daemon *daemon, const struct config *configured,
                    const struct config_source *source);

#endif
