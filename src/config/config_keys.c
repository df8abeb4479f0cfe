/* The one table of keys. Reading, checks, overrides, the digest and reloading use it, and so do
   `runneld --explain`, the comments of conf/reference.yaml and the keys of runnel.yaml(5).

   The digest follows the table's order. A key stands below the keys that decide whether it
   counts. Texts are plain sentences; `backquotes` enclose keys and values. */
#include "config_keys.h"

#include "anomaly/anomaly.h"
#include "common/hash.h"
#include "common/threads.h"
#include "common/wire.h"
#include "symbols/symbols.h"

#define AT(member) offsetof(struct draft, config.member)
#define IN_LAYER(member) (AT(architecture.layers) + offsetof(struct layer, member))
#define IN_INPUT(member) AT(architecture.input.member)
#define IN_OUTPUT(member) AT(architecture.output.member)
#define IN_RANKING(member) AT(architecture.output.ranking.member)
#define IN_DRAFT(member) offsetof(struct draft, member)

#define INPUT_SCALE "model.input.scale"
#define INPUT_POOL "model.input.sequence.pool"
#define LAYER_CELL "model.layers.*.cell"
#define LAYER_NORM "model.layers.*.norm"
#define OUTPUT_LOSS "model.output.loss"
#define OUTPUT_TARGET "model.output.target"
#define OUTPUT_SCALE "model.output.scale"
#define RANKING_SCORE "model.output.score"
#define RANKING_OBJECTIVE "model.output.objective"
#define KIND "learning.optimizer.kind"
#define ANOMALY "anomaly.enabled"

#define DAYS_MAX 36500
#define COUNT_MAX CONFIG_COUNT_MAX
#define CONTEXTS_MAX 1e9
#define SCORE_MAX 100
#define COMPONENTS_MAX 1024
#define WINDOW_MAX 65536
#define PATIENCE_MAX 65536
#define STREAMS_MAX 1048576
#define EVERY_MAX 1e9
#define SECONDS_MAX 31536000.0 /* one year */
#define RATE_MAX 100
#define DECAY_MAX 100
#define PULL_MAX 100
#define CLIP_MAX 1e9
#define NORM_STEPS_MAX 4096
#define LAYER_MEMORY_MAX 1000000
#define LONGEST_MAX 65536
#define NEGATIVES_MAX 4096
#define WEIGHT_MAX 1e6
#define TAPS_MAX 64
#define DILATION_MAX 4096
#define START_MAX 100 /* largest starting value of gains and biases */

#define RANGE(low, high) .minimum = (low), .maximum = (high)
#define WHEN(path, words) .when = (path), .is = (words)

/* describe_kinds() adds the words and keys of the kinds. */
/* clang-format off */
static struct config_key rows[] = {
    {"name", &value_name, AT(name), .flags = KEY_REQUIRED, .what = "name of this daemon",
     .example = "reference", .more = "Messages contain it, and the default of `state.directory`."},
    {"preset", &value_word, AT(preset), .words = "none|forecast|symbols",
     .meanings = "no preset|good forecasts of streams of numbers without further choices: `name` "
                 "and `model.input.size` are then a complete configuration|the same for streams "
                 "of symbols: bytes, words, templates, events",
     .fallback = "none", .what = "default values for a task", .example = "forecast",
     .more = "`forecast` is a GRU of 64 units with layer normalization, `scale: forecast`, "
             "`missing: hold`, members `change` and `level`, all experts, window 16, stride 4, "
             "Adam with rate 0.0003, clip 1, distributions and anomaly scores. `symbols` is an "
             "LSTM of 128 units, window 16, Adam with rate 0.002, clip 1, all experts "
             "on symbols and anomaly scores."},
    {"seed", &value_count, AT(seed), RANGE(0, COUNT_MAX), .fallback = "1", .flags = KEY_DIGEST,
     .what = "seed of the starting weights", .example = "1",
     .more = "On one machine, the same seed and the same examples in the same order give the same "
             "bits."},
    {"device", &value_device, AT(device), .fallback = "auto",
     .what = "device that computes", .example = "auto",
     .more = "`auto` is a GPU for networks of at least 300000 parameters, if this installation has "
             "an engine for it and a GPU works; else the processor. Members count together, divided "
             "by the threads that would compute them (`learning.threads`). `cuda` and `cuda:0` are "
             "the first GPU. A requested GPU that does not work is an error: runneld does not fall "
             "back to the processor."},
    {"device_scope", &value_word, AT(device_scope), .words = "auto|block|cluster|grid",
     .meanings = "block or cluster if its shared memory has room for parameters and moments, else "
                 "grid|one multiprocessor|8 multiprocessors, with compute capability 9.0 or "
                 "newer|all multiprocessors",
     .fallback = "auto", .what = "part of a GPU that computes a network", .example = "auto",
     .more = "The scope changes speed, not bits. The processor ignores it."},

    {"tags", &value_tags, AT(tags), .flags = KEY_RELOAD, .left_out = "none",
     .what = "names of this daemon's runs in recordings, beside its name",
     .example = "{site: osaka, run: baseline}",
     .more = "`status` contains them. They do not affect learning."},

    {"model.initial", &value_path, AT(initial), .flags = KEY_FRESH,
     .what = "file of tensors to start from", .example = "start.safetensors",
     .more = "It replaces the random starting weights. `runnel-ctl export` writes such a file "
             "(safetensors). For a model with vocabularies it contains their words."},
    {"model.input.kind", &value_word, IN_INPUT(kind),
     .meanings = "a vector of numbers|one symbol of an alphabet, such as a byte of a text",
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "kind of an input", .example = "real"},
    {"model.input.size", &value_size, IN_INPUT(size), RANGE(1, INPUT_MAX),
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "numbers in an input, or size of the alphabet",
     .example = "8"},
    {"model.input.vocabulary.capacity", &value_size, IN_INPUT(vocabulary.capacity),
     RANGE(0, VOCABULARY_MAX), .fallback = "0", WHEN("model.input.kind", "symbol"),
     .flags = KEY_ADDED, .unit = "words",
     .what = "words that get a symbol each, in order of appearance, 0 = no vocabulary",
     .example = "1000",
     .more = "Inputs are then words, such as `\"web-3\"` in JSON, and `size` must not be given: "
             "the alphabet has one symbol for each word and one for unknown words. With `target: "
             "next` the words are also the classes."},
    {"model.input.vocabulary.unknown", &value_choice, IN_INPUT(vocabulary.reject),
     .words = "share|reject",
     .meanings = "it gets the symbol for unknown words|its example is rejected and counted as "
                 "`vocabulary`", .fallback = "share", WHEN("model.input.kind", "symbol"),
     .flags = KEY_ADDED, .what = "treatment of a word beyond the capacity", .example = "share"},
    {"model.input.vocabulary.forget", &value_choice, IN_INPUT(vocabulary.lru), .words = "none|lru",
     .meanings = "no word is forgotten|a new word replaces the least recently used one and begins "
                 "with starting values", .fallback = "none", WHEN("model.input.kind", "symbol"),
     .flags = KEY_ADDED, .what = "word to forget when all symbols are in use", .example = "none"},
    {"model.input.hash", &value_size, IN_INPUT(hash), RANGE(0, INPUT_MAX),
     .fallback = "0", WHEN("model.input.kind", "symbol"), .flags = KEY_ADDED,
     .what = "number of symbols that words are hashed to, 0 = no hashing", .unit = "symbols",
     .example = "4096",
     .more = "Replaces `size` and `vocabulary`. No word is stored, and different words may share a "
             "symbol."},
    {"model.input.shape", &value_shape, IN_INPUT(shape), RANGE(1, INPUT_MAX), .left_out = "none",
     WHEN("model.input.kind", "real"), .flags = KEY_ADDED | KEY_LONG,
     .what = "channels, rows and columns of the numbers of an input, in this order",
     .example = "[1, 28, 28]",
     .more = "Their product is `size`. Layers with `cell: conv` need it."},
    {"model.input.embedding", &value_size, IN_INPUT(embedding),
     RANGE(0, LAYER_SIZE_MAX), .fallback = "0", WHEN("model.input.kind", "symbol"),
     .flags = KEY_DIGEST, .what = "width of the learned embedding, 0 = one-hot", .example = "16",
     .more = "The model learns a vector of this width for each symbol."},
    {INPUT_SCALE, &value_word, IN_INPUT(scale),
     .meanings = "numbers are not scaled|each number is (x - mean) / standard deviation, both over "
                 "all examples so far|each stream's own units for levels, changes and a lag, with "
                 "experts beside the network", .fallback = "none", WHEN("model.input.kind", "real"),
     .flags = KEY_DIGEST, .what = "running standardization of inputs", .example = "standard",
     .more = "Targets of `target: next` are scaled in the same way. Predictions and errors are "
             "reported in original units. Set `memory` and `limit`: without them one wild finite "
             "value affects mean and deviation permanently."},
    {"model.input.memory", &value_count, IN_INPUT(memory), RANGE(0, MEMORY_MAX),
     .fallback = "0", WHEN("model.input.scale", "standard"), .flags = KEY_ADDED,
     .what = "number of values that mean and deviation remember, 0 = all", .unit = "values",
     .example = "1000",
     .more = "The n-th value has the weight 1/n, but at least 1/memory. Mean and deviation "
             "therefore follow a new level and forget an old one."},
    {"model.input.limit", &value_real, IN_INPUT(limit), RANGE(0, LIMIT_MAX),
     .fallback = "0", WHEN("model.input.scale", "standard"), .flags = KEY_ADDED,
     .what = "largest distance of a value from the mean, in deviations, 0 = no limit",
     .unit = "deviations", .example = "30",
     .more = "A value beyond the limit moves mean and deviation only as far as the limit, and no "
             "input exceeds it. The limit counts after a column's first 30 values. Of those 30, up "
             "to three values are left out if they are a thousand deviations away from all others. "
             "Mean and deviation of the rest then count as those of 30 values."},
    {"model.input.missing", &value_choice, IN_INPUT(hold), .words = "reject|hold",
     .meanings = "the example is rejected and counted|the stream's last value replaces it",
     .fallback = "reject", WHEN("model.input.kind", "real"), .flags = KEY_DIGEST,
     .what = "treatment of a NaN input", .example = "hold"},
    {"model.input.columns", &value_columns, IN_INPUT(column_count),
     .left_out = "none: `kind` and `size` define the input", .flags = KEY_ADDED,
     .what = "columns of an input, in place of `kind` and `size`",
     .example = "[{name: load, kind: real}, {name: host, kind: symbol, size: 8}]",
     .more = "Each column has a `name` and a `kind`. `real` (the default) has `scale`, `memory`, "
             "`limit` and `missing`, whose defaults are those of `model.input`, and `mask: true`. "
             "`known: K` marks a column whose values are known K steps ahead, at least "
             "`model.output.ahead`: it is listed last and not forecast, and x has its value at "
             "each step of `model.output.ahead` in place of the current one. `symbol` has `size` "
             "and `embedding`. `cycle` has `period` and `harmonics`."},

