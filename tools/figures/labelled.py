"""Plays labelled tables through a separate daemon with `preset: forecast`: common code of
tools/figures/nab and tools/figures/skab."""
import csv
import itertools
import json
import pathlib
import subprocess
import tempfile

import shared

from running import Daemon, subscribe, wait_learned

SILENT_MS = 500  # time for the last messages of a daemon that has ended
REASONS = "novelty", "surprise", "level"
CONFIG = """
name: labelled
preset: forecast
model: {{input: {{size: {columns}}}}}
learning: {{max_streams: {streams}}}
"""


def play(build, rows, sets=(), timed=True, predictions=False):
    """Learns the streams of {name: rows of (time, value...)} one after the other. Returns the
    alarms by reason: by name, {row: score}; and with `predictions` the member `anomaly` by name of
    each row."""
    names = [f"x{k}" for k in range(len(next(iter(rows.values()))[0]) - 1)]
    first = dict(zip(rows, itertools.accumulate(map(len, rows.values()), initial=1)))
    found, scores = {reason: {} for reason in REASONS}, {name: [] for name in rows}
    with tempfile.TemporaryDirectory(prefix="labelled-") as directory:
        table = pathlib.Path(directory, "table.csv")
        with open(table, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(("stream", "timestamp", *names))
            csv.writer(file).writerows((name, *row) for name, lines in rows.items() for row in lines)
        config = CONFIG.format(streams=len(rows), columns=len(names)) + shared.places(
            directory, statistics=", predictions: true" if predictions else "")
        Daemon.program = shared.program(build, "runneld")
        feed = [shared.program(build, "runnel-feed"), "csv", "--stream-column=stream", "--quiet",
                f"--columns={','.join(names)}", *(["--time=timestamp"] if timed else [])]
        with Daemon(directory, config, *(word for each in sets for word in ("--set", each))) as daemon:
            with subscribe(daemon, (b"event", b"prediction")) as subscriber:
                subprocess.run([*feed, "--connect", daemon.endpoint("examples"), table], check=True)
                wait_learned(daemon, sum(map(len, rows.values())))
                daemon.end()
                while subscriber.poll(SILENT_MS):
                    topic, message = subscriber.recv_multipart()
                    message = json.loads(message)
                    if topic == b"prediction":
                        scores[message["stream"]].append(message["anomaly"])
                    elif message.get("kind") == "anomaly":
                        alarms = found.setdefault(message["reason"], {})
                        alarms.setdefault(message["stream"], {})[
                            message["example"] - first[message["stream"]]] = message["score"]
    if predictions and any(len(scores[name]) != len(rows[name]) for name in rows):
        shared.fail("predictions were lost; try again on a machine with less load")
    return found, scores


def together(found, reasons=REASONS):
    """Alarms of any of the reasons, each row with its largest score."""
    alarms = {}
    for reason in reasons:
        for name, rows in found[reason].items():
            mine = alarms.setdefault(name, {})
            mine.update({row: max(score, mine.get(row, 0)) for row, score in rows.items()})
    return alarms
