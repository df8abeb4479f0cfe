#!/usr/bin/python3
"""Tests tools/demo: its summary, its errors, a path without support for builds, and that no processes or
files remain, even after an interrupt. With a table it prints skill and draws a plot."""
import importlib.util
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
PROGRAMS = "runneld", "runnel-feed", "runnel-watch", "runnel-ctl"
SECONDS = 2, 10, 60  # tried in turn: a busy machine may be too slow for the first ones
INTRODUCED = re.compile(r"^-- .* host is learning: ", re.MULTILINE)
ENDLESS = 100000
LIMIT = 120  # seconds: only ends a test that hangs
FAILED, INTERRUPTED = 69, 130
STARTED = []


def start(directory, seconds, programs=BUILD, script=SOURCE / "tools/demo", arguments=()):
    """Runs the demo in a separate session, which identifies its processes. A shell cannot catch a signal that
    was ignored at its start."""
    temporary = pathlib.Path(directory, "tmp")
    temporary.mkdir(exist_ok=True)
    env = {**os.environ, "RUNNEL_DEMO_SECONDS": str(seconds), "TMPDIR": str(temporary)}
    env.pop("RUNNEL_BIN", None)
    if programs:
        env["RUNNEL_BIN"] = str(programs)
    with open(pathlib.Path(directory, "out"), "wb") as out, \
            open(pathlib.Path(directory, "err"), "wb") as err:
        STARTED.append(subprocess.Popen(
            ["sh", script, *arguments], cwd=directory, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)))
    return STARTED[-1]


def output(directory, name="out"):
    return pathlib.Path(directory, name).read_text(encoding="utf-8", errors="replace")


def session(leader):
    """The processes in the session of `leader`: (process, command)."""
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (entry / "stat").read_text(errors="replace").rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _, _, number = rest.split()[:4]
        if int(number) == leader and state not in "ZX":
            yield int(entry.name), name.split("(", 1)[1]


def finish(directory, demo):
    """Waits for the end of all processes; returns the exit status."""
    status = demo.wait(LIMIT)
    assert not list(session(demo.pid)), (list(session(demo.pid)), output(directory, "err"))
    assert not os.listdir(pathlib.Path(directory, "tmp")), output(directory, "err")
    return status


def test_to_its_end(directory):
    for seconds in SECONDS:
        status = finish(directory, start(directory, seconds))
        assert status == 0, (output(directory), output(directory, "err"))
        if "Not enough readings" not in output(directory) and INTRODUCED.search(output(directory)):
            break
    sentence = re.search(r"^In (\d+) s the network learned from (\d+) readings .* in the first tenth and is "
                         r"-?[\d.]+ in the last: the network is (now|not yet) better than the last value\.$",
                         output(directory), re.MULTILINE)
    assert sentence and int(sentence[1]) == seconds and int(sentence[2]) > 0, output(directory)
    assert output(directory).index("To continue") > sentence.end()
    assert INTRODUCED.search(output(directory)), output(directory)


def test_interrupted(directory):
    demo = start(directory, ENDLESS)
    deadline = time.monotonic() + LIMIT
    while not re.search(r"^ +\d+ +\d", output(directory), re.MULTILINE): # a row of the table
        assert demo.poll() is None and time.monotonic() < deadline, output(directory, "err")
        time.sleep(0.05)
    assert {name for _, name in session(demo.pid)} >= {"runneld", "runnel-feed", "runnel-watch"}
    os.killpg(demo.pid, signal.SIGINT)
    assert finish(directory, demo) == INTERRUPTED, output(directory, "err")
    assert "\nStopped: all programs have ended.\n" in output(directory), output(directory)
    assert "runnel-feed:" not in output(directory, "err"), output(directory, "err")


def test_a_program_that_fails(directory):
    """The output contains the errors of its programs."""
    programs = pathlib.Path(directory, "bin")
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(BUILD / name)
    (programs / "runnel-feed").unlink()
    (programs / "runnel-feed").write_text(
        f'#!/bin/sh\n[ "$1" = host ] && echo "a reason" >&2 && exit 70\nexec {BUILD}/runnel-feed "$@"\n')
    (programs / "runnel-feed").chmod(0o700)
    assert finish(directory, start(directory, ENDLESS, programs)) == FAILED
    complaints = output(directory, "err")
    assert "demo: the daemon or the feeder ended early\n" in complaints, complaints
    assert "a reason\n" in complaints, complaints


