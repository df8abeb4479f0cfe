#!/usr/bin/python3
"""The Python package as users see it: the programs of docs/reference/python.md,
docs/how-to/notebook.md and README.md run, it is typed, pip installs it, and a notebook, a
recording and River work."""
import ast
import contextlib
import importlib.util
import math
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import time

import cases
import running

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
PACKAGE = SOURCE / "streams/python"
PAGE = (SOURCE / "docs/reference/python.md").read_text(encoding="utf-8")
NOTEBOOK = (SOURCE / "docs/how-to/notebook.md").read_text(encoding="utf-8")
README = (SOURCE / "README.md").read_text(encoding="utf-8")
sys.dont_write_bytecode = True
sys.path.insert(0, str(PACKAGE))
os.environ.update(RUNNELD=str(BUILD / "runneld"), PYTHONPATH=str(PACKAGE), PYTHONDONTWRITEBYTECODE="1")

LIMIT = 120  # seconds: only ends a test that hangs
SOCKETS = {5570: "examples", 5571: "statistics", 5572: "control"}
README_LINES = 5
RIVERS = (os.environ.get("RUNNEL_RIVER_PYTHON"), str(BUILD.parent / "river/bin/python"), sys.executable)
OUTPUTS = {"waves": "{loss: squared, size: 2, target: next}",
           "labels": "{loss: softmax, size: 2, target: later}",
           "words": "{loss: softmax, target: given, vocabulary: {capacity: 3}}",
           "racks": "{loss: squared, size: 1, target: given}"}
INPUTS = {"words": "{kind: symbol, vocabulary: {capacity: 5}}",
          "racks": "{columns: [{name: load, kind: real}, {name: host, kind: symbol, vocabulary: {capacity: 100}, "
                   "embedding: 4}]}"}
CONFIG = """
name: {name}
model:
  input: {input}
  layers: [{{cell: gru, size: 8, norm: layer}}]
  output: {output}
learning: {{window: 8, stride: 4, optimizer: {{kind: adam, rate: 0.003}}}}
examples: {{bind: "ipc://{d}/examples", socket: {socket}}}
statistics: {{bind: "ipc://{d}/statistics", predictions: true}}
control: {{bind: "ipc://{d}/control"}}
state: {{directory: "{d}/state"}}
"""


def daemon(directory, name="waves", socket="router"):
    directory.mkdir(exist_ok=True)
    return running.Daemon(directory, CONFIG.format(
        d=directory, name=name, input=INPUTS.get(name, "{kind: real, size: 2}"), output=OUTPUTS[name], socket=socket))


def elsewhere(text, directory):
    """The same program on sockets of this test."""
    return re.sub(r"tcp://127\.0\.0\.1:(557[012])",
                  lambda found: f"ipc://{directory}/{SOCKETS[int(found[1])]}", text)


def programs(text, *words):
    """The Python programs of a page, or the one that has all of the words."""
    found = [block for block in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
             if all(word in block for word in words)]
    assert not words or len(found) == 1, (words, len(found))
    return found[0] if words else found


def start(text, directory, output, python=sys.executable):
    with open(directory / output, "wb") as file:
        return subprocess.Popen([python, "-u", "-c", elsewhere(text, directory)], stdout=file,
                                stderr=subprocess.STDOUT, cwd=directory)


def result(text, directory, python=sys.executable):
    """Its output."""
    process = start(text, directory, "printed", python)
    status = process.wait(LIMIT)
    printed = (directory / "printed").read_text(encoding="utf-8")
    assert status == 0 and "tcp://" not in elsewhere(text, directory), printed
    return printed


def feed_until(feeder, directory, path, pattern):
    """Runs the feeder until a watching program has printed the pattern."""
    end = time.monotonic() + LIMIT
    while not re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE):
        assert time.monotonic() < end, path.read_text(encoding="utf-8")
        result(feeder, directory)


