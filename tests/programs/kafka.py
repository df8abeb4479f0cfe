"""A Kafka cluster for tests: librdkafka's mock in its own process (tests/support/mock_kafka.c),
with messages in memory. It ends with the test, even after a crash."""
import os
import pathlib
import subprocess

from brokers import die_with_parent

PROGRAM = str(pathlib.Path(os.environ.get("builddir", "."), "tests/support/mock_kafka").resolve())
# The mock lets the first member of a group wait for 3 seconds, and others for the session's length
# minus a second.
QUICK = ("--setting", "session.timeout.ms=3400", "--setting", "heartbeat.interval.ms=500")


MURMUR, MASK = 0x5BD1E995, 0xFFFFFFFF


def partition_of(key, count):
    """The rule of Java clients: murmur2 of the key without its sign, modulo the number of
    partitions."""
    data = key.encode()
    value = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at:at + 4], "little") * MURMUR & MASK
        k = (k ^ k >> 24) * MURMUR & MASK
        value = (value * MURMUR & MASK) ^ k
    if data[whole:]:
        value = (value ^ int.from_bytes(data[whole:], "little")) * MURMUR & MASK
    value = (value ^ value >> 13) * MURMUR & MASK
    value ^= value >> 15
    return (value & 0x7FFFFFFF) % count


class Kafka:
    """The mock with a faster clock or, with `servers`, a client of a real cluster, whose topics
    stay."""

    def __init__(self, *servers, speed=1):
        self.process = subprocess.Popen([PROGRAM, *servers], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=os.environ | {"MOCK_KAFKA_SPEED": str(speed)},
                                        stderr=subprocess.DEVNULL, text=True, bufsize=1, errors="replace",
                                        preexec_fn=die_with_parent)
        self.servers = self.process.stdout.readline().strip()
        assert self.servers

    def ask(self, line):
        """Sends a command, and returns the output before "ok"."""
        self.process.stdin.write(line + "\n")
        lines = []
        while (line := self.process.stdout.readline().rstrip("\n")) != "ok":
            assert line and line not in ("failed", "unknown"), (line, lines)
            lines.append(line)
        return lines

    def load(self, topic, messages):
        """Messages (partition, key, value)."""
        lines = "".join(f"{partition} {key} {value}\n" for partition, key, value in messages)
        return self.ask(f"load {topic}\n{lines}.")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
