/* The one table of keys. From it come reading, checking, overrides, the digest, reloading, what
   `runneld --explain` says, the comments of conf/reference.yaml and the keys of runnel.yaml(5).

   The digest follows the table's order, and what decides whether a key counts comes before it.
   Texts are plain sentences; `backquotes` enclose keys and values. */
#include "config_keys.h"

#include <assert.h>

#include "anomaly/anomaly.h"
#include "common/hash.h"
#include "common/threads.h"
#include "common/wire.h"
#include "forecast/forecast.h"

#define AT(member) offsetof(struct draft, config.member)
#define IN_LAYER(member) (AT(architecture.layers) + offsetof(struct layer, member))
#define IN_DRAFT(member) offsetof(struct draft, member)

#define INPUT_SCALE "model.input.scale"
#define LAYER_CELL "model.layers.*.cell"
#define LAYER_NORM "model.layers.*.norm"
#define OUTPUT_LOSS "model.output.loss"
#define OUTPUT_TARGET "model.output.target"
#define OUTPUT_SCALE "model.output.scale"
#define KIND "learning.optimizer.kind"
#define ANOMALY "anomaly.enabled"

#define DAYS_MAX 36500
#define COUNT_MAX CONFIG_COUNT_MAX
#define CONTEXTS_MAX 1e9
#define SCORE_MAX 100
#define COMPONENTS_MAX 1024
#define WINDOW_MAX 65536
#define AHEAD_STEPS_MAX 4096
#define PATIENCE_MAX 65536
#define STREAMS_MAX 1048576
#define TOP_MAX 1000
#define EVERY_MAX 1e9
#define SECONDS_MAX 31536000.0 /* a year */
#define RATE_MAX 100
#define DECAY_MAX 100
#define CLIP_MAX 1e9
#define NORM_STEPS_MAX 4096
#define START_MAX 100 /* of the starting values of gains and biases */

#define RANGE(low, high) .minimum = (low), .maximum = (high)
#define WHEN(path, words) .when = (path), .is = (words)

/* Words and keys of the kinds are told by the kinds: see config_describe_kinds. */
/* clang-format off */
static struct config_key rows[] = {
    {"name", &value_name, AT(name), .flags = KEY_REQUIRED,
     .what = "what this daemon is called", .example = "reference",
     .more = "It is part of messages and of the default of `state.directory`."},
    {"preset", &value_word, AT(preset), .words = "none|forecast",
     .meanings = "nothing but the defaults|what forecasts streams of numbers well without a choice: "
                 "`name` and `model.input.size` are then a whole configuration",
     .fallback = "none", .what = "values of keys that are not given", .example = "forecast",
     .more = "`forecast` is a GRU of 64 units with layer normalization, `scale: forecast`, "
             "`missing: hold`, members `change` and `level`, all experts, window 16, stride 4, Adam "
             "with rate 0.0003, clip 1."},
    {"seed", &value_count, AT(seed), RANGE(0, COUNT_MAX), .fallback = "1", .flags = KEY_DIGEST,
     .what = "seed of the starting weights", .example = "1",
     .more = "The same seed and the same examples in the same order give the same bits on one "
             "machine."},
    {"device", &value_device, AT(device), .fallback = "auto",
     .what = "what computes", .example = "auto",
     .more = "`auto` is a GPU for networks of 300000 parameters and more, where this installation "
             "has an engine for it and one works, else the processor. Members of one shape count "
             "together, divided by the threads that would play them (`learning.threads`); of several shapes "
             "the average counts. `cuda` is the first GPU, as "
             "`cuda:0`. Asking for a GPU where there is none is an error, never a silent "
             "fallback."},

    {"tags", &value_tags, AT(tags), .flags = KEY_RELOAD, .left_out = "none",
     .what = "what runs of this daemon are called by in recordings, beside its name",
     .example = "{site: osaka, run: baseline}",
     .more = "They are part of `status`, and play no role in what is learned."},

    {"model.initial", &value_path, AT(initial), .flags = KEY_FRESH,
     .what = "file of tensors to start from", .example = "start.safetensors",
     .more = "It takes the place of random weights, and is written by `runnel-ctl export` "
             "(safetensors). Of a model with vocabularies it has their words."},
    {"model.input.kind", &value_word, AT(architecture.input.kind),
     .meanings = "a vector of numbers|one number of an alphabet, such as a byte of a text",
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "what an input is", .example = "real"},
    {"model.input.size", &value_size, AT(architecture.input.size), RANGE(1, INPUT_MAX),
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "numbers in an input, or size of the alphabet",
     .example = "8"},
    {"model.input.vocabulary.capacity", &value_size, AT(architecture.input.vocabulary.capacity),
     RANGE(0, VOCABULARY_MAX), .fallback = "0", WHEN("model.input.kind", "symbol"),
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED, .unit = "words",
     .what = "words that get a symbol each, in the order in which they come, 0 = none",
     .example = "1000",
     .more = "Then inputs are words, such as `\"web-3\"` in JSON, and `size` is not given: the "
             "alphabet is these and one more symbol for what is not known. With `target: next` "
             "the words are the classes, too."},
    {"model.input.vocabulary.unknown", &value_choice, AT(architecture.input.vocabulary.reject),
     .words = "share|reject",
     .meanings = "it is the symbol for what is not known|its example is rejected and counted as "
                 "`vocabulary`",
     .fallback = "share", WHEN("model.input.kind", "symbol"),
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "what becomes of a word beyond the capacity", .example = "share"},
    {"model.input.vocabulary.forget", &value_choice, AT(architecture.input.vocabulary.lru),
     .words = "none|lru",
     .meanings = "none is|a new one takes the symbol of the word that was used longest ago, and "
                 "begins with starting values",
     .fallback = "none", WHEN("model.input.kind", "symbol"),
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "which word is forgotten where all symbols are taken", .example = "none"},
    {"model.input.hash", &value_size, AT(architecture.input.hash), RANGE(0, INPUT_MAX),
     .fallback = "0", WHEN("model.input.kind", "symbol"),
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "symbols that words are hashed to, 0 = none are", .unit = "symbols",
     .example = "4096",
     .more = "In place of `size` and `vocabulary`: nothing is remembered, and different words may "
             "be one symbol."},
    {"model.input.embedding", &value_size, AT(architecture.input.embedding),
     RANGE(0, LAYER_SIZE_MAX), .fallback = "0", WHEN("model.input.kind", "symbol"),
     .flags = KEY_DIGEST, .what = "width of the learned embedding, 0 = one-hot", .example = "16",
     .more = "A vector of this width is learned for each symbol."},
    {INPUT_SCALE, &value_word, AT(architecture.input.scale),
     .meanings = "numbers as they come|each number as (x - mean) / standard deviation, both "
                 "running over all examples so far"
                 "|levels, changes and a lag in each stream's own units, with experts beside the "
                 "network",
     .fallback = "none", WHEN("model.input.kind", "real"), .flags = KEY_DIGEST,
     .what = "running standardization of inputs", .example = "standard",
     .more = "Targets of `target: next` are scaled alike; predictions and errors are reported in "
             "original units. One wild finite value stays in the running figures for good unless "
             "`memory` and `limit` are set."},
    {"model.input.memory", &value_count, AT(architecture.input.memory), RANGE(0, MEMORY_MAX),
     .fallback = "0", WHEN("model.input.scale", "standard"),
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "values that mean and deviation remember, 0 = all", .unit = "values",
     .example = "1000",
     .more = "The n-th value counts by 1/n, but never by less than 1/memory: so a new level is "
             "followed, and an old one forgotten."},
    {"model.input.limit", &value_real, AT(architecture.input.limit), RANGE(0, LIMIT_MAX),
     .fallback = "0", WHEN("model.input.scale", "standard"),
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "deviations that a value is away at most, 0 = no limit", .unit = "deviations",
     .example = "30",
     .more = "After a column's first 30 values one that is further away moves mean and deviation "
             "as if it were that far, and no input goes beyond it. Of the first 30, up to three that are a "
             "thousand deviations of all others away are left out once the 30 are complete. Mean and "
             "deviation of the others then count as those of 30 values."},
    {"model.input.missing", &value_choice, AT(architecture.input.hold), .words = "reject|hold",
     .meanings = "the example is rejected and counted|the stream's last value takes its place",
     .fallback = "reject", WHEN("model.input.kind", "real"), .flags = KEY_DIGEST,
     .what = "what becomes of a NaN input", .example = "hold"},
    {"model.input.columns", &value_columns, AT(architecture.input.column_count), .fallback = "",
     .left_out = "none: `kind` and `size` say what an input is",
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "what an input is made of, column by column, in place of `kind` and `size`",
     .example = "[{name: load, kind: real}, {name: host, kind: symbol, size: 8}]",
     .more = "Each has a `name` and a `kind`: `real` (the default) with `scale`, `memory`, `limit` and "
             "`missing` as in `model.input`, which says those that are not given, and `mask: true`; "
             "`symbol` with `size` and `embedding`; `cycle` with `period` and `harmonics`."},

