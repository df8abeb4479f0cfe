#!/usr/bin/python3
"""Messages as examples: an x, or a y, of several atoms is one step. Both forms, rejections, the schema,
published figures, and the same bits after kills and in another daemon."""
import contextlib
import json
import math
import pathlib
import random
import signal
import struct
import subprocess
import tempfile

import cases
import numpy as np
import running
import zmq
from running import Daemon, wait_learned

READER = "sequence: {layers: [{cell: gru, size: 5}], longest: 6}"
WRITER = "sequence: {layers: [{cell: gru, size: 4}]}"
SYMBOLS, NUMBERS = f"kind: symbol, size: 7, embedding: 3, {READER}", f"kind: real, size: 2, {READER}"
CLASSES, NEXT = "loss: softmax, size: 3", f"loss: softmax, size: 7, target: next, {WRITER}"


def configuration(directory, inputs, output, socket="pull"):
    return f"""
name: messages
device: cpu
model: {{input: {{{inputs}}}, layers: [{{cell: gru, size: 6}}], output: {{{output}}}}}
learning: {{window: 4, stride: 2, max_streams: 3}}
examples: {{bind: "ipc://{directory}/examples", socket: {socket}}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 20, seconds: 0}}, journal: {{keep: all}}}}
"""


@contextlib.contextmanager
def started(inputs, output, socket="pull"):
    with tempfile.TemporaryDirectory(prefix="messages-") as directory, \
            Daemon(directory, configuration(directory, inputs, output, socket)) as daemon:
        yield daemon
        daemon.end()


def send(daemon, messages, learned):
    with daemon.socket(zmq.PUSH, "examples") as socket:
        for message in messages:
            socket.send_multipart(message)
        status = wait_learned(daemon, learned)
    daemon.ask("set", key="learning.clip", value=1)  # answered when on disk
    return status


def numbers(values, form):
    return struct.pack(f"<{len(values)}{form}", *values)


def both_forms(output, count=50, seed=2, symbols=True):
    """Messages as JSON and in binary form, without headers."""
    rng, texts, frames = random.Random(seed), [], []
    for _ in range(count):
        key, atoms = rng.choice("abcd"), rng.randrange(1, 7)
        x = [rng.randrange(7) if symbols else [rng.gauss(0, 1), rng.gauss(0, 1)] for _ in range(atoms)]
        flat = x if symbols else [number for atom in x for number in atom]
        example = {"stream": key, "x": x}
        frames.append([key.encode(), numbers(flat, "I" if symbols else "f")])
        if "next" not in output:
            y = [rng.randrange(3) for _ in range(rng.randrange(1, 4))] if "sequence" in output else rng.randrange(3)
            example["y"] = y
            frames[-1].append(numbers(y if isinstance(y, list) else [y], "I"))
        texts.append([json.dumps(example).encode()])
    return texts, frames


def test_both_forms_and_kills_lead_to_the_same_bits():
    """For readers and writers, after a kill, a stop, and from a checkpoint."""
    written = f"{CLASSES}, sequence: {{layers: [{{cell: gru, size: 4}}], longest: 3}}"
    for inputs, output in (SYMBOLS, CLASSES), (SYMBOLS, NEXT), (NUMBERS, CLASSES), (SYMBOLS, written):
        found = []
        for form in both_forms(output, symbols=inputs == SYMBOLS):
            with started(inputs, output) as daemon:
                status = send(daemon, form[:30], 30)
                assert status["steps"] == 30 and status["rejected"] == 0, status
                daemon.end(signal.SIGKILL)
                daemon.start()
                send(daemon, form[30:], 50)
                found.append(daemon.export())
                for ending in signal.SIGKILL, signal.SIGTERM:
                    daemon.end(ending)
                    daemon.start()
                    found.append(daemon.export())
        assert len(set(found)) == 1, (inputs, output, [blob == found[0] for blob in found])


def test_replayed_messages_lead_to_the_same_bits():
    """runnel-replay sends the journal to another daemon."""
    texts, _ = both_forms(NEXT)
    with started(SYMBOLS, NEXT) as first, started(SYMBOLS, NEXT) as second:
        send(first, texts, 50)
        subprocess.run([running.PROGRAM.with_name("runnel-replay"), first.directory / "state",
                        "--connect", second.endpoint("examples"), "--quiet"], check=True, timeout=running.LIMIT)
        wait_learned(second, 50)
        assert first.export() == second.export()


def test_a_message_that_is_too_long_is_rejected():
    with started(SYMBOLS, CLASSES, "router") as daemon:
        with daemon.socket(zmq.DEALER, "examples") as socket:
            socket.send(json.dumps({"schema": {}}).encode())
            answer = json.loads(daemon.next_message(socket)[-1])
            assert answer["sequence"] == {"longest": 6} and answer["columns"] == 1, answer
            reasons = []
            for n, (x, status) in enumerate([([1] * 6, 0), ([1] * 7, 2), ([], 2), ([7], 2), (3, 0)]):
                socket.send(json.dumps({"x": x, "y": 0, "sequence": n + 1}).encode())
                frames = daemon.next_message(socket)
                assert frames[1][1] == status, (x, frames)
                reasons.append(frames[-1])
        assert daemon.ask("status")["rejected_by"] == {"x_size": 2, "x_value": 1}
        assert b"x has 7 atoms; model.input.sequence.longest is 6" in reasons[1], reasons
        assert b"x is empty, expected 1 to 6 atoms" in reasons[2], reasons


def published(inputs, output, messages):
    """A `loss` message of each example."""
    with started(inputs, output) as daemon:
        subscriber = running.subscribe(daemon, (b"loss",))
        send(daemon, messages, len(messages))
        return running.messages(daemon, subscriber, b"loss", len(messages))


