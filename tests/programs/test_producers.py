#!/usr/bin/python3
"""Numbers count for each producer apart, and none of two examples with one number is lost in silence:
what comes again is a duplicate, what only has the same number is a conflict, and a number far away is
refused."""
import json
import pathlib
import sqlite3
import struct
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
    """(status, reason) of each, in order: rejections come at once, so they are sent one by one."""
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
    """The same key and numbers from several producers, one of them without a name."""
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
    """The same number with another content, as long as it is remembered: through restarts, too."""
    with daemon(directory) as d, d.socket(zmq.SUB, "statistics") as statistics:
        statistics.subscribe(b"event")
        for producer in (0, 9):
            assert answers(d, *(message(b"a", (n, producer), n, producer) for n in range(5))) == (
                [ACCEPTED] * 5)
        for life in range(2):
            for producer in (0, 9):
                found = answers(
                    d,
                    message(b"a", (2, producer), 2, producer, stamp=1.5),  # time is no content
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
                    if event["kind"] == "rejected":
                        break
                assert "conflict" in event["text"] and "another content" in event["text"], event
                restart(d)


def test_jump(directory):
    """A number far above the newest is refused: it would make a duplicate of all that follows."""
    with daemon(directory, examples=f", max_jump: {JUMP}") as d:
        assert answers(d, message(b"a", (1, 1), FAR)) == [ACCEPTED]  # the first is free
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
        assert f"its number {FAR} is more than examples.max_jump, {JUMP}, above 3" in d.text()


def test_another_producer_stops_nobody(directory):
    """Whoever knows a stream's key and epoch, but not its producer, cannot make it a duplicate."""
    with daemon(directory) as d:
        assert answers(d, message(b"a", (1, 1), 1, 77), message(b"a", (6, 6), FAR, 78),
                       message(b"a", (6, 6), FAR), message(b"a", (1, 2), 2, 77)) == [ACCEPTED] * 4


def test_no_limit(directory):
    with daemon(directory, examples=", max_jump: 0") as d:
        assert answers(d, message(b"a", (1, 1), 1), message(b"a", (1, 1), FAR)) == [ACCEPTED] * 2


def test_pull(directory):
    """Without acknowledgements nothing is sent again: numbers only count what is missing, and one far
    away is ignored."""
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
        assert d.end() == 0, d.text()  # then all of it is on disk
    assert query(directory, "SELECT sequence FROM streams") == [(4,)]


def test_json(directory):
    """A producer in JSON is that of the header; numbers that JSON cannot hold are refused."""
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
        assert "no whole number from 0 to 9007199254740991" in d.text()


def test_expiry(directory):
    """Of too many producers the numbers of the longest idle go, and that is said."""
    keep, count = 10000, 10600
    with daemon(directory, journal=f"keep: all, producers: {{keep: {keep}}}") as d, \
            d.socket(zmq.SUB, "statistics") as statistics, d.socket(zmq.DEALER, "examples") as socket:
        statistics.subscribe(b"event")
        assert answers(d, message(b"a", (1, 1), 1, 1)) == [ACCEPTED]
        for n in range(2, count):
            socket.send_multipart(message(b"b", (1, 1), 1, n))
        for _ in range(2, count):
            d.next_message(socket)
        said = 0
        while said < count - 1 - keep:
            event = json.loads(d.next_message(statistics)[1])
            said += event["count"] if event["kind"] == "producers_expired" else 0
        journal = d.ask("status")["journal"]
        assert (journal["producers"], journal["expired"], said) == (keep, count - 1 - keep, said)
        assert answers(d, message(b"b", (1, 1), 1, count - 1)) == [DUPLICATE]
        restart(d)
        assert answers(d, message(b"b", (1, 1), 1, count - keep)) == [DUPLICATE]
        assert answers(d, message(b"b", (1, 1), 1, 2)) == [ACCEPTED]  # as if it had never come


if __name__ == "__main__":
    cases.run(globals())
