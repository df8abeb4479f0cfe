#!/usr/bin/python3
"""Tests runnel-alert with simulated daemons and a real one: its reports, commands without a shell, and HTTP
posts."""
import http.server
import json
import math
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import threading
import time

import cases
import running

try:
    import zmq
except ImportError:
    print("needs python3-zmq")
    sys.exit(77)

BUILD = pathlib.Path(os.environ.get("builddir", "."))
PROGRAM = str(BUILD / "runnel-alert")
LIMIT = 60  # seconds: ends a test that hangs
TOPICS = ["status", "loss", "state", "event"]
if not pathlib.Path(PROGRAM).exists():
    print("needs runnel-alert, which requires libcurl: apt-get install libcurl4-openssl-dev")
    sys.exit(77)

LOSS = {"loss": 0.5, "mean": 0.5, "smoothed": 0.5, "gradient_norm": 1.0, "queued": 0,
        "rejected": 0, "rejected_by": {}, "skipped": 0}
UNITS = {"mean": 0.0, "std": 0.4, "minimum": -0.9, "maximum": 0.9, "norm": 1.0, "saturated": 0.0}
JOURNAL = {"waiting": 0.0, "free_bytes": 10**12, "missing": 0}
STATUS = {"name": "host", "state": "learning", "every": 10, "journal": JOURNAL,
          "model": "real 8 > lstm 128 norm > squared 8, next"}


class Publisher:
    """An XPUB socket with the protocol of docs/reference/protocol.md."""

    def __init__(self, directory, name="statistics"):
        self.endpoint, self.run = f"ipc://{directory}/{name}", "00000000000000aa"
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.socket.linger = 1000
        self.socket.sndhwm = 0  # nothing is dropped, however slow the machine
        self.socket.bind(self.endpoint)
        self.examples, self.sequence = 0, dict.fromkeys(TOPICS, 0)

    def wait(self):
        missing = set(TOPICS)
        while missing:
            assert self.socket.poll(LIMIT * 1000), f"nobody subscribed to {missing}"
            missing.discard(self.socket.recv()[1:].decode())

    def body(self, topic, fields):
        self.examples += 10 if topic == "loss" else 0
        self.sequence[topic] += 1
        return {"run": self.run, "sequence": self.sequence[topic], "examples": self.examples,
                "steps": self.examples, "time": 1767225600 + self.examples / 10, **fields}

    def send(self, topic, **fields):
        self.socket.send_multipart([topic.encode(), json.dumps(self.body(topic, fields)).encode()])

    def loss(self, **fields):
        self.send("loss", **{**LOSS, **fields})

    def state(self, **fields):
        units = {"dormant": fields.pop("dormant", 0.0)}
        hidden = {**UNITS, "norm": 1 + random.random(), **fields}
        self.send("state", layers=[{"kind": "gru", "size": 8, "hidden": hidden, "units": units}])

    def close(self):
        self.context.destroy()


class Alert:
    """runnel-alert --json and its output so far."""

    def __init__(self, directory, *arguments):
        self.errors = pathlib.Path(directory, "errors")
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen([PROGRAM, "--json", *arguments], stdout=subprocess.PIPE,
                                            stderr=errors, text=True)
        self.alerts = []
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.alerts.append(json.loads(line))
                self.changed.notify_all()

    def until(self, kind, state="began", count=1):
        """Waits for the `count`-th alert of this kind and state."""
        def those():
            return [one for one in self.alerts if (one["kind"], one["state"]) == (kind, state)]
        with self.changed:
            assert self.changed.wait_for(lambda: len(those()) >= count, LIMIT), \
                (kind, state, self.alerts, self.text())
            return those()[count - 1]

    def count(self, kind, state="began"):
        return sum((one["kind"], one["state"]) == (kind, state) for one in self.alerts)

    def text(self):
        return self.errors.read_text(encoding="utf-8")

    def wait_for_error(self, text):
        deadline = time.monotonic() + LIMIT
        while text not in self.text():
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.05)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(LIMIT) == 0, self.text()
        self.reader.join(LIMIT)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if kind:
            print(self.alerts[-5:], self.text())


def test_idle(directory):
    """This alert for a dead feeder requires --idle."""
    daemon = Publisher(directory)
    with Alert(directory, "-c", daemon.endpoint, "--silence=0", "--idle=0.2") as alert:
        daemon.wait()
        daemon.loss()
        deadline = time.monotonic() + LIMIT
        while not alert.count("idle") and time.monotonic() < deadline:
            daemon.send("status", state="learning")
            time.sleep(0.1)
        assert "no example was learned for" in alert.until("idle")["text"]
        daemon.loss()
        alert.until("idle", "over")


