#!/usr/bin/python3
"""Tests runnel-plot with recordings of runnel-record: points and texts in the SVG, and images that are not
blank."""
import contextlib
import io
import itertools
import math
import os
import pathlib
import re
import runpy
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as xml

import cases
import test_record as recording
from test_record import LIMIT, OK, Daemon, Record, loss_fields

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.image
    import matplotlib.pyplot
except ImportError:
    print("needs python3-matplotlib")
    sys.exit(77)

PROGRAM = str(pathlib.Path(os.environ.get("builddir", "."), "runnel-plot").resolve())
USAGE, DATA, NO_INPUT, CANNOT_MAKE = 64, 65, 66, 73
BLUE, RED, PINK = "#1769aa", "#d55e00", "#cc79a7"
SVG = "{http://www.w3.org/2000/svg}"


def record(directory, *runs, arguments=(), events=()):
    """A recording of simulated daemons: each (name, digits, first, end) learns messages first..end-1."""
    daemons = {}
    for name, digits, *_ in runs:
        if name not in daemons:
            daemons[name] = Daemon(directory, name, digits * 16)
    recorder = Record(directory, daemons.values(), "-o", "runnel.db", *arguments, in_order=True)
    total = 0
    for name, digits, first, end in runs:
        daemon = daemons[name]
        daemon.run = digits * 16
        daemon.examples = 100 * first
        resumed = {"resumed": "/checkpoint"} if first else {}
        daemon.send("status", dict(recording.STATUS, name=name, **resumed))
        daemon.learn(first, end)
        for kind in events:
            daemon.send("event", {"kind": kind, "text": "as it is"})
            recorder.until(lambda: recording.rows(directory, "SELECT count(*) FROM events WHERE "
                                                  f"kind = '{kind}'") == [(1,)], kind)
        total += end - first
        recorder.until(lambda: recording.rows(directory, "SELECT count(*) FROM runs WHERE "
                                                f"newest_examples = {100 * end} AND run = '{daemon.run}'")
                       == [(1,)], f"the end of {name}")
    recorder.end()
    for daemon in daemons.values():
        daemon.close()


def plot(directory, *arguments, status=OK):
    """Runs in this process, which has already loaded matplotlib, and returns the output."""
    before, sys.argv = sys.argv, [PROGRAM, *arguments]
    out, err, found = io.StringIO(), io.StringIO(), OK
    try:
        with contextlib.chdir(directory), contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(err):
            runpy.run_path(PROGRAM, run_name="__main__")
    except SystemExit as end:
        found = end.code or OK
    finally:
        sys.argv = before
        plot.figure = matplotlib.pyplot.gcf()
        matplotlib.pyplot.close("all")
    assert found == status, (arguments, found, err.getvalue())
    assert status == OK or err.getvalue().count("\n") == 1, err.getvalue()
    return out.getvalue() + err.getvalue()


class Drawing:
    """An SVG: its texts, and the points of the paths of a colour."""

    def __init__(self, *path):
        self.root = xml.parse(pathlib.Path(*path)).getroot()
        self.texts = ["".join(text.itertext()).strip() for text in self.root.iter(f"{SVG}text")]

    def curves(self, colour):
        """Lines of this colour in the order drawn, each a list of (x, y), without the legend's."""
        found = []
        for path in self.root.iter(f"{SVG}path"):
            style = path.get("style", "")
            if f"stroke: {colour}" in style and "fill: none" in style:
                points = [tuple(map(float, point.split())) for point
                          in re.findall(r"[ML] (\S+ \S+)", path.get("d"))]
                if len({y for _, y in points}) > 1:  # else it is the legend's
                    found.append(points)
        return found

    def has(self, *texts):
        for text in texts:
            assert text in self.texts, (text, self.texts)


def same_line(points, x, y):
    """The points of a curve are those of x and y, apart from position and scale."""
    assert len(points) == len(x), (len(points), len(x))
    for drawn, values in zip(zip(*points), (x, y)):
        low, high = values.index(min(values)), values.index(max(values))
        scale = (drawn[high] - drawn[low]) / (values[high] - values[low])
        for at, value in zip(drawn, values):
            assert abs(drawn[low] + (value - values[low]) * scale - at) < 0.01, (at, value)


