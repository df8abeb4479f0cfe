"""runnel-prequential on small streams: its baselines against sums made by hand, one whole run."""
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import yaml  # noqa: F401, what the tool needs
except ImportError:
    print("needs python3-yaml")
    sys.exit(77)

import cases

SOURCE = pathlib.Path(os.environ.get("srcdir", "."))
BUILD = pathlib.Path(os.environ.get("builddir", "."))
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "tools" / "prequential"))
import baselines  # noqa: E402


def version():
    return re.search(r"^AC_INIT\(\[runnel\], \[(.*)\]\)$", (SOURCE / "configure.ac").read_text(),
                     re.M)[1]


def near(a, b):
    assert abs(a - b) < 1e-9, f"{a} is not {b}"


def test_last_value():
    rival = baselines.LastValue(standard=False, spread=False)
    assert rival.take({"stream": "a", "x": [1.0, None]}) is None
    assert rival.take({"stream": "b", "x": [9.0, 9.0]}) is None  # another stream has its own last
    score = rival.take({"stream": "a", "x": [3.0, None]})
    near(score.loss, 4.0)
    near(score.metric, 4.0)
    assert rival.take({"stream": "a", "x": [3.0, None], "end": True}).loss == 0
    assert rival.take({"stream": "a", "x": [5.0, 1.0]}) is None  # the sequence had ended


def test_usual_change():
    rival = baselines.LastValue(standard=True, spread=True)
    rival.take({"stream": "a", "x": [0.0]})
    # 0, 2: variance 1; no change is known, so the spread is that of the data.
    near(rival.take({"stream": "a", "x": [2.0]}).loss, 0.5 * math.log(2 * math.pi) + 2)
    # 0, 2, 4: variance 8/3; the one change so far was 2, so z's variance is 4 / (8/3).
    near(rival.take({"stream": "a", "x": [4.0]}).loss, 0.5 * math.log(2 * math.pi * 1.5) + 0.5)


def test_frequencies():
    rival = baselines.Frequencies(2, following=False)
    assert rival.take({"stream": "a", "x": [0]}) is None
    near(rival.take({"stream": "a", "x": [0], "y": [1]}).loss, math.log(2))
    score = rival.take({"stream": "a", "x": [0], "y": [1]})
    near(score.loss, math.log(3 / 2))
    assert score.metric == 1.0


def test_one_normal():
    rival = baselines.OneNormal()
    assert rival.take({"stream": "a", "x": [1.0, 2.0, 0]}) is None
    score = rival.take({"stream": "a", "x": [3.0, 4.0, 1]})
    near(score.loss, math.log(2 * math.pi) + 0.5 * (9 + 16) + math.log(2))


def run(*arguments):
    return subprocess.run([sys.executable, BUILD / "runnel-prequential", *arguments],
                          capture_output=True, text=True, check=False)


def test_how_it_is_called():
    assert run("--version").stdout == f"runnel-prequential {version()}\n"
    assert "SOURCE" in run("--help").stdout
    for wrong in (), ("conf.yaml",), ("--no-such-option",):
        done = run(*wrong)
        assert done.returncode == 64 and "runnel-prequential:" in done.stderr, done


def test_where_programs_are_missing():
    """As a copy alone in a directory, with an empty PATH."""
    with tempfile.TemporaryDirectory() as directory:
        alone = shutil.copy(BUILD / "runnel-prequential", directory)
        done = subprocess.run([sys.executable, alone, SOURCE / "conf/text.yaml", "text", "none"],
                              env={"PATH": directory}, capture_output=True, text=True, check=False)
    assert done.returncode == 69 and "there is no runneld" in done.stderr, done


def test_whole_run():
    with tempfile.TemporaryDirectory() as directory:
        text = pathlib.Path(directory, "text")
        text.write_text("the same words again " * 100)
        done = run("--set", "model.layers.0.size=16", str(SOURCE / "conf/text.yaml"),
                   "text", str(text))
    assert done.returncode == 0, done.stderr
    rows = {line[:12].strip(): line[12:].split() for line in done.stdout.splitlines()}
    assert rows["whole"][0] == "2099", done.stdout
    assert 0 < float(rows["tenth 10"][1]) < float(rows["tenth 1"][1]), done.stdout
    assert "2100 of 2100 examples learned, 0 rejected" in done.stdout


def test_wrong_configuration():
    done = run("--set", "model.layers.9.size=16", str(SOURCE / "conf/text.yaml"), "text", "none")
    assert done.returncode == 78 and "layers" in done.stderr, done.stderr


cases.run(globals())
