#!/usr/bin/python3
"""Tests tools/figures/gpu-report on the host runtime: every part is in the report, failures are
reported and set the exit status, and parts run separately form one report. The test replaces
nvidia-smi, compute-sanitizer, PyTorch on a GPU, and the conformance cases."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys

import cases

BUILD = pathlib.Path(os.environ.get("builddir", "."))
SOURCE = pathlib.Path(os.environ.get("srcdir", "."))
REPORT = SOURCE / "tools" / "figures" / "gpu-report"
LIMIT = 600  # seconds: only ends a test that hangs
SKIPPED = 77
SECTIONS = ["Failures", "Figures and benchmark", "Build", "Conformance", "Engine tests",
            "compute-sanitizer", "Determinism", "Idle load", "Members", "Benchmark", "Commands"]

SMI = """#!/bin/sh
case "$*" in
*utilization*) echo "${BUSY:-0}" ;;
*) echo "a GPU, 1 MiB, 580.0" ;;
esac
"""
# --tool TOOL --error-exitcode 99 PROGRAM...
SANITIZER = """#!/bin/sh
[ "$1 $3 $4" = "--tool --error-exitcode 99" ] || exit 64
shift 4
"$@" || exit
[ -z "$FLAWED" ] || { echo "========= ERROR SUMMARY: 3 errors"; exit 99; }
echo "========= ERROR SUMMARY: 0 errors"
"""
# Also replaces PyTorch, depending on its arguments.
PYTHON = """#!/bin/sh
case "$*" in
*"import torch"*) exit 0 ;;
*"import site"*) exit 0 ;;
*figures/pytorch\ *) echo '{"torch": "2.0", "variants": {"eager": {"us": {"quiet": 5e6}},
    "graphs": {"failed": "no capture today"}, "reference": {"us": {"quiet": 4e6}}}}' ;;
