#!/usr/bin/python3
"""Compares a daemon with PyTorch on a stream of mixed columns in which hosts and classes appear late:
equal encodings, starting values and examples lead to equal losses and final parameters. The encoding
here follows docs/reference/columns.md and docs/reference/words.md, in float64.

Without torch (python3-torch) the daemon's losses are compared with those of PyTorch in torch.json.
With torch, `test_torch.py --store` writes that file, from the starting values of the configuration's
seed."""
import json
import math
import os
import pathlib
import random
import sys

import cases
import running

try:
    import numpy as np
except ImportError:
    print("needs python3-numpy")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "streams/python"))

import runnel  # noqa: E402  pylint: disable=wrong-import-position

STORED = SOURCE / "tests/programs/torch.json"  # the losses by cell
HOSTS, CLASSES = 5, 4  # capacities: one more host and class appear, and share the unknown
WINDOW, RATE, CLIP = 4, 0.01, 1.0
PERIOD, HARMONICS = 24, 2
EXAMPLES, APART = 400, 50  # a host and a class more after this number of examples
LOSS, PARAMETER = 1e-4, 1e-3  # float32 compared with float64, after 100 steps of Adam
CONFIG = """
name: torch
model:
  input:
    columns:
      - {{name: load, scale: standard, missing: hold, mask: true}}
      - {{name: host, kind: symbol, vocabulary: {{capacity: {hosts}}}, embedding: 3}}
      - {{name: hour, kind: cycle, period: {period}, harmonics: {harmonics}}}
  layers: [{{cell: {cell}, size: 8, norm: none}}]
  output: {{loss: softmax, target: given, {output}}}
learning: {{window: {window}, stride: {window}, clip: {clip}, optimizer: {{kind: adam, rate: {rate}, beta1: 0.9}}}}
examples: {{bind: "ipc://{d}/examples", socket: router}}
statistics: {{bind: "ipc://{d}/statistics"}}
control: {{bind: "ipc://{d}/control"}}
state: {{directory: "{d}/state"}}
"""


def stream():
    """(load or None, host, hour), class: the class depends on all of them and on the history."""
    draw, before = random.Random(7), 0
    for n in range(EXAMPLES):
        known = 1 + n // APART
        load = None if draw.random() < 0.1 else round(10 + 3 * draw.random() + before, 3)
        host = draw.randrange(min(known, HOSTS + 1))
        hour = (0.37 * n) % 30  # above the period, too
        before = (host + before + (hour % PERIOD > 12)) % min(known, CLASSES + 1)
        yield (load, f"host-{host}", round(hour, 3)), f"class-{before}"


class Words:
    """Ids in the order of appearance; beyond the capacity the id is the unknown's."""

    def __init__(self, capacity):
        self.capacity, self.ids = capacity, {}

    def take(self, word):
        if word not in self.ids and len(self.ids) < self.capacity:
            self.ids[word] = len(self.ids)
        return self.ids.get(word, self.capacity)


class Encoder:
    """The encoding of docs/reference/columns.md, in order: load and its mask, host, hour."""

    def __init__(self):
        self.count, self.mean, self.square, self.held, self.hosts = 0, 0.0, 0.0, None, Words(HOSTS)

    def encode(self, load, host, hour):
        """Returns the numbers before the host's embedding, its id, and the numbers after it."""
        if load is not None:
            load = float(np.float32(load))  # the precision of the message
            self.count += 1
            off = load - self.mean
            self.mean += off / self.count
            self.square += off * (load - self.mean)
            self.held = load
        sd = math.sqrt(self.square / self.count) if self.count else 0.0
        z = (self.held - self.mean) / sd if self.held is not None and sd > 0 else 0.0
        part = math.fmod(float(np.float32(hour)), PERIOD) / PERIOD
        waves = [f(2 * math.pi * k * part) for k in range(1, HARMONICS + 1) for f in (math.sin, math.cos)]
        return [z, float(load is None)], self.hosts.take(host), waves


class Network:
    """torch.nn's cell, an embedding and a readout, with the daemon's starting values."""

    def __init__(self, cell, tensors):
        of = {name: torch.tensor(value, dtype=torch.float64) for name, value in tensors.items()}
        inputs, size = of["layers.0.weight_ih"].shape[1], of["layers.0.weight_hh"].shape[1]
        self.cell = {"gru": torch.nn.GRUCell, "lstm": torch.nn.LSTMCell, "rnn": torch.nn.RNNCell}[cell](inputs, size).double()
        self.embedding = torch.nn.Embedding.from_pretrained(of["embedding.host.weight"], freeze=False)
        self.output = torch.nn.Linear(size, CLASSES + 1).double()
        self.named = {"embedding.host.weight": self.embedding.weight, "output.weight": self.output.weight,
                      "output.bias": self.output.bias,
                      **{f"layers.0.{name}": getattr(self.cell, name)
                         for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}}
        assert set(self.named) == set(of), (set(self.named), set(of))
        with torch.no_grad():
            for name, parameter in self.named.items():
                parameter.copy_(of[name].reshape(parameter.shape))
        zeros = torch.zeros(1, size, dtype=torch.float64)
        self.start = (zeros, zeros) if cell == "lstm" else zeros

    def step(self, state, x):
        """The next state, and the logits."""
        before, host, after = x
        numbers = [torch.tensor([part], dtype=torch.float64) for part in (before, after)]
        state = self.cell(torch.cat([numbers[0], self.embedding(torch.tensor([host])), numbers[1]], 1), state)
        return state, self.output(state[0] if isinstance(state, tuple) else state)


