"""Fleets on Redis or Kafka for tests and figures: start and kill daemons, and find in their
journals what became of each message."""
import contextlib
import json
import os
import pathlib
import queue
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import threading
import time

import consuming
import kafka
import running

TOOL = pathlib.Path(os.environ.get("builddir", "."), "runnel-fleet").resolve()
EXAMPLE, ROLLBACK = 1, 11  # kinds of entries

CONFIG = """
name: {name}
device: cpu
seed: 7
model:
  input: {{kind: real, size: 1}}
  layers: [{{cell: gru, size: 4}}]
  output: {{loss: squared, size: 1, target: next}}
learning: {{window: 8, stride: 4}}
examples: {examples}
fleet: {{lease: {lease}{average}}}
statistics: {{bind: "ipc://{d}/statistics"}}
control: {{bind: "ipc://{d}/control"}}
state: {{directory: {d}/state, checkpoint: {{examples: {every}, seconds: 1}}, journal: {{keep: all}}}}
"""


class Kafka(kafka.Kafka):
    """A cluster with the topics of a fleet; down and up act as a stop and a start."""
    topic, group = "s", "fleet"
    away = 0.3  # maximum seconds after a kill

    def __init__(self, parts=4, lease=3.5, speed=2):
        """The mock lets a new member wait for nearly a whole session, and meanwhile ends a shorter session by its clock. It
        answers a fetch only after its wait time. It never answers a member that waits to join when it ends that session,
        which may happen after a stop: then the poll timeout has to pass."""
        super().__init__(speed=speed)
        self.lease, self.speed = lease, speed
        self.settings = ("fetch.wait.max.ms=10", "reconnect.backoff.max.ms=100",
                         f"session.timeout.ms={lease * 1000:.0f}", f"max.poll.interval.ms={lease * 1500:.0f}")
        self.ask(f"topic s {parts}")
        self.make("fleet", parts)

    def make(self, group, parts):
        for topic, count in (("claims", 1), ("streams", parts), ("rounds", 1)):
            self.ask(f"topic {group}.{topic} {count}")

    def kill(self):
        self.ask("down")

    def start(self):
        self.ask("up")


class RealKafka(kafka.Kafka):
    """A running cluster, with a topic and a group for this run. Commands kill and start nodes, where {} is a node's name;
    messages are loaded once servers accept them."""
    away = 12  # maximum seconds after a kill: longer than a node's session
    lease = 6  # seconds: default group.min.session.timeout.ms of clusters
    settings = ("reconnect.backoff.max.ms=1000",)

    def __init__(self, servers, parts, seed, nodes=(), kill="", start=""):
        super().__init__(servers)
        self.chance = random.Random(seed)
        self.topic = f"runnel-{os.getpid()}-{int(time.time())}"
        self.group = self.topic
        self.nodes, self.commands, self.dead, self.done = list(nodes), (kill, start), [], {}
        self.lines = queue.Queue()
        self.ask(f"topic {self.topic} {parts}")
        self.feeder = threading.Thread(target=self.feed, daemon=True)
        self.feeder.start()

    def feed(self):
        while (messages := self.lines.get()) is not None:
            super().load(self.topic, messages)

    def load(self, topic, messages):
        """The cluster's client chooses the partition."""
        messages = [(-1, key, value) for _, key, value in messages]
        for begin in range(0, len(messages), 10):
            self.lines.put(messages[begin:begin + 10])

    def flush(self):
        self.lines.put(None)
        self.feeder.join()

    def run(self, command, nodes):
        running_ones = [subprocess.Popen(command.replace("{}", node), shell=True, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL) for node in nodes]
        for node, process in zip(nodes, running_ones):
            assert process.wait() == 0, f"exit {process.returncode}: {command.replace('{}', node)}"

    def kill(self):
        """Kills one node or several: then a topic has too few of them for a while."""
        count = self.chance.choice([1, 1, 1, 2, len(self.nodes)])
        self.dead = self.chance.sample(self.nodes, min(count, len(self.nodes)))
        what = f"{len(self.dead)} of {len(self.nodes)} nodes"
        self.done[what] = self.done.get(what, 0) + 1
        self.run(self.commands[0], self.dead)

    def start(self):
        self.run(self.commands[1], self.dead)
        self.dead = []

    def __exit__(self, kind, *_):
        if not kind:
            for topic in (self.topic, *(f"{self.group}.{what}" for what in ("claims", "streams", "rounds"))):
                self.ask(f"drop {topic}")
        super().__exit__(kind)


