#include "journal_block.h"

#include <libdeflate.h>
#include <math.h>
#include <string.h>

/* ---- Kind ---- */

static const char *const beginnings[JOURNAL_KINDS] = {
    [JOURNAL_RESET] = "{\"command\":\"reset\"",
    [JOURNAL_SET] = "{\"command\":\"set\"",
    [JOURNAL_FORGET] = "{\"command\":\"forget\"",
    [JOURNAL_ADOPT] = "{\"command\":\"adopt\"",
    [JOURNAL_IMPORT] = "{\"command\":\"import\"",
    [JOURNAL_SKIP] = "{\"command\":\"skip\"",
    [JOURNAL_PARTITION] = "{\"command\":\"partition\"",
    [JOURNAL_FEEDBACK] = "{\"command\":\"normal\"",
    [JOURNAL_ROLLBACK] = "{\"command\":\"rollback\"",
    [JOURNAL_SILENCE] = "{\"command\":\"silence\"",
};

enum journal_kind journal_command_kind(const char *text, size_t size) {
    for (enum journal_kind kind = JOURNAL_RESET; kind < JOURNAL_KINDS; kind++)
        if (size >= strlen(beginnings[kind]) &&
            !memcmp(text, beginnings[kind], strlen(beginnings[kind])))
            return kind;
    return JOURNAL_COMMAND;
}

enum { FIELDS = 15, COMMAND_FIELDS = 5, MICROSECONDS = 1000000 };
enum {
    TIME,
    KIND,
    AT,
    KEY,
    X,
    Y,
    STEPS,
    FLAGS,
    EPOCH,
    SEQUENCE,
    STAMP,
    PRODUCER,
    OF_EPOCH,
    OF,
    WORDS
};

uint32_t journal_checksum(uint32_t checksum, const void *bytes, size_t size) {
    return size ? (uint32_t)libdeflate_crc32(checksum, bytes, size) : checksum;
}

uint32_t journal_block_checksum(const struct journal_block *block) {
    const uint64_t numbers[] = {block->last, block->count, block->about_size, block->data_size};
    uint32_t checksum = journal_checksum(0, numbers, sizeof numbers);
    checksum = journal_checksum(checksum, block->about, block->about_size);
    return journal_checksum(checksum, block->data, block->data_size);
}

/* ---- Packing ---- */

static char *put_number(char *end, uint64_t number) {
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    memcpy(end, digits + first, sizeof digits - first);
    return end + sizeof digits - first;
}

/* Writes a comma and the number. */
static char *put_next(char *end, uint64_t number) {
    *end++ = ',';
    return put_number(end, number);
}

static char *put_signed(char *end, int64_t number) {
    if (number >= 0)
        return put_next(end, (uint64_t)number);
    memcpy(end, ",-", 2);
    return put_number(end + 2, -(uint64_t)number);
}

static char *put_null(char *end) {
    memcpy(end, ",null", 5);
    return end + 5;
}

static int64_t bits(double number) {
    int64_t value;
    memcpy(&value, &number, sizeof value);
    return value;
}

static char *put_example(char *end, const struct journal_record *record) {
    end = record->y ? put_next(end, record->y_size) : put_null(end);
    end = put_next(put_next(end, record->steps), record->flags);
    if (record->numbered)
        end = put_signed(put_next(end, record->epoch), (int64_t)record->sequence);
    else
        end = put_null(put_null(end));
    end = record->stamp != 0 ? put_signed(end, bits(record->stamp)) : put_null(end);
    if (record->producer || record->flags & (WIRE_LABEL | WIRE_WORDS))
        end = put_signed(end, (int64_t)record->producer);
    if (record->flags & WIRE_LABEL)
        end = put_signed(put_next(end, record->label.epoch), (int64_t)record->label.sequence);
    else if (record->flags & WIRE_WORDS)
        end = put_null(put_null(end));
    return record->flags & WIRE_WORDS ? put_next(end, record->words_size) : end;
}

/* Times before 1970 do not occur. */
static uint64_t microseconds(double time) {
    return time > 0 ? (uint64_t)llround(time * MICROSECONDS) : 0;
}

