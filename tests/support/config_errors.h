/* Every error of the configuration, word for word: a text or an override, and its error. For
   test_config_errors.c; config_testing.h defines MODEL, BASE and NEXT. */
#ifndef RUNNEL_CONFIG_ERRORS_H
#define RUNNEL_CONFIG_ERRORS_H

#define TOP                                                                                        \
    "name, preset, seed, device, device_scope, tags, model, learning, experts, members, combine, " \
    "memory, tables, alphabet, distribution, anomaly, examples, fleet, statistics, control, "      \
    "publish, security, state"
#define OPTIMIZER "kind, rate, momentum, nesterov, alpha, beta1, beta2, epsilon, weight_decay, pull"
#define NAME "expected 1 to 64 letters, digits, '-', '_' and '.' (name of this daemon), got "
#define SEED                                                                                       \
    "expected a whole number from 0 to 9007199254740991 (seed of the starting weights), got "
#define DEVICE                                                                                     \
    "expected auto, cpu, cuda or cuda:N with N from 0 to 255 (device that computes), got "
#define CLIP "expected a number from 0 to 1000000000 (largest gradient norm, 0 = no clipping), got "
#define BIND                                                                                       \
    "expected tcp://HOST:PORT or ipc://PATH of at most 107 bytes (endpoint that feeders connect "  \
    "to), got "
#define CONNECT                                                                                    \
    "expected tcp://HOST:PORT or ipc://PATH of at most 107 bytes, without '*' (endpoint of a "     \
    "bound feeder to connect to), got "
#define RULE_WORDS "tbptt, rtrl, snap1 or eprop"
#define COLUMNS(layer)                                                                             \
    "name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: " layer "}]\n"             \
    "  output: {loss: squared, size: 2}\n"
#define LAYERS "a list of 1 to 16 layers"
#define LAYER                                                                                      \
    "cell, size, channels, kernel, stride, norm, norm_groups, activation, taps, dilation, "        \
    "residual, gain, norm_momentum, "                                                              \
    "norm_steps, forget_bias, recurrent, memory, radius"
#define IMAGES(input, layers, more)                                                                \
    "name: a\nmodel:\n  input: {kind: real, " input "}\n  layers: [" layers "]\n"                  \
    "  output: {loss: squared, size: 2}\n" more
#define CONV "{cell: conv, channels: 4, kernel: 5, stride: 2"
#define JSON(keys)                                                                                 \
    NEXT("columns: [{name: t}]", "loss: squared")                                                  \
    "examples: {redis: {stream: s}, json: {" keys "}}\n"
#define SYMBOLS(input, rest) "name: a\npreset: symbols\nmodel: {input: {" input "}}\n" rest
#define X32 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

/* A text, and its error after the name of the file: ":LINE:COLUMN: KEY: ...". "..." at the end
   stands for any words. */
