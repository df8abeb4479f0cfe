/* The binary formats on the sockets: the only header that the daemon shares with feeders and tools.
   docs/reference/protocol.md describes the messages and their frames. */
#ifndef RUNNEL_WIRE_H
#define RUNNEL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "runnel sends and stores little-endian numbers as they lie in memory"
#endif

#define WIRE_EXAMPLES "tcp://127.0.0.1:5570"   /* default endpoint: PULL, feeders PUSH */
#define WIRE_STATISTICS "tcp://127.0.0.1:5571" /* default endpoint: XPUB, watchers SUB */
#define WIRE_CONTROL "tcp://127.0.0.1:5572"    /* default endpoint: REP, clients REQ */

enum {
    WIRE_VERSION = 1, /* version of an acknowledgement, and of a header without a producer */
    WIRE_VERSION_PRODUCER = 2, /* version of a header with a producer */
    WIRE_HEADER_SIZE = 24,
    WIRE_HEADER_SIZE_MAX = 32, /* size with a producer */
    WIRE_KEY_MAX = 255,
    WIRE_WORD_MAX = 255,      /* bytes */
    WIRE_WORDS_MAX = 1 << 20, /* bytes of all words of one example */
    WIRE_NOTE_MAX = 1000,     /* bytes */
    WIRE_PIECE = 45000,       /* bytes of a blob in one control request, before base64 */
};

#define WIRE_NO_CLASS UINT32_MAX   /* an unknown softmax target */
#define WIRE_WORD (UINT32_MAX - 1) /* a symbol or class given as a word: see above */

enum wire_flag {
    WIRE_END = 1,          /* last example of its sequence: reset the stream's state afterwards */
    WIRE_DO_NOT_LEARN = 2, /* predict and score, but do not learn */
    WIRE_RESULT = 4,       /* router: return prediction and loss with the acknowledgement */
    WIRE_LABEL = 8,        /* a label: y belongs to an earlier example */
    WIRE_SPARSE = 16,      /* the numbers only increase: a gap does not mean a missing example */
    WIRE_WORDS = 32,       /* the last frame, or the last before a note, contains words */
    WIRE_NOTE = 64,        /* the last frame is a note */
    WIRE_QUANTILES = 128,  /* router: with WIRE_RESULT, return quantiles, too */
};

/* The numbers of a label's example, which has the same key and producer. The bytes: u32 epoch,
   u32 zero, u64 sequence. */
enum { WIRE_LABEL_SIZE = 16 };
struct wire_label {
    uint32_t epoch;
    uint64_t sequence;
};

void wire_label_pack(const struct wire_label *label, unsigned char bytes[WIRE_LABEL_SIZE]);

/* Same results as wire_header_unpack. */
const char *wire_label_unpack(struct wire_label *label, const void *bytes, size_t size);

/* The bytes: u8 version, u8 flags, u16 zero, u32 epoch, u64 sequence, f64 time; in version 2 also
   u64 producer. Numbers count per key and producer. */
struct wire_header {
    uint8_t flags;     /* a set of enum wire_flag */
    uint32_t epoch;    /* increases if a producer restarts without its counter */
    uint64_t sequence; /* increases by one per example of a key, unless WIRE_SPARSE */
    double time;       /* Unix time, or 0 */
    uint64_t producer; /* 0 = none, as in version 1 */
};

/* The answer of a ROUTER socket to each example, once it is durable: [key][acknowledgement], and
   with WIRE_RESULT [prediction float32][loss float32, or empty: nothing was scored], and with
   WIRE_QUANTILES [(1 + numbers, levels) float64: levels, then quantiles of the prediction].
   Little-endian: u8 version, u8 status, u16 reason, u32 epoch, u64 sequence, u64 position. */
enum { WIRE_ACKNOWLEDGEMENT_SIZE = 24 };

enum wire_status {
    WIRE_ACCEPTED = 0,
    WIRE_DUPLICATE = 1, /* received before: learned only once */
    WIRE_REJECTED =
        /* Not a valid example, or one without a header: see `reason`. Nothing is learned. */
    2,
};

/* Why an example is a duplicate. */
enum wire_duplicate {
    WIRE_OLD_SEQUENCE = 0, /* its sequence is not higher than its stream's newest */
    /* Its epoch is lower than its stream's: it may never have been learned. */
    WIRE_OLD_EPOCH = 1,
};

struct wire_acknowledgement {
    uint8_t status; /* enum wire_status */
    /* enum wire_duplicate, or the reason of a rejection (docs/reference/protocol.md) */
    uint16_t reason;
    uint32_t epoch;    /* epoch of the example */
    uint64_t sequence; /* sequence of the example; 0 if a rejected one had none */
    /* position in the journal; for a duplicate, that of the stream's newest example */
    uint64_t position;
};

void wire_acknowledgement_pack(const struct wire_acknowledgement *acknowledgement,
                               unsigned char bytes[WIRE_ACKNOWLEDGEMENT_SIZE]);

/* Same results as wire_header_unpack. */
const char *wire_acknowledgement_unpack(struct wire_acknowledgement *acknowledgement,
                                        const void *bytes, size_t size);

/* Returns the size: version 1 without a producer, else version 2. */
size_t wire_header_pack(const struct wire_header *header,
                        unsigned char bytes[WIRE_HEADER_SIZE_MAX]);

/* Returns NULL and fills `header`, or returns a static phrase about the error: size, version,
   or a reserved field that is not zero, for which `header` is also filled. */
const char *wire_header_unpack(struct wire_header *header, const void *bytes, size_t size);

/* Parse a producer: 1 to 16 hexadecimal digits. -1: invalid. */
int wire_producer_parse(const char *text, uint64_t *producer);

/* Whether the bytes are well-formed UTF-8 without NUL (RFC 3629: shortest form, no surrogates). */
bool wire_is_utf8(const void *bytes, size_t size);

/* Why an ipc endpoint cannot be reached now, as a phrase; NULL if no reason is known, and for
   other endpoints. */
const char *wire_unreachable(const char *endpoint);

#endif