    {"model.input.time", &value_set, AT(architecture.input.time), .words = "gap|day|week|year",
     .meanings = "the logarithm of the time since the stream's last example, standardized|sine and "
                 "cosine of the time of day|of the time of the week|of the time of the year",
     .fallback = CONFIG_EMPTY_SET, .left_out = "[], none",
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "what the network is told of the examples' own time", .example = "[gap, day, week]",
     .more = "These inputs come after all others. An example without a time has 0 in all of them."},
    {"model.input.time_zone", &value_zone, AT(architecture.input.time_zone), .fallback = "UTC",
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "time zone of `day`, `week` and `year` of `model.input.time`",
     .example = "Europe/Berlin",
     .more = "With daylight saving time, as tzdata knows it. The environment's TZ plays no role."},

#define PART_KEY(name, kind, path, otherwise, ...) \
    {path, &value_##kind, AT(parts.name), .fallback = (otherwise), \
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED, __VA_ARGS__},
#include "common/parts.def"

    {LAYER_CELL, &value_word, IN_LAYER(cell),
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "the layer's kind", .example = "lstm"},
    {"model.layers.*.size", &value_size, IN_LAYER(size), RANGE(1, LAYER_SIZE_MAX),
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "units of the layer", .example = "128"},
    {LAYER_NORM, &value_word, IN_LAYER(norm),
     .fallback = "layer", .flags = KEY_DIGEST, .what = "how the layer normalizes its sums", .example = "layer"},
    {"model.layers.*.activation", &value_word, IN_LAYER(activation),
     .fallback = "relu", .when = LAYER_CELL, .flags = KEY_DIGEST,
     .what = "function of a dense layer", .example = "tanh"},
    {"model.layers.*.gain", &value_float, IN_LAYER(gain), RANGE(0, START_MAX), .fallback = "1.0",
     .when = LAYER_NORM, .flags = KEY_DIGEST, .what = "starting value of the gains",
     .example = "1.0"},
    {"model.layers.*.norm_momentum", &value_float, IN_LAYER(norm_momentum), RANGE(0, 1),
     .fallback = "0.01", .when = LAYER_NORM, .flags = KEY_DIGEST | KEY_LATER,
     .what = "share of an update's steps in the running statistics", .example = "0.01"},
    {"model.layers.*.norm_steps", &value_size, IN_LAYER(norm_steps), RANGE(1, NORM_STEPS_MAX),
     .when = LAYER_NORM, .flags = KEY_REQUIRED | KEY_DIGEST | KEY_LATER,
     .what = "first steps of a stream that have statistics of their own", .unit = "steps",
     .example = "16", .more = "The last of them are those of all later steps, too."},
    {"model.layers.*.forget_bias", &value_float, IN_LAYER(forget_bias),
     RANGE(-START_MAX, START_MAX), .fallback = "0.0", .when = LAYER_CELL, .flags = KEY_DIGEST,
     .what = "added to the forget gate's starting bias", .example = "0.0",
     .more = "With 1.0 the cell remembers from the start."},

    {OUTPUT_LOSS, &value_word, AT(architecture.output.loss),
     .flags = KEY_REQUIRED | KEY_DIGEST, .what = "what is minimized", .example = "squared",
     .more = "It also says what a prediction is."},
    {"model.output.size", &value_size, AT(architecture.output.size), RANGE(1, INPUT_MAX),
     .left_out = "3 with `loss: mixture`; else it is required",
     .flags = KEY_DIGEST, .what = "numbers in a target, or classes", .example = "8",
     .more = "With `target: next` it is the input's size; of columns it is known."},
    {"model.output.components", &value_size, AT(architecture.output.components),
     RANGE(1, COMPONENTS_MAX), .when = OUTPUT_LOSS, .flags = KEY_REQUIRED | KEY_DIGEST,
     .what = "normal distributions in the mixture", .example = "20"},
    {OUTPUT_TARGET, &value_word, AT(architecture.output.target),
     .meanings = "in the message, beside the input|the stream's next input"
                 "|in a message of its own, a label, when it is known",
     .fallback = "given", .flags = KEY_DIGEST, .what = "where targets come from",
     .example = "next",
     .more = "With `next`, symbols need `loss: softmax`, real inputs one of the other losses, of "
             "which `bernoulli` and `mixture` need `scale: none`."},

