"""Tests runnel-evaluate: baselines, rivals and skill against manual calculations, its findings in
tables, and whole runs."""
import ast
import importlib.machinery
import importlib.util
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import yaml  # noqa: F401, what the tool needs
except ImportError:
    print("needs python3-numpy and python3-yaml")
    sys.exit(77)

import cases

SOURCE = pathlib.Path(os.environ.get("srcdir", "."))
BUILD = pathlib.Path(os.environ.get("builddir", "."))
sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("evaluate", str(BUILD / "runnel-evaluate"))
tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("evaluate", loader))
loader.exec_module(tool)
SEEN = np.array([True])


def version():
    return re.search(r"^AC_INIT\(\[runnel\], \[(.*)\]\)$", (SOURCE / "configure.ac").read_text(),
                     re.M)[1]


def near(a, b):
    assert abs(a - b) < 1e-9, f"{a} is not {b}"


# --- baselines of the loss ---

def test_frequencies():
    rival = tool.Frequencies(2, following=False)
    assert rival.take({"stream": "a", "x": [0]}) is None
    near(rival.take({"stream": "a", "x": [0], "y": [1]}).loss, math.log(2))
    score = rival.take({"stream": "a", "x": [0], "y": [1]})
    near(score.loss, math.log(3 / 2))
    assert score.metric == 1.0


def test_one_normal():
    rival = tool.OneNormal()
    assert rival.take({"stream": "a", "x": [1.0, 2.0, 0]}) is None
    score = rival.take({"stream": "a", "x": [3.0, 4.0, 1]})
    near(score.loss, math.log(2 * math.pi) + 0.5 * (9 + 16) + math.log(2))


# --- rivals ---

def forecasts_of(rival, values):
    return [float(rival.take(np.array([v]), SEEN)[0]) for v in values]


def test_seasonal_naive():
    assert forecasts_of(tool.SeasonalNaive(1, period=3), [1, 2, 3, 4, 5]) == [1, 2, 1, 2, 3]
    # 3 steps repeat: they are predicted after two seasons; until then the forecast is the last
    # value.
    forecasts = forecasts_of(tool.SeasonalNaive(1), [5, 1, 2] * 4)
    assert forecasts[:2] == [5, 1] and forecasts[-4:] == [2, 5, 1, 2][1:] + [5], forecasts


def test_autoregression():
    # 0, 1: no change was observed, so the unit is 1. All inputs are 0 except the 1 of the constant,
    # and the step of least squares sets its weight to 0.01 / (0.999 + 0.01). Then the unit is still
    # 1, the constant counts 0.01 / 1.009, and all other weights are 0.
    forecasts = forecasts_of(tool.Autoregression(1), [0, 1])
    assert forecasts[0] == 0
    near(forecasts[1], 1 + 0.01 / 1.009)
    # It finds x(t + 1) = 2 cos(0.5) x(t) - x(t - 1), apart from the prior and forgetting.
    sine = [math.sin(0.5 * t) for t in range(2001)]
    errors = np.abs(np.array(forecasts_of(tool.Autoregression(1), sine))[1000:-1] - sine[1001:])
    assert errors.max() < 0.01, errors.max()


def test_columns_together():
    """The second column repeats the first one a step later: only a rival of both columns predicts
    it."""
    draw = np.random.default_rng(3).normal(size=400)
    both = np.stack([draw[1:], draw[:-1]], axis=1)
    errors = {}
    for together in False, True:
        rival, seen = tool.Autoregression(2, together), np.array([True, True])
        forecasts = np.array([rival.take(x, seen) for x in both])
        errors[together] = np.abs(forecasts[300:-1, 1] - both[301:, 1]).mean()
    assert errors[True] < 0.1 < 0.5 < errors[False], errors


def test_further_ahead():
    """The value h steps later is learned when it arrives, and compared with the forecast for its
    time."""
    assert forecasts_of(tool.SeasonalNaive(1, 3, ahead=2), [1, 2, 3, 4, 5]) == [1, 2, 2, 3, 4]
    assert forecasts_of(tool.SeasonalNaive(1, 3, ahead=5), [1, 2, 3, 4, 5])[3:] == [3, 4]
    sine = [math.sin(0.5 * t) for t in range(2004)]
    errors = np.abs(np.array(forecasts_of(tool.Autoregression(1, ahead=4), sine))[1000:-4] - sine[1004:])
    assert errors.max() < 0.03, errors.max()
    rows = examples(*(("a", [float(t)], 0) for t in range(6)), ("a", [6.0], 1), ("a", [7.0], 0))
    comparison = tool.Comparison(rows, {}, ahead=2)
    assert comparison.before.tolist() == [-1, -1, 0, 1, 2, 3, 4, -1]
    comparison.add("forecasts", {n: np.array([n + 1.5]) for n in range(8)})
    comparison.finish("forecasts")
    assert (comparison.rmse("forecasts"), comparison.rmse("last value")) == (0.5, 2)