    {"model.input.sequence.layers", &value_layers, IN_INPUT(sequence.layer_count),
     .left_out = "none: an input is one step", .flags = KEY_ADDED,
     .what = "layers that read a message, the list of inputs of one step",
     .example = "[{cell: gru, size: 64}]",
     .more = "They have the keys of `model.layers` and begin with a state of zeros. What follows "
             "learns from one vector a message; `model.layers` may be empty. Not with columns, "
             "`hash`, `time`, scaled or held inputs, presets, or `learning.rule` other than "
             "`tbptt`."},
    {INPUT_POOL, &value_word, IN_INPUT(sequence.pool), .fallback = "last", .flags = KEY_ADDED,
     .what = "method that makes one vector of a message", .example = "attention"},
    {"model.input.sequence.attention", &value_size, IN_INPUT(sequence.attention),
     RANGE(0, LAYER_SIZE_MAX), .fallback = "0", .when = INPUT_POOL, .unit = "units",
     .left_out = "0, as many as the last of its layers has", .flags = KEY_ADDED,
     .what = "units that compute the score of an output", .example = "64"},
    {"model.input.sequence.longest", &value_size, IN_INPUT(sequence.longest),
     RANGE(1, LONGEST_MAX), .fallback = "256", .flags = KEY_ADDED, .unit = "inputs",
     .what = "length of the longest message", .example = "256",
     .more = "A longer one is rejected. Each step of the window takes memory for this many."},

    {"model.input.time", &value_set, IN_INPUT(time), .words = "gap|day|week|year",
     .meanings = "the logarithm of the time since the stream's last example, standardized|sine and "
                 "cosine of the time of day|sine and cosine of the time of the week|sine and "
                 "cosine of the time of the year", .fallback = CONFIG_EMPTY_SET,
     .left_out = "[], none", .flags = KEY_ADDED,
     .what = "inputs computed from the times of the examples", .example = "[gap, day, week]",
     .more = "These inputs follow all others. For an example without a time they are 0."},
    {"model.input.time_zone", &value_zone, IN_INPUT(time_zone), .fallback = "UTC",
     .flags = KEY_ADDED, .what = "time zone of `day`, `week` and `year` of `model.input.time`",
     .example = "Europe/Berlin",
     .more = "Daylight saving time follows tzdata. The environment variable TZ is ignored."},

#define PART_KEY(name, kind, path, otherwise, ...) \
    {path, &value_##kind, AT(parts.name), .fallback = (otherwise), \
     .flags = KEY_ADDED, __VA_ARGS__},
#include "common/parts.def"

    {LAYER_CELL, &value_word, IN_LAYER(cell),
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "kind of the layer", .example = "lstm"},
    {"model.layers.*.size", &value_size, IN_LAYER(size), RANGE(1, LAYER_SIZE_MAX),
     .when = LAYER_CELL, .flags = KEY_REQUIRED | KEY_DIGEST, .what = "units of the layer", .example = "128"},
    {"model.layers.*.channels", &value_size, IN_LAYER(shape.channels), RANGE(1, LAYER_SIZE_MAX),
     .when = LAYER_CELL, .flags = KEY_REQUIRED | KEY_DIGEST | KEY_LATER,
     .what = "channels of the layer", .example = "16",
     .more = "Units are in the order channel, row, column. For R rows of the input the layer has "
             "(R - kernel) / stride + 1, rounded down, and the same for columns. Layers of other "
             "kinds follow it."},
    {"model.layers.*.kernel", &value_size, IN_LAYER(kernel), RANGE(1, LAYER_SIZE_MAX),
     .when = LAYER_CELL, .flags = KEY_REQUIRED | KEY_DIGEST | KEY_LATER,
     .what = "rows and columns of the patch that a unit reads", .example = "5"},
    {"model.layers.*.stride", &value_size, IN_LAYER(stride), RANGE(1, LAYER_SIZE_MAX),
     .fallback = "1", .when = LAYER_CELL, .flags = KEY_DIGEST | KEY_LATER | KEY_LONG,
     .what = "rows and columns from one patch to the next", .example = "2"},
    {LAYER_NORM, &value_word, IN_LAYER(norm),
     .fallback = "layer", .flags = KEY_DIGEST, .what = "normalization of the layer's sums",
     .example = "layer",
     .more = "With `mingru`, `rtu` and `recurrent: diagonal` that of its output: `layer` or "
             "`none`. With `conv` all units of the layer together, with a gain and a bias a channel."},
    {"model.layers.*.norm_groups", &value_size, IN_LAYER(norm_groups), RANGE(1, LAYER_SIZE_MAX),
     .fallback = "1", .when = LAYER_CELL, .flags = KEY_DIGEST | KEY_LATER,
     .what = "groups of channels that `norm` normalizes separately", .example = "1",
     .more = "More than 1 requires `norm: layer` or `rms`."},
    {"model.layers.*.activation", &value_word, IN_LAYER(activation),
     .fallback = "relu", .when = LAYER_CELL, .flags = KEY_DIGEST,
     .what = "activation function of the layer", .example = "tanh"},
    {"model.layers.*.taps", &value_size, IN_LAYER(taps), RANGE(1, TAPS_MAX), .fallback = "1",
     .when = LAYER_CELL, .flags = KEY_ADDED, .unit = "steps",
     .what = "steps whose inputs the layer reads, a causal convolution", .example = "2",
     .more = "Gradients reach the steps of `learning.window`."},
    {"model.layers.*.dilation", &value_size, IN_LAYER(dilation), RANGE(1, DILATION_MAX),
     .fallback = "1", .when = LAYER_CELL, .flags = KEY_ADDED, .unit = "steps",
     .what = "distance between taps", .example = "4",
     .more = "(taps - 1) dilation is at most 4096, the inputs that a stream's state has."},
    {"model.layers.*.residual", &value_boolean, IN_LAYER(residual), .fallback = "false",
     .when = LAYER_CELL, .flags = KEY_ADDED,
     .what = "whether the layer's input is added to its output", .example = "true",
     .more = "It requires as many inputs as units."},
    {"model.layers.*.gain", &value_float, IN_LAYER(gain), RANGE(0, START_MAX), .fallback = "1.0",
     .when = LAYER_NORM, .flags = KEY_DIGEST, .what = "starting value of the gains",
     .example = "1.0"},
    {"model.layers.*.norm_momentum", &value_float, IN_LAYER(norm_momentum), RANGE(0, 1),
     .fallback = "0.01", .when = LAYER_NORM, .flags = KEY_DIGEST | KEY_LATER,
     .what = "weight of an update's steps in the running statistics", .example = "0.01"},
    {"model.layers.*.norm_steps", &value_size, IN_LAYER(norm_steps), RANGE(1, NORM_STEPS_MAX),
     .when = LAYER_NORM, .flags = KEY_REQUIRED | KEY_DIGEST | KEY_LATER,
     .what = "number of first steps of a stream that have statistics of their own", .unit = "steps",
     .example = "16", .more = "All later steps use the statistics of the last of them."},
    {"model.layers.*.forget_bias", &value_float, IN_LAYER(forget_bias),
     RANGE(-START_MAX, START_MAX), .fallback = "0.0", .when = LAYER_CELL, .flags = KEY_DIGEST,
     .what = "value added to the forget gate's starting bias", .example = "0.0",
     .more = "With 1.0 the cell remembers from the start."},
    {"model.layers.*.recurrent", &value_choice, IN_LAYER(diagonal), .words = "full|diagonal",
     .meanings = "each unit hears all units of its layer|only itself: `weight_hh` and `bias_hh` are "
                 "vectors, and `norm` is that of the layer's output",
     .fallback = "full", .when = LAYER_CELL, .flags = KEY_ADDED,
     .what = "units that a unit of the layer hears", .example = "diagonal",
     .more = "With `diagonal` and `learning.rule: snap1` the gradient is exact back to the beginning of "
             "the stream."},
    {"model.layers.*.memory", &value_size, IN_LAYER(memory), RANGE(0, LAYER_MEMORY_MAX),
     .fallback = "0", .when = LAYER_CELL, .flags = KEY_ADDED,
     .what = "steps that units remember at the start, each its own from 1 to this, 0 = biases as "
             "elsewhere", .unit = "steps", .example = "200",
     .more = "As long as the longest lag that matters: without it lags beyond a few dozen are not "
             "found. gru and lstm require `recurrent: diagonal`."},
    {"model.layers.*.radius", &value_radius, IN_LAYER(radius), RANGE(0.001, 1),
     .left_out = "[0.9, 0.999]", .when = LAYER_CELL, .flags = KEY_DIGEST | KEY_LATER | KEY_BELOW,
     .what = "smallest and largest share of its state that a unit keeps of a step at the start",
     .example = "[0.9, 0.999]", .more = "A unit that keeps r remembers about 1 / (1 - r) steps."},

