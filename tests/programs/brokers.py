"""Message brokers for tests. Each is a real server of the test, with its own files, on a socket in
its directory or on a loopback port that the system chose. It always ends with the test."""
import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import time

import cases
import running

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def die_with_parent():
    """Called between fork and exec: the server ends when this process does."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def program(name):
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    return found or cases.skip(f"needs {name}")


def supports(name):
    """Whether the programs support this broker."""
    return f"#define RUNNEL_{name.upper()} 1" in running.BUILD_CONFIG.read_text(encoding="utf-8")


def need(name):
    """Skips the case unless the programs support this broker."""
    if not supports(name):
        cases.skip(f"this build does not support {name}")


def until(condition, process=None):
    """Waits until the condition is true, and returns its value."""
    end = time.monotonic() + running.LIMIT
    while not (value := condition()):
        assert time.monotonic() < end, "timed out"
        assert process is None or process.poll() is None, f"exit {process.returncode}"
        time.sleep(0.01)
    return value


def hold_port():
    """Binds a socket to a loopback port and never listens, so that the port stays the test's while
    its server is stopped."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


class Server:
    """The process of a broker, with its log and socket in the directory. With a port it listens
    there on the loopback, too."""
    socket_name = None

    def __init__(self, directory, *words, port=False):
        # words of its command or of its configuration
        self.directory, self.words = pathlib.Path(directory), words
        self.process = None
        self.holder = hold_port() if port else None
        self.port = self.holder.getsockname()[1] if port else 0
        self.start()

    @property
    def path(self):
        return str(self.directory / self.socket_name)

    @property
    def url(self):
        return f"unix://{self.path}"

    def command(self):
        raise NotImplementedError

    def answers(self):
        raise NotImplementedError

    def start(self):
        with open(self.directory / "broker.log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL, cwd=self.directory,
                                            preexec_fn=die_with_parent)
        until(self.answers, self.process)

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(running.LIMIT)

    def kill(self):
        self.end(signal.SIGKILL)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.kill()
        if self.holder:
            self.holder.close()
        if kind:
            print((self.directory / "broker.log").read_text(errors="replace")[-4000:])


class Redis(Server):
    """redis-server, which syncs each write to disk before it answers."""
    socket_name = "redis.socket"

    def command(self):
        return [program("redis-server"), "--port", str(self.port), "--bind", "127.0.0.1",
                "--unixsocket", self.path, "--dir", str(self.directory), "--appendonly", "yes",
                "--appendfsync", "always", "--save", "", *self.words]

    def answers(self):
        try:
            return self.ask("PING") in ("PONG", None)
        except OSError:
            return False
        except RuntimeError as why:
            return "NOAUTH" in str(why)

    def ask(self, *words):
        return self.pipeline([words])[0]

    def pipeline(self, commands):
        """Sends all commands at once, and returns the replies."""
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(running.LIMIT)
            link.connect(self.path)
            file = link.makefile("rwb")
            for words in commands:
                file.write(b"*%d\r\n" % len(words))
                for word in words:
                    word = word if isinstance(word, bytes) else str(word).encode()
                    file.write(b"$%d\r\n%s\r\n" % (len(word), word))
            file.flush()
            return [self.reply(file) for _ in commands]

    def reply(self, file):
        line = file.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("no answer")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise RuntimeError(rest.decode())
        if kind == b"+":
            return rest.decode()
        count = int(rest)
        if kind == b":":
            return count
        if count < 0:
            return None
        if kind == b"$":
            return file.read(count + 2)[:-2].decode(errors="replace")
        return [self.reply(file) for _ in range(count)]

    def waiting(self, stream, group="runnel"):
        """The number of entries that were delivered and not acknowledged."""
        return self.ask("XPENDING", stream, group)[0]


class Mosquitto(Server):
    """mosquitto on a socket in the directory (and a port). It saves its data when it ends by
    itself, and in save(). It has no log of changes, so a kill may lose newer data."""
    socket_name = "mqtt.socket"

    def command(self):
        port = f"listener {self.port} 127.0.0.1\n" if self.port else ""
        config = self.directory / "mosquitto.conf"
        config.write_text(
            f"user root\nlistener 0 {self.path}\n{port}persistence true\n"
            f"persistence_location {self.directory}/\nallow_anonymous true\n"
            "max_queued_messages 0\n" + "".join(f"{line}\n" for line in self.words))
        pathlib.Path(self.path).unlink(missing_ok=True)
        return [program("mosquitto"), "-c", str(config)]

    def answers(self):
        with socket.socket(socket.AF_UNIX) as link:
            try:
                link.connect(self.path)
            except OSError:
                return False
        return True

    def publish(self, topic, payloads, *words):
        """With QoS 1: the broker has all messages when this returns."""
        if payloads:
            subprocess.run([program("mosquitto_pub"), "--unix", self.path, "-q", "1", "-t", topic,
                            "-l", *words], input="".join(f"{p}\n" for p in payloads).encode(),
                           check=True, timeout=running.LIMIT)


