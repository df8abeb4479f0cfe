#include "checkpoint_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "build-config.h"
#include "common/finite.h"
#include "common/hash.h"
#include "common/streams.h"
#include "common/text.h"
#include "common/wire.h"
#include "learner/learner_state.h"
#include "parts/anomalies.h"
#include "parts/part.h"
#include "parts/words.h"

#define FORMAT "runnel-checkpoint-4"
#define FORMAT_BEFORE "runnel-checkpoint-3" /* the same, without entries added since */
#define MEMORY "anomaly_memory"             /* metadata: contexts in a memory */
#define SHARE "anomaly_share"               /* metadata: a hash of anomaly.share */

enum {
    DESCRIPTION_SIZE = 2048, /* bytes of a configuration's description */
    DESCRIPTION_SHOWN = 350, /* part of it in an error */
    KEY = 1 + WIRE_KEY_MAX,  /* a row of streams.keys: size, key, zeros */
    /* A row of learner.words: vocabulary and place in the order of use (uint32), number of words
       that had appeared (uint64), size, word, zeros. */
    WORD_PLACE = 4,
    WORD_APPEARED = 8,
    WORD_LENGTH = 16,
    WORD_BYTES = 17,
    WORD = WORD_BYTES + WIRE_WORD_MAX,
};

/* ---- Entries ---- */

/* Adds an entry, with the prefix of a member if it has a name. NULL: out of memory. */
static struct safetensors_entry *add(struct checkpoint_layout *layout, const char *member,
                                     const char *name, const struct checkpoint_entry *of) {
    assert(layout->count < layout->capacity);
    struct checkpoint_entry *entry = &layout->of[layout->count];
    struct safetensors_entry *tensor = &layout->entries[layout->count++];
    *entry = *of;
    parameters_name(member ? member : "", name, entry->name);
    tensor->name = entry->name;
    return tensor;
}

static void add_plain(struct checkpoint_layout *layout, enum checkpoint_kind kind, const char *name,
                      enum safetensors_type type, uint64_t rows, uint64_t width) {
    const struct checkpoint_entry of = {.kind = kind};
    struct safetensors_entry *entry = add(layout, NULL, name, &of);
    entry->type = type;
    entry->rank = width ? 2 : 1;
    entry->shape[0] = rows;
    entry->shape[1] = width;
}

/* Whether the entry has the starting values for `pull`. */
static bool is_start(const struct checkpoint_layout *layout, const struct checkpoint_entry *of) {
    return of->kind == ENTRY_TENSOR && of->block &&
           of->block - 1 == learner_start_moment(layout->learner, of->member);
}

/* Adds parameters by their own names, then optimizer.moment_1.NAME and so on, and start.NAME. */
static void add_tensors(struct checkpoint_layout *layout, size_t member) {
    const struct learner *learner = layout->learner;
    const struct model *model = learner_member_model(learner, member);
    struct safetensors_entry entries[MODEL_TENSORS_MAX];
    char name[CHECKPOINT_NAME_SIZE];
    parameters_entries(model, entries);
    for (size_t block = 0; block <= learner_moments(learner, member); block++)
        for (size_t n = 0; n < (block ? model->learned_count : model->tensor_count); n++) {
            const struct checkpoint_entry of = {
                .kind = ENTRY_TENSOR, .member = member, .block = block, .tensor = n};
            if (block == 0)
                snprintf(name, sizeof name, "%s", entries[n].name);
            else if (is_start(layout, &of))
                snprintf(name, sizeof name, "start.%s", entries[n].name);
            else
                snprintf(name, sizeof name, "optimizer.moment_%zu.%s", block, entries[n].name);
            struct safetensors_entry *entry =
                add(layout, learner_member_name(learner, member), name, &of);
            const char *own = entry->name;
            *entry = entries[n];
            entry->name = own;
        }
}

/* ---- Slots with rows of an entry ---- */

struct slots {
    const struct learner *learner;
    uint32_t next;        /* next slot of the streams, least recently used first */
    size_t shared, count; /* then the shared slots */
};

static struct slots slots_of(const struct learner *learner, const struct state_row *row) {
    const struct streams *streams = learner_streams_table(learner);
    return (struct slots){learner,
                          row->flags & STATE_ALONE ? STREAMS_NONE : streams_oldest(streams), 0,
                          row->flags & STATE_SHARED ? anomalies_shared(learner_host(learner)) : 0};
}

static bool next_slot(struct slots *slots, uint32_t *slot) {
    *slot = slots->next;
    if (*slot != STREAMS_NONE) {
        slots->next = streams_newer(learner_streams_table(slots->learner), *slot);
        return true;
    }
    if (slots->shared == slots->count)
        return false;
    *slot = learner_shared_slot(slots->learner, slots->shared++);
    return true;
}

static uint64_t count_used(const struct learner *learner, struct state_place place) {
    const struct state_row *row = place.row;
    struct slots slots = slots_of(learner, row);
    uint64_t count = 0;
    while (next_slot(&slots, &place.slot))
        for (size_t n = 0; row->at(&place, n); n++)
            count += row->used(&place, n);
    return count;
}

static void add_kept(struct checkpoint_layout *layout, struct state_place place, size_t member) {
    struct learner *learner = layout->learner;
    const struct state_row *row = place.row;
    const struct checkpoint_entry of = {
        .kind = ENTRY_KEPT, .row = row, .self = place.self, .member = member};
    place.member = member;
    size_t size = state_row_size(&place);
    if (!size)
        return;
    struct safetensors_entry *entry =
        add(layout, row->flags & STATE_MEMBERS ? learner_member_name(learner, member) : NULL,
            row->name, &of);
    bool once = row->flags & STATE_ONCE;
    entry->type = row->type;
    entry->rank = once && !row->width ? 1 : 2;
    entry->shape[0] = once                       ? size
                      : row->used                ? count_used(learner, place)
                      : row->flags & STATE_ALONE ? anomalies_shared(learner_host(learner))
                                                 : layout->streams;
    entry->shape[1] = once ? row->width : size;
}

