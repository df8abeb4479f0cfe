#!/usr/bin/python3
"""Writes the seeds of the fuzz harnesses: seeds.py DIRECTORY makes DIRECTORY/HARNESS/NAME for each.

The module accepts seeds named good-...; others are rejected, or once crashed it. The beginning
of tests/fuzz/fuzz_HARNESS.c describes a harness's input. A model's number is its place in
tests/support/example_models.h, a learner's number that in fuzz_checkpoint.c."""
import json
import pathlib
import struct
import sys

NAN = float("nan")
INFINITY = float("inf")
SOURCE = pathlib.Path(__file__).resolve().parents[2]


# --- decode: a model, the number of frames, and each frame after its size, the last without
# ----------
REAL, SENSOR, HOLD, CHARACTERS, TAGS, BERNOULLI, BERNOULLI_NEXT, STROKES, COLUMNS, WORDS = range(10)
NO_CLASS = 0xFFFFFFFF


def message(model, *frames):
    sized = b"".join(struct.pack("<H", len(frame)) + frame for frame in frames[:-1])
    return bytes([model, len(frames)]) + sized + b"".join(frames[-1:])


def reals(*numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def symbols(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def header(version=1, flags=0, zero=0, epoch=2, sequence=5, time=1.5):
    return struct.pack("<BBHIQd", version, flags, zero, epoch, sequence, time)


X = reals(1, 2, 3)
UNNUMBERED = {"flags": 2, "epoch": 0, "sequence": 0, "time": INFINITY}
WORD = 0xFFFFFFFE
HASHED = 0x80000003  # minus the symbol 3
DECODE = {
    "good-words": message(WORDS, b"a", reals(1) + symbols(WORD, HASHED), symbols(WORD),
                          header(flags=32), b"\x03abc\x04free"),
    "good-words-by-id": message(WORDS, b"a", reals(1) + symbols(4, 7), symbols(3), header()),
    "good-words-json": message(WORDS, b'{"x": {"user": "u1", "host": "abc"}, "y": "free"}'),
    "good-words-json-steps": message(WORDS, b'{"x": [{"load": 1, "user": "u", "host": "h"}, '
                                     b'{"host": "", "user": "u"}], "y": ["free", null]}'),
    "good-words-json-list": message(WORDS, b'{"x": [null, "a", "b"]}'),
    "good-words-schema": message(WORDS, b'{"schema": {"dtype": "mixed", "columns": ["load", '
                                 b'{"name": "host", "kind": "symbol"}, "user"]}}'),
    "good-note": message(REAL, b"a", X, b"", header(flags=64), "café\x1b[1m".encode()),
    "good-note-words": message(WORDS, b"a", reals(1) + symbols(WORD, 3), symbols(WORD), header(flags=96),
                               b"\x03abc\x04free", b"a note"),
    "bad-note-too-long": message(REAL, b"a", X, b"", header(flags=64), 1001 * b"n"),
    "bad-note-not-text": message(REAL, b"a", X, b"", header(flags=64), b"\xed\xa0\x80"),
    "bad-note-none": message(REAL, b"a", X, b"", header(flags=64)),
    "bad-words-cut": message(WORDS, b"a", reals(1) + symbols(WORD, 3), b"", header(flags=32),
                             b"\x09abc"),
    "bad-words-count": message(WORDS, b"a", reals(1) + symbols(WORD, 3), b"", header(flags=32),
                               b"\x01a\x01b"),
    "bad-words-none": message(WORDS, b"a", reals(1) + symbols(WORD, 3), b"", header()),
    "bad-words-json-unknown": message(WORDS, b'{"x": {"host": "a", "user": "u", "lod": 1}}'),
    "bad-words-json-missing": message(WORDS, b'{"x": {"load": 1, "user": "u"}}'),
    "bad-words-json-number": message(WORDS, b'{"x": {"host": 1, "user": "u"}}'),
    "bad-words-schema": message(WORDS, b'{"schema": {"columns": ["load", "user", "host"]}}'),
    "good-real": message(REAL, b"a", X),
    "good-real-target": message(REAL, b"a", X, reals(4, NAN)),
    "good-real-header": message(REAL, b"key", reals(*range(1, 7)), reals(*range(4, 8)),
                                header(flags=1)),
    "good-no-target-header": message(REAL, b"", X, b"", header(flags=1)),
    "good-many-steps": message(REAL, b"m", reals(*range(21))),
    "good-json": message(REAL, b'{"x": [1, 2, 3]}'),
    "good-sensor": message(SENSOR, "büro".encode(), reals(7, 8, 9), reals(1, 2, NAN)),
    "good-held": message(HOLD, b"a", reals(NAN, 2)),
    "good-characters": message(CHARACTERS, b"a", symbols(0, 4, 2)),
    "good-tags": message(TAGS, b"a", symbols(0, 4, 2), symbols(2, NO_CLASS, 0)),
    "good-bernoulli": message(BERNOULLI, b"a", reals(7, -7), reals(-0.0, 1)),
    "good-bernoulli-next": message(BERNOULLI_NEXT, b"a", reals(NAN, 0.5)),
    "good-strokes": message(STROKES, b"a", X, reals(-4, 5, 7.5)),
    "good-columns": message(COLUMNS, b"a", struct.pack("<fIffIf", 1, 4, 13, NAN, 0, -2)),
    "column-beyond": message(COLUMNS, b"a", struct.pack("<fIf", 1, 5, 13)),
    "column-missing": message(COLUMNS, b"a", struct.pack("<fIf", 1, 3, NAN)),
    "bernoulli-beyond": message(BERNOULLI, b"a", reals(7, -7), reals(0, 1.5)),
    "character-beyond": message(CHARACTERS, b"a", symbols(0, 5)),
    "five-frames": message(REAL, b"a", X, b"", header(flags=1), b""),
    "flags": message(REAL, b"", X, b"", header(flags=44)),
    "frozen-forever": message(REAL, b"a", X, b"", header(**UNNUMBERED)),
    "infinite": message(HOLD, b"a", reals(NAN, -INFINITY)),
    "key-not-text": message(REAL, b"\xed\xa0\x80", X),
    "key-too-long": message(REAL, 256 * b"k", X),
    "many-steps-infinite": message(REAL, b"m", reals(*[1] * 14, INFINITY, *[0] * 6)),
    "no-frames": bytes([REAL, 0]),
    "reserved": message(REAL, b"a", X, b"", header(flags=2, zero=0xFFFF, epoch=0xFFFFFFFF,
                                                   sequence=0xFFFFFFFFFF, time=INFINITY)),
    "version": message(REAL, b"", X, b"", header(version=0)),
    "x-size": message(SENSOR, b"", b"F\1\2\0\0"),
    "y-size": message(REAL, b"a", X, reals(4)),
}


# --- json: a model, and one frame ----------------------------------------------------------------------
def text(model, json_text):
    return bytes([model]) + json_text.encode()


def keyed(size):
    return text(REAL, '{"stream": "%s", "x": [1, 2, 3]}' % (size * "k"))


JSON = {
    "good-all": text(REAL, '{"time": 1.5, "sequence": 5, "epoch": 2, "end": true, "learn": false, '
                           '"x": [[1, 2, 3], [4, 5, 6]], "y": [[1, null], [null, 2]], '
                           r'"stream": "b\u00fcro"}'),
    "good-note": text(REAL, r'{"x": [1, 2, 3], "note": "b\u00fcro \u001b[1m"}'),
    "note-no-text": text(REAL, '{"x": [1, 2, 3], "note": 7}'),
    "good-step": text(REAL, '{"x": [1, 2.5, -3e-2]}'),
    "good-no-target": text(REAL, '{"x": [1, 2, 3], "y": []}'),
    "good-key-longest": keyed(255),
    "good-number": text(SENSOR, '{"x": 7, "y": 8}'),
    "good-numbers": text(SENSOR, '{"x": [7, 8], "y": [1, null]}'),
    "good-rows": text(SENSOR, '{"x": [[7], [8]], "y": [[1], [2]]}'),
    "good-large": text(SENSOR, '{"x": 10000000000000000000000, "sequence": 9007199254740991}'),
    "good-held": text(HOLD, '{"x": [[null, 2], [3, null]]}'),
    "good-characters": text(CHARACTERS, '{"x": [0, 4.0, 2]}'),
    "good-tags": text(TAGS, '{"x": [3, 1], "y": [null, 0]}'),
    "good-bernoulli": text(BERNOULLI, '{"x": [1, 2], "y": [0, 1]}'),
    "good-strokes": text(STROKES, '{"x": [1, 2, 3], "y": [4, 5, 6]}'),
    "good-columns": text(COLUMNS, '{"x": [[1, 4, 13], [null, 0, -2.5]]}'),
    "column-not-whole": text(COLUMNS, '{"x": [1, 1.5, 2]}'),
    "bernoulli-beyond": text(BERNOULLI_NEXT, '{"x":[5,2]}'),
    "key-too-long": keyed(256),
    "needless-target": text(HOLD, '{"x": [7, 8],"y": [1, null]}'),
    "nested": text(SENSOR, '{"x": ' + 60 * "[" + 60 * "]" + "}"),
    "null-symbol": text(TAGS, '{"x": [3,null,0]}'),
    "overflow": text(SENSOR, '{"x": 1e39}'),
    "ragged": text(REAL, '{"x": [[1, 2, 3], [4, 5]]}'),
    "sequence": text(REAL, '{ "epoch":"bo"}'),
    "symbol-no-whole": text(TAGS, '{"x":[-2]}'),
    "twice": text(REAL, '{"x": [1, 2, 3], "x": [1, 2, 3]}'),
    "unknown": text(REAL, r'{"x": [1, 2, 3], "\u0007\ud83d\ude00": 1}'),
    "x-no-list": text(REAL, '{"x":9}'),
    "zero-key": text(REAL, r'{"stream": "a\u0000b", "x": [1, 2, 3]}'),
}


# --- config: a file, and then its changes
# ------------------------------------------------------------
def file(*lines, name="a", inputs="kind: real, size: 2", layers="{cell: lstm, size: 4}",
         output="loss: squared, size: 2"):
    """A small configuration with further `lines`."""
    model = [f"name: {name}", "model:", f"  input: {{{inputs}}}", f"  layers: [{layers}]",
             f"  output: {{{output}}}"]
    return "\n".join(model + list(lines)) + "\n"


def changed(*texts):
    return "\x1e".join(texts)


def long_path(letters):
    return f"state: {{directory: /{letters}{20 * 'é'}}}"


ANCHORS = """name: &n a
model: &m
  input: {kind: symbol, size: 5, embedding: 3}
  layers: [&l {cell: gru, size: 4, norm: none}, *l]
  output: {loss: softmax, size: %d, target: next}
"""
STROKES_FILE = """name: strokes
model:
  input: {kind: real, size: %d}
  layers:
    - &layer {cell: lstm, size: 400, norm: layer}
    - *layer
    - *layer
  output: {loss: mixture, components: 20, target: next}
learning: {window: 32, stride: 32, optimizer: {kind: adam, rate: 0.001}, clip: 1.0}
"""
JOURNAL = ('examples: {socket: router, bind: "ipc:///run/e"}',
           "state: {journal: {sync: normal, keep: %s}}")
SECURITY = ("security: {secret: key, allow: {examples: ~/e, statistics: /s}, insecure: true}",
            'examples: {bind: "tcp://*:5570"}')
CONFIG = {
    "good-base": file(),
    "good-anchor": ANCHORS % 5,
    "good-columns": file(inputs="scale: standard, columns: [{name: a, missing: hold, mask: true}, "
                                "{name: b, kind: symbol, size: 5, embedding: 2}, {name: c, kind: "
                                "cycle, period: 24, harmonics: 2}, {name: d, scale: none}]",
                         output="loss: squared, target: next, columns: [d, a]"),
    "column-twice": file(inputs="columns: [{name: a}, {name: a}]"),
    "good-temperature-pasted": file(inputs="kind: real, size: 1, scale: standard, missing: hold",
                                    layers="{cell: dense, size: 128, norm: none, activation: tanh}, "
                                           "{cell: gru, size: 128, norm: layer}",
                                    output="loss: gaussian, size: 1, target: next"),
    "good-strokes-pasted": STROKES_FILE % 3,
    "good-in-flight": changed(file(), "!learning.optimizer.rate=0.25", "!learning.clip=2", "!seed=1",
                              "!learning.rat=1", "!learning.clip="),
    "good-journal": changed(file(JOURNAL[0], JOURNAL[1] % "10G"), "state.journal.keep=all",
                            "state.journal.sync=off"),
    "good-overrides": changed(file(), "learning.optimizer.rate=0.5", "model.layers.0.size=64",
                              "model.layers=[{cell: gru, size: 3}]", "learning.clip="),
    "good-reload": changed(file(), "!learning.clip=2",
                           "@" + file("learning: {clip: 0.5, optimizer: {rate: 0.1}}"),
                           "@" + file(output="loss: gaussian, size: 2"),
                           "@" + file(layers="{cell: lstm, size: 4}, {cell: gru, size: 2}"),
                           "@name: ["),
    "good-reload-path": changed(file(long_path(98 * "a")), "@" + file(long_path(97 * "b"))),
    "good-security": file(*SECURITY),
    "good-set-text": changed(file(), "!learning.optimizer.rate=0.tanh25", "!lear5in\x01\udc9ap=2",
                             "!seed=1", "!!!int dlea=0.25", "!lear", "!learning.clip=e"),
    "good-sockets": file('examples: {bind: "tcp://127.0.0.1:5570", socket: pull}',
                         'statistics: {connect: "ipc:///run/s", every: 10}',
                         'control: {bind: "tcp://[::1]:5572"}'),
    "good-state": file("state: {directory: ~/x}", "seed: 9007199254740991", "device: cuda:1"),
    "allow-without-secret": file("security: {allow: {examples: e}}"),
    "connect-beside-bind": file('examples: {bind: "tcp://127.0.0.1:1", connect: "tcp://127.0.0.1:2"}'),
    "cycle": "name: a\nmodel: &m {input: *m}\n",
    "empty": "",
    "escapes": 'name: "\\x1b[31m\\u20ac"\nmodel: ~\n',
    "forget-bias": file(layers="{cell: gru, size: 4, forget_bias: 1}"),
    "journal-size": changed(file(JOURNAL[0], JOURNAL[1] % "09G", name="A"), "state.journal.keep=c=off"),
    "key-twice": "name: a\nname: d",
    "key-with-dot": "nam.nied: \n",
    "mixture-size": STROKES_FILE % 6,
    "nesterov": file("learning: {optimizer: {kind: sgd, nesterov: true}}"),
    "next-size": ANCHORS % 6,
    "no-device": file("state: {directory: ~/x}", "seed: 9007199254740991", "device: cuda:z1"),
    "override-control": changed(file(), "\n\x1b[31m", "!\n"),
    "parameters": file(layers=", ".join(16 * ["{cell: lstm, size: 65536}"])),
    "path-too-long": file(f"state: {{directory: ~/{4090 * 'x'}}}"),
    "router-no-journal": file("examples: {socket: router}", "state: {journal: {enabled: false}}"),
    "same-endpoint": file('examples: {bind: "ipc:///a"}', 'control: {bind: "ipc:///a"}'),
    "scaled-range": file(inputs="kind: real, size: 2, scale: standard",
                         output="loss: bernoulli, size: 2, target: next"),
    "second-document": file() + "---\n" + file(),
    "security": changed(file(*SECURITY), "security.secret="),
    "security-refused": file(SECURITY[1]),
    "state": file("state: {directory: ~/x}", "seed: 18446744073709551615", "device: cuda:1"),
    "stride": file("learning: {window: 15, stride: 16}"),
    "symbols-squared": file(inputs="kind: symbol, size: 2", output="loss: squared, size: 2, target: next"),
    "tab": "name: a\nmodel:\n\tinput: 1\n",
    "tag": "name: !!str 1\nmodel: !!omap []\n",
    "unknown": file("learnin: {window: 4}"),
}
# The users' configurations: each is accepted.
for path in (SOURCE / "conf").glob("*.yaml"):
    CONFIG[f"good-{path.stem}"] = path.read_text(encoding="utf-8")


# --- safetensors: 0, the header's size, the header and the data; or 1, that, and the size as written -----
def tensors(about, data=b"", size=None, padding=0):
    head = (json.dumps(about, separators=(",", ":"), ensure_ascii=False) if isinstance(about, dict)
            else about).encode() + padding * b" "
    return struct.pack("<BH", 0, len(head) if size is None else size) + head + data


def tensor(kind, shape, begin, end):
    return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}


def parameters(last, **renamed):
    """The parameters of a network with one dense unit."""
    names = ["layers.0.weight", "layers.0.bias", "output.weight", "output.bias"]
    shapes = [[1, 1], [1], [1, 1], [1]]
    about = {renamed.get(name.replace(".", "_"), name): tensor("F32", shape, 4 * n, 4 * n + 4)
             for n, (name, shape) in enumerate(zip(names, shapes))}
    return tensors(about, reals(0.5, -1, 0.25, last), padding=4)


TWO = {"__metadata__": {"format": "pt"}, "b": tensor("I64", [1, 1], 4, 12),
       "a": tensor("U8", [4], 0, 4)}
SAFETENSORS = {
    "good-none": tensors({}),
    "good-empty": tensors({"a": tensor("F32", [0, 3], 0, 0), "b": tensor("BOOL", [0], 0, 0),
                           "c": tensor("I8", [1], 0, 1)}, b"c"),
    "good-number": tensors({"a": tensor("BF16", [], 0, 2)}, b"ab"),
    "good-one": tensors({"a": tensor("F32", [2], 0, 8)}, bytes(8)),
    "good-two": tensors(TWO, bytes(range(12))),
    "good-rank": tensors({"a": tensor("F32", 8 * [1], 0, 4)}, bytes(4)),
    "good-parameters": parameters(2),
    "good-parameters-nan": parameters(NAN),
    "good-other-shape": parameters(NAN, layers_0_bias="layers.0b.ias", output_weight="layers.0.bias"),
    "control": tensors(r'{"a\n\u001b\ud83d\ude00":{"dtype":"F32","shape":[],"data_offsets":[0,9]}}',
                       bytes(9)),
    "cut-header": b"]a-1",
    "cut-name": tensors({99 * "x" + "€": tensor("F31", [], 0, 9)}, bytes(9)),
    "long": b"\1\0\0\0\0\0\0\0\1\0\0{}",
    "metadata": tensors(r'{"__metadata__":{"a\n":1}}'),
    "more-data": tensors({}, b"}"),
    "overflow": tensors({"a": tensor("F64", [2**62, 4], 0, 0)}),
    "overlap": tensors({"a": tensor("U8", [2], 0, 2), "b": tensor("U8", [2], 1, 3)}, b"abc"),
    "rank-too-large": tensors({"a": tensor("F32", 9 * [1], 0, 4)}, bytes(4)),
    "true": tensors({"a": True}),
    "truncated": tensors(TWO, bytes((0, 1, 2, 10, 11))),
}


# --- checkpoint: a learner and the kind of the rest; edits of its valid checkpoint, or a whole file
# ---
BYTE, NUMBER, WORD, HEADER_ADD, HEADER_CUT, CUT = range(6)
FORECAST, WORDY = 16, 48  # learners, in the byte that selects one
LEARNERS, WHOLE, NO_REPAIR = (0, 1, 2, 3, FORECAST, WORDY), 4, 8


def edit(learner, kind, place, value):
    return struct.pack("<BBHQ", learner, kind, place, value)


def whole(head):
    return bytes([WHOLE]) + struct.pack("<Q", len(head)) + head + bytes(8)


CHECKPOINT = {
    **{f"good-{n}": bytes([n]) for n in LEARNERS},
    **{f"nan-{n}": edit(n, NUMBER, 3, 0x7FC00000) for n in LEARNERS},
    **{f"word-{n}": edit(n, WORD, 40, 2**64 - 1) for n in LEARNERS},
    **{f"header-add-{n}": edit(n, HEADER_ADD, 100, ord(" ")) for n in LEARNERS},
    **{f"header-cut-{n}": edit(n, HEADER_CUT, 20, 0) for n in LEARNERS},
    **{f"cut-{n}": edit(n, CUT, 1500, 0) for n in LEARNERS},
    "good-number-0": edit(0, NUMBER, 5, 0x3E800000),
    "good-number-1": edit(1, NUMBER, 9, 0xC0600000),
    "good-other-device": bytes.fromhex("010000013f3f0000"),
    "checksum": edit(NO_REPAIR, BYTE, 2000, 7),
    "experts": edit(FORECAST, WORD, 1500, 0x7FF0000000000000),
    "class": edit(2, NUMBER, 415, 0x3F800000),
    "symbol": edit(2, NUMBER, 346, 0x7F800000),
    "whole": whole(b"{}"),
    "whole-format": whole(b'{"__metadata__":{"format":"runnel-checkpoint-0","examples":"1","time":"1"},'
                          b'"checksum":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}'),
    # Found by fuzzing.
    **{name: bytes.fromhex(found) for name, found in {
        "key": "e12c5de0d0", "moment": "7363616e6568", "other-format": "28d02d",
        "rates": "a1012340d0ff", "record": "01013f3f", "scale": "00fed7ffffffffffffffff",
        "scaler": "40fdd729ffffff", "truncated": "022300ffff", "window": "0001ffffff"}.items()},
}

# --- initial: the same for files of model.initial
# ----------------------------------------------------
INITIAL = {
    **{f"good-{n}": bytes([n]) for n in LEARNERS},
    **{f"nan-{n}": edit(n, NUMBER, 3, 0x7FC00000) for n in LEARNERS},
    **{f"good-huge-{n}": b"".join([bytes([n])] + [edit(n, NUMBER, place, 0x7F7FFFFF)[1:] for place in range(8)])
       for n in LEARNERS},
    **{f"header-{n}": edit(n, HEADER_CUT, 20, 0) for n in LEARNERS},
    **{f"cut-{n}": edit(n, CUT, 1500, 0) for n in LEARNERS},
    "word": edit(WORDY, BYTE, 150, ord('"')),
    "whole": whole(b"{}"),
}

# --- pieces: commands of a control socket -----------------------------------------------------------------
def part(blob, **more):
    return json.dumps({"command": "adopt", **more, "blob": blob}, separators=(",", ":")).encode() + b"\n"


PIECES = {
    "good-whole": part("Uk5TVFJFQU0="),
    "good-parts": part("Uk5T", part=1, parts=3) + part("VFJF", part=2, parts=3) + part("QU0=", part=3, parts=3),
    "good-again": part("Uk5T", part=1, parts=3) + part("AAAA", part=1, parts=2) + part("QU0=", part=2, parts=2),
    "parts-skipped": part("Uk5T", part=1, parts=3) + part("QU0=", part=3, parts=3),
    "parts-other": part("Uk5T", part=1, parts=3) + part("QU0=", part=2, parts=4),
    "parts-many": part("Uk5T", part=2**63 - 1, parts=2**63 - 1) + part("Uk5T", part=-1) + part("", part=1.5),
    "parts-large": part("A" * 700, part=1, parts=2) + part("A" * 104, part=2, parts=2) + part("A" * 900),
    "parts-none": part("Uk5", part=1, parts=1) + part("U===") + b"[]\n7\n{}\n" + part(7),
}


# --- stream: a learner and the kind of the rest; edits of its valid blob, or a whole one
# -------------
S_BYTE, S_WORD, S_GROW, S_CUT, S_END, S_ROW = range(6)
S_WHOLE, S_NO_REPAIR, S_FULL = 16, 32, 64
STREAM = {
    **{f"good-{n}": bytes([n]) for n in range(9)},
    **{f"good-full-{n}": bytes([n | S_FULL]) for n in range(9)},
    **{f"nan-{n}": edit(n | S_FULL, S_WORD, 300, 0x7FF8000000000000) for n in range(9)},
    **{f"word-{n}": edit(n, S_WORD, 130, 2**64 - 1) for n in range(9)},
    **{f"size-{n}": edit(n | S_FULL, S_WORD, 83, 2**64 - 8) for n in range(9)},
    **{f"row-more-{n}": edit(n | S_FULL, S_ROW, n % 5, 9) for n in range(9)},
    **{f"row-less-{n}": edit(n | S_FULL, S_ROW, n % 5, 8) for n in range(9)},
    **{f"row-none-{n}-{row}": edit(n, S_ROW, row, 30) for n in (1, 4, 6, 8) for row in range(8, 12)},
    **{f"end-{n}": edit(n, S_END, 200, 0) for n in range(9)},
    "key": edit(S_FULL, S_BYTE, 59, 0xFF),
    "key-size": edit(S_FULL, S_BYTE, 58, 0xFF),
    "good-other-key": edit(S_FULL, S_BYTE, 59, ord("z")),
    "digest": edit(0, S_BYTE, 20, 7),
    "checksum": edit(S_NO_REPAIR, S_BYTE, 100, 7),
    "grown": edit(0, S_GROW, 300, 8),
    "cut": edit(0, S_CUT, 300, 8),
    "whole": bytes([S_WHOLE]) + b"RNSTREAM" + struct.pack("<II", 1, 0),
    "whole-later": bytes([S_WHOLE]) + b"RNSTREAM" + struct.pack("<II", 2, 0),
    "whole-parameters": bytes([S_WHOLE]) + struct.pack("<Q", 2) + b"{}",
}

# --- journal: a model and a format, a block's last position, count and kinds, its text, its bytes --------
OLDER, OLD, TODAY = range(3)  # formats 2 to 4
EXAMPLE, RESET = 2, 8  # kinds
SECOND = 128  # it follows a valid block


def journal(model, text, data, last=None, count=1, kinds=EXAMPLE, form=TODAY):
    text = text.encode() if isinstance(text, str) else text
    return struct.pack("<BqqQH", model | form << 4, count if last is None else last, count, kinds, len(text)) + text + data


def example(x, y="null", steps=1, flags=0, at=0, rest="null,null,null"):
    return f"[1,1,{at},1,{x},{y},{steps},{flags},{rest}]"


NUMBERS = b"k" + struct.pack("<5f", 1, 2, 3, 4, 5)
TAG = b"k" + struct.pack("<2I", 4, 2)
COMMAND_TEXT = b'{"command":"reset"}\0'
JOURNAL = {
    "good-real": journal(REAL, f"[{example(12, 8)}]", NUMBERS),
    "good-tags": journal(TAGS, f"[{example(4, 4)}]", TAG),
    "good-words": journal(WORDS, f"[{example(12, 4, flags=32, rest='0,1,null,0,null,null,2')}]",
                          b"k" + struct.pack("<fIII", 1, 2**32 - 2, 3, 1) + b"\1w"),
    "good-old": journal(REAL, f"[{example(12, 8)},[1,2,21,0,20]]", NUMBERS + COMMAND_TEXT, count=2, form=OLD),
    "good-older": journal(REAL, f"[{example(12, 8)},[1,2,21,0,20]]", NUMBERS + COMMAND_TEXT, count=2, form=OLDER),
    "good-command": journal(REAL, "[[1,3,0,0,20]]", COMMAND_TEXT, kinds=RESET),
    "count-old": journal(REAL, f"[{','.join(40 * [example(0)])}]", 40 * b"k", last=9, count=-500, form=OLD),
    "count-second": journal(REAL | SECOND, f"[{','.join(example(0, at=n) for n in range(40))}]", 40 * b"k", last=9, count=-500,
                            form=OLD),
    "good-second": journal(REAL | SECOND, f"[{example(12, 8)}]", NUMBERS, last=2),
    "count": journal(REAL, f"[{example(12, 8)}]", NUMBERS, last=9, count=-500),
    "last": journal(REAL, f"[{example(12, 8)}]", NUMBERS, last=2**63 - 1),
    "steps": journal(REAL, f"[{example(0, steps=2**62)}]", b"k"),
    "steps-none": journal(REAL, f"[{example(0, steps=0)}]", b"k"),
    "steps-label": journal(REAL, f"[{example(0, 0, 2**62, 8, rest='0,1,null,0,0,0')}]", b"k"),
    "symbol": journal(TAGS, f"[{example(4, 4)}]", b"k" + struct.pack("<2I", 2**31, 2)),
    "class": journal(TAGS, f"[{example(4, 4)}]", b"k" + struct.pack("<2I", 2, 2**31)),
    "nan": journal(REAL, f"[{example(12)}]", b"k" + struct.pack("<3f", 1, NAN, INFINITY)),
    "key": journal(REAL, f"[{example(12)}]", b"\xff" + NUMBERS[1:13]),
    "stamp": journal(REAL, f"[{example(12, rest='null,null,9221120237041090560')}]", NUMBERS[:13]),
    "word": journal(WORDS, f"[{example(12, 4, flags=32, rest='0,1,null,0,null,null,2')}]",
                    b"k" + struct.pack("<fIII", 1, 2**32 - 2, 3, 1) + b"\xffw"),
    "words-none": journal(WORDS, f"[{example(12)}]", b"k" + struct.pack("<fII", 1, 2**32 - 2, 3)),
}

# --- message: a model, the size of the key, the key, the payload ------------------------------------------
def payload(model, key, body):
    return bytes([model, len(key)]) + key + (body.encode() if isinstance(body, str) else body)


MESSAGE = {
    "good-numbers": payload(REAL, b"k", "1;2, 3"),
    "good-list": payload(REAL, b"k", "[1,2,3]"),
    "good-example": payload(REAL, b"\xff", '{"stream":"s","x":[1,2,3],"y":[1,null],"end":true}'),
    "good-columns": payload(COLUMNS, b"k", '{"load":1,"host":2,"hour":3}'),
    "key": payload(REAL, b"\xff", "1 2 3"),
    "key-long": payload(REAL, 255 * b"k", "1"),
    "empty": payload(REAL, b"k", ""),
    "nul": payload(REAL, b"k", "1\0 2 3"),
    "nul-name": payload(REAL, b"k", '{"x\\u0000":1}'),
    "control": payload(REAL, b"k", "\x01\x02"),
    "control-text": payload(REAL, b"k", '{"x":"\x1b[31m"}'),
    "delete": payload(REAL, b"k", "[1,2,\x7f]"),
    "direction": payload(REAL, b"k", "[\u202e"),
    "binary": payload(REAL, b"k", b"\xff\xfe"),
    "member": payload(REAL, b"k", '{"x":[1,2,3],"\\u001b":1}'),
    "stream": payload(REAL, b"k", '{"stream":"\\u0007","x":[1]}'),
    "deep": payload(REAL, b"k", 3000 * "["),
    "number": payload(REAL, b"k", "1e999 2 3"),
    "boolean": payload(REAL, b"k", "true"),
}

HARNESSES = {"decode": DECODE, "json": JSON, "config": CONFIG, "safetensors": SAFETENSORS,
             "checkpoint": CHECKPOINT, "pieces": PIECES, "stream": STREAM,
             "journal": JOURNAL, "initial": INITIAL, "message": MESSAGE}


def write(directory):
    for harness, seeds in HARNESSES.items():
        place = pathlib.Path(directory, harness)
        place.mkdir(parents=True, exist_ok=True)
        for name, seed in seeds.items():
            (place / name).write_bytes(seed.encode(errors="surrogateescape")
                                       if isinstance(seed, str) else seed)


if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
    sys.exit("usage: seeds.py DIRECTORY")
write(sys.argv[1])
