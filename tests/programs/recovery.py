"""Common functions for tests of recovery: producers that send again without an acknowledgement, a
loop that kills their daemon, and an undisturbed daemon with the same examples."""
import collections
import contextlib
import hashlib
import json
import pathlib
import queue
import random
import shutil
import signal
import sqlite3
import struct
import tempfile
import threading
import time

import running
import zmq

try:
    import numpy as np
except ImportError:
    print("needs python3-numpy")
    raise SystemExit(77) from None

INPUTS = 3
END, DO_NOT_LEARN = 1, 2
ACCEPTED, DUPLICATE, REJECTED = 0, 1, 2
EXAMPLE = 1  # the kind of an entry; others are commands
SILENCE_MS = 150  # no answer: the daemon was killed or learns its journal again
# number of silences after which the daemon may be slow: each is twice as long
FRUITLESS, SILENCE_DOUBLINGS = 4, 5
NEVER_MS = 2**31 - 1
KEPT = "4M"  # of the journal: thousands of examples, many more than between two kills
WINDOW = 40  # unacknowledged examples of a producer

Entry = collections.namedtuple("Entry", "kind stream epoch sequence flags x command producer",
                               defaults=(0,))
Acknowledgement = collections.namedtuple("Acknowledgement",
                                         "version status reason epoch sequence position")


def configuration(directory, socket="router", device="cpu", journal="{keep: all}", checkpoint=300,
                  **others):
    """More streams than slots, so that some are forgotten and return. The journal keeps all entries
    of which a producer may have lost the answer."""
    inputs, scale = others.get("inputs", INPUTS), others.get("scale", "standard")
    return f"""
name: recovery
seed: 3
device: {device}
model:
  input: {{kind: real, size: {inputs}, scale: {scale}}}
  layers: [{{cell: gru, size: {others.get("size", 12)}, norm: layer}}]
  output: {{loss: squared, size: {inputs}, target: next}}
learning:
  {{window: 8, stride: 4, optimizer: {{kind: adam, rate: 0.01}}, clip: 1.0, max_streams: 5}}
examples: {{bind: "ipc://{directory}/examples", socket: {socket}, steps: many}}
statistics: {{bind: "ipc://{directory}/statistics"}}
control: {{bind: "ipc://{directory}/control"}}
state:
  directory: {directory}/state
  checkpoint: {{examples: {checkpoint}, seconds: 0}}
  journal: {journal}
"""