def test_conditions(directory):
    """Reports each problem once at its beginning and once at its end."""
    daemon = Publisher(directory)
    with Alert(directory, "-c", daemon.endpoint, "--interval=1", "--silence=3") as alert:
        daemon.wait()
        daemon.send("status", **STATUS)
        daemon.loss()

        for _ in range(30):
            daemon.state(saturated=0.75)
        assert "75% of the units of layer 0 (gru)" in alert.until("saturated")["text"]
        for _ in range(30):
            daemon.state(saturated=0.0)
        alert.until("saturated", "over")
        for share, state in (0.75, "began"), (0.0, "over"):
            for _ in range(30):
                daemon.state(dormant=share)
            text = alert.until("dormant", state)["text"]
            assert "% of the units of layer 0 (gru) are dormant" in text or state == "over", text
        daemon.send("event", kind="stale", text="the network learns less: set learning.optimizer.pull")
        assert "set learning.optimizer.pull" in alert.until("stale")["text"]

        for _ in range(30):
            daemon.state(std=1e-5)
        assert "have the same value" in alert.until("dead")["text"]
        daemon.state()
        alert.until("dead", "over")

        for _ in range(5):
            daemon.loss(rejected=3, rejected_by={"x_size": 3})
        rejected = alert.until("rejected")
        assert rejected["value"] == 3 and "x_size 3" in rejected["text"], rejected
        daemon.loss(rejected=3, loss=None, mean=None)
        assert "loss is not finite" in alert.until("non-finite")["text"]
        alert.until("rejected", "over")
        alert.until("non-finite", "over")

        for waiting in 30.5, 40.5, 0.0, 0.0:
            daemon.send("status", **{**STATUS, "journal": {**JOURNAL, "waiting": waiting}})
        assert alert.until("journal")["value"] == 30.5
        alert.until("journal", "over")
        for free in 10**8, 10**8, 10**12:
            daemon.send("status", **{**STATUS, "journal": {**JOURNAL, "free_bytes": free}})
        assert "100 MB" in alert.until("disk")["text"]
        alert.until("disk", "over")
        daemon.send("status", **{**STATUS, "journal": {**JOURNAL, "missing": 7}})
        assert alert.until("gap")["value"] == 7
        daemon.send("event", kind="input_scale", text="3 inputs are out of scale", count=3)
        scale = alert.until("input_scale")
        assert scale["value"] == 3 and "3 inputs are out of scale" in scale["text"], scale
        for recent in None, 0.2, -0.125, -0.25, 0.0, 0.05:
            daemon.loss(baseline=1.0, skill=0.5, skill_recent=recent)
        worse = alert.until("worse_than_baseline")
        assert (worse["value"], worse["limit"]) == (-0.125, 0) and "-0.125" in worse["text"], worse
        alert.until("worse_than_baseline", "over")

        alert.until("silence")
        daemon.run = "00000000000000bb"
        daemon.send("status", **STATUS)
        alert.until("silence", "over")
        assert "ended unexpectedly" in alert.until("restart")["text"]
        alert.end()
        for kind in "saturated", "dormant", "stale", "dead", "rejected", "journal", "disk", "gap", \
                "restart", "worse_than_baseline":
            assert alert.count(kind) == 1, (kind, alert.alerts)
        assert alert.count("page-hinkley") == alert.count("adwin") == alert.count("rising") == 0
        # On a busy machine silence may be reported before the name is known.
        assert all(one["endpoint"] == daemon.endpoint and (
            one["daemon"] == "host" or one["kind"] == "silence") for one in alert.alerts)
    daemon.close()


def test_members(directory):
    """Checks the layers of each network separately, and names the network."""
    daemon = Publisher(directory)
    with Alert(directory, "-c", daemon.endpoint, "--interval=1") as alert:
        daemon.wait()
        daemon.send("status", **STATUS)
        for i in range(30):
            layers = [[{"kind": "gru", "size": 8, "hidden": dict(UNITS, norm=i, saturated=share)}]
                      for share in [0.0, 0.75]]
            daemon.send("state", layers=layers[0],
                        members={"change": {"layers": layers[0]}, "level": {"layers": layers[1]}})
        text = alert.until("saturated")["text"]
        assert "75% of the units of layer 1 (gru of level)" in text, text
        alert.end()