*run.py*"--device cuda"*) echo "ok one"; echo "${PASSED:-2 passed, 0 failed}" ;;
*) exit 64 ;;
esac
"""


def place(directory, name, text):
    path = pathlib.Path(directory, name)
    path.write_text(text)
    path.chmod(0o700)


def report(directory, *arguments, **environment):
    """Exit status and text of a dry run."""
    for name, text in (("nvidia-smi", SMI), ("compute-sanitizer", SANITIZER), ("python", PYTHON)):
        place(directory, name, text)
    output = pathlib.Path(directory, "report.md")
    done = subprocess.run(
        [sys.executable, REPORT, "--dry-run", "--build", BUILD, "--output", output,
         "--python", pathlib.Path(directory, "python"), "--conformance", "run.py", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT,
        env={**os.environ, "TMPDIR": directory, "PATH": f"{directory}:{os.environ['PATH']}",
             **environment})
    assert output.exists(), done.stdout
    assert not list(pathlib.Path(directory).glob("gpu*")), "its temporary directory remains"
    return done.returncode, output.read_text()


def section(text, title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.M | re.S).group(1)


def test_everything(directory):
    """All parts succeed except one variant of the peer."""
    status, text = report(directory)
    assert re.findall(r"^## (.*)$", text, re.M) == SECTIONS, text
    failures = section(text, "Failures").strip().splitlines()
    assert len(failures) == 2 and status == 1, failures
    for optimizer, line in zip(("adam", "sgd"), failures):
        assert line == (f"- Benchmark: tiny, window 4, {optimizer}, PyTorch graphs: "
                        "no capture today"), line
    assert "dry run" in text.splitlines()[0] and "a GPU, 1 MiB, 580.0" in text
    figures = section(text, "Figures and benchmark")
    for name in ("launch", "barrier of a block", "barrier of a cluster", "barrier of a grid", "round trip",
                 "copy", "L2 cache", "multiply-adds"):
        assert re.search(rf"^\|.*{name}.*\| (\d|none)", figures, re.M), (name, figures)
    rows = [line.strip("| ").split(" | ") for line in figures.splitlines() if "| tiny |" in line]
    assert [row[:3] for row in rows] == [["tiny", "4", "adam"], ["tiny", "4", "sgd"]], rows
    for row in rows:
        numbers = row[3:17] + row[19:]
        assert len(row) == 21 and all(re.fullmatch(r"\d+(\.\d+)?", text) for text in numbers), row
        assert row[17:19] == ["-", "-"], row
    assert "2 passed, 0 failed" in section(text, "Conformance")
    assert re.search(r"\| test_engine \| [1-9]\d* \| 0 \|", section(text, "Engine tests"))
    assert section(text, "compute-sanitizer").count("0 errors") == 12
    assert "3 runs" in section(text, "Determinism") and "0 differ" in section(text, "Determinism")
    assert "0 % at most" in section(text, "Idle load")
    assert "--parameters" in section(text, "Commands") and "--members" in section(text, "Commands")
    row, = (line.strip("| ").split(" | ") for line in section(text, "Members").splitlines() if "| tiny |" in line)
    assert row[:2] == ["tiny", "2"] and len(row) == 13, row
    assert all(re.fullmatch(r"\d+(\.\d+)?%?", cell) for cell in row[2:]), row
    first = text.splitlines()[2]
    assert first.startswith("**Read this first.** The engine's results are correct on this machine: no "
                            "failures in Conformance, Engine tests, compute-sanitizer and Determinism. "), first
    assert re.search(r"queued: tiny [\d.]+ and [\d.]+\. ", first), first
    assert re.search(r"members of one daemon, 2 of tiny take [\d.]+ times as long as one\.$", first), first


def test_failures_are_reported(directory):
    status, text = report(directory, "--parts", "conformance,sanitizers,idle", BUSY="37",
                          FLAWED="yes", PASSED="1 passed, 1 failed")
    failures = section(text, "Failures")
    assert status == 1
    for words in ("Conformance: conformance on cuda: 1 passed, 1 failed",
                  "memcheck on test_engine: status 99, ERROR SUMMARY: 3 errors",
                  "racecheck on runnel-bench", "initcheck on test_engine",
                  "the GPU was up to 37 % busy", "Determinism: not done yet",
                  "Benchmark: tiny is not measured yet"):
        assert words in failures, (words, failures)
    assert ("**Read this first.** Do not rely on `device: cuda` on this machine before these "
            "failures are understood: Conformance and compute-sanitizer (see Failures).") in text, text


def test_members_that_do_not_fit(directory):
    """They are listed with the memory that they need. Figures of the CPU stay in the table, and the
    exit status is 0."""
    status, text = report(directory, "--parts", "members", HOSTCUDA_MEMORY=str(1 << 16))
    members = section(text, "Members")
    assert "Too large for this GPU:" in members and re.search(r"^- tiny, 2 members, cuda: .*MiB", members, re.M), members
    row, = (line.strip("| ").split(" | ") for line in members.splitlines() if "| tiny |" in line)
    assert row[2:11] == ["-"] * 9 and float(row[11]) > 0 and row[12] == "-", row
    assert status == 1 and "Members:" not in section(text, "Failures"), text
    assert "members of one daemon" not in text.splitlines()[2], text
    assert "not done yet: Conformance, Engine tests, compute-sanitizer and Determinism." in text, text


def test_estimates():
    """The first line compares measured times with the estimates."""
    loader = importlib.machinery.SourceFileLoader("gpu_report", str(REPORT))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_report", loader))
    loader.exec_module(script)

    def row(quiet, **others):
        return {"gpu": {"us": {"queued": {"quiet": quiet}}}, **others}

    rows = [row(1.5, name="gru64", window=16), row(9, name="gru64", window=1), row(2, name="lstm128", window=16)]
    members = [row(1, name="gru64", count=4), row(1.2, name="gru64", count=64)]
    assert script.estimates([], []) == ""
    text = script.estimates(rows, members)
    assert text == ("The estimates hold. Microseconds an example, window 16 (estimate; that of the earlier engine): "
                    "gru64 1.50 (1.2; 7.6), lstm128 2.00 (2.7; 8.1), 64 x gru64 1.20 (1.3; 10); not measured: "
                    "lstm400x3 and gru2400."), text
    rows.append(row(10, name="lstm400x3", window=16))
    assert script.estimates(rows, members).startswith("The estimates do not hold for lstm400x3. "), rows


def test_one_part_after_the_other(directory):
    report(directory, "--parts", "determinism")
    status, text = report(directory, "--parts", "conformance")
    assert status == 1 and "0 differ" in section(text, "Determinism")
    assert "2 passed, 0 failed" in section(text, "Conformance")
    assert set(json.loads(pathlib.Path(directory, "report.json").read_text())["parts"]) == {
        "determinism", "conformance"}


if not (BUILD / "tests" / "hostcuda" / "runnel-cuda.so").exists():
    print("this build has no CUDA engine on the host runtime")
    sys.exit(SKIPPED)
if "#define RUNNEL_SANITIZERS" in (BUILD / "build-config.h").read_text():
    print("the script is tested in a build without sanitizers; the engine's own tests have them")
    sys.exit(SKIPPED)
sys.dont_write_bytecode = True
sys.path.insert(0, str(REPORT.parent))
cases.run(globals())
