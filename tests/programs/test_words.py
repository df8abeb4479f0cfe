#!/usr/bin/env python3
"""Words that become symbols and classes (docs/reference/words.md): shared vocabularies that reject
or forget words, hashed words, and classes that appear late. Also with duplicates, kills,
checkpoints and resets."""
import contextlib
import json
import os
import pathlib
import random
import signal
import sqlite3
import struct
import subprocess
import tempfile
import time

import cases
import running
import zmq
from running import Daemon, wait_learned

NEXT = "loss: softmax, target: next"
WORDS, WORD = 32, 0xFFFFFFFE
ACCEPTED, DUPLICATE, REJECTED = 0, 1, 2
VOCABULARY = 16  # the reason's number


def configuration(directory, inputs, output=NEXT, socket="pull", predictions="false",
                  optimizer="rate: 0.01", others="", device="cpu"):
    return f"""
name: words
device: {device}
model: {{input: {{{inputs}}}, layers: [{{cell: gru, size: 6}}], output: {{{output}}}}}
learning: {{window: 4, stride: 2, clip: 1, max_streams: 4, optimizer: {{{optimizer}}}}}
examples: {{bind: "ipc://{directory}/examples", socket: {socket}}}
statistics: {{bind: "ipc://{directory}/statistics", every: 1, predictions: {predictions}, top: 3}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 50, seconds: 0}},
        journal: {{keep: all}}}}
{others}"""


def vocabulary(capacity, **keys):
    members = "".join(f", {key}: {value}" for key, value in keys.items())
    return f"vocabulary: {{capacity: {capacity}{members}}}"


def as_json(**members):
    return [json.dumps(members).encode()]


def learn(daemon, messages, rejected=0):
    """Pushes messages after those learned before. Returns the status when they are in the journal.
    The last message must not be rejected."""
    before = daemon.ask("status")["examples"]
    with daemon.socket(zmq.PUSH, "examples") as socket:
        for message in messages:
            socket.send_multipart(message)
        status = wait_learned(daemon, before + len(messages) - rejected)
    end = time.monotonic() + running.LIMIT
    while (journal := status["journal"])["durable"] < journal["position"]:  # a kill may follow
        assert time.monotonic() < end, journal
        time.sleep(0.01)
        status = daemon.ask("status")
    return status


def exported(daemon):
    """Tensors and texts of an export."""
    blob = daemon.export()
    size = int.from_bytes(blob[:8], "little")
    header = json.loads(blob[8:8 + size])
    texts = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        numbers = struct.unpack(f"<{(end - begin) // 4}f", blob[8 + size + begin:8 + size + end])
        width = entry["shape"][1] if len(entry["shape"]) > 1 else 1
        tensors[name] = [numbers[i:i + width] for i in range(0, len(numbers), width)]
    return tensors, json.loads(texts["vocabulary"])


