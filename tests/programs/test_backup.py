#!/usr/bin/python3
"""Tests runnel-ctl backup and restore: a copy of a busy daemon gives the same bits elsewhere, up to any
point, and inconsistent files are rejected."""
import os
import pathlib
import resource
import shutil
import signal
import sqlite3
import subprocess
import time

import cases
import recovery
import running
from recovery import EXAMPLE, Producer, feed, fresh, read_journal, start, undisturbed

PROGRAM = running.PROGRAM.with_name("runnel-ctl")
OK, USAGE, DATA, NO_INPUT, CANT_CREATE, IO = 0, 64, 65, 66, 73, 74


def ctl(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=running.LIMIT, check=False)
    return done.returncode, done.stdout, done.stderr


def backup(daemon, directory):
    status, out, err = ctl("-c", daemon.endpoint("control"), "--timeout", running.LIMIT,
                           "backup", directory)
    assert (status, err) == (OK, ""), (status, err)
    return out


def entries_of(state):
    """The examples in the journal of a copy, in order."""
    with fresh() as copy:
        shutil.copytree(state, copy / "state")
        found = read_journal(copy)
    assert all(entry.kind == EXAMPLE for entry in found.values())
    return [found[position] for position in sorted(found)]


def restored(copy, directory, *arguments, refused=None):
    state = pathlib.Path(directory, "restored" if refused else "state")
    status, out, err = ctl("restore", copy, "--state", state, *arguments)
    if refused:
        assert status != OK and refused in err and not state.exists(), (status, out, err)
    else:
        assert (status, err) == (OK, ""), (status, err)


def learns_the_same(directory, entries, **options):
    with start(directory, **options) as daemon:
        assert daemon.ask("status")["examples"] == len(entries)
        assert daemon.export() == undisturbed(entries, **options)[1]
        assert daemon.end() == 0


def test_a_full_disk():
    """A limit of file sizes acts like a full disk: an error, and no files remain."""
    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        feed(daemon, [recovery.message(b"k", bytes(4 * recovery.INPUTS), n) for n in range(100)])
        done = subprocess.run([PROGRAM, "-c", daemon.endpoint("control"), "backup", directory / "copy"], timeout=running.LIMIT,
                              capture_output=True, text=True, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000)))
        assert done.returncode == IO and "File too large" in done.stderr, done
        assert not list(directory.glob("copy*"))
        assert daemon.end() == 0


def test_while_it_is_fed():
    """Frequent checkpoints, so that the journal may drop entries during the copy."""
    for journal in "{}", "{keep: all}":
        with fresh() as directory, start(directory, journal=journal, checkpoint=150) as daemon:
            producers = [Producer(directory, n) for n in range(2)]
            for producer in producers:
                producer.start()
            copies = []
            while len(copies) < 4:
                seen = len(producers[0].answered)
                while len(producers[0].answered) < seen + 150:
                    assert producers[0].problems.empty()
                    time.sleep(0.005)
                copies.append(directory / f"copy-{len(copies)}")
                out = backup(daemon, copies[-1])
                assert "checkpoint" in out and "entries" in out, out
            for producer in producers:
                producer.finish()
            for producer in producers:
                producer.wait()
            full = read_journal(directory)
            if journal == "{}":
                for copy in copies[1:]:
                    check_pruned(copy, checkpoint=150)
                continue
            sizes = []
            for copy in copies:
                entries = entries_of(copy)
                assert entries == [full[n + 1] for n in range(len(entries))]
                sizes.append(len(entries))
                with fresh() as other:
                    restored(copy, other)
                    learns_the_same(other, entries, checkpoint=150)
            assert sizes == sorted(set(sizes)), sizes


def check_pruned(copy, **options):
    """The journal lacks its first entries: a daemon starts with it and has learned everything."""
    with fresh() as directory:
        restored(copy, directory)
        with sqlite3.connect(copy / "journal.sqlite") as base:
            oldest, newest = base.execute("SELECT oldest, newest FROM journal").fetchone()
        assert oldest > 1
        with start(directory, journal="{}", **options) as daemon:
            assert daemon.ask("status")["examples"] == newest


def some(count, first=0):
    r = recovery.random.Random(2)
    made = [recovery.make_example(r) for _ in range(first + count)]
    return [recovery.message(b"some", x, n, flags) for n, (x, flags) in enumerate(made)][first:]


