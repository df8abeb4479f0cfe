#!/usr/bin/python3
"""No acknowledged example is lost, and none is learned twice. The daemon is killed and stopped, its
disk is full, and its files are damaged while producers feed it. Then it has the parameters of an
undisturbed daemon. tools/figures/kill-loop is the long form of the first test."""
import contextlib
import json
import multiprocessing
import os
import pathlib
import random
import resource
import signal
import socket as sockets
import sqlite3
import struct
import threading
import time

import recovery
import running
import zmq
from recovery import Producer, check_once, feed, fresh, merge, message, read_journal, start, undisturbed

IO_ERROR = 74
DISK_FULL, DISK_BROKEN, DISK_SHORT, DISK_SYNC, DISK_STALL = range(1, 6)  # tests/support/faulty_disk.h
# examples of 64 KiB: more than the queue holds
QUEUE_INPUTS, QUEUE_STEPS, QUEUE_FILLS = 64, 256, 300
CHECKPOINT, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
DAMAGED = "checkpoint.damaged-1.safetensors"  # renamed file
ACCEPT = "--accept-short-journal"


def wait_until(true, what):
    end = time.monotonic() + running.LIMIT
    while not true():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.005)


def produce(directory, count=2):
    producers = [Producer(directory, n) for n in range(count)]
    for producer in producers:
        producer.start()
    return producers


def answers(producers):
    return sum(len(p.answered) for p in producers)


def answered(producers, count):
    wait_until(lambda: answers(producers) >= count or
               any(not p.problems.empty() for p in producers), f"{count} answers")


def finish(producers):
    for producer in producers:
        producer.finish()
    for producer in producers:
        producer.wait()


def refused(daemon, status):
    """The log of a daemon that must end by itself."""
    assert daemon.process.wait(running.LIMIT) == status, daemon.text()
    return daemon.text()


def numbered(key, count, first=0):
    """Messages of a stream; their content does not depend on the run."""
    r = random.Random(key)
    made = [recovery.make_example(r) for _ in range(first + count)]
    return [message(key.encode(), x, n, flags) for n, (x, flags) in enumerate(made)][first:]


def entries_of(messages):
    return [recovery.Entry(recovery.EXAMPLE, key, 0, n, header[1], x, None)
            for n, (key, x, _, header) in enumerate(messages)]


# --- killed, stopped, abandoned ------------------------------------------------------------------

def killed_again_and_again():
    done = recovery.kill_loop(kills=8, seed=7)
    assert done.examples > 100, done


def killed_with_the_cuda_engine():
    if not os.environ.get("RUNNEL_CUDA_MODULE"):
        return "no module"
    recovery.kill_loop(kills=3, seed=8, device="cuda", checkpoint=40)
    return None


def stopped_and_continued():
    """Producers give up a silent daemon, reconnect and send again; it gets everything."""
    with fresh() as directory, start(directory) as daemon:
        producers = produce(directory)
        for count in (200, 400):
            answered(producers, count)
            daemon.process.send_signal(signal.SIGSTOP)
            time.sleep(3 * recovery.SILENCE_MS / 1000)
            daemon.process.send_signal(signal.SIGCONT)
        finish(producers)
        parameters = daemon.export()
        merge(entries := {}, read_journal(directory))
        assert undisturbed(check_once(producers, entries))[1] == parameters
        assert daemon.end() == 0


def send_all(directory, messages, pace):
    """Runs in a separate process."""
    with zmq.Context() as context, recovery.dealer(context, directory) as socket:
        for frames in messages:
            socket.send_multipart(frames)
            time.sleep(pace)
        for _ in messages:
            assert socket.poll(1000 * running.LIMIT)
            socket.recv_multipart()


def producer_stopped_and_killed():
    """A stopped producer continues. After a kill another one sends everything again."""
    messages = numbered("alone", 300)
    with fresh() as directory, start(directory) as daemon:
        daemon.ask("status")
        child = multiprocessing.Process(target=send_all, args=(directory, messages, 0.001))
        child.start()
        for count in (50, 100):
            wait_until(lambda n=count: daemon.ask("status")["examples"] >= n, "examples")
            os.kill(child.pid, signal.SIGSTOP)
            time.sleep(0.1)
            os.kill(child.pid, signal.SIGCONT)
        wait_until(lambda: daemon.ask("status")["examples"] >= 150, "examples")
        child.kill()
        child.join()
        send_all(directory, messages, 0)
        status = daemon.ask("status")
        assert status["examples"] == 300 and status["journal"]["missing"] == 0, status
        assert status["journal"]["duplicates"] >= 150, status
        assert daemon.export() == undisturbed(entries_of(messages))[1]


