"""Floods of a daemon by clients without a library: they send whatever ZMTP allows and do not read
replies. As a program it runs one flood in its own process, flooding.py FLOOD ENDPOINT SECONDS,
until it is killed or the time is over."""
import contextlib
import itertools
import json
import os
import pathlib
import resource
import select
import socket as sockets
import struct
import subprocess
import sys
import time

MORE, LONG, COMMAND = 1, 2, 4
GREETING = b"\xff" + bytes(8) + b"\x7f" + b"\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
PART = 60000  # bytes
PAUSE = 0.01  # seconds, if nothing can be sent


def frame(data, flags=0):
    if len(data) < 256:
        return struct.pack("BB", flags, len(data)) + data
    return struct.pack(">BQ", flags | LONG, len(data)) + data


def command(name, data=b""):
    return frame(bytes([len(name)]) + name + data, COMMAND)


def ready(kind):
    return command(b"READY", b"\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind)


def connect(endpoint):
    scheme, address = endpoint.split("://")
    if scheme == "ipc":
        stranger = sockets.socket(sockets.AF_UNIX)
        stranger.connect(address)
        return stranger
    host, port = address.rsplit(":", 1)
    return sockets.create_connection((host, int(port)))


def meet(endpoint, kind):
    """A connection after its handshake."""
    stranger = connect(endpoint)
    stranger.sendall(GREETING)
    left = len(GREETING)
    while left:
        received = stranger.recv(left)
        if not received:
            stranger.close()
            raise ConnectionError("it is ended in the handshake")
        left -= len(received)
    stranger.sendall(ready(kind))
    stranger.recv(2)
    return stranger


def send(stranger, blocks):
    """Sends as fast as the other side reads, until it closes the connection."""
    stranger.setblocking(False)
    waiting = select.poll()
    waiting.register(stranger, select.POLLOUT | select.POLLRDHUP)
    for block in blocks:
        while block:
            if waiting.poll()[0][1] & ~select.POLLOUT:
                raise ConnectionError("it is ended")
            block = block[stranger.send(block):]


def again(endpoint, kind, blocks):
    """Sends blocks as fast as they are read, and connects again whenever a connection is closed."""
    while True:
        with contextlib.suppress(OSError), meet(endpoint, kind) as stranger:
            send(stranger, blocks())
        time.sleep(PAUSE)


def subscriptions(endpoint):
    """Endless distinct subscriptions."""
    def blocks():
        for n in itertools.count():
            yield b"".join(frame(b"\x01" + os.urandom(30) + b"%d" % n) for _ in range(500))
    again(endpoint, b"SUB", blocks)


def repeated(endpoint):
    """Endless repetitions of the same subscription."""
    block = frame(b"\x01state") * 5000
    again(endpoint, b"SUB", lambda: itertools.repeat(block))


def idle(endpoint):
    """As many silent connections as possible."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    waiting = select.poll()
    held = {}
    while True:
        with contextlib.suppress(OSError):
            while len(held) < most - 50:
                stranger = connect(endpoint)
                held[stranger.fileno()] = stranger
                waiting.register(stranger, select.POLLIN)
                for descriptor, _ in waiting.poll(0):
                    waiting.unregister(descriptor)
                    held.pop(descriptor).close()
        time.sleep(PAUSE)


def requests(endpoint):
    """Control requests without reading the replies."""
    block = (frame(b"", MORE) + frame(json.dumps({"command": "status"}).encode())) * 100
    again(endpoint, b"DEALER", lambda: itertools.repeat(block))


def exports(endpoint):
    """Requests with large replies, without reading them."""
    block = (frame(b"", MORE) + frame(json.dumps({"command": "export"}).encode())) * 100
    again(endpoint, b"DEALER", lambda: itertools.repeat(block))


def endless(endpoint, kind):
    """A message without a last part."""
    block = frame(bytes(PART), MORE) * 10
    again(endpoint, kind, lambda: itertools.repeat(block))


def endless_push(endpoint):
    endless(endpoint, b"PUSH")


def endless_dealer(endpoint):
    endless(endpoint, b"DEALER")


FLOODS = {flood.__name__: flood for flood in (subscriptions, repeated, idle, requests, exports,
                                              endless_push, endless_dealer)}


@contextlib.contextmanager
def flooded(*floods):
    """Runs floods (flood, endpoint) until the context ends."""
    here = pathlib.Path(__file__).resolve()
    with contextlib.ExitStack() as stack:
        for flood, endpoint in floods:
            process = subprocess.Popen([sys.executable, "-B", here, flood.__name__, endpoint, "600"])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[3]),) * 2)
    FLOODS[sys.argv[1]](sys.argv[2])
