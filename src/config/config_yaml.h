/* A text into libyaml's document. What that may cost is bounded: a stranger may have sent it. */
#ifndef RUNNEL_CONFIG_YAML_H
#define RUNNEL_CONFIG_YAML_H

#include <stddef.h>
#include <yaml.h>

enum { YAML_PROBLEM_SIZE = 512 };

/* What is wrong with a text: where, and a sentence. */
struct yaml_problem {
    yaml_mark_t mark;
    char text[YAML_PROBLEM_SIZE];
};

/* Load the one document of a text; the caller deletes it. -1, and nothing to be deleted: it is not
   YAML, empty, has a second document, or is nested deeper than any configuration. */
int config_yaml_load(yaml_document_t *document, const char *text, size_t size,
                     struct yaml_problem *problem);

#endif
