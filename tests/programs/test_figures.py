#!/usr/bin/python3
"""Tests tools/figures. Every script has the same options and an error for missing programs, and
ends everything that it has started. Also tests bits, compare and repeat."""
import contextlib
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys

import brokers
import cases
import experiment_results

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
FIGURES = SOURCE / "tools" / "figures"
LIMIT = 300  # seconds: only ends a test that hangs
UNAVAILABLE, USAGE, SKIP = 69, 2, 77
NEEDED = {"alerts": ["synth"], "batch-size": [], "bits": [], "bench": [], "compare": ["--against", BUILD],
          "brokers": [], "fleet": ["kills"], "flood": [], "forecasts": ["table", "ETTh2.csv"], "gpu-counts": [], "gpu-report": [], "gpu-simulate": [], "gpu-static": [], "invariances": [], "kill-loop": [], "lasting": [], "ladder": ["table.csv"],
          "nab": [], "paper": [], "python-client": [], "reliability": [], "repeat": [], "scale": ["--measure", "--costs", os.devnull], "sequence": [], "skab": [], "symbols": ["FILE"], "subscribers-cost": [], "threads": [], "top-cost": [], "ucr": []}
# These have other options: one builds on Debian, one needs another Python, one searches many files,
# one reads the sources.
OTHERS = {"messages", "clean-root", "pytorch", "gpu-carry"}


def run(name, *arguments, build=BUILD, **options):
    words = [] if build is None else ["--build", build]
    return subprocess.run([sys.executable, FIGURES / name, *words, *arguments], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT, check=False,
                          **options)


def test_all_are_called_alike(directory):
    scripts = {path.name for path in FIGURES.iterdir() if path.is_file() and not path.suffix
               and path.read_bytes().startswith(b"#!")}
    assert scripts == set(NEEDED) | OTHERS, scripts
    pages = "".join(page.read_text(encoding="utf-8") for page in (SOURCE / "docs").glob("*/*.md"))
    for name in sorted(scripts):
        assert f"tools/figures/{name}" in pages, f"no page describes {name}"
        assert os.access(FIGURES / name, os.X_OK), name
    for name, needed in NEEDED.items():
        result = run(name, "--help", build=None)
        assert result.returncode == 0 and "--build DIRECTORY" in result.stdout, (name, result)
        assert f"tools/figures/{name}" in result.stdout, name
        assert run(name, "--no-such-option", *needed).returncode == USAGE, name
        missing = run(name, *needed, build=directory)
        assert missing.returncode == UNAVAILABLE and missing.stdout == "", (name, missing)
        reason = "missing --simulator DIRECTORY: " if name == "gpu-simulate" else f"{directory}/.* not found; "
        assert re.fullmatch(rf"{name}: {reason}.*(buil[dt]|install).*\n", missing.stderr), (name, missing.stderr)


def bits(other, *arguments):
    return run("bits", "--against", other, "--engine", "baseline", "--case", "text", "--examples", "80",
               *arguments)


def test_bits(directory):
    same = bits(BUILD)
    assert same.returncode == 0, same
    assert re.fullmatch(r"[0-9a-f]{64}  cpu baseline  text\s+\n1 of 1 cases equal bit for bit\n",
                        same.stdout), same.stdout
    other = directory / "runneld"  # learns slightly differently
    other.write_text(f'#!/bin/sh\nexec {BUILD}/runneld "$@" --set learning.optimizer.rate=0.0020001\n')
    other.chmod(0o700)
    different = bits(directory)
    assert different.returncode == 1, different
    assert "differ: export, " in different.stdout and "0 of 1 cases equal" in different.stdout
    other.write_text("#!/bin/sh\nexit 70\n")
    broken = bits(directory)
    assert broken.returncode == 1 and "0 of 1 cases equal" in broken.stdout, broken


def compare(*arguments):
    return run("compare", "--against", BUILD, "--seconds", "0.01", *arguments,
               SOURCE / "conf/bench/gru64.yaml")


def test_compare():
    done = compare("--rounds", "2", "--limit", "1000")
    assert done.returncode == 0, done
    for mode in "one at a time", "64 waiting":
        assert re.search(rf"^\| gru64 \| {mode} (\| [\d.e+]+ ){{7}}\|$", done.stdout, re.M), done.stdout
    assert compare("--rounds", "1", "--limit", "0").returncode == 1


def test_repeat(directory):
    good = run("repeat", "--times", "3", "tests/programs/test_package.sh", cwd=directory)
    assert good.returncode == 0 and "3 runs, 0 failed" in good.stdout, good
    bad = run("repeat", "--times", "2", "tests/programs/test_package.sh", cwd=directory,
              env={**os.environ, "TMPDIR": f"{directory}", "PATH": "/nowhere"})
    assert bad.returncode != 0, bad


