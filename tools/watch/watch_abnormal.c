#include "build-config.h"

#include "watch_abnormal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/format.h"
#include "common/text.h"
#include "tools/shared/watch_names.h"
#include "watch_table.h"

enum { LINE_SIZE = 512, TIME_COLUMNS = 19, STREAM_COLUMNS = 20, REASON_COLUMNS = 8 };
enum { NUMBER_COLUMNS = 8, SCORE_COLUMNS = 7, LEAST_COLUMNS = 3, TEXT_SIZE = 64 };

static void print_header(struct abnormal *a, struct lines *lines) {
    char line[LINE_SIZE];
    snprintf(line, sizeof line, "%-*s %-*s %-*s %*s %*s %*s %*s %*s", TIME_COLUMNS, "time",
             STREAM_COLUMNS, "stream", REASON_COLUMNS, "reason", SCORE_COLUMNS, "score",
             SCORE_COLUMNS, "limit", a->name, "col", NUMBER_COLUMNS, "truth", NUMBER_COLUMNS,
             "forecast");
    lines_add(lines, line);
    a->header = lines_count(lines);
}

/* Its columns on the terminal may be fewer than its bytes. */
static int append(char line[LINE_SIZE], int used, const char *dirty, int columns) {
    char text[TEXT_SIZE];
    int padding = columns - lines_width(text_copy(text, sizeof text, dirty));
    return used + snprintf(line + used, LINE_SIZE - (size_t)used, " %s%*s", text,
                           padding > 0 ? padding : 0, "");
}

static int append_number(char line[LINE_SIZE], int used, double value, int columns) {
    char number[FORMAT_SIZE] = "-";
    if (!isnan(value))
        format_number(number, value);
    return used + snprintf(line + used, LINE_SIZE - (size_t)used, " %*s", columns, number);
}

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
    char line[LINE_SIZE], date[FORMAT_SIZE] = "-", name[NAME_SIZE];
    name_column(a, name, &first);
    if (!a->header || lines_count(lines) - a->header >= TABLE_HEADER_EVERY)
        print_header(a, lines);
    if (!isnan(anomaly->data_time) || !isnan(anomaly->time))
        format_date(date, isnan(anomaly->data_time) ? anomaly->time : anomaly->data_time);
    int used = snprintf(line, sizeof line, "%-*s", TIME_COLUMNS, date);
    used = append(line, used, anomaly->stream, STREAM_COLUMNS);
    used = append(line, used, anomaly->reason, REASON_COLUMNS);
    used = append_number(line, used, anomaly->score, SCORE_COLUMNS);
    used = append_number(line, used, anomaly->threshold, SCORE_COLUMNS);
    used += snprintf(line + used, sizeof line - (size_t)used, " %*s%s", a->name - lines_width(name),
                     "", name);
    used = append_number(line, used, first.truth, NUMBER_COLUMNS);
    used = append_number(line, used, first.forecast, NUMBER_COLUMNS);
    if (columns > 1)
        snprintf(line + used, sizeof line - (size_t)used, " and %zu more", columns - 1);
    lines_add(lines, line);
}
