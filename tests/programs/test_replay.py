#!/usr/bin/python3
"""runnel-replay: a daemon that gets another daemon's journal learns the same, bit for bit."""
import contextlib
import pathlib
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import time

import cases
import running
import zmq

PROGRAM = running.PROGRAM.with_name("runnel-replay")
LIMIT = running.LIMIT
OK, USAGE, BAD_DATA, NO_INPUT, UNAVAILABLE = 0, 64, 65, 66, 69
END, DO_NOT_LEARN = 1, 2
CONFIG = """
name: replay
device: cpu
model:
  input: {{kind: real, size: 3, scale: standard, missing: hold}}
  layers: [{{cell: gru, size: 6}}]
  output: {{loss: gaussian, size: 2, target: given}}
learning: {{window: 4, stride: 2, max_streams: 3}}
examples: {{bind: "ipc://{d}/examples", socket: {kind}, steps: many}}
statistics: {{bind: "ipc://{d}/statistics"}}
control: {{bind: "ipc://{d}/control"}}
state: {{directory: {d}/state, journal: {{keep: {keep}}}}}
"""


def daemon(directory, name, kind="router", keep="all"):
    place = pathlib.Path(directory, name)
    place.mkdir()
    return running.Daemon(place, CONFIG.format(d=place, kind=kind, keep=keep))


def examples(count, numbered=True):
    """Messages as a client sends them: four streams for three places, missing targets, flags."""
    r = random.Random(count)
    messages, sequence = [], {}
    for _ in range(count):
        key, steps = r.choice([b"a", b"b", b"", b"d"]), r.choice([1, 1, 3])
        x = [float("nan") if r.random() < 0.1 else r.gauss(5, 2) for _ in range(3 * steps)]
        y = [r.gauss(0, 1) for _ in range(2 * steps)] if r.random() < 0.8 else []
        flags = r.choice([0, 0, 0, END, DO_NOT_LEARN])
        sequence[key] = sequence.get(key, 6) + 1
        message = [key, struct.pack(f"<{len(x)}f", *x), struct.pack(f"<{len(y)}f", *y)]
        if numbered:
            message.append(struct.pack("<BBHIQd", 1, flags, 0, 2, sequence[key], r.choice([0, 1e9])))
        messages.append(message)
    return messages


def teach(d, messages):
    """Sends them, and waits until they are learned and on disk."""
    before = d.ask("status")["examples"]
    kind = zmq.DEALER if "socket: router" in d.path.read_text(encoding="utf-8") else zmq.PUSH
    with d.socket(kind, "examples") as socket:
        for message in messages:
            socket.send_multipart(message)
        wait_for(d, lambda: d.ask("status")["examples"] == before + len(messages))
        wait_for(d, lambda: is_durable(d.ask("status")["journal"]))


def is_durable(figures):
    return figures["durable"] == figures["position"]


def wait_for(d, what):
    end = time.monotonic() + LIMIT
    while not what():
        d.alive()
        assert time.monotonic() < end
        time.sleep(0.002)


def start(*arguments):
    return subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def run(*arguments):
    """Exit status and stderr."""
    with start(*arguments) as process:
        try:
            _, err = process.communicate(timeout=LIMIT)
        finally:
            process.kill()
    return process.returncode, err


def to(d, socket="router"):
    return ["--connect", d.endpoint("examples"), "--socket", socket]


def journal(d):
    return d.directory / "state" / "journal.sqlite"


def test_same_parameters(directory):
    """Through sockets of both kinds, while the first daemon is running."""
    count = 400
    with daemon(directory, "a") as a:
        teach(a, examples(count))
        for kind, socket in (("router", "router"), ("pull", "push")):
            with daemon(directory, kind, kind) as b:
                status, err = run(journal(a), *to(b, socket))
                assert status == OK and f"runnel-replay: sent {count} examples" in err, (status, err)
                assert kind == "pull" or f"; {count} acknowledged (0 duplicates), 0 rejected" in err
                wait_for(b, lambda: b.ask("status")["examples"] == count)
                assert b.export() == a.export()
                assert b.ask("status")["steps"] == a.ask("status")["steps"] > count


def test_producers(directory):
    """Several producers use the same numbers in the same streams: each keeps its own."""
    def of(producer):
        return [[key, x, y, b"\2" + header[1:] + struct.pack("<Q", producer)]
                for key, x, y, header in examples(50)]

    def producers(d):
        with contextlib.closing(sqlite3.connect(f"file:{journal(d)}?mode=ro", uri=True)) as file:
            return file.execute("SELECT stream, producer, epoch, sequence FROM entries "
                                "ORDER BY position").fetchall()

    mixed = [message for three in zip(of(5), of(2**64 - 1), examples(50)) for message in three]
    with daemon(directory, "a") as a, daemon(directory, "b") as b, daemon(directory, "c") as c:
        teach(a, mixed)
        for duplicates in (0, 150):
            status, err = run(journal(a), *to(b))
            assert status == OK and f"150 acknowledged ({duplicates} duplicates)" in err, err
        assert b.export() == a.export() and producers(b) == producers(a)
        assert {row[1] for row in producers(a)} == {5, -1, 0}
        status, err = run(journal(a), *to(c), "--producer", "C0FFEE")
        assert status == OK and "150 acknowledged (0 duplicates)" in err, err
        assert c.export() == a.export()
        assert {row[1:3] for row in producers(c)} == {(0xC0FFEE, 0)}