@contextlib.contextmanager
def fresh():
    """A directory that is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="recovery-") as name:
        yield pathlib.Path(name)


def start(directory, daemon=running.Daemon, **options):
    return daemon(directory, configuration(directory, **options))


def kill_and_start(daemon):
    """Kills and restarts the daemon; its log is cleared."""
    daemon.end(signal.SIGKILL)
    daemon.log.close()
    daemon.start()


def message(key, x, sequence, flags=0, epoch=0, producer=0):
    """A message with a header of version 2, or of version 1 without a producer."""
    header = struct.pack("<BBHIQd", 2 if producer else 1, flags, 0, epoch, sequence, 0.0)
    return [key, x, b"", header + (struct.pack("<Q", producer) if producer else b"")]


def make_example(r):
    """A random x of one to three steps, and flags."""
    steps = r.choice((1, 1, 1, 2, 3))
    x = np.array([r.gauss(0, 1) for _ in range(steps * INPUTS)], "<f4").tobytes()
    return x, (END if r.random() < 0.02 else 0) | (DO_NOT_LEARN if r.random() < 0.1 else 0)


def dealer(context, directory):
    """A DEALER that does not reconnect by itself: new messages would overtake lost ones. (libzmq
    4.3 may abort with reconnect_ivl -1 if a peer dies within a message.)"""
    socket = context.socket(zmq.DEALER)
    socket.linger = 0
    socket.reconnect_ivl = NEVER_MS
    socket.connect(f"ipc://{directory}/examples")
    return socket


def acknowledgement(frames):
    key, answer = frames[:2]
    assert len(answer) == 24
    return key, Acknowledgement(*struct.unpack("<BBHIQQ", answer))


def feed(daemon, messages, status=ACCEPTED):
    """Sends messages, checks the status of each answer, and returns the positions."""
    daemon.ask("status")  # the daemon listens now; nothing reconnects
    positions = []
    with dealer(daemon.context, daemon.directory) as socket:
        for frames in messages:
            socket.send_multipart(frames)
        for _ in messages:
            _, answer = acknowledgement(daemon.next_message(socket))
            assert answer.status == status, answer
            positions.append(answer.position)
    return positions


class Producer(threading.Thread):
    """Sends examples of its own streams until finish(), and again until each is acknowledged.

    `sent` contains all of them, {(key, sequence): (x, flags)}. `accepted` has the positions of
    those whose first answer arrived, {(key, sequence): position}. Producers with the same `name`
    send the same streams; each has its own identity, or 0. `false_duplicates` counts examples that
    were sent once and answered as duplicates."""

    def __init__(self, directory, number, streams=3, pace=0.0, name=None, identity=0):
        super().__init__(daemon=True)
        self.directory, self.pace = directory, pace
        self.random = random.Random(number)
        self.identity, self.false_duplicates = identity, 0
        self.times_sent = collections.Counter()
        name = number if name is None else name
        self.keys = [f"producer-{name}-{k}".encode() for k in range(streams)]
        self.sent, self.accepted, self.answered = {}, {}, set()
        self.silence = SILENCE_MS
        self.open = collections.OrderedDict()  # not acknowledged, in the order of sending
        self.sequences = dict.fromkeys(self.keys, 0)
        self.finishing = threading.Event()
        self.problems = queue.Queue()

    def run(self):
        context, fruitless = zmq.Context(), 0
        try:
            while not self.finishing.is_set() or self.open:
                before = len(self.answered)
                with dealer(context, self.directory) as socket:
                    self.talk(socket)
                fruitless = fruitless + 1 if len(self.answered) == before else 0
                doublings = min(max(fruitless - FRUITLESS, 0), SILENCE_DOUBLINGS)
                self.silence = SILENCE_MS * 2 ** doublings
        except Exception as problem:  # noqa: the test's thread raises it
            self.problems.put(problem)
        finally:
            context.destroy(0)

    def talk(self, socket):
        """Sends and receives until the daemon is silent or everything is acknowledged."""
        waiting = collections.deque(self.open)
        while True:
            if not self.finishing.is_set() and len(self.open) < WINDOW and not waiting:
                waiting.append(self.new())
                time.sleep(self.pace)
            with contextlib.suppress(zmq.Again):
                while waiting:
                    key, sequence = waiting[0]
                    x, flags = self.sent[key, sequence]
                    socket.send_multipart(message(key, x, sequence, flags,
                                                  producer=self.identity), zmq.NOBLOCK)
                    self.times_sent[key, sequence] += 1
                    waiting.popleft()
            full = waiting or len(self.open) >= WINDOW or self.finishing.is_set()
            if full and self.open and not socket.poll(self.silence):
                return
            while socket.poll(0):
                self.take(*acknowledgement(socket.recv_multipart()))
            if self.finishing.is_set() and not self.open:
                return

    def new(self):
        key = self.random.choice(self.keys)
        sequence = self.sequences[key]
        self.sequences[key] += 1
        self.sent[key, sequence] = make_example(self.random)
        self.open[key, sequence] = None
        return key, sequence

    def take(self, key, answer):
        example = key, answer.sequence
        assert answer.status in (ACCEPTED, DUPLICATE), answer
        assert example in self.sent, answer
        if answer.status == DUPLICATE and self.times_sent[example] < 2:
            self.false_duplicates += 1
        if answer.status == ACCEPTED:
            assert self.accepted.setdefault(example, answer.position) == answer.position
        self.answered.add(example)
        self.open.pop(example, None)

    def finish(self):
        self.finishing.set()

    def wait(self):
        self.join(running.LIMIT)
        if not self.problems.empty():
            raise self.problems.get()
        assert not self.is_alive(), f"{len(self.open)} examples are not acknowledged"
        assert self.answered == set(self.sent)


def read_journal(directory):
    """{position: Entry} from a copy of the journal: a read repairs the file itself."""
    with fresh() as copy:
        for path in pathlib.Path(directory, "state").glob("journal.sqlite*"):
            if not path.name.endswith("-shm"):
                shutil.copy(path, copy)
        if not (copy / "journal.sqlite").exists():
            return {}
        with contextlib.closing(sqlite3.connect(copy / "journal.sqlite")) as base:
            if not base.execute("SELECT 1 FROM sqlite_master WHERE name = 'entries'").fetchone():
                return {}
            rows = base.execute("SELECT position, kind, stream, epoch, sequence, flags, x, command, "
                                "ifnull(producer, 0) FROM entries ORDER BY position").fetchall()
    return {position: Entry(*rest) for position, *rest in rows}


def merge(entries, found):
    """A durable entry never changes and never disappears."""
    for position, entry in found.items():
        assert entries.setdefault(position, entry) == entry, f"entry {position} has changed"


def check_once(producers, entries):
    """Checks that each acknowledged example was learned exactly once, at the acknowledged position.
    Adds acknowledged examples to `entries`. Returns the entries in the order of positions."""
    for producer in producers:
        for (key, sequence), position in producer.accepted.items():
            x, flags = producer.sent[key, sequence]
            merge(entries, {position: Entry(EXAMPLE, key, 0, sequence, flags, x, None,
                                            producer.identity)})
    assert sorted(entries) == list(range(1, len(entries) + 1)), "positions are missing"
    learned = collections.Counter((e.stream, e.sequence, e.producer) for e in entries.values()
                                  if e.kind == EXAMPLE)
    twice = [example for example, count in learned.items() if count > 1]
    lost = [example for p in producers for example in p.sent
            if (*example, p.identity) not in learned]
    assert not sum(p.false_duplicates for p in producers), "duplicates that were sent once"
    assert not twice and not lost, f"learned twice: {twice}, lost: {lost}"
    assert len(learned) == sum(len(p.sent) for p in producers)
    return [entries[position] for position in sorted(entries)]


def wait_for_examples(daemon, count):
    end = time.monotonic() + 10 * running.LIMIT
    while (learned := daemon.ask("status")["examples"]) != count:
        assert learned < count and time.monotonic() < end, f"{learned} of {count} examples"
        time.sleep(0.002)


def digest(blob):
    return hashlib.sha256(blob).hexdigest()


def play(daemon, entries, exports=(), first=0):
    """Feeds an undisturbed daemon through PUSH. Returns digests of its parameters after the numbers
    of examples in `exports`, and its parameters at the end."""
    wanted, found, count = set(exports), {}, first
    if count in wanted:
        found[count] = digest(daemon.export())
    with daemon.socket(zmq.PUSH, "examples") as socket:
        for entry in entries:
            if entry.kind != EXAMPLE:
                wait_for_examples(daemon, count)
                daemon.ask(**json.loads(entry.command))
                continue
            socket.send_multipart(message(entry.stream, entry.x, entry.sequence, entry.flags))
            count += 1
            if count in wanted:
                wait_for_examples(daemon, count)
                found[count] = digest(daemon.export())
        wait_for_examples(daemon, count)
    return found, daemon.export()


def undisturbed(entries, exports=(), **options):
    """The result of play() with a daemon without a journal."""
    with fresh() as directory:
        with start(directory, socket="pull", journal="{enabled: false}", **options) as daemon:
            result = play(daemon, entries, exports)
            assert daemon.end() == 0
    return result


Killed = collections.namedtuple("Killed", "kills in_start examples commands recoveries")


class Exports:
    """Digests of durable parameters, {count of examples: digest}. Examples that were not durable at
    a kill are replaced by others."""

    def __init__(self):
        self.durable, self.newest = {}, None

    def take(self, daemon):
        reply, blob = daemon.request("export")
        position = daemon.ask("status")["journal"]["position"]  # not before the export's
        self.newest = reply["examples"], digest(blob), position

    def killed(self, entries):
        """Adds the newest export if the journal `entries` contain its position."""
        if self.newest and self.newest[2] <= max(entries, default=0):
            examples, text, _ = self.newest
            assert self.durable.setdefault(examples, text) == text, f"{examples} examples: changed"
        self.newest = None


def set_rate(daemon, r):
    daemon.ask("set", key="learning.optimizer.rate", value=round(r.uniform(0.001, 0.02), 6))
    time.sleep(r.uniform(0, 0.005))


def kill_loop(kills, seed, report=lambda text: None, device="cpu", sync="full",
              checkpoint=300, identities=0):
    """Kills a daemon that three producers feed, or three for each of `identities` with the same
    streams, and checks everything. Returns counts of the events."""
    r = random.Random(seed)
    options = {"device": device, "checkpoint": checkpoint}
    entries, exports, in_start = {}, Exports(), 0
    journal = f"{{sync: {sync}, keep: {KEPT}}}"
    with fresh() as directory, start(directory, journal=journal, **options) as daemon:
        producers = [Producer(directory, 1000 * seed + 3 * i + n, name=1000 * seed + n,
                              identity=r.getrandbits(62) + 1 if identities else 0)
                     for i in range(identities or 1) for n in range(3)]
        for producer in producers:
            producer.start()
        for kill in range(kills):
            if r.random() < 0.25:  # while the daemon starts or learns its journal again
                time.sleep(r.uniform(0, 0.08))
                in_start += 1
            else:
                exports.take(daemon)
                time.sleep(r.uniform(0, 0.25))
                if r.random() < 0.3:
                    set_rate(daemon, r)
            daemon.end(signal.SIGKILL)
            found = read_journal(directory)
            merge(entries, found)
            exports.killed(found)
            daemon.log.close()
            daemon.start()
            if kill % 50 == 49:
                report(f"{kill + 1} kills, {max(entries)} entries")
        begun = time.monotonic()
        while any(len(p.sent) < WINDOW and p.problems.empty() for p in producers):
            assert time.monotonic() < begun + running.LIMIT, "a producer has stopped sending"
            time.sleep(0.005)
        for producer in producers:
            producer.finish()
        for producer in producers:
            producer.wait()
        examples = daemon.ask("status")["examples"]
        parameters = daemon.export()
        assert daemon.end() == 0
        merge(entries, read_journal(directory))
    ordered = check_once(producers, entries)
    learned = sum(entry.kind == EXAMPLE for entry in ordered)
    assert examples == learned
    found, expected = undisturbed(ordered, exports.durable, **options)
    different = [count for count, text in exports.durable.items() if found.get(count) != text]
    assert not different, f"other parameters after {different} examples"
    assert parameters == expected, "other parameters at the end"
    return Killed(kills, in_start, learned, len(ordered) - learned, len(exports.durable))