def recording(path, losses, topic="loss", **fields):
    """Writes a recording in the format of runnel-watch --json, one message per second."""
    with open(path, "w", encoding="utf-8") as file:
        for i, loss in enumerate(losses):
            body = {"topic": topic, "run": "00000000000000aa", "sequence": i + 1,
                    "examples": 10 * (i + 1), "steps": 10 * (i + 1), "time": 1767225600 + i,
                    **LOSS, "loss": loss, "mean": loss, **fields}
            file.write(json.dumps(body) + "\n")
    return path


def replay(path, *arguments):
    done = subprocess.run([PROGRAM, "--json", "--replay", path, *arguments], check=True,
                          stdout=subprocess.PIPE, text=True, timeout=LIMIT)
    return [json.loads(line) for line in done.stdout.splitlines()]


def noisy(level, count, seed):
    source = random.Random(seed)
    return [level * sum(source.gauss(0, 1) ** 2 for _ in range(10)) / 10 for _ in range(count)]


def test_drift(directory):
    """Both tests find both rises, report each once, and report the ends."""
    quiet, high = noisy(0.01, 400, 1), noisy(0.1, 30, 2)
    path = recording(pathlib.Path(directory, "drift"), quiet + high + quiet + high + quiet)
    alerts = replay(path)
    for kind in "page-hinkley", "adwin":
        examples = [(one["state"], one["examples"]) for one in alerts if one["kind"] == kind]
        assert [state for state, _ in examples] == ["began", "over"] * 2, examples
        for (_, found), change in zip(examples[::2], (4000, 8300)):
            assert change < found <= change + 200, examples
    # Now the minimum time between two alerts is longer than the recording: one alert each.
    patient = replay(path, "--interval=10000")
    assert sum(one["state"] == "began" for one in patient) == 2, patient
    # The loss rises slowly and continuously, without a step.
    rising = [loss * (1 + i / 200) for i, loss in enumerate(noisy(0.01, 400, 3))]
    alerts = replay(recording(pathlib.Path(directory, "rising"), rising), "--only=rising")
    assert [one["state"] for one in alerts] == ["began"], alerts
    # A new run or a reset restarts the detectors; an event with fewer examples does not.
    with open(path, "a+", encoding="utf-8") as file:
        file.seek(0)
        lines = file.read().splitlines()
    newest = json.loads(lines[399])
    for topic, began in ("event", 2), ("status", 1):
        odd = {**newest, "topic": topic, "kind": "checkpoint", "text": "of 90", "examples": 90}
        mixed = pathlib.Path(directory, "mixed")
        mixed.write_text("\n".join(lines[:400] + [json.dumps(odd)] + lines[400:]), encoding="utf-8")
        found = [one for one in replay(mixed, "--only=adwin") if one["state"] == "began"]
        assert len(found) == began, (topic, found)
    # The queue remains long.
    waits = replay(recording(pathlib.Path(directory, "queue"), noisy(1, 60, 4), queued=250))
    assert [(one["kind"], one["value"]) for one in waits] == [("queue", 250)], waits
    # A normal recording.
    assert not replay(recording(pathlib.Path(directory, "quiet"), noisy(0.01, 2000, 5)))


def test_noiseless(directory):
    """A loss near 0 varies over powers of ten; this is not an alert."""
    source, log, losses = random.Random(6), -9.0, [0.8 ** i for i in range(40)]
    for _ in range(3000):
        log += 0.2 * source.gauss(0, 1) - 0.02 * (log + 9)
        losses.append(math.exp(log))
    path = recording(pathlib.Path(directory, "noiseless"), losses)
    drifts = "--only=page-hinkley,adwin,rising"
    assert not replay(path, drifts)
    assert len(replay(path, drifts, "--floor=1e-6")) > 10
    path = recording(pathlib.Path(directory, "changed"), losses + [0.5 * 0.95 ** i for i in range(200)])
    began = {one["kind"]: one["examples"] for one in replay(path, "--only=page-hinkley,adwin")
             if one["state"] == "began"}
    assert set(began) == {"page-hinkley", "adwin"}, began
    assert all(30400 < example <= 30600 for example in began.values()), began


def test_reminder(directory):
    """--again repeats an alert that has not ended."""
    path = recording(pathlib.Path(directory, "queue"), noisy(1, 100, 4), queued=250)
    alerts = replay(path, "--again=30", "--only=queue")
    assert [one["state"] for one in alerts] == ["began", "still", "still"], alerts


