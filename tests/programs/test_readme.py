#!/usr/bin/python3
"""What README.md shows is true: its configuration is one, its three Python programs feed a running
daemon, watch it learn and print its forecasts, and its commands name programs and options that exist."""
import math
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time

import cases
import running
import zmq

SOURCE = pathlib.Path(os.environ.get("srcdir", "."))
BUILD = pathlib.Path(os.environ.get("builddir", "."))
README = (SOURCE / "README.md").read_text(encoding="utf-8")
LIMIT = 120  # seconds: no result depends on it, it ends a test that hangs
PROGRAM_LINES = 15  # what the page promises to be enough
SOCKETS = {5570: "examples", 5571: "statistics", 5572: "control"}


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def elsewhere(text, directory):
    """The same program on sockets of this test's own."""
    moved = re.sub(r"tcp://127\.0\.0\.1:(557[012])",
                   lambda found: f"ipc://{directory}/{SOCKETS[int(found[1])]}", text)
    assert moved != text and "tcp://" not in moved
    return moved


def the_one(language, word):
    found = [block for block in blocks(language) if word in block]
    assert len(found) == 1, f"{len(found)} {language} blocks with {word}"
    return found[0]


def daemon_of_the_page(directory):
    sets = [f"{name}.bind=ipc://{directory}/{name}" for name in SOCKETS.values()]
    sets.append(f"state.directory={directory}/state")
    return running.Daemon(directory, the_one("yaml", "name:"),
                          *(word for override in sets for word in ("--set", override)))


def start_program(text, directory, output):
    with open(pathlib.Path(directory, output), "wb") as file:
        return subprocess.Popen([sys.executable, "-u", "-c", elsewhere(text, directory)],
                                stdout=file)


def wait_for_line(path, beginning=""):
    """The first whole line that begins so."""
    deadline = time.monotonic() + LIMIT
    while True:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        found = [line for line in lines if line.startswith(beginning) and line.endswith("\n")]
        if found:
            return found[0]
        assert time.monotonic() < deadline, f"{path} has no line that begins with {beginning!r}"
        time.sleep(0.05)


def length(text):
    return len([line for line in text.splitlines() if line.strip()])


def feed_and_watch(directory, processes):
    feeder, watcher = the_one("python", "zmq.PUSH"), the_one("python", 'b"loss"')
    for text in feeder, watcher:
        assert length(text) <= PROGRAM_LINES
    watched = pathlib.Path(directory, "watched")
    watching = start_program(watcher, directory, watched)
    processes.append(watching)
    with daemon_of_the_page(directory) as daemon:
        first = wait_for_line(watched)
        assert first.startswith("event 0 "), first # its subscriptions have arrived
        feeding = start_program(feeder, directory, "fed")
        processes.append(feeding)
        assert feeding.wait(LIMIT) == 0
        sent = int(re.search(r"range\((\d+)\)", feeder)[1])
        while daemon.ask("status")["examples"] < sent:
            time.sleep(0.05)
        wait_for_line(watched, f"state {sent} ")  # a daemon that ends waits for no slow subscriber
        daemon.process.send_signal(signal.SIGTERM)
        assert watching.wait(LIMIT) == 0
        assert daemon.process.wait(LIMIT) == 0, daemon.text()
    return sent, watched.read_text(encoding="utf-8").splitlines()


def test_programs(directory):
    processes = []
    try:
        sent, lines = feed_and_watch(directory, processes)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()
    losses = [line.split() for line in lines if line.startswith("loss ")]
    assert len(losses) == sent // 100 and int(losses[-1][1]) == sent, losses[-1:]
    first, last = float(losses[0][2]), float(losses[-1][2])
    assert last < first / 10, (first, last)
    assert sum(bool(re.search(r"^state .*\[0\.\d+", line)) for line in lines) == len(losses)
    assert lines[-1].startswith(f"event {sent} ") and "stopping" in lines[-1], lines[-1]


def test_forecasts(directory):
    """Forecasts of each column's next value, with bands once there were errors enough."""
    forecaster = the_one("python", 'b"prediction"')
    assert length(forecaster) <= PROGRAM_LINES
    printed, t, bands = pathlib.Path(directory, "forecasts"), 0, {}
    printing = start_program(forecaster, directory, printed)
    try:
        with daemon_of_the_page(directory) as daemon, daemon.socket(zmq.PUSH, "examples") as feeder:
            deadline = time.monotonic() + LIMIT
            while len(bands) < 2:
                assert time.monotonic() < deadline, printed.read_text(encoding="utf-8")
                feeder.send_multipart([b"wave", struct.pack("<2f", math.sin(0.1 * t), math.sin(0.03 * t))])
                t += 1
                time.sleep(0.005)
                bands = {int(column): (float(low), float(high)) for column, low, high in re.findall(
                    r"^wave \d+ ([01]) -?\d\.\d+\S* \[(\S+), (\S+)\]$", printed.read_text(encoding="utf-8"),
                    re.MULTILINE)}
    finally:
        printing.kill()
        printing.wait()
    assert t > 20 and all(low < high for low, high in bands.values()), (t, bands)


def commands():
    """What the page's shell blocks run, without comments and with continued lines joined."""
    for block in blocks("sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = line.split("#")[0].split()
            if words:
                yield words


def test_commands(_):
    lines = re.findall(r"^bin_(?:PROGRAMS|SCRIPTS) \+?= (.*)$",
                       (SOURCE / "Makefile.am").read_text(), re.MULTILINE)
    named = set(" ".join(lines).split())
    table = set(re.findall(r"^\| `(runnel[a-z-]*)` \|", README, re.MULTILINE))
    assert table == named, table ^ named
    seen = 0
    for words in commands():
        program = words[0].split("/")[-1]
        if program == "sh":
            assert (SOURCE / words[1]).is_file(), words
        elif program == "runneld":
            assert words[1] == "--config"
            config = SOURCE / "conf" / pathlib.Path(words[2]).name
            subprocess.run([BUILD / program, "--config", config, "--check-config"], check=True,
                           stdout=subprocess.DEVNULL)
        elif program.startswith("runnel-"):
            shown = subprocess.run([BUILD / program, "--help"], check=True, capture_output=True,
                                   text=True).stdout
            assert all(word in shown for word in words[1:]), words
        else:
            continue
        seen += 1
    assert seen >= 6, seen


def test_figures(_):
    """The page claims no figure of speed that docs/measurements/performance.md does not have in its table."""
    claim, = (text for text in README.split("\n\n") if "microseconds" in text)
    table = (SOURCE / "docs/measurements/performance.md").read_text(encoding="utf-8")
    cells = {cell.strip() for line in table.splitlines() if line.startswith("|")
             for cell in line.split("|")}
    kinds = {"3", "64", "128", "400"} # of the machine and the networks, not of speed
    figures = set(re.findall(r"\d+(?:\.\d+)?", claim)) - kinds
    assert len(figures) == 6 and figures <= cells, figures - cells


cases.run(globals())
