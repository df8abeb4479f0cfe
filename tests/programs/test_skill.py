#!/usr/bin/env python3
"""Skill of a daemon (docs/explanation/forecasts.md, "Skill"): the baseline of every loss equals a
short calculation in Python, also after a restart, and the skill follows from it."""
import json
import math
import pathlib
import signal
import struct
import tempfile

import running
from running import Daemon, wait_learned
import zmq

import cases

try:
    import numpy as np
except ImportError:
    print("needs python3-numpy")
    raise SystemExit(77) from None

EXAMPLES, STREAMS = 240, 2
NEAR = 1e-6  # the daemon's targets are float32


def configuration(directory, model, every=100000, more=""):
    return f"""
name: skill
device: cpu
{model}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: {every}}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 0, seconds: 0}}}}
{more}"""


def plain(loss, target, inputs="{kind: real, size: 2, missing: hold}", size=2):
    components = ", components: 2" if loss == "mixture" else ""
    return f"""
model:
  input: {inputs}
  layers: [{{cell: gru, size: 5, norm: layer}}]
  output: {{loss: {loss}, size: {size}, target: {target}{components}}}
learning: {{window: 4, stride: 4, optimizer: {{kind: adam, rate: 0.003}}, max_streams: 4}}
"""


def feed(daemon, rows):
    """(stream, x, y) as bytes; y is b"" without a target."""
    with daemon.socket(zmq.PUSH, "examples") as feeder:
        feeder.setsockopt(zmq.LINGER, 1000 * running.LIMIT)
        for stream, x, y in rows:
            feeder.send_multipart([stream, x, y])


def figures(model, rows):
    """Figures of `status` for all examples, and for the second half after a restart between the
    halves."""
    half = len(rows) // 2
    with tempfile.TemporaryDirectory(prefix="skill-") as directory:
        with Daemon(directory, configuration(directory, model)) as daemon:
            feed(daemon, rows)
            whole = wait_learned(daemon, len(rows))
            assert daemon.end() == 0
    with tempfile.TemporaryDirectory(prefix="skill-") as directory:
        with Daemon(directory, configuration(directory, model)) as daemon:
            feed(daemon, rows[:half])
            wait_learned(daemon, half)
            assert daemon.end() == 0
            daemon.start()
            feed(daemon, rows[half:])
            rest = wait_learned(daemon, len(rows))
            assert daemon.end() == 0
    return whole, rest


def near(found, expected):
    return found is not None and abs(found - expected) <= NEAR * max(1, abs(expected))