def write_table(directory, rows):
    """A table with time, two numbers with gaps, and a category."""
    path = pathlib.Path(directory, "a table.csv")
    lines = [f"2024-{1 + t // 720:02d}-{1 + t // 24 % 30:02d} {t % 24:02d}:00;"
             f"{'' if t == 50 else round(math.sin(0.7 * t), 3)};Osaka" for t in range(rows)]
    path.write_text("\n".join(["when;load;town", *lines]) + "\n")
    return path


def has(*modules):
    return all(importlib.util.find_spec(module) for module in modules)


def test_table(directory):
    if not has("numpy", "yaml"):
        return
    demo = start(directory, 1, arguments=[write_table(directory, 300)])
    assert finish(directory, demo) == 0, output(directory, "err")
    for line in (r"^.*a table\.csv: 300 rows; to forecast: 'load'; time: 'when'$", r"^load +0\.\d+ +0\.\d+",
                 r"^To continue ", r"^    preset: forecast$", r"^    \S*/runnel-feed csv '.*a table\.csv' "):
        assert re.search(line, output(directory), re.MULTILINE), (line, output(directory))
    plot = pathlib.Path(directory, "a table-forecast.png")
    assert plot.is_file() == has("matplotlib"), output(directory)
    table = write_table(directory, 60)
    demo = start(directory, 1, arguments=[table, "--columns", "lo*", "--rivals", "none"])
    assert finish(directory, demo) == 0 and "VAR" not in output(directory), output(directory, "err")
    demo = start(directory, 1, arguments=[table, "--columns", "oil"])
    assert finish(directory, demo) == 65 and "column 'oil' not found" in output(directory, "err"), output(directory, "err")
    demo = start(directory, 1, arguments=[table, table])
    assert finish(directory, demo) == FAILED and "expected one table" in output(directory, "err")


def test_table_interrupted(directory):
    if not has("numpy", "yaml"):
        return
    demo = start(directory, 1, arguments=[write_table(directory, 40000)])
    deadline = time.monotonic() + LIMIT
    while "runneld" not in {name for _, name in session(demo.pid)}:
        assert demo.poll() is None and time.monotonic() < deadline, output(directory, "err")
        time.sleep(0.05)
    os.killpg(demo.pid, signal.SIGINT)
    assert finish(directory, demo) == INTERRUPTED, output(directory, "err")
    assert not output(directory, "err"), output(directory, "err")


def test_no_table(directory):
    empty = pathlib.Path(directory, "empty.csv")
    empty.touch()
    for argument, status, sentence in ((directory, FAILED, "is a directory"), ("none.csv", FAILED, "not found"),
                                       ("-x", FAILED, "unknown option"), (empty, 65, "is empty")):
        if argument == empty and not has("numpy", "yaml"):
            continue
        assert finish(directory, start(directory, 1, arguments=[argument])) == status
        complaint, = output(directory, "err").splitlines()[-1:]
        assert sentence in complaint, complaint


def test_no_programs(directory):
    assert finish(directory, start(directory, 1, pathlib.Path(directory, "none"))) == FAILED
    assert "RUNNEL_BIN: directory" in output(directory, "err")


def test_path_with_a_blank(directory):
    """The error occurs before anything is installed or built."""
    tools = pathlib.Path(directory, "a clone", "tools")
    tools.mkdir(parents=True)
    for name in "demo", "setup.sh":
        shutil.copy(SOURCE / "tools" / name, tools)
    assert finish(directory, start(directory, 1, None, tools / "demo")) == FAILED
    assert not output(directory)
    complaint, = output(directory, "err").splitlines()
    assert "a clone" in complaint and "without blanks" in complaint, complaint
    assert os.listdir(tools.parent) == ["tools"]


try:
    for test in (test_to_its_end, test_interrupted, test_a_program_that_fails, test_table,
                 test_table_interrupted, test_no_table, test_no_programs, test_path_with_a_blank):
        with tempfile.TemporaryDirectory(prefix="rd") as place:
            test(place)
        print("ok", test.__name__, flush=True)
finally:
    for process in STARTED:
        for left, _ in session(process.pid):
            os.kill(left, signal.SIGKILL)
        process.wait()