/* Writes the list of one entry whose bytes begin at `at`. Returns its end. */
static char *put_entry(char *end, const struct journal_record *record, size_t at) {
    *end++ = '[';
    end = put_number(end, microseconds(record->time));
    end = put_next(put_next(end, record->kind), at);
    end = put_next(put_next(end, record->key_size), record->x_size);
    if (record->kind == JOURNAL_EXAMPLE)
        end = put_example(end, record);
    *end++ = ']';
    return end;
}

void journal_packer_begin(struct journal_packer *packer) {
    packer->block = (struct journal_block){.about = packer->about, .data = packer->data};
}

bool journal_packer_add(struct journal_packer *packer, const struct journal_record *record) {
    struct journal_block *block = &packer->block;
    size_t size = journal_record_bytes(record);
    char *begin = packer->about + block->about_size, *end = begin;
    size_t used = block->about_size + block->data_size;
    if (block->count &&
        (used + size > JOURNAL_BLOCK_BYTES || block->count == JOURNAL_BLOCK_ENTRIES))
        return false;
    *end++ = block->count ? ',' : '[';
    end = put_entry(end, record, block->data_size);
    bool fits = used + size + (size_t)(end - begin) < JOURNAL_BLOCK_BYTES;
    if (block->count && !fits)
        return false;
    if (fits) {
        char *bytes = packer->data + block->data_size;
        memcpy(bytes, record->key, record->key_size);
        memcpy(bytes + record->key_size, record->x, record->x_size);
        if (record->y)
            memcpy(bytes + record->key_size + record->x_size, record->y, record->y_size);
        if (record->words_size)
            memcpy(bytes + size - record->words_size, record->words, record->words_size);
    } else {
        block->data = record->key;
    }
    block->about_size += (size_t)(end - begin);
    block->data_size += size;
    block->last = record->position;
    block->count++;
    block->kinds |= 1u << record->kind;
    return true;
}

const struct journal_block *journal_packer_end(struct journal_packer *packer) {
    packer->about[packer->block.about_size++] = ']';
    return &packer->block;
}

/* ---- Unpacking ---- */

void journal_unpacker_begin(struct journal_unpacker *unpacker, const struct journal_block *block) {
    *unpacker = (struct journal_unpacker){.block = *block, .next = block->about};
    if (!block->data_size)
        unpacker->block.data = ""; /* SQLite returns NULL for an empty blob */
}

struct field {
    int64_t number;
    bool present; /* not null */
};

static bool skip_text(struct journal_unpacker *unpacker, const char *text, size_t size) {
    const char *end = unpacker->block.about + unpacker->block.about_size;
    if ((size_t)(end - unpacker->next) < size || memcmp(unpacker->next, text, size) != 0)
        return false;
    unpacker->next += size;
    return true;
}

static bool read_field(struct journal_unpacker *unpacker, struct field *field) {
    enum { DIGITS_MAX = 19 }; /* digits of an int64 */
    const char *end = unpacker->block.about + unpacker->block.about_size;
    *field = (struct field){.present = !skip_text(unpacker, "null", 4)};
    if (!field->present)
        return true;
    bool negative = skip_text(unpacker, "-", 1);
    const char *first = unpacker->next;
    uint64_t number = 0;
    for (; unpacker->next < end && *unpacker->next >= '0' && *unpacker->next <= '9';
         unpacker->next++)
        number = 10 * number + (uint64_t)(*unpacker->next - '0');
    if (unpacker->next == first || unpacker->next - first > DIGITS_MAX ||
        number > (uint64_t)INT64_MAX + negative)
        return false;
    field->number = (int64_t)(negative ? -number : number);
    return true;
}

/* Reads the fields of one list; missing ones become null. */
static bool read_fields(struct journal_unpacker *unpacker, struct field fields[FIELDS]) {
    memset(fields, 0, FIELDS * sizeof *fields);
    if (!skip_text(unpacker, unpacker->done ? ",[" : "[[", 2))
        return false;
    for (int n = 0; n < FIELDS; n++) {
        if (n == COMMAND_FIELDS && fields[KIND].number != JOURNAL_EXAMPLE)
            break;
        if ((n == PRODUCER || n == OF_EPOCH || n == WORDS) && skip_text(unpacker, "]", 1))
            return true;
        if ((n > 0 && !skip_text(unpacker, ",", 1)) || !read_field(unpacker, &fields[n]))
            return false;
    }
    return skip_text(unpacker, "]", 1);
}

