#!/usr/bin/python3
"""Tests runnel-record with simulated daemons. Reads its files with SQLite, csv, a reader of event files in
this test, and TensorBoard, if this Python or that of $TENSORBOARD_PYTHON can import it."""
import collections
import contextlib
import csv
import fcntl
import json
import math
import os
import pathlib
import re
import resource
import signal
import sqlite3
import struct
import subprocess
import sys
import termios
import time

try:
    import zmq
except ImportError:
    print("needs python3-zmq")
    sys.exit(77)

import cases
from event_files import crc32c, events

PROGRAM = str(pathlib.Path(os.environ.get("builddir", "."), "runnel-record").resolve())
OK, USAGE, DATA, CANNOT_MAKE, IO = 0, 64, 65, 73, 74
LIMIT = 60  # seconds: ends a test that hangs
HOUR = 3600.0
TOPICS = ["status", "loss", "state", "event"]
ALL = [*TOPICS, "prediction"]
STATUS = {"name": "waves", "state": "learning", "device": "cpu", "parameters": 1234,
          "model": "real 2 > gru 4 norm > squared 2, next", "digest": "0123456789abcdef",
          "version": "0.1.0", "every": 100, "resumed": None}
UNITS = {"mean": -0.25, "std": 0.5, "minimum": -1.5, "maximum": 0.75, "norm": 3.0,
         "saturated": 0.125}


def loss_fields(i):
    return {"loss": 1.0 / (i + 1), "mean": None if i == 3 else 2.0 / (i + 1), "smoothed": 0.1 + i,
            "minimum": -i / 3, "maximum": 1e-30, "updates": i, "rate": 0.0003,
            "gradient_norm": None, "update_ratio": None, "metric": {"rmse": 1.5 * i},
            "columns": [{"rmse": 1.5 * i, "mae": 1.25 * i, "skill": -0.5},
                        {"rmse": None, "mae": None, "skill": None}],
            "experts": {"last": {"mean": 1.0, "weight": 0.25}, "a,b": {"mean": i + 0.5, "weight": 0.75}},
            "examples_per_second": 20.0, "latency_us": {"p50": 95.5, "p99": 123, "max": 1234},
            "queued": 0, "rejected": 0, "rejected_by": {}, "skipped": 0, "streams": 1}


def state_fields(i):
    layer = {"kind": "gru", "size": 4, "summed_inputs": {"mean": 0.5, "std": 1.25},
             "units": {"dormant": 0.25, "saturated": 0.5, "rank": None}, "weights": {"norm": 5.0, "growth": 1.0 + i},
             "hidden": dict(UNITS, std=0.5 + i), "histogram": [(i + bin) % 5 for bin in range(20)]}
    return {"layers": [layer, dict(layer, kind="lstm", cell=UNITS)]}


def level(n):
    return n * n % 23


def truth(n):
    return level(n) - 0.75 - n % 2 / 2


def bounds(n):
    return [level(n) - 2, level(n) - (1 if n % 5 else 0.5)]


def prediction_fields(n, timed=True, score=None):
    time = HOUR * n if timed else None
    fields = {"stream": "a,b", "example": n, "data_time": time, "prediction": [n, None],
              "interval": [[n - 1, n + 1], None], "loss": None}
    if score is not None:
        fields["anomaly"] = {"score": score, "surprise": None, "columns": []}
    if n > 1:
        fields["scored"] = {
            "example": n - 1, "data_time": None, "prediction": [level(n) - 1.25, 40],
            "interval": [bounds(n), None], "target": [truth(n), None],
            "baseline": [level(n) - 2, 7], "loss": 0.25,
            "experts": {"last": [level(n) - 2, 7], "level": [level(n) - 1.5, None]}}
    return fields


def with_distribution(n, levels):
    """Such a message with a distribution of the first column; levels: {level: quantile}."""
    fields = prediction_fields(n)
    fields["levels"] = list(levels)
    fields["scored"].update(quantiles=[list(levels.values()), None], pit=[[0.25, 0.5], None], z=[-0.5, None],
                            crps=[1.5, None], log_score=[n, None], target=[truth(n), 1])
    return fields


class Daemon:
    """An XPUB socket with the protocol of docs/reference/protocol.md."""

    def __init__(self, directory, name="waves", run="00000000000000aa"):
        self.endpoint, self.run, self.name = f"ipc://{directory}/{name}", run, name
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.socket.linger = 1000
        self.socket.sndhwm = 0  # nothing is dropped, however slow the machine
        self.socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.socket.bind(self.endpoint)
        self.sequences, self.examples = dict.fromkeys(ALL, 0), 0

    def wait_for_subscriber(self, count=1):
        missing = collections.Counter(dict.fromkeys(TOPICS, count))
        while +missing:
            assert self.socket.poll(LIMIT * 1000), f"nobody subscribed to {missing}"
            frame = self.socket.recv()
            if frame[:1] == b"\1":
                missing[frame[1:].decode()] -= 1
        self.send("status", dict(STATUS, name=self.name))

    def send(self, topic, fields):
        self.sequences[topic] += 1
        message = {"run": self.run, "sequence": self.sequences[topic], "examples": self.examples,
                   "steps": 2 * self.examples, "time": 1700000000.25 + self.examples, **fields}
        self.socket.send_multipart([topic.encode(), json.dumps(message).encode()])

    def learn(self, first, end):
        for i in range(first, end):
            self.examples = 100 * (i + 1)
            self.send("loss", loss_fields(i))
            self.send("state", state_fields(i))

    def predict(self, n, timed=True, score=None):
        """Example n contains the truth of the prediction of example n - 1, with two columns. Every fifth
        truth of the first column is outside its interval."""
        self.examples = 100 + n
        self.send("prediction", prediction_fields(n, timed, score))

    def close(self):
        self.context.destroy()