def test_curves(directory):
    record(directory, ("first", "a", 0, 40), ("second", "b", 0, 20))
    plot(directory, "-o", "loss.svg", "-o", "loss.png", "-y", "loss")
    drawing = Drawing(directory, "loss.svg")
    drawing.has("first", "second", "examples", "loss of the newest example (squared error)",
                "real 2 > gru 4 norm > squared 2, next", "cpu", "4,000")
    for colour, count in [(BLUE, 40), (RED, 20)]:
        line, = drawing.curves(colour)
        same_line(line, [100 * (i + 1) for i in range(count)], [1 / (i + 1) for i in range(count)])
    image = matplotlib.image.imread(pathlib.Path(directory, "loss.png"))
    assert image.shape[:2] == (504, 900)  # 7.5 x 4.2 inches, 120 dots each
    for colour in (BLUE, RED):
        rgb = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        assert (abs(image[:, :, :3] - rgb).max(axis=2) < 0.02).sum() > 100, colour
    assert (image[:, :, :3] > 0.99).all(axis=2).mean() > 0.5, "most of the image must be background"


def test_options(directory):
    record(directory, ("first", "a", 0, 40), ("second", "b", 0, 20))
    plot(directory, "-o", "b.svg", "-r", "second", "-y", "smoothed", "-x", "time", "--log",
         "--band", "--smooth=5", "--title=What was run", "--label=One & only", "--size=4x3")
    drawing = Drawing(directory, "b.svg")
    drawing.has("One & only", "What was run", "smoothed loss (squared error)",
                "time since the run began (minutes)",
                "band: minimum and maximum; mean over the last 5 messages")
    assert "first" not in drawing.texts and not drawing.curves(RED)
    thin, thick = drawing.curves(BLUE)
    assert len(thin) == len(thick) == 20
    assert drawing.root.get("viewBox") == "0 0 288 216"  # points: 72 an inch
    plot(directory, "-o", "l.svg", "-y", "layer1.hidden_std", "-r", "aaaa", "--from=1000",
         "--to=2000")
    line, = Drawing(directory, "l.svg").curves(BLUE)
    same_line(line, [100 * i for i in range(10, 21)], [0.5 + i for i in range(10, 21)])
    listed = plot(directory, "--list")
    assert "1 first aaaaaaaaaaaaaaaa 100..4000 examples: real 2" in listed, listed


def many_runs(directory, count, messages=40):
    """A recording with this number of runs, each slightly higher than the previous one; SQL copies of one
    run."""
    record(directory, ("run 00", "a", 0, messages))
    with contextlib.closing(sqlite3.connect(f"{directory}/runnel.db")) as file:
        for table, key in [("runs", "id"), ("loss", "run")]:
            names = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
            for number in range(1, count):
                change = {key: f"{key} + {number}", "name": f"'run {number:02}'", "mean": f"mean * {1 + number / 50}",
                          "run": f"'{number:016x}'" if table == "runs" else f"run + {number}"}
                file.execute(f"INSERT INTO {table} SELECT {', '.join(change.get(name, name) for name in names)}"
                             f" FROM {table} WHERE {key} = 1")
        file.commit()


def change(directory, sql):
    with contextlib.closing(sqlite3.connect(f"{directory}/runnel.db")) as file:
        file.execute(sql)
        file.commit()


def smoothed(directory, over=5):
    """The points of the smoothed curve as {x: y}; y is NaN for a missing value."""
    plot(directory, "-o", "smoothed.png", f"--smooth={over}")
    pale, line = plot.figure.axes[0].get_lines()[:2]
    assert len(pale.get_xdata()) == len(line.get_xdata())
    return dict(line.get_xydata())


def last_mean(values, count):
    """The finite ones of the last `count` values."""
    known = [value for value in values[-count:] if value is not None]
    return sum(known) / len(known)


def test_smoothing_looks_back_only(directory):
    """Later values do not move points. The first points are means of the available values, gaps remain gaps,
    and an outlier disappears after its window."""
    record(directory, ("first", "a", 0, 40))
    losses = [loss_fields(i)["mean"] for i in range(40)]
    before = smoothed(directory)
    for i, y in enumerate(before.values()):
        assert math.isnan(y) if losses[i] is None else math.isclose(y, last_mean(losses[:i + 1], 5)), (i, y)
    for wild in (-7, 1e30):
        change(directory, f"UPDATE loss SET mean = {wild} WHERE number = 20")
        after = smoothed(directory)
        moved = [i for i, x in enumerate(before) if not math.isclose(before[x], after[x], rel_tol=1e-12)
                 and not math.isnan(before[x])]
        assert moved == [20, 21, 22, 23, 24], moved
    assert math.isclose(list(smoothed(directory, 1000).values())[19], last_mean(losses[:20], 1000))


def boxes(figure):
    """Extents of the axes with their labels, and of the legend, in pixels."""
    figure.draw_without_rendering()
    axes, = figure.axes
    return axes.get_window_extent(), axes.xaxis.get_tightbbox(figure.canvas.get_renderer()), \
        axes.get_legend().get_window_extent()


