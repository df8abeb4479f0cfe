#include "build-config.h"

#include "web_pages.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/complain.h"
#include "common/hash.h"

#define CHART_PATH "/chart.js"
#define HTML "text/html; charset=utf-8"
#define CSS "text/css; charset=utf-8"
#define JAVASCRIPT "text/javascript; charset=utf-8"
#define SVG "image/svg+xml"

/* A file becomes bytes from NAME_begin to NAME_end. */
#define EMBED_FROM(directory, name, file)                                                          \
    __asm__(".section .rodata\n.global page_" #name "_begin\n.global page_" #name                  \
            "_end\npage_" #name "_begin:\n.incbin \"" directory "/" file "\"\npage_" #name         \
            "_end:\n.byte 0\n.previous\n");                                                        \
    extern const char page_##name##_begin[], page_##name##_end[];
#define EMBED(name, file) EMBED_FROM(RUNNEL_WEB_DIRECTORY, name, file)

EMBED(index, "index.html")
EMBED(style, "style.css")
EMBED(icon, "icon.svg")
EMBED(anomalies, "anomalies.js")
EMBED(score, "score.js")
EMBED(verdict, "verdict.js")
EMBED(app, "app.js")
EMBED(charts, "charts.js")
EMBED(controls, "controls.js")
EMBED(experiment_page, "experiment.html")
EMBED(experiment_style, "experiment.css")
EMBED(experiment, "experiment.js")
EMBED(experiment_chart, "experiment_chart.js")
EMBED(experiment_data, "experiment_data.js")
EMBED(experiment_detail, "experiment_detail.js")
EMBED(experiment_filter, "experiment_filter.js")
EMBED(experiment_table, "experiment_table.js")
EMBED(data, "data.js")
EMBED(dom, "dom.js")
EMBED(draw, "draw.js")
EMBED(fleet, "fleet.js")
EMBED(forecast, "forecast.js")
EMBED(format, "format.js")
EMBED(frame, "frame.js")
EMBED(heat, "heat.js")
EMBED(lists, "lists.js")
EMBED(live, "live.js")
EMBED(multiples, "multiples.js")
EMBED_FROM(RUNNEL_WEB_BUILT, palette, "palette.js")
EMBED(panels, "panels.js")
EMBED(pointer, "pointer.js")
EMBED(range, "range.js")
EMBED(settings, "settings.js")
EMBED(skill, "skill.js")
EMBED(state, "state.js")
EMBED(theme, "theme.js")
EMBED(view, "view.js")

#define PAGE(path, type, name)                                                                     \
    { path, type, page_##name##_begin, page_##name##_end }
#define MODULE(name) PAGE("/" #name ".js", JAVASCRIPT, name)

static const struct page {
    const char *path, *type, *begin, *end;
} pages_table[PAGES] = {
    PAGE("/", HTML, index),
    PAGE("/style.css", CSS, style),
    PAGE("/experiment", HTML, experiment_page),
    PAGE("/experiment.css", CSS, experiment_style),
    PAGE("/icon.svg", SVG, icon),
    PAGE("/favicon.ico", SVG, icon),
    MODULE(anomalies),
    MODULE(score),
    MODULE(verdict),
    MODULE(app),
    MODULE(charts),
    MODULE(controls),
    MODULE(data),
    MODULE(dom),
    MODULE(experiment),
    MODULE(experiment_chart),
    MODULE(experiment_data),
    MODULE(experiment_detail),
    MODULE(experiment_filter),
    MODULE(experiment_table),
    MODULE(draw),
    MODULE(fleet),
    MODULE(forecast),
    MODULE(format),
    MODULE(frame),
    MODULE(heat),
    MODULE(lists),
    MODULE(live),
    MODULE(multiples),
    MODULE(palette),
    MODULE(panels),
    MODULE(pointer),
    MODULE(range),
    MODULE(settings),
    MODULE(skill),
    MODULE(state),
    MODULE(theme),
    MODULE(view),
};

/* Distinguishes versions of a file, so that a browser keeps what it has. */
static void write_etag(char etag[PAGE_ETAG_SIZE], const char *begin, const char *end) {
    uint64_t hash = hash_bytes(HASH_BEGIN, begin, (size_t)(end - begin));
    snprintf(etag, PAGE_ETAG_SIZE, "\"%016llx\"", (unsigned long long)hash);
}

int pages_open(struct pages *pages, const char *chart_file) {
    static const char way_out[] = "it has the charts; on Debian: apt-get install libjs-chart.js";
    enum { LARGEST = 4 << 20 };
    *pages = (struct pages){0};
    FILE *file = fopen(chart_file, "re");
    if (!file)
        return complain(EX_UNAVAILABLE, "cannot read %s: %s (%s)", chart_file, strerror(errno),
                        way_out);
    pages->chart = malloc(LARGEST);
    pages->chart_size = pages->chart ? fread(pages->chart, 1, LARGEST, file) : 0;
    fclose(file);
    if (pages->chart_size > 0 && pages->chart_size < LARGEST) {
        char *fitting = realloc(pages->chart, pages->chart_size);
        pages->chart = fitting ? fitting : pages->chart;
        write_etag(pages->chart_etag, pages->chart, pages->chart + pages->chart_size);
        for (size_t i = 0; i < PAGES; i++)
            write_etag(pages->etags[i], pages_table[i].begin, pages_table[i].end);
        return EX_OK;
    }
    pages_close(pages);
    return complain(EX_UNAVAILABLE, "%s is not the chart library (%s)", chart_file, way_out);
}

void pages_close(struct pages *pages) {
    free(pages->chart);
    *pages = (struct pages){0};
}

bool pages_find(const struct pages *pages, const char *path, struct reply *reply) {
    *reply = (struct reply){.status = MHD_HTTP_OK};
    if (strcmp(path, CHART_PATH) == 0) {
        reply->type = JAVASCRIPT;
        reply->body = pages->chart;
        reply->size = pages->chart_size;
        reply->etag = pages->chart_etag;
        return true;
    }
    for (size_t i = 0; i < PAGES; i++) {
        const struct page *page = &pages_table[i];
        if (strcmp(path, page->path) != 0)
            continue;
        reply->type = page->type;
        reply->body = page->begin;
        reply->size = (size_t)(page->end - page->begin);
        reply->etag = pages->etags[i];
        return true;
    }
    return false;
}
