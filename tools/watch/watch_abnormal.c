#include "build-config.h"

#include "watch_abnormal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/format.h"
#include "common/text.h"
#include "common/wire.h"
#include "tools/shared/watch_names.h"

enum { TIME_COLUMNS = 19, STREAM_COLUMNS = 20, REASON_COLUMNS = 8 };
enum { NUMBER_COLUMNS = 8, SCORE_COLUMNS = 7, LEAST_COLUMNS = 3, TEXT_SIZE = 64 };

/* Its name, number or "-", with room for it from here on. */
static void name_column(struct abnormal *a, char name[NAME_SIZE],
                        const struct anomaly_column *one) {
    char number[FORMAT_SIZE] = "-";
    if (!isnan(one->column))
        snprintf(number, sizeof number, "%.0f", one->column);
    names_cut(name, *one->name ? one->name : number, NAME_SIZE);
    int width = lines_width(name) > LEAST_COLUMNS ? lines_width(name) : LEAST_COLUMNS;
    if (width <= a->name)
        return;
    a->name = width;
    a->header = 0;
}

void abnormal_print(struct abnormal *a, struct lines *lines, const struct anomaly *anomaly) {
    const struct anomaly_column first = anomaly_column(anomaly, 0);
    size_t columns = json_array_size(anomaly->columns);
    char date[FORMAT_SIZE] = "-", name[NAME_SIZE], stream[TEXT_SIZE], reason[TEXT_SIZE],
         numbers[4][FORMAT_SIZE], more[TEXT_SIZE] = "", note[WIRE_NOTE_MAX + 1],
         rest[TEXT_SIZE + sizeof note];
    name_column(a, name, &first);
    if (!isnan(anomaly->data_time) || !isnan(anomaly->time))
        format_date(date, isnan(anomaly->data_time) ? anomaly->time : anomaly->data_time);
    if (columns > 1)
        snprintf(more, sizeof more, " and %zu more", columns - 1);
    text_copy(note, sizeof note, anomaly->note);
    snprintf(rest, sizeof rest, "%s%s%s", more, *note ? "  " : "", note);
    static const char *const titles[] = {"time",  "stream", "reason", "score",
                                         "limit", "col",    "truth",  "forecast"};
    const int widths[] = {-TIME_COLUMNS, -STREAM_COLUMNS, -REASON_COLUMNS, SCORE_COLUMNS,
                          SCORE_COLUMNS, a->name,         NUMBER_COLUMNS,  NUMBER_COLUMNS};
    const char *const texts[] = {date,
                                 text_copy(stream, sizeof stream, anomaly->stream),
                                 text_copy(reason, sizeof reason, anomaly->reason),
                                 format_number(numbers[0], anomaly->score),
                                 format_number(numbers[1], anomaly->threshold),
                                 name,
                                 format_number(numbers[2], first.truth),
                                 format_number(numbers[3], first.forecast)};
    const struct lines_table table = {titles, widths, sizeof texts / sizeof *texts};
    lines_row(lines, &table, &a->header, texts, rest);
}
