"""Floods by unknown clients. Meanwhile producers get their answers, memory stays bounded, and other
subscribers get their statistics. Afterwards all is as before. The limits of time are promised by
the daemon, and many times the usual time."""
import contextlib
import json
import os
import pathlib
import re
import struct
import sys
import threading
import time
from unittest import mock

import cases
import flooding
from running import LIMIT, PROGRAM, SANITIZERS, Daemon, zmq

MEMORY_MAX = 200 << 20
IPC_MEMORY_MAX = 3 * MEMORY_MAX  # the thread may have been without a processor for some time
# With sanitizers libzmq is many times slower to remove the subscriptions of a flood.
FLOOD_S = float(os.environ.get("RUNNEL_FLOOD_SECONDS", "0.5" if SANITIZERS else "3"))

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
        self.sequence = 0  # from the newest example of any producer
        self.endpoints = dict(self.bound())

    def bound(self):
        """The endpoints in its log."""
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
        """Peak resident memory in bytes; 0 with sanitizers, which keep freed memory."""
        if SANITIZERS:
            return 0
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
    """Sends examples and receives acknowledgements; `longest` is the longest time without one."""
    WINDOW = 20

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.of = daemon
        self.socket = daemon.socket(zmq.DEALER, "examples")
        self.sent = self.acknowledged = 0
        self.longest = 0.0
        self.stop = threading.Event()

    def send(self):
        self.sent += 1
        self.of.sequence += 1
        header = struct.pack("<BBHIQd", 1, 0, 0, 0, self.of.sequence, 0.0)
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
        """Waits until `count` more are acknowledged."""
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
    """Waits for messages of a topic."""
    while count:
        count -= daemon.next_message(subscriber)[0] == topic


def drain(subscriber):
    with contextlib.suppress(zmq.Again):
        while True:
            subscriber.recv_multipart(zmq.NOBLOCK)


def flood(daemon, *floods, longest=10.0, ended="", go_on=lambda: None):
    """Checks during floods and afterwards that a producer gets acknowledgements, `go_on` succeeds
    and memory stays bounded. With `ended` a flood must be ended for this reason."""
    with Producer(daemon) as producer:
        with flooding.flooded(*floods):
            time.sleep(FLOOD_S)
            until(lambda: not ended or daemon.ended(ended) > 0, f"no flood was ended: {ended}")
            producer.wait(50)
            go_on()
            assert daemon.memory() < MEMORY_MAX, f"{daemon.memory() >> 20} MB"
        producer.wait(50)
        go_on()
    daemon.alive()
    assert producer.longest < longest, f"{producer.longest} s without an acknowledgement"
    assert daemon.memory() < MEMORY_MAX, f"{daemon.memory() >> 20} MB"


def test_subscriptions(directory):
    """A flood of equal or distinct subscriptions delays neither learning nor other clients."""
    with Flooded(directory) as daemon:
        honest = daemon.subscriber(b"loss")

        def go_on():
            drain(honest)
            gets(daemon, honest, b"loss")

        for kind in (flooding.subscriptions, flooding.repeated):
            flood(daemon, (kind, daemon.endpoint("statistics")), ended="subscriptions", go_on=go_on)


def test_a_stranger_unsubscribes(directory):
    """If a client unsubscribes from the topics of others, even twice, the others keep them."""
    with Flooded(directory) as daemon, Producer(daemon):
        honest = daemon.subscriber(b"loss")
        gets(daemon, honest, b"loss")
        with flooding.meet(daemon.endpoint("statistics"), b"SUB") as stranger:
            for ending in (flooding.frame(b"\x00loss"), flooding.command(b"CANCEL", b"loss")):
                stranger.sendall(ending * 2)
                stranger.sendall(flooding.frame(b"\x01status"))
                received = b""
                while b"\x06status" not in received:
                    received += stranger.recv(65536)  # everything before it has been processed
                drain(honest)
                gets(daemon, honest, b"loss", 20)
                stranger.sendall(flooding.frame(b"\x00status"))


