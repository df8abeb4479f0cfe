#!/usr/bin/env python3
"""Columns that are known ahead (docs/reference/columns.md): their effect on forecasts, no other
column of later steps, kills, several steps ahead, refusals, and runnel-feed csv --known."""
import json
import math
import random
import struct
import subprocess

import zmq

import cases
from running import PROGRAM, Daemon, kill_and_start, predictions, subscribe, wait_learned

FEED = PROGRAM.with_name("runnel-feed")
STEPS, WARM, EFFECT, CONFIG = 900, 250, 20, 78
WEEK = [0, 2, 4, 3, 1, 8, 6]


def configuration(directory, columns, ahead="1", more="preset: forecast"):
    return f"""
name: known
device: cpu
{more}
model: {{input: {{columns: [{columns}]}}, output: {{ahead: {ahead}}}}}
learning: {{max_streams: 2}}
examples: {{bind: "ipc://{directory}/examples", steps: many}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1, predictions: all}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 70, seconds: 0}}}}
"""


def shop(seed=1):
    """(demand, promotion) of each day: a week and autocorrelated noise, and 20 more on days with a
    promotion."""
    draw, noise, days = random.Random(seed), 0, []
    for t in range(STEPS):
        noise = 0.7 * noise + draw.gauss(0, 1)
        promotion = float(draw.random() < 0.08)
        days.append((50 + WEEK[t % 7] + noise + EFFECT * promotion, promotion))
    return days


def write(directory, days, name="shop"):
    path = directory / f"{name}.csv"
    path.write_text("demand,promo\n" + "".join(f"{x},{known:g}\n" for x, known in days))
    return path


def fed(directory, columns, path, *arguments, ahead="1"):
    """Predictions after each row that runnel-feed sends."""
    directory.mkdir()
    with Daemon(directory, configuration(directory, columns, ahead)) as daemon:
        with subscribe(daemon) as subscriber:
            done = subprocess.run([FEED, "csv", path, "--columns", "demand", *arguments, "--connect",
                                   daemon.endpoint("examples")], stderr=subprocess.PIPE, text=True, check=True)
            sent = int(done.stderr.split(" sent ")[1].split()[0].replace(",", "")) \
                if " sent " in done.stderr else STEPS
            return predictions(daemon, subscriber, sent)


def errors(found, days, place=None, ahead=1, expert=None):
    """Mean absolute errors on days with and without a promotion."""
    sums = {0.0: [], 1.0: []}
    for t, message in enumerate(found):
        if t < WARM or t + ahead >= STEPS:
            continue
        rows = message["experts"][expert] if expert else message["prediction"]
        x, promotion = days[t + ahead]
        sums[promotion].append(abs((rows if place is None else rows[place])[0] - x))
    return tuple(sum(sums[flag]) / len(sums[flag]) for flag in (1.0, 0.0))


KNOWN = "{name: demand}, {name: promo, known: 7}"


def test_finds_the_effect_of_a_promotion(directory):
    """And not that of other days' promotions: only the known value of the forecast day helps, and
    the demand of that day is not in the example."""
    days = shop()
    path = write(directory, days)
    with_it = errors(fed(directory / "a", KNOWN, path, "--known", "promo"), days)
    without = errors(fed(directory / "b", "{name: demand}", path), days)
    shuffled = [known for _, known in days]
    random.Random(2).shuffle(shuffled)
    others = write(directory, [(x, known) for (x, _), known in zip(days, shuffled)], "shuffled")
    permuted = errors(fed(directory / "c", KNOWN, others, "--known", "promo"), days)
    assert with_it[0] < without[0] / 6 and with_it[1] < 0.85 * without[1], (with_it, without)
    assert all(0.95 < a / b < 1.1 for a, b in zip(permuted, without)), (permuted, without)


def test_several_steps_ahead(directory):
    days = shop()
    found = fed(directory / "a", KNOWN, write(directory, days), "--known", "promo", "--ahead", "1,7",
                ahead="[1, 7]")
    assert len(found) == STEPS - 7
    for place, ahead in enumerate((1, 7)):
        assert errors(found, days, place, ahead)[0] < EFFECT / 3
        assert errors(found, days, place, ahead, "known")[0] < EFFECT / 3
        assert errors(found, days, place, ahead, "ar12")[0] > EFFECT / 2


