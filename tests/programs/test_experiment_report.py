#!/usr/bin/python3
"""Reports of runnel-experiment: tables, CSV, JSON, the page of HTML, files for TensorBoard, and the
comparison with earlier results. The results come from experiment_results.py; nothing is learned."""
import csv
import html
import io
import json
import math
import operator
import os
import pathlib
import re
import shutil
import sqlite3
import statistics
import struct
import subprocess
import sys
import xml.etree.ElementTree

import cases
import experiment_results as results
import running
from event_files import events, fields, session

PROGRAM = str(running.PROGRAM.with_name("runnel-experiment"))
OK, USAGE, DATA, NO_INPUT, MISSING, CANNOT_MAKE, IO, CONFIG = 0, 64, 65, 66, 69, 73, 74, 78
LIMIT = 60  # seconds: ends a test that hangs
SVG = "{http://www.w3.org/2000/svg}"
GRID = results.grid(rate=["1e-4", "3e-4", "1e-3"], norm=["layer", "none", "weight", "recurrent_batch"])


def call(*arguments, status=OK):
    """Returns its standard output, or its standard error if it must fail."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    assert not done.stderr or status, done.stderr
    return done.stderr if status else done.stdout


def stored(directory, sql):
    file = sqlite3.connect(f"file:{directory}/results.sqlite?mode=ro", uri=True)
    file.row_factory = sqlite3.Row
    try:
        return file.execute(sql).fetchall()
    finally:
        file.close()


def near(found, expected):
    return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)


def p_of_three(differences):
    """Student's t distribution with two degrees of freedom has a closed form."""
    t = statistics.mean(differences) / (statistics.stdev(differences) / math.sqrt(3))
    return 1 - abs(t) / math.sqrt(2 + t * t)


def holm(p):
    adjusted, most = [0] * len(p), 0
    for place, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        most = max(most, min(1, (len(p) - place) * p[i]))
        adjusted[i] = most
    return adjusted


# --- Tables ---

def test_statistics_over_seeds(directory):
    where = results.make(directory / "a.experiment", GRID)
    stream, = json.loads(call(where, "--json"))["streams"]
    skill = [[row["skill"] for row in stored(where, f"SELECT skill FROM runs WHERE variant = {v} ORDER BY seed")]
             for v in range(len(GRID))]
    apart = [[a - b for a, b in zip(values, skill[0])] for values in skill]
    adjusted = holm([p_of_three(differences) for differences in apart[1:]])
    ranks = [statistics.mean(1 + sum(other[s] > values[s] for other in skill) for s in range(3)) for values in skill]
    assert stream["measure"] == "skill" and stream["baseline"] == 0.5
    for v, row in enumerate(stream["variants"]):
        assert row["variant"] == GRID[v][0]
        assert row["settings"] == {results.KEYS[key]: value for key, value in GRID[v][1].items()}
        assert near(row["measure"]["mean"], statistics.mean(skill[v]))
        assert near(row["measure"]["deviation"], statistics.stdev(skill[v]))
        assert near(row["rank"], ranks[v]) and row["best"] == (v == 0 and max(adjusted) < 0.05)
        if v:
            assert near(row["to_first"]["difference"], statistics.mean(apart[v]))
            assert near(row["to_first"]["p"], p_of_three(apart[v]))
            assert near(row["to_first"]["p_holm"], adjusted[v - 1])
    text = call(where)
    assert max(map(len, text.splitlines())) <= 80, text
    assert text.startswith("a: 12 variants, 1 stream, 36 of 36 runs finished\n")
    lines = [line.split() for line in text.splitlines()]
    assert any(["1e-4", "layer", f"{statistics.mean(skill[0]):.4f}"] in (line[:3], line[1:4]) for line in lines), text
    assert any(line[:2] == ["1e-3", "none"] and line[2] == f"{statistics.mean(skill[9]):.4f}" for line in lines), text


def test_measures(directory):
    """A selected measure; the loss without a baseline; a missing measure."""
    where = results.make(directory / "a.experiment", GRID[:3], baseline=None)
    assert json.loads(call(where, "--json"))["streams"][0]["measure"] == "mean"
    report = json.loads(call(where, "--json", "--measure=rmse"))["streams"][0]
    assert report["measure"] == "rmse" and report["variants"][0]["measure"]["mean"] < report["variants"][1]["measure"]["mean"]
    output = call(where, "--measure=speed", status=USAGE)
    assert "speed" in output and "skill_recent" in output, output