def is_kafka(broker):
    return isinstance(broker, kafka.Kafka)


def examples(broker, parts):
    if is_kafka(broker):
        return (f'{{kafka: {{brokers: "{broker.servers}", topic: {broker.topic}, group: {broker.group}, '
                f'settings: [{", ".join(broker.settings)}]}}}}')
    return f'{{redis: {{url: "{broker}", stream: s, partitions: {parts}, group: fleet}}}}'


def lease_of(broker, seconds):
    return getattr(broker, "lease", seconds)


def text(directory, broker, name, parts=4, lease=None, every=100, average=0, more=""):
    lease = lease or lease_of(broker, 1)
    average = f", average: {{every: {average}}}" if average else ""
    return CONFIG.format(d=directory, examples=examples(broker, parts), name=name, lease=lease,
                         every=every, average=average) + more


class Member(running.Daemon):
    """One daemon of the fleet in its own directory; it is started again with the same state."""

    def __init__(self, directory, broker, name, **options):
        mine = pathlib.Path(directory) / name
        mine.mkdir(exist_ok=True)
        self.name = name
        super().__init__(mine, text(mine, broker, name, **options))

    def start(self):
        self.log = open(self.directory / "log", "a", encoding="utf-8")
        self.process = subprocess.Popen([self.program, "--config", self.path, *self.arguments],
                                        stderr=self.log, env=self.environment)

    def stop(self):
        """Stops it as users do, and returns its exit code."""
        return self.end(signal.SIGTERM)

    def kill(self):
        self.end(signal.SIGKILL)


def add(redis, numbers, keys, parts):
    """Message n has key n % keys and the number n, in the partition of its key."""
    if is_kafka(redis):
        redis.load(redis.topic, [(kafka.partition_of(key, parts), key, json.dumps({"stream": key, "x": [n]}))
                         for n in numbers for key in [f"key-{n % keys}"]])
        return
    redis.pipeline([("XADD", f"s.{consuming.partition_of(key, parts)}", "*", "example",
                     json.dumps({"stream": key, "x": [n]}))
                    for n in numbers for key in [f"key-{n % keys}"]])


def place(broker):
    """The options of a Member."""
    return broker if is_kafka(broker) else broker.url


def where(broker):
    """Options of runnel-fleet."""
    if is_kafka(broker):
        return ["--kafka", broker.servers, "--setting", broker.settings[0]]
    return ["--url", broker.url]


def group_of(broker, group):
    return group or getattr(broker, "group", "fleet")