def started_by(number):
    """{process: name} of all descendants of a process."""
    found = {}
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended since
            name, rest = (place / "stat").read_text(errors="replace").split("(", 1)[1].rsplit(")", 1)
            found[int(place.name)] = (name, int(rest.split()[1]), rest.split()[0])
    mine = {number}
    for _ in range(len(found)):
        mine |= {process for process, (_, parent, _) in found.items() if parent in mine}
    return {process: found[process][0] for process in mine - {number} if found[process][2] not in "ZX"}


def runs(number):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{number}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def not_in_background():
    """A shell sets SIGINT to be ignored for programs in its background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def is_gone_with_all(directory, act, status, what, name, *words, build=BUILD):
    """Runs a script until its processes are `what`, {name: count}, calls `act`, and checks that all
    of them end."""
    temporary = directory / "temporary"
    temporary.mkdir()
    with open(directory / "log", "w", encoding="utf-8") as log:
        script = subprocess.Popen([sys.executable, FIGURES / name, "--build", build, *words], stdout=log, stderr=log,
                                  cwd=directory, env={**os.environ, "TMPDIR": f"{temporary}"},
                                  preexec_fn=not_in_background)
    found = {}

    def are_there():
        found.update(started_by(script.pid))
        names = [found[process] for process in found if runs(process)]
        return all(names.count(one) >= count for one, count in what.items())

    brokers.until(lambda: script.poll() is not None or are_there())
    log = (directory / "log").read_text(encoding="utf-8")
    if script.returncode == SKIP:
        cases.skip(log)
    assert script.poll() is None, log
    act(script)
    assert script.wait(LIMIT) == status, (script.returncode, (directory / "log").read_text(encoding="utf-8"))
    left = [found[process] for process in found if runs(process)]
    assert not left and not list(temporary.iterdir()), (left, list(temporary.iterdir()))


FLEET = {"runneld": 4, "redis-server": 1}


def test_interrupted(directory):
    """The daemons and their server end with the script, and no temporary files remain."""
    brokers.need("redis")
    for number in signal.SIGTERM, signal.SIGINT:
        place = directory / number.name
        place.mkdir()
        is_gone_with_all(place, lambda script, n=number: script.send_signal(n), 128 + number, FLEET,
                         "fleet", "kills", "--kills", "1000")


def test_failed(directory):
    """They also end if the script fails."""
    brokers.need("redis")
    build = directory / "build"
    build.mkdir()
    (build / "runneld").symlink_to(BUILD / "runneld")
    tool = build / "runnel-fleet"  # its output is not JSON
    tool.write_text(f"#!/bin/sh\nwhile [ ! -e {directory}/go ]; do sleep 0.02; done\necho nonsense\n")
    tool.chmod(0o700)
    is_gone_with_all(directory, lambda _: (directory / "go").touch(), 1, FLEET, "fleet", "kills", build=build)
    assert "JSONDecodeError" in (directory / "log").read_text(encoding="utf-8")


def test_interrupted_repeat(directory):
    """Its tests run in separate sessions, and more of them wait."""
    test = directory / "test_sleep.sh"
    test.write_text("sleep 1000 & sleep 1000\n")
    is_gone_with_all(directory, lambda script: script.terminate(), 128 + signal.SIGTERM, {"sleep": 6},
                     "repeat", "--jobs", "2", "--times", "50", test)


# A replacement for NAB's scorer: every alarm within 50 rows of the windows is worth 1, every other
# one -1.
SCORER = """
import argparse, csv, json, pathlib
parser = argparse.ArgumentParser()
for name in "optimize", "score", "normalize", "skipConfirmation":
    parser.add_argument(f"--{name}", action="store_true", required=True)
for name in "resultsDir", "thresholdsFile", "numCPUs":
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--detectors", nargs="*")
options, final = parser.parse_args(), {}
for detector in options.detectors:
    results = pathlib.Path(options.resultsDir, detector)
    scores = {}
    for path in sorted(results.glob("*/*.csv")):
        rows = list(csv.DictReader(open(path)))
        found = [n for n, row in enumerate(rows) if float(row["anomaly_score"]) > 0]
        name = f"{path.parent.name}/{path.name[len(detector) + 1:]}"
        scores[name] = sum(1 if 600 <= n < 650 and "odd" in name else -1 for n in found)
    final[detector] = {}
    for profile in "standard", "reward_low_FP_rate", "reward_low_FN_rate":
        with open(results / f"{detector}_{profile}_scores.csv", "w") as file:
            print("Detector,File,Score", *(f"{detector},{n},{s}" for n, s in scores.items()),
                  f"Totals,,{sum(scores.values())}", sep="\\n", file=file)
        final[detector][profile] = 100 * (sum(scores.values()) + 1) / 2