static uint64_t count_words(const struct learner *learner) {
    uint64_t count = 0;
    for (size_t n = 0; n < words_lexicons(learner_host(learner)); n++)
        count += words_lexicon(learner_host(learner), n).size;
    return count;
}

static void add_all(struct checkpoint_layout *layout, const struct state_place *rows,
                    size_t count) {
    struct learner *learner = layout->learner;
    size_t members = learner_members(learner);
    bool streams = false;
    for (size_t m = 0; m < members; m++)
        add_tensors(layout, m);
    for (size_t n = 0; n < count; n++) {
        const struct state_row *row = rows[n].row;
        if (!streams && !(row->flags & STATE_ONCE)) {
            if (words_lexicons(learner_host(learner)))
                add_plain(layout, ENTRY_WORDS, "learner.words", SAFETENSORS_U8,
                          count_words(learner), WORD);
            add_plain(layout, ENTRY_KEYS, "streams.keys", SAFETENSORS_U8, layout->streams, KEY);
            streams = true;
        }
        if (!(row->flags & STATE_MEMBERS) || (row->flags & STATE_ALWAYS && !members))
            add_kept(layout, rows[n], 0);
        else
            for (size_t m = 0; m < members; m++)
                add_kept(layout, rows[n], m);
    }
    add_plain(layout, ENTRY_CHECKSUM, "checksum", SAFETENSORS_I64, 1, 0);
}

bool checkpoint_is_row(const struct checkpoint_entry *of) {
    return of->kind == ENTRY_KEPT && !(of->row->flags & (STATE_ONCE | STATE_ALONE));
}

bool checkpoint_is_watched(const struct checkpoint_entry *of) {
    return of->kind == ENTRY_KEPT && of->row->flags & STATE_WATCH && !(of->row->flags & STATE_ONCE);
}

size_t checkpoint_row_size(const struct safetensors_entry *entry) {
    struct safetensors_entry one = *entry;
    uint64_t size = 0;
    one.shape[0] = 1;
    safetensors_measure(&one, &size);
    return (size_t)size;
}

/* Returns the size of the largest read or write of an entry. */
static size_t piece_size(const struct safetensors_entry *entry, const struct checkpoint_entry *of) {
    uint64_t size = 0;
    if (of->kind == ENTRY_TENSOR || (of->kind == ENTRY_KEPT && of->row->flags & STATE_ONCE))
        safetensors_measure(entry, &size);
    return size ? (size_t)size : checkpoint_row_size(entry);
}

int checkpoint_layout_open(struct checkpoint_layout *layout, struct learner *learner,
                           size_t streams, struct error *error) {
    size_t count = learner_rows(learner, NULL), most = 0, members = learner_members(learner);
    struct state_place *rows = calloc(count, sizeof *rows);
    *layout = (struct checkpoint_layout){.learner = learner, .streams = streams};
    layout->capacity = count * (members + 1) + ENTRY_CHECKSUM;
    for (size_t m = 0; m < members; m++)
        layout->capacity +=
            (1 + learner_moments(learner, m)) * learner_member_model(learner, m)->tensor_count;
    layout->entries = calloc(layout->capacity, sizeof *layout->entries);
    layout->of = calloc(layout->capacity, sizeof *layout->of);
    if (rows && layout->entries && layout->of) {
        learner_rows(learner, rows);
        add_all(layout, rows, count);
        for (size_t n = 0; n < layout->count; n++) {
            size_t size = piece_size(&layout->entries[n], &layout->of[n]);
            most = size > most ? size : most;
        }
        layout->buffer = malloc(most);
    }
    free(rows);
    if (layout->buffer)
        return 0;
    return error_set(error, EX_UNAVAILABLE, "out of memory for the entries of a checkpoint");
}

void checkpoint_layout_close(struct checkpoint_layout *layout) {
    free(layout->entries);
    free(layout->of);
    free(layout->buffer);
    *layout = (struct checkpoint_layout){0};
}

static enum engine_block block_of(const struct checkpoint_entry *of) {
    return of->block == 0 ? ENGINE_PARAMETERS : (enum engine_block)(ENGINE_MOMENTS + of->block - 1);
}

/* Files contain the hash of prefixes as arrays of this size. */
void checkpoint_share(const struct config *config, char text[CHECKPOINT_SHARE_SIZE]) {
    enum { SHARE_HASHED = 64 };
    const struct share_config *share = &config->anomaly.share;
    uint64_t hash = HASH_BEGIN;
    for (size_t n = 0; n < share->count; n++) {
        size_t size = strlen(share->prefixes[n]);
        hash = hash_bytes(hash, share->prefixes[n], size < SHARE_HASHED ? SHARE_HASHED : size);
    }
    snprintf(text, CHECKPOINT_SHARE_SIZE, "%016" PRIx64, hash);
}

