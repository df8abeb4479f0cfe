#!/usr/bin/python3
"""Numbers count separately for each producer. A repeated example is a duplicate, another example
with a used number is a conflict, and a number that is too high is rejected."""
import json
import re
import sqlite3
import struct
import subprocess
import time

import cases
import recovery
import running
import zmq

CONFIG = """
name: producers
device: cpu
model:
  input: {{kind: real, size: 2}}
  layers: [{{cell: dense, size: 2, activation: tanh}}]
  output: {{loss: squared, size: 2, target: next}}
examples: {{bind: "ipc://{d}/examples", socket: {kind}{examples}}}
statistics: {{bind: "ipc://{d}/statistics"}}
control: {{bind: "ipc://{d}/control"}}
state: {{directory: {d}/state, checkpoint: {{examples: 0, seconds: 0}}, journal: {{{journal}}}}}
"""
CONFLICT, SEQUENCE_JUMP = 10, 11
FAR = 2**62
SPARSE = 16
JUMP = 1000


def daemon(directory, kind="router", examples="", journal="keep: all"):
    return running.Daemon(directory, CONFIG.format(d=directory, kind=kind, examples=examples,
                                                   journal=journal))


def message(key, numbers, sequence, producer=0, epoch=1, flags=0, stamp=0.0):
    """With a header of version 2, or of version 1 without a producer."""
    header = struct.pack("<BBHIQd", 2 if producer else 1, flags, 0, epoch, sequence, stamp)
    return [key, struct.pack("<2f", *numbers), b"",
            header + (struct.pack("<Q", producer) if producer else b"")]


def answers(d, *messages):
    """(status, reason) of each message in order. Rejections are immediate, so the messages are sent
    one by one."""
    found = []
    with d.socket(zmq.DEALER, "examples") as socket:
        for frames in messages:
            socket.send_multipart(frames)
            _, answer = recovery.acknowledgement(d.next_message(socket))
            found.append((answer.status, answer.reason))
    return found


ACCEPTED, DUPLICATE = (recovery.ACCEPTED, 0), (recovery.DUPLICATE, 0)
CONFLICTS, JUMPS = (recovery.REJECTED, CONFLICT), (recovery.REJECTED, SEQUENCE_JUMP)


def restart(d):
    recovery.kill_and_start(d)
    d.ask("status")


def query(directory, sql):
    file = sqlite3.connect(f"file:{directory}/state/journal.sqlite?mode=ro", uri=True)
    rows = file.execute(sql).fetchall()
    file.close()
    return rows


def test_numbers_are_each_producers_own(directory):
    """Several producers, one of them without a name, use the same key and numbers."""
    with daemon(directory) as d:
        for producer in (7, 2**64 - 1, 0):
            assert answers(d, *(message(b"a", (producer % 5, n), n, producer)
                                for n in range(3))) == [ACCEPTED] * 3
        assert d.ask("status")["examples"] == 9
        restart(d)
        for producer in (7, 2**64 - 1, 0):
            assert answers(d, message(b"a", (producer % 5, 2), 2, producer),
                           message(b"a", (0, 3), 3, producer)) == [DUPLICATE, ACCEPTED]
        status = d.ask("status")
        assert status["examples"] == 12 and status["journal"]["producers"] == 3, status
    assert query(directory, "SELECT producer, count(*) FROM entries GROUP BY producer") == [
        (-1, 4), (0, 4), (7, 4)]


def test_conflict(directory):
    """The same number with other content is a conflict as long as it is remembered, also after
    restarts."""
    with daemon(directory) as d, running.subscribe(d, (b"event",)) as statistics:
        for producer in (0, 9):
            assert answers(d, *(message(b"a", (n, producer), n, producer) for n in range(5))) == (
                [ACCEPTED] * 5)
        for life in range(2):
            for producer in (0, 9):
                found = answers(
                    d,
                    message(b"a", (2, producer), 2, producer, stamp=1.5),  # the time is not content
                    message(b"a", (2, 77), 2, producer),
                    message(b"a", (4, producer), 4, producer, flags=recovery.END),
                    message(b"a", (4, producer), 4, producer))
                assert found == [DUPLICATE, CONFLICTS, CONFLICTS, DUPLICATE], (life, producer, found)
            status = d.ask("status")
            assert status["examples"] == 10
            journal = status["journal"]
            assert (journal["conflicts"], journal["duplicates"]) == (4, 4), journal
            assert status["rejected_by"] == {"conflict": 4}
            if life == 0:
                while True:
                    event = json.loads(d.next_message(statistics)[1])
                    if event.get("kind") == "rejected":
                        break
                assert "conflict" in event["text"] and "other contents" in event["text"], event
                restart(d)


