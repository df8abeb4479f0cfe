#!/usr/bin/python3
"""Invalid data on every socket of a running daemon: it continues, answers, and learns the same.
RUNNEL_FUZZ_MESSAGES sets the number of messages for each socket. The default is 100,000 with
sanitizers, which detect more errors, and 3000 without. The seed is fixed, so that failures can be
repeated."""
import contextlib
import json
import os
import pathlib
import random
import socket as sockets
import struct
import sys
import tempfile
import time

try:
    import zmq
except ImportError:
    print("needs python3-zmq")
    sys.exit(77)

import running
from running import LIMIT

BUILD = pathlib.Path(os.environ.get("builddir", "."))
SANITIZERS = "#define RUNNEL_SANITIZERS" in (BUILD / "build-config.h").read_text()
MESSAGES = int(os.environ.get("RUNNEL_FUZZ_MESSAGES", "30000" if SANITIZERS else "3000"))
INPUTS, TARGETS, GOOD = 3, 2, 400
STEPS_MAX, REQUEST_MAX, SUBSCRIPTION_MAX = 4096, 65536, 1024
END = 1

CONFIG = """
name: robust
seed: 3
device: cpu
model:
  input: {{kind: real, size: 3}}
  layers: [{{cell: gru, size: 8, norm: layer}}]
  output: {{loss: squared, size: 2, target: given}}
learning: {{window: 4, stride: 4, optimizer: {{kind: adam, rate: 0.01}}, clip: 1.0, max_streams: 64}}
examples: {{bind: "ipc://{directory}/examples", socket: pull}}
statistics: {{bind: "ipc://{directory}/statistics", every: 50}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: "{directory}/state", checkpoint: {{examples: 0, seconds: 0}}}}
"""


class Daemon(running.Daemon):
    def __init__(self, directory):
        super().__init__(directory, CONFIG.format(directory=directory))
        self.context.sndhwm = 0
        self.feeder = self.socket(zmq.PUSH, "examples")

    def feed(self, frames):
        self.feeder.send_multipart(frames)

    def settle(self, *counters, count):
        """Waits until the counters of the status add up to `count`."""
        before = deadline = -1
        while True:
            status = self.ask("status")
            done = sum(status[c] for c in counters)
            assert done <= count, f"{done} {counters}, expected {count}"
            if done == count:
                return status
            if done > before:
                before, deadline = done, time.monotonic() + LIMIT
            assert time.monotonic() < deadline, f"{done} {counters} of {count}, {LIMIT} s long"
            time.sleep(0.05)

    def stop(self):
        code, errors = self.end(), self.text()
        assert code == 0, f"exit {code} after SIGTERM: {errors[-2000:]}"
        for trouble in ("Sanitizer", "runtime error"):
            assert trouble not in errors, errors[-4000:]


@contextlib.contextmanager
def started():
    with tempfile.TemporaryDirectory(prefix="runnel-") as directory, Daemon(directory) as daemon:
        yield daemon


# --- examples ---------------------------------------------------------------------------------------

def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def header(flags=0, epoch=0, sequence=0, when=0.0, version=1, reserved=0):
    return struct.pack("<BBHIQd", version, flags, reserved, epoch, sequence, when)


def good_example(number):
    """Examples that both daemons learn: two streams, several steps, ends, missing targets."""
    r = random.Random(number)
    steps = r.choice((1, 1, 1, 2, 5))
    x = floats([r.uniform(-2, 2) for _ in range(steps * INPUTS)])
    y = floats([r.choice((r.uniform(-1, 1), float("nan"))) for _ in range(steps * TARGETS)])
    return [r.choice((b"a", b"b")), x, y, header(flags=END if number % 37 == 0 else 0)]