def test_results_without_crps(directory):
    """Earlier versions had no CRPS: their results are read, and compared by it once runs have it."""
    where = results.make(directory / "a.experiment", GRID[:3])
    assert "no run has measure crps" in call(where, "--measure=crps", status=DATA)
    assert "CRPS" not in call(where)
    change(where, "ALTER TABLE runs ADD COLUMN crps REAL")
    change(where, "ALTER TABLE runs ADD COLUMN crps_skill REAL")
    change(where, "UPDATE runs SET crps = 3 - variant, crps_skill = 0.1 * variant")
    assert "CRPS" in call(where, "--measure=crps")
    for measure in "crps", "crps_skill":
        report = json.loads(call(where, "--json", f"--measure={measure}"))
        assert list(report["ranks"].values()) == [3, 2, 1], report


def change(where, sql):
    file = sqlite3.connect(where / "results.sqlite")
    file.execute(sql)
    file.commit()
    file.close()


def test_a_measure_that_runs_lack(directory):
    """A measure that all runs lack is rejected. A single stream that lacks it has no ranking."""
    where = results.make(directory / "a.experiment", GRID[:3], streams=("one", "two"))
    output = call(where, "--measure=accuracy", status=DATA)
    expected = "expected mean, recent, baseline, baseline_recent, skill, skill_recent, rmse, mae\n"
    assert "accuracy" in output and expected in output, output
    change(where, "UPDATE runs SET accuracy = 0.1 * (variant + 1) WHERE stream = 1")
    report = json.loads(call(where, "--json", "--measure=accuracy"))
    one, two = ([row["rank"] for row in stream["variants"]] for stream in report["streams"])
    assert one == [None] * 3 and two == [3, 2, 1], report
    assert list(report["ranks"].values()) == two, "the ranking of the other stream must not count"


def verdict(where):
    """Returns (variants marked as the best, the reason if none is), and checks that all forms of
    the report agree."""
    stream, = json.loads(call(where, "--json"))["streams"]
    marked = [v for v, row in enumerate(stream["variants"]) if row["best"]]
    reason, text = stream["verdict"], call(where)
    page = call(where, "--html=-")
    assert re.findall(r'<tr class="best" data-n="(\d+)"', page) == [str(v) for v in marked]
    assert re.findall('<p class="verdict">(.*?)</p>', page) == ([reason] if reason else [])
    assert len(re.findall("^> +[^b ]", text, re.M)) == len(marked), text
    assert reason is None or f"  {reason}\n" in text, text
    return marked, reason


def test_best_is_marked_where_it_differs(directory):
    """A paired test with adjusted p < 0.05 compares the first variant with each other one."""
    def made(name, means, spread, seeds=(1, 2, 3, 4, 5)):
        """Losses with a mean for each variant, and noise."""
        return results.make(directory / name, GRID[:len(means)], seeds=seeds, change=lambda variant, seed: (
            means[variant] + spread * results.noise(variant, seed) - results.loss(variant, seed)))
    assert verdict(made("last", [0.3, 0.29, 0.1], 0.001)) == ([2], None)
    assert verdict(made("first", [0.1, 0.2, 0.3], 0.001)) == ([0], None)
    assert verdict(made("chance", [0.3, 0.299, 0.298], 0.05)) == ([], "no variant differs from the first")
    assert verdict(made("two", [0.3, 0.1, 0.1], 0.001)) == ([], "no variant differs from all others")
    assert verdict(made("one", [0.3, 0.1], 0.001, seeds=(1,))) == (
        [], "one seed: cannot test differences between variants")
    assert verdict(made("alone", [0.3], 0.001)) == ([], None), "nothing to compare with"


def test_settings_stand_as_they_were_written(directory):
    where = results.make(directory / "a.experiment", results.grid(size=[8, 16], norm=["layer", "none"], rate=["1e-3", "1e-4"]))
    text = call(where)
    assert re.search(r"^ +size +norm +rate +skill ", text, re.M), text
    assert re.search(r"^>? +8 +layer +1e-3 ", text, re.M), text


def test_names_are_shortened(directory):
    """If settings do not identify variants, the table has their names, within 80 columns."""
    long = "a name that is so long that no table could ever have room for all of it, number "
    where = results.make(directory / "a.experiment", [(long + str(i), {"size": i}) for i in range(5)])
    text = call(where)
    assert max(map(len, text.splitlines())) <= 80, text
    assert all(f"number {i}" in text for i in range(5)) and ".." in text, text