def chatter(count, names, seed=1):
    """Words of the streams a and b, from a vocabulary that grows meanwhile."""
    rng = random.Random(seed)
    return [as_json(stream=rng.choice("ab"), x=rng.choice(names[:2 + i * len(names) // count]))
            for i in range(count)]


NAMES = [f"web-{n}" for n in range(8)] + ["ä ö", 'q"', ""]


def test_ids_come_in_the_order_of_appearance():
    """Status and export contain the words in order; examples after the last one are unknown."""
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, "kind: symbol, embedding: 3, " +
                                            vocabulary(3))) as daemon:
        status = learn(daemon, [as_json(x=w) for w in ("b", "a", "b", "c", "d", "a", "e")])
        assert status["vocabulary"] == {
            "input": {"size": 3, "capacity": 3, "newest": ["c", "a", "b"]}}, status["vocabulary"]
        assert (status["words"], status["words_by"]) == (3, {"input": 3}), status
        assert status["words_capacity"] == {"input": 3}, status
        tensors, words = exported(daemon)
        assert words == {"input": ["b", "a", "c"]}
        assert len(tensors["embedding.weight"]) == len(tensors["output.weight"]) == 4
        daemon.end()
        text = pathlib.Path(__file__).parents[2].joinpath("docs/reference/journal.md").read_text("utf-8")
        query = text[text.index("WITH found(position"):].split(";")[0]
        with contextlib.closing(sqlite3.connect(daemon.directory / "state/journal.sqlite")) as file:
            found = file.execute(query).fetchall()
        assert found == [(n + 1, 1, word) for n, word in enumerate("babcdae")], found


def sweep(directory, inputs, output, messages, optimizer="rate: 0.01", device="cpu"):
    """The exports after all messages: of one run, after a kill and a restart, after a stop and a
    resume from a checkpoint, and after a reset with all messages again."""
    found = []
    text = configuration(directory, inputs, output, optimizer=optimizer, device=device)
    with Daemon(directory, text) as daemon:
        learn(daemon, messages)
        found.append(daemon.export())
        daemon.end(signal.SIGKILL)
        daemon.start()
        found.append(daemon.export())
        daemon.end()
        daemon.start()
        found.append(daemon.export())
        daemon.ask("reset")
        learn(daemon, messages)
        found.append(daemon.export())
        daemon.ask("checkpoint")
        daemon.end(signal.SIGKILL)
        daemon.start()
        found.append(daemon.export())
        daemon.end()
    return found


def test_the_same_examples_lead_to_the_same_words_and_bits():
    """With a kill, a checkpoint and a reset, for each treatment of words, for optimizers with and
    without moments, with starting values, with columns on the CUDA engine, and for messages."""
    chain = "sequence: {layers: [{cell: gru, size: 4}], longest: 5}"
    ways = [("kind: symbol, embedding: 3, " + vocabulary(20), NEXT, "rate: 0.01"),
            ("kind: symbol, " + vocabulary(4), NEXT + ", skip: true, ahead: [1, 3]",
             "rate: 0.01, kind: adamw, weight_decay: 0.1"),
            ("kind: symbol, embedding: 3, " + vocabulary(4, forget="lru"), NEXT, "kind: cocob"),
            ("kind: symbol, " + vocabulary(5, forget="lru"), NEXT, "rate: 0.01, kind: sgd"),
            ("columns: [{name: n}, {name: w, kind: symbol, embedding: 2, vocabulary: {capacity: 3, "
             "forget: lru}}, {name: v, kind: symbol, vocabulary: {capacity: 4}}]",
             NEXT + ", columns: [w]", "rate: 0.01, kind: adamw, weight_decay: 0.1"),
            ("kind: symbol, hash: 64, embedding: 3", NEXT, "rate: 0.01"),
            ("kind: symbol, hash: 64", NEXT + ", skip: true", "rate: 0.01"),
            ("columns: [{name: w, kind: symbol, hash: 64, embedding: 3}]", NEXT, "rate: 0.01"),
            ("kind: symbol, hash: 64, embedding: 3",
             "loss: softmax, " + vocabulary(3, forget="lru"), "rate: 0.01"),
            (f"kind: symbol, embedding: 3, {chain}, " + vocabulary(6, forget="lru"),
             NEXT + ", " + chain.split(", longest")[0] + "}", "kind: cocob"),
            (f"kind: symbol, {chain}, " + vocabulary(20), NEXT + ", " + chain.split(", longest")[0] + "}",
             "rate: 0.01, kind: adamw, weight_decay: 0.1"),
            (f"kind: symbol, {chain}, " + vocabulary(20), "loss: softmax, " + vocabulary(3, forget="lru"),
             "rate: 0.01, kind: adamw, weight_decay: 0.1")]
    for inputs, output, optimizer in ways:
        messages = chatter(200, NAMES)
        if "name: n" in inputs:
            rng = random.Random(4)
            messages = [as_json(stream=rng.choice("ab"), x={
                "n": rng.random(), "w": rng.choice(NAMES[:6]), "v": rng.choice(NAMES)})
                for _ in range(200)]
        if "sequence" in inputs:
            rng = random.Random(3)
            messages = [as_json(stream=rng.choice("ab"), x=rng.choices(NAMES, k=rng.randrange(1, 6)))
                        for _ in range(200)]
        if "next" not in output:
            rng = random.Random(2)
            messages = [as_json(**json.loads(m[0]), y=rng.choice(NAMES[:5])) for m in messages]
        cuda = ("cuda",) if "columns" in inputs and os.environ.get("RUNNEL_CUDA_MODULE") else ()
        for device in ("cpu", *cuda):
            some = messages if device == "cpu" else messages[:60]  # the CUDA engine is slow here
            with tempfile.TemporaryDirectory() as directory:
                found = sweep(directory, inputs, output, some, optimizer, device)
                assert len(set(found)) == 1, (device, inputs, [found[0] == f for f in found])


def test_forgotten_words_do_not_depend_on_restarts():
    """Words of a column, and classes from labels, take the ids of others. A kill and a stop do not
    change words or bits."""
    inputs = "columns: [{name: n}, {name: w, kind: symbol, embedding: 2, " + \
             vocabulary(3, forget="lru") + "}]"
    output = "loss: softmax, target: later, patience: 4, " + vocabulary(3, forget="lru")
    rng = random.Random(11)
    messages = []
    for n in range(150):
        messages += [as_json(stream="s", x={"n": rng.random(), "w": rng.choice(NAMES)},
                             sequence=2 * n),
                     as_json(stream="s", label_of=2 * max(0, n - n % 3), y=rng.choice(NAMES),
                             sequence=2 * n + 1)]  # of three, one is on time and two are late
    found = []
    for stops in ([], [100, 200], [99, 150]):
        with tempfile.TemporaryDirectory() as directory, \
                Daemon(directory, configuration(directory, inputs, output)) as daemon:
            for begin, end in zip([0, *stops], [*stops, len(messages)]):
                status = learn(daemon, messages[begin:end])
                assert status["labels"]["taken"] > 0, status["labels"]
                if end < len(messages):
                    daemon.end(signal.SIGKILL if end % 100 == 0 else signal.SIGTERM)
                    daemon.start()
            found.append(exported(daemon))
            daemon.end()
    assert found[0] == found[1] == found[2], [words for _, words in found]


def test_a_class_that_appears_late_is_predicted():
    """Before a class appears it has no probability. Then it begins with starting values and is soon
    predicted, by name. The baseline of the skill is the frequencies of classes that have
    appeared."""
    output = "loss: softmax, " + vocabulary(50)
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, "kind: real, size: 2", output,
                                            predictions="true",
                                            optimizer="rate: 0.03")) as daemon:
        subscriber = running.subscribe(daemon)
        rng = random.Random(3)
        kinds = {"free": [1, 0], "busy": [0, 1], "down": [-1, -1]}

        def some(count, names):
            for name in (rng.choice(names) for _ in range(count)):
                yield as_json(x=[v + rng.gauss(0, 0.1) for v in kinds[name]], y=name)

        before = exported(daemon)[0]
        learn(daemon, list(some(400, ["free", "busy"])))
        published = running.predictions(daemon, subscriber, 400)
        assert published[0]["prediction"] == {"words": [None], "probabilities": [1]}, published[0]
        assert published[0]["scored"]["target"] == "free" or published[0]["scored"]["target"] == "busy"
        assert all(set(s["prediction"]["words"]) <= {"free", "busy", None} for s in published)
        last = published[-1]["scored"]
        assert last["prediction"]["words"][0] == last["target"], last
        assert sum(last["baseline"]["probabilities"]) > 0.999, last["baseline"]
        rows = exported(daemon)[0]
        assert rows["output.weight"][2] == before["output.weight"][2]  # not changed by learning
        learn(daemon, list(some(1, ["down"])))
        status = learn(daemon, list(some(300, list(kinds))))
        published = running.predictions(daemon, subscriber, 301)
        first = published[0]["scored"]
        assert first["target"] == "down" and "down" not in first["prediction"]["words"], first
        assert first["loss"] < 20, first  # scored as the unknown
        assert "down" in published[1]["prediction"]["words"], published[1]  # immediately
        right = [s["scored"]["prediction"]["words"][0] == s["scored"]["target"] for s in published[-100:]]
        assert sum(right) > 90, sum(right)
        assert status["skill"] > 0, status["skill"]
        daemon.end()


