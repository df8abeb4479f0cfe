#!/usr/bin/python3
"""Tests runnel-watch with a simulated daemon: its output for each message, its errors, and the display on a
terminal."""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import cases
from publishing import LSTM, MANY, MEMBERS, TOPICS, Publisher
import zmq

PROGRAM = str(pathlib.Path(os.environ.get("builddir", "."), "runnel-watch"))
OK, USAGE, UNAVAILABLE, IO = 0, 64, 69, 74
LIMIT = 60  # seconds: ends a test that hangs

LOSS = {"loss": 0.5, "mean": 0.0412, "smoothed": 0.25, "minimum": 0.01, "maximum": 2.0,
        "updates": 62, "rate": 0.0003, "gradient_norm": 12.3456, "update_ratio": 0.00123,
        "metric": {"rmse": 1.5}, "examples_per_second": 12345.6,
        "latency_us": {"p50": 95.4, "p99": 1234.0, "max": 45678.0}, "queued": 7, "rejected": 3,
        "rejected_by": {"x_size": 3}, "skipped": 2, "streams": 12}
NOT_YET = dict(LOSS, loss=None, mean=None, smoothed=None, minimum=None, maximum=None, rejected=0,
               gradient_norm=None, update_ratio=None, metric={"accuracy": None, "bits": None},
               examples_per_second=None, latency_us={"p50": None, "p99": None, "max": None})
STATUS = {"name": "host-load", "state": "learning", "device": "cpu (avx2)", "parameters": 69130,
          "model": "real 8 > lstm 128 norm > squared 8, next", "digest": "0123456789abcdef",
          "version": "0.1.0", "uptime": 12.5}
UNITS = {"mean": -0.0123, "std": 0.456, "minimum": -1.0, "maximum": 1.0, "norm": 3.3,
         "saturated": 0.25}
STATE = {"layers": [{"kind": "lstm", "size": 128, "summed_inputs": {"mean": 0.5, "std": 1.25},
                     "hidden": UNITS, "cell": UNITS, "histogram": list(range(20))},
                    {"kind": "dense", "size": 3, "summed_inputs": {"mean": None, "std": None},
                     "hidden": dict(UNITS, mean=None), "histogram": [0] * 20}]}


class Daemon(Publisher):
    """Each message contains a hundred more examples."""

    def send(self, topic, fields, lost=0):
        super().send(topic, fields, lost, examples=100)


class Watch:
    """A running runnel-watch, read line by line."""

    def __init__(self, endpoint, *arguments, **options):
        self.process = subprocess.Popen(
            [PROGRAM, "--connect", endpoint, *arguments], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=dict(os.environ, TZ="UTC"), bufsize=0, **options)

    def line(self):
        """The next line; "" at the end."""
        assert select.select([self.process.stdout], [], [], LIMIT)[0], "no output"
        return self.process.stdout.readline().decode().rstrip("\n")

    def until(self, pattern):
        """The lines up to and including the first match."""
        lines = []
        while not (lines and re.search(pattern, lines[-1])):
            lines.append(self.line())
            assert lines[-1], f"ended without {pattern!r}: {lines}"
        return lines

    def end(self):
        """Waits for the end; returns the exit status, the remaining lines, and errors. "Waiting for a daemon"
        is left out, since it depends on the load."""
        waits = r"(-- [\d:]{8} |runnel-watch: )waiting for a daemon at ipc://"
        out, err = ([line for line in text.decode().splitlines(keepends=True)
                     if not re.match(waits, line)]
                    for text in self.process.communicate(timeout=LIMIT))
        return self.process.returncode, "".join(out).splitlines(), "".join(err)


def stop(watch, number=signal.SIGINT):
    watch.process.send_signal(number)
    return watch.end()


def cells(header, row):
    """A row of the table as {title: text}; every cell ends below its title's end."""
    assert len(header) == len(row), (header, row)
    found, begin = {}, 0
    for title in re.finditer(r"\S+", header):
        found[title.group()] = row[begin:title.end()].strip()
        begin = title.end()
    return found


def test_table(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "--topic", "loss", "--count", "45")
    daemon.wait_for("status", "loss")
    for _ in range(45):
        daemon.send("loss", LOSS)
    status, lines, err = watch.end()
    daemon.close()
    assert (status, err) == (OK, "")
    headers = [i for i, line in enumerate(lines) if "examples" in line]
    assert headers == [0, 21, 42] and len(lines) == 48, headers
    assert max(map(len, lines)) <= 100
    shown = cells(lines[0], lines[1])
    expected = {"examples": "100", "mean": "0.0412", "smoothed": "0.2500", "rmse": "1.5000",
                "rate": "0.0003", "gradient": "12.346", "update": "1.23e-3", "ex/s": "12.3k",
                "p50": "95us", "p99": "1.23ms", "queued": "7"}
    for title, text in expected.items():
        assert shown.get(title) == text, (title, shown)
    assert cells(lines[0], lines[2])["examples"] == "200"