def test_topics_without_subscribers_are_not_counted(directory):
    """The sequence of a topic does not change without a subscriber, also after the last
    subscriber's connection is closed."""
    with Flooded(directory) as daemon, Producer(daemon) as producer:
        stays = daemon.subscriber(b"status")
        daemon.next_message(stays)

        def listen():
            """The first message of a subscriber of `loss`, which then disconnects."""
            subscriber = daemon.subscriber(b"loss")
            message = json.loads(daemon.next_message(subscriber)[1])
            subscriber.close()
            until(lambda: daemon.ask("status")["connections"]["statistics"] == 1, "it stays")
            return message

        before = listen()
        producer.wait(2000)
        after = listen()
        missed = after["examples"] - before["examples"] - 10 * (after["sequence"] - before["sequence"])
        # some are counted before the daemon's thread notices the end
        assert missed >= 1000, (before, after)


def with_descriptors(directory, count):
    """The daemon's program with a limit of file descriptors."""
    path = pathlib.Path(directory, "limited")
    path.write_text(f"#!/bin/sh\nulimit -n {count}\nexec {PROGRAM} \"$@\"\n")
    path.chmod(0o755)
    return path


def test_idle_connections(directory):
    """Idle connections do not exhaust the descriptors for checkpoints, nor the sockets of active
    clients."""
    sockets = "examples", "statistics", "control"
    for count in (256, 4096):
        part = pathlib.Path(directory, str(count))
        part.mkdir()
        program = with_descriptors(part, count)
        with mock.patch.object(Flooded, "program", program), Flooded(part) as daemon:
            before = daemon.descriptors()
            with Producer(daemon) as producer, daemon.socket(zmq.REQ, "control") as control:
                def ask(command):
                    """Sends over a connection from before the flood."""
                    control.send_json({"command": command})
                    return json.loads(daemon.next_message(control)[0])

                assert ask("status")["ok"]
                with flooding.flooded(*((flooding.idle, daemon.endpoint(s)) for s in sockets)):
                    time.sleep(FLOOD_S)
                    producer.wait(50)
                    assert ask("checkpoint")["examples"] > 0
                    until(lambda: ask("status")["connections"]["ended_by"].get("connections", 0) > 0,
                          "no connection was ended")
                    assert daemon.memory() < MEMORY_MAX, f"{daemon.memory() >> 20} MB"
                until(lambda: daemon.descriptors() <= before + 5, "connections stay")
                assert daemon.ask("status")["ok"]
                producer.wait(50)
            with flooding.flooded(*((flooding.idle, daemon.endpoint(s)) for s in sockets)):
                time.sleep(FLOOD_S / 3)
                assert daemon.end() == 0, daemon.text()
            assert "all are in the checkpoint" in daemon.text()


def test_requests(directory):
    """Endless requests delay neither learning nor clients that read their replies."""
    with Flooded(directory) as daemon:
        control = daemon.endpoint("control")
        flood(daemon, *[(flooding.requests, control)] * 3)
        assert daemon.ask("status")["state"] == "learning"


def test_replies_that_nobody_reads(directory):
    """Exports for clients that do not read them use a bounded part of memory."""
    model = "model.layers=[{cell: gru, size: 700}, {cell: dense, size: 2000}]"
    with Flooded(directory, "--set", model, "--set", "learning.max_streams=4") as daemon:
        size = len(daemon.export())
        before = daemon.memory()
        assert size > 5 << 20
        with contextlib.ExitStack() as stack:
            request = flooding.frame(b"", flooding.MORE) + flooding.frame(b'{"command": "export"}')
            strangers = [stack.enter_context(flooding.meet(daemon.endpoint("control"), b"DEALER"))
                         for _ in range(4)]
            for stranger in strangers:
                stranger.sendall(request * 20)
            reply = daemon.request("export")[0]
            while reply["ok"]:  # until all of them wait
                reply = daemon.request("export")[0]
            assert "do not read" in reply["error"], reply
            assert daemon.memory() < before + (150 << 20), f"{daemon.memory() >> 20} MB"
        until(lambda: daemon.request("export")[0]["ok"], "replies still wait")


