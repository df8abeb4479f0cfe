#!/usr/bin/env python3
"""Columns of mixed kinds (docs/reference/columns.md) compared with a reference in numpy, from the
encoding to the optimizer's step. Also tests rejected configurations, restarts, and equal bits with
the short form."""
import json
import os
import pathlib
import signal
import struct
import subprocess
import tempfile
import time

import running
import zmq
from running import Daemon, predictions, subscribe, wait_learned

try:
    import numpy as np
except ImportError:
    print("needs python3-numpy")
    raise SystemExit(77) from None

COLUMNS = """
      - {name: load, scale: standard, missing: hold, mask: true}
      - {name: host, kind: symbol, size: 6, embedding: 3}
      - {name: hour, kind: cycle, period: 24, harmonics: 2}
      - {name: state, kind: symbol, size: 4}
      - {name: heat, scale: standard, memory: 50}
      - {name: rate}"""
PERIOD, HARMONICS, MEMORY = 24, 2, 50
HOSTS, EMBEDDING, STATES = 6, 3, 4
HIDDEN, RATE = 7, 0.05
LOAD, HOST, HOUR, STATE, HEAT, CHANGE = range(6)
REAL = (LOAD, HEAT, CHANGE)
# The CUDA engine, if this build can simulate it.
DEVICES = ("cpu", "cuda") if os.environ.get("RUNNEL_CUDA_MODULE") else ("cpu",)


def configuration(directory, columns=COLUMNS, output="columns: [rate, load]", loss="squared",
                  rest="", inputs="", device="cpu"):
    return f"""
name: columns
device: {device}
model:
  input: {{{inputs}columns: [{",".join(line.strip()[2:] for line in columns.split(chr(10)) if line)}]}}
  layers: [{{cell: dense, size: {HIDDEN}, norm: none, activation: tanh}}]
  output: {{loss: {loss}, target: next, skip: true, {output}}}
learning: {{window: 1, stride: 1, optimizer: {{kind: sgd, rate: {RATE}}}}}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1, predictions: true}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 50, seconds: 0}}}}
{rest}"""


def stream(count, seed=3, missing=0.1):
    """Rows in the order of the columns, with some missing loads."""
    rng, rows = np.random.default_rng(seed), []
    for n in range(count):
        host, state = int(rng.integers(HOSTS)), int(rng.integers(STATES))
        load = np.nan if rng.random() < missing else 5 + host + 3 * np.sin(n / 9) + rng.normal()
        rows.append((load, host, n % 31 / 1.3, state, 1000 + 7 * state + rng.normal(),
                     np.sin(n / 5) + 0.1 * rng.normal()))
    return rows


def packed(row):
    return struct.pack("<fIfIff", *row)


class Scale:
    """The running mean and population variance of one column, as in scale: standard."""

    def __init__(self, memory=0):
        self.memory, self.count, self.mean, self.variance = memory, 0, 0.0, 0.0

    def add(self, value):
        if np.isnan(value):
            return
        self.count += 1
        rate = 1 / min(self.count, self.memory or self.count)
        off = value - self.mean
        self.mean += rate * off
        self.variance = (1 - rate) * (self.variance + rate * off * off)

    def z(self, value):
        deviation = np.sqrt(self.variance)
        return (value - self.mean) / deviation if deviation > 0 else 0.0


class Plain:
    mean, variance = 0.0, 1.0

    def add(self, value):
        pass

    def z(self, value):
        return value


