/* Checkpoints. The first byte selects one of a few learners and the kind of the rest: edits of the
   valid checkpoint of this learner (so that seeds stay valid when the format changes), or a whole
   file. The checksum is corrected unless the byte has a flag.

   An edit is a byte for its kind, two for the place and eight for the value. A file that can be
   loaded is a learner's state: the learner continues to learn, and saves a file that loads as the
   same state, before and after that.

   fuzz_initial does the same with files of model.initial: edits of the learner's export. */
#include <libdeflate.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/example.h"
#include "common/streams.h"
#include "common/wire.h"
#include "forecast/forecast.h"
#include "fuzz.h"
#include "learner/learner.h"
#include "learner/learner_export.h"
#include "learner/learner_state.h"
#include "store/checkpoint_file.h"

/* Bits of the first byte; high ones equal to CHOICE_FORECAST or CHOICE_WORDS select that
   learner. */
enum {
    CHOICE_LEARNER = 3,
    CHOICE_WHOLE = 4,
    CHOICE_NO_REPAIR = 8,
    CHOICE_HIGH = 0xF0,
    CHOICE_FORECAST = 0x10,
    CHOICE_WORDS = 0x30,
};
enum edit { EDIT_BYTE, EDIT_NUMBER, EDIT_WORD, EDIT_HEADER_ADD, EDIT_HEADER_CUT, EDIT_CUT, EDITS };
enum {
    LENGTH_SIZE = sizeof(uint64_t), /* size of the header's length, at the start of the file */
    EDITS_MAX = 32,
    PLAN_STEPS = 4,
    EXAMPLES = 12,
    STEPS = 2,
    WORD_COLUMNS = 4,
    NUMBERS_MAX = 8, /* numbers in an example's x or y */
    LEARNERS = 6,
    FORECAST = 4, /* the learner of scale: forecast */
    WORDS = 5,    /* that of columns and vocabularies */
};

/* One learner for each part of a checkpoint. */
static const struct {
    struct input input;
    struct layer layer;
    struct output output;
    enum optimizer_id optimizer;
} learners[LEARNERS] = {
    {{.kind = INPUT_REAL, .size = 2, .scale = SCALE_STANDARD, .hold = true},
     {.cell = CELL_gru, .size = 3, .norm = NORM_layer, .gain = 1},
     {.loss = LOSS_gaussian, .size = 2, .target = TARGET_NEXT},
     OPTIMIZER_adam},
    {{.kind = INPUT_SYMBOL, .size = 5, .embedding = 2},
     {.cell = CELL_lstm, .size = 2, .norm = NORM_layer, .gain = 1},
     {.loss = LOSS_softmax, .size = 3},
     OPTIMIZER_rmsprop},
    {{.kind = INPUT_SYMBOL, .size = 4},
     {.cell = CELL_rnn, .size = 3},
     {.loss = LOSS_softmax, .size = 4, .target = TARGET_NEXT},
     OPTIMIZER_sgd},
    {{.kind = INPUT_REAL, .size = 1, .scale = SCALE_STANDARD},
     {.cell = CELL_gru, .size = 2, .norm = NORM_layer, .gain = 1},
     {.loss = LOSS_mixture, .size = 3, .components = 2},
     OPTIMIZER_adamw},
    {{.kind = INPUT_REAL, .size = 2, .scale = SCALE_FORECAST, .hold = true},
     {.cell = CELL_gru, .size = 3, .norm = NORM_layer, .gain = 1},
     {.loss = LOSS_squared,
      .size = 2,
      .target = TARGET_NEXT,
      .relative = RELATIVE_AR12,
      .skip = true,
      .solved = true},
     OPTIMIZER_adam},
    {{.kind = INPUT_REAL,
      .size = WORD_COLUMNS,
      .scale = SCALE_STANDARD,
      .hold = true,
      .column_count = WORD_COLUMNS,
      .columns = {{.name = "load", .standard = true, .hold = true, .mask = true},
                  {.name = "host",
                   .kind = COLUMN_SYMBOL,
                   .size = 4,
                   .embedding = 2,
                   .vocabulary = {.capacity = 3, .lru = true}},
                  {.name = "user", .kind = COLUMN_SYMBOL, .size = 5, .hash = 5},
                  {.name = "hour", .kind = COLUMN_CYCLE, .period = 24, .harmonics = 1}}},
     {.cell = CELL_gru, .size = 3, .norm = NORM_layer, .gain = 1},
     {.loss = LOSS_softmax, .size = 5, .vocabulary = {.capacity = 4}},
     OPTIMIZER_adamw},
};