    {OUTPUT_LOSS, &value_word, IN_OUTPUT(loss), .flags = KEY_REQUIRED | KEY_DIGEST,
     .what = "loss to minimize", .example = "squared", .more = "It also defines the prediction."},
    {"model.output.size", &value_size, IN_OUTPUT(size), RANGE(1, INPUT_MAX),
     .left_out = "3 with `loss: mixture`; required with other losses",
     .flags = KEY_DIGEST, .what = "numbers in a target, or number of classes", .example = "8",
     .more = "With `target: next` it is the size of the input; with columns it follows from them."},
    {"model.output.components", &value_size, IN_OUTPUT(components),
     RANGE(1, COMPONENTS_MAX), .when = OUTPUT_LOSS, .flags = KEY_REQUIRED | KEY_DIGEST,
     .what = "normal distributions in the mixture", .example = "20"},
    {OUTPUT_TARGET, &value_word, IN_OUTPUT(target),
     .meanings = "in the message, beside the input|the stream's next input|in a later message, a "
                 "label|the stream's input before, known with the step|the step's own input",
     .fallback = "given", .flags = KEY_DIGEST, .what = "source of the targets", .example = "next",
     .more = "With `next`, symbols require `loss: softmax`; real inputs require one of the other "
             "losses. `bernoulli` and `mixture` require `scale: none`. `previous` and `same` are "
             "known with the step, and therefore not forecasts."},
    {"model.output.name", &value_output_name, IN_OUTPUT(name), .flags = KEY_ADDED,
     .left_out = "none (required)", .what = "name of an output of `model.outputs`",
     .example = "previous"},
    {"model.output.weight", &value_real, IN_OUTPUT(weight), RANGE(0, WEIGHT_MAX),
     .fallback = "1", .flags = KEY_ADDED,
     .what = "weight of an output of `model.outputs` in the loss of a step", .example = "0.5"},
    {"model.output.sequence.layers", &value_layers, IN_OUTPUT(sequence.layer_count),
     .left_out = "none: a target is one vector or class", .flags = KEY_ADDED,
     .what = "layers that write a message, a target that is a list",
     .example = "[{cell: gru, size: 64}]",
     .more = "They have the keys of `model.layers`, and begin with a vector made of the last "
             "layer's output. They predict each item from those before it, and after classes an end. "
             "The loss is the mean over all: squared, gaussian, softmax or bernoulli."},
    {"model.output.sequence.embedding", &value_size, IN_OUTPUT(sequence.embedding),
     RANGE(0, LAYER_SIZE_MAX), .fallback = "0", WHEN(OUTPUT_TARGET, "given"),
     .flags = KEY_ADDED | KEY_LONG,
     .what = "width of the learned embedding of its classes, 0 = one-hot", .example = "16",
     .more = "Other targets use the embedding of the input."},
    {"model.output.sequence.longest", &value_size, IN_OUTPUT(sequence.longest),
     RANGE(1, LONGEST_MAX), .fallback = "256", .left_out = "that of the input, else 256",
     WHEN(OUTPUT_TARGET, "given"), .flags = KEY_ADDED, .unit = "items",
     .what = "length of the longest target", .example = "256"},
    {RANKING_SCORE, &value_word, IN_RANKING(score), .words = "dot|cosine|order",
     .meanings = "their product, of symbols plus a bias each|the cosine of their angle / "
                 "`temperature`|how far the output's magnitudes exceed the candidate's, as a loss: "
                 "the input is the more general of both", .fallback = "dot", .when = OUTPUT_LOSS,
     .flags = KEY_ADDED, .what = "score of a candidate with the output", .example = "cosine"},
    {"model.output.temperature", &value_real, IN_RANKING(temperature),
     RANGE(1e-3, 1e3), .fallback = "0.1", WHEN(RANKING_SCORE, "cosine"),
     .flags = KEY_ADDED, .what = "divisor of the cosine", .example = "0.1"},
    {RANKING_OBJECTIVE, &value_word, IN_RANKING(objective), .words = "softmax|hinge",
     .meanings = "cross-entropy of the target among all candidates|the sum of max(0, `margin` + "
                 "other score - its score), less its score", .fallback = "softmax",
     .when = OUTPUT_LOSS, .flags = KEY_ADDED, .what = "loss of the scores", .example = "hinge"},
    {"model.output.margin", &value_real, IN_RANKING(margin), RANGE(0, 1e3),
     .fallback = "0.05", WHEN(RANKING_OBJECTIVE, "hinge"), .flags = KEY_ADDED,
     .what = "distance between the target's score and others", .example = "0.05"},
    {"model.output.negatives", &value_size, IN_RANKING(negatives), RANGE(1, NEGATIVES_MAX),
     .when = OUTPUT_LOSS, .flags = KEY_REQUIRED | KEY_ADDED, .unit = "targets",
     .what = "last targets of all streams that a target is ranked among", .example = "100"},
    {"model.output.candidates.kind", &value_word, IN_RANKING(kind),
     .meanings = "a vector of numbers|a symbol, with a learned vector", .when = OUTPUT_LOSS,
     .flags = KEY_REQUIRED | KEY_ADDED, .what = "kind of a target", .example = "real",
     .more = "With `target: next` it is that of the input."},
    {"model.output.candidates.size", &value_size, IN_RANKING(size),
     RANGE(1, INPUT_MAX), .when = OUTPUT_LOSS, .flags = KEY_REQUIRED | KEY_ADDED,
     .what = "numbers in a target, or its alphabet", .example = "784"},
    {"model.output.candidates.shape", &value_shape, IN_RANKING(shape), RANGE(1, INPUT_MAX),
     .left_out = "none", .when = OUTPUT_LOSS, .flags = KEY_ADDED | KEY_LONG,
     .what = "channels, rows and columns of its numbers", .example = "[1, 28, 28]"},
    {"model.output.candidates.layers", &value_layers, IN_RANKING(layer_count), .left_out = "none",
     .when = OUTPUT_LOSS, .flags = KEY_ADDED,
     .what = "layers without a state that read a target of numbers",
     .example = "[{cell: dense, size: 64}]"},