def test_failed_runs(directory):
    """Nonfinite and failed runs are last and have their names; waiting runs are counted."""
    states = {(1, 0, 2): "nonfinite", (2, 0, 1): "failed", **{(3, 0, s): "nonfinite" for s in (1, 2, 3)},
              (4, 0, 3): "waiting"}
    where = results.make(directory / "a.experiment", GRID[:5], states=states)
    text = call(where)
    assert "14 of 15 runs finished, 4 nonfinite, 1 failed" in text, text
    assert "rate 1e-4, norm none: 1 of 3 runs became nonfinite, seed 2" in text, text
    assert "1 of 3 runs failed, seed 1: the disk is full" in text, text
    assert "3 of 3 runs became nonfinite, seeds 1, 2, 3" in text, text
    rows = json.loads(call(where, "--json"))["streams"][0]["variants"]
    # Seed 3 is incomplete and has no ranking. In seed 1 the two unfinished variants share places 4
    # and 5; in seed 2 places 4 and 5, too.
    assert [row["rank"] for row in rows] == [1, (2 + 4.5) / 2, (4.5 + 2) / 2, 4.5, 3]
    assert [row["done"] for row in rows] == [3, 2, 2, 0, 2]
    assert rows[3]["measure"]["mean"] is None and rows[1]["to_first"]["pairs"] == 2


def test_several_streams(directory):
    where = results.make(directory / "a.experiment", GRID, streams=("one", "two"))
    report = json.loads(call(where, "--json"))
    for name, _ in GRID:
        ranks = [row["rank"] for stream in report["streams"] for row in stream["variants"] if row["variant"] == name]
        assert near(report["ranks"][name], statistics.mean(ranks))
    assert "All streams: mean rank" in call(where)


def test_skill_is_explained(directory):
    """The explanation fits the loss: a difference for logarithmic losses, a share for others."""
    where = results.make(directory / "a.experiment", GRID[:3], streams=("one", "two"))
    share, difference = "1 - loss / baseline", "baseline - loss"
    text = call(where)
    assert share in text and difference not in text, text
    change(where, "UPDATE runs SET skill = baseline - mean WHERE stream = 1")
    text = call(where)
    assert share in text and difference in text and max(map(len, text.splitlines())) <= 80, text
    change(where, "UPDATE runs SET skill = baseline - mean")
    text = call(where)
    assert share not in text and difference in text, text


def test_csv(directory):
    """Every number of the file with all digits."""
    where = results.make(directory / "a.experiment", [*GRID, ('say "x", y', {"size": 8})],
                         states={(0, 0, 1): "waiting", (1, 0, 1): "failed"})
    call(where, "-q", "--csv", directory / "a.csv")
    text = (directory / "a.csv").read_text()
    assert call(where, "--csv=-") == text
    rows, runs = list(csv.DictReader(io.StringIO(text))), stored(where, "SELECT * FROM runs ORDER BY variant, seed")
    assert len(rows) == len(runs) == 39
    for row, run in zip(rows, runs):
        for key in run.keys():
            if key in ("configuration", "variant", "stream"):
                continue
            if run[key] is None:
                assert row[key] == "", key
            elif isinstance(run[key], str):
                assert row[key] == run[key]
            else:
                assert float(row[key]) == run[key], (key, row[key], run[key])
    assert rows[1]["learning.optimizer.rate"] == "1e-4" and rows[1]["model.layers.N.norm"] == "layer"
    assert rows[-1]["variant"] == 'say "x", y' and rows[-1]["model.layers.N.size"] == "8"


# --- Charts ---

def page(where, directory):
    call(where, "-q", "--html", directory / "page.html")
    text = (directory / "page.html").read_text()
    charts = [xml.etree.ElementTree.fromstring(chart) for chart in re.findall(r"<svg.*?</svg>", text, re.S)]
    return text, [chart for chart in charts if chart.get("class") == "chart"]


def points(path, x=0, y=0):
    return [(float(one) + x, float(other) + y) for one, other in re.findall(r"[ML] ([-.\d]+) ([-.\d]+)", path.get("d") or "")]


def drawn(chart, kind):
    """Returns (points, style) of each curve, band, field or dot."""
    defined = {f"#{path.get('id')}": path for path in chart.iter(f"{SVG}path")}
    marks = [mark for group in chart.iter(f"{SVG}g") if group.get("class") == kind for mark in group.iter()]
    return [(points(mark), mark.get("style")) for mark in marks if mark.tag == f"{SVG}path" and not mark.get("id")] + [
        (points(defined[mark.get("href")], float(mark.get("x")), float(mark.get("y"))), mark.get("style"))
        for mark in marks if mark.tag == f"{SVG}use"]


def looks(chart):
    return [style for _, style in drawn(chart, "curve")]