static struct side {
    struct config config;
    struct model model;
    unsigned char *good; /* a checkpoint */
    size_t good_size;
} sides[LEARNERS];

/* Values of columns: a number that may be missing, a word, a symbol that may be negated, an
   hour; and a class that is a word. */
static void fill_columns(size_t n, union value *x, union value *y, char words[NUMBERS_MAX]) {
    for (size_t t = 0; t < STEPS; t++, x += WORD_COLUMNS, y++) {
        x[0].real = n % 4 ? (float)(n % 5) : NAN;
        x[1].id = y->id = WIRE_WORD;
        x[2].id = (uint32_t)(n % 5) | (n % 2 ? SYMBOL_MINUS : 0);
        x[3].real = (float)(n + t);
        words[2 * t] = words[2 * (STEPS + t)] = 1; /* bytes of the word that follows */
        words[2 * t + 1] = (char)('a' + (n + t) % 5);
        words[2 * (STEPS + t) + 1] = (char)('a' + n % 3);
    }
}

/* Examples of three streams: all numbers are small, and valid symbols or classes if required. */
static void learn(struct learner *learner, const struct side *side, size_t first) {
    static const char *const keys[] = {"", "one", "two"};
    const struct architecture *a = &side->model.architecture;
    bool symbols = a->input.kind == INPUT_SYMBOL, classes = loss_kind(a->output.loss)->class_id;
    for (size_t n = first; n < first + EXAMPLES; n++) {
        union value x[NUMBERS_MAX], y[NUMBERS_MAX];
        char words[NUMBERS_MAX];
        for (size_t k = 0; k < NUMBERS_MAX; k++) {
            uint32_t whole = (uint32_t)(n + k) % 3;
            x[k].id = y[k].id = whole;
            if (!symbols)
                x[k].real = (float)whole;
            if (!classes)
                y[k].real = (float)whole;
        }
        if (a->input.column_count)
            fill_columns(n, x, y, words);
        const char *key = keys[n % (sizeof keys / sizeof *keys)];
        const struct example example = {.key = key,
                                        .key_size = strlen(key),
                                        .steps = STEPS,
                                        .x = x,
                                        .y = a->output.target == TARGET_GIVEN ? y : NULL,
                                        .words = words,
                                        .words_size = a->input.column_count ? sizeof words : 0,
                                        .end = n % 7 == 6,
                                        .learn = true};
        struct error error = {0};
        REQUIRE(!learner_take(learner, &example, &error), "%s", error.text);
    }
    struct error error = {0};
    REQUIRE(!learner_flush(learner, &error), "%s", error.text);
}

/* The daemon also does this before a checkpoint. */
static void forget_invalid(struct learner *learner) {
    const struct streams *streams = learner_streams_table(learner);
    struct error error = {0};
    float *record = malloc((learner_record_size(learner, 0) + 1) * sizeof *record);
    REQUIRE(record, "no memory");
    for (uint32_t slot = streams_oldest(streams), newer; slot != STREAMS_NONE; slot = newer) {
        size_t size;
        const char *key = streams_key(streams, slot, &size);
        newer = streams_newer(streams, slot);
        int status = learner_check_stream(learner, slot, record, &error);
        REQUIRE(status >= 0, "%s", error.text);
        if (status)
            REQUIRE(!learner_forget(learner, key, size, &error), "%s", error.text);
    }
    free(record);
}

static unsigned char *save(struct learner *learner, const struct side *side, enum fuzz_file which,
                           size_t *size) {
    struct error error = {0};
    uint64_t reported = 0;
    const char *path = fuzz_file(which, "", 0);
    REQUIRE(!checkpoint_write(fuzz_descriptor(which), path, &side->config, learner, 0, &reported,
                              &error),
            "%s", error.text);
    unsigned char *bytes = fuzz_contents(which, size);
    REQUIRE(*size == reported, "a checkpoint of %zu bytes, not of %llu", *size,
            (unsigned long long)reported);
    return bytes;
}

