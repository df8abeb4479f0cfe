"""A cluster of Kafka for tests: librdkafka's mock in a process of its own (tests/support/mock_kafka.c),
which keeps its messages in memory. It ends with the test, whatever becomes of it."""
import os
import pathlib
import subprocess

from brokers import die_with_parent

PROGRAM = str(pathlib.Path(os.environ.get("builddir", "."), "tests/support/mock_kafka").resolve())
# The mock lets the first member of a group wait for 3 seconds, and others for so long, less a second.
QUICK = ("--setting", "session.timeout.ms=3400", "--setting", "heartbeat.interval.ms=500")


class Kafka:
    def __init__(self):
        self.process = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, bufsize=1, errors="replace",
                                        preexec_fn=die_with_parent)
        self.servers = self.process.stdout.readline().strip()
        assert self.servers

    def ask(self, line):
        """What it prints before its "ok"."""
        self.process.stdin.write(line + "\n")
        lines = []
        while (line := self.process.stdout.readline().rstrip("\n")) != "ok":
            assert line and line not in ("failed", "unknown"), (line, lines)
            lines.append(line)
        return lines

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