static const struct {
    const char *text, *sentence;
} wrong_files[] = {
    /* preset: symbols. */
    {SYMBOLS("vocabulary: {capacity: 9, forget: lru}", ""),
     ":3:51: model.input.vocabulary.forget: expected none with preset: symbols, got lru: the "
     "counts "
     "of a forgotten word would be its successor's; raise capacity instead"},
    {SYMBOLS("hash: 64", ""), ":3:23: model.input.hash: not supported with preset: symbols: "
                              "different words would share counts; use "
                              "model.input.vocabulary.capacity"},
    {SYMBOLS("size: 70000", ""),
     ":3:23: model.input.size: expected 2 to 65535 symbols with preset: "
     "symbols, got 70000"},
    {SYMBOLS("columns: [{name: a, kind: symbol, size: 3}, {name: b}]", ""),
     ":2:9: preset: symbols requires one symbol as input"},
    {SYMBOLS("size: 256", "memory: 1000000\n"),
     ":4:9: memory: expected a power of two, got 1000000"},
    {SYMBOLS("size: 256", "memory: 100\n"), ":4:9: memory: expected a whole number from 16384 to "
                                            "1000000000000 (bytes of the experts' table, "
                                            "a power of two), got \"100\""},
    {SYMBOLS("size: 256", "statistics: {top: 101}\n"),
     ":4:19: statistics.top: expected at most 100 with preset: symbols, got 101"},
    {SYMBOLS("size: 100", "alphabet: bytes\n"),
     ":4:11: alphabet: bytes requires model.input.size: 256"},
    {SYMBOLS("size: 100", "experts: [orders, word]\n"),
     ":4:10: experts: word is not supported with alphabet: symbols"},
    {SYMBOLS("size: 100", "experts: [orders, ar12]\n"),
     ":4:10: experts: ar12 is not supported with alphabet: symbols"},
    {SYMBOLS("size: 256", "experts: [orders, kneser]\n"),
     ":4:10: experts: kneser is not supported with alphabet: bytes"},
    {SYMBOLS("size: 16", "experts: [orders, kneser]\n"),
     ":4:10: experts: kneser is not supported with at most 16 symbols"},
    {SYMBOLS("size: 9", "members: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]\n"),
     ":4:10: members: expected at most 4 with preset: symbols, got 5"},
    {SYMBOLS("size: 100", "members: [{name: skip}]\n"),
     ":4:10: members: invalid member name skip: it is the name of an expert or a word of combine; "
     "use another name"},
    {SYMBOLS("size: 100", "members: [{name: order1}]\n"),
     ":4:10: members: invalid member name order1: it is the name of an expert or a word of "
     "combine; "
     "use another name"},
    {SYMBOLS("size: 100", "members: [{name: last}, {name: last}]\n"),
     ":4:10: members: duplicate member name last"},
    {SYMBOLS("size: 100", "combine: best\n"),
     ":4:10: combine: expected logistic, experts or network, got \"best\""},
    {SYMBOLS("size: 100", "combine: network\nmembers: [{name: b}]\n"),
     ":4:10: combine: expected logistic, experts or b, got \"network\""},
    {SYMBOLS("size: 100", "combine: network\nmembers: []\n"),
     ":4:10: combine: expected logistic or experts, got \"network\""},
    {SYMBOLS("size: 9", "members: [{name: b, set: {model.output.target: given}}]\n"),
     ":4:10: member b: model.output.target: expected next with preset: symbols, got given"},
    {"name: a\npreset: symbols\nmodel: {input: {size: 9}, output: {target: given}}\n",
     ":3:44: model.output.target: expected next with preset: symbols, got given"},
    {"name: a\npreset: symbols\nmodel: {input: {size: 9}, output: {ahead: 2}}\n",
     ":3:43: model.output.ahead: expected 1 with preset: symbols, got 2"},
    {BASE "memory: 1048576\n", ":6:9: memory: requires preset: symbols, got preset: none"},
    {BASE "experts: [orders]\n", ":6:10: experts: requires scale: forecast or preset: symbols, got "
                                 "scale: none"},
    {"name: a\npreset: forecast\nmodel: {input: {size: 3}}\nexperts: [last, orders]\n",
     ":4:10: experts: orders is not supported with scale: forecast"},
    /* The whole file. */
    {"", ":1:1: empty configuration: `name` and `model` are required"},
    {"# nothing but a comment\n", ":1:1: empty configuration: `name` and `model` are required"},
    {"---\n...\n", ":2:1: name: missing; expected 1 to 64 letters, digits, '-', '_' and '.' (name "
                   "of this daemon)"},
    {BASE "---\n" BASE, ":6:1: second document; expected one document in a file"},
    {"- a\n- b\n", ":1:1: not a configuration; expected a mapping of " TOP},
    {"just text\n", ":1:1: not a configuration; expected a mapping of " TOP},
    {"!secret a\n", ":1:1: not a configuration; expected a mapping of " TOP},
    {"root:$6$salt$hash:19000:0:99999:7:::\n",
     ":1:1: not a configuration; expected a mapping of " TOP},
    {"name: a\npassword: b\ntoken: c\n", ":1:1: not a configuration; expected a mapping of " TOP},
    {"name: [a\n", ":2:1: not YAML: ..."},
    {"name: a\nmodel:\n\tinput: 1\n", ":3:1: not YAML: ..."},
    {"name: a\n b: 1\n", ":2:3: not YAML: ..."},
    {"name: \"a\n", ":2:1: not YAML: ..."},
    {"name: *nobody\n", ":1:7: not YAML: ..."},
    {"name: a\nname\n", ":3:1: not YAML: ..."},
    {"name: a\x01\n", ":1:8: not YAML: ..."},
    {"name: \xff\n", ":1:7: not YAML: ..."},
    {"&a [*a]\n", ":1:1: not a configuration; expected a mapping of " TOP},
    /* Keys. */
    {BASE "learnin: {}\n",
     ":6:1: learnin: unknown key (did you mean \"learning\"?); expected here: " TOP},
    {BASE "window: 16\n",
     ":6:1: window: unknown key (did you mean \"learning.window\"?); expected here: " TOP},
    {BASE "zzz: 1\n", ":6:1: zzz: unknown key; expected here: " TOP},
    {BASE "learning:\n  optimizer: {kind: adam, rates: 1}\n",
     ":7:27: learning.optimizer.rates: unknown key (did you mean \"learning.optimizer.rate\"?); "
     "expected in learning.optimizer: " OPTIMIZER},
    {BASE "learning:\n  rate: 0.1\n",
     ":7:3: learning.rate: unknown key (did you mean \"learning.optimizer.rate\"?); expected in "
     "learning: rule, window, stride, optimizer, clip, max_streams, threads, pin"},
    {BASE "learning.window: 16\n", ":6:1: learning.window: key with a dot; expected nested "
                                   "mappings, as in \"learning: {window: 16}\""},
    {BASE "<<: {seed: 1}\n", ":6:1: <<: unknown key; expected here: " TOP},
    {BASE "? [a, b]\n: 1\n", ":6:3: expected a key, got a list"},
    {BASE "\"se\\0ed\": 1\n", ":6:1: expected a key, got the text \"se\""},
    {BASE "\"a\\nb\": 1\n", ":6:1: a?b: unknown key; expected here: " TOP},
    {BASE X32 X32 X32 X32 X32 ": 1\n",
     ":6:1: "
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: unknown key; expected here: " TOP},
    {BASE "seed: 1\nseed: 2\n", ":7:1: seed: duplicate key, first in line 6"},
    {BASE "learning: {window: 4, stride: 2, window: 4}\n",
     ":6:34: learning.window: duplicate key, first in line 6"},
    {BASE "model: {}\n", ":6:1: model: duplicate key, first in line 2"},
    {"name: a\nmodel:\n  layers: [{cell: lstm, size: 4, siez: 4}]\n",
     ":3:34: model.layers.0.siez: unknown key (did you mean \"model.layers.0.size\"?); expected in "
     "model.layers.0: " LAYER},
    /* Values in place of sections. */
    {BASE "learning: 3\n", ":6:11: learning: expected a mapping of rule, window, stride, "
                           "optimizer, clip, max_streams, threads, pin, got \"3\""},
    {BASE "state: [a]\n",
     ":6:8: state: expected a mapping of directory, checkpoint, journal, got a list"},
    {BASE "learning:\n  optimizer: adam\n",
     ":7:14: learning.optimizer: expected a mapping of " OPTIMIZER ", got \"adam\""},
    {"name: a\nmodel:\n  layers: lstm\n", ":3:11: model.layers: expected " LAYERS ", got \"lstm\""},
    {"name: a\nmodel:\n  layers: {cell: lstm}\n",
     ":3:11: model.layers: expected " LAYERS ", got a mapping"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n  layers: []\n",
     ":4:11: model.layers: expected " LAYERS ", or with model.input.sequence 0 to 16, got 0"},
    {"name: a\nmodel:\n  layers: [lstm]\n",
     ":3:12: model.layers.0: expected a mapping of " LAYER ", got \"lstm\""},
    {"name: a\nmodel:\n  layers: [&l {cell: rnn, size: 1}, *l, *l, *l, *l, *l, *l, *l, *l, *l, *l, "
     "*l, *l, *l, *l, *l, *l]\n",
     ":3:11: model.layers: expected " LAYERS ", got 17"},
    /* Required keys. */
    {MODEL, ":1:1: name: missing; expected 1 to 64 letters, digits, '-', '_' and '.' (name of this "
            "daemon)"},
    {"name: a\n", ":1:1: model.input.kind: missing; expected real or symbol (kind of an input)"},
    {"name: a\nmodel:\n",
     ":2:7: model.input.kind: missing; expected real or symbol (kind of an input)"},
    {"name: a\nmodel:\n  input: {size: 1}\n",
     ":3:10: model.input.kind: missing; expected real or symbol (kind of an input)"},
    {"name: a\nmodel:\n  input: {kind: real}\n",
     ":3:10: model.input.size: missing; expected a whole number from 1 to 1000000 (numbers in an "
     "input, or size of the alphabet)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n",
     ":3:3: model.layers: missing; expected " LAYERS},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n  layers: [{size: 4}]\n",
     ":4:12: model.layers.0.cell: missing; expected dense, rnn, gru, lstm, mingru, rtu or conv "
     "(kind of "
     "the layer)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n  layers: [{cell: gru, size: 4}, {cell: "
     "gru}]\n",
     ":4:34: model.layers.1.size: missing; expected a whole number from 1 to 65536 (units of the "
     "layer)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n  layers: [{cell: gru, size: 4}]\n",
     ":3:3: model.output.loss: missing; expected squared, gaussian, softmax, bernoulli, "
     "mixture or ranking (loss to minimize)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n  layers: [{cell: gru, size: 4}]\n  output: "
     "{size: 1}\n",
     ":5:11: model.output.loss: missing; expected squared, gaussian, softmax, bernoulli, "
     "mixture or ranking (loss to minimize)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n  layers: [{cell: gru, size: 4}]\n  output: "
     "{loss: squared}\n",
     ":5:11: model.output.size: missing; expected the count of numbers in a target, or of classes"},
    {"name: a\nmodel:\n  input: {kind: real, size: 3}\n  layers: [{cell: gru, size: 4}]\n  output: "
     "{loss: mixture}\n",
     ":5:11: model.output.components: missing; expected a whole number from 1 to 1024 (normal "
     "distributions in the mixture)"},
    /* Values: names, words, truth, numbers, paths. */
    {"name:\n" MODEL, ":1:6: name: " NAME "nothing"},
    {"name: ~\n" MODEL, ":1:7: name: " NAME "nothing"},
    {"name: [a]\n" MODEL, ":1:7: name: " NAME "a list"},
    {"name: a/b\n" MODEL, ":1:7: name: " NAME "\"a/b\""},
    {"name: ..\n" MODEL, ":1:7: name: " NAME "\"..\""},
    {"name: \"\"\n" MODEL, ":1:7: name: " NAME "the text \"\""},
    {"name: n123456789n123456789n123456789n123456789n123456789n123456789n1234\n" MODEL,
     ":1:7: name: " NAME "\"n123456789n123456789n123456789n123456789n123456789n123456789...\""},
    {"name: \"a\\tb\"\n" MODEL, ":1:7: name: " NAME "the text \"a?b\""},
    {"name: \"a\\0b\"\n" MODEL, ":1:7: name: " NAME "the text \"a\""},
    {BASE "device: gpu\n", ":6:9: device: " DEVICE "\"gpu\""},
    {BASE "device: cuda:x\n", ":6:9: device: " DEVICE "\"cuda:x\""},
    {BASE "device: cuda:256\n", ":6:9: device: " DEVICE "\"cuda:256\""},
    {BASE "device_scope: team\n",
     ":6:15: device_scope: expected auto, block, cluster or grid (part of a GPU that computes a "
     "network), got \"team\""},
    {BASE "seed: -1\n", ":6:7: seed: " SEED "\"-1\""},
    {BASE "seed: 9007199254740992\n", ":6:7: seed: " SEED "\"9007199254740992\""},
    {BASE "seed: 1.0\n", ":6:7: seed: " SEED "\"1.0\""},
    {BASE "seed: \"1\"\n", ":6:7: seed: " SEED "the text \"1\""},
    {BASE "seed: 010\n", ":6:7: seed: " SEED "\"010\""},
    {BASE "seed: 0x10\n", ":6:7: seed: " SEED "\"0x10\""},
    {BASE "seed: 1_000\n", ":6:7: seed: " SEED "\"1_000\""},
    {BASE "seed: 1:30\n", ":6:7: seed: " SEED "\"1:30\""},
    {BASE "seed: {a: 1}\n", ":6:7: seed: " SEED "a mapping"},
    {BASE "seed: yes\n", ":6:7: seed: " SEED "\"yes\""},
    {BASE "learning: {window: 0}\n",
     ":6:20: learning.window: expected a whole number from 1 to 65536 (number of steps that the "
     "gradient reaches back), got \"0\""},
    {BASE "learning: {window: 65537}\n",
     ":6:20: learning.window: expected a whole number from 1 to 65536 (number of steps that the "
     "gradient reaches back), got \"65537\""},
    {BASE "learning: {window: sixteen}\n",
     ":6:20: learning.window: expected a whole number from 1 to 65536 (number of steps that the "
     "gradient reaches back), got \"sixteen\""},
    {BASE "learning: {window: !!str 16, stride: [1]}\n",
     ":6:38: learning.stride: expected a whole number from 1 to 65536 (number of steps between two "
     "updates), got a list"},
    {BASE "learning: {clip: .inf}\n", ":6:18: learning.clip: " CLIP "\".inf\""},
    {BASE "learning: {clip: .nan}\n", ":6:18: learning.clip: " CLIP "\".nan\""},
    {BASE "learning: {clip: 1e999}\n", ":6:18: learning.clip: " CLIP "\"1e999\""},
    {BASE "learning: {clip: -1}\n", ":6:18: learning.clip: " CLIP "\"-1\""},
    {BASE "learning: {clip: 1e}\n", ":6:18: learning.clip: " CLIP "\"1e\""},
    {BASE "learning: {clip: true}\n", ":6:18: learning.clip: " CLIP "\"true\""},
    {BASE "learning: {optimizer: {rate: 0,01}}\n",
     ":6:32: learning.optimizer.01: unknown key; expected in learning.optimizer: " OPTIMIZER},
    {BASE "learning: {optimizer: {rate: 101}}\n",
     ":6:30: learning.optimizer.rate: expected a number from 0 to 100, or auto (learning rate), "
     "got \"101\""},
    {BASE "learning: {optimizer: {kind: cocob, rate: 0.1}}\n",
     ":6:43: learning.optimizer.rate: expected auto, got 0.1: kind: cocob has no learning rate"},
    {BASE "learning: {optimizer: {rate: auto}}\n",
     ":6:30: learning.optimizer.rate: expected a number with kind: adam, got auto"},
    {BASE "learning: {optimizer: {kind: rmsprop, alpha: 1}}\n",
     ":6:46: learning.optimizer.alpha: expected a number from 0 to below 1 with kind: rmsprop, got "
     "1"},
    {BASE "learning: {optimizer: {beta1: 1}}\n",
     ":6:31: learning.optimizer.beta1: expected a number from 0 to below 1 (decay of the "
     "gradient's average), got \"1\""},
    {BASE "learning: {optimizer: {epsilon: 0}}\n",
     ":6:33: learning.optimizer.epsilon: expected a number from 1e-30 to 1 (added to the divisor), "
     "got \"0\""},
    {BASE "learning: {optimizer: {kind: adm}}\n",
     ":6:30: learning.optimizer.kind: expected sgd, rmsprop, adam, adamw or cocob (optimizer), got "
     "\"adm\" (did you mean \"adam\"?)"},
    {BASE "learning: {optimizer: {kind: Adam}}\n",
     ":6:30: learning.optimizer.kind: expected sgd, rmsprop, adam, adamw or cocob (optimizer), got "
     "\"Adam\" (did you mean \"adam\"?)"},
    {BASE "learning: {optimizer: {kind: sgd, momentum: 0.9, nesterov: 1}}\n",
     ":6:60: learning.optimizer.nesterov: expected true or false (Nesterov's momentum), got \"1\""},
    {BASE "learning: {optimizer: {kind: sgd, momentum: 0.9, nesterov: \"true\"}}\n",
     ":6:60: learning.optimizer.nesterov: expected true or false (Nesterov's momentum), got the "
     "text \"true\""},
    {BASE "statistics: {every: 0}\n", ":6:21: statistics.every: expected a whole number from 1 to "
                                      "1000000000 (examples between two loss messages), got \"0\""},
    {BASE "statistics: {predictions: maybe}\n",
     ":6:27: statistics.predictions: expected false, true or all (publish every prediction), got "
     "\"maybe\""},
    {BASE "state: {checkpoint: {seconds: -1}}\n",
     ":6:31: state.checkpoint.seconds: expected a number from 0 to 31536000 (seconds between two "
     "checkpoints, 0 = not by time), got \"-1\""},
    {BASE "state: {journal: {sync: often}}\n",
     ":6:25: state.journal.sync: expected full, normal or off (failure that acknowledged examples "
     "survive), got \"often\""},
    {BASE "state: {journal: {keep: 1023K}}\n",
     ":6:25: state.journal.keep: expected checkpoint, all, or a size of at least 1M such as 10G "
     "(examples to keep in the journal), got \"1023K\""},
    {BASE "state: {journal: {keep: 10X}}\n",
     ":6:25: state.journal.keep: expected checkpoint, all, or a size of at least 1M such as 10G "
     "(examples to keep in the journal), got \"10X\""},
    {BASE "state: {journal: {keep: G}}\n",
     ":6:25: state.journal.keep: expected checkpoint, all, or a size of at least 1M such as 10G "
     "(examples to keep in the journal), got \"G\""},
    {BASE "state: {directory: \"\"}\n",
     ":6:20: state.directory: expected a path of 1 to 4095 bytes (directory of checkpoints and "
     "journal), got the text \"\""},
    {BASE "learning: {max_streams: 1048577}\n",
     ":6:25: learning.max_streams: expected a whole number from 1 to 1048576 (largest number of "
     "streams in memory), got \"1048577\""},
    {"name: a\nmodel:\n  input: {kind: text}\n",
     ":3:17: model.input.kind: expected real or symbol (kind of an input), got \"text\""},
    {"name: a\nmodel:\n  layers: [{cell: ltsm, size: 4}]\n",
     ":3:19: model.layers.0.cell: expected dense, rnn, gru, lstm, mingru, rtu or conv (kind of the "
     "layer), got "
     "\"ltsm\" (did you mean \"lstm\"?)"},
    {"name: a\nmodel:\n  layers: [{cell: lstm, size: 65537}]\n",
     ":3:31: model.layers.0.size: expected a whole number from 1 to 65536 (units of the layer), "
     "got \"65537\""},
    {"name: a\nmodel:\n  layers: [{cell: lstm, size: 4, norm: no}]\n",
     ":3:40: model.layers.0.norm: expected none, layer, rms, weight, batch or recurrent_batch "
     "(normalization of the layer's sums), got \"no\" (did you mean \"none\"?)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1000001}\n",
     ":3:29: model.input.size: expected a whole number from 1 to 1000000 (numbers in an input, or "
     "size of the alphabet), got \"1000001\""},
    {BASE "seed: " X32 X32 "\n",
     ":6:7: seed: " SEED "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\""},
    /* Endpoints. */
    {BASE "examples: {bind: 5570}\n", ":6:18: examples.bind: " BIND "\"5570\""},
    {BASE "examples: {bind: \"udp://127.0.0.1:5570\"}\n",
     ":6:18: examples.bind: " BIND "the text \"udp://127.0.0.1:5570\""},
    {BASE "examples: {bind: \"inproc://a\"}\n",
     ":6:18: examples.bind: " BIND "the text \"inproc://a\""},
    {BASE "examples: {bind: \"tcp://127.0.0.1\"}\n",
     ":6:18: examples.bind: " BIND "the text \"tcp://127.0.0.1\""},
    {BASE "examples: {bind: \"tcp://:5570\"}\n",
     ":6:18: examples.bind: " BIND "the text \"tcp://:5570\""},
    {BASE "examples: {bind: \"tcp://127.0.0.1:65536\"}\n",
     ":6:18: examples.bind: " BIND "the text \"tcp://127.0.0.1:65536\""},
    {BASE "examples: {bind: \"tcp://::1:5570\"}\n",
     ":6:18: examples.bind: " BIND "the text \"tcp://::1:5570\""},
    {BASE "examples: {bind: \"ipc://\"}\n", ":6:18: examples.bind: " BIND "the text \"ipc://\""},
    {BASE "examples: {connect: \"tcp://*:5570\"}\n",
     ":6:21: examples.connect: " CONNECT "the text \"tcp://*:5570\""},
    {BASE "examples: {connect: \"tcp://127.0.0.1:*\"}\n",
     ":6:21: examples.connect: " CONNECT "the text \"tcp://127.0.0.1:*\""},
    {BASE "examples: {connect: \"tcp://127.0.0.1:0\"}\n",
     ":6:21: examples.connect: " CONNECT "the text \"tcp://127.0.0.1:0\""},
    {BASE "examples: {socket: router}\nstate: {journal: {enabled: false}}\n",
     ":7:28: state.journal.enabled: expected true with examples.socket: router, which acknowledges "
     "examples in the journal, got false"},
    {BASE "examples: {socket: push}\n",
     ":6:20: examples.socket: expected pull, sub or router (ZeroMQ socket type), got \"push\" (did "
     "you mean \"pull\"?)"},
    {BASE "examples:\n  bind: \"tcp://127.0.0.1:1\"\n  connect: \"tcp://127.0.0.1:2\"\n",
     ":8:12: examples.connect: cannot be combined with examples.bind; remove one of them"},
    {JSON("field: [t]"), ":6:46: examples.json.field: expected COLUMN=PATH, as in "
                         "temperature=data.temperature, got 't'"},
    {JSON("field: [t=a, t=b]"), ":6:46: examples.json.field: duplicate column 't'"},
    {JSON("field: [u=a]"),
     ":6:46: examples.json.field: unknown column 'u' (not in model.input.columns)"},
    {JSON("key_field: a..b"),
     ":6:50: examples.json.key_field: expected a JSON field, as in data.name, got 'a..b'"},
    {JSON("time_format: s"), ":6:52: examples.json.time_format: requires examples.json.time_field"},
    {JSON("time_field: ts, time_format: iso"),
     ":6:68: examples.json.time_format: expected s, ms, us, ns or a strptime(3) format, as in "
     "'%d/%m/%Y %H:%M', got 'iso'"},
    {BASE "examples: {redis: {stream: s}, json: {key_field: a}}\n",
     ":6:50: examples.json.key_field: requires model.input.columns, which names the numbers of x"},
    {JSON("strict: true"),
     ":6:47: examples.json.strict: requires examples.json.field, key_field or time_field"},
    {BASE "examples: {json: {strict: true}}\n",
     ":6:27: examples.json.strict: requires examples.redis.stream or examples.kafka.topic; "
     "runnel-feed has options of the same names"},
    {BASE "statistics: {bind: \"ipc:///tmp/a\"}\ncontrol: {bind: \"ipc:///tmp/a\"}\n",
     ":7:17: control.bind: \"ipc:///tmp/a\" is also statistics.bind; use another endpoint"},
    {BASE "control: {bind: \"tcp://127.0.0.1:5570\"}\n",
     ":6:17: control.bind: \"tcp://127.0.0.1:5570\" is also examples.bind; use another endpoint"},
    /* Sockets that other machines can reach, and lists without keys. */
    {BASE "examples: {bind: \"tcp://*:5570\"}\n",
     ":6:18: examples.bind: \"tcp://*:5570\" is reachable from other machines without keys; use "
     "loopback or ipc, or set security.secret..."},
    {BASE "statistics: {bind: \"tcp://0.0.0.0:5570\"}\n",
     ":6:20: statistics.bind: \"tcp://0.0.0.0:5570\" is reachable from other machines without "
     "keys..."},
    {BASE "control: {bind: \"tcp://[::]:5570\"}\n",
     ":6:17: control.bind: \"tcp://[::]:5570\" is reachable from other machines without keys..."},
    {BASE "control: {bind: \"tcp://[::ffff:128.0.0.1]:*\"}\n",
     ":6:17: control.bind: \"tcp://[::ffff:128.0.0.1]:*\" is reachable from other machines without "
     "keys..."},
    {BASE "control: {bind: \"tcp://no-such-interface:5570\"}\nsecurity: {insecure: false}\n",
     ":6:17: control.bind: \"tcp://no-such-interface:5570\" is reachable from other machines "
     "without keys..."},
    {BASE "security: {allow: {control: a}}\n",
     ":6:29: security.allow.control: requires security.secret"},
    /* Keys that require others. */
    {"name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: real, size: 2, embedding: "
     "3}\n  output: {loss: squared, size: 2}\n",
     ":4:43: model.input.embedding: requires kind: symbol, got kind: real"},
    {"name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: symbol, size: 2, scale: "
     "standard}\n  output: {loss: squared, size: 2}\n",
     ":4:41: model.input.scale: requires kind: real, got kind: symbol"},
    {"name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: symbol, size: 2, missing: "
     "hold}\n  output: {loss: squared, size: 2}\n",
     ":4:43: model.input.missing: requires kind: real, got kind: symbol"},
    {"name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: gru, size: 4, activation: "
     "relu}]\n  output: {loss: squared, size: 2}\n",
     ":4:45: model.layers.0.activation: requires cell: dense or conv, got cell: gru"},
    {"name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: gru, size: 4, norm: none, "
     "gain: 1}]\n  output: {loss: squared, size: 2}\n",
     ":4:51: model.layers.0.gain: requires norm: layer, rms, weight, batch or recurrent_batch, got "
     "norm: none"},
    {"name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: gru, size: 4, "
     "forget_bias: 1}]\n  output: {loss: squared, size: 2}\n",
     ":4:46: model.layers.0.forget_bias: requires cell: lstm, got cell: gru"},
    {COLUMNS("dense, size: 4, recurrent: diagonal"),
     ":4:46: model.layers.0.recurrent: requires cell: rnn, gru or lstm, got cell: dense"},
    {COLUMNS("rtu, size: 4, recurrent: full"),
     ":4:44: model.layers.0.recurrent: requires cell: rnn, gru or lstm, got cell: rtu"},
    {COLUMNS("rtu, size: 4, norm: rms"),
     ":4:39: model.layers.0.norm: expected layer or none with rtu, got rms"},
    {COLUMNS("gru, size: 4, recurrent: diagonal, norm: batch"),
     ":4:60: model.layers.0.norm: expected layer or none with recurrent: diagonal, got batch"},
    {COLUMNS("gru, size: 4, memory: 10"),
     ":4:41: model.layers.0.memory: requires recurrent: diagonal with cell: gru"},
    {COLUMNS("rtu, size: 4, memory: 10"),
     ":4:41: model.layers.0.memory: requires cell: gru, lstm or mingru, got cell: rtu"},
    {COLUMNS("mingru, size: 4, memory: 1000001"),
     ":4:44: model.layers.0.memory: expected a whole number from 0 to 1000000 ..."},
    {COLUMNS("mingru, size: 4, radius: [0.5, 0.9]"),
     ":4:44: model.layers.0.radius: requires cell: rtu, got cell: mingru"},
    {COLUMNS("gru, size: 4, taps: 2"),
     ":4:39: model.layers.0.taps: requires cell: dense, got cell: gru"},
    {"name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: gru, size: 4}]\n  output: "
     "{loss: ranking, size: 3, negatives: 4, candidates: {kind: real, size: 2,\n    layers: "
     "[{cell: dense, size: 4, taps: 2}]}}\n",
     ":6:13: model.output.candidates.layers.0.taps: expected 1, got 2: a candidate has no past"},
    {COLUMNS("dense, size: 4, taps: 65"),
     ":4:41: model.layers.0.taps: expected a whole number from 1 to 64 ..."},
    {COLUMNS("dense, size: 4, dilation: 4097"),
     ":4:45: model.layers.0.dilation: expected a whole number from 1 to 4096 ..."},
    {COLUMNS("dense, size: 4, dilation: 2"),
     ":4:45: model.layers.0.dilation: requires taps of at least 2"},
    {COLUMNS("dense, size: 4, taps: 3, dilation: 2049"),
     ":4:54: model.layers.0.dilation: expected at most 4096 steps for (taps - 1) dilation, got "
     "4098"},
    {COLUMNS("dense, size: 4, residual: true"),
     ":4:45: model.layers.0.residual: expected as many inputs as units, got 2 and 4"},
    {COLUMNS("dense, size: 2, residual: true") "device: cuda\n",
     ":6:9: device: expected cpu with model.layers.0.residual, got cuda"},
    {COLUMNS("dense, size: 4, taps: 2") "device: cuda:1\n",
     ":6:9: device: expected cpu with model.layers.0.taps, got cuda:1"},
    {COLUMNS("dense, size: 4, taps: 2") "learning: {rule: rtrl}\n",
     ":6:18: learning.rule: rtrl does not support taps and residual of model.layers.0; use tbptt"},
    {COLUMNS("rtu, size: 4, radius: [0.5]"),
     ":4:41: model.layers.0.radius: expected two rising numbers, as in [0.9, 0.999]"},
    {COLUMNS("rtu, size: 4, radius: [0.9, 0.5]"),
     ":4:47: model.layers.0.radius: expected two rising numbers from 0.001 to below 1..."},
    {COLUMNS("rtu, size: 4, radius: [0.9, 1]"),
     ":4:47: model.layers.0.radius: expected two rising numbers from 0.001 to below 1..."},
    /* Layers of conv. */
    {IMAGES("size: 780, shape: [1, 28, 28]", CONV "}", ""),
     ":3:41: model.input.shape: found [1, 28, 28], 784 numbers; model.input.size is 780"},
    {IMAGES("size: 4, shape: [1, 2]", "{cell: gru, size: 4}", ""),
     ":3:39: model.input.shape: expected three whole numbers from 1 to 1000000, as in [1, 28, "
     "28]..."},
    {IMAGES("size: 4, shape: [1, 2, 2, 1]", "{cell: gru, size: 4}", ""),
     ":3:49: model.input.shape: expected three whole numbers from 1 to 1000000, as in [1, 28, "
     "28]..."},
    {IMAGES("size: 4, shape: 4", "{cell: gru, size: 4}", ""),
     ":3:39: model.input.shape: expected three whole numbers from 1 to 1000000, as in [1, 28, "
     "28]..."},
    {IMAGES("size: 4, shape: [1, 2, 2], time: [gap]", "{cell: gru, size: 4}", ""),
     ":3:39: model.input.shape: cannot be combined with model.input.columns, time or scale: "
     "forecast; remove one of them"},
    {IMAGES("size: 784", CONV "}", ""),
     ":4:19: model.layers.0.cell: found conv without model.input.shape; set it to [channels, rows, "
     "columns] of the input"},
    {IMAGES("size: 784, shape: [1, 28, 28]", CONV "}, {cell: dense, size: 4}, " CONV "}", ""),
     ":4:92: model.layers.2.cell: conv cannot follow dense, which has no rows and columns; list "
     "conv first"},
    {IMAGES("size: 784, shape: [1, 28, 28]", CONV "}, {cell: conv, channels: 2, kernel: 15}", ""),
     ":4:95: model.layers.1.kernel: expected at most 12 for 12 x 12, got 15"},
    {IMAGES("size: 784, shape: [1, 28, 28]", CONV ", norm: weight}", ""),
     ":4:66: model.layers.0.norm: expected none, layer, rms or batch with cell: conv, got weight"},
    {IMAGES("size: 784, shape: [1, 28, 28]", CONV ", norm: batch, norm_groups: 2}", ""),
     ":4:86: model.layers.0.norm_groups: found with norm: batch; it is allowed only with norm: "
     "layer or rms"},
    {IMAGES("size: 784, shape: [1, 28, 28]", CONV ", norm_groups: 3}", ""),
     ":4:73: model.layers.0.norm_groups: expected a divisor of 4 channels, got 3"},
    {IMAGES("size: 784, shape: [1, 28, 28]", "{cell: conv, channels: 65536, kernel: 1}", ""),
     ":4:35: model.layers.0.channels: expected at most 1000000 units, got 65536 of 28 x 28"},
    {IMAGES("size: 784, shape: [1, 28, 28]", CONV ", size: 4}", ""),
     ":4:66: model.layers.0.size: requires cell: dense, rnn, gru, lstm, mingru or rtu, got cell: "
     "conv"},
    {COLUMNS("gru, size: 4, kernel: 2"),
     ":4:41: model.layers.0.kernel: requires cell: conv, got cell: gru"},
    {IMAGES("size: 784, shape: [1, 28, 28]", CONV "}", "device: cuda\n"),
     ":6:9: device: expected cpu with model.layers.0.cell: conv, got cuda"},
    {IMAGES("size: 784, shape: [1, 28, 28]", CONV "}", "learning: {rule: rtrl}\n"),
     ":6:18: learning.rule: rtrl does not support the cell conv of model.layers.0; expected layers "
     "of dense, rnn, gru or lstm"},
    {"name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: real, size: 2}\n  output: "
     "{loss: squared, size: 2, components: 4}\n",
     ":5:48: model.output.components: requires loss: mixture, got loss: squared"},
    {BASE "learning: {optimizer: {kind: sgd, beta1: 0.9}}\n",
     ":6:42: learning.optimizer.beta1: requires kind: adam or adamw, got kind: sgd"},
    {BASE "learning: {optimizer: {kind: cocob, pull: 0.1}}\n",
     ":6:43: learning.optimizer.pull: requires kind: sgd, rmsprop, adam or adamw, got kind: cocob"},
    {BASE "learning: {optimizer: {pull: -1}}\n",
     ":6:30: learning.optimizer.pull: expected a number from 0 to 100 (pull of the parameters back "
     "towards their starting values), got \"-1\""},
    {BASE "learning: {optimizer: {pull: 101}}\n",
     ":6:30: learning.optimizer.pull: expected a number from 0 to 100 (pull of the parameters back "
     "towards their starting values), got \"101\""},
    {BASE "learning: {optimizer: {kind: sgd, beta2: 0.9}}\n",
     ":6:42: learning.optimizer.beta2: requires kind: adam or adamw, got kind: sgd"},
    {BASE "learning: {optimizer: {kind: sgd, epsilon: 1e-8}}\n",
     ":6:44: learning.optimizer.epsilon: requires kind: rmsprop, adam or adamw, got kind: sgd"},
    {BASE "learning: {optimizer: {kind: adam, momentum: 0.9}}\n",
     ":6:46: learning.optimizer.momentum: requires kind: sgd, got kind: adam"},
    {BASE "learning: {optimizer: {kind: rmsprop, nesterov: true}}\n",
     ":6:49: learning.optimizer.nesterov: requires kind: sgd, got kind: rmsprop"},
    {BASE "learning: {optimizer: {kind: adamw, alpha: 0.9}}\n",
     ":6:44: learning.optimizer.alpha: requires kind: rmsprop or cocob, got kind: adamw"},
    /* Rules between keys. */
    {BASE "learning: {window: 4, stride: 5}\n",
     ":6:31: learning.stride: expected at most 4 (learning.window), got 5"},
    {BASE "learning: {stride: 17}\n",
     ":6:20: learning.stride: expected at most 16 (learning.window), got 17"},
    {BASE "learning: {rule: bptt}\n",
     ":6:18: learning.rule: expected " RULE_WORDS
     " (method that computes the gradient of an update), got \"bptt\" (did you mean \"tbptt\"?)"},
    {BASE "learning: {rule: snap1}\n", ":6:18: learning.rule: snap1 does not support the cell lstm "
                                       "of model.layers.0; expected layers of dense, rnn, gru, "
                                       "mingru or rtu, or recurrent: diagonal"},
    {NEXT("kind: real, size: 3", "loss: squared, size: 3") "learning: {rule: eprop}\n",
     ":6:18: learning.rule: eprop does not support the cell gru of model.layers.0; expected layers "
     "of dense or lstm"},
    {COLUMNS("rtu, size: 4") "learning: {rule: rtrl}\n",
     ":6:18: learning.rule: rtrl does not support the cell rtu of model.layers.0; expected layers "
     "of dense, rnn, gru or lstm"},
    {COLUMNS("lstm, size: 4, recurrent: diagonal") "learning: {rule: eprop}\n",
     ":6:18: learning.rule: eprop does not support the cell diagonal lstm of model.layers.0; "
     "expected layers of dense or lstm"},
    {BASE "learning: {rule: rtrl}\ndevice: cuda:1\n",
     ":6:18: learning.rule: rtrl is not supported with device: cuda:1; use device: cpu or auto"},
    {"name: a\nmodel:\n  layers: [{cell: dense, size: 8}, {cell: gru, size: 300}]\n  input: {kind: "
     "real, size: 3}\n  output: {loss: squared, size: 2}\nlearning: {rule: rtrl}\n",
     ":6:18: learning.rule: rtrl needs 322 MiB for each stream, the limit is 256; use recurrent "
     "layers of at most 277 units"},
    {BASE "learning: {optimizer: {kind: sgd, nesterov: true}}\n",
     ":6:45: learning.optimizer.nesterov: requires learning.optimizer.momentum above 0"},
    {"name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: real, size: 3}\n  output: "
     "{loss: mixture, size: 2, components: 4}\n",
     ":5:33: model.output.size: expected 3 with loss: mixture (two offsets and an end), got 2"},
    {NEXT("kind: real, size: 3", "loss: squared, size: 2"),
     ":5:33: model.output.size: expected model.input.size (3) with target: next, got 2"},
    {NEXT("kind: real, size: 3", "loss: softmax, size: 3"),
     ":5:18: model.output.loss: expected squared, gaussian, bernoulli or mixture with target: next "
     "and real inputs, got softmax"},
    {NEXT("kind: real, size: 4", "loss: mixture, components: 2"),
     ":4:29: model.input.size: expected 3 with target: next and loss: mixture, got 4"},
    {NEXT("kind: real, size: 3, scale: standard", "loss: mixture, components: 2"),
     ":4:39: model.input.scale: expected none with target: next and loss: mixture, got standard: "
     "scaled targets leave the range of this loss"},
    {NEXT("kind: real, size: 3, scale: standard", "loss: bernoulli, size: 3"),
     ":4:39: model.input.scale: expected none with target: next and loss: bernoulli, got standard: "
     "scaled targets leave the range of this loss"},
    {NEXT("kind: symbol, size: 3", "loss: squared, size: 3"),
     ":5:18: model.output.loss: expected softmax with target: next and symbol inputs, got squared"},
    {NEXT("kind: symbol, size: 3", "loss: mixture, components: 3"),
     ":5:18: model.output.loss: expected softmax with target: next and symbol inputs, got mixture"},
    {NEXT("kind: symbol, size: 3", "loss: softmax, size: 4"),
     ":5:33: model.output.size: expected model.input.size (3) with target: next, got 4"},
    {"name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: lstm, size: 65536}]\n  "
     "output: {loss: squared, size: 2}\n",
     ":3:3: model: expected at most 2147483647 parameters, got 17181966338"},
    /* Tags. */
    {BASE "seed: !secret 1\n", ":6:7: seed: the YAML tag \"!secret\" is not supported"},
    {BASE "learning: !!set {window}\n",
     ":6:11: learning: the YAML tag \"tag:yaml.org,2002:set\" is not supported"},
    {BASE "device: !!binary Y3B1\n",
     ":6:9: device: the YAML tag \"tag:yaml.org,2002:binary\" is not supported"},
};

