#!/usr/bin/python3
"""Tests the whole daemon with real sockets, signals and files."""

import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

try:
    import yaml
    import zmq
except ImportError as missing:
    print(f"skipped: {missing} (on Debian: apt-get install python3-yaml python3-zmq)")
    sys.exit(77)

import cases
import running
from running import LIMIT, PROGRAM

CONFIG = {
    "name": "test",
    "seed": 3,
    "device": "cpu",
    "model": {
        "input": {"kind": "real", "size": 2, "scale": "standard", "missing": "hold"},
        "layers": [{"cell": "gru", "size": 6, "norm": "layer"},
                   {"cell": "lstm", "size": 5, "norm": "layer"}],
        "output": {"loss": "gaussian", "size": 2, "target": "next"},
    },
    "learning": {"window": 8, "stride": 3, "optimizer": {"kind": "adam", "rate": 0.01}, "clip": 1.0},
}


def numbers(n):
    """The x of example n."""
    return [math.sin(0.3 * n) + 0.1 * (n % 3), 5 + 2 * math.cos(0.7 * n)]


def example(n, stream=b"a"):
    return [stream, struct.pack("<2f", *numbers(n))]


def wait(what, condition):
    end = time.monotonic() + LIMIT
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"waited {LIMIT} s for {what}"
        time.sleep(0.01)