static void describe(struct side *side, size_t which) {
    struct config *config = &side->config;
    snprintf(config->name, sizeof config->name, "fuzz");
    snprintf(config->device, sizeof config->device, "cpu");
    snprintf(config->digest, sizeof config->digest, "%016zx", which);
    config->architecture = (struct architecture){.input = learners[which].input,
                                                 .layers = {learners[which].layer},
                                                 .layer_count = 1,
                                                 .output = learners[which].output};
    config->experts = EXPERTS_ALL;
    config->learning.window = 3;
    config->learning.stride = 2;
    config->learning.clip = 1;
    config->learning.max_streams = 4;
    config->learning.optimizer = (struct optimizer){.kind = learners[which].optimizer,
                                                    .rate = 0.01,
                                                    .momentum = 0.5,
                                                    .alpha = 0.9,
                                                    .beta1 = 0.9,
                                                    .beta2 = 0.99,
                                                    .epsilon = 1e-8};
    model_build(&side->model, &config->architecture);
}

/* The learner's description and valid checkpoint, made on first use. */
static const struct side *side_of(size_t which) {
    struct side *side = &sides[which];
    if (side->good)
        return side;
    describe(side, which);
    struct learner *learner = fuzz_learner(&side->config, &side->model, PLAN_STEPS);
    struct error error = {0};
    REQUIRE(!learner_start(learner, &error), "%s", error.text);
    learn(learner, side, 0);
    side->good = save(learner, side, FUZZ_FIRST, &side->good_size);
    learner_close(&learner);
    return side;
}

static const struct side *chosen_side(unsigned choice) {
    unsigned high = choice & CHOICE_HIGH;
    return side_of(high == CHOICE_FORECAST ? FORECAST
                   : high == CHOICE_WORDS  ? WORDS
                                           : choice & CHOICE_LEARNER);
}

/* ---- The file under test ---- */

struct file {
    unsigned char *bytes;
    size_t size;
};

static uint64_t header_size(const struct file *file) {
    uint64_t size = 0;
    if (file->size >= LENGTH_SIZE)
        memcpy(&size, file->bytes, LENGTH_SIZE);
    return size <= file->size - LENGTH_SIZE ? size : 0;
}

/* Inserts or removes a byte of the header. */
static void resize_header(struct file *file, uint64_t place, bool more, unsigned char byte) {
    uint64_t size = header_size(file);
    if (file->size < LENGTH_SIZE || size == 0)
        return;
    unsigned char *at = file->bytes + LENGTH_SIZE + place % size;
    size_t rest = (size_t)(file->bytes + file->size - at);
    if (more) {
        memmove(at + 1, at, rest);
        *at = byte;
        file->size++;
        size++;
    } else {
        memmove(at, at + 1, rest - 1);
        file->size--;
        size--;
    }
    memcpy(file->bytes, &size, LENGTH_SIZE);
}

/* Overwrites one of the tensors' numbers, which begin at multiples of four. */
static void put_data(struct file *file, uint64_t place, const void *bytes, size_t size) {
    size_t begin = LENGTH_SIZE + header_size(file);
    if (file->size < begin + size)
        return;
    memcpy(file->bytes + begin + place * sizeof(float) % (file->size - begin - size + 1), bytes,
           size);
}

static void edit(struct file *file, enum edit kind, uint64_t place, uint64_t value) {
    switch (kind) {
    case EDIT_BYTE:
        if (file->size)
            file->bytes[place % file->size] = (unsigned char)value;
        break;
    case EDIT_NUMBER:
        put_data(file, place, &value, sizeof(float));
        break;
    case EDIT_WORD:
        put_data(file, place, &value, sizeof value);
        break;
    case EDIT_HEADER_ADD:
    case EDIT_HEADER_CUT:
        resize_header(file, place, kind == EDIT_HEADER_ADD, (unsigned char)value);
        break;
    default:
        file->size = place % (file->size + 1);
    }
}

static void repair(struct file *file) {
    if (file->size < CHECKPOINT_CHECKSUM_SIZE)
        return;
    size_t end = file->size - CHECKPOINT_CHECKSUM_SIZE;
    const int64_t checksum = (int64_t)libdeflate_crc32(0, file->bytes, end);
    memcpy(file->bytes + end, &checksum, sizeof checksum);
}

/* `good`: the file to edit. */
static const char *given(const unsigned char *good, size_t good_size, unsigned choice,
                         struct fuzz_input input) {
    bool whole = choice & CHOICE_WHOLE;
    struct file file = {.size = whole ? input.size : good_size};
    file.bytes = malloc(file.size + EDITS_MAX);
    REQUIRE(file.bytes, "no memory");
    if (file.size)
        memcpy(file.bytes, whole ? input.bytes : good, file.size);
    for (size_t n = 0; !whole && n < EDITS_MAX && input.size > 0; n++) {
        enum edit kind = (enum edit)(fuzz_byte(&input) % EDITS);
        uint64_t place = fuzz_pair(&input);
        edit(&file, kind, place, fuzz_word(&input));
    }
    if (!(choice & CHOICE_NO_REPAIR))
        repair(&file);
    const char *path = fuzz_file(FUZZ_GIVEN, file.bytes, file.size);
    free(file.bytes);
    return path;
}

