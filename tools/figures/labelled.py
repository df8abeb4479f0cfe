"""Plays labelled tables through a separate daemon with `preset: forecast`: common code of
tools/figures/nab and tools/figures/skab."""
import csv
import hashlib
import json
import pathlib
import subprocess
import tempfile
import time

import shared

import zmq
from running import Daemon

LIMIT = 600  # seconds without an example learned
SILENT_MS = 500  # time for the last messages of a daemon that has ended
REASONS = "novelty", "surprise", "level"
CONFIG = """
name: labelled
preset: forecast
model: {{input: {{size: {columns}}}}}
learning: {{max_streams: {streams}}}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", predictions: {predictions}}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, journal: {{enabled: false}}}}
"""


def halves(names):
    """All names, half A (an even md5), and half B."""
    even = {name for name in names if int(hashlib.md5(name.encode()).hexdigest(), 16) % 2 == 0}
    return {"all": set(names), "A": even, "B": set(names) - even}


def play(build, rows, sets=(), timed=True, predictions=False):
    """Learns the streams of {name: rows of (time, value...)} one after the other. Returns the
    alarms by reason: by name, {row: score}; and with `predictions` by name a list of the member
    `anomaly` of each row."""
    first, begin, columns = {}, 1, len(next(iter(rows.values()))[0]) - 1
    values, scores = [f"x{k}" for k in range(columns)], {}
    found = {reason: {} for reason in REASONS}

    def receive(subscriber, timeout):
        while subscriber.poll(timeout):
            topic, message = subscriber.recv_multipart()
            message = json.loads(message)
            if topic == b"prediction":
                scores.setdefault(message["stream"], []).append(message["anomaly"])
            elif message.get("kind") == "anomaly":
                alarms = found.setdefault(message["reason"], {}).setdefault(message["stream"], {})
                alarms[message["example"] - first[message["stream"]]] = message["score"]

    with tempfile.TemporaryDirectory(prefix="labelled-") as directory:
        table = pathlib.Path(directory, "table.csv")
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("stream", "timestamp", *values))
            for name, lines in rows.items():
                first[name] = begin
                begin += len(lines)
                writer.writerows((name, *line) for line in lines)
        config = CONFIG.format(directory=directory, streams=len(rows), columns=columns,
                               predictions="true" if predictions else "false")
        Daemon.program = shared.program(build, "runneld")
        with Daemon(directory, config, *(word for each in sets for word in ("--set", each))) as daemon:
            with daemon.socket(zmq.SUB, "statistics") as subscriber:
                subscriber.setsockopt(zmq.RCVHWM, 0)
                for topic in ("event", "prediction", "status"):
                    subscriber.subscribe(topic)
                while daemon.next_message(subscriber)[0] != b"status":  # a new subscriber gets it
                    continue
                subscriber.unsubscribe(b"status")
                with subprocess.Popen(
                        [shared.program(build, "runnel-feed"), "csv", "--stream-column=stream",
                         f"--columns={','.join(values)}", *(["--time=timestamp"] if timed else []),
                         "--quiet", "--connect", daemon.endpoint("examples"), table]):
                    wait_for(daemon, begin - 1, lambda: receive(subscriber, 0))
                daemon.end()
                receive(subscriber, SILENT_MS)
    if predictions and any(len(scores.get(name, ())) != len(rows[name]) for name in rows):
        shared.fail("predictions were lost; try again on a machine with less load")
    return found, scores


def wait_for(daemon, count, act):
    learned, changed = 0, time.monotonic()
    while learned < count:
        now = daemon.ask("status")["examples"]
        act()
        if now > learned:
            learned, changed = now, time.monotonic()
        elif time.monotonic() > changed + LIMIT:
            shared.fail(f"{learned} of {count} examples were learned, none in the last {LIMIT} s")
        time.sleep(0.05)


def together(found, reasons=REASONS):
    """Alarms of any of the reasons, each row with its largest score."""
    alarms = {}
    for reason in reasons:
        for name, rows in found[reason].items():
            mine = alarms.setdefault(name, {})
            mine.update({row: max(score, mine.get(row, 0)) for row, score in rows.items()})
    return alarms
