/* Every error of the configuration, word for word: a text or an override, and what is said of it.
   For test_config_errors.c; MODEL, BASE and NEXT are config_testing.h's. */
#ifndef RUNNEL_CONFIG_ERRORS_H
#define RUNNEL_CONFIG_ERRORS_H

#define TOP                                                                                        \
    "name, preset, seed, device, tags, model, learning, experts, members, combine, anomaly, "      \
    "examples, fleet, "                                                                            \
    "statistics, "                                                                                 \
    "control, publish, security, state"
#define OPTIMIZER "kind, rate, momentum, nesterov, alpha, beta1, beta2, epsilon, weight_decay"
#define NAME "; allowed is 1 to 64 letters, digits, '-', '_' and '.' (what this daemon is called)"
#define SEED "; allowed is a whole number from 0 to 9007199254740991 (seed of the starting weights)"
#define DEVICE "; allowed is auto, cpu, cuda or cuda:N with N from 0 to 255 (what computes)"
#define CLIP "; allowed is a number from 0 to 1000000000 (largest gradient norm, 0 = no clipping)"
#define BIND                                                                                       \
    "; allowed is tcp://HOST:PORT or ipc://PATH of at most 107 bytes (where feeders connect)"
#define CONNECT                                                                                    \
    "; allowed is tcp://HOST:PORT or ipc://PATH of at most 107 bytes, without '*' (a bound "       \
    "feeder to connect to)"
#define RULE_WORDS "tbptt, rtrl, snap1 or eprop"
#define LAYERS "a list of 1 to 16 layers"
#define JSON(keys)                                                                                 \
    NEXT("columns: [{name: t}]", "loss: squared")                                                  \
    "examples: {redis: {stream: s}, json: {" keys "}}\n"
#define X32 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

/* A text, and its error after the file's name: ":LINE:COLUMN: KEY: ...". "..." at the end stands
   for words that are libyaml's. */