def test_header_is_repeated(directory):
    """Lines of all kinds count for the repetition of the header."""
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "-t", "loss", "-t", "state", "-n", "60")
    daemon.wait_for("status", "loss", "state")
    for _ in range(30):
        daemon.send("loss", LOSS)
        daemon.send("state", STATE)
    status, lines, _ = watch.end()
    daemon.close()
    headers = [i for i, line in enumerate(lines) if "examples" in line]
    assert status == OK and headers == [0, 22, 44, 66, 88], headers


def test_status_is_printed_when_it_changes(directory):
    """Also with --topic status."""
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "--topic", "status", "--topic", "event", "-n", "5")
    daemon.wait_for("status", "event")
    for change in [{}, {}, {"uptime": 9}, {"state": "paused"}, {"state": "paused"}, {},
                   {"device": "cuda"}, {"device": "cuda"}]:
        daemon.send("status", dict(STATUS, **change))
    daemon.send("event", {"kind": "set", "text": "x"})
    status, lines, err = watch.end()
    daemon.close()
    assert (status, err) == (OK, "")
    assert [line[12:] for line in lines if "model:" not in line] == [
        "host-load is learning: 69,130 parameters on cpu (avx2)", "host-load is paused",
        "host-load is learning", "host-load is learning: 69,130 parameters on cuda", "set: x"], lines


def test_anomalies(directory):
    """Prints only anomaly events, one line each, with their data time."""
    daemon = Publisher(directory)
    columns = [{"column": 3, "score": 2.75, "forecast": 10.5, "truth": 25}, {"column": 0, "score": 2}]
    event = {"kind": "anomaly", "text": "it is abnormal", "stream": "taxi\033[31m", "example": 7,
             "data_time": 1420068600, "reason": "novelty", "score": 2.75, "threshold": 1.5,
             "columns": columns}
    lines, whole, usual = (Watch(daemon.endpoint, *arguments) for arguments in
                           (["-t", "anomaly", "-n", "3"], ["-t", "anomaly", "--json", "-n", "3"], ["-n", "5"]))
    daemon.wait_for("event", subscribers=3)
    daemon.send("event", {"kind": "checkpoint", "text": "checkpoint of 100 examples"})
    daemon.send("event", event)
    daemon.send("event", dict(event, columns=[], data_time=None, reason="silent", note="disk\033[2J \u202efull " + 2000 * "é"))
    daemon.send("event", {"kind": "anomaly", "columns": 7, "text": []})
    daemon.send("event", {"kind": "paused", "text": "paused"})
    printed = lines.end()[1]
    assert printed[0].split() == "time stream reason score limit col truth forecast".split(), printed
    assert printed[1] == ("2014-12-31 23:30:00 taxi [31m            novelty   2.7500  1.5000   3"
                       "   25.000   10.500 and 1 more"), printed
    assert printed[2].split()[:-1] == ["2023-11-14", "22:13:20", "taxi", "[31m", "silent", "2.7500", "1.5000",
                                    "-", "-", "-", "disk", "[2J", "full"], printed
    assert printed[2].endswith("é") and len(printed[2].encode()) < 1200 and "\033" not in printed[2], printed
    assert len(printed) == 4, printed
    named = Watch(daemon.endpoint, "-t", "anomaly", "-n", "2")
    daemon.wait_for("event")
    daemon.send("event", dict(event, columns=[dict(columns[0], name="oil_temperature")]))
    daemon.send("event", dict(event, columns=[]))
    printed = named.end()[1]
    assert printed[0].split()[5] == "col" and printed[1].split()[7:9] == ["oil_temperature", "25.000"], printed
    assert len({len(line) for line in printed}) == 1, printed
    assert [json.loads(line)["kind"] for line in whole.end()[1]] == ["anomaly"] * 3
    assert any("anomaly: it is abnormal" in line for line in usual.end()[1])
    daemon.close()


def test_predictions_that_are_off(directory):
    daemon = Daemon(directory)
    watches = [Watch(daemon.endpoint, *arguments, "-t", "event", "-n", "1")
               for arguments in [["-t", "prediction"], ["-t", "prediction", "--json"], []]]
    daemon.wait_for("status", "event", subscribers=3)
    for _ in range(3):
        daemon.send("status", dict(STATUS, predictions=False))
    daemon.send("event", {"kind": "set", "text": "x"})
    (_, asked, _), (_, _, asked_json), (_, others, _) = [watch.end() for watch in watches]
    daemon.close()
    for printed in ["\n".join(asked), asked_json]:
        assert printed.count("statistics.predictions=true") == 1, printed
    assert "predictions" not in "".join(others)


