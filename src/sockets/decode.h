/* Converts the frames of one message (docs/reference/protocol.md) to a checked example, or to the
   reason of its rejection. Uses the model's shapes; independent of sockets.

   Binary messages are checked in place: nothing is copied or allocated. Without a header they have
   one step, because a vector of float64 would otherwise be learned as two steps of float32. The
   rejection of a frame with twice or half the expected bytes suggests the type. A null among the
   numbers of JSON is missing: NaN in binary, for a class WIRE_NO_CLASS. */
#ifndef RUNNEL_DECODE_H
#define RUNNEL_DECODE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/example.h"
#include "frames.h"
#include "model/columns.h"

struct decoder;
struct error;
struct model;

/* The model must outlive the decoder. `many`: a binary message without a header may also have
   several steps (examples.steps). */
int decoder_open(struct decoder **decoder, const struct model *model, bool many,
                 struct error *error);
void decoder_close(struct decoder **decoder);

/* Check a message of `count` frames; only the first MESSAGE_FRAMES_MAX of `frames` are read.
   REJECT_NOT: `example` is filled except `received`. Its pointers point into the frames (JSON:
   into the decoder), and are valid until those change or the next decode. A schema
   (decode_json.c) that fits is also REJECT_NOT, with an example of 0 steps.

   Other reasons: `why` is a clause with the actual and the expected value, in printable UTF-8.
   `example` contains key, epoch and sequence if they are valid (else key_size and the numbers
   are 0), and nothing else. */
enum reject_reason decode(struct decoder *decoder, const struct frame *frames, size_t count,
                          struct example *example, char why[REJECT_WHY_SIZE]);

/* Check an example from a file, which may be crafted, like a received one. */
enum reject_reason decode_check(struct decoder *decoder, const struct example *example,
                                char why[REJECT_WHY_SIZE]);

/* The schema of the model; NULL and 0 without y. */
struct schema {
    const char *dtype, *target_dtype; /* "float32", or "uint32" */
    /* Numbers in one step of x, and of one target of y; of messages in one atom. */
    size_t columns, targets;
    const char *target; /* "given", "next", "later", "previous" or "same" */
};
/* For columns ,"names":["load",..],"kinds":["real",..], and for named targets "target_names" in
   the same form, also with `next`; for messages ,"sequence":{"longest":256}, and the same
   "target_sequence" of y; for several outputs their names, "outputs". Else "". Returns `text`. */
enum { SCHEMA_NAMES_SIZE = 2 * COLUMNS_MAX * (COLUMN_NAME_SIZE + 16) + 256 };
const char *decoder_names(const struct decoder *decoder, char text[SCHEMA_NAMES_SIZE]);
void decoder_schema(const struct decoder *decoder, struct schema *schema);

/* Size of the largest frame of an example of this model, including JSON. */
size_t decoder_frame_max(const struct decoder *decoder);

/* Bytes of a one-step example in a queue, with the longest message, without the overhead of frames.
 */
size_t decoder_step_bytes(const struct decoder *decoder);

#endif
