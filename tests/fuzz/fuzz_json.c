/* Examples as JSON: a byte for the model (example_models.h), then the text. An accepted text
   must be accepted in binary form, too, as the same example. */
#include <stdlib.h>
#include <string.h>

#include "example_models.h"
#include "example_rules.h"
#include "fuzz.h"
#include "sockets/decode.h"

/* The frames of the example in binary form. */
struct binary {
    unsigned char header[WIRE_HEADER_SIZE_MAX];
    void *blocks[EXAMPLE_FRAMES_MAX];
    struct frame frames[EXAMPLE_FRAMES_MAX];
};

static void add_frame(struct binary *binary, size_t place, const void *bytes, size_t size) {
    struct fuzz_input input = {bytes, size};
    binary->blocks[place] = fuzz_block(&input, &size);
    binary->frames[place] = (struct frame){binary->blocks[place], size};
}

static void make_binary(struct binary *binary, const struct model *model,
                        const struct example *example) {
    size_t header_size = wire_header_pack(
        &(struct wire_header){.flags = (uint8_t)((example->end ? WIRE_END : 0) |
                                                 (example->learn ? 0 : WIRE_DO_NOT_LEARN)),
                              .epoch = example->epoch,
                              .sequence = example->sequence,
                              .time = example->time,
                              .producer = example->producer},
        binary->header);
    add_frame(binary, 0, example->key, example->key_size);
    add_frame(binary, 1, example->x,
              sizeof(float) * example_inputs(example) * rule_of_x_width(model));
    add_frame(binary, 2, example->y,
              sizeof(float) * example_targets(example) * rule_of_y_width(model));
    add_frame(binary, 3, binary->header, header_size);
}

static void require_same(struct decoder *decoder, const struct model *model,
                         const struct example *example) {
    struct binary binary;
    struct example other;
    char why[REJECT_WHY_SIZE] = "";
    struct example kept = *example;
    make_binary(&binary, model, example);
    enum reject_reason reason = decode(decoder, binary.frames, EXAMPLE_FRAMES_MAX, &other, why);
    REQUIRE(reason == REJECT_NOT, "accepted as JSON, but not in binary form: %s", why);
    const char *broken = broken_rule(model, binary.frames, EXAMPLE_FRAMES_MAX, &other);
    REQUIRE(!broken, "accepted in spite of %s", broken);
    REQUIRE(other.steps == kept.steps && !other.y == !kept.y && other.end == kept.end &&
                other.learn == kept.learn && other.epoch == kept.epoch &&
                other.sequence == kept.sequence && other.producer == kept.producer &&
                other.key_size == kept.key_size &&
                !memcmp(&other.time, &kept.time, sizeof kept.time),
            "JSON and binary form are two examples");
    REQUIRE(kept.numbered || (kept.sequence == 0), "a sequence that is not there");
    for (size_t f = 0; f < EXAMPLE_FRAMES_MAX; f++)
        free(binary.blocks[f]);
}

bool fuzz_json(const uint8_t *bytes, size_t size) {
    struct fuzz_input input = {bytes, size};
    struct model model;
    struct decoder *decoder;
    struct example example;
    char why[REJECT_WHY_SIZE] = "";
    example_model(&model, (enum example_model)(fuzz_byte(&input) % EXAMPLE_MODELS));
    struct frame frame = {.size = input.size};
    void *block = fuzz_block(&input, &frame.size);
    frame.data = block;
    REQUIRE(decoder_open(&decoder, &model, true, NULL) == 0, "no decoder");
    bool accepted = decode(decoder, &frame, 1, &example, why) == REJECT_NOT;
    if (accepted && example.steps > 0) { /* else it is a schema */
        const char *broken = broken_rule(&model, &frame, 1, &example);
        REQUIRE(!broken, "accepted in spite of %s", broken);
        require_same(decoder, &model, &example);
    } else if (!accepted) {
        fuzz_require_sentence(why);
        REQUIRE(wire_is_utf8(example.key, example.key_size), "the key of a rejected example");
    }
    decoder_close(&decoder);
    free(block);
    return accepted;
}