def test_missing_numbers():
    rival = tool.Autoregression(2)
    for x, seen in (([0, 5], [0, 1]), ([0, 6], [0, 1]), ([3, 6], [1, 0]), ([3, 7], [0, 1])):
        forecasts = rival.take(np.array(x, float), np.array(seen, bool))
        assert np.isfinite(forecasts).all(), forecasts
    assert forecasts[0] == 3, forecasts  # its change was never observed


def examples(*rows):
    return [{"stream": stream, "x": x, **({"end": True} if end else {})} for stream, x, end in rows]


def test_skill():
    """Two streams. The network's forecasts after 1, 3, 2 of `a` were 2, 2, 5; then 3 and 2 arrived,
    and the stream ended."""
    rows = examples(("a", [1.0], 0), ("b", [7.0], 0), ("a", [3.0], 0), ("a", [2.0], 1), ("a", [9.0], 0),
                    ("a", [None], 0), ("b", [8.0], 0))
    comparison = tool.Comparison(rows, {})
    comparison.add("forecasts", {0: np.array([2.0]), 2: np.array([2.0]), 3: np.array([5.0]),
                                 1: np.array([7.5])})
    comparison.finish("forecasts")
    assert comparison.targets[:, 0].tolist() == [False, False, True, True, False, False, True]
    near(comparison.rmse("forecasts"), math.sqrt((1 + 0 + 0.25) / 3))
    near(comparison.rmse("last value"), math.sqrt((4 + 1 + 1) / 3))
    near(comparison.skill("last value"), 1 - 1.25 / 6)
    near(comparison.mae("forecasts")[0], 1.5 / 3)


def test_scores_of_distributions():
    """Only values with a distribution count; a jump of the distribution counts in part."""
    comparison = tool.Comparison(examples(*(("a", [float(t % 4)], 0) for t in range(5))), {})
    comparison.add("forecasts", {t: np.array([0.0]) for t in range(5)})
    comparison.crps[2:, 0] = 0.25, 0.5, 0.75
    comparison.pit[2:, 0] = [0.3, 0.3], [0.97, 0.97], [0.0, 0.1]
    comparison.finish("forecasts")
    near(comparison.scores("forecasts")[1], 0.5)
    near(comparison.scores("last value")[0][0], (1 + 1 + 3) / 3)
    near(comparison.score_skills("last value")[0], 1 - 0.5 / (5 / 3))
    for found, expected in zip(comparison.coverage().items(), ((50, 1 / 3), (90, 1.5 / 3), (99, 2.95 / 3))):
        assert found[0] == expected[0]
        near(found[1], expected[1])


def test_wild_values_are_left_out():
    rows = examples(*(("a", [1e30 if t == 20 else math.sin(t)], 0) for t in range(40)))
    comparison = tool.Comparison(rows, {})
    comparison.add("forecasts", {t: np.array([0.0]) for t in range(40)})
    comparison.finish("forecasts")
    assert np.flatnonzero(comparison.wild[:, 0]).tolist() == [20, 21]
    assert comparison.rmse("forecasts") < 1


# --- tables ---

def test_words_of_missing_cells_are_those_of_runnel_feed():
    header = (SOURCE / "streams/sources/feed_columns.h").read_text(encoding="utf-8")
    assert re.search('^#define MISSING_WORDS "(.*)"$', header, re.M)[1] == tool.MISSING


def write(directory, text, name="table.csv"):
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows_of(*columns, delimiter=",", header=None, count=40):
    """`columns`: functions of the row's number."""
    lines = [delimiter.join(str(c(t)) for c in columns) for t in range(count)]
    return "\n".join(([header] if header else []) + lines) + "\n"


def wave(t):
    return f"{math.sin(0.7 * t):.4f}"


def day(t):
    return f"2024-01-{1 + t // 24:02d} {t % 24:02d}:00"


def test_columns_are_found(directory):
    text = rows_of(lambda t: t, day, wave, lambda t: "Osaka", lambda t: "", lambda t: 7,
                   header="n,when,a,town,nothing,b")
    table = tool.Table(write(directory, text), 0)
    assert table.header and table.rows == 40 and table.time == 1
    assert table.names() == ["a", "b"]
    assert [c.why for c in table.columns] == [
        "only counts rows", "is the time", "", "is not a number (got 'Osaka')", "is empty",
        "never changes"]
    assert table.source()[1:] == [str(table.path), "--columns", "a,b", "--time", "when", "--skip-bad"]