def test_messages_without_an_end(directory):
    """A message without a last part is dropped with its connection, also while the daemon is
    paused."""
    for kind, stranger in (("router", flooding.endless_dealer), ("pull", flooding.endless_push)):
        part = pathlib.Path(directory, kind)
        part.mkdir()
        with Flooded(part, "--set", f"examples.socket={kind}") as daemon:
            with flooding.flooded((stranger, daemon.endpoint("examples")),
                                  (flooding.endless_dealer, daemon.endpoint("control"))):
                until(lambda: daemon.ended("endless") > 5, "the flood was not ended")
            assert daemon.memory() < MEMORY_MAX, f"{daemon.memory() >> 20} MB"
            daemon.alive()


def test_a_client_comes_again_by_its_name(directory):
    """Its name has the form of libzmq's own names. Another client gets its former descriptor, and
    separate counters: its messages are not parts of an endless one."""
    with Flooded(directory) as daemon:
        def client(name=b""):
            socket = daemon.context.socket(zmq.DEALER)
            if name:
                socket.setsockopt(zmq.ROUTING_ID, name)
            socket.connect(daemon.endpoint("examples"))
            ask(socket, 4)
            return socket

        def ask(socket, size):
            """Checks that it gets a reply, also on a socket for other messages."""
            socket.send_multipart([b"a", bytes(size), b"", struct.pack("<BBHIQd", 1, 0, 0, 0, 1, 0.0)])
            daemon.next_message(socket)

        client(b"\0name").close()
        until(lambda: daemon.ask("status")["connections"]["examples"] == 0, "the connection still exists")
        other, again = client(), client(b"\0name")
        for _ in range(100):
            ask(again, 16385)  # 1.6 MB, more than the limit of half a megabyte for a message
            assert daemon.ended("endless") == 0
        other.close()
        again.close()


def test_messages_without_an_end_over_ipc(directory):
    """The kernel does not count bytes of ipc sockets: the daemon's own growth counts. The limit of
    a message is 33 MB here."""
    words = (f"examples.bind=ipc://{directory}/examples", "model.input.size=64",
             "model.output.size=64")
    with Flooded(directory, *(word for w in words for word in ("--set", w))) as daemon:
        with flooding.flooded(*[(flooding.endless_dealer, daemon.endpoint("examples"))] * 2):
            until(lambda: daemon.ended("endless") > 3, "the flood was not ended")
        assert daemon.memory() < IPC_MEMORY_MAX, f"{daemon.memory() >> 20} MB"
        daemon.alive()


def test_large_messages_are_no_flood(directory):
    """Complete messages may be large, arrive in pieces, and wait while the daemon is paused."""
    with Flooded(directory, "--set", "examples.socket=pull") as daemon:
        daemon.ask("pause")
        x = struct.pack("<4096f", *(n % 5 for n in range(4096)))
        header = struct.pack("<BBHIQd", 1, 0, 0, 0, 0, 0.0)
        feeder = daemon.socket(zmq.PUSH, "examples")
        for _ in range(100):
            feeder.send_multipart([b"a", x, b"", header])
        with flooding.meet(daemon.endpoint("examples"), b"PUSH") as slow:
            message = (flooding.frame(b"b", flooding.MORE) + flooding.frame(x, flooding.MORE)
                       + flooding.frame(b"", flooding.MORE) + flooding.frame(header))
            half = len(message) // 2
            slow.sendall(message[:half])
            time.sleep(0.3)
            daemon.ask("resume")
            time.sleep(0.3)
            slow.sendall(message[half:])
            until(lambda: daemon.ask("status")["examples"] == 101, "heartbeats do not arrive")
        assert daemon.ended("endless") == 0


def test_heartbeats_are_no_flood(directory):
    """No socket reads them, and bytes of ipc sockets are not counted."""
    with Flooded(directory, *(word for name in ("examples", "control")
                              for word in ("--set", f"{name}.bind=ipc://{directory}/{name}"))) as daemon:
        sockets = [daemon.context.socket(zmq.DEALER) for _ in range(40)]
        for number, socket in enumerate(sockets):
            socket.setsockopt(zmq.HEARTBEAT_IVL, 10)
            socket.connect(daemon.endpoint("control" if number % 2 else "examples"))
        time.sleep(FLOOD_S)
        assert daemon.ask("status")["connections"]["ended"] == 0


if __name__ == "__main__":
    cases.run(globals())
