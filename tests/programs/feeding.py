"""Common functions of runnel-feed's tests: run it, receive what it sends, and decode it."""
import collections
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import zmq
    from zmq.utils.monitor import recv_monitor_message
except ImportError:
    print("needs python3-zmq and python3-numpy")
    sys.exit(77)

PROGRAM = str(pathlib.Path(os.environ.get("builddir", "."), "runnel-feed"))
OK, USAGE, BAD_DATA, NO_INPUT, UNAVAILABLE = 0, 64, 65, 66, 69
LIMIT = 60  # seconds: only ends a test that hangs
END, DO_NOT_LEARN = 1, 2
NO_CLASS = 0xFFFFFFFF

Header = collections.namedtuple("Header", "version flags zero epoch sequence time")
Example = collections.namedtuple("Example", "key x y header frames")
Fed = collections.namedtuple("Fed", "status out err examples")


def decode(frames, x_type="<f4", y_type="<f4"):
    """Decodes a binary message of docs/reference/protocol.md; y and header are None if absent."""
    header = None
    if len(frames) > 3:
        header = Header(*struct.unpack("<BBHIQd", frames[3][:24]))
        assert header.version == (1 if len(frames[3]) == 24 else 2) and header.zero == 0
        assert header.version == 1 or (len(frames[3]) == 32 and any(frames[3][24:]))
    y = np.frombuffer(frames[2], y_type) if len(frames) > 2 and frames[2] else None
    return Example(frames[0].decode(), np.frombuffer(frames[1], x_type), y, header, frames)


class Receiver:
    """A PULL socket with its own endpoint."""

    def __init__(self, directory, name="examples", queue=1000):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.PULL)
        self.socket.linger = 0
        self.socket.rcvhwm = queue
        self.endpoint = f"ipc://{directory}/{name}"
        self.monitor = self.socket.get_monitor_socket(
            zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED | zmq.EVENT_DISCONNECTED)
        self.connections = 0

    def bind(self):
        self.socket.bind(self.endpoint)
        return self

    def take(self, milliseconds=1000 * LIMIT):
        """The next message's frames, or None after the time limit."""
        return self.socket.recv_multipart() if self.socket.poll(milliseconds) else None

    def connected(self):
        while self.monitor.poll(0):
            event = recv_monitor_message(self.monitor)["event"]
            self.connections += -1 if event == zmq.EVENT_DISCONNECTED else 1
        return self.connections > 0

    def take_all(self, process):
        """The frames of all messages until the process, the only sender, has ended: its connections
        close after their last message, even if it is read late."""
        frames, end, ended = [], time.monotonic() + LIMIT, False
        while not ended or self.connected():
            ended = process.poll() is not None
            if newest := self.take(20):
                frames.append(newest)
                end = time.monotonic() + LIMIT
            assert time.monotonic() < end, "the process has not ended"
        while newest := self.take(200):
            frames.append(newest)
        return frames

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.disable_monitor()
        self.context.destroy(0)


def start(*arguments, **options):
    """Unbuffered pipes, so that communicate gets the rest after readline."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0, **options}
    return subprocess.Popen([PROGRAM, *map(str, arguments)], **options)


def run(*arguments, stdin=b""):
    """Runs it without a receiver: for errors and --print."""
    done = subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, capture_output=True,
                          timeout=LIMIT, check=False)
    return Fed(done.returncode, done.stdout.decode(), done.stderr.decode(), [])


def feed(*arguments, stdin=b"", x_type="<f4", y_type="<f4"):
    """Runs it to its end with a receiver, and returns everything it sent in order."""
    with tempfile.TemporaryDirectory() as directory, Receiver(directory) as receiver:
        receiver.bind()
        process = start(*arguments, "--connect", receiver.endpoint,
                        stdin=subprocess.PIPE if stdin else None)
        if stdin: # fits into a pipe
            process.stdin.write(stdin)
            process.stdin.close()
            process.stdin = None
        frames = receiver.take_all(process)
        out, err = process.communicate()
        return Fed(process.returncode, out.decode(), err.decode(),
                   [f if len(f) == 1 else decode(f, x_type, y_type) for f in frames])


def good(*arguments, **options):
    """The examples of a run that must succeed."""
    fed = feed(*arguments, **options)
    assert fed.status == OK, (arguments, fed.status, fed.err)
    return fed.examples


def ends(examples):
    """Indices of the examples that end their sequence."""
    return [i for i, e in enumerate(examples) if e.header and e.header.flags & END]
