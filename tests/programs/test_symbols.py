#!/usr/bin/env python3
"""preset: symbols through a daemon: the cases of the specification, plans, kills, checkpoints, and
what is published."""
import json
import os
import pathlib
import random
import shutil

import cases
import running
import zmq
from running import Daemon, kill_and_start, messages, subscribe, wait_learned

SPECIFICATION = pathlib.Path(os.environ.get("srcdir", "."), "..", "shared", "symbols", "cases")
MOST = 1e-4
NETWORK = "layers: [{cell: lstm, size: 8}], "


def configuration(directory, size, others="members: []", layers="", memory=1 << 16, streams=8,
                  predictions="false"):
    return f"""
name: symbols
preset: symbols
device: cpu
memory: {memory}
model: {{{layers}input: {{{size}}}}}
learning: {{max_streams: {streams}}}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1, predictions: {predictions}, top: 5}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 70, seconds: 0}}}}
{others}
"""


def send(daemon, events, count=None):
    """Events are (stream, x, learn); x may have several steps."""
    with daemon.socket(zmq.PUSH, "examples") as socket:
        for stream, x, learn in events:
            socket.send(json.dumps({"stream": f"s{stream}", "x": x, "learn": bool(learn)}).encode())
        return wait_learned(daemon, count or len(events))


def text(count, seed=1, streams=2, size=256):
    """Streams of symbols that repeat themselves."""
    rng = random.Random(seed)
    line = [rng.randrange(size) for _ in range(40)]
    return [(n % streams, line[n * 7 // 10 % 40] if rng.random() < 0.9 else rng.randrange(size),
             rng.random() < 0.95) for n in range(count)]


def losses_of(directory, config, events, **options):
    with Daemon(directory, config) as daemon:
        subscriber = subscribe(daemon, [b"loss"])
        send(daemon, events)
        found = messages(daemon, subscriber, b"loss", len(events))
        assert daemon.end() == 0
    shutil.rmtree(directory / "state")
    return found


# ---- The specification ----

def play(directory, name, others="members: []"):
    case = json.loads((SPECIFICATION / f"{name}.json").read_text(encoding="utf-8"))
    keys, own = case["keys"], case.get("tables") == "own"
    size = (f"vocabulary: {{capacity: {case['capacity']}}}" if "capacity" in case
            else f"size: {keys.get('symbols', 256)}")
    memory = (1 << keys["memory"]) * (8 if own else 1)
    others += "\ntables: own" if own else ""
    found = losses_of(directory, configuration(directory, size, others, memory=memory),
                      case["events"])
    worst = max(abs(a["loss"] - b) for a, b in zip(found, case["loss"], strict=True))
    assert worst < MOST, (name, worst)


def test_cases_of_the_specification(directory):
    if not SPECIFICATION.is_dir():
        cases.skip(f"{SPECIFICATION} not found")
    for name in ("classes", "log-own", "log-streams", "text", "words"):
        play(directory, name)


# ---- Bits ----

def in_pieces(events, size):
    """The same symbols of each stream as examples of several steps."""
    pieces, open_pieces = [], {}
    for stream, x, learn in events:
        piece = open_pieces.get(stream)
        if piece is None or piece[2] != learn or len(piece[1]) == size:
            piece = open_pieces[stream] = (stream, [], learn)
            pieces.append(piece)
        piece[1].append(x)
    return pieces


def state_after(directory, others, layers, events, kills=(), **options):
    """The numbers of the last checkpoint after the examples."""
    with Daemon(directory, configuration(directory, "size: 256", others, layers, **options)) as daemon:
        learned = 0
        for end in (*kills, len(events)):
            send(daemon, events[learned:end], end)
            learned = end
            if end in kills:
                kill_and_start(daemon, learned)
        daemon.ask("checkpoint")
        assert daemon.end() == 0
    newest = max((directory / "state").glob("*.safetensors"), key=lambda path: path.stat().st_mtime)
    found = tensors(newest)
    shutil.rmtree(directory / "state")
    return found


def tensors(path):
    blob = path.read_bytes()
    size = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:8 + size])
    return {name: blob[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
            for name, entry in header.items() if name not in ("__metadata__", "checksum", "learner.counters")}  # of journal entries


def differences(a, b):
    return [name for name in sorted(a.keys() | b.keys()) if a.get(name) != b.get(name)]


def test_plans_and_kills_change_no_bit(directory):
    for others, layers in (("members: []", ""), ("members: []\ntables: own", ""), ("", NETWORK)):
        events = text(500)
        once = state_after(directory, others, layers, events)
        assert any("symbols" in name for name in once)
        killed = state_after(directory, others, layers, events, kills=(150, 333))
        assert not differences(once, killed), (others, differences(once, killed))
        # one example a plan: the daemon waits for each
        with Daemon(directory, configuration(directory, "size: 256", others, layers)) as daemon:
            for n, event in enumerate(events):
                send(daemon, [event], n + 1)
            daemon.ask("checkpoint")
            assert daemon.end() == 0
        newest = max((directory / "state").glob("*.safetensors"), key=lambda path: path.stat().st_mtime)
        assert not differences(once, tensors(newest)), (others, differences(once, tensors(newest)))
        shutil.rmtree(directory / "state")


def test_long_examples_are_learned_as_short_ones(directory):
    """Only counters of examples differ: an example that spans plans, examples of seven steps, and
    one step each."""
    events = [(0, x, True) for _, x, _ in text(3000)]
    found = {size: state_after(directory, "members: []", "", in_pieces(events, size))
             for size in (1, 7, 3000)}
    for size in (7, 3000):
        differ = [name for name in differences(found[1], found[size]) if "symbols" in name]
        assert not differ, (size, differ)


if __name__ == "__main__":
    cases.run(globals())
