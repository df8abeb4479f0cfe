#!/usr/bin/python3
"""Valid messages with wrong content: a running daemon rejects them, reports the probable cause, and
continues as if they had never arrived."""
import json
import math
import struct
import subprocess
import sys
import time

try:
    import numpy as np
    import zmq
except ImportError as missing:
    print(f"skipped: {missing} (on Debian: apt-get install python3-numpy python3-zmq)")
    sys.exit(77)

import cases
import running
from running import LIMIT

COLUMNS = 7
X_SIZE, Y_SIZE, SCHEMA = 4, 6, 13  # the reasons of docs/reference/protocol.md

CONFIG = """
name: poison
device: cpu
model:
  input: {{kind: real, size: {columns}, scale: {scale}}}
  layers: [{{cell: gru, size: 8}}]
  output: {output}
learning: {{window: 8, clip: 1.0}}
examples: {{bind: "ipc://{directory}/examples", {examples}}}
statistics: {{bind: "ipc://{directory}/statistics"}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: "{directory}/state"}}
"""


def numbers(n):
    return [10 + math.sin(0.1 * n + k) for k in range(COLUMNS)]


def header(sequence, flags=0):
    return struct.pack("<BBHIQd", 1, flags, 0, 1, sequence, 0.0)


def daemon(directory, output="{loss: squared, size: 7, target: next}", examples="socket: pull",
           scale="standard"):
    directory.mkdir(exist_ok=True)
    return running.Daemon(directory, CONFIG.format(directory=directory, columns=COLUMNS,
                                                   output=output, examples=examples,
                                                   scale=scale))