def test_the_page_feeds_and_asks(directory):
    with daemon(directory) as one:
        result(programs(PAGE, "client.learn([math.sin"), directory)
        assert one.ask("status")["examples"] == 2000
        printed = result(programs(PAGE, "said.values, said.loss"), directory)
        assert re.search(r"^\[ *\S+ +\S+\] \d", printed), printed
        printed = result(programs(PAGE, "print(error)"), directory)
        assert printed == "x has the shape (3,), but a step of this model has 2 numbers: pass (2,), or (steps, 2)\n"
        printed = result(programs(PAGE, "asyncio.run"), directory)
        assert printed.startswith("["), printed
        printed = result(programs(PAGE, "control.export()"), directory)
        assert printed.startswith("2203\n") and "'output.weight': (2, 8)" in printed, printed
        assert one.ask("status")["rejected"] == 0
    with daemon(directory / "labels", "labels") as one:
        result(programs(PAGE, "client.label("), directory / "labels")
        assert one.ask("status")["examples"] == 2 and one.ask("status")["rejected"] == 0
    with daemon(directory / "racks", "racks") as one:
        result(programs(PAGE, '"host": "web-3"}, 21.5'), directory / "racks")
        assert one.ask("status")["examples"] == 2 and one.ask("status")["rejected"] == 0
    with daemon(directory / "words", "words") as one:
        printed = result(programs(PAGE, 'client.learn("web-3"'), directory / "words")
        names, shares, label, found = re.fullmatch(r"(\[.*?\]) \[(.*)\]\n(\w+) (\{.*\})\s*", printed, re.DOTALL).groups()
        names, found = ast.literal_eval(names), ast.literal_eval(found)
        assert found.keys() == set(filter(None, names)) and found[label] == max(found.values()), printed
        assert sorted(filter(None, names)) == ["busy", "free"], printed
        assert len(shares.split()) == len(names) and abs(sum(map(float, shares.split())) - 1) < 1e-3, printed
        assert one.ask("status")["steps"] == 4


def test_the_page_watches(directory):
    feeder = programs(PAGE, "client.learn([math.sin")
    with daemon(directory) as one:
        losses = start(programs(PAGE, "message.missed"), directory, "losses")
        joined = start(programs(PAGE, "watcher.join()"), directory, "joined")
        feed_until(feeder, directory, directory / "losses", r"^\d+00 \d\S* 0$")
        feed_until(feeder, directory, directory / "joined",
                   r"^wave \d+ \[\S+ \S+\] \[\S+ \S+\] \[\[\S+ \S+\], \[\S+ \S+\]\] \d\S*$")
        joined.kill()
        # A daemon that ends does not wait for a slow subscriber.
        running.wait_learned(one, newest := one.ask("status")["examples"])
        end = time.monotonic() + LIMIT
        while not re.search(f"^{newest - newest % 100} ", (directory / "losses").read_text(encoding="utf-8"), re.MULTILINE):
            assert time.monotonic() < end, newest
            time.sleep(0.02)
        assert one.end() == 0 and losses.wait(LIMIT) == 0, (directory / "losses").read_text(encoding="utf-8")


def test_the_readme(directory):
    feeder = programs(README, "runnel.Client")
    assert len(feeder.strip().splitlines()) <= README_LINES
    with daemon(directory, socket="pull") as one:
        result(feeder, directory)
        running.wait_learned(one, int(re.search(r"range\((\d+)\)", feeder)[1]))
        assert one.ask("status")["rejected"] == 0


def test_every_program_is_run(_):
    """The tests above and below name all programs."""
    assert len(programs(PAGE)) == 12 and all("runnel" in text for text in programs(PAGE))


def need_pandas():
    if not importlib.util.find_spec("pandas"):
        cases.skip("needs python3-pandas")