/* Describes network and learning in one line. */
static void describe(const struct config *config, char text[DESCRIPTION_SIZE]) {
    enum { REACH_SIZE = 32 };
    char summary[MODEL_SUMMARY_SIZE], reach[REACH_SIZE];
    const struct rule_kind *rule = rule_kind(config->learning.rule);
    model_summary(&config->architecture, summary);
    if (rule->keeps == KEEPS_NOTHING)
        snprintf(reach, sizeof reach, "window %zu", config->learning.window);
    else
        snprintf(reach, sizeof reach, "%s", rule->name);
    snprintf(text, DESCRIPTION_SIZE, "%s%s, %s, stride %zu, %s, max_streams %zu, seed %" PRIu64,
             summary, config->architecture.input.hold ? ", missing: hold" : "", reach,
             config->learning.stride, optimizer_kind(config->learning.optimizer.kind)->name,
             config->learning.max_streams, config->seed);
}

/* ---- Writing ---- */

/* A file with a running checksum. */
struct summed_file {
    struct safetensors_file file;
    uint64_t end; /* start of the checksum */
    uint64_t written;
    uint32_t checksum;
};

static int summed_sink(void *context, const void *bytes, size_t size, struct error *error) {
    struct summed_file *summed = context;
    uint64_t left = summed->end - summed->written;
    summed->checksum = libdeflate_crc32(summed->checksum, bytes, size < left ? size : left);
    summed->written += size < left ? size : left;
    return safetensors_to_file(&summed->file, bytes, size, error);
}

/* Overwrites the zeros in its place. */
static int write_checksum(const struct summed_file *summed, struct error *error) {
    const int64_t checksum = (int64_t)summed->checksum;
    ssize_t written =
        pwrite(summed->file.descriptor, &checksum, sizeof checksum, (off_t)summed->end);
    if (written == (ssize_t)sizeof checksum)
        return 0;
    return error_set(error, EX_IOERR, "%s cannot be written: %s", summed->file.path,
                     written < 0 ? strerror(errno) : "the disk is full");
}

static int writer_sink(void *context, const void *bytes, size_t size, struct error *error) {
    return safetensors_put(context, bytes, size, error);
}

/* Writes the words of one vocabulary, by ids. */
static int put_lexicon(const struct learner *learner, uint32_t n, struct safetensors_writer *writer,
                       struct error *error) {
    const struct learner_lexicon lexicon = words_lexicon(learner_host(learner), n);
    uint32_t *places = calloc(lexicon.size + 1, sizeof *places), place = 0;
    int status = places ? 0 : error_no_memory(error);
    for (uint32_t id = streams_oldest(lexicon.words); places && id != STREAMS_NONE;
         id = streams_newer(lexicon.words, id))
        places[id] = place++;
    for (uint32_t id = 0; id < lexicon.size && status == 0; id++) {
        unsigned char row[WORD] = {0};
        size_t size;
        const char *word = streams_key(lexicon.words, id, &size);
        memcpy(row, &n, sizeof n);
        memcpy(row + WORD_PLACE, &places[id], sizeof *places);
        memcpy(row + WORD_APPEARED, &lexicon.appeared[id], sizeof *lexicon.appeared);
        row[WORD_LENGTH] = (unsigned char)size;
        memcpy(row + WORD_BYTES, word, size);
        status = safetensors_put(writer, row, sizeof row, error);
    }
    free(places);
    return status;
}

static int put_keys(const struct learner *learner, struct safetensors_writer *writer,
                    struct error *error) {
    const struct streams *streams = learner_streams_table(learner);
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot)) {
        unsigned char row[KEY] = {0};
        size_t size;
        const char *key = streams_key(streams, slot, &size);
        row[0] = (unsigned char)size;
        memcpy(row + 1, key, size);
        if (safetensors_put(writer, row, sizeof row, error))
            return -1;
    }
    return 0;
}

/* Writes the numbers of a place: all rows of STATE_ONCE, otherwise those of a slot. */
static int put_place(const struct checkpoint_layout *layout, size_t entry,
                     const struct state_place *place, safetensors_sink *sink, void *context,
                     struct error *error) {
    const struct state_row *row = place->row;
    size_t size = piece_size(&layout->entries[entry], &layout->of[entry]);
    if (row->read)
        return row->read(place, layout->buffer, error) || sink(context, layout->buffer, size, error)
                   ? -1
                   : 0;
    const void *at;
    for (size_t n = 0; (at = row->at(place, n)); n++) {
        if (sink(context, at, size * (row->used ? row->used(place, n) : 1), error))
            return -1;
        if (!row->used)
            break;
    }
    return 0;
}

int checkpoint_put_row(const struct checkpoint_layout *layout, size_t entry, uint32_t slot,
                       safetensors_sink *sink, void *context, struct error *error) {
    const struct checkpoint_entry *of = &layout->of[entry];
    const struct state_place place = {of->self, of->row, of->member, slot};
    return put_place(layout, entry, &place, sink, context, error);
}

static int put_kept(const struct checkpoint_layout *layout, size_t n,
                    struct safetensors_writer *writer, struct error *error) {
    const struct checkpoint_entry *of = &layout->of[n];
    struct slots slots = slots_of(layout->learner, of->row);
    uint32_t slot = 0;
    if (of->row->flags & STATE_ONCE)
        return checkpoint_put_row(layout, n, slot, writer_sink, writer, error);
    while (next_slot(&slots, &slot))
        if (checkpoint_put_row(layout, n, slot, writer_sink, writer, error))
            return -1;
    return 0;
}