static const struct {
    const char *text, *says;
} wrong_files[] = {
    /* The file as a whole. */
    {"", ":1:1: empty; needed are at least name and model"},
    {"# nothing but a comment\n", ":1:1: empty; needed are at least name and model"},
    {"---\n...\n", ":2:1: name: missing; needed is 1 to 64 letters, digits, '-', '_' and '.' (what "
                   "this daemon is called)"},
    {BASE "---\n" BASE, ":6:1: found a second document; allowed is one in a file"},
    {"- a\n- b\n", ":1:1: not a configuration; allowed is a mapping of " TOP},
    {"just text\n", ":1:1: not a configuration; allowed is a mapping of " TOP},
    {"!secret a\n", ":1:1: not a configuration; allowed is a mapping of " TOP},
    {"root:$6$salt$hash:19000:0:99999:7:::\n",
     ":1:1: not a configuration; allowed is a mapping of " TOP},
    {"name: a\npassword: b\ntoken: c\n", ":1:1: not a configuration; allowed is a mapping of " TOP},
    {"name: [a\n", ":2:1: not YAML: ..."},
    {"name: a\nmodel:\n\tinput: 1\n", ":3:1: not YAML: ..."},
    {"name: a\n b: 1\n", ":2:3: not YAML: ..."},
    {"name: \"a\n", ":2:1: not YAML: ..."},
    {"name: *nobody\n", ":1:7: not YAML: ..."},
    {"name: a\nname\n", ":3:1: not YAML: ..."},
    {"name: a\x01\n", ":1:8: not YAML: ..."},
    {"name: \xff\n", ":1:7: not YAML: ..."},
    {"&a [*a]\n", ":1:1: not a configuration; allowed is a mapping of " TOP},
    /* Keys. */
    {BASE "learnin: {}\n",
     ":6:1: learnin: unknown key (did you mean \"learning\"?); allowed here: " TOP},
    {BASE "window: 16\n",
     ":6:1: window: unknown key (did you mean \"learning.window\"?); allowed here: " TOP},
    {BASE "zzz: 1\n", ":6:1: zzz: unknown key; allowed here: " TOP},
    {BASE "learning:\n  optimizer: {kind: adam, rates: 1}\n",
     ":7:27: learning.optimizer.rates: unknown key (did you mean \"learning.optimizer.rate\"?); "
     "allowed in learning.optimizer: " OPTIMIZER},
    {BASE "learning:\n  rate: 0.1\n",
     ":7:3: learning.rate: unknown key (did you mean \"learning.optimizer.rate\"?); allowed in "
     "learning: rule, window, stride, optimizer, clip, max_streams, threads, pin"},
    {BASE "learning.window: 16\n", ":6:1: learning.window: found a key with a dot; allowed are "
                                   "nested mappings, as in \"learning: {window: 16}\""},
    {BASE "<<: {seed: 1}\n", ":6:1: <<: unknown key; allowed here: " TOP},
    {BASE "? [a, b]\n: 1\n", ":6:3: found a list where a key is allowed"},
    {BASE "\"se\\0ed\": 1\n", ":6:1: found the text \"se\" where a key is allowed"},
    {BASE "\"a\\nb\": 1\n", ":6:1: a?b: unknown key; allowed here: " TOP},
    {BASE X32 X32 X32 X32 X32 ": 1\n",
     ":6:1: "
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: unknown key; allowed here: " TOP},
    {BASE "seed: 1\nseed: 2\n",
     ":7:1: seed: found twice in one mapping, first in line 6; once is allowed"},
    {BASE "learning: {window: 4, stride: 2, window: 4}\n",
     ":6:34: learning.window: found twice in one mapping, first in line 6; once is allowed"},
    {BASE "model: {}\n",
     ":6:1: model: found twice in one mapping, first in line 2; once is allowed"},
    {"name: a\nmodel:\n  layers: [{cell: lstm, size: 4, siez: 4}]\n",
     ":3:34: model.layers.0.siez: unknown key (did you mean \"model.layers.0.size\"?); allowed in "
     "model.layers.0: cell, size, norm, activation, gain, norm_momentum, norm_steps, forget_bias"},
    /* Sections that are none. */
    {BASE "learning: 3\n",
     ":6:11: learning: found \"3\"; allowed is a mapping of rule, window, stride, "
     "optimizer, clip, max_streams, threads, pin"},
    {BASE "state: [a]\n",
     ":6:8: state: found a list; allowed is a mapping of directory, checkpoint, journal"},
    {BASE "learning:\n  optimizer: adam\n",
     ":7:14: learning.optimizer: found \"adam\"; allowed is a mapping of " OPTIMIZER},
    {"name: a\nmodel:\n  layers: lstm\n",
     ":3:11: model.layers: found \"lstm\"; allowed is " LAYERS},
    {"name: a\nmodel:\n  layers: {cell: lstm}\n",
     ":3:11: model.layers: found a mapping; allowed is " LAYERS},
    {"name: a\nmodel:\n  layers: []\n",
     ":3:11: model.layers: found a list of 0; allowed is " LAYERS},
    {"name: a\nmodel:\n  layers: [lstm]\n",
     ":3:12: model.layers.0: found \"lstm\"; allowed is a mapping of cell, size, norm, activation, "
     "gain, norm_momentum, norm_steps, forget_bias"},
    {"name: a\nmodel:\n  layers: [&l {cell: rnn, size: 1}, *l, *l, *l, *l, *l, *l, *l, *l, *l, *l, "
     "*l, *l, *l, *l, *l, *l]\n",
     ":3:11: model.layers: found a list of 17; allowed is " LAYERS},
    /* Required keys. */
    {MODEL, ":1:1: name: missing; needed is 1 to 64 letters, digits, '-', '_' and '.' (what this "
            "daemon is called)"},
    {"name: a\n", ":1:1: model.input.kind: missing; needed is real or symbol (what an input is)"},
    {"name: a\nmodel:\n",
     ":2:7: model.input.kind: missing; needed is real or symbol (what an input is)"},
    {"name: a\nmodel:\n  input: {size: 1}\n",
     ":3:10: model.input.kind: missing; needed is real or symbol (what an input is)"},
    {"name: a\nmodel:\n  input: {kind: real}\n",
     ":3:10: model.input.size: missing; needed is a whole number from 1 to 1000000 (numbers in an "
     "input, or size of the alphabet)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n",
     ":3:3: model.layers: missing; needed is " LAYERS},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n  layers: [{size: 4}]\n",
     ":4:12: model.layers.0.cell: missing; needed is dense, rnn, gru or lstm (the layer's kind)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n  layers: [{cell: gru, size: 4}, {cell: "
     "gru}]\n",
     ":4:34: model.layers.1.size: missing; needed is a whole number from 1 to 65536 (units of the "
     "layer)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n  layers: [{cell: gru, size: 4}]\n",
     ":3:3: model.output.loss: missing; needed is squared, gaussian, softmax, bernoulli or mixture "
     "(what is minimized)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n  layers: [{cell: gru, size: 4}]\n  output: "
     "{size: 1}\n",
     ":5:11: model.output.loss: missing; needed is squared, gaussian, softmax, bernoulli or "
     "mixture (what is minimized)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1}\n  layers: [{cell: gru, size: 4}]\n  output: "
     "{loss: squared}\n",
     ":5:11: model.output.size: missing; needed is the count of numbers in a target, or of "
     "classes"},
    {"name: a\nmodel:\n  input: {kind: real, size: 3}\n  layers: [{cell: gru, size: 4}]\n  output: "
     "{loss: mixture}\n",
     ":5:11: model.output.components: missing; needed is a whole number from 1 to 1024 (normal "
     "distributions in the mixture)"},
    /* Values: names, words, truth, numbers, paths. */
    {"name:\n" MODEL, ":1:6: name: found nothing" NAME},
    {"name: ~\n" MODEL, ":1:7: name: found nothing" NAME},
    {"name: [a]\n" MODEL, ":1:7: name: found a list" NAME},
    {"name: a/b\n" MODEL, ":1:7: name: found \"a/b\"" NAME},
    {"name: ..\n" MODEL, ":1:7: name: found \"..\"" NAME},
    {"name: \"\"\n" MODEL, ":1:7: name: found the text \"\"" NAME},
    {"name: n123456789n123456789n123456789n123456789n123456789n123456789n1234\n" MODEL,
     ":1:7: name: found \"n123456789n123456789n123456789n123456789n123456789n123456789...\"" NAME},
    {"name: \"a\\tb\"\n" MODEL, ":1:7: name: found the text \"a?b\"" NAME},
    {"name: \"a\\0b\"\n" MODEL, ":1:7: name: found the text \"a\"" NAME},
    {BASE "device: gpu\n", ":6:9: device: found \"gpu\"" DEVICE},
    {BASE "device: cuda:x\n", ":6:9: device: found \"cuda:x\"" DEVICE},
    {BASE "device: cuda:256\n", ":6:9: device: found \"cuda:256\"" DEVICE},
    {BASE "seed: -1\n", ":6:7: seed: found \"-1\"" SEED},
    {BASE "seed: 9007199254740992\n", ":6:7: seed: found \"9007199254740992\"" SEED},
    {BASE "seed: 1.0\n", ":6:7: seed: found \"1.0\"" SEED},
    {BASE "seed: \"1\"\n", ":6:7: seed: found the text \"1\"" SEED},
    {BASE "seed: 010\n", ":6:7: seed: found \"010\"" SEED},
    {BASE "seed: 0x10\n", ":6:7: seed: found \"0x10\"" SEED},
    {BASE "seed: 1_000\n", ":6:7: seed: found \"1_000\"" SEED},
    {BASE "seed: 1:30\n", ":6:7: seed: found \"1:30\"" SEED},
    {BASE "seed: {a: 1}\n", ":6:7: seed: found a mapping" SEED},
    {BASE "seed: yes\n", ":6:7: seed: found \"yes\"" SEED},
    {BASE "learning: {window: 0}\n",
     ":6:20: learning.window: found \"0\"; allowed is a whole number from 1 to 65536 (steps that "
     "the gradient reaches back)"},
    {BASE "learning: {window: 65537}\n",
     ":6:20: learning.window: found \"65537\"; allowed is a whole number from 1 to 65536 (steps "
     "that the gradient reaches back)"},
    {BASE "learning: {window: sixteen}\n",
     ":6:20: learning.window: found \"sixteen\"; allowed is a whole number from 1 to 65536 (steps "
     "that the gradient reaches back)"},
    {BASE "learning: {window: !!str 16, stride: [1]}\n",
     ":6:38: learning.stride: found a list; allowed is a whole number from 1 to 65536 (steps "
     "between two updates)"},
    {BASE "learning: {clip: .inf}\n", ":6:18: learning.clip: found \".inf\"" CLIP},
    {BASE "learning: {clip: .nan}\n", ":6:18: learning.clip: found \".nan\"" CLIP},
    {BASE "learning: {clip: 1e999}\n", ":6:18: learning.clip: found \"1e999\"" CLIP},
    {BASE "learning: {clip: -1}\n", ":6:18: learning.clip: found \"-1\"" CLIP},
    {BASE "learning: {clip: 1e}\n", ":6:18: learning.clip: found \"1e\"" CLIP},
    {BASE "learning: {clip: true}\n", ":6:18: learning.clip: found \"true\"" CLIP},
    {BASE "learning: {optimizer: {rate: 0,01}}\n",
     ":6:32: learning.optimizer.01: unknown key; allowed in learning.optimizer: " OPTIMIZER},
    {BASE "learning: {optimizer: {rate: 101}}\n",
     ":6:30: learning.optimizer.rate: found \"101\"; allowed is a number from 0 to 100, or "
     "auto (learning rate)"},
    {BASE "learning: {optimizer: {kind: cocob, rate: 0.1}}\n",
     ":6:43: learning.optimizer.rate: found 0.1, but kind: cocob has no learning rate; allowed "
     "with "
     "it is auto"},
    {BASE "learning: {optimizer: {rate: auto}}\n",
     ":6:30: learning.optimizer.rate: found auto; allowed with kind: adam is a number"},
    {BASE "learning: {optimizer: {kind: rmsprop, alpha: 1}}\n",
     ":6:46: learning.optimizer.alpha: found 1; allowed with kind: rmsprop is a number from 0 to "
     "below 1"},
    {BASE "learning: {optimizer: {beta1: 1}}\n",
     ":6:31: learning.optimizer.beta1: found \"1\"; allowed is a number from 0 to below 1 (decay "
     "of the gradient's average)"},
    {BASE "learning: {optimizer: {epsilon: 0}}\n",
     ":6:33: learning.optimizer.epsilon: found \"0\"; allowed is a number from 1e-30 to 1 (added "
     "to the divisor)"},
    {BASE "learning: {optimizer: {kind: adm}}\n",
     ":6:30: learning.optimizer.kind: found \"adm\" (did you mean \"adam\"?); allowed is sgd, "
     "rmsprop, adam, adamw or cocob (the optimizer)"},
    {BASE "learning: {optimizer: {kind: Adam}}\n",
     ":6:30: learning.optimizer.kind: found \"Adam\" (did you mean \"adam\"?); allowed is sgd, "
     "rmsprop, adam, adamw or cocob (the optimizer)"},
    {BASE "learning: {optimizer: {kind: sgd, momentum: 0.9, nesterov: 1}}\n",
     ":6:60: learning.optimizer.nesterov: found \"1\"; allowed is true or false (Nesterov's "
     "momentum)"},
    {BASE "learning: {optimizer: {kind: sgd, momentum: 0.9, nesterov: \"true\"}}\n",
     ":6:60: learning.optimizer.nesterov: found the text \"true\"; allowed is true or false "
     "(Nesterov's momentum)"},
    {BASE "statistics: {every: 0}\n",
     ":6:21: statistics.every: found \"0\"; allowed is a whole number from 1 to 1000000000 "
     "(examples between two loss messages)"},
    {BASE "statistics: {predictions: maybe}\n",
     ":6:27: statistics.predictions: found \"maybe\"; allowed is false, true or all (publish "
     "every prediction)"},
    {BASE "state: {checkpoint: {seconds: -1}}\n",
     ":6:31: state.checkpoint.seconds: found \"-1\"; allowed is a number from 0 to 31536000 "
     "(seconds between two checkpoints, 0 = not by time)"},
    {BASE "state: {journal: {sync: often}}\n",
     ":6:25: state.journal.sync: found \"often\"; allowed is full, normal or off (what an "
     "acknowledged example outlives)"},
    {BASE "state: {journal: {keep: 1023K}}\n",
     ":6:25: state.journal.keep: found \"1023K\"; allowed is checkpoint, all, or a size of at "
     "least 1M such as 10G (which examples stay in the journal)"},
    {BASE "state: {journal: {keep: 10X}}\n",
     ":6:25: state.journal.keep: found \"10X\"; allowed is checkpoint, all, or a size of at "
     "least 1M such as 10G (which examples stay in the journal)"},
    {BASE "state: {journal: {keep: G}}\n",
     ":6:25: state.journal.keep: found \"G\"; allowed is checkpoint, all, or a size of at "
     "least 1M such as 10G (which examples stay in the journal)"},
    {BASE "state: {directory: \"\"}\n", ":6:20: state.directory: found the text \"\"; allowed is a "
                                        "path of 1 to 4095 bytes (where checkpoints are kept)"},
    {BASE "learning: {max_streams: 1048577}\n",
     ":6:25: learning.max_streams: found \"1048577\"; allowed is a whole number from 1 to 1048576 "
     "(streams remembered at once)"},
    {"name: a\nmodel:\n  input: {kind: text}\n",
     ":3:17: model.input.kind: found \"text\"; allowed is real or symbol (what an input is)"},
    {"name: a\nmodel:\n  layers: [{cell: ltsm, size: 4}]\n",
     ":3:19: model.layers.0.cell: found \"ltsm\" (did you mean \"lstm\"?); allowed is dense, rnn, "
     "gru or lstm (the layer's kind)"},
    {"name: a\nmodel:\n  layers: [{cell: lstm, size: 65537}]\n",
     ":3:31: model.layers.0.size: found \"65537\"; allowed is a whole number from 1 to 65536 "
     "(units of the layer)"},
    {"name: a\nmodel:\n  layers: [{cell: lstm, size: 4, norm: no}]\n",
     ":3:40: model.layers.0.norm: found \"no\" (did you mean \"none\"?); allowed is none, layer, "
     "rms, weight, batch or recurrent_batch (how the layer normalizes its sums)"},
    {"name: a\nmodel:\n  input: {kind: real, size: 1000001}\n",
     ":3:29: model.input.size: found \"1000001\"; allowed is a whole number from 1 to 1000000 "
     "(numbers in an input, or size of the alphabet)"},
    {BASE "seed: " X32 X32 "\n",
     ":6:7: seed: found \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\"" SEED},
    /* Endpoints. */
    {BASE "examples: {bind: 5570}\n", ":6:18: examples.bind: found \"5570\"" BIND},
    {BASE "examples: {bind: \"udp://127.0.0.1:5570\"}\n",
     ":6:18: examples.bind: found the text \"udp://127.0.0.1:5570\"" BIND},
    {BASE "examples: {bind: \"inproc://a\"}\n",
     ":6:18: examples.bind: found the text \"inproc://a\"" BIND},
    {BASE "examples: {bind: \"tcp://127.0.0.1\"}\n",
     ":6:18: examples.bind: found the text \"tcp://127.0.0.1\"" BIND},
    {BASE "examples: {bind: \"tcp://:5570\"}\n",
     ":6:18: examples.bind: found the text \"tcp://:5570\"" BIND},
    {BASE "examples: {bind: \"tcp://127.0.0.1:65536\"}\n",
     ":6:18: examples.bind: found the text \"tcp://127.0.0.1:65536\"" BIND},
    {BASE "examples: {bind: \"tcp://::1:5570\"}\n",
     ":6:18: examples.bind: found the text \"tcp://::1:5570\"" BIND},
    {BASE "examples: {bind: \"ipc://\"}\n", ":6:18: examples.bind: found the text \"ipc://\"" BIND},
    {BASE "examples: {connect: \"tcp://*:5570\"}\n",
     ":6:21: examples.connect: found the text \"tcp://*:5570\"" CONNECT},
    {BASE "examples: {connect: \"tcp://127.0.0.1:*\"}\n",
     ":6:21: examples.connect: found the text \"tcp://127.0.0.1:*\"" CONNECT},
    {BASE "examples: {connect: \"tcp://127.0.0.1:0\"}\n",
     ":6:21: examples.connect: found the text \"tcp://127.0.0.1:0\"" CONNECT},
    {BASE "examples: {socket: router}\nstate: {journal: {enabled: false}}\n",
     ":7:28: state.journal.enabled: found false with examples.socket: router, which acknowledges "
     "what the "
     "journal has; allowed is true"},
    {BASE "examples: {socket: push}\n",
     ":6:20: examples.socket: found \"push\" (did you mean "
     "\"pull\"?); allowed is pull, sub or router (ZeroMQ socket type)"},
    {BASE "examples:\n  bind: \"tcp://127.0.0.1:1\"\n  connect: \"tcp://127.0.0.1:2\"\n",
     ":8:12: examples.connect: found beside examples.bind; allowed is one of them"},
    {JSON("field: [t]"), ":6:46: examples.json.field: found 't', expected COLUMN=PATH, as "
                         "temperature=data.temperature"},
    {JSON("field: [t=a, t=b]"), ":6:46: examples.json.field: column 't' given twice"},
    {JSON("field: [u=a]"),
     ":6:46: examples.json.field: unknown column 'u' (not in model.input.columns)"},
    {JSON("key_field: a..b"),
     ":6:50: examples.json.key_field: found 'a..b', expected a field of JSON, as data.name"},
    {JSON("time_format: s"),
     ":6:52: examples.json.time_format: only with examples.json.time_field"},
    {JSON("time_field: ts, time_format: iso"),
     ":6:68: examples.json.time_format: found 'iso', expected a format of strptime(3), as "
     "'%d/%m/%Y %H:%M', or s, ms, us, ns"},
    {BASE "examples: {redis: {stream: s}, json: {key_field: a}}\n",
     ":6:50: examples.json.key_field: found without model.input.columns, which name the numbers "
     "of x"},
    {JSON("strict: true"), ":6:47: examples.json.strict: found alone; needed is "
                           "examples.json.field, key_field or time_field"},
    {BASE "examples: {json: {strict: true}}\n",
     ":6:27: examples.json.strict: found without examples.redis.stream and examples.kafka.topic, "
     "whose messages it is for; runnel-feed has options of the same names"},
    {BASE "statistics: {bind: \"ipc:///tmp/a\"}\ncontrol: {bind: \"ipc:///tmp/a\"}\n",
     ":7:17: control.bind: found \"ipc:///tmp/a\", which statistics.bind has too; allowed is "
     "another endpoint"},
    {BASE "control: {bind: \"tcp://127.0.0.1:5570\"}\n",
     ":6:17: control.bind: found \"tcp://127.0.0.1:5570\", which examples.bind has too; allowed is "
     "another endpoint"},
    /* What other machines can reach, and lists without keys. */
    {BASE "examples: {bind: \"tcp://*:5570\"}\n",
     ":6:18: examples.bind: found \"tcp://*:5570\", which other machines can reach, without keys; "
     "allowed is loopback or ipc, or any with security.secret..."},
    {BASE "statistics: {bind: \"tcp://0.0.0.0:5570\"}\n",
     ":6:20: statistics.bind: found \"tcp://0.0.0.0:5570\", which other machines can reach..."},
    {BASE "control: {bind: \"tcp://[::]:5570\"}\n",
     ":6:17: control.bind: found \"tcp://[::]:5570\", which other machines can reach..."},
    {BASE "control: {bind: \"tcp://[::ffff:128.0.0.1]:*\"}\n",
     ":6:17: control.bind: found \"tcp://[::ffff:128.0.0.1]:*\", which other machines can "
     "reach..."},
    {BASE "control: {bind: \"tcp://no-such-interface:5570\"}\nsecurity: {insecure: false}\n",
     ":6:17: control.bind: found \"tcp://no-such-interface:5570\", which other machines can "
     "reach..."},
    {BASE "security: {allow: {control: a}}\n",
     ":6:29: security.allow.control: found without security.secret; it is allowed only beside "
     "that"},
    /* Keys that count only beside others. */
    {"name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: real, size: 2, embedding: "
     "3}\n  output: {loss: squared, size: 2}\n",
     ":4:43: model.input.embedding: found with kind: real; it is allowed only with kind: symbol"},
    {"name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: symbol, size: 2, scale: "
     "standard}\n  output: {loss: squared, size: 2}\n",
     ":4:41: model.input.scale: found with kind: symbol; it is allowed only with kind: real"},
    {"name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: symbol, size: 2, missing: "
     "hold}\n  output: {loss: squared, size: 2}\n",
     ":4:43: model.input.missing: found with kind: symbol; it is allowed only with kind: real"},
    {"name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: gru, size: 4, activation: "
     "relu}]\n  output: {loss: squared, size: 2}\n",
     ":4:45: model.layers.0.activation: found with cell: gru; it is allowed only with cell: dense"},
    {"name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: gru, size: 4, norm: none, "
     "gain: 1}]\n  output: {loss: squared, size: 2}\n",
     ":4:51: model.layers.0.gain: found with norm: none; it is allowed only with norm: layer, "
     "rms, weight, batch or recurrent_batch"},
    {"name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: gru, size: 4, "
     "forget_bias: 1}]\n  output: {loss: squared, size: 2}\n",
     ":4:46: model.layers.0.forget_bias: found with cell: gru; it is allowed only with cell: lstm"},
    {"name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: real, size: 2}\n  output: "
     "{loss: squared, size: 2, components: 4}\n",
     ":5:48: model.output.components: found with loss: squared; it is allowed only with loss: "
     "mixture"},
    {BASE "learning: {optimizer: {kind: sgd, beta1: 0.9}}\n",
     ":6:42: learning.optimizer.beta1: found with kind: sgd; it is allowed only with kind: adam or "
     "adamw"},
    {BASE "learning: {optimizer: {kind: sgd, beta2: 0.9}}\n",
     ":6:42: learning.optimizer.beta2: found with kind: sgd; it is allowed only with kind: adam or "
     "adamw"},
    {BASE "learning: {optimizer: {kind: sgd, epsilon: 1e-8}}\n",
     ":6:44: learning.optimizer.epsilon: found with kind: sgd; it is allowed only with kind: "
     "rmsprop, adam or adamw"},
    {BASE "learning: {optimizer: {kind: adam, momentum: 0.9}}\n",
     ":6:46: learning.optimizer.momentum: found with kind: adam; it is allowed only with kind: "
     "sgd"},
    {BASE "learning: {optimizer: {kind: rmsprop, nesterov: true}}\n",
     ":6:49: learning.optimizer.nesterov: found with kind: rmsprop; it is allowed only with kind: "
     "sgd"},
    {BASE "learning: {optimizer: {kind: adamw, alpha: 0.9}}\n",
     ":6:44: learning.optimizer.alpha: found with kind: adamw; it is allowed only with kind: "
     "rmsprop or cocob"},
    /* Rules between keys. */
    {BASE "learning: {window: 4, stride: 5}\n",
     ":6:31: learning.stride: found 5; allowed is at most learning.window, 4"},
    {BASE "learning: {stride: 17}\n",
     ":6:20: learning.stride: found 17; allowed is at most learning.window, 16"},
    {BASE "learning: {rule: bptt}\n",
     ":6:18: learning.rule: found \"bptt\" (did you mean \"tbptt\"?); allowed is " RULE_WORDS
     " (how an update comes by its gradient)"},
    {BASE "learning: {rule: snap1}\n", ":6:18: learning.rule: found snap1 with a layer whose cell "
                                       "is lstm (model.layers.0); allowed with "
                                       "it are layers of dense, rnn or gru"},
    {NEXT("kind: real, size: 3", "loss: squared, size: 3") "learning: {rule: eprop}\n",
     ":6:18: learning.rule: found eprop with a layer whose cell is gru (model.layers.0); allowed "
     "with "
     "it are layers of dense or lstm"},
    {BASE "learning: {rule: rtrl}\ndevice: cuda:1\n",
     ":6:18: learning.rule: found rtrl with device: cuda:1; no GPU computes it: allowed is device: "
     "cpu, or auto, which is the processor then"},
    {"name: a\nmodel:\n  layers: [{cell: dense, size: 8}, {cell: gru, size: 300}]\n  input: {kind: "
     "real, size: 3}\n  output: {loss: squared, size: 2}\nlearning: {rule: rtrl}\n",
     ":6:18: learning.rule: found rtrl, which would keep 322 MiB of each stream; allowed are at "
     "most "
     "256: with recurrent layers of 277 units it fits"},
    {BASE "learning: {optimizer: {kind: sgd, nesterov: true}}\n",
     ":6:45: learning.optimizer.nesterov: found true; it is allowed only with "
     "learning.optimizer.momentum above 0"},
    {"name: a\nmodel:\n  layers: [{cell: gru, size: 4}]\n  input: {kind: real, size: 3}\n  output: "
     "{loss: mixture, size: 2, components: 4}\n",
     ":5:33: model.output.size: found 2; allowed with loss: mixture is 3 (two offsets and an end)"},
    {NEXT("kind: real, size: 3", "loss: squared, size: 2"),
     ":5:33: model.output.size: found 2; allowed with target: next is model.input.size, 3"},
    {NEXT("kind: real, size: 3", "loss: softmax, size: 3"),
     ":5:18: model.output.loss: found softmax; allowed with target: next and real inputs is "
     "squared, gaussian, bernoulli or mixture"},
    {NEXT("kind: real, size: 4", "loss: mixture, components: 2"),
     ":4:29: model.input.size: found 4; allowed with target: next and loss: mixture is 3"},
    {NEXT("kind: real, size: 3, scale: standard", "loss: mixture, components: 2"),
     ":4:39: model.input.scale: found standard; allowed with target: next and loss: mixture is "
     "none, since scaled targets would leave their range"},
    {NEXT("kind: real, size: 3, scale: standard", "loss: bernoulli, size: 3"),
     ":4:39: model.input.scale: found standard; allowed with target: next and loss: bernoulli is "
     "none, since scaled targets would leave their range"},
    {NEXT("kind: symbol, size: 3", "loss: squared, size: 3"),
     ":5:18: model.output.loss: found squared; allowed with target: next and symbol inputs is "
     "softmax"},
    {NEXT("kind: symbol, size: 3", "loss: mixture, components: 3"),
     ":5:18: model.output.loss: found mixture; allowed with target: next and symbol inputs is "
     "softmax"},
    {NEXT("kind: symbol, size: 3", "loss: softmax, size: 4"),
     ":5:33: model.output.size: found 4; allowed with target: next is model.input.size, 3"},
    {"name: a\nmodel:\n  input: {kind: real, size: 2}\n  layers: [{cell: lstm, size: 65536}]\n  "
     "output: {loss: squared, size: 2}\n",
     ":3:3: model: found 17181966338 parameters; allowed are at most 2147483647"},
    /* Tags. */
    {BASE "seed: !secret 1\n", ":6:7: seed: found the tag \"!secret\"; allowed is none"},
    {BASE "learning: !!set {window}\n",
     ":6:11: learning: found the tag \"tag:yaml.org,2002:set\"; allowed is none"},
    {BASE "device: !!binary Y3B1\n",
     ":6:9: device: found the tag \"tag:yaml.org,2002:binary\"; allowed is none"},
};

