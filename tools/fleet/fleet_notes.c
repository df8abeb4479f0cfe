#include "fleet_notes.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/format.h"
#include "common/json_member.h"
#include "common/text.h"
#include "fleet/fleet_rates.h"

/* A lease is renewed several times: with this much of it over, some renewals have failed. */
#define LATE 0.5

enum { TEXT_SIZE = 256, NAMES_SHOWN = 3, VALUES_SHOWN = 4 };

struct notes {
    const struct fleet_view *view;
    json_t *const *infos;
    bool begun;
};

/* An empty line before the first. */
static void begin(struct notes *notes) {
    if (!notes->begun)
        putchar('\n');
    notes->begun = true;
}

static size_t count_owned(const struct fleet_view *view, size_t daemon) {
    size_t count = 0;
    for (size_t p = 0; p < view->partition_count; p++)
        count += view->partitions[p].owner == (int)daemon;
    return count;
}

/* ---- Who is silent ---- */

static void print_silent(struct notes *notes, size_t d) {
    const struct fleet_daemon *daemon = &notes->view->daemons[d];
    size_t owned = count_owned(notes->view, d);
    char name[TEXT_SIZE], silent[FORMAT_SIZE], left[FORMAT_SIZE];
    double lease;
    if (!daemon->living || owned == 0 || !member_number(notes->infos[d], "lease", &lease) ||
        daemon->lease > LATE * lease)
        return;
    begin(notes);
    printf("%s has been silent for %s: its lease ends in %s, and its %zu partition%s %s for others "
           "then\n",
           text_copy(name, sizeof name, daemon->name),
           format_duration(silent, lease - daemon->lease), format_duration(left, daemon->lease),
           owned, text_s(owned), owned == 1 ? "is" : "are");
}

/* ---- What nobody learns ---- */

static void print_nobodys(struct notes *notes) {
    const struct fleet_view *view = notes->view;
    size_t partitions = 0, there = 0, taking = 0;
    for (size_t d = 0; d < view->daemon_count; d++) {
        there += view->daemons[d].living;
        taking += view->daemons[d].living && !view->daemons[d].draining;
    }
    for (size_t p = 0; p < view->partition_count; p++) {
        int owner = view->partitions[p].owner;
        partitions += owner < 0 || !view->daemons[owner].living;
    }
    if (taking > 0 || partitions == 0)
        return;
    begin(notes);
    printf("%zu partition%s %s learned by nobody: ", partitions, text_s(partitions),
           partitions == 1 ? "is" : "are");
    if (there == 0)
        puts("no daemon is there; start one");
    else
        printf("%s drained; runnel-fleet rebalance lets %s take part again, or start another\n",
               there == 1 ? "the only daemon that is there is" : "all daemons that are there are",
               there == 1 ? "it" : "them");
}

/* ---- Who learns with what ---- */

/* A daemon that is there says this of the key, and none before it: *count that do. */
static bool is_first(const struct notes *notes, const char *key, size_t d, size_t *count) {
    double value = fleet_rate(notes->infos[d], key);
    *count = 0;
    if (isnan(value) || !notes->view->daemons[d].living)
        return false;
    for (size_t n = 0; n < notes->view->daemon_count; n++) {
        bool same = notes->view->daemons[n].living && fleet_rate(notes->infos[n], key) == value;
        if (same && n < d)
            return false;
        *count += same;
    }
    return true;
}

/* " worker-1, worker-2 and 3 more", those with the value of this daemon. */
static void print_names(const struct notes *notes, const char *key, size_t d, size_t count) {
    double value = fleet_rate(notes->infos[d], key);
    char name[TEXT_SIZE];
    size_t shown = 0;
    for (size_t n = d; n < notes->view->daemon_count && shown < NAMES_SHOWN; n++)
        if (notes->view->daemons[n].living && fleet_rate(notes->infos[n], key) == value)
            printf("%s%s", shown++ ? ", " : " ",
                   text_copy(name, sizeof name, notes->view->daemons[n].name));
    if (count > shown)
        printf(" and %zu more", count - shown);
}

/* "learning.clip differs: 1 with worker-1, 2 with worker-2; ..." */
static void print_key(struct notes *notes, const char *key) {
    size_t values = 0, count;
    char text[FORMAT_SIZE], clean[TEXT_SIZE];
    for (size_t d = 0; d < notes->view->daemon_count; d++)
        values += is_first(notes, key, d, &count);
    if (values < 2)
        return;
    begin(notes);
    printf("%s differs: ", text_copy(clean, sizeof clean, key));
    size_t shown = 0;
    for (size_t d = 0; d < notes->view->daemon_count && shown < VALUES_SHOWN; d++) {
        if (!is_first(notes, key, d, &count))
            continue;
        printf("%s%s with", shown++ ? ", " : "",
               format_exact(text, fleet_rate(notes->infos[d], key)));
        print_names(notes, key, d, count);
    }
    if (values > shown)
        printf(" and %zu more values", values - shown);
    puts("; give all daemons the same value");
}

/* Of the first daemon that is there and says its own: whoever else says has the same keys. */
static void print_rates(struct notes *notes) {
    for (size_t d = 0; d < notes->view->daemon_count; d++) {
        json_t *rates = json_object_get(notes->infos[d], FLEET_RATES), *value;
        const char *key;
        if (!notes->view->daemons[d].living || !json_is_object(rates))
            continue;
        json_object_foreach(rates, key, value) print_key(notes, key);
        return;
    }
}

void fleet_print_notes(const struct fleet_view *view, json_t *const *infos) {
    struct notes notes = {.view = view, .infos = infos};
    for (size_t d = 0; d < view->daemon_count; d++)
        print_silent(&notes, d);
    print_nobodys(&notes);
    print_rates(&notes);
}