class Reference:
    """The network, its learning and its predictions, in double precision."""
    targets = (CHANGE, LOAD)

    def __init__(self, tensors):
        self.p = {name: np.array(value, float) for name, value in tensors.items()}
        self.scales = {LOAD: Scale(), HEAT: Scale(MEMORY), CHANGE: Plain()}
        self.held, self.open = np.nan, None

    def encode(self, row):
        load = row[LOAD]
        self.held = self.held if np.isnan(load) else load
        z = {k: self.scales[k].z(row[k]) for k in (HEAT, CHANGE)}
        z[LOAD] = 0.0 if np.isnan(self.held) else self.scales[LOAD].z(self.held)
        part = np.fmod(row[HOUR], PERIOD) / PERIOD
        waves = [f(2 * np.pi * k * part) for k in range(1, HARMONICS + 1) for f in (np.sin, np.cos)]
        one_hot = np.eye(STATES)[row[STATE]]
        return z, np.concatenate(([z[LOAD], float(np.isnan(load))],
                                  self.p["embedding.host.weight"][row[HOST]], waves, one_hot,
                                  [z[HEAT], z[CHANGE]]))

    def forward(self, x):
        h = np.tanh(self.p["layers.0.weight"] @ x + self.p["layers.0.bias"])
        return h, (self.p["output.weight"] @ h + self.p["output.weight_skip"] @ x +
                   self.p["output.bias"])

    def learn(self, y):
        """One step with the loss of the open step: the mean over observed targets of (a - y)^2."""
        x, host, _ = self.open
        h, a = self.forward(x)
        seen = ~np.isnan(y)
        if not seen.any():
            return None
        d = np.where(seen, a - np.where(seen, y, 0), 0)
        loss = (d * d).sum() / seen.sum()
        d *= 2 / seen.sum()
        d_sum = (self.p["output.weight"].T @ d) * (1 - h * h)
        d_x = self.p["layers.0.weight"].T @ d_sum + self.p["output.weight_skip"].T @ d
        self.p["output.weight"] -= RATE * np.outer(d, h)
        self.p["output.weight_skip"] -= RATE * np.outer(d, x)
        self.p["output.bias"] -= RATE * d
        self.p["layers.0.weight"] -= RATE * np.outer(d_sum, x)
        self.p["layers.0.bias"] -= RATE * d_sum
        self.p["embedding.host.weight"][host] -= RATE * d_x[2:2 + EMBEDDING]
        return loss

    def take(self, row):
        """Returns (prediction in original units, loss of the previous one)."""
        row = [np.float32(v) if k in REAL else v for k, v in enumerate(row)]
        row[HOUR] = float(np.float32(row[HOUR]))
        row = [float(v) if k in REAL else v for k, v in enumerate(row)]
        for k, scale in self.scales.items():
            scale.add(row[k])
        z, x = self.encode(row)
        loss = None
        if self.open:
            loss = self.learn(np.array([np.nan if np.isnan(row[k]) else z[k]
                                        for k in self.targets]))
            _, x = self.encode(row)  # the update has changed this row of the embedding
        self.open = (x, row[HOST], None)
        _, a = self.forward(x)
        return [self.scales[k].mean + np.sqrt(self.scales[k].variance) * v
                for k, v in zip(self.targets, a)], loss


def tensors(blob):
    size = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + size])
    found = {}
    for name, of in head.items():
        if name != "__metadata__":
            begin, end = of["data_offsets"]
            found[name] = np.frombuffer(blob[8 + size + begin:8 + size + end], "<f4").reshape(
                of["shape"])
    return found, head["__metadata__"]


def push(daemon, messages, before=0):
    with daemon.socket(zmq.PUSH, "examples") as socket:
        for message in messages:
            socket.send_multipart(message)
        wait_learned(daemon, before + len(messages))


def close(found, wanted, what):
    assert found is not None and abs(found - wanted) <= 2e-3 * (1 + abs(wanted)), (what, found,
                                                                                 wanted)


def test_beside_numpy():
    """Every prediction and loss of a mixed stream, and every tensor after it, on each engine."""
    for device in DEVICES:
        learn_beside_numpy(device)


