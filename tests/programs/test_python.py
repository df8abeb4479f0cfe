#!/usr/bin/python3
"""The Python package `runnel` (streams/python) with running daemons: nothing is lost or learned
twice, errors are raised before anything is sent, and statistics and replies arrive."""
import asyncio
import json
import math
import os
import pathlib
import re
import signal
import sqlite3
import struct
import subprocess
import sys
import time

import cases
import running
import zmq

try:
    import numpy as np
except ImportError:
    print("needs python3-numpy")
    sys.exit(77)

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "streams/python"))
os.environ["RUNNELD"] = str(BUILD / "runneld")

import runnel  # noqa: E402  pylint: disable=wrong-import-position
from runnel import errors, wire  # noqa: E402  pylint: disable=wrong-import-position

LIMIT = running.LIMIT
NOBODY = 0.3  # seconds to wait for a peer that never connects
CONFIG = """
name: python
model:
  input: {input}
  layers: [{{cell: rnn, size: 4}}]
  output: {output}
learning: {{window: 4, stride: 4, optimizer: {{kind: adam, rate: 0.01}}}}
examples: {{bind: "ipc://{d}/examples", socket: {socket}}}
statistics: {{bind: "ipc://{d}/statistics", every: 10, predictions: true}}
control: {{bind: "ipc://{d}/control"}}
state: {{directory: "{d}/state", journal: {{keep: all}}}}
"""
REAL, NEXT = "{kind: real, size: 2}", "{loss: squared, size: 2, target: next}"
ONE_LATER = "{loss: squared, size: 1, target: later}"


def daemon(directory, x=REAL, y=NEXT, socket="router", more=""):
    return running.Daemon(directory, CONFIG.format(d=directory, input=x, output=y, socket=socket) + more)


def client(one, **options):
    return runnel.Client(one.endpoint("examples"), timeout=LIMIT, **options)


def raises(kind, call, *words):
    """Checks that it raises this kind of exception with these words, and returns it."""
    try:
        call()
    except kind as error:
        assert all(word in str(error) for word in words), str(error)
        return error
    raise AssertionError(f"no {kind.__name__}")


def journal(directory):
    """The examples in the order of learning: (stream, first number of x)."""
    file = sqlite3.connect(f"file:{directory}/state/journal.sqlite?mode=ro", uri=True)
    rows = file.execute("SELECT stream, x FROM entries WHERE kind = 1 ORDER BY position").fetchall()
    file.close()
    return [(row[0].decode(), struct.unpack("<f", row[1][:4])[0]) for row in rows]


def test_examples_arrive_in_order(directory):
    with daemon(directory) as one:
        with client(one, stream="a") as c:
            assert c.learn([0, 1]) == ("a", 1, 0)
            assert c.learn(np.array([1, 1]), stream="b") == ("b", 1, 0)
            assert c.learn((2.0, 1.0), time=12.5, wait=True).sequence == 2
            assert c.learn([[3, 1], [4, 1]], end=True).sequence == 3  # two steps
            assert c.learn_many(np.arange(10, 2010, dtype=float).reshape(-1, 2)).sequence == 1003
            assert c.learn_many([]) is None
            c.flush()
            assert (c.counts.sent, c.counts.acknowledged, c.counts.refused) == (1004, 1004, 0)
        assert journal(directory) == [("a", 0), ("b", 1), ("a", 2), ("a", 3)] + [("a", n) for n in range(10, 2010, 2)]
        status = one.ask("status")
        assert status["journal"]["missing"] == 0 and status["rejected"] == 0, status
        assert raises(runnel.RunnelError, lambda: c.learn([1, 2]), "closed")


def test_kills(directory):
    """The daemon is killed repeatedly during a client's calls, which only take longer."""
    count = 30000
    rows = np.stack([np.arange(count), np.zeros(count)], axis=1).astype("<f4")
    with daemon(directory) as one:
        with client(one, stream="s") as c:
            c.learn_many(rows[:100])
            for part in range(3):
                c.learn_many(rows[100 + part * 9000:100 + part * 9000 + 9000])  # its end is on its way
                one.process.kill()
                one.process.wait()
                one.start()
            for x in rows[27100:]:
                c.learn(x)
            c.flush()
            assert c.counts.acknowledged == count and c.counts.refused == 0, c.counts
    assert [x for _, x in journal(directory)] == list(range(count))


def test_one_identity_started_again(directory):
    """The same producer sends the same examples again: they are duplicates, and others are a
    conflict."""
    with daemon(directory) as one:
        for _ in range(2):
            with client(one, producer=77) as c:
                c.learn_many([[n, 0] for n in range(50)])
        assert c.counts.duplicates == 50 and len(journal(directory)) == 50
        with client(one, producer=77) as c:
            refused = raises(runnel.Refused, lambda: c.learn([9, 9], wait=True), "conflict", "stream ''")
            assert refused.reason == "conflict" and refused.sequence == 1