def test_jump(directory):
    """A number far above the newest is rejected: all following examples would be duplicates."""
    with daemon(directory, examples=f", max_jump: {JUMP}") as d:
        # the first number may have any value
        assert answers(d, message(b"a", (1, 1), FAR)) == [ACCEPTED]
        for producer in (0, 5):
            assert answers(
                d,
                message(b"b", (1, 1), 3, producer),
                message(b"b", (1, 2), FAR, producer),
                message(b"b", (1, 2), 3 + JUMP + 1, producer),
                message(b"b", (1, 3), 4, producer),
                message(b"b", (1, 4), 4 + JUMP, producer),
                message(b"b", (1, 5), FAR, producer, epoch=2)) == [
                    ACCEPTED, JUMPS, JUMPS, ACCEPTED, ACCEPTED, ACCEPTED]
        status = d.ask("status")
        assert status["journal"]["sequence_jumps"] == 4, status
        assert status["journal"]["missing"] == 2 * (JUMP - 1), status
        d.end()
        named = re.search(rf"number (\d+) is more than examples.max_jump, {JUMP}, above 3\b",
                          d.text())
        # the newest number at the time of the message
        assert named and int(named[1]) in (FAR, 3 + JUMP + 1), d.text()


def test_rejected_is_not_missing(directory):
    """The number of a rejected example is not reported as missing."""
    with daemon(directory) as d, running.subscribe(d, (b"event",)) as events:
        bad = message(b"a", (1, 1), 2)
        bad[1] = b"x"
        rejected = answers(d, message(b"a", (1, 1), 1), bad, message(b"a", (1, 1), 3), message(b"a", (1, 1), 5))[1]
        assert rejected[0] == recovery.REJECTED, rejected
        assert d.ask("status")["journal"]["missing"] == 1
        while (event := running.messages(d, events, b"event", 1)[0])["kind"] != "rejected":
            continue
        assert event["stream"] == "a", event
        d.end()
        assert d.text().count("is missing") == 1 and "1 example is missing" in d.text(), d.text()


def test_another_producer_stops_nobody(directory):
    """A client with a stream's key and epoch, but another producer, cannot turn its examples into
    duplicates."""
    with daemon(directory) as d:
        assert answers(d, message(b"a", (1, 1), 1, 77), message(b"a", (6, 6), FAR, 78),
                       message(b"a", (6, 6), FAR), message(b"a", (1, 2), 2, 77)) == [ACCEPTED] * 4


def test_no_limit(directory):
    with daemon(directory, examples=", max_jump: 0") as d:
        assert answers(d, message(b"a", (1, 1), 1), message(b"a", (1, 1), FAR)) == [ACCEPTED] * 2


