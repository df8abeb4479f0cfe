#!/usr/bin/python3
"""Tests moving a stream or parameters from one daemon to another: the predictions are the same as in the
first daemon, and a replay after a kill gives the same bits."""
import base64
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import tempfile
import zlib

import cases
import recovery
import running
from recovery import feed, message

np = recovery.np

CTL, REPLAY = (running.PROGRAM.with_name(name) for name in ("runnel-ctl", "runnel-replay"))
PIECE = 45000  # bytes of a blob in a request at most
MAGIC = b"RNSTREAM"


def configuration(directory, rate=0.01, learning="", extra="", keep="all", seed=3):
    """Inputs are scaled by the stream's own values, so that only parameters are shared."""
    return f"""
name: move
seed: {seed}
device: cpu
model:
  input: {{kind: real, size: 2, missing: hold}}
  layers: [{{cell: gru, size: 8}}]
  output: {{loss: gaussian, size: 2, target: next}}
learning: {{window: 6, stride: 3, optimizer: {{kind: adam, rate: {rate}}}, max_streams: 4{learning}}}
examples: {{bind: "ipc://{directory}/examples", socket: router}}
statistics: {{bind: "ipc://{directory}/statistics", predictions: true}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state, checkpoint: {{examples: 0, seconds: 0}}, journal: {{keep: {keep}}}}}
{extra}"""


FORECAST = """
name: move
preset: forecast
device: cpu
model: {{input: {{size: 2}}}}
learning: {{max_streams: 3}}
anomaly: {{memory: 600, shape: true}}
examples: {{bind: "ipc://{0}/examples", socket: router}}
statistics: {{bind: "ipc://{0}/statistics", predictions: true}}
control: {{bind: "ipc://{0}/control"}}
state: {{directory: {0}/state, checkpoint: {{examples: 0, seconds: 0}}, journal: {{keep: all}}}}
"""


def start(directory, text=None, **options):
    directory = pathlib.Path(directory)
    directory.mkdir(exist_ok=True)
    return running.Daemon(directory, text.format(directory) if text else
                          configuration(directory, **options))


def examples(stream, count, first=0):
    """Messages of a stream; their content does not depend on the run."""
    r = random.Random(stream)
    made = [struct.pack("<2f", np.sin(0.3 * n) + r.gauss(0, 0.1), r.gauss(0, 1))
            for n in range(first + count)]
    return [message(stream.encode(), x, n) for n, x in enumerate(made)][first:]


def feed_again(daemon, messages):
    feed(daemon, messages, recovery.DUPLICATE)


def ctl(daemon, *arguments):
    done = subprocess.run([CTL, "-c", daemon.endpoint("control"), *arguments], check=False,
                          capture_output=True, text=True, timeout=running.LIMIT)
    return done.returncode, done.stdout, done.stderr


def good(daemon, *arguments):
    status, out, err = ctl(daemon, *arguments)
    assert status == 0, (arguments, status, err)
    return out


def state_of(daemon, stream):
    reply, blob = daemon.request("export", stream=stream)
    assert reply["ok"] and reply["stream"] == stream and reply["bytes"] == len(blob), reply
    assert blob.startswith(MAGIC)
    return blob


def killed(daemon):
    daemon.end(signal.SIGKILL)
    daemon.log.close()
    daemon.start()
    daemon.ask("status")


def predict(daemon, messages):
    """Predictions and scores of these messages, which depend on state and parameters."""
    with running.subscribe(daemon) as subscriber:
        feed(daemon, messages)
        return [(p["prediction"], p["interval"], p.get("quantiles"), p.get("scored", {}).get("loss"),
                 p.get("scored", {}).get("log_score"))
                for p in running.predictions(daemon, subscriber, len(messages))]