    {"model.output.columns", &value_column_names, AT(architecture.output.column_count),
     .fallback = "",
     .left_out = "of `next` all real columns, with `loss: softmax` the one symbol; else none",
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "names of targets", .example = "[load, temperature]",
     .more = "With `target: next` columns of `model.input.columns`; cycles may be named, and are "
             "then predicted as they came. With `given` and `later` what the numbers of y are "
             "called, in their order: JSON may then name them, and the size is their count."},
    {"model.output.ahead", &value_ahead, AT(architecture.output.ahead), RANGE(1, AHEAD_STEPS_MAX),
     .fallback = "1", WHEN(OUTPUT_TARGET, "next"), .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "how many steps ahead the target is", .unit = "steps", .example = "[1, 6, 24]",
     .more = "With a list each horizon has outputs of its own, one horizon after the other. A step "
             "is scored at each, and learned from once the furthest has come."},
    {"model.output.patience", &value_size, AT(architecture.output.patience), RANGE(1, PATIENCE_MAX),
     .fallback = "100", WHEN(OUTPUT_TARGET, "later"), .flags = KEY_DIGEST | KEY_LATER,
     .what = "steps of a stream that wait for their labels", .unit = "steps", .example = "100",
     .more = "When one more comes, the oldest closes without a target. Each costs memory as a step "
             "of the window does."},
    {"model.output.vocabulary.capacity", &value_size, AT(architecture.output.vocabulary.capacity),
     RANGE(0, VOCABULARY_MAX), .fallback = "0", WHEN(OUTPUT_LOSS, "softmax"),
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED, .unit = "words",
     .what = "names that become classes, in the order in which they come, 0 = none",
     .example = "100",
     .more = "Then targets are names, such as `\"free\"` in JSON, and `size` is not given. A class "
             "takes part in predictions once it has come; until then one more class stands for all "
             "that has not. With `target: next` the input's vocabulary is meant."},
    {"model.output.vocabulary.unknown", &value_choice, AT(architecture.output.vocabulary.reject),
     .words = "share|reject",
     .meanings = "it is the class for what is not known|its example is rejected and counted as "
                 "`vocabulary`",
     .fallback = "share", WHEN(OUTPUT_LOSS, "softmax"),
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "what becomes of a name beyond the capacity", .example = "share"},
    {"model.output.vocabulary.forget", &value_choice, AT(architecture.output.vocabulary.lru),
     .words = "none|lru",
     .meanings = "none is|a new one takes the class of the name that was used longest ago, and "
                 "begins with starting values",
     .fallback = "none", WHEN(OUTPUT_LOSS, "softmax"),
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "which name is forgotten where all classes are taken", .example = "none"},
    {OUTPUT_SCALE, &value_word, AT(architecture.output.scale), .words = "none|standard",
     .meanings = "numbers as they come|each number as (y - mean) / standard deviation, both "
                 "running over all targets so far",
     .fallback = "none", .left_out = "the input's, where the loss has targets that can be scaled",
     WHEN(OUTPUT_TARGET, "given|later"), .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "running standardization of targets that are sent", .example = "standard",
     .more = "Predictions and errors are reported in original units. It needs `loss: squared` or "
             "`gaussian`."},
    {"model.output.memory", &value_count, AT(architecture.output.memory), RANGE(0, MEMORY_MAX),
     .fallback = "0", .left_out = "the input's, else 0", WHEN(OUTPUT_SCALE, "standard"),
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "values that the targets' mean and deviation remember, 0 = all", .unit = "values",
     .example = "1000"},
    {"model.output.limit", &value_real, AT(architecture.output.limit), RANGE(0, LIMIT_MAX),
     .fallback = "0", .left_out = "the input's, else 0", WHEN(OUTPUT_SCALE, "standard"),
     .flags = KEY_DIGEST | KEY_LATER | KEY_CHANGED,
     .what = "deviations that a target is away at most, 0 = no limit", .unit = "deviations",
     .example = "30"},

    {"model.output.relative", &value_truth, AT(architecture.output.relative), .words = "none|last|ar12",
     .meanings = "the level is predicted, in standard deviations|the change from the last value"
                 "|the change, relative to what the expert `ar12` says",
     .fallback = "false", .flags = KEY_DIGEST | KEY_CHANGED, .what = "what targets are relative to",
     .example = "ar12",
     .more = "`true`: the network says the difference from the last value, of `target: given` and "
             "`later` from the last target that was observed; predictions are published as values. "
             "It needs `loss: squared` or `gaussian`. Words need `scale: forecast`, where `false` is "
             "`none`."},
    {"model.output.skip", &value_boolean, AT(architecture.output.skip), .fallback = "false",
     .flags = KEY_DIGEST | KEY_CHANGED, .what = "a linear path from the input to the output",
     .example = "true", .more = "Always there with `scale: forecast`."},
    {"model.output.readout", &value_choice, AT(architecture.output.solved), .words = "gradient|rls",
     .meanings = "by the optimizer|by recursive least squares, at each target",
     .fallback = "gradient", .flags = KEY_DIGEST | KEY_CHANGED, .what = "how the last layer is learned",
     .example = "rls", .more = "`rls` needs `scale: forecast`."},

