/* Journals: a byte for the model (example_models.h) and the format of the file, three words for
   `last`, `count` and `kinds` of its only block (or of one after a valid block), two bytes for
   the size of the block's text, the text, and the bytes of its entries. The checksums are
   corrected. A valid journal is converted to the current format, and its examples of the model
   are learned. */
#include <stdlib.h>

#include "common/database.h"
#include "common/error.h"
#include "example_models.h"
#include "fuzz.h"
#include "learner/learner.h"
#include "sockets/decode.h"
#include "store/journal_check.h"
#include "store/journal_read.h"

enum { FORMAT_SHIFT = 4, FORMAT = 3, SECOND = 0x80, PLAN_STEPS = 64 };

static const char first_about[] = "[[1,3,0,0,20]]", first_data[] = "{\"command\":\"reset\"}";

struct visit {
    struct decoder *decoder;
    struct learner *learner;
};

static int learn(void *context, struct journal_entry *entry, struct error *error) {
    struct visit *visit = context;
    char why[REJECT_WHY_SIZE];
    if (entry->command)
        return 0;
    if (decode_check(visit->decoder, &entry->example, why))
        return error_set(error, 1, "%s", why);
    REQUIRE(!learner_take(visit->learner, &entry->example, error), "%s", error->text);
    return 0;
}

static void run(sqlite3 *file, const char *sql) {
    REQUIRE(sqlite3_exec(file, sql, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(file));
}

/* Creates a journal like daemons of that format. */
static void create(sqlite3 *file, int format) {
    run(file, journal_tables);
    if (format >= JOURNAL_FORMAT_KINDS)
        run(file, journal_commands);
    else
        run(file, "ALTER TABLE blocks DROP COLUMN kinds");
    if (format >= JOURNAL_FORMAT_PRODUCERS)
        run(file, journal_streams);
    else
        run(file, "CREATE TABLE streams (key BLOB PRIMARY KEY, epoch INTEGER, sequence INTEGER,"
                  " position INTEGER, crc INTEGER) WITHOUT ROWID;");
    run(file, journal_view);
}

static void insert(sqlite3 *file, const struct journal_block *block, int format) {
    sqlite3_stmt *insert;
    REQUIRE(sqlite3_prepare_v2(file,
                               format >= JOURNAL_FORMAT_KINDS
                                   ? "INSERT INTO blocks VALUES (?, ?, ?, ?, ?, ?)"
                                   : "INSERT INTO blocks VALUES (?, ?, ?, ?, ?)",
                               -1, &insert, NULL) == SQLITE_OK,
            "%s", sqlite3_errmsg(file));
    sqlite3_bind_int64(insert, 1, (sqlite3_int64)block->last);
    sqlite3_bind_int64(insert, 2, (sqlite3_int64)block->count);
    sqlite3_bind_text(insert, 3, block->about, (int)block->about_size, SQLITE_STATIC);
    sqlite3_bind_blob(insert, 4, block->data, (int)block->data_size, SQLITE_STATIC);
    sqlite3_bind_int64(insert, 5, journal_block_checksum(block));
    sqlite3_bind_int64(insert, 6, block->kinds);
    REQUIRE(sqlite3_step(insert) == SQLITE_DONE, "%s", sqlite3_errmsg(file));
    sqlite3_finalize(insert);
}

static void insert_totals(struct journal_store *store, const struct journal_block *block,
                          bool second) {
    struct journal_totals totals = {.oldest = second ? 1 : block->last - block->count + 1,
                                    .newest = block->last};
    struct error error = {0};
    REQUIRE(sqlite3_prepare_v2(store->file,
                               "UPDATE journal SET name = ?, digest = ?, sync = ?, oldest = ?,"
                               " newest = ?, streams = ?, crc = ?",
                               -1, &store->totals, NULL) == SQLITE_OK,
            "%s", sqlite3_errmsg(store->file));
    REQUIRE(!journal_store_totals(store, &totals, &error), "%s", error.text);
    sqlite3_finalize(store->totals);
}

/* Whether the whole journal can be replayed. */
static bool replay(struct journal_store *store, const struct model *model, struct error *error) {
    static struct config config = {.name = "fuzz", .device = "cpu"};
    struct journal_reading reading = {.path = "fuzz",
                                      .file = store->file,
                                      .largest = 1 << 20,
                                      .input_bytes = model->x_size * sizeof(float),
                                      .target_bytes = model->y_size * sizeof(float)};
    struct visit visit;
    struct journal_totals totals;
    config.architecture = model->architecture;
    config.learning.window = 3;
    config.learning.stride = 2;
    config.learning.max_streams = 4;
    config.learning.optimizer = (struct optimizer){.kind = OPTIMIZER_sgd, .rate = 0.01};
    if (journal_check_totals(store, &totals, error) ||
        journal_check_contents(store, &totals, error) ||
        (store->format < JOURNAL_FORMAT && journal_migrate(store, error)))
        return false;
    visit.learner = fuzz_learner(&config, model, PLAN_STEPS);
    REQUIRE(!decoder_open(&visit.decoder, model, true, error) &&
                !learner_start(visit.learner, error),
            "%s", error->text);
    int status = journal_read_all(&reading, 0, learn, &visit, error);
    REQUIRE(!learner_flush(visit.learner, status ? NULL : error), "the learner has failed");
    decoder_close(&visit.decoder);
    learner_close(&visit.learner);
    return status == 0;
}

bool fuzz_journal(const uint8_t *bytes, size_t size) {
    struct fuzz_input input = {bytes, size};
    unsigned choice = fuzz_byte(&input);
    int format = JOURNAL_FORMAT_OLDEST + (int)(choice >> FORMAT_SHIFT & FORMAT) %
                                             (JOURNAL_FORMAT - JOURNAL_FORMAT_OLDEST + 1);
    struct journal_store store = {.path = "fuzz", .format = format};
    const struct journal_block first = {.last = 1,
                                        .count = 1,
                                        .kinds = 1u << JOURNAL_RESET,
                                        .about = first_about,
                                        .about_size = strlen(first_about),
                                        .data = first_data,
                                        .data_size = sizeof first_data};
    struct model model;
    struct error error = {0};
    example_model(&model,
                  (enum example_model)((choice & ((1 << FORMAT_SHIFT) - 1)) % EXAMPLE_MODELS));
    struct journal_block block = {.last = fuzz_word(&input)};
    block.count = fuzz_word(&input);
    block.kinds = (uint32_t)fuzz_word(&input);
    block.about_size = fuzz_pair(&input);
    block.about = fuzz_block(&input, &block.about_size);
    block.data_size = input.size;
    block.data = fuzz_block(&input, &block.data_size);
    REQUIRE(database_open(&store.file, ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                          NULL) == SQLITE_OK,
            "no database");
    create(store.file, format);
    if (choice & SECOND && block.last != first.last)
        insert(store.file, &first, format);
    insert(store.file, &block, format);
    insert_totals(&store, &block, choice & SECOND);
    bool replayed = replay(&store, &model, &error);
    if (!replayed)
        fuzz_require_sentence(error.text);
    sqlite3_close(store.file);
    free((void *)block.about);
    free((void *)block.data);
    return replayed;
}