# --- messages ---

CONFIG = """
name: brokers
device: cpu
model:
  input: {{kind: real, size: 2}}
  layers: [{{cell: dense, size: 2, activation: tanh}}]
  output: {{loss: squared, size: 2, target: next}}
examples: {{bind: "ipc://{d}/examples", socket: {kind}}}
statistics: {{bind: "ipc://{d}/statistics"}}
control: {{bind: "ipc://{d}/control"}}
state: {{directory: {d}/state, journal: {{keep: all}}}}
"""


def later(directory):
    """A daemon with `target: later`, whose targets are labels."""
    config = CONFIG.format(d=directory, kind="router")
    return running.Daemon(directory, config.replace("target: next", "target: later"))


def daemon(directory, kind="router", more=""):
    return running.Daemon(directory, CONFIG.format(d=directory, kind=kind) + more)


def with_names(config):
    """Adds names of columns, for JSON_WORDS."""
    return config.replace("kind: real, size: 2}\n  layers", "columns: [{name: t}, {name: load}]}\n  layers")


def named(directory):
    return running.Daemon(directory, with_names(CONFIG.format(d=directory, kind="router")))


# Messages of a device, the options that turn them into examples, and the learned examples.
JSON_WORDS = ("--field", "t=data.temperature", "--field", "load=load", "--key-field", "sensor",
              "--time-field", "ts")
JSON_MESSAGES = (
    '{"sensor":"a","ts":1700000000123,"data":{"temperature":21.5,"unit":"C"},"load":0.5,"site":"x"}',
    '{"sensor":7,"ts":"2023-11-14T22:13:21Z","load":2,"data":{"temperature":-3}}',
    '{"ts":1700000002,"load":2,"data":{"temperature":-3}}')
JSON_LEARNED = [("a", (21.5, 0.5), 1700000000.123), ("7", (-3, 2), 1700000001)]


JSON_PROBE = '{"sensor":"probe","ts":1,"load":1,"data":{"temperature":1}}'


def rows(directory, query):
    """The result of a query of the daemon's journal."""
    with contextlib.closing(sqlite3.connect(f"file:{directory}/state/journal.sqlite?mode=ro", uri=True)) as file:
        return file.execute(query).fetchall()


def check_learned(directory, process, feed=None):
    """Waits until the first two messages are learned with their times."""
    def learned():
        found = rows(directory, "SELECT stream, x, stamp FROM entries WHERE kind = 1 AND stream != X'70726F6265' "
                     "ORDER BY position")  # the stream `probe`
        return [(stream.decode(), struct.unpack("<2f", x), round(time, 3)) for stream, x, time in found]

    running.wait_learned(process, len(JSON_LEARNED))
    until(lambda: len(learned()) == len(JSON_LEARNED), feed)
    assert learned() == JSON_LEARNED, learned()


def check_json(directory, feed, process):
    """The third message has no sensor: it is skipped and counted."""
    check_learned(directory, process, feed)
    output = await_text(feed, "is not an example")
    status, err = finish(feed)
    output += err
    assert status == 0 and "field 'sensor': stream name not found" in output, (status, output)
    assert output.count("ignored field") == 1 and ": data.unit, site (--field" in output, output


def finish(process, number=signal.SIGTERM):
    process.send_signal(number)
    _, err = process.communicate(timeout=running.LIMIT)
    return process.returncode, err.decode()


def await_text(process, *texts):
    """Reads the output until it contains all of the texts, in any order, and returns it."""
    output = ""
    while not all(text in output for text in texts):
        line = process.stderr.readline().decode()
        assert line, output
        output += line
    return output


def journal(directory):
    """The examples of the journal in order: (stream, x)."""
    found = rows(directory, "SELECT stream, x FROM entries WHERE kind = 1 ORDER BY position")
    return [(stream.decode(), struct.unpack(f"<{len(x) // 4}f", x)) for stream, x in found]