    {"model.output.columns", &value_column_names, IN_OUTPUT(column_count),
     .left_out = "with `next` all real columns, or with `loss: softmax` the one symbol; else none",
     .flags = KEY_ADDED, .what = "names of targets", .example = "[load, temperature]",
     .more = "With `target: next` they are columns of `model.input.columns`. Cycles are allowed, "
             "and their predictions are values of the cycle as sent. With `given` and `later` they "
             "name the numbers of y in order: JSON may use these names, and the number of names is "
             "the size."},
    {"model.output.ahead", &value_ahead, IN_OUTPUT(ahead), RANGE(1, AHEAD_STEPS_MAX),
     .fallback = "1", WHEN(OUTPUT_TARGET, "next"), .flags = KEY_ADDED,
     .what = "horizons: steps from forecast to target", .unit = "steps", .example = "[1, 6, 24]",
     .more = "Each horizon in a list has outputs of its own, one horizon after the other. A step "
             "is scored at each horizon, and learned once the furthest target is known."},
    {"model.output.patience", &value_size, IN_OUTPUT(patience), RANGE(1, PATIENCE_MAX),
     .fallback = "100", WHEN(OUTPUT_TARGET, "later"), .flags = KEY_DIGEST | KEY_LATER,
     .what = "steps of a stream that wait for their labels", .unit = "steps", .example = "100",
     .more = "If one more step arrives, the oldest one closes without a target. Each waiting step "
             "uses as much memory as a step of the window."},
    {"model.output.vocabulary.capacity", &value_size, IN_OUTPUT(vocabulary.capacity),
     RANGE(0, VOCABULARY_MAX), .fallback = "0", WHEN(OUTPUT_LOSS, "softmax"),
     .flags = KEY_ADDED, .unit = "words",
     .what = "names that become classes, in order of appearance, 0 = no vocabulary",
     .example = "100",
     .more = "Targets are then names, such as `\"free\"` in JSON, and `size` must not be given. "
             "Predictions include a class after its first appearance. One more class stands for "
             "all names that have not appeared. With `target: next` use the vocabulary of the "
             "input."},
    {"model.output.vocabulary.unknown", &value_choice, IN_OUTPUT(vocabulary.reject),
     .words = "share|reject",
     .meanings = "it gets the class for unknown names|its example is rejected and counted as "
                 "`vocabulary`", .fallback = "share", WHEN(OUTPUT_LOSS, "softmax"),
     .flags = KEY_ADDED, .what = "treatment of a name beyond the capacity", .example = "share"},
    {"model.output.vocabulary.forget", &value_choice, IN_OUTPUT(vocabulary.lru),
     .words = "none|lru",
     .meanings = "no name is forgotten|a new name replaces the least recently used one and begins "
                 "with starting values", .fallback = "none", WHEN(OUTPUT_LOSS, "softmax"),
     .flags = KEY_ADDED, .what = "name to forget when all classes are in use", .example = "none"},
    {OUTPUT_SCALE, &value_word, IN_OUTPUT(scale), .words = "none|standard",
     .meanings = "numbers are not scaled|each number is (y - mean) / standard deviation, both over "
                 "all targets so far",
     .fallback = "none", .left_out = "that of the input, if the loss supports scaled targets",
     WHEN(OUTPUT_TARGET, "given|later"), .flags = KEY_ADDED,
     .what = "running standardization of the targets in messages", .example = "standard",
     .more = "Predictions and errors are reported in original units. Requires `loss: squared` or "
             "`gaussian`."},
    {"model.output.memory", &value_count, IN_OUTPUT(memory), RANGE(0, MEMORY_MAX),
     .fallback = "0", .left_out = "that of the input, else 0", WHEN(OUTPUT_SCALE, "standard"),
     .flags = KEY_ADDED, .what = "number of targets that mean and deviation remember, 0 = all",
     .unit = "values", .example = "1000"},
    {"model.output.limit", &value_real, IN_OUTPUT(limit), RANGE(0, LIMIT_MAX), .fallback = "0",
     .left_out = "that of the input, else 0", WHEN(OUTPUT_SCALE, "standard"), .flags = KEY_ADDED,
     .what = "largest distance of a target from the mean, in deviations, 0 = no limit",
     .unit = "deviations", .example = "30"},

    {"model.output.relative", &value_truth, IN_OUTPUT(relative), .words = "none|last|ar12",
     .meanings = "the level, in standard deviations|the change from the last value|the change "
                 "relative to the forecast of the expert `ar12`", .fallback = "false",
     .flags = KEY_DIGEST | KEY_CHANGED, .what = "reference value of the targets", .example = "ar12",
     .more = "`true`: the network predicts the difference from the last value. With `target: "
             "given` and `later` this is the last observed target. Published predictions are "
             "values. Requires `loss: squared` or `gaussian`. The words require `scale: forecast`, "
             "where `false` means `none`."},
    {"model.output.skip", &value_boolean, IN_OUTPUT(skip), .fallback = "false",
     .flags = KEY_DIGEST | KEY_CHANGED, .what = "linear path from the input to the output",
     .example = "true", .more = "Always present with `scale: forecast`."},
    {"model.output.readout", &value_choice, IN_OUTPUT(solved), .words = "gradient|rls",
     .meanings = "by the optimizer|by recursive least squares, at each target",
     .fallback = "gradient", .flags = KEY_DIGEST | KEY_CHANGED,
     .what = "method that learns the last layer",
     .example = "rls", .more = "`rls` requires `scale: forecast`."},

    {"model.outputs", &value_outputs, AT(architecture.other_count),
     .left_out = "none: `model.output` is the only one", .flags = KEY_ADDED,
     .what = "several outputs, each with a loss and a target of its own",
     .example = "[{name: next, loss: softmax, target: next}, {name: last, loss: softmax, target: "
                "previous, weight: 0.5}]",
     .more = "Each has a `name` of 1 to 16 letters a-z, digits, '-' and '_', and the keys of "
             "`model.output` except columns, ahead, patience, vocabulary, scale, relative, skip "
             "and readout. At most one has `target: given`. The loss of a step is their sum by "
             "`weight`; published means are those of the first."},

    {"learning.rule", &value_word, AT(learning.rule), .fallback = "tbptt",
     .flags = KEY_DIGEST | KEY_WINDOW | KEY_LATER | KEY_CHANGED,
     .what = "method that computes the gradient of an update", .example = "rtrl",
     .more = "Only `tbptt` uses a window, and a GPU supports only `tbptt`. The other rules work "
             "forward in time: their state of a stream contains the influence of all earlier "
             "steps. See docs/explanation/rules.md for equations, costs and uses."},
    {"learning.window", &value_size, AT(learning.window), RANGE(1, WINDOW_MAX), .fallback = "16",
     .flags = KEY_DIGEST | KEY_WINDOW, .what = "number of steps that the gradient reaches back",
     .unit = "steps", .example = "16",
     .more = "Other values of `learning.rule` than `tbptt` use it only as the default of "
             "`learning.stride`."},
    {"learning.stride", &value_size, AT(learning.stride), RANGE(1, WINDOW_MAX),
     .left_out = "the window", .flags = KEY_DIGEST | KEY_WINDOW,
     .what = "number of steps between two updates", .unit = "steps of one stream", .example = "16",
     .more = "It must not exceed the window with `rule: tbptt`. A stride below the window learns "
             "more from each step and costs window / stride times as much."},
    {KIND, &value_word, AT(learning.optimizer.kind),
     .fallback = "adam", .flags = KEY_DIGEST | KEY_MOMENT, .what = "optimizer", .example = "adam",
     .more = "Each follows the definition in torch.optim; cocob follows its paper."},
    {"learning.optimizer.rate", &value_rate, AT(learning.optimizer.rate), RANGE(0, RATE_MAX),
     .fallback = "0.001", .left_out = "0.001; auto with `cocob`",
     .flags = KEY_IN_FLIGHT | KEY_DECIDES, .what = "learning rate", .example = "0.001",
     .more = "`cocob` requires `auto`, because it has no rate. All others require a number."},
#define KEY_OF_OPTIMIZERS(type, name)                                                              \
    {"learning.optimizer." #name, .offset = AT(learning.optimizer.name), .when = KIND,             \
     .flags = KEY_DIGEST | KEY_MOMENT},
#include "kernels/kinds.def"
    {"learning.optimizer.weight_decay", &value_real, AT(learning.optimizer.weight_decay),
     RANGE(0, DECAY_MAX), .fallback = "0", .flags = KEY_DIGEST | KEY_MOMENT,
     .what = "decay of the parameters towards 0", .example = "0",
     .more = "adamw subtracts it from the parameters, the others add it to the gradient. adamw has "
             "the same default."},
    {"learning.optimizer.pull", &value_real, AT(learning.optimizer.pull), RANGE(0, PULL_MAX),
     .fallback = "0", .when = KIND, .flags = KEY_DIGEST | KEY_WINDOW | KEY_CHANGED,
     .what = "pull of the parameters back towards their starting values", .example = "0.03",
     .more = "Keeps a network able to learn over months. After each step, w becomes w - rate * pull "
             "* (w - w_0): a change that nothing confirms lasts 1 / (rate * pull) updates. Use 3,000 "
             "where much changes, 30,000 where little does. w_0 is the starting value, or an imported "
             "one."},
    {"learning.clip", &value_real, AT(learning.clip), RANGE(0, CLIP_MAX), .fallback = "0",
     .flags = KEY_IN_FLIGHT | KEY_DECIDES, .what = "largest gradient norm, 0 = no clipping",
     .example = "1.0",
     .more = "A gradient whose whole norm is larger is shortened to this norm, as by "
             "torch.nn.utils.clip_grad_norm_. Use it for recurrent networks; 1.0 is a good start. "
             "With `loss: gaussian`, use 0 and a small rate: clipping keeps the predicted "
             "deviation too small."},
    {"learning.max_streams", &value_size, AT(learning.max_streams), RANGE(1, STREAMS_MAX),
     .left_out = "1024; 128 with `scale: forecast`", .flags = KEY_DIGEST,
     .what = "largest number of streams in memory", .unit = "streams", .example = "1024",
     .more = "If one more stream appears, the least recently used one is removed: its hidden state "
             "is lost, the parameters are not."},
    {"learning.threads", &value_threads, AT(threads.count), RANGE(1, THREADS_MAX),
     .fallback = "auto",
     .left_out = "auto: the number of members, at most one less than the number of CPUs or the CPU "
                 "time of the container",
     .what = "number of threads that compute", .unit = "threads", .example = "auto",
     .more = "The learning thread is one of them. Threads compute members in parallel; one large "
             "network is also split among them, a small one is not. The number does not change any "
             "bit, and a GPU ignores it. See docs/measurements/performance.md for the gain."},
    {"learning.pin", &value_pin, AT(threads.pin), .fallback = "false",
     .what = "bind each computing thread to one CPU", .example = "false",
     .more = "`true` uses the first CPUs that the daemon may use (CPUAffinity= in systemd, "
             "taskset). A list names the CPUs: `[2, 3]`, or `\"2-3\"`. The first CPU is for the "
             "learning thread."},

