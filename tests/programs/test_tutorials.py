#!/usr/bin/python3
"""Runs the commands of the README, the tutorials and the how-to pages in their order, as a reader does, and compares their
output with the pages, up to numbers."""
import re
import subprocess

import brokers
import cases
import pages

LOG = "/var/log/dpkg.log"  # of the page about logs
README = pages.read("README.md")
WAVES = next(text for language, text, *_ in pages.blocks(README) if language == "yaml")
LEFT_OUT = ("sh tools/", "sudo apt-get ")  # builds, which test_demo.py and test_check.py try; root and the network


def read(directory, name, least=4, **options):
    with pages.Reader(directory, pages.read(f"docs/{name}.md")) as reader:
        assert reader.read(**options) >= least


def test_readme(directory):
    """The daemon learns from the five lines of Python, and can be backed up."""
    with pages.Reader(directory, README) as reader:
        assert reader.read(skip=[*LEFT_OUT, "runnel-ctl backup"]) == 2
        reader.check("runnel-ctl status | grep 'examples  '", "examples 20,000")
        reader.run(next(text for _, text, *_ in pages.blocks(README) if text.startswith("runnel-ctl backup")))
        assert (directory / "saved/journal.sqlite").exists()


def test_index(_):
    """The table of programs is complete. The front door, `runnel`, starts them."""
    lines = re.findall(r"^bin_(?:PROGRAMS|SCRIPTS) \+?= (.*)$", pages.read("Makefile.am"), re.MULTILINE)
    table = set(re.findall(r"^\| \[`(runnel[a-z-]*)`\]", pages.read("docs/index.md"), re.MULTILINE))
    named = set(" ".join(lines).split())
    assert table == named - {"runnel"}, table ^ named


def test_installed_packages(_):
    """The apt-get of the README has every package of the build and of forecasts of tables."""
    named = re.search(r"apt-get install (.*?)^autoreconf", README, re.MULTILINE | re.DOTALL)[1].replace("\\", " ").split()
    known = {way: set(subprocess.run(["sh", pages.SOURCE / f"tools/{way}", "--packages"], capture_output=True, text=True,
                                     check=True).stdout.split()) for way in ("demo", "check")}
    needed = known["demo"] - {"python3"}  # the others depend on it
    assert needed <= set(named) <= known["check"], (needed - set(named), set(named) - known["check"])


def test_forecast(directory):
    read(directory, "tutorials/forecast")


def test_experiment(directory):
    read(directory, "tutorials/experiment")


def test_late_labels(directory):
    """Without pip, which needs the network: test_python_package.py installs the package."""
    read(directory, "tutorials/late-labels", skip=["python3 -m venv"])


def test_backup(directory):
    read(directory, "how-to/backup")


def test_change_model(directory):
    read(directory, "how-to/change-model")


def test_keys(directory):
    read(directory, "how-to/keys")


def log_with_errors():
    """A repetitive log, except for one passage."""
    for n in range(700):
        yield from ("startup archives unpack", f"upgrade lib{n % 7}:amd64 1.{n}", f"status unpacked lib{n % 7}:amd64 1.{n}",
                    f"configure lib{n % 7}:amd64 1.{n}", f"status installed lib{n % 7}:amd64 1.{n}")
        if n == 600:
            yield from (f"disk error at sector {sector}" for sector in range(60))


def test_logs(directory):
    """Without systemd's journal, which not every user may read."""
    log = directory / "dpkg.log"
    log.write_text("".join(f"2026-01-01 {n // 3600:02}:{n // 60 % 60:02}:{n % 60:02} {line}\n"
                           for n, line in enumerate(log_with_errors())), encoding="utf-8")
    with pages.Reader(directory, pages.read("docs/how-to/logs.md"), {LOG: str(log)}) as reader:
        assert reader.read(skip=["runnel-feed journal", "runneld --config conf/next-line",
                                 "runnel-feed lines --message"]) == 5
        reader.until(lambda: "disk error at sector 0" in reader.output(0, "third"), "an alarm")


def test_clicks(directory):
    with pages.Reader(directory, pages.read("docs/how-to/clicks.md")) as reader:
        keep = reader.keep

        def keep_and_wait(text, terminal):
            keep(text, terminal)
            if text.startswith("runnel-watch"):
                reader.until(lambda: "clicks is running" in reader.log(), "the subscription")
        reader.keep = keep_and_wait
        assert reader.read() == 3
        reader.until(lambda: re.search(r"/cart\b.*\b0\.21", reader.output(0, "third")), "/cart with 0.21")
        reader.check("runnel-ctl status | grep recall", "recall 0.3344")


def test_plain_zmq(directory):
    """The watcher, which subscribes before the daemon starts, gets all messages; forecasts have bands."""
    with pages.Reader(directory, pages.read("docs/how-to/plain-zmq.md")) as reader:
        (directory / "waves.yaml").write_text(WAVES, encoding="utf-8")
        keep = reader.keep

        def keep_and_wait(text, terminal):
            keep(text, terminal)
            if text.startswith("runneld"):
                reader.until(lambda: "event 0 " in reader.output(0, "second"), "the first event")
        reader.keep = keep_and_wait
        assert reader.read() == 4
        bands = r"^wave \d+ ([01]) -?\d\.\d+\S* \[(\S+), (\S+)\]$"
        found = re.findall(bands, reader.output(0, "third"), re.MULTILINE)
        assert {column for column, *_ in found} == {"0", "1"}, reader.output(0, "third")[-1000:]
        assert all(float(low) < float(high) for _, low, high in found)


def test_fleet(directory):
    """Without Kafka, since Debian has no server."""
    brokers.need("redis")
    with brokers.Redis(directory) as redis, pages.Reader(
            directory, pages.read("docs/how-to/fleet.md"), {"redis://127.0.0.1:6379": redis.url}) as reader:
        reader.script("redis-cli", f'exec {brokers.program("redis-cli")} -s {redis.path} "$@"')
        reader.wrap("runnel-fleet", pages.BUILD / "runnel-fleet", f"--url {redis.url}")
        assert reader.read(skip=["examples:\n  kafka", "kafka-topics.sh"]) == 7


cases.run(globals())
