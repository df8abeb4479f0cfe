#!/usr/bin/python3
"""AsyncClient of the Python package (streams/python) with running daemons: like Client, but
awaited, with several tasks and a kill of the daemon."""
import asyncio
import json
import os
import pathlib
import sqlite3
import struct
import sys

import cases
import running

try:
    import numpy as np
except ImportError:
    print("needs python3-numpy")
    sys.exit(77)

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
sys.dont_write_bytecode = True
sys.path.insert(0, str(SOURCE / "streams/python"))

import runnel  # noqa: E402  pylint: disable=wrong-import-position

LIMIT = running.LIMIT
NOBODY = 0.3  # seconds to wait for a peer that never connects
CONFIG = """
name: async
model:
  input: {input}
  layers: [{{cell: rnn, size: 4}}]
  output: {output}
learning: {{window: 4, stride: 4, optimizer: {{kind: adam, rate: 0.01}}}}
examples: {{bind: "ipc://{d}/examples", socket: router}}
statistics: {{bind: "ipc://{d}/statistics"}}
control: {{bind: "ipc://{d}/control"}}
state: {{directory: "{d}/state", journal: {{keep: all}}}}
"""
REAL, NEXT = "{kind: real, size: 2}", "{loss: squared, size: 2, target: next}"
COLUMNS = "{columns: [{name: load, kind: real}, {name: host, kind: symbol, vocabulary: {capacity: 4}}]}"
WORDS = "{kind: symbol, vocabulary: {capacity: 2, unknown: reject}}"
CLASSES = "{loss: softmax, target: given, vocabulary: {capacity: 2}}"


def daemon(directory, x=REAL, y=NEXT):
    return running.Daemon(directory, CONFIG.format(d=directory, input=x, output=y))


def client(one, **options):
    return runnel.AsyncClient(one.endpoint("examples"), timeout=LIMIT, **options)


def journal(directory):
    """The examples in the order of learning: (stream, first number of x)."""
    file = sqlite3.connect(f"file:{directory}/state/journal.sqlite?mode=ro", uri=True)
    rows = file.execute("SELECT stream, x FROM entries WHERE kind = 1 ORDER BY position").fetchall()
    file.close()
    return [(row[0].decode(), struct.unpack("<f", row[1][:4])[0]) for row in rows]


async def raises(kind, awaited, *words):
    """Checks that it raises this kind of exception with these words, and returns it."""
    try:
        await awaited
    except kind as error:
        assert all(word in str(error) for word in words), str(error)
        return error
    raise AssertionError(f"no {kind.__name__}")


def test_asyncio(directory):
    async def feed(one, c, name):
        numbers = [await c.learn([n, 0], stream=name) for n in range(500)]
        assert [number.sequence for number in numbers] == list(range(1, 501))
        if name == "a":
            await c.flush()
            one.process.kill()
            one.process.wait()
            one.start()
        shown = await c.predict([500, 0], stream=name)
        assert shown.values.shape == (2,) and shown.number == (name, 501, 0)

    async def main(one):
        async with client(one, window=100) as c:
            await feed(one, c, "a")
            await asyncio.gather(*(feed(one, c, name) for name in ("b", "c")))
            await raises(ValueError, c.learn([1, 2, 3]), "(3,)")
        assert c.counts.acknowledged == 3 * 501, c.counts
        nobody = runnel.AsyncClient(f"ipc://{directory}/nobody", timeout=NOBODY)
        await raises(runnel.Unavailable, nobody.learn([1, 2]), "is runneld running")
        await nobody._leave()

    with daemon(directory) as one:
        asyncio.run(main(one))
    for name in "abc":
        assert [x for stream, x in journal(directory) if stream == name] == list(range(501))


def test_many(directory):
    """Arrays, by two tasks at once and more than the window holds, with a kill: each stream in its
    order."""
    count = 3000

    async def feed(c, name, first):
        rows = np.stack([np.arange(first, first + count), np.zeros(count)], axis=1)
        assert (await c.learn_many(rows, stream=name)).sequence == count
        assert await c.learn_many([], stream=name) is None

    async def main(one):
        async with client(one, window=700) as c:
            await asyncio.gather(feed(c, "a", 0), feed(c, "b", count))
            one.process.kill()
            one.process.wait()
            one.start()
            await c.learn_many([[1, 2]] * 3, times=[1.0, 2.0, 3.0], stream="c")
            await raises(ValueError, c.learn_many([[1, 2]] * 3, times=[1.0]), "expected 3 times", "got 1")
            await raises(ValueError, c.learn_many([[1, 2, 3]] * 3), "(3, 3)")
        assert c.counts.acknowledged == 2 * count + 3 and c.counts.refused == 0, c.counts

    with daemon(directory) as one:
        asyncio.run(main(one))
    found = journal(directory)
    assert [x for name, x in found if name == "a"] == list(range(count))
    assert [x for name, x in found if name == "b"] == list(range(count, 2 * count))


def test_words(directory):
    """Words and classes, one by one and many; a rejection is raised, or passed to on_refused."""
    refused = []

    async def main(one):
        async with client(one, on_refused=refused.append) as c:
            await c.learn_many(["web", "db"] * 20, ["free", "busy"] * 20)
            shown = await c.predict("web", "free")
            assert shown.values.shape == (3,) and shown.loss > 0 and shown.names == ["free", "busy", None], shown
            error = await raises(runnel.Refused, c.learn("mail", "free", wait=True), "mail")
            assert error.reason == "vocabulary"
            await c.learn("mail", "free")
            await c.flush()
        assert [(one.reason, one.sequence) for one in refused] == [("vocabulary", 43)], refused
        assert c.counts.acknowledged == 41 and c.counts.refused == 2, c.counts

    with daemon(directory, WORDS, CLASSES) as one:
        asyncio.run(main(one))
        with runnel.Control(one.endpoint("control"), timeout=LIMIT) as control:
            assert json.loads(control.export().metadata["vocabulary"]) == {"input": ["web", "db"], "output": ["free", "busy"]}


def test_columns(directory):
    """Rows by name, and by place with numbers and words."""
    async def main(one):
        async with client(one) as c:
            number = await c.learn_many([{"load": 0.1, "host": "web"}, {"host": "db", "load": np.float32(0.2)}], [1.0, 2.0])
            assert number.sequence == 2
            assert (await c.learn_many([[0.1, "web"], [0.2, "db"]], np.array([1.0, 2.0]))).sequence == 4
            assert (await c.predict({"load": 0.1, "host": "web"}, 1.0)).values.shape == (1,)
            await raises(runnel.Refused, c.learn({"laod": 1, "host": "web"}, 1.0, wait=True), "'laod'")

    with daemon(directory, COLUMNS, "{loss: squared, size: 1, target: given}") as one:
        asyncio.run(main(one))
        assert one.ask("status")["steps"] == 5


cases.run(globals())