def test_classes_that_have_not_come_stay_out():
    """Weight decay does not change the biases of classes that have not appeared, even between two
    examples, so their probability stays 0, also after a kill. Figures of updates do not include
    them."""
    for kind, rate, decay in (("adam", 0.01, 0), ("adam", 0.5, 0.5), ("adamw", 0.1, 2), ("sgd", 0.1, 1),
                              ("rmsprop", 0.1, 0.5), ("cocob", "auto", 0.5)):
        optimizer = f"rate: {rate}, kind: {kind}, weight_decay: {decay}"
        with tempfile.TemporaryDirectory() as directory, \
                Daemon(directory, configuration(directory, "kind: real, size: 1", "loss: softmax, " +
                                                vocabulary(50), predictions="true", optimizer=optimizer)
                       .replace("stride: 2", "stride: 1")) as daemon:
            subscriber = running.subscribe(daemon)
            status = learn(daemon, [as_json(x=[i % 2], y="ab"[i % 2]) for i in range(20)])
            assert decay or status["update_ratio"] > 1e-3, status["update_ratio"]
            learn(daemon, [as_json(x=[i % 2], y="ab"[i % 2]) for i in range(600)] +
                  [as_json(x=[[i % 2] for i in range(200)], y=["ab"[i % 2] for i in range(200)])])
            for published in running.predictions(daemon, subscriber, 620):
                assert sum(published["prediction"]["probabilities"]) > 1 - 1e-7, published
            bias = exported(daemon)[0]["output.bias"]
            assert all(b[0] == -200 for b in bias[2:50]), bias
            before = daemon.export()
            daemon.end(signal.SIGKILL)
            daemon.start()
            assert daemon.export() == before
            daemon.end()


def test_classes_of_every_output_are_hidden():
    """In a list each output has one row a class; those that have not occurred stay hidden."""
    outputs = "outputs: [{name: a, loss: softmax, target: next}, {name: b, loss: softmax, target: previous}]"
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, "kind: symbol, embedding: 3, " + vocabulary(9))
                   .replace("output: {" + NEXT + "}", outputs)) as daemon:
        learn(daemon, [as_json(x="pqr"[i % 3]) for i in range(30)])
        tensors = exported(daemon)[0]
        for name in "ab":
            bias = [b[0] for b in tensors[f"outputs.{name}.bias"]]
            assert [b == -200 for b in bias] == [False] * 3 + [True] * 6 + [False], bias
        daemon.end()


def test_a_class_that_comes_while_a_prediction_waits():
    """A class appears between a prediction and its target, in another stream or a label. If the
    target is that class, it is scored as the unknown. Kills and stops do not change a bit."""
    rng = random.Random(12)
    words = [as_json(stream=f"s{n % 5}", x=rng.choice(NAMES[:2 + n // 15])) for n in range(120)]
    words += [as_json(stream=s, x=w) for w in ("x", "y", "z") for s in ("s0", "s1", "s2")]
    labels = []
    for n in range(60):
        labels.append(as_json(stream="s", x=[n % 2], sequence=2 * n))
        if n > 2:
            labels.append(as_json(stream="s", label_of=2 * (n - 3), y=NAMES[n // 8],
                                  sequence=2 * n + 1))
    ways = [("kind: symbol, " + vocabulary(20), NEXT, words),
            ("kind: symbol, " + vocabulary(4, forget="lru"), NEXT + ", ahead: [1, 3]", words),
            ("kind: real, size: 1", "loss: softmax, target: later, patience: 9, " + vocabulary(20), labels)]
    for inputs, output, messages in ways:
        found = []
        for stops in ([], [len(messages) - 5, len(messages) - 2]):
            with tempfile.TemporaryDirectory() as directory, \
                    Daemon(directory, configuration(directory, inputs, output)) as daemon:
                for n, (begin, end) in enumerate(zip([0, *stops], [*stops, len(messages)])):
                    subscriber = running.subscribe(daemon, (b"loss",))
                    learn(daemon, messages[begin:end])
                    published = running.messages(daemon, subscriber, b"loss", end - begin)
                    losses = [s["loss"] for s in published if s["loss"] is not None]
                    assert losses and max(losses) < 20, (inputs, output, max(losses))
                    if stops[n:]:
                        daemon.end((signal.SIGTERM, signal.SIGKILL)[n])
                        daemon.start()
                found.append(exported(daemon))
                daemon.end()
        assert found[0] == found[1], (inputs, output)


def test_people_see_words():
    """runnel-watch shows the observed and the most probable class by name."""
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, "kind: real, size: 1", "loss: softmax, " +
                                            vocabulary(5), predictions="true")) as daemon:
        learn(daemon, [as_json(x=[i % 2], y=["free", "busy"][i % 2]) for i in range(400)])
        watch = subprocess.Popen([program("runnel-watch"), "--connect", daemon.endpoint("statistics"),
                                  "--topic", "prediction", "--all", "--count", "3"], text=True,
                                 stdout=subprocess.PIPE)
        end = time.monotonic() + running.LIMIT
        while watch.poll() is None:
            assert time.monotonic() < end
            learn(daemon, [as_json(x=[1], y="busy")])
        # It reports that it waits for the daemon if a connection takes a second.
        lines = [line.split() for line in watch.stdout if "waiting for a daemon" not in line]
        assert lines[0] == ["time", "stream", "truth", "forecast", "share", "baseline"], lines
        assert all(line[-4:-2] == ["busy", "busy"] for line in lines[1:]), lines
        assert float(lines[1][-2]) > 0.5, lines
        watch.stdout.close()
        daemon.end()


def test_a_word_takes_the_id_that_was_used_longest_ago():
    """With forget: lru; its rows begin with starting values."""
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, "kind: symbol, embedding: 3, " +
                                            vocabulary(3, forget="lru"))) as daemon:
        start = exported(daemon)[0]["embedding.weight"]
        learn(daemon, [as_json(x=w) for w in ["a", "b", "c"] * 20 + ["a", "c"] * 4])
        assert all(row != start[i] for i, row in
                   enumerate(exported(daemon)[0]["embedding.weight"][:3]))
        learn(daemon, [as_json(x="d")])
        tensors, words = exported(daemon)
        assert words == {"input": ["a", "d", "c"]}, words
        assert tensors["embedding.weight"][1] == start[1]
        assert all(tensors["embedding.weight"][i] != start[i] for i in (0, 2))
        status = learn(daemon, [as_json(x="c"), as_json(x="e")])
        assert exported(daemon)[1] == {"input": ["e", "d", "c"]}
        assert status["vocabulary"]["input"]["newest"] == ["e", "d", "c"], status["vocabulary"]
        daemon.end()


def test_a_column_of_words_forgets_its_own_rows():
    """Next to other columns, one-hot: only the word's column of the first layer begins again."""
    columns = "columns: [{name: n}, {name: w, kind: symbol, " + vocabulary(3, forget="lru") + "}]"
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, columns, "loss: squared, size: 1")) as daemon:

        def some(words):
            return [as_json(x={"n": i % 5, "w": w}, y=[i % 3]) for i, w in enumerate(words)]

        start = exported(daemon)[0]["layers.0.weight_ih"]
        learn(daemon, some(["a", "b", "c"] * 20 + ["a", "c"] * 4))
        learned = exported(daemon)[0]["layers.0.weight_ih"]
        assert all(learned[0][k] != start[0][k] for k in range(4))
        learn(daemon, [as_json(x={"n": 1, "w": "d"})])  # without a target there is no update
        tensors, words = exported(daemon)
        after = tensors["layers.0.weight_ih"]
        assert words == {"w": ["a", "d", "c"]}, words
        for g, row in enumerate(after):
            assert row[2] == start[g][2] and row[4] == start[g][4], g  # of d, and of the unknown
            assert [row[k] for k in (0, 1, 3)] == [learned[g][k] for k in (0, 1, 3)], g
        daemon.end()