def test_held_back(directory):
    """Alerts within --interval are counted and reported after it, or at the end of the program."""
    path = pathlib.Path(directory, "queue")
    busy, idle = ([250] * 30, [0] * 30)
    queued = (busy + idle) * 5 + [0] * 300
    recording(path, noisy(1, len(queued), 4))
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("\n".join(json.dumps({**line, "queued": count})
                              for line, count in zip(lines, queued)), encoding="utf-8")
    def states(*arguments):
        return [(one["state"], one["times"]) for one in replay(path, "--only=queue", *arguments)]
    assert states("--interval=1") == [("began", 1), ("over", 0)] * 5
    # The others are reported after the interval, but none of the later ones.
    assert states("--interval=400") == [("began", 1), ("over", 0), ("passed", 4)]
    alerts = replay(path, "--only=queue", "--interval=400")
    assert alerts[2]["time"] >= alerts[0]["time"] + 400 and alerts[2]["since"] < alerts[2]["time"], alerts
    # The recording ends before the interval.
    assert states("--interval=10000") == [("began", 1), ("over", 0), ("passed", 4)]
    done = subprocess.run([PROGRAM, "--replay", path, "--only=queue", "--interval=10000"], text=True,
                          check=True, stdout=subprocess.PIPE, timeout=LIMIT)
    assert re.search("passed .* queue: .*; 4 times since it was reported\n$", done.stdout), done.stdout
    # A problem that continues begins after the interval.
    assert states("--interval=150") == [("began", 1), ("over", 0), ("began", 2), ("over", 0),
                                        ("passed", 2)]


