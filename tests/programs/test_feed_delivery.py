#!/usr/bin/python3
"""Delivery by runnel-feed: nothing is lost; waits, signals, progress and exit codes."""
import contextlib
import os
import pty
import select
import signal
import socket
import time

import cases
from feeding import *  # noqa: F403  pylint: disable=wildcard-import


def numbers(directory, count):
    """A table whose row n contains n."""
    path = directory / "numbers.csv"
    path.write_text("n\n" + "".join(f"{i}\n" for i in range(count)), encoding="ascii")
    return path


def finish(process):
    """Exit status and stderr."""
    _, err = process.communicate(timeout=LIMIT)
    return process.returncode, err.decode()


def line_with(process, text):
    """The next line on stderr that contains the text."""
    line, end = "", time.monotonic() + LIMIT
    while text not in line:
        left = max(0, end - time.monotonic())
        assert select.select([process.stderr], [], [], left)[0], f"missing output: {text}"
        line = process.stderr.readline().decode()
        assert line, f"missing output: {text}"
    return line


def wait_until_it_sleeps(process):
    """Waits until it has filled its queue and sleeps."""
    asleep, end = 0, time.monotonic() + LIMIT
    while asleep < 10:
        assert time.monotonic() < end, "the queue has not filled"
        time.sleep(0.02)
        stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii")
        asleep = asleep + 1 if stat.rpartition(")")[2].split()[0] == "S" else 0


