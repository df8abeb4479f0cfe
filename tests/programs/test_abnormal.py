#!/usr/bin/env python3
"""Tests runnel-ctl abnormal, which unlearns the examples of a stream at an alarm. The daemon then equals, bit
for bit, one that never received them, even after a kill."""
import json
import math
import os
import pathlib
import signal
import struct
import subprocess
import time

import cases
import recovery
import running
from recovery import DUPLICATE
from running import Daemon

BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
BEGIN = 1577836800.0  # midnight, UTC
SHIFT = range(600, 620)  # a sensor knocked out of place, of two streams' examples as they alternate
OLDER, NEWER, TOLD, ROWS = 400, 700, 760, 1000
KEEP = "journal: {keep: all}"


def configuration(directory, journal=KEEP, model="", anomaly="{enabled: true, memory: 400}"):
    model = model or """
model:
  input: {kind: real, size: 1, scale: standard}
  layers: [{cell: gru, size: 6}]
  output: {loss: squared, size: 1, target: next}
learning: {window: 4, stride: 4, clip: 1}"""
    return f"""
name: abnormal
device: cpu
{model}
anomaly: {anomaly}
examples: {{bind: "ipc://{directory}/examples", socket: router, steps: many}}
statistics: {{bind: "ipc://{directory}/statistics", every: 100, predictions: true}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 0, seconds: 0}}, {journal}}}
"""