    {"learning.rule", &value_word, AT(learning.rule), .fallback = "tbptt",
     .flags = KEY_DIGEST | KEY_WINDOW | KEY_LATER | KEY_CHANGED, .what = "how an update comes by its gradient",
     .example = "rtrl",
     .more = "Only `tbptt` has a window, and only it is computed by a GPU. The others go forward in "
             "time: what they keep of a stream has the influence of all steps before. "
             "docs/explanation/rules.md has equations, costs and what each can do."},
    {"learning.window", &value_size, AT(learning.window), RANGE(1, WINDOW_MAX), .fallback = "16",
     .flags = KEY_DIGEST | KEY_WINDOW, .what = "steps that the gradient reaches back", .unit = "steps",
     .example = "16",
     .more = "With a `learning.rule` other than `tbptt` there is no window: then it is the stride "
             "where none is given, and nothing else."},
    {"learning.stride", &value_size, AT(learning.stride), RANGE(1, WINDOW_MAX),
     .left_out = "the window", .flags = KEY_DIGEST | KEY_WINDOW, .what = "steps between two updates",
     .unit = "steps of one stream", .example = "16",
     .more = "At most the window, where the rule has one. A stride below the window learns more from each step and costs "
             "window / stride times as much."},
    {KIND, &value_word, AT(learning.optimizer.kind),
     .fallback = "adam", .flags = KEY_DIGEST | KEY_MOMENT, .what = "the optimizer", .example = "adam",
     .more = "Each is as torch.optim defines it, but for cocob, which is as in its paper."},
    {"learning.optimizer.rate", &value_rate, AT(learning.optimizer.rate), RANGE(0, RATE_MAX),
     .fallback = "0.001", .left_out = "0.001; auto with `cocob`",
     .flags = KEY_IN_FLIGHT | KEY_DECIDES, .what = "learning rate", .example = "0.001",
     .more = "With `kind: cocob`, which has no rate, it is `auto`, with the others a number."},
#define KEY_OF_OPTIMIZERS(type, name)                                                              \
    {"learning.optimizer." #name, .offset = AT(learning.optimizer.name), .when = KIND,             \
     .flags = KEY_DIGEST | KEY_MOMENT},
#include "kernels/kinds.def"
    {"learning.optimizer.weight_decay", &value_real, AT(learning.optimizer.weight_decay),
     RANGE(0, DECAY_MAX), .fallback = "0", .flags = KEY_DIGEST | KEY_MOMENT,
     .what = "pull of the parameters towards 0", .example = "0",
     .more = "adamw takes it off the parameters, the others add it to the gradient. The default "
             "holds for adamw too."},
    {"learning.clip", &value_real, AT(learning.clip), RANGE(0, CLIP_MAX), .fallback = "0",
     .flags = KEY_IN_FLIGHT | KEY_DECIDES, .what = "largest gradient norm, 0 = no clipping", .example = "1.0",
     .more = "It is the norm of the whole gradient: a longer one is shortened to it, as by "
             "torch.nn.utils.clip_grad_norm_. Recurrent networks want it: 1.0 is a good start. "
             "Not so with `loss: gaussian`: there clipping keeps the predicted deviation too small, "
             "and 0 with a small rate is better."},
    {"learning.max_streams", &value_size, AT(learning.max_streams), RANGE(1, STREAMS_MAX),
     .left_out = "1024; 128 with `scale: forecast`", .flags = KEY_DIGEST,
     .what = "streams remembered at once",
     .unit = "streams", .example = "1024",
     .more = "When one more comes, the least recently used is forgotten: its hidden state, not "
             "what was learned from it."},
    {"learning.threads", &value_threads, AT(threads.count), RANGE(1, THREADS_MAX),
     .fallback = "auto", .left_out = "auto: as many as members, at most one less than CPUs, or than those that a container has the time of",
     .what = "threads that compute", .unit = "threads", .example = "auto",
     .more = "The one that learns is among them. Members are computed side by side; a lone large "
             "network is shared by them within each example, a small one is not. No bit depends on "
             "their number, and a GPU needs none. docs/measurements/performance.md says what they are worth."},
    {"learning.pin", &value_pin, AT(threads.pin), .fallback = "false",
     .what = "whether each of them stays on a CPU of its own", .example = "false",
     .more = "`true` takes the first CPUs that the daemon may use (CPUAffinity= of systemd, taskset), "
             "a list these: `[2, 3]`, or `\"2-3\"`. The first is that of the thread that learns."},

    {"experts", &value_set, AT(experts), .left_out = "all of them", WHEN(INPUT_SCALE, "forecast"), .flags = KEY_DIGEST | KEY_LATER,
     .what = "cheap forecasts that are mixed with the network's", .example = "[last, ar12]"},
    {"members", &value_members, AT(members_given), WHEN(INPUT_SCALE, "forecast"),
     .left_out = "one network", .what = "networks that learn the same streams side by side",
     .example = "[{name: change}, {name: level, set: {model.output.relative: none}}]",
     .more = "Each has a `name` and may `set` keys of `model.layers`, `model.output` and `learning`, "
             "and `seed`; the rest is as the configuration says. Their tensors are called "
             "`members.NAME.*`. Without any, `[]`, the experts are alone."},
    {"combine", &value_label, AT(combine), .fallback = "mlpoly", WHEN(INPUT_SCALE, "forecast"),
     .flags = KEY_DIGEST | KEY_LATER, .what = "what the prediction is", .example = "mlpoly",
     .more = "`mlpoly` mixes all by polynomially weighted averages, `average` is their mean, `best` "
             "the one whose smoothed loss is lowest; else the name of an expert or a member."},

    {ANOMALY, &value_boolean, AT(anomaly.enabled), .fallback = "false",
     .left_out = "false; true with `preset: forecast`",
     .flags = KEY_DECIDES | KEY_CHANGED, .what = "score how abnormal each example is", .example = "true",
     .more = "Each stream and column remembers what it was like before; nothing that is learned "
             "depends on it. Where the preset alone has switched it on, it is off, with a warning, "
             "if its memories would take more than half of the machine's. A checkpoint without it, or with another `anomaly.memory`, is taken: "
             "memories then begin anew."},
    {"anomaly.memory", &value_size, AT(anomaly.memory), RANGE(1, CONTEXTS_MAX), .fallback = "4000",
     WHEN(ANOMALY, "true"), .flags = KEY_DECIDES, .what = "contexts that a column remembers", .unit = "contexts",
     .example = "4000",
     .more = "Each takes 36 bytes, and time in proportion. A new one replaces a random old one."},
    {"anomaly.threshold", &value_real, AT(anomaly.rule.threshold), RANGE(0, SCORE_MAX),
     .fallback = "1.5", WHEN(ANOMALY, "true"), .flags = KEY_IN_FLIGHT | KEY_DECIDES,
     .what = "score from which on an example is an alarm", .example = "1.5",
     .more = "A score is -log10 of how often something like it has been, so that 2 is ten times as "
             "rare as 1."},
    {"anomaly.rest", &value_real, AT(anomaly.rule.rest), RANGE(0, MEMORY_MAX), .fallback = "100",
     WHEN(ANOMALY, "true"), .flags = KEY_DECIDES, .what = "steps after an alarm without another", .unit = "steps",
     .example = "100"},
    {"anomaly.fatigue", &value_real, AT(anomaly.rule.fatigue), RANGE(0, SCORE_MAX),
     .fallback = "0.2", WHEN(ANOMALY, "true"), .flags = KEY_DECIDES,
     .what = "how much an alarm adds to the threshold of those after it", .example = "0.2"},
    {"anomaly.recovery", &value_real, AT(anomaly.rule.recovery), RANGE(1, MEMORY_MAX),
     .fallback = "700", WHEN(ANOMALY, "true"), .flags = KEY_DECIDES, .what = "steps until that has gone to 1/e",
     .unit = "steps", .example = "700"},
    {"anomaly.surprise", &value_boolean, AT(anomaly.surprise), .fallback = "false",
     .left_out = "false; true with `preset: forecast`", WHEN(ANOMALY, "true"), .flags = KEY_DECIDES,
     .what = "alarms of forecasts that were far off, too", .example = "true",
     .more = "They find spikes, each time; `anomaly.threshold` and what follows it are of novelty."},
    {"anomaly.surprise_threshold", &value_real, AT(anomaly.surprise_threshold), RANGE(0, SCORE_MAX),
     .fallback = "7", WHEN("anomaly.surprise", "true"), .flags = KEY_DECIDES,
     .what = "surprise from which on an example is an alarm", .example = "7",
     .more = "An error within three deviations of the column's values has at most 6."},
    {"anomaly.surprise_rest", &value_real, AT(anomaly.surprise_rest),
     RANGE(SURPRISE_REST_MIN, MEMORY_MAX), .fallback = "20", WHEN("anomaly.surprise", "true"),
     .flags = KEY_DECIDES,
     .what = "steps after an alarm of surprise without another", .unit = "steps", .example = "20"},
    {"anomaly.share", &value_prefixes, AT(anomaly.share), .left_out = "[], each stream has its own",
     WHEN(ANOMALY, "true"), .flags = KEY_DECIDES, .what = "beginnings of keys whose streams share one memory",
     .example = "[web-, db-]",
     .more = "All streams whose key begins with one of them, the longest that fits, remember in "
             "common what any of them was like, each in its own scale. `[\"\"]`: all streams. A "
             "checkpoint with another `anomaly.share` is taken: memories then begin anew."},