static int put_entry(const struct checkpoint_layout *layout, size_t n,
                     struct safetensors_writer *writer, struct error *error) {
    static const char no_checksum[CHECKPOINT_CHECKSUM_SIZE];
    const struct checkpoint_entry *of = &layout->of[n];
    struct learner *learner = layout->learner;
    switch (of->kind) {
    case ENTRY_TENSOR:
        return learner_read(learner, of->member, block_of(of), of->tensor, layout->buffer, error) ||
                       safetensors_put(writer, layout->buffer, layout->entries[n].size, error)
                   ? -1
                   : 0;
    case ENTRY_KEPT:
        return put_kept(layout, n, writer, error);
    case ENTRY_WORDS:
        for (uint32_t k = 0; k < words_lexicons(learner_host(learner)); k++)
            if (put_lexicon(learner, k, writer, error))
                return -1;
        return 0;
    case ENTRY_KEYS:
        return put_keys(learner, writer, error);
    default:
        return safetensors_put(writer, no_checksum, sizeof no_checksum, error);
    }
}

static int start(const struct checkpoint_layout *layout, struct safetensors_writer **writer,
                 const struct config *config, double time, struct summed_file *summed,
                 struct error *error) {
    enum { NUMBER_SIZE = 40 };
    char description[DESCRIPTION_SIZE], examples[NUMBER_SIZE], when[NUMBER_SIZE],
        memory[NUMBER_SIZE], share[CHECKPOINT_SHARE_SIZE];
    describe(config, description);
    snprintf(examples, sizeof examples, "%" PRIu64, learner_counters(layout->learner).examples);
    snprintf(when, sizeof when, "%.6f", time);
    snprintf(memory, sizeof memory, "%zu", config->anomaly.memory);
    checkpoint_share(config, share);
    const struct safetensors_text metadata[] = {
        {"format", FORMAT},
        {"version", PACKAGE_VERSION},
        {"name", config->name},
        {"digest", config->compatible},
        {"lasting", config->lasting},
        {"optimizer", config->optimizer},
        {"description", description},
        {"device", learner_device(layout->learner)},
        {"examples", examples},
        {"time", when},
        {MEMORY, memory},
        {SHARE, share}, /* only if streams share memories */
    };
    bool shares = anomalies_shared(learner_host(layout->learner)) > 0;
    return safetensors_start(writer, layout->entries, layout->count, metadata,
                             sizeof metadata / sizeof *metadata - !shares, summed_sink, summed,
                             error);
}

static int write_entries(const struct checkpoint_layout *layout, const struct config *config,
                         double time, struct summed_file *summed, struct error *error) {
    struct safetensors_writer *writer;
    if (start(layout, &writer, config, time, summed, error))
        return -1;
    summed->end = safetensors_file_size(writer) - CHECKPOINT_CHECKSUM_SIZE;
    for (size_t n = 0; n < layout->count; n++)
        if (put_entry(layout, n, writer, error)) {
            safetensors_abandon(&writer);
            return -1;
        }
    return safetensors_finish(&writer, error) || write_checksum(summed, error) ? -1 : 0;
}

int checkpoint_write(int descriptor, const char *path, const struct config *config,
                     struct learner *learner, double time, uint64_t *bytes, struct error *error) {
    struct summed_file summed = {.file = {descriptor, path}, .end = UINT64_MAX};
    struct checkpoint_layout layout;
    int status = checkpoint_layout_open(&layout, learner, learner_streams(learner), error);
    if (status == 0) {
        status = write_entries(&layout, config, time, &summed, error);
        *bytes = summed.end + CHECKPOINT_CHECKSUM_SIZE;
    }
    checkpoint_layout_close(&layout);
    return status;
}

/* ---- Checking a file ---- */

static int read_bytes(int descriptor, const char *path, void *bytes, size_t size,
                      struct error *error) {
    for (size_t done = 0; done < size;) {
        ssize_t count = read(descriptor, (char *)bytes + done, size - done);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return error_set(error, EX_IOERR, "%s cannot be read: %s", path,
                             count < 0 ? strerror(errno) : "it is truncated");
        done += (size_t)count;
    }
    return 0;
}

static int sum_file(int descriptor, const char *path, uint64_t size, struct error *error) {
    enum { PIECE_SIZE = 1 << 16 };
    unsigned char piece[PIECE_SIZE];
    uint32_t sum = 0;
    for (uint64_t left = size - CHECKPOINT_CHECKSUM_SIZE; left;) {
        size_t part = left < PIECE_SIZE ? (size_t)left : PIECE_SIZE;
        if (read_bytes(descriptor, path, piece, part, error))
            return -1;
        sum = libdeflate_crc32(sum, piece, part);
        left -= part;
    }
    int64_t kept;
    if (read_bytes(descriptor, path, &kept, sizeof kept, error))
        return -1;
    if (kept == (int64_t)sum)
        return 0;
    return error_set(error, EX_IOERR, "%s is damaged: checksum mismatch", path);
}

static int check_sum(const struct safetensors *file, const char *path, uint64_t *bytes,
                     struct error *error) {
    const struct safetensors_entry *checksum = safetensors_find(file, "checksum");
    const struct safetensors_entry *last = safetensors_at(file, safetensors_count(file) - 1);
    if (checksum != last || checksum->size != CHECKPOINT_CHECKSUM_SIZE)
        return error_set(error, EX_IOERR, "%s is damaged: missing checksum", path);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = descriptor < 0 ? -1 : lseek(descriptor, 0, SEEK_END);
    int status;
    if (size < 0 || lseek(descriptor, 0, SEEK_SET) != 0)
        status = error_set(error, EX_IOERR, "%s cannot be read: %s", path, strerror(errno));
    else if (size < CHECKPOINT_CHECKSUM_SIZE)
        status = error_set(error, EX_IOERR, "%s is damaged: it is truncated", path);
    else
        status = sum_file(descriptor, path, (uint64_t)size, error);
    if (descriptor >= 0)
        close(descriptor);
    *bytes = (uint64_t)size;
    return status;
}