def test_page(directory):
    """The page has a curve and a dot for every variant and seed, escapes all texts, and loads
    nothing."""
    variants = [*GRID, ("<script>alert('x')</script> & \"co\"", {"size": 3, "rate": "<b>"})]
    where = results.make(directory / "a.experiment", variants, streams=("waves", "a<b>&c"),
                         states={(2, 0, 1): "nonfinite", (3, 0, 1): "failed", (4, 0, 2): "waiting"})
    text, charts = page(where, directory)
    for stream in range(2):
        course, rows = charts[2 * stream:2 * stream + 2]
        assert len(looks(course)) == len(set(looks(course))) == 13
        assert all("nan" not in path.get("d") and "inf" not in path.get("d") for path in course.iter(f"{SVG}path"))
        assert len(drawn(rows, "seed")) == 39 - (3 if stream == 0 else 0)
    assert "<script>alert" not in text and "<b>" not in text
    assert html.escape("<script>alert('x')</script>", quote=False) in text
    assert not re.search(r"(src|href)\s*=(?!\"#)|@import|url\((?!#)", text), "the page loads external content"
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len(set(ids)) > 0, "duplicate id"
    assert set(re.findall(r"https?://[^\"<]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "77 of 78 over" in text and "not finished" in text and "the disk is full" in text
    for digest in stored(where, "SELECT digest FROM streams"):
        assert digest["digest"] in text


def test_diverged_runs_hide_nothing(directory):
    """Skill far below -1 is an arrow at the edge. Bands and dots are complete, and each has its
    line."""
    variants = results.grid(rate=["1e-4", "1e-3", "1e-2", "1e-1"], norm=["layer", "none"])
    where = results.make(directory / "a.experiment", variants,
                         change=lambda variant, seed: 0.1 * seed if variant == 0 else 50 * seed if variant > 3 else 0)
    text, (course, rows, keys, *_) = page(where, directory)
    frame = next(points(path) for path in keys.iter(f"{SVG}path") if "clip-path" not in path.attrib and path.get("style")
                 and points(path)[0][0] > 0)
    top, bottom = min(y for _, y in frame), max(y for _, y in frame)
    bands, curves = (drawn(keys, kind) for kind in ("band", "curve"))
    places = [y for shape, _ in bands + curves for _, y in shape]
    assert len(bands) == len(curves) == 2 and all(top + 3 <= y <= bottom + 0.01 for y in places), (top, bottom, places)
    assert len(drawn(keys, "below")) == len(drawn(keys, "dot")) == 4
    assert len({x for x, _ in bands[0][0]}) == 3, "expected two points of the line, and its end"
    assert sum((text.text or "").startswith("\u2190 -") for text in rows.iter(f"{SVG}text")) == 4


def test_curves_look_back(directory):
    """A point covers the last twentieth of the run, here two points: a change in the middle does
    not affect earlier points."""
    where = results.make(directory / "a.experiment", GRID[:1], seeds=(1,))
    _, (before, *_) = page(where, directory)
    file = sqlite3.connect(where / "results.sqlite")
    file.execute("UPDATE curves SET mean = mean * 1.1 WHERE point BETWEEN 20 AND 22")
    file.commit()
    file.close()
    _, (after, *_) = page(where, directory)

    ((before, _),), ((after, _),) = drawn(before, "curve"), drawn(after, "curve")
    assert len(before) == len(after) == results.POINTS
    assert [i for i, (a, b) in enumerate(zip(before, after)) if a != b] == [20, 21, 22, 23]


def test_many_variants_look_different(directory):
    variants = results.grid(rate=["1e-5", "3e-5", "1e-4", "3e-4", "1e-3", "3e-3"], norm=["layer", "none", "rms"],
                            size=[16, 64])
    where = results.make(directory / "a.experiment", variants, seeds=(1,))
    _, (course, _, over_rate) = page(where, directory)
    assert len(set(looks(course))) == 36
    assert len(looks(over_rate)) == 6 and len(drawn(over_rate, "dot") + drawn(over_rate, "below")) == 36


def test_more_variants_than_looks(directory):
    """The legend has the first 60 variants, which all look different; each curve has its name."""
    where = results.make(directory / "a.experiment", results.grid(size=range(64)), seeds=(1,))
    text, (course, *_) = page(where, directory)
    names = [title.text for title in course.iter(f"{SVG}title")]
    assert len(set(looks(course))) == 60 and names[1:] == [f"size {size}" for size in range(64)]
    shown = {label.text for label in course.iter(f"{SVG}text")}
    assert "size 59" in shown and "size 60" not in shown and "The legend lists only the first curves" in text


def test_a_grid_of_two_keys_is_a_field(directory):
    where = results.make(directory / "a.experiment", GRID)
    text, (_, _, _, field) = page(where, directory)
    fields = drawn(field, "field")
    assert len(fields) == 12
    shades = [float(re.search(r"opacity: ([.\d]+)", style)[1]) for _, style in fields]
    assert max(shades) == shades[0], "the best must be the darkest"


def test_one_run(directory):
    where = results.make(directory / "a.experiment", [("base", {})], seeds=(7,), baseline=None)
    _, (course, rows) = page(where, directory)
    assert len(looks(course)) == 1 and len(drawn(rows, "seed")) == 1
    assert "1 variant, 1 stream, 1 of 1 runs finished" in call(where)


def plot(*arguments, status=OK, **options):
    done = subprocess.run([running.PROGRAM.with_name("runnel-plot"), *map(str, arguments)], capture_output=True,
                          text=True, timeout=LIMIT, check=False, **options)
    assert done.returncode == status, (done.returncode, done.stderr)
    return done.stderr


def test_a_chart_alone(directory):
    """runnel-plot draws each chart of the page, and lists the available ones."""
    where = results.make(directory / "a.experiment", GRID, streams=("one", "two"))
    text = {}
    for chart in "course", "variants", "rate", "field":
        assert not plot("-y", chart, "--stream=two", "-o", directory / "a.svg", where / "results.sqlite")
        text[chart] = (directory / "a.svg").read_text()
    assert "two: skill while learning" in text["course"] and "two: skill over rate" in text["rate"]
    assert all(f"rate {rate}, norm {norm}" in text["variants"] for rate in ("1e-4", "1e-3") for norm in ("layer", "none"))
    assert "course, variants, rate, field" in plot("-y", "mean", where, status=USAGE)
    assert "one, two" in plot("--stream=three", where, status=USAGE)
    assert "no run has measure accuracy" in plot("--measure=accuracy", where, status=DATA)
    assert "results of runnel-experiment" in plot("--html=-", directory / "a.svg", status=USAGE)


def test_damaged_results(directory):
    """Text instead of numbers, and missing tables."""
    where = results.make(directory / "a.experiment", GRID[:2])
    change(where, "UPDATE curves SET mean = 'x', examples = 'y'")
    for option in "--html", "--tensorboard":
        assert "is damaged" in call(where, option, directory / "x", status=DATA)
    change(where, "UPDATE runs SET seed = '../<script>', state = 'failed' WHERE run = 1")
    change(where, "UPDATE curves SET mean = 1, examples = 1")
    for option, to in ("--html", "page"), ("--tensorboard", "board"):
        assert "is damaged" in plot(option, directory / to, where, status=DATA)
    assert not (directory / "page").exists() and not list(directory.rglob("*script*"))
    change(where, "DROP TABLE curves")
    assert "results.sqlite" in plot(where, status=DATA)


def test_without_matplotlib(directory):
    """Without matplotlib the error names the package. Event files can still be written."""
    (directory / "matplotlib.py").write_text("raise ImportError")
    without = dict(os.environ, PYTHONPATH=str(directory))
    where = results.make(directory / "a.experiment", GRID[:2])
    for arguments in [where], [live_experiment(directory), "-o", directory / "never"]:
        done = subprocess.run([PROGRAM, *arguments, "--html", directory / "x.html"], capture_output=True, text=True,
                              timeout=LIMIT, env=without, check=False)
        assert done.returncode == MISSING and "apt-get install python3-matplotlib" in done.stderr, done
        assert done.stderr.startswith("runnel-experiment: ") and done.stderr.count("\n") == 1, done.stderr
    assert not (directory / "never").exists() and not (directory / "x.html").exists()
    subprocess.run([PROGRAM, where, "-q", "--tensorboard", directory / "board"], env=without, check=True, timeout=LIMIT)
    assert "result/skill" in board_of(directory / "board", 0, 1)


# --- TensorBoard ---

READ_WITH_TENSORBOARD = """
import sys
from tensorboard import context
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.plugins import base_plugin
from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups
runs = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(sys.argv[1]).Reload()
provider = data_provider.MultiplexerDataProvider(runs, sys.argv[1])
backend = backend_context.Context(base_plugin.TBContext(data_provider=provider, logdir=sys.argv[1]))
request = context.RequestContext()
experiment = backend.experiment_from_metadata(request, "e", True, backend.hparams_metadata(request, "e"), [])
asked = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=100, allowed_statuses=[0, 1, 2, 3])
for metric in experiment.metric_infos:
    asked.col_params.add().metric.CopyFrom(metric.name)
groups = list_session_groups.Handler(request, backend, "e", asked).run()
assert {info.name for info in experiment.hparam_infos} == {
    "stream", "variant", "learning.optimizer.rate", "model.layers.N.norm"}
assert groups.total_size == 12 and all(len(group.sessions) == 3 for group in groups.session_groups)
print("TensorBoard shows", groups.total_size, "groups")
"""


def board_of(where, variant, seed):
    path, = pathlib.Path(where, "a", "waves").glob(f"{variant:02d}-*/seed-{seed}")
    return events(path)


def test_tensorboard(directory):
    where = results.make(directory / "a.experiment", GRID, states={(1, 0, 2): "nonfinite", (2, 0, 3): "waiting"})
    for _ in range(2):  # existing files are replaced
        call(where, "-q", "--tensorboard", directory / "board")
    found = board_of(directory / "board", 4, 2)
    (_, _, start), = found["_hparams_/session_start_info"]
    assert session(start) == ({"stream": "waves", "variant": "rate 3e-4, norm layer",
                               "learning.optimizer.rate": 3e-4, "model.layers.N.norm": "layer"},
                              "waves, rate 3e-4, norm layer")
    run, = stored(where, "SELECT * FROM runs WHERE variant = 4 AND seed = 2")
    curve = stored(where, f"SELECT * FROM curves WHERE run = {run['run']} ORDER BY point")
    assert [(step, value) for step, _, value in found["loss/mean"]] == [
        (row["examples"], struct.unpack("<f", struct.pack("<f", row["mean"]))[0]) for row in curve]
    assert [step for step, _, _ in found["run/weight_norm"]] == [row["examples"] for row in curve]
    (step, _, skill), = found["result/skill"]
    assert step == run["examples"] and abs(skill - run["skill"]) < 1e-6
    for variant, seed, status in [(4, 2, 1), (1, 2, 2)]:
        (_, _, end), = board_of(directory / "board", variant, seed)["_hparams_/session_end_info"]
        assert fields(end[4][0])[1] == [status], "success, or failure"
    assert not list(pathlib.Path(directory, "board", "a", "waves").glob("02-*/seed-3")), "unexpected: a waiting run"
    (_, _, experiment), = events(directory / "board" / "a")["_hparams_/experiment"]
    assert experiment[2]


def test_tensorboard_reads_it(directory):
    python = os.environ.get("TENSORBOARD_PYTHON", sys.executable)
    if subprocess.run([python, "-c", "import tensorboard"], capture_output=True).returncode:
        print("TensorBoard is not installed: only this test has read its files")
        return
    where = results.make(directory / "a.experiment", GRID)
    call(where, "-q", "--tensorboard", directory / "board")
    subprocess.run([python, "-c", READ_WITH_TENSORBOARD, directory / "board"], check=True, timeout=5 * LIMIT)


# --- Earlier results ---

def test_equal_results(directory):
    where = results.make(directory / "a.experiment", GRID)
    shutil.copytree(where, directory / "b.experiment")
    output = call(where, "-q", "--against", directory / "b.experiment")
    assert "All bits are equal: the losses of 36 runs." in output, output
    assert "12 variants" not in output, "-q must not print the table"


def test_changed_results(directory):
    """Variants are matched by settings, then by names. The output lists new and missing variants
    and other versions."""
    before = results.make(directory / "a.experiment", [*GRID[:4], ("kept", {"size": 1}), ("gone", {"size": 9})])
    after = results.make(directory / "b.experiment",
                         [("renamed", GRID[0][1]), *GRID[1:4], ("kept", {"size": 2}), ("added", {"size": 3})],
                         version="0.2.0", change=lambda variant, seed: 0.01 * seed if variant == 1 else 0)
    output = call(after, "--against", before)
    assert "version: 0.2.0 here, 0.1.0 there" in output, output
    compared = json.loads(call(after, "--against", before, "--json"))["against"]
    rows = {row["variant"]: row for row in compared["variants"]}
    assert {name: row["where"] for name, row in rows.items()} == {
        "renamed": "both", GRID[1][0]: "both", GRID[2][0]: "both", GRID[3][0]: "both", "kept": "both",
        "added": "new", "gone": "gone"}
    assert [name for name, row in rows.items() if row["where"] == "both" and not row["same_settings"]] == ["kept"]
    assert [(row["equal"], row["runs"]) for row in rows.values() if row["runs"]] == [
        (3, 3), (0, 3), (3, 3), (3, 3), (3, 3)]
    changed = rows[GRID[1][0]]
    assert near(changed["change"], -2 * 0.02) and near(changed["p"], p_of_three([-0.02, -0.04, -0.06]))
    assert near(changed["p_holm"], min(1, 5 * changed["p"])), "expected five comparisons, four of them equal"
    assert "3 of 15 runs differ." in output and "other settings" in output, output
    assert max(map(len, output.splitlines())) <= 80 + len(str(directory)), output


def test_other_data(directory):
    where = results.make(directory / "a.experiment", GRID[:2])
    other = results.make(directory / "b.experiment", GRID[:2], digest="fedcba9876543210")
    output = call(where, "--against", other, status=DATA)
    assert "cannot compare" in output and "fedcba987654321" in output and "waves" in output, output


def test_no_run_on_both_sides(directory):
    """The same data and variants with other seeds: the output reports neither equal nor different
    runs."""
    where = results.make(directory / "a.experiment", GRID[:2], seeds=(1, 2))
    other = results.make(directory / "b.experiment", GRID[:2], seeds=(3, 4))
    for options in ((), ("-q",), ("--json",)):
        output = call(where, "--against", other, *options, status=DATA)
        assert "no run with the same data, variant and seed" in output and str(other) in output, output


# --- On a live stream ---

def live_experiment(directory, **more):
    """Four variants of a forecast, for a daemon with sockets in the directory."""
    sockets = {role: {"bind": f"ipc://{directory}/{role}"} for role in ("examples", "statistics", "control")}
    sockets["statistics"] |= {"every": 50, "seconds": 0}
    path = directory / "try.yaml"
    path.write_text(json.dumps({
        "name": "try", "base": {"preset": "forecast", "model": {"input": {"size": 2}},
                                "state": {"directory": str(directory / "state"), "journal": {"enabled": False}}, **sockets},
        "streams": {"waves": {"feed": "synth sine --size 2 --noise 0.3 --count 2000"}},
        "grid": {"size": [8, 16], "norm": ["layer", "none"]}, "seeds": 1, **more}))
    return path


def recorded(path, sql, *values):
    file = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return file.execute(sql, values).fetchall()
    finally:
        file.close()


def learn_live(directory, text):
    """A daemon with the configuration learns a stream, and most of it is recorded."""
    with running.Daemon(directory, text):
        recorder = subprocess.Popen([running.PROGRAM.with_name("runnel-record"), "--output", directory / "all.db",
                                     f"--connect=ipc://{directory}/statistics", "--count=30"],
                                    stderr=subprocess.PIPE, text=True)
        assert any("recording try" in line for line in recorder.stderr), "the recorder ended"
        feed = subprocess.Popen([running.PROGRAM.with_name("runnel-feed"), "synth", "sine", "--size=2", "--noise=0.3",
                                 "--count=3000", f"--connect=ipc://{directory}/examples"], stderr=subprocess.DEVNULL)
        recorder.communicate(timeout=LIMIT)
        assert recorder.returncode == 0
        assert feed.wait(LIMIT) == 0


def test_live(directory):
    """The daemon of --live learns a stream, and its recording becomes a table. Coarse rows of older
    messages lead to the same table. Means cover all scored examples."""
    ahead = 3
    path = live_experiment(directory, set={"ahead": ahead})
    text = call("--live", path)
    assert "#   size-8-norm-layer: size 8, norm layer\n" in text, text
    learn_live(directory, text)
    shutil.copy(directory / "all.db", directory / "few.db")
    file = sqlite3.connect(directory / "few.db")
    file.execute("DELETE FROM loss WHERE number < 20")
    file.execute("DELETE FROM loss_experts WHERE number < 20 - expert % 2 * 10")
    file.commit()
    file.close()
    tables = [json.loads(call("--live", path, "--recording", directory / name, "--json")) for name in ("all.db", "few.db")]
    stream, less = (table["streams"][0] for table in tables)
    messages = recorded(directory / "all.db", "SELECT examples, baseline, mean FROM loss ORDER BY number")
    (first, newest), = recorded(directory / "all.db", "SELECT first_examples, newest_examples FROM runs")

    def mean(values, coarse=0):
        """The mean over examples, where a message counts for all its examples; `coarse` messages
        are in rows of ten."""
        ends = [max(first - 50, ahead)] + [examples for examples, *_ in messages]
        weights = [min(end - before, 50) for before, end in zip(ends, ends[1:])]
        for start in range(0, coarse, 10):
            weights[start:start + 10] = [sum(weights[start:start + 10]) / 10] * 10
        return sum(map(operator.mul, weights, values)) / sum(weights)

    baselines = [baseline for _, baseline, _ in messages]
    baseline = mean(baselines)
    assert stream["examples"] == newest and near(stream["baseline"], baseline)
    assert near(less["baseline"], mean(baselines, coarse=20))
    assert [row["variant"] for row in stream["variants"]] == [
        "size 8, norm layer", "size 8, norm none", "size 16, norm layer", "size 16, norm none", "all together"]
    for row, again in zip(stream["variants"], less["variants"]):
        found = recorded(directory / "all.db", "SELECT mean, expert FROM loss_experts JOIN experts USING (run, expert)"
                         " WHERE name = ? ORDER BY number", re.sub("[^a-z0-9]+", "-", row["variant"]))
        losses = [loss for loss, _ in found] or [loss for _, _, loss in messages]
        coarse = 20 - found[0][1] % 2 * 10 if found else 20
        assert len(losses) == len(messages)
        assert near(row["loss"]["mean"], mean(losses)), (row, mean(losses))
        assert near(again["loss"]["mean"], mean(losses, coarse)), (again, mean(losses, coarse))
        assert near(row["skill"]["mean"], 1 - mean(losses) / baseline)
    output = call("--live", path, "--recording", directory / "all.db")
    assert "all together" in output and "4 variants, 1 stream, live" in output, output
    assert "network alone" in output and "us/ex" not in output, output


def test_live_horizons(directory):
    """With several horizons a member's means equal those of a run with the same members, although
    the first examples have forecasts of some horizons only."""
    path = live_experiment(directory, set={"ahead": [1, 9]}, grid={"size": [8, 16]})
    text = call("--live", path)
    learn_live(directory, text)
    table = json.loads(call("--live", path, "--recording", directory / "all.db", "--json"))
    (directory / "daemon.yaml").write_text(text)
    path.write_text(json.dumps({"name": "again", "base": "daemon.yaml", "seeds": 1, "streams": {
        "waves": {"feed": "synth sine --size 2 --noise 0.3 --count 1500"}}}))
    call(path, "--quiet", "--output", directory / "again")
    of_run = dict(recorded(directory / "again" / "results.sqlite", "SELECT name, mean FROM experts"))
    for row in table["streams"][0]["variants"][:-1]:
        name = re.sub("[^a-z0-9]+", "-", row["variant"])
        assert near(row["loss"]["mean"], of_run[name]), (row, of_run)


def test_live_csv(directory):
    """Only the values that a recording contains."""
    path = live_experiment(directory)
    learn_live(directory, call("--live", path))
    rows = list(csv.DictReader(call("--live", path, "--recording", directory / "all.db", "--csv=-").splitlines()))
    (parameters, newest), = recorded(directory / "all.db", "SELECT parameters, newest_examples FROM runs")
    assert [row["parameters"] for row in rows] == ["", "", "", "", f"{parameters:.0f}"]
    for row in rows:
        assert row["mean"] and float(row["examples"]) == newest, row
        assert not any(row[key] for key in ("rejected", "scored", "updates", "skipped", "seconds", "cpu_seconds")), row


def test_members_of_a_live_stream_that_are_rejected(directory):
    """The error names variant and key, or the exceeded limit."""
    def refused(expected, **more):
        text = call("--live", live_experiment(directory, **more), status=CONFIG)
        assert all(part in text for part in expected), text
    refused(["wide", "model.input.missing"], grid={}, variants=[{"name": "wide", "model.input.missing": "reject"}])
    refused(["far", "model.output.ahead"], grid={}, variants=[{"name": "far", "model.output.ahead": 3}])
    refused(["at most 64 variants", "got 65"], grid={"rate": [n / 1e4 for n in range(1, 14)],
                                                 "learning.clip": [1, 2, 3, 4, 5]})
    refused(["one stream, got 2"], streams={name: {"feed": "synth sine --size 2"} for name in "ab"})
    refused(["scale: forecast"], base={"model": {"input": {"kind": "real", "size": 2, "scale": "standard"},
                                                "layers": [{"cell": "gru", "size": 8}],
                                                "output": {"loss": "squared", "size": 2, "target": "next"}}})
    path = live_experiment(directory)
    assert "nowhere" in call("--live", path, "--recording", directory / "nowhere", status=NO_INPUT)
    (directory / "other").write_text("not a recording at all, but long enough to be looked at" * 20)
    assert "other" in call("--live", path, "--recording", directory / "other", status=DATA)
    assert "--live" in call(path, "--recording", directory / "other", status=USAGE)
    where = results.make(directory / "a.experiment", GRID[:2])
    assert "results" in call("--live", where, status=USAGE)


# --- Bad input ---

def test_what_cannot_be(directory):
    where = results.make(directory / "a.experiment", GRID[:2])
    (directory / "empty").mkdir()
    assert "empty" in call(directory / "empty", status=NO_INPUT)
    assert "nowhere" in call(where, "--against", directory / "nowhere", status=NO_INPUT)
    output = call(live_experiment(directory), "-o", directory / "never", "--against", directory / "nowhere", status=NO_INPUT)
    assert "nowhere" in output and not (directory / "never").exists(), "a failed comparison must not run anything"
    assert "standard output" in call(where, "--csv=-", "--html=-", status=USAGE)
    assert "standard output" in call(where, "--csv=-", "--json", status=USAGE)
    for option in "--csv", "--html":
        assert "no/such" in call(where, option, directory / "no/such/file", status=CANNOT_MAKE)
        if pathlib.Path("/dev/full").exists():
            assert "/dev/full" in call(where, "-q", option, "/dev/full", status=IO)
    assert "no/such" in call(where, "-q", "--tensorboard", directory / "no/such/board", status=CANNOT_MAKE)


def test_reports_change_nothing(directory):
    where = results.make(directory / "a.experiment", GRID[:3])
    before = (where / "results.sqlite").read_bytes()
    call(where, "--csv", directory / "x.csv", "--html", directory / "x.html", "--tensorboard", directory / "x")
    assert (where / "results.sqlite").read_bytes() == before


if __name__ == "__main__":
    cases.run(globals())