class Record:
    """A running runnel-record in `directory`."""

    def __init__(self, directory, daemons, *arguments, in_order=False, subscribers=1, **options):
        self.directory = directory
        endpoints = [f"--connect={daemon.endpoint}" for daemon in daemons]
        self.process = subprocess.Popen([PROGRAM, *endpoints, *arguments], cwd=directory,
                                        stderr=subprocess.PIPE, text=True, **options)
        for daemon in daemons:
            daemon.wait_for_subscriber(subscribers)
            if in_order:  # otherwise its run may follow that of the next
                self.until(lambda: rows(self.directory, "SELECT count(*) FROM runs WHERE run = "
                                        f"'{daemon.run}'") == [(1,)], f"the run of {daemon.name}")

    def until(self, holds, what):
        """Waits until holds(); files are written at least once a second."""
        end = time.monotonic() + LIMIT
        while not holds():
            assert time.monotonic() < end, f"timed out: {what}"
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.05)

    def until_rows(self, count):
        """Waits for this number of `loss` messages and of the following `state` messages with two layers."""
        self.until(lambda: rows(self.directory, "SELECT (SELECT count(*) FROM loss),"
                                " (SELECT count(*) FROM state)") == [(count, 2 * count)],
                   f"{count} rows")

    def end(self, number=signal.SIGTERM):
        """Ends the program and returns its standard error."""
        self.process.send_signal(number)
        _, output = self.process.communicate(timeout=LIMIT)
        assert self.process.returncode == OK, (self.process.returncode, output)
        return output


def rows(directory, sql, name="runnel.db"):
    """The result of a query; None if the table does not exist yet."""
    path = pathlib.Path(directory, name)
    if not path.exists():
        return None
    file = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return file.execute(sql).fetchall()
    except sqlite3.OperationalError:
        return None
    finally:
        file.close()


# --- cases ---

def test_crc():
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C


def check_board(directory, first, end):
    """The values of messages first..end-1 in the event files of a run."""
    found = events(directory)
    expected = range(first, end)
    for tag, of in [("loss/loss", lambda i: loss_fields(i)["loss"]),
                    ("metric/rmse", lambda i: 1.5 * i), ("latency_us/p50", lambda i: 95.5),
                    ("run/rate", lambda i: 0.0003), ("column0/mae", lambda i: 1.25 * i),
                    ("experts/a,b/mean", lambda i: i + 0.5), ("experts/last/weight", lambda i: 0.25),
                    ("layer1/cell/saturated", lambda i: 0.125), ("layer0/units/dormant", lambda i: 0.25),
                    ("layer1/weights/growth", lambda i: 1.0 + i)]:
        assert [step for step, _, _ in found[tag]] == [100 * (i + 1) for i in expected], tag
        assert [value for _, _, value in found[tag]] == [
            struct.unpack("<f", struct.pack("<f", of(i)))[0] for i in expected], tag
        assert found[tag][0][1] == 1700000000.25 + 100 * (first + 1)
    for never_a_number in "run/gradient_norm", "column1/rmse", "layer0/units/rank":
        assert never_a_number not in found
    mean = [value for _, _, value in found["loss/mean"]]
    assert [math.isnan(value) for value in mean] == [i == 3 for i in expected]
    for i, (_, _, (limits, counts, histogram)) in zip(expected, found["layer0/hidden"]):
        assert counts == state_fields(i)["layers"][0]["histogram"]
        assert len(limits) == 20 and abs(limits[0] + 0.9) < 1e-9 and limits[19] == 1.0
        assert histogram[1] == [-1.5] and histogram[2] == [1.0]
        assert histogram[3] == [sum(counts)] and histogram[4] == [-0.25 * sum(counts)]
    assert len(found["layer0/hidden"]) == len(found["layer1/hidden"]) == len(expected)


