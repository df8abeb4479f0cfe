#include "build-config.h"

#include "ctl_request.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "common/complain.h"
#include "common/text.h"

enum { ERROR_SIZE = 2048 };

static int fail(const struct runnel_error *error) {
    char clean[ERROR_SIZE];
    text_copy(clean, sizeof clean, error->text);
    return error->status == EX_USAGE ? complain_usage("%s", clean)
                                     : complain(error->status, "%s", clean);
}

int request_send(struct runnel_request **request, const struct runnel_peer *peer, double timeout,
                 const json_t *body, bool raw, struct runnel_reply *reply) {
    struct runnel_error error;
    char *text = json_dumps(body, JSON_COMPACT);
    if (!text)
        return complain(EX_UNAVAILABLE, "out of memory");
    int status = *request ? runnel_request_again(*request, text, timeout, &error)
                          : runnel_request_open(request, peer, text, timeout, &error);
    free(text);
    if (status)
        return fail(&error);
    status = runnel_request_wait(*request, reply, &error);
    if (raw && reply->text) {
        fwrite(reply->text, 1, reply->size, stdout);
        putchar('\n');
    }
    return status ? fail(&error) : EX_OK;
}