/* An override of a valid file, and its error; errors of the file begin with ':'. */
static const struct {
    const char *override, *sentence;
} wrong_overrides[] = {
    {"learning.window", "--set learning.window: missing value; expected KEY=VALUE"},
    {"=3", "--set =3: unknown key; expected here: " TOP},
    {"lerning.window=3", "--set lerning.window: unknown key (did you mean "
                         "\"learning.window\"?); expected here: " TOP},
    {"learning.window=[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]",
     "--set learning.window=[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]: lists and mappings nested more "
     "than 16 levels deep"},
    {"learning.windw=3",
     "--set learning.windw: unknown key (did you mean \"learning.window\"?); "
     "expected in learning: rule, window, stride, optimizer, clip, max_streams, threads, pin"},
    {"learning.window.x=3", "--set learning.window.x: unknown key; expected here: " TOP},
    {"learning.=3", "--set learning.: unknown key; expected in learning: rule, "
                    "window, stride, optimizer, clip, max_streams, threads, pin"},
    {".=3", "--set .: unknown key; expected here: " TOP},
    {"model.layers.0.sise=3", "--set model.layers.0.sise: unknown key (did you mean "
                              "\"model.layers.0.size\"?); expected in model.layers.0: " LAYER},
    {"model.layers.1.size=3", "--set model.layers.1.size: expected a layer "
                              "below 1, the number of layers, got 1"},
    {"model.layers.01.size=3", "--set model.layers.01.size: unknown key "
                               "(did you mean \"model.layers.0.size\"?); expected here: " TOP},
    {"model.layers.-1.size=3", "--set model.layers.-1.size: unknown key "
                               "(did you mean \"model.layers.0.size\"?); expected here: " TOP},
    {"model.layers.9999999.size=3", "--set model.layers.9999999.size: unknown key (did you mean "
                                    "\"model.layers.0.size\"?); expected here: " TOP},
    {"model.layers.0=lstm", "--set model.layers.0: expected a mapping of " LAYER ", got \"lstm\""},
    {"model.layers.0={cell: rnn}",
     "--set model.layers.0={cell: rnn}: model.layers.0.size: missing; expected a whole number from "
     "1 to 65536 (units of the layer)"},
    {"model.layers.0=", ":4:11: model.layers.0.cell: missing; expected dense, rnn, gru, lstm, "
                        "mingru, rtu or conv (kind of the layer)"},
    {"model.layers=", ":3:3: model.layers: missing; expected " LAYERS},
    {"name=", ":1:1: name: missing; expected 1 to 64 letters, digits, '-', '_' and '.' (name of "
              "this daemon)"},
    {"name=~", ":1:1: name: missing; expected 1 to 64 letters, digits, '-', '_' and '.' (name of "
               "this daemon)"},
    {"learning.window=x", "--set learning.window: expected a whole number from "
                          "1 to 65536 (number of steps that the gradient reaches back), got \"x\""},
    {"learning.window=[3", "--set learning.window=[3: not YAML: ..."},
    {"learning.window=1\n---\n2",
     "--set learning.window=1?---?2: second document; expected one document in a file"},
    {"learning.window=3\n4",
     "--set learning.window: expected a whole number from 1 to 65536 (number "
     "of steps that the gradient reaches back), got \"3 4\""},
    {"learning.stride=17", "--set learning.stride: expected at most 16 (learning.window), got 17"},
    {"learning.optimizer={kind: sgd, rat: 0.1}",
     "--set learning.optimizer={kind: sgd, rat: 0.1}: learning.optimizer.rat: unknown key (did you "
     "mean \"learning.optimizer.rate\"?); expected in learning.optimizer: " OPTIMIZER},
    {"learning.optimizer={kind: sgd, rate: 0.1, rate: 0.2}",
     "--set learning.optimizer={kind: sgd, rate: 0.1, rate: 0.2}: learning.optimizer.rate: "
     "duplicate key, first in line 1"},
    {"learning.optimizer=sgd",
     "--set learning.optimizer: expected a mapping of " OPTIMIZER ", got \"sgd\""},
    {"learning.optimizer.beta1=1", "--set learning.optimizer.beta1: expected a number from 0 to "
                                   "below 1 (decay of the gradient's average), got \"1\""},
    {"learning.optimizer.alpha=0.5", "--set learning.optimizer.alpha: requires kind: rmsprop or "
                                     "cocob, got kind: sgd"},
    {"control.bind=tcp://127.0.0.1:5570", "--set control.bind: \"tcp://127.0.0.1:5570\" is also "
                                          "examples.bind; use another endpoint"},
    {"fleet.lease=10", "--set fleet.lease: requires examples.redis.stream or "
                       "examples.kafka.topic, whose partitions the fleet shares"},
    {"fleet.average.every=10", "--set fleet.average.every: expected "
                               "fleet.lease of 0.5 or more, got 0"},
    {"fleet={lease: 0.1}", "--set fleet={lease: 0.1}: fleet.lease: expected 0.5 or more, got 0.1"},
    {"model.input.size", "--set model.input.size: missing value; expected KEY=VALUE"},
};

#endif