def test_errors_before_sending(directory):
    """Errors are raised before anything is sent to the daemon."""
    with daemon(directory) as one, client(one) as c:
        for x, kind, words in (([1, 2, 3], ValueError, "(3,)"), ([[[1, 2]]], ValueError, "(1, 1, 2)"),
                               ([1e300, 1], ValueError, "1e+300, which is outside the range of float32"), (3.0, ValueError, "()"),
                               (np.zeros((5000, 2)), ValueError, "1 to 4096"), (object(), TypeError, "must be a list of numbers"),
                               ([1j, 2], TypeError, "complex"), (np.zeros((2, 3)), ValueError, "(2, 3)")):
            raises(kind, lambda x=x: c.learn(x), words)
        raises(ValueError, lambda: c.learn([1, 2], [1, 2]), "y is not allowed")
        raises(ValueError, lambda: c.learn([1, 2], stream="s" * 256), "255")
        raises(ValueError, lambda: c.learn([1, 2], time=float("nan")), "Unix time")
        raises(TypeError, lambda: c.learn([1, 2], time="noon"), "time", "'noon'")
        raises(ValueError, lambda: c.learn_many([[1, 2, 3]]), "pass (n, 2)")
        raises(TypeError, lambda: c.label(5, [1]), "Number")
        raises(ValueError, lambda: c.learn_many([[1, 2]], times=[1, 2]), "got 2")
        assert one.ask("status")["rejected"] == 0
    for bad in ({"endpoint": "nowhere"}, {"socket": "dealer"}, {"window": 0}, {"producer": 0}, {"epoch": -1},
                {"key": directory / "k"}, {"server_key": directory / "none"}):
        raises(ValueError, lambda bad=bad: runnel.Client(**bad))


def test_refused(directory):
    """Errors that only the daemon can find are raised as Refused with its message; the other
    examples are learned."""
    with daemon(directory) as one:
        with client(one) as c:
            refused = raises(runnel.Refused, lambda: c.learn([float("nan"), 1], wait=True), "x_value", "example 1")
            assert isinstance(refused, ValueError) and refused.reason == "x_value"
            one.ask("pause")  # no answer may arrive in between: the second call would raise it
            c.learn([float("nan"), 1])
            c.learn([1, float("nan")])
            one.ask("resume")
            refused = raises(runnel.Refused, c.flush, "1 more")
            assert refused.sequence == 2 and refused.more == 1
            c.flush()
            c.learn([1, 1])
        refusals = []
        with client(one, on_refused=refusals.append, check=False) as c:
            c.learn([1, 2, 3])
            c.learn([1, 2])
        assert [one.reason for one in refusals] == ["x_size"] and "12 bytes" in refusals[0].sentence, refusals
        assert one.ask("status")["examples"] == 2


def test_symbols_and_classes(directory):
    with daemon(directory, "{kind: symbol, size: 5}", "{loss: softmax, size: 3, target: given}") as one:
        with client(one) as c:
            c.learn(4, 2)
            c.learn([0, 1, 2], [0, None, 2])
            c.learn_many([1, 2, 3], [0, 1, 2])
            shown = c.predict(1, 1)
            assert shown.label == shown.values.argmax() and list(shown.probabilities) == [0, 1, 2]
            assert shown.probabilities[2] == shown.values[2]
            assert shown.names is None and shown.values.shape == (3,) and abs(shown.values.sum() - 1) < 1e-5 and shown.loss > 0
            assert (shown := c.predict([1, 2])).values.shape == (2, 3) and shown.label == shown.values[1].argmax()
            raises(ValueError, lambda: c.learn(0.5), "a symbol must be a whole number")
            raises(ValueError, lambda: c.learn(-1), "-1")
            raises(ValueError, lambda: c.learn([1, 2], [1]), "2 steps", "for 1")
            assert raises(runnel.Refused, lambda: c.learn(5, wait=True)).reason == "x_value"
            c.flush()
        assert one.ask("status")["steps"] == 10


def test_messages(directory):
    """A list is one step; a prediction belongs to the whole message."""
    reads = "sequence: {layers: [{cell: gru, size: 3}], longest: 4}"
    with daemon(directory, f"{{kind: symbol, size: 5, {reads}}}", "{loss: softmax, size: 3, target: given}") as one:
        with client(one) as c:
            c.learn([0, 1, 2], 2)
            c.learn(np.array([4, 4], "<u4"), 1)
            c.learn(3, 0)
            assert c.predict([1, 2, 3, 4]).values.shape == (3,)
            raises(ValueError, lambda: c.learn([1] * 5, 0), "x must have 1 to 4 atoms, got 5")
            raises(ValueError, lambda: c.learn([1, 2], [0, 1]), "1 steps", "for 2")
            raises(ValueError, lambda: c.learn_many([1, 2], [0, 1]), "x is a message")
            c.flush()
        assert one.ask("status")["steps"] == 4
    (directory / "words").mkdir()
    with daemon(directory / "words", f"{{kind: symbol, vocabulary: {{capacity: 9}}, {reads}}}",
                f"{{loss: softmax, size: 4, {reads}}}") as one:
        with client(one) as c:
            c.learn(["a", "b"], [3, 0, 1])
            c.learn(["b"], [2], wait=True)
            written = c.predict(["a", "b"], [3, 0])  # a loss without numbers
            assert written.loss > 0 and len(written.values) == 0
            refused = raises(runnel.Refused, lambda: c.learn(["b"] * 5, [2], wait=True))
            assert refused.reason == "x_size" and "x has 5 atoms; model.input.sequence.longest is 4" in str(refused)
        status = one.ask("status")
        assert (status["steps"], status["words"]) == (3, 2), status


