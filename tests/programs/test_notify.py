#!/usr/bin/python3
"""Notifications of runneld for a service manager, and its lines in the journal. This test plays
systemd, with its own $NOTIFY_SOCKET and $JOURNAL_STREAM."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

try:
    import zmq
except ImportError:
    print("needs python3-zmq")
    sys.exit(77)

from running import LIMIT, PROGRAM

CONFIG = """
name: told
device: cpu
model:
  input: {{kind: real, size: 1}}
  layers: [{{cell: gru, size: 4}}]
  output: {{loss: squared, size: 1, target: next}}
examples: {{bind: "ipc://{0}/examples"}}
statistics: {{bind: "ipc://{0}/statistics"}}
control: {{bind: "ipc://{0}/control"}}
state: {{directory: "{0}/state"}}
"""


def built_with_systemd():
    header = pathlib.Path(os.environ.get("builddir", "."), "build-config.h").read_text()
    return re.search(r"^#define RUNNEL_SYSTEMD 1$", header, re.MULTILINE) is not None


class Manager:
    """The other end of $NOTIFY_SOCKET."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(f"{directory}/notify")
        self.socket.settimeout(LIMIT)
        (self.directory / "told.yaml").write_text(CONFIG.format(directory))

    def start(self, *arguments, **environment):
        return subprocess.Popen([PROGRAM, "--config", self.directory / "told.yaml", *arguments],
                                env={**os.environ, "NOTIFY_SOCKET": f"{self.directory}/notify",
                                     **environment}, stderr=subprocess.PIPE, text=True)

    def until(self, wanted):
        """All messages up to the first that matches, including it."""
        messages, end = [], time.monotonic() + LIMIT
        while not (messages and re.match(wanted, messages[-1])):
            assert time.monotonic() < end, f"no {wanted} in {messages}"
            messages.append(self.socket.recv(4096).decode())
        return messages

    def rest(self):
        """The remaining messages of a process that has ended."""
        self.socket.setblocking(False)
        messages = []
        try:
            while True:
                messages.append(self.socket.recv(4096).decode())
        except BlockingIOError:
            self.socket.settimeout(LIMIT)
            return messages


def end(process):
    if process.poll() is None:
        process.kill()
    process.communicate()


def is_ready_when_its_sockets_are_there(manager):
    process = manager.start()
    try:
        notified = manager.until("READY=1")
        assert "STATUS=learning: 0 examples" in notified, notified
        for name in ("examples", "statistics", "control"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
                peer.connect(f"{manager.directory}/{name}")
        process.send_signal(signal.SIGTERM)
        notified = manager.until("STATUS=stopped")
        assert "STOPPING=1" in notified and "STATUS=draining: 0 examples" in notified, notified
        assert notified.index("STOPPING=1") < notified.index("STATUS=draining: 0 examples"), notified
        assert process.wait(LIMIT) == 0
    finally:
        end(process)


def asks_for_time_to_look_through_its_journal(manager):
    for journal in False, True:
        process = manager.start()
        try:
            notified = manager.until("READY=1")
            assert any("EXTEND_TIMEOUT_USEC=" in message for message in notified) == journal, notified
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT) == 0
            manager.rest()
        finally:
            end(process)


def a_reload_that_is_refused_shows(manager):
    path = manager.directory / "told.yaml"
    process = manager.start()
    try:
        manager.until("READY=1")
        text = path.read_text()
        path.write_text(text.replace("size: 4", "size: 5"))
        process.send_signal(signal.SIGHUP)
        notified = manager.until(r"STATUS=learning: 0 examples; .*model\.layers")
        assert [t for t in notified if t.startswith("RELOADING=1")] and "READY=1" in notified, notified
        path.write_text(text)
        process.send_signal(signal.SIGHUP)
        manager.until(r"STATUS=learning: 0 examples$")
    finally:
        end(process)


def feeds_no_watchdog_that_is_not_there(manager):
    for environment in ({}, {"WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"}):
        process = manager.start(**environment)
        try:
            manager.until("READY=1")
            time.sleep(0.3)
            process.terminate()
            process.wait(LIMIT)
            assert not [notified for notified in manager.rest() if "WATCHDOG" in notified]
        finally:
            end(process)


