#!/usr/bin/python3
"""The Python package with peers that are not daemons or are hostile: one exception, Malformed;
nothing is accepted silently, and no control character reaches a terminal."""
import asyncio
import contextlib
import json
import math
import os
import pathlib
import struct
import sys
import threading

import cases
import running
import zmq

try:
    import numpy as np
except ImportError:
    print("needs python3-numpy")
    sys.exit(77)

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "streams/python"))

import runnel  # noqa: E402  pylint: disable=wrong-import-position
from runnel import wire  # noqa: E402  pylint: disable=wrong-import-position

LIMIT = running.LIMIT
GOOD = {"dtype": "float32", "columns": 2, "target_dtype": None, "targets": 0, "target": "next"}
ESCAPES = "\x1b[2J\x07\r\nroot: \u202eall is well\x9b"
DEEP = b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}"
NESTED = b'{%s,"a":' + b"[" * 70 + b"]" * 70 + b"}"  # Python's own parser accepts it
# Invalid JSON for any members: each %s stands for valid ones.
WRONG_JSON = (b"", b"[]", b'"text"', b"no JSON", b"\xff{%s}", DEEP, NESTED, b'{%s,"a":1e999}', b'{%s,"a":-1e999}',
              b'{%s,"a":NaN}', b'{%s,"a":Infinity}', b'{%s,"a":123456789012345678901}', b'{%s,"a":1,"a":2}', b'{%s,"a":"\\ud800"}',
              b'{%s,"a":"\xed\xa0\x80"}', b'{%s}}', b'{%s,"a":"\x1b"}')


def wrong_json(**members):
    """Each of them, with these members."""
    text = json.dumps(members)[1:-1].encode()
    return [body.replace(b"%s", text) for body in WRONG_JSON]


class Stranger:
    """Answers each message of a socket with the messages of a function."""

    def __init__(self, directory, kind, answers):
        self.endpoint, self.answers, self.over = f"ipc://{directory}/stranger", answers, False
        self.context = zmq.Context()
        self.socket = self.context.socket(kind)
        self.socket.linger = 0
        self.socket.bind(self.endpoint)
        self.thread = threading.Thread(target=self.serve)

    def serve(self):
        while not self.over:
            if self.socket.poll(20):
                frames = self.socket.recv_multipart()
                for answer in self.answers(*frames):
                    self.socket.send_multipart(answer)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        self.thread.join()
        self.context.destroy(0)


def malformed(call, *words):
    """The message of Malformed; no other exception is raised."""
    try:
        result = call()
    except Exception as error:  # pylint: disable=broad-except
        assert type(error) is runnel.Malformed, repr(error)  # pylint: disable=unidiomatic-typecheck
        assert isinstance(error, (runnel.RunnelError, ValueError)) and all(word in str(error) for word in words), error
        assert str(error).isprintable(), ascii(str(error))
        return str(error)
    raise AssertionError(f"accepted: {result!r}")


def acknowledgement(numbers=bytes(12), status=0, reason=0):
    return struct.pack("<BBH", 1, status, reason) + numbers + bytes(8)