def test_commands(directory):
    """Reported, or executed in order; a second call does not execute them again."""
    with daemon(directory, "a") as a, daemon(directory, "b") as b, daemon(directory, "c") as c:
        parts = examples(300)
        teach(a, parts[:100])
        a.ask("reset")
        teach(a, parts[100:200])
        a.ask("set", key="learning.optimizer.rate", value=0.02)
        teach(a, parts[200:])
        status, err = run(a.directory / "state", *to(b), "--control", b.endpoint("control"))
        assert status == OK and "300 acknowledged" in err and "not sent" not in err, (status, err)
        assert b.export() == a.export() and b.ask("status")["rate"] == 0.02
        status, err = run(journal(a), *to(b), "--control", b.endpoint("control"))
        assert status == BAD_DATA and "already has entry 1" in err, (status, err)
        assert err.count("--from") == 1, err
        assert b.export() == a.export() and b.ask("status")["examples"] == 200
        status, err = run(journal(a), *to(c))
        assert status == OK and "of the journal that were not sent: 2;" in err, (status, err)
        assert 'entry 101 is a command and was not sent: {"command":"reset"}' in err, err
        assert c.export() != a.export() and c.ask("status")["examples"] == 300


def test_rollback(directory):
    """It is a command: the other daemon leaves out the same entries."""
    with daemon(directory, "a") as a, daemon(directory, "b") as b:
        parts = examples(200)
        teach(a, parts[:150])
        a.ask("rollback", spans=[[40, 60]])
        teach(a, parts[150:])
        status, err = run(journal(a), *to(b), "--control", b.endpoint("control"))
        assert status == OK and "200 acknowledged" in err and "not sent" not in err, (status, err)
        assert b.export() == a.export() and b.ask("status")["examples"] == 179


def test_other_sockets(directory):
    """Sockets of different kinds: it ends with an error."""
    with daemon(directory, "a") as a, daemon(directory, "b", "pull") as b:
        teach(a, examples(3))
        for d, socket, output in ((a, "push", "use --socket router"),
                                (b, "router", "use --socket push, or set examples.socket: router")):
            status, err = run(journal(a), *to(d, socket))
            assert status == UNAVAILABLE and output in err.splitlines()[-1], (status, err)


def test_lower_epoch(directory):
    with daemon(directory, "a") as a, daemon(directory, "b") as b:
        teach(a, examples(20))
        assert run(journal(a), *to(b), "--epoch", 9)[0] == OK
        for options in [], ["--control", b.endpoint("control")]:
            status, err = run(journal(a), *to(b), *options)
            assert status == BAD_DATA and "greater epoch" in err and "--epoch" in err, (status, err)
            assert "before, and" not in err, err


def test_numbers(directory):
    """A journal without numbers gets the same ones in each call."""
    with daemon(directory, "a", "pull") as a, daemon(directory, "b") as b:
        teach(a, examples(200, numbered=False))
        status, err = run(journal(a), *to(b))
        assert status == BAD_DATA and "entry 1 has no number" in err and "--epoch" in err, err
        status, err = run(journal(a), *to(b), "--epoch", 4, "--to", 120)
        assert status == OK and "120 acknowledged (0 duplicates)" in err, (status, err)
        status, err = run(journal(a), *to(b), "--epoch", 4)
        assert status == OK and "200 acknowledged (120 duplicates)" in err, (status, err)
        assert b.export() == a.export() and b.ask("status")["journal"]["missing"] == 0


def test_numbers_used_twice(directory):
    """A pull socket accepts them; a router would skip examples."""
    with daemon(directory, "a", "pull") as a, daemon(directory, "b") as b, \
            daemon(directory, "c") as c:
        messages = examples(20)
        for message in messages:
            message[3] = struct.pack("<BBHIQd", 1, 0, 0, 0, 0, 0)
        teach(a, messages)
        status, err = run(journal(a), *to(b))
        assert status == BAD_DATA and "does not have a higher number" in err and "--epoch" in err, err
        status, err = run(journal(a), *to(c), "--epoch", 1)
        assert status == OK and "20 acknowledged (0 duplicates)" in err, (status, err)
        assert c.export() == a.export()


