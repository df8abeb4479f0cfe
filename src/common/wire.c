#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t wire_header_pack(const struct wire_header *header,
                        unsigned char bytes[WIRE_HEADER_SIZE_MAX]) {
    memset(bytes, 0, WIRE_HEADER_SIZE);
    bytes[0] = header->producer ? WIRE_VERSION_PRODUCER : WIRE_VERSION;
    bytes[1] = header->flags;
    memcpy(bytes + 4, &header->epoch, 4);
    memcpy(bytes + 8, &header->sequence, 8);
    memcpy(bytes + 16, &header->time, 8);
    if (!header->producer)
        return WIRE_HEADER_SIZE;
    memcpy(bytes + 24, &header->producer, 8);
    return WIRE_HEADER_SIZE_MAX;
}

const char *wire_header_unpack(struct wire_header *header, const void *bytes, size_t size) {
    const unsigned char *b = bytes;
    if (size != WIRE_HEADER_SIZE && size != WIRE_HEADER_SIZE_MAX)
        return "expected a header of 24 bytes, or of 32 bytes with a producer";
    if (b[0] != (size == WIRE_HEADER_SIZE ? WIRE_VERSION : WIRE_VERSION_PRODUCER))
        return size == WIRE_HEADER_SIZE ? "expected version 1 for a header of 24 bytes"
                                        : "expected version 2 for a header of 32 bytes";
    header->flags = b[1];
    memcpy(&header->epoch, b + 4, 4);
    memcpy(&header->sequence, b + 8, 8);
    memcpy(&header->time, b + 16, 8);
    header->producer = 0;
    if (size == WIRE_HEADER_SIZE_MAX)
        memcpy(&header->producer, b + 24, 8);
    if (b[2] || b[3])
        return "the header's reserved field is not zero";
    return NULL;
}

void wire_label_pack(const struct wire_label *label, unsigned char bytes[WIRE_LABEL_SIZE]) {
    memset(bytes, 0, WIRE_LABEL_SIZE);
    memcpy(bytes, &label->epoch, 4);
    memcpy(bytes + 8, &label->sequence, 8);
}

const char *wire_label_unpack(struct wire_label *label, const void *bytes, size_t size) {
    const unsigned char *b = bytes;
    if (size != WIRE_LABEL_SIZE)
        return "expected 16 bytes in the frame with the numbers of a label's example";
    if (b[4] || b[5] || b[6] || b[7])
        return "the reserved field in the frame with the numbers of a label's example is not "
               "zero";
    memcpy(&label->epoch, b, 4);
    memcpy(&label->sequence, b + 8, 8);
    return NULL;
}

int wire_producer_parse(const char *text, uint64_t *producer) {
    enum { DIGITS_MAX = 16, HEXADECIMAL = 16 };
    size_t size = strlen(text);
    if (size == 0 || size > DIGITS_MAX || strspn(text, "0123456789abcdefABCDEF") != size)
        return -1;
    *producer = strtoull(text, NULL, HEXADECIMAL);
    return 0;
}

void wire_acknowledgement_pack(const struct wire_acknowledgement *acknowledgement,
                               unsigned char bytes[WIRE_ACKNOWLEDGEMENT_SIZE]) {
    bytes[0] = WIRE_VERSION;
    bytes[1] = acknowledgement->status;
    memcpy(bytes + 2, &acknowledgement->reason, 2);
    memcpy(bytes + 4, &acknowledgement->epoch, 4);
    memcpy(bytes + 8, &acknowledgement->sequence, 8);
    memcpy(bytes + 16, &acknowledgement->position, 8);
}

const char *wire_acknowledgement_unpack(struct wire_acknowledgement *acknowledgement,
                                        const void *bytes, size_t size) {
    const unsigned char *b = bytes;
    if (size != WIRE_ACKNOWLEDGEMENT_SIZE)
        return "expected an acknowledgement of 24 bytes";
    if (b[0] != WIRE_VERSION)
        return "expected version 1 of the acknowledgement";
    if (b[1] > WIRE_REJECTED)
        return "the acknowledgement has an unknown status";
    acknowledgement->status = b[1];
    memcpy(&acknowledgement->reason, b + 2, 2);
    memcpy(&acknowledgement->epoch, b + 4, 4);
    memcpy(&acknowledgement->sequence, b + 8, 8);
    memcpy(&acknowledgement->position, b + 16, 8);
    return NULL;
}

/* The number of continuation bytes after the lead byte `b`, and the range of the first one
   (Unicode table 3-7); -1 for an invalid lead byte. */
static int utf8_continuation(unsigned char b, unsigned char *low, unsigned char *high) {
    *low = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
    *high = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
    if (b >= 0x01 && b <= 0x7F)
        return 0;
    if (b >= 0xC2 && b <= 0xDF)
        return 1;
    if (b >= 0xE0 && b <= 0xEF)
        return 2;
    return b >= 0xF0 && b <= 0xF4 ? 3 : -1;
}

bool wire_is_utf8(const void *bytes, size_t size) {
    const unsigned char *b = bytes, *end = size ? b + size : b; /* `bytes` may be NULL for size 0 */
    while (b < end) {
        unsigned char low, high;
        int more = utf8_continuation(*b++, &low, &high);
        if (more < 0 || more > end - b)
            return false;
        for (; more > 0; more--, b++, low = 0x80, high = 0xBF)
            if (*b < low || *b > high)
                return false;
    }
    return true;
}

const char *wire_unreachable(const char *endpoint) {
    static const char ipc[] = "ipc://";
    const char *path = endpoint + strlen(ipc);
    /* @: a name in Linux's abstract namespace, without a file */
    if (strncmp(endpoint, ipc, strlen(ipc)) || *path == '@' || access(path, R_OK | W_OK) == 0)
        return NULL;
    if (errno == EACCES)
        return "permission denied (mode of the socket or a directory above it)";
    return errno == ENOENT || errno == ENOTDIR ? "the socket does not exist" : NULL;
}