/* ---- Invariants ---- */

static void require_streams(const struct learner *learner) {
    const struct streams *streams = learner_streams_table(learner);
    size_t count = 0;
    for (uint32_t slot = streams_oldest(streams); slot != STREAMS_NONE;
         slot = streams_newer(streams, slot)) {
        size_t size;
        const char *key = streams_key(streams, slot, &size);
        REQUIRE(size <= WIRE_KEY_MAX && wire_is_utf8(key, size) &&
                    streams_find(streams, key, size) == slot,
                "the key of stream %zu", count);
        count++;
    }
    REQUIRE(count == streams_count(streams), "%zu streams", count);
}

static void require_same_state(struct learner *learner, const struct side *side) {
    size_t size, again;
    unsigned char *saved = save(learner, side, FUZZ_FIRST, &size);
    struct learner *other = fuzz_learner(&side->config, &side->model, PLAN_STEPS);
    static struct checkpoint_report report;
    struct error error = {0};
    const char *path = fuzz_file(FUZZ_FIRST, saved, size);
    REQUIRE(!checkpoint_read(path, &side->config, other, &report, &error), "%s", error.text);
    unsigned char *saved_again = save(other, side, FUZZ_SECOND, &again);
    REQUIRE(size == again && !memcmp(saved, saved_again, size),
            "a checkpoint was loaded as another state");
    learner_close(&other);
    free(saved);
    free(saved_again);
}

bool fuzz_checkpoint(const uint8_t *bytes, size_t size) {
    struct fuzz_input input = {bytes, size};
    unsigned choice = fuzz_byte(&input);
    const struct side *side = chosen_side(choice);
    bool untouched = !(choice & CHOICE_WHOLE) && input.size == 0;
    struct learner *learner = fuzz_learner(&side->config, &side->model, PLAN_STEPS);
    static struct checkpoint_report report;
    struct error error = {0};
    const char *path = given(side->good, side->good_size, choice, input);
    report.warning[0] = '\0';
    bool loaded = !checkpoint_read(path, &side->config, learner, &report, &error);
    if (loaded) {
        require_streams(learner);
        require_same_state(learner, side);
        learn(learner, side, EXAMPLES);
        forget_invalid(learner);
        require_same_state(learner, side);
    } else {
        REQUIRE(!untouched, "a good checkpoint is refused: %s", error.text);
        fuzz_require_sentence(error.text);
    }
    if (*report.warning)
        fuzz_require_sentence(report.warning);
    learner_close(&learner);
    return loaded;
}

/* The export of the learner with the valid checkpoint. */
static struct safetensors_memory exported(const struct side *side) {
    struct learner *learner = fuzz_learner(&side->config, &side->model, PLAN_STEPS);
    static struct checkpoint_report report;
    struct safetensors_memory memory = {0};
    struct error error = {0};
    const char *path = fuzz_file(FUZZ_FIRST, side->good, side->good_size);
    REQUIRE(!checkpoint_read(path, &side->config, learner, &report, &error) &&
                !learner_export(learner, side->config.digest, &memory, &error),
            "%s", error.text);
    learner_close(&learner);
    return memory;
}

bool fuzz_initial(const uint8_t *bytes, size_t size) {
    struct fuzz_input input = {bytes, size};
    unsigned choice = fuzz_byte(&input) | CHOICE_NO_REPAIR;
    const struct side *side = chosen_side(choice);
    bool untouched = !(choice & CHOICE_WHOLE) && input.size == 0;
    struct safetensors_memory memory = exported(side);
    static struct config config;
    struct error error = {0};
    config = side->config;
    snprintf(config.initial, sizeof config.initial, "%s",
             given(memory.bytes, memory.size, choice, input));
    free(memory.bytes);
    struct learner *learner = fuzz_learner(&config, &side->model, PLAN_STEPS);
    bool started = !learner_start(learner, &error);
    if (started) {
        learn(learner, side, 0);
        forget_invalid(learner);
        require_streams(learner);
        require_same_state(learner, side);
    } else {
        REQUIRE(!untouched, "a good file is refused: %s", error.text);
        fuzz_require_sentence(error.text);
    }
    learner_close(&learner);
    return started;
}