def feeds_the_watchdog_while_idle_and_while_it_learns(manager):
    process = manager.start(WATCHDOG_USEC="400000")
    context = zmq.Context()
    try:
        manager.until("READY=1")
        for _ in range(3):
            manager.until("WATCHDOG=1")
        push = context.socket(zmq.PUSH)
        push.linger = 0
        push.connect(f"ipc://{manager.directory}/examples")
        for _ in range(20):
            push.send_multipart([b"a", b"\0" * 4])
        for _ in range(3):
            manager.until("WATCHDOG=1")
    finally:
        context.destroy(0)
        end(process)


def a_hung_daemon_feeds_nothing(manager):
    process = manager.start(WATCHDOG_USEC="200000")
    try:
        manager.until("WATCHDOG=1")
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        manager.rest()
        manager.socket.settimeout(1)
        try:
            notified = manager.socket.recv(4096)
            raise AssertionError(f"stopped, but sent {notified}")
        except socket.timeout:
            manager.socket.settimeout(LIMIT)
        process.send_signal(signal.SIGCONT)
        manager.until("WATCHDOG=1")
    finally:
        end(process)


def reports_why_it_could_not_continue(manager):
    blocker = manager.start()
    try:
        manager.until("READY=1")
        process = manager.start()  # another daemon uses the state directory
        error = process.communicate(timeout=LIMIT)[1]
        assert process.returncode == 69 and "runneld: error: " in error, error
        assert "READY=1" not in manager.rest()
    finally:
        end(blocker)


def a_manager_that_is_gone_stops_nothing(manager):
    process = manager.start(NOTIFY_SOCKET=f"{manager.directory}/nobody", WATCHDOG_USEC="100000")
    try:
        for line in process.stderr:
            if "fresh parameters" in line or "resumed" in line:
                break
        time.sleep(0.2)
        process.terminate()
        assert process.wait(LIMIT) == 0
    finally:
        end(process)


def journal_stream(descriptor):
    status = os.fstat(descriptor)
    return f"{status.st_dev}:{status.st_ino}"


def lines_have_priorities_in_the_journal_alone(manager):
    def complaint(stream, *arguments):
        read, write = os.pipe()
        environment = {**os.environ, "JOURNAL_STREAM": stream or journal_stream(write)}
        subprocess.run([PROGRAM, "--config", *arguments], stderr=write, env=environment,
                       timeout=LIMIT, check=False)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as lines:
            return lines.read()

    missing = f"{manager.directory}/no\n<0>such.yaml"
    assert re.fullmatch(r"<3>error: .*\n", complaint(None, missing)), complaint(None, missing)
    for elsewhere in ("1:1", "nonsense", ":"):
        text = complaint(elsewhere, missing)
        assert re.fullmatch(r"runneld: error: .*\n", text), text

    read, write = os.pipe()
    process = subprocess.Popen([PROGRAM, "--config", manager.directory / "told.yaml"], stderr=write,
                               env={**os.environ, "JOURNAL_STREAM": journal_stream(write)})
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as lines:
        first = lines.readline()
        process.terminate()
        everything = [first, *lines]
    assert process.wait(LIMIT) == 0
    assert all(re.match(r"<6>(?!runneld)", line) for line in everything), everything


def main():
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also under nohup, for the daemons
    tests = [lines_have_priorities_in_the_journal_alone]
    if built_with_systemd():
        tests += [is_ready_when_its_sockets_are_there,
                  asks_for_time_to_look_through_its_journal, a_reload_that_is_refused_shows, feeds_no_watchdog_that_is_not_there,
                  feeds_the_watchdog_while_idle_and_while_it_learns, a_hung_daemon_feeds_nothing,
                  reports_why_it_could_not_continue, a_manager_that_is_gone_stops_nothing]
    else:
        print("without libsystemd: only the log is tested")
    for test in tests:
        with tempfile.TemporaryDirectory() as directory:
            test(Manager(directory))
        print("ok", test.__name__)


main()