def test_words_beyond_the_capacity_are_rejected():
    """With unknown: reject the whole example is rejected, counted by reason, and named. Its other
    new words stay."""
    output = "loss: softmax, " + vocabulary(2, unknown="reject")
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, "kind: symbol, " +
                                            vocabulary(2, unknown="reject"), output)) as daemon:
        subscriber = running.subscribe(daemon, (b"event",))
        learn(daemon, [as_json(x="a", y="free"), as_json(x="b", y="free")])
        status = learn(daemon, [as_json(x="c", y="busy"),
                                as_json(x=["a", "b"], y=["busy", "free"])], 1)
        assert status["rejected_by"] == {"vocabulary": 1}, status["rejected_by"]
        assert status["vocabulary"]["output"]["newest"] == ["busy", "free"]
        status = learn(daemon, [as_json(x="a", y="down"), as_json(x="a")], 1)
        assert status["rejected_by"] == {"vocabulary": 2}, status["rejected_by"]
        text = ""
        while "unknown word 'c': the vocabulary of model.input is full" not in text:
            topic, body = daemon.next_message(subscriber)
            text = json.loads(body).get("text", "") if topic == b"event" else text
        daemon.end()
    columns = "columns: [{name: w, kind: symbol, " + vocabulary(1, unknown="reject") + "}, {name: n}]"
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, columns, "loss: squared, size: 1")) as daemon:
        learn(daemon, [as_json(x=["a", 1]), as_json(x=["b", 1]), as_json(x=["a", 1])], 1)
        daemon.end()
        assert "unknown word 'b': the vocabulary of x's column w is full" in daemon.text()


def test_an_example_forgets_none_of_its_own_words():
    """With forget: lru an example with a new word keeps its other words, by word and by id. A word
    without a place is the unknown; with unknown: reject the example is rejected."""
    for unknown in ("share", "reject"):
        inputs = "kind: symbol, embedding: 3, " + vocabulary(3, forget="lru", unknown=unknown)
        with tempfile.TemporaryDirectory() as directory, \
                Daemon(directory, configuration(directory, inputs, "loss: squared, size: 1")) as daemon:
            learn(daemon, [as_json(x=w, y=1) for w in "abc"])
            learn(daemon, [as_json(x=["d", "a"], y=[1, 1])])
            assert exported(daemon)[1] == {"input": ["a", "d", "c"]}, exported(daemon)[1]
            learn(daemon, [as_json(x=["e", "c", "a"], y=[1, 1, 1])])
            assert exported(daemon)[1] == {"input": ["a", "e", "c"]}, exported(daemon)[1]
            many = [as_json(x=["f", "e", "c", "a"], y=[1] * 4), as_json(x=["g", "a"], y=[1, 1]),
                    [b"", struct.pack("<III", WORD, 0, 2), b"", header(0, WORDS), packed("h")]]
            rejected = 0 if unknown == "share" else 1
            status = learn(daemon, many, rejected)
            assert status["rejected_by"] == ({"vocabulary": 1} if rejected else {}), status["rejected_by"]
            assert exported(daemon)[1] == {"input": ["a", "h", "c"]}, exported(daemon)[1]
            daemon.end()


def header(number, flags=0):
    return struct.pack("<BBHIQd", 1, flags, 0, 0, number, 0)


def packed(*words):
    return b"".join(bytes([len(w.encode())]) + w.encode() for w in words)


def binary(number, cells, words=(), flags=None):
    flags = (WORDS if words else 0) if flags is None else flags
    frames = [b"s", struct.pack(f"<{len(cells)}I", *cells), b"", header(number, flags)]
    return frames + ([packed(*words)] if words else [])


def answers(daemon, socket, messages):
    found = []
    for message in messages:
        socket.send_multipart(message)
        frames = daemon.next_message(socket)
        found.append(struct.unpack("<BBHIQQ", frames[1])[1:3])
    return found