def test_outputs(directory):
    """The values are those of all outputs, one after the other."""
    outputs = ("{name: a, loss: squared, size: 2, target: next}", "{name: b, loss: softmax, size: 3, target: given}")
    text = CONFIG.replace("output: {output}", f"outputs: [{', '.join(outputs)}]".replace("{", "{{").replace("}", "}}"))
    with running.Daemon(directory, text.format(d=directory, input=REAL, socket="router")) as one, client(one) as c:
        found = c.predict([1, 2], 2)
        assert found.values.shape == (5,) and math.isclose(sum(found.values[2:]), 1, rel_tol=1e-6)
        assert found.label is None and found.probabilities is None and found.names is None


def test_labels(directory):
    with daemon(directory, y=ONE_LATER) as one:
        with client(one, stream="s") as c:
            numbers = [c.predict([n, 0]).number for n in range(20)]
            for number in numbers:
                c.label(number, [3.0])
            loss = c.submit_label(c.learn([1, 1]), 3.0, result=True).wait().loss
            assert loss is not None and loss >= 0
            raises(ValueError, lambda: c.label(numbers[0], [[1.0, 2.0]]), "(1, 2)")
            c.label(numbers[0], [3.0], wait=True)  # a second time: counted and accepted
            assert one.ask("status")["rejected_by"] == {"label": 1}
        assert one.ask("status")["updates"] > 0


def test_json(directory):
    """Examples with names are sent as JSON: acknowledged, sent again, and answered with a
    prediction, like others."""
    with daemon(directory) as one:
        with client(one, stream="s") as c:
            named = raises(runnel.Refused, lambda: c.learn({"load": 1.0, "host": "web"}, wait=True), "an object")
            assert (named.stream, named.sequence) == ("s", 1)
            shapes = c._examples
            number, ident, frames = shapes._json(b"s", "s", {"stream": "s", "x": [1.5, 2.5]}, 7.0, wire.RESULT)
            pending = c._post(ident, frames, runnel.Pending(c, number, 1), True)
            assert pending.prediction().values.shape == (2,)
            raises(TypeError, lambda: c.learn({"load": object()}), "object")
            raises(ValueError, lambda: c.learn({"load": float("inf")}), "infinite")
            c.learn([1, 2])
        assert journal(directory) == [("s", 1.5), ("s", 1.0)]


def test_words(directory):
    """Words over a router, with a kill of the daemon; a word beyond the vocabulary is rejected by
    name."""
    with daemon(directory, "{kind: symbol, vocabulary: {capacity: 2, unknown: reject}}",
                "{loss: softmax, target: given, vocabulary: {capacity: 2}}") as one:
        with client(one) as c:
            c.learn_many(["web"] * 50, ["free"] * 50)
            one.process.kill()
            one.process.wait()
            one.start()
            c.learn(["web", "db"], ["free", "busy"], wait=True)
            shown = c.predict("web", "free")
            assert shown.values.shape == (3,) and shown.values[0] == max(shown.values) and shown.loss < 1
            assert shown.names == ["free", "busy", None], shown.names  # which appeared after the client had asked
            assert shown.label == "free" and list(shown.probabilities) == ["free", "busy"], shown.probabilities
            refused = raises(runnel.Refused, lambda: c.learn("mail", "free", wait=True), "mail")
            assert refused.reason == "vocabulary", refused
            refused = raises(runnel.Refused, lambda: c.learn({"host": "web"}, "free", wait=True), "x ")
        assert one.ask("status")["examples"] == 52
        with runnel.Control(one.endpoint("control"), timeout=LIMIT) as control:
            assert json.loads(control.export().metadata["vocabulary"]) == {"input": ["web", "db"], "output": ["free", "busy"]}


def test_names_of_classes(directory):
    """Names of the moment, if a class takes the id of a forgotten one; without names, classes are
    numbers."""
    with daemon(directory, y="{loss: softmax, target: given, vocabulary: {capacity: 2, forget: lru}}") as one:
        with client(one) as c:
            assert c.predict([1, 2], "free", learn=True).names == ["free", None, None]
            c.learn_many([[1, 2]] * 2, ["busy", "idle"])
            assert c.predict([1, 2]).names == ["idle", "busy", None]
            assert c.predict([[1, 2], [3, 4]]).names == ["idle", "busy", None]
    (directory / "next").mkdir()
    with daemon(directory / "next", "{kind: symbol, vocabulary: {capacity: 3}}", "{loss: softmax, target: next}") as one:
        with client(one) as c:
            assert c.predict("web").label is None and c.predict("db").label == "web"
            assert c.predict("web").probabilities.keys() == {"web", "db"}