def check(model, rows, losses, nats):
    """losses: the baseline's loss at each example, None if it is not scored."""
    whole, rest = figures(model, rows)
    for status, part in ((whole, losses), (rest, losses[len(rows) // 2:])):
        expected = np.mean([loss for loss in part if loss is not None])
        assert near(status["baseline"], expected), (status["baseline"], expected)
        skill = expected - status["mean"] if nats else 1 - status["mean"] / expected
        assert near(status["skill"], skill), (status["skill"], skill)
        assert status["skill_recent"] is None  # of fewer than 500
    return whole


def numbers(seed=1, missing=0.1):
    """(stream, (2,)) float32 with missing values."""
    draw = np.random.default_rng(seed)
    x = np.cumsum(draw.normal(0, 1, (EXAMPLES, 2)), axis=0).astype("<f4")
    x[draw.random(x.shape) < missing] = math.nan
    return [(b"ab"[n % STREAMS:n % STREAMS + 1], row) for n, row in enumerate(x)]


def normal(error, squares, count):
    variance = max(squares / count, 1e-6) if count else 1.0
    return 0.5 * (math.log(2 * math.pi * variance) + error ** 2 / variance)


class Number:
    """Baselines of one number in one stream: last value or mean, and the normal distribution around
    it."""

    def __init__(self, last):
        self.last, self.value, self.seen, self.squares, self.errors = last, 0.0, 0, 0.0, 0

    def score(self, y, gaussian):
        error = self.value - y
        loss = normal(error, self.squares, self.errors) if gaussian else error ** 2
        self.squares, self.errors = self.squares + error ** 2, self.errors + 1
        return loss

    def see(self, y):
        self.seen += 1
        self.value = y if self.last else self.value + (y - self.value) / self.seen


def numbers_losses(rows, gaussian, last):
    streams, losses = {}, []
    for stream, row in rows:
        first = stream not in streams
        known = streams.setdefault(stream, [Number(last), Number(last)])
        observed = [(n, float(y)) for n, y in zip(known, row) if not math.isnan(y)]
        scored = observed and not (last and first)
        losses.append(np.mean([n.score(y, gaussian) for n, y in observed]) if scored else None)
        for number, y in observed:
            number.see(y)
    return losses


def test_squared_next(_):
    rows = numbers()
    status = check(plain("squared", "next"), [(s, x.tobytes(), b"") for s, x in rows],
                   numbers_losses(rows, False, True), nats=False)
    assert len(status["columns"]) == 2
    assert all(column["mae"] <= column["rmse"] for column in status["columns"])
    assert "experts" not in status


def test_columns(_):
    """rmse, mae and skill of each column are in original units, whatever the network's scale."""
    draw = np.random.default_rng(3)
    x = (np.cumsum(draw.normal(0, 1, (EXAMPLES, 2)), axis=0) * [1, 1000] + [0, 5e4]).astype("<f4")
    inputs = "{kind: real, size: 2, scale: standard}"
    with tempfile.TemporaryDirectory(prefix="skill-") as directory:
        text = configuration(directory, plain("squared", "next", inputs))
        text = text.replace("statistics: {", "statistics: {predictions: true, ")
        with Daemon(directory, text) as daemon:
            daemon.ask("status")
            with daemon.socket(zmq.SUB, "statistics") as subscriber:
                subscriber.setsockopt(zmq.RCVHWM, 0)
                subscriber.setsockopt(zmq.SUBSCRIBE, b"")
                while daemon.next_message(subscriber)[0] != b"status":
                    continue
                feed(daemon, [(b"a", row.tobytes(), b"") for row in x])
                forecasts = []
                while len(forecasts) < len(x):
                    topic, body = daemon.next_message(subscriber)
                    if topic == b"prediction":
                        forecasts.append(json.loads(body)["prediction"])
            columns = wait_learned(daemon, len(x))["columns"]
            assert daemon.end() == 0
    error = np.array(forecasts, float)[:-1] - x[1:]
    changes = np.diff(x.astype(float), axis=0)
    for k, column in enumerate(columns):
        assert near(column["rmse"], math.sqrt(np.mean(error[:, k] ** 2))), column
        assert near(column["mae"], np.mean(np.abs(error[:, k]))), column
        assert near(column["skill"], 1 - np.sum(error[:, k] ** 2) / np.sum(changes[:, k] ** 2))


def test_scaled_next(_):
    """With scale: standard, losses are of scaled values: the last value is scaled with its own
    scale."""
    draw = np.random.default_rng(4)
    x = (np.cumsum(draw.normal(0, 1, EXAMPLES)) * 100 + 7).astype("<f4")
    z, losses = [], []
    for n, value in enumerate(x.astype(float)):
        sd = np.std(x[:n + 1].astype(float))
        z.append((value - np.mean(x[:n + 1].astype(float))) / sd if sd > 0 else 0.0)
        losses.append((z[-2] - z[-1]) ** 2 if n else None)
    inputs = "{kind: real, size: 1, scale: standard}"
    check(plain("squared", "next", inputs, 1), [(b"a", v.tobytes(), b"") for v in x], losses, False)


def test_squared_given(_):
    rows = numbers(2)
    x = np.zeros(2, "<f4").tobytes()
    check(plain("squared", "given"), [(s, x, y.tobytes()) for s, y in rows],
          numbers_losses(rows, False, False), nats=False)


def test_gaussian_next(_):
    rows = numbers(5)
    check(plain("gaussian", "next"), [(s, x.tobytes(), b"") for s, x in rows],
          numbers_losses(rows, True, True), nats=True)


def test_gaussian_given(_):
    rows = numbers(6)
    x = np.zeros(2, "<f4").tobytes()
    check(plain("gaussian", "given"), [(s, x, y.tobytes()) for s, y in rows],
          numbers_losses(rows, True, False), nats=True)


def test_ahead(_):
    """The target of each horizon is the x of the step that predicted it."""
    draw = np.random.default_rng(14)
    x = np.cumsum(draw.normal(0, 1, EXAMPLES)).astype("<f4")
    values = x.astype(float)
    losses = [np.mean([(values[n] - values[n - h]) ** 2 for h in (1, 3) if n >= h]) if n else None
              for n in range(EXAMPLES)]
    model = plain("squared", "next", "{kind: real, size: 1}", 1).replace(
        "target: next", "target: next, ahead: [1, 3]")
    check(model, [(b"a", v.tobytes(), b"") for v in x], losses, nats=False)


def test_relative(_):
    """`relative` does not change the targets themselves."""
    rows = numbers(15)
    model = plain("squared", "next").replace("target: next", "target: next, relative: true")
    check(model, [(s, x.tobytes(), b"") for s, x in rows], numbers_losses(rows, False, True), False)


def test_scaled_targets(_):
    """Given targets are scaled over all streams. The mean of a stream is scaled as its prediction,
    with previous targets; the target is scaled with itself included."""
    draw = np.random.default_rng(16)
    y = (draw.normal(0, 3, EXAMPLES) + np.where(np.arange(EXAMPLES) % 2, 50, 60)).astype("<f4")

    def scaled(value, seen):
        return (value - np.mean(seen)) / np.std(seen) if len(seen) > 1 else 0.0

    values, losses = y.astype(float), []
    for n, value in enumerate(values):
        own = values[n % 2:n:2]
        p = scaled(np.mean(own), values[:n]) if len(own) else 0.0
        losses.append((p - scaled(value, values[:n + 1])) ** 2)
    model = plain("squared", "given", "{kind: real, size: 2}", 1).replace(
        "target: given", "target: given, scale: standard")
    x = np.ones(2, "<f4").tobytes()
    rows = [(b"ab"[n % 2:n % 2 + 1], x, v.tobytes()) for n, v in enumerate(y)]
    check(model, rows, losses, nats=False)


def test_later(_):
    """Labels arrive two examples later, in order: the mean of those that have arrived."""
    draw = np.random.default_rng(17)
    y = draw.normal(5, 2, (60, 1)).astype("<f4")
    losses, number = [], Number(False)
    model = plain("squared", "later", "{kind: real, size: 2}", 1)
    with tempfile.TemporaryDirectory(prefix="skill-") as directory:
        with Daemon(directory, configuration(directory, model)) as daemon:
            with daemon.socket(zmq.PUSH, "examples") as feeder:
                feeder.setsockopt(zmq.LINGER, 1000 * running.LIMIT)
                header = "<BBHIQd"
                for n in range(len(y) + 2):
                    if n < len(y):
                        feeder.send_multipart([b"a", np.ones(2, "<f4").tobytes(), b"",
                                               struct.pack(header, 1, 0, 0, 1, n + 1, 0.0)])
                    if n >= 2:
                        feeder.send_multipart([b"a", b"", y[n - 2].tobytes(),
                                               struct.pack(header, 1, 8, 0, 1, 1000 + n, 0.0),
                                               struct.pack("<IIQ", 1, 0, n - 1)])
                        losses.append(number.score(float(y[n - 2][0]), False))
                        number.see(float(y[n - 2][0]))
            status = wait_learned(daemon, 2 * len(y))
            assert near(status["baseline"], np.mean(losses)), (status, np.mean(losses))
            assert near(status["skill"], 1 - status["mean"] / status["baseline"])
            assert daemon.end() == 0


def class_losses(rows, classes, following):
    streams, losses = {}, []
    for stream, id_ in rows:
        if following and stream not in streams:
            streams[stream] = np.zeros(classes)
            losses.append(None)
            continue
        counts = streams.setdefault(stream, np.zeros(classes))
        losses.append(-math.log((counts[id_] + 1) / (counts.sum() + classes)))
        counts[id_] += 1
    return losses


def classes():
    draw = np.random.default_rng(7)
    return [(b"ab"[n % STREAMS:n % STREAMS + 1], int(draw.choice(4, p=[0.6, 0.2, 0.15, 0.05])))
            for n in range(EXAMPLES)]


def test_softmax_next(_):
    rows = classes()
    check(plain("softmax", "next", "{kind: symbol, size: 4}", 4),
          [(s, struct.pack("<I", c), b"") for s, c in rows], class_losses(rows, 4, True), nats=True)


def test_softmax_given(_):
    rows = classes()
    x = np.ones(2, "<f4").tobytes()
    check(plain("softmax", "given", size=4), [(s, x, struct.pack("<I", c)) for s, c in rows],
          class_losses(rows, 4, False), nats=True)


def test_bernoulli(_):
    draw = np.random.default_rng(8)
    rows, losses = [], []
    state = {b"a": np.zeros((2, 2)), b"b": np.zeros((2, 2))}
    for n in range(EXAMPLES):
        stream, y = b"ab"[n % 2:n % 2 + 1], (draw.random(2) < [0.9, 0.3]).astype("<f4")
        rows.append((stream, np.ones(2, "<f4").tobytes(), y.tobytes()))
        sums, counts = state[stream]
        rate = (sums + 0.5) / (counts + 1)
        losses.append(np.mean(-y * np.log(rate) - (1 - y) * np.log(1 - rate)))
        sums += y
        counts += 1
    check(plain("bernoulli", "given"), rows, losses, nats=True)


def test_mixture(_):
    """A mixture has no baseline."""
    draw = np.random.default_rng(9)
    rows = [(b"a", draw.normal(0, 1, 3).astype("<f4").tobytes(),
             np.append(draw.normal(0, 1, 2), 0).astype("<f4").tobytes()) for _ in range(50)]
    with tempfile.TemporaryDirectory(prefix="skill-") as directory:
        model = plain("mixture", "given", "{kind: real, size: 3}", 3)
        with Daemon(directory, configuration(directory, model)) as daemon:
            feed(daemon, rows)
            status = wait_learned(daemon, len(rows))
            assert not {"baseline", "skill", "skill_recent", "columns", "experts"} & set(status)
            assert daemon.end() == 0


def test_forecast(_):
    """The last value is also an expert; the skill of a column is in original units."""
    draw = np.random.default_rng(10)
    x = np.sin(np.arange(EXAMPLES)[:, None] * [0.5, 0.3]) * [1, 400]
    x = (x + draw.normal(0, 0.05, x.shape) * [1, 400]).astype("<f4")
    model = """
preset: forecast
model: {input: {size: 2}, layers: [{cell: gru, size: 8}]}
learning: {max_streams: 2}
"""
    whole, _ = figures(model, [(b"a", row.tobytes(), b"") for row in x])
    assert near(whole["baseline"], whole["experts"]["last"]["mean"]), whole
    assert near(whole["skill"], 1 - whole["mean"] / whole["baseline"])
    assert list(whole["experts"])[-2:] == ["change", "level"]
    assert near(sum(expert["weight"] for expert in whole["experts"].values()), 1)
    changes = np.mean(np.diff(x.astype(float), axis=0) ** 2, axis=0)
    for column, change in zip(whole["columns"], changes):
        assert near(column["skill"], 1 - column["rmse"] ** 2 / change), column
        assert column["skill"] > 0.3


def test_recent(_):
    """The recent skill covers about the last tenth of scored examples: here the stream becomes
    noise."""
    draw, count = np.random.default_rng(11), 1500
    ids = np.where(np.arange(count) < 1350, np.arange(count) % 2, draw.integers(0, 2, count))
    with tempfile.TemporaryDirectory(prefix="skill-") as directory:
        model = plain("softmax", "next", "{kind: symbol, size: 4}", 4).replace("0.003", "0.03")
        with Daemon(directory, configuration(directory, model, every=1)) as daemon:
            daemon.ask("status")
            with daemon.socket(zmq.SUB, "statistics") as subscriber:
                subscriber.setsockopt(zmq.RCVHWM, 0)
                subscriber.setsockopt(zmq.SUBSCRIBE, b"")
                while daemon.next_message(subscriber)[0] != b"status":
                    continue
                feed(daemon, [(b"a", struct.pack("<I", int(id_)), b"") for id_ in ids])
                messages = []
                while len(messages) < count:
                    topic, body = daemon.next_message(subscriber)
                    if topic == b"loss":
                        messages.append(json.loads(body))
            assert daemon.end() == 0
    skill = [m["skill"] for m in messages[1:]]
    for m in messages:
        scored, recent = m["examples"] - 1, m["skill_recent"]
        if scored < 500:
            assert recent is None, m
            continue
        sums = np.cumsum(skill[:scored][::-1])
        share = [n for n in range(scored // 10, scored // 8 + 1) if near(recent, sums[n - 1] / n)]
        assert share, (scored, recent)
    assert messages[1340]["skill_recent"] > 0.5 > 0 > messages[-1]["skill_recent"], messages[-1]


def test_kill(_):
    """A replay leads to the same baseline as an undisturbed run."""
    rows = numbers(12)
    fed = [(s, x.tobytes(), b"") for s, x in rows]
    found = []
    for kill in (False, True):
        with tempfile.TemporaryDirectory(prefix="skill-") as directory:
            text = configuration(directory, plain("gaussian", "next")).replace(
                "seconds: 0}", "seconds: 0}, journal: {keep: all}")
            with Daemon(directory, text) as daemon:
                feed(daemon, fed[:100])
                wait_learned(daemon, 100)
                daemon.ask("checkpoint")
                feed(daemon, fed[100:150])
                wait_learned(daemon, 150)
                if kill:
                    daemon.ask("set", key="learning.clip", value=1)  # answered when on disk
                    daemon.process.send_signal(signal.SIGKILL)
                    daemon.process.wait()
                else:
                    daemon.ask("set", key="learning.clip", value=1)
                    assert daemon.end() == 0
                daemon.start()
                wait_learned(daemon, 150)
                assert daemon.end() == 0
                daemon.start()
                feed(daemon, fed[150:])
                status = wait_learned(daemon, len(fed))
                found.append((status["mean"], status["baseline"], status["skill"]))
                assert daemon.end() == 0
    assert found[0] == found[1], found
    expected = numbers_losses(rows, True, True)[150:]
    assert near(found[0][1], np.mean([loss for loss in expected if loss is not None]))


def test_older_checkpoint(_):
    """A checkpoint without a baseline can be continued: its count starts there."""
    rows = numbers(13, 0)
    fed = [(s, x.tobytes(), b"") for s, x in rows]
    with tempfile.TemporaryDirectory(prefix="skill-") as directory:
        with Daemon(directory, configuration(directory, plain("squared", "next"))) as daemon:
            feed(daemon, fed[:100])
            wait_learned(daemon, 100)
            assert daemon.end() == 0
            without_baseline(pathlib.Path(directory, "state", "checkpoint.safetensors"))
            daemon.start()
            feed(daemon, fed[100:])
            status = wait_learned(daemon, len(fed))
            assert status["resumed"], daemon.text()
            assert daemon.end() == 0
    later = numbers_losses(rows, False, True)[100 + STREAMS:]  # one target each is missing
    assert near(status["baseline"], np.mean(later)), status


def without_baseline(path):
    """A checkpoint as an earlier version wrote it."""
    import zlib
    blob = path.read_bytes()
    size, = struct.unpack("<Q", blob[:8])
    header, data, at = json.loads(blob[8:8 + size]), b"", 0
    lost = header.pop("streams.baseline")["data_offsets"]
    header["__metadata__"]["format"] = "runnel-checkpoint-3"
    for name, about in header.items():
        if name != "__metadata__":
            begin, end = about["data_offsets"]
            about["data_offsets"] = [at, at + end - begin]
            data += blob[8 + size + begin:8 + size + end]
            at += end - begin
    assert lost[1] > lost[0]
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    body = struct.pack("<Q", len(text)) + text + data[:-8]
    path.write_bytes(body + struct.pack("<q", zlib.crc32(body)))


cases.run(globals())
