#!/usr/bin/python3
"""Compares the demo's summary (tools/demo.awk) with an independent calculation."""
import json
import math
import os
import pathlib
import random
import subprocess
import tempfile

import cases

SCRIPT = pathlib.Path(os.environ.get("srcdir", "."), "tools/demo.awk")
COLUMNS = ["CPU busy", "CPU system", "memory used", "load average", "context switches", "received", "sent",
           "disks"]
READINGS, LATE, STILL = 400, 3, 5  # a column that comes late, and one that never changes


def make_readings():
    """Random walks with missing values, and forecasts with noise."""
    r = random.Random(3)
    walk, rows = [0.0] * len(COLUMNS), []
    for n in range(READINGS):
        walk = [v + (k != STILL) * r.gauss(0, 1) for k, v in enumerate(walk)]
        x = [None if r.random() < 0.1 else round(v, 3) for v in walk]
        x[LATE] = x[LATE] if n > 50 else None
        forecast = [None if n < 60 and k == LATE else v + (k != STILL) * r.gauss(0, 0.5) for k, v in enumerate(walk)]
        band = [None if n < 100 or v is None else [v - 1, v + 1] for v in forecast]
        rows.append((x, forecast, band))
    return rows


def messages(rows):
    yield {"topic": "status", "name": "host"}
    for n, (x, forecast, band) in enumerate(rows):
        message = {"topic": "prediction", "sequence": n + 1, "prediction": forecast, "interval": band}
        if n:
            message["scored"] = {"example": n, "prediction": rows[n - 1][1], "interval": rows[n - 1][2],
                                 "target": x}
        yield message
        yield {"topic": "loss", "sequence": n + 1, "mean": 1.0, "prediction": "none"}


def summarize(lines):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("".join(json.dumps(m) + "\n" for m in lines))
        file.flush()
        done = subprocess.run(["awk", "-v", "seconds=30", "-f", SCRIPT, file.name],
                              capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def errors(rows):
    """{column: [(reading, squared error, that of the last value, whether it was in the interval or None)]}"""
    found = {k: [] for k in range(len(COLUMNS))}
    last = dict(enumerate([None] * len(COLUMNS)))
    for n in range(1, len(rows)):
        for k, value in enumerate(rows[n][0]):
            forecast, band = rows[n - 1][1][k], rows[n - 1][2][k]
            if value is None or forecast is None:
                continue
            if last[k] is not None:
                found[k].append((n, (forecast - value) ** 2, (last[k] - value) ** 2,
                                 band and band[0] <= value <= band[1]))
            last[k] = value
    return found


def skill(found, first, until):
    skills = []
    for rows in found.values():
        own, rival = (sum(row[i] for row in rows if first <= row[0] < until) for i in (1, 2))
        skills += [1 - own / rival] if rival else []
    return sum(skills) / len(skills)


def test_table_and_sentence():
    rows = make_readings()
    found = errors(rows)
    summary = summarize(messages(rows))
    lines = {line[:18].strip(): line[18:].split() for line in summary.splitlines()}
    for k, name in enumerate(COLUMNS):
        own, rival = (math.sqrt(sum(row[i] for row in found[k]) / len(found[k])) for i in (1, 2))
        *_, within, rmse, last, better = lines[name]
        known = [row[3] for row in found[k] if row[3] is not None]
        assert abs(float(within[:-1]) - 100 * sum(known) / len(known)) <= 1, (name, summary)
        assert math.isclose(float(rmse), own, rel_tol=1e-3, abs_tol=1e-9), (name, summary)
        assert math.isclose(float(last), rival, rel_tol=1e-3, abs_tol=1e-9), (name, summary)
        assert better == (f"{1 - (own / rival) ** 2:.2f}" if rival else "-"), (name, summary)
    first, newest = skill(found, 0, READINGS // 10), skill(found, READINGS - READINGS // 10, READINGS)
    sentence = summary.splitlines()[-1]
    for part in (f"In 30 s the network learned from {READINGS} readings", f"was {first:.2f} in the first tenth",
                 f"is {newest:.2f} in the last", "now better" if newest > 0 else "not yet better"):
        assert part in sentence, (part, sentence)


def test_too_little():
    """A lost message, few messages, or readings without numbers give no summary."""
    rows = make_readings()
    everything = list(messages(rows))
    blind = [([None] * len(COLUMNS), forecast, band) for _, forecast, band in rows]
    for lines in ([m for m in everything if m.get("sequence") != 7], everything[:20], [], list(messages(blind))):
        assert summarize(lines).startswith("Not enough readings"), summarize(lines)


cases.run(globals())