pathlib.Path(options.resultsDir, "final_results.json").write_text(json.dumps(final))
"""


def tiny_nab(directory):
    """Two streams in NAB's layout: a normal one, and one that is constant for some time."""
    for name in "data/one", "labels", "config", "results/null":
        (directory / name).mkdir(parents=True)
    for name, frozen in ("even", range(0)), ("odd", range(600, 650)):
        rows = (f"2014-01-{1 + row // 288:02} {row // 12 % 24:02}:{row % 12 * 5:02}:00,"
                f"{7 if row in frozen else math.sin(row / 5) + math.sin(row * row) / 9}"
                for row in range(700))
        (directory / f"data/one/{name}.csv").write_text("\n".join(["timestamp,value", *rows, ""]))
    windows = {"one/even.csv": [], "one/odd.csv": [["2014-01-03 02:00:00", "2014-01-03 06:00:00"]]}
    (directory / "labels/combined_windows.json").write_text(json.dumps(windows))
    costs = {"CostMatrix": {"tpWeight": 1, "fnWeight": 1}}
    profiles = ["standard", "reward_low_FP_rate", "reward_low_FN_rate"]
    (directory / "config/profiles.json").write_text(json.dumps({name: costs for name in profiles}))
    for name in profiles:
        (directory / f"results/null/null_{name}_scores.csv").write_text("")
    (directory / "run.py").write_text(SCORER)
    return directory


def test_nab(directory):
    words = ["--nab", tiny_nab(directory), "--python", sys.executable, "--seeds", "1"]
    # surprise, too: an alarm at the beginning and at the end of the constant time
    both = run("nab", *words)
    assert re.search(r"^\| seed 1 \| 2 (\| (50\.00|nan) ){9}\|$", both.stdout, re.M), both
    words += ["--set", "anomaly.surprise=false"]
    done = run("nab", *words, "--results", directory / "kept")
    assert done.returncode == 0, done
    assert re.search(r"^\| seed 1 \| 1 (\| (100\.00|nan) ){9}\|$", done.stdout, re.M), done.stdout
    kept = (directory / "kept/runnel0/one/runnel0_odd.csv").read_text().splitlines()
    alarms = [number for number, row in enumerate(kept[1:]) if row.split(",")[2] != "0"]
    assert len(kept) == 701 and 600 <= alarms[0] < 650, alarms
    quiet = run("nab", *words, "--set", "anomaly.threshold=100")
    assert re.search(r"^\| seed 1 \| 0 (\| (50\.00|nan) ){9}\|$", quiet.stdout, re.M), quiet.stdout
    wrong = run("nab", "--nab", directory / "nowhere")
    assert wrong.returncode == USAGE and "not found in" in wrong.stderr, wrong


def test_experiments_of_the_paper(directory):
    """Every file of conf/experiments is valid, wherever the data are."""
    files = sorted((SOURCE / "conf/experiments").glob("*.yaml"))
    assert len(files) > 10, files
    for file in files:
        done = subprocess.run([BUILD / "runnel-experiment", "--check", file], text=True, stderr=subprocess.STDOUT,
                              stdout=subprocess.PIPE, timeout=LIMIT, check=False, cwd=directory,
                              env={**os.environ, "RUNNEL_DATA": f"{directory}"})
        assert done.returncode == 0, (file, done.stdout)


def test_the_paper_reports_what_the_first_seed_chose(directory):
    """Seed 1 selects the rates, and the losses are those of the other seeds. Recovery is counted
    from the change."""
    sys.path.insert(0, str(FIGURES))
    import paper_results  # pylint: disable=import-outside-toplevel,import-error
    variants = experiment_results.grid(rate=[0.1, 0.2], norm=["layer", "none"])

    def first_seed_likes_the_second_rate(variant, seed):
        return -0.15 if seed == 1 and variant >= 2 else 0
    made = experiment_results.make(directory / "made", variants, seeds=(1, 2, 3),
                                   change=first_seed_likes_the_second_rate,
                                   states={(3, 0, 1): "nonfinite", (3, 0, 2): "nonfinite"})
    results = paper_results.Results(made)
    assert results.to_run() == ["rate 0.2, norm layer", "rate 0.1, norm none"]
    kinds = paper_results.kinds([results], "norm")
    assert [(run["rate"], run["seed"]) for run in kinds[("layer",)]] == [("0.2", 2), ("0.2", 3)]
    assert [(run["rate"], run["seed"]) for run in kinds[("none",)]] == [("0.1", 2), ("0.1", 3)]
    results.database.close()
    made = experiment_results.make(directory / "other", experiment_results.grid(optimizer=[
        "{kind: adam, beta1: 0.9}", "{kind: sgd}"]))
    assert [run["kind"] for run in paper_results.Results(made).runs] == ["adam"] * 3 + ["sgd"] * 3
    points = [(100 * n, 1.0 if n <= 100 else 5.0 if n <= 120 else 1.1) for n in range(1, 201)]
    before, after, back = paper_results.recovery(points, 10000, 20000)
    assert (before, after, back) == (1.0, 5.0, 2500), (before, after, back)
    assert paper_results.recovery(points, 10000, 12000)[2] == math.inf


