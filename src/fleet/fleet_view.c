#include <stdlib.h>
#include <string.h>

#include "fleet_link.h"

void fleet_view_free(struct fleet_view *view) {
    for (size_t n = 0; n < view->daemon_count; n++) {
        free(view->daemons[n].name);
        free(view->daemons[n].info);
    }
    free(view->daemons);
    free(view->partitions);
    free(view->stream);
    free(view->digest);
    *view = (struct fleet_view){0};
}

int fleet_view_find(const struct fleet_view *view, const char *name) {
    for (size_t n = 0; n < view->daemon_count; n++)
        if (strcmp(view->daemons[n].name, name) == 0)
            return (int)n;
    return -1;
}