/* The checksum is the last entry in every format. Fills in `report` without its warnings. */
static int verify(const struct safetensors *file, const char *path,
                  struct checkpoint_report *report, struct error *error) {
    const char *format = safetensors_metadata(file, "format");
    const char *examples = safetensors_metadata(file, "examples");
    const char *time = safetensors_metadata(file, "time");
    if (!format || !safetensors_count(file) || !examples || !time)
        return error_set(error, EX_IOERR, "%s is a safetensors file, but not a checkpoint", path);
    if (check_sum(file, path, &report->bytes, error))
        return -1;
    report->examples = strtoull(examples, NULL, 10);
    report->time = strtod(time, NULL);
    return 0;
}

void checkpoint_warn(struct checkpoint_report *report, const char *format, ...) {
    size_t used = strlen(report->warning);
    char *end = report->warning + used;
    size_t room = sizeof report->warning - used;
    va_list arguments;
    if (used && room > sizeof "; ") {
        memcpy(end, "; ", sizeof "; ");
        end += 2;
        room -= 2;
    }
    va_start(arguments, format);
    vsnprintf(end, room, format, arguments);
    va_end(arguments);
    text_clean(end);
}

/* ---- Reading ---- */

static int damaged(const struct checkpoint_source *source, const char *what, struct error *error) {
    return error_set(error, EX_IOERR, "%s is damaged: %s", source->path, what);
}

static int invalid(const struct checkpoint_source *source, const char *name, struct error *error) {
    return error_set(error, EX_IOERR, "%s is damaged: invalid numbers in %s", source->path, name);
}

/* Reads bytes of an entry, starting at byte `first`. */
static int fetch(const struct checkpoint_source *source, const struct safetensors_entry *entry,
                 uint64_t first, void *bytes, size_t size, struct error *error) {
    if (source->file)
        return safetensors_read(source->file, entry, first, bytes, size, error);
    if (first > entry->size || size > entry->size - first)
        return error_set(error, EX_IOERR, "%s is damaged: %s is too short", source->path,
                         entry->name);
    if (size)
        memcpy(bytes, source->blob + entry->begin + first, size);
    return 0;
}

/* Reads in place. `index` is the number of the row, unless a count precedes its numbers. */
static int fill_pieces(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                       size_t n, const struct state_place *place, uint64_t index,
                       struct error *error) {
    const struct safetensors_entry *entry = &layout->entries[n];
    struct checkpoint_entry *of = &layout->of[n];
    const struct state_row *row = place->row;
    size_t size = piece_size(entry, of);
    void *at;
    for (size_t piece = 0; (at = row->at(place, piece)); piece++) {
        size_t count = row->used ? row->used(place, piece) : 1;
        if (row->used && count > entry->shape[0] - of->used)
            return error_set(error, EX_IOERR, "%s is damaged: %s has too few rows", source->path,
                             of->name);
        if (fetch(source, entry, (row->used ? of->used : index) * size, at, count * size, error))
            return -1;
        if (!row->used)
            break;
        of->used += count;
    }
    return row->filled ? row->filled(place) : 0;
}

/* Reads the part of a row that continues when windows start from scratch. */
static int fetch_lasting(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                         size_t n, const struct state_place *place, uint64_t index,
                         struct error *error) {
    const struct safetensors_entry *entry = &layout->entries[n];
    size_t file_row = checkpoint_row_size(entry), number = file_row / entry->shape[1];
    size_t size = place->row->lasting(place) * number;
    memset(layout->buffer, 0, state_row_size(place) * number);
    if (size > file_row)
        return invalid(source, entry->name, error);
    return fetch(source, entry, index * file_row, layout->buffer, size, error);
}

static int fill(struct checkpoint_layout *layout, const struct checkpoint_source *source, size_t n,
                uint64_t index, uint32_t slot, struct error *error) {
    const struct safetensors_entry *entry = &layout->entries[n];
    const struct checkpoint_entry *of = &layout->of[n];
    const struct state_place place = {of->self, of->row, of->member, slot};
    size_t size = piece_size(entry, of);
    int status;
    if (of->lacked) {
        if (of->row->lacked)
            of->row->lacked(&place);
        return 0;
    }
    if (of->row->at)
        status = fill_pieces(layout, source, n, &place, index, error);
    else if (layout->begins && of->row->lasting
                 ? fetch_lasting(layout, source, n, &place, index, error)
                 : fetch(source, entry, index * size, layout->buffer, size, error))
        return -1;
    else
        status = of->row->write(&place, layout->buffer, error);
    return status > 0 ? invalid(source, of->name, error) : status;
}

static int check_filled(const struct checkpoint_layout *layout,
                        const struct checkpoint_source *source, uint32_t slot,
                        struct error *error) {
    const char *name = learner_slot_filled(layout->learner, slot);
    return name ? invalid(source, name, error) : 0;
}

int checkpoint_fill_slot(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                         size_t row, uint32_t slot, struct error *error) {
    for (size_t n = 0; n < layout->count; n++)
        if (checkpoint_is_row(&layout->of[n]) && fill(layout, source, n, row, slot, error))
            return -1;
    return check_filled(layout, source, slot, error);
}

int checkpoint_check_used(const struct checkpoint_layout *layout,
                          const struct checkpoint_source *source, struct error *error) {
    for (size_t n = 0; n < layout->count; n++) {
        const struct checkpoint_entry *of = &layout->of[n];
        if (of->kind == ENTRY_KEPT && of->row->used && !of->lacked &&
            of->used != layout->entries[n].shape[0])
            return error_set(error, EX_IOERR, "%s is damaged: %s has too many rows", source->path,
                             of->name);
    }
    return 0;
}