def row(n, x, timed=True, flags=0):
    """The time of example n. Streams s and t alternate; examples of one stream are 5 minutes apart."""
    header = struct.pack("<BBHIQd", 1, flags, 0, 0, n // 2 + 1, time_of(n) if timed else 0)
    return [b"st"[n % 2:n % 2 + 1], struct.pack(f"<{len(x)}f", *x), b"", header]


def time_of(n):
    return BEGIN + 300 * (n // 2)


def rows(timed=True, steps=1, count=ROWS):
    """A wave with deterministic noise; stream s has another level for some time."""
    found, state = [], 12345
    for n in range(count):
        x = []
        for t in range(steps):
            state = (1103515245 * state + 12345) % 2**31
            wave = math.sin(2 * math.pi * ((n // 2) * steps + t) / 24) + 0.2 * (state / 2**31 - 0.5)
            x.append(wave + (3 if n in SHIFT and n % 2 == 0 else 0))
        found.append(row(n, x, timed))
    return found


def feed(daemon, messages):
    """With two checkpoints; the abnormal examples are in the newer one."""
    for begin, end in (0, OLDER), (OLDER, NEWER), (NEWER, len(messages)):
        recovery.feed(daemon, messages[begin:end])
        if end < len(messages):
            daemon.ask("checkpoint")


def fed(daemon, messages):
    """The predictions and scores for these messages."""
    with running.subscribe(daemon) as subscriber:
        recovery.feed(daemon, messages)
        found = running.predictions(daemon, subscriber, len(messages))
    return [(m["stream"], m["example"], m["prediction"], m.get("anomaly")) for m in found]


def killed(daemon):
    daemon.end(signal.SIGKILL)
    daemon.log.close()
    daemon.start()
    daemon.ask("status")


def never(directory, messages, rest, **options):
    """Exports and predictions of a daemon that received only these messages."""
    place = directory / "never"
    place.mkdir()
    with Daemon(place, configuration(place, **options)) as daemon:
        daemon.ask("status")
        recovery.feed(daemon, messages)
        exported = daemon.export()
        found = fed(daemon, rest)
        return exported, found, daemon.export(), daemon.ask("status")["steps"]


def taken_back(directory, given, request, leaves, before=lambda daemon: None, **options):
    """Checks that the examples `leaves` are unlearned: now, after a kill, and in later predictions. Returns
    the reply."""
    learned, rest = given[:TOLD], given[TOLD:]
    wanted = never(directory, [m for n, m in enumerate(learned) if n not in leaves], rest, **options)
    with Daemon(directory, configuration(directory, **options)) as daemon:
        daemon.ask("status")
        feed(daemon, learned)
        before(daemon)
        poisoned = daemon.export()
        reply = daemon.ask("abnormal", **request)
        assert daemon.export() == wanted[0] != poisoned
        killed(daemon)
        assert daemon.export() == wanted[0]
        # The examples remain known as duplicates.
        recovery.feed(daemon, [learned[n] for n in leaves], DUPLICATE)
        assert fed(daemon, rest) == wanted[1]
        killed(daemon)
        assert daemon.export() == wanted[2] and daemon.ask("status")["steps"] == wanted[3]
        assert daemon.end() == 0
    return reply


def of_s(first, count):
    """The numbers of `count` examples of s."""
    return range(first, first + 2 * count, 2)


def test_the_newest_alarm_with_what_followed(directory):
    """32 examples of its stream are unlearned; those of the other stream remain."""
    reply = taken_back(directory, rows(), {"stream": "s"}, of_s(600, 32))
    assert (reply["left_out"], reply["commands_left_out"]) == (32, 0), reply
    assert reply["stream"] == "s" and reply["data_time"] == time_of(600) and reply["score"] >= 1.5, reply
    assert (reply["from"], reply["to"]) == (time_of(600), time_of(662)), reply
    assert (reply["first"], reply["restored"], reply["examples"]) == (601, 400, TOLD - 32), reply


def test_a_given_count(directory):
    reply = taken_back(directory, rows(), {"stream": "s", "at": time_of(600) + 0.4, "count": 10}, of_s(600, 10))
    assert reply["left_out"] == 10 and reply["to"] == time_of(618), reply


def test_up_to_a_time(directory):
    reply = taken_back(directory, rows(), {"stream": "s", "to": time_of(622)}, of_s(600, 12))
    assert reply["left_out"] == 12 and reply["to"] == time_of(622), reply


def test_from_a_time_without_an_alarm(directory):
    """A given time span needs no alarm."""
    reply = taken_back(directory, rows(), {"stream": "t", "from": time_of(581), "to": time_of(599) + 0.5},
                       [n + 1 for n in of_s(580, 10)], anomaly="{enabled: false}")
    assert reply["left_out"] == 10 and reply["data_time"] is None and reply["score"] is None, reply


def test_data_without_times_and_of_several_steps(directory):
    """The alarm is found by the number of later steps, also after another rollback."""
    reply = taken_back(directory, rows(timed=False, steps=3), {"stream": "s"},
                       sorted([*of_s(600, 32), *of_s(700, 10)]),
                       lambda daemon: daemon.ask("rollback", spans=[[701, 720, "s"]]))
    assert reply["left_out"] == 32 and reply["data_time"] is None and reply["from"] is None, reply


def test_event_and_command(directory):
    """The daemon sends an event, and runnel-ctl has a dry run."""
    with Daemon(directory, configuration(directory)) as daemon:
        daemon.ask("status")
        feed(daemon, rows()[:TOLD])
        before = daemon.export()

        def ctl(*arguments):
            done = subprocess.run([BUILD / "runnel-ctl", "-c", daemon.endpoint("control"), "abnormal", *arguments],
                                  check=False, capture_output=True, text=True, env={**os.environ, "TZ": "UTC"})
            return done.returncode, done.stdout, done.stderr

        time_span = "of data from 2020-01-02 01:00:00 to 2020-01-02 03:35:00"
        assert ctl("s", "--dry-run") == (0, f"dry run: would be abnormal: stream 's', 32 examples {time_span}; the "
                                            "daemon would return to the state after entry 400\n", "")
        assert daemon.export() == before
        with running.subscribe(daemon, (b"event",)) as subscriber:
            status, out, err = ctl("s", "--at", f"@{time_of(600)}")
            assert (status, err) == (0, ""), (out, err)
            assert out.startswith(f"abnormal: stream 's', 32 examples {time_span}; returned to the state "
                                  f"after entry 400 and relearned {TOLD - 400 - 32} entries in "), out
            event = {}
            while event.get("kind") != "abnormal":
                event = json.loads(daemon.next_message(subscriber)[1])
        assert "32 examples of stream 's', 2020-01-0" in event["text"], event
        for name, value in ("stream", "s"), ("left_out", 32), ("from", time_of(600)), ("to", time_of(662)):
            assert event[name] == value, event
        # This alarm was unlearned.
        status, out, err = ctl("s", "--at", f"@{time_of(600)}")
        assert (status, out) == (70, "") and "no alarm of novelty" in err and "(from, to)" in err, err
        assert daemon.end() == 0


def test_labels_are_not_taken_back(directory):
    """A label for an earlier example may be in the span; a label for an unlearned example has no effect."""
    model = """
model:
  input: {kind: real, size: 1}
  layers: [{cell: rnn, size: 4}]
  output: {loss: squared, size: 1, target: later}
learning: {window: 4, stride: 4, clip: 1}"""
    messages, late = [], 3
    for n in range(60):
        x = struct.pack("<f", math.sin(n))
        messages.append([b"s", x, b"", struct.pack("<BBHIQd", 1, 0, 0, 0, 2 * n + 1, BEGIN + n)])
        if n >= late:
            of = struct.pack("<IIQ", 0, 0, 2 * (n - late) + 1)
            messages.append([b"s", b"", struct.pack("<f", math.cos(n - late)),
                             struct.pack("<BBHIQd", 1, 8, 0, 0, 2 * n + 2, BEGIN + n), of])
    gone = [m for m in messages if not m[3][1] & 8][40:50]
    options = {"model": model, "anomaly": "{enabled: false}"}
    exported = never(directory, [m for m in messages if m not in gone], [], **options)[0]
    with Daemon(directory, configuration(directory, **options)) as daemon:
        daemon.ask("status")
        recovery.feed(daemon, messages)
        assert daemon.export() != exported
        reply = daemon.ask("abnormal", stream="s", **{"from": BEGIN + 40, "to": BEGIN + 49})
        assert reply["left_out"] == 10 and daemon.export() == exported, reply
        killed(daemon)
        assert daemon.export() == exported and daemon.end() == 0


def refused(daemon, why, **request):
    before = daemon.export()
    reply, = daemon.request("abnormal", **request)
    assert not reply["ok"] and why in reply["error"], (why, reply)
    assert daemon.export() == before


def test_rejected_unlearning(directory):
    place = directory / "kept"
    place.mkdir()
    with Daemon(place, configuration(place)) as daemon:
        daemon.ask("status")
        for request in [{}, {"stream": 7}, {"stream": "s", "at": "noon"}, {"stream": "s", "count": 0},
                        {"stream": "s", "count": 1.5}, {"stream": "s", "at": 1, "from": 1},
                        {"stream": "s", "count": 1, "to": 1}]:
            refused(daemon, "abnormal: expected a stream", **request)
        refused(daemon, "stream 's' not found in memory", stream="s")
        recovery.feed(daemon, rows()[:500])
        refused(daemon, "stream 's' has no alarm of novelty", stream="s")
        refused(daemon, "no example of stream 's' in this time span", stream="s",
                **{"from": BEGIN - 9, "to": BEGIN - 1})
        assert daemon.end() == 0
    place = directory / "short"
    place.mkdir()
    # The oldest available checkpoint is newer than the alarm.
    with Daemon(place, configuration(place, journal="journal: {}")) as daemon:
        daemon.ask("status")
        recovery.feed(daemon, rows()[:TOLD])
        daemon.ask("checkpoint")
        recovery.feed(daemon, rows()[TOLD:TOLD + 2])
        daemon.ask("checkpoint")
        begun = time.monotonic()
        while daemon.ask("status")["journal"]["entries"] > 2:  # it drops the others bit by bit
            assert time.monotonic() < begun + running.LIMIT
            time.sleep(0.01)
        refused(daemon, "state.checkpoint.keep and state.journal.keep", stream="s")
        assert daemon.end() == 0
    place = directory / "none"
    place.mkdir()
    config = configuration(place, journal="journal: {enabled: false}").replace("router", "pull")
    with Daemon(place, config) as daemon:
        daemon.ask("status")
        refused(daemon, "requires state.journal.enabled", stream="s")
        assert daemon.end() == 0


if __name__ == "__main__":
    cases.run(globals())