def test_many_new_words_in_one_example():
    """As many new words as an example has steps: the check for places is fast. (It once took two
    minutes without any answers of the daemon.)"""
    steps, capacity = 4096, 4000
    inputs = "kind: symbol, " + vocabulary(capacity, unknown="reject")
    output = "loss: squared, size: 1, target: given"
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, inputs, output)) as daemon:
        many = [f"w{n}" for n in range(steps)]
        few = [f"w{n % 3}" for n in range(steps // 16)]
        status = learn(daemon, [as_json(x=many), as_json(x=few), as_json(x="w3", y=1)], rejected=1)
        assert status["rejected_by"] == {"vocabulary": 1}, status["rejected_by"]
        assert status["vocabulary"]["input"]["size"] == 4, status["vocabulary"]


def test_duplicates_and_rejected_examples_create_no_ids():
    """Ids are assigned in the order of learning. Binary messages may contain words, too."""
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, "kind: symbol, " + vocabulary(3),
                                            socket="router")) as daemon:
        with daemon.socket(zmq.DEALER, "examples") as socket:
            found = answers(daemon, socket, [
                binary(1, [WORD], ["a"]), binary(1, [WORD], ["a"]), binary(1, [WORD], ["z"]),
                binary(2, [WORD, 0, WORD], ["b", "a"]),
                as_json(stream="s", x="c", sequence=3), as_json(stream="s", x="c", sequence=3)])
            assert [f[0] for f in found] == [ACCEPTED, DUPLICATE, REJECTED, ACCEPTED, ACCEPTED,
                                             DUPLICATE], found
            bad = [binary(4, [WORD]), binary(4, [1], ["a"]), binary(4, [WORD], ["a", "b"]),
                   binary(4, [WORD], ["a"])[:4], binary(4, [4]), binary(4, [0])[:4] + [b"\1a"],
                   binary(4, [WORD], ["a"])[:4] + [b"\5a"], binary(4, [WORD], ["a"])[:4] + [b"\1\xff"],
                   binary(4, [WORD], ["a"])[:4] + [b"\3a\0b"],
                   as_json(stream="s", x="a\0b", sequence=4),
                   as_json(stream="s", x=1, sequence=4), as_json(stream="s", x="a" * 256, sequence=4),
                   as_json(stream="s", x=["a", None], sequence=4),
                   as_json(stream="s", x={"a": 1}, sequence=4)]
            found = answers(daemon, socket, bad)
            assert {f[0] for f in found} == {REJECTED}, found
            assert answers(daemon, socket, [binary(4, [3]), binary(5, [2])]) == [(0, 0)] * 2
        assert exported(daemon)[1] == {"input": ["a", "b", "c"]}
        daemon.end()


def hashed(word, size):
    """The hash of docs/reference/words.md: the topmost bit is the sign."""
    value = 0xCBF29CE484222325
    for byte in word.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value % size | value >> 63 << 31


def test_a_hashed_word_has_a_sign():
    """Two words with the same symbol may differ in sign. JSON and binary messages are equivalent; a
    target is only the symbol."""
    words = [f"user-{n}" for n in range(200)]
    plus, minus = (next(w for w in words if hashed(w, 8) == 3 | sign << 31) for sign in (0, 1))
    same = next(w for w in words if w != plus and hashed(w, 8) == 3)
    for inputs in ("kind: symbol, hash: 8", "kind: symbol, hash: 8, embedding: 3",
                   "columns: [{name: user, kind: symbol, hash: 8, embedding: 3}]"):
        found = {}
        for way, other in (("json", minus), ("binary", minus), ("same", same), ("plus", plus)):
            rng = random.Random(9)
            sent = [rng.choice([plus, other]) for _ in range(60)]
            messages = [as_json(x=[w]) if way != "binary" else
                        [b"", struct.pack("<I", hashed(w, 8))] for w in sent]
            with tempfile.TemporaryDirectory() as directory, \
                    Daemon(directory, configuration(directory, inputs)) as daemon:
                status = learn(daemon, messages)
                assert status["rejected"] == 0, status["rejected_by"]
                assert status["metric"]["accuracy"] > 0.5, status["metric"]  # always symbol 3
                found[way] = daemon.export()
                daemon.end()
        assert found["json"] == found["binary"] and found["same"] == found["plus"], inputs
        assert found["json"] != found["plus"], inputs


def test_labels_name_classes():
    """A label brings a class by name. Examples of an older daemon have none."""
    output = "loss: softmax, target: later, patience: 5, " + vocabulary(9)
    with tempfile.TemporaryDirectory() as directory:
        found = []
        with Daemon(directory, configuration(directory, "kind: real, size: 1", output)) as daemon:
            messages = []
            for n in range(40):
                messages += [as_json(stream="s", x=[n % 2], sequence=2 * n),
                             as_json(stream="s", label_of=2 * n, y="odd" if n % 2 else "even",
                                     sequence=2 * n + 1)]
            status = learn(daemon, messages)
            assert status["vocabulary"]["output"]["newest"] == ["odd", "even"]
            assert status["metric"]["accuracy"] > 0.9, status["metric"]
            for end in (signal.SIGKILL, signal.SIGTERM):
                found.append(daemon.export())
                daemon.end(end)
                daemon.start()
            found.append(daemon.export())
            daemon.end()
        assert len(set(found)) == 1


def test_a_checkpoint_of_another_vocabulary_is_refused():
    with tempfile.TemporaryDirectory() as directory:
        for capacity in (5, 6):
            text = configuration(directory, "kind: symbol, " + vocabulary(capacity))
            with Daemon(directory, text) as daemon:
                if capacity == 5:
                    learn(daemon, chatter(60, NAMES))
                    daemon.end()
                else:
                    assert daemon.process.wait(running.LIMIT) == 78
                    assert "has another configuration" in daemon.text()


