#include "kinds.h"

#include <string.h>

#include "cells.h"
#include "losses.h"
#include "optimizers.h"
#include "pools.h"

#define INCLUDE_NORMS
#define INCLUDE_RULES
#include "kinds.def"

const struct cell_kind *cell_kind(enum cell cell) {
    static const struct cell_kind *const kinds[CELLS] = {
#define CELL(name) [CELL_##name] = &name##_kind,
#define GRID_CELL(name) [CELL_##name] = &name##_kind,
#include "kinds.def"
    };
    return kinds[cell];
}

const struct activation_kind *activation_kind(enum activation activation) {
    static const struct activation_kind *const kinds[ACTIVATIONS] = {
#define ACTIVATION(name) [ACTIVATION_##name] = &name##_kind,
#include "kinds.def"
    };
    return kinds[activation];
}

const struct norm_kind *norm_kind(enum norm norm) {
    static const struct norm_kind *const kinds[NORMS] = {
#define NORM(name) [NORM_##name] = &name##_kind,
#include "kinds.def"
    };
    return kinds[norm];
}

const struct loss_kind *loss_kind(enum loss loss) {
    static const struct loss_kind *const kinds[LOSSES] = {
#define LOSS(name, walk) [LOSS_##name] = &name##_kind,
#include "kinds.def"
    };
    return kinds[loss];
}

size_t loss_part_size(const struct loss_part *part, size_t size, size_t components) {
    switch (part->extent) {
    case EXTENT_NUMBERS:
        return size;
    case EXTENT_COMPONENTS:
        return components;
    case EXTENT_ONCE:
        return 1;
    case EXTENT_NONE:
        break;
    }
    return 0;
}

bool loss_has_components(const struct loss_kind *kind) {
    for (const struct loss_part *part = kind->parts; part->extent != EXTENT_NONE; part++)
        if (part->extent == EXTENT_COMPONENTS)
            return true;
    return false;
}

const struct pool_kind *pool_kind(enum pool pool) {
    static const struct pool_kind *const kinds[POOLS] = {
#define POOL(name) [POOL_##name] = &name##_kind,
#include "kinds.def"
    };
    return kinds[pool];
}

const struct optimizer_kind *optimizer_kind(enum optimizer_id id) {
    static const struct optimizer_kind *const kinds[OPTIMIZERS] = {
#define OPTIMIZER(name) [OPTIMIZER_##name] = &name##_kind,
#include "kinds.def"
    };
    return kinds[id];
}

const struct kind_key *optimizer_key(enum optimizer_id id, const char *name) {
    for (const struct kind_key *key = optimizer_kind(id)->keys; key->name; key++)
        if (strcmp(key->name, name) == 0)
            return key;
    return NULL;
}

double optimizer_value(const struct optimizer *optimizer, const struct kind_key *key) {
    const char *field = (const char *)optimizer + key->offset;
    return key->boolean ? *(const bool *)field : *(const double *)(const void *)field;
}

size_t optimizer_moments(const struct optimizer *optimizer) {
    const struct optimizer_kind *kind = optimizer_kind(optimizer->kind);
    bool all = !kind->moments_need ||
               optimizer_value(optimizer, optimizer_key(optimizer->kind, kind->moments_need)) > 0.0;
    return (all ? kind->moments : kind->moments_least) + (optimizer->pull > 0.0);
}

size_t optimizer_start(const struct optimizer *optimizer) {
    return optimizer->pull > 0.0 ? optimizer_moments(optimizer) - 1 : SIZE_MAX;
}

const struct rule_kind *rule_kind(enum rule rule) {
    static const struct rule_kind *const kinds[RULES] = {
#define RULE(name) [RULE_##name] = &name##_kind,
#include "kinds.def"
    };
    return kinds[rule];
}

bool rule_takes(enum rule rule, enum cell cell, bool diagonal) {
    const struct rule_kind *kind = rule_kind(rule);
    size_t states = cell_kind(cell)->states;
    if (diagonal || cell_kind(cell)->columns)
        return kind->columns;
    if (cell_kind(cell)->spatial)
        return kind->keeps == KEEPS_NOTHING;
    return kind->keeps != KEEPS_TRACE || states == 0 || states == kind->states;
}
