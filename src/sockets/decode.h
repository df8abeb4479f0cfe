/* From the frames of one message to a checked example, or to the reason why it is none. Knows the
   model's shapes and no socket.

   Binary messages (2 to 4 frames, see wire.h) are checked where they lie: nothing is copied or
   allocated. Without a header they have one step, since a vector of float64 taken for two steps of
   float32 would be learned; a frame that has twice or half the bytes that fit is refused with a
   question after its type. A message of one frame is JSON:

     {"stream": "a", "x": X, "y": Y, "end": false, "learn": true,
      "epoch": 0, "sequence": 0, "sparse": false, "time": 0, "result": false, "note": ""}

   or, of a label, {"stream": "a", "label_of": 17, "y": Y, "label_epoch": 0} and the others but x.

   x alone is required; any other member is an error, and so is a member given twice. With I numbers
   in a step (real: input.size; symbols: 1), X is
     [1, 2, .. I]          one step
     [[1, .. I], ..]       a step a list
     7  or  [7, 8, 9]      with I = 1: one step, or a step a number
   and Y likewise with the numbers of a target (softmax: 1); null or [] is no target at all. A null
   among the numbers is a missing one: NaN in binary, for a class WIRE_NO_CLASS. Symbols and classes
   are whole numbers; `sequence` is below 2^53; the example is `numbered` when it has one. */
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

/* The model must outlive the decoder. `many`: a binary message without a header may have several
   steps, too (examples.steps). */
int decoder_open(struct decoder **decoder, const struct model *model, bool many,
                 struct error *error);
void decoder_close(struct decoder **decoder);

/* A schema (decode_json.c) that fits is REJECT_NOT, too, with an example of 0 steps: it is none.

   Check a message of `count` frames; only the first MESSAGE_FRAMES_MAX of `frames` are read.
   REJECT_NOT: `example` is filled but for `received`; its pointers lead into the frames (JSON: into
   the decoder) and is valid until those are changed or the next decode. Any other reason: `why`
   says in a clause what was found and what is expected, in printable UTF-8, and `example` has key,
   epoch and sequence if that much was understood (else key_size and the numbers are 0) and nothing
   else.
 */
enum reject_reason decode(struct decoder *decoder, const struct frame *frames, size_t count,
                          struct example *example, char why[REJECT_WHY_SIZE]);

/* Check an example that comes from a file, which may be crafted, as if it had been sent. */
enum reject_reason decode_check(struct decoder *decoder, const struct example *example,
                                char why[REJECT_WHY_SIZE]);

/* What the model takes, in the words of a schema; NULL and 0 where there is no y. */
struct schema {
    const char *dtype, *target_dtype; /* "float32", or "uint32" */
    size_t columns, targets;          /* numbers in one step of x, and of y */
    const char *target;               /* "given", "next" or "later" */
};
/* Of columns: ,"names":["load",..],"kinds":["real",..], of targets with names likewise
   "target_names", also of `next`; else "". Returns `text`. */
enum { SCHEMA_NAMES_SIZE = 2 * COLUMNS_MAX * (COLUMN_NAME_SIZE + 16) };
const char *decoder_names(const struct decoder *decoder, char text[SCHEMA_NAMES_SIZE]);
void decoder_schema(const struct decoder *decoder, struct schema *schema);

/* Bytes of the largest frame that can be an example of this model, JSON included. */
size_t decoder_frame_max(const struct decoder *decoder);

/* Bytes that an example of one step keeps in a queue, frames' overhead not counted. */
size_t decoder_step_bytes(const struct decoder *decoder);

#endif
