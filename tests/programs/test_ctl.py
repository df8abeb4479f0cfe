#!/usr/bin/python3
"""Tests runnel-ctl with a simulated daemon: requests, output, files and exit status for all kinds of
replies."""
import contextlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import threading

try:
    import zmq
except ImportError:
    print("needs python3-zmq")
    sys.exit(77)

import cases
import running

PROGRAM = str(pathlib.Path(os.environ.get("builddir", "."), "runnel-ctl"))
OK, USAGE, UNAVAILABLE, REFUSED, IO = 0, 64, 69, 70, 74
LIMIT = 60  # seconds: no wait here depends on it, it ends a test that hangs
PATIENT = {"rollback", "abnormal"}  # without --timeout they ask for the status first
SECONDS = "0.2", "5", "30"  # tried in turn: on a machine that is busy it may hear nothing in a few

STATUS = {
    "ok": True, "run": "00ff00ff00ff00ff", "examples": 1234567, "steps": 2469134,
    "time": 1700000000.25, "name": "host-load", "state": "learning", "device": "cpu (avx2)",
    "model": "real 8 (standard) > lstm 128 norm > squared 8, next", "parameters": 69130,
    "digest": "0123456789abcdef", "version": "0.1.0", "uptime": 200.4, "every": 100, "clip": 1.0,
    "predictions": False, "state_directory": "/var/lib/runnel/host-load", "resumed": None,
    "sockets": {"examples": "tcp://127.0.0.1:5570", "statistics": "tcp://127.0.0.1:5571",
                "control": "tcp://127.0.0.1:5572"},
    "forgotten": 0, "checkpoint": {"examples": 1200000, "time": 1700000000.0},
    "loss": 0.0312, "mean": 0.0412, "smoothed": 0.0433, "minimum": 0.0001, "maximum": 12345.6,
    "updates": 77160, "rate": 0.0003, "gradient_norm": 0.25, "update_ratio": 0.00123, "plasticity": 0.1125,
    "metric": {"rmse": 1.5}, "examples_per_second": 12345.6,
    "latency_us": {"p50": 95.0, "p99": 1234.0, "max": 45678.0},
    "queued": 3, "rejected": 4, "rejected_by": {"x_size": 3, "key": 1}, "skipped": 0,
    "streams": 12, "input_scale": 5,
    "journal": {"position": 1234570, "durable": 1234567, "oldest": 1100001, "entries": 134570,
                "bytes": 25000000, "free_bytes": 53000000000, "waiting": 0.002, "replaying": False,
                "duplicates": 7, "conflicts": 2, "missing": 0,
                "sync": "full", "keep": 10000000000},
    "security": {"key": "A" * 40, "refused": 3, "refused_by": {"no_key": 2, "unknown_key": 1}}}
NOT_YET = dict(STATUS, examples=0, steps=0, updates=0, loss=None, mean=None, smoothed=None,
               minimum=None, maximum=None, gradient_norm=None, update_ratio=None,
               metric={"accuracy": None, "bits": None}, examples_per_second=None, checkpoint=None,
               latency_us={"p50": None, "p99": None, "max": None}, rejected=0, rejected_by={})
del NOT_YET["journal"], NOT_YET["security"]