def command_frame(name, **properties):
    body = bytes([len(name)]) + name.encode()
    for key, value in properties.items():
        key = key.replace("_", "-").encode()
        body += bytes([len(key)]) + key + struct.pack(">I", len(value)) + value
    return bytes([4, len(body)]) + body


def greet(directory):
    """A connection to the examples socket that speaks ZMTP 3 as a DEALER, without libzmq."""
    raw = sockets.socket(sockets.AF_UNIX)
    raw.settimeout(running.LIMIT)
    raw.connect(f"{directory}/examples")
    raw.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    subscriber = b""
    while len(subscriber) < 64 or b"READY" not in subscriber:  # its greeting and its first command
        if len(subscriber) == 64:
            raw.sendall(command_frame("READY", Socket_Type=b"DEALER", Identity=b""))
        subscriber += raw.recv(64 - len(subscriber) if len(subscriber) < 64 else 4096)
    return raw


def half_messages():
    """Producers that end within a message: an incomplete message is not learned, and other
    producers are not affected."""
    key, x, y, header = message(b"half", b"\0" * 12, 0)
    frames = [bytes([last ^ 1, len(f)]) + f for last, f in ((0, key), (0, x), (0, y), (1, header))]
    whole = b"".join(frames)
    with fresh() as directory, start(directory) as daemon:
        producers = produce(directory, 1)
        answered(producers, 1)
        for cut in range(len(whole)):
            with greet(directory) as raw:
                raw.sendall(whole[:cut])
        with greet(directory) as raw:  # correct bytes, if complete
            raw.sendall(whole)
            wait_until(lambda: b"half" in raw.recv(4096), "an answer to the whole message")
        finish(producers)
        status = daemon.ask("status")
        assert status["examples"] == len(producers[0].sent) + 1, status
        assert status["rejected"] == 0, status
        assert daemon.end() == 0


# --- commands, and an ordinary end ---------------------------------------------------------------

def commands_are_learned_again():
    """Changed rates and resets are repeated at their positions."""
    messages = numbered("told", 400)
    commands = {120: {"command": "set", "key": "learning.optimizer.rate", "value": 0.003},
                200: {"command": "reset"},
                260: {"command": "set", "key": "learning.clip", "value": 0.25},
                330: {"command": "forget", "stream": "told"}}
    parts = [messages[:120], messages[120:200], messages[200:260], messages[260:330], messages[330:]]

    def run(directory, **options):
        with start(directory, checkpoint=0, **options) as daemon:
            for part, command in zip(parts, [None, *commands.values()], strict=True):
                if command:
                    daemon.ask(**command)
                feed(daemon, part)
                if "killed" in str(directory):
                    recovery.kill_and_start(daemon)
            status = daemon.ask("status")
            return daemon.export(), status["examples"], status["journal"]["position"]

    with fresh() as directory:
        results = []
        for name in ("left alone", "killed"):
            (directory / name).mkdir()
            results.append(run(directory / name))
        assert results[0] == results[1], [r[1:] for r in results]
        assert results[0][1:] == (400, 404) or results[0][1:] == (200, 404), results[0][1:]


def a_forgotten_stream_begins_again():
    """If another client has sent higher numbers, the owner's examples are duplicates, also after a
    restart, until the stream is forgotten. Other streams do not change."""
    def rows(directory):
        with contextlib.closing(sqlite3.connect(directory / "state/journal.sqlite")) as file:
            return {row[0] for row in file.execute("SELECT key FROM streams")}

    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        owner, other = numbered("told", 20), numbered("other", 20)
        feed(daemon, other[:10])
        feed(daemon, [message(b"told", owner[0][1], 1000, epoch=1)])
        feed(daemon, owner, recovery.DUPLICATE)
        refusal = daemon.request("forget", stream="tolt")[0]
        assert not refusal["ok"] and "stream 'tolt' not found" in refusal["error"], refusal
        for bad in {}, {"stream": 7}, {"stream": "x" * 256}:
            refusal = daemon.request("forget", **bad)[0]
            assert not refusal["ok"] and "forget: expected a stream" in refusal["error"], refusal
        assert daemon.ask("forget", stream="told")["stream"] == "told"
        assert rows(directory) == {b"other"}
        recovery.kill_and_start(daemon)  # the answer follows the write to disk
        assert daemon.ask("status")["journal"]["position"] == 12
        assert not daemon.request("forget", stream="told")[0]["ok"]
        feed(daemon, owner + other[10:])
        feed(daemon, other[:10], recovery.DUPLICATE)
        assert daemon.ask("status")["examples"] == 41
        parameters = daemon.export()
        recovery.kill_and_start(daemon)
        assert daemon.export() == parameters
        assert rows(directory) == {b"told", b"other"}
        assert daemon.end() == 0
        # A stream without numbers is forgotten, too.
    with fresh() as directory, start(directory, socket="pull", journal="{enabled: false}") as daemon:
        daemon.ask("status")
        with daemon.socket(zmq.PUSH, "examples") as socket:
            socket.send_multipart([other[0][0], other[0][1][:4 * recovery.INPUTS]])  # one step
            wait_until(lambda: daemon.ask("status")["examples"] == 1, "the example")
        assert daemon.ask("status")["streams"] == 1
        daemon.ask("forget", stream="other")
        assert daemon.ask("status")["streams"] == 0


