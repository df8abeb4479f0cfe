#!/usr/bin/python3
"""`learning.optimizer.pull`: where the starting values come from, and that they last."""
import base64
import json
import pathlib
import random
import struct

import numpy as np
import recovery
import running

import cases

COUNT = 40
PULL = ("rate: 0.01", "rate: 0.01, pull: 2")


def examples(begin, end):
    r = random.Random(5)
    sent = [recovery.message(f"s{n % 3}".encode(), np.array([r.gauss(0, 1) for _ in range(recovery.INPUTS)],
                                                             "<f4").tobytes(), n + 1) for n in range(end)]
    return sent[begin:end]


def tensors(blob):
    size, = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8:8 + size])
    header.pop("__metadata__", None)
    return {name: blob[8 + size + about["data_offsets"][0]:8 + size + about["data_offsets"][1]]
            for name, about in header.items()}


def kept(daemon):
    """The tensors in a new checkpoint."""
    daemon.ask("checkpoint")
    return tensors((daemon.directory / "state" / "checkpoint.safetensors").read_bytes())


def starts(daemon):
    return {name.removeprefix("start."): values for name, values in kept(daemon).items()
            if name.startswith("start.")}


def started(directory, name, pull=PULL, journal="{keep: all}"):
    place = pathlib.Path(directory, name)
    place.mkdir()
    return running.Daemon(place, recovery.configuration(place, journal=journal, checkpoint=25).replace(*pull))


def learn(daemon, begin, end):
    recovery.feed(daemon, examples(begin, end))
    running.wait_learned(daemon, end)


def change(daemon, old, new):
    daemon.path.write_text(daemon.path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    daemon.log.close()
    daemon.start()
    daemon.ask("status")


def test_killed(directory):
    """A daemon that was killed continues with the same bits, from the same starting values; without
    pull, the bits are others."""
    with started(directory, "whole") as whole, started(directory, "killed") as killed, \
            started(directory, "free", ("", "")) as free:
        before = tensors(whole.export())
        for daemon in whole, free:
            learn(daemon, 0, COUNT)
        learn(killed, 0, COUNT - 10)
        running.kill_and_start(killed, COUNT - 10)
        learn(killed, COUNT - 10, COUNT)
        assert killed.export() == whole.export() and tensors(free.export()) != tensors(whole.export())
        assert starts(killed) == starts(whole) == before
        assert not starts(free)


def test_turned_on(directory):
    """A restart with pull for the first time has the starting values of a new network, and keeps
    them with another pull and another optimizer. The optimizer's average of squares continues."""
    with started(directory, "one", ("", "")) as daemon:
        before = tensors(daemon.export())
        learn(daemon, 0, COUNT)
        then = kept(daemon)
        parameters = tensors(daemon.export())
        assert daemon.end() == 0
        change(daemon, *PULL)
        now = kept(daemon)
        assert tensors(daemon.export()) == parameters != before and starts(daemon) == before
        averages = [name for name in then if name.startswith("optimizer.")]
        assert len(averages) > 1 and all(now[name] == then[name] for name in averages)
        learn(daemon, COUNT, 2 * COUNT)
        for old, new in ("pull: 2", "pull: 3"), ("kind: adam", "kind: sgd"):
            assert daemon.end() == 0
            change(daemon, old, new)
            assert starts(daemon) == before != tensors(daemon.export())
        assert daemon.end() == 0
        change(daemon, ", pull: 3", "")
        assert not starts(daemon)


def test_imported(directory):
    """Imported parameters are starting values, also after a replay of the journal. A reset restores
    those of the seed."""
    with started(directory, "other", ("", "")) as other:
        learn(other, 0, COUNT)
        blob = other.export()
    with started(directory, "one") as daemon:
        before = tensors(daemon.export())
        learn(daemon, 0, 10)
        daemon.ask("import", blob=base64.b64encode(blob).decode())
        learn(daemon, 10, 20)
        running.kill_and_start(daemon, 20)
        assert starts(daemon) == tensors(blob) != tensors(daemon.export())
        daemon.ask("reset")
        assert starts(daemon) == tensors(daemon.export()) == before


cases.run(globals())