/* Takes the next bytes of the block; NULL: the block is too short. */
static const char *cut(struct journal_unpacker *unpacker, const struct field *size) {
    const char *bytes = (const char *)unpacker->block.data + unpacker->used;
    if (size->number < 0 || (uint64_t)size->number > unpacker->block.data_size - unpacker->used)
        return NULL;
    unpacker->used += (size_t)size->number;
    return bytes;
}

static bool are_present(const struct field fields[FIELDS], int first, int last) {
    for (int n = first; n <= last; n++)
        if (!fields[n].present)
            return false;
    return true;
}

static bool read_example(const struct field fields[FIELDS], struct journal_record *record) {
    bool label = fields[FLAGS].number & WIRE_LABEL;
    record->numbered = fields[SEQUENCE].present;
    if (!are_present(fields, STEPS, FLAGS) || fields[EPOCH].present != record->numbered ||
        fields[STEPS].number < 0 || fields[FLAGS].number < 0 || fields[FLAGS].number > UINT8_MAX ||
        fields[EPOCH].number < 0 || fields[EPOCH].number > UINT32_MAX ||
        (fields[PRODUCER].number && !record->numbered && !label))
        return false;
    if (fields[OF].present != label || (label && record->x_size > 0) ||
        fields[OF_EPOCH].number < 0 || fields[OF_EPOCH].number > UINT32_MAX ||
        fields[WORDS].present != ((fields[FLAGS].number & WIRE_WORDS) != 0))
        return false;
    record->label =
        (struct wire_label){(uint32_t)fields[OF_EPOCH].number, (uint64_t)fields[OF].number};
    record->steps = (size_t)fields[STEPS].number;
    record->flags = (uint8_t)fields[FLAGS].number;
    record->epoch = (uint32_t)fields[EPOCH].number;
    record->sequence = (uint64_t)fields[SEQUENCE].number;
    record->producer = (uint64_t)fields[PRODUCER].number;
    memcpy(&record->stamp, &fields[STAMP].number, sizeof record->stamp);
    return record->key_size <= WIRE_KEY_MAX;
}

static bool read_entry(struct journal_unpacker *unpacker, const struct field fields[FIELDS],
                       struct journal_record *record) {
    *record = (struct journal_record){
        .position = unpacker->block.last - unpacker->block.count + 1 + unpacker->done,
        .time = (double)fields[TIME].number / MICROSECONDS,
        .kind = (uint8_t)fields[KIND].number,
        .key_size = (size_t)fields[KEY].number,
        .x_size = (size_t)fields[X].number,
        .y_size = (size_t)fields[Y].number,
        .words_size = (size_t)fields[WORDS].number,
    };
    if (!are_present(fields, TIME, X) || fields[AT].number < 0 ||
        (uint64_t)fields[AT].number != unpacker->used ||
        !(record->key = cut(unpacker, &fields[KEY])) || !(record->x = cut(unpacker, &fields[X])) ||
        (fields[Y].present && !(record->y = cut(unpacker, &fields[Y]))) ||
        (fields[WORDS].present && !(record->words = cut(unpacker, &fields[WORDS]))))
        return false;
    if (fields[KIND].number > JOURNAL_EXAMPLE && fields[KIND].number < JOURNAL_KINDS)
        return record->x_size > 0 && !((const char *)record->x)[record->x_size - 1];
    return fields[KIND].number == JOURNAL_EXAMPLE && read_example(fields, record);
}

int journal_unpacker_next(struct journal_unpacker *unpacker, struct journal_record *record) {
    struct field fields[FIELDS];
    const struct journal_block *block = &unpacker->block;
    if (unpacker->done == block->count)
        return skip_text(unpacker, "]", 1) && unpacker->next == block->about + block->about_size &&
                       unpacker->used == block->data_size &&
                       (!block->kinds || unpacker->kinds == block->kinds)
                   ? 0
                   : -1;
    if (!read_fields(unpacker, fields) || !read_entry(unpacker, fields, record))
        return -1;
    unpacker->done++;
    unpacker->kinds |= 1u << record->kind;
    return 1;
}