def forgotten_with_all_its_producers():
    """The numbers and remembered examples of all producers of the stream are deleted."""
    def of_producer(number, frames):
        version, *fields = struct.unpack("<BBHIQd", frames[3])
        assert version == 1
        return frames[:3] + [struct.pack("<BBHIQdQ", 2, *fields, number)]

    first, second = numbered("shared", 5), numbered("other", 5)
    second = [[first[0][0], *frames[1:]] for frames in second]  # of the same stream
    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        feed(daemon, [of_producer(1, frames) for frames in first])
        feed(daemon, [of_producer(2, frames) for frames in second])
        feed(daemon, [of_producer(1, frames) for frames in first], recovery.DUPLICATE)
        feed(daemon, [of_producer(1, frames) for frames in second], recovery.REJECTED)  # conflicts
        daemon.ask("forget", stream="shared")
        with contextlib.closing(sqlite3.connect(directory / "state/journal.sqlite")) as file:
            assert file.execute("SELECT count(*) FROM streams").fetchone() == (0,)
        feed(daemon, [of_producer(1, frames) for frames in second])
        feed(daemon, [of_producer(2, frames) for frames in first])
        recovery.kill_and_start(daemon)
        feed(daemon, [of_producer(2, frames) for frames in first], recovery.DUPLICATE)
        assert daemon.ask("status")["examples"] == 20
        assert daemon.end() == 0


def answered_commands_outlive_a_kill():
    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        feed(daemon, numbered("told", 20))
        for field, value, command in (
                ("rate", 0.003, {"command": "set", "key": "learning.optimizer.rate"}),
                ("clip", 0.5, {"command": "set", "key": "learning.clip"}),
                ("examples", 0, {"command": "reset"})):
            daemon.ask(**command, value=value)
            recovery.kill_and_start(daemon)
            assert daemon.ask("status")[field] == value, command


def configured_anew_after_a_kill():
    """A replay without a later checkpoint uses the rate of that time."""
    messages = numbered("anew", 60)
    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        feed(daemon, messages)
        daemon.end(signal.SIGKILL)
        daemon.log.close()
        text = daemon.path.read_text(encoding="utf-8")
        assert "rate: 0.01}" in text
        daemon.path.write_text(text.replace("rate: 0.01}", "rate: 0.05}"), encoding="utf-8")
        daemon.start()
        assert daemon.ask("status")["rate"] == 0.05
        assert daemon.export() == undisturbed(entries_of(messages))[1]


def journal_turned_off():
    """While the journal is off, its entries are reported; they are learned once it is on again."""
    messages = numbered("off", 50)
    with fresh() as directory:
        with start(directory) as daemon:
            feed(daemon, messages)
            daemon.end(signal.SIGKILL)
        with start(directory, socket="pull", journal="{enabled: false}") as daemon:
            assert daemon.ask("status")["examples"] == 0
            assert "after the checkpoint are learned only" in daemon.text(), daemon.text()
            assert daemon.end() == 0
        with start(directory) as daemon:
            daemon.ask("status")
            assert daemon.export() == undisturbed(entries_of(messages))[1]


def stopped_while_fed():
    """The last checkpoint contains all acknowledged examples; the others are sent again."""
    with fresh() as directory, start(directory) as daemon:
        producers = produce(directory, 3)
        entries = {}
        for count in (300, 600):
            answered(producers, count)
            assert daemon.end() == 0
            assert "all are in the checkpoint" in daemon.text()
            merge(entries, read_journal(directory))
            acknowledged = [position for p in producers for position in dict(p.accepted).values()]
            assert max(entries) >= max(acknowledged)
            examples = sum(e.kind == recovery.EXAMPLE for e in entries.values())
            daemon.log.close()
            daemon.start()
            daemon.ask("status")
            assert f"resumed after {max(entries)} examples" in daemon.text(), examples
            assert "replaying" not in daemon.text()
        finish(producers)
        parameters = daemon.export()
        assert daemon.end() == 0
        merge(entries, read_journal(directory))
        assert undisturbed(check_once(producers, entries))[1] == parameters