static int read_tensor(const struct checkpoint_layout *layout,
                       const struct checkpoint_source *source, size_t n, struct error *error) {
    const struct safetensors_entry *entry = &layout->entries[n];
    const struct checkpoint_entry *of = &layout->of[n];
    if (fetch(source, entry, 0, layout->buffer, entry->size, error))
        return -1;
    if (of->block == 0 && !finite_floats(layout->buffer, entry->size / sizeof(float)))
        return error_set(error, EX_IOERR, "%s has numbers that are not finite in tensor %s",
                         source->path, entry->name);
    return learner_write(layout->learner, of->member, block_of(of), of->tensor, layout->buffer,
                         error);
}

enum { NOT_A_WORD = -2 };

/* Reads row `at` into a vocabulary, and stores its place in the order of use in `places`, from the
   vocabulary's first row on. */
static int read_word(struct learner *learner, const unsigned char *row, size_t at,
                     uint32_t *lexicon, size_t *first, uint32_t *places, size_t count) {
    uint32_t n, place;
    uint64_t appeared;
    memcpy(&n, row, sizeof n);
    memcpy(&place, row + WORD_PLACE, sizeof place);
    memcpy(&appeared, row + WORD_APPEARED, sizeof appeared);
    if (n < *lexicon || !wire_is_utf8(row + WORD_BYTES, row[WORD_LENGTH]))
        return NOT_A_WORD;
    if (n > *lexicon)
        *first = at;
    *lexicon = n;
    if (place >= count - *first || places[*first + place] ||
        words_add(learner_host(learner), n, (const char *)row + WORD_BYTES, row[WORD_LENGTH],
                  appeared))
        return NOT_A_WORD;
    places[*first + place] = (uint32_t)(at - *first) + 1;
    return 0;
}

/* Reads the words by ids, then restores their order of use. */
static int read_lexicons(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                         const struct safetensors_entry *entry, uint32_t *places,
                         struct error *error) {
    struct learner *learner = layout->learner;
    uint32_t lexicon = 0;
    size_t first = 0, count = entry->shape[0];
    for (size_t at = 0; at < count; at++) {
        unsigned char row[WORD];
        if (fetch(source, entry, at * sizeof row, row, sizeof row, error))
            return -1;
        if (read_word(learner, row, at, &lexicon, &first, places, count))
            return invalid(source, entry->name, error);
    }
    for (size_t n = 0, at = 0; n < words_lexicons(learner_host(learner)); n++) {
        size_t size = words_lexicon(learner_host(learner), n).size;
        for (size_t k = 0; k < size; k++, at++)
            if (!places[at] || words_use(learner_host(learner), n, places[at] - 1))
                return invalid(source, entry->name, error);
    }
    words_written(learner_host(learner));
    return 0;
}

static int read_words(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                      size_t n, struct error *error) {
    const struct safetensors_entry *entry = &layout->entries[n];
    uint32_t *places = calloc(entry->shape[0] + 1, sizeof *places);
    int status =
        places ? read_lexicons(layout, source, entry, places, error) : error_no_memory(error);
    free(places);
    return status;
}

static int read_stream(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                       size_t keys, size_t row, struct error *error) {
    struct learner *learner = layout->learner;
    unsigned char key[KEY];
    const char *name = (const char *)key + 1;
    if (fetch(source, &layout->entries[keys], row * sizeof key, key, sizeof key, error))
        return -1;
    if (!wire_is_utf8(name, key[0]) ||
        streams_find(learner_streams_table(learner), name, key[0]) != STREAMS_NONE)
        return damaged(source, "invalid or duplicate key of a stream", error);
    return checkpoint_fill_slot(layout, source, row, learner_add_stream(learner, name, key[0]),
                                error);
}

static int read_streams(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                        size_t keys, struct error *error) {
    for (size_t row = 0; row < layout->streams; row++)
        if (read_stream(layout, source, keys, row, error))
            return -1;
    for (size_t shared = 0; shared < anomalies_shared(learner_host(layout->learner)); shared++) {
        uint32_t slot = learner_shared_slot(layout->learner, shared);
        for (size_t n = 0; n < layout->count; n++) {
            const struct checkpoint_entry *of = &layout->of[n];
            if (of->kind == ENTRY_KEPT && of->row->flags & STATE_SHARED &&
                fill(layout, source, n, shared, slot, error))
                return -1;
        }
        if (check_filled(layout, source, slot, error))
            return -1;
    }
    return checkpoint_check_used(layout, source, error);
}

/* Reads words before streams, then tensors with their derived values, and state without a
   stream. */
static int read_once(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                     size_t *keys, struct error *error) {
    for (size_t n = 0; n < layout->count; n++) {
        const struct checkpoint_entry *of = &layout->of[n];
        if ((of->kind == ENTRY_TENSOR && !of->lacked && read_tensor(layout, source, n, error)) ||
            (of->kind == ENTRY_WORDS && read_words(layout, source, n, error)) ||
            (of->kind == ENTRY_KEPT && of->row->flags & STATE_ONCE &&
             fill(layout, source, n, 0, 0, error)))
            return -1;
        if (of->kind == ENTRY_KEYS)
            *keys = n;
    }
    return 0;
}

/* ---- Comparing a file with the layout ---- */

static int check_format(const struct checkpoint_source *source, struct error *error) {
    const char *format = safetensors_metadata(source->file, "format");
    const char *version = safetensors_metadata(source->file, "version");
    if (!strcmp(format, FORMAT) || !strcmp(format, FORMAT_BEFORE))
        return 0;
    return error_set(error, EX_CONFIG,
                     "%s has the format %.40s of runneld %.40s, expected %s: continue with that "
                     "version, or set another state.directory",
                     source->path, format, version ? version : "?", FORMAT);
}

