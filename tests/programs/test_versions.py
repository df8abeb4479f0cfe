#!/usr/bin/python3
"""Reads files of earlier versions: checkpoints lead to the parameters that the earlier program exported,
journals are replayed, and learning continues with the same bits.

tests/support/versions/VERSION/CASE/ contains a state directory as the program of that version left
it, and the parameters that it exported at its last checkpoint. `test_versions.py write VERSION
CASE...`, with builddir at that version's build tree, has written them."""
import base64
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

import recovery
import running
import zmq

import cases

SOURCE = pathlib.Path(os.environ.get("srcdir", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("builddir", "."))
VERSIONS = SOURCE / "tests" / "support" / "versions"
BEFORE, AFTER = 60, 40  # examples in the checkpoint, and examples only in the journal
# learning.optimizer.rate is set after this number: the journal has the command
SET, RATE = 80, 0.004
STREAMS = 5  # more than max_streams: some are forgotten and return
SEED = 7
FORMAT = 4  # of the journal in the earlier version
CHECKPOINT = "checkpoint.safetensors"
PIECE = 45000  # bytes of a stream's state in one request
# an instruction set of every machine: those files were written with it
os.environ["RUNNEL_ISA"] = "baseline"

CASES = {
    # name: (configuration of the model and of learning, numbers of x, kind of target)
    "gru": ("""
model:
  input: {kind: real, size: 3, scale: standard, missing: hold}
  layers: [{cell: gru, size: 8, norm: layer}]
  output: {loss: squared, size: 3, target: next}
learning: {window: 4, stride: 2, optimizer: {kind: adam, rate: 0.01}, clip: 1.0, max_streams: 3}
""", 3, None),
    "lstm": ("""
model:
  input: {kind: real, size: 2}
  layers:
    - {cell: dense, size: 5, norm: layer, activation: tanh}
    - {cell: lstm, size: 6, norm: layer, forget_bias: 1.0}
    - {cell: lstm, size: 4, norm: none}
  output: {loss: softmax, size: 4, target: given}
learning: {window: 3, stride: 3, optimizer: {kind: rmsprop, rate: 0.01}, clip: 0.5, max_streams: 3}
""", 2, "class"),
    "rnn": ("""
model:
  input: {kind: symbol, size: 9, embedding: 4}
  layers: [{cell: rnn, size: 7, norm: layer}]
  output: {loss: softmax, size: 9, target: next}
learning:
  {window: 6, stride: 3, optimizer: {kind: sgd, rate: 0.05, momentum: 0.9, nesterov: true}, max_streams: 3}
""", 0, None),
    # Its journal, of format 3, has commands of several kinds: see send_commands.
    "commands": ("""
model:
  input: {kind: real, size: 2}
  layers: [{cell: gru, size: 4, norm: layer}]
  output: {loss: squared, size: 2, target: next}
learning: {window: 4, stride: 2, optimizer: {kind: adam, rate: 0.01}, max_streams: 4}
""", 2, None),
    # All parts of a stream besides the network: experts, horizons, truths, anomalies, times.
    "forecast": ("""
model:
  input: {kind: real, size: 1, scale: forecast, missing: hold, time: [gap, day]}
  layers: [{cell: gru, size: 6, norm: layer}]
  output: {loss: squared, size: 1, target: next, ahead: [1, 3]}
experts: [last, ewma, lag, ar3]
members:
  - {name: change, set: {model.output.relative: last}}
  - {name: level, set: {model.output.relative: none}}
anomaly: {enabled: true, memory: 20}
learning: {window: 4, stride: 2, optimizer: {kind: adam, rate: 0.01}, clip: 1.0, max_streams: 3}
""", 1, None),
}
STREAM = "stream-1"  # its last state is stored, too, as `export` returns it at the checkpoint
LEFT_OUT = {"commands": 5}  # examples, by a rollback after the last of them


EARLIER = ("kind: adam,", "kind: adam, beta1: 0.9,")  # the default of these versions, stated


def configuration(case, directory):
    return f"""
name: {case}
seed: 3
device: cpu
{CASES[case][0]}
examples: {{bind: "ipc://{directory}/examples", socket: router}}
statistics: {{bind: "ipc://{directory}/statistics", predictions: {"all" if case == "forecast" else "false"}}}
control: {{bind: "ipc://{directory}/control"}}
state:
  directory: {directory}/state
  checkpoint: {{examples: 0, seconds: 0}}
  journal: {{keep: all}}
"""


def examples(case):
    """The messages [key, x, y, header], equal in every call."""
    r, (_, inputs, target), sequences = random.Random(SEED), CASES[case], {}
    for _ in range(BEFORE + AFTER):
        key = f"stream-{r.randrange(STREAMS)}".encode()
        steps = r.choice((1, 1, 2))
        if inputs:
            numbers = [r.gauss(0, 1) for _ in range(steps * inputs)]
            if case in ("gru", "forecast") and r.random() < 0.1:
                numbers[0] = float("nan")
            x = struct.pack(f"<{len(numbers)}f", *numbers)
        else:
            x = struct.pack(f"<{steps}I", *(r.randrange(9) for _ in range(steps)))
        y = struct.pack(f"<{steps}I", *(r.randrange(4) for _ in range(steps))) if target else b""
        flags = (recovery.END if r.random() < 0.05 else 0) | (
            recovery.DO_NOT_LEARN if r.random() < 0.1 else 0)
        sequences[key] = sequences.get(key, 0) + 1
        yield [key, x, y, struct.pack("<BBHIQd", 1, flags, 0, 1, sequences[key], 1.7e9)]


@contextlib.contextmanager
def started(case, state=None, change=None):
    """A daemon that resumes from a copy of the state directory."""
    change = change or ("", "")
    with tempfile.TemporaryDirectory(prefix="versions-") as name:
        directory = pathlib.Path(name)
        if state:
            shutil.copytree(state, directory / "state")
            for path in (directory / "state").iterdir():
                path.chmod(0o600)
        with running.Daemon(directory, configuration(case, directory).replace(*change)) as daemon:
            yield daemon


def feed(daemon, messages):
    """Sends all messages, and waits for every acknowledgement."""
    with daemon.socket(zmq.DEALER, "examples") as socket:
        for message in messages:
            socket.send_multipart(message)
        for _ in messages:
            _, answer = recovery.acknowledgement(daemon.next_message(socket))
            assert answer.status == recovery.ACCEPTED, answer


def wait_for(daemon, count):
    end = time.monotonic() + running.LIMIT
    while (status := daemon.ask("status"))["examples"] != count or status["state"] != "learning":
        assert time.monotonic() < end, status
        time.sleep(0.01)


def send_commands(daemon, exported):
    """Sends a command of each kind that a journal without brokers and anomalies has."""
    _, state = daemon.request("export", stream="stream-1")
    daemon.ask("reset")
    daemon.ask("import", blob=base64.b64encode(exported).decode())
    daemon.ask("adopt", blob=base64.b64encode(state).decode())
    daemon.ask("forget", stream="stream-3")
    daemon.ask("forget", streams=["stream-2"])


def feed_rest(daemon, case):
    """Sends the messages after the checkpoint."""
    messages = list(examples(case))
    exported = daemon.export()
    feed(daemon, messages[BEFORE:SET])
    wait_for(daemon, SET)
    if case in LEFT_OUT:
        send_commands(daemon, exported)
    daemon.ask("set", key="learning.optimizer.rate", value=RATE)
    feed(daemon, messages[SET:])
    wait_learned(daemon, case, rolled_back=False)
    if case in LEFT_OUT:
        newest = daemon.ask("status")["journal"]["position"]
        daemon.ask("rollback", spans=[[newest - LEFT_OUT[case] + 1, newest]])
        wait_learned(daemon, case)


def wait_learned(daemon, case, rolled_back=True):
    """Waits until all messages of the case are learned; after a reset, examples count from 0."""
    count = AFTER - (SET - BEFORE) if case in LEFT_OUT else BEFORE + AFTER
    wait_for(daemon, count - (LEFT_OUT.get(case, 0) if rolled_back else 0))


def journal_format(state):
    with contextlib.closing(sqlite3.connect(state / "journal.sqlite")) as file:
        return file.execute("PRAGMA user_version").fetchone()[0]


def kinds(state):
    """The kinds of commands by position."""
    with contextlib.closing(sqlite3.connect(state / "journal.sqlite")) as file:
        return file.execute("SELECT position, kind, json_extract(command, '$.command') FROM entries "
                            "WHERE kind > 1 ORDER BY position").fetchall()


def without_journal(state, to):
    shutil.copytree(state, to, ignore=shutil.ignore_patterns("journal*"))
    return to


def write(version, cases):
    """Writes the files of this build to VERSIONS / version."""
    for case in cases:
        place = VERSIONS / version / case
        place.mkdir(parents=True)
        messages = list(examples(case))
        with started(case) as daemon:
            feed(daemon, messages[:BEFORE])
            wait_for(daemon, BEFORE)
            daemon.ask("checkpoint")
            checkpoint = (daemon.directory / "state" / CHECKPOINT).read_bytes()
            (place / "exported.safetensors").write_bytes(daemon.export())
            if case == "forecast":
                (place / "stream.state").write_bytes(daemon.request("export", stream=STREAM)[1])
            feed_rest(daemon, case)
            (place / "continued.safetensors").write_bytes(daemon.export())
            daemon.process.kill()
            daemon.process.wait()
            shutil.copytree(daemon.directory / "state", place / "state",
                            ignore=shutil.ignore_patterns("*.previous.*", "*.first.*", "*.tmp", "*-shm", "lock"))
            # the entries before those of the rollback
            (place / "state" / CHECKPOINT).write_bytes(checkpoint)
        print(place, json.dumps(sorted(path.name for path in (place / "state").iterdir())))


def kept():
    found = sorted(VERSIONS.glob("*/*/state"))
    assert {path.parent.name for path in found} == set(CASES), found
    return found


def tensors(blob):
    """The headers of the tensors in a safetensors file, and their bytes."""
    size, = struct.unpack("<Q", blob[:8])
    header = json.loads(blob[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (about["dtype"], about["shape"], blob[8 + size + about["data_offsets"][0]:
                                                        8 + size + about["data_offsets"][1]])
            for name, about in header.items()}


def test_checkpoint(directory):
    """The checkpoint alone leads to the parameters that the earlier program exported."""
    for state in kept():
        case = state.parent.name
        own = without_journal(state, pathlib.Path(directory, f"{state.parts[-3]}-{case}"))
        with started(case, own) as daemon:
            wait_for(daemon, BEFORE)
            assert daemon.ask("status")["resumed"]
            exported = (state.parent / "exported.safetensors").read_bytes()
            assert tensors(daemon.export()) == tensors(exported), state
            assert daemon.end() == 0, daemon.text()


def beta1(daemon):
    return daemon.ask("config")["configuration"]["learning.optimizer.beta1"]


def restart(daemon, *change):
    assert daemon.end() == 0, daemon.text()
    daemon.path.write_text(daemon.path.read_text(encoding="utf-8").replace(*change), encoding="utf-8")
    daemon.log.close()
    daemon.start()
    daemon.ask("status")


def test_default(directory):
    """State that was learned with the default of an earlier version continues with it, until the
    configuration states the current one."""
    state = VERSIONS / "0.1.0" / "gru" / "state"
    own = without_journal(state, pathlib.Path(directory, "own"))
    blob = (VERSIONS / "0.1.0-4" / "forecast" / "stream.state").read_bytes()
    with started("gru", own) as daemon:
        wait_for(daemon, BEFORE)
        assert daemon.text().count("which stays: learning.optimizer.beta1: 0.9") == 1, daemon.text()
        assert beta1(daemon) == 0.9
        daemon.process.send_signal(signal.SIGHUP)
        daemon.until(lambda: daemon.ask("status")["state"] == "learning")
        daemon.ask("set", key="learning.optimizer.rate", value=RATE)
        daemon.ask("reset")
        assert beta1(daemon) == 0.9
        restart(daemon, "rate: 0.01", "rate: 0.02")
        assert beta1(daemon) == 0.9 and "optimizer's moments" not in daemon.text(), daemon.text()
        restart(daemon, *EARLIER)
        assert beta1(daemon) == 0.9 and "which stays" not in daemon.text(), daemon.text()
        restart(daemon, "beta1: 0.9", "beta1: 0")
        assert beta1(daemon) == 0 and "the optimizer's moments start from scratch" in daemon.text()
        restart(daemon, "beta1: 0, ", "")
        assert beta1(daemon) == 0 and "which stays" not in daemon.text(), daemon.text()
    with started("gru") as daemon:
        assert beta1(daemon) == 0
    with started("forecast") as daemon:
        pieces = [blob[at:at + PIECE] for at in range(0, len(blob), PIECE)]
        for n, piece in enumerate(pieces):
            reply = daemon.request("adopt", part=n + 1, parts=len(pieces),
                                   blob=base64.b64encode(piece).decode())[0]
        assert reply["error"].endswith("set learning.optimizer.beta1: 0.9 here"), reply
    with started("commands", VERSIONS / "0.1.0-3" / "commands" / "state") as daemon:
        wait_learned(daemon, "commands")
        assert beta1(daemon) == 0.9


def stream_rows(blob):
    """The rows of a stream's state, by name."""
    key, rows = bytes([len(STREAM)]) + STREAM.encode(), {}
    at = blob.index(key) + len(key) + 2
    while at < len(blob):
        name = blob[at + 1:at + 1 + blob[at]]
        at += 1 + len(name)
        size, = struct.unpack_from("<Q", blob, at)
        rows[name] = blob[at + 8:at + 8 + size]
        at += 8 + size
    return rows


def test_stream_state(directory):
    """A stream's state from an earlier program can be adopted, and its export has the same bytes,
    besides rows that the earlier program lacked."""
    for path in sorted(VERSIONS.glob("*/*/stream.state")):
        state, case, kept_state = path.parent / "state", path.parent.name, path.read_bytes()
        own = without_journal(state, pathlib.Path(directory, f"{state.parts[-3]}-{case}"))
        with started(case, own) as daemon:
            wait_for(daemon, BEFORE)
            daemon.ask("forget", stream=STREAM)
            pieces = [kept_state[at:at + PIECE] for at in range(0, len(kept_state), PIECE)]
            for n, piece in enumerate(pieces):
                daemon.ask("adopt", part=n + 1, parts=len(pieces), blob=base64.b64encode(piece).decode())
            rows = stream_rows(daemon.request("export", stream=STREAM)[1])
            earlier = stream_rows(kept_state)
            for name in earlier.keys() & {b"streams.anomaly"}:  # which began with a time of that daemon
                earlier[name] = bytes(8) + earlier[name][8:]
            assert len(earlier) > 5 and {name: rows[name] for name in earlier} == earlier, path
            assert all(not any(rows[name]) for name in rows.keys() - earlier), path
            feed(daemon, list(examples(case))[BEFORE:])
            wait_for(daemon, BEFORE + AFTER)
            assert daemon.end() == 0, daemon.text()


def test_journal(directory):
    """A replay of the journal after the checkpoint leads to the same bits as the same examples from
    the socket."""
    for state in kept():
        case = state.parent.name
        own = without_journal(state, pathlib.Path(directory, f"{state.parts[-3]}-{case}"))
        with started(case, own) as daemon:
            wait_for(daemon, BEFORE)
            feed_rest(daemon, case)
            fed = daemon.export()
        with started(case, state) as daemon:
            wait_learned(daemon, case)
            assert daemon.ask("status")["rate"] == RATE
            assert daemon.export() == fed, state
            with daemon.socket(zmq.DEALER, "examples") as socket:  # its numbers are known, too
                key, x, *rest = next(examples(case))
                other = x[:-4] + struct.pack("<I", 1)
                for content, status in ((x, recovery.DUPLICATE), (other, recovery.REJECTED)):
                    socket.send_multipart([key, content, *rest])
                    _, answer = recovery.acknowledgement(daemon.next_message(socket))
                    assert answer.status == status, answer
            assert daemon.end() == 0, daemon.text()
            assert journal_format(daemon.directory / "state") == FORMAT
            if case in LEFT_OUT:
                assert kinds(daemon.directory / "state") == [
                    (81, 3, "reset"), (82, 7, "import"), (83, 6, "adopt"), (84, 5, "forget"),
                    (85, 5, "forget"), (86, 4, "set"), (107, 11, "rollback")]


def test_replay(directory):
    """runnel-replay reads both the earlier program's journal and the one that a daemon has
    converted to the current format, with the same parameters."""
    for state in kept():
        case, exports = state.parent.name, []
        old, new = (pathlib.Path(directory, f"{state.parts[-3]}-{case}-{age}") for age in ("old", "new"))
        shutil.copytree(state, old)
        with started(case, state) as daemon:
            wait_learned(daemon, case)
            assert daemon.end() == 0, daemon.text()
            shutil.copytree(daemon.directory / "state", new)
        for journal, wanted in ((old, None), (new, FORMAT)):
            with started(case, change=EARLIER) as daemon:
                assert wanted in (None, journal_format(journal))
                run = subprocess.run(
                    [BUILD / "runnel-replay", "--socket", "router", "--connect", daemon.endpoint("examples"),
                     "--control", daemon.endpoint("control"), journal / "journal.sqlite"],
                    capture_output=True, text=True, timeout=running.LIMIT, check=False)
                assert run.returncode == 0, (state, run)
                wait_learned(daemon, case)
                exports.append(daemon.export())
        assert exports[0] == exports[1], state


def test_bits(directory):
    """On a machine that computes like the original one, the bits after the replay equal those of
    the earlier program; otherwise the daemon prints a warning. Sanitizers change the compiler's
    code."""
    if "#define RUNNEL_SANITIZERS" in (BUILD / "build-config.h").read_text(encoding="utf-8"):
        return
    for state in kept():
        case = state.parent.name
        with started(case, state) as daemon:
            wait_learned(daemon, case)
            if not daemon.ask("status").get("resumed_warning") and "warning" not in daemon.text():
                expected = (state.parent / "continued.safetensors").read_bytes()
                assert tensors(daemon.export()) == tensors(expected), (state, daemon.text())
            assert daemon.end() == 0, daemon.text()


if sys.argv[1:2] == ["write"]:
    write(sys.argv[2], sys.argv[3:] or CASES)
else:
    cases.run(globals())