    /* What is not learned: sockets, who may use them, and what is kept on disk. */
    {"examples.bind", &value_bind, AT(examples.endpoint), .fallback = WIRE_EXAMPLES,
     .what = "where feeders connect", .example = WIRE_EXAMPLES},
    {"examples.connect", &value_connect, IN_DRAFT(examples_connect),
     .what = "a bound feeder to connect to", .example = "tcp://feeder.example:5570",
     .more = "In place of `examples.bind`."},
    {"examples.socket", &value_word, AT(examples_socket), .words = "pull|sub|router",
     .meanings = "feeders (PUSH) wait when the daemon is slower"
                 "|subscribes to all of a PUB socket, and loses examples rather than slow it down"
                 "|acknowledges each example to its feeder (DEALER) once it is safe on disk; needs "
                 "`state.journal`",
     .fallback = "pull", .what = "ZeroMQ socket type", .example = "pull"},
    {"examples.steps", &value_choice, AT(many_steps), .words = "one|many",
     .meanings = "a binary message of several steps needs a header: a vector of float64 has the "
                 "bytes of two steps, and is refused"
                 "|a binary message may have several steps with or without a header",
     .fallback = "one", .what = "steps in a binary message without header", .example = "one",
     .more = "JSON may have several steps always: a list of lists."},
    {"examples.max_jump", &value_count, AT(max_jump), RANGE(0, COUNT_MAX),
     .fallback = "1000000", .flags = KEY_RELOAD, .unit = "examples", .example = "1000000",
     .what = "largest step from a stream's newest number to the next, 0 = no limit",
     .more = "A number further above it is refused as `sequence_jump`: whoever sends it would make "
             "all that follows a duplicate. With `pull` and `sub` the example is learned, and its "
             "number ignored."},
    {"examples.redis.stream", &value_text, AT(consume.redis.stream),
     .what = "stream of Redis that the daemon reads itself", .example = "sensors",
     .more = "In place of the socket. Where reading resumes is in the journal; `state.journal` is "
             "needed."},
    {"examples.redis.partitions", &value_count, AT(consume.redis.partitions),
     RANGE(0, CONFIG_PARTITIONS_MAX), .fallback = "0", .unit = "streams", .example = "0",
     .what = "streams STREAM.0, STREAM.1, ... in place of the one",
     .more = "Whoever writes chooses among N by the example's key: its FNV-1a hash of 64 bits, "
             "modulo N. 0: the one stream."},
    {"examples.redis.url", &value_text, AT(consume.redis.url), .fallback = "redis://127.0.0.1:6379",
     .what = "the server", .example = "redis://127.0.0.1:6379",
     .more = "`redis://HOST:PORT/DATABASE` or `unix:///PATH`."},
    {"examples.redis.group", &value_text, AT(consume.redis.group), .fallback = "runnel",
     .what = "consumer group that is told what is durable", .example = "runnel"},
    {"examples.redis.from", &value_choice, AT(consume.redis.latest), .words = "earliest|latest",
     .meanings = "with the first entry|with what comes after it was made", .fallback = "earliest",
     .what = "where a group begins that is new", .example = "earliest"},
    {"examples.redis.user", &value_text, AT(consume.redis.user), .what = "whom the server knows",
     .example = "runnel"},
    {"examples.redis.password_file", &value_path, AT(consume.redis.password_file),
     .what = "file whose first line is the password", .example = "/etc/runnel/redis.password"},
    {"examples.kafka.topic", &value_text, AT(consume.kafka.topic),
     .what = "topic of Kafka that the daemon reads itself", .example = "sensors",
     .more = "As `examples.redis.stream`; all its partitions are read."},
    {"examples.kafka.brokers", &value_text, AT(consume.kafka.brokers),
     .fallback = "127.0.0.1:9092", .what = "servers of the cluster to ask first",
     .example = "127.0.0.1:9092", .more = "`HOST:PORT`, several with commas between them."},
    {"examples.kafka.group", &value_text, AT(consume.kafka.group), .fallback = "runnel",
     .what = "consumer group that is told what is durable", .example = "runnel"},
    {"examples.kafka.by_key", &value_boolean, AT(consume.kafka.by_key), .fallback = "false",
     .what = "a message's key names its stream", .example = "true",
     .more = "`false`: its topic does. The stream that the message itself names comes first."},
    {"examples.kafka.partitioner", &value_word, AT(consume.kafka.partitioner),
     .words = "murmur2|crc32|fnv1a",
     .meanings = "clients in Java, kafka-python|librdkafka and what is built on it|Sarama",
     .fallback = "murmur2", .what = "how those who write choose a partition by the key",
     .example = "murmur2",
     .more = "In a fleet each stream belongs to one partition, and a message elsewhere is a dead "
             "letter; a lone daemon does not look at this."},
    {"examples.kafka.from", &value_choice, AT(consume.kafka.latest), .words = "earliest|latest",
     .meanings = "with the first message|with what comes after its first connection",
     .fallback = "earliest", .what = "where a group begins that has committed nothing",
     .example = "earliest"},
    {"examples.kafka.user", &value_text, AT(consume.kafka.user), .what = "whom the cluster knows",
     .example = "runnel", .more = "With SASL PLAIN over TLS unless `settings` say otherwise."},
    {"examples.kafka.password_file", &value_path, AT(consume.kafka.password_file),
     .what = "file whose first line is the password", .example = "/etc/runnel/kafka.password"},
    {"examples.kafka.settings", &value_prefixes, AT(consume.kafka.settings), .left_out = "[]",
     .what = "settings of librdkafka's", .example = "[security.protocol=ssl]",
     .more = "None with a secret in it: the password is in `examples.kafka.password_file`."},
    {"examples.json.field", &value_prefixes, AT(consume.json.field),
     .left_out = "all members that no other key names", .what = "columns and where they are in JSON",
     .example = "[temperature=data.temperature]",
     .more = "With `examples.json` messages of Redis or Kafka are JSON as devices write it, as with "
             "`runnel-feed --field`. A path has dots between members, and numbers from 0 for elements "
             "of lists. Other fields are ignored, which one notice reports."},
    {"examples.json.key_field", &value_text, AT(consume.json.key_field),
     .what = "path of the stream's name", .example = "sensor",
     .left_out = "the broker names the stream"},
    {"examples.json.time_field", &value_text, AT(consume.json.time_field),
     .what = "path of the time", .example = "ts", .left_out = "the broker's time",
     .more = "ISO 8601, 31/12/2014 15:05, or Unix time in seconds, milliseconds, microseconds or "
             "nanoseconds."},
    {"examples.json.time_format", &value_text, AT(consume.json.time_format),
     .what = "how that time is written", .example = "'%d/%m/%Y %H:%M'", .left_out = "as it looks",
     .more = "A format of strptime(3), or s, ms, us, ns of Unix time. Without it the daemon ends (78) "
             "when the first time has two meanings, as 03/04/2026, and nothing is lost; later ones are "
             "dead letters."},
    {"examples.json.strict", &value_boolean, AT(consume.json.strict), .fallback = "false",
     .what = "reject messages that have other fields", .example = "true"},
    {"fleet.lease", &value_real, AT(fleet.lease), RANGE(0, SECONDS_MAX), .fallback = "0",
     .unit = "seconds", .example = "10",
     .what = "share the partitions of the stream or topic out among daemons; seconds after which "
             "one that is silent has lost its own, at least 0.5; 0 = alone",
     .more = "All daemons with one `group` of the broker's are a fleet: each has a name and a state "
             "directory of its own, and all else in common (docs/explanation/fleets.md)."},
    {"fleet.average.every", &value_count, AT(fleet.average_every), RANGE(0, COUNT_MAX),
     .fallback = "0", .unit = "examples", .example = "10000",
     .what = "examples that a daemon learns between two averages of the fleet's parameters, 0 = none",
     .more = "Learning waits for the other daemons then, for as long as the lease at most."},
    {"statistics.bind", &value_bind, AT(statistics.endpoint), .fallback = WIRE_STATISTICS,
     .what = "where subscribers connect", .example = WIRE_STATISTICS},
    {"statistics.connect", &value_connect, IN_DRAFT(statistics_connect),
     .what = "a bound proxy to connect to", .example = "tcp://proxy.example:5571",
     .more = "In place of `statistics.bind`."},
    {"statistics.every", &value_count, AT(statistics_every), RANGE(1, EVERY_MAX),
     .fallback = "100", .flags = KEY_IN_FLIGHT, .what = "examples between two loss messages",
     .unit = "examples", .example = "100",
     .more = "Messages of the topic `state` come with those of `loss`."},
    {"statistics.seconds", &value_real, AT(statistics_seconds), RANGE(0, SECONDS_MAX),
     .fallback = "10", .flags = KEY_RELOAD, .what = "seconds after which a loss message comes anyhow, "
     "0 = not by time", .unit = "seconds", .example = "10",
     .more = "Only where examples have been learned since the last one: a slow stream is seen, too."},
    {"statistics.predictions", &value_truth, AT(predictions), .words = "all",
     .meanings = "with what each expert and member says, and their weights", .fallback = "false",
     .flags = KEY_RELOAD, .what = "publish every prediction", .example = "false",
     .more = "They have a topic of their own, `prediction`."},
    {"statistics.top", &value_count, AT(statistics_top), RANGE(1, TOP_MAX), .fallback = "5",
     .flags = KEY_RELOAD, .what = "most probable words in a prediction of classes that are words",
     .unit = "words", .example = "5"},
    {"control.bind", &value_bind, AT(control.endpoint), .fallback = WIRE_CONTROL,
     .what = "where controllers connect", .example = WIRE_CONTROL,
     .more = "`runnel-ctl` is one."},
    {"control.connect", &value_connect, IN_DRAFT(control_connect),
     .what = "a bound proxy to connect to", .example = "tcp://proxy.example:5572",
     .more = "In place of `control.bind`."},