def learned_by_torch(cell, tensors, biases):
    """The loss of each example before its update, and the parameters at the end."""
    network, encoder, classes, losses = Network(cell, tensors), Encoder(), Words(CLASSES), []
    optimizer = torch.optim.Adam(list(network.named.values()), RATE)
    entropy, window, state = torch.nn.functional.cross_entropy, [], network.start
    first = state
    for x, word in stream():
        x, new = encoder.encode(*x), word not in classes.ids
        y = torch.tensor([CLASSES if new else classes.take(word)])  # the unknown at first
        with torch.no_grad():
            state, logits = network.step(state, x)
            losses.append(entropy(logits, y).item())
        window.append((x, y))
        if len(window) == WINDOW:
            terms, begin = [], first
            for x, y in window:
                begin, logits = network.step(begin, x)
                terms.append(entropy(logits, y))
            optimizer.zero_grad()
            (sum(terms) / len(terms)).backward()
            torch.nn.utils.clip_grad_norm_(list(network.named.values()), CLIP)
            optimizer.step()
            window, first = [], state
        if new and classes.take(word) < CLASSES:
            with torch.no_grad():
                # It is a class from the next example on.
                network.output.bias[classes.take(word)] = float(biases[classes.take(word)])
    return losses, {name: parameter.detach().numpy() for name, parameter in network.named.items()}


def daemon(directory, cell, output):
    directory.mkdir()
    return running.Daemon(directory, CONFIG.format(d=directory, cell=cell, output=output, hosts=HOSTS, period=PERIOD,
                                                   harmonics=HARMONICS, window=WINDOW, rate=RATE, clip=CLIP))


def exported(one):
    with runnel.Control(one.endpoint("control"), timeout=running.LIMIT) as control:
        return control.export()


def starting_values(directory, cell):
    """The starting values of a network with all classes known from the start."""
    with daemon(directory / "known", cell, f"size: {CLASSES + 1}") as one:
        return exported(one)


def compare(directory, cell):
    values = starting_values(directory, cell)
    with daemon(directory / "words", cell, f"vocabulary: {{capacity: {CLASSES}}}") as one:
        start = exported(one)
        with runnel.Client(one.endpoint("examples"), stream="s", timeout=running.LIMIT) as client:
            results = [client.submit(dict(zip(("load", "host", "hour"), x)), y, result=True) for x, y in stream()]
            losses = [one.prediction().loss for one in results]
        end = exported(one)
    for name, tensor in start.items():
        # the unknown's; the others have not appeared
        here = slice(CLASSES, None) if name == "output.bias" else slice(None)
        assert np.array_equal(tensor[here], values[name][here]), name
    stored = json.loads(STORED.read_text(encoding="utf-8"))[cell]
    moved = np.abs(end["layers.0.weight_ih"] - start["layers.0.weight_ih"]).max()
    assert len(losses) == len(stored) == EXAMPLES and moved > 0.1, (len(losses), moved)
    agree(losses, stored, "stored")
    if torch is None:
        print("not compared: needs torch")
        return
    mine, parameters = learned_by_torch(cell, start, values["output.bias"])
    agree(losses, mine, "PyTorch's")
    off = {name: np.abs(end[name].reshape(value.shape) - value).max() for name, value in parameters.items()}
    print(f"parameters that moved by up to {moved:.2f} are at most {max(off.values()):.1e} apart")
    assert max(off.values()) < PARAMETER, off


def agree(losses, others, whose):
    apart = [abs(a - b) for a, b in zip(losses, others)]
    print(f"{len(losses)} losses and {whose} are at most {max(apart):.1e} apart")
    assert max(apart) < LOSS, [(n, a, b) for n, (a, b) in enumerate(zip(losses, others)) if abs(a - b) >= LOSS][:5]


def store(directory):
    found = {}
    for cell in ("gru", "lstm", "rnn"):
        (directory / cell).mkdir()
        values = starting_values(directory / cell, cell)
        with daemon(directory / cell / "words", cell, f"vocabulary: {{capacity: {CLASSES}}}") as one:
            found[cell] = [round(loss, 7) for loss in learned_by_torch(cell, exported(one), values["output.bias"])[0]]
    STORED.write_text(json.dumps(found) + "\n", encoding="utf-8")


def test_gru(directory):
    compare(directory, "gru")


def test_lstm(directory):
    compare(directory, "lstm")


def test_rnn(directory):
    compare(directory, "rnn")


if sys.argv[1:] == ["--store"]:
    import tempfile
    with tempfile.TemporaryDirectory() as made:
        store(pathlib.Path(made))
else:
    cases.run(globals())