def test_metrics_and_missing_values(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "--topic", "loss", "--count", "4")
    daemon.wait_for("status", "loss")
    daemon.send("loss", NOT_YET)
    daemon.send("loss", dict(LOSS, metric={"accuracy": 0.9725, "bits": 1.75}))
    daemon.send("loss", dict(LOSS, metric={"bits": -0.5}))
    daemon.send("loss", dict(LOSS, metric=None))
    status, lines, _ = watch.end()
    daemon.close()
    assert status == OK and "nan" not in "".join(lines).lower()
    shown = cells(lines[0], lines[1])
    assert {shown[t] for t in ("mean", "accuracy", "bits", "gradient", "ex/s", "p50")} == {"-"}
    shown = cells(lines[0], lines[2])
    assert (shown["accuracy"], shown["bits"]) == ("97.25%", "1.7500")
    shown = cells(lines[3], lines[4])
    assert "accuracy" not in shown and shown["bits"] == "-0.5000"
    assert "bits" not in cells(lines[5], lines[6])


def test_skill(directory):
    """On a terminal the skill is red while the baseline is better."""
    daemon = Daemon(directory)
    terminal = Terminal(daemon.endpoint, 24, 120, "xterm")
    daemon.wait_for("status", "loss", "event")
    watch = Watch(daemon.endpoint, "--topic", "loss", "--count", "2")
    daemon.wait_for("loss")
    for skill, recent in (0.25, 0.125), (0.375, -0.5):
        daemon.send("loss", dict(LOSS, baseline=0.05, skill=skill, skill_recent=recent))
    terminal.until(lambda lines: any("+0.375" in line for line in lines))
    assert terminal.end()[0] == OK
    status, lines, _ = watch.end()
    daemon.close()
    assert re.findall(rb"\033\[31m *(\S+)\033\[0m", terminal.bytes) == [b"+0.375"], terminal.bytes
    assert status == OK and "\033" not in "".join(lines)
    assert cells(lines[0], lines[2])["skill"] == "+0.375"


def test_chosen_columns(directory):
    daemon = Daemon(directory)
    names = ["examples,loss,skipped,streams,max,steps", "all"]
    watches = [Watch(daemon.endpoint, "-t", "loss", "-n", "1", "-C", name) for name in names]
    daemon.wait_for("status", "loss", subscribers=2)
    daemon.send("loss", LOSS)
    (_, chosen, _), (_, every, _) = [watch.end() for watch in watches]
    daemon.close()
    assert chosen[0].split() == ["examples", "loss", "skipped", "streams", "max", "steps"]
    assert chosen[1].split() == ["100", "0.5000", "2", "12", "45.7ms", "200"]
    shown = cells(*every)
    assert (shown["rejected"], shown["minimum"], shown["updates"]) == ("3", "0.0100", "62")


def test_status_and_events(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "--count", "6")
    daemon.wait_for("status", "loss", "event")
    daemon.send("status", STATUS)
    daemon.send("status", dict(STATUS, uptime=22.5))
    daemon.send("event", {"kind": "rejected", "text": "rejected 3 examples (x_size): x is short"})
    daemon.send("event", {"kind": "set", "text": "learning.clip set to 2"})
    daemon.send("status", dict(STATUS, state="paused"))
    daemon.send("event", {"kind": "a\033[2Jb", "text": "c\nd\u009be"})
    daemon.send("loss", LOSS)
    status, lines, err = watch.end()
    daemon.close()
    assert (status, err) == (OK, "")
    assert lines[:5] == [
        "-- 22:13:20 host-load is learning: 69,130 parameters on cpu (avx2)",
        "-- 22:13:20 model: real 8 > lstm 128 norm > squared 8, next",
        "-- 22:13:20 rejected 3 examples (x_size): x is short",
        "-- 22:13:20 set: learning.clip set to 2",
        "-- 22:13:20 host-load is paused"], lines
    assert lines[5].startswith("-- ") and "\033" not in lines[5] and "\x9b" not in lines[5]
    assert len(lines) == 8 and "examples" in lines[6]


def test_state_and_predictions(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "-t", "state", "--topic=prediction", "-n", "3")
    daemon.wait_for("status", "state", "prediction")
    daemon.send("state", STATE)
    daemon.send("prediction", {"stream": "a", "example": 7, "prediction": [0.123456, None],
                               "loss": None})
    daemon.send("prediction", {"stream": "a" * 200, "example": 8, "prediction": [0.1] * 5000,
                               "loss": 0.25})
    status, lines, err = watch.end()
    daemon.close()
    assert (status, err) == (OK, "") and len(lines) == 4
    assert re.search(r"layer 0 +hidden +-0.0123 \+- +0.4560 +saturated +25.0% +sums +0.5000 \+- +"
                     r"1.2500$", lines[0]), lines[0]
    assert re.search(r"layer 1 +hidden +- \+- +0.4560", lines[1]), lines[1]
    assert max(map(len, lines[:2])) <= 80
    assert lines[2].endswith("example 7 of 'a', loss -: [0.1235,null]"), lines[2]
    assert len(lines[3]) == 100 and lines[3].endswith("...")