def test_names_of_targets(directory):
    """Names of predicted columns and of y; numbered classes keep their numbers."""
    columns = "{columns: [{name: load}, {name: host, kind: symbol, size: 4}, {name: oil}]}"
    step = {"load": 1.0, "host": 2, "oil": 3.0}
    for n, (y, names, classes) in enumerate((
            ("{loss: squared, target: next}", ["load", "oil"], None),
            ("{loss: squared, target: next, columns: [oil]}", ["oil"], None),
            ("{loss: gaussian, target: next, columns: [oil]}", ["oil", "oil"], None),
            ("{loss: squared, target: next, columns: [oil], ahead: [1, 2]}", ["oil", "oil"], None),
            ("{loss: softmax, target: next}", None, [0, 1, 2, 3]),
            ("{loss: squared, target: given, columns: [heat, rate]}", ["heat", "rate"], None),
            ("{loss: softmax, size: 2, target: later}", None, [0, 1]))):
        (directory / str(n)).mkdir()
        with daemon(directory / str(n), columns, y) as one, client(one) as c:
            shown = c.predict(step)
            assert shown.names == names and shown.values.shape == (len(names or classes),), (y, shown)
            assert (list(shown.probabilities) if classes else shown.probabilities) == classes, (y, shown)
            assert shown.label in (classes or [None]), (y, shown)
    (directory / "forecast").mkdir()
    more = "preset: forecast\n"
    with daemon(directory / "forecast", "{columns: [{name: a}, {name: b}]}", "{}", more=more) as one, client(one) as c:
        assert c.predict({"a": 1.0, "b": 2.0}).names == ["a", "b"]


def test_names_of_targets_in_asyncio(directory):
    async def ask(endpoint):
        async with runnel.AsyncClient(endpoint, timeout=LIMIT) as c:
            return await c.predict({"a": 1.0, "b": 2.0})

    with daemon(directory, "{columns: [{name: a}, {name: b}]}", "{loss: squared, target: next}") as one:
        shown = asyncio.run(ask(one.endpoint("examples")))
        assert shown.names == ["a", "b"] and shown.label is None and shown.probabilities is None


def test_mixed_columns(directory):
    """Numbers and symbols together are sent as JSON, by place or by name."""
    columns = "{columns: [{name: load, kind: real}, {name: host, kind: symbol, vocabulary: {capacity: 4}}]}"
    with daemon(directory, columns, "{loss: squared, size: 1, target: given}") as one:
        with client(one) as c:
            assert c.learn([0.5, "web"], [1.0], wait=True).sequence == 1
            assert c.predict({"host": "db", "load": np.float32(0.5)}, 1.0).values.shape == (1,)
            assert c.predict([[0.5, "db"], [0.25, "web"]], [[1.0], [2.0]]).values.shape == (2, 1)
            assert c.predict([{"load": 1, "host": "web"}] * 3, [1.0, 2.0, 3.0]).values.shape == (3, 1)
            c.learn_many([{"load": 0.1, "host": "web"}, {"load": 0.2, "host": "mail"}], [1.0, 2.0])
            for x, words in (({"laod": 1, "host": "web"}, "'laod'"), ({"load": 1}, "host"),
                             ({"load": "high", "host": "web"}, "load")):
                raises(runnel.Refused, lambda x=x: c.learn(x, 1.0, wait=True), words)
        assert one.ask("status")["steps"] == 9


def test_data_frames(directory):
    """By name if the columns have names, otherwise in the order of the columns; the same for a
    single row."""
    try:
        import pandas  # pylint: disable=import-outside-toplevel
    except ImportError:
        cases.skip("needs python3-pandas")
    frame = pandas.DataFrame({"b": [1.0, 2.0], "a": [3.0, 4.0]}, index=[7, 9])
    targets = pandas.Series([1.0, 2.0], index=[7, 9])
    given = "{loss: squared, size: 1, target: given}"
    for name, x, first in (("place", REAL, [1, 2, 1]), ("names", "{columns: [{name: a}, {name: b}]}", [3, 4, 3])):
        (directory / name).mkdir()
        with daemon(directory / name, x, given) as one:
            with client(one) as c:
                c.learn_many(frame, targets)
                c.learn(frame.iloc[0], targets.iloc[:1])
            running.wait_learned(one, 3)
        assert journal(directory / name) == [("", value) for value in first], name
    words = "{kind: symbol, vocabulary: {capacity: 5}}", "{loss: softmax, target: given, vocabulary: {capacity: 2}}"
    (directory / "words").mkdir()
    with daemon(directory / "words", *words) as one:
        with client(one) as c:
            c.learn_many(pandas.Series(["web", "db"]), pandas.Series(["free", "busy"]))
        running.wait_learned(one, 2)
        assert one.ask("status")["vocabulary"]["output"]["newest"] == ["busy", "free"]


