#!/usr/bin/python3
"""The configuration that a daemon reports: the digest covers everything that affects results,
`config` prints a file that learns the same, and a recording describes each run."""
import csv
import json
import signal
import sqlite3
import struct
import subprocess
import time

import cases
import event_files
import running
from running import LIMIT, Daemon, zmq

BUILD = running.PROGRAM.parent
CONFIG = """
name: {name}
seed: {seed}
tags: {{site: osaka, run: "{name}"}}
{preset}
model:
  input: {{size: 2}}
learning: {{optimizer: {{rate: {rate}}}}}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: 5}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: "{directory}/state"}}
"""
RATE = "learning.optimizer.rate"
LEVEL = "members.level.learning.clip"


def daemon(directory, rate=0.001, *arguments, name="a", seed=3):
    directory.mkdir(exist_ok=True)
    text = CONFIG.format(directory=directory, rate=rate, name=name, seed=seed, preset="preset: forecast")
    return Daemon(directory, text, *arguments)


def feed(one, first, count):
    """Feeds examples first..first+count-1, and returns when they are learned."""
    with one.socket(zmq.PUSH, "examples") as feeder:
        for i in range(first, first + count):
            feeder.send_multipart([b"s", struct.pack("2f", i * 7 % 11, i * 5 % 13)])
        one.until(lambda: one.ask("status")["examples"] == first + count)


def test_each_rate_has_its_digest(directory):
    digests, compatible = set(), set()
    for rate in 0.1, 0.01, 0.001:
        with daemon(directory / str(rate), rate) as one:
            status = one.ask("status")
            digests.add(status["digest"])
            compatible.add(status["compatible"])
            assert status["configuration"][RATE] == rate and status["seed"] == 3
            assert status["tags"] == {"site": "osaka", "run": "a"} == status["configuration"]["tags"]
            assert one.end() == 0
    assert len(digests) == 3 and len(compatible) == 1


def test_overrides_count_as_the_file(directory):
    with daemon(directory / "one", 0.1) as one:
        before = one.ask("status")
        one.ask("set", key=RATE, value=0.01)
        after = one.ask("status")
        assert after["digest"] != before["digest"] and after["compatible"] == before["compatible"]
        assert after["configuration"][RATE] == 0.01
        with daemon(directory / "two", 0.01) as two:
            assert two.ask("status")["digest"] == after["digest"]
            assert two.end() == 0
        one.ask("set", key=RATE, value=0.1)
        assert one.ask("status")["digest"] == before["digest"]
        one.ask("set", key=LEVEL, value=0.5)
        sets = one.ask("status")["configuration"]["members"]
        assert sets == [{"name": "change"}, {"name": "level", "set": {
            "model.output.relative": "none", "learning.clip": 0.5}}], sets
        digest = one.ask("status")["digest"]
        assert digest != before["digest"]
        assert one.end() == 0
        one.start()  # the checkpoint has it
        assert one.ask("status")["digest"] == digest
        assert one.end() == 0


def test_the_printed_configuration_learns_the_same(directory):
    """The test uses the program as a user would. The second daemon has its own directory."""
    place = directory / "other"
    place.mkdir()
    with daemon(directory / "one") as one:
        one.ask("set", key=RATE, value=0.05)
        one.ask("set", key=LEVEL, value=0.5)
        text = subprocess.run([BUILD / "runnel-ctl", "-c", one.endpoint("control"), "config"], check=True,
                              timeout=LIMIT, capture_output=True, text=True).stdout
        assert f"# read from {one.path}\n" in text and "# with --set statistics.seconds=0\n" in text, text
        assert "rate: 0.05  # set while running; configured: 0.001\n" in text, text
        assert "learning.clip: 0.5  # set while running; configured: 1\n" in text, text
        own = [argument for name in ("examples", "statistics", "control")
               for argument in ("--set", f"{name}.bind=ipc://{place}/{name}")]
        with Daemon(place, text, "--set", f"state.directory={place}/state", *own) as other:
            assert other.ask("status")["digest"] == one.ask("status")["digest"]
            feed(one, 0, 60)
            feed(other, 0, 60)
            assert one.export() == other.export()
            assert other.end() == 0
        status = subprocess.run([BUILD / "runnel-ctl", "-c", one.endpoint("control"), "status"], check=True,
                                timeout=LIMIT, capture_output=True, text=True).stdout.split("\n")
        assert [line.split() for line in status if "seed" in line or "osaka" in line] == [
            ["seed", "3"], ["tags", "site", "osaka"]], status
        reply = one.ask("config")
        assert reply["yaml"].splitlines()[4:] == text.splitlines()[4:] and reply["file"] == str(one.path)
        assert reply["configuration"] == one.ask("status")["configuration"]
        assert one.end() == 0