def learn_beside_numpy(device):
    rows = stream(600 if device == "cpu" else 200)  # the simulation of the GPU is slow
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, device=device)) as daemon:
        first, _ = tensors(daemon.export())
        assert first["embedding.host.weight"].shape == (HOSTS, EMBEDDING)
        assert first["layers.0.weight"].shape == (HIDDEN, 2 + EMBEDDING + 2 * HARMONICS + STATES + 2)
        reference = Reference(first)
        subscriber = subscribe(daemon)
        push(daemon, [[b"s", packed(row)] for row in rows])
        received = predictions(daemon, subscriber, len(rows))
        for n, (row, found) in enumerate(zip(rows, received)):
            wanted, loss = reference.take(row)
            if n == 0:
                continue  # the load was never observed and has no mean
            for k in range(2):
                close(found["prediction"][k], wanted[k], ("prediction", n, k))
            if loss is not None:
                close(found["loss"], loss, ("loss", n))
        after, metadata = tensors(daemon.export())
        for name, value in reference.p.items():
            off = np.abs(after[name] - value).max()
            assert off < 2e-3, (name, off)
        status = daemon.ask("status")
        assert status["device"].startswith(device)
        assert status["column_names"] == "load, host, hour, state, heat, rate"
        assert status["target_names"] == "rate, load"
        assert len(status["columns"]) == 2 and status["columns"][0]["rmse"] > 0
        assert len(json.loads(metadata["scaler.mean"])) == 6
        daemon.end()


def test_restarts():
    """Stops and kills do not change the bits. The journal has the columns as they were sent."""
    for device in DEVICES:
        restart(device)


def restart(device):
    rows, blobs = stream(160), []
    for kills in ((), (70, 120)):
        with tempfile.TemporaryDirectory() as directory, \
                Daemon(directory, configuration(directory, device=device)) as daemon:
            begin = 0
            for at, number in zip((*kills, len(rows)), (signal.SIGTERM, signal.SIGKILL, None)):
                push(daemon, [[b"s", packed(row)] for row in rows[begin:at]], begin)
                begin = at
                if at < len(rows):
                    wait_for(daemon, lambda found, at=at: found["journal"]["durable"] >= at)
                    daemon.end(number)
                    daemon.start()
                    wait_learned(daemon, at)
            blobs.append(daemon.export())
            daemon.end()
    assert blobs[0] == blobs[1]


def wait_for(daemon, holds):
    """Waits for a status that meets the condition."""
    end = time.monotonic() + running.LIMIT
    while not holds(found := daemon.ask("status")):
        daemon.alive()
        assert time.monotonic() < end, found
        time.sleep(0.01)
    return found


def test_json_and_rejected_messages():
    """JSON lists contain the numbers in the order of columns. Each error names its column."""
    good = [1.5, 2, 7, 3, 1000, 0.5]
    wrong = [
        ([b"s", packed(good)[:-4]], "x_size",
         "x has 20 bytes (5 numbers), expected a multiple of 24, for 6 columns: load float32, host "
         "uint32, hour float32, state uint32, heat float32, rate float32"),
        ([b"s", packed((1, 6, 7, 3, 1, 1))], "x_value", "x's column host is 6 at step 0, expected "
                                                        "0..5"),
        ([b"s", packed((1, 1, 7, 4, 1, 1))], "x_value", "x's column state is 4 at step 0"),
        ([b"s", packed((1, 1, 7, 3, np.nan, 1))], "x_value",
         "x's column heat is NaN at step 0, but that column does not have missing: hold"),
        ([b"s", packed((1, 1, np.nan, 3, 1, 1))], "x_value", "x's column hour is NaN"),
        ([b"s", packed((1, 1, np.inf, 3, 1, 1))], "x_value", "x's column hour is infinite"),
    ]
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory)) as daemon:
        for done, (message, reason, why) in enumerate(wrong):
            with daemon.socket(zmq.PUSH, "examples") as socket:
                socket.send_multipart(message)
                found = wait_for(daemon, lambda found, done=done: found["rejected"] > done)
            assert found["rejected_by"][reason] > 0, (why, found)
        log = daemon.text()
        assert wrong[0][2] in log, log
        blobs = []
        push(daemon, [[json.dumps({"stream": "s", "x": good}).encode()],
                      [json.dumps({"stream": "s", "x": [[None] + good[1:], good]}).encode()]])
        blobs.append(daemon.export())
        assert daemon.ask("status")["steps"] == 3
        daemon.end()
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory)) as daemon:
        push(daemon, [[b"s", packed(good)], [b"s", packed([np.nan] + good[1:]) + packed(good), b"",
                                             struct.pack("<BBHIQd", 1, 0, 0, 0, 2, 0)]])
        blobs.append(daemon.export())
        daemon.end()
    assert blobs[0] == blobs[1]