def test_weights_of_a_file_bring_their_words():
    """A daemon starts with an export: its rows belong to the same words, also after a reset and a
    kill, and new words follow them. A file with other words is rejected."""
    inputs = "columns: [{name: n}, {name: w, kind: symbol, " + vocabulary(4, forget="lru") + "}]"
    output = "loss: softmax, " + vocabulary(4)
    rng = random.Random(2)
    messages = [as_json(x=[rng.random(), w := rng.choice("abc")], y=w) for _ in range(80)]
    with tempfile.TemporaryDirectory() as directory:
        start = f"initial: {directory}/start, input"
        with Daemon(directory, configuration(directory, inputs, output)) as daemon:
            learn(daemon, messages)
            blob = daemon.export()
            (daemon.directory / "start").write_bytes(blob)
            tensors, words = exported(daemon)
            daemon.end()

        def configured(other, inputs=inputs, output=output):
            return configuration(other, inputs, output, predictions="true").replace("input", start, 1)

        with tempfile.TemporaryDirectory() as other, Daemon(other, configured(other)) as daemon:
            found = []
            for _ in range(2):
                assert exported(daemon) == (tensors, words)
                subscriber = running.subscribe(daemon)
                learn(daemon, [as_json(x=[0.5, "b"], y="c")])
                published = running.predictions(daemon, subscriber, 1)[0]["scored"]["prediction"]
                # before the word has appeared here
                assert len({"a", "b", "c"} & set(published["words"])) > 1, published
                status = learn(daemon, [as_json(x=[0.5, "new"], y="other"),
                                        as_json(x=[0.5, "newer"], y="b")])
                oldest = next(word for word in words["w"] if word != "b")  # not used here
                assert set(exported(daemon)[1]["w"]) == {*"abc", "new", "newer"} - {oldest}
                assert status["vocabulary"]["output"]["newest"][0] == "other"
                found.append(daemon.export())
                daemon.end(signal.SIGKILL)
                daemon.start()
                assert daemon.export() == found[-1]
                daemon.ask("reset")
            assert len(set(found)) == 1
            daemon.end()

        refused = [(inputs.replace("name: w", "name: v"), output, '"w"'),
                   ("columns: [{name: n}, {name: w, kind: symbol, size: 5}]", output, '"w"'),
                   (inputs, "loss: softmax, size: 5", '"output"')]
        for changed, of_output, name in refused:
            with tempfile.TemporaryDirectory() as other, \
                    Daemon(other, configured(other, changed, of_output)) as daemon:
                assert daemon.process.wait(running.LIMIT) == 78
                assert f"vocabulary {name}" in daemon.text(), daemon.text()
                assert "belongs to another model" in daemon.text(), daemon.text()


def decoded(blob):
    """Header and numbers of a safetensors file."""
    size = int.from_bytes(blob[:8], "little")
    return json.loads(blob[8:8 + size]), struct.unpack(f"<{(len(blob) - 8 - size) // 4}f", blob[8 + size:])


def made_by_hand(blob):
    """The same tensors without metadata, with 0.25 added to each number."""
    header, numbers = decoded(blob)
    del header["__metadata__"]
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + struct.pack(f"<{len(numbers)}f",
                                                                *(n + 0.25 for n in numbers))


def test_words_that_a_file_lacks_begin_with_the_values_of_the_seed():
    """A word without a row in the file of model.initial begins as without a file, also with decay,
    skip and lru. The file may be made by hand or an export. The unknown begins with the file's
    row."""
    for embedding, lru, skip, optimizer in (
            (", embedding: 3", "", "", "rate: 0.01"), ("", "", ", skip: true", "rate: 0.01"),
            (", embedding: 3", "", "", "rate: 0.01, kind: adamw, weight_decay: 0.5"),
            ("", ", forget: lru", ", skip: true", "kind: cocob")):
        inputs = f"columns: [{{name: n}}, {{name: w, kind: symbol{embedding}, " + \
                 f"vocabulary: {{capacity: 4{lru}}}}}]"
        output = f"loss: softmax, vocabulary: {{capacity: 4{lru}}}{skip}"

        def rows(tensors, symbol, kind):
            return [tensors["embedding.w.weight"][symbol] if embedding else
                    [row[1 + symbol] for row in tensors["layers.0.weight_ih"]],
                    *(tensors[name][kind] for name in ("output.weight", "output.bias", "output.skip")
                      if name in tensors)]

        def run(file, word, kind):
            """The initial parameters of a daemon, those after two new words without an update, and
            its export."""
            with tempfile.TemporaryDirectory() as directory:
                text = configuration(directory, inputs, output, optimizer=optimizer, others="seed: 5")
                if file:
                    pathlib.Path(directory, "file").write_bytes(file)
                    text = text.replace("model: {", f"model: {{initial: {directory}/file, ")
                with Daemon(directory, text) as daemon:
                    start = exported(daemon)[0]
                    learn(daemon, [as_json(x=[0.5, "a"])] * 3 + [as_json(x=[0.5, "a"], y="free")] * 10)
                    learn(daemon, [as_json(x=[0.5, "a"], y=kind), as_json(x=[0.5, word])])
                    tensors, words = exported(daemon)
                    found = rows(tensors, words["w"].index(word), words["output"].index(kind))
                    blob = daemon.export()
                    daemon.end()
            return start, found, blob

        way = embedding, lru, skip, optimizer
        without, seeds, blob = run(None, "b", "busy")
        start, found, other = run(made_by_hand(blob), "b", "busy")
        assert found == seeds, way
        unknown = rows(start, 4, 4)
        assert unknown[0] != rows(without, 4, 4)[0] and unknown[1] != rows(without, 4, 4)[1], way
        start, found, _ = run(other, "c", "down")  # with a, b, free, busy
        assert found[:2] == rows(without, 2, 2)[:2], way
        assert start["output.bias"][0][0] > -100 > start["output.bias"][2][0], way


# ---- Columns by name ----

MIXED = """columns: [{name: load, missing: hold}, {name: host, kind: symbol, embedding: 2,
  vocabulary: {capacity: 3}}, {name: zone, kind: symbol, hash: 16}, {name: rack, kind: symbol,
  size: 3}, {name: hour, kind: cycle, period: 24}]"""
SQUARED = "loss: squared, target: given, size: 1"


def row(load, host, zone, rack=0, hour=1.5):
    return {"load": load, "host": host, "zone": zone, "rack": rack, "hour": hour}