def test_goes_on_elsewhere(directory):
    """With equal, constant parameters B predicts the same as A, bit for bit, from the middle of the stream.
    The other streams of B do not change."""
    with start(directory / "a", rate=0) as a, start(directory / "b", rate=0) as b:
        feed(a, examples("pump", 40) + examples("fan", 10))
        feed(b, examples("own", 20))
        before, own = a.export(), state_of(b, "own")
        path = str(directory / "pump.state")
        out = good(a, "export", path, "pump")
        assert "state of stream 'pump'" in out and path in out, out
        assert good(b, "adopt", path) == "adopted stream 'pump'\n"
        assert state_of(b, "own") == own and b.export() == before
        assert b.ask("status")["streams"] == 2
        rest = examples("pump", 30, 40)
        here, there = predict(a, rest), predict(b, rest)
        assert here == there
        assert good(a, "forget", "pump").startswith("forgot stream 'pump'")
        status, _, err = ctl(a, "export", path, "pump")
        assert status == 70 and "stream 'pump' not found in memory" in err, err
        # A stream that starts from scratch in B has other predictions.
        feed(b, examples("own", 1, 20))
        good(b, "forget", "pump")
        assert predict(b, examples("pump", 30, 40)) != here


def test_other_parameters(directory):
    """B combines its own parameters with the state from A."""
    with start(directory / "a", rate=0) as a, start(directory / "b", rate=0, seed=3) as b:
        feed(b, examples("own", 8))
        b.ask("set", key="learning.optimizer.rate", value=0.05)
        feed(b, examples("own", 30, 8))
        b.ask("set", key="learning.optimizer.rate", value=0)
        assert a.export() != b.export()
        feed(a, examples("pump", 40))
        (directory / "a.safetensors").write_bytes(b.export())
        assert "parameters" in good(a, "import", str(directory / "a.safetensors"))
        assert a.export() == b.export()
        blob = state_of(a, "pump")
        (directory / "pump").write_bytes(blob)
        good(b, "adopt", str(directory / "pump"))
        rest = examples("pump", 20, 40)
        assert predict(a, rest) == predict(b, rest)


def test_kills(directory):
    """An adoption survives a kill, with a checkpoint before it, after it, or without one: later learning is
    the same."""
    with start(directory / "a") as a, start(directory / "b") as b:
        feed(a, examples("pump", 50))
        (directory / "pump").write_bytes(state_of(a, "pump"))
        (directory / "a.safetensors").write_bytes(a.export())
        feed(b, examples("own", 30))
        good(b, "adopt", str(directory / "pump"))
        feed(b, examples("pump", 10, 50))
        learned, state = b.export(), state_of(b, "pump")
        killed(b)
        assert b.export() == learned and state_of(b, "pump") == state
        b.ask("checkpoint")
        good(b, "adopt", str(directory / "pump"))  # the stream returns to its first daemon
        good(b, "import", str(directory / "a.safetensors"))
        feed(b, examples("own", 10, 30))
        learned, state = b.export(), state_of(b, "pump")
        assert state == (directory / "pump").read_bytes()
        killed(b)
        assert b.export() == learned and state_of(b, "pump") == state
        b.ask("checkpoint")
        killed(b)
        assert b.export() == learned and state_of(b, "pump") == state


def test_without_room(directory):
    """The least recently used stream is dropped, as for an example."""
    with start(directory / "a") as a, start(directory / "b") as b:
        feed(a, examples("pump", 10))
        (directory / "pump").write_bytes(state_of(a, "pump"))
        for name in ("one", "two", "three", "four"):
            feed(b, examples(name, 5))
        feed(b, examples("one", 1, 5))
        good(b, "adopt", str(directory / "pump"))
        assert not b.request("export", stream="two")[0]["ok"]
        states = [state_of(b, name) for name in ("one", "three", "four", "pump")]
        killed(b)
        assert [state_of(b, name) for name in ("one", "three", "four", "pump")] == states
        assert b.ask("status")["streams"] == 4