def test_state_by_member(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "-t", "state", "-n", "1")
    daemon.wait_for("status", "state")
    daemon.send("state", MEMBERS)
    status, lines, err = watch.end()
    daemon.close()
    assert (status, err) == (OK, "") and len(lines) == 3, lines
    for line, label in zip(lines, [r" 0 change ", r" 1 level ", r" 2 level "]):
        assert re.match(label + r" +hidden +(-0.0123|-) \+- +0.4560 ", line) and len(line) <= 80, line


def test_named_layers_and_vectors(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "-t", "state", "-t", "vector", "-n", "2")
    daemon.wait_for("status", "state", "vector")
    daemon.send("state", {"layers": [{**LSTM, "name": name} for name in ("layer 0", "reader 0")]})
    daemon.send("vector", {"stream": "a", "example": 7, "h": [0.5, -0.25]})
    status, lines, err = watch.end()
    daemon.close()
    assert (status, err) == (OK, "") and lines[2].split() == "example 7 of 'a': [0.5,-0.25]".split(), lines
    assert [line.split()[:3] for line in lines[:2]] == [["0", "layer", "0"], ["1", "reader", "0"]], lines


def test_state_of_many_members(directory):
    """Each line contains the name of its network, with aligned columns."""
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "-t", "state", "-n", "1")
    daemon.wait_for("status", "state")
    daemon.send("state", {"layers": [LSTM], "members": {name: {"layers": [LSTM]} for name in MANY}})
    status, lines, err = watch.end()
    daemon.close()
    assert (status, err) == (OK, "") and len({len(line) for line in lines}) == 1, lines
    assert [line.split()[:2] for line in lines] == [[str(n), name] for n, name in enumerate(MANY)], lines


def test_truths_with_forecasts(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "-t", "prediction", "-n", "4")
    daemon.wait_for("status", "prediction")
    printed = {"example": 8, "data_time": None, "prediction": [1.5, None, -2], "target": [1.25, 3, None],
            "interval": [[1.375, 2], None, [0, 1]], "baseline": [0.5, None, 0], "loss": 0.1}
    daemon.send("prediction", {"stream": "a", "example": 9, "prediction": [2, 2, 2], "loss": 0.1,
                               "data_time": 1.6e9, "scored": printed})
    daemon.send("prediction", {"stream": "b\n\033[31m", "example": 10, "loss": 0.1,
                               "scored": [dict(printed, data_time=1.6e9 + 60, ahead=6)]})
    daemon.send("prediction", {"stream": "c", "example": 11, "prediction": [0.5, 0.25, 0.25],
                               "data_time": 1.6e9, "scored": dict(printed, target=2, interval=None,
                                                                  prediction=[0.1, 0.2, 0.7])})
    daemon.send("prediction", {"stream": "d", "prediction": 1, "scored": {"target": {"a": 1}}})
    status, lines, err = watch.end()
    daemon.close()
    assert (status, err) == (OK, ""), (status, err)
    assert lines[0].split() == ["time", "stream", "col", "truth", "forecast", "low", "high", "baseline"]
    day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(1.6e9)).split()
    assert [line.split() for line in lines[1:3]] == [
        [*day, "a", "0", "1.2500", "1.5000", "1.3750", "2.0000", "0.5000", "*"],
        [*day, "a", "1", "3.0000", "-", "-", "-", "-"]], lines
    assert max(map(len, lines[:3])) <= 80 and "\033" not in "".join(lines), lines
    assert "b" in lines[3] and lines[3].endswith("* 6 ahead") and len(lines) == 7, lines
    later = time.strftime("%H:%M:%S", time.localtime(1.6e9 + 60))
    assert later in lines[3], lines[3]
    assert lines[5].split()[3:6] == ["0", "2.0000", "2.0000"], lines[5]  # the predicted class
    assert lines[6].startswith("   example 0 of 'd'"), lines[6]


def test_targets_that_have_names(directory):
    """Each line contains the beginning and end of a long name, and fits the terminal."""
    names = "load, a, temperature_of_bearing_upper, temperature_of_bearing_lower"
    printed = {"example": 8, "prediction": [1.5, 2, 3, 4, 5], "target": [1.25, 3, 4, 5, 6], "baseline": [0.5] * 5,
            "interval": [[1, 2]] * 5}
    for columns, shown in [(100, ["load", "a", "temperature~earing_upper", "temperature~earing_lower", "4"]),
                           (80, ["load", "a", "temper~_upper", "temper~_lower", "4"])]:
        with Publisher(directory) as daemon:
            screen = Terminal(daemon.endpoint, 24, columns, "xterm", "-t", "prediction")
            daemon.wait_for("status", "prediction")
            daemon.send("status", dict(STATUS, predictions=True, target_names=names))
            daemon.send("prediction", {"stream": "a", "example": 9, "scored": printed})
            lines = screen.until(lambda lines: any(" 4 " in line for line in lines))
            lines = [line for line in lines if not line.startswith("--")]
            assert [line.split()[3] for line in lines[1:6]] == shown, lines
            assert len({len(line.replace(" *", "")) for line in lines[:6]}) == 1, lines
            assert max(map(len, lines)) <= columns and ("baseline" in lines[0]) == (columns > 80), lines
            screen.process.kill()
            screen.process.wait()
            os.close(screen.master)