    {"publish.mqtt", &value_text, AT(publish.mqtt), .flags = KEY_RELOAD,
     .what = "the broker of MQTT that `runnel-relay --config` writes to",
     .example = "mqtt://broker.example",
     .more = "`mqtt://HOST:PORT`, `mqtts://HOST:PORT` or `unix:///PATH`. The daemon itself does "
             "nothing with `publish`, but checks it; it needs `statistics.predictions`."},
    {"publish.redis", &value_text, AT(publish.redis), .flags = KEY_RELOAD,
     .what = "in its place, Redis", .example = "redis://127.0.0.1:6379",
     .more = "`redis://HOST:PORT/DATABASE` or `unix:///PATH`."},
    {"publish.kafka", &value_text, AT(publish.kafka), .flags = KEY_RELOAD,
     .what = "in its place, servers of a cluster of Kafka", .example = "broker.example:9092",
     .more = "`HOST:PORT`, several with commas between them."},
    {"publish.nats", &value_text, AT(publish.nats), .flags = KEY_RELOAD,
     .what = "in its place, NATS with JetStream", .example = "nats://broker.example",
     .more = "`nats://HOST:PORT` or `tls://HOST:PORT`."},
    {"publish.topic", &value_text, AT(publish.topic),
     .left_out = "`runnel/{daemon}/{topic}` of MQTT, `runnel:{topic}` of Redis, `runnel.{topic}` of "
                 "Kafka, `runnel.{daemon}.{topic}` of NATS",
     .flags = KEY_RELOAD, .what = "where messages go", .example = "plant/{stream}/forecast",
     .more = "`{stream}`, `{daemon}` and `{topic}` are replaced."},
    {"publish.messages", &value_prefixes, AT(publish.messages), .left_out = "[prediction]",
     .flags = KEY_RELOAD, .what = "what is written: prediction, event, loss, state, status",
     .example = "[prediction, event]"},
    {"publish.user", &value_text, AT(publish.user), .flags = KEY_RELOAD,
     .what = "whom the broker knows", .example = "runnel"},
    {"publish.password_file", &value_path, AT(publish.password_file), .flags = KEY_RELOAD,
     .what = "file whose first line is the password", .example = "/etc/runnel/broker.password",
     .more = "`runnel-relay` reads it, the daemon does not."},
    {"publish.credentials", &value_path, AT(publish.credentials), .flags = KEY_RELOAD,
     .what = "NATS: file of the user's JWT and key", .example = "/etc/runnel/nats.creds"},
    {"publish.cafile", &value_path, AT(publish.cafile), .flags = KEY_RELOAD,
     .what = "with TLS: file of those who may have signed the broker's certificate",
     .left_out = "those of the system", .example = "/etc/runnel/ca.pem",
     .more = "NATS: beside those of the system."},
    {"publish.settings", &value_prefixes, AT(publish.settings), .left_out = "[]",
     .flags = KEY_RELOAD, .what = "Kafka: settings of librdkafka's",
     .example = "[security.protocol=ssl]",
     .more = "None with a secret in it, since the log shows what a reload changes: the password is in "
             "`publish.password_file`."},
    {"publish.keep", &value_count, AT(publish.keep), RANGE(0, UINT32_MAX), .fallback = "100000",
     .flags = KEY_RELOAD, .unit = "entries", .example = "100000",
     .what = "Redis: about so many entries a stream keeps, 0 = all"},
    {"publish.buffer", &value_count, AT(publish.buffer), RANGE(1, 1e8), .fallback = "100000",
     .flags = KEY_RELOAD, .unit = "messages", .example = "100000",
     .what = "messages that wait while the broker is away"},