def bad_example(r):
    """An invalid message, with each possible reason. If it were accepted it would do harm: it names
    a learned stream and requests its end."""
    key, x, y, end = r.choice((b"a", b"b")), floats([1, 2, 3]), floats([1, 2]), header(flags=END)
    poison = floats([r.choice((float("inf"), float("-inf"), float("nan"))), 2, 3])
    return r.choice((
        lambda: [b"no JSON" + r.randbytes(r.randrange(40))],
        lambda: [key, x, y, end, r.randbytes(r.randrange(40))],
        lambda: [key, x, y, end] + [x] * r.randrange(1, 60),
        lambda: [key * 256, x, y, end],
        lambda: [key + b"\xff", x, y, end],
        lambda: [key + b"\0", x, y, end],
        lambda: [key, b"", y, end],
        lambda: [key, x[:r.randrange(1, len(x))], y, end],
        lambda: [key, x * (STEPS_MAX + 1), b"", end],
        lambda: [key, poison, y, end],
        lambda: [key, x + poison, y + y, end],
        lambda: [key, x, y[:r.randrange(1, len(y))], end],
        lambda: [key, x, y + y, end],
        lambda: [key, x, floats([r.choice((float("inf"), float("-inf"))), 1]), end],
        lambda: [key, x, y, end[:r.randrange(24)]],
        lambda: [key, x, y, end + b"\0"],
        lambda: [key, x, y, header(flags=END, version=r.choice((0, 2, 255)))],
        lambda: [key, x, y, header(flags=END | 8)],
        lambda: [key, x, y, header(flags=END, reserved=r.randrange(1, 65536))],
        lambda: [key, x, y, header(flags=END, when=float("inf"))],
        lambda: [b'{"stream": "a", "x": [1, 2, 3], "end": true, "lern": false}'],
        lambda: [b'{"stream": "a", "x": [1, 2], "end": true}'],
        lambda: [b'{"stream": "a", "x": [1, 2, null], "end": true}'],
        lambda: [b'{"stream": "a", "x": [1, 2, 1e39], "end": true}'],
        lambda: [b'{"stream": "a", "x": [1, 2, 3], "y": 7, "end": true}'],
        lambda: [b'{"stream": "a", "x": [1, 2, 3], "end": true'],
        lambda: [b"[" * r.randrange(1, 5000)],
    ))()


JSON_EXAMPLES = (
    b'{"stream": "a", "x": [1, 2.5, -3e-2], "y": [null, 2], "end": false, "learn": true}',
    b'{"x": [[1, 2, 3], [4, 5, 6]], "y": [[1, 2], [3, 4]], "sequence": 7, "epoch": 1, "time": 1.5}')


def mutated(r, data):
    data = bytearray(data)
    for _ in range(r.randrange(4)):
        at = r.randrange(len(data)) if data else 0
        edit = r.randrange(6)
        if edit == 0 and data:
            data[at] ^= 1 << r.randrange(8)
        elif edit == 1 and data:
            data[at] = r.randrange(256)
        elif edit == 2:
            data[at:at] = r.randbytes(r.randrange(9))
        elif edit == 3:
            del data[at:at + r.randrange(9)]
        elif edit == 4:
            data[at:at + 4] = r.choice((b"\0\0\x80\x7f", b"\0\0\xc0\x7f", b"\xff\xff\x7f\x7f", b"\0\0\0\0",
                                        b"\xff\xff\xff\xff", b"null", b"1e99", b"[[[["))
        elif edit == 5:
            data += data[at:]
    return bytes(data)


def fuzzed_example(r):
    kind = r.randrange(8)
    if kind == 0:
        return [r.randbytes(r.choice((0, 1, 4, 12, 24, r.randrange(300))))
                for _ in range(r.randrange(1, 7))]
    if kind == 1:
        return bad_example(r)
    if kind == 2:
        return [mutated(r, r.choice(JSON_EXAMPLES))]
    frames = good_example(r.randrange(1 << 30))[:r.randrange(2, 5)]
    frames = [mutated(r, f) if r.randrange(3) == 0 else f for f in frames]
    if r.randrange(16) == 0:
        frames.insert(r.randrange(len(frames)), r.choice(frames))
    return frames


# --- control and statistics -------------------------------------------------------------------------

