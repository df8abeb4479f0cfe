#!/usr/bin/python3
"""Statistics over updates: they change no bit, they continue after a restart, and the event `stale`."""
import base64
import json
import pathlib
import random
import struct
import time

import numpy as np
import recovery
import running

import cases

STRIDE, PROBES = 4, 160
ROWS = "statistics.activity", "statistics.plasticity"


def started(directory, name, every=1, rate=0.01):
    place = pathlib.Path(directory, name)
    place.mkdir()
    configuration = recovery.configuration(place, journal="{keep: all}", checkpoint=50)
    configuration = configuration.replace("rate: 0.01", f"rate: {rate}")
    return running.Daemon(place, configuration.replace("statistics: {", f"statistics: {{every: 4, plasticity: {every}, "))


def learn(daemon, begin, end):
    r = random.Random(5)
    sent = [recovery.message(b"s", np.array([r.gauss(0, 1) for _ in range(recovery.INPUTS)], "<f4").tobytes(), n + 1)
            for n in range(end)]
    recovery.feed(daemon, sent[begin:end])
    running.wait_learned(daemon, end)


def kept(daemon):
    """The rows of statistics in a new checkpoint."""
    daemon.ask("checkpoint")
    blob = (daemon.directory / "state" / "checkpoint.safetensors").read_bytes()
    size, = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8:8 + size])
    return [blob[8 + size + header[name]["data_offsets"][0]:8 + size + header[name]["data_offsets"][1]] for name in ROWS]


def test_bits(directory):
    """The learned bits do not depend on probes. Without them, `plasticity` is null."""
    with started(directory, "probed") as probed, started(directory, "not", every=0) as other:
        found = []
        for daemon in probed, other:
            subscriber = running.subscribe(daemon, (b"loss", b"state"))
            learn(daemon, 0, 200)
            found.append((running.messages(daemon, subscriber, b"loss", 40)[-1]["plasticity"], daemon.export()))
        assert found[0][1] == found[1][1] and 0 < found[0][0] < 1 and found[1][0] is None


def test_published(directory):
    """Rank and growth appear with updates."""
    with started(directory, "one") as daemon:
        subscriber = running.subscribe(daemon, (b"state",))
        learn(daemon, 0, 16 * 9 * STRIDE + 40)
        layers = [message["layers"][0] for message in running.messages(daemon, subscriber, b"state", 150)]
        assert layers[0]["units"] == {"dormant": None, "saturated": None, "rank": None}
        assert layers[0]["weights"]["growth"] == 1 < layers[-1]["weights"]["growth"]
        assert layers[100]["units"]["rank"] is None and 1 < layers[-1]["units"]["rank"] <= 12
        assert layers[-1]["units"]["dormant"] == 0


def test_killed(directory):
    """A daemon that was killed continues with the same statistics; an import and a reset begin them."""
    with started(directory, "whole") as whole, started(directory, "killed") as killed:
        learn(whole, 0, 400)
        learn(killed, 0, 230)
        running.kill_and_start(killed, 230)
        learn(killed, 230, 400)
        rows = kept(whole)
        assert rows == kept(killed)
        learn(killed, 400, 440)
        assert rows != kept(killed)
        assert struct.unpack("<d", rows[0][:8])[0] == struct.unpack("<5d", rows[1])[1] == 99
        whole.ask("reset")
        killed.ask("import", blob=base64.b64encode(whole.export()).decode())
        assert not any(kept(whole)[1]) and not any(kept(killed)[1])


def stales(daemon, subscriber, seconds=0.3):
    """The events `stale` until now."""
    found, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        if subscriber.poll(50):
            topic, body = subscriber.recv_multipart()[:2]
            body = json.loads(body)
            found += [body] if topic == b"event" and body["kind"] == "stale" else []
    return found


def test_stale(directory):
    """Weights that have grown while updates achieve less and less are reported once, with a remedy,
    also if the daemon was killed in between."""
    end = PROBES * STRIDE
    with started(directory, "one", rate=0.1) as daemon:
        subscriber = running.subscribe(daemon, (b"event",))
        learn(daemon, 0, end)
        assert not stales(daemon, subscriber)
        daemon.ask("set", key="learning.optimizer.rate", value=1e-6)
        running.kill_and_start(daemon, end)
        subscriber = running.subscribe(daemon, (b"event",))
        learn(daemon, end, 2 * end)
        event, = stales(daemon, subscriber)
        assert event["layer"] == 0 and event["growth"] > 2 and event["plasticity"] < event["best"] / 2, event
        assert "optimizer.pull" in event["text"] and event["pull"] == sorted(event["pull"]), event
        assert event["text"] in daemon.text()
        running.kill_and_start(daemon, 2 * end)
        subscriber = running.subscribe(daemon, (b"event",))
        learn(daemon, 2 * end, 3 * end)
        assert not stales(daemon, subscriber)


cases.run(globals())