def test_reasons_are_those_of_the_daemon(_):
    """The numbers that are sent; each has a text."""
    text = (SOURCE / "src/sockets/frames.c").read_text(encoding="utf-8")
    names = re.findall(r'"(\w+)"', re.search(r"names\[REJECT_REASONS\] = \{(.*?)\}", text, re.DOTALL)[1])
    assert list(wire.REASONS[1:]) == names[1:] and set(names[1:]) <= set(errors.REASONS), names


def test_topics_are_those_of_the_daemon(_):
    text = (SOURCE / "src/common/topics.h").read_text(encoding="utf-8")
    assert list(runnel.watcher.TOPICS) == re.findall(r'^ *TOPIC\(\w+, "(\w+)"\)', text, re.MULTILINE)


def test_push(directory):
    with daemon(directory, socket="pull") as one:
        with client(one, socket="push", control=one.endpoint("control")) as c:
            for n in range(100):
                c.learn([n, 0], stream="p")
            c.learn_many([[n, 0] for n in range(100, 600)], stream="p")
            raises(ValueError, lambda: c.learn([1, 2, 3]), "(3,)")
            raises(ValueError, lambda: c.predict([1, 2]), "router")
        running.wait_learned(one, 600)
        raises(runnel.Unavailable, lambda: runnel.Client(one.endpoint("examples"), timeout=NOBODY).learn([1, 2]),
               one.endpoint("examples"), "socket='push'")
    nobody = runnel.Client(f"ipc://{directory}/nobody", socket="push", timeout=NOBODY)
    raises(runnel.Unavailable, lambda: nobody.learn([1, 2]), "runneld is running", "socket='router'")


def test_a_daemon_that_is_away(directory):
    """Unavailable loses nothing: the next call continues."""
    nobody = runnel.Client(f"ipc://{directory}/examples", timeout=NOBODY)
    raises(runnel.Unavailable, lambda: nobody.learn([1, 2]), "ipc://", "is runneld running", "examples.bind")
    with daemon(directory) as one:
        nobody.timeout = LIMIT
        nobody.learn([1, 2], wait=True)
        one.ask("pause")
        nobody.learn([3, 4])
        raises(runnel.Unavailable, lambda: nobody.flush(NOBODY), "paused", "1 examples are kept")
        one.ask("resume")
        nobody.close()
    assert journal(directory) == [("", 1), ("", 3)]


def test_a_program_that_does_not_close(directory):
    """Its end waits, and reports what is not safe."""
    text = (f"import sys; sys.path.insert(0, {str(SOURCE / 'streams/python')!r}); import runnel\n"
            f"client = runnel.Client('ipc://{directory}/examples', timeout={LIMIT})\n"
            "client.learn_many([[n, 0] for n in range(3000)])\n")
    with daemon(directory) as one:
        subprocess.run([sys.executable, "-B", "-c", text], check=True, timeout=2 * LIMIT)
        assert running.wait_learned(one, 3000)["examples"] == 3000
        text += f"import os; os.kill({one.process.pid}, 9); client.timeout = {NOBODY}; client.learn([1, 2])\n"
        done = subprocess.run([sys.executable, "-B", "-c", text], check=True, timeout=2 * LIMIT, capture_output=True,
                              text=True)
        assert done.stderr.startswith("runnel: ipc://") and "examples are kept" in done.stderr, done.stderr


def test_keys(directory):
    for name in "daemon", "feeder", "desk":
        subprocess.run([BUILD / "runnel-keygen", directory / name], check=True, stdout=subprocess.DEVNULL)
    security = (f'security: {{secret: {directory}/daemon.secret, allow: {{examples: {directory}/feeder.public, '
                f'statistics: {directory}/desk.public, control: {directory}/desk.public}}}}\n')
    feeder = {"server_key": directory / "daemon.public", "key": directory / "feeder.secret"}
    desk = {"server_key": directory / "daemon.public", "key": str(directory / "desk.secret")}
    one = daemon(directory, more=security)
    try:
        with runnel.Control(one.endpoint("control"), timeout=LIMIT, **desk) as control:
            control.status()
            with client(one, **feeder) as c:
                c.learn([1, 2], wait=True)
            with runnel.Watcher(one.endpoint("statistics"), ["status"], timeout=LIMIT, **desk) as watcher:
                assert watcher.next()["name"] == "python"
            for keys in {}, desk, {"server_key": directory / "feeder.public"}:
                raises(runnel.Unavailable, lambda keys=keys: runnel.Client(one.endpoint("examples"), timeout=NOBODY,
                                                                           **keys).learn([1, 2]))
            assert control.status()["examples"] == 1
        (directory / "feeder.secret").chmod(0o644)
        raises(ValueError, lambda: client(one, **feeder), "chmod 600")
        (directory / "feeder.public").write_text("# nothing\n")
        raises(ValueError, lambda: client(one, server_key=directory / "feeder.public"), "expected one key")
    finally:
        one.__exit__(None)