    {"experts", &value_set, AT(experts), .left_out = "all experts", WHEN(INPUT_SCALE, "forecast"),
     .symbols = true, .flags = KEY_DIGEST | KEY_LATER,
     .what = "simple forecasts that are mixed with those of the network", .example = "[last, ar12]",
     .more = "From `orders` on they are those of `preset: symbols`. There `position` and `kneser` "
             "take part from the first symbol on if the list is given, else after 4096 symbols."},
    {"members", &value_members, AT(members_given), WHEN(INPUT_SCALE, "forecast"), .symbols = true,
     .left_out = "one network", .what = "networks that learn the same streams in parallel",
     .example = "[{name: change}, {name: level, set: {model.output.relative: none}}]",
     .more = "Each member has a `name` and may `set` keys of `model.layers`, `model.output` and "
             "`learning`, and `seed`; all other keys are shared. The tensors of a member are named "
             "`members.NAME.*`. With `[]` only the experts forecast; "
             "`preset: symbols` allows at most 4."},
    {"combine", &value_label, AT(combine), .fallback = "mlpoly", WHEN(INPUT_SCALE, "forecast"),
     .symbols = true, .left_out = "mlpoly; logistic with `preset: symbols`",
     .flags = KEY_DIGEST | KEY_LATER, .what = "how the prediction is computed", .example = "mlpoly",
     .more = "`mlpoly` mixes all forecasts by polynomially weighted averages. `average` is their "
             "mean. `best` is the forecast with the lowest smoothed loss. The name of an expert or "
             "a member selects its forecast. With `preset: symbols` it is `logistic`, `experts` "
             "(without networks), or a member's name; without `members` it is `network`."},
    {"memory", &value_size, AT(symbols.memory), RANGE(SYMBOLS_MEMORY_LEAST, 1e12), .fallback = "67108864",
     WHEN("preset", "symbols"), .what = "bytes of the experts' table, a power of two",
     .unit = "bytes", .example = "67108864",
     .more = "With another size the experts start from scratch; the network continues. They need 11 "
             "MiB besides, with symbols other than bytes 15."},
    {"tables", &value_choice, AT(symbols.own), .words = "shared|own",
     .meanings = "all streams share what is learned|each stream has a table of `memory` / "
                 "`learning.max_streams` bytes, at least 64 KiB, and 7 MiB besides",
     .fallback = "shared", WHEN("preset", "symbols"), .flags = KEY_ADDED,
     .what = "tables of the experts", .example = "shared"},
    {"alphabet", &value_choice, AT(symbols.others), .words = "bytes|symbols",
     .meanings = "bytes of texts, with words, fields and lines|any other symbols",
     .fallback = "bytes", .left_out = "bytes with `size: 256`, else symbols",
     WHEN("preset", "symbols"), .flags = KEY_ADDED,
     .what = "kind of the symbols", .example = "bytes"},

    {"distribution.enabled", &value_boolean, AT(distribution.enabled), .fallback = "false",
     .left_out = "false; true with `preset: forecast`", .flags = KEY_DECIDES | KEY_CHANGED,
     .what = "keep a distribution of each forecast", .example = "true",
     .more = "Requires `scale: forecast`. See docs/explanation/forecasts.md. A checkpoint without "
             "distributions is accepted: they start from scratch. About 3 KB for each stream, "
             "column and step ahead."},
    {"distribution.levels", &value_levels, AT(distribution.levels), RANGE(0.0005, 0.9995),
     .left_out = "[0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99]",
     WHEN("distribution.enabled", "true"), .what = "levels of the quantiles in `prediction`",
     .example = "[0.05, 0.5, 0.95]", .more = "With `[]` only scores are published."},

    {ANOMALY, &value_boolean, AT(anomaly.enabled), .fallback = "false",
     .left_out = "false; true with a preset", .flags = KEY_DECIDES | KEY_CHANGED,
     .what = "compute an anomaly score for each example", .example = "true",
     .more = "Each stream and column has a memory of its history; learning does not depend on it. "
             "A checkpoint without scores, or with another `anomaly.memory`, is accepted: memories "
             "are then empty. If only the preset enables scores and they need more than half of "
             "the machine's memory, runneld disables them and logs a warning."},
    {"anomaly.memory", &value_size, AT(anomaly.memory), RANGE(1, CONTEXTS_MAX), .fallback = "4000",
     WHEN(ANOMALY, "true"), .flags = KEY_DECIDES,
     .what = "number of contexts that a column remembers", .unit = "contexts", .example = "4000",
     .more = "Each context uses 36 bytes, and computing time grows with their number. A new one "
             "replaces a random old one."},
    {"anomaly.threshold", &value_real, AT(anomaly.rule.threshold), RANGE(0, SCORE_MAX),
     .fallback = "1.5", WHEN(ANOMALY, "true"), .flags = KEY_IN_FLIGHT | KEY_DECIDES,
     .what = "smallest score that is an alarm", .example = "1.5",
     .more = "A score is -log10 of the frequency of similar values: 2 is ten times as rare as 1."},
    {"anomaly.rest", &value_real, AT(anomaly.rule.rest), RANGE(0, MEMORY_MAX), .fallback = "100",
     WHEN(ANOMALY, "true"), .flags = KEY_DECIDES,
     .what = "number of steps without another alarm after an alarm", .unit = "steps",
     .example = "100"},
    {"anomaly.fatigue", &value_real, AT(anomaly.rule.fatigue), RANGE(0, SCORE_MAX),
     .fallback = "0.2", WHEN(ANOMALY, "true"), .flags = KEY_DECIDES,
     .what = "increase of the threshold after each alarm", .example = "0.2"},
    {"anomaly.recovery", &value_real, AT(anomaly.rule.recovery), RANGE(1, MEMORY_MAX),
     .fallback = "700", WHEN(ANOMALY, "true"), .flags = KEY_DECIDES,
     .what = "number of steps in which that increase falls to 1/e",
     .unit = "steps", .example = "700"},
    {"anomaly.surprise", &value_boolean, AT(anomaly.surprise), .fallback = "false",
     .left_out = "false; true with a preset", WHEN(ANOMALY, "true"), .flags = KEY_DECIDES,
     .what = "also alarm on large forecast errors", .example = "true",
     .more = "These alarms detect spikes, each time. `anomaly.threshold`, `rest`, `fatigue` and "
             "`recovery` apply to novelty only."},
    {"anomaly.surprise_threshold", &value_real, AT(anomaly.surprise_threshold), RANGE(0, SCORE_MAX),
     .fallback = "7", WHEN("anomaly.surprise", "true"), .flags = KEY_DECIDES,
     .what = "smallest surprise that is an alarm", .example = "7",
     .more = "An error within three deviations of the column's values has at most 6."},
    {"anomaly.surprise_rest", &value_real, AT(anomaly.surprise_rest),
     RANGE(SURPRISE_REST_MIN, MEMORY_MAX), .fallback = "20", WHEN("anomaly.surprise", "true"),
     .flags = KEY_DECIDES, .what = "number of steps without another surprise alarm after one",
     .unit = "steps", .example = "20"},
    {"anomaly.level", &value_boolean, AT(anomaly.level), .fallback = "true", WHEN(ANOMALY, "true"),
     .flags = KEY_DECIDES | KEY_CHANGED, .what = "also alarm when columns are unusual together",
     .example = "true",
     .more = "Applies to streams of 2 to 64 real columns with a memory of their own. "
             "`anomaly.threshold`, `rest`, `fatigue` and `recovery` apply as to novelty."},
    {"anomaly.accept", &value_real, AT(anomaly.accept), RANGE(10, 1e9), .fallback = "4000",
     WHEN(ANOMALY, "true"), .flags = KEY_DECIDES | KEY_CHANGED,
     .what = "number of steps in which level forgets half of the earlier normal",
     .unit = "steps", .example = "4000",
     .more = "The larger, the longer it takes until a lasting change is normal. Level starts from "
             "scratch with another value."},
    {"anomaly.shape", &value_share, AT(anomaly.shape), RANGE(0, 10), .fallback = "false",
     WHEN(ANOMALY, "true"), .flags = KEY_DECIDES | KEY_CHANGED,
     .what = "share of new shapes in novelty", .example = "true",
     .more = "Also compares the form of the last 32 to 224 values with up to 1,000 earlier ones, "
             "whatever their level and size. A column takes 0.4 MB more."},
    {"anomaly.rate", &value_alarm_rate, AT(anomaly.rate), .left_out = "alarms by thresholds",
     WHEN(ANOMALY, "true"),
     .what = "number of alarms that a stream may raise on average", .example = "1 per month",
     .more = "Replaces `anomaly.threshold` and `surprise_threshold`, fatigue and recovery: for all "
             "reasons together. A time is that of the data; without it, as long as a stream has no "
             "times, the rate is 1 per 5,000 examples."},
    {"anomaly.share", &value_prefixes, AT(anomaly.share),
     .left_out = "[], one memory for each stream", WHEN(ANOMALY, "true"), .flags = KEY_DECIDES,
     .what = "key prefixes whose streams share one memory", .example = "[web-, db-]",
     .more = "All streams whose keys begin with the same prefix share the memory of their history, "
             "each in its own scale. The longest matching prefix counts. `[\"\"]` means all "
             "streams. A checkpoint with another `anomaly.share` is accepted: memories are then "
             "empty."},
    {"anomaly.group", &value_prefixes, AT(anomaly.group),
     .left_out = "[], one incident for each stream", WHEN(ANOMALY, "true"),
     .what = "key prefixes whose streams form one incident together", .example = "[web-, db-]",
     .more = "An incident of such streams lasts from the begin of the first to the end of the "
             "last. The longest matching prefix counts. `[\"\"]` means all streams."},