def test_a_name_of_any_length(directory):
    """Works on a terminal of any width."""
    printed = {"example": 8, "prediction": [1.5], "target": [1.25], "baseline": [0.5], "interval": [[1, 2]]}
    with Publisher(directory) as daemon:
        screen = Terminal(daemon.endpoint, 24, 3000, "xterm", "-t", "prediction")
        daemon.wait_for("status", "prediction")
        daemon.send("status", dict(STATUS, predictions=True, target_names="first" + 2000 * "n" + "last"))
        daemon.send("prediction", {"stream": "a", "example": 9, "scored": printed})
        lines = screen.until(lambda lines: any("0.5000" in line for line in lines))
        line = next(line.split() for line in lines if "0.5000" in line)
        assert line[3].startswith("firstnn") and len(line[3]) < 200 and line[4:6] == ["1.2500", "1.5000"], lines
        screen.process.kill()
        screen.process.wait()
        os.close(screen.master)


def test_next_forecast(directory):
    """Prints the open forecast of each stream after a moment without predictions."""
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "-t", "prediction")
    daemon.wait_for("status", "prediction")
    watch.process.send_signal(signal.SIGSTOP)  # so that they arrive together
    os.waitid(os.P_PID, watch.process.pid, os.WSTOPPED)
    for n in range(3):
        for stream in "a", "b":
            daemon.send("prediction", {"stream": stream, "example": n, "prediction": [n + 0.5, None],
                                       "interval": [[n, n + 1], None], "loss": None})
    daemon.send("prediction", {"stream": "class", "example": 9, "prediction": [0.5, 0.5], "loss": None})
    watch.process.send_signal(signal.SIGCONT)
    lines = [line for line in watch.until("^next +b") if line.startswith("next")]
    assert [line.split() for line in lines][-2:] == [
        ["next", stream, "0", "-", "2.5000", "2.0000", "3.0000", "-"] for stream in "ab"], lines
    daemon.send("prediction", {"stream": "b", "example": 4, "prediction": {"mean": [7], "sd": [1]},
                               "interval": [None], "loss": None})
    assert watch.until("^next")[-1].split() == ["next", "b", "0", "-", "7.0000", "-", "-", "-"]
    status, lines, err = stop(watch)
    daemon.close()
    assert (status, lines, err) == (OK, [], ""), (status, lines, err)


def test_json(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "--json", "--count", "7")
    daemon.wait_for(*TOPICS)
    sent = [("status", STATUS), ("loss", LOSS), ("state", STATE), ("loss", NOT_YET),
            ("event", {"kind": "set", "text": "a\nb"})]
    for topic, fields in sent:
        daemon.send(topic, fields)
    daemon.socket.send_multipart([b"loss", b'{ \n "mean" : 0.10000000000000000555,\n"a":"}" }\n'])
    daemon.socket.send_multipart([b"event", b"{}"])
    status, lines, err = watch.end()
    daemon.close()
    assert (status, err) == (OK, "") and len(lines) == 7
    for line, (topic, fields) in zip(lines, sent):
        message = json.loads(line)
        assert message["topic"] == topic
        assert {key: message[key] for key in fields} == fields
    assert "0.10000000000000000555" in lines[5]
    assert json.loads(lines[5])["a"] == "}"
    assert json.loads(lines[6]) == {"topic": "event"}


def test_json_separates_reports(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "--json", "-t", "loss", "-n", "2")
    daemon.wait_for("status", "loss")
    daemon.send("loss", LOSS)
    daemon.send("status", STATUS)
    daemon.send("loss", LOSS, lost=5)
    status, lines, err = watch.end()
    daemon.close()
    assert status == OK and [json.loads(line)["sequence"] for line in lines] == [1, 7]
    assert "missed 5 loss messages" in err


def test_missed_messages(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint)
    daemon.wait_for("status", "loss", "event")
    daemon.send("loss", LOSS, lost=100)  # the interval before the first is unknown
    daemon.send("status", STATUS)
    daemon.sequences["status"] -= 1  # the same status again, as for a new subscriber
    daemon.send("status", STATUS)
    daemon.send("loss", LOSS)
    daemon.send("loss", LOSS, lost=37)
    lines = watch.until("missed")
    assert lines[-1].endswith(" missed 37 loss messages"), lines
    # the first event: its gap is unknown
    daemon.send("event", {"kind": "set", "text": "x"}, lost=3)
    daemon.send("event", {"kind": "set", "text": "y"}, lost=1)
    lines = watch.until("missed")
    assert lines[-1].endswith(" missed 1 event message"), lines
    status, lines, _ = stop(watch)
    daemon.close()
    assert status == OK and not any("missed" in line for line in lines), lines