def test_all_files(directory):
    daemon = Daemon(directory)
    record = Record(directory, [daemon], "-o", "runnel.db", "--csv=loss.csv",
                    "--csv-columns=columns.csv", "--csv-experts=experts.csv",
                    "--csv-layers=layers.csv", "--tensorboard=board")
    daemon.learn(0, 25)
    daemon.send("event", {"kind": "checkpoint", "text": "all is safe"})
    record.until_rows(25)
    record.until(lambda: rows(directory, "SELECT count(*) FROM events") == [(1,)], "the event")
    loss_csv = pathlib.Path(directory, "loss.csv")
    record.until(lambda: loss_csv.read_text().count("\n") == 26, "rows while it runs")
    output = record.end()
    daemon.close()
    assert "recording waves: real 2 > gru 4 norm > squared 2, next; cpu" in output, output

    run = rows(directory, "SELECT name, run, model, parameters, newest_examples FROM runs")
    assert run == [("waves", "00000000000000aa", STATUS["model"], 1234.0, 2500.0)]
    assert rows(directory, "SELECT examples, mean, minimum, metric_rmse, latency_us_p99,"
                " gradient_norm FROM loss ORDER BY number") == [
        (100 * (i + 1), loss_fields(i)["mean"], -i / 3, 1.5 * i, 123, None) for i in range(25)]
    assert rows(directory, "SELECT number, mean_missing, loss_maximum, loss_minimum, messages"
                " FROM loss_levels ORDER BY number") == [(0, 1, 1, 1 / 10, 10),
                                                         (1, 0, 1 / 11, 1 / 20, 10)]
    blobs = rows(directory, "SELECT histogram FROM state WHERE layer = 1 ORDER BY number")
    assert [list(struct.unpack("<20f", blob)) for blob, in blobs] == [
        state_fields(i)["layers"][1]["histogram"] for i in range(25)]
    assert rows(directory, "SELECT kind, text FROM events") == [("checkpoint", "all is safe")]
    assert rows(directory, "SELECT examples, column, rmse, mae, skill FROM loss_columns"
                " ORDER BY number, column") == [
        row for i in range(25) for row in [(100 * (i + 1), 0, 1.5 * i, 1.25 * i, -0.5),
                                           (100 * (i + 1), 1, None, None, None)]]
    assert rows(directory, "SELECT name, number, mean, weight FROM loss_experts JOIN experts"
                " USING (run, expert) WHERE number > 22 ORDER BY number, expert") == [
        ("last", 23, 1.0, 0.25), ("a,b", 23, 23.5, 0.75), ("last", 24, 1.0, 0.25), ("a,b", 24, 24.5, 0.75)]
    assert rows(directory, "SELECT number, mean_mean, messages FROM loss_experts_levels"
                " WHERE expert = 1 ORDER BY number") == [(0, 5.0, 10), (1, 15.0, 10)]

    with open(loss_csv, newline="") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 25
    for i, row in enumerate(table):
        expected = loss_fields(i)
        assert (row["name"], row["run"]) == ("waves", "00000000000000aa")
        assert float(row["minimum"]) == expected["minimum"], "digits are missing"
        assert row["mean"] == "" if i == 3 else float(row["mean"]) == expected["mean"]
        assert float(row["time"]) == 1700000000.25 + 100 * (i + 1) and row["gradient_norm"] == ""
    with open(pathlib.Path(directory, "columns.csv"), newline="") as file:
        table = list(csv.DictReader(file))
    assert [(row["examples"], row["column"], row["mae"], row["skill"]) for row in table[4:6]] == [
        ("300", "0", "2.5", "-0.5"), ("300", "1", "", "")] and len(table) == 50
    with open(pathlib.Path(directory, "experts.csv"), newline="") as file:
        table = list(csv.DictReader(file))
    assert [(row["examples"], row["expert"], row["mean"], row["weight"]) for row in table[4:6]] == [
        ("300", "last", "1", "0.25"), ("300", "a,b", "2.5", "0.75")] and len(table) == 50
    with open(pathlib.Path(directory, "layers.csv"), newline="") as file:
        table = list(csv.DictReader(file))
    assert [(row["layer"], row["kind"]) for row in table] == [("0", "gru"), ("1", "lstm")] * 25
    assert [float(table[14][f"bin_{bin}"]) for bin in range(20)] == (
        state_fields(7)["layers"][0]["histogram"])
    assert table[14]["cell_mean"] == "" and float(table[15]["cell_mean"]) == -0.25
    check_board(pathlib.Path(directory, "board", "waves-00000000000000aa"), 0, 25)


def test_members(directory):
    """The layers of each network have separate rows."""
    daemon = Daemon(directory)
    record = Record(directory, [daemon], "-o", "runnel.db", "--csv-layers=layers.csv", "--tensorboard=board")
    one, two = state_fields(0)["layers"]
    state = {"layers": [one], "members": {"change": {"layers": [one]}, "le,vel": {"layers": [two, one]}}}
    daemon.examples = 100
    daemon.send("loss", loss_fields(0))
    daemon.send("state", state)
    record.until(lambda: rows(directory, "SELECT layer, cell_saturated FROM state") == [
        (0, None), (1, 0.125), (2, None)], "three layers")
    record.end()
    daemon.close()
    assert rows(directory, "SELECT layer, member, kind FROM layers ORDER BY layer") == [
        (0, "change", "gru"), (1, "le,vel", "lstm"), (2, "le,vel", "gru")]
    with open(pathlib.Path(directory, "layers.csv"), newline="") as file:
        table = list(csv.DictReader(file))
    assert [(row["layer"], row["member"], row["kind"]) for row in table] == [
        ("0", "change", "gru"), ("1", "le,vel", "lstm"), ("2", "le,vel", "gru")]
    found = events(pathlib.Path(directory, "board", "waves-00000000000000aa"))
    assert {"layer0.change/hidden", "layer1.le,vel/cell/saturated", "layer2.le,vel/hidden"} <= found.keys()