def test_control(directory):
    with daemon(directory) as one, runnel.Control(one.endpoint("control"), timeout=LIMIT) as control:
        with client(one, stream="s") as c:
            c.learn_many(np.random.default_rng(1).random((100, 2)))
        status = control.status()
        assert status["name"] == "python" and status["schema"]["columns"] == 2
        assert control.set("learning.optimizer.rate", 0.5)["value"] == 0.5
        raises(runnel.CommandError, lambda: control.set("seed", 1), "seed")
        raises(runnel.CommandError, lambda: control.request("sing"), "sing")
        assert pathlib.Path(control.checkpoint()["path"]).exists()
        tensors = control.export()
        assert tensors["layers.0.weight_ih"].shape == (4, 2) and tensors["output.bias"].dtype == np.float32
        assert tensors.metadata["digest"] == status["compatible"]
        assert runnel.read_safetensors(control.export_bytes()).keys() == tensors.keys()
        raises(ValueError, lambda: runnel.read_safetensors(b"nothing"))
        state, parameters = control.export_stream("s"), control.export_bytes()
        assert control.adopt(state)["stream"] == "s" and control.export_stream("s") == state
        assert control.import_bytes(parameters)["parameters"] > 0 and control.export_bytes() == parameters
        raises(runnel.CommandError, lambda: control.adopt(parameters), "runnel-ctl import")
        raises(runnel.CommandError, lambda: control.import_bytes(state), "runnel-ctl adopt")
        raises(runnel.CommandError, lambda: control.export_stream("nobody"), "nobody")
        assert control.pause()["state"] == "paused" and control.resume()["state"] == "learning"
        assert control.forget("s")["stream"] == "s"
        raises(runnel.CommandError, lambda: control.forget("t"), "t")
        raises(runnel.CommandError, lambda: control.normal("s"))
        raises(runnel.CommandError, lambda: control.abnormal("s", begin=1, count=2, dry_run=True))
        assert control.rollback(50, dry_run=True)["first"] == 51
        assert control.reset()["examples"] == 0
        assert control.shutdown()["state"] == "draining" and one.process.wait(LIMIT) == 0
    with runnel.Control(f"ipc://{directory}/nobody", timeout=NOBODY) as nobody:
        raises(runnel.Unavailable, nobody.status, "no reply to 'status'", "is runneld running")


def test_watcher(directory):
    """Losses, predictions with their truths, events: everything that a daemon has published since
    `ready`."""
    with daemon(directory) as one, client(one, stream="s") as c:
        with runnel.Watcher(one.endpoint("statistics"), timeout=LIMIT).ready() as watcher:
            c.learn_many([[n, 0] for n in range(41)], times=range(1, 42))
            c.flush()
            joined, losses, join = [], [], watcher.join()
            while len(joined) < 40:
                joined.append(next(join))
            assert [one.example for one in joined] == list(range(1, 41))
            assert [one.target[0] for one in joined] == list(range(1, 41))
            assert [one.time for one in joined] == list(range(1, 41)) and joined[5].stream == "s"
            assert all(len(one.prediction) == 2 and one.loss >= 0 for one in joined)
            assert watcher.missed == 0
        with runnel.Watcher(one.endpoint("statistics"), ["loss", "event"], timeout=LIMIT).ready() as watcher:
            c.learn_many([[n, 0] for n in range(41, 81)])
            for message in watcher.losses():
                losses.append(message)
                if message["examples"] == 80:
                    break
            assert {message.topic for message in losses} == {"loss"} and losses[-1]["loss"] > 0
            one.ask("set", key="learning.clip", value=1)
            assert any(message["kind"] == "set" for message in watcher.events())
            raises(ValueError, watcher.predictions, "does not watch prediction")
    raises(ValueError, lambda: runnel.Watcher(topics=["news"]), "unknown topic 'news'")
    with runnel.Watcher(f"ipc://{directory}/nobody", timeout=NOBODY) as nobody:
        raises(runnel.Unavailable, nobody.next, "no message for")


def test_quantiles():
    """Linear between levels; a jump has all levels of its quantiles; outside the levels both are unknown."""
    nan = math.nan
    of = runnel.Distribution(np.array([0.1, 0.5, 0.9]), np.array([[0.0, 1.0, 3.0], [2.0, 2.0, 4.0], [nan] * 3]))
    for q, values in (0.1, [0, 2, nan]), (0.3, [0.5, 2, nan]), (0.8, [2.5, 3.5, nan]), (0.9, [3, 4, nan]):
        np.testing.assert_allclose(of.quantile(q), values)
    for x, shares in ((-9, [nan] * 3), (0.5, [0.3, nan, nan]), (2, [0.7, 0.5, nan]), (3, [0.9, 0.7, nan]), (9, [nan] * 3),
                      ([1, 3, 0], [0.5, 0.7, nan]), ([1, nan, 0], [0.5, nan, nan])):
        np.testing.assert_allclose(of.cdf(x), shares)
    for q in 0.05, 0.95, nan:
        raises(ValueError, lambda: of.quantile(q), "expected 0.1 to 0.9", "distribution.levels")
    one = runnel.Distribution(np.array([0.5]), np.array([[7.0]]))
    assert one.quantile(0.5) == [7] and one.cdf(7) == [0.5]