HEADER = json.dumps({"output.bias": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
PARAMETERS = struct.pack("<Q", len(HEADER)) + HEADER.encode() + struct.pack("<2f", 1.5, -2.5)


REAL = """
name: a
model:
  input: {kind: real, size: 2}
  layers: [{cell: gru, size: 4}]
  output: {loss: squared, size: 2, target: next}
"""


@contextlib.contextmanager
def daemon(directory, frames):
    """A REP socket that answers every request with the frames (objects become JSON); yields its endpoint and
    the list of requests."""
    context, requests = zmq.Context(), []
    socket, stop = context.socket(zmq.REP), threading.Event()
    socket.linger = 0
    endpoint = f"ipc://{directory}/control"
    socket.bind(endpoint)
    frames = [f if isinstance(f, bytes) else json.dumps(f).encode() for f in frames]

    def serve():
        while not stop.is_set():
            if socket.poll(20):
                requests.append(json.loads(socket.recv()))
                socket.send_multipart(frames)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield endpoint, requests
    finally:
        stop.set()
        thread.join()
        context.destroy()


def ctl(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=LIMIT,
                          env=dict(os.environ, TZ="UTC"))
    return done.returncode, done.stdout, done.stderr.decode()


def ask(directory, frames, *arguments):
    """Runs a command with a daemon that answers with `frames`."""
    with daemon(directory, frames) as (endpoint, requests):
        patience = () if PATIENT & set(arguments) else ("--timeout", str(LIMIT))
        return ctl("--connect", endpoint, *patience, *arguments), requests


def values(out):
    """The lines of `status` as {name: value}."""
    lines = [line[2:] for line in out.decode().splitlines() if line.startswith("  ")]
    return {line[:20].strip(): line[20:].strip() for line in lines}


def test_status(directory):
    (status, out, err), requests = ask(directory, [STATUS], "status")
    assert (status, err, requests) == (OK, "", [{"command": "status"}]), (status, err, requests)
    shown = values(out)
    expected = {"name": "host-load", "state": "learning", "uptime": "3 min 20 s",
                "device": "cpu (avx2)", "parameters": "69,130", "resumed from": "-",
                "statistics at": "tcp://127.0.0.1:5571", "examples": "1,234,567",
                "rate": "0.0003", "plasticity": "0.1125", "mean": "0.0412", "maximum": "12.35k", "rmse": "1.5000",
                "speed": "12.3k examples/s", "latency p99": "1.23ms",
                "rejected": "4 examples", "written at": "2023-11-14 22:13:20",
                "rejected by": "x_size 3", "on disk up to": "1,234,567",
                "duplicates": "7 examples, ignored",
                "conflicts": "2 examples, not learned", "out of scale": "5 inputs",
                "synced": "full", "keep": "10.0 GB at most",
                "encrypted by": "A" * 40, "refused": "3 connections and requests in this run",
                "refused by": "no_key 2"}
    for name, value in expected.items():
        assert shown.get(name) == value, (name, shown.get(name), value)
    assert b"key 1" in out and "accuracy" not in shown, out


def test_status_has_words_and_times(directory):
    """A row for each vocabulary, and `out of order` if a time decreased."""
    words = {"host": {"size": 10, "capacity": 1000, "newest": ["web-9", "web-8"]},
             "output": {"size": 0, "capacity": 3, "newest": []}}
    (_, out, err), _ = ask(directory, [dict(STATUS, vocabulary=words, backwards=2)], "status")
    shown = values(out)
    assert (err, shown.get("host")) == ("", "10 of 1,000, newest web-9, web-8"), (err, out)
    assert shown.get("output") == "0 of 3" and shown.get("out of order", "").startswith("2 examples"), out
    (_, out, _), _ = ask(directory, [dict(STATUS, backwards=0)], "status")
    assert "out of order" not in values(out) and b"words" not in out, out
    # Invalid values.
    for odd in ([], "a", {"a": 1}, {"a": {"newest": [1, None]}}, {"b": {"newest": ["x" * 255] * 9}}):
        (status, _, err), _ = ask(directory, [dict(STATUS, vocabulary=odd)], "status")
        assert (status, err) == (OK, ""), (odd, status, err)


def test_status_of_a_broker(directory):
    """The lag, dead letters and connection; `-` is unknown."""
    consumer = {"group": "plant", "partitions": 8, "places": {"s": "1-0"}, "lag": 1234, "lags": {}, "dead": 1,
                "lost": 0, "away": 0.0}
    (_, out, err), _ = ask(directory, [dict(STATUS, consumer=consumer, threads=3)], "status")
    shown = values(out)
    expected = {"threads": "3", "group": "plant", "partitions": "8", "lag": "1,234 messages",
                "dead letters": "1", "broker": "connected"}
    assert err == "" and b"\nconsumer\n" in out, (err, out)
    assert {name: shown.get(name) for name in expected} == expected, out
    (_, out, _), _ = ask(directory, [dict(STATUS, consumer=dict(consumer, lag=None, away=75.0))], "status")
    shown = values(out)
    assert shown["lag"] == "-" and shown["broker"].startswith("disconnected for 1 min"), out
    part = {"group": "plant", "daemons": 2, "partitions": 4, "of": 8, "taken": 4, "released": 0, "lost": 0, "adopted": 0,
            "replayed": 0, "averages": 3, "round": 4, "members": {}, "owners": [], "away": 0.0}
    (_, out, _), _ = ask(directory, [dict(STATUS, consumer=consumer, fleet=part)], "status")
    shown = values(out)
    expected = {"partitions here": "4", "partitions in all": "8", "averages": "3", "round of averages": "4",
                "fleet's broker": "connected"}
    assert {name: shown.get(name) for name in expected} == expected, out
    (_, out, _), _ = ask(directory, [STATUS], "status")
    assert b"consumer" not in out and "lag" not in values(out), out


def test_status_before_the_first_score(directory):
    (status, out, err), _ = ask(directory, [NOT_YET], "status")
    shown = values(out)
    assert (status, err) == (OK, "")
    assert shown["mean"] == shown["accuracy"] == shown["speed"] == shown["latency p50"] == "-"
    assert "nan" not in out.decode().lower() and "journal" not in out.decode()


def test_json_is_the_unchanged_reply(directory):
    raw = json.dumps(STATUS, indent=None).encode().replace(b"0.0312", b"0.031200000000000003")
    (status, out, err), _ = ask(directory, [raw], "--json", "status")
    assert (status, out, err) == (OK, raw + b"\n", "")


def test_set_sends_numbers_as_numbers(directory):
    for text, value in [("0.0003", 0.0003), ("100", 100), ("true", True), ("fast", "fast"),
                        ("[1]", "[1]"), ('"1"', "1"), ("1e", "1e")]:
        (status, out, _), requests = ask(directory, [{"ok": True}], "set", "learning.clip", text)
        assert status == OK and b"learning.clip" in out
        assert requests == [{"command": "set", "key": "learning.clip", "value": value}], requests
        assert type(requests[0]["value"]) is type(value)


def test_a_negative_value_is_not_an_option(directory):
    (status, _, _), requests = ask(directory, [{"ok": True}], "set", "--", "learning.clip", "-1")
    assert status == OK and requests[0]["value"] == -1


def test_plain_commands(directory):
    for command, reply, word in [("pause", {"state": "paused"}, b"paused"),
                                 ("resume", {"state": "learning"}, b"learning"),
                                 ("reset", {"examples": 0}, b"reset"),
                                 ("shutdown", {"state": "draining"}, b"the daemon is stopping")]:
        (status, out, err), requests = ask(directory, [dict(reply, ok=True)], command)
        assert (status, err, requests) == (OK, "", [{"command": command}])
        assert word in out, out


def test_shutdown_is_answered(directory):
    """Interrupts the program while the daemon ends."""
    for turn in range(5):
        (directory / str(turn)).mkdir()
        sockets = "".join(f"{name}: {{bind: 'ipc://{directory}/{turn}/{name}'}}\n" for name in ("statistics", "control"))
        with running.Daemon(directory / str(turn), f"{REAL}{sockets}state: {{directory: '{directory}/{turn}/state', "
                            f"journal: {{}}}}\nexamples: {{bind: 'ipc://{directory}/{turn}/examples', socket: router}}\n") as one:
            one.until(lambda: one.ask("status")["ok"])
            program = subprocess.Popen([PROGRAM, "--connect", one.endpoint("control"), "shutdown"],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while "stopping" not in one.text() and program.poll() is None:
                pass
            program.send_signal(signal.SIGSTOP)
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.process.wait(0.2)
            program.send_signal(signal.SIGCONT)
            out, err = program.communicate(timeout=LIMIT)
            assert (program.returncode, err) == (OK, "") and "the daemon is stopping" in out, err
            assert one.process.wait(LIMIT) == OK


def test_reset_of_a_member(directory):
    (status, out, err), requests = ask(directory, [{"ok": True, "member": "level"}], "reset", "level")
    assert (status, err) == (OK, "") and b"member level" in out, (out, err)
    assert requests == [{"command": "reset", "member": "level"}], requests


def test_one_of_something(directory):
    """The singular has no s."""
    one = dict(STATUS, rejected=1, input_scale=1)
    (status, out, _), _ = ask(directory, [one], "status")
    shown = values(out)
    assert (shown["rejected"], shown["out of scale"]) == ("1 example", "1 input"), shown
    reply = {"ok": True, "path": "a", "examples": 1, "bytes": 5, "seconds": 0.01}
    (status, out, _), _ = ask(directory, [reply], "checkpoint")
    assert status == OK and out.startswith(b"a: 1 example, "), out
    reply = {"ok": True, "position": 131, "after": 3, "first": 121, "restored": 120, "replayed": 1,
             "left_out": 1, "commands_left_out": 0, "seconds": 0.5, "examples": 9}
    (status, out, _), _ = ask(directory, [reply], "rollback", "--without", "a")
    assert b"left out 1 example and 0 commands" in out and b"relearned 1 entry in" in out, out
    assert b"entries of this stream up to entry 3 stay learned" in out, out


def test_forget(directory):
    for stream in "pump-7", "", "東京 1":
        (status, out, err), requests = ask(directory, [{"ok": True, "stream": stream}], "forget",
                                           stream)
        assert (status, err) == (OK, ""), err
        assert requests == [{"command": "forget", "stream": stream}], requests
        assert f"forgot stream '{stream}'".encode() in out, out


def test_normal(directory):
    noon = 1769860800
    for arguments, wanted in [([], {}), (["--at", "2026-01-31 12:00"], {"at": noon}),
                              (["--at", "@1769860800.5"], {"at": noon + 0.5})]:
        reply = {"ok": True, "stream": "東京 1", "data_time": noon, "score": 1.8765}
        (status, out, err), requests = ask(directory, [reply], "normal", "東京 1", *arguments)
        assert (status, err) == (OK, ""), err
        assert requests == [{"command": "normal", "stream": "東京 1"} | wanted], requests
        assert out.decode() == ("marked as normal: stream '東京 1', 2026-01-31 12:00:00, "
                                "alarm score 1.88\n"), out
    (_, out, _), _ = ask(directory, [reply | {"data_time": None}], "normal", "東京 1")
    assert out.decode() == "marked as normal: stream '東京 1', alarm score 1.88\n", out
    for arguments in ["normal"], ["normal", "s", "--at", "noon"], ["status", "--at", "@1"]:
        status, out, err = ctl(*arguments)
        assert (status, out) == (USAGE, b"") and "--help" in err, (arguments, err)


def test_silence(directory):
    for duration, seconds in [("90s", 90), ("10m", 600), ("1.5h", 5400), ("2d", 172800), ("0", 0)]:
        reply = {"ok": True, "stream": "東京 1", "until": 1769860800 if seconds else None}
        (status, out, err), requests = ask(directory, [reply], "silence", "東京 1", duration)
        assert (status, err) == (OK, ""), err
        assert requests == [{"command": "silence", "stream": "東京 1", "seconds": seconds}], requests
        assert out.decode() == ("silenced stream '東京 1' until 2026-01-31 12:00:00\n" if seconds
                                else "ended the silence of stream '東京 1'\n"), out
    for duration in "2", "h", "2hours", "soon", "":
        status, out, err = ctl("silence", "s", duration)
        assert (status, out) == (USAGE, b"") and "expected a duration" in err, (duration, err)
    assert ctl("silence", "s")[0] == USAGE


def test_abnormal(directory):
    reply = {"ok": True, "stream": "東京 1", "data_time": 1769860800, "score": 2.5, "from": 1769860800,
             "to": 1769860810.5, "position": 131, "after": 0, "first": 121, "restored": 1120, "replayed": 80,
             "left_out": 12, "commands_left_out": 0, "seconds": 0.5, "examples": 9}
    noon = 1769860800
    for arguments, wanted in [([], {}), (["--at", "2026-01-31 12:00"], {"at": noon}),
                              (["--from", "@1769860800.5", "--to", "2026-01-31 12:01"],
                               {"from": noon + 0.5, "to": noon + 60}),
                              (["--at", f"@{noon}", "--span", "5"], {"at": noon, "count": 5})]:
        (status, out, err), requests = ask(directory, [reply], "abnormal", "東京 1", *arguments)
        assert (status, err) == (OK, ""), err
        assert requests == [{"command": "status"}, {"command": "abnormal", "stream": "東京 1"} | wanted], requests
        assert out.decode() == ("abnormal: stream '東京 1', 12 examples of data from 2026-01-31 12:00:00 to 2026-01-31 "
                                "12:00:10; returned to the state after entry 1,120 and relearned 80 entries "
                                "in 0.5 s\n"), out
    (_, out, _), requests = ask(directory, [reply | {"from": None, "to": None, "left_out": 1}], "abnormal", "s", "-n")
    assert requests[1] == {"command": "abnormal", "stream": "s", "dry_run": True}, requests
    assert out.decode() == ("dry run: would be abnormal: stream 's', 1 example; the daemon would return to the state "
                            "after entry 1,120\n"), out
    for arguments in [["abnormal"], ["abnormal", "s", "--at", "noon"], ["abnormal", "s", "--to", "4711"],
                      ["abnormal", "s", "--from", "x"], ["abnormal", "s", "--span", "0"],
                      ["abnormal", "s", "--at", "@1", "--from", "@1"],
                      ["abnormal", "s", "--span", "1", "--to", "@1"], ["abnormal", "s", "--without", "s"],
                      ["normal", "s", "--from", "@1"], ["rollback", "--to", "1", "--span", "3"]]:
        status, out, err = ctl(*arguments)
        assert (status, out) == (USAGE, b"") and "--help" in err, (arguments, err)


def test_rollback(directory):
    reply = {"ok": True, "position": 131, "after": 0, "first": 121, "restored": 1120,
             "replayed": 80, "left_out": 50, "commands_left_out": 1, "seconds": 0.5, "examples": 9}
    noon = 1769860800  # 2026-01-31T12:00Z; local time is UTC here
    for arguments, wanted in [
            (["--to", "4711"], {"to": 4711}), (["--to", "0"], {"to": 0}),
            (["--to", "@1769860800.5"], {"to_time": noon + 0.5}),
            (["--to", "2026-01-31T12:00"], {"to_time": noon}),
            (["--to", "2026-01-31 12:00:30.25Z"], {"to_time": noon + 30.25}),
            (["--to", "2026-01-31T21:00+09:00"], {"to_time": noon}),
            (["--to", "2026-01-31T08:30-0330"], {"to_time": noon}),
            (["--without", "a", "--without", "東京"], {"without": ["a", "東京"]}),
            (["--without-span", "5-7", "--without-span", "9"], {"spans": [[5, 7], [9, 9]]}),
            (["-n", "--to", "1"], {"to": 1, "dry_run": True})]:
        (status, out, err), requests = ask(directory, [reply], "rollback", *arguments)
        assert (status, err) == (OK, ""), (arguments, err)
        assert requests == [{"command": "status"},
                            {"command": "rollback", "without": [], "spans": [], **wanted}], requests
        assert b"121" in out and b"1,120" in out, out
        assert ("dry_run" in wanted) == (b"dry run" in out), out
    for arguments in [[], ["--to", "yesterday"], ["--to", "2026-13-01T12:00"], ["--to", "-1"],
                      ["--to", "2026-01-31"], ["--to", "2026-01-31T12:00+"], ["--to", "@"],
                      ["--without-span", "7-5"], ["--without-span", "0-5"],
                      ["--without-span", "a"], ["--without", b"\xff"]]:
        status, out, err = ctl("rollback", *arguments)
        assert (status, out) == (USAGE, b"") and "--help" in err, (arguments, err)
    status, _, err = ctl("reset", "--to", "1")
    assert status == USAGE and "rollback" in err, err


def test_a_daemon_that_dies(directory):
    """A daemon that receives the request and dies: the program does not wait."""
    endpoint = f"ipc://{directory}/control"
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    socket.bind(endpoint)
    process = subprocess.Popen([PROGRAM, "-c", endpoint, "--timeout", str(10 * LIMIT), "checkpoint"],
                               stderr=subprocess.PIPE)
    assert socket.poll(1000 * LIMIT)
    socket.recv()
    context.destroy(0)
    err = process.communicate(timeout=LIMIT)[1].decode()
    assert process.returncode == UNAVAILABLE and "connection closed before the answer" in err, err


def test_checkpoint(directory):
    reply = {"ok": True, "path": "/var/lib/runnel/a/checkpoint.safetensors", "examples": 5000,
             "bytes": 1234567, "seconds": 0.01}
    (status, out, _), _ = ask(directory, [reply], "checkpoint")
    assert status == OK
    assert out == b"/var/lib/runnel/a/checkpoint.safetensors: 5,000 examples, 1.23 MB\n", out


def test_rejection(directory):
    refusal = {"ok": False, "error": "learning.window: cannot change in flight"}
    (status, out, err), _ = ask(directory, [refusal], "set", "learning.window", "3")
    assert (status, out) == (REFUSED, b"")
    assert "learning.window: cannot change in flight" in err
    (status, out, err), _ = ask(directory, [refusal], "--json", "set", "learning.window", "3")
    assert status == REFUSED and json.loads(out) == refusal


def test_text_from_the_daemon_cannot_drive_the_terminal(directory):
    words = {"a\033[2J": {"size": 1, "capacity": 2, "newest": ["b\033[2J\u009b"]}}
    for reply in [{"ok": False, "error": "a\033[2Jb\x9b\n"}, dict(STATUS, name="a\033[2Jb\u009bc"),
                  dict(STATUS, vocabulary=words)]:
        (_, out, err), _ = ask(directory, [reply], "status")
        assert b"\033" not in out and b"\xc2\x9b" not in out and "\033" not in err


def test_export(directory):
    path = pathlib.Path(directory, "out.safetensors")
    path.write_bytes(b"before")
    reply = {"ok": True, "examples": 5000, "parameters": 2, "bytes": len(PARAMETERS)}
    (status, out, err), requests = ask(directory, [reply, PARAMETERS], "export", str(path))
    assert (status, err, requests) == (OK, "", [{"command": "export"}])
    assert path.read_bytes() == PARAMETERS and b"5,000 examples" in out
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()
    assert leftovers(directory) == ["out.safetensors"]
    (status, out, err), _ = ask(directory, [reply, PARAMETERS], "export", "-")
    assert (status, out, err) == (OK, PARAMETERS, "")
    (status, out, _), _ = ask(directory, [reply, PARAMETERS], "--json", "export", str(path))
    assert status == OK and json.loads(out) == reply


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def leftovers(directory):
    return sorted(f for f in os.listdir(directory) if f != "control")


def test_export_that_cannot_be_written(directory):
    reply = {"ok": True, "examples": 1, "parameters": 2, "bytes": len(PARAMETERS)}
    blocked = pathlib.Path(directory, "directory")
    blocked.mkdir()
    for path in ["/nonexistent/out", str(blocked)]:
        (status, out, err), _ = ask(directory, [reply, PARAMETERS], "export", path)
        assert (status, out) == (IO, b"") and path in err, (status, err)
    assert leftovers(directory) == ["directory"]
    pipe = pathlib.Path(directory, "pipe")
    os.mkfifo(pipe)
    (status, out, err), _ = ask(directory, [reply, PARAMETERS], "export", str(pipe))
    assert (status, out) == (IO, b"") and "not a regular file" in err and pipe.is_fifo()
    assert leftovers(directory) == ["directory", "pipe"]
    with open("/dev/full", "wb") as full, daemon(directory, [STATUS]) as (endpoint, _):
        done = subprocess.run([PROGRAM, "-c", endpoint, "--timeout", str(LIMIT), "status"], stdout=full,
                              stderr=subprocess.PIPE, timeout=LIMIT)
    assert done.returncode == IO and b"standard output" in done.stderr


def test_a_bad_export_does_not_overwrite(directory):
    path = pathlib.Path(directory, "out.safetensors")
    path.write_bytes(b"before")
    reply = {"ok": True, "examples": 1}
    for blob in [[], [b""], [b"short"], [struct.pack("<Q", 1 << 60) + b"{}"], [b"\0" * 64]]:
        (status, _, err), _ = ask(directory, [reply, *blob], "export", str(path))
        assert status == REFUSED and "safetensors" in err, (blob, status, err)
        assert path.read_bytes() == b"before"
    (status, _, err), _ = ask(directory, [{"ok": False, "error": "no memory"}], "export", str(path))
    assert status == REFUSED and path.read_bytes() == b"before"


def test_malformed_replies(directory):
    for frames in [[b""], [b"garbage\xff\0"], [b"[]"], [b"{}"], [b'{"ok": "yes"}'], [b"null"],
                   [b'{"ok": true, "name": "\\u0000"}'], [b"{" * 100000], [b"1", b"2", b"3", b"4"]]:
        (status, out, err), _ = ask(directory, frames, "status")
        assert (status, out) == (UNAVAILABLE, b""), (frames[0][:20], status, out)
        assert "not runneld's control socket" in err
    # Members of every other type, or with absurd values, do not crash the program.
    for value in ["x\ty", -1, 1e308, -1e308, True, [], {}, [1, {}], 10**18]:
        strange = {key: value for key in STATUS}
        (status, _, _), _ = ask(directory, [dict(strange, ok=True)], "status")
        assert status == OK, (value, status)


def test_no_daemon(directory):
    endpoint = f"ipc://{directory}/nobody"
    for seconds in SECONDS:
        status, out, err = ctl("-c", endpoint, "--timeout", seconds, "status")
        assert (status, out) == (UNAVAILABLE, b"") and endpoint in err
        if "the socket does not exist" in err:
            break
    assert "the socket does not exist" in err, err
    assert f"waiting for {endpoint}\n" in ctl("-c", endpoint, "--timeout", "1.5", "status")[2]
    # An endpoint of another kind, such as the socket for examples.
    with zmq.Context() as context, context.socket(zmq.PULL) as socket:
        socket.bind(f"ipc://{directory}/examples")
        status, out, err = ctl("-c", f"ipc://{directory}/examples", "status")
        assert (status, out) == (UNAVAILABLE, b""), (status, out)
        assert "/examples" in err and "not runneld's control socket" in err, err
    # A server that accepts the connection and never answers.
    context = zmq.Context()
    socket = context.socket(zmq.REP)
    socket.linger = 0
    socket.bind(endpoint)
    for seconds in SECONDS:
        status, out, err = ctl("-c", endpoint, "--timeout", seconds, "status")
        if "busy" in err:
            break
    context.destroy()
    assert (status, out) == (UNAVAILABLE, b"") and endpoint in err and "busy" in err


def test_usage(directory):
    for arguments in [[], ["nonsense"], ["set"], ["set", "a"], ["set", "a", "b", "c"],
                      ["status", "x"], ["export"], ["forget"], ["forget", b"\xff"], ["--timeout", "soon", "status"],
                      ["--timeout", "-1", "status"], ["--bogus"], ["-c", "nowhere", "status"],
                      ["--json", "export", "-"]]:
        status, out, err = ctl(*arguments)
        assert (status, out) == (USAGE, b""), (arguments, status, out)
        assert "--help" in err, (arguments, err)


def test_help_and_version(directory):
    status, out, err = ctl("--help")
    assert status == OK and err == "" and b"tcp://127.0.0.1:5572" in out
    for command in ["status", "set", "checkpoint", "export", "pause", "resume", "reset",
                    "forget", "normal", "abnormal", "rollback", "backup", "restore", "shutdown"]:
        assert command.encode() in out
    status, out, _ = ctl("--version")
    assert status == OK and out.startswith(b"runnel-ctl ")


cases.run(globals())
