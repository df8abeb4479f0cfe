"""Plays labelled tables through a separate daemon with `preset: forecast`: common code of
tools/figures/nab and tools/figures/skab."""
import csv
import hashlib
import json
import pathlib
import subprocess
import tempfile

import shared

import zmq
from running import Daemon, wait_learned

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


class Received:
    """What a daemon published: `found`, its alarms by reason: by name, {row: score}; and `scores`,
    by name the member `anomaly` of the prediction of each row. Streams are learned one after the
    other: the number of an example gives its row."""

    def __init__(self, rows):
        self.found, self.scores = {reason: {} for reason in REASONS}, {name: [] for name in rows}
        self.first, self.count = {}, 0
        for name, lines in rows.items():
            self.first[name] = self.count + 1
            self.count += len(lines)

    def receive(self, subscriber):
        while subscriber.poll(SILENT_MS):
            topic, message = subscriber.recv_multipart()
            message = json.loads(message)
            if topic == b"prediction":
                self.scores[message["stream"]].append(message["anomaly"])
            elif message.get("kind") == "anomaly":
                name = message["stream"]
                alarms = self.found.setdefault(message["reason"], {}).setdefault(name, {})
                alarms[message["example"] - self.first[name]] = message["score"]


def play(build, rows, sets=(), timed=True, predictions=False):
    """Learns the streams of {name: rows of (time, value...)}; returns alarms and scores."""
    received, columns = Received(rows), len(next(iter(rows.values()))[0]) - 1
    names = [f"x{k}" for k in range(columns)]
    with tempfile.TemporaryDirectory(prefix="labelled-") as directory:
        table = pathlib.Path(directory, "table.csv")
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("stream", "timestamp", *names))
            writer.writerows((name, *row) for name, lines in rows.items() for row in lines)
        config = CONFIG.format(directory=directory, streams=len(rows), columns=columns,
                               predictions=str(predictions).lower())
        Daemon.program = shared.program(build, "runneld")
        with Daemon(directory, config, *(word for each in sets for word in ("--set", each))) as daemon:
            with daemon.socket(zmq.SUB, "statistics") as subscriber:
                subscriber.setsockopt(zmq.RCVHWM, 0)
                for topic in ("event", "prediction", "status"):
                    subscriber.subscribe(topic)
                while daemon.next_message(subscriber)[0] != b"status":  # a new subscriber gets it
                    continue
                subscriber.unsubscribe(b"status")
                subprocess.run(
                    [shared.program(build, "runnel-feed"), "csv", "--stream-column=stream",
                     f"--columns={','.join(names)}", *(["--time=timestamp"] if timed else []),
                     "--quiet", "--connect", daemon.endpoint("examples"), table], check=True)
                wait_learned(daemon, received.count)
                daemon.end()
                received.receive(subscriber)
    if predictions and any(len(received.scores[name]) != len(rows[name]) for name in rows):
        shared.fail("predictions were lost; try again on a machine with less load")
    return received.found, received.scores


def together(found, reasons=REASONS):
    """Alarms of any of the reasons, each row with its largest score."""
    alarms = {}
    for reason in reasons:
        for name, rows in found[reason].items():
            mine = alarms.setdefault(name, {})
            mine.update({row: max(score, mine.get(row, 0)) for row, score in rows.items()})
    return alarms