def test_data_time(directory):
    """A year replayed within a minute gives the alerts of a year, each with its data time. Without data time
    only the clock counts, also if data time stops or decreases."""
    year, spans = 365 * 86400, 12
    begin = 1388534400  # 2014-01-01
    path = pathlib.Path(directory, "year")

    def states(times, *arguments):
        """A message covers a tenth of a second; the middle of each span contains skipped updates."""
        lines = []
        for i, at in enumerate(times):
            body = {"topic": "loss", "run": "00000000000000aa", "sequence": i + 1, "examples": i + 1,
                    "steps": i + 1, "time": 1767225600 + i / 10, **LOSS,
                    "skipped": (i + len(times) // (2 * spans)) // (len(times) // spans)}
            lines.append(json.dumps(body | ({} if at is None else {"data_time": at})))
        path.write_text("\n".join(lines), encoding="utf-8")
        return replay(path, "--only=non-finite", *arguments)

    count = 600
    alerts = states([begin + year * i / count for i in range(count)], "--interval=3600")
    began = [one for one in alerts if one["state"] == "began"]
    assert len(began) == spans and sum(one["state"] == "over" for one in alerts) == spans, alerts
    for n, one in enumerate(began):
        assert one["data_time"] == one["data_since"] == begin + year * (n + 0.5) / spans, (n, one)
    for times in [None] * count, [begin] * count, [begin - i for i in range(count)]:
        still = states(times, "--interval=3600")
        assert [one["state"] for one in still] == ["began"], still
        assert still[0]["data_time"] == times[count // (2 * spans)], still
    states([begin + 30 * i for i in range(count)])
    lines = subprocess.run([PROGRAM, "--replay", path, "--only=non-finite"], check=True, text=True,
                           env={**os.environ, "TZ": "UTC"}, stdout=subprocess.PIPE, timeout=LIMIT).stdout
    assert "(at example 26, in data of 2014-01-01 00:12:30)" in lines, lines


def abnormal(stream="taxi", data_time=1420068600, score=2.5, **fields):
    """An event `anomaly`."""
    columns = [{"column": 0, "score": score, "forecast": 10.5, "truth": 25.0}]
    return {"kind": "anomaly", "text": f"stream '{stream}' is abnormal", "stream": stream, "example": 100,
            "data_time": data_time, "reason": "novelty", "score": score, "threshold": 1.5,
            "columns": columns, **fields}


def test_anomaly(directory):
    """Each anomaly of a daemon without incidents is reported with its score, once within the interval of its
    data time."""
    daemon = Publisher(directory)
    hour, begin = 3600, 1420068600
    with Alert(directory, "-c", daemon.endpoint, f"--interval={hour}", "--silence=0") as alert:
        daemon.wait()
        daemon.send("event", **abnormal(note="line\x1b[1m 7"))
        first = alert.until("anomaly")
        assert first["note"] == "line [1m 7", first
        assert (first["stream"], first["value"], first["limit"]) == ("taxi", 2.5, 1.5), first
        assert first["data_time"] == first["data_since"] == begin, first
        assert first["text"] == "stream 'taxi' is abnormal" and first["times"] == 1, first
        # Reported: another stream with older data and one after the interval, but none within it.
        daemon.send("event", **abnormal("cpu", begin - 10 * hour))
        daemon.send("event", **abnormal(data_time=begin + hour / 4, score=2))
        daemon.send("event", **abnormal(data_time=begin + 2 * hour, score=3))
        later = alert.until("anomaly", count=3)
        assert (later["value"], later["times"], later["data_since"]) == (3, 2, begin + 2 * hour), later
        daemon.send("event", **abnormal(data_time=begin + 2.5 * hour, score=4))
        daemon.send("event", kind="gap", text="1 example is missing, of stream 'cpu'", stream="cpu", count=1)
        assert alert.until("gap")["stream"] == "cpu"
        daemon.send("event", kind="anomaly", text=7, stream=[], columns={}, data_time="now")
        assert alert.until("anomaly", count=4)["value"] is None
        for i in range(1000):
            daemon.send("event", **abnormal(f"s{i}", None))
        alert.until("anomaly", count=1004)
        alert.end()
    assert {one["data_time"] for one in alert.alerts if one["stream"] and one["stream"].startswith("s")} == {None}
    held = [one for one in alert.alerts if one["state"] == "passed"]
    assert [(one["stream"], one["value"], one["data_time"]) for one in held] == [
        ("taxi", 4, begin + 2.5 * hour)], held
    daemon.close()


def incident(number, stream="host-3", ended=None, begin=1420068600, **fields):
    """An event `incident`."""
    end = None if ended is None else {"example": number + 56, "data_time": begin + ended}
    return {"kind": "incident", "state": "began" if end is None else "ended", "incident": number, "stream": stream,
            "text": f"incident {number} of '{stream}'{' ended' if end else ''}", "streams": [stream], "group": None,
            "begin": {"example": number, "data_time": begin}, "end": end, "alarms": 1, "columns": [],
            "peak": {"example": number + 6, "data_time": begin, "score": 3.5 if end else 2.5, "reason": "level"},
            "silenced": False, **fields}


def write_events(path, *events):
    """Writes a recording of events, one a second. An event may name its run."""
    with open(path, "w", encoding="utf-8") as file:
        for i, event in enumerate(events):
            file.write(json.dumps({"topic": "event", "run": "00000000000000aa", "sequence": i + 1, "examples": i,
                                   "steps": i, "time": 1767225600 + i, **event}) + "\n")


def seen(alerts):
    return [(one["kind"], one["state"], one["stream"]) for one in alerts]


def test_incidents(directory):
    """An incident holds from its begin to its end: its alarms are not reported, and one whose begin was not seen
    does not end."""
    path, begin = pathlib.Path(directory, "incidents"), 1420068600
    columns = [{"column": 0, "name": "oil", "share": 0.5}, {"column": 1, "share": 0.25},
               {"column": 2, "name": "temp", "share": 0.125}]
    write_events(path, incident(50, "host-9", ended=60), incident(100), abnormal("host-3"), abnormal("host-4"),
                 abnormal("host-3"), incident(100), incident(100, ended=900, columns=columns))
    alerts = replay(path)
    assert seen(alerts) == [("anomaly", state, stream) for state, stream in [
        ("began", "host-3"), ("began", "host-4"), ("over", "host-3")]], alerts
    began, over = alerts[0], alerts[2]
    assert (began["value"], over["value"]) == (2.5, 3.5), alerts
    assert began["text"] == "incident 100 of 'host-3'; peak 2.5", began
    assert over["text"] == ("incident 100 of 'host-3' ended; oil 0.5, x[1] 0.25, temp 0.12; peak 3.5; "
                            "it lasted 15 min"), over
    assert over["since"] == began["since"], over
    assert (began["data_since"], over["data_since"], over["data_time"]) == (begin, begin, begin + 900), alerts
    # --again repeats it, and a second one within the interval waits.
    write_events(path, incident(100), incident(100, ended=1), incident(300, begin=begin + 20),
                 *[{"kind": "set", "text": "a key was set"}] * 80, incident(300, ended=500))
    alerts = replay(path, "--again=30", "--only=anomaly")
    assert [(one["state"], one["time"] - 1767225600) for one in alerts] == [
        ("began", 0), ("over", 1), ("began", 60), ("over", 83)], alerts
    alerts = replay(path, "--again=10", "--only=anomaly")
    assert [one["state"] for one in alerts] == ["began", "over", "began", "still", "still", "over"], alerts
    # Commands unlearn incidents.
    write_events(path, incident(100), incident(200, "host-4"), incident(300, "host-5"),
                 {"kind": "abnormal", "stream": "host-4", "text": "marked as abnormal"},
                 {"kind": "reset", "member": "gru", "text": "reset of a member"}, {"kind": "reset", "text": "reset"})
    alerts = replay(path, "--only=anomaly")
    assert [one["stream"] for one in alerts] == ["host-3", "host-4", "host-5", "host-4", "host-3", "host-5"], alerts
    assert {(one["text"], one["state"]) for one in alerts[3:]} == {
        ("marked as abnormal", "over"), ("reset", "over")}, alerts
    # The end of the first was lost.
    write_events(path, incident(100), incident(300, begin=begin + 1000), incident(300, ended=1, begin=begin + 1000))
    assert seen(replay(path)) == [("anomaly", state, "host-3") for state in ("began", "began", "over")]


def test_grouped_incidents(directory):
    """The streams of a group have one incident. A stream without data is reported anyway."""
    path = pathlib.Path(directory, "incidents")
    silent = abnormal("web-1", reason="silent", score=None, threshold=None, columns=[])
    write_events(path, incident(100, "web-1", group="web-"), abnormal("web-1"), abnormal("web-2"), abnormal("db-1"),
                 incident(200, "db-2"), abnormal("db-22"), silent, incident(100, "web-1", ended=7, group="web-"),
                 abnormal("web-2"))
    assert seen(replay(path)) == [("anomaly", state, stream) for state, stream in [
        ("began", "web-1"), ("began", "db-1"), ("began", "db-2"), ("began", "db-22"), ("began", "web-1"),
        ("over", "web-1"), ("began", "web-2")]], replay(path)


def test_silenced_incidents(directory):
    """A silenced incident is not reported, unless it lasts longer than the silence. One that was reported before
    the silence ends."""
    path = pathlib.Path(directory, "incidents")
    write_events(path, incident(100, silenced=True), abnormal("host-3", silenced=True),
                 incident(100, ended=5, silenced=True))
    assert not replay(path), replay(path)
    write_events(path, incident(100, silenced=True), incident(100), incident(100, ended=5, silenced=True))
    assert [one["state"] for one in replay(path)] == ["began", "over"], replay(path)


def test_an_incident_survives_a_restart(directory):
    """A restart of the daemon does not end an incident, whose end has the same time of its beginning. One whose end
    was lost is over when none is open."""
    daemon = Publisher(directory)
    with Alert(directory, "-c", daemon.endpoint, "--silence=0") as alert:
        daemon.wait()
        for number in 100, 101:
            daemon.send("event", **incident(number, f"host-{number}"))
        began = alert.until("anomaly", count=2) and alert.until("anomaly")
        daemon.run = "00000000000000bb"
        daemon.send("event", kind="resumed", text="resumed from a checkpoint")
        alert.until("restart")
        daemon.send("event", **incident(100, "host-100"))
        daemon.send("event", **abnormal("host-100"))
        daemon.send("event", **incident(100, "host-100", ended=60))
        over = alert.until("anomaly", "over")
        assert over["since"] == began["since"] and over["run"] == daemon.run, (began, over)
        daemon.loss(anomaly={"open": 1})
        daemon.loss(anomaly={"open": 0})
        assert alert.until("anomaly", "over", count=2)["stream"] == "host-101"
        alert.end()
        assert seen(alert.alerts) == [("anomaly", "began", "host-100"), ("anomaly", "began", "host-101"),
                                      ("restart", "began", None), ("anomaly", "over", "host-100"),
                                      ("anomaly", "over", "host-101")], alert.alerts
    daemon.close()


def test_a_note_is_shown(directory):
    """The line of an alarm and the command's environment contain the note, without control characters."""
    path = pathlib.Path(directory, "alarms")
    body = {"topic": "event", "run": "00000000000000aa", "sequence": 1, "examples": 1, "steps": 1, "time": 1767225600,
            **abnormal(note="disk\x1b[2J full `id`")}
    path.write_text(json.dumps(body), encoding="utf-8")
    call = [PROGRAM, "--replay", path, "--only=anomaly"]
    lines = subprocess.run(call, check=True, text=True, stdout=subprocess.PIPE, timeout=LIMIT).stdout
    assert "stream 'taxi' is abnormal; \"disk [2J full `id`\" (" in lines, lines
    done = subprocess.run([*call, "--quiet", "--", "sh", "-c", f'printf %s "$RUNNEL_ALERT_NOTE" >{directory}/note'],
                          check=True, timeout=LIMIT)
    assert done.returncode == 0 and pathlib.Path(directory, "note").read_text(encoding="utf-8") == "disk [2J full `id`"


def test_held_back_live(directory):
    """A pending alert is reported without another message; `since` is the same at its beginning and end."""
    daemon = Publisher(directory)
    with Alert(directory, "-c", daemon.endpoint, "--interval=3", "--silence=0") as alert:
        daemon.wait()
        daemon.loss()
        for run in "bb", "cc", "dd":
            daemon.run = run
            daemon.send("status", **STATUS)
        alert.until("restart")
        def restarts():
            return sum(one["times"] for one in alert.alerts if one["kind"] == "restart")
        with alert.changed:
            assert alert.changed.wait_for(lambda: restarts() == 3, LIMIT), alert.alerts
        for free in 10**8, 10**12, 10**8:
            daemon.send("status", **{**STATUS, "journal": {**JOURNAL, "free_bytes": free}})
        began, over = alert.until("disk"), alert.until("disk", "over")
        assert began["since"] == over["since"], (began, over)
        alert.end()
    daemon.close()


NASTY = "host'; touch \"$(touch pwned)\" `touch pwned` ; #"


def lives(process):
    try:
        text = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return text.rsplit(")", 1)[1].split()[0] not in "ZX"


def test_command(directory):
    """The command gets the alert as JSON and in its environment, and executes nothing of its text."""
    directory = pathlib.Path(directory)
    (directory / "work").mkdir()
    command = [sys.executable, "-c", "import json, os, sys; json.dump([json.load(sys.stdin), "
               "{k: v for k, v in os.environ.items() if k.startswith('RUNNEL_')}], "
               "open('got', 'w'))"]
    path = recording(directory / "queue", noisy(1, 60, 4), queued=250)
    with open(path, encoding="utf-8") as file:
        lines = [json.dumps({**STATUS, "topic": "status", "run": "00000000000000aa", "examples": 0,
                             "time": 1767225599, "name": NASTY})] + file.read().splitlines()
    path.write_text("\n".join(lines), encoding="utf-8")
    subprocess.run([PROGRAM, "--replay", path, "--quiet", "--", *command], check=True,
                   cwd=directory / "work", timeout=LIMIT,
                   env={**os.environ, "RUNNEL_ALERT_KIND": "forged"})
    assert os.listdir(directory / "work") == ["got"]
    alert, environment = json.loads((directory / "work" / "got").read_text(encoding="utf-8"))
    assert alert["kind"] == "queue" and alert["daemon"] == NASTY, alert
    for key, value in alert.items():
        text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
        found = environment["RUNNEL_ALERT_" + key.upper()]
        assert found == text or float(found) == value, (key, found)

    def complaint(*words, seconds=30):
        done = subprocess.run([PROGRAM, "--replay", path, f"--timeout={seconds}", *words],
                              timeout=LIMIT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              text=True)
        return done.returncode, done.stderr
    assert "exit status 3" in complaint("sh", "-c", "exit 3")[1]
    assert "did not end within 1 s" in complaint("sh", "-c", "sleep 1000 & wait", seconds=1)[1]
    # Processes that ignore signals are ended, too.
    script, number = directory / "stubborn.sh", directory / "number"
    script.write_text(f"trap '' TERM; echo $$ > {number}; while :; do sleep 1; done\n", encoding="utf-8")
    for seconds in 1, 5, 25:  # on a machine that is busy it may be ended before it can refuse
        complaint("sh", "-c", f"sh {script} & wait", seconds=seconds)
        if number.exists() and number.read_text(encoding="ascii"):
            break
    deadline = time.monotonic() + LIMIT
    while lives(int(number.read_text(encoding="ascii"))):
        assert time.monotonic() < deadline, "the process has not ended"
        time.sleep(0.05)
    # The parent may have set SIGCHLD to be ignored.
    done = subprocess.run([PROGRAM, "--replay", path, "--", "sh", "-c", "exit 3"], check=True, text=True,
                          capture_output=True, timeout=LIMIT,
                          preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert "exit status 3" in done.stderr, done.stderr
    status, text = complaint("no-such-program")
    assert status == 64 and "no-such-program" in text, text


class Hook(http.server.BaseHTTPRequestHandler):
    """An HTTP server that fails once and then accepts."""
    got, failures = [], 1

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        failing, Hook.failures = Hook.failures > 0, Hook.failures - 1
        if not failing:
            Hook.got.append((self.path, self.headers["Content-Type"], body))
        self.send_response(503 if failing else 200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_post(directory):
    """Uses a live daemon, so that there is time for a second try; the URL is in a file."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = pathlib.Path(directory, "url")
    url.write_text(f"http://127.0.0.1:{server.server_port}/hook?secret=1\n", encoding="utf-8")
    os.environ["no_proxy"] = "127.0.0.1"
    daemon = Publisher(directory)
    with Alert(directory, "-c", daemon.endpoint, f"--post=@{url}", "--timeout=20") as alert:
        daemon.wait()
        daemon.loss()
        daemon.send("status", rejected=1)  # no loss comes where all are rejected
        alerts = alert.until("rejected")
        deadline = time.monotonic() + LIMIT
        while not Hook.got:
            assert time.monotonic() < deadline, alert.text()
            time.sleep(0.05)
        assert Hook.got == [("/hook?secret=1", "application/json", alerts)], Hook.got
        server.shutdown()
        server.server_close()
        daemon.loss(rejected=1, skipped=5)
        alert.until("non-finite")
        alert.end()
        errors = alert.text()
        assert "not delivered" in errors and "5 updates" in errors, errors
        assert "secret" not in errors
    daemon.close()


CONFIG = """
name: drifting
device: cpu
model:
  input: {{kind: real, size: 4}}
  layers: [{{cell: dense, size: 32, norm: none, activation: tanh}}]
  output: {{loss: squared, size: 1, target: given}}
learning: {{window: 4, stride: 4, optimizer: {{kind: adam, rate: 0.003}}, clip: 1.0}}
examples: {{bind: "ipc://{0}/examples"}}
statistics: {{bind: "ipc://{0}/statistics", every: 10}}
control: {{bind: "ipc://{0}/control"}}
state: {{directory: "{0}/state"}}
"""


def test_daemon(directory):
    """Drift of a real daemon while a second one is killed."""
    other = Publisher(directory, "other")
    with running.Daemon(directory, CONFIG.format(directory)) as daemon, \
            Alert(directory, "-c", daemon.endpoint("statistics"), "-c", other.endpoint,
                  "--interval=0", "--silence=20") as alert:
        other.wait()
        other.send("status", **STATUS)
        # Rejected examples are events: waits until one arrives.
        with daemon.socket(zmq.PUSH, "examples") as socket:
            deadline = time.monotonic() + LIMIT
            while not alert.count("rejected"):
                assert time.monotonic() < deadline, alert.text()
                socket.send(b"no example")
                time.sleep(0.2)
        subprocess.run([BUILD / "runnel-feed", "synth", "drift", "--noise", "0.1", "--change", "2500",
                        "--seed", "5", "--count", "7500", "--connect", daemon.endpoint("examples")],
                       check=True, stderr=subprocess.DEVNULL, timeout=LIMIT)
        for kind in "page-hinkley", "adwin":
            for count, change in enumerate((2500, 5000), 1):
                found = alert.until(kind, count=count)
                assert change < found["examples"] <= change + 2000, found
                assert found["daemon"] == "drifting", found
        daemon.process.kill()
        daemon.process.wait()
        daemon.start()
        assert "ended unexpectedly" in alert.until("restart")["text"]
        other.loss()
        other.loss(skipped=1)
        assert alert.until("non-finite")["daemon"] == "host", alert.alerts
        alert.end()
    other.close()


def test_usage(_):
    for words in (["--only=nothing"], ["--post=ftp://x/"], ["--adwin=2"], ["--page-hinkley=1,x"],
                  ["--replay=x", "--connect=ipc://x"], ["--connect=nowhere"],
                  ["-c", "ipc:///tmp/x", "-c", "ipc:///tmp/x"]):
        done = subprocess.run([PROGRAM, *words], stderr=subprocess.PIPE, text=True, timeout=LIMIT)
        assert done.returncode == 64 and done.stderr, (words, done)
    assert subprocess.run([PROGRAM, "--replay=/no/such"], stderr=subprocess.DEVNULL,
                          timeout=LIMIT).returncode == 66
    # A signal ends the replay of a pipe.
    with subprocess.Popen([PROGRAM, "--replay=-"], stdin=subprocess.PIPE, text=True,
                          stdout=subprocess.PIPE) as process:
        for rejected in 0, 1:
            message = {"topic": "loss", "run": "aa", "examples": 1, "time": 1, "rejected": rejected}
            process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        assert "1 message was rejected" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT) == 0


cases.run(globals())
