#!/usr/bin/python3
"""Several outputs of one network: the answer to a schema, figures and predictions by output, and a restart."""
import json
import math
import random
import re

import numpy as np
import running

import cases

CONFIGURATION = """
name: outputs
model:
  input: {kind: real, size: 2}
  layers: [{cell: gru, size: 6}]
  outputs:
    - {name: next, loss: squared, size: 2, target: next}
    - {name: class, loss: softmax, size: 3, weight: 0.5}
    - {name: before, loss: squared, size: 2, target: previous}
learning: {window: 4, stride: 2, optimizer: {kind: adam, rate: 0.01}, max_streams: 4}
statistics: {bind: "SOCKETS/statistics", every: 20, predictions: true}
examples: {bind: "SOCKETS/examples", socket: SOCKET}
control: {bind: "SOCKETS/control"}
state: {directory: DIRECTORY/state}
"""


def start(directory, socket="pull"):
    directory.mkdir(exist_ok=True)
    text = CONFIGURATION.replace("SOCKETS", f"ipc://{directory}").replace("DIRECTORY", str(directory))
    return running.Daemon(directory, text.replace("SOCKET", socket))


def send(daemon, begin, end):
    r = random.Random(7)
    examples = [(f"s{n % 2}", [math.sin(n / 3), r.gauss(0, 1)], r.randrange(3)) for n in range(end)]
    socket = daemon.socket(running.zmq.PUSH, "examples")
    for key, x, y in examples[begin:end]:
        socket.send_multipart([key.encode(), np.array(x, "<f4").tobytes(), np.array([y], "<u4").tobytes()])
    running.wait_learned(daemon, end)


def test_published(directory):
    """The headline figures are those of the first output."""
    with start(directory) as daemon:
        subscriber = running.subscribe(daemon, (b"loss", b"prediction"))
        send(daemon, 0, 40)
        first, last = running.messages(daemon, subscriber, b"loss", 2)
        assert list(last["outputs"]) == ["next", "class", "before"]
        assert set(last["outputs"]["next"]) == set(last["outputs"]["before"]) == {"mean", "rmse"}
        assert set(last["outputs"]["class"]) == {"mean", "bits", "accuracy"}
        assert math.isclose(last["outputs"]["next"]["mean"], last["mean"], rel_tol=1e-12)
        assert math.isclose(last["outputs"]["next"]["rmse"], last["metric"]["rmse"], rel_tol=1e-12)
        assert math.isclose(last["outputs"]["class"]["bits"] * math.log(2), last["outputs"]["class"]["mean"])
        assert 0 < last["outputs"]["before"]["mean"] < 5 and first["outputs"] != last["outputs"]


def test_predicted(directory):
    """A prediction of each output."""
    with start(directory) as daemon:
        subscriber = running.subscribe(daemon)
        send(daemon, 0, 3)
        message = running.messages(daemon, subscriber, b"prediction", 3)[-1]
        assert len(message["prediction"]) == 2 and list(message["outputs"]) == ["class", "before"]
        assert math.isclose(sum(message["outputs"]["class"]), 1) and len(message["outputs"]["before"]) == 2


def test_words(directory):
    """In each output only words that have appeared are probable."""
    gru = "layers: [{cell: gru, size: 6}]"
    outputs = ", ".join(f"{{name: {target}, loss: softmax, target: {target}, sequence: {{{gru}}}}}"
                        for target in ("next", "previous"))
    model = (f"model: {{input: {{kind: symbol, vocabulary: {{capacity: 1000}}, sequence: {{{gru}}}}}, "
             f"layers: [], outputs: [{outputs}]}}")
    text = re.sub(r"model:.*?(?=learning:)", model + "\n", CONFIGURATION, flags=re.S)
    text = text.replace("SOCKETS", f"ipc://{directory}").replace("DIRECTORY", str(directory))
    with running.Daemon(directory, text.replace("SOCKET", "pull").replace("every: 20", "every: 2")) as daemon:
        subscriber, socket = running.subscribe(daemon, (b"loss",)), daemon.socket(running.zmq.PUSH, "examples")
        for x in ["a", "b"], ["a", "c"]:
            socket.send(json.dumps({"x": x}).encode())
        outputs = running.messages(daemon, subscriber, b"loss", 1)[0]["outputs"]
        assert all(0 < output["mean"] < 2 * math.log(5) for output in outputs.values()), outputs


def test_schema(directory):
    with start(directory, "router") as daemon:
        socket = daemon.socket(running.zmq.DEALER, "examples")
        socket.send(json.dumps({"schema": {"dtype": "float32", "columns": 2}}).encode())
        schema = json.loads(daemon.next_message(socket)[-1])
        assert schema["outputs"] == ["next", "class", "before"], schema
        assert (schema["target"], schema["targets"], schema["target_dtype"]) == ("given", 1, "uint32"), schema


def test_continued(directory):
    """A checkpoint contains all outputs, and the last x of each stream."""
    with start(directory) as daemon:
        send(daemon, 0, 60)
        whole = daemon.export()
        assert daemon.end() == 0
        daemon.start()
        running.wait_learned(daemon, 60)
        assert daemon.export() == whole
        send(daemon, 60, 90)
        continued = daemon.export()
    with start(directory / "whole") as daemon:
        send(daemon, 0, 90)
        assert daemon.export() == continued


def test_words(directory):
    """Of a vocabulary, only words that have come are likely, in each output."""
    outputs = ", ".join(f"{{name: {name}, loss: softmax, target: {name}, sequence: {{layers: [{{cell: gru, size: 4}}]}}}}"
                        for name in ("next", "previous"))
    model = f"""model:
  input: {{kind: symbol, vocabulary: {{capacity: 200}}, embedding: 3, sequence: {{layers: [{{cell: gru, size: 4}}]}}}}
  layers: []
  outputs: [{outputs}]
learning: {{window: 1, stride: 1}}
"""
    before, _, after = CONFIGURATION.partition("model:\n")
    text = (before + model + after[after.index("statistics:"):]).replace("every: 20", "every: 1")
    text = text.replace("SOCKETS", f"ipc://{directory}").replace("DIRECTORY", str(directory)).replace("SOCKET", "pull")
    with running.Daemon(directory, text) as daemon:
        subscriber = running.subscribe(daemon, (b"loss",))
        with daemon.socket(running.zmq.PUSH, "examples") as socket:
            for line in "the cat sat", "the dog sat", "a cat":
                socket.send(json.dumps({"x": line.split()}).encode())
            last = running.messages(daemon, subscriber, b"loss", 3)[-1]
        assert all(0 < output["mean"] < math.log(20) for output in last["outputs"].values()), last


cases.run(globals())