    /* Keys that do not affect learning: sockets, access, and files on disk. */
    {"examples.bind", &value_bind, AT(examples.endpoint), .fallback = WIRE_EXAMPLES,
     .what = "endpoint that feeders connect to", .example = WIRE_EXAMPLES},
    {"examples.connect", &value_connect, IN_DRAFT(examples_connect),
     .what = "endpoint of a bound feeder to connect to", .example = "tcp://feeder.example:5570",
     .more = "Replaces `examples.bind`."},
    {"examples.socket", &value_word, AT(examples_socket), .words = "pull|sub|router",
     .meanings = "feeders (PUSH) wait while the daemon is slower|subscribes to everything from a "
                 "PUB socket, and loses examples instead of slowing it down|acknowledges each "
                 "example to its feeder (DEALER) once it is durable; requires `state.journal`",
     .fallback = "pull", .what = "ZeroMQ socket type", .example = "pull"},
    {"examples.steps", &value_choice, AT(many_steps), .words = "one|many",
     .meanings = "a binary message of several steps requires a header. A vector of float64, which "
                 "has the bytes of two steps, is rejected|a binary message may have several steps "
                 "with or without a header",
     .fallback = "one", .what = "steps in a binary message without a header", .example = "one",
     .more = "JSON may always have several steps: a list of lists."},
    {"examples.max_jump", &value_count, AT(max_jump), RANGE(0, COUNT_MAX),
     .fallback = "1000000", .flags = KEY_RELOAD, .unit = "examples", .example = "1000000",
     .what = "largest step from a stream's newest number to the next, 0 = no limit",
     .more = "A larger step is rejected as `sequence_jump`, because it would make all following "
             "examples duplicates. With `pull` and `sub` the example is learned and its number "
             "ignored."},
    {"examples.redis.stream", &value_text, AT(consume.redis.stream),
     .what = "Redis stream that the daemon reads itself", .example = "sensors",
     .more = "Replaces the socket. Requires `state.journal`, which stores the position where "
             "reading resumes."},
    {"examples.redis.partitions", &value_count, AT(consume.redis.partitions),
     RANGE(0, CONFIG_PARTITIONS_MAX), .fallback = "0", .unit = "streams", .example = "0",
     .what = "number of streams STREAM.0, STREAM.1, ... to read in place of STREAM",
     .more = "Writers choose one of N by the FNV-1a hash of 64 bits of the example's key, modulo "
             "N. 0 reads only STREAM."},
    {"examples.redis.url", &value_text, AT(consume.redis.url), .fallback = "redis://127.0.0.1:6379",
     .what = "URL of the server", .example = "redis://127.0.0.1:6379",
     .more = "`redis://HOST:PORT/DATABASE` or `unix:///PATH`."},
    {"examples.redis.group", &value_text, AT(consume.redis.group), .fallback = "runnel",
     .what = "consumer group for acknowledgements of durable examples", .example = "runnel"},
    {"examples.redis.from", &value_choice, AT(consume.redis.latest), .words = "earliest|latest",
     .meanings = "at the first entry|at the first entry after the creation of the group",
     .fallback = "earliest", .what = "position where a new group begins", .example = "earliest"},
    {"examples.redis.user", &value_text, AT(consume.redis.user), .what = "user name on the server",
     .example = "runnel"},
    {"examples.redis.password_file", &value_path, AT(consume.redis.password_file),
     .what = "file whose first line is the password", .example = "/etc/runnel/redis.password"},
    {"examples.kafka.topic", &value_text, AT(consume.kafka.topic),
     .what = "Kafka topic that the daemon reads itself", .example = "sensors",
     .more = "As with `examples.redis.stream`. All partitions are read."},
    {"examples.kafka.brokers", &value_text, AT(consume.kafka.brokers),
     .fallback = "127.0.0.1:9092", .what = "bootstrap servers of the cluster",
     .example = "127.0.0.1:9092", .more = "`HOST:PORT`, several separated by commas."},
    {"examples.kafka.group", &value_text, AT(consume.kafka.group), .fallback = "runnel",
     .what = "consumer group for the offsets of durable examples", .example = "runnel"},
    {"examples.kafka.by_key", &value_boolean, AT(consume.kafka.by_key), .fallback = "false",
     .what = "use the key of a message as the name of its stream", .example = "true",
     .more = "With `false` the topic is the name. A stream named in the message itself takes "
             "precedence."},
    {"examples.kafka.partitioner", &value_word, AT(consume.kafka.partitioner),
     .words = "murmur2|crc32|fnv1a",
     .meanings = "clients in Java, kafka-python|librdkafka and clients based on it|Sarama",
     .fallback = "murmur2", .what = "partitioner of the producers", .example = "murmur2",
     .more = "In a fleet each stream belongs to one partition, and a message in another partition "
             "is a dead letter. A single daemon ignores this key."},
    {"examples.kafka.from", &value_choice, AT(consume.kafka.latest), .words = "earliest|latest",
     .meanings = "at the first message|at the first message after its first connection",
     .fallback = "earliest", .what = "position where a group without offsets begins",
     .example = "earliest"},
    {"examples.kafka.user", &value_text, AT(consume.kafka.user), .what = "user name in the cluster",
     .example = "runnel", .more = "Uses SASL PLAIN over TLS unless `settings` change that."},
    {"examples.kafka.password_file", &value_path, AT(consume.kafka.password_file),
     .what = "file whose first line is the password", .example = "/etc/runnel/kafka.password"},
    {"examples.kafka.settings", &value_prefixes, AT(consume.kafka.settings), .left_out = "[]",
     .what = "settings of librdkafka", .example = "[security.protocol=ssl]",
     .more = "Secrets are not allowed here: use `examples.kafka.password_file`."},
    {"examples.json.field", &value_prefixes, AT(consume.json.field),
     .left_out = "all members that no other key names", .what = "columns and their paths in JSON",
     .example = "[temperature=data.temperature]",
     .more = "With `examples.json` messages of Redis or Kafka are JSON as devices write it, as "
             "with `runnel-feed --field`. A path separates members by dots; elements of lists are "
             "numbered from 0. Other fields are ignored, and one notice lists them."},
    {"examples.json.key_field", &value_text, AT(consume.json.key_field),
     .what = "path of the stream's name", .example = "sensor",
     .left_out = "the name that the broker gives"},
    {"examples.json.time_field", &value_text, AT(consume.json.time_field),
     .what = "path of the time", .example = "ts", .left_out = "the broker's time",
     .more = "ISO 8601, 31/12/2014 15:05, or Unix time in seconds, milliseconds, microseconds or "
             "nanoseconds."},
    {"examples.json.time_format", &value_text, AT(consume.json.time_format),
     .what = "format of that time", .example = "'%d/%m/%Y %H:%M'", .left_out = "automatic",
     .more = "A format of strptime(3), or s, ms, us, ns for Unix time. Without it, an ambiguous "
             "first time, as in 03/04/2026, ends the daemon (78), and nothing is lost; later "
             "ambiguous times are dead letters."},
    {"examples.json.strict", &value_boolean, AT(consume.json.strict), .fallback = "false",
     .what = "reject messages that have other fields", .example = "true"},
    {"fleet.lease", &value_real, AT(fleet.lease), RANGE(0, SECONDS_MAX), .fallback = "0",
     .unit = "seconds", .example = "10",
     .what = "share the partitions of the stream or topic among daemons; seconds until a daemon "
             "without a sign of life loses its partitions, at least 0.5; 0 = no fleet",
     .more = "All daemons with the same `group` of the broker are a fleet. Each has its own name "
             "and state directory; all other keys are the same (docs/explanation/fleets.md)."},
    {"fleet.average.every", &value_count, AT(fleet.average_every), RANGE(0, COUNT_MAX),
     .fallback = "0", .unit = "examples", .example = "10000",
     .what = "number of examples that a daemon learns between two averages of the fleet's "
             "parameters, 0 = never",
     .more = "Learning waits for the other daemons, at most for the duration of the lease."},
    {"statistics.bind", &value_bind, AT(statistics.endpoint), .fallback = WIRE_STATISTICS,
     .what = "endpoint that subscribers connect to", .example = WIRE_STATISTICS},
    {"statistics.connect", &value_connect, IN_DRAFT(statistics_connect),
     .what = "endpoint of a bound proxy to connect to", .example = "tcp://proxy.example:5571",
     .more = "Replaces `statistics.bind`."},
    {"statistics.every", &value_count, AT(statistics_every), RANGE(1, EVERY_MAX), .fallback = "100",
     .flags = KEY_IN_FLIGHT, .what = "examples between two loss messages", .unit = "examples",
     .example = "100", .more = "Messages of the topic `state` are sent together with them."},
    {"statistics.seconds", &value_real, AT(statistics_seconds), RANGE(0, SECONDS_MAX),
     .fallback = "10", .flags = KEY_RELOAD,
     .what = "longest time between two loss messages, 0 = no limit", .unit = "seconds",
     .example = "10",
     .more = "Only if examples were learned since the last message. Slow streams therefore report, "
             "too."},
    {"statistics.predictions", &value_truth, AT(predictions), .words = "all",
     .meanings = "with the forecasts of all experts and members, and their weights",
     .fallback = "false",
     .flags = KEY_RELOAD, .what = "publish every prediction", .example = "false",
     .more = "The topic of these messages is `prediction`. With `preset: symbols`, `all` publishes "
             "those of experts and network only after a restart."},
    {"statistics.vectors", &value_boolean, AT(vectors), .fallback = "false",
     .what = "publish h, which outputs read, of every example: topic `vector`",
     .example = "false"},
    {"statistics.top", &value_count, AT(statistics_top), RANGE(0, CONFIG_TOP_MAX), .fallback = "5",
     .flags = KEY_RELOAD,
     .what = "number of most probable words in a prediction of classes that are words, or of "
             "symbols with `preset: symbols`", .unit = "words", .example = "5",
     .more = "With `preset: symbols` at most 100; a change requires a restart."},
    {"statistics.plasticity", &value_count, AT(statistics_plasticity), RANGE(0, 1000000),
     .fallback = "64", .unit = "updates", .example = "64",
     .what = "updates between two checks of the loss of an update's targets after it, 0 = none",
     .more = "Reported as `plasticity`. Only with `learning.rule: tbptt`."},
    {"control.bind", &value_bind, AT(control.endpoint), .fallback = WIRE_CONTROL,
     .what = "endpoint that controllers connect to", .example = WIRE_CONTROL,
     .more = "`runnel-ctl` is a controller."},
    {"control.connect", &value_connect, IN_DRAFT(control_connect),
     .what = "endpoint of a bound proxy to connect to", .example = "tcp://proxy.example:5572",
     .more = "Replaces `control.bind`."},