def played(directory, rows, ahead, kill):
    directory.mkdir()
    with Daemon(directory, configuration(directory, KNOWN, ahead)) as daemon:
        found = []
        cuts = [0, 97, 181, len(rows)] if kill else [0, len(rows)]
        for begin, end in zip(cuts, cuts[1:]):
            with subscribe(daemon) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
                for n, row in enumerate(rows[begin:end], begin):
                    feeder.send_multipart([b"ab"[n % 2:][:1], struct.pack(f"<{len(row)}f", *row)])
                found += predictions(daemon, subscriber, end - begin)
            if end < len(rows):
                kill_and_start(daemon, end)
        blob = daemon.export()
        assert daemon.end() == 0
        return [[m[k] for k in ("prediction", "experts", "weights", "loss", "quantiles")] for m in found], blob


def test_a_kill_changes_no_bit(directory):
    """With missing values, of both kinds."""
    for n, ahead in enumerate(("1", "[1, 5]")):
        horizons = [1, 5][:n + 1]
        days = [(math.nan if t % 31 == 7 else x, math.nan if t % 23 < 3 else k)
                for t, (x, k) in enumerate(shop()[:265])]
        rows = [[x, *(days[t + h][1] for h in horizons)] for t, (x, _) in enumerate(days[:260])]
        calm = played(directory / f"calm{n}", rows, ahead, False)
        assert calm == played(directory / f"killed{n}", rows, ahead, True)
        assert all(math.isfinite(x) for m in calm[0][10:] for x in sum((m[0] if n else [m[0]]), []))


def test_a_network_without_experts(directory):
    """A known column is an input, and not a target."""
    text = configuration(directory, KNOWN, more="").replace("output: {", "layers: [{cell: gru, size: 4}], output: "
                         "{loss: squared, target: next, ")
    text = text.replace("input: {", "input: {scale: standard, ").replace(
        "learning: {", "learning: {window: 4, optimizer: {kind: adam, rate: 0.01}, ")
    with Daemon(directory, text) as daemon:
        status = daemon.ask("status")
        assert (status["column_names"], status["target_names"]) == ("demand, promo", "demand")
        assert "2 columns (1 real, 1 known)" in status["model"], status["model"]
        with subscribe(daemon) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
            for row in ([3, 1], [5, 0]):
                feeder.send_multipart([b"s", struct.pack("<2f", *row)])
            assert [len(m["prediction"]) for m in predictions(daemon, subscriber, 2)] == [1, 1]