/* Returns whether only state that can start from scratch differs. All daemons of a fleet must learn
   in the same way. */
static bool lasts(struct checkpoint_layout *layout, const struct safetensors *file,
                  const struct config *config, const char *digest) {
    const char *lasting = safetensors_metadata(file, "lasting");
    const char *optimizer = safetensors_metadata(file, "optimizer");
    layout->begins = digest && lasting && optimizer && config->fleet.lease <= 0 &&
                     !strcmp(lasting, config->lasting);
    layout->moments = layout->begins && strcmp(optimizer, config->optimizer) != 0;
    return layout->begins;
}

static int check_digest(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                        const struct config *config, struct checkpoint_report *report,
                        struct error *error) {
    const char *digest = safetensors_metadata(source->file, "digest");
    const char *description = safetensors_metadata(source->file, "description");
    char ours[DESCRIPTION_SIZE];
    if (digest && !strcmp(digest, config->compatible))
        return 0;
    describe(config, ours);
    if (!description)
        description = "?";
    if (lasts(layout, source->file, config, digest)) {
        snprintf(report->before, sizeof report->before, "%s", digest);
        checkpoint_warn(
            report,
            "%s was learned with another window, stride, rule or optimizer (%.250s; now %.250s): "
            "parameters and statistics are kept, windows of streams%s start from scratch",
            source->path, description, ours, layout->moments ? " and the optimizer's moments" : "");
        return 0;
    }
    return error_set(
        error, EX_CONFIG,
        "%s has another configuration (%.*s%s; now %.*s%s): use that one, set another "
        "state.directory, or move this directory away, checkpoints and journal together",
        source->path, DESCRIPTION_SHOWN, description,
        strlen(description) > DESCRIPTION_SHOWN ? "..." : "", DESCRIPTION_SHOWN, ours,
        strcmp(ours, description) ? "" : ", other details of model, experts or learning");
}

static bool has_entry(const struct checkpoint_layout *layout, const char *name) {
    for (size_t n = 0; n < layout->count; n++)
        if (strcmp(layout->of[n].name, name) == 0)
            return true;
    return false;
}

/* Counts entries of predictions, distributions or anomalies that are not kept any more. */
static size_t count_needless(const struct checkpoint_layout *layout,
                             const struct safetensors *file) {
    const struct state_row *row;
    size_t needless = 0;
    for (size_t n = 0; (row = part_row(n)); n++)
        needless += row->flags & (STATE_TRUTH | STATE_WATCH) && !has_entry(layout, row->name) &&
                    safetensors_find(file, row->name);
    return needless;
}

/* Marks entries that the file lacks, because it is older or did not keep them; returns the
   count. */
static size_t mark_lacked(struct checkpoint_layout *layout, const struct safetensors *file) {
    size_t count = 0;
    for (size_t n = 0; n < layout->count; n++) {
        struct checkpoint_entry *of = &layout->of[n];
        of->lacked = of->kind == ENTRY_KEPT && of->row->flags & STATE_LATER &&
                     !safetensors_find(file, of->name);
        count += of->lacked;
    }
    return count;
}

/* Memories of another size or other streams are useless: anomalies start from scratch. */
static void mark_resized(struct checkpoint_layout *layout, const struct safetensors *file,
                         const struct config *config) {
    const char *memory = safetensors_metadata(file, MEMORY);
    const char *found_share = safetensors_metadata(file, SHARE);
    char share[CHECKPOINT_SHARE_SIZE];
    checkpoint_share(config, share);
    const struct safetensors_entry *held = safetensors_find(file, ANOMALY_HELD);
    bool shares = anomalies_shared(learner_host(layout->learner)), fit = !held || !held->shape[0];
    bool alike = memory && strtoull(memory, NULL, 10) == config->anomaly.memory &&
                 (shares ? found_share && !strcmp(found_share, share) : !found_share);
    for (size_t n = 0; n < layout->count; n++) {
        const struct safetensors_entry *wanted = &layout->entries[n];
        const struct safetensors_entry *found = safetensors_find(file, wanted->name);
        const struct checkpoint_entry *of = &layout->of[n];
        if (of->kind != ENTRY_KEPT || !(of->row->flags & STATE_MEMORY))
            continue;
        fit &= found && found->rank == wanted->rank && found->shape[1] == wanted->shape[1] &&
               (alike || !of->row->used);
    }
    for (size_t n = 0; n < layout->count; n++)
        layout->of[n].lacked |= checkpoint_is_watched(&layout->of[n]) && !fit;
}

/* Experts on symbols with another memory. */
static void mark_sized(struct checkpoint_layout *layout, const struct safetensors *file,
                       struct checkpoint_report *report) {
    bool other = false;
    for (size_t n = 0; n < layout->count; n++) {
        const struct safetensors_entry *wanted = &layout->entries[n];
        const struct safetensors_entry *found = safetensors_find(file, wanted->name);
        other |= layout->of[n].kind == ENTRY_KEPT && layout->of[n].row->flags & STATE_SIZED &&
                 found && memcmp(found->shape, wanted->shape, sizeof *wanted->shape * wanted->rank);
    }
    for (size_t n = 0; n < layout->count && other; n++)
        layout->of[n].lacked |=
            layout->of[n].kind == ENTRY_KEPT && layout->of[n].row->flags & STATE_SIZED;
    if (other)
        checkpoint_warn(report, "memory has changed: experts start from scratch, the network and "
                                "streams continue");
}