def test_a_notebook(directory):
    need_pandas()
    printed = result(programs(NOTEBOOK, '"name": "notebook"'), directory)
    first, last = (float(line.split()[1]) for line in printed.strip().splitlines()[-3:-1])
    assert "2999" in printed and last < first, printed

    import runnel
    config = {"name": "given", "model": {"input": {"kind": "real", "size": 1},
                                         "layers": [{"cell": "rnn", "size": 4}],
                                         "output": {"loss": "softmax", "size": 2, "target": "given"}}}
    frame = runnel.run(config, [([0.0], 0), ([1.0], 1)] * 10 + [{"x": [1.0], "y": 1, "stream": "b", "time": 5.0}])
    assert list(frame.columns) == ["stream", "time", "prediction_0", "prediction_1", "loss"], frame
    assert len(frame) == 21 and frame["loss"].notna().all() and frame["stream"].iloc[-1] == "b"
    assert (frame["prediction_0"] + frame["prediction_1"] - 1).abs().max() < 1e-5
    assert abs(frame["loss"].iloc[-1] + math.log(frame["prediction_1"].iloc[-1])) < 1e-5  # of its own y
    config["model"]["output"]["target"] = "later"
    assert runnel.run(config, [([0.0], 0), ([1.0], 1)] * 5)["loss"].notna().all()

    # With a model of one column, a list is steps; a table that surely has two columns is not.
    import numpy as np
    import pandas
    one = {**config, "model": {**config["model"], "output": {"loss": "squared", "size": 1, "target": "next"}}}
    assert runnel.run(one, [[1.0, 2.0], [3.0]]).equals(runnel.run(one, [[[1.0], [2.0]], [[3.0]]]))
    for table in (pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}), np.ones((3, 2))):
        try:
            runnel.run(one, table)
            raise AssertionError("no exception")
        except ValueError as error:
            assert "expected rows of 1 number: pass (n, 1), one row per item, got rows of 2" in str(error), error
    assert len(runnel.run(one, pandas.DataFrame({"a": [1.0, 2.0]}))) == len(runnel.run(one, np.ones((2, 1)))) == 2

    words = {"loss": "softmax", "target": "given", "vocabulary": {"capacity": 2}}
    named = {**config, "model": {**config["model"], "output": words}}
    assert list(runnel.run(named, [([0.0], "free")])) == ["stream", "prediction_free", "prediction_1", "prediction_2", "loss"]
    named["model"].update(input={"columns": [{"name": "load"}, {"name": "oil"}]},
                          output={"loss": "squared", "size": 2, "target": "next"})
    assert len(runnel.run(named, pandas.DataFrame({"oil": [1.0, 2.0], "load": [3.0, 4.0]}))) == 2

    # Targets with names: those of x, or of y.
    frame = pandas.DataFrame({"oil": [1.0, 2.0], "load": [3.0, 4.0], "x": [5.0, 6.0]})
    named["model"]["input"]["columns"].append({"name": "x"})
    named["model"]["output"] = {"loss": "squared", "target": "next", "columns": ["x", "oil"]}
    assert list(runnel.run(named, frame)) == ["stream", "prediction_x", "prediction_oil", "loss"]
    named["model"]["output"].update(loss="gaussian", columns=["oil"])
    assert list(runnel.run(named, frame)) == ["stream", "prediction_oil_0", "prediction_oil_1", "loss"]

    # Times: of the named column, else of the only one of dates, else of the index.
    dates, days = pandas.to_datetime(["2024-01-01 00:00:01.5", "2024-01-02"]), [1704067201.5, 1704153600.0]
    values = pandas.DataFrame({"a": [1.0, 2.0]})
    for frame, time_of in ((values.assign(at=dates), None), (values.assign(at=dates), "at"), (values.set_index(dates), None),
                           (values["a"].set_axis(dates), None), (values.assign(at=dates.tz_localize("Asia/Tokyo")), None),
                           (values.assign(at=days, other=dates)[["a", "at"]], "at"), (values.assign(at=dates.astype(str)), "at"),
                           (values.assign(at=list(dates.to_pydatetime())).astype({"at": object}), "at"),
                           (values.assign(at=dates).set_index(dates + pandas.Timedelta(days=9)), None)):
        zone = 9 * 3600 if getattr(frame.dtypes.get("at") if hasattr(frame, "columns") else None, "tz", None) else 0
        assert list(runnel.run(one, frame, time=time_of)["time"]) == [day - zone for day in days], frame
    assert "time" not in runnel.run(one, values)
    lacks = values.assign(at=dates.where([True, False]))
    for frame, time_of, words in ((lacks, None, "row 1: column 'at' has no time"), (values.set_index(lacks["at"]), None, "row 1: the index"),
                                  (values.assign(at=[0.0, math.nan]), "at", "row 1"), (values, "at", "time='at'"),
                                  ([[1.0]], "at", "time='at'"), (values.assign(at=["noon", "x"]), "at", "column 'at' has no times"),
                                  (values.assign(at=[1.5, None]).astype({"at": object}), "at", "expected Unix times"),
                                  (values.assign(at=dates, to=dates), None, "columns 'at', 'to' are dates")):
        try:
            runnel.run(one, frame, time=time_of)
            raise AssertionError("no exception")
        except ValueError as error:
            assert words in str(error), error

    def broken():
        yield [0.0]
        raise KeyError("the program's own")

    before = {path.name for path in pathlib.Path("/proc").glob("[0-9]*") if child(path)}
    for items, kind in (([], ValueError), (broken(), KeyError), ([[math.inf]], ValueError), ([(1, 2, 3)], ValueError)):
        try:
            runnel.run(config, items)
            raise AssertionError("no exception")
        except kind:
            pass
    assert {path.name for path in pathlib.Path("/proc").glob("[0-9]*") if child(path)} <= before


