/* Messages: a byte for the model (example_models.h), one for the number of frames, then the
   frames; two bytes of size precede each but the last. */
#include <stdlib.h>
#include <string.h>

#include "example_models.h"
#include "example_rules.h"
#include "fuzz.h"
#include "sockets/decode.h"

enum { FRAMES_MAX = MESSAGE_FRAMES_MAX };

static void require_rules(const struct model *model, const struct frame *frames, size_t count,
                          enum reject_reason reason, const struct example *example,
                          const char *why) {
    if (reason != REJECT_NOT) {
        REQUIRE(reason < REJECT_REASONS && *reject_name(reason), "no reason: %d", (int)reason);
        fuzz_require_sentence(why);
        REQUIRE(wire_is_utf8(example->key, example->key_size), "the key of a rejected example");
        REQUIRE(!example->x && !example->y && !example->steps, "a rejected example with numbers");
        return;
    }
    const char *broken = broken_rule(model, frames, count, example);
    REQUIRE(!broken, "accepted in spite of %s", broken);
}

bool fuzz_decode(const uint8_t *bytes, size_t size) {
    struct fuzz_input input = {bytes, size};
    struct model model;
    struct decoder *decoder;
    struct frame frames[FRAMES_MAX] = {{0}};
    void *blocks[FRAMES_MAX] = {0};
    struct example example, again;
    char why[REJECT_WHY_SIZE] = "", why_again[REJECT_WHY_SIZE] = "";
    example_model(&model, (enum example_model)(fuzz_byte(&input) % EXAMPLE_MODELS));
    size_t count = fuzz_byte(&input) % (FRAMES_MAX + 1);
    for (size_t f = 0; f < count; f++) {
        frames[f].size = f + 1 < count ? fuzz_pair(&input) : input.size;
        frames[f].data = blocks[f] = fuzz_block(&input, &frames[f].size);
    }
    REQUIRE(decoder_open(&decoder, &model, true, NULL) == 0, "no decoder");
    enum reject_reason reason = decode(decoder, frames, count, &example, why);
    require_rules(&model, frames, count, reason, &example, why);
    REQUIRE(decode(decoder, frames, count, &again, why_again) == reason && !strcmp(why, why_again),
            "the same message was decoded as \"%s\", then as \"%s\"", why, why_again);
    decoder_close(&decoder);
    for (size_t f = 0; f < count; f++)
        free(blocks[f]);
    return reason == REJECT_NOT;
}