    {"publish.mqtt", &value_text, AT(publish.mqtt), .flags = KEY_RELOAD,
     .what = "MQTT broker that `runnel-relay --config` writes to",
     .example = "mqtt://broker.example",
     .more = "`mqtt://HOST:PORT`, `mqtts://HOST:PORT` or `unix:///PATH`. The daemon only checks "
             "`publish`. Predictions require `statistics.predictions`."},
    {"publish.redis", &value_text, AT(publish.redis), .flags = KEY_RELOAD,
     .what = "Redis server that `runnel-relay --config` writes to, in place of an MQTT broker",
     .example = "redis://127.0.0.1:6379",
     .more = "`redis://HOST:PORT/DATABASE` or `unix:///PATH`."},
    {"publish.kafka", &value_text, AT(publish.kafka), .flags = KEY_RELOAD,
     .what = "Kafka servers that `runnel-relay --config` writes to, in place of an MQTT broker",
     .example = "broker.example:9092", .more = "`HOST:PORT`, several separated by commas."},
    {"publish.nats", &value_text, AT(publish.nats), .flags = KEY_RELOAD,
     .what = "NATS server with JetStream that `runnel-relay --config` writes to, in place of an "
             "MQTT broker", .example = "nats://broker.example",
     .more = "`nats://HOST:PORT` or `tls://HOST:PORT`."},
    {"publish.topic", &value_text, AT(publish.topic),
     .left_out = "`runnel/{daemon}/{topic}` for MQTT, `runnel:{topic}` for Redis, `runnel.{topic}` "
                 "for Kafka, `runnel.{daemon}.{topic}` for NATS",
     .flags = KEY_RELOAD, .what = "topic, stream or subject of the published messages",
     .example = "plant/{stream}/forecast",
     .more = "`{stream}`, `{daemon}` and `{topic}` are replaced."},
    {"publish.messages", &value_prefixes, AT(publish.messages), .left_out = "[prediction]",
     .flags = KEY_RELOAD, .what = "topics to publish: prediction, event, loss, state, status",
     .example = "[prediction, event]"},
    {"publish.user", &value_text, AT(publish.user), .flags = KEY_RELOAD,
     .what = "user name on the broker", .example = "runnel"},
    {"publish.password_file", &value_path, AT(publish.password_file), .flags = KEY_RELOAD,
     .what = "file whose first line is the password", .example = "/etc/runnel/broker.password",
     .more = "Only `runnel-relay` reads it."},
    {"publish.credentials", &value_path, AT(publish.credentials), .flags = KEY_RELOAD,
     .what = "NATS: file with the user's JWT and key", .example = "/etc/runnel/nats.creds"},
    {"publish.cafile", &value_path, AT(publish.cafile), .flags = KEY_RELOAD,
     .what = "with TLS: file of the certificate authorities for the broker's certificate",
     .left_out = "the system's authorities", .example = "/etc/runnel/ca.pem",
     .more = "NATS adds them to the system's authorities."},
    {"publish.settings", &value_prefixes, AT(publish.settings), .left_out = "[]",
     .flags = KEY_RELOAD, .what = "Kafka: settings of librdkafka",
     .example = "[security.protocol=ssl]",
     .more = "Secrets are not allowed here, because the log shows changes of a reload: use "
             "`publish.password_file`."},
    {"publish.keep", &value_count, AT(publish.keep), RANGE(0, UINT32_MAX), .fallback = "100000",
     .flags = KEY_RELOAD, .unit = "entries", .example = "100000",
     .what = "Redis: approximate number of entries that a stream keeps, 0 = all"},
    {"publish.buffer", &value_count, AT(publish.buffer), RANGE(1, 1e8), .fallback = "100000",
     .flags = KEY_RELOAD, .unit = "messages", .example = "100000",
     .what = "largest number of messages that wait while the broker is unavailable"},

