#!/usr/bin/env python3
"""Extreme data: the checkpoint of a daemon that has learned them can always be read again."""
import itertools
import json
import math
import struct
import time
import zlib

import cases
import running
from running import Daemon

try:
    import numpy as np
    import zmq
except ImportError:
    print("needs python3-zmq and python3-numpy")
    raise SystemExit(77) from None

LABEL = 8
CONSTANTS = 600  # with `memory: 3` the deviation has fallen to 1e-53 of its former value
WILD = (1e30, -3e38, 3e38, 1e-38, 0)


def configuration(directory, inputs, output, more=""):
    return f"""
name: extremes
device: cpu
{more}
model: {{input: {{{inputs}}}, layers: [{{cell: gru, size: 4}}], output: {{{output}}}}}
learning: {{window: 4, stride: 2, clip: 1, max_streams: 4}}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", predictions: true}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state}}
"""


class Producer:
    """Examples of two streams with separate numbers."""

    def __init__(self, kind):
        self.kind, self.messages, self.numbers = kind, [], {}

    def number(self, stream, flags=0):
        self.numbers[stream] = self.numbers.get(stream, 0) + 1
        return struct.pack("<BBHIQd", 1, flags, 0, 0, self.numbers[stream], 0)

    def add(self, stream, x, y):
        """Adds the input and target of one step."""
        given = np.float32(y).tobytes() if self.kind == "given" else b""
        self.messages.append([stream, np.float32(x).tobytes(), given, self.number(stream)])
        of = self.numbers[stream]
        if self.kind == "later":
            self.messages.append([stream, b"", np.float32(y).tobytes(), self.number(stream, LABEL),
                                  struct.pack("<IIQ", 0, 0, of)])


def learned_and_read_back(directory, inputs, output, producer, more=""):
    """Learns the messages, restarts, and returns the status."""
    with Daemon(directory, configuration(directory, inputs, output, more)) as daemon:
        with daemon.socket(zmq.PUSH, "examples") as socket:
            for message in producer.messages:
                socket.send_multipart(message)
            end = time.monotonic() + running.LIMIT
            while (found := daemon.ask("status"))["examples"] < len(producer.messages):
                daemon.alive()
                assert time.monotonic() < end and not found["rejected"], found["rejected_by"]
                time.sleep(0.01)
        before = daemon.export()
        assert daemon.end() == 0
        daemon.start()
        assert daemon.export() == before
        assert daemon.ask("status")["examples"] == len(producer.messages)
        assert daemon.end() == 0
    return found


def test_a_stream_waits_while_another_is_constant(directory):
    """The common deviation approaches 0 meanwhile. The stored values of the first stream are then
    very large in its units: its last target, its mean, and its held value."""
    scaled = "scale: standard, memory: 3"
    one, held = "kind: real, size: 1", f"kind: real, size: 1, missing: hold, {scaled}"
    for n, (kind, inputs, output) in enumerate((
            ("later", one, f"loss: squared, relative: true, patience: 2, {scaled}"),
            ("later", one, f"loss: gaussian, patience: 2, {scaled}"),
            ("given", one, f"loss: gaussian, {scaled}"),
            ("given", one, f"loss: squared, relative: true, {scaled}"),
            ("next", held, "loss: squared"),
            ("next", held, "loss: gaussian, relative: true, ahead: [1, 3]"))):
        producer = Producer(kind)
        for value in (1000, 1500):
            producer.add(b"first", value, value)
        for _ in range(CONSTANTS):
            producer.add(b"other", 0, 0)
        for value in (np.nan if kind == "next" else 1, 1600, -1600):
            producer.add(b"first", value, 1200 if kind != "next" else None)
        (directory / str(n)).mkdir()
        found = learned_and_read_back(directory / str(n), inputs, f"size: 1, target: {kind}, {output}",
                                      producer)
        assert found["updates"] > CONSTANTS / 4, json.dumps(found)