REQUESTS = (
    b'{"command": "status"}', b'{"command": "export"}', b'{"command": "pause"}',
    b'{"command": "resume"}', b'{"command": "set", "key": "learning.optimizer.rate", "value": 0.5}',
    b'{"command": "set", "key": "learning.clip", "value": 0}',
    b'{"command": "set", "key": "statistics.every", "value": 7}',
    b'{"command": "set", "key": "learning.optimizer.rate", "value": [{}]}',
    b'{"command": "set", "key": "seed", "value": 1}', b'{"command": "set"}',
    b'{"command": ["status"]}', b'{"command": "no such command"}', b'{"command": null}',
    b'[]', b'{}', b'7', b'null', b'"status"', b'', b'\xff\xfe', b'{"command": "sta\\u0000tus"}')


def fuzzed_request(r):
    """Frames for a DEALER socket: mostly a request in its envelope, sometimes a broken envelope."""
    kind = r.randrange(16)
    if kind == 0:
        return [r.randbytes(r.randrange(20)) for _ in range(r.randrange(1, 6))]
    if kind == 1:
        return [b"", r.choice(REQUESTS), r.randbytes(r.randrange(20))]
    if kind == 2:
        return [b"", r.randbytes(r.choice((3, 50, 5000)))]
    if kind == 3 and r.randrange(20) == 0:
        return [b"", b'{"command": "checkpoint"}']
    if kind == 4:
        return [b"", b'{"command": "' + b"[" * r.choice((1, 3000)) + b'"}']
    if kind == 5 and r.randrange(20) == 0:
        return [b"", b'"' + b"x" * (REQUEST_MAX - 2) + b'"']
    return [b"", mutated(r, r.choice(REQUESTS))]


def check_reply(frames):
    """The reply has an envelope if the request had one."""
    while b"" in frames:
        frames.pop(0)
    reply = json.loads(frames[0])
    assert isinstance(reply["ok"], bool), reply
    assert reply["ok"] or isinstance(reply["error"], str), reply


def fuzz_control(daemon, dealer, r, count):
    """Every request gets one reply."""
    while count > 0:
        batch = [fuzzed_request(r) for _ in range(min(count, 20))]
        count -= len(batch)
        for frames in batch:
            dealer.send_multipart(frames)
        for _ in batch:
            check_reply(daemon.next_message(dealer))


def fuzzed_subscription(r):
    topic = r.choice((b"", b"status", b"loss", b"event", b"stat", r.randbytes(r.randrange(30))))
    first = r.choice((b"\1", b"\1", b"\0", b"\2", b"\xff", b""))
    frames = [mutated(r, first + topic) if r.randrange(2) else first + topic]
    if r.randrange(8) == 0:
        frames += [r.randbytes(r.randrange(50)) for _ in range(r.randrange(1, 4))]
    if r.randrange(50) == 0:
        frames = [b"\1" + r.randbytes(SUBSCRIPTION_MAX - 1)]
    return frames


def drain(subscriber):
    with contextlib.suppress(zmq.Again):
        while True:
            subscriber.recv_multipart(zmq.DONTWAIT)


def fuzz_statistics(daemon, subscriber, r, count):
    for _ in range(count):
        subscriber.send_multipart(fuzzed_subscription(r))
    drain(subscriber)
    daemon.alive()


# --- the tests --------------------------------------------------------------------------------------

def learn_good_ones():
    with started() as daemon:
        for number in range(GOOD):
            daemon.feed(good_example(number))
        status = daemon.settle("examples", count=GOOD)
        assert status["rejected"] == 0, status
        parameters = daemon.export()
        daemon.stop()
        return parameters


def bad_examples_leave_no_trace(daemon, expected):
    r, bad = random.Random(1), 0
    for number in range(GOOD):
        for _ in range(r.randrange(1, 4)):
            daemon.feed(bad_example(r))
            bad += 1
        daemon.feed(good_example(number))
    status = daemon.settle("examples", "rejected", count=GOOD + bad)
    assert (status["examples"], status["rejected"]) == (GOOD, bad), status
    assert sum(status["rejected_by"].values()) == bad, status
    assert daemon.export() == expected, "rejected examples changed the parameters"
    print(f"ok   {bad} bad examples among {GOOD} good ones leave no trace: "
          + ", ".join(f"{n} {reason}" for reason, n in sorted(status["rejected_by"].items())))