/* An override of a good file, and its error; one that begins with ':' is said of the file. */
static const struct {
    const char *override, *says;
} wrong_overrides[] = {
    {"learning.window", "--set learning.window: a value is missing; write KEY=VALUE"},
    {"=3", "--set =3: unknown key; allowed here: " TOP},
    {"lerning.window=3", "--set lerning.window=3: lerning.window: unknown key (did you mean "
                         "\"learning.window\"?); allowed here: " TOP},
    {"learning.window=[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]",
     "--set learning.window=[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]: found more than 16 lists and "
     "mappings within each other; no key has as many"},
    {"learning.windw=3",
     "--set learning.windw=3: learning.windw: unknown key (did you mean \"learning.window\"?); "
     "allowed in learning: rule, window, stride, optimizer, clip, max_streams, threads, pin"},
    {"learning.window.x=3",
     "--set learning.window.x=3: learning.window.x: unknown key; allowed here: " TOP},
    {"learning.=3", "--set learning.=3: learning.: unknown key; allowed in learning: rule, window, "
                    "stride, optimizer, clip, max_streams, threads, pin"},
    {".=3", "--set .=3: .: unknown key; allowed here: " TOP},
    {"model.layers.0.sise=3",
     "--set model.layers.0.sise=3: model.layers.0.sise: unknown key (did "
     "you mean \"model.layers.0.size\"?); allowed in model.layers.0: "
     "cell, size, norm, activation, gain, norm_momentum, norm_steps, forget_bias"},
    {"model.layers.1.size=3", "--set model.layers.1.size=3: model.layers.1.size: found layer 1; "
                              "allowed is a number below the count of layers, 1"},
    {"model.layers.01.size=3", "--set model.layers.01.size=3: model.layers.01.size: unknown key "
                               "(did you mean \"model.layers.0.size\"?); allowed here: " TOP},
    {"model.layers.-1.size=3", "--set model.layers.-1.size=3: model.layers.-1.size: unknown key "
                               "(did you mean \"model.layers.0.size\"?); allowed here: " TOP},
    {"model.layers.9999999.size=3",
     "--set model.layers.9999999.size=3: model.layers.9999999.size: unknown key (did you mean "
     "\"model.layers.0.size\"?); allowed here: " TOP},
    {"model.layers.0=lstm",
     "--set model.layers.0=lstm: model.layers.0: found \"lstm\"; allowed is "
     "a mapping of cell, size, norm, activation, gain, norm_momentum, norm_steps, forget_bias"},
    {"model.layers.0={cell: rnn}",
     "--set model.layers.0={cell: rnn}: model.layers.0.size: missing; needed is a whole number "
     "from 1 to 65536 (units of the layer)"},
    {"model.layers.0=",
     ":4:11: model.layers.0.cell: missing; needed is dense, rnn, gru or lstm (the layer's kind)"},
    {"model.layers=", ":3:3: model.layers: missing; needed is " LAYERS},
    {"name=", ":1:1: name: missing; needed is 1 to 64 letters, digits, '-', '_' and '.' (what this "
              "daemon is called)"},
    {"name=~", ":1:1: name: missing; needed is 1 to 64 letters, digits, '-', '_' and '.' (what "
               "this daemon is called)"},
    {"learning.window=x", "--set learning.window=x: learning.window: found \"x\"; allowed is a "
                          "whole number from 1 to 65536 (steps that the gradient reaches back)"},
    {"learning.window=[3", "--set learning.window=[3: not YAML: ..."},
    {"learning.window=1\n---\n2",
     "--set learning.window=1?---?2: found a second document; allowed is one in a file"},
    {"learning.window=3\n4",
     "--set learning.window=3?4: learning.window: found \"3 4\"; allowed is a whole number from 1 "
     "to 65536 (steps that the gradient reaches back)"},
    {"learning.stride=17",
     "--set learning.stride=17: learning.stride: found 17; allowed is at most learning.window, 16"},
    {"learning.optimizer={kind: sgd, rat: 0.1}",
     "--set learning.optimizer={kind: sgd, rat: 0.1}: learning.optimizer.rat: unknown key (did you "
     "mean \"learning.optimizer.rate\"?); allowed in learning.optimizer: " OPTIMIZER},
    {"learning.optimizer={kind: sgd, rate: 0.1, rate: 0.2}",
     "--set learning.optimizer={kind: sgd, rate: 0.1, rate: 0.2}: learning.optimizer.rate: found "
     "twice in one mapping, first in line 1; once is allowed"},
    {"learning.optimizer=sgd", "--set learning.optimizer=sgd: learning.optimizer: found \"sgd\"; "
                               "allowed is a mapping of " OPTIMIZER},
    {"learning.optimizer.beta1=1",
     "--set learning.optimizer.beta1=1: learning.optimizer.beta1: found \"1\"; allowed is a number "
     "from 0 to below 1 (decay of the gradient's average)"},
    {"learning.optimizer.alpha=0.5",
     "--set learning.optimizer.alpha=0.5: learning.optimizer.alpha: found with kind: sgd; it is "
     "allowed only with kind: rmsprop or cocob"},
    {"control.bind=tcp://127.0.0.1:5570",
     "--set control.bind=tcp://127.0.0.1:5570: control.bind: found \"tcp://127.0.0.1:5570\", which "
     "examples.bind has too; allowed is another endpoint"},
    {"fleet.lease=10",
     "--set fleet.lease=10: fleet.lease: found without examples.redis.stream and "
     "examples.kafka.topic, whose partitions a fleet shares out; needed is one of them"},
    {"fleet.average.every=10",
     "--set fleet.average.every=10: fleet.average.every: found with fleet.lease 0; allowed is 0.5 "
     "or more"},
    {"fleet={lease: 0.1}",
     "--set fleet={lease: 0.1}: fleet.lease: found 0.1; allowed is 0.5 or more"},
    {"model.input.size", "--set model.input.size: a value is missing; write KEY=VALUE"},
};

#endif