def inside(outer, inner):
    return outer.x0 <= inner.x0 and outer.y0 <= inner.y0 and inner.x1 <= outer.x1 and inner.y1 <= outer.y1


def test_many_runs(directory):
    """Twenty runs have twenty colours, further runs have dashes. The legend is below axes and curves, within
    the picture."""
    many_runs(directory, 24)
    for arguments in [], ["--size=7x5", "--smooth=3", "--band"], ["--events", "--log"]:
        plot(directory, "-o", "many.png", *arguments)
        curves = [line for line in plot.figure.axes[0].get_lines() if line.get_linewidth() == 1.5 and len(line.get_xdata()) > 1]
        assert len(curves) == 24
        assert len({line.get_color() for line in curves[:20]}) == 20
        assert len({(line.get_color(), str(line.get_linestyle())) for line in curves}) == 24
        axes, below, legend = boxes(plot.figure)
        assert not legend.overlaps(axes) and not legend.overlaps(below), (axes, below, legend)
        assert inside(plot.figure.bbox, legend), (plot.figure.bbox, legend)
        assert axes.height > 0.4 * plot.figure.bbox.height, (axes, plot.figure.bbox)


def test_legend_of_few(directory):
    """The legend is inside the axes if it covers no curve there, else below."""
    record(directory, ("first", "a", 0, 40), ("second", "b", 0, 20))
    plot(directory, "-o", "free.png")
    axes, _, legend = boxes(plot.figure)
    assert inside(axes, legend)
    assert not any(line.get_transform().transform_path(line.get_path()).intersects_bbox(legend, filled=False)
                   for line in plot.figure.axes[0].get_lines())
    change(directory, "UPDATE loss SET mean = number % 2")  # everywhere from the bottom to the top
    plot(directory, "-o", "covered.png")
    axes, below, legend = boxes(plot.figure)
    assert not legend.overlaps(axes) and not legend.overlaps(below) and inside(plot.figure.bbox, legend)


def contrast(one, other):
    """The contrast of two colours by WCAG 2."""
    lights = [sum(share * (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4)
                  for share, v in zip((0.2126, 0.7152, 0.0722), matplotlib.colors.to_rgb(colour)))
              for colour in (one, other)]
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_palette():
    """Light and dark pages have the same number of colours; all are readable and different."""
    source = pathlib.Path(os.environ.get("srcdir", pathlib.Path(__file__).parents[2]), "src/common/palette.def")
    rows = re.findall(r'^COLOUR\("(#\w{6})", "(#\w{6})"\)$', source.read_text(), re.MULTILINE)
    assert len(rows) == 20
    for colours, ground in zip(zip(*rows), ("#ffffff", "#1b222a")):
        assert min(contrast(colour, ground) for colour in colours) >= 3
        rgb = [[int(colour[i:i + 2], 16) for i in (1, 3, 5)] for colour in colours]
        assert min(sum(abs(a - b) for a, b in zip(one, other)) for one, other in itertools.combinations(rgb, 2)) > 50


def test_events(directory):
    record(directory, ("first", "a", 0, 40), events=["checkpoint", "reset"])
    plot(directory, "-o", "without.svg")
    plot(directory, "-o", "with.svg", "--events")
    Drawing(directory, "with.svg").has("checkpoint, reset")  # at one place, so that one label is enough
    assert "reset" not in Drawing(directory, "without.svg").texts


def test_gaps_and_pieces(directory):
    """A null is a gap with a cross; a run that resumes from a checkpoint has its curve's colour."""
    record(directory, ("first", "a", 0, 12), ("first", "b", 12, 30))
    plot(directory, "-o", "loss.svg")
    drawing = Drawing(directory, "loss.svg")
    drawing.has("first", "first: no finite number")
    assert drawing.texts.count("first") == 1
    before, after = drawing.curves(BLUE)
    same_line(before, [100 * (i + 1) for i in range(12) if i != 3],
              [loss_fields(i)["mean"] for i in range(12) if i != 3])
    assert len(after) == 18 and after[0][0] > before[-1][0] and not drawing.curves(RED)