def test_distributions(directory):
    """What was forecast of a random stream holds, as quantiles and as scores."""
    config = CONFIG.format(d=directory, input=REAL, output=NEXT, socket="router")
    count, random = 300, np.random.default_rng(1)
    with running.Daemon(directory, "preset: forecast\n" + config) as one, client(one, stream="s") as c:
        with runnel.Watcher(one.endpoint("statistics"), timeout=LIMIT).ready() as watcher:
            c.learn_many(random.normal(5, 2, (count, 2)))
            c.flush()
            seen = []
            while not seen or seen[-1].topic != "loss" or seen[-1]["examples"] < count:
                seen.append(watcher.next())
            messages = [one for one in seen if one.topic == "prediction"]
            for score in "crps", "log_score":  # over the ten examples of an interval
                np.testing.assert_allclose([column[score] for column in seen[-1]["columns"]],
                                           np.mean([one["scored"][score] for one in messages[-10:]], axis=0))
        with runnel.Watcher(one.endpoint("statistics"), ["prediction"], timeout=LIMIT).ready() as watcher:
            c.learn_many(random.normal(5, 2, (count, 2)))
            c.flush()
            joined = [one for _, one in zip(range(count), watcher.join())]
    assert np.isnan(messages[0].distribution.quantile(0.5)).all()
    assert messages[-1].distribution.quantiles.shape == (2, len(messages[-1]["levels"]))
    held = np.mean([one.target <= one.distribution.quantile(0.9) for one in joined])
    assert 0.85 < held < 0.95, held
    for one in joined:
        below, at = np.transpose(one.pit)
        found = one.distribution.cdf(one.target)
        inside = (0.01 <= at) & (at <= 0.99) & ~np.isnan(found)
        assert np.all(below <= at) and np.allclose(at[inside], found[inside], atol=0.1), one
        assert min(one.crps) > 0 and len(one.z) == len(one.log_score) == 2, one


def forecast_of(directory, ahead, more=""):
    output = NEXT.replace("}", f", ahead: {ahead}}}")
    return running.Daemon(directory, "preset: forecast\n" + CONFIG.format(d=directory, input=REAL, output=output, socket="router") + more)


def test_quantiles_of_predictions(directory):
    """They are those that the daemon publishes for the example, also if nobody subscribes; binary, with
    several steps, and with several horizons."""
    x = np.random.default_rng(2).normal(5, 2, (60, 2)).astype("<f4")
    steps = [*x[:50], x[50:53], x[53]]
    for ahead, numbers in ("1", 2), ("[1, 3]", 4):
        found = []
        for watched in True, False:
            place = directory / f"{ahead}{watched}"
            place.mkdir()
            with forecast_of(place, ahead) as one, client(one, stream="s") as c:
                if watched:
                    with runnel.Watcher(one.endpoint("statistics"), ["prediction"], timeout=LIMIT).ready() as watcher:
                        predicted = [c.predict(step, learn=True) for step in steps]
                        published = [watcher.next() for _ in steps]
                else:
                    predicted = [c.predict(step, learn=True) for step in steps]
                async def last(one=one):
                    async with runnel.AsyncClient(one.endpoint("examples"), timeout=LIMIT, stream="s") as other:
                        return await other.predict(x[54])
                predicted.append(asyncio.run(last()))
            found.append([one.distribution.quantiles for one in predicted])
            for one in predicted:
                assert one.distribution.quantiles.shape == one.values.shape + one.distribution.levels.shape
                assert one.quantile(0.5).shape == one.values.shape == (() if one.values.ndim == 1 else (3,)) + (numbers,)
        for one, message in zip(predicted, published):
            np.testing.assert_array_equal(one.distribution.levels, message["levels"])
            np.testing.assert_allclose(one.distribution.quantiles.ravel(), message.distribution.quantiles.ravel(), rtol=1e-6)
        for quantiles, again in zip(*found):
            np.testing.assert_array_equal(quantiles, again)
        late = predicted[-1]
        np.testing.assert_allclose(late.cdf(late.quantile(0.9)), 0.9)
        assert (late.quantile(0.05) < late.quantile(0.95)).all()


def test_quantiles_of_named_columns(directory):
    """Also with JSON."""
    named = CONFIG.format(d=directory, input="{columns: [{name: a, kind: real}, {name: b, kind: real}]}",
                          output="{loss: squared, target: next}", socket="router")
    with running.Daemon(directory, "preset: forecast\n" + named) as one, client(one) as c:
        predicted = [c.predict({"a": n % 5, "b": 7}, learn=True) for n in range(40)][-1]
    assert predicted.quantile(0.5).shape == predicted.cdf([2, 7]).shape == (2,) and 0 <= predicted.quantile(0.25)[0] <= 4