def test_predictions(directory):
    daemon = Daemon(directory)
    record = Record(directory, [daemon], "-o", "runnel.db", "--csv-predictions=said.csv")
    daemon.learn(0, 1)
    for n in range(1, 41):
        daemon.predict(n)
    daemon.send("prediction", {"stream": 7, "scored": [1, {"target": 3, "prediction": [0.1, 0.7]},
                                                       {"target": [1], "prediction": "none"}]})
    daemon.send("prediction", {"stream": "steps", "data_time": 5, "prediction": [[1], [2]],
                               "scored": [{"example": 1, "step": k, "ahead": 6, "target": [k],
                                           "prediction": [k], "interval": [None], "loss": 0}
                                          for k in range(2)]})
    record.until(lambda: rows(directory, "SELECT count(*) FROM predictions") == [(42,)], "its rows")
    record.end()
    daemon.close()
    found = rows(directory, "SELECT stream, column, ahead, examples, data_time, target, prediction,"
                            " low, high, baseline FROM predictions ORDER BY id")
    for n, row in enumerate(found[:39], 2):  # the second column was never observed
        assert row == ("a,b", 0, 1, 100 + n, HOUR * n, truth(n), level(n) - 1.25, *bounds(n),
                       level(n) - 2), row
    assert found[39][:3] == ("", 0, 1) and found[39][5:7] == (3, 1), found[39]  # a class
    assert [row[:7] for row in found[40:]] == [
        ("steps", 0, 6, 140, 5, 0, 0), ("steps", 0, 6, 140, 5, 1, 1)]
    with open(pathlib.Path(directory, "said.csv"), newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert len(table) == 42 and list(table[0])[5:] == [
        "stream", "column", "ahead", "data_time", "target", "prediction", "low", "high", "baseline",
        "score", "last", "level"]
    assert {key: table[0][key] for key in ("stream", "data_time", "target", "prediction", "low",
                                           "high", "last", "level")} == {
        "stream": "a,b", "data_time": "7200", "target": "3.25", "prediction": "2.75", "low": "2",
        "high": "3", "last": "2", "level": "2.5"}, table[0]
    assert table[41]["last"] == "" and table[41]["data_time"] == "5"


def test_distributions(directory):
    """Quantiles have names, so that other levels of a restarted daemon are not mixed up."""
    daemon = Daemon(directory)
    levels = {0.05: -1, 0.5: 2.5}
    record = Record(directory, [daemon], "-o", "runnel.db", "--csv-predictions=said.csv")
    for n, some in (2, levels), (3, {0.5: 4}), (4, {}):
        daemon.examples = n
        daemon.send("prediction", with_distribution(n, some))
    record.until(lambda: rows(directory, "SELECT count(*) FROM predictions") == [(6,)], "its rows")
    record.end()
    daemon.close()
    scores = "pit_below, pit_at, z, crps, log_score"
    assert rows(directory, f"SELECT {scores}, json(quantiles) FROM predictions ORDER BY id") == [
        (0.25, 0.5, -0.5, 1.5, 2, '{"q0.05":-1.0,"q0.5":2.5}'), (None,) * 6, (0.25, 0.5, -0.5, 1.5, 3, '{"q0.5":4.0}'),
        (None,) * 6, (0.25, 0.5, -0.5, 1.5, 4, None), (None,) * 6]
    with open(pathlib.Path(directory, "said.csv"), newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert list(table[0])[14:] == ["score", *scores.split(", "), "q0.05", "q0.5", "last", "level"], list(table[0])
    assert [tuple(row.values())[15:22] for row in table[::2]] == [
        ("0.25", "0.5", "-0.5", "1.5", "2", "-1", "2.5"), ("0.25", "0.5", "-0.5", "1.5", "3", "", ""),
        ("0.25", "0.5", "-0.5", "1.5", "4", "", "")], table
    assert all(tuple(row.values())[15:22] == ("",) * 7 for row in table[1::2]), table


def anomaly_fields(example, stream="a,b", **fields):
    """An event `anomaly` with two columns."""
    columns = [{"column": 1, "score": 3, "forecast": 10.5, "truth": 25},
               {"column": 0, "score": 2, "forecast": None, "truth": 0.25}]
    return {"kind": "anomaly", "text": f"abnormal {example}", "stream": stream, "example": example,
            "data_time": HOUR * example, "reason": "novelty", "score": 3, "threshold": 1.5,
            "columns": columns, **fields}


def test_anomalies(directory):
    """There is a row for each column of each anomaly. Rows are deleted with their events, and added to older
    files."""
    daemon = Daemon(directory)
    record = Record(directory, [daemon], "-o", "runnel.db")
    daemon.learn(0, 1)
    record.until(lambda: rows(directory, "SELECT count(*) FROM loss") == [(1,)], "its messages")
    record.end()
    with sqlite3.connect(pathlib.Path(directory, "runnel.db")) as file:
        file.execute("DROP TABLE anomalies")
    record = Record(directory, [daemon], "-o", "runnel.db")
    daemon.send("event", anomaly_fields(70, note="line\x1b[1m 70" + 2000 * "é"))
    daemon.send("event", anomaly_fields(90, "c", columns=[], data_time=None, reason="silent"))
    daemon.send("event", {"kind": "anomaly", "stream": 7, "columns": [{"column": 1e300}], "reason": ["x" * 1000]})
    record.until(lambda: rows(directory, "SELECT count(*) FROM anomalies") == [(4,)], "its rows")
    found = rows(directory, "SELECT a.examples, a.stream, column, reason, data_time, score, threshold,"
                            " column_score, forecast, truth, text FROM anomalies AS a"
                            " JOIN events ON events.id = event ORDER BY a.id")
    assert found[:3] == [
        (70, "a,b", 1, "novelty", 70 * HOUR, 3, 1.5, 3, 10.5, 25, "abnormal 70"),
        (70, "a,b", 0, "novelty", 70 * HOUR, 3, 1.5, 2, None, 0.25, "abnormal 70"),
        (90, "c", None, "silent", None, 3, 1.5, None, None, None, "abnormal 90")], found
    assert found[3][1:4] == ("", None, ""), found
    notes = [note for note, in rows(directory, "SELECT note FROM anomalies ORDER BY id")]
    assert notes[0].startswith("line [1m 70é") and len(notes[0].encode()) <= 1000 and notes[1:] == [None] * 3, notes
    record.end()
    with sqlite3.connect(pathlib.Path(directory, "runnel.db")) as file:
        file.execute("ALTER TABLE anomalies DROP COLUMN note")
    record = Record(directory, [daemon], "-o", "runnel.db", "--keep=100")
    for n in range(150):
        daemon.send("event", anomaly_fields(100 + n))
    record.until(lambda: rows(directory, "SELECT max(examples) FROM anomalies") == [(249,)], "all")
    record.end()
    record = Record(directory, [daemon], "-o", "runnel.db", "--keep=100")
    daemon.send("event", anomaly_fields(250))
    record.until(lambda: rows(directory, "SELECT max(examples) FROM anomalies") == [(250,)], "it")
    record.end()
    daemon.close()
    (count,), = rows(directory, "SELECT count(DISTINCT event) FROM anomalies")
    assert count <= 102, count
    assert rows(directory, "SELECT count(*) FROM anomalies WHERE event NOT IN (SELECT id FROM events)") == [(0,)]


def test_scores_of_predictions(directory):
    """The anomaly score is recorded; an older recording gets the column when it is continued."""
    scores = "SELECT examples, score FROM predictions ORDER BY id"
    for begin, dropped in (1, True), (11, False):
        daemon = Daemon(directory)
        record = Record(directory, [daemon], "-o", "runnel.db", "--csv-predictions=said.csv")
        for n in range(begin, begin + 10):
            daemon.predict(n, score=n / 4 if n > 5 else None)
        record.until(lambda: rows(directory, "SELECT max(examples) FROM predictions") == [(begin + 109,)], "all")
        record.end()
        daemon.close()
        wanted = [(100 + n, n / 4 if n > 5 and (dropped or n > 10) else None) for n in range(2, begin + 10)]
        assert rows(directory, scores) == wanted, rows(directory, scores)
        with open(pathlib.Path(directory, "said.csv"), newline="", encoding="utf-8") as file:
            table = [(int(row["examples"]), float(row["score"]) if row["score"] else None)
                     for row in csv.DictReader(file)]
        assert table == [(100 + n, n / 4 if n > 5 else None) for n in range(2, begin + 10)], table
        if dropped:
            with contextlib.closing(sqlite3.connect(f"{directory}/runnel.db")) as file:
                for column in "score", "pit_below", "pit_at", "z", "crps", "log_score", "quantiles":
                    file.execute(f"ALTER TABLE predictions DROP COLUMN {column}")


def test_few_predictions_are_kept(directory):
    """Keeps the newest 500 of 3,000, and rows since the last cleanup."""
    daemon = Daemon(directory)
    record = Record(directory, [daemon], "-o", "runnel.db", "--keep=500")
    daemon.learn(0, 1)
    for n in range(2, 3002):
        daemon.predict(n)
    record.until(lambda: rows(directory, "SELECT max(examples) FROM predictions") == [(3101,)], "all")
    record.end()
    record = Record(directory, [daemon], "-o", "runnel.db", "--keep=500")
    daemon.predict(3002)
    record.until(lambda: rows(directory, "SELECT max(examples) FROM predictions") == [(3102,)], "it")
    record.end()
    daemon.close()
    count, = rows(directory, "SELECT count(*) FROM predictions")[0]
    assert count <= 502, count


def test_restarted_and_reset_daemons(directory):
    """A daemon restarts with a new run, another one is reset; the recording keeps both."""
    first, second = Daemon(directory, "first"), Daemon(directory, "second", "00000000000000bb")
    record = Record(directory, [first, second], "-o", "runnel.db", "--tensorboard=board",
                    "--silence=1")
    first.learn(0, 12)
    second.learn(0, 5)
    record.until_rows(17)
    first.close()
    second.learn(0, 3)  # it was reset
    record.until_rows(20)
    first = Daemon(directory, "first", "00000000000000cc")
    first.wait_for_subscriber()
    first.learn(12, 20)
    record.until_rows(28)
    record.until(lambda: rows(directory, "SELECT * FROM events WHERE text LIKE '%silent%'"),
                 "that it is silent")
    output = record.end(signal.SIGINT)
    second.close()
    first.close()
    for text in ["lost; waiting for it to return", "is back after",
                 "first: the daemon was restarted: run 00000000000000cc",
                 "second: ", "is silent"]:
        assert text in output, (text, output)
    assert sorted(rows(directory, "SELECT name, part, newest_examples FROM runs")) == [
        ("first", 0, 1200), ("first", 0, 2000), ("second", 0, 500), ("second", 1, 300)]
    board = pathlib.Path(directory, "board")
    assert sorted(path.name for path in board.iterdir()) == [
        "first-00000000000000aa", "first-00000000000000cc", "second-00000000000000bb",
        "second-00000000000000bb-2"]
    check_board(board / "first-00000000000000aa", 0, 12)
    check_board(board / "first-00000000000000cc", 12, 20)
    check_board(board / "second-00000000000000bb-2", 0, 3)


def test_continued_files(directory):
    """A restarted recorder appends to its files."""
    daemon = Daemon(directory)
    arguments = ["-o", "runnel.db", "--csv=loss.csv", "--tensorboard=board"]
    for first, end in [(0, 8), (8, 30)]:
        record = Record(directory, [daemon], *arguments)
        daemon.learn(first, end)
        record.until_rows(end)
        record.end()
    daemon.close()
    assert rows(directory, "SELECT number, examples FROM loss ORDER BY number") == [
        (i, 100 * (i + 1)) for i in range(30)]
    assert rows(directory, "SELECT sum(messages) FROM loss_levels WHERE level = 1") == [(30,)]
    lines = pathlib.Path(directory, "loss.csv").read_text().splitlines()
    assert len(lines) == 31 and sum(line.startswith("name,run,") for line in lines) == 1
    check_board(pathlib.Path(directory, "board", "waves-00000000000000aa"), 0, 30)


def test_counting(directory):
    """--count ends the program; without options there is one file."""
    daemon = Daemon(directory)
    record = Record(directory, [daemon], "--count=7")
    daemon.learn(0, 20)
    _, output = record.process.communicate(timeout=LIMIT)
    daemon.close()
    assert record.process.returncode == OK, output
    assert rows(directory, "SELECT count(*) FROM loss") == [(7,)]


def test_names_that_are_not_names(directory):
    """A daemon's name does not change the directory of its files."""
    daemon = Daemon(directory, run="../../x")
    record = Record(directory, [daemon], "--tensorboard=board", "--count=1", "--csv=loss.csv")
    daemon.send("status", dict(STATUS, name="../a,\"b\"\n\x1b[31m"))
    daemon.run = "../../y"
    daemon.send("status", dict(STATUS, name="../a,\"b\"\n\x1b[31m"))
    daemon.learn(0, 1)
    _, output = record.process.communicate(timeout=LIMIT)
    daemon.close()
    assert record.process.returncode == OK and "\x1b" not in output, output
    found = [path.name for path in pathlib.Path(directory, "board").iterdir()]
    assert len(found) == 1 and found[0].startswith("_") and "/" not in found[0], found
    with open(pathlib.Path(directory, "loss.csv"), newline="") as file:
        assert [row["run"] for row in csv.DictReader(file)] == ["../../y"]


def run(directory, *arguments):
    done = subprocess.run([PROGRAM, *arguments], cwd=directory, capture_output=True, text=True,
                          timeout=LIMIT)
    return done.returncode, done.stderr


def test_files_that_cannot_be_written(directory):
    pathlib.Path(directory, "other").write_text("somebody's\n" * 1000)
    for status, arguments, text in [
            (IO, ["-o", "other"], "no database"), (IO, ["-o", "no/where"], "no/where"),
            (DATA, ["--csv=other"], "different columns"), (DATA, ["--csv-layers=other"], "other"),
            (CANNOT_MAKE, ["--csv=no/where"], "no/where"),
            (CANNOT_MAKE, ["--tensorboard=no/where"], "no/where")]:
        found, output = run(directory, *arguments)
        assert found == status and output.count("\n") == 1, (arguments, found, output)
        assert text in output or "is not a database" in output, (arguments, output)
    assert pathlib.Path(directory, "other").read_text() == "somebody's\n" * 1000
    daemon = Daemon(directory)
    record = Record(directory, [daemon], "--csv=/dev/full")
    daemon.learn(0, 1)
    _, output = record.process.communicate(timeout=LIMIT)
    daemon.close()
    assert record.process.returncode == IO and "/dev/full" in output, output


def test_full_disk(directory):
    """Written rows remain complete, and recording continues when the disk has space again."""
    daemon = Daemon(directory)
    arguments = ["-o", "runnel.db", "--csv=loss.csv"]
    limit = (400000, 400000)
    record = Record(directory, [daemon], *arguments,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit))
    first = 20
    daemon.learn(0, first)
    record.until_rows(first)
    while record.process.poll() is None:
        daemon.learn(first, first + 20)
        first += 20
        time.sleep(0.02)
    _, output = record.process.communicate(timeout=LIMIT)
    assert record.process.returncode == IO and ("runnel.db" in output or "loss.csv" in output), output
    before = rows(directory, "SELECT count(*), max(number) + 1 FROM loss")[0]
    assert before[0] == before[1] >= 20, output
    with open(pathlib.Path(directory, "loss.csv"), "ab") as file:
        file.write(b"waves,0123")
    record = Record(directory, [daemon], *arguments)
    daemon.learn(first, first + 3)
    record.until(lambda: rows(directory, "SELECT count(*) FROM loss") == [(before[0] + 3,)],
                 "three rows more")
    record.end()
    daemon.close()
    with open(pathlib.Path(directory, "loss.csv"), newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["examples"] for row in table[-3:]] == [str(100 * (first + i + 1)) for i in range(3)]
    assert table[-4]["examples"] is None


def wait_until_delivered(process):
    """Two pending signals of the same kind count as one."""
    status, end = pathlib.Path(f"/proc/{process.pid}/status"), time.monotonic() + LIMIT
    while process.poll() is None and re.search(r"^(Sig|Shd)Pnd:\s*0*[1-9a-f]", status.read_text(),
                                               re.MULTILINE):
        assert time.monotonic() < end, "the signal was not delivered"
        time.sleep(0.01)


def test_a_reader_that_does_not_read(directory):
    """A blocked CSV file delays neither the recording nor the end."""
    daemon = Daemon(directory)
    record = Record(directory, [daemon], "-o", "runnel.db", "--csv=-", stdout=subprocess.PIPE)
    daemon.learn(0, 20)
    record.until_rows(20)
    full, size = struct.pack("i", 0), 60000
    while struct.unpack("i", full)[0] < size:
        daemon.learn(20, 120)
        time.sleep(0.02)
        full = fcntl.ioctl(record.process.stdout, termios.FIONREAD, full)
    daemon.learn(20, 520)
    for _ in range(2):  # the first one requests the end, the second one forces it
        record.process.send_signal(signal.SIGTERM)
        wait_until_delivered(record.process)
    record.process.wait(LIMIT)
    record.process.communicate()
    assert rows(directory, "SELECT count(*) >= 20 FROM loss") == [(1,)]
    daemon.close()


def test_two_names_of_one_daemon(directory):
    """Duplicate messages are recorded once."""
    daemon = Daemon(directory)
    pathlib.Path(directory, "link").symlink_to(directory)
    other = f"ipc://{directory}/link/{daemon.name}"
    record = Record(directory, [daemon], f"--connect={other}", "--tensorboard=board", "-o",
                    "runnel.db", subscribers=2)
    daemon.learn(0, 20)
    record.until_rows(20)
    record.end()
    daemon.close()
    assert rows(directory, "SELECT run, newest_examples FROM runs") == [(daemon.run, 2000.0)]


def test_missed_messages(directory):
    """Examples without a subscriber are distinguished from lost messages."""
    daemon = Daemon(directory)
    record = Record(directory, [daemon])
    daemon.learn(0, 5)
    daemon.learn(12, 14)
    record.until_rows(7)
    record.end()
    daemon.learn(14, 20)  # without a subscriber the sequence of messages does not change
    record = Record(directory, [daemon])
    daemon.learn(20, 22)
    record.until_rows(9)
    daemon.close()
    daemon = Daemon(directory, run="00000000000000bb")
    daemon.wait_for_subscriber()
    daemon.learn(30, 32)
    record.until_rows(11)
    record.end()
    daemon.close()
    assert rows(directory, "SELECT run, examples, text FROM events WHERE kind = 'gap'") == [
        (1, 1300.0, "no message between examples 500 and 1,300"),
        (1, 2100.0, "no message between examples 1,400 and 2,100"),
        (2, 3100.0, "no message between examples 2,200 and 3,100")]


def test_one_writer_a_file(directory):
    daemon = Daemon(directory)
    record = Record(directory, [daemon])
    daemon.learn(0, 1)
    record.until_rows(1)
    status, output = run(directory)
    assert status == IO and "in use by another runnel-web or runnel-record" in output, (status, output)
    record.end()
    daemon.close()


def test_usage(directory):
    for arguments in [["x"], ["--count=0"], ["--keep=-1"], ["--megabytes=x"], ["--silence=-1"],
                      ["--connect=nowhere"], ["-c", "ipc://a", "-c", "ipc://a"], ["--bogus"],
                      ["--csv=-", "--csv-layers=-"], ["--csv-columns=a", "--csv-experts=a"]]:
        status, output = run(directory, *arguments)
        assert status == USAGE and "--help" in output, (arguments, status, output)
    for option, text in [("--help", "tcp://127.0.0.1:5571"), ("--version", "runnel-record ")]:
        done = subprocess.run([PROGRAM, option], capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == OK and text in done.stdout, done


def test_messages_of_any_kind_become_event_files(directory):
    """Messages may contain values of any type; valid ones are recorded."""
    fields = {"loss": [["loss/mean", ["mean"]]], "column": [["mae", ["mae"]]], "expert": [["mean", ["mean"]]],
              "layer": [["hidden/std", ["hidden", "std"]]]}
    wild = [None, True, 1e300, "x", [], [[]], [{}], {}, {"a": None}, {"a": []}, {"a": {"mean": "x"}}]
    base = {"run": "../x", "time": 1.5, "examples": 1}
    bodies = [dict(base, **{key: value}) for value in wild
              for key in ("mean", "columns", "experts", "layers", "members", "configuration", "tags", *base)]
    bodies += [dict(base, examples=9, mean=2, layers=[{"hidden": 3, "histogram": [1] * 20}])]
    lines = [[0, "../name", topic, body] for body in bodies for topic in ("status", "loss", "state")]
    done = subprocess.run([pathlib.Path(PROGRAM).with_name("runnel-plot"), "--tensorboard=board", "-"], cwd=directory, text=True,
                          input="".join(json.dumps(line) + "\n" for line in [fields, *lines]) + "\n",
                          capture_output=True, timeout=LIMIT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (OK, "\n", ""), done
    newest = max(pathlib.Path(directory, "board").glob("_._name-*"), key=lambda path: path.stat().st_mtime_ns)
    assert events(newest)["loss/mean"][-1] == (9, 1.5, 2.0)


def test_no_program_to_write_event_files(directory):
    """Prints an error if runnel-plot ends early or is not found."""
    for script, status, text in [("import sys; sys.exit('runnel-plot: it cannot')", 1, "it cannot"), (None, 69, "runnel-plot")]:
        place = pathlib.Path(directory, "bin")
        place.mkdir(exist_ok=True)
        program = place / "runnel-record"
        if not program.exists():
            program.write_bytes(pathlib.Path(PROGRAM).read_bytes())
            program.chmod(0o755)
        if script:
            (place / "runnel-plot").write_text(f"#!/usr/bin/python3\n{script}\n")
            (place / "runnel-plot").chmod(0o755)
        else:
            (place / "runnel-plot").unlink()
        done = subprocess.run([program, "--tensorboard=board"], cwd=directory, capture_output=True, text=True, timeout=LIMIT,
                              env=dict(os.environ, PATH="/nowhere"), check=False)
        assert done.returncode == status and text in done.stderr and done.stderr.count("\n") == 1, done


READ_WITH_TENSORBOARD = """
import math, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
run = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0}).Reload()
loss, histograms = run.Scalars("loss/mean")[:25], run.Histograms("layer0/hidden")
assert [event.step for event in loss] == [100 * (i + 1) for i in range(25)]
assert [math.isnan(event.value) for event in loss] == [i == 3 for i in range(25)]
assert loss[1].value == 1.0 and loss[1].wall_time == 1700000200.25
assert len(histograms) == 25
value = histograms[7].histogram_value
assert value.bucket == [(7 + bin) % 5 for bin in range(20)] and value.bucket_limit[-1] == 1.0
print("TensorBoard has read", len(run.Tags()["scalars"]), "scalars and",
      len(run.Tags()["histograms"]), "histograms")
"""


def test_tensorboard(directory):
    python = os.environ.get("TENSORBOARD_PYTHON", sys.executable)
    there = subprocess.run([python, "-c", "import tensorboard"], capture_output=True)
    if there.returncode:
        print("TensorBoard is not installed: only this test has read its files")
        return
    daemon = Daemon(directory)
    record = Record(directory, [daemon], "--tensorboard=board", "--count=26")
    daemon.learn(0, 25)
    daemon.send("loss", loss_fields(3))
    _, output = record.process.communicate(timeout=LIMIT)
    daemon.close()
    assert record.process.returncode == OK, output
    path = str(pathlib.Path(directory, "board", "waves-00000000000000aa"))
    subprocess.run([python, "-c", READ_WITH_TENSORBOARD, path], check=True, timeout=5 * LIMIT)


if __name__ == "__main__":
    cases.run(globals())
