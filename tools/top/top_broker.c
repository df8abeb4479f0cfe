#include "top_broker.h"

#include <math.h>

#include "common/fields.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/text.h"

enum { LABEL = 9, GAP = 2, GROUP_SHOWN = 24 };

static const json_t *part(const struct watched *w, const char *name) {
    const json_t *found = json_object_get(w->status, name);
    return json_is_object(found) ? found : NULL;
}

int broker_rows(const struct watched *w) {
    return !!part(w, "consumer") + !!part(w, "fleet");
}

static double number_of(const struct watched *w, enum status_field field) {
    double value = status_number(w->status, field);
    return isnan(value) ? 0 : value;
}

/* "waiting 1,234", in the style that it deserves. */
static int draw_count(struct canvas *c, const struct area *area, int row, int at, const char *label,
                      enum style style, double value) {
    char text[FORMAT_SIZE];
    at = canvas_print(c, area, row, at, STYLE_DIM, "%s ", label);
    return canvas_print(c, area, row, at, style, "%s",
                        isnan(value) ? "-" : format_grouped(text, value)) +
           GAP;
}

/* What does not answer says so before all else. */
static int draw_away(struct canvas *c, const struct area *area, int row, int at, double seconds) {
    char text[FORMAT_SIZE];
    if (!(seconds > 0))
        return at;
    return canvas_print(c, area, row, at, STYLE_BAD, "AWAY for %s",
                        format_duration(text, seconds)) +
           GAP;
}

static void draw_broker(struct canvas *c, const struct area *area, int row,
                        const struct watched *w) {
    const char *where = member_string(json_object_get(w->status, "sockets"), "examples");
    double dead = number_of(w, STATUS_consumer_dead), lost = number_of(w, STATUS_consumer_lost);
    double partitions = number_of(w, STATUS_consumer_partitions);
    int at = canvas_print(c, area, row, 0, STYLE_DIM, "%-*s", LABEL, "broker");
    at = draw_away(c, area, row, at, number_of(w, STATUS_consumer_away));
    at = draw_count(c, area, row, at, "waiting", STYLE_STRONG,
                    status_number(w->status, STATUS_consumer_lag));
    at = draw_count(c, area, row, at, "dead", dead > 0 ? STYLE_WARN : STYLE_PLAIN, dead);
    if (lost > 0)
        at = draw_count(c, area, row, at, "lost", STYLE_BAD, lost);
    canvas_print(c, area, row, at, STYLE_DIM, "%.0f partition%s of %s", partitions,
                 partitions == 1 ? "" : "s", where ? where : "?");
}

static void draw_fleet(struct canvas *c, const struct area *area, int row,
                       const struct watched *w) {
    const char *group = member_string(part(w, "fleet"), "group");
    double daemons = number_of(w, STATUS_fleet_daemons), of = number_of(w, STATUS_fleet_of);
    double round = status_number(w->status, STATUS_fleet_round);
    int at = canvas_print(c, area, row, 0, STYLE_DIM, "%-*s", LABEL, "fleet");
    at = draw_away(c, area, row, at, number_of(w, STATUS_fleet_away));
    at = canvas_print(c, area, row, at, STYLE_STRONG, "%.*s", GROUP_SHOWN, group ? group : "?") +
         GAP;
    at = canvas_print(c, area, row, at, STYLE_PLAIN, "%.0f of %.0f partition%s",
                      number_of(w, STATUS_fleet_partitions), of, of == 1 ? "" : "s") +
         GAP;
    at = canvas_print(c, area, row, at, STYLE_PLAIN, "%.0f daemon%s", daemons,
                      daemons == 1 ? "" : "s") +
         GAP;
    if (!isnan(round))
        canvas_print(c, area, row, at, STYLE_PLAIN, "round %.0f of averages", round);
}

void broker_draw(struct canvas *c, const struct area *area, const struct watched *w) {
    int row = 0;
    if (part(w, "consumer"))
        draw_broker(c, area, row++, w);
    if (part(w, "fleet"))
        draw_fleet(c, area, row, w);
}
