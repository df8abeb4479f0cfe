"""Common functions for tests of runnel-experiment: run it, read its results, and make data."""
import collections
import json
import os
import pathlib
import random
import sqlite3
import struct
import subprocess

import running

PROGRAM = str(running.PROGRAM.with_name("runnel-experiment"))
FEED = str(running.PROGRAM.with_name("runnel-feed"))
OK, USAGE, DATA, NO_INPUT, CANNOT_CREATE, DISK, INTERRUPTED, CONFIG = 0, 64, 65, 66, 73, 74, 75, 78

Ended = collections.namedtuple("Ended", "status out err")


def call(directory, *arguments, environment=None, **options):
    """Runs runnel-experiment in the directory until it ends."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], cwd=directory, capture_output=True,
                          text=True, timeout=10 * running.LIMIT, check=False,
                          env={**os.environ, **(environment or {})}, **options)
    return Ended(done.returncode, done.stdout, done.stderr)


def write(directory, name, experiment):
    """Writes an experiment as JSON, which is valid YAML."""
    path = pathlib.Path(directory, name)
    path.write_text(json.dumps(experiment), encoding="utf-8")
    return path


def rows(directory, sql, *values):
    """The result of an SQL query of the results in a directory."""
    path = pathlib.Path(directory, "results.sqlite")
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


def digests(directory):
    """The computed results of each finished run, ordered by variant, stream and seed."""
    return rows(directory, """
        SELECT variants.name, streams.name, seed, state, losses_digest, parameters_digest, mean, recent,
               baseline, skill, runs.examples, rejected, updates
        FROM runs JOIN variants USING (variant) JOIN streams USING (stream)
        WHERE state <> 'waiting' ORDER BY 1, 2, 3""")


def losses(directory, run=1):
    """The stored losses; NaN for an example without a loss."""
    blob = rows(directory, "SELECT losses FROM losses WHERE run = ?", run)[0][0]
    return struct.unpack(f"<{len(blob) // 8}d", blob)


def table(path, count=300, columns=2, seed=5):
    """A CSV with the row's number, correlated walks, and a class that follows from them."""
    chance = random.Random(seed)
    level = [0.0] * columns
    lines = [",".join(["row"] + [f"c{n}" for n in range(columns)] + ["class"])]
    for row in range(count):
        level = [0.9 * v + chance.gauss(0, 1) for v in level]
        kind = int(sum(level) > 0)
        lines.append(",".join([str(row)] + [f"{v:.6f}" for v in level] + [str(kind)]))
    pathlib.Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def real(size, **keys):
    """A small base configuration for vectors of numbers."""
    return {"model": {"input": {"kind": "real", "size": size, "scale": "standard"},
                      "layers": [{"cell": "gru", "size": 8}],
                      "output": {"loss": "squared", "size": size, "target": "next"}},
            "learning": {"window": 4, "stride": 2, "clip": 1}, "device": "cpu", **keys}