def test_positions(directory):
    with daemon(directory, "a") as a, daemon(directory, "b") as b:
        parts = examples(50)
        teach(a, parts)
        status, err = run(journal(a), *to(b), "--from", 11, "--to", 30)
        assert status == OK and "20 acknowledged" in err, (status, err)
        rows = sqlite3.connect(f"file:{journal(b)}?mode=ro", uri=True).execute(
            "SELECT stream, x FROM entries ORDER BY position").fetchall()
        assert rows == [(m[0], m[1]) for m in parts[10:30]]
        status, err = run(journal(a), *to(b), "--from", 31, "--to", 60)
        assert status == OK and "30 examples" not in err and "the last entry is 50" in err, err
        status, err = run(journal(a), *to(b), "--from", 51)
        assert status == BAD_DATA and "nothing to replay: the last entry is 50" in err, err


def test_pruned(directory):
    """Pruned entries are reported."""
    with daemon(directory, "a", keep="checkpoint") as a, daemon(directory, "b") as b:
        parts = examples(90)
        for n in range(0, 90, 30):
            teach(a, parts[n:n + 30])
            a.ask("checkpoint")
        oldest = 61 # after the second newest checkpoint
        wait_for(a, lambda: a.ask("status")["journal"]["oldest"] == oldest)
        status, err = run(journal(a), *to(b), "--epoch", 1)
        assert status == BAD_DATA and f"--from {oldest}" in err, (status, err)
        status, err = run(journal(a), *to(b), "--quiet")
        assert status == OK and f"entries 1 to {oldest - 1} were pruned" in err, (status, err)
        assert b.ask("status")["examples"] == 91 - oldest


def test_speed(directory):
    """At the original speed it takes as long as learning did; a signal ends it at a position that
    it prints."""
    with daemon(directory, "a") as a, daemon(directory, "b") as b:
        parts = examples(4)
        teach(a, parts[:3])
        time.sleep(0.3)
        teach(a, parts[3:])
        a.end()
        file = sqlite3.connect(journal(a))
        span, = file.execute("SELECT max(time) - min(time) FROM entries").fetchone()
        file.close()
        before = time.monotonic()
        status, err = run(journal(a), *to(b), "--speed", "original")
        assert status == OK and "4 acknowledged" in err and span >= 0.3, (status, err)
        assert time.monotonic() - before >= span
        status, err = run(journal(a), *to(b), "--speed", 1000)
        assert status == OK and "4 acknowledged (4 duplicates)" in err, (status, err)
        with start(journal(a), *to(b), "--speed", 0.0001, "--from", 3, "--epoch", 9) as process:
            wait_for(b, lambda: b.ask("status")["examples"] == 5)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == OK and "sent 1 example " in err, (process.returncode, err)
        assert "stopped before entry 4; continue with --from 4 with a greater --epoch" in err, err


def change(path, sql):
    with contextlib.closing(sqlite3.connect(path)) as file:
        file.execute(sql)
        file.commit()


def test_bad_journals(directory):
    with daemon(directory, "a") as a, daemon(directory, "b") as b:
        parts = examples(30)
        teach(a, parts[:6])
        teach(a, parts[6:])
        a.end()
        copy = pathlib.Path(directory, "copy")
        for sql in ("UPDATE blocks SET data = zeroblob(length(data)) WHERE last > 6",
                    "DELETE FROM blocks WHERE last > 6"):
            shutil.copy(journal(a), copy)
            change(copy, sql)
            status, err = run(copy, *to(b))
            assert status == BAD_DATA and "entry 7 is damaged" in err, err
            assert "6 acknowledged" in err, err
        other = pathlib.Path(directory, "other")
        change(other, "CREATE TABLE t (x)")
        text = pathlib.Path(directory, "text")
        text.write_text("no database at all, but long enough to be looked at" * 100, encoding="ascii")
        for path, expected in ((other, BAD_DATA), (text, BAD_DATA), (directory / "none", NO_INPUT)):
            status, err = run(path, *to(b))
            assert status == expected and str(path) in err, (path, status, err)
            assert expected != NO_INPUT or "file not found" in err, err


def test_usage(directory):
    journal_path = directory / "journal.sqlite"
    for arguments, word in (([], "missing JOURNAL"), (["a", "b"], "unexpected argument 'b'"),
                            (["--nothing"], "unknown option"),
                            ([journal_path, "--speed", "fast"], "full, original or a factor"),
                            ([journal_path, "--speed", "0"], "full, original or a factor"),
                            ([journal_path, "--from", "0"], "--from"),
                            ([journal_path, "--from", 5, "--to", 4], "--to"),
                            ([journal_path, "--control", "ipc:///x"], "--socket router"),
                            ([journal_path, "--socket", "sub"], "push or router")):
        status, err = run(*arguments)
        assert status == USAGE and word in err, (arguments, status, err)
    assert run("--help") == (OK, "") and run("--version") == (OK, "")


cases.run(globals())
