#!/usr/bin/python3
"""docs/reference/protocol.md agrees with runneld and the tools: the page's examples run, every
field of the daemon is described in its place, and runnel-ctl and runnel-watch work."""
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

try:
    import numpy  # noqa: F401 (the page's feeder needs it)
    import zmq
except ImportError:
    print("needs python3-zmq and python3-numpy")
    sys.exit(77)

import running
from running import LIMIT

SOURCE = pathlib.Path(os.environ.get("srcdir", pathlib.Path(__file__).parents[2]))
BUILD = pathlib.Path(os.environ.get("builddir", "."))
PAGE = (SOURCE / "docs/reference/protocol.md").read_text()
SEND = 'socket.send_multipart([b"sensor-7", x.tobytes()])'  # of the page's feeder

CONFIG = """
name: protocol
model:
  input: {kind: real, size: 3}
  layers:
    - {cell: lstm, size: 4, norm: layer}
    - {cell: gru, size: 4, norm: layer}
  output: {loss: squared, size: 3, target: next}
learning: {window: 2, stride: 2, optimizer: {kind: adam, rate: 0.001}, max_streams: 2}
statistics: {bind: "SOCKETS/statistics", every: 1, predictions: true}
examples: {bind: "SOCKETS/examples"}
control: {bind: "SOCKETS/control"}
state: {directory: DIRECTORY/state}
"""