/* Marks windows and moments that start from scratch; of records, the states are read. */
static void mark_begun(struct checkpoint_layout *layout, const struct safetensors *file) {
    for (size_t n = 0; n < layout->count && layout->begins; n++) {
        struct checkpoint_entry *of = &layout->of[n];
        const struct safetensors_entry *found = safetensors_find(file, of->name);
        unsigned flags = of->kind == ENTRY_KEPT ? of->row->flags : 0;
        of->lacked |= flags & STATE_WINDOW ||
                      (layout->moments &&
                       (flags & STATE_MOMENTS ||
                        (of->kind == ENTRY_TENSOR && of->block > 0 && !is_start(layout, of))));
        if (of->kind == ENTRY_KEPT && of->row->lasting && found && found->shape[1])
            layout->entries[n].shape[1] = found->shape[1];
    }
}

/* The entry of the same tensor's parameters: where `pull` is new, they are the starting values. */
static const struct safetensors_entry *find_parameters(const struct checkpoint_layout *layout,
                                                       const struct checkpoint_entry *start) {
    const struct checkpoint_entry *of = layout->of;
    while (of->kind != ENTRY_TENSOR || of->member != start->member || of->block ||
           of->tensor != start->tensor)
        of++;
    return &layout->entries[of - layout->of];
}

/* Opens the layout for the file's number of streams, and checks each entry against it. */
static int check_entries(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                         struct learner *learner, const struct config *config,
                         struct checkpoint_report *report, struct error *error) {
    const struct safetensors_entry *keys = safetensors_find(source->file, "streams.keys");
    if (!keys || keys->rank != 2 || keys->shape[0] > config->learning.max_streams)
        return damaged(source, "missing streams, or too many", error);
    bool begins = layout->begins, moments = layout->moments;
    if (checkpoint_layout_open(layout, learner, keys->shape[0], error))
        return -1;
    layout->begins = begins;
    layout->moments = moments;
    size_t count = layout->count - mark_lacked(layout, source->file);
    count += count_needless(layout, source->file);
    if (!begins && safetensors_count(source->file) != count)
        return error_set(error, EX_IOERR, "%s is damaged: expected %zu tensors, got %zu",
                         source->path, count, safetensors_count(source->file));
    mark_resized(layout, source->file, config);
    mark_sized(layout, source->file, report);
    mark_begun(layout, source->file);
    for (size_t n = 0; n < layout->count; n++) {
        struct safetensors_entry *wanted = &layout->entries[n];
        const struct checkpoint_entry *of = &layout->of[n];
        const struct safetensors_entry *found = safetensors_find(source->file, wanted->name);
        if (of->lacked)
            continue;
        if (!found && layout->begins && is_start(layout, of))
            found = find_parameters(layout, of);
        if (found && (of->kind == ENTRY_WORDS || (of->kind == ENTRY_KEPT && of->row->used)))
            wanted->shape[0] = found->shape[0];
        if (!found || found->type != wanted->type || found->rank != wanted->rank ||
            memcmp(found->shape, wanted->shape, wanted->rank * sizeof *wanted->shape))
            return error_set(error, EX_IOERR,
                             "%s is damaged: tensor %s is missing, or has another type or shape",
                             source->path, wanted->name);
        wanted->begin = found->begin;
        wanted->size = found->size;
    }
    return 0;
}

static void compare_device(const struct checkpoint_source *source, const struct learner *learner,
                           struct checkpoint_report *report) {
    const char *then = safetensors_metadata(source->file, "device");
    const char *now = learner_device(learner);
    if (then && !strcmp(then, now))
        return;
    checkpoint_warn(report,
                    "%s was written on another device (%.100s; now %.100s): learning resumes with "
                    "different rounding",
                    source->path, then ? then : "?", now);
}

static int find_position(const struct checkpoint_source *source, uint64_t *position,
                         struct error *error) {
    uint64_t counters[CHECKPOINT_COUNTERS];
    const struct safetensors_entry *entry = safetensors_find(source->file, "learner.counters");
    if (!entry || entry->size != sizeof counters)
        return damaged(source, "missing counters", error);
    if (safetensors_read(source->file, entry, 0, counters, sizeof counters, error))
        return -1;
    *position = counters[CHECKPOINT_COUNTERS - 1];
    return 0;
}

static int read_all(struct checkpoint_layout *layout, const struct checkpoint_source *source,
                    const struct config *config, struct learner *learner,
                    struct checkpoint_report *report, struct error *error) {
    size_t keys = 0;
    if (check_entries(layout, source, learner, config, report, error) ||
        read_once(layout, source, &keys, error))
        return -1;
    learner_once_filled(learner);
    if (read_streams(layout, source, keys, error))
        return -1;
    learner_resumed(learner);
    return 0;
}

int checkpoint_read(const char *path, const struct config *config, struct learner *learner,
                    struct checkpoint_report *report, struct error *error) {
    struct checkpoint_source source = {.path = path};
    struct checkpoint_layout layout = {0};
    int status = -1;
    if (safetensors_open(&source.file, path, error) || verify(source.file, path, report, error))
        status = error->status == EX_IOERR ? CHECKPOINT_NOT_WHOLE : -1;
    else if (check_format(&source, error))
        status = -1;
    else if (check_digest(&layout, &source, config, report, error))
        status = CHECKPOINT_OTHER;
    else
        status = learner ? read_all(&layout, &source, config, learner, report, error)
                         : find_position(&source, &report->position, error);
    if (status == 0 && learner)
        compare_device(&source, learner, report);
    safetensors_close(&source.file);
    checkpoint_layout_close(&layout);
    return status;
}