def test_names_numbers_and_words_are_equivalent():
    """An x with names in any order, with several steps, by place, or in binary leads to the same
    bits. A missing name is a missing value."""
    rng = random.Random(5)
    rows = [row(rng.choice([rng.random(), None]), rng.choice(["a", "b", "c", "d"]),
                rng.choice(["north", "south", "ost"]), rng.randrange(3), rng.random() * 24)
            for _ in range(120)]
    for some in rows:
        some["hour"] = struct.unpack("<f", struct.pack("<f", some["hour"]))[0]
        if some["load"] is not None:
            some["load"] = struct.unpack("<f", struct.pack("<f", some["load"]))[0]

    def shuffled(some):
        members = [m for m in some.items() if m[1] is not None]
        rng.shuffle(members)
        return dict(members)

    def packed_row(some):
        load = float("nan") if some["load"] is None else some["load"]
        return struct.pack("<fIIIf", load, WORD, hashed(some["zone"], 16), some["rack"],
                           some["hour"])

    def targets(count):
        return [[i % 3] for i in range(count)]

    ways = {
        "names": [as_json(x=some, y=[i % 3]) for i, some in enumerate(rows)],
        "shuffled": [as_json(x=shuffled(some), y=[i % 3]) for i, some in enumerate(rows)],
        "place": [as_json(x=list(some.values()), y=[i % 3]) for i, some in enumerate(rows)],
        "binary": [[b"", packed_row(some), struct.pack("<f", i % 3), header(0, WORDS),
                    packed(some["host"])] for i, some in enumerate(rows)],
    }
    found = {}
    for way, messages in ways.items():
        with tempfile.TemporaryDirectory() as directory, \
                Daemon(directory, configuration(directory, MIXED, SQUARED)) as daemon:
            status = learn(daemon, messages)
            assert status["rejected"] == 0, status["rejected_by"]
            assert status["vocabulary"]["host"]["size"] == 3, status["vocabulary"]
            found[way] = daemon.export()
            daemon.end(signal.SIGKILL)
            daemon.start()
            assert daemon.export() == found[way], way
            daemon.end()
    assert len(set(found.values())) == 1, [w for w in found if found[w] != found["names"]]
    steps = {}
    for way, x in (("names", [shuffled(some) for some in rows]),
                   ("place", [list(some.values()) for some in rows])):
        with tempfile.TemporaryDirectory() as directory, \
                Daemon(directory, configuration(directory, MIXED, SQUARED)) as daemon:
            learn(daemon, [as_json(x=x, y=targets(len(x)))])
            steps[way] = daemon.export()
            daemon.end()
    assert steps["names"] == steps["place"]


def test_missing_columns_are_named():
    """For unknown and missing columns, text for a number and a number for text, the whole example
    is rejected, and the reason names the column."""
    good = row(0.5, "a", "north")
    known = ", ".join(good)
    bad = [({**good, "lod": 1}, "json", f"'lod', expected {known}"), ({**good, "load": "high"}, "x_value", "load"),
           ({**good, "host": 7}, "x_value", "host"), ({**good, "zone": None}, "x_value", "zone"),
           ({**good, "rack": "left"}, "x_value", "rack"), ({**good, "rack": 3}, "x_value", "rack"),
           ({n: v for n, v in good.items() if n != "hour"}, "x_value", "hour"),
           ({n: v for n, v in good.items() if n != "host"}, "x_value", "host"),
           ([good, {**good, "hour": []}], "x_value", "hour"), ([good, 1], "json", "a number"),
           ([0.5, 7, "north", 0, 1.5], "x_value", "host")]
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, MIXED, SQUARED, socket="router")) as daemon:
        with daemon.socket(zmq.DEALER, "examples") as socket:
            subscriber = running.subscribe(daemon, (b"event",))
            for number, (x, reason, name) in enumerate(bad):
                socket.send_multipart(as_json(x=x, sequence=number))
                frames = daemon.next_message(socket)
                assert frames[1][1] == REJECTED, (x, frames)
            socket.send_multipart(as_json(x=good, sequence=99))
            assert daemon.next_message(socket)[1][1] == ACCEPTED
            status = wait_learned(daemon, 1)
            reasons = [reason for _, reason, _ in bad]
            assert status["rejected_by"] == {r: reasons.count(r) for r in reasons}, status
        daemon.end()
        text = ""
        while "stopping" not in text:
            topic, body = daemon.next_message(subscriber)
            event = json.loads(body)
            text = event.get("kind", "")
    for x, reason, name in bad:  # one at a time, in separate daemons: each has its own event
        with tempfile.TemporaryDirectory() as directory, \
                Daemon(directory, configuration(directory, MIXED, SQUARED)) as daemon:
            learn(daemon, [as_json(x=x), as_json(x=good)], 1)
            daemon.end()
            assert f"({reason})" in daemon.text() and name in daemon.text(), (x, daemon.text())


def test_targets_have_names():
    """The y of an example or a label may name numbers in any order, with the same bits as a list; a
    missing name is not observed. Classes are named, too. Unknown names are rejected by name."""
    rng = random.Random(6)
    rows = [(rng.random(), rng.choice([rng.random(), None])) for _ in range(60)]
    ways = {"list": [list(r) for r in rows],
            "names": [{"power": p, "load": n} if rng.random() < 0.5 else
                      {n: v for n, v in (("load", n), ("power", p)) if v is not None}
                      for n, p in rows]}
    for target in ("given", "later, patience: 3"):
        found, output = {}, f"loss: squared, target: {target}, columns: [load, power]"
        for way, ys in ways.items():
            messages = []
            for n, y in enumerate(ys):
                x = {"stream": "s", "x": [n % 3], "sequence": 2 * n}
                messages += ([as_json(**x, y=y)] if target == "given" else
                             [as_json(**x), as_json(stream="s", label_of=2 * n, y=y, sequence=2 * n + 1)])
            with tempfile.TemporaryDirectory() as directory, \
                    Daemon(directory, configuration(directory, "kind: real, size: 1", output)) as daemon:
                status = learn(daemon, messages)
                assert status["rejected"] == 0, status["rejected_by"]
                assert status["target_names"] == "load, power", status["target_names"]
                found[way] = daemon.export()
                daemon.end()
        assert found["list"] == found["names"], target
    output = "loss: softmax, columns: [state], " + vocabulary(3)
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, "kind: real, size: 1", output, "router")) as daemon:
        tried = [({"x": [1], "y": {"state": "free"}}, None), ({"x": [1], "y": "busy"}, None),
                ({"x": [1], "y": {"state": None}}, None), ({"x": [1], "y": {}}, None),
                ({"x": [1], "y": {"stat": "free"}}, b"'stat'"),
                ({"x": [1], "y": {"state": 3}}, b"y's column state"),
                ({"schema": {"targets": ["state"]}}, None), ({"schema": {"targets": 1}}, None),
                ({"schema": {"targets": ["load"]}}, b"'state'")]
        with daemon.socket(zmq.DEALER, "examples") as socket:
            for number, (members, wrong) in enumerate(tried):
                if "x" in members:
                    members["sequence"] = number
                socket.send_multipart(as_json(**members))
                frames = daemon.next_message(socket)
                assert frames[1][1] == (REJECTED if wrong else ACCEPTED), (members, frames)
                assert not wrong or "x" in members or wrong in frames[2], (members, frames)
                if "schema" in members and not wrong:
                    assert json.loads(frames[2])["target_names"] == ["state"], frames
        status = wait_learned(daemon, 4)
        assert status["vocabulary"]["output"]["newest"] == ["busy", "free"], status
        assert status["rejected_by"] == {"json": 1, "y_value": 1, "schema": 1}, status["rejected_by"]
        daemon.end()
        for name in ("'stat'", "y's column state"):
            assert name in daemon.text(), daemon.text()