def test_a_point_in_time():
    """The daemon was killed: its write-ahead log is part of the copy."""
    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        feed(daemon, some(60))
        daemon.ask("checkpoint")
        time.sleep(0.01)
        noon = time.time()
        time.sleep(0.01)
        feed(daemon, some(60, 60))
        daemon.end(signal.SIGKILL)
        assert (directory / "state" / "journal.sqlite-wal").stat().st_size > 0
        copy = directory / "copy"
        status, out, err = ctl("backup", "--state", directory / "state", f"{copy}/")
        assert (status, err) == (OK, "") and "entries 1 to 120" in out, (status, out, err)
        assert not list(directory.glob("*.partial")) and copy.stat().st_mode & 0o777 == 0o700
        entries = entries_of(copy)
        for arguments, count in ((), 120), (["--to", 100], 100), (["--to", f"@{noon}"], 60), \
                (["--without-span", "31-120"], 30):
            with fresh() as other:
                restored(copy, other, *arguments)
                learns_the_same(other, entries[:count], checkpoint=0)
                assert not (other / "state" / "rollback.json").exists()
                learns_the_same(other, entries[:count], checkpoint=0)
        with fresh() as other:  # a rejected command changes nothing
            restored(copy, other, "--without", "nobody")
            with start(other, checkpoint=0) as daemon:
                assert daemon.process.wait(running.LIMIT) != 0
                assert "rollback.json" in daemon.text() and "remove the file" in daemon.text()


def change(path, what):
    """Changes a bit in all places with these bytes, since some may be in unused pages."""
    found = path.read_bytes()
    assert what in found
    path.write_bytes(found.replace(what, what[:-1] + bytes([what[-1] ^ 16])))


def test_places():
    with fresh() as directory, start(directory, checkpoint=0, journal="{}") as daemon:
        for first in range(0, 120, 40):
            feed(daemon, some(40, first))
            daemon.ask("checkpoint")
        copy = directory / "copy"
        backup(daemon, copy)
        for name, status, text in ("copy", CANT_CREATE, "already exists"), \
                ("no/where", CANT_CREATE, "cannot create"):
            found = ctl("-c", daemon.endpoint("control"), "backup", directory / name)
            assert found[0] == status and text in found[2], found
        assert ctl("backup", "--state", directory / "none", directory / "x")[0] == NO_INPUT
        assert ctl("restore", copy)[0] == USAGE
        assert ctl("status", "--state", copy)[0] == USAGE
        status, _, err = ctl("restore", copy, "--state", directory / "state")
        assert status == CANT_CREATE and "not empty" in err, err
        daemon.end()


def test_files_that_do_not_match():
    with fresh() as directory, start(directory, checkpoint=0, journal="{}") as daemon:
        feed(daemon, some(40))
        daemon.ask("checkpoint")
        backup(daemon, directory / "old")
        for first in 40, 80, 120:
            feed(daemon, some(40, first))
            daemon.ask("checkpoint")
        backup(daemon, directory / "new")
        daemon.end()
        with sqlite3.connect(directory / "new" / "journal.sqlite") as base:
            data, = base.execute("SELECT data FROM blocks ORDER BY last DESC LIMIT 1").fetchone()
        for name, what in ("checkpoint.safetensors", b"some"), ("journal.sqlite", data[-8:]):
            bad = directory / f"bad-{name}"
            shutil.copytree(directory / "new", bad)
            change(bad / name, what)
            restored(bad, directory, refused=name)
        mixed = directory / "mixed"
        shutil.copytree(directory / "old", mixed)
        shutil.copy(directory / "new" / "checkpoint.safetensors", mixed)
        restored(mixed, directory, refused="not from the same backup")
        os.unlink(mixed / "checkpoint.safetensors")
        for path in mixed.glob("checkpoint*"):
            path.unlink()
        restored(mixed, directory, refused="has no checkpoint")


def test_a_journal_that_was_moved_away():
    """Entries after the checkpoint are missing: a backup would lose them without a message."""
    with fresh() as directory, start(directory, checkpoint=0, journal="{}") as daemon:
        state = directory / "state"
        feed(daemon, some(40))
        daemon.ask("checkpoint")
        daemon.end()
        for path in state.glob("journal.sqlite*"):
            path.unlink()
        status, _, err = ctl("backup", "--state", state, directory / "copy")
        assert status == IO and "journal.sqlite not found" in err, (status, err)
        assert "up to 40" in err and not (directory / "copy").exists(), err
        (state / "journal.mark").unlink()  # the command of the message
        status, _, err = ctl("backup", "--state", state, directory / "copy")
        assert status == 0, err


def test_a_log_that_was_cut():
    """Acknowledged entries are missing in the journal, so the backup is rejected."""
    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        feed(daemon, some(40))
        daemon.end(signal.SIGKILL)
        state, copy = directory / "state", directory / "copy"
        shutil.copytree(state, directory / "whole")
        os.truncate(state / "journal.sqlite-wal", 0)
        status, out, err = ctl("backup", "--state", state, copy)
        assert status == DATA and "entries up to 40 were acknowledged" in err, (status, out, err)
        assert not copy.exists()
        status, out, err = ctl("backup", "--state", directory / "whole", copy)
        assert (status, err) == (OK, ""), (status, err)
        assert len(entries_of(copy)) == 40


if __name__ == "__main__":
    cases.run(globals())