def section(title):
    """The text below a heading, up to the next."""
    return re.search(rf"^#+ {title}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL).group(1)


def described(fields, *titles):
    text = "".join(section(title) for title in titles)
    missing = [field for field in fields if f"`{field}`" not in text]
    assert not missing, f"docs/reference/protocol.md does not describe {missing} in {titles}"


def table(title):
    """The fields in the list below a heading: {path: whether it has a condition}. The condition of
    an object is at its first member."""
    rows, group = {}, ""
    for path, only in re.findall(r"^- `([^`]+)`: (with )?", section(title), re.MULTILINE):
        inherited = "." in path and path.split(".")[0] == group and rows[previous]
        assert path not in rows, (title, path)
        rows[path] = bool(only or inherited)
        previous, group = path, path.split(".")[0]
    assert len(rows) > 4, title
    return rows


def paths(message, tallies=("rejected_by", "refused_by", "ended_by", "tags", "configuration")):
    """The members of an object, and of its members: "latency_us.p50"."""
    for key, value in message.items():
        inner = isinstance(value, dict) and key not in tallies
        yield from (f"{key}.{path}" for path in paths(value)) if inner else [key]


def check_fields(message, *titles):
    """All fields of the message are in the tables, and it has all unconditional fields. If an
    object is null, its members are not required."""
    rows, found = {}, set(paths(message))
    for title in titles:
        rows |= table(title)
    null = {key for key, value in message.items() if value is None}
    assert found - null <= set(rows), (titles, found - null - set(rows))
    missing = {path for path, only in rows.items() if not only} - found
    assert {path for path in missing if path.split(".")[0] not in null} == set(), (titles, missing)


def check_tables():
    """The tables of fields equal those of the programs."""
    for path in "docs/reference/protocol.md", "docs/reference/metrics.md", "docs/man/runneld.8":
        page = (SOURCE / path).read_text()
        made = subprocess.run([BUILD / "tools/tables/protocol_tables"], input=page.encode(), check=True,
                              capture_output=True, timeout=LIMIT).stdout.decode()
        assert "end of " in page and made == page, f"{path} is out of date: run make documents"
    for title, least in [("Statistics", 5), ("status", 30), ("loss", 20), ("state", 25)]:
        assert len(table(title)) >= least, title


def check_metrics():
    """The metrics without a field are those in the sources of runnel-web."""
    sources = (SOURCE / "tools/web/web_metrics.c").read_text()
    known = {name + {"COUNTER": "_total", "INFO": "_info"}.get(kind, "")
             for name, kind in re.findall(r'write_head\(stream, open, "(\w+)", METRIC_(\w+)',
                                          sources)}
    known |= set(re.findall(r'^ +\{"(\w+)", "[^"]*", FORECAST_', sources, re.MULTILINE))
    page = (SOURCE / "docs/reference/metrics.md").read_text()
    page = page[page.index("## Metrics of runnel-web"):page.index("## From every message")]
    assert len(known) > 8 and known == set(re.findall(r"`runnel_(\w+)", page)), known


def check_events():
    """The kinds of events in the daemon's sources are those of the page and of runneld(8)."""
    sources = "".join(path.read_text() for room in ("daemon", "cluster")
                      for path in (SOURCE / "src" / room).glob("*.c"))
    known = set(re.findall(r'announce_(?:event|logged)\(\s*daemon,[^";]*"(\w+)"', sources))
    known |= set(re.findall(r'paused \? "(\w+)" : "(\w+)"', sources)[0])
    page = set(re.findall(r"`(\w+)`", "".join(
        re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", section("event"), re.MULTILINE)))) - {"kind", "text"}
    manual = (SOURCE / "docs/man/runneld.8").read_text()
    manual = manual[manual.index(".It Ql event"):manual.index(".Ss Control")]
    manual = set(re.findall(r"^\.Ql (\w+)", manual, re.MULTILINE))
    assert len(known) > 15 and known == page == manual, (known ^ page, known ^ manual)


def page_program(title, sockets, *replacements):
    """The Python program of a section, with its default endpoints replaced."""
    program = re.search(r"```python\n(.*?)```", section(title), re.DOTALL).group(1)
    for port, name in [(5570, "examples"), (5571, "statistics"), (5572, "control")]:
        program = program.replace(f"tcp://127.0.0.1:{port}", f"{sockets}/{name}")
    for old, new in replacements:
        assert old in program, (old, program)
        program = program.replace(old, new)
    return [sys.executable, "-c", program]


def run(command, status=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, timeout=LIMIT)
    assert done.returncode == status, (command, done)
    return done.stdout


def receive_topics(socket, received, topics, enough=lambda received: True):
    """Receives until `received` has the newest message of each topic and `enough` returns true."""
    missing, end = set(topics), time.monotonic() + LIMIT
    while missing or not enough(received):
        assert time.monotonic() < end, f"after {LIMIT} s: received {received}, missing {missing}"
        if socket.poll(200):
            topic, body = socket.recv_multipart()
            received[topic.decode()] = json.loads(body)
            missing.discard(topic.decode())


@contextlib.contextmanager
def early_feeder(sockets):
    """The page's feeder after its last message, while no daemon has run yet."""
    command = page_program("Binary", sockets, (SEND, f"{SEND}; print(flush=True)"))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as feeder:
        try:
            assert feeder.stdout.readline() == b"\n"
            yield feeder
        finally:
            feeder.kill()


def check_statistics(sockets, subscriber, early):
    received = {}
    assert early.wait(LIMIT) == 0
    for _ in range(5):
        run(page_program("Binary", sockets))
    receive_topics(subscriber, received, ["status", "loss", "state", "prediction"],
         lambda received: received["loss"]["examples"] == 6)
    feeder = subscriber.context.socket(zmq.PUSH)
    feeder.connect(f"{sockets}/examples")
    for text in [b"nonsense", b'{"stream": "b", "x": [0, 1, 2]}',
                 b'{"stream": "c", "x": [0, 1, 2]}']:
        feeder.send(text)
    receive_topics(subscriber, received, ["event"],
         lambda received: received["event"]["kind"] == "stream_forgotten")
    every = ["run", "sequence", "examples", "steps", "time"]
    assert [path for path, only in table("Statistics").items() if not only] == every
    for topic, message in received.items():
        assert list(message)[:5] == every, message
        described(list(message)[5:] if topic in ("prediction", "event") else [], topic)
    check_fields(received["status"], "Statistics", "status")
    check_fields(received["loss"], "Statistics", "loss")
    for layer in received["state"]["layers"]:
        check_fields(layer, "state")
    assert list(received["state"])[5:] == ["layers"]
    return received


def check_rejections(control):
    rejected = json.loads(run([*control, "--json", "status"]))["rejected_by"]
    assert rejected == {"json": 1}, rejected
    described(rejected, "What is rejected")


def feed(daemon, sockets):
    """Sends one example, and returns when it is learned: the feeder's socket is open until then."""
    count, end = daemon.ask("status")["examples"] + 1, time.monotonic() + LIMIT
    command = page_program("Binary", sockets, (SEND, f"{SEND}; __import__('sys').stdin.read()"))
    with subprocess.Popen(command, stdin=subprocess.PIPE) as feeder:
        try:
            while daemon.ask("status")["examples"] < count:
                assert time.monotonic() < end, f"{count} examples were not learned"
        except BaseException:
            feeder.kill()  # it would wait until its example is sent
            raise
    assert feeder.returncode == 0, feeder.returncode


def read_while_feeding(daemon, command, sockets):
    """The lines that a reader prints; sends examples until it has enough of them and ends."""
    reader = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE)
    try:
        while reader.poll() is None:
            feed(daemon, sockets)
    finally:
        reader.kill()
        reader.wait()
    assert reader.returncode == 0, reader.returncode
    return reader.stdout.read().decode().splitlines()


def check_subscriber(daemon, sockets):
    program = page_program("Statistics", sockets, ("while True:", "for _ in range(2):"))
    assert len(read_while_feeding(daemon, program, sockets)) == 2


def check_control(control, directory, received):
    described(["status", "set", "checkpoint", "export", "pause", "resume", "reset", "forget",
               "normal", "abnormal", "rollback", "shutdown"], "Control")
    status = json.loads(run([*control, "--json", "status"]))
    fields = set(received["status"]) | set(received["loss"])
    assert set(status) == fields - {"sequence"} | {"ok"}, fields ^ set(status)
    shown = run([*control, "status"]).decode()
    for text in ["protocol", "learning", f"{status['examples']:,}", "real 3 > lstm 4 norm"]:
        assert text in shown, (text, shown)
    run([*control, "set", "learning.optimizer.rate", "0.0005"])
    assert json.loads(run([*control, "--json", "status"]))["rate"] == 0.0005
    run([*control, "set", "learning.window", "3"], status=70)
    assert run([*control, "pause"]) == b"paused\n" and run([*control, "resume"]) == b"learning\n"
    for command in [["set", "statistics.every", "2"], ["checkpoint"],
                    ["export", directory / "out.safetensors"]]:
        reply = json.loads(run([*control, "--json", *command]))
        described(set(reply) - {"ok"}, "Control")
    exported = (directory / "out.safetensors").read_bytes()
    length = int.from_bytes(exported[:8], "little")
    tensors = json.loads(exported[8:8 + length])
    assert "layers.1.norm_hh.gain" in tensors and tensors["output.weight"]["shape"] == [3, 4]
    assert run([*control, "export", "-"]) == exported


def check_watch(daemon, sockets):
    watch = [BUILD / "runnel-watch", "--connect", f"{sockets}/statistics"]
    message = json.loads(run([*watch, "--json", "--topic", "status", "--count", "1"]))
    assert (message["topic"], message["name"]) == ("status", "protocol")
    lines = read_while_feeding(daemon, [*watch, "-t", "loss", "-n", "2"], sockets)
    assert len(lines) == 3 and "rmse" in lines[0] and "nan" not in lines[2], lines


def check(directory):
    sockets = f"ipc://{directory}"
    config = CONFIG.replace("SOCKETS", sockets).replace("DIRECTORY", str(directory))
    check_tables()
    check_metrics()
    check_events()
    control = [BUILD / "runnel-ctl", "--connect", f"{sockets}/control", "--timeout", LIMIT]
    with early_feeder(sockets) as early, running.Daemon(directory, config) as daemon:
        subscriber = daemon.socket(zmq.SUB, "statistics")
        subscriber.subscribe(b"")
        receive_topics(subscriber, {}, ["status"])
        received = check_statistics(sockets, subscriber, early)
        check_rejections(control)
        check_subscriber(daemon, sockets)
        assert b"0.0003" in run(page_program("Control", sockets))
        check_control(control, directory, received)
        check_watch(daemon, sockets)
        run([*control, "reset"])
        assert json.loads(run([*control, "--json", "status"]))["examples"] == 0
        assert run([*control, "shutdown"]) == b"the daemon is stopping\n"
        assert daemon.process.wait(LIMIT) == 0


with tempfile.TemporaryDirectory() as name:
    check(pathlib.Path(name))
print("ok")