def wait_until_it_keeps_connections(process):
    """Waits until it closes, and keeps its connections open by copies of their descriptors."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        sockets = []
        for entry in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                sockets += [os.readlink(entry)]
        sockets = [name for name in sockets if name.startswith("socket:")]
        if len(sockets) > len(set(sockets)):
            return
        time.sleep(0.01)
    raise AssertionError("the feeder did not close its socket")


def test_slow_receiver_loses_nothing(directory):
    """More examples than all queues hold, for a receiver that reads rarely or late."""
    count = 60000
    path = numbers(directory, count)
    for endpoint in [f"ipc://{directory}/slow", "tcp://127.0.0.1:*"]:
        with Receiver(directory, queue=10) as receiver:
            receiver.socket.bind(endpoint)
            endpoint = receiver.socket.last_endpoint.decode()
            process = start("csv", path, "--connect", endpoint)
            assert receiver.socket.poll(1000 * LIMIT) # it has arrived, but is not read yet
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                pass # blocked or not finished: both are fine
            for i in range(count):
                assert decode(receiver.take()).x[0] == i
            status, err = finish(process)
            assert status == OK and f"sent {count} examples" in err


def test_receiver_comes_later(directory):
    with Receiver(directory) as receiver:
        process = start("csv", numbers(directory, 5000), "--connect", receiver.endpoint)
        try:
            process.wait(0.5)
            raise AssertionError("it ended without a receiver")
        except subprocess.TimeoutExpired:
            pass
        receiver.bind()
        assert [decode(receiver.take()).x[0] for _ in range(5000)] == list(range(5000))
        assert finish(process)[0] == OK


def test_waiting_is_reported(directory):
    """It is printed once without a terminal, and not with --quiet."""
    with Receiver(directory) as receiver:
        process = start("csv", numbers(directory, 3), "--connect", receiver.endpoint)
        assert process.stderr.readline().decode() == (
            f"runnel-feed: waiting for {receiver.endpoint}: the socket does not exist\n")
        receiver.bind()
        status, err = finish(process)
        assert status == OK and err.startswith("runnel-feed: sent 3 examples"), err
    fed = run("csv", numbers(directory, 3), "--connect", f"ipc://{directory}/nobody", "--wait", 1.5,
              "--quiet")
    assert fed.status == UNAVAILABLE and "waiting for" not in fed.err, fed.err


def test_binding(directory):
    with Receiver(directory) as receiver:
        process = start("csv", numbers(directory, 3000), "--bind", receiver.endpoint)
        receiver.socket.connect(receiver.endpoint)
        assert [decode(receiver.take()).x[0] for _ in range(3000)] == list(range(3000))
        assert finish(process)[0] == OK


def test_endpoint_by_name(directory):
    """localhost is 127.0.0.1, where a daemon listens, even on a machine where it is also ::1."""
    with Receiver(directory) as receiver:
        port = receiver.socket.bind_to_random_port("tcp://127.0.0.1")
        process = start("csv", numbers(directory, 3), "--wait", LIMIT, "--connect",
                        f"tcp://localhost:{port}")
        assert [decode(receiver.take()).x[0] for _ in range(3)] == [0, 1, 2]
        assert finish(process)[0] == OK


def test_nobody_there(directory):
    endpoint = f"ipc://{directory}/nobody"
    fed = run("synth", "sine", "--connect", endpoint, "--wait", 0.1)
    assert fed.status == UNAVAILABLE and endpoint in fed.err and "runneld" in fed.err
    process, terminal = on_terminal("host", "--connect", endpoint)
    read_until(terminal, b"waiting for ")
    process.send_signal(signal.SIGINT)
    read_until(terminal, b"nothing was sent")
    assert process.wait(LIMIT) == UNAVAILABLE
    process.communicate()
    os.close(terminal)


def test_signals(directory):
    """A signal ends it normally: sent examples arrive and are counted in the summary."""
    for number in [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]:
        for options in [["synth", "sine", "--steps", 256], ["host", "--rate", 100],
                        ["synth", "sine", "--rate", 0.1]]:
            with Receiver(directory, queue=100) as receiver: # few enough for five seconds
                process = start(*options, "--connect", receiver.bind().endpoint)
                received = [receiver.take()]
                process.send_signal(number)
                received += receiver.take_all(process)
                status, err = finish(process)
                assert status == OK, (number, options, err)
                assert f"sent {len(received)} example" in err, (len(received), err)


def test_signal_while_blocked(directory):
    """The daemon does not read: the second signal ends the wait for delivery."""
    with Receiver(directory, queue=1) as receiver:
        process = start("synth", "sine", "--steps", 4096, "--connect", receiver.bind().endpoint)
        receiver.take()
        wait_until_it_sleeps(process)
        process.send_signal(signal.SIGINT)
        try:
            process.wait(0.3)
        except subprocess.TimeoutExpired:
            pass
        process.send_signal(signal.SIGINT)
        status, err = finish(process)
        assert status == UNAVAILABLE and "delivered" in err, (status, err)


def test_visitors_that_are_not_daemons(directory):
    """At a bound socket, visitors that are not receivers do not matter: after a signal it still
    waits until the receiver has everything."""
    count, line = 60, b'{"x": [%s]}\n' % b",".join([b"0"] * 10000)
    with Receiver(directory, queue=1) as receiver:
        receiver.socket.connect(receiver.endpoint)
        process = start("json", "--bind", receiver.endpoint, stdin=subprocess.PIPE)
        for _ in range(count): # more than connection and receiver hold
            process.stdin.write(line)
        received = [receiver.take()]
        with socket.socket(socket.AF_UNIX) as guest:
            guest.connect(receiver.endpoint.removeprefix("ipc://"))
        with receiver.context.socket(zmq.SUB) as guest, \
                guest.get_monitor_socket(zmq.EVENT_DISCONNECTED) as monitor:
            guest.connect(receiver.endpoint)
            assert monitor.poll(1000 * LIMIT) # disconnected
        process.send_signal(signal.SIGTERM)
        received += receiver.take_all(process)
        status, err = finish(process)
        assert status == OK and f"sent {len(received)} examples" in err, (status, err)


def test_guest_that_leaves_at_the_end(directory):
    """A visitor without a handshake that leaves while a bound feeder waits for its receiver gets
    nothing."""
    line = b'{"x": [%s]}\n' % b",".join([b"0"] * 10000)
    with Receiver(directory, queue=1) as receiver, socket.socket(socket.AF_UNIX) as guest:
        receiver.socket.connect(receiver.endpoint)
        process = start("json", "--bind", receiver.endpoint, stdin=subprocess.PIPE)
        for _ in range(60): # more than connection and receiver hold
            process.stdin.write(line)
        received = [receiver.take()]
        guest.connect(receiver.endpoint.removeprefix("ipc://"))
        assert guest.recv(1) # libzmq's greeting: the feeder has accepted it
        process.send_signal(signal.SIGTERM)
        wait_until_it_keeps_connections(process)
        guest.close() # most of the greeting is unread: a reset
        received += receiver.take_all(process)
        status, err = finish(process)
        assert status == OK and f"sent {len(received)} examples" in err, (status, err)
        assert "may be lost" not in err, err


def test_receiver_goes(directory):
    """The daemon has ended: after a signal it does not wait for it."""
    receiver = Receiver(directory).bind()
    process = start("host", "--rate", 100, "--connect", receiver.endpoint)
    receiver.take()
    receiver.__exit__()
    line_with(process, "the daemon closed the connection; examples")
    process.send_signal(signal.SIGTERM)
    status, err = finish(process)
    assert status == UNAVAILABLE and "newest examples was lost" in err, (status, err)


def test_receiver_comes_back(directory):
    """Examples on their way to a daemon that has ended may be lost: it reports this and continues."""
    for options, expected in [([], "per second"), (["--quiet"], "the daemon closed the connection once")]:
        first = Receiver(directory).bind()
        process = start("csv", numbers(directory, 60000), "--connect", first.endpoint, *options)
        first.take()
        first.__exit__()
        output = line_with(process, "the connection; examples in transit")
        assert first.endpoint in output
        with Receiver(directory) as second:
            second.bind()
            while decode(second.take()).x[0] != 59999:
                pass
            status, err = finish(process)
        assert status == 74 and expected in err and ("--quiet" not in options or "per second" not in err), (
            status, err)
        assert "the daemon closed the connection once; examples in transit may be lost" in err

def on_terminal(*arguments):
    """Starts it with a terminal as stderr; returns the process and the other side of the terminal."""
    ours, theirs = pty.openpty()
    process = start(*arguments, stderr=theirs)
    os.close(theirs)
    return process, ours


def read_until(terminal, text, seen=b""):
    while text not in seen:
        assert select.select([terminal], [], [], LIMIT)[0], (text, seen)
        try:
            newest = os.read(terminal, 4096)
        except OSError: # the other side is closed
            newest = b""
        assert newest, (text, seen)
        seen += newest
    return seen


def test_progress_on_a_terminal(directory):
    with Receiver(directory) as receiver:
        process, terminal = on_terminal("csv", numbers(directory, 10000), "--rate", 50, "--connect",
                                        receiver.endpoint)
        read_until(terminal, b"waiting for " + receiver.endpoint.encode())
        receiver.bind()
        seen = read_until(terminal, b"ETA")
        assert b"examples" in seen and b"/s" in seen and b"%" in seen and b"\r" in seen
        process.send_signal(signal.SIGINT) # it would run for minutes
        seen = read_until(terminal, b"per second", read_until(terminal, b"sent ", seen))
        assert process.wait(LIMIT) == OK
        process.communicate()
        os.close(terminal)


def test_silence_elsewhere(directory):
    """Without a terminal it prints only the summary; with --quiet nothing."""
    fed = feed("csv", numbers(directory, 30), "--rate", 50)
    # It reports the wait after a second.
    output = [line for line in fed.err.splitlines() if "waiting for" not in line]
    assert len(output) == 1 and output[0].startswith("runnel-feed: sent 30 examples in "), fed.err
    fed = feed("csv", numbers(directory, 30), "--quiet")
    assert fed.status == OK and fed.err == "" and len(fed.examples) == 30


def test_pace(directory):
    """Deadlines are absolute: n examples take at least n - 1 periods."""
    before = time.monotonic()
    assert len(good("csv", numbers(directory, 21), "--rate", 100)) == 21
    assert time.monotonic() - before >= 0.19


def test_exit_codes(directory):
    table = numbers(directory, 3)
    taken = f"ipc://{directory}/missing/place"
    for status, arguments in [
            (USAGE, []), (USAGE, ["nonsense"]), (USAGE, ["--rate", 3, "host"]), (USAGE, ["text"]),
            (USAGE, ["text", table, table]), (USAGE, ["host", "x"]), (USAGE, ["csv", table, "--bogus"]),
            (USAGE, ["csv", table, "--rate"]), (USAGE, ["csv", table, "--rate", "fast"]),
            (USAGE, ["csv", table, "--rate", -1]), (USAGE, ["csv", table, "--count", 0]),
            (USAGE, ["csv", table, "--steps", 4097]), (USAGE, ["host", "--rate", 0]),
            (USAGE, ["host", "--steps", 2]), (USAGE, ["host", "--repeat", 2]),
            (USAGE, ["csv", table, "--connect", "nowhere"]),
            (USAGE, ["csv", table, "--stream", "k" * 256]),
            (USAGE, ["csv", table, "--epoch", 2**32]), (USAGE, ["csv", table, "--delimiter", "ab"]),
            (NO_INPUT, ["csv", directory / "none"]), (UNAVAILABLE, ["csv", table, "--bind", taken])]:
        fed = run(*arguments)
        assert (fed.status, fed.out) == (status, ""), (arguments, fed)
        assert fed.err.startswith("runnel-feed: "), (arguments, fed)
        assert status != USAGE or "--help" in fed.err
    fed = run("csv", table, "--stream", "\udcff") # the byte FF
    assert fed.status == USAGE and "UTF-8" in fed.err


def test_output_that_fails(directory):
    with open("/dev/full", "wb") as full:
        process = start("csv", numbers(directory, 3), "--print", stdout=full)
        status, err = finish(process)
    assert status == 74 and "standard output" in err


def test_help_and_version(directory):
    fed = run("--help")
    assert fed.status == OK and fed.err == "" and "tcp://127.0.0.1:5570" in fed.out
    for name in ["text", "csv", "idx", "host", "synth", "json"]:
        assert f"  {name} " in fed.out
        own = run(name, "--help")
        assert own.status == OK and "--connect" in own.out and own.out.startswith(f"Usage: runnel-feed {name} ")
    assert run("--version").out.startswith("runnel-feed ")
    assert run("host", "--version").out.startswith("runnel-feed ")


def test_feeders_do_not_include_the_daemon(directory):
    """Feeders include only their own headers, the client library's, the common ones, and what
    sources and runnel-relay share for brokers; runnel-replay also includes the journal's format."""
    top = pathlib.Path(os.environ.get("srcdir", "."))
    sources = [p for p in (top / "streams").rglob("*.[ch]")]
    assert len(sources) > 6
    for path in sources:
        for line in path.read_text(encoding="utf-8").splitlines():
            name = line.split('"')[1] if line.startswith('#include "') else "common/wire.h"
            shared = name.startswith(("common/", "cluster/brokers/")) and (top / "src" / name).exists()
            journal = name == "store/journal_block.h" and path.name == "replay.c"
            own = (path.parent / name).exists() or name.startswith("streams/") and (top / name).exists()
            client = name == "runnel.h"
            configured = name == "build-config.h"
            assert shared or client or journal or configured or own, (path, line)


cases.run(globals())