def test_coarse_rows(directory):
    """Rows of ten and of a hundred are drawn if single messages were deleted."""
    record(directory, ("first", "a", 0, 1234), arguments=["--keep=50"])
    record(directory, ("first", "b", 1234, 1235), arguments=["--keep=50"])  # it lets go
    plot(directory, "-o", "loss.svg", "-y", "updates", "-r", "aaaa")
    line, = Drawing(directory, "loss.svg").curves(BLUE)
    whole = 12  # hundreds, then tens, then single ones
    x = [100.0 * i for i in range(1, whole + 1)] + [1210, 1220, 1230, 1231, 1232, 1233, 1234]
    sizes = [100] * whole + [10] * 3 + [1] * 4
    same_line(line, x, [at - (size + 1) / 2 for at, size in zip(x, sizes)])
    plot(directory, "-o", "few.svg", "-y", "updates", "-r", "aaaa", "--points=4")
    assert len(Drawing(directory, "few.svg").curves(BLUE)[0]) <= 4


def test_heat_map(directory):
    record(directory, ("first", "a", 0, 40), ("second", "b", 0, 20))
    plot(directory, "-o", "hidden.svg", "-o", "hidden.png", "--histogram=1")
    Drawing(directory, "hidden.svg").has("first: layer 1, lstm of 4 units", "second: layer 1, lstm of 4 units",
                                        "hidden unit h", "units (%)", "examples", "mean")
    image = matplotlib.image.imread(pathlib.Path(directory, "hidden.png"))[:, :, :3]
    assert image.shape[1] == 900 and image.shape[0] in (743, 744), image.shape
    colours = {tuple((pixel * 255).astype(int)) for row in image[100:400:3] for pixel in row[::3]}
    assert len(colours) > 5, "a histogram has five bins with different colours"
    plot(directory, "--histogram=7", status=USAGE)


def test_predictions(directory):
    daemon = Daemon(directory)
    recorder = Record(directory, [daemon], "-o", "runnel.db")
    for n in range(1, 302):
        daemon.predict(n)
    recorder.until(lambda: recording.rows(directory, "SELECT count(*) FROM predictions") == [(300,)],
                   "300 truths")
    plot(directory, "-y", "prediction", "-o", "early.png")  # no loss has come yet
    assert "no recorded runs yet" in plot(directory, status=DATA)
    daemon.learn(0, 1)
    for fields in (recording.anomaly_fields(50), recording.anomaly_fields(150), recording.anomaly_fields(250),
                   recording.anomaly_fields(160, columns=[{"column": 1, "score": 2, "truth": 1}]),
                   recording.anomaly_fields(170, columns=[]), recording.anomaly_fields(180, "other")):
        daemon.send("event", fields)
    recorder.until(lambda: recording.rows(directory, "SELECT max(examples) FROM anomalies WHERE stream = 'other'")
                   == [(180,)], "what was abnormal")
    recorder.end()
    daemon.close()
    plot(directory, "-y", "prediction", "-o", "said.svg", "-o", "said.png")
    drawing, numbers = Drawing(directory, "said.svg"), list(range(102, 302))  # the newest 200
    truths = [recording.truth(n) for n in numbers]
    missed = [n for n in numbers if recording.truth(n) > recording.bounds(n)[1]]
    held = f"{100 - len(missed) / 2:.1f}%"
    drawing.has("waves: stream 'a,b', column 0", "time of the data (UTC)", "truth",
                f"90% interval: contains {held}", f"missed: {len(missed)} of 200", "abnormal: 3")
    bars = [curve for curve in drawing.curves(PINK) if len(curve) == 2]
    line = drawing.curves("#000000")[0]
    assert [bar[0][0] for bar in bars] == [line[n - 102][0] for n in (150, 170, 250)], bars
    assert [text for text in drawing.texts if text.startswith("forecast: rmse 0.")], drawing.texts
    assert [text for text in drawing.texts if text.startswith("baseline: rmse 1.")], drawing.texts
    same_line(drawing.curves(BLUE)[0], numbers, [recording.level(n) - 1.25 for n in numbers])
    same_line(drawing.curves("#000000")[0], numbers, truths)
    same_line(drawing.curves("#888888")[0], numbers, [recording.level(n) - 2 for n in numbers])
    image = matplotlib.image.imread(pathlib.Path(directory, "said.png"))[:, :, :3]
    assert len({tuple((pixel * 255).astype(int)) for row in image[::3] for pixel in row[::3]}) > 5
    plot(directory, "-y", "prediction.0", "-x", "examples", "--from=150", "--to=199", "-o", "part.svg")
    drawing = Drawing(directory, "part.svg")
    assert len(drawing.curves(BLUE)[0]) == 50
    drawing.has("examples")
    plot(directory, "-y", "prediction", "--from=1970-01-03T00:00", "--to=1970-01-03T23:30", "-o",
         "day.svg")
    assert len(Drawing(directory, "day.svg").curves(BLUE)[0]) == 24
    for arguments, text in [(["-y", "prediction.3"], "prediction.0"), (["-x", "data-time"], "-y prediction"),
                            (["-y", "prediction", "--stream=c"], "'a,b'"),
                            (["-y", "prediction", "--ahead=6"], "available steps: 1")]:
        assert text in plot(directory, *arguments, status=USAGE), arguments


