#!/usr/bin/python3
"""What subscribers that read nothing cost a daemon at full speed; run by hand, no test:

    builddir=build/plain /usr/bin/python3 tools/figures/measure_subscribers.py [ROUNDS]

A daemon learns conf/bench/gru64.yaml from tools/figures/producers, as fast as it takes examples. In each
round (8) it is alone for a while, then has ten subscribers: two each of runnel-watch, runnel-top,
runnel-record, runnel-web and plain SUB sockets, all stopped once they have subscribed. Printed is how
many examples a second it learned with them, as a share of what it learned alone before and after, and
how much processor time an example took, the same way."""
import fcntl
import os
import pathlib
import pty
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time

import yaml
from running import Daemon, zmq

BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
SOURCE = pathlib.Path(__file__).resolve().parents[2]
SETTLE, MEASURE = 1.0, 3.0  # seconds


def configuration(directory):
    config = yaml.safe_load((SOURCE / "conf/bench/gru64.yaml").read_text(encoding="utf-8"))
    for name in ("examples", "statistics", "control"):
        config.setdefault(name, {})["bind"] = f"ipc://{directory}/{name}"
    config.setdefault("state", {})["directory"] = f"{directory}/state"
    return yaml.safe_dump(config)


def programs(directory, endpoint):
    """The commands of the eight programs, and which of them want a terminal."""
    for n in range(2):
        yield ["runnel-watch", "-c", endpoint], False
        yield ["runnel-top", "-c", endpoint], True
        yield ["runnel-record", "-c", endpoint, "-o", f"{directory}/{n}.db"], False
        yield ["runnel-web", "-c", endpoint, "-l", f"127.0.0.1:{5590 + n}", "-H",
               f"{directory}/web{n}.db"], False


def attach(daemon, directory):
    started, terminals = [], []
    for (program, *words), terminal in programs(directory, daemon.endpoint("statistics")):
        output = subprocess.DEVNULL
        if terminal:
            master, output = pty.openpty()
            fcntl.ioctl(output, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))
            terminals += [master, output]
        started.append(subprocess.Popen(
            [BUILD / program, *words], stdin=output, stdout=output, stderr=subprocess.DEVNULL,
            env=dict(os.environ, TERM="xterm-256color")))
    sockets = [daemon.socket(zmq.SUB, "statistics") for _ in range(2)]
    for socket in sockets:
        socket.subscribe("")
    time.sleep(SETTLE)
    for process in started:
        assert process.poll() is None, f"{process.args} has ended: {process.returncode}"
        process.send_signal(signal.SIGSTOP)
    return started, sockets, terminals


def detach(started, sockets, terminals):
    for process in started:
        process.kill()
        process.wait()
    for socket in sockets:
        socket.close()
    for terminal in terminals:
        os.close(terminal)


def used(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
    fields = fields.rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(daemon):
    """Examples a second, and processor seconds an example."""
    def now():
        return time.monotonic(), daemon.ask("status")["examples"], used(daemon.process)
    time.sleep(SETTLE)
    begin = now()
    time.sleep(MEASURE)
    seconds, examples, processor = (b - a for a, b in zip(begin, now()))
    return examples / seconds, processor / examples


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    with tempfile.TemporaryDirectory(prefix="runnel-") as directory, \
            Daemon(directory, configuration(directory)) as daemon:
        daemon.ask("status")
        seconds = rounds * (2 * MEASURE + 4 * SETTLE) + 30
        feeder = subprocess.Popen([BUILD / "tools/figures/producers", "--push", "--producers", "1", "--inputs",
                                   "8", "--targets", "8", "--connect", daemon.endpoint("examples"),
                                   "--seconds", str(seconds)], stdout=subprocess.DEVNULL)
        try:
            alone, speed, cost = measure(daemon), [], []
            for _ in range(rounds):
                attached = attach(daemon, directory)
                together = measure(daemon)
                detach(*attached)
                after = measure(daemon)
                mean = [(a + b) / 2 for a, b in zip(alone, after)]
                speed.append(together[0] / mean[0])
                cost.append(together[1] / mean[1])
                alone = after
        finally:
            feeder.kill()
            feeder.wait()
        for what, ratios in (("examples a second", speed), ("processor time an example", cost)):
            print(f"{what}, with ten subscribers to without: median {statistics.median(ratios):.3f}, "
                  f"{min(ratios):.3f} to {max(ratios):.3f} in {rounds} rounds")
        print(f"alone {alone[0]:.0f} examples a second, {alone[1] * 1e6:.2f} us each")


if __name__ == "__main__":
    main()