# --- the disk ------------------------------------------------------------------------------------

def stopped_while_learning_again():
    """It stops with a checkpoint in the middle of its journal, and the next start learns the rest.
    It checks for a stop once per second, so the journal grows threefold until the replay takes
    longer."""
    options = {"size": 256, "checkpoint": 0}
    with fresh() as directory, start(directory, **options) as daemon:
        sent, stopped = [], False
        while not stopped:
            more = numbered("a", 1000 + 2 * len(sent), len(sent))
            feed(daemon, more)
            sent += more
            recovery.kill_and_start(daemon)
            wait_until(lambda: "replaying the entries" in daemon.text(), "replay")
            assert daemon.end() == 0, daemon.text()
            stopped = "stopped before the end" in daemon.text()
            assert stopped or "all are in the checkpoint" in daemon.text(), daemon.text()
            daemon.log.close()
            daemon.start()
        assert daemon.ask("status")["examples"] == len(sent)
        assert "replaying the entries" in daemon.text(), daemon.text()
        assert undisturbed(entries_of(sent), **options)[1] == daemon.export()
        assert daemon.end() == 0


def size_limit(daemon, size):
    """A limit for the files of the process acts like a full disk."""
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def check_exits(daemon, producers):
    """The daemon ends with an error. All acknowledged examples are in the journal, and the daemon
    resumes with a working disk."""
    directory = daemon.directory
    assert daemon.process.wait(running.LIMIT) == IO_ERROR, daemon.text()
    last = daemon.text().splitlines()[-1]
    assert "journal.sqlite" in last, last
    merge(entries := {}, read_journal(directory))
    for producer in producers:
        for (key, sequence), position in dict(producer.accepted).items():
            assert (entries[position].stream, entries[position].sequence) == (key, sequence)
    daemon.log.close()
    daemon.start()
    answered(producers, answers(producers) + 100)
    finish(producers)
    parameters = daemon.export()
    assert daemon.end() == 0
    merge(entries, read_journal(directory))
    assert undisturbed(check_once(producers, entries))[1] == parameters


def full_disk():
    """It ends with an error, and all acknowledged examples are there after a restart."""
    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        producers = produce(directory)
        answered(producers, 200)
        size_limit(daemon, max(path.stat().st_size
                               for path in (directory / "state").glob("journal.sqlite*")) + 9000)
        check_exits(daemon, producers)


class HurtDaemon(running.Daemon):
    """tests/support/hurt_daemon.c"""
    program = pathlib.Path(os.environ.get("builddir", "."), "tests/support/hurt_daemon").resolve()


def arm_disk(fault, after=0):
    """The fault of the disk at SIGUSR1, for daemons started from now on."""
    os.environ.update(HURT_DISK=str(fault), HURT_AFTER=str(after))


def broken_disk():
    """Errors of every kind at various moments have the same effect."""
    for fault, after in ((DISK_FULL, 0), (DISK_BROKEN, 3), (DISK_SHORT, 1), (DISK_SYNC, 0)):
        arm_disk(fault, after)
        with fresh() as directory, start(directory, HurtDaemon) as daemon:
            producers = produce(directory)
            answered(producers, 100)
            daemon.process.send_signal(signal.SIGUSR1)
            check_exits(daemon, producers)