def test_large_states(directory):
    """A state with anomalies is larger than a request and is sent in pieces. Kills, and a rollback to a
    position between two pieces."""
    with start(directory / "a", FORECAST) as a, start(directory / "b", FORECAST) as b:
        feed(a, examples("pump", 700))
        blob = state_of(a, "pump")
        assert len(blob) > PIECE
        (directory / "pump").write_bytes(blob)
        feed(b, examples("own", 20))
        learned = b.export()
        b.ask("checkpoint")
        last = feed(b, examples("own", 1, 20))[0]
        good(b, "adopt", str(directory / "pump"))
        adopted = state_of(b, "pump")
        assert len(adopted) == len(blob)
        killed(b)
        assert state_of(b, "pump") == adopted
        # The first piece alone is not a stream.
        entries = recovery.read_journal(directory / "b")
        commands = [p for p, e in entries.items() if e.command]
        assert commands == list(range(last + 1, last + 1 + -(-len(blob) // PIECE)))
        b.ask("rollback", to=commands[0])
        assert not b.request("export", stream="pump")[0]["ok"]
        killed(b)
        assert not b.request("export", stream="pump")[0]["ok"]
        b.ask("rollback", to=last - 1)
        assert b.export() == learned


def test_rollback(directory):
    """A rollback removes later adoptions and imports."""
    with start(directory / "a") as a, start(directory / "b") as b:
        feed(a, examples("pump", 20))
        (directory / "pump").write_bytes(state_of(a, "pump"))
        (directory / "a.safetensors").write_bytes(a.export())
        feed(b, examples("own", 20))
        b.ask("checkpoint")
        last = feed(b, examples("own", 3, 20))[-1]
        learned, own = b.export(), state_of(b, "own")
        good(b, "import", str(directory / "a.safetensors"))
        good(b, "adopt", str(directory / "pump"))
        feed(b, examples("pump", 5, 20))
        for _ in range(2):
            answer = b.ask("rollback", to=last)
            assert answer["commands_left_out"] == 2, answer
            assert b.export() == learned and state_of(b, "own") == own
            assert not b.request("export", stream="pump")[0]["ok"]
            killed(b)
            assert b.export() == learned
            good(b, "import", str(directory / "a.safetensors"))
            good(b, "adopt", str(directory / "pump"))


def test_kept_without_a_journal(directory):
    """Imported parameters are not in a journal entry here. If the configuration then changes before the first
    example, the error contains their file."""
    without = configuration(directory).replace("keep: all", "enabled: false") \
        .replace(", socket: router", "")
    with running.Daemon(directory, without) as daemon:
        (directory / "own.safetensors").write_bytes(daemon.export())
        good(daemon, "import", str(directory / "own.safetensors"))
        assert daemon.end() == 0
    with running.Daemon(directory, configuration(directory, seed=4)) as daemon:
        assert daemon.process.wait(running.LIMIT) == 78
        assert "another configuration" in daemon.text(), daemon.text()


def files(directory):
    return sorted(path.name for path in (directory / "state").glob("parameters.*"))


def test_files_of_parameters(directory):
    """Files of parameters exist as long as an entry needs them, and are part of a backup. If one is missing,
    the daemon reports it."""
    with start(directory / "a", keep="checkpoint") as a:
        feed(a, examples("own", 20))
        a.ask("checkpoint")
        (directory / "early").write_bytes(a.export())
        feed(a, examples("own", 20, 20))
        good(a, "import", str(directory / "early"))
        feed(a, examples("own", 5, 40))
        learned, (name,) = a.export(), files(directory / "a")
        good(a, "backup", str(directory / "copy"))
        assert (directory / "copy" / name).exists()
        a.end(signal.SIGKILL)
        (directory / "a" / "state" / name).rename(directory / "kept")
        a.log.close()
        a.start()
        assert a.process.wait(running.LIMIT) == 74
        assert name in a.text() and "is missing" in a.text(), a.text()
        (directory / "a" / "state" / name).write_bytes(b"x" * (directory / "kept").stat().st_size)
        a.log.close()
        a.start()
        assert a.process.wait(running.LIMIT) == 74
        assert "is damaged" in a.text(), a.text()
        (directory / "kept").rename(directory / "a" / "state" / name)
        a.log.close()
        a.start()
        assert a.export() == learned

        def gone():
            return not files(directory / "a")

        a.until(gone, lambda: (feed(a, examples("own", 1, 45 + a.ask("status")["examples"])),
                               a.ask("checkpoint")))
    with start(directory / "b") as b:  # a directory of its own, to be replaced
        b.ask("status")
        b.end()
        for path in (directory / "b" / "state").iterdir():
            path.unlink()
        done = subprocess.run([CTL, "restore", "--state", directory / "b" / "state",
                               directory / "copy"], check=False, capture_output=True, text=True,
                              timeout=running.LIMIT)
        assert done.returncode == 0, done.stderr
        b.log.close()
        b.start()
        assert b.export() == learned


def test_replayed_elsewhere(directory):
    """runnel-replay also sends adoptions and imported parameters."""
    with start(directory / "a") as a, start(directory / "b") as b, start(directory / "c") as c:
        feed(a, examples("pump", 20))
        (directory / "pump").write_bytes(state_of(a, "pump"))
        (directory / "a.safetensors").write_bytes(a.export())
        feed(b, examples("own", 20))
        good(b, "adopt", str(directory / "pump"))
        good(b, "import", str(directory / "a.safetensors"))
        feed(b, examples("pump", 9, 20))
        assert b.end() == 0
        done = subprocess.run(
            [REPLAY, "--speed", "full", "--socket", "router", "--connect", c.endpoint("examples"),
             "--control", c.endpoint("control"), directory / "b" / "state"],
            check=False, capture_output=True, text=True, timeout=running.LIMIT)
        assert done.returncode == 0, done.stderr
        b.log.close()
        b.start()
        assert b.export() == c.export() and state_of(b, "pump") == state_of(c, "pump")


def test_forgets_several(directory):
    """Forgets states, but not sequence numbers, since another daemon has the streams now. Also with a kill,
    and with invalid lists."""
    with start(directory / "a") as a:
        for name in ("one", "two", "three"):
            feed(a, examples(name, 12))
        kept = state_of(a, "three")
        assert a.ask("forget", streams=["one", "two", "nobody"])["streams"] == 2
        for _ in range(2):
            assert a.ask("status")["streams"] == 1 and state_of(a, "three") == kept
            assert not a.request("export", stream="one")[0]["ok"]
            killed(a)
        for streams in ([7], ["x" * 256], ["three", None]):
            reply = a.request("forget", streams=streams)[0]
            assert not reply["ok"] and "streams: expected a list" in reply["error"], reply
        assert not a.request("forget", streams="three")[0]["ok"]
        assert state_of(a, "three") == kept
        # Repeated sequence numbers are duplicates.
        before = a.export()
        feed_again(a, examples("one", 3))
        assert a.export() == before


def test_part_of_two_adoptions(directory):
    """A rollback removes the end of one adoption and the beginning of another: no adoption remains."""
    with start(directory / "a", FORECAST) as a, start(directory / "b", FORECAST) as b:
        feed(a, examples("pump", 700))
        (directory / "first").write_bytes(state_of(a, "pump"))
        feed(a, examples("pump", 5, 700))
        (directory / "second").write_bytes(state_of(a, "pump"))
        last = feed(b, examples("own", 20))[-1]
        learned = b.export()
        b.ask("checkpoint")
        good(b, "adopt", str(directory / "first"))
        good(b, "adopt", str(directory / "second"))
        parts = -(-(directory / "first").stat().st_size // PIECE)
        assert parts == -(-(directory / "second").stat().st_size // PIECE) > 1
        b.ask("rollback", spans=[[last + parts, last + parts + 1]])
        for _ in range(2):
            assert not b.request("export", stream="pump")[0]["ok"]
            assert b.export() == learned
            killed(b)


class HurtDaemon(running.Daemon):
    """tests/support/hurt_daemon.c"""
    program = pathlib.Path(os.environ.get("builddir", "."), "tests/support/hurt_daemon").resolve()


STEPS = range(1, 5)  # of HURT_PARAMETERS
KILL = 6  # DISK_KILL


def hurt(directory, file, **environment):
    """Kills the daemon during the import or after its reply; returns whether it replied."""
    HurtDaemon.environment = {**os.environ, **{k: str(v) for k, v in environment.items()}}
    daemon = HurtDaemon(directory, configuration(directory))
    daemon.ask("status")
    if "HURT_DISK" in environment:
        daemon.process.send_signal(signal.SIGUSR1)
    text = base64.b64encode(file).decode()
    with daemon.socket(running.zmq.DEALER, "control") as socket:
        socket.send_multipart([b"", json.dumps({"command": "import", "blob": text}).encode()])
        answered = False
        while daemon.process.poll() is None and not answered:
            answered = bool(socket.poll(20))
    assert answered or daemon.process.returncode == -signal.SIGKILL, daemon.text()
    daemon.end(signal.SIGKILL)
    daemon.log.close()
    daemon.context.destroy(0)
    return answered


def test_kills_of_an_import(directory):
    """A kill at every step: before the journal entry the import has no effect and leaves no files, after it
    the import is complete."""
    with start(directory / "a") as a, start(directory / "b") as b:
        feed(a, examples("pump", 30))
        other = a.export()
        feed(b, examples("own", 30))
        b.ask("checkpoint")
        feed(b, examples("own", 7, 30))
        before, state = b.export(), state_of(b, "own")
        b.end(signal.SIGKILL)
    for step in STEPS:
        assert not hurt(directory / "b", other, HURT_PARAMETERS=step)
        with start(directory / "b") as b:
            assert b.export() == before and state_of(b, "own") == state, step
            assert not files(directory / "b"), (step, files(directory / "b"))
            b.end(signal.SIGKILL)
    done = answered = False
    after = 0
    while not answered:  # each write of the journal
        answered = hurt(directory / "b", other, HURT_DISK=KILL, HURT_AFTER=after)
        with start(directory / "b") as b:
            learned = b.export()  # it has started
            done = done or answered or bool(files(directory / "b"))
            assert learned == (other if done else before), after
            assert state_of(b, "own") == state, after
            b.end(signal.SIGKILL)
        after += 1


def test_refused(directory):
    """Each is rejected with an error and changes nothing."""
    with start(directory / "a") as a, start(directory / "b") as b, \
            start(directory / "c", learning=", clip: 2", seed=4) as c:
        feed(a, examples("pump", 20))
        feed(b, examples("own", 20))
        before, own = b.export(), state_of(b, "own")
        blob = state_of(a, "pump")
        path = directory / "file"

        def refused(words, content, command="adopt", daemon=b, code=70):
            path.write_bytes(content)
            status, _, err = ctl(daemon, command, str(path))
            assert status == code and words in err, (status, err)
            assert b.export() == before and state_of(b, "own") == own

        def bad(words, content, command="adopt"):
            """runnel-ctl finds this error itself; the daemon finds it for other clients."""
            refused(words, content, command, code=65)
            reply = b.request(command, blob=base64.b64encode(content).decode())[0]
            assert not reply["ok"], reply
            assert b.export() == before and state_of(b, "own") == own

        for at in range(16, len(blob), 97):
            bad("checksum mismatch", blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1:])
        bad("damaged", blob[:-1])
        bad("damaged", blob[:12])
        bad("not a stream state", b"x" * 100)
        bad("is empty", b"")
        bad("not a stream state", bytes(5 * len(blob)))
        larger = blob[16:] + bytes(5 * len(blob))
        refused("another configuration", blob[:12] + struct.pack("<I", zlib.crc32(larger)) + larger)
        refused("another configuration", blob, daemon=c)
        bad("does not contain parameters: this file is a stream state (use", blob, "import")
        bad("not a stream state: this file contains parameters (use", before)
        bad("not a safetensors file", b"x" * 100, "import")
        bad("damaged", before[:-1], "import")
        bad("damaged", before[:100], "import")
        refused("missing tensor", c.export().replace(b"layers.0.weight_hh", b"layers.0.weight_xx"),
                "import")
        refused(f"the daemon rejected the file {path}", c.export().replace(b"layers.0.weight_hh", b"layers.0.weight_xx"),
                "import")
        refused("not finite", before[:-4] + struct.pack("<f", float("nan")), "import")
        assert "cannot read" in ctl(b, "adopt", str(directory / "nothing"))[2]
        text = base64.b64encode(blob).decode()
        for words, request in {
                "does not follow": {"part": 2, "parts": 3, "blob": text},
                "invalid blob": {"part": 3, "parts": 2, "blob": text},
                "not base64": {"blob": "!" + text[1:]},
                "base64, whole or in parts": {"blob": 7},
        }.items():
            reply = b.request("adopt", **request)[0]
            assert not reply["ok"] and words in reply["error"], reply
        assert not b.request("export", stream=7)[0]["ok"]
        assert b.export() == before and state_of(b, "own") == own
        killed(b)
        assert b.export() == before


def rows_of(blob):
    """The position of the numbers of each row."""
    at = 16 + 17 + 17 + 8
    at += 1 + blob[at] + 2
    while at < len(blob):
        name = blob[at + 1:at + 1 + blob[at]].decode()
        at += 1 + blob[at]
        size, = struct.unpack_from("<Q", blob, at)
        at += 8
        yield name, at, size
        at += size


def test_huge_numbers(directory):
    """A state with absurd numbers is rejected, and the next checkpoint is valid."""
    with start(directory / "a", FORECAST) as a:
        feed(a, examples("pump", 60))
        blob, path = state_of(a, "pump"), directory / "pump"
        for name, at, size in rows_of(blob):
            if name not in ("streams.experts", "streams.mixture"):
                continue
            for number in (1e308, 1e200, -1e200, float("inf")):
                for place in range(at, at + size, 8 * max(1, size // 8 // 20)):
                    changed = bytearray(blob)
                    struct.pack_into("<d", changed, place, number)
                    struct.pack_into("<I", changed, 12, zlib.crc32(changed[16:]))
                    path.write_bytes(changed)
                    status, _, err = ctl(a, "adopt", str(path))
                    assert status == 70 and "damaged" in err, (name, place, number, status, err)
        assert state_of(a, "pump") == blob
        feed(a, examples("pump", 30, 60))
        a.ask("checkpoint")
        assert a.end() == 0, a.text()
        a.log.close()
        a.start()
        assert a.ask("status")["examples"] == 90
        feed(a, examples("pump", 10, 90))


def test_vocabularies():
    """Each daemon has its own numbers for words."""
    with tempfile.TemporaryDirectory(prefix="move-") as name:
        text = configuration(name).replace("kind: real, size: 2, missing: hold",
                                           "kind: symbol, vocabulary: {capacity: 9}").replace(
            "loss: gaussian, size: 2", "loss: softmax")
        with running.Daemon(name, text) as daemon:
            daemon.ask("status")
            for reply in (daemon.request("export", stream="a")[0],
                          daemon.request("adopt", blob="")[0],
                          daemon.request("import", blob="")[0]):
                assert not reply["ok"] and "vocabulary" in reply["error"], reply


if __name__ == "__main__":
    cases.run(globals())