def child(path):
    """Whether it is a child process of this one, and not a zombie."""
    try:
        words = (path / "stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
        return int(words[1]) == os.getpid() and words[0] != "Z"
    except OSError:
        return False


def test_a_recording(directory):
    need_pandas()
    import runnel
    with daemon(directory) as one:
        recorder = subprocess.Popen([BUILD / "runnel-record", "--connect", one.endpoint("statistics"),
                                     "--output", directory / "waves.db"], stderr=subprocess.DEVNULL)
        end = time.monotonic() + LIMIT
        losses, feeder = [], programs(PAGE, "client.learn([math.sin")
        while len(losses) < 2 or not len(runnel.read_recording(directory / "waves.db", "predictions")):
            assert time.monotonic() < end and recorder.poll() is None
            result(feeder, directory)
            try:
                losses = runnel.read_recording(directory / "waves.db")
            except (FileNotFoundError, ValueError):  # the file or its tables do not exist yet
                pass
        assert "examples" in result(programs(PAGE, "read_recording"), directory)
        recorder.terminate()
        recorder.wait(LIMIT)
        losses = runnel.read_recording(directory / "waves.db")
    assert set(losses["daemon"]) == {"waves"} and losses["mean"].notna().any()
    assert abs(losses["date"].iloc[-1].timestamp() - time.time()) < 3600
    states = runnel.read_recording(directory / "waves.db", "states")
    assert set(states["layer"]) == {0} and len(states["histogram"].iloc[-1]) == 20
    for table in "columns", "experts", "anomalies", "events", "runs", "layers":
        assert runnel.read_recording(directory / "waves.db", table) is not None
    (directory / "text").write_text("no file of SQLite\n" * 100)
    with contextlib.closing(sqlite3.connect(directory / "view.db")) as file: # a view with endless rows
        file.execute("CREATE TABLE runs (id, name)")
        file.execute("CREATE VIEW loss (run, time) AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
                     " SELECT i, i FROM n")
    for name, columns, values in (("time", "time", ("x",)), ("late", "time", (1e300,)), ("blob", "time, histogram", (1, b"123")),
                                  ("text", "time, histogram", (1, "123")), ("number", "time, histogram", (1, 7))):
        with contextlib.closing(sqlite3.connect(directory / f"{name}.db")) as file, file:
            file.execute("CREATE TABLE runs (id, name)")
            file.execute(f"CREATE TABLE loss (run, {columns})")
            file.execute(f"INSERT INTO loss VALUES (1, {', '.join('?' for _ in values)})", values)
        try:
            print(runnel.read_recording(directory / f"{name}.db"))
            raise AssertionError(name)
        except ValueError as error:
            assert f"{name}.db: not a recording" in str(error), error
    for path, table, kind in (("none", "losses", FileNotFoundError), ("text", "losses", ValueError), ("view.db", "losses", ValueError),
                              ("waves.db", "tables", ValueError)):
        try:
            runnel.read_recording(directory / path, table)
            raise AssertionError(path)
        except kind:
            pass


def test_types(directory):
    if not shutil.which("mypy"):
        cases.skip("needs mypy")
    text = (PACKAGE / "pyproject.toml").read_text(encoding="utf-8")
    assert "strict = true" in text and (PACKAGE / "runnel/py.typed").exists()
    done = subprocess.run(["mypy", "--strict", "--cache-dir", directory / "cache", "--python-executable", sys.executable,
                           "--config-file", PACKAGE / "pyproject.toml", "-p", "runnel"], cwd=PACKAGE, capture_output=True,
                          text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pip(directory):
    """Installed from a copy of the tree: all modules, and the version of the project."""
    import runnel
    version = re.search(r"^AC_INIT\(\[runnel\], \[(.*)\]\)$", (SOURCE / "configure.ac").read_text(), re.MULTILINE)[1]
    project = (PACKAGE / "pyproject.toml").read_text(encoding="utf-8")
    assert f'\nversion = "{version}"\n' in project and runnel.__version__ == version
    listed = set(re.findall(r"streams/python/runnel/(\S+)", (SOURCE / "Makefile.am").read_text(encoding="utf-8")))
    modules = {path.name for path in (PACKAGE / "runnel").iterdir() if path.is_file()}
    assert listed == modules, listed ^ modules
    if not all(importlib.util.find_spec(name) for name in ("pip", "setuptools", "wheel")):
        cases.skip("needs python3-pip, python3-setuptools and python3-wheel")
    shutil.copytree(PACKAGE, directory / "copy", copy_function=shutil.copyfile)
    for path in (directory / "copy", directory / "copy/runnel"):
        path.chmod(0o755)  # the sources may be read-only
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                           "--no-build-isolation", "--target", directory / "site", directory / "copy"],
                          capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in (directory / "site/runnel").iterdir() if path.is_file()} == modules
    assert list((directory / "site").glob(f"runnel-{version}.dist-info"))