def test_short_forms_bits():
    """Columns that are equivalent to a short form learn the same bits."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 2)).astype("<f4")
    ids = rng.integers(5, size=200).astype("<u4")
    cases = [
        ("{kind: real, size: 2, scale: standard, limit: 9}",
         "{columns: [{name: a, scale: standard, limit: 9}, {name: b, scale: standard, limit: 9}]}",
         "loss: squared, size: 2", [row.tobytes() for row in x]),
        ("{kind: symbol, size: 5}", "{columns: [{name: a, kind: symbol, size: 5}]}",
         "loss: softmax, size: 5", [v.tobytes() for v in ids]),
        ("{kind: real, size: 2, scale: forecast}",
         "{scale: forecast, columns: [{name: a}, {name: b}]}", "loss: squared, size: 2",
         [row.tobytes() for row in x]),
    ]
    for short, columns, output, messages in cases:
        found = []
        for inputs in (short, columns):
            with tempfile.TemporaryDirectory() as directory:
                text = configuration(directory).split("\n")
                text = [f"  input: {inputs}" if line.startswith("  input:") else
                        f"  output: {{{output}, target: next}}" if line.startswith("  output:") else
                        line for line in text]
                with Daemon(directory, "\n".join(text)) as daemon:
                    push(daemon, [[b"s", message] for message in messages])
                    found.append(tensors(daemon.export())[0])
                    daemon.end()
        assert found[0].keys() == found[1].keys()
        for name in found[0]:
            assert found[0][name].tobytes() == found[1][name].tobytes(), (short, name)


def test_a_symbol_is_predicted():
    """One symbol of several columns is predicted: classes that follow their order."""
    rows = [(1.0, n % HOSTS, n % 24, 0, 1.0, 0.0) for n in range(1500)]
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, output="columns: [host]",
                                            loss="softmax")) as daemon:
        subscriber = subscribe(daemon)
        push(daemon, [[b"s", packed(row)] for row in rows])
        last = predictions(daemon, subscriber, len(rows))[-1]["prediction"]
        assert len(last) == HOSTS and np.argmax(last) == len(rows) % HOSTS and max(last) > 0.8, last
        daemon.end()


def test_anomalies_are_of_real_columns():
    """Columns have their names, and their numbers are those of x."""
    rows = stream(1500, missing=0)
    rows = [row[:HEAT] + (row[HEAT] + 500 * (n == 1400), row[CHANGE]) for n, row in enumerate(rows)]
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, rest="anomaly: {enabled: true}")) as daemon:
        subscriber = subscribe(daemon, (b"event", b"prediction"))
        push(daemon, [[b"s", packed(row)] for row in rows])
        alarms, received = [], 0
        while received < len(rows):
            topic, body = daemon.next_message(subscriber)
            message = json.loads(body)
            received += topic == b"prediction"
            if topic == b"prediction":
                assert len(message["anomaly"]["columns"]) == len(REAL)
            if topic == b"event" and message["kind"] == "anomaly" and message["example"] == 1401:
                alarms.append(message)
        assert alarms, "no alarm within the rows"
        assert alarms[0]["columns"][0]["column"] == HEAT
        assert alarms[0]["columns"][0]["name"] == "heat"
        assert "heat is 1" in alarms[0]["text"], alarms[0]["text"]
        daemon.end()


def test_the_shipped_example_and_the_benchmark():
    """conf/columns.yaml is valid, and a benchmark generates its examples."""
    shipped = pathlib.Path(__file__).parents[2] / "conf/columns.yaml"
    with tempfile.TemporaryDirectory() as directory:
        done = subprocess.run([running.PROGRAM, "--config", shipped, "--check-config",
                               "--set", f"state.directory={directory}"], capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, done.stderr
        for more in ((), ("--set", "model.output={loss: softmax, target: next, columns: [host]}")):
            done = subprocess.run([running.PROGRAM.with_name("runnel-bench"), "--config", shipped,
                                   "--seconds", "0.1", "--examples", "300", "--device", "cpu",
                                   "--set", f"state.directory={directory}", *more],
                                  capture_output=True, text=True, check=False)
            assert done.returncode == 0 and "skipped updates 0" in done.stdout, done


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            print(name, flush=True)
            test()