def test_fan(directory):
    """Recorded quantiles are bands; truths are compared with that of 90%."""
    daemon = Daemon(directory)
    recorder = Record(directory, [daemon], "-o", "runnel.db")
    for n in range(1, 62):
        daemon.predict(n)
    daemon.learn(0, 1)
    recorder.until(lambda: recording.rows(directory, "SELECT count(*) FROM predictions") == [(60,)], "60 truths")
    recorder.end()
    daemon.close()
    with contextlib.closing(sqlite3.connect(f"{directory}/runnel.db")) as file, file:
        file.execute("UPDATE predictions SET low = -1e3, high = 1e3, quantiles = json_object('q0.05', target - 1,"
                     " 'q0.25', prediction, 'q0.5', prediction, 'q0.75', prediction, 'q0.95',"
                     " target + CASE WHEN id % 4 THEN 1 ELSE -0.5 END) WHERE id > 1")
    plot(directory, "-y", "prediction", "-o", "fan.svg")
    drawing = Drawing(directory, "fan.svg")
    drawing.has("50, 90% intervals; 90%: contains 74.6%", "missed: 15 of 59")


def test_scores(directory):
    """A panel below the truths shows the score and the alarm limit; older recordings have no score."""
    daemon = Daemon(directory)
    recorder = Record(directory, [daemon], "-o", "runnel.db")
    for n in range(1, 62):
        daemon.predict(n, score=n / 30)
    daemon.send("loss", recording.loss_fields(0) | {"anomaly": {"score": 2.0, "threshold": 1.75, "alarms": 1}})
    recorder.until(lambda: recording.rows(directory, "SELECT anomaly_threshold FROM loss") == [(1.75,)], "the loss")
    recorder.end()
    daemon.close()
    plot(directory, "-y", "prediction", "-o", "scores.svg")
    drawing = Drawing(directory, "scores.svg")
    drawing.has("anomaly score of the stream", "alarm: 1.75", "time of the data (UTC)")
    same_line(drawing.curves("#a65b00")[0], range(2, 62), [n / 30 for n in range(2, 62)])
    with contextlib.closing(sqlite3.connect(f"{directory}/runnel.db")) as file:
        file.execute("ALTER TABLE predictions DROP COLUMN score")
        file.execute("ALTER TABLE loss DROP COLUMN anomaly_threshold")
    plot(directory, "-y", "prediction", "-o", "older.svg")
    assert not Drawing(directory, "older.svg").curves("#a65b00")


def test_errors(directory):
    pathlib.Path(directory, "text").write_text("no recording\n" * 1000)
    assert "not a recording" in plot(directory, "text", status=DATA)
    assert "runnel.db" in plot(directory, status=NO_INPUT)
    record(directory, ("first", "a", 0, 3))
    for status, arguments, text in [
            (USAGE, ["-y", "nonsense"], "metric_bits"), (USAGE, ["-y", "layerx.mean"], "hidden_std"),
            (USAGE, ["-y", "prediction"], "statistics.predictions"),
            (USAGE, ["-r", "other"], "--list"), (CANNOT_MAKE, ["-o", "loss.doc"], "loss.doc"),
            (USAGE, ["--bogus"], "unknown option --bogus"),
            (USAGE, ["--smooth=0"], "--smooth: expected a whole number above 0, got '0'"),
            (USAGE, ["--label=a", "--label=b"], "2 labels"),
            (CANNOT_MAKE, ["-o", "no/where.png"], "no/where.png")]:
        output = plot(directory, *arguments, status=status)
        assert text in output, (arguments, output)
    with contextlib.closing(sqlite3.connect(f"{directory}/runnel.db")) as file:
        columns = [row[1] for row in file.execute("PRAGMA table_info(loss)")]
        file.execute("DROP TABLE loss")
        file.execute(f"CREATE VIEW loss ({', '.join(columns)}) AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1"
                     f" FROM n) SELECT {', '.join(['i'] * len(columns))} FROM n")
    assert "cannot read" in plot(directory, status=DATA)
    assert subprocess.run([PROGRAM, "--version"], capture_output=True, timeout=2 * LIMIT,
                          check=True).stdout.startswith(b"runnel-plot 0.")
    assert "--histogram" in plot(directory, "--help")


cases.run(globals())