def look(redis, group=None):
    """The JSON of runnel-fleet."""
    done = subprocess.run([TOOL, "status", "--json", *where(redis), "--group", group_of(redis, group)],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=running.LIMIT,
                          check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def act(redis, *words, group=None):
    """Exit status and output."""
    done = subprocess.run([TOOL, *words, *where(redis), "--group", group_of(redis, group)], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=running.LIMIT,
                          check=False)
    return done.returncode, done.stdout


def owners(redis, group=None):
    """The owner of each partition."""
    seen = look(redis, group)
    return [part["daemon"] or "" for part in seen["partitions"]] if seen else []


def entries(directory):
    """The journal's entries: (position, kind, stream, x or command, producer, epoch, sequence)."""
    with contextlib.closing(sqlite3.connect(f"file:{directory}/state/journal.sqlite?mode=ro",
                                            uri=True)) as file:
        return file.execute("SELECT position, kind, stream, x, command, producer, epoch, sequence "
                            "FROM entries ORDER BY position").fetchall()


def signed(number):
    return number - 2**64 if number >= 2**63 else number


def learned(directory):
    """(key, n) of each message that counts in the daemon's journal, in order, without those that
    rollbacks have removed."""
    rows = entries(directory)
    backs = [(row[0], json.loads(row[4])) for row in rows if row[1] == ROLLBACK]

    def left_out(row):
        for position, back in backs:
            if back["to"] < row[0] < position:
                for producer, epoch, sequence, _ in back["beyond"]:
                    if signed(row[5]) == producer and (row[6], row[7]) > (epoch, sequence):
                        return True
        return False

    return [(row[2].decode(), int(struct.unpack("<f", row[3][:4])[0])) for row in rows
            if row[1] == EXAMPLE and not left_out(row)]


def left_out(directory):
    return sum(row[1] == 1 for row in entries(directory)) - len(learned(directory))


def once(members, count, keys):
    """Checks that one daemon learned each message once, in order within each stream. Returns how
    many each has learned."""
    found = {member.name: learned(member.directory) for member in members}
    all_of_them = sorted(n for mine in found.values() for _, n in mine)
    seen = set(all_of_them)
    twice = len(all_of_them) - len(seen)
    missing = [n for n in range(count) if n not in seen]
    assert not twice and not missing, (twice, missing[:10], len(missing),
                                       {name: len(mine) for name, mine in found.items()})
    for mine in found.values():
        newest = {}
        for key, n in mine:
            assert n > newest.get(key, -1) and key == f"key-{n % keys}", (key, n, newest.get(key))
            newest[key] = n
    return {name: len(mine) for name, mine in found.items()}


def alone(member, directory, from_the_beginning):
    """A daemon with a copy of the member's state and configuration, but outside the fleet: it
    resumes, or learns the whole journal again."""
    copy = pathlib.Path(directory) / f"{'again' if from_the_beginning else 'last'}-{member.name}"
    copy.mkdir()
    shutil.copytree(member.directory / "state", copy / "state")
    (copy / "state" / "fleet.json").unlink()
    if from_the_beginning:
        for file in (copy / "state").glob("checkpoint*"):
            if file.name != "checkpoint.first.safetensors":
                file.unlink()
        (copy / "state" / "checkpoint.first.safetensors").rename(
            copy / "state" / "checkpoint.safetensors")
    plain = member.path.read_text(encoding="utf-8").replace(str(member.directory), str(copy))
    lines = [line for line in plain.splitlines() if not line.startswith(("fleet:", "examples:"))]
    return running.Daemon(copy, "\n".join(lines) + f'\nexamples: {{bind: "ipc://{copy}/examples"}}\n')


def bits(daemon, keys):
    """Its parameters, and the state of each of its streams."""
    states = [daemon.request("export", stream=f"key-{key}")[1:] for key in range(keys)]
    return daemon.export(), states


def same_bits(member, directory, keys):
    """Checks that a replay of its journal leads to the same state."""
    with alone(member, directory, True) as again:
        expected = bits(again, keys)
    with alone(member, directory, False) as last:
        assert bits(last, keys) == expected, member.name


def sent_again(member, directory, keys):
    """runnel-replay sends the journal of the ended member to a daemon outside the fleet, which
    learns the same."""
    other = pathlib.Path(directory) / f"sent-{member.name}"
    other.mkdir()
    plain = member.path.read_text(encoding="utf-8").replace(str(member.directory), str(other))
    lines = [line for line in plain.splitlines() if not line.startswith(("fleet:", "examples:"))]
    with running.Daemon(other, "\n".join(lines) + f'\nexamples: {{bind: "ipc://{other}/examples", '
                        'socket: router}\n') as daemon:
        daemon.ask("status")
        done = subprocess.run([running.PROGRAM.with_name("runnel-replay"), member.directory / "state",
                               "--connect", daemon.endpoint("examples"), "--socket", "router",
                               "--control", daemon.endpoint("control")], check=False, text=True,
                              capture_output=True, timeout=4 * running.LIMIT)
        assert done.returncode == 0, done.stderr
        sent = bits(daemon, keys)
    with alone(member, directory, False) as last:
        assert bits(last, keys) == sent, member.name


def two_copies(directory, broker, keys, parts):
    """A daemon, and another with the same name and a copy of its state directory: the first to be
    displaced three times ends, and the other learns everything."""
    add(broker, range(100), keys, parts)
    with Member(directory, place(broker), "anna") as anna:
        until(lambda: lag(broker) == 0, "learned", [anna])
        anna.kill()
        shutil.copytree(anna.directory / "state", pathlib.Path(directory) / "copy" / "anna" / "state")
        anna.start()
        until(lambda: owners(broker) == ["anna"] * parts, "shared", [anna])
        with Member(pathlib.Path(directory) / "copy", place(broker), "anna") as copy:
            until(lambda: anna.process.poll() is not None or copy.process.poll() is not None, "one ends")
            ended, stays = (anna, copy) if anna.process.poll() is not None else (copy, anna)
            assert ended.process.wait() == 78, ended.text()
            assert "another daemon with the name anna is in the fleet fleet, with a copy" in ended.text(), ended.text()
            assert "this daemon joins again" in stays.text(), stays.text()
            add(broker, range(100, 200), keys, parts)
            until(lambda: lag(broker) == 0 and len(learned(stays.directory)) == 200, "all learned", [stays])
            once([stays], 200, keys)


@contextlib.contextmanager
def emptied(directory, broker, keys, parts):
    """A daemon that was killed and has lost its state directory, with waiting messages."""
    with Member(directory, place(broker), "anna", lease=lease_of(broker, 5)) as anna:
        add(broker, range(100), keys, parts)
        all_learned(broker, [anna], ["anna"])
        anna.kill()
        shutil.rmtree(anna.directory / "state")
        add(broker, range(100, 200), keys, parts)
        yield anna


def stopped_alone(directory, broker, keys, parts, turns=4):
    """A daemon that is repeatedly stopped for longer than its lease does not count as a copy of
    itself."""
    with Member(directory, place(broker), "anna", lease=lease_of(broker, 0.5)) as anna:
        for turn in range(turns):
            add(broker, range(20 * turn, 20 * turn + 20), keys, parts)
            until(lambda: lag(broker) == 0, "learned", [anna])
            anna.process.send_signal(signal.SIGSTOP)
            until(lambda: look(broker)["daemons"][0]["state"] == "gone", "gone")
            anna.process.send_signal(signal.SIGCONT)
            until(lambda: look(broker)["daemons"][0]["state"] != "gone", "back", [anna])
        assert "another daemon with the name" not in anna.text(), anna.text()
        once([anna], 20 * turns, keys)


def lag(redis):
    seen = look(redis)
    return sum(part["lag"] for part in seen["partitions"]) if seen else None


def until(true, what, members=(), limit=None):
    """limit: seconds, by default those of all tests."""
    end = time.monotonic() + (limit or running.LIMIT)
    while not true():
        for member in members:
            member.alive()
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


def all_learned(broker, members, names):
    until(lambda: lag(broker) == 0 and set(owners(broker)) == set(names), names, members)


def shared(broker, members, want):
    until(lambda: sorted(owners(broker)) == sorted(want), want, members)


def status(member):
    return member.ask("status")["fleet"]


class Changed(Member):
    """A daemon of the fleet with another configuration."""

    def __init__(self, *arguments, change=("", ""), **options):
        self.change = change
        super().__init__(*arguments, **options)

    def start(self):
        plain = self.path.read_text(encoding="utf-8")
        assert self.change[0] in plain
        self.path.write_text(plain.replace(*self.change), encoding="utf-8")
        super().start()


def ends(directory, broker, name, code, *words, **options):
    """Checks the exit code and message of a daemon that cannot join."""
    with Changed(directory, place(broker), name, **options) as member:
        assert member.process.wait(running.LIMIT) == code, (member.process.returncode, member.text())
        for word in words:
            assert word in member.text(), (word, member.text())


def averaged_once(members, count):
    """Both daemons have learned so many and then have the same parameters; they are stopped."""
    until(lambda: all(status(member)["averages"] == 1 for member in members), "average", members)
    for member in members:
        assert member.ask("status")["examples"] == count
        assert member.export() == members[0].export()
    for member in members:
        member.kill()


def waits_for(broker, *words):
    """Waits until runnel-fleet prints all of the words."""
    until(lambda: all(word in act(broker, "status")[1] for word in words), words)


def status_table(broker, anna, bert):
    """runnel-fleet names daemons with another clip, and partitions without a daemon. Both daemons
    have two partitions each; both are killed."""
    halves = ["anna", "anna", "bert", "bert"]
    shared(broker, [anna, bert], halves)
    head, *rows = act(broker, "status", "--partitions")[1].splitlines()[2:]
    assert [row[:head.index("  examples")].split() for row in rows[:3]] == [
        ["anna", "learning", "2"], ["bert", "learning", "2"], ["all", "4"]], rows
    assert sorted(row.split()[1] for row in rows[5:9]) == halves, rows
    anna.ask("set", key="learning.clip", value=2)
    until(lambda: "anna has learning.clip 2, this daemon 0" in bert.text(), "bert", [anna, bert])
    until(lambda: "bert has learning.clip 0, this daemon 2" in anna.text(), "anna", [anna, bert])
    waits_for(broker, "learning.clip differs: 2 (anna), 0 (bert);")
    bert.ask("set", key="learning.clip", value=2)
    until(lambda: "differs" not in act(broker, "status")[1], "alike", [anna, bert])
    assert [member.text().count(" has learning.clip ") for member in (anna, bert)] == [1, 1]
    assert act(broker, "drain", "anna")[0] == 0
    shared(broker, [anna, bert], ["bert"] * 4)
    assert act(broker, "drain", "bert")[0] == 0
    with contextlib.suppress(AssertionError):  # the last drained daemon continues
        until(lambda: owners(broker) != ["bert"] * 4, "given up", limit=2)
    assert owners(broker) == ["bert"] * 4 and "without a daemon" not in act(broker, "status")[1]
    if is_kafka(broker):
        assert act(broker, "rebalance")[0] == 0
        shared(broker, [anna, bert], halves)
        until(lambda: lag(broker) == 0, "all learned", [anna, bert])
        bert.kill()
    else:
        bert.kill()
        waits_for(broker, "4 partitions without a daemon: the only running daemon is drained; run runnel-fleet")
    anna.kill()
    waits_for(broker, "4 partitions without a daemon: no daemon is running;")


class Kills:
    """Random kills of a fleet's daemons and its broker, while messages are added. As a context
    manager it stops the daemons."""

    def __init__(self, directory, redis, names, seed, parts=8, keys=40, lease=None, **options):
        self.directory, self.redis = pathlib.Path(directory), redis
        self.chance = random.Random(seed)
        self.parts, self.keys, self.lease = parts, keys, lease or lease_of(redis, 1)
        self.pause = self.lease / getattr(redis, "speed", 1)
        self.added, self.done = 0, {}
        self.members = [Member(directory, place(redis), name, parts=parts, lease=self.lease, **options)
                        for name in names]

    def __enter__(self):
        return self

    def __exit__(self, *why):
        for member in self.members:
            member.__exit__(*why)

    def add(self, count):
        add(self.redis, range(self.added, self.added + count), self.keys, self.parts)
        self.added += count

    def some_progress(self):
        """Waits until the fleet has committed something, or for a while: a kill should lose some
        work, but nothing depends on it."""
        end, begin = time.monotonic() + self.chance.random() * 2 * self.pause, lag(self.redis)
        while time.monotonic() < end and lag(self.redis) == begin:
            time.sleep(0.01)

    def one(self):
        """One kill, and the recovery after it."""
        # A real cluster is killed and started by commands. The mock aborts (assertion
        # `!member->resp`) if a member repeats a request that it sent while the mock was stopped.
        more = [] if is_kafka(self.redis) else ["broker stopped"]
        kind = self.chance.choice(["kill", "kill", "kill away", "stopped", "broker", *more, "term", "together"])
        member = self.chance.choice(self.members)
        if kind == "broker stopped":
            kind = self.chance.choice([kind, f"{kind}, kill", f"{kind}, term"])
        self.done[kind] = self.done.get(kind, 0) + 1
        if kind == "broker":
            self.redis.kill()
            time.sleep(self.chance.random() * getattr(self.redis, "away", 0.3))
            self.redis.start()
        elif kind.startswith("broker stopped"):
            with self.stopped(self.redis.process):
                if kind.endswith("kill"):
                    member.kill()
                    member.start()
                elif kind.endswith("term"):  # it still ends
                    self.term(member)
        elif kind == "together":
            self.redis.kill()
            member.kill()
            self.redis.start()
            member.start()
        elif kind == "stopped":
            with self.stopped(member.process):
                pass
        elif kind == "term":
            self.term(member)
        else:
            member.kill()
            if kind == "kill away":
                time.sleep(self.chance.choice([0.5, 1.5, 2.5]) * self.pause)
            member.start()

    @staticmethod
    def term(member):
        """A new process may not handle signals yet, and would be killed."""
        member.ask("status")
        status = member.stop()
        assert status == 0, (status, member.text()[-3000:])
        member.start()

    @contextlib.contextmanager
    def stopped(self, process):
        """Stops it for less or more than its lease, without its knowledge."""
        process.send_signal(signal.SIGSTOP)
        try:
            yield
            time.sleep(self.chance.choice([0.2, 1.5, 2.5]) * self.pause)
        finally:
            process.send_signal(signal.SIGCONT)

    def settle(self):
        """Waits until everything is learned with all daemons running, and stops them. Returns how
        many each has learned."""
        names = {member.name for member in self.members}
        until(lambda: lag(self.redis) == 0 and names <= set(owners(self.redis)), "all learned",
              self.members, limit=4 * running.LIMIT)
        for member in self.members:
            member.kill()
        return once(self.members, self.added, self.keys)

    def check_bits(self):
        for member in self.members:
            same_bits(member, self.directory, self.keys)
