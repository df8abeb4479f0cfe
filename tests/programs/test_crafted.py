#!/usr/bin/python3
"""Malicious journals and backups with valid checksums are rejected with an error. They run no code of theirs
and cause no delay."""
import contextlib
import os
import signal
import sqlite3
import struct
import subprocess
import zlib

import cases
import recovery
import running
from recovery import feed, start

IO_ERROR = 74
ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
NUMBERS = struct.pack("<3f", 1, 2, 3)


def killed(directory, messages):
    """A killed daemon with these messages in its journal, after its only checkpoint."""
    daemon = start(directory, checkpoint=0)
    feed(daemon, messages)
    daemon.end(signal.SIGKILL)
    daemon.log.close()
    return daemon


def change(directory, *statements):
    with contextlib.closing(sqlite3.connect(directory / "state/journal.sqlite")) as file, file:
        for statement, *values in statements:
            file.execute(statement, values)


def block(about, data, last=1, count=1):
    """The statement that makes this the only block of the journal."""
    about = about.encode()
    crc = zlib.crc32(struct.pack("<4Q", last, count, len(about), len(data)) + about + data)
    return "UPDATE blocks SET about = ?, data = ?, crc = ?", about.decode(), data, crc


def entry(x_size, steps=1, flags=0, y="null", rest="null,null,null"):
    return f"[[1,1,0,1,{x_size},{y},{steps},{flags},{rest}]]"


def test_examples_that_no_daemon_took(directory):
    daemon = killed(directory, [recovery.message(b"k", NUMBERS, 1)])
    with daemon:
        for about, data, why in (
                (entry(0, steps=2**62), b"k", "invalid block"),
                (entry(0, steps=0), b"k", "invalid block"),
                (entry(0, steps=2**62, flags=8, rest="0,1,null,0,0,0"), b"k", "invalid block"),
                (entry(12), b"k" + struct.pack("<3f", 1, float("inf"), 0), "x is infinite at step 0"),
                (entry(12), b"k" + struct.pack("<3f", 1, float("nan"), 0), "x is NaN at step 0"),
                (entry(12), b"\xff" + NUMBERS, "the key must be UTF-8"),
                (entry(12, y=12), b"k" + 2 * NUMBERS, "y is not allowed"),
                (entry(12, rest="null,null,9221120237041090560"), b"k" + NUMBERS, "time is not finite")):
            change(directory, block(about, data))
            daemon.start()
            assert daemon.process.wait(running.LIMIT) == IO_ERROR, (about, daemon.text())
            last = daemon.text().splitlines()[-1]
            assert why in last, last
            assert why.startswith("invalid block") or ", sequence " in last and "runnel-ctl restore" in last, last
            daemon.log.close()
        change(directory, block(entry(12), b"k" + NUMBERS))
        daemon.start()
        assert daemon.ask("status")["examples"] == 1
        assert daemon.end() == 0


def test_triggers_of_a_journal(directory):
    """Every write to the journal would run these triggers."""
    daemon = killed(directory, [recovery.message(b"k", NUMBERS, 1)])
    change(directory, ("CREATE TABLE kept (i)",),
           *((f"CREATE TRIGGER {table} AFTER {act} ON {table} BEGIN INSERT INTO kept {ENDLESS} i FROM n; END",)
             for table, act in (("blocks", "INSERT"), ("journal", "UPDATE"), ("streams", "UPDATE"))))
    with daemon:
        daemon.start()
        assert feed(daemon, [recovery.message(b"k", NUMBERS, 2)]) == [2]
        assert daemon.end() == 0


def test_a_pipe_in_place_of_the_log(directory):
    daemon = killed(directory, [recovery.message(b"k", NUMBERS, 1)])
    log = directory / "state/journal.sqlite-wal"
    log.unlink(missing_ok=True)
    os.mkfifo(log)
    with daemon:
        daemon.start()
        assert daemon.process.wait(running.LIMIT) == IO_ERROR, daemon.text()
        assert "journal.sqlite-wal is not a regular file" in daemon.text(), daemon.text()


def restore(directory):
    done = subprocess.run([running.PROGRAM.with_name("runnel-ctl"), "restore", directory / "state", "--state",
                           directory / "new"], capture_output=True, text=True, timeout=running.LIMIT, check=False)
    assert done.returncode == IO_ERROR and not (directory / "new").exists(), done
    return done.stderr


def test_views_in_a_backup(directory):
    daemon = killed(directory, [recovery.message(b"k", NUMBERS, 1)])
    with daemon:
        daemon.start()
        daemon.ask("status")
        assert daemon.end() == 0
    for table, columns in (("journal", "1 AS oldest, i AS newest, 'full' AS sync FROM n WHERE i < 0"),
                           ("blocks", "i AS last, 1 AS count, 'a' AS about, 'b' AS data, 2 AS crc FROM n WHERE i < 0")):
        change(directory, (f"ALTER TABLE {table} RENAME TO {table}_before",),
               (f"CREATE VIEW {table} AS {ENDLESS} {columns}",))
        assert "cannot read" in restore(directory)
        change(directory, (f"DROP VIEW {table}",), (f"ALTER TABLE {table}_before RENAME TO {table}",))
    (directory / "state/checkpoint.safetensors").unlink()
    os.mkfifo(directory / "state/checkpoint.safetensors")
    assert "not a regular file" in restore(directory)


if __name__ == "__main__":
    cases.run(globals())
