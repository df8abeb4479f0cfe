#!/usr/bin/python3
"""What the demo says at its end (tools/persistence.awk), against the baseline computed a second time."""
import json
import math
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile

import cases

SCRIPT = pathlib.Path(os.environ.get("srcdir", "."), "tools/persistence.awk")
EXAMPLES, EVERY, NUMBERS = 600, 20, 3


def make_readings():
    """Random walks; one number comes late, and some are missing now and then."""
    r = random.Random(3)
    walk, readings = [0.0] * NUMBERS, []
    for n in range(EXAMPLES):
        walk = [value + r.gauss(0, 1) for value in walk]
        x = [None if r.random() < 0.1 else round(value, 3) for value in walk]
        x[2] = x[2] if n > 50 else None
        readings.append(x)
    return readings


def baseline(readings):
    """Of each reading: the mean over its numbers of ((x - last) / deviation)^2, the deviation over
    all so far; None where nothing is scored."""
    losses = []
    for n, x in enumerate(readings):
        squares = []
        for k in range(NUMBERS):
            seen = [row[k] for row in readings[:n + 1] if row[k] is not None]
            if n == 0 or x[k] is None:
                continue
            last = seen[-2] if len(seen) > 1 else x[k]
            deviation = statistics.pstdev(seen)
            squares.append(((x[k] - last) / deviation) ** 2 if deviation else 0.0)
        losses.append(sum(squares) / len(squares) if squares else None)
    return losses


def loss_messages(means):
    messages = [{"topic": "status", "name": "host"}]
    for n, mean in enumerate(means, start=1):
        messages += [{"topic": "loss", "run": "00", "sequence": n, "examples": n * EVERY,
                      "loss": 9.0, "mean": mean}, {"topic": "state", "sequence": n, "layers": []}]
    return messages


def say(readings, messages):
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for name, objects in (("readings", [{"stream": "host", "x": x} for x in readings]),
                              ("statistics", messages)):
            paths.append(pathlib.Path(directory, name))
            paths[-1].write_text("".join(json.dumps(o) + "\n" for o in objects))
        done = subprocess.run(["awk", "-v", "seconds=30", "-f", SCRIPT, *paths],
                              capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def expected(readings, means):
    """Loss of network and baseline in the first and the last tenth, each scored reading alike."""
    losses, tenth = baseline(readings), len(means) // 10
    result = []
    for chosen in (range(tenth), range(len(means) - tenth, len(means))):
        targets, network, rival = 0, 0.0, 0.0
        for n in chosen:
            scored = [loss for loss in losses[n * EVERY:(n + 1) * EVERY] if loss is not None]
            targets += len(scored)
            network += means[n] * len(scored)
            rival += sum(scored)
        result += [network / targets, rival / targets]
    return result


def test_sentence():
    readings = make_readings()
    for last, verdict in ((0.001, "is now better than"), (50.0, "is not yet better than")):
        means = [3.0 + n / 7 for n in range(EXAMPLES // EVERY - 3)] + [last] * 3
        said = say(readings, loss_messages(means))
        numbers = [float(number) for number in re.findall(r"\d+\.\d+", said)]
        first, rival_first, final, rival_final = expected(readings, means)
        for found, wanted in zip(numbers, (first, final, rival_first, rival_final), strict=True):
            assert math.isclose(found, wanted, abs_tol=6e-4), (said, wanted)
        assert verdict in said and "In 30 s" in said and f" {EXAMPLES} readings" in said, said


def test_too_little():
    """A message that was lost, or that has more than was recorded, makes it say nothing; so
    does a tenth in which nothing could be read."""
    readings, means = make_readings(), [1.0] * (EXAMPLES // EVERY)
    messages = loss_messages(means)
    lost = [m for m in messages if m.get("sequence") != 7]
    blind = [[None] * NUMBERS] * 100 + readings[100:]
    for r, m in ((readings, lost), (readings[:-1], messages), (readings, messages[:2]), ([], []),
                 (blind, messages)):
        assert say(r, m).startswith("Too little was measured"), say(r, m)


cases.run(globals())
