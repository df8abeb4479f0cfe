"""Strangers who send without an end, and a daemon that goes on: its producers get their answers, its
memory stays bounded, honest subscribers have their statistics, and all is as before once it is over.

Times here are bounds that the daemon promises, many times what it needs."""
import contextlib
import json
import os
import pathlib
import re
import struct
import sys
import threading
import time

import cases
import flooding
from running import LIMIT, Daemon, zmq

MEMORY_MAX = 200 << 20
FLOOD_S = float(os.environ.get("RUNNEL_FLOOD_SECONDS", "3"))

CONFIG = """
name: flooded
device: cpu
model:
  input: {{kind: real, size: 1}}
  layers: [{{cell: gru, size: 16}}]
  output: {{loss: squared, size: 1, target: next}}
examples: {{bind: "tcp://127.0.0.1:*", socket: router}}
statistics: {{bind: "tcp://127.0.0.1:*", every: 10}}
control: {{bind: "tcp://127.0.0.1:*"}}
state: {{directory: "{0}/state"}}
"""


class Flooded(Daemon):
    def __init__(self, directory, *arguments):
        super().__init__(directory, CONFIG.format(directory), *arguments)
        self.endpoints = dict(self.bound())

    def bound(self):
        """The endpoints that its log names."""
        end = time.monotonic() + LIMIT
        while True:
            found = re.findall(r"(examples|statistics|control) (\w+://[^\s,]+)", self.text())
            if len(found) >= 3:
                return found
            self.alive()
            assert time.monotonic() < end
            time.sleep(0.01)

    def endpoint(self, name):
        return self.endpoints[name]

    def memory(self):
        """Most resident memory so far, bytes."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def subscriber(self, *topics):
        socket = self.socket(zmq.SUB, "statistics")
        for topic in topics:
            socket.subscribe(topic)
        return socket

    def ended(self, reason):
        return self.ask("status")["connections"]["ended_by"].get(reason, 0)


class Producer(threading.Thread):
    """Sends examples and has them acknowledged; `longest` is the longest time without one."""
    WINDOW = 20

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.socket = daemon.socket(zmq.DEALER, "examples")
        self.sent = self.acknowledged = 0
        self.longest = 0.0
        self.stop = threading.Event()

    def send(self):
        self.sent += 1
        header = struct.pack("<BBHIQd", 1, 0, 0, 0, self.sent, 0.0)
        self.socket.send_multipart([b"a", struct.pack("<f", self.sent % 7), b"", header])

    def run(self):
        newest = time.monotonic()
        while not self.stop.is_set():
            while self.sent - self.acknowledged < self.WINDOW:
                self.send()
            if self.socket.poll(100):
                self.socket.recv_multipart()
                self.acknowledged += 1
                time.sleep(0.001)
                newest, before = time.monotonic(), newest
                self.longest = max(self.longest, newest - before)
            else:
                self.longest = max(self.longest, time.monotonic() - newest)
        self.socket.close()

    def __enter__(self):
        self.start()
        self.wait(1)
        self.longest = 0.0
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.join()

    def wait(self, count):
        """Until so many more are acknowledged."""
        wanted, end = self.acknowledged + count, time.monotonic() + LIMIT
        while self.acknowledged < wanted:
            assert time.monotonic() < end, f"{self.acknowledged} acknowledgements, wanted {wanted}"
            time.sleep(0.01)


def until(reached, what):
    end = time.monotonic() + LIMIT
    while not reached():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def gets(daemon, subscriber, topic, count=3):
    """Messages of a topic come."""
    while count:
        count -= daemon.next_message(subscriber)[0] == topic


def drain(subscriber):
    with contextlib.suppress(zmq.Again):
        while True:
            subscriber.recv_multipart(zmq.NOBLOCK)


def flood(daemon, *floods, longest=10.0):
    """Its producer's acknowledgements go on and its memory stays bounded during floods and after."""
    with Producer(daemon) as producer:
        with flooding.flooded(*floods):
            time.sleep(FLOOD_S)
            producer.wait(50)
            assert daemon.memory() < MEMORY_MAX, f"{daemon.memory() >> 20} MB"
        producer.wait(50)
    daemon.alive()
    assert producer.longest < longest, f"{producer.longest} s without an acknowledgement"
    assert daemon.memory() < MEMORY_MAX, f"{daemon.memory() >> 20} MB"


def test_subscriptions(directory):
    """A flood of subscriptions, the same or different ones, holds up neither learning nor others."""
    with Flooded(directory) as daemon:
        honest = daemon.subscriber(b"loss")
        for kind in (flooding.subscriptions, flooding.repeated):
            flood(daemon, (kind, daemon.endpoint("statistics")))
            with Producer(daemon):
                drain(honest)
                gets(daemon, honest, b"loss")
        assert daemon.ended("subscriptions") > 0


def test_a_stranger_unsubscribes(directory):
    """Unsubscribing from what others have subscribed to, and twice, takes nothing from them."""
    with Flooded(directory) as daemon, Producer(daemon):
        honest = daemon.subscriber(b"loss")
        gets(daemon, honest, b"loss")
        with flooding.meet(daemon.endpoint("statistics"), b"SUB") as stranger:
            for ending in (flooding.frame(b"\x00loss"), flooding.command(b"CANCEL", b"loss")):
                stranger.sendall(ending * 2)
                stranger.sendall(flooding.frame(b"\x01status"))
                said = b""
                while b"\x06status" not in said:
                    said += stranger.recv(65536)  # then all before it has been taken
                drain(honest)
                gets(daemon, honest, b"loss", 20)
                stranger.sendall(flooding.frame(b"\x00status"))


def test_what_nobody_wants_is_not_counted(directory):
    """A topic's sequence stays while nobody has it, also after its last subscriber's connection."""
    with Flooded(directory) as daemon, Producer(daemon) as producer:
        stays = daemon.subscriber(b"status")
        daemon.next_message(stays)

        def listen():
            """What a subscriber of `loss` gets, which leaves without a word."""
            subscriber = daemon.subscriber(b"loss")
            message = json.loads(daemon.next_message(subscriber)[1])
            subscriber.close()
            until(lambda: daemon.ask("status")["connections"]["statistics"] == 1, "it stays")
            return message

        before = listen()
        producer.wait(500)
        after = listen()
        missed = after["examples"] - before["examples"] - 10 * (after["sequence"] - before["sequence"])
        assert missed >= 400, (before, after)


if __name__ == "__main__":
    cases.run(globals())