    {"security.secret", &value_path, AT(security.secret),
     .what = "file of the daemon's secret key", .example = "daemon.secret",
     .more = "With it every socket speaks CURVE, and clients must know the daemon's public key. "
             "Only its owner may be able to read the file. Another key in it is taken on SIGHUP, and "
             "ends all connections."},
    {"security.allow.examples", &value_path, AT(security.allow[SOCKET_EXAMPLES]),
     .flags = KEY_RELOAD, .what = "file of the keys that may send examples", .example = "examples.keys",
     .more = "A line may end with the streams that its client sends: `streams=host-*,pump-7`. "
             "Group and others may be able to write neither a list nor its directory."},
    {"security.allow.statistics", &value_path, AT(security.allow[SOCKET_STATISTICS]),
     .flags = KEY_RELOAD, .what = "file of the keys that may read statistics", .example = "statistics.keys"},
    {"security.allow.control", &value_path, AT(security.allow[SOCKET_CONTROL]),
     .flags = KEY_RELOAD, .what = "file of the keys that may control", .example = "control.keys"},
    {"security.insecure", &value_boolean, AT(security.insecure), .fallback = "false",
     .flags = KEY_RELOAD, .what = "bind beyond this machine without keys", .example = "false",
     .more = "For networks where everybody may do everything. `ipc://@NAME`, which has no file "
             "and so no mode, needs it too."},

    {"security.quota.connections", &value_count, AT(security.quota.connections),
     RANGE(0, COUNT_MAX), .fallback = "100", .flags = KEY_RELOAD, .unit = "connections",
     .example = "100", .what = "connections that one key may have at once, 0 = any number",
     .more = "To all three sockets together; a key that many feeders share needs more. It and the "
             "other quotas count where there is `security.secret`, and mean little without "
             "`security.allow`: then anybody may generate more keys."},
    {"security.quota.bytes", &value_count, AT(security.quota.bytes), RANGE(0, COUNT_MAX),
     .fallback = "268435456", .flags = KEY_RELOAD, .unit = "bytes per second",
     .example = "268435456", .what = "what one key may send over tcp, 0 = as much as it likes",
     .more = "Over all its connections, and twice as much at once. A connection that brings more "
             "is ended."},
    {"security.quota.waiting", &value_count, AT(security.quota.waiting), RANGE(0, COUNT_MAX),
     .fallback = "268435456", .flags = KEY_RELOAD, .unit = "bytes", .example = "268435456",
     .what = "messages that wait of one key, 0 = no limit",
     .more = "Its connection with the most is ended. A feeder over `pull` loses what was on its way: "
             "while the daemon is paused it should have room for all of them, 16 MiB each."},
    {"security.quota.subscriptions", &value_count, AT(security.quota.subscriptions),
     RANGE(0, COUNT_MAX), .fallback = "1000", .flags = KEY_RELOAD, .unit = "subscriptions",
     .example = "1000", .what = "what one key may subscribe to at once, 0 = any number",
     .more = "Over all its connections. A connection that subscribes to more is ended."},
    {"security.quota.requests", &value_count, AT(security.quota.requests), RANGE(0, COUNT_MAX),
     .fallback = "500", .flags = KEY_RELOAD, .unit = "requests per second", .example = "500",
     .what = "control requests that one key may make, 0 = any number",
     .more = "And twice as many at once. The answer to more is an error; a connection that makes "
             "more than ten times as many is ended."},

    {"state.directory", &value_path, AT(state_directory),
     .left_out = "`$STATE_DIRECTORY` (systemd sets it; the first of several), else "
                 "`$XDG_STATE_HOME/runnel/NAME`, else `~/.local/state/runnel/NAME`",
     .what = "where checkpoints are kept", .example = "~/.local/state/runnel/reference",
     .more = "One daemon alone may use it."},
    {"state.checkpoint.examples", &value_count, AT(checkpoint.examples), RANGE(0, COUNT_MAX),
     .fallback = "100000", .flags = KEY_RELOAD, .unit = "examples", .example = "100000",
     .what = "examples between two checkpoints, 0 = not by count"},
    {"state.checkpoint.seconds", &value_real, AT(checkpoint.seconds), RANGE(0, SECONDS_MAX),
     .fallback = "60", .flags = KEY_RELOAD, .unit = "seconds", .example = "60",
     .what = "seconds between two checkpoints, 0 = not by time"},
    {"state.checkpoint.keep", &value_count, AT(checkpoint.keep),
     RANGE(CHECKPOINT_KEEP_MIN, CHECKPOINT_KEEP_MAX), .fallback = "2",
     .flags = KEY_RELOAD, .unit = "checkpoints", .example = "2",
     .what = "how many checkpoints are kept",
     .more = "A rollback goes back to one of them, and the journal keeps what was learned after the "
             "oldest of them. With `journal.keep: all` it can go back to the beginning too."},
    {"state.journal.enabled", &value_boolean, AT(journal.enabled), .fallback = "true",
     .what = "write what is learned to a journal", .example = "true",
     .more = "Without it a daemon that is killed resumes from its last checkpoint, and an "
             "acknowledgement says only that the example was taken."},
    {"state.journal.sync", &value_word, AT(journal.sync), .words = "full|normal|off",
     .meanings = "a loss of power: the disk is synced before examples are acknowledged"
                 "|a kill of the daemon: the disk is synced now and then, and a loss of power "
                 "takes the last seconds"
                 "|a kill of the daemon: the disk is never synced, and a loss of power may damage "
                 "the file",
     .fallback = "full", .what = "what an acknowledged example outlives", .example = "full"},
    {"state.journal.keep", &value_keep, AT(journal.keep), .words = "checkpoint|all",
     .meanings = "those after the oldest checkpoint that is kept, and at most a block of those before"
                 "|every example",
     .fallback = "checkpoint", .what = "which examples stay in the journal",
     .example = "checkpoint",
     .more = "With a size (units of 1024: K, M, G and T) the oldest are dropped at a checkpoint "
             "once the file holds more. What is kept can be replayed to another daemon."},
    {"state.journal.producers.keep", &value_count, AT(journal.producers.keep),
     RANGE(JOURNAL_PRODUCERS_MIN, COUNT_MAX), .fallback = "1000000", .unit = "streams of a producer each",
     .what = "streams of producers whose numbers are kept", .example = "1000000",
     .more = "The ones that have been idle longest go first: what they sent before is no duplicate "
             "any more."},
    {"state.journal.producers.days", &value_count, AT(journal.producers.days), RANGE(0, DAYS_MAX),
     .fallback = "90", .unit = "days", .example = "90",
     .what = "days after a producer's last example of a stream until its numbers there go, 0 = never",
     .more = "Days while the daemon runs: a clock of the system that jumps makes nothing old."},
};
/* clang-format on */