def test_wild_values(directory):
    """The largest and smallest numbers among others."""
    rng = np.random.default_rng(1)
    ways = (("squared", ""), ("gaussian", ", scale: standard, memory: 5"),
            ("squared", ", scale: standard, memory: 100, limit: 10"))
    for n, (kind, (loss, scale)) in enumerate(itertools.product(("next", "given", "later"), ways)):
        producer = Producer(kind)
        for step in range(60):
            x = rng.normal(size=2)
            if step % 7 == 3:
                x[step % 2] = WILD[step // 7 % len(WILD)]
            producer.add(b"first" if step % 3 else b"other", x, x[:: -1])
        own = "" if kind == "next" else scale
        output = f"loss: {loss}, size: 2, target: {kind}, relative: true{own}"
        if kind == "later":
            output += ", patience: 2"
        (directory / str(n)).mkdir()
        learned_and_read_back(directory / str(n), f"kind: real, size: 2{scale}", output, producer)


def test_wild_values_of_forecasts_and_classes(directory):
    """Wild values with experts, members and anomalies, and as frequencies of classes."""
    rng = np.random.default_rng(2)
    producer, letters = Producer("next"), Producer("next")
    for step in range(300):
        x = np.full(2, 5.0) if 100 < step < 200 else rng.normal(size=2)
        if step % 13 == 3:
            x[step % 2] = WILD[step // 13 % len(WILD)]
        producer.add(b"first" if step % 3 else b"other", x, None)
        letters.add(b"first", np.uint32([3 if step < 250 else 0]).view(np.float32), None)
    for name, about in {"forecast": ("size: 2", "ahead: [1, 3]", producer, "preset: forecast"),
                        "letters": ("kind: symbol, size: 4", "loss: softmax, size: 4, target: next",
                                    letters)}.items():
        (directory / name).mkdir()
        learned_and_read_back(directory / name, *about)


def changed(directory, name, form, *values):
    """The first numbers of a tensor of the checkpoint; they are replaced by `values` if given."""
    path = directory / "state/checkpoint.safetensors"
    blob = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(blob[:8], "little")
    begin += json.loads(blob[8:begin])[name]["data_offsets"][0]
    before = struct.unpack_from(form, blob, begin)
    if values:
        struct.pack_into(form, blob, begin, *values)
        struct.pack_into("<q", blob, len(blob) - 8, zlib.crc32(blob[:-8]))
        path.write_bytes(blob)
    return before


def test_many_columns_that_never_miss(directory):
    """All values were inside their intervals: the share is 1, or by rounding more in an older
    checkpoint."""
    columns, inputs = 1003, "kind: real, size: 1003, scale: standard"
    output = "size: 1003, target: next, loss: squared"
    producer = Producer("next")
    for _ in range(60):
        producer.add(b"first", np.full(columns, 5), None)
    learned_and_read_back(directory, inputs, output, producer)
    numbers, held, weight, recent = changed(directory, "learner.coverage", "<4d")
    assert numbers == held and 0 < weight == recent
    changed(directory, "learner.coverage", "<4d", numbers, held, weight, recent * (1 + 1e-15))
    with Daemon(directory, configuration(directory, inputs, output)) as daemon:
        assert daemon.ask("status")["coverage"]["recent"] == 1
        assert daemon.end() == 0


def test_statistics_that_nothing_can_write(directory):
    """A checkpoint whose age of units or share of removed loss is impossible is damaged."""
    producer = Producer("next")
    for n in range(20):
        producer.add(b"first", n % 5, None)
    about = "kind: real, size: 1", "loss: squared, size: 1, target: next"
    learned_and_read_back(directory, *about, producer)
    for name, form, number in ("statistics.activity", "<d", -1), ("statistics.plasticity", "<3d", 2):
        before = changed(directory, name, form)
        for wrong in number, math.nan:
            changed(directory, name, form, *before[:-1], wrong)
            with Daemon(directory, configuration(directory, *about)) as daemon:
                assert daemon.process.wait(running.LIMIT) == 74
                assert f"invalid numbers in {name}" in daemon.text(), daemon.text()
        changed(directory, name, form, *before)
    with Daemon(directory, configuration(directory, *about)) as daemon:
        assert daemon.ask("status")["examples"] == 20


def test_an_open_step_matches_its_record(directory):
    """A record with a counted but missing target is damaged: it would be learned from."""
    producer = Producer("later")
    producer.add(b"first", 1, 1)
    producer.messages.pop()  # its label
    about = "kind: real, size: 1", "loss: squared, size: 1, target: later, patience: 2"
    learned_and_read_back(directory, *about, producer)
    step = changed(directory, "streams.open", "<6q")
    assert step == (0, 1, 0, 1, 0, 0)  # producer, sequence, epoch, steps; known, targets
    changed(directory, "streams.open", "<6q", *step[:-1], 1)
    with Daemon(directory, configuration(directory, *about)) as daemon:
        assert daemon.process.wait(running.LIMIT) == 74
        assert "invalid numbers in streams.records" in daemon.text(), daemon.text()


def test_experts_have_seen_what_networks_wait_for(directory):
    """If the experts of a stream have seen fewer steps than its network has open, the file is
    damaged: these steps would never get a target."""
    producer = Producer("next")
    for n in range(20):
        producer.add(b"first", n % 5, None)
    about = "size: 1", "ahead: [1, 3]", "preset: forecast"
    learned_and_read_back(directory, *about[:2], producer, about[2])
    path = directory / "state/checkpoint.safetensors"
    whole = path.read_bytes()
    assert changed(directory, "streams.experts", "<2d") == (20, 1)
    for steps in (0, 2, 20.5):
        for other in path.parent.glob("checkpoint*"):
            other.unlink()
        path.write_bytes(whole)
        changed(directory, "streams.experts", "<d", steps)
        with Daemon(directory, configuration(directory, *about)) as daemon:
            assert daemon.process.wait(running.LIMIT) == 74, steps
            assert "invalid numbers in streams.experts" in daemon.text(), daemon.text()


if __name__ == "__main__":
    cases.run(globals())