def python_of_river():
    """A Python with River and pyzmq."""
    for python in filter(None, RIVERS):
        if pathlib.Path(python).exists() and not subprocess.run(
                [python, "-c", "import river, zmq, numpy"], capture_output=True, check=False).returncode:
            return python
    return cases.skip("needs a Python with river and pyzmq (RUNNEL_RIVER_PYTHON, or BUILD/river, which tools/check makes)")


RIVER = """
from river import base, datasets, evaluate, linear_model, metrics, preprocessing
from runnel.river import Classifier, Regressor
import runnel

def score(model, data, metric, **options):
    return evaluate.progressive_val_score(data, model, metric, **options).get()

# The truth is that of the previous x: a recurrent network can learn it, a linear model cannot.
def shifted():
    before = 0
    for i in range(600):
        now = (i * 7919 % 13) % 2
        yield {"now": now}, before
        before = now

with Regressor() as model:
    assert isinstance(model, base.Regressor) and "Regressor" in repr(model)
    mine = score(model, shifted(), metrics.MSE())
    counts = model._stream.client.counts
    assert counts.sent == 1200 and counts.refused == 0, counts    # an example and a label each
    model.predict_one({"now": 1})
    try:
        model.predict_one({"then": 1})
        raise SystemExit("another feature")
    except ValueError as error:
        assert "'then'" in str(error), error
linear = score(preprocessing.StandardScaler() | linear_model.LinearRegression(), shifted(), metrics.MSE())
assert mine < 0.7 * linear, (mine, linear)
print(mine, linear)

with Classifier() as model:
    pipeline = preprocessing.StandardScaler() | model     # which changes x between prediction and truth
    accuracy = score(pipeline, datasets.Phishing().take(600), metrics.Accuracy())
    assert accuracy > 0.7, accuracy
    print(accuracy)
    assert model._stream.client.counts.sent == 1200

with Classifier(classes=2) as model:
    delayed = score(model, ((x, str(y)) for x, y in datasets.Phishing().take(400)), metrics.Accuracy(), moment=None, delay=5)
    assert delayed > 0.6, delayed
    print(delayed)
    try:
        model.learn_one({name: 0 for name in model._stream.names}, "third")
        raise SystemExit("a third class")
    except ValueError as error:
        assert "'third'" in str(error) and "classes=" in str(error), error
with Classifier(classes=2, match="exact") as model:
    for x, y in datasets.Phishing().take(5):
        model.learn_one(x, y)
    found = model.predict_proba_one(x)
    assert set(found) == {True, False} and abs(sum(found.values()) - 1) < 1e-9, found
"""


def test_river(directory):
    python = python_of_river()
    print(result(RIVER, directory, python), end="")
    score = programs(PAGE, "TrumpApproval")
    printed = result(score, directory, python)
    assert 0 < float(re.match(r"MAE: (\d+\.\d+)", printed)[1]) < 1.3, printed


cases.run(globals())