def test_predictions_without_quantiles(directory):
    """Daemons without distributions answer as before, also if they are asked; with levels in JSON, too."""
    for number, (more, frames) in enumerate((("", 5), ("distribution: {levels: []}\n", 4), ("distribution: {enabled: false}\n", 4))):
        place = directory / str(number)
        place.mkdir()
        with forecast_of(place, "1", more) as one, client(one, stream="s") as c:
            predicted = c.predict([1, 2])
            if frames == 4:
                assert predicted.distribution is None
                raises(ValueError, lambda: predicted.quantile(0.5), "distribution.enabled", "distribution.levels")
            with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
                dealer.linger = 0
                dealer.connect(one.endpoint("examples"))
                x = np.array([1, 2], "<f4").tobytes()
                asked = [[b"a", x, b"", wire.HEADER.pack(2, flags, 0, 0, n, 0, 7)] for n, flags in ((1, 132), (2, 4), (3, 128))]
                asked += [[json.dumps({"stream": "a", "x": [1, 2], "sequence": n, "producer": "7", **more}).encode()]
                          for n, more in ((4, {"result": True, "quantiles": True}), (5, {"quantiles": True}))]
                for message, expected in zip(asked, (frames, 4, 2, frames, 2)):
                    dealer.send_multipart(message)
                    assert dealer.poll(1000 * LIMIT), message
                    answer = dealer.recv_multipart()
                    assert len(answer) == expected and answer[1][:4] == wire.PLAIN, answer
                    assert expected != 5 or len(answer[4]) == 8 * 7 * (1 + 2)


def test_watcher_sees_gaps(directory):
    """Gaps in the numbers are lost messages; another run starts again."""
    context, endpoint = zmq.Context(), f"ipc://{directory}/statistics"
    with context.socket(zmq.XPUB) as publisher:
        publisher.bind(endpoint)
        with runnel.Watcher(endpoint, ["loss"], timeout=LIMIT) as watcher:
            while publisher.recv() != b"\x01status":
                pass
            for run, topic, sequence in (("a", b"status", 1), ("a", b"loss", 3), ("a", b"loss", 4), ("a", b"loss", 9),
                                         ("a", b"status", 5), ("b", b"loss", 1), ("b", b"loss", 2)):
                publisher.send_multipart([topic, b'{"run":"%s","sequence":%d}' % (run.encode(), sequence)])
            got = [watcher.next() for _ in range(5)]
            assert [message.missed for message in got] == [0, 0, 4, 0, 0]
            assert [message.restarted for message in got] == [False, False, False, True, False]
            assert watcher.missed == 4
            publisher.send_multipart([b"loss", b"no JSON"])
            raises(runnel.Malformed, watcher.next, "not valid JSON")
    context.destroy(0)


def mine(number):
    """A configuration for `run` and Daemon."""
    return {"name": f"run-{number}", "model": {"input": {"kind": "real", "size": 2},
                                               "layers": [{"cell": "gru", "size": 4}],
                                               "output": {"loss": "squared", "size": 2, "target": "next"}}}


def gone(pid):
    end = time.monotonic() + LIMIT
    while lives(pid):
        assert time.monotonic() < end, pid
        time.sleep(0.02)


def lives(pid):
    try:
        return "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_daemon_of_ones_own(directory):
    with runnel.Daemon(mine(1)) as one:
        pid, there = one.process.pid, one.directory
        with one.client() as c:
            c.learn([1, 2], wait=True)
        with one.control() as control:
            assert control.status()["examples"] == 1
    assert not there.exists() and one.process.poll() == 0
    gone(pid)
    try:
        with runnel.Daemon("name: text\nmodel: {layers: [{cell: gru, size: 4}], input: {kind: real, size: 1},\n"
                           "  output: {loss: squared, size: 1, target: next}}\n", directory=directory / "kept") as one:
            raise KeyError("of the program")
    except KeyError:
        pass
    gone(one.process.pid)
    assert (directory / "kept/state").exists()
    error = raises(runnel.RunnelError, lambda: runnel.Daemon({"name": "x", "modle": {}}), "failed to start")
    assert "modle" in str(error), error
    raises(runnel.Unavailable, lambda: runnel.Daemon(mine(1), runneld="/no/runneld"), "/no/runneld")


def test_a_daemon_ends_with_a_program_that_is_killed(directory):
    text = (f"import sys; sys.path.insert(0, {str(SOURCE / 'streams/python')!r}); import runnel\n"
            f"one = runnel.Daemon({mine(2)!r}, directory={str(directory / 'kept')!r})\n"
            "print(one.process.pid, flush=True); input()\n")
    program = subprocess.Popen([sys.executable, "-B", "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pid = int(program.stdout.readline())
    program.send_signal(signal.SIGKILL)
    program.wait()
    gone(pid)


cases.run(globals())