def test_tags_change_on_reload_and_on_the_command_line(directory):
    with daemon(directory / "one", 0.1, "--set", "tags.run=7", "--set", "tags.site=", "--set", "tags.by=me") as one:
        assert one.ask("status")["tags"] == {"run": "7", "by": "me"}
        digest = one.ask("status")["digest"]
        one.path.write_text(one.path.read_text().replace("site: osaka", "where: 大阪"))
        one.process.send_signal(signal.SIGHUP)
        one.until(lambda: "where" in one.ask("status")["tags"])
        status = one.ask("status")
        assert status["tags"] == {"where": "大阪", "run": "7", "by": "me"} and status["digest"] == digest
        assert one.end() == 0


class Recorder:
    def __init__(self, one, path, *arguments):
        self.path = path
        self.process = subprocess.Popen([BUILD / "runnel-record", "-c", one.endpoint("statistics"), "-o", path,
                                         *arguments])

    def rows(self):
        if not self.path.exists():
            return []
        with sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, timeout=LIMIT) as file:
            try:
                found = file.execute("SELECT name, digest, compatible, seed, tags, configuration FROM runs"
                                     " ORDER BY id").fetchall()
            except sqlite3.OperationalError:  # the file is being created
                return []
        return [(*row[:4], *(json.loads(text) if text else None for text in row[4:])) for row in found]

    def until(self, reached):
        end = time.monotonic() + LIMIT
        while not reached(self.rows()):
            assert time.monotonic() < end and self.process.poll() is None, self.rows()
            time.sleep(0.02)
        return self.rows()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(LIMIT) == 0


def test_a_recording_describes_each_run(directory):
    path = directory / "runs.db"
    table = directory / "settings.csv"
    with daemon(directory / "one", 0.1, name="one") as one:
        with Recorder(one, path, f"--csv-settings={table}") as recorder:
            status = one.ask("status")
            row = recorder.until(lambda rows: rows and rows[-1][5])[0]
            assert row == ("one", status["digest"], status["compatible"], 3, status["tags"],
                           status["configuration"]), row
            one.ask("set", key=RATE, value=0.5)
            rows = recorder.until(lambda rows: rows[-1][5][RATE] == 0.5)
            assert len(rows) == 1 and rows[0][1] == one.ask("status")["digest"] != status["digest"]
        assert one.end() == 0
    with daemon(directory / "two", 0.2, name="two", seed=9) as two:
        with Recorder(two, path) as recorder:
            rows = recorder.until(lambda rows: len(rows) == 2 and rows[-1][5])
            assert [row[3] for row in rows] == [3, 9] and [row[5][RATE] for row in rows] == [0.5, 0.2]
            assert [row[4]["run"] for row in rows] == ["one", "two"]
        assert two.end() == 0
    with open(table, newline="", encoding="utf-8") as file:
        settings = [(row["name"], row["key"], row["value"]) for row in csv.DictReader(file)]
    assert [value for _, key, value in settings if key == RATE] == ["0.1", "0.5"], settings
    assert settings.count(("one", "seed", "3")) == 1
    assert ("one", "tags", '{"site":"osaka","run":"one"}') in settings


def test_an_older_recording_is_continued(directory):
    path = directory / "runs.db"
    with daemon(directory / "one") as one:
        with Recorder(one, path) as recorder:
            recorder.until(lambda rows: rows and rows[-1][5])
        with sqlite3.connect(path) as file:
            for column in "compatible", "seed", "tags", "configuration":
                file.execute(f"ALTER TABLE runs DROP COLUMN {column}")
        file.close()
        assert one.end() == 0
        one.start()
        with Recorder(one, path) as recorder:
            rows = recorder.until(lambda rows: len(rows) == 2 and rows[-1][5])
            assert rows[0][2:] == (None, None, None, None) and rows[1][3] == 3
        assert one.end() == 0


def sessions(board):
    """The content for hparams of each run; the recorder may still be writing. A directory is named
    `unnamed` if a loss arrived before the first status."""
    try:
        return [event_files.session(content)[0] for path in board.glob("*")
                for _, _, content in event_files.events(path)["_hparams_/session_start_info"]]
    except (AssertionError, IndexError, struct.error):
        return []


def test_tensorboard_shows_the_settings(directory):
    board, learned = directory / "board", [0]
    with daemon(directory / "one", 0.1) as one:
        record = subprocess.Popen([BUILD / "runnel-record", "-c", one.endpoint("statistics"),
                                   f"--tensorboard={board}"])

        def more():
            feed(one, learned[0], 5)
            learned[0] += 5
            time.sleep(0.1)

        one.until(lambda: sessions(board), more)  # sent when its subscription has arrived
        one.ask("set", key=RATE, value=0.2)
        more()
        record.send_signal(signal.SIGINT)
        assert record.wait(LIMIT) == 0
        settings, = sessions(board)
        assert settings[RATE] == 0.1 and settings["seed"] == 3 and settings["tags.site"] == "osaka"
        assert settings["model.layers.0.cell"] == "gru" and "state.directory" not in settings
        assert one.end() == 0


if __name__ == "__main__":
    cases.run(globals())