def baseline_of(messages, classes):
    """Loss of the frequency of atoms and ends in each stream so far, end first."""
    counts, losses = {}, []
    for key, atoms in messages:
        loss, of = 0, counts.setdefault(key, [1] * (classes + 1))
        for atom in [classes, *atoms]:
            loss -= math.log(of[atom] / sum(of))
            of[atom] += 1
        losses.append(loss / (len(atoms) + 1))
    return losses


def test_atoms_and_the_baseline_of_a_writer():
    examples = [("ab"[n % 2], [n * n % 7] * (1 + n % 5)) for n in range(40)]
    frames = [[key.encode(), numbers(x, "I")] for key, x in examples]
    *_, last = published(SYMBOLS, NEXT, frames)
    read, targets = sum(len(x) for _, x in examples), examples[2:]
    assert last["atoms"] == {"read": read, "written": sum(len(x) for _, x in targets)}, last
    assert math.isclose(last["baseline"], baseline_of(targets, 7)[-1], rel_tol=1e-9), last
    assert math.isclose(last["skill"], last["baseline"] - last["mean"]) and set(last["metric"]) == {"bits"}, last


def test_a_ranking():
    """Candidates are the target and the different ones of the last 4 targets."""
    inputs, ranking = "kind: symbol, size: 9", "loss: ranking, size: 3, negatives: 4, target: next"
    items = [n * n % 9 for n in range(60)]
    messages = published(inputs, ranking, [[b"s", numbers([x], "I")] for x in items])
    for n in range(1, 60):
        metric, among = messages[n]["metric"], len({*items[max(1, n - 4):n], items[n]})
        if among == 1:
            assert metric["among"] is None and messages[n]["baseline"] is None, messages[n]
            continue
        assert metric["among"] == among and 1 <= metric["rank"] <= among, messages[n]
        assert metric["recall_1"] == (metric["rank"] == 1) and metric["recall_10"] == metric["recall_20"] == 1, messages[n]
        assert math.isclose(messages[n]["baseline"], math.log(among), rel_tol=1e-6), messages[n]
    hinge = published(inputs, ranking + ", objective: hinge", [[b"s", numbers([x], "I")] for x in items])[-1]
    assert "baseline" not in hinge and "skill" not in hinge and hinge["metric"]["rank"] >= 1, hinge


def tensors_of(blob):
    size = struct.unpack("<Q", blob[:8])[0]
    header, data = json.loads(blob[8:8 + size]), blob[8 + size:]
    return {name: np.frombuffer(data[slice(*about["data_offsets"])], "<f4").reshape(about["shape"])
            for name, about in header.items() if name != "__metadata__"}


def announced(inputs, output, examples, more="", learn=True):
    """The newest message of each topic, and the parameters before the examples."""
    with tempfile.TemporaryDirectory(prefix="messages-") as directory:
        text = configuration(directory, inputs, output) + more
        text = text.replace("every: 1", "every: 1, predictions: true, vectors: true")
        with Daemon(directory, text) as daemon:
            subscriber = running.subscribe(daemon, (b"prediction", b"vector", b"state"))
            tensors = tensors_of(daemon.export())
            with daemon.socket(zmq.PUSH, "examples") as socket:
                for example in examples:
                    socket.send(json.dumps({"stream": "s", "learn": learn, **example}).encode())
                found = {}
                while len(found) < 3 or any(body["examples"] < len(examples) for body in found.values()):
                    topic, body = daemon.next_message(subscriber)
                    found[topic.decode()] = json.loads(body)
    return found, tensors


def check_vectors(found, tensors):
    """The prediction is that of h."""
    h = np.array(found["vector"]["h"])
    a = h @ tensors["output.weight"].T + tensors["output.bias"]
    share = np.exp(a) / np.exp(a).sum(-1, keepdims=True)
    assert np.allclose(share, found["prediction"]["prediction"], atol=1e-5), found


def test_vectors_of_messages_and_of_a_long_example():
    found, tensors = announced(SYMBOLS.replace("longest", "pool: attention, longest"), CLASSES,
                               [{"x": [1, 2, 3], "y": 1}, {"x": [4, 0, 4, 5, 6], "y": 2}], learn=False)
    check_vectors(found, tensors)
    assert found["vector"]["stream"] == "s" and found["vector"]["example"] == 2, found["vector"]
    shares = found["prediction"]["attention"]
    assert len(shares) == 5 and math.isclose(sum(shares), 1, rel_tol=1e-5) and len(set(shares)) > 2, shares
    steps = [[math.sin(n), math.cos(n)] for n in range(600)]  # several plans
    check_vectors(*announced("kind: real, size: 2", CLASSES, [{"x": steps, "y": [[n % 3] for n in range(600)]}],
                             learn=False))


def test_layers_have_names():
    found, _ = announced(SYMBOLS, NEXT, [{"x": [1, 2]}, {"x": [3]}])
    assert [layer["name"] for layer in found["state"]["layers"]] == ["layer 0", "reader 0", "output 0"], found
    assert "prediction" not in found["prediction"] and found["prediction"]["loss"] > 0, found
    ranking = "loss: ranking, size: 3, negatives: 4, candidates: {kind: real, size: 2, layers: [{cell: dense, size: 4}]}"
    found, _ = announced("kind: real, size: 2", ranking, [{"x": [1, 2], "y": [3, 4]}] * 2)
    assert [layer["name"] for layer in found["state"]["layers"]] == ["layer 0", "candidates 0"], found
    found, _ = announced("kind: real, size: 2", CLASSES, [{"x": [1, 2], "y": 0}] * 2)
    assert "name" not in found["state"]["layers"][0], found


cases.run(globals())