def test_refusals(directory):
    for columns, ahead, more, expected in (
            (KNOWN, "[1, 9]", "", "known of column promo: expected at least 9, the furthest step of "
                                  "model.output.ahead, got 7"),
            ("{name: a, known: 1}, {name: b}", "1", "", "column b must be listed before column a"),
            ("{name: a, known: 1}", "1", "", "expected a column to forecast"),
            ("{name: a}, {name: b, kind: cycle, period: 7, known: 1}", "1", "",
             "known is not supported with kind: cycle"),
            ("{name: a}", "1", "experts: [known]", "known requires a column with known"),
            (KNOWN, "1", "model.output.size=2", "expected 1 with target: next and these columns, got 2"),
            (KNOWN, "1", "model.input.scale=standard model.output.columns=[promo] preset=none "
                         "model.layers.0.cell=gru model.layers.0.size=2 model.output.loss=squared "
                         "model.output.target=next learning.optimizer.kind=adam learning.optimizer.rate=0.1",
             "column promo is known ahead; remove it here"),
            ("{name: a}, {name: b, known: 1}", "1", "model.output.target=given model.output.size=1 preset=none "
             "model.layers.0.cell=gru model.layers.0.size=2 model.output.loss=squared "
             "model.output.ahead= learning.optimizer.kind=adam learning.optimizer.rate=0.1",
             "known of column b requires model.output.target: next, got given")):
        path = directory / "c.yaml"
        text = configuration(directory, columns, ahead)
        sets = [] if ":" in more else more.split()
        if "model.output.ahead=" in sets:
            sets.remove("model.output.ahead=")
            text = text.replace(f"ahead: {ahead}", "size: 1")
        path.write_text(text + (more if ":" in more else ""))
        done = subprocess.run([PROGRAM, "--config", path, "--check-config", *(w for s in sets for w in ("--set", s))],
                              stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == CONFIG and expected in done.stderr, (done.stderr, expected)


def test_an_example_of_another_length_is_rejected(directory):
    with Daemon(directory, configuration(directory, KNOWN, "[1, 7]")) as daemon:
        with subscribe(daemon, [b"event"]) as subscriber, daemon.socket(zmq.PUSH, "examples") as feeder:
            feeder.send_multipart([b"s", struct.pack("<2f", 1, 0)])
            message = b""
            while b"rejected" not in message:
                message = daemon.next_message(subscriber)[1]
            assert "demand float32, promo+1 float32, promo+7 float32" in json.loads(message)["text"], message
            feeder.send_multipart([b"s", struct.pack("<3f", 1, 0, 1)])
            feeder.send(b'{"stream": "s", "x": {"demand": 2, "promo+7": 1}}')
            assert wait_learned(daemon, 2)["rejected"] == 1


def printed(directory, *arguments, text=None):
    done = subprocess.run([FEED, "csv", "--print", *arguments], capture_output=True, text=True, check=False,
                          input=text, cwd=directory)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return [(row["stream"], row["x"]) for row in rows], done.stderr


def test_feeder_reads_ahead(directory):
    """Row by row of each stream; the last rows have no known values and are not sent, nor are those
    with known values only."""
    table = ("t,d,h,k\n2026-01-01,1,0,a\n2026-01-02,2,1,a\n2026-01-01,11,0,b\n2026-01-03,3,2,a\n"
             "2026-01-04,,3,a\n2026-01-02,12,1,b\n2026-01-05,,4,a\n")
    (directory / "t.csv").write_text(table)
    options = "t.csv", "--time", "t", "--stream-column", "k", "--known", "h"
    found, complaints = printed(directory, *options)
    assert found == [("a", [1, 1]), ("a", [2, 2]), ("b", [11, 1]), ("a", [3, 3])], found
    assert "rows at the end without their --known values are not sent: 1" in complaints, complaints
    found, _ = printed(directory, *options, "--ahead", "1,2")
    assert found == [("a", [1, 1, 2]), ("a", [2, 2, 3]), ("a", [3, 3, 4])], found
    (directory / "h.csv").write_text("t,h\n2026-01-01,0\n2026-01-02,1\n2026-01-03,2\n2026-01-04,5\n")
    found, complaints = printed(directory, "-", *options[1:], "--columns", "d", "--known-file", "h.csv", "--ahead", "1,3",
                          text=table)
    assert found[:4] == [("a", [1, 1, 5]), ("a", [2, 2, None]), ("b", [11, 1, 5]), ("a", [3, 5, None])], found
    assert "-:8: row not found in h.csv" in complaints.replace("standard input", "-"), complaints
    found, _ = printed(directory, "t.csv", "--columns", "d", "--known", "h", "--known-file", "h.csv")
    assert [x for _, x in found[:4]] == [[1, 1], [2, 2], [11, 5], [3, None]], found
    for arguments, expected in (
            (("-", "--known", "h"), "cannot read ahead in standard input"),
            (("t.csv", "--columns", "d,h", "--known", "h"), "column 'h' is also in --columns"),
            (("t.csv", "--columns", "d", "--ahead", "2"), "require --known"),
            (("t.csv", "--columns", "d", "--known", "h", "--ahead", "2,1"), "ascending"),
            (("t.csv", "--columns", "d", "--known", "q"), "--known: column 'q' not found in t.csv")):
        found, complaints = printed(directory, *arguments, text=table)
        assert not found and expected in complaints, complaints


if __name__ == "__main__":
    cases.run(globals())
