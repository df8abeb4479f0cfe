#include "build-config.h"

#include "web_pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "tool.h"

#define CHART_PATH "/chart.js"
#define HTML "text/html; charset=utf-8"
#define CSS "text/css; charset=utf-8"
#define JAVASCRIPT "text/javascript; charset=utf-8"
#define SVG "image/svg+xml"

/* A file becomes bytes from NAME_begin to NAME_end. */
#define EMBED(name, file)                                                                          \
    __asm__(".section .rodata\n.global page_" #name "_begin\n.global page_" #name                  \
            "_end\npage_" #name "_begin:\n.incbin \"" RUNNEL_WEB_DIRECTORY "/" file                \
            "\"\npage_" #name "_end:\n.byte 0\n.previous\n");                                      \
    extern const char page_##name##_begin[], page_##name##_end[];

EMBED(index, "index.html")
EMBED(style, "style.css")
EMBED(icon, "icon.svg")
EMBED(app, "app.js")
EMBED(data, "data.js")
EMBED(panels, "panels.js")
EMBED(draw, "draw.js")
EMBED(format, "format.js")
EMBED(heat, "heat.js")

static const struct page {
    const char *path, *type, *begin, *end;
} pages_table[] = {
    {"/", HTML, page_index_begin, page_index_end},
    {"/style.css", CSS, page_style_begin, page_style_end},
    {"/icon.svg", SVG, page_icon_begin, page_icon_end},
    {"/favicon.ico", SVG, page_icon_begin, page_icon_end},
    {"/app.js", JAVASCRIPT, page_app_begin, page_app_end},
    {"/data.js", JAVASCRIPT, page_data_begin, page_data_end},
    {"/panels.js", JAVASCRIPT, page_panels_begin, page_panels_end},
    {"/draw.js", JAVASCRIPT, page_draw_begin, page_draw_end},
    {"/format.js", JAVASCRIPT, page_format_begin, page_format_end},
    {"/heat.js", JAVASCRIPT, page_heat_begin, page_heat_end},
};

int pages_open(struct pages *pages, const char *chart_file) {
    static const char way_out[] = "it has the charts; on Debian: apt-get install libjs-chart.js";
    enum { LARGEST = 4 << 20 };
    *pages = (struct pages){0};
    FILE *file = fopen(chart_file, "re");
    if (!file)
        return tool_fail(EX_UNAVAILABLE, "cannot read %s: %s (%s)", chart_file, strerror(errno),
                         way_out);
    pages->chart = malloc(LARGEST);
    pages->chart_size = pages->chart ? fread(pages->chart, 1, LARGEST, file) : 0;
    fclose(file);
    if (pages->chart_size > 0 && pages->chart_size < LARGEST) {
        char *fitting = realloc(pages->chart, pages->chart_size);
        pages->chart = fitting ? fitting : pages->chart;
        return EX_OK;
    }
    pages_close(pages);
    return tool_fail(EX_UNAVAILABLE, "%s is not the chart library (%s)", chart_file, way_out);
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
        return true;
    }
    for (size_t i = 0; i < sizeof pages_table / sizeof *pages_table; i++) {
        const struct page *page = &pages_table[i];
        if (strcmp(path, page->path) != 0)
            continue;
        reply->type = page->type;
        reply->body = page->begin;
        reply->size = (size_t)(page->end - page->begin);
        return true;
    }
    return false;
}