def test_a_restarted_daemon(directory):
    first = Daemon(directory)
    watch = Watch(first.endpoint)
    first.wait_for("status", "loss", "event")
    first.send("status", STATUS)
    for _ in range(10):
        first.send("loss", LOSS)
    watch.until(" 1100 ")
    first.close()
    watch.until("lost; waiting")
    second = Daemon(directory, run="00000000000000bb")
    second.wait_for("status", "loss", "event")
    second.send("status", STATUS)
    second.send("loss", LOSS)
    lines = watch.until("0.0412")
    status, rest, err = stop(watch)
    second.close()
    assert (status, err) == (OK, "")
    text = "\n".join(lines)
    assert "is back after" in text
    assert "restarted: run 00000000000000bb, previous run 00000000000000aa" in text, text
    assert "host-load is learning" in text, "the new daemon has no header"
    assert "missed" not in text + "\n".join(rest)


def test_silence(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "--silence", "0.3")
    daemon.wait_for("status", "loss", "event")
    daemon.send("loss", LOSS)
    lines = watch.until("silent")
    assert re.search(r"is silent: no message for [\d.]+ s$", lines[-1]), lines
    assert daemon.endpoint in lines[-1]
    daemon.send("loss", LOSS)
    lines = watch.until("0.0412")
    assert "is back after" in lines[0], lines
    status, _, _ = stop(watch)
    daemon.close()
    assert status == OK


def test_nothing_to_print(directory):
    """Reports once that the daemon runs, although no message of the topic arrives."""
    daemon = Daemon(directory)
    watches = [Watch(daemon.endpoint, *arguments, "-n", "1")
               for arguments in [["-t", "loss"], ["-t", "loss", "--json"], ["-t", "loss", "-t", "status"]]]
    daemon.wait_for("status", "loss", subscribers=3)
    for _ in range(4):
        daemon.send("status", STATUS)
    daemon.send("loss", LOSS)
    (_, lines, err), (_, _, err_json), (_, printed, _) = [watch.end() for watch in watches]
    daemon.close()
    text_output = "\n".join(lines)
    for text in [text_output, err_json]:
        assert text.count("no message of the selected topics yet") == 1, text
    assert f"{STATUS['name']} is running and has learned" in text_output and err == "", text_output
    assert "no message of the selected" not in "".join(printed)


def test_a_daemon_that_starts_later(directory):
    watch = Watch(f"ipc://{directory}/statistics")
    lines = watch.until("waiting for a daemon at ipc://")
    assert len(lines) == 1
    daemon = Daemon(directory)
    daemon.wait_for("status", "loss", "event")
    daemon.send("loss", LOSS)
    watch.until("0.0412")
    status, _, err = stop(watch, signal.SIGTERM)
    daemon.close()
    assert (status, err) == (OK, "")


def test_not_a_daemon(directory):
    """The endpoint is another kind of socket, such as the control socket, or does not exist."""
    endpoint = f"ipc://{directory}/control"
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        socket.bind(endpoint)
        status, out, err = Watch(endpoint).end()
        assert status == UNAVAILABLE and out == [], (status, out)
        assert endpoint in err and "not runneld's statistics socket" in err, err
    watch = Watch(f"ipc://{directory}/none")
    watch.until("waiting for a daemon at ipc://.*/none: the socket does not exist")
    stop(watch)


def test_invalid_messages(directory):
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "-t", "loss", "-t", "state", "-t", "event", "-t", "prediction")
    daemon.wait_for("status", "loss", "state", "event", "prediction")
    garbage = [[b"loss"], [b"loss", b"{}", b"{}"], [b"loss", b""], [b"loss", b"\xff\0garbage"],
               [b"loss", b"[1]"], [b"loss", b"[" * 100000], [b"loss", b'{"mean": NaN}'],
               [b"loss"] + [b"x"] * 100]
    for frames in garbage:
        daemon.socket.send_multipart(frames)
    daemon.socket.send_multipart([b"lossless", b"not for us"])
    for value in [None, "x\ty", -1, 1e308, -1e308, 1e-308, True, [], {}, [1, {}], 10**18,
                  {"mean": "a", "rmse": [], "p50": {}}, "\u00e9" * 5000]:
        for topic, fields in [("loss", LOSS), ("status", STATUS), ("state", STATE),
                              ("prediction", {"stream": 1, "prediction": 1}),
                              ("event", {"kind": 1})]:
            message = {key: value for key in [*fields, "run", "sequence", "time", "text"]}
            daemon.socket.send_multipart([topic.encode(), json.dumps(message).encode()])
        layers = {"layers": [value, {"hidden": value, "histogram": [value] * 20}]}
        daemon.socket.send_multipart([b"state", json.dumps(layers).encode()])
    daemon.send("loss", dict(LOSS, mean=0.7777))
    lines = watch.until("0.7777")
    status, rest, err = stop(watch)
    daemon.close()
    assert (status, err) == (OK, "")
    printed = [re.search(r"ignored (\d+) invalid messages?", line) for line in lines + rest]
    assert sum(int(match.group(1)) for match in printed if match) == len(garbage)