def full_queue():
    """While the disk does not respond, learning continues until the queue is full. Then producers
    wait, but the control socket answers. Nothing is lost."""
    arm_disk(DISK_STALL)
    options = {"inputs": QUEUE_INPUTS, "size": 2, "scale": "none", "checkpoint": 0}
    r = recovery.np.random.default_rng(5)
    x = r.standard_normal((QUEUE_FILLS, QUEUE_STEPS * QUEUE_INPUTS)).astype("<f4")
    messages = [message(b"large", x[n].tobytes(), n) for n in range(QUEUE_FILLS)]
    with fresh() as directory, start(directory, HurtDaemon, **options) as daemon:
        feed(daemon, messages[:1])
        daemon.process.send_signal(signal.SIGUSR1)
        with recovery.dealer(daemon.context, directory) as socket:
            sender = threading.Thread(target=lambda: [socket.send_multipart(m)
                                                      for m in messages[1:]])
            socket.sndhwm = QUEUE_FILLS
            sender.start()
            wait_until(lambda: daemon.ask("status")["examples"] > QUEUE_FILLS // 3, "examples")
            taken, before = 0, -1
            while taken != before:  # until it accepts no more
                time.sleep(0.3)
                before, taken = taken, daemon.ask("status")["examples"]
            journal = daemon.ask("status")["journal"]
            assert taken < QUEUE_FILLS and journal["durable"] == 1, (taken, journal)
            assert journal["waiting"] > 0.1 and not socket.poll(0), journal
            daemon.process.send_signal(signal.SIGUSR1)
            sender.join()
            for n in range(1, QUEUE_FILLS):
                _, answer = recovery.acknowledgement(daemon.next_message(socket))
                assert (answer.status, answer.sequence) == (recovery.ACCEPTED, n), answer
        recovery.kill_and_start(daemon)
        assert daemon.export() == undisturbed(entries_of(messages), **options)[1]


def flip(path):
    """Changes a bit in the middle of a file."""
    with open(path, "r+b") as file:
        file.seek(path.stat().st_size // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 16]))


def damaged_checkpoint():
    """The daemon resumes from the previous checkpoint, and its journal leads to the same
    parameters. A warning is printed, the damaged file is kept, and new checkpoints replace neither
    of them."""
    messages = numbered("saved", 500)
    expected = undisturbed(entries_of(messages))[1]
    with fresh() as directory, start(directory, checkpoint=0, journal="{}") as daemon:
        state = directory / "state"
        for first in (0, 150, 300):
            feed(daemon, messages[first:first + 150])
            daemon.ask("checkpoint")
        feed(daemon, messages[450:])
        daemon.end(signal.SIGKILL)
        flip(state / CHECKPOINT)
        damaged = (state / CHECKPOINT).read_bytes()
        daemon.log.close()
        daemon.start()
        assert daemon.ask("status")["examples"] == 500
        text = daemon.text()
        assert PREVIOUS in text and DAMAGED in text and "200 entries" in text, text
        assert daemon.export() == expected
        with daemon.socket(zmq.SUB, "statistics") as events:
            events.subscribe(b"event")
            subscriber = [json.loads(daemon.next_message(events)[1]) for _ in range(2)]
        assert subscriber[1]["kind"] == "resumed" and DAMAGED in subscriber[1]["text"], subscriber
        assert (state / DAMAGED).read_bytes() == damaged
        daemon.ask("checkpoint")
        daemon.end(signal.SIGKILL)
        assert (state / DAMAGED).read_bytes() == damaged
        flip(state / CHECKPOINT)  # the previous checkpoint has not changed
        daemon.log.close()
        daemon.start()
        assert daemon.export() == expected and "200 entries" in daemon.text(), daemon.text()
        daemon.ask("checkpoint")
        daemon.end(signal.SIGKILL)
        flip(state / CHECKPOINT)
        flip(state / PREVIOUS)
        daemon.log.close()
        daemon.start()
        text = refused(daemon, IO_ERROR)
        assert CHECKPOINT in text and PREVIOUS in text and "move both away" in text, text
        assert "runnel-ctl restore" in text, text
        # The command of the message.
        for name in (CHECKPOINT, PREVIOUS, "journal.sqlite", "journal.sqlite-wal"):
            (state / name).rename(directory / name)
        daemon.log.close()
        daemon.start()
        assert daemon.ask("status")["examples"] == 0
        feed(daemon, messages)
        daemon.end(signal.SIGTERM)  # the log is merged into the file
        with open(state / "journal.sqlite", "r+b") as file:
            file.seek(-4096, os.SEEK_END)
            file.write(bytes(4096))
        daemon.log.close()
        daemon.start()
        text = refused(daemon, IO_ERROR)
        assert "journal.sqlite is damaged" in text and "***" not in text, text


def start_again(daemon, *arguments):
    daemon.log.close()
    daemon.arguments = arguments
    daemon.start()


def contents(state):
    """The contents of the files; of SQLite's own files only a log that is not empty."""
    return {path.name: path.read_bytes() for path in state.iterdir()
            if path.name not in ("lock", "journal.sqlite-shm") and path.stat().st_size > 0}


def refusals_change_nothing():
    """The newest checkpoint is damaged, and the journal has an error: it cannot be opened, does not
    match the checkpoint, or fails in the replay. No file is renamed or written. With a repaired
    journal the daemon resumes."""
    messages = numbered("kept", 300)

    def lose_a_page(state):
        os.truncate(state / "journal.sqlite", (state / "journal.sqlite").stat().st_size - 4096)

    def damage_an_entry(state):
        with contextlib.closing(sqlite3.connect(state / "journal.sqlite")) as base:
            base.execute("UPDATE blocks SET data = zeroblob(length(data)) "
                         "WHERE last = (SELECT max(last) FROM blocks)")
            base.commit()

    with fresh() as directory, start(directory, checkpoint=0, journal="{}") as daemon:
        state = directory / "state"
        daemon.ask("status")
        first = (state / CHECKPOINT).read_bytes()

        def begin_later(state):
            (state / PREVIOUS).write_bytes(first)

        for begin in (0, 100):
            feed(daemon, messages[begin:begin + 100])
            daemon.ask("checkpoint")
        wait_until(lambda: daemon.ask("status")["journal"]["oldest"] > 1, "a shorter journal")
        feed(daemon, messages[200:])
        assert daemon.end() == 0
        flip(state / CHECKPOINT)
        files = contents(state)
        for harm in (lose_a_page, damage_an_entry, begin_later):
            harm(state)
            before = contents(state)
            start_again(daemon)
            refused(daemon, IO_ERROR)
            assert contents(state) == before, harm.__name__
            for name, data in files.items():
                (state / name).write_bytes(data)
        start_again(daemon)
        assert daemon.ask("status")["examples"] == 300
        assert daemon.export() == undisturbed(entries_of(messages))[1]
        assert (state / DAMAGED).read_bytes() == files[CHECKPOINT]


def transaction_without_its_end():
    """A power failure leaves an incomplete transaction: it is cut off with one warning. It was not
    acknowledged and not marked, and its examples are accepted again at the same positions."""
    messages = numbered("torn", 40)
    with fresh() as directory, start(directory) as daemon:
        mark = directory / "state/journal.mark"
        daemon.ask("status")
        before = mark.read_bytes()
        feed(daemon, messages)
        daemon.end(signal.SIGKILL)
        log = directory / "state/journal.sqlite-wal"
        os.truncate(log, log.stat().st_size - 1)
        assert mark.read_bytes().startswith(b"%020d " % 40), mark.read_bytes()
        start_again(daemon)
        assert "up to 40 were acknowledged" in refused(daemon, IO_ERROR), daemon.text()
        mark.write_bytes(before)
        start_again(daemon)
        kept = daemon.ask("status")["examples"]  # of earlier transactions, if any
        assert kept < 40
        assert "unfinished last transaction" in daemon.text(), daemon.text()
        recovery.kill_and_start(daemon)
        feed(daemon, messages[:kept], recovery.DUPLICATE)
        feed(daemon, messages[kept:])
        status = daemon.ask("status")
        assert status["examples"] == 40 and status["journal"]["missing"] == 0, status
        assert daemon.export() == undisturbed(entries_of(messages))[1]
        assert "unfinished" not in daemon.text(), daemon.text()


def log_that_is_missing():
    """A copy lacks the write-ahead log: acknowledged entries are missing, and the daemon rejects it
    instead of losing them silently. A user who accepts the loss can send them again, and they are
    learned once."""
    messages = numbered("cut", 100)
    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        feed(daemon, messages)
        daemon.end(signal.SIGKILL)
        for path in (directory / "state").glob("journal.sqlite-*"):
            path.unlink()
        for _ in range(2):  # a rejection changes nothing
            start_again(daemon)
            text = refused(daemon, IO_ERROR)
            assert "journal.sqlite" in text and "ends at entry 0" in text, text
            assert "up to 100 were acknowledged" in text and ACCEPT in text, text
        start_again(daemon, ACCEPT)
        assert daemon.ask("status")["examples"] == 0
        assert "they are lost, as accepted" in daemon.text(), daemon.text()
        daemon.end(signal.SIGKILL)
        start_again(daemon)  # accepted permanently
        feed(daemon, messages)
        assert daemon.ask("status")["journal"]["position"] == 100
        assert daemon.export() == undisturbed(entries_of(messages))[1]


def log_lost_with_the_power():
    """Without `sync: full` this loss is expected: it is reported, but the daemon starts."""
    messages = numbered("cut", 100)
    with fresh() as directory, start(directory, checkpoint=0, journal="{sync: normal}") as daemon:
        feed(daemon, messages)
        daemon.end(signal.SIGKILL)
        for path in (directory / "state").glob("journal.sqlite-*"):
            path.unlink()
        start_again(daemon)
        assert daemon.ask("status")["examples"] == 0
        assert "up to 100 were acknowledged: they are lost" in daemon.text(), daemon.text()


def journal_older_than_the_checkpoint():
    """An older journal would use the numbers of the checkpoint's examples again and learn them
    twice."""
    messages = numbered("old", 300)
    with fresh() as directory, start(directory) as daemon:
        journal, old = directory / "state/journal.sqlite", directory / "old"
        feed(daemon, messages[:100])
        assert daemon.end() == 0
        old.write_bytes(journal.read_bytes())
        start_again(daemon)
        feed(daemon, messages[100:200])
        assert daemon.end() == 0
        journal.write_bytes(old.read_bytes())
        for mark in (True, False):  # the checkpoint has its own position
            if not mark:
                (directory / "state/journal.mark").unlink()
            start_again(daemon)
            text = refused(daemon, IO_ERROR)
            assert "journal.sqlite" in text and "ends at entry 100" in text, text
            assert "checkpoint's entry 200" in text and ACCEPT in text, text
        start_again(daemon, ACCEPT)
        feed(daemon, messages[200:])
        assert "as accepted" in daemon.text(), daemon.text()
        daemon.end(signal.SIGKILL)
        start_again(daemon)
        status = daemon.ask("status")
        assert (status["examples"], status["journal"]["position"]) == (300, 300), status
        assert daemon.export() == undisturbed(entries_of(messages))[1]


def journal_moved_away():
    """It resumes after the checkpoint and reports the loss. This state also survives a kill."""
    messages = numbered("moved", 300)
    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        feed(daemon, messages[:200])
        daemon.ask("checkpoint")
        feed(daemon, messages[200:250])
        daemon.end(signal.SIGKILL)
        for path in (directory / "state").glob("journal.sqlite*"):
            path.unlink()
        start_again(daemon)
        feed(daemon, messages[200:])
        assert "started a new journal after entry 200, the last in the checkpoint" in daemon.text(), daemon.text()
        assert "acknowledged entries 201 to 250 are lost" in daemon.text()
        with daemon.socket(zmq.SUB, "statistics") as events:
            events.subscribe(b"event")
            subscriber = [json.loads(daemon.next_message(events)[1]) for _ in range(2)]
        assert subscriber[1]["kind"] == "resumed" and "entries 201 to 250" in subscriber[1]["text"], subscriber
        recovery.kill_and_start(daemon)
        status = daemon.ask("status")
        assert (status["examples"], status["journal"]["position"]) == (300, 300), status
        assert daemon.export() == undisturbed(entries_of(messages))[1]


def files_taken_away():
    """The files of a running daemon are removed: it accepts nothing more, names the file and ends,
    whether it is fed, gets requests or is idle. It cannot detect the loss of examples acknowledged
    before."""
    def away(path):
        path.rename(path.with_name(f"{path.name}.away"))

    def replace(path):
        copy = path.read_bytes()
        path.unlink()
        path.write_bytes(copy)

    for name, harm, busy in (("journal.sqlite", pathlib.Path.unlink, True),
                             ("journal.sqlite", replace, False),
                             ("journal.sqlite-wal", pathlib.Path.unlink, True),
                             ("lock", pathlib.Path.unlink, False), ("", away, True),
                             ("", away, False)):
        with fresh() as directory, start(directory, checkpoint=0) as daemon:
            path = directory / "state" / name
            producers = produce(directory) if busy else []
            answered(producers, 100 if busy else 0)
            daemon.ask("status")
            harm(path)
            assert daemon.process.wait(running.LIMIT) == IO_ERROR, daemon.text()
            text = daemon.text().splitlines()[-1]
            named = path if name.startswith("journal") else directory / "state"
            assert str(named) in text and "while the daemon ran" in text, text
            assert ("nothing is lost" in text) == (name[:1] == "j" and harm is not replace), text
            for producer in producers:  # no daemon answers
                producer.finish()
                producer.open.clear()
    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        feed(daemon, numbered("told", 20))
        (directory / "state/journal.sqlite").unlink()
        with contextlib.suppress(AssertionError):  # no answer, or an error that it cannot be kept
            reply, = daemon.request("set", key="learning.clip", value=0.5)
            assert not reply["ok"], reply
        assert daemon.process.wait(running.LIMIT) == IO_ERROR, daemon.text()


def journal_taken_away():
    """The state directory remains: the journal is written again in its place. After a restart all
    acknowledged examples are there, and repeated ones are learned once."""
    for names in (("journal.sqlite",), ("journal.sqlite-wal",), ("journal.sqlite-shm", "journal.sqlite"),
                  ("journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "journal.mark")):
        with fresh() as directory, start(directory, checkpoint=0) as daemon:
            state = directory / "state"
            producers = produce(directory)
            answered(producers, 100)
            for name in names:
                # SQLite may have removed it with another file
                (state / name).unlink(missing_ok=True)
            assert daemon.process.wait(running.LIMIT) == IO_ERROR, daemon.text()
            assert "nothing is lost; start the daemon again" in daemon.text(), daemon.text()
            assert (state / "journal.sqlite").stat().st_mode & 0o777 == 0o600
            start_again(daemon)
            daemon.ask("status")
            acknowledged = answers(producers)
            answered(producers, acknowledged + 100)
            finish(producers)
            parameters = daemon.export()
            merge(entries := {}, read_journal(directory))
            assert undisturbed(check_once(producers, entries))[1] == parameters
            assert daemon.end() == 0


def journal_taken_away_for_good():
    """The journal cannot be written again: a last checkpoint has the acknowledged examples, and the
    next start reports the missing knowledge."""
    messages = numbered("away", 300)
    with fresh() as directory, start(directory, checkpoint=0) as daemon:
        state = directory / "state"
        feed(daemon, messages[:200])
        (state / "journal.sqlite.tmp").mkdir()
        for path in state.glob("journal.sqlite-*"):
            path.unlink()
        (state / "journal.sqlite").unlink()
        assert daemon.process.wait(running.LIMIT) == IO_ERROR, daemon.text()
        assert "wrote a last checkpoint" in daemon.text(), daemon.text()
        (state / "journal.sqlite.tmp").rmdir()
        start_again(daemon)
        assert daemon.ask("status")["examples"] == 200
        assert "started a new journal after entry 200" in daemon.text(), daemon.text()
        feed(daemon, messages[200:])
        assert daemon.export() == undisturbed(entries_of(messages))[1]


# --- the clock, and missing numbers --------------------------------------------------------------

def clock_that_jumps():
    """Jumps by years in both directions: nothing waits, the results are the same, and it recovers
    from a kill."""
    with fresh() as directory, start(directory, HurtDaemon) as daemon:
        producers = produce(directory)
        on_their_way = len(producers) * recovery.WINDOW  # longest time at a jump of the clock
        for _ in range(4):
            answered(producers, answers(producers) + on_their_way + 20)
            daemon.process.send_signal(signal.SIGUSR2)
        recovery.kill_and_start(daemon)
        finish(producers)
        parameters = daemon.export()
        assert daemon.end() == 0
        merge(entries := {}, read_journal(directory))
        assert undisturbed(check_once(producers, entries))[1] == parameters
        with contextlib.closing(sqlite3.connect(directory / "state/journal.sqlite")) as base:
            earliest, latest = base.execute("SELECT min(time), max(time) FROM entries").fetchone()
        assert latest - earliest > 300 * 86400, "the clock did not jump"


def send_until_taken(daemon, socket, frames):
    socket.send_multipart(frames)
    return daemon.ask("status")["examples"]


def examples_left_out():
    """Sockets without answers count the missing numbers of a producer."""
    messages = numbered("gaps", 30)
    left_out = {3, 4, 11, 20, 21, 22}
    for kind, socket in (("pull", zmq.PUSH), ("sub", zmq.PUB)):
        with fresh() as directory, start(directory, socket=kind) as daemon:
            with daemon.socket(zmq.SUB, "statistics") as events, \
                    daemon.socket(socket, "examples") as examples:
                events.subscribe(b"event")
                daemon.next_message(events)  # `started` confirms the subscription
                for number, frames in enumerate(messages):
                    if number == 0:  # until the daemon has the subscription
                        wait_until(lambda f=frames: send_until_taken(daemon, examples, f), "taken")
                    elif number not in left_out:
                        examples.send_multipart(frames)
                wait_until(lambda: daemon.ask("status")["journal"]["missing"] == len(left_out),
                           "all gaps")
                text = json.loads(daemon.next_message(events)[1])
                while text["kind"] != "gap":
                    text = json.loads(daemon.next_message(events)[1])
                assert text["stream"] == "gaps" and text["count"] >= 1, text


CASES = [killed_again_and_again, killed_with_the_cuda_engine, stopped_and_continued,
         producer_stopped_and_killed, half_messages, commands_are_learned_again,
         a_forgotten_stream_begins_again, forgotten_with_all_its_producers,
         answered_commands_outlive_a_kill, configured_anew_after_a_kill, journal_turned_off,
         stopped_while_fed, stopped_while_learning_again, full_disk, broken_disk,
         full_queue, damaged_checkpoint, refusals_change_nothing, transaction_without_its_end, log_that_is_missing,
         files_taken_away, journal_taken_away, journal_taken_away_for_good,
         log_lost_with_the_power, journal_older_than_the_checkpoint, journal_moved_away,
         clock_that_jumps, examples_left_out]

if __name__ == "__main__":
    for case in CASES:
        begin = time.monotonic()
        skipped = case()
        name = case.__name__.replace("_", " ")
        print(f"{'skip' if skipped else 'ok  '} {name} ({time.monotonic() - begin:.1f} s)"
              f"{': ' + skipped if skipped else ''}", flush=True)
