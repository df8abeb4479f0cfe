#!/usr/bin/env python3
"""Learning rules (docs/explanation/rules.md): rtrl learns the same as tbptt with a window over the
whole sequence. A killed daemon resumes with the same bits, and members may have separate rules."""
import pathlib
import random
import signal
import struct
import tempfile

import running
import zmq
from running import Daemon, messages, subscribe, wait_learned

SIZE, LENGTH, SEQUENCES = 3, 7, 40
END = struct.pack("<BBHIQd", 1, 1, 0, 0, 0, 0.0)
# Another order of sums: the largest difference after some updates.
TOLERANCE = 1e-4
COLUMNS = ("rtu", "lstm, recurrent: diagonal")


def configuration(directory, learning, cell="gru", output=""):
    above = "dense" if cell in COLUMNS else cell
    return f"""
name: rules
model:
  input: {{kind: real, size: {SIZE}}}
  layers: [{{cell: {cell}, size: 8}}, {{cell: {above}, size: 6, norm: rms}}]
  output: {{loss: squared, size: {SIZE}, target: next{output}}}
learning: {{{learning}, optimizer: {{kind: sgd, rate: 0.05}}, clip: 1}}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 50, seconds: 0}}}}
"""


def sequences(count=SEQUENCES, length=LENGTH):
    """Interleaved examples of several streams, whose sequences end now and then."""
    rng = random.Random(5)
    for _ in range(count):
        for key in (b"a", b"b"):
            level = rng.random()
            for t in range(length):
                x = struct.pack(f"<{SIZE}f", *(level + rng.gauss(0, 0.3) for _ in range(SIZE)))
                yield [key, x, b"", END] if t + 1 == length else [key, x]


def learn(directory, learning, examples, **other):
    """The losses of all scored examples, and the parameters."""
    directory = pathlib.Path(directory, str(len(list(pathlib.Path(directory).iterdir()))))
    directory.mkdir()
    with Daemon(directory, configuration(directory, learning, **other)) as daemon:
        subscriber = subscribe(daemon, (b"loss",))
        feeder = daemon.socket(zmq.PUSH, "examples")
        for message in examples:
            feeder.send_multipart(message)
        wait_learned(daemon, len(examples))
        losses = [m["loss"] for m in messages(daemon, subscriber, b"loss", len(examples))]
        exported = daemon.export()
        assert daemon.end() == 0
    return losses, exported


def floats(exported):
    header, = struct.unpack_from("<Q", exported)
    count = (len(exported) - 8 - header) // 4
    return struct.unpack_from(f"<{count}f", exported, 8 + header)


def test_whole_sequences(directory):
    """With one update at the end of a sequence nothing is truncated, and both rules have the same
    gradient. With a stride within the sequence they differ, since a window forgets."""
    examples = list(sequences())
    whole = f"stride: {LENGTH}, window: {LENGTH}"
    horizons = ", ahead: [1, 3], relative: true"
    for cell, output in (("rnn", ""), ("gru", ""), ("lstm", ""), ("gru", horizons),
                         *((columns, "") for columns in COLUMNS)):
        rule = "snap1" if cell in COLUMNS else "rtrl"
        what = {"cell": cell, "output": output}
        losses, parameters = learn(directory, f"rule: tbptt, {whole}", examples, **what)
        others, also = learn(directory, f"rule: {rule}, {whole}", examples, **what)
        assert losses[0] is None or losses[0] == others[0]
        scored = [(a, b) for a, b in zip(losses, others) if a is not None]
        assert len(scored) > SEQUENCES
        assert all(abs(a - b) <= TOLERANCE * (1 + abs(a)) for a, b in scored), cell
        moved = [abs(a - b) for a, b in zip(floats(parameters), floats(also))]
        assert max(moved) <= TOLERANCE, (cell, max(moved))
        assert max(abs(p) for p in floats(parameters)) < 1e3


def feed(daemon, messages_, learned):
    """Sends examples, and waits until they are learned and durable."""
    feeder = daemon.socket(zmq.PUSH, "examples")
    for message in messages_:
        feeder.send_multipart(message)
    wait_learned(daemon, learned)
    daemon.until(lambda: daemon.ask("status")["journal"]["durable"] >= learned)


def test_killed(directory):
    """Checkpoints contain the state of a rule: a killed daemon resumes with the same bits."""
    examples = [m for m in sequences(3, 60) if len(m) == 2]  # streams without an end
    for rule, cell in RULES:
        found = []
        for kills in (False, True):
            place = pathlib.Path(directory, f"{rule}-{cell[:4]}-{kills}")
            place.mkdir()
            with Daemon(place, configuration(place, f"rule: {rule}, stride: 2", cell=cell)) as daemon:
                for begin in range(0, len(examples), 70):
                    part = examples[begin:begin + 70]
                    feed(daemon, part, begin + len(part))
                    if kills:
                        daemon.end(signal.SIGKILL)
                        daemon.start()
                wait_learned(daemon, len(examples))
                found.append(daemon.export())
                assert daemon.end() == 0
        assert found[0] == found[1], rule


def test_members(directory):
    """Each member has its configured rule, and the bits that it has alone."""
    examples = [[b"a", struct.pack("<f", (n * n % 17) / 17)] for n in range(120)]
    exported = {}
    for members in ("one", "both"):
        place = pathlib.Path(directory, members)
        place.mkdir()
        rtrl = "{name: exact, set: {learning.rule: rtrl, learning.stride: 1}}"
        both = f"[{rtrl}, {{name: windowed, set: {{learning.window: 8, learning.stride: 4}}}}]"
        config = f"""
name: members
preset: forecast
device: auto
model: {{input: {{size: 1}}, layers: [{{cell: gru, size: 8}}]}}
members: {f"[{rtrl}]" if members == "one" else both}
examples: {{bind: "ipc://{place}/examples"}}
statistics: {{bind: "ipc://{place}/statistics"}}
control: {{bind: "ipc://{place}/control"}}
state: {{directory: {place}/state}}
"""
        with Daemon(place, config) as daemon:
            feeder = daemon.socket(zmq.PUSH, "examples")
            for message in examples:
                feeder.send_multipart(message)
            wait_learned(daemon, len(examples))
            exported[members] = daemon.export()
            assert daemon.end() == 0
    header, = struct.unpack_from("<Q", exported["one"])
    alone = exported["one"][8 + header:]
    assert alone and alone in exported["both"]


RULES = (("rtrl", "lstm"), ("snap1", "gru"), ("eprop", "lstm"), ("snap1", COLUMNS[0]))

if __name__ == "__main__":
    for name, test in sorted(globals().items()):
        if name.startswith("test_"):
            with tempfile.TemporaryDirectory() as temporary:
                test(temporary)
            print(f"{name}: ok")