class Daemon(running.Daemon):
    def __init__(self, directory, statistics=None, **sections):
        self.ends = {s: f"ipc://{directory}/{s}" for s in ("examples", "statistics", "control")}
        config = {**CONFIG, **sections, **{s: {"bind": end} for s, end in self.ends.items()}}
        config["state"] = {"directory": f"{directory}/state",
                           "checkpoint": {"examples": 0, "seconds": 0},
                           **sections.get("state", {})}
        config["statistics"].update({"every": 1, **(statistics or {})})
        super().__init__(directory, yaml.safe_dump(config))

    def start(self):
        super().start()
        self.push = self.socket(zmq.PUSH, "examples")

    def refused(self, command, **members):
        reply = self.request(command, **members)[0]
        assert reply["ok"] is False
        return reply["error"]

    def subscribe(self, *topics):
        """A subscriber whose subscription has reached the daemon."""
        socket = self.socket(zmq.SUB, "statistics")
        socket.rcvhwm = 0
        for topic in topics:
            socket.subscribe(topic)
        socket.subscribe("status")
        self.receive(socket, "status")
        if "status" not in topics:
            socket.unsubscribe("status")
        return socket

    def receive(self, socket, topic, condition=lambda body: True):
        """The next message of the topic that meets the condition."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            name, body = self.next_message(socket)
            body = json.loads(body, parse_constant=lambda word: 1 / 0)
            if name.decode() == topic and condition(body):
                return body
        raise AssertionError(f"no {topic} in {LIMIT} s")

    def feed(self, first, last):
        for n in range(first, last + 1):
            self.push.send_multipart(example(n, b"b" if n % 5 == 0 else b"a"))

    def learned(self, count):
        return wait(f"{count} examples", lambda: self.ask("status")["examples"] >= count)

    def restart(self):
        self.log.close()
        self.push.close()
        self.start()


def stored(blob):
    """The content of a safetensors file: {name: (type, shape, bytes)}; its data has no gaps."""
    size = struct.unpack("<Q", blob[:8])[0]
    header = json.loads(blob[8:8 + size])
    header.pop("__metadata__", None)
    data = blob[8 + size:]
    parts = sorted(entry["data_offsets"] for entry in header.values())
    ends = [0] + [end for _, end in parts]
    assert [begin for begin, _ in parts] + [len(data)] == ends, parts
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def stored_file(entries):
    header, data = {}, b""
    for name, (kind, shape, values) in entries.items():
        header[name] = {"dtype": kind, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


# Every parameter of CONFIG.
SHAPES = {
    **{f"layers.0.{name}": shape for name, shape in {
        "weight_ih": [18, 2], "weight_hh": [18, 6], "bias_ih": [18], "norm_ih.gain": [18],
        "norm_ih.bias": [18], "norm_hh.gain": [18], "norm_hh.bias": [18]}.items()},
    **{f"layers.1.{name}": shape for name, shape in {
        "weight_ih": [20, 6], "weight_hh": [20, 5], "bias_ih": [20], "norm_ih.gain": [20],
        "norm_ih.bias": [20], "norm_hh.gain": [20], "norm_hh.bias": [20], "norm_c.gain": [5],
        "norm_c.bias": [5]}.items()},
    "output.weight": [4, 5], "output.bias": [4],
}


def counted_parameters():
    """A file with the parameters of CONFIG, in which all numbers differ."""
    entries, next_one = {}, 1
    for name, shape in SHAPES.items():
        count = math.prod(shape)
        numbers_of_it = [(next_one + k) / 1024 for k in range(count)]
        entries[name] = ("F32", shape, struct.pack(f"<{count}f", *numbers_of_it))
        next_one += count
    return entries


def read_by_its_package(blob, entries):
    """Reads the file with the Python package safetensors; prints a note if the package is
    missing."""
    try:
        import safetensors.numpy
    except ImportError as missing:
        print(f"     not checked with the package: {missing}")
        return
    read = safetensors.numpy.load(blob)
    assert set(read) == set(entries)
    for name, (_, shape, values) in entries.items():
        tensor = read[name]
        assert (str(tensor.dtype), list(tensor.shape)) == ("float32", shape), name
        assert tensor.tobytes() == values, name


def run(*arguments, program=PROGRAM, **environment):
    result = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=LIMIT,
                            env={**os.environ, **environment})
    return result.returncode, result.stdout, result.stderr


def test_each_example_brings_one_loss_message(directory):
    with Daemon(directory) as daemon:
        losses = daemon.subscribe("loss")
        daemon.feed(1, 100)
        runs = set()
        for n in range(1, 101):
            body = daemon.receive(losses, "loss")
            assert (body["examples"], body["sequence"]) == (n, n), body
            assert (body["loss"] is None) == (n == 1), "the first step has no target yet"
            runs.add(body["run"])
        assert len(runs) == 1
        assert body["steps"] == 100 and body["streams"] == 2 and body["updates"] > 20
        assert body["mean"] == body["loss"] == body["minimum"] == body["maximum"]
        assert body["rate"] == 0.01 and body["gradient_norm"] > 0 and body["update_ratio"] > 0
        assert body["metric"]["rmse"] > 0 and body["examples_per_second"] > 0
        assert body["latency_us"]["p50"] <= body["latency_us"]["max"]
        assert body["rejected"] == body["skipped"] == body["queued"] == 0, body
        assert abs(body["time"] - time.time()) < 600


def test_a_message_covers_its_examples(directory):
    with Daemon(directory) as daemon:
        losses = daemon.subscribe("loss")
        daemon.feed(1, 60)
        each = [daemon.receive(losses, "loss")["mean"] for _ in range(60)]
    with tempfile.TemporaryDirectory() as other:
        with Daemon(other, statistics={"every": 30}) as daemon:
            losses = daemon.subscribe("loss")
            daemon.feed(1, 60)
            for n in (30, 60):
                body = daemon.receive(losses, "loss")
                part = [v for v in each[n - 30:n] if v is not None]
                assert body["examples"] == n and body["loss"] == each[n - 1]
                assert body["minimum"] == min(part) and body["maximum"] == max(part)
                mean = sum(part) / len(part)
                assert abs(body["mean"] - mean) < 1e-9, (body["mean"], mean, part)


def test_a_late_subscriber_gets_the_status_at_once(directory):
    with Daemon(directory) as daemon:
        daemon.feed(1, 10)
        daemon.learned(10)
        for _ in range(2):
            status = daemon.receive(daemon.subscribe("status", "none"), "status")
        socket = daemon.socket(zmq.SUB, "statistics")
        socket.subscribe("")
        status = daemon.receive(socket, "status")
        assert status["state"] == "learning" and status["name"] == "test"
        assert status["examples"] == 10 and status["parameters"] > 100
        assert status["version"] and status["digest"] and status["uptime"] >= 0
        assert status["device"].startswith("cpu")


def test_a_late_subscriber_gets_the_start_time(directory):
    def first_event():
        with daemon.socket(zmq.SUB, "statistics") as socket:
            socket.subscribe("event")
            return daemon.receive(socket, "event")

    with Daemon(directory) as daemon:
        before = daemon.ask("status")
        daemon.feed(1, 10)
        daemon.learned(10)
        event = first_event()
        assert event["kind"] == "started" and event["time"] <= before["time"], (event, before)
        assert event["examples"] == event["steps"] == 0
        daemon.ask("checkpoint")
        daemon.process.kill()
        daemon.process.wait()
        daemon.restart()
        daemon.feed(11, 20)
        daemon.learned(20)
        event = first_event()
        assert event["kind"] == "started" and event["examples"] == 10, event


def test_state_and_predictions_are_published_when_subscribed_to(directory):
    with Daemon(directory, statistics={"every": 10, "predictions": True}) as daemon:
        socket = daemon.subscribe("state", "prediction")
        daemon.feed(1, 20)
        for n in range(1, 21):
            body = daemon.receive(socket, "prediction")
            assert body["example"] == n and body["stream"] == ("b" if n % 5 == 0 else "a")
            mean, sd = body["prediction"]["mean"], body["prediction"]["sd"]
            assert len(mean) == len(sd) == 2
            assert sd == [None, None] if n == 1 else min(sd) > 0  # one value is constant
            if n % 10 == 0:
                layers = daemon.receive(socket, "state")["layers"]
        # The second number is 5 +- 2: in the scaled units of the network its mean would be near 0.
        assert 2 < mean[1] < 8, mean
        gru, lstm = layers
        assert (gru["kind"], gru["size"], lstm["kind"], lstm["size"]) == ("gru", 6, "lstm", 5)
        assert "cell" in lstm and "cell" not in gru
        for layer in layers:
            assert sum(layer["histogram"]) == layer["size"] and len(layer["histogram"]) == 20
            assert layer["hidden"]["norm"] > 0 and layer["summed_inputs"]["std"] > 0
            assert layer["hidden"]["minimum"] <= layer["hidden"]["mean"] <= layer["hidden"]["maximum"]
            assert abs(layer["gain"]["mean"] - 1) < 0.2


def test_control_reports_the_status(directory):
    with Daemon(directory) as daemon:
        daemon.feed(1, 40)
        daemon.learned(40)
        status = daemon.ask("status")
        for field in ("name", "device", "parameters", "digest", "version", "uptime", "state", "loss",
                      "mean", "smoothed", "minimum", "maximum", "updates", "rate", "gradient_norm",
                      "update_ratio", "metric", "examples_per_second", "latency_us", "queued",
                      "rejected", "skipped", "streams", "examples", "steps", "time", "run"):
            assert status.get(field) is not None, field
        assert status["examples"] == 40 and status["state"] == "learning"


def test_a_slow_stream_is_seen(directory):
    """A slow stream still gets `loss` messages by time, and the state with the next example."""
    class ByTime(Daemon):
        statistics_by_time = True

    with ByTime(directory, statistics={"every": 100, "seconds": 0.25}) as daemon:
        socket = daemon.subscribe("loss", "state")
        daemon.feed(1, 3)
        body = daemon.receive(socket, "loss", lambda b: b["examples"] == 3)
        assert body["steps"] == 3 and body["examples_per_second"] > 0, body
        for n in range(4, 7):
            time.sleep(0.3)
            daemon.feed(n, n)
            for topic in "loss", "state":
                daemon.receive(socket, topic, lambda b: b["examples"] == n)
    with Daemon(directory, statistics={"every": 100, "seconds": 0}) as daemon:
        socket = daemon.subscribe("loss")
        daemon.feed(1, 3)
        daemon.learned(3)
        time.sleep(1.5)  # the loop runs once per second
        daemon.feed(4, 100)
        assert daemon.receive(socket, "loss")["examples"] == 100


def test_keys_are_set_in_flight(directory):
    with Daemon(directory) as daemon:
        socket = daemon.subscribe("event", "status", "loss")
        daemon.ask("set", key="learning.optimizer.rate", value=0.0003)
        body = daemon.receive(socket, "event", lambda b: b["kind"] == "set")
        assert (body["key"], body["value"]) == ("learning.optimizer.rate", 0.0003)
        reply = daemon.ask("set", key="rate", value=0.0003)
        assert reply["key"] == "learning.optimizer.rate"
        assert "ambiguous" in daemon.refused("set", key="kind", value=1)
        daemon.ask("set", key="learning.clip", value=0)
        daemon.ask("set", key="statistics.every", value=7)
        status = daemon.receive(socket, "status", lambda b: b["every"] == 7)
        assert status["clip"] == 0
        daemon.feed(1, 20)
        assert [daemon.receive(socket, "loss")["examples"] for _ in range(2)] == [7, 14]
        daemon.learned(20)  # the last examples have not arrived yet: they would change the export
        assert daemon.ask("status")["rate"] == 0.0003
        before = daemon.export()
        for key, value in (("learning.optimizer.rate", -1), ("learning.optimizer.rate", "fast"),
                           ("statistics.every", 0), ("learning.window", 4), ("nonsense", 1),
                           ("learning.clip", None), ("learning.clip", [1])):
            error = daemon.refused("set", key=key, value=value)
            assert key in error or "key" in error, error
        assert daemon.ask("status")["rate"] == 0.0003 and daemon.export() == before


def test_an_optimizer_without_a_rate(directory):
    """cocob has no rate: setting one is rejected. The checkpoint contains its whole state."""
    learning = {**CONFIG["learning"], "optimizer": {"kind": "cocob"}}
    with Daemon(directory, learning=learning) as daemon:
        socket = daemon.subscribe("loss")
        daemon.feed(1, 60)
        assert daemon.learned(60) and daemon.ask("status")["rate"] is None
        assert daemon.receive(socket, "loss", lambda b: b["updates"] > 5)["rate"] is None
        error = daemon.refused("set", key="learning.optimizer.rate", value=0.1)
        assert "kind: cocob has no learning rate" in error and "auto" in error, error
        daemon.ask("set", key="learning.optimizer.rate", value="auto")
        daemon.ask("set", key="learning.clip", value=0.5)
        assert daemon.end() == 0
        daemon.restart()
        daemon.learned(60)
        assert daemon.ask("status")["clip"] == 0.5
        daemon.feed(61, 120)
        daemon.learned(120)
        resumed = daemon.export()
    with tempfile.TemporaryDirectory() as other, Daemon(other, learning=learning) as daemon:
        daemon.feed(1, 60)
        daemon.learned(60)
        daemon.ask("set", key="learning.clip", value=0.5)
        daemon.feed(61, 120)
        daemon.learned(120)
        assert daemon.export() == resumed
    with tempfile.TemporaryDirectory() as other, Daemon(other) as daemon:
        error = daemon.refused("set", key="learning.optimizer.rate", value="auto")
        assert "expected a number with kind: adam" in error, error


def test_pause_takes_no_examples_and_resume_goes_on(directory):
    with Daemon(directory) as daemon:
        socket = daemon.subscribe("event", "status")
        daemon.feed(1, 10)
        daemon.learned(10)
        assert daemon.ask("pause")["state"] == "paused"
        daemon.receive(socket, "event", lambda b: b["kind"] == "paused")
        daemon.receive(socket, "status", lambda b: b["state"] == "paused")
        daemon.feed(11, 30)
        for _ in range(50):
            status = daemon.ask("status")
            assert status["examples"] == 10 and status["state"] == "paused"
        assert daemon.ask("resume")["state"] == "learning"
        daemon.receive(socket, "status", lambda b: b["state"] == "learning")
        daemon.learned(30)
        assert daemon.ask("status")["examples"] == 30


def test_an_export_holds_every_parameter(directory):
    with Daemon(directory) as daemon:
        fresh = stored(daemon.export())
        daemon.feed(1, 30)
        daemon.learned(30)
        reply, blob = daemon.frames(b'{"command": "export"}')
        learned = stored(blob)
        assert reply["ok"] and reply["examples"] == 30 and reply["bytes"] == len(blob)
        assert {k: (kind, shape) for k, (kind, shape, _) in learned.items()} == {
            k: ("F32", shape) for k, shape in SHAPES.items()}
        assert sum(math.prod(s) for s in SHAPES.values()) == daemon.ask("status")["parameters"]
        assert all(learned[k] != fresh[k] for k in learned), "a tensor was not learned"
        # Written by other code, and the start of a daemon.
        checkpoint = stored(pathlib.Path(daemon.ask("checkpoint")["path"]).read_bytes())
        assert learned == {k: checkpoint[k] for k in SHAPES}
        read_by_its_package(blob, learned)


def test_an_export_has_the_scale_of_raw_numbers(directory):
    def scale(daemon):
        blob = daemon.export()
        size = struct.unpack("<Q", blob[:8])[0]
        texts = json.loads(blob[8:8 + size])["__metadata__"]
        return {k: json.loads(v) for k, v in texts.items() if k.startswith("scaler.")}

    with Daemon(directory) as daemon:
        assert scale(daemon) == {"scaler.mean": [0, 0], "scaler.deviation": [0, 0]}
        daemon.feed(1, 30)
        daemon.learned(30)
        of_each = list(zip(*(struct.unpack("<2f", example(n)[1]) for n in range(1, 31))))
        found = scale(daemon)
        for k, seen in enumerate(of_each):
            assert math.isclose(found["scaler.mean"][k], statistics.fmean(seen), rel_tol=1e-12)
            assert math.isclose(found["scaler.deviation"][k], statistics.pstdev(seen),
                                rel_tol=1e-12)
    unscaled = dict(CONFIG["model"], input={"kind": "real", "size": 2})
    with tempfile.TemporaryDirectory() as other, Daemon(other, model=unscaled) as daemon:
        assert scale(daemon) == {}


def test_an_export_holds_the_values_begun_with(directory):
    initial = pathlib.Path(directory, "initial.safetensors")
    entries = counted_parameters()
    initial.write_bytes(stored_file(entries))
    with Daemon(directory, model=dict(CONFIG["model"], initial=str(initial))) as daemon:
        blob = daemon.export()
        assert stored(blob) == entries
        read_by_its_package(blob, entries)


def test_reset_forgets_what_was_learned(directory):
    with Daemon(directory) as daemon:
        fresh = daemon.export()
        socket = daemon.subscribe("event", "loss")
        daemon.feed(1, 30)
        daemon.learned(30)
        assert daemon.export() != fresh
        assert daemon.ask("reset")["examples"] == 0
        daemon.receive(socket, "event", lambda b: b["kind"] == "reset")
        status = daemon.ask("status")
        assert status["examples"] == status["updates"] == status["streams"] == 0
        assert status["loss"] is None and daemon.export() == fresh
        daemon.feed(1, 1)
        assert daemon.receive(socket, "loss")["examples"] == 1


def test_a_reset_that_cannot_be_is_refused_and_changes_nothing(directory):
    initial = pathlib.Path(directory, "initial.safetensors")
    with tempfile.TemporaryDirectory() as other, Daemon(other) as daemon:
        initial.write_bytes(daemon.frames(b'{"command": "export"}')[1])
    with Daemon(directory, model=dict(CONFIG["model"], initial=str(initial))) as daemon:
        daemon.feed(1, 30)
        daemon.learned(30)
        learned = daemon.export()
        daemon.ask("checkpoint")
        initial.unlink()
        assert str(initial) in daemon.refused("reset")
        status = daemon.ask("status")
        assert status["examples"] == 30 and status["streams"] == 2
        assert daemon.export() == learned
    with Daemon(directory, model=dict(CONFIG["model"], initial=str(initial))) as daemon:
        assert daemon.export() == learned  # a checkpoint does not need starting values


def test_a_resumed_daemon_learns_the_same_bits(directory):
    with tempfile.TemporaryDirectory() as other:
        with Daemon(other) as daemon:
            daemon.feed(1, 200)
            daemon.learned(200)
            expected = daemon.export()
    with Daemon(directory) as daemon:
        daemon.feed(1, 101)
        daemon.learned(101)
        reply = daemon.ask("checkpoint")
        assert reply["examples"] == 101
        assert pathlib.Path(reply["path"]).stat().st_size == reply["bytes"]
        daemon.feed(102, 150)  # after the checkpoint: the journal has these examples
        daemon.learned(150)
        while daemon.ask("status")["journal"]["durable"] < 150:
            time.sleep(0.002)
        daemon.process.kill()
        daemon.process.wait()
        daemon.restart()
        status = daemon.ask("status")
        assert status["examples"] == status["steps"] == 150 and status["streams"] == 2, status
        assert status["resumed"] == reply["path"] and status["updates"] > 0
        daemon.feed(151, 160)
        daemon.learned(160)
        assert daemon.end(signal.SIGTERM) == 0
        daemon.restart()
        daemon.feed(161, 200)
        daemon.learned(200)
        assert daemon.ask("status")["examples"] == 200
        assert daemon.export() == expected


def test_a_rate_set_in_flight_survives_a_restart(directory):
    with Daemon(directory) as daemon:
        daemon.ask("set", key="learning.optimizer.rate", value=0.002)
        assert daemon.end() == 0
        daemon.restart()
        assert daemon.ask("status")["rate"] == 0.002


def test_checkpoints_are_written_by_count(directory):
    with Daemon(directory, state={"checkpoint": {"examples": 50, "seconds": 0}}) as daemon:
        events = daemon.subscribe("event")
        daemon.feed(1, 60)
        body = daemon.receive(events, "event", lambda b: b["kind"] == "checkpoint")
        # Counted between batches, so the checkpoint may contain a few more.
        assert 50 <= body["examples"] == body["steps"] <= 60, body
        assert pathlib.Path(body["path"]).exists()


def test_checkpoints_are_written_by_time(directory):
    with Daemon(directory, state={"checkpoint": {"examples": 0, "seconds": 0.2}}) as daemon:
        events = daemon.subscribe("event")
        daemon.feed(1, 5)
        daemon.receive(events, "event", lambda b: b["kind"] == "checkpoint")
        daemon.feed(6, 10)
        daemon.receive(events, "event", lambda b: b["kind"] == "checkpoint" and b["examples"] > 5)


def test_signals_end_the_daemon_with_a_checkpoint(directory):
    with Daemon(directory) as daemon:
        count = 0
        for number in (signal.SIGTERM, signal.SIGINT):
            events = daemon.subscribe("event")
            daemon.feed(count + 1, count + 500)
            daemon.learned(count + 1)
            assert daemon.end(number) == 0, daemon.text()
            text = daemon.text()
            assert "all are in the checkpoint" in text, text
            stopped = int(text.split("stopped after ")[1].split()[0])
            assert count < stopped <= count + 500
            daemon.restart()
            count = daemon.ask("status")["examples"]
            assert count == stopped
            daemon.receive(events, "event", lambda b: b["kind"] == "stopping")


def test_received_examples_are_learned_before_the_stop(directory):
    with Daemon(directory) as daemon:
        def connections(count):
            wait(f"{count} connections",
                 lambda: daemon.ask("status")["connections"]["examples"] == count)

        daemon.feed(1, 1)
        daemon.learned(1)  # the feeder is connected
        daemon.ask("pause")
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.connect(daemon.ends["examples"])
            for n in range(2, 1001):
                socket.send_multipart(example(n))
            connections(2)
        connections(1)  # the end of the connection follows all its messages
        daemon.ask("resume")
        assert daemon.ask("shutdown")["state"] == "draining"
        assert daemon.process.wait(LIMIT) == 0
        daemon.restart()
        assert daemon.ask("status")["examples"] == 1000


def test_bad_examples_are_rejected_counted_and_announced(directory):
    with Daemon(directory) as daemon:
        events = daemon.subscribe("event")
        bad = [[b"a", b"123"], [b"a", struct.pack("<2f", 1, math.inf)], [b"\xff", example(1)[1]],
               [b"{"], [b"a", example(1)[1], b"", b"short"], [b"a"] * 6, [b"", b"", b"", b""]]
        for message in bad:
            daemon.push.send_multipart(message)
        daemon.feed(1, 3)
        daemon.push.send_json({"stream": "a", "x": numbers(4)})
        daemon.push.send_json({"stream": "a", "x": [numbers(5), [None, 5]]})
        daemon.learned(5)
        status = daemon.ask("status")
        assert status["examples"] == 5 and status["steps"] == 6
        assert status["rejected"] == len(bad) == sum(status["rejected_by"].values()), status
        body = daemon.receive(events, "event", lambda b: b["kind"] == "rejected")
        assert body["text"]
        published = daemon.receive(daemon.subscribe("status"), "status")
        assert published["rejected_by"] == status["rejected_by"] and published["rejected"] == len(bad), published
        assert published["examples_per_second"] > 0, published


def test_no_request_blocks_the_control_socket(directory):
    with Daemon(directory) as daemon:
        for frames in ([b""], [b"{"], [b"[]"], [b"null"], [b'{"command": 1}'], [b'{"command": "x"}'],
                       [b'{"command": "status"}', b"more"], [b"", b"", b""], [b"\xff\x00\xfe"],
                       [b'{"command": "set"}'], [b"[" * 60000], [b'{"command": "' + b"y" * 60000 + b'"}'],
                       ['{"command": "gr\u00fcn\\u0001"}'.encode()]):
            reply = daemon.frames(*frames)
            assert len(reply) == 1 and reply[0]["ok"] is False and reply[0]["error"], reply
        lost = daemon.socket(zmq.REQ, "control")
        lost.send(b"x" * 1000000)  # larger than the limit
        gone = daemon.socket(zmq.REQ, "control")
        gone.send(b'{"command": "export"}')  # its client leaves before the reply
        gone.close()
        assert daemon.ask("status")["ok"]
        lost.close()


def test_the_cost_of_a_value_is_bounded(directory):
    """libyaml's time grows with the square of the nesting: 60,000 brackets took 4 to 60 s, without
    learning."""
    key, nested = "learning.optimizer.rate", "[" * 60000
    with Daemon(directory) as daemon:
        for value in (nested, "- " * 30000, "[" + ",".join(f"&{n} 1" for n in range(7000)) + "]"):
            reply, = daemon.request("set", key=key, value=value)
            assert not reply["ok"] and f"{len(value)} bytes" in reply["error"], reply
        for value in ("[" * 90, "{a: " * 24):
            reply, = daemon.request("set", key=key, value=value)
            assert not reply["ok"] and "nested more than" in reply["error"], reply
        assert daemon.end() == 0
    path = pathlib.Path(directory, "nested.yaml")
    for text in (nested, "- " * 30000, "{a: " * 15000, "".join(f"{' ' * n}a:\n" for n in range(300))):
        path.write_text(text)
        code, _, error = run("--config", path, "--check-config")
        assert code == 78 and f"{path}:" in error and "nested more than" in error, error
    path.write_text(yaml.safe_dump(CONFIG))
    code, _, error = run("--config", path, "--set", f"{key}={nested}", "--check-config")
    assert code == 78 and "60000 bytes" in error, error


def test_a_subscriber_that_does_not_read_stops_nobody(directory):
    with Daemon(directory) as daemon:
        slow = daemon.socket(zmq.SUB, "statistics")
        slow.rcvhwm = 1
        slow.subscribe("")
        good = daemon.subscribe("event")
        daemon.feed(1, 5000)
        daemon.learned(5000)
        daemon.ask("checkpoint")
        daemon.receive(good, "event", lambda b: b["kind"] == "checkpoint")


def test_shutdown_replies_and_ends(directory):
    with Daemon(directory) as daemon:
        daemon.feed(1, 10)
        daemon.learned(10)
        assert daemon.ask("shutdown")["state"] == "draining"
        assert daemon.process.wait(LIMIT) == 0
        daemon.restart()
        assert daemon.ask("status")["examples"] == 10


def test_a_state_directory_has_one_daemon(directory):
    with Daemon(directory) as daemon:
        daemon.ask("status")
        code, _, text = run("--config", daemon.path, "--set", "control.bind=tcp://127.0.0.1:*",
                            "--set", "examples.bind=tcp://127.0.0.1:*",
                            "--set", "statistics.bind=tcp://127.0.0.1:*")
        assert code == 69 and f"{directory}/state" in text, text
        assert daemon.ask("status")["ok"]


def test_before_the_first_example_a_configuration_may_change(directory):
    """A configuration may be corrected after a first start, even after one that failed at a socket.
    Once something was learned or set, the daemon rejects a change."""
    learning = {**CONFIG["learning"], "window": 9}
    with Daemon(directory) as other:
        other.ask("status")
        endpoint = other.ends["control"]
        code, _, text = run("--config", other.path, "--set", f"state.directory={directory}/second",
                            "--set", f"examples.bind=ipc://{directory}/e",
                            "--set", f"statistics.bind=ipc://{directory}/s")
        assert code == 69 and endpoint in text, text
        other.ask("shutdown")
        assert other.process.wait(LIMIT) == 0
    # the first has only a journal, the other has checkpoints, too
    for state in ("second", "state"):
        with Daemon(directory, learning=learning,
                    state={"directory": f"{directory}/{state}"}) as daemon:
            for start in range(2):  # the second one resumes
                assert daemon.ask("status")["examples"] == 0
                assert ("starting from scratch" in daemon.text()) == (state == "state" and start == 0)
                daemon.ask("shutdown")
                assert daemon.process.wait(LIMIT) == 0
                daemon.restart()
            daemon.feed(1, 20)
            wait("the disk", lambda: daemon.ask("status")["journal"]["durable"] == 20)
            daemon.process.kill()  # its checkpoint is empty, its journal has everything
            daemon.process.wait()
    with Daemon(directory) as daemon:
        assert daemon.process.wait(LIMIT) == 78 and "learning configuration" in daemon.text()
    with Daemon(directory, learning=learning) as daemon:
        assert daemon.ask("status")["examples"] == 20
        daemon.ask("shutdown")
        assert daemon.process.wait(LIMIT) == 0
    with Daemon(directory, seed=4) as daemon:
        assert daemon.process.wait(LIMIT) == 78 and "window 9" in daemon.text()


def test_a_rate_set_before_the_first_example_is_kept(directory):
    with Daemon(directory) as daemon:
        daemon.ask("set", key="learning.optimizer.rate", value=0.25)
        daemon.ask("shutdown")
        assert daemon.process.wait(LIMIT) == 0
    with Daemon(directory, seed=4) as daemon:
        assert daemon.process.wait(LIMIT) == 78 and "another configuration" in daemon.text()


def test_a_socket_in_use_is_named(directory):
    with Daemon(directory) as daemon:
        daemon.ask("status")
        free = ["--set", f"state.directory={directory}/other"]
        for key in ("examples", "statistics", "control"):
            others = [f"{k}.bind=tcp://127.0.0.1:*" for k in daemon.ends if k != key]
            sets = [word for other in others for word in ("--set", other)]
            code, _, text = run("--config", daemon.path, *free, *sets)
            assert code == 69 and key in text and daemon.ends[key] in text, (code, text)
        assert daemon.ask("status")["ok"]


def test_an_address_in_brackets_is_ipv6(directory):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return  # a machine without IPv6
    path = pathlib.Path(directory, "config.yaml")
    ends = {s: {"bind": "tcp://[::1]:*"} for s in ("examples", "statistics", "control")}
    path.write_text(yaml.safe_dump({**CONFIG, **ends, "state": {"directory": f"{directory}/s"}}))
    with subprocess.Popen([PROGRAM, "--config", path], stderr=subprocess.PIPE, text=True) as daemon:
        for line in daemon.stderr:
            if ", control " in line:
                break
        daemon.terminate()
        rest = daemon.stderr.read()
    assert daemon.returncode == 0 and line.count("tcp://[::1]:") == 3, line + rest


def test_a_lost_log_does_not_end_the_daemon(directory):
    with Daemon(directory) as daemon:
        daemon.ask("shutdown")
        assert daemon.process.wait(LIMIT) == 0
        daemon.process = subprocess.Popen([PROGRAM, "--config", daemon.path], stderr=subprocess.PIPE)
        daemon.process.stderr.close()
        daemon.ask("status")
        daemon.ask("pause")
        assert daemon.end() == 0


def test_exit_codes(directory):
    path = pathlib.Path(directory, "config.yaml")
    path.write_text(yaml.safe_dump(CONFIG))
    assert run("--version")[0] == 0 and "runneld" in run("--version")[1]
    assert run("--help")[0] == 0 and "--check-config" in run("--help")[1]
    assert run("--config", path, "--check-config")[0] == 0
    code, _, text = run("--config", path, "--set", f"model.initial={path}", "--check-config")
    assert code == 74 and "not a safetensors file" in text
    for usage in ([], ["--nonsense"], ["--config"], ["--config", path, "more"], ["--set", "a=b"]):
        code, _, text = run(*usage)
        assert code == 64 and "--help" in text, (usage, code, text)
    code, _, text = run("--config", path, "--set", "learning.window=none")
    assert code == 78 and "learning.window" in text, text
    code, _, text = run("--config", path, "--set", "device=cuda", RUNNEL_CUDA_MODULE="/nowhere.so")
    assert code == 69 and "cuda" in text and "/nowhere.so" in text and "cpu" in text, text
    path.write_text("name: x\nmodel: 7\n")
    code, _, text = run("--config", path)
    assert code == 78 and str(path) in text, text
    code, _, text = run("--config", path.with_name("none.yaml"), "--check-config")
    assert code == 78 and "none.yaml" in text, text
    path.write_text(yaml.safe_dump(CONFIG))
    blocked = pathlib.Path(directory, "file")
    blocked.write_text("")
    code, _, text = run("--config", path, "--set", f"state.directory={blocked}/state")
    assert code == 74 and str(blocked) in text, (code, text)


def test_only_a_broker_needs_its_module(directory):
    """The module contains the libraries of brokers. Without it a daemon with a socket learns. One
    with a broker ends with an error that names its key and the solution. A module of another build
    is rejected."""
    libraries = subprocess.check_output(["ldd", PROGRAM], text=True)
    assert "libzmq" in libraries and "hiredis" not in libraries and "rdkafka" not in libraries, libraries
    for installed in re.findall(rb"(/[^\0]*/runnel)\0", PROGRAM.read_bytes()):
        if pathlib.Path(os.fsdecode(installed), "runnel-cluster.so").exists():
            cases.skip("skipped: an installed module would be loaded")
    alone = shutil.copy(PROGRAM, directory / "runneld")
    path = directory / "broker.yaml"
    for broker, name in (("redis", "stream"), ("kafka", "topic")):
        path.write_text(yaml.safe_dump({**CONFIG, "examples": {broker: {name: "s"}},
                                        "state": {"directory": f"{directory}/none"}}))
        assert run("--config", path, "--check-config", program=alone)[0] == 0
        code, _, text = run("--config", path, program=alone)
        assert code == 69 and f"examples.{broker}: runnel-cluster.so not found" in text, text
        assert f"--with-{broker}" in text and text.count("\n") == 1, text
        for module, words in (("/nowhere.so", "cannot load"), (next(PROGRAM.parent.glob("librunnel.so.*")), "one build")):
            code, _, text = run("--config", path, RUNNEL_CLUSTER_MODULE=str(module))
            assert code == 69 and f"examples.{broker}: " in text and words in text, text
            assert str(module) in text and text.count("\n") == 1, text
    Daemon.program = alone
    try:
        with Daemon(directory) as daemon:
            daemon.feed(1, 3)
            daemon.learned(3)
            assert daemon.end() == 0
    finally:
        Daemon.program = PROGRAM


if __name__ == "__main__":
    cases.run(globals())