def test_blocked_output(directory):
    daemon = Daemon(directory)
    with open("/dev/full", "wb") as full:
        process = subprocess.Popen([PROGRAM, "-c", daemon.endpoint], stdout=full,
                                   stderr=subprocess.PIPE)
        daemon.wait_for("status", "loss", "event")
        daemon.send("loss", LOSS)
        _, err = process.communicate(timeout=LIMIT)
    daemon.close()
    assert process.returncode == IO and b"standard output" in err


def own_terminal():
    """Makes standard input the controlling terminal, so that Ctrl-C is a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    """runnel-watch on a pseudo-terminal, and a simple emulation of its screen."""

    def __init__(self, endpoint, rows, columns, kind, *arguments, locale="C.UTF-8"):
        self.columns, self.bytes = columns, b""
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        environment = dict(os.environ, TERM=kind, LC_ALL=locale)
        self.process = subprocess.Popen([PROGRAM, "-c", endpoint, "--silence", "0", *arguments],
                                        stdin=slave, stdout=slave, stderr=slave, env=environment,
                                        start_new_session=True, preexec_fn=own_terminal)
        os.close(slave)

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def screen(self):
        """The visible lines. The program uses only three escapes: erase to the end, one line up, and
        colours."""
        lines, row, column = [""], 0, 0
        text = self.bytes.decode(errors="ignore")
        for token in re.findall(r"\033\[[0-9]*[A-Za-z]|.", text, re.DOTALL):
            if token == "\r":
                column = 0
            elif token == "\n":
                row += 1
                lines += [""] * (row + 1 - len(lines))
            elif token == "\033[J":
                lines[row:] = [lines[row][:column]]
            elif token == "\033[A":
                row -= 1
            elif not token.startswith("\033"):
                if column == self.columns:
                    row, column = row + 1, 0
                    lines += [""] * (row + 1 - len(lines))
                lines[row] = lines[row][:column].ljust(column) + token + lines[row][column + 1:]
                column += 1
        return lines

    def until(self, holds):
        """Reads until holds(screen), and returns the screen."""
        end = time.monotonic() + LIMIT
        while not holds(self.screen()):
            assert select.select([self.master], [], [], max(0, end - time.monotonic()))[0], (
                "\n".join(self.screen()))
            self.bytes += os.read(self.master, 65536)
        return self.screen()

    def end(self):
        """Ends the program with Ctrl-C; returns the exit status and the last screen."""
        os.write(self.master, b"\x03")
        return self.rest()

    def rest(self):
        """Returns the exit status and the last screen."""
        try:
            while True:
                piece = os.read(self.master, 65536)
                if not piece:
                    break
                self.bytes += piece
        except OSError:  # the terminal's other end is closed
            pass
        status = self.process.wait(LIMIT)
        os.close(self.master)
        return status, self.screen()


def on_terminal(directory, rows, columns):
    """Prints only scrolling lines, as wide as the terminal."""
    daemon = Daemon(directory)
    terminal = Terminal(daemon.endpoint, rows, columns, "xterm")
    daemon.wait_for("status", "loss", "event")
    daemon.send("status", STATUS)
    for i in range(30):
        daemon.send("loss", dict(LOSS, mean=2.5 - i / 20))
        terminal.until(lambda lines: any(f" {daemon.examples} " in line for line in lines))
    lines = terminal.screen()
    table = [line for line in lines if re.match(r" +\d+00 ", line)]
    assert len(table) == 30 and len(set(map(len, table))) == 1, table
    assert sum("examples" in line for line in lines) == 2
    assert max(map(len, lines)) <= columns, lines
    impatient = Terminal(daemon.endpoint, rows, columns, "xterm", "--silence", "0.5")
    daemon.wait_for("status", "loss", "event")
    daemon.send("loss", LOSS)
    impatient.until(lambda lines: "is silent" in "".join(lines))
    daemon.close()
    for one in terminal, impatient:
        # to the end of the row, including wrapped lines
        one.until(lambda lines: "for it to return" in "".join(lines))
        status, lines = one.end()
        assert status == OK and lines[-1] == "^C" and b"\033" not in one.bytes, lines


def test_units_on_a_wide_terminal(directory):
    """An earlier daemon does not send the activity of units."""
    daemon = Daemon(directory)
    terminal = Terminal(daemon.endpoint, 40, 160, "xterm", "--topic", "state")
    daemon.wait_for("state")
    daemon.send("state", {"layers": [dict(
        layer, units={"dormant": 0.3125, "saturated": 0.25, "rank": 11.77},
        weights={"norm": 25.5, "growth": 8.195}) for layer in STATE["layers"][:1]]})
    terminal.until(lambda lines: any(
        re.search(r"[▁-█]{20}  dormant  31.2%  rank  11.770  growth  8.1950$", line.rstrip()) for line in lines))
    daemon.send("state", STATE)
    terminal.until(lambda lines: "layer 1" in "".join(lines))
    assert sum("dormant" in line for line in terminal.end()[1]) == 1
    daemon.close()


def test_terminal_of_80(directory):
    on_terminal(directory, 24, 80)


def test_terminal_of_120(directory):
    on_terminal(directory, 40, 120)


def rows_at_full_speed(directory, *arguments):
    """The terminal's output for 1000 rows at once, until the newest: (rows, screen)."""
    daemon = Daemon(directory)
    terminal = Terminal(daemon.endpoint, 24, 80, "xterm", *arguments)
    daemon.wait_for("status", "loss", "event")
    for _ in range(1000):
        daemon.send("loss", LOSS)
    newest = f"{daemon.examples} "
    terminal.until(lambda lines: any(line.lstrip().startswith(newest) for line in lines))
    status, lines = terminal.end()
    daemon.close()
    assert status == OK and lines[-1] == "^C", lines
    assert b"missed" not in terminal.bytes
    return [line for line in lines if re.match(r" *\d+00 ", line)], "\n".join(lines)


