/* The commands normal and abnormal: what people say of alarms. */
#ifndef RUNNEL_CTL_ALARMS_H
#define RUNNEL_CTL_ALARMS_H

#include <jansson.h>

#include "common/options.h"
#include "ctl_rollback.h"
#include "runnel.h"

extern const struct option_row alarms_rows[];

/* As those of struct command. */
int alarms_check(const struct options *options, char **arguments);
json_t *normal_build(const struct options *options, const char *name, char **arguments);
int normal_print(const struct options *options, char **arguments, const struct runnel_reply *reply);
json_t *abnormal_build(const struct options *options, const char *name, char **arguments);
int abnormal_print(const struct options *options, char **arguments,
                   const struct runnel_reply *reply);

#endif
