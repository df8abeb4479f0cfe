#!/usr/bin/python3
"""What runnel-top costs, and how soon it shows what it hears; run by hand, no test:

    builddir=build/plain /usr/bin/python3 tools/figures/measure_top.py [SECONDS]

A daemon that is played here has published 5000 times and goes on to publish `loss` and `state` of three layers ten times a second. The
share of a core is the process's own time (user and system) over SECONDS (30); the delay is from
before a message is sent until its number has come out of the terminal."""
import fcntl
import os
import pathlib
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time

from publishing import LOSS, LSTM, STATUS, Publisher

PROGRAM = pathlib.Path(os.environ.get("builddir", "."), "runnel-top").resolve()
EVERY = 0.1  # seconds between two messages
HISTORY = 5000  # messages before the measurement


def start(daemon, columns, rows):
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    process = subprocess.Popen([PROGRAM, "-c", daemon.endpoint], stdin=slave, stdout=slave,
                               env=dict(os.environ, TERM="xterm-256color", LC_ALL="C.UTF-8"),
                               start_new_session=True)
    os.close(slave)
    return master, process


def shown_after(master, marker, limit=5):
    """Seconds until the marker has come out of the terminal."""
    begin, seen = time.monotonic(), b""
    while time.monotonic() - begin < limit:
        if select.select([master], [], [], 0.1)[0]:
            seen += os.read(master, 1 << 16)
            if marker in seen:
                return time.monotonic() - begin
    raise AssertionError(f"{marker} was not shown within {limit} s")


def used(process):
    """Seconds of user and system time."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(directory, columns, rows, seconds):
    with Publisher(directory) as daemon:
        master, process = start(daemon, columns, rows)
        try:
            daemon.wait_for("status", "loss", "state", "event")
            daemon.send("status", STATUS)
            for i in range(HISTORY):  # so that there is much to draw
                daemon.send("loss", dict(LOSS, smoothed=1 + 1 / (1 + i), streams=222222),
                            examples=100)
            shown_after(master, b"222,222")
            time.sleep(2)
            delays, number, begin = [], 0, None
            while begin is None or time.monotonic() - begin < seconds:
                number += 1
                if number == 20:  # it has settled
                    begin, before = time.monotonic(), used(process)
                # rows differ in every digit, so that curses sends the number whole
                digit = "3456789"[number % 7]
                marker = f"1{digit * 5}"[:6]
                daemon.send("loss", dict(LOSS, mean=float(f"0.{digit * 4}"), smoothed=1 / number,
                                         maximum=2 + number % 3, streams=int(marker)), examples=100)
                daemon.send("state", {"layers": [LSTM, LSTM, LSTM]})
                next_at = time.monotonic() + EVERY
                grouped = f"{digit * 3},{digit * 3}"
                delays.append(shown_after(master, grouped[-3:].encode()))
                while (left := next_at - time.monotonic()) > 0:
                    if select.select([master], [], [], left)[0]:
                        os.read(master, 1 << 16)
            share = (used(process) - before) / (time.monotonic() - begin)
        finally:
            process.kill()
            process.wait()
            os.close(master)
    delays = sorted(delays[20:])
    print(f"{columns}x{rows}: {100 * share:.2f}% of a core at {1 / EVERY:.0f} messages a second; "
          f"on the screen after {1e3 * statistics.median(delays):.0f} ms (median), "
          f"{1e3 * delays[int(0.99 * len(delays))]:.0f} ms (99%), {1e3 * delays[-1]:.0f} ms (longest)"
          f" of {len(delays)}")


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30
    for columns, rows in (80, 24), (200, 60):
        with tempfile.TemporaryDirectory() as directory:
            measure(directory, columns, rows, seconds)


main()