def garbage_on_every_socket(daemon):
    r = random.Random(2)
    dealer, subscriber = daemon.socket(zmq.DEALER, "control"), daemon.socket(zmq.XSUB, "statistics")
    before = daemon.ask("status")
    rounds = 30
    shares = [MESSAGES * (n + 1) // rounds - MESSAGES * n // rounds for n in range(rounds)]
    for share in shares:
        for _ in range(share):
            daemon.feed(fuzzed_example(r))
        fuzz_control(daemon, dealer, r, share)
        fuzz_statistics(daemon, subscriber, r, share)
    daemon.ask("resume")
    after = daemon.settle("examples", "rejected",
                          count=before["examples"] + before["rejected"] + MESSAGES)
    for s in (dealer, subscriber):
        s.close()
    learned, rejected = (after[k] - before[k] for k in ("examples", "rejected"))
    assert learned > MESSAGES // 10 and rejected > MESSAGES // 10, (learned, rejected)
    print(f"ok   {MESSAGES} messages on each socket: of the examples {learned} were learned, "
          f"{rejected} rejected; {after['skipped']} updates skipped")


def abuse_connections(daemon):
    """Connections that do not speak ZeroMQ, and frames above the limit of messages."""
    r = random.Random(4)
    for name in ("examples", "statistics", "control"):
        for size in (1, 10, 64, 100000):
            with sockets.socket(sockets.AF_UNIX) as s, contextlib.suppress(OSError):
                s.connect(f"{daemon.directory}/{name}")
                s.sendall(b"\xff" + bytes(8) + b"\x7f\x03" if size == 64 else b"")
                s.sendall(r.randbytes(size))
    for kind, name, frames in ((zmq.PUSH, "examples", [b"a", bytes(64 << 20)]),
                               (zmq.DEALER, "control", [b"", bytes(2 * REQUEST_MAX)]),
                               (zmq.XSUB, "statistics", [b"\1" + bytes(2 * SUBSCRIPTION_MAX)])):
        s = daemon.socket(kind, name)
        s.send_multipart(frames)
        s.close(linger=1000)
    for _ in range(50):  # clients that leave within a request, or without reading the reply
        s = daemon.socket(zmq.DEALER, "control")
        s.send_multipart([b"", b'{"command": "export"}'])
        s.close(linger=r.choice((0, 100)))
    daemon.ask("status")
    print("ok   connections that break the protocol or leave early do not affect others")


def still_learns_the_same(daemon, expected):
    for key, value in (("learning.optimizer.rate", 0.01), ("learning.clip", 1.0)):
        daemon.ask("set", key=key, value=value)  # a reset keeps these settings
    daemon.ask("reset")
    for number in range(GOOD):
        daemon.feed(good_example(number))
    daemon.settle("examples", count=GOOD)
    assert daemon.export() == expected, "invalid data changed the parameters after a reset"
    print("ok   after a reset it learns the same, bit for bit")


def still_publishes(daemon):
    subscriber = daemon.socket(zmq.SUB, "statistics")
    subscriber.setsockopt(zmq.SUBSCRIBE, b"status")
    topic, body = daemon.next_message(subscriber)
    assert topic == b"status" and json.loads(body)["name"] == "robust"
    subscriber.close()
    print("ok   a new subscriber gets the status")


def main():
    expected = learn_good_ones()
    with started() as daemon:
        bad_examples_leave_no_trace(daemon, expected)
        garbage_on_every_socket(daemon)
        abuse_connections(daemon)
        still_learns_the_same(daemon, expected)
        still_publishes(daemon)
        daemon.stop()
        print("ok   exit 0 on SIGTERM, no report of a sanitizer")


if __name__ == "__main__":
    main()
