#!/usr/bin/python3
"""Messages as examples: an x, or a y, of several atoms is one step. Both forms, rejections, the schema, and
the same bits after kills and in another daemon."""
import contextlib
import json
import pathlib
import random
import signal
import struct
import subprocess
import tempfile

import cases
import running
import zmq
from running import Daemon, wait_learned

READER = "sequence: {layers: [{cell: gru, size: 5}], longest: 6}"
WRITER = "sequence: {layers: [{cell: gru, size: 4}]}"
SYMBOLS, NUMBERS = f"kind: symbol, size: 7, embedding: 3, {READER}", f"kind: real, size: 2, {READER}"
CLASSES, NEXT = "loss: softmax, size: 3", f"loss: softmax, size: 7, target: next, {WRITER}"


def configuration(directory, inputs, output, socket="pull"):
    return f"""
name: messages
device: cpu
model: {{input: {{{inputs}}}, layers: [{{cell: gru, size: 6}}], output: {{{output}}}}}
learning: {{window: 4, stride: 2, max_streams: 3}}
examples: {{bind: "ipc://{directory}/examples", socket: {socket}}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 20, seconds: 0}}, journal: {{keep: all}}}}
"""


@contextlib.contextmanager
def started(inputs, output, socket="pull"):
    with tempfile.TemporaryDirectory(prefix="messages-") as directory, \
            Daemon(directory, configuration(directory, inputs, output, socket)) as daemon:
        yield daemon
        daemon.end()


def send(daemon, messages, learned):
    with daemon.socket(zmq.PUSH, "examples") as socket:
        for message in messages:
            socket.send_multipart(message)
        status = wait_learned(daemon, learned)
    daemon.ask("set", key="learning.clip", value=1)  # answered when on disk
    return status


def numbers(values, form):
    return struct.pack(f"<{len(values)}{form}", *values)


def both_forms(output, count=50, seed=2, symbols=True):
    """Messages as JSON and in binary form, without headers."""
    rng, texts, frames = random.Random(seed), [], []
    for _ in range(count):
        key, atoms = rng.choice("abcd"), rng.randrange(1, 7)
        x = [rng.randrange(7) if symbols else [rng.gauss(0, 1), rng.gauss(0, 1)] for _ in range(atoms)]
        flat = x if symbols else [number for atom in x for number in atom]
        example = {"stream": key, "x": x}
        frames.append([key.encode(), numbers(flat, "I" if symbols else "f")])
        if "next" not in output:
            y = [rng.randrange(3) for _ in range(rng.randrange(1, 4))] if "sequence" in output else rng.randrange(3)
            example["y"] = y
            frames[-1].append(numbers(y if isinstance(y, list) else [y], "I"))
        texts.append([json.dumps(example).encode()])
    return texts, frames


def test_both_forms_and_kills_lead_to_the_same_bits():
    """For readers and writers, after a kill, a stop, and from a checkpoint."""
    written = f"{CLASSES}, sequence: {{layers: [{{cell: gru, size: 4}}], longest: 3}}"
    for inputs, output in (SYMBOLS, CLASSES), (SYMBOLS, NEXT), (NUMBERS, CLASSES), (SYMBOLS, written):
        found = []
        for form in both_forms(output, symbols=inputs == SYMBOLS):
            with started(inputs, output) as daemon:
                status = send(daemon, form[:30], 30)
                assert status["steps"] == 30 and status["rejected"] == 0, status
                daemon.end(signal.SIGKILL)
                daemon.start()
                send(daemon, form[30:], 50)
                found.append(daemon.export())
                for ending in signal.SIGKILL, signal.SIGTERM:
                    daemon.end(ending)
                    daemon.start()
                    found.append(daemon.export())
        assert len(set(found)) == 1, (inputs, output, [blob == found[0] for blob in found])


def test_replayed_messages_lead_to_the_same_bits():
    """runnel-replay sends the journal to another daemon."""
    texts, _ = both_forms(NEXT)
    with started(SYMBOLS, NEXT) as first, started(SYMBOLS, NEXT) as second:
        send(first, texts, 50)
        subprocess.run([running.PROGRAM.with_name("runnel-replay"), first.directory / "state",
                        "--connect", second.endpoint("examples"), "--quiet"], check=True, timeout=running.LIMIT)
        wait_learned(second, 50)
        assert first.export() == second.export()


def test_a_message_that_is_too_long_is_rejected():
    with started(SYMBOLS, CLASSES, "router") as daemon:
        with daemon.socket(zmq.DEALER, "examples") as socket:
            socket.send(json.dumps({"schema": {}}).encode())
            answer = json.loads(daemon.next_message(socket)[-1])
            assert answer["sequence"] == {"longest": 6} and answer["columns"] == 1, answer
            reasons = []
            for n, (x, status) in enumerate([([1] * 6, 0), ([1] * 7, 2), ([], 2), ([7], 2), (3, 0)]):
                socket.send(json.dumps({"x": x, "y": 0, "sequence": n + 1}).encode())
                frames = daemon.next_message(socket)
                assert frames[1][1] == status, (x, frames)
                reasons.append(frames[-1])
        assert daemon.ask("status")["rejected_by"] == {"x_size": 2, "x_value": 1}
        assert b"x has 7 atoms; model.input.sequence.longest is 6" in reasons[1], reasons
        assert b"x is empty, expected 1 to 6 atoms" in reasons[2], reasons


cases.run(globals())
