/* Messages of brokers: a byte for the model (example_models.h), one for the size of the
   message's key, that key, and the payload. A message converted to JSON is decoded; otherwise it
   has a reason that can be logged, sent and written to a dead letter. */
#include <stdlib.h>

#include "cluster/brokers/message.h"
#include "common/error.h"
#include "example_models.h"
#include "fuzz.h"
#include "sockets/decode.h"

bool fuzz_message(const uint8_t *bytes, size_t size) {
    static const struct message_number number = {.producer = 1, .epoch = 2, .sequence = 3};
    struct fuzz_input input = {bytes, size};
    struct model model;
    struct decoder *decoder;
    struct message_text text = {0};
    struct example example;
    struct error error = {0};
    char why[MESSAGE_WHY_SIZE] = "";
    example_model(&model, (enum example_model)(fuzz_byte(&input) % EXAMPLE_MODELS));
    struct message message = {.id = "1-0", .key_size = fuzz_byte(&input), .number = &number};
    char *key = fuzz_block(&input, &message.key_size);
    message.size = input.size;
    char *payload = fuzz_block(&input, &message.size);
    message.key = key;
    message.bytes = payload;
    int status = message_example(&text, &message, NULL, message_broker_number, NULL, why, &error);
    REQUIRE(status >= 0, "%s", error.text);
    REQUIRE(decoder_open(&decoder, &model, true, NULL) == 0, "no decoder");
    const struct frame frame = {text.text, text.size};
    bool accepted = status && decode(decoder, &frame, 1, &example, why) == REJECT_NOT;
    if (!accepted)
        fuzz_require_sentence(why);
    decoder_close(&decoder);
    message_text_free(&text);
    free(key);
    free(payload);
    return accepted;
}
