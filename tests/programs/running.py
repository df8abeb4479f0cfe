"""Common functions for tests of a running daemon: start it, send requests, and end it."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

try:
    import zmq
except ImportError:
    print("needs python3-zmq")
    sys.exit(77)

PROGRAM = pathlib.Path(os.environ.get("builddir", "."), "runneld").resolve()
BUILD_CONFIG = PROGRAM.with_name("build-config.h")  # set later by tools/figures
SANITIZERS = (BUILD_CONFIG.exists() and
              "#define RUNNEL_SANITIZERS" in BUILD_CONFIG.read_text(encoding="utf-8"))
LIMIT = 60  # seconds: only ends a test that hangs
LAST_MS = 5000  # milliseconds, for messages that a daemon sent before its end


class Daemon:
    """runneld in a directory with a configuration. Its sockets are the ipc endpoints `examples`,
    `statistics` and `control` in the directory. As a context manager it ends with the test, and
    prints its log if the test fails."""
    program = PROGRAM
    environment = None  # that of this process
    # otherwise the number of `loss` messages would depend on the speed of the machine
    statistics_by_time = False

    def __init__(self, directory, config, *arguments):
        self.directory = pathlib.Path(directory)
        self.path = self.directory / "config.yaml"
        self.path.write_text(config, encoding="utf-8")
        self.arguments = arguments if self.statistics_by_time else (
            "--set", "statistics.seconds=0", *arguments)
        self.context = zmq.Context()
        self.context.linger = 0
        self.start()

    def start(self):
        self.log = open(self.directory / "log", "w", encoding="utf-8")
        self.process = subprocess.Popen([self.program, "--config", self.path, *self.arguments],
                                        stderr=self.log, env=self.environment)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if kind:
            print(self.text()[-4000:])
        self.log.close()
        self.context.destroy(0)

    def text(self):
        """The log so far. It is opened again because the daemon shares the offset of our
        descriptor."""
        return (self.directory / "log").read_text(encoding="utf-8")

    def alive(self):
        assert self.process.poll() is None, f"exit {self.process.returncode}: {self.text()}"

    def until(self, reached, act=lambda: None):
        """Calls `act` until the condition is true."""
        ended = time.monotonic() + LIMIT
        while not reached():
            self.alive()
            assert time.monotonic() < ended
            act()
            time.sleep(0.002)

    def endpoint(self, name):
        return f"ipc://{self.directory}/{name}"

    def socket(self, kind, name):
        socket = self.context.socket(kind)
        socket.connect(self.endpoint(name))
        return socket

    def next_message(self, socket):
        end = time.monotonic() + LIMIT
        while not socket.poll(200):
            if self.process.poll() is not None and socket.poll(LAST_MS):
                break
            self.alive()
            assert time.monotonic() < end, f"no message in {LIMIT} s"
        return socket.recv_multipart()

    def frames(self, *request):
        """The reply to a request: the first frame as JSON, and the others."""
        with self.socket(zmq.REQ, "control") as socket:
            socket.send_multipart(request)
            reply, *blobs = self.next_message(socket)
        return [json.loads(reply)] + blobs

    def request(self, command, **members):
        return self.frames(json.dumps({"command": command, **members}).encode())

    def ask(self, command, **members):
        """The reply to a command that must succeed."""
        reply = self.request(command, **members)[0]
        assert reply["ok"], reply
        return reply

    def export(self):
        """The parameters as a safetensors file."""
        reply, blob = self.request("export")
        assert reply["ok"], reply
        return blob

    def end(self, number=signal.SIGTERM):
        """Sends a signal, and returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(LIMIT)


def wait_learned(daemon, count):
    """The status of a daemon that has learned `count` examples; waits as long as it makes
    progress."""
    end, known = time.monotonic() + LIMIT, 0
    while (status := daemon.ask("status"))["examples"] < count:
        daemon.alive()
        if status["examples"] > known:
            end, known = time.monotonic() + LIMIT, status["examples"]
        assert time.monotonic() < end, status
        time.sleep(0.01)
    return status


def kill_and_start(daemon, learned):
    """Kills a daemon that has received `learned` examples, and starts it again."""
    daemon.ask("set", key="learning.clip", value=1)  # answered when on disk
    daemon.process.send_signal(signal.SIGKILL)
    daemon.process.wait()
    daemon.start()
    wait_learned(daemon, learned)


def subscribe(daemon, topics=(b"prediction",)):
    """A connected subscriber of the topics and of `status`."""
    subscriber = daemon.socket(zmq.SUB, "statistics")
    subscriber.setsockopt(zmq.RCVHWM, 0)
    for topic in (*topics, b"status"):
        subscriber.setsockopt(zmq.SUBSCRIBE, topic)
    # sent to each new subscriber after its subscriptions
    while daemon.next_message(subscriber)[0] != b"status":
        continue
    return subscriber


def messages(daemon, subscriber, topic, count):
    """The next `count` messages of the topic; skips `status`."""
    found = []
    while len(found) < count:
        its_topic, body = daemon.next_message(subscriber)
        if its_topic == topic:
            found.append(json.loads(body))
    return found


def predictions(daemon, subscriber, count):
    """The next `count` predictions."""
    return messages(daemon, subscriber, b"prediction", count)