def test_a_schema_names_columns_and_kinds():
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, MIXED, SQUARED, socket="router")) as daemon:
        with daemon.socket(zmq.DEALER, "examples") as socket:
            names = ["load", "host", "zone", "rack", "hour"]
            kinds = [{"name": n, "kind": k} for n, k in
                     zip(names, ["real", "symbol", "symbol", "symbol", "cycle"])]
            tried = [({"columns": names, "dtype": "mixed", "targets": 1}, None),
                    ({"columns": kinds}, None), ({"columns": 5}, None),
                    ({"columns": ["load", "zone", "host", "rack", "hour"]}, b"'host'"),
                    ({"columns": kinds[:4] + [{"name": "hour", "kind": "real"}]}, b"'hour'"),
                    ({"names": names[::-1]}, None), ({"names": names[1:], "targets": 1}, None),
                    ({"names": names[:4]}, b"no column hour"),
                    ({"names": [*names, "lod"]}, b"'lod'"), ({"names": 5}, b"must be a list"),
                    ({"columns": names[:4]}, b"expected 5"), ({"dtype": "float32"}, b"float32")]
            for schema, wrong in tried:
                socket.send_multipart(as_json(schema=schema))
                frames = daemon.next_message(socket)
                assert frames[1][1] == (REJECTED if wrong else ACCEPTED), (schema, frames)
                assert not wrong or wrong in frames[2], (schema, frames)
        daemon.end()


def program(name):
    return running.PROGRAM.with_name(name)


def test_lines_of_words_and_the_journal_are_sent_again():
    """runnel-feed json sends words and columns by name. runnel-replay sends them from the journal
    to another daemon, which then has the same words and bits."""
    rng = random.Random(8)
    output = "loss: softmax, " + vocabulary(3)
    lines = [json.dumps({"stream": rng.choice("ab"), "y": rng.choice(NAMES),
                         "x": {"n": rng.random(), "w": rng.choice(NAMES)}}) for _ in range(60)]
    inputs = "columns: [{name: n}, {name: w, kind: symbol, " + vocabulary(4, forget="lru") + "}]"
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second, \
            Daemon(first, configuration(first, inputs, output, "router")) as daemon:
        subprocess.run([program("runnel-feed"), "json", "--socket", "router", "--connect",
                        daemon.endpoint("examples"), "--quiet"], check=True, text=True,
                       input="\n".join(lines), timeout=running.LIMIT)
        wait_learned(daemon, 60)
        before = exported(daemon)
        daemon.end()
        with Daemon(second, configuration(second, inputs, output, "router")) as other:
            subprocess.run([program("runnel-replay"), daemon.directory / "state", "--socket",
                            "router", "--connect", other.endpoint("examples"), "--quiet"],
                           check=True, timeout=running.LIMIT)
            wait_learned(other, 60)
            assert exported(other) == before
            other.end()


def test_a_table_of_words_is_learned_with_one_command():
    """runnel-feed csv --names: three columns of words, five of numbers, and a class by name."""
    columns = ", ".join(f"{{name: n{k}}}" for k in range(5)) + ", " + ", ".join(
        f"{{name: w{k}, kind: symbol, {vocabulary(20)}, embedding: 3}}" for k in range(3))
    output = "loss: softmax, " + vocabulary(5)
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as directory, \
            Daemon(directory, configuration(directory, f"scale: standard, columns: [{columns}]",
                                            output, "router", optimizer="rate: 0.02")) as daemon:
        table = daemon.directory / "table.csv"
        with open(table, "w", encoding="utf-8") as file:
            print("w0,n0,n1,w1,n2,n3,n4,w2,class", file=file)
            for _ in range(1200):
                n, w = [rng.random() for _ in range(5)], [rng.choice("ab7") for _ in range(3)]
                kind = "busy" if (n[0] > 0.5) != (w[0] == "7") else "free"
                print(w[0], n[0], n[1], w[1], n[2], n[3], n[4], w[2], kind, sep=",", file=file)
        subprocess.run([program("runnel-feed"), "csv", table, "--names", "--words", "w0,w1,w2",
                        "--class", "class", "--schema", "--socket", "router", "--connect", daemon.endpoint("examples"), "--quiet"],
                       check=True, timeout=running.LIMIT)
        status = wait_learned(daemon, 1200)
        assert status["rejected"] == 0, status["rejected_by"]
        assert sorted(status["vocabulary"]["output"]["newest"]) == ["busy", "free"]
        assert sorted(status["vocabulary"]["w0"]["newest"]) == ["7", "a", "b"]
        assert status["skill"] > 0.1, status["skill"]
        table.write_bytes(b"w0,n0,n1,w1,n2,n3,n4,w2,class\na,1,1,M\xfcnchen,1,1,1,a,free\n")
        feed = subprocess.run([program("runnel-feed"), "csv", table, "--names", "--class", "class", "--quiet",
                               "--socket", "router", "--connect", daemon.endpoint("examples")],
                              stderr=subprocess.PIPE, timeout=running.LIMIT)
        assert feed.returncode == os.EX_DATAERR and b"column 'w1': expected UTF-8 text" in feed.stderr, feed.stderr
        daemon.end()


if __name__ == "__main__":
    cases.run(globals())