def test_full_speed(directory):
    """A reader gets few rows and a note, unless --all is given."""
    rows, screen = rows_at_full_speed(directory)
    assert 1 < len(rows) < 900 and screen.count("--all shows all") == 1, (len(rows), screen[-1000:])
    rows, screen = rows_at_full_speed(directory, "--all")
    assert len(rows) == 1000 and "--all" not in screen, len(rows)


def test_two_signals(directory):
    """A forwarded signal arrives twice; the second one ends the program at once."""
    daemon = Daemon(directory)
    terminal = Terminal(daemon.endpoint, 24, 80, "xterm")
    daemon.wait_for("status", "loss", "event")
    daemon.send("status", STATUS)
    terminal.until(lambda lines: any("host-load" in line for line in lines))
    for number in [signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT]:
        terminal.process.send_signal(number)  # both arrive before the program ends by itself
    status, lines = terminal.rest()
    daemon.close()
    assert status in (-signal.SIGINT, -signal.SIGTERM), (status, lines)


def test_control_characters(directory):
    """Control characters and characters for the direction of writing are displayed without effect."""
    text = "a\u009b2Jb\u007fc\u202ed \u00fc"
    daemon = Daemon(directory)
    watch = Watch(daemon.endpoint, "--json", "--count", "1")
    lines = Watch(daemon.endpoint, "--topic", "event", "--count", "1")
    terminal = Terminal(daemon.endpoint, 24, 80, "xterm", locale="C")
    daemon.wait_for("status", "event", subscribers=3)
    message = {"run": daemon.run, "sequence": 1, "kind": "set", "text": text}
    daemon.socket.send_multipart([b"event", json.dumps(message, ensure_ascii=False).encode()])
    status, printed, _ = watch.end()
    assert status == OK and json.loads(printed[0])["text"] == text, printed
    assert not re.search("[\u007f-\u009f]", printed[0]), printed
    status, printed, _ = lines.end()
    assert status == OK and printed[0].endswith("set: a  2Jb c   d \u00fc"), printed
    terminal.until(lambda lines: any("2Jb c   d ??" in line for line in lines))
    terminal.end()
    daemon.close()
    assert terminal.bytes.isascii(), terminal.bytes


def test_usage(directory):
    for arguments in [["x"], ["--topic", "nonsense"], ["--count", "0"], ["--count", "-1"],
                      ["--count", "x"], ["--silence", "-1"], ["--silence", "soon"],
                      ["--columns", "examples,nonsense"], ["--columns", ""], ["--bogus"],
                      ["--connect", "nowhere"]]:
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=LIMIT)
        assert (done.returncode, done.stdout) == (USAGE, b""), (arguments, done)
        assert b"--help" in done.stderr, (arguments, done)


def test_help_and_version(directory):
    done = subprocess.run([PROGRAM, "--help"], capture_output=True, timeout=LIMIT)
    assert done.returncode == OK and b"tcp://127.0.0.1:5571" in done.stdout
    done = subprocess.run([PROGRAM, "--version"], capture_output=True, timeout=LIMIT)
    assert done.returncode == OK and done.stdout.startswith(b"runnel-watch ")


cases.run(globals())