def test_sparse(directory):
    """Increasing numbers with gaps, such as a broker's ids: no gap is counted or too wide. Repeated
    examples are still duplicates, also from a replay."""
    sparse = [message(b"a", (1, n), n * n * FAR // 100, 7, flags=SPARSE) for n in range(10)]
    line = {"stream": "a", "x": [2, 1], "producer": "8", "epoch": 1, "sparse": True}
    with daemon(directory, examples=f", max_jump: {JUMP}") as d:
        for wanted in (ACCEPTED, DUPLICATE):
            assert answers(d, *sparse) == [wanted] * 10
            assert answers(d, *([json.dumps({**line, "sequence": n}).encode()]
                                for n in (1, 2**52))) == [wanted] * 2
        status = d.ask("status")
        assert (status["examples"], status["journal"]["missing"],
                status["journal"]["sequence_jumps"], status["rejected"]) == (12, 0, 0, 0), status
        assert d.end() == 0, d.text()
    again = directory / "again"
    again.mkdir()
    with daemon(again, examples=f", max_jump: {JUMP}") as d:
        done = subprocess.run([running.PROGRAM.with_name("runnel-replay"),
                               directory / "state" / "journal.sqlite", "--socket", "router",
                               "--connect", d.endpoint("examples")], capture_output=True,
                              timeout=running.LIMIT, check=False, text=True)
        assert done.returncode == 0 and "12 acknowledged (0 duplicates)" in done.stderr, done
        assert answers(d, *sparse) == [DUPLICATE] * 10


def test_pull(directory):
    """On a pull socket nothing is sent again: numbers only count missing examples, and one that is
    too high is ignored."""
    with daemon(directory, kind="pull") as d:
        with d.socket(zmq.PUSH, "examples") as socket:
            for frames in (message(b"a", (1, 1), 1), message(b"a", (1, 2), 1),
                           message(b"a", (1, 3), FAR), message(b"a", (1, 4), 4)):
                socket.send_multipart(frames)
            end = time.monotonic() + running.LIMIT
            while (status := d.ask("status"))["examples"] < 4 and time.monotonic() < end:
                time.sleep(0.01)
        journal = status["journal"]
        assert (status["examples"], journal["missing"], journal["sequence_jumps"],
                journal["conflicts"], journal["duplicates"]) == (4, 2, 1, 0, 0), status
        assert d.end() == 0, d.text()  # everything is on disk
    assert query(directory, "SELECT sequence FROM streams") == [(4,)]


def test_json(directory):
    """A producer in JSON equals one in the header. Numbers beyond the precision of JSON are
    rejected."""
    with daemon(directory) as d:
        def line(**members):
            return [json.dumps({"stream": "a", "epoch": 1, **members}).encode()]
        assert answers(d, message(b"a", (1, 2), 8, 0xABC), line(x=[1, 2], sequence=8, producer="ABC"),
                       line(x=[1, 3], sequence=8, producer="abc"),
                       line(x=[1, 3], sequence=9, producer="0000000000000abc"),
                       line(x=[1, 3], sequence=2**53 - 1),
                       line(x=[1, 3], sequence=2**53 + 1)) == [
                           ACCEPTED, DUPLICATE, CONFLICTS, ACCEPTED, ACCEPTED, (recovery.REJECTED, 2)]
        d.end()
        assert "must be a whole number from 0 to 9007199254740991" in d.text()


def test_expiry(directory):
    """With too many producers the numbers of the longest idle ones are dropped, with an event."""
    keep, count = 10000, 10600
    with daemon(directory, journal=f"keep: all, producers: {{keep: {keep}}}") as d, \
            running.subscribe(d, (b"event",)) as statistics, d.socket(zmq.DEALER, "examples") as socket:
        assert answers(d, message(b"a", (1, 1), 1, 1)) == [ACCEPTED]
        for n in range(2, count):
            socket.send_multipart(message(b"b", (1, 1), 1, n))
        for _ in range(2, count):
            d.next_message(socket)
        expired = 0
        while expired < count - 1 - keep:
            event = json.loads(d.next_message(statistics)[1])
            expired += event["count"] if event.get("kind") == "producers_expired" else 0
        journal = d.ask("status")["journal"]
        assert (journal["producers"], journal["expired"], expired) == (keep, count - 1 - keep, expired)
        assert answers(d, message(b"b", (1, 1), 1, count - 1)) == [DUPLICATE]
        restart(d)
        assert answers(d, message(b"b", (1, 1), 1, count - keep)) == [DUPLICATE]
        assert answers(d, message(b"b", (1, 1), 1, 2)) == [ACCEPTED]  # as if it had never arrived


# ---- runnel-feed -------------------------------------------------------------------------------------

ROWS = 2000
FEED = str(running.PROGRAM.parent / "runnel-feed")


def table(directory, name, first, rows=ROWS):
    path = directory / f"{name}.csv"
    path.write_text("a,b\n" + "".join(f"{first + n},{n % 7}\n" for n in range(rows)), encoding="ascii")
    return path


def feeder(directory, path, *options):
    return subprocess.Popen([FEED, "csv", path, "--socket", "router", "--stream", "host", "--connect",
                             f"ipc://{directory}/examples", *options],
                            stderr=subprocess.PIPE, text=True)


def ended(process):
    _, err = process.communicate(timeout=running.LIMIT)
    return process.returncode, err


def learned(directory):
    """The first number of each example, in the order of learning."""
    return [struct.unpack("<f", x[:4])[0] for x, in query(
        directory, "SELECT x FROM entries WHERE kind = 1 ORDER BY position")]


def test_two_feeders_at_once(directory):
    """Two feeders start in the same second with the same stream: each row of both is learned."""
    paths = [table(directory, "first", 0), table(directory, "second", ROWS)]
    with daemon(directory) as d:
        feeders = [feeder(directory, path) for path in paths]
        for process in feeders:
            status, err = ended(process)
            assert status == 0 and f"{ROWS} acknowledged (0 duplicates), 0 rejected" in err, err
        journal = d.ask("status")["journal"]
        assert (journal["conflicts"], journal["duplicates"]) == (0, 0)
    assert sorted(learned(directory)) == list(range(2 * ROWS))


def test_two_feeders_with_one_identity(directory):
    """The examples of the second feeder are not learned. Its error contains the number and the
    solution."""
    paths = [table(directory, "first", 0), table(directory, "second", ROWS)]
    for identity in (("--producer", "5d1c"), ("--epoch", "7"), ("--producer", "a", "--epoch", "7")):
        home = directory / "".join(identity).replace("-", "")
        home.mkdir()
        with daemon(home) as d:
            status, err = ended(feeder(home, paths[0], *identity))
            assert status == 0 and f"{ROWS} acknowledged" in err, err
            status, err = ended(feeder(home, paths[1], *identity))
            assert status == 65 and "stream host, number 0 of epoch" in err, (status, err)
            assert "another example with this number" in err and "--producer" in err, err
            assert d.ask("status")["journal"]["conflicts"] > 0
            status, err = ended(feeder(home, paths[0], *identity))  # the same data
            assert status == 0 and f"{ROWS} acknowledged ({ROWS} duplicates)" in err, err
        assert learned(home) == list(range(ROWS))


def test_identity_that_somebody_has_used(directory):
    """A feeder whose random identity was used before gets `duplicate` for examples that it never
    sent."""
    answer = struct.Struct("<BBHIQQ")
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger = 0
        socket.bind(f"ipc://{directory}/examples")
        process = feeder(directory, table(directory, "rows", 0, 10))
        producers = set()
        for _ in range(10):
            peer, key, _, _, header = socket.recv_multipart()
            _, _, _, epoch, sequence, _, producer = struct.unpack("<BBHIQdQ", header)
            producers.add(producer)
            socket.send_multipart([peer, key, answer.pack(1, 1, 0, epoch, sequence, 5)])
        status, err = ended(process)
        assert status == 65 and "stream host, number 0" in err and "before this call sent it" in err, (status, err)
        assert len(producers) == 1 and producers != {0}


def test_resuming(directory):
    """A feeder prints how another call can send the unacknowledged examples again."""
    rows = table(directory, "rows", 0)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.linger = 0
        socket.bind(f"ipc://{directory}/examples")
        status, err = ended(feeder(directory, rows, "--linger", "0.1"))
    assert status == 75 and "repeat the call with --producer " in err, err
    words = err.split("repeat the call with ")[1].split(" (nothing")[0].split()
    assert words[0] == "--producer" and words[2] == "--epoch", words
    with daemon(directory):
        for duplicates in (0, ROWS):
            status, err = ended(feeder(directory, rows, *words))
            assert status == 0 and f"{ROWS} acknowledged ({duplicates} duplicates)" in err, err
    assert learned(directory) == list(range(ROWS))


def test_json_feeders(directory):
    """Lines without numbers get the feeder's; lines with numbers keep theirs."""
    lines = directory / "lines.json"
    with daemon(directory) as d:
        def feed(text, *options):
            lines.write_text(text, encoding="ascii")
            status, err = ended(subprocess.Popen(
                [FEED, "json", lines, "--socket", "router", "--connect",
                 f"ipc://{directory}/examples", *options], stderr=subprocess.PIPE, text=True))
            return status, d.ask("status")["examples"], err
        plain = '{"stream": "a", "x": [1, 2]}\n' * 5
        assert feed(plain)[:2] == (0, 5)
        assert feed(plain)[:2] == (0, 10)  # another call: other numbers
        own = "".join(f'{{"stream": "a", "x": [1, {n}], "sequence": {n}}}\n' for n in range(5))
        assert feed(own)[:2] == (0, 15)
        assert feed(own)[:2] == (0, 15)  # the same numbers: no example is learned twice
        assert feed(own, "--producer", "b")[:2] == (0, 20)
        named = own.replace('"x"', '"producer": "C", "x"')
        assert feed(named, "--producer", "b")[:2] == (0, 25)
        status, examples, err = feed(own.replace("[1", "[7"))
        assert (status, examples) == (65, 25) and "number 0 of epoch 0" in err, err
        status, _, err = feed(own.replace('"sequence": 4', '"sequence": 2000000'))
        assert status == 65 and "number 2000000 is more than examples.max_jump" in err, err
        status, _, err = feed(own.replace('"sequence": 4', f'"sequence": {2**53 + 1}'))
        assert status == 65 and "from 0 to 2^53 - 1" in err, err
    assert query(directory, "SELECT printf('%x', producer), count(*) FROM entries WHERE "
                 "producer IN (0, 11, 12) GROUP BY producer") == [("0", 5), ("b", 5), ("c", 5)]


def test_usage(directory):
    for given in ("", "0", "xyz", "0x12", "11112222333344445"):
        status, err = ended(feeder(directory, table(directory, "rows", 0), "--producer", given))
        assert status == 64 and "hexadecimal" in err, (given, status, err)


if __name__ == "__main__":
    cases.run(globals())
