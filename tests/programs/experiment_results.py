"""Creates a results file of an experiment without running it (format:
docs/reference/experiments.md), for tests of reports and pages."""
import itertools
import math
import pathlib
import sqlite3

SCHEMA = """
CREATE TABLE experiment (key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE streams (stream INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, command TEXT,
 digest TEXT, examples INTEGER, bytes INTEGER, files TEXT);
CREATE TABLE variants (variant INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL);
CREATE TABLE settings (variant INTEGER NOT NULL, key TEXT NOT NULL, short TEXT, value TEXT,
 PRIMARY KEY (variant, key)) WITHOUT ROWID;
CREATE TABLE runs (run INTEGER PRIMARY KEY, variant INTEGER NOT NULL, stream INTEGER NOT NULL,
 seed INTEGER NOT NULL, state TEXT NOT NULL, error TEXT, configuration TEXT, digest TEXT,
 data TEXT, version TEXT, device TEXT, parameters INTEGER, examples INTEGER,
 rejected INTEGER, steps INTEGER, scored INTEGER, updates INTEGER, skipped INTEGER,
 started REAL, seconds REAL, cpu_seconds REAL, mean REAL, recent REAL, baseline REAL,
 baseline_recent REAL, skill REAL, skill_recent REAL, rmse REAL, mae REAL, accuracy REAL,
 bits REAL, losses_digest TEXT, parameters_digest TEXT, UNIQUE (variant, stream, seed));
CREATE TABLE curves (run INTEGER NOT NULL, point INTEGER NOT NULL, examples INTEGER,
 scored INTEGER, mean REAL, baseline REAL, gradient_norm REAL, update_ratio REAL,
 weight_norm REAL, PRIMARY KEY (run, point)) WITHOUT ROWID;
CREATE TABLE columns (run INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT, rmse REAL,
 mae REAL, skill REAL, PRIMARY KEY (run, place)) WITHOUT ROWID;
CREATE TABLE experts (run INTEGER NOT NULL, place INTEGER NOT NULL, name TEXT, mean REAL,
 weight REAL, PRIMARY KEY (run, place)) WITHOUT ROWID;
CREATE TABLE losses (run INTEGER PRIMARY KEY, losses BLOB);
CREATE TABLE weights (run INTEGER NOT NULL, point INTEGER NOT NULL, place INTEGER NOT NULL,
 tensor TEXT, norm REAL, change REAL, PRIMARY KEY (run, point, place)) WITHOUT ROWID;
CREATE TABLE parameters (run INTEGER PRIMARY KEY, safetensors BLOB);
PRAGMA application_id = 1920298597;
PRAGMA user_version = 1;
"""
EXAMPLES, POINTS = 2000, 40
KEYS = {"rate": "learning.optimizer.rate", "norm": "model.layers.N.norm", "size": "model.layers.N.size"}


def grid(**values):
    """Variants as the program names them: [(name, {short key: value})]."""
    return [(", ".join(f"{key} {value}" for key, value in zip(values, chosen)), dict(zip(values, chosen)))
            for chosen in itertools.product(*values.values())]


def noise(*numbers):
    """Deterministic noise between -1 and 1."""
    return math.sin(sum((12.9898 + 7 * i) * (n + 1) for i, n in enumerate(numbers)) * 43.7585)


def loss(variant, seed, point=None):
    level = 0.2 + 0.05 * variant + 0.01 * noise(variant, seed)
    return level if point is None else level * (1 + 3 / (1 + point)) + 0.02 * noise(variant, seed, point)


def make(directory, variants, seeds=(1, 2, 3), streams=("waves",), states=None, version="0.1.0",
         baseline=0.5, digest="0123456789abcdef", change=None):
    """Creates a directory with the file. `states`: {(variant, stream, seed): state} of the runs
    that are not done. `change(variant, seed)` is added to a loss."""
    directory = pathlib.Path(directory)
    directory.mkdir()
    file = sqlite3.connect(directory / "results.sqlite")
    file.executescript(SCHEMA)
    runs = list(itertools.product(range(len(variants)), range(len(streams)), seeds))
    facts = {"format": 1, "name": directory.name.removesuffix(".experiment"), "recent": 0.1, "points": POINTS,
            "version": version, "device": "cpu", "isa": "avx2", "started": 1.7e9, "finished": 1.7e9 + 60,
            "text": "grid: {}", "yaml_path": "test.yaml", "seeds": str(list(seeds)), "total": len(runs)}
    file.executemany("INSERT INTO experiment VALUES (?, ?)", [(k, str(v)) for k, v in facts.items()])
    for number, name in enumerate(streams):
        file.execute("INSERT INTO streams VALUES (?, ?, ?, ?, ?, ?, ?)",
                     (number, name, f"runnel-feed csv {name}.csv", digest[:-1] + str(number), EXAMPLES,
                      40 * EXAMPLES, "[]"))
    for number, (name, settings) in enumerate(variants):
        file.execute("INSERT INTO variants VALUES (?, ?)", (number, name))
        for short, value in settings.items():
            file.execute("INSERT INTO settings VALUES (?, ?, ?, ?)",
                         (number, KEYS.get(short, short), short, str(value)))
    for number, (variant, stream, seed) in enumerate(runs, 1):
        state = (states or {}).get((variant, stream, seed), "done")
        row = {"run": number, "variant": variant, "stream": stream, "seed": seed, "state": state}
        if state != "waiting":
            mean = loss(variant, seed) + (change(variant, seed) if change else 0)
            row |= {"error": "the disk is full" if state == "failed" else None,
                    "configuration": f"name: x\nseed: {seed}\n", "digest": f"{variant:016x}",
                    "data": digest[:-1] + str(stream), "version": version, "device": "cpu", "parameters": 1234,
                    "examples": EXAMPLES, "rejected": 0, "steps": EXAMPLES, "scored": EXAMPLES - 1,
                    "updates": EXAMPLES // 4, "skipped": 0, "started": 1.7e9 + number, "seconds": 0.04,
                    "cpu_seconds": 0.03, "mean": mean, "recent": 0.9 * mean, "rmse": math.sqrt(mean),
                    "mae": 0.8 * math.sqrt(mean), "losses_digest": f"{int(mean * 2 ** 50):016x}",
                    "parameters_digest": f"{int(mean * 2 ** 51):016x}"}
            if baseline:
                row |= {"baseline": baseline, "baseline_recent": baseline, "skill": 1 - mean / baseline,
                        "skill_recent": 1 - 0.9 * mean / baseline}
            for point in range(POINTS):
                at = loss(variant, seed, point)
                at = None if state == "nonfinite" and point > POINTS // 2 else at
                file.execute("INSERT INTO curves VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                             (number, point, (point + 1) * EXAMPLES // POINTS, EXAMPLES // POINTS, at, baseline,
                              1.0, 1e-3, 10 + 0.1 * point))
        file.execute(f"INSERT INTO runs ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
                     list(row.values()))
    file.commit()
    file.close()
    return directory