def examples(answer, schema=GOOD):
    """An examples socket: the schema, and the result of `answer(key, numbers)` for an example."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()

    def answers(identity, *frames):
        if len(frames) == 1:
            return [[identity, b"", acknowledgement(), text]]
        return [[identity, *message] for message in answer(frames[0], frames[3][4:16])]
    return answers


@contextlib.contextmanager
def client(stranger):
    """A client that does not wait at its end."""
    one = runnel.Client(stranger.endpoint, timeout=LIMIT)
    try:
        yield one
    finally:
        one.timeout = 0
        with contextlib.suppress(runnel.RunnelError):
            one.close()


WRONG_SCHEMAS = [{**GOOD, **wrong} for wrong in (
    {"columns": -1}, {"columns": 0}, {"columns": True}, {"columns": 2.0}, {"columns": "2"}, {"columns": None},
    {"columns": 2**62}, {"columns": ["a", "b"]}, {"targets": -1}, {"targets": False}, {"targets": None}, {"dtype": "float16"},
    {"dtype": ["float32"]}, {"target_dtype": "text"}, {"target": "never"}, {"target": None}, {"names": ["a"]},
    {"names": [1, 2]}, {"names": "ab"}, {"names": ["a", "b"], "kinds": ["real"]}, {"target_names": {"a": 1}},
    {"targets": 2, "target": "given", "target_names": ["a"]}, {"classes": ["a"]},
    {"classes": {"words": [1], "forgets": False}}, {"classes": {"words": ["a"]}}, {"classes": {"words": ["a"], "forgets": 0}},
    {"levels": 0.5})] + [
    {"dtype": "float32"}, {name: value for name, value in GOOD.items() if name != "dtype"}]


def test_schemas(directory):
    """For both clients; the next call asks again instead of continuing without."""
    for schema in WRONG_SCHEMAS + wrong_json(**GOOD):
        with Stranger(directory, zmq.ROUTER, examples(lambda key, numbers: [], schema)) as stranger:
            with client(stranger) as c:
                for _ in range(2):
                    assert stranger.endpoint in malformed(lambda c=c: c.learn([1, 2])), schema
                assert c.counts.sent == 0

    async def ask(endpoint):
        async with runnel.AsyncClient(endpoint, timeout=LIMIT) as c:
            await c.learn([1, 2])

    for schema in WRONG_SCHEMAS[0], DEEP:
        with Stranger(directory, zmq.ROUTER, examples(lambda key, numbers: [], schema)) as stranger:
            malformed(lambda s=stranger: asyncio.run(ask(s.endpoint)), "schema")
    status = json.dumps({"ok": True, "schema": WRONG_SCHEMAS[0]}).encode()
    with Stranger(directory, zmq.REP, lambda _: [[status]]) as s:
        malformed(lambda: runnel.Client("ipc://nowhere", socket="push", control=s.endpoint, timeout=LIMIT), "columns")


def test_acknowledgements(directory):
    """An invalid acknowledgement acknowledges nothing."""
    for output in ([acknowledgement(status=3)[:4]], [acknowledgement(status=255)[:4]], [acknowledgement(reason=7)[:4]],
                 [acknowledgement(status=1, reason=2)[:4]], [acknowledgement(status=2)[:4]], [b"\x02\0\0\0"], None):
        for extra in b"", b"!":
            def answer(key, numbers, output=output, extra=extra):
                whole = None if output is None else output[0] + numbers + bytes(8) + extra
                return [[key] if whole is None else [key, whole]]

            with Stranger(directory, zmq.ROUTER, examples(answer)) as stranger, client(stranger) as c:
                malformed(lambda c=c: c.learn([1, 2], wait=True), stranger.endpoint)
                assert c.counts.acknowledged == c.counts.refused == 0, c.counts
    # One that is too long is invalid, even for an example that nobody waits for.
    too_long = examples(lambda key, numbers: [[key, acknowledgement(numbers) + b"!"]])
    with Stranger(directory, zmq.ROUTER, too_long) as stranger, client(stranger) as c:
        c.learn([1, 2])
        malformed(c.flush)
        assert c.counts.acknowledged == 0


def test_a_rejection_that_comes_again(directory):
    """It counts once, and ends nothing."""
    def answer(key, numbers):
        return 3 * [[key, acknowledgement(numbers, 2, 5), b"no"]]

    with Stranger(directory, zmq.ROUTER, examples(answer)) as stranger, client(stranger) as c:
        for _ in range(3):
            try:
                c.learn([1, 2], wait=True)
                raise AssertionError("accepted")
            except runnel.Refused as error:
                assert error.sentence == "no", error
        assert (c.counts.sent, c.counts.refused, c.counts.acknowledged) == (3, 3, 0), c.counts


def test_predictions(directory):
    """Damaged predictions: the example is safe, and no number is invented."""
    for sizes in (7, 0), (8,), (8, 8), (8, 4, 0, 0), (12, 0):
        rest = [bytes(size) for size in sizes]

        def answer(key, numbers, rest=rest):
            return [[key, acknowledgement(numbers), *rest]]

        with Stranger(directory, zmq.ROUTER, examples(answer)) as stranger, client(stranger) as c:
            malformed(lambda c=c: c.predict([[1, 2], [3, 4]]), "prediction")
            assert c.counts.acknowledged == 1 and c.counts.sent == 1


def test_quantiles(directory):
    """They are checked like predictions. A daemon without levels in its schema, such as an old one,
    is not asked for them."""
    good = (0.1, 0.9, 1, 2, 3, 4)  # levels, quantiles of two numbers
    for levels, sent in [([], None), ([0.1, 0.9], good)] + [([0.1, 0.9], wrong) for wrong in (
            (), (0.5, 1), (0.1, 0.9, 1, 2), (0.9, 0.1, 1, 2, 3, 4), (0.5, 0.5, 1, 2, 3, 4), (math.nan, 0.9, 1, 2, 3, 4), b"5 bytes")]:
        frame = sent if isinstance(sent, bytes) else struct.pack(f"<{len(sent or ())}d", *(sent or ()))
        flags = []

        def answer(identity, *frames, flags=flags, rest=[bytes(8), b""] + ([] if sent is None else [frame]), levels=levels):
            flags += [frames[3][1]] if len(frames) > 1 else []
            return examples(lambda key, numbers: [[key, acknowledgement(numbers), *rest]],
                            {**GOOD, "levels": levels} if levels else GOOD)(identity, *frames)

        with Stranger(directory, zmq.ROUTER, answer) as stranger, client(stranger) as c:
            if sent is None:
                predicted = c.predict([1, 2])
                for call in lambda: predicted.quantile(0.5), lambda: predicted.cdf(1):
                    try:
                        call()
                        raise AssertionError("accepted")
                    except ValueError as error:
                        assert "distribution.enabled" in str(error) and "distribution.levels" in str(error), error
            elif sent == good:
                predicted = c.predict([1, 2])
                assert predicted.quantile(0.5).tolist() == [1.5, 3.5] and predicted.cdf([2, 3.5]).tolist() == [0.9, 0.5]
            else:
                malformed(lambda c=c: c.predict([1, 2]), "quantiles")
            assert flags == [wire.RESULT | wire.DO_NOT_LEARN | (wire.QUANTILES if levels else 0)] and c.counts.acknowledged == 1


def test_texts_of_a_stranger(directory):
    """Texts of exceptions have no control characters; the attribute has the original text."""
    def answer(key, numbers):
        return [[key, acknowledgement(numbers, 2, 5), ESCAPES.encode()]]

    with Stranger(directory, zmq.ROUTER, examples(answer)) as stranger, client(stranger) as c:
        try:
            c.learn([1, 2], stream="\x1b[31m", wait=True)
            raise AssertionError("accepted")
        except runnel.Refused as error:
            assert str(error).isprintable() and "all is well" in str(error), ascii(str(error))
            assert error.sentence == ESCAPES and error.stream == "\x1b[31m"
    with Stranger(directory, zmq.REP, lambda _: [[json.dumps({"ok": False, "error": ESCAPES}).encode()]]) as stranger:
        with runnel.Control(stranger.endpoint, timeout=LIMIT) as control:
            try:
                control.status()
                raise AssertionError("accepted")
            except runnel.CommandError as error:
                assert str(error).isprintable() and "all is well" in str(error), ascii(str(error))


def test_control(directory):
    bodies = wrong_json(ok=True) + [b"{}", b'{"ok":1}', b'{"ok":"true"}', b'{"ok":null}', b'{"ok":false,"error":5}',
                                    b'{"ok":false,"error":{"a":1}}']
    waiting = iter(bodies)
    with Stranger(directory, zmq.REP, lambda _: [[next(waiting)]]) as stranger:
        with runnel.Control(stranger.endpoint, timeout=LIMIT) as control:
            for _ in bodies:
                malformed(control.status, "the reply to 'status'")
    frames = iter([[b'{"ok":true}'], [b'{"ok":true}', b"1", b"2"], [b'{"ok":true}', b"no file"]])
    with Stranger(directory, zmq.REP, lambda _: [next(frames)]) as stranger:
        with runnel.Control(stranger.endpoint, timeout=LIMIT) as control:
            malformed(control.export_bytes, "no parameters")
            malformed(lambda: control.export_stream("s"), "no state")
            malformed(control.export, "safetensors")


def file_of(header, body=b"\0" * 24):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def test_exports():
    """Safetensors files: a good one, and each kind of damage."""
    matrix = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
    rest = {"dtype": "I64", "shape": [1], "data_offsets": [16, 24]}
    none = {"dtype": "F32", "shape": [0, 5], "data_offsets": [16, 16]}
    good = {"__metadata__": {"digest": "d"}, "b": rest, "none": none, "a": matrix}
    found = runnel.read_safetensors(file_of(good))
    assert found["a"].shape == (2, 2) and found["b"].dtype == np.int64 and found["none"].shape == (0, 5)
    assert found.metadata == {"digest": "d"}
    wrong = {"shape": ([-1, 4], [2, 3], [True, 4], [2.0, 2], 4, None, [1] * 40 + [4]), "dtype": ("BF16", ["F32"], "F64"),
             "data_offsets": ([0, 12], [-16, 0], [16, 0], [12, 28], [0, 16, 24], [8, 24], "16", [False, 16])}
    for name, value in ((name, value) for name, values in wrong.items() for value in values):
        malformed(lambda n=name, v=value: runnel.read_safetensors(file_of({**good, "a": {**matrix, n: v}})), "safetensors")
    for file in (b"", b"\0" * 7, bytes(8), b"\xff" * 64, struct.pack("<Q", 2**63) + b"{}", file_of(good)[:-1], file_of(good) + b"\0",
                 file_of(good)[:60], file_of({**good, "a": 5}), file_of({**good, "__metadata__": []}),
                 file_of({**good, "__metadata__": {"a": 1}}), file_of({**good, ESCAPES: {}}),
                 *(file_of(body, b"") for body in wrong_json(a={**matrix, "shape": [0], "data_offsets": [0, 0]}))):
        malformed(lambda f=file: runnel.read_safetensors(f), "safetensors")


def test_watcher(directory):
    """An invalid message is raised, and the next one is read."""
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(zmq.Context())
        publisher = stack.enter_context(context.socket(zmq.XPUB))
        publisher.linger = 0
        endpoint = f"ipc://{directory}/statistics"
        publisher.bind(endpoint)
        watcher = stack.enter_context(runnel.Watcher(endpoint, ["loss", "prediction"], timeout=LIMIT))
        while publisher.recv() != b"\x01status":
            pass
        good = {"run": "r", "sequence": 1}
        bodies = wrong_json(**good) + [json.dumps({**good, **wrong}).encode() for wrong in (
            {"sequence": "1"}, {"sequence": True}, {"sequence": 1.0}, {"sequence": -1}, {"sequence": None}, {"run": 5})]
        text = json.dumps(good).encode()
        for frames in [[b"loss", body] for body in bodies] + [[b"loss"], [b"loss", text, text], [b"loss\x1b[2J", text]]:
            publisher.send_multipart(frames)
            malformed(watcher.next)
        scored = {"example": 1, "loss": 0.5, "data_time": None}
        for wrong in (5, "text", [5], {}, {**scored, "example": -1}, {**scored, "example": "1"}, {**scored, "loss": "high"},
                      {**scored, "data_time": [1]}, {**scored, "step": True}, {**scored, "ahead": 1.5}):
            publisher.send_multipart([b"prediction", json.dumps({**good, "stream": "s", "scored": wrong}).encode()])
            malformed(lambda: next(watcher.join()), "prediction")
        for levels, quantiles in (([0.1, 0.9], [[1]]), ([0.1, 0.9], [[1, 2], [3]]), ([0.9, 0.1], [[1, 2]]), ([], [[]]),
                                  (0.5, [[1]]), ([0.5], 1), ([0.5], [["x"]]), ([[0.5]], [[1]]), ([0.5], [])):
            wrong = {**good, "stream": "s", "levels": levels, "scored": {**scored, "quantiles": quantiles}}
            publisher.send_multipart([b"prediction", json.dumps(wrong).encode()])
            malformed(lambda: next(watcher.join()), "quantiles")
        publisher.send_multipart([b"prediction", json.dumps({**good, "scored": scored}).encode()])
        malformed(lambda: next(watcher.join()))  # without a stream
        publisher.send_multipart([b"prediction", json.dumps({**good, "stream": "s", "scored": scored}).encode()])
        assert next(watcher.join()).loss == 0.5


def test_good_json():
    """Valid messages are read unchanged."""
    text = '{"a":[1e308,-0.0,18446744073709551615,-9223372036854775808,"\\u001b\\ud83d\\ude00é",null,true,{"b":{}}]}'
    assert runnel.reading.json_object(text.encode(), "it") == json.loads(text)
    assert wire.ACKNOWLEDGEMENT.size == len(acknowledgement())


cases.run(globals())