def test_descriptions_of_tables(directory):
    """Warnings and notes about a table that affect the figures."""
    def description(*columns, header, count=40):
        return "\n".join(tool.Table(write(directory, rows_of(*columns, header=header, count=count)), 0).describe())

    assert "'when' goes backwards (newest row first)" in description(lambda t: day(40 - t), wave, header="when,a")
    assert "'when' goes backwards 1 time:" in description(lambda t: day(t % 30), wave, header="when,a")
    assert "'when' has 1 gap, the longest of 11 steps" in description(
        lambda t: day(t + 10 * (t > 20)), wave, header="when,a")
    assert "backwards" not in description(day, wave, header="when,a")
    assert "time: 't'" in description(lambda t: 1600000000 + 60 * t, wave, header="t,a")
    assert "time: 't'" in description(lambda t: 1600000000000 + 60000 * t, wave, header="t,a")
    assert "time: 'd'" in description(lambda t: f"{1 + t % 28:02d}.03.2023 00:15", wave, header="d,a")
    assert "--time-format '%d/%m/%Y' or '%m/%d/%Y'" in description(lambda t: f"0{1 + t % 9}/11/2023", wave, header="d,a")
    assert "(got '11,705.88'): write it without the commas" in description(
        lambda t: '"11,705.88"', wave, header="sales,a")
    assert "'when' repeats the time of the previous row in 20 rows" in description(lambda t: day(t // 2), wave, header="when,a")
    assert "'t': 1600000000000 and similar numbers are Unix milliseconds" in description(
        lambda t: 1600000000000 + 60000 * t, wave, header="t,a")
    assert "time: 'd', 'c'\n'd': dates like 13/03/2023 0:30 begin with the day" in description(
        lambda t: f"{13 + t // 24}/03/2023", lambda t: f"{t % 24}:30", wave, header="d,c,a")
    assert "2 rows are skipped: their number of fields" in description(
        lambda t: wave(t) + ",1" * (t % 50 == 7), wave, header="a,b", count=60)


def test_times_are_those_of_the_feeder(directory):
    def table(*columns, header, time_format=None):
        return tool.Table(write(directory, rows_of(*columns, header=header)), 0, time_format)

    for form, first in ((lambda t: 1600000000000 + 60000 * t, 1600000000),
                        (lambda t: f"{1 + t % 28:02d}/03/2023 00:15", 1677629700),
                        (lambda t: f"03/{1 + t % 28:02d}/2023 12:15 AM", 1677629700)):
        found = table(form, wave, header="t,a")
        assert found.time == 0 and found.moments[0] == first, (found.moments[:2], list(found.describe()))
    found = table(lambda t: f"{1 + t // 24:02d}.01.2024", lambda t: f"{t % 24:02d}:30", wave, header="d,c,a")
    assert found.moments[:2] == [1704069000, 1704072600] and found.names() == ["a"], found.moments[:2]
    assert found.source()[4:6] == ["--time", "d,c"], found.source()
    found = table(lambda t: f"0{1 + t % 9}/11/2023", wave, header="d,a", time_format="%d/%m/%Y")
    assert found.moments[0] == 1698796800 and found.source()[-3:-1] == ["--time-format", "%d/%m/%Y"]


def fed(*arguments):
    """The x of each row from runnel-feed."""
    done = subprocess.run([BUILD / "runnel-feed", "csv", *map(str, arguments), "--print", "--quiet", "--skip-bad"],
                          capture_output=True, text=True, check=True)
    return [json.loads(line)["x"] for line in done.stdout.splitlines()]


def test_cells_are_those_of_the_feeder(directory):
    """Numbers, missing and bad cells, with and without --missing."""
    cells = ["1", " 2 ", "+.5", "5.", "1e5", "-1E-3", "", " ", "-", "null", "NULL", "nan", "NaN", "NA", "na", "n/a",
             "12 kg", "0x10", "1,5", "inf", "1e39", "1e", "none", "-999", "1_000", "\u0661", "\u00a03", "."]
    for options in (), ("--missing", "none,-999"), ("--missing", ""):
        reading = tool.Cells(*options[1:])
        text = "a,b\n0,0\n" + "".join(f'"{cell}",{k}\n' for k, cell in enumerate(cells))
        rows = fed(write(directory, text), *options)[1:]
        assert [row[1] for row in rows] == list(range(len(cells)))
        for cell, (value, _) in zip(cells, rows):
            assert reading.is_number(cell) == (value is not None), (cell, value, options)
            if value is not None:
                assert abs(reading.values([cell])[0] - value) <= 1e-6 * abs(value), (cell, value)
        names = fed(write(directory, text), *options, "--names")[1:]
        assert [reading.is_missing(cell) for cell in cells] == ["a" not in row for row in names], options


def test_lists_of_columns_are_those_of_the_feeder(directory):
    names = ["load0", "load1", "temp", "a*b", "x..y", "3", "*"]
    path = write(directory, ",".join(names) + "\n0,1,2,3,4,5,6\n")
    for items in ("load0", "2-4,load0", "3", "load1..a*b", "*", "load?, 7", "t*,[lx]*", "x..y", "?*", "2..4", "4-2", "8",
                  "none", "load1..load0"):
        done = subprocess.run([BUILD / "runnel-feed", "csv", path, "--columns", items, "--print", "--quiet"],
                              capture_output=True, text=True, check=False)
        try:
            found = tool.select(items, names, path)
        except tool.Unusable:
            found = None
        assert found == (json.loads(done.stdout)["x"] if done.returncode == 0 else None), (items, found, done)


def test_a_table_of_several_streams(directory):
    """Long form: times repeat or begin again, and a column separates the rows of one time."""
    def table(*columns, header, count=60):
        return tool.Table(write(directory, rows_of(*columns, header=header, count=count)), 0)

    unix = lambda t: 1600000000 + 60 * t
    for columns, header, stream in (
            ((lambda t: day(t // 2), lambda t: "ab"[t % 2], wave), "when,sensor,v", "sensor"),
            ((lambda t: unix(t % 30), lambda t: 7 + t // 30, wave), "time,sensor_id,v", "sensor_id"),
            ((lambda t: day(60 - t // 3), wave, lambda t: "abc"[t % 3]), "when,v,k", "k"),
            ((lambda t: f"202401{1 + t // 2:02d}", lambda t: t % 2, wave), "date,store,v", "store"),
            ((lambda t: f"0{1 + t // 2 % 9}/0{1 + t // 18}/2024", lambda t: "ab"[t % 2], wave), "date,name,v", "name"),
            ((lambda t: t % 20, lambda t: t // 20, wave), "cycle,unit,v", "unit")):
        found = table(*columns, header=header)
        assert found.stream is not None and found.columns[found.stream].name == stream, header
        assert found.names() == ["v"] and "streams, named by" in "\n".join(found.describe()), header
        words = found.source()
        assert words[words.index("--stream-column") + 1] == stream, words
        warnings = [line for line in found.describe() if line.startswith("WARNING")]
        assert len(warnings) == (stream == "k") and all("newest row first" in line for line in warnings), warnings
    for columns, header in (
            ((lambda t: f"2024-03-{1 + t // 24:02d}", lambda t: t % 24, wave), "date,hour,v"),
            ((day, lambda t: "ab"[t % 2], wave), "when,state,v"),
            ((lambda t: day(t - (t == 50)), lambda t: "CET" if t < 50 else "CEST", wave), "when,zone,v"),
            ((lambda t: day(t // 2), lambda t: "ab"[t // 2 % 2], wave), "when,state,v")):
        assert table(*columns, header=header).stream is None, header
    try:
        table(lambda t: day(t // 4), lambda t: "ab"[t % 2], lambda t: "xy"[t // 2 % 2], wave, header="when,site,kind,v")
        raise AssertionError("learned as one stream")
    except tool.Unusable as problem:
        assert "named by 'site' and 'kind' together" in str(problem), problem
    many = table(lambda t: day(t // 1100), lambda t: f"s{t % 1100}", wave, header="when,k,v", count=11000)
    assert "learning: {max_streams: 1100}" in many.configuration()
    path = write(directory, rows_of(lambda t: day(t // 2), lambda t: "ab"[t % 2],
                                    lambda t: f"{100 * (t % 2) + math.sin(0.7 * (t // 2)):.3f}",
                                    header="when,sensor,v", count=300))
    done = run(path, "--rivals", "none")
    assert done.returncode == 0 and "\n2 streams, named by 'sensor': " in done.stdout, done
    assert "--stream-column sensor --skip-bad \\\n        --socket router" in done.stdout, done.stdout
    whole = next(line.split() for line in done.stdout.splitlines() if line.startswith("whole"))
    # the last value is that of the row's own stream
    assert whole[1] == "298" and float(whole[5]) < 2, whole


def test_many_columns(directory):
    """The output has few lines, and explains --columns for the columns that are left out."""
    names = [f"load{k}" for k in range(40)] + [f"temp{k}" for k in range(20)]
    words = [f"word{k}" for k in range(30)]
    text = rows_of(*[lambda t, k=k: f"{math.sin(0.7 * t + k):.3f}" for k in range(60)],
                   *[lambda t: "x" for _ in words], header=",".join(names + words))
    path = write(directory, text)
    table = tool.Table(path, 0)
    lines = list(table.describe())
    assert len(lines) == 3 and max(map(len, lines)) < 400, lines
    assert "left out: 28 of 60 columns of numbers: runnel-evaluate --columns" in lines[2] and "and 22 more columns" in lines[1], lines
    assert max(map(len, table.configuration().splitlines())) <= 100
    chosen = tool.Table(path, 0, columns="temp*,load3..load5,1")
    assert chosen.names() == names[40:] + names[3:6] + names[:1] and chosen.source()[3] == "41-60,4-6,1"
    done = run(path, "--columns", "temp1,load*", "--rivals", "none", "--json")
    assert done.returncode == 0 and len(json.loads(done.stdout)["methods"]["forecasts"]["columns"]) == 41, done
    for columns, expected in (("none", "column 'none' not found in"), ("non*", "no column matches 'non*' in"),
                              ("word*", "has no column of numbers")):
        done = run(path, "--columns", columns)
        assert done.returncode == 65 and expected in done.stderr and len(done.stderr) < 600, done


def test_words_before_the_first_number(directory):
    """They are missing cells. Their rows are kept, with the value of --missing."""
    path = write(directory, rows_of(lambda t: "offline" if t < 2 else "-1" if t == 9 else wave(t), wave, header="a,b",
                                    count=60))
    for options in (), ("--missing", "-1"):
        done = run(path, "--json", "--rivals", "none", *options)
        assert done.returncode == 0 and json.loads(done.stdout)["examples"] == 60, done
    table = tool.Table(path, 0, missing="-1")
    assert table.source()[4:6] == ["--missing", "-1,offline"], table.source()
    assert table.bad == [("a", 2, "offline", 2)]


def test_without_header(directory):
    table = tool.Table(write(directory, rows_of(wave, wave, day)), 0)
    assert not table.header and table.names() == ["column 1", "column 2"]
    assert table.source()[2:] == ["--columns", "1-2", "--time", "3", "--no-header", "--skip-bad"]


def test_semicolons_and_decimal_commas(directory):
    text = rows_of(day, lambda t: wave(t).replace(".", ","), delimiter=";", header="Zeit;Wert")
    table = tool.Table(write(directory, text), 0)
    assert table.decimal_comma and table.names() == ["Wert"] and table.time == 0
    assert table.source() == ["csv", "-", "--columns", "Wert", "--time", "Zeit", "--delimiter", ";",
                              "--skip-bad"]


def test_names_that_need_numbers(directory):
    text = rows_of(wave, wave, wave, header='"a, b",2,c')
    # The name of one column is the number of another: the feeder prefers names.
    assert tool.Table(write(directory, text), 0).header is False
    text = rows_of(wave, wave, wave, header='"a, b",x,c')
    assert tool.Table(write(directory, text), 0).listed([0, 2]) == "1,3"


def run(*arguments):
    return subprocess.run([sys.executable, BUILD / "runnel-evaluate", *map(str, arguments)],
                          capture_output=True, text=True, check=False)


def test_invalid_tables(directory):
    (directory / "folder").mkdir()
    for name, text, sentence in (
            ("none", None, "file not found"), ("folder", None, "is a directory"),
            ("empty", "", "is empty"), ("lines", "\n\n\n", "is empty"),
            ("one", "a,b\n1,2\n", "expected at least 30 rows of data, got 1"),
            ("bytes", bytes(range(256)) * 9, "is not a text file"),
            ("text", rows_of(lambda t: "x", header="town"), "has no column of numbers to forecast"),
            ("fields", "a\n" + rows_of(wave, wave), "the first line has 1 field")):
        if text is not None:
            write(directory, text, name)
        done = run(directory / name)
        assert done.returncode == 65 and not done.stdout, done
        line, = done.stderr.splitlines()
        assert line.startswith("runnel-evaluate: ") and sentence in line, line


def test_a_table(directory):
    """A table with gaps, a text in a row, a wild value, and a constant column."""
    def gaps(t):
        return "1e30" if t == 150 else "?" if t == 30 else "" if t % 9 == 4 else wave(t)

    path = write(directory, rows_of(day, gaps, lambda t: 7, header="when,a,b", count=300))
    done = run(path, "--json", "--rivals", "ar,seasonal")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["examples"] == 300, found
    assert set(found["methods"]) == {"forecasts", "last value", "AR(12)", "seasonal"}, found
    for method in found["methods"].values():
        assert method["columns"]["b"]["rmse"] == 0 and method["columns"]["b"]["skill"] is None
    done = run("--rivals", "none", "--experts", path)
    assert done.returncode == 0, done.stderr
    for expected in (r"^.*table\.csv: 300 rows; to forecast: 'a', 'b'; time: 'when'$",
                     "^never changes: 'b'$",
                     r"^ +crps +last value$", r"^crps, all +\d", r"% of the values are within the 50% band, \d",
                     "^The newest distributions are (calibrated|too|shifted)",
                     r"^'a': 1 cell is not a number and counts as missing: '\?' in line 32$",
                     r"^[12] rows? left out of these figures", r"^ar12 +\d", r"^level +\d",
                     r"^    preset: forecast$", r'^    model: \{input: \{columns: \[\{name: "a"\}, \{name: "b"\}\]\}\}$',
                     r"^    \S*runnel-feed csv .* --columns a,b --time when",
                     r"^        --stream table --socket router --producer 1$"):
        assert re.search(expected, done.stdout, re.M), (expected, done.stdout)
    path = write(directory, rows_of(day, wave, wave, header="when,a b,c", count=60))
    done = run("--rivals", "none", path)  # an invalid name in a configuration
    assert done.returncode == 0 and "    model: {input: {size: 2}}\n" in done.stdout, done.stdout


def test_columns_that_are_known_ahead(directory):
    """They are not forecast, and the configuration and the feeder's command have them."""
    flag = lambda t: int(t * t % 101 < 9)
    path = write(directory, rows_of(day, lambda t: float(wave(t)) + 9 * flag(t), flag, header="when,v,f", count=400))
    ahead = "--set", "model.output.ahead=[1,3]"
    done = run(*ahead, "--known", "f", "--rivals", "none", path)
    assert done.returncode == 0, done.stderr
    for expected in (r"^.*table\.csv: 400 rows; to forecast: 'v'; known ahead: 'f'; time: 'when'$",
                     r'^    model: \{input: \{columns: \[\{name: "v"\}, \{name: "f", known: 3\}\]\}\}$',
                     r"^    \S*runnel-feed csv .* --columns v --known f --ahead 1,3 --time when", r"^397 of 397 examples"):
        assert re.search(expected, done.stdout, re.M), (expected, done.stdout)
    known, without = (json.loads(run("--json", *more, path).stdout)["methods"]["forecasts"]["rmse"]
                      for more in (("--known", "f"), ("--columns", "v")))
    assert known < 0.7 * without, (known, without)
    done = run("--known", "g", path)
    assert done.returncode and "--known: column 'g' not found" in done.stderr, done.stderr


def test_every_horizon(directory):
    path = write(directory, rows_of(day, wave, header="when,a", count=400))
    done = run(path, "--json", "--rivals", "ar,seasonal,holt-winters", "--set", "model.output.ahead=[1, 4]")
    assert done.returncode == 0, done.stderr
    near_by, far = json.loads(done.stdout)["horizons"]
    for ahead, found in ((1, near_by), (4, far)):
        assert found["ahead"] == ahead and found["targets"] == 400 - ahead, found
        assert {"forecasts", "last value", "AR(12)", "seasonal"} <= set(found["methods"]), found
        assert found["methods"]["last value"]["skill"] > 0.2, found
    assert near_by["methods"]["last value"]["rmse"] < far["methods"]["last value"]["rmse"]
    done = run(path, "--rivals", "none", "--experts", "--set", "model.output.ahead=3")
    assert done.returncode == 0 and "\n3 steps ahead\n" in done.stdout, done
    assert re.search(r"^whole +397 ", done.stdout, re.M), done.stdout
    assert re.search(r"^    \S*runneld --config table\.yaml --set model\.output\.ahead=3$", done.stdout, re.M), done.stdout


def test_a_daemon_that_learns_nothing(directory):
    """The error is the daemon's, and the program does not wait."""
    write(directory, "name: small\npreset: forecast\nmodel: {input: {size: 3}}\n", "small.yaml")
    done = run(directory / "small.yaml", "csv", write(directory, rows_of(wave, wave, header="a,b")),
               "--columns", "a,b")
    assert done.returncode == 65 and "learned 0 of 40 examples" in done.stderr, done
    assert "expected 3" in done.stderr, done


def test_plot(directory):
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return
    picture = directory / "plot.png"
    done = run(write(directory, rows_of(day, wave, header="when,a", count=80)), "-o", picture)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


# --- whole runs ---

def test_how_it_is_called():
    assert run("--version").stdout == f"runnel-evaluate {version()}\n"
    assert "SOURCE" in run("--help").stdout
    # known, although a single column has no use for it
    missing = run("--rivals", "var", "none.csv")
    assert missing.returncode == 65, missing
    messages = str(SOURCE / "conf/next-line.yaml"), "lines", "--message", "none.log"
    for wrong, expected in (((), ""), (("conf.yaml",), "missing SOURCE"),
                        (messages, "model.input.sequence is not supported"),
                        (("--no-such-option",), ""), (("t.csv", "--perid", "3"), "unknown option --perid"),
                        (("--period", "x", "t.csv"), "--period: expected a whole number, got 'x'"),
                        (("--period",), "--period: missing value"), (("--rivals", "luck", "t.csv"), "--rivals: unknown method")):
        done = run(*wrong)
        assert done.returncode == 64 and f"runnel-evaluate: {expected}" in done.stderr, done


def test_parts_have_names_of_their_own():
    """The parts form one program: no two definitions at the top level have the same name."""
    names = []
    for node in ast.parse((BUILD / "runnel-evaluate").read_text()).body:
        names += [node.name] if hasattr(node, "name") else [
            target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)]
    assert len(names) > 50 and len(names) == len(set(names)), names


def test_an_interruption_leaves_nothing_that_waits():
    """Ctrl-C while the tool waits for the daemon: the daemon can be ended afterwards."""
    sleeper = subprocess.Popen(["sleep", "1000"])
    run = tool.Run.__new__(tool.Run)  # used by wait_until
    run.daemon, sleep = sleeper, tool.time.sleep
    before = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    tool.time.sleep = lambda _: None
    try:
        for n in range(400):
            try:
                signal.setitimer(signal.ITIMER_REAL, 5e-5 + 1e-6 * n)
                run.wait_until("nothing", lambda: 1)
            except KeyboardInterrupt:
                pass
            assert sleeper._waitpid_lock.acquire(timeout=5), f"wait() does not return, at round {n}"
            sleeper._waitpid_lock.release()
    finally:
        tool.time.sleep = sleep
        signal.signal(signal.SIGALRM, before)
        os.kill(sleeper.pid, signal.SIGKILL)


def test_where_programs_are_missing():
    """A copy alone in a directory, with an empty PATH."""
    with tempfile.TemporaryDirectory() as directory:
        alone = shutil.copy(BUILD / "runnel-evaluate", directory)
        done = subprocess.run([sys.executable, alone, SOURCE / "conf/text.yaml", "text", "none"],
                              env={"PATH": directory}, capture_output=True, text=True, check=False)
    assert done.returncode == 69 and "runneld not found" in done.stderr, done


def test_symbols(directory):
    text = directory / "text"
    text.write_text("the same words again " * 100)
    done = run("--set", "model.layers.0.size=16", SOURCE / "conf/text.yaml", "text", text)
    assert done.returncode == 0, done.stderr
    rows = {line[:12].strip(): line[12:].split() for line in done.stdout.splitlines()}
    assert rows["whole"][0] == "2099", done.stdout
    assert 0 < float(rows["tenth 10"][1]) < float(rows["tenth 1"][1]), done.stdout
    assert "2100 of 2100 examples learned, 0 rejected" in done.stdout


def test_ppm_by_hand():
    """The last b is known after a, but not after ba."""
    contexts, past, found = tool.Contexts(2), (), []
    for symbol in "abab":
        found.append(contexts.take(past, symbol))
        past = (*past, symbol)
    expected = ((1 / 2,) * 5, (1 / 4,) + (1 / 2,) * 4, (1 / 2,) * 4 + (1 / 4,), (3 / 8, 3 / 4, 1 / 2, 1 / 2, 1 / 2))
    # order 0 of the third symbol: a and b once each; of the order-1 context b: nothing yet
    for bits, probabilities in zip(found, expected, strict=True):
        for a, b in zip(bits, probabilities, strict=True):
            near(2 ** -a, b)


def test_a_text(directory):
    path = write(directory, "the same words again, and again the same words. " * 40, "some text.TXT")
    done = run(path, "--set", "memory=1048576", "--set", "members=[]")
    assert done.returncode == 0, done.stderr
    rows = {line[:14].strip(): line[14:].split() for line in done.stdout.splitlines()}
    assert rows["bits a byte"] == ["runnel", "frequencies", "order", "1", "order", "2", "order", "3", "PPM(4)", "skill"]
    runnel, frequencies, *_, ppm, skill = map(float, rows["whole"])
    assert runnel < 1 < 3 < frequencies < 4.5 and ppm < 1, rows["whole"]
    assert abs(skill - (1 - runnel / min(map(float, rows["whole"][1:6])))) < 0.01, rows["whole"]
    assert float(rows["tenth 10"][0]) < 0.2 < 1 < float(rows["tenth 1"][0]), rows
    for expected in ("^.*some text.TXT: predicts each byte from the earlier ones$", "^    model: {input: {size: 256}}$",
                     "^    name: some-text$", r"runnel-feed text '.*some text\.TXT' \\$",
                     "^1920 of 1920 examples learned, 0 rejected", r"runneld --config some-text.yaml --set memory=1048576"):
        assert re.search(expected, done.stdout, re.M), (expected, done.stdout)


def test_a_log(directory):
    """Lines in turn, with a plot."""
    path = write(directory, "".join(f"2026-01-01 00:{n // 60:02}:{n % 60:02} {('start', 'run all', 'end of it')[n % 3]} {n}\n"
                                    for n in range(300)), "boot.log")
    picture = directory / "bits.png"
    done = run("-j", "--set", "memory=1048576", path, *(["-o", picture] if importlib.util.find_spec("matplotlib") else []))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["examples"], found["compared"]) == (300, 300) and found["skill"] < 1, found
    assert found["bits"]["runnel"] < 0.3 < 1.5 < found["bits"]["frequencies"] < 1.7, found
    assert not importlib.util.find_spec("matplotlib") or picture.read_bytes().startswith(b"\x89PNG")
    done = run("--count", "100", "--set", "memory=1048576", path)
    for expected in ("^only the first 100 lines are read: --count 0 reads all$", "of the 3 templates has 1.585 bits",
                     r"^        --templates-file boot.templates --stream boot --socket router --producer 1$"):
        assert re.search(expected, done.stdout, re.M), (expected, done.stdout, done.stderr)


def test_clicks(directory):
    """conf/clicks.yaml with the command of its comment: sessions are streams, pages are words."""
    pages = ("/home", "/shoes", "404", "/cart")
    path = write(directory, "session,page\n" + "".join(
        f"s{n % 7},{pages[(n // 7 + n % 7) % 4]}\n" for n in range(700)), "clicks.csv")
    command = re.search("runnel-feed (csv clicks.csv .*)", (SOURCE / "conf/clicks.yaml").read_text(encoding="utf-8"))[1].split()
    done = run("-j", "--set", "memory=1048576", SOURCE / "conf/clicks.yaml", "csv", path, *command[2:])
    assert done.returncode == 0, done.stderr
    bits = json.loads(done.stdout)["bits"]
    assert bits["runnel"] < 0.3 < 1.9 < bits["frequencies"], bits


def test_invalid_texts(directory):
    for name, text, code, sentence in (
            ("none.txt", None, 65, "file not found"), ("empty.log", "", 65, "is empty"),
            ("one.log", "one\n", 65, "expected at least 30 lines, got 1"),
            ("short.txt", "one\n", 65, "expected at least 30 bytes, got 4"),
            ("bytes.txt", bytes(range(256)) * 9, 65, "is not a text file"),
            ("good.log", "one\n" * 99, 64, "--rivals applies to tables only")):
        if text is not None:
            write(directory, text, name)
        done = run(*["--rivals", "ar"] * (code == 64), directory / name)
        assert done.returncode == code and not done.stdout, done
        line, = done.stderr.splitlines()
        assert line.startswith("runnel-evaluate: ") and sentence in line, line


def test_numbers(directory):
    """A configuration with a source; the last value equals the manual calculation."""
    values = [round(math.sin(0.3 * t) + 0.1 * (t % 3), 3) for t in range(200)]
    path = write(directory, "a\n" + "\n".join(map(str, values)) + "\n")
    config = write(directory, "name: one\npreset: forecast\nmodel: {input: {size: 1}}\n", "one.yaml")
    done = run("-j", "--set", "model.layers.0.size=8", config, "csv", path, "--columns", "a")
    assert done.returncode == 0, done.stderr
    methods = json.loads(done.stdout)["methods"]
    hand = math.sqrt(sum((b - a) ** 2 for a, b in zip(values, values[1:])) / 199)
    assert abs(methods["last value"]["rmse"] - hand) < 1e-6, (methods, hand)
    forecasts = methods["forecasts"]["rmse"]
    assert abs(methods["last value"]["columns"]["a"]["skill"] - (1 - (forecasts / hand) ** 2)) < 1e-6
    assert forecasts < methods["last value"]["rmse"]
    hand = sum(abs(b - a) for a, b in zip(values[1:], values[2:])) / 198  # the first truth has no distribution
    assert abs(methods["last value"]["crps"] - hand) < 0.01, (methods, hand)
    assert 0 < methods["forecasts"]["crps"] < methods["forecasts"]["columns"]["a"]["mae"], methods
    found = json.loads(run("-j", "-r", "none", "--set", "model.layers.0.size=8", "--set", "distribution.enabled=false",
                           config, "csv", path, "--columns", "a").stdout)
    assert found["coverage"] == {} and found["methods"]["forecasts"]["crps"] is None, found


NETWORK = """
  layers: [{cell: dense, size: 4, norm: none}]
learning: {window: 1, stride: 1, optimizer: {kind: sgd, rate: 0.01}}
"""


def whole_of(done):
    assert done.returncode == 0, done.stderr
    return next(line.split()[1:] for line in done.stdout.splitlines() if line.startswith("whole"))


def test_baseline_of_the_daemon(directory):
    """The last value for x, the running mean for a given y; every message has one target."""
    values = [math.sin(0.3 * t) for t in range(100)]
    path = write(directory, "a,b\n" + "\n".join(f"{v:.6f},{v:.6f}" for v in values) + "\n")
    config = write(directory, "name: one\nmodel:\n  input: {kind: real, size: 1}\n"
                   "  output: {loss: squared, size: 1, target: next}" + NETWORK, "next.yaml")
    _, _, baseline, rmse, last, skill = whole_of(run("-r", "none", config, "csv", path, "--columns", "a"))
    hand = sum((b - a) ** 2 for a, b in zip(values, values[1:])) / 99
    assert abs(float(baseline) - hand) < 1e-4 and abs(float(last) - math.sqrt(hand)) < 1e-4
    assert abs(float(skill) - (1 - float(rmse) ** 2 / hand)) < 0.01
    given = write(directory, "name: two\nmodel:\n  input: {kind: real, size: 1}\n"
                  "  output: {loss: squared, size: 1, target: given}" + NETWORK, "given.yaml")
    loss, baseline, skill, _ = whole_of(run(given, "csv", path, "--columns", "a", "--targets", "b"))
    means = [sum(values[:t]) / max(t, 1) for t in range(100)]
    hand = sum((v - m) ** 2 for v, m in zip(values, means)) / 100
    assert abs(float(baseline) - hand) < 1e-4, (baseline, hand)
    assert abs(float(skill) - (1 - float(loss) / float(baseline))) < 0.001


def test_wrong_configuration():
    done = run("--set", "model.layers.9.size=16", SOURCE / "conf/text.yaml", "text", "none")
    assert done.returncode == 78 and "layers" in done.stderr, done.stderr


cases.run(globals())