def wait(what, condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, f"waited {LIMIT} s for {what}"
        time.sleep(0.01)


class Feeder:
    """Sends counted good examples, and any other messages."""

    def __init__(self, daemon):
        self.daemon, self.sent = daemon, 0
        self.socket = daemon.socket(zmq.PUSH, "examples")
        self.events = daemon.socket(zmq.SUB, "statistics")
        self.events.subscribe(b"event")
        self.events.subscribe(b"status")
        while daemon.next_message(self.events)[0] != b"status":
            pass
        self.events.unsubscribe(b"status")

    def good(self, count, wild=()):
        for n in range(self.sent, self.sent + count):
            x = np.array(numbers(n), "<f4")
            x[0] = 1e30 if n in wild else x[0]
            self.socket.send_multipart([b"a", x.tobytes()])
        self.sent += count
        wait(f"{self.sent} examples", lambda: self.daemon.ask("status")["examples"] == self.sent)

    def event(self, kind):
        while True:
            topic, body = self.daemon.next_message(self.events)
            if topic == b"event" and json.loads(body)["kind"] == kind:
                return json.loads(body)


def test_float64_is_refused_with_its_cause_and_changes_nothing(directory):
    with daemon(directory / "disturbed") as disturbed, daemon(directory / "calm") as calm:
        feeder, other = Feeder(disturbed), Feeder(calm)
        feeder.good(300)
        for n in range(50):
            feeder.socket.send_multipart([b"a", np.array(numbers(n)).tobytes()])
        wait("50 rejections", lambda: disturbed.ask("status")["rejected_by"].get("x_size") == 50)
        text = feeder.event("rejected")["text"]
        assert "x has 56 bytes (float64?), expected 7 float32" in text, text
        assert "examples.steps" in text and "header" in text, text
        feeder.good(300)
        other.good(600)
        assert disturbed.ask("status")["steps"] == 600
        assert disturbed.frames(b'{"command": "export"}')[1] == \
            calm.frames(b'{"command": "export"}')[1]


def test_several_steps_need_a_header_or_the_key(directory):
    two = np.array(numbers(1) + numbers(2), "<f4").tobytes()
    for examples, taken in (("socket: pull", 2), ("socket: pull, steps: many", 4)):
        with daemon(directory / examples[-4:], examples=examples) as one:
            push = one.socket(zmq.PUSH, "examples")
            push.send_multipart([b"a", two])
            push.send_multipart([b"a", two, b"", header(0)])
            push.send_json({"stream": "a", "x": [numbers(1), numbers(2)]})
            push.send_multipart([b"a", two, b""])
            wait("all", lambda: sum(one.ask("status")[k] for k in ("examples", "rejected")) == 4)
            assert one.ask("status")["examples"] == taken


def test_the_acknowledgement_names_the_cause(directory):
    with daemon(directory, "{loss: squared, size: 3}", "socket: router") as one:
        dealer = one.socket(zmq.DEALER, "examples")

        def answer(x, y, sequence):
            dealer.send_multipart([b"a", x.tobytes(), y.tobytes(), header(sequence)])
            key, acknowledgement, *words = one.next_message(dealer)
            status, reason, _, number = struct.unpack_from("<xBHIQ", acknowledgement)
            assert key == b"a" and number == sequence
            return status, reason, words[0].decode() if words else ""

        x, y = np.array(numbers(0), "<f4"), np.arange(3, dtype="<f4")
        assert answer(x, y, 1) == (0, 0, "")
        assert answer(x, y.astype("<f8"), 2) == (
            2, Y_SIZE, "y has 24 bytes (float64?), expected 3 float32 (12 bytes)")
        status, reason, words = answer(x.astype("<f8"), y, 3)
        assert (status, reason) == (2, Y_SIZE) and "x has 56 bytes (float64?), expected 7 float32" in words
        status, reason, words = answer(x.astype("<f2"), y, 4)
        assert (status, reason) == (2, X_SIZE) and "x has 14 bytes (float16?), expected 7 float32" in words
        assert answer(x, y, 5)[0] == 0


def rmse(daemon, feeder, count):
    """The error of the next examples."""
    feeder.good(count)
    return daemon.ask("status")["metric"]["rmse"]


def test_a_wild_value_is_forgotten(directory):
    """After a value of 1e30, the error returns to within 5% of that of an undisturbed daemon:
    within 2,000 examples in the middle, within 5,000 if it was among the first 30."""
    limits, waits = "standard, memory: 1000, limit: 30", {1000: 2000, 12: 5000}
    for at, later in waits.items():
        with daemon(directory / f"wild-{at}", scale=limits) as wild, \
                daemon(directory / f"calm-{at}", scale=limits) as calm:
            errors = []
            for one, values in ((wild, (at,)), (calm, ())):
                feeder = Feeder(one)
                feeder.good((at + later) // 100 * 100, values)
                errors.append(rmse(one, feeder, 100))
            assert abs(errors[0] / errors[1] - 1) < 0.05, errors
            assert errors[1] < 1, errors


def test_limits_are_in_the_checkpoint(directory):
    """Stops among the first 30 values and after them do not change a bit."""
    limits = "standard, memory: 100, limit: 30"
    with daemon(directory / "whole", scale=limits) as whole, \
            daemon(directory / "parts", scale=limits) as parts:
        Feeder(whole).good(200, wild=(3, 120))
        sent = 0
        for count in (20, 80, 100):
            feeder = Feeder(parts)
            feeder.sent = sent
            feeder.good(count, wild=(3, 120))
            sent += count
            if sent < 200:
                assert parts.end() == 0
                parts.log.close()
                parts.start()
        assert parts.frames(b'{"command": "export"}')[1] == \
            whole.frames(b'{"command": "export"}')[1]


def test_inputs_out_of_scale_are_announced(directory):
    """float64 that a header declares as two steps, also with `scale: none`."""
    for scale in ("standard", "none"):
        with daemon(directory / scale, scale=scale) as one:
            feeder = Feeder(one)
            feeder.good(100)
            assert one.ask("status")["input_scale"] == 0
            for _ in range(2):
                feeder.socket.send_multipart([b"b", np.array(numbers(7)).tobytes(), b"", header(0)])
            event = feeder.event("input_scale")
            assert event["stream"] == "b" and event["count"] > 0 and 0 <= event["column"] < COLUMNS
            assert abs(event["value"]) > 100 * event["largest"] > 0, event
            assert "type and unit" in event["text"], event
            assert one.ask("status")["input_scale"] >= event["count"]


def test_the_range_outlives_a_restart(directory):
    with daemon(directory / "a", scale="standard, memory: 1000, limit: 30") as one:
        Feeder(one).good(100)
        assert one.end() == 0
        one.log.close()
        one.start()
        feeder = Feeder(one)
        feeder.sent = 100
        feeder.good(1, wild=(100,))
        event = feeder.event("input_scale")
        assert event["column"] == 0 and event["value"] > 9e29 and event["largest"] < 100, event


def schema(**members):
    return json.dumps({"schema": members}).encode()


def test_a_schema_is_checked_before_anything_is_learned(directory):
    with daemon(directory / "pull") as one:
        feeder = Feeder(one)
        feeder.socket.send(schema(dtype="float32", columns=[f"c{k}" for k in range(COLUMNS)]))
        feeder.good(10)
        assert one.ask("status")["rejected"] == 0
        feeder.socket.send(schema(dtype="float64", columns=COLUMNS))
        text = feeder.event("rejected")["text"]
        assert "'float64', expected float32" in text, text
        assert one.ask("status")["rejected_by"] == {"schema": 1}
        assert one.ask("status")["examples"] == 10
    with daemon(directory / "router", examples="socket: router") as one:
        dealer = one.socket(zmq.DEALER, "examples")
        dealer.send(schema(dtype="float32", columns=COLUMNS))
        key, answer, own = one.next_message(dealer)
        assert key == b"" and struct.unpack("<BBHIQQ", answer) == (1, 0, 0, 0, 0, 0)
        assert json.loads(own) == one.ask("status")["schema"] == {
            "dtype": "float32", "columns": COLUMNS, "target_dtype": None, "targets": 0, "target": "next"}
        dealer.send(schema(columns=[f"c{k}" for k in range(COLUMNS + 1)]))
        key, answer, words = one.next_message(dealer)
        assert key == b"" and struct.unpack("<BBHIQQ", answer) == (1, 2, SCHEMA, 0, 0, 0)
        assert b"has 8 columns, expected 7: 'c7' is the first extra one" in words
        assert one.ask("status")["examples"] == 0


def test_a_feeder_sends_its_schema(directory):
    names = [f"c{k}" for k in range(COLUMNS + 1)]
    path = directory / "table.csv"
    path.write_text(",".join(names) + "\n" + 20 * (",".join(map(str, range(COLUMNS + 1))) + "\n"))

    def feed(one, columns, *more):
        done = subprocess.run([running.PROGRAM.parent / "runnel-feed", "csv", path, "--schema",
                               "--columns", columns, "--connect", one.endpoint("examples"), *more],
                              capture_output=True, text=True, timeout=LIMIT, check=False)
        return done.returncode, done.stderr

    with daemon(directory / "router", examples="socket: router") as one:
        status, output = feed(one, "1-8", "--socket", "router")
        assert status == 65 and "'c7' is the first extra one" in output, (status, output)
        assert one.ask("status")["examples"] == 0
        assert feed(one, "1-7", "--socket", "router")[0] == 0
        wait("20 examples", lambda: one.ask("status")["examples"] == 20)
    with daemon(directory / "pull") as one:
        assert feed(one, "1-7")[0] == 0
        wait("20 examples", lambda: one.ask("status")["examples"] == 20)
        assert one.ask("status")["rejected"] == 0


if __name__ == "__main__":
    cases.run(globals())