    {"security.secret", &value_path, AT(security.secret),
     .what = "file of the daemon's secret key", .example = "daemon.secret",
     .more = "All sockets then use CURVE, and clients need the daemon's public key. Only the owner "
             "may have read permission for the file. SIGHUP reads it again; a changed key ends all "
             "connections."},
    {"security.allow.examples", &value_path, AT(security.allow[SOCKET_EXAMPLES]),
     .flags = KEY_RELOAD, .what = "file of the keys that may send examples",
     .example = "examples.keys",
     .more = "A line may end with the streams that its client may send: `streams=host-*,pump-7`. "
             "Group and others must not have write permission for the file or its directory."},
    {"security.allow.statistics", &value_path, AT(security.allow[SOCKET_STATISTICS]),
     .flags = KEY_RELOAD, .what = "file of the keys that may read statistics",
     .example = "statistics.keys"},
    {"security.allow.control", &value_path, AT(security.allow[SOCKET_CONTROL]), .flags = KEY_RELOAD,
     .what = "file of the keys that may send control requests", .example = "control.keys"},
    {"security.insecure", &value_boolean, AT(security.insecure), .fallback = "false",
     .flags = KEY_RELOAD, .what = "allow sockets without keys that other machines can reach",
     .example = "false",
     .more = "For networks where everyone may do everything. `ipc://@NAME` also requires it, "
             "because an abstract socket has no file permissions."},

    {"security.quota.connections", &value_count, AT(security.quota.connections),
     RANGE(0, COUNT_MAX), .fallback = "100", .flags = KEY_RELOAD, .unit = "connections",
     .example = "100", .what = "number of simultaneous connections of one key, 0 = no limit",
     .more = "Counts all three sockets together; a key that many feeders share needs more. The "
             "quotas require `security.secret`. Without `security.allow` they protect little, "
             "because anyone can generate more keys."},
    {"security.quota.bytes", &value_count, AT(security.quota.bytes), RANGE(0, COUNT_MAX),
     .fallback = "268435456", .flags = KEY_RELOAD, .unit = "bytes per second",
     .example = "268435456", .what = "rate of the data that one key sends over tcp, 0 = no limit",
     .more = "Counts all its connections; the burst limit is twice the rate. A connection that "
             "exceeds it is closed."},
    {"security.quota.waiting", &value_count, AT(security.quota.waiting), RANGE(0, COUNT_MAX),
     .fallback = "268435456", .flags = KEY_RELOAD, .unit = "bytes", .example = "268435456",
     .what = "size of the waiting messages of one key, 0 = no limit",
     .more = "The connection of the key with the most waiting data is closed. A feeder over `pull` "
             "loses its messages in transit. Allow 16 MiB for each feeder if the daemon may be "
             "paused."},
    {"security.quota.subscriptions", &value_count, AT(security.quota.subscriptions),
     RANGE(0, COUNT_MAX), .fallback = "1000", .flags = KEY_RELOAD, .unit = "subscriptions",
     .example = "1000", .what = "number of simultaneous subscriptions of one key, 0 = no limit",
     .more = "Counts all its connections. A connection that exceeds it is closed."},
    {"security.quota.requests", &value_count, AT(security.quota.requests), RANGE(0, COUNT_MAX),
     .fallback = "500", .flags = KEY_RELOAD, .unit = "requests per second", .example = "500",
     .what = "rate of control requests of one key, 0 = no limit",
     .more = "The burst limit is twice the rate. Further requests get an error. A connection with "
             "more than ten times this rate is closed."},

    {"state.directory", &value_path, AT(state_directory),
     .left_out = "`$STATE_DIRECTORY` (set by systemd; the first of several), else "
                 "`$XDG_STATE_HOME/runnel/NAME`, else `~/.local/state/runnel/NAME`",
     .what = "directory of checkpoints and journal", .example = "~/.local/state/runnel/reference",
     .more = "Only one daemon may use it at a time."},
    {"state.checkpoint.examples", &value_count, AT(checkpoint.examples), RANGE(0, COUNT_MAX),
     .fallback = "100000", .flags = KEY_RELOAD, .unit = "examples", .example = "100000",
     .what = "examples between two checkpoints, 0 = not by count"},
    {"state.checkpoint.seconds", &value_real, AT(checkpoint.seconds), RANGE(0, SECONDS_MAX),
     .fallback = "60", .flags = KEY_RELOAD, .unit = "seconds", .example = "60",
     .what = "seconds between two checkpoints, 0 = not by time"},
    {"state.checkpoint.keep", &value_count, AT(checkpoint.keep),
     RANGE(CHECKPOINT_KEEP_MIN, CHECKPOINT_KEEP_MAX), .fallback = "2", .flags = KEY_RELOAD,
     .unit = "checkpoints", .example = "2", .what = "number of checkpoints to keep",
     .more = "A rollback returns to one of them. The journal keeps all examples after the oldest "
             "one. With `journal.keep: all` a rollback can also return to the beginning."},
    {"state.journal.enabled", &value_boolean, AT(journal.enabled), .fallback = "true",
     .what = "write learned examples to a journal", .example = "true",
     .more = "Without a journal a killed daemon resumes from its last checkpoint, and an "
             "acknowledgement only confirms that the daemon accepted the example."},
    {"state.journal.sync", &value_word, AT(journal.sync), .words = "full|normal|off",
     .meanings = "a loss of power: the disk is synced before examples are acknowledged|a kill of "
                 "the daemon: the disk is synced periodically, and a loss of power loses the last "
                 "seconds|a kill of the daemon: the disk is never synced, and a loss of power may "
                 "damage the file",
     .fallback = "full", .what = "failure that acknowledged examples survive", .example = "full"},
    {"state.journal.keep", &value_keep, AT(journal.keep), .words = "checkpoint|all",
     .meanings = "examples after the oldest checkpoint that is kept, and at most one block of "
                 "earlier ones|every example",
     .fallback = "checkpoint", .what = "examples to keep in the journal", .example = "checkpoint",
     .more = "With a size (units of 1024: K, M, G and T), a checkpoint removes the oldest examples "
             "of a larger file. Examples in the journal can be replayed to another daemon."},
    {"state.journal.producers.keep", &value_count, AT(journal.producers.keep),
     RANGE(JOURNAL_PRODUCERS_MIN, COUNT_MAX), .fallback = "1000000",
     .unit = "streams of one producer each",
     .what = "number of producers' streams whose sequence numbers are kept", .example = "1000000",
     .more = "Those that were idle longest are removed first. Their earlier examples are then no "
             "longer recognized as duplicates."},
    {"state.journal.producers.days", &value_count, AT(journal.producers.days), RANGE(0, DAYS_MAX),
     .fallback = "90", .unit = "days", .example = "90",
     .what = "number of days after a producer's last example of a stream until its sequence "
             "numbers are removed, 0 = never",
     .more = "Only days while the daemon runs count. A jump of the system clock removes nothing."},
};
/* clang-format on */

const struct config_key *const config_keys = rows;
const size_t config_key_count = sizeof rows / sizeof *rows;
_Static_assert(sizeof rows / sizeof *rows <= CONFIG_KEYS_MAX, "CONFIG_KEYS_MAX is too small");

static void __attribute__((constructor)) describe(void) {
    config_describe_kinds(rows);
}

/* ---- Values of keys ---- */

void config_key_path(const struct config_key *key, size_t layer, char path[CONFIG_KEY_SIZE]) {
    const char *star = strchr(key->path, '*');
    if (star)
        snprintf(path, CONFIG_KEY_SIZE, "%.*s%zu%s", (int)(star - key->path), key->path, layer,
                 star + 1);
    else
        snprintf(path, CONFIG_KEY_SIZE, "%s", key->path);
}

const char *config_word_at(const void *draft, const char *path, size_t layer,
                           char text[CONFIG_TEXT_SIZE]) {
    for (size_t k = 0; k < config_key_count; k++)
        if (!strcmp(rows[k].path, path))
            config_value_print(&rows[k], layer, draft, text, CONFIG_TEXT_SIZE);
    return text;
}

bool config_key_counts(const struct config_key *key, size_t layer, const void *draft) {
    char word[CONFIG_TEXT_SIZE];
    const struct config *config = draft;
    if (key->symbols && config->preset == PRESET_SYMBOLS)
        return key->type != &value_set || !(config->experts >> config_words_count(key->words));
    return !key->when ||
           config_words_contain(key->is, config_word_at(draft, key->when, layer, word), NULL);
}

static uint64_t hash(uint64_t value, const char *text) {
    return hash_bytes(value, text, strlen(text));
}

uint64_t config_digest_of(const void *draft, unsigned flags, unsigned without) {
    uint64_t value = HASH_BEGIN;
    for (const struct config_key *key = rows; key < rows + config_key_count; key++) {
        size_t layers = ((const struct config *)draft)->architecture.layer_count;
        size_t count = config_key_layered(key) ? layers : 1;
        for (size_t n = 0; n < count && key->flags & flags && !(key->flags & without); n++) {
            char path[CONFIG_KEY_SIZE], text[CONFIG_LIST_SIZE];
            if (key->flags & (KEY_LATER | KEY_DECIDES) && !config_key_counts(key, n, draft))
                continue;
            config_key_path(key, n, path);
            config_value_print(key, n, draft, text, sizeof text);
            if (key->flags & KEY_CHANGED && !strcmp(text, key->fallback ? key->fallback : ""))
                continue;
            value = hash(hash(hash(hash(value, path), "="), text), "\n");
        }
    }
    return value;
}