WORDS = "the quick brown fox jumps over the lazy dog while seven wizards box with a large jug of ink".split()


def test_fleet_text(directory):
    """Four daemons average after the configured counts, all of them in each round. A daemon's first
    part does not depend on later examples. Existing results are not measured again."""
    brokers.need("redis")
    text, results, part = directory / "text", directory / "results.json", 1000
    text.write_text(" ".join(WORDS[n * n % 97 % len(WORDS)] for n in range(2000)))
    words = ["text", "--text", text, "--part", str(part), "--held", "4096", "--units", "4",
             "--every", "200,1000", "--rates", "0.01", "--seeds", "2", "--results", results,
             "--chart", directory / "chart.png"]
    done = run("fleet", *words)
    if done.returncode in (UNAVAILABLE, SKIP):
        cases.skip(done.stdout + done.stderr)  # needs redis-server, numpy, matplotlib
    assert done.returncode in (0, 1), done
    assert "| four daemons, averaged each 200 bytes | 1,000 | 0.01 |" in done.stdout, done
    assert (directory / "chart.png").read_bytes().startswith(b"\x89PNG")
    runs = json.loads(results.read_text())["runs"]
    name = "{}, rate 0.01, seed 2".format
    assert set(runs) == set(map(name, ("parts", "fleet 200", "fleet 1000", "turns", "order"))), runs
    points = {what: dict(runs[name(what)]["held"]) for what in ("parts", "order", "fleet 200", "fleet 1000")}
    assert list(points["fleet 200"]) == [200, 400, 600, 800, 1000] and list(points["fleet 1000"]) == [1000]
    assert list(points["order"]) == [200, 400, 600, 800, 1000, 2000, 3000, 4000]
    assert points["order"][1000][0] == points["parts"][1000][0]
    assert runs[name("fleet 1000")]["course"] == runs[name("parts")]["course"]
    assert points["fleet 200"][1000] != points["fleet 1000"][1000]
    again = run("fleet", *words)
    assert (again.returncode, again.stdout, again.stderr) == (done.returncode, done.stdout, ""), again
    for wrong, status in (["--part", "999"], 64), (["--every", "300"], 64), (["--part", "4000"], 65), (["--held", "4000"], 64), \
            (["--seeds", "1"], 64), (["--text", directory / "nowhere"], 66):
        refused = run("fleet", *words, *wrong)
        assert refused.returncode == status and re.fullmatch(r"fleet: [^\n]+\n", refused.stderr), refused


def test_gpu_static(directory):
    """Only a kernel with more stack or local memory than in the table fails."""
    (directory / "runnel-cuda.so").touch()
    (directory / "nvdisasm").touch(0o755)
    dump = directory / "cuobjdump"
    for stack, operation, passed in ((0, "LDG.E.128", True), (16, "LDG.E.128", False), (0, "@!P0 STL.64", False)):
        dump.write_text("#!/bin/sh\necho arch = sm_80\ncase $1 in\n"
                        f"-res-usage) echo ' Function _Z4wave7network:'; echo '  REG:250 STACK:{stack} SHARED:0';;\n"
                        f"*) echo '  Function : _Z4wave7network'; echo '  /*0000*/   {operation} R4, [R2] ;';;\n"
                        "esac\n")
        dump.chmod(0o755)
        result = run("gpu-static", "--check", "--tools", directory, build=directory)
        assert result.returncode == (0 if passed else 1), result
        assert result.stdout.endswith("1 passed, 0 failed\n" if passed else "0 passed, 1 failed\n"), result
        assert passed or result.stdout.startswith("wave: "), result
        assert "| `wave` | 250 |" in run("gpu-static", "--tools", directory, build=directory).stdout


cases.run(globals())