const struct config_key *const config_keys = rows;
const size_t config_key_count = sizeof rows / sizeof *rows;
_Static_assert(sizeof rows / sizeof *rows <= CONFIG_KEYS_MAX, "places are too few");

/* ---- What the kinds say of themselves ----

   Cells, norms, losses, optimizers and learning rules (kernels/kinds.def) and experts
   (forecast/experts.def) put into the rows the words that name them, and all but path, place and
   flags of their own keys. */

static const char *__attribute__((format(printf, 1, 2))) keep(const char *format, ...) {
    enum { ARENA_SIZE = 1 << 16 };
    static char arena[ARENA_SIZE];
    static size_t used;
    char *text = arena + used;
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(text, sizeof arena - used, format, arguments) + 1;
    va_end(arguments);
    assert(used < sizeof arena);
    return text;
}

/* One more part, after a '|': none has one of its own. */
static void add(const char **list, const char *part) {
    assert(!strchr(part, '|'));
    *list = *list ? keep("%s|%s", *list, part) : part;
}

static struct config_key *row_of(const char *section, const char *name) {
    size_t length = strlen(section);
    for (size_t k = 0; k < config_key_count; k++)
        if (config_path_below(rows[k].path, section) && !strcmp(rows[k].path + length + 1, name))
            return &rows[k];
    assert(!"a kind names a key that has no row");
    return NULL;
}

static void describe(struct config_key *row, const struct kind_key *key) {
    row->type = key->boolean ? &value_boolean : &value_real;
    row->minimum = key->minimum;
    row->maximum = key->maximum;
    row->flags |= key->below ? KEY_BELOW : 0;
    row->fallback = key->fallback;
    row->what = key->what;
    row->more = key->more;
    row->example = key->example;
}

/* Another kind means something else by the key: the row allows what either does, and the rules
   between keys hold each to its own. */
static void widen(struct config_key *row, const struct kind_key *key, const char *kind) {
    if (!strcmp(row->what, key->what) && !strcmp(row->fallback, key->fallback) &&
        row->minimum == key->minimum && row->maximum == key->maximum)
        return;
    row->minimum = key->minimum < row->minimum ? key->minimum : row->minimum;
    if (key->maximum > row->maximum) {
        row->maximum = key->maximum;
        row->flags &= ~(unsigned)KEY_BELOW;
        row->flags |= key->below ? KEY_BELOW : 0;
    }
    row->what = keep("%s; with `%s` %s", row->what, kind, key->what);
    row->left_out = keep("%s; %s with `%s`", row->fallback, key->fallback, kind);
    if (row->more && key->more)
        row->more = keep("%s %s", row->more, key->more);
    else if (key->more)
        row->more = key->more;
}

/* One more word that a row allows, and its meaning. */
static void add_word(const char *section, const char *name, const char *word, const char *meaning) {
    struct config_key *row = row_of(section, name);
    add(&row->words, word);
    if (meaning)
        add(&row->meanings, meaning);
}

static void add_layer_kind(const char *key, const struct layer_kind *kind) {
    static const char layers[] = "model.layers.*";
    add_word(layers, key, kind->name, kind->what);
    for (size_t k = 0; k < LAYER_KEYS_MAX && kind->keys[k]; k++)
        add(&row_of(layers, kind->keys[k])->is, kind->name);
}

static void add_optimizer(const struct optimizer_kind *kind) {
    static const char section[] = "learning.optimizer";
    add_word(section, "kind", kind->name, kind->what);
    for (const struct kind_key *key = kind->keys; key->name; key++) {
        struct config_key *row = row_of(section, key->name);
        if (row->what)
            widen(row, key, kind->name);
        else
            describe(row, key);
        add(&row->is, kind->name);
    }
}

static void __attribute__((constructor)) describe_kinds(void) {
    static const char input[] = "model.input", output[] = "model.output";
    struct config_key *experts = rows;
    const char *name;
    while (strcmp(experts->path, "experts") != 0)
        experts++;
    for (unsigned n = 0; (name = input_kind_name(n)); n++)
        add_word(input, "kind", name, NULL);
    for (unsigned n = 0; (name = input_scale_name(n)); n++)
        add_word(input, "scale", name, NULL);
    for (unsigned n = 0; (name = target_name(n)); n++)
        add_word(output, "target", name, NULL);
    for (unsigned n = 0; n < CELLS; n++)
        add_layer_kind("cell", &cell_kind(n)->kind);
    for (unsigned n = 0; n < NORMS; n++)
        add_layer_kind("norm", &norm_kind(n)->kind);
    for (unsigned n = 0; n < ACTIVATIONS; n++)
        add_layer_kind("activation", &activation_kind(n)->kind);
    for (unsigned n = 0; n < LOSSES; n++) {
        const struct loss_kind *kind = loss_kind(n);
        add_word(output, "loss", kind->name, kind->what);
        if (loss_has_components(kind))
            add(&row_of(output, "components")->is, kind->name);
    }
    for (unsigned n = 0; n < OPTIMIZERS; n++)
        add_optimizer(optimizer_kind(n));
    for (unsigned n = 0; n < RULES; n++)
        add_word("learning", "rule", rule_kind(n)->name, rule_kind(n)->what);
#define EXPERT(name, what, ...) add(&experts->words, #name), add(&experts->meanings, what);
#include "forecast/experts.def"
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
            if (key->flags & KEY_CHANGED && !strcmp(text, key->fallback))
                continue;
            value = hash(hash(hash(hash(value, path), "="), text), "\n");
        }
    }
    return value;
}
