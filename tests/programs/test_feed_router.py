#!/usr/bin/python3
"""runnel-feed --socket router: everything is learned exactly once, whatever happens to either side.
"""
import contextlib
import json
import signal
import sqlite3
import struct
import time

import cases
from brokers import daemon
from feeding import *  # noqa: F403  pylint: disable=wildcard-import
import running

TRY_AGAIN = 75
WINDOW = 10000 # examples, see runnel-feed(1)


def to(directory):
    return ["--socket", "router", "--connect", f"ipc://{directory}/examples"]


def table(directory, count, streams=1, columns=("a", "b")):
    """Row n contains n, and belongs to stream n modulo `streams`."""
    path = directory / "table.csv"
    path.write_text(f"stream,{','.join(columns)}\n" + "".join(
        f"s{i % streams}{f',{i}' * len(columns)}\n" for i in range(count)), encoding="ascii")
    return ["csv", path, "--stream-column", "stream"]


def finish(process):
    _, err = process.communicate(timeout=LIMIT)
    return process.returncode, err.decode()


def journal(directory):
    """The examples in the order of learning: (stream, epoch, sequence, first number)."""
    file = sqlite3.connect(f"file:{directory}/state/journal.sqlite?mode=ro", uri=True)
    rows = file.execute("SELECT position, stream, epoch, sequence, x FROM entries WHERE kind = 1 "
                        "ORDER BY position").fetchall()
    file.close()
    assert [row[0] for row in rows] == list(range(1, len(rows) + 1))
    return [(row[1].decode(), row[2], row[3], struct.unpack("<f", row[4][:4])[0]) for row in rows]


def test_kills(directory):
    """The daemon is killed repeatedly while it is fed at full speed."""
    count, streams, parts = 60000, 3, 4
    with daemon(directory) as d:
        rows = table(directory, count, streams)[1].read_bytes().splitlines(keepends=True)
        process = start("csv", "-", "--stream-column", "stream", *to(directory), "--epoch", 5,
                        stdin=subprocess.PIPE, bufsize=-1)
        for part in range(parts):
            if part:  # many written examples are unacknowledged, even if this test is slow
                d.process.kill()
                d.process.wait()
                d.start()
            process.stdin.writelines(rows[part * len(rows) // parts:(part + 1) * len(rows) // parts])
            process.stdin.flush()
        process.stdin.close()
        process.stdin = None
        status, err = finish(process)
        assert status == OK and f"sent {count} examples" in err, (status, err)
        assert "will be sent again" in err and f"; {count} acknowledged" in err, err
        assert "), 0 rejected" in err, err
        learned = journal(directory)
    assert len(learned) == count
    for s in range(streams):
        assert [row[1:] for row in learned if row[0] == f"s{s}"] == [
            (5, n, n * streams + s) for n in range(count // streams)]


def test_starting_again(directory):
    """The same epoch and numbers: examples that the daemon has are duplicates, and it continues
    after them."""
    rows = table(directory, 500, 2)
    with daemon(directory):
        first = run(*rows, *to(directory), "--epoch", 7, "--count", 300)
        assert first.status == OK and "300 acknowledged (0 duplicates), 0 rejected" in first.err
        again = run(*rows, *to(directory), "--epoch", 7)
        assert again.status == OK and "500 acknowledged (300 duplicates), 0 rejected" in again.err
        assert [row[3] for row in journal(directory)] == list(range(500))
        grown = run(*rows, *to(directory), "--epoch", 8, "--count", 10)
        assert "10 acknowledged (0 duplicates)" in grown.err, grown.err


def test_another_socket(directory):
    """A control socket accepts DEALERs, too, but a feeder's messages are not requests."""
    with daemon(directory) as d:
        d.ask("status")
        rows = table(directory, 5)
        # The empty frame that ends an envelope may be the key, y, or missing.
        for words in (rows, [*rows, "--targets", "b"],
                      ["csv", rows[1], "--columns", "a,b", "--stream", ""]):
            fed = run(*words, "--socket", "router", "--connect", d.endpoint("control"))
            assert fed.status == UNAVAILABLE and "control socket" in fed.err, fed
            assert "examples.bind" in fed.err, fed


def test_interrupted(directory):
    """An interrupted call prints how to learn the rest."""
    with daemon(directory) as d:
        count = 5000  # they take longer than any pause of this test
        rows = table(directory, count)
        process = start(*rows, *to(directory), "--rate", 50)
        while d.ask("status")["examples"] < 5:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        status, err = finish(process)
        assert status == OK and "repeat the call with --producer" in err, (status, err)
        words = err[err.index("--producer"):].split()[:4]
        fed = run(*rows, *to(directory), *words)
        assert fed.status == OK and f"{count} acknowledged" in fed.err, fed
        assert [row[3] for row in journal(directory)] == list(range(count))


def test_json(directory):
    """Lines get numbers unless they have some; a rejection belongs to its line."""
    lines = b"""{"stream": "a", "x": [1, 1]}
{"stream": "a", "x": [2]}
{"x": [3, 3]}
{"stream": "a", "x": [4, 4], "epoch": 9, "sequence": 70}
{"stream": "a", "x": [5, 5], "epoch": 9}
"""
    with daemon(directory):
        fed = run("json", *to(directory), "--epoch", 8, stdin=lines)
        assert fed.status == BAD_DATA and "4 acknowledged (0 duplicates), 1 rejected" in fed.err, fed
        assert "x_size (stream a, number 1)" in fed.err, fed.err
        again = run("json", *to(directory), "--epoch", 8, stdin=lines)
        assert "4 acknowledged (4 duplicates), 1 rejected" in again.err, again.err
        named = run("json", *to(directory), "--epoch", 8, "--stream", "b", stdin=lines)
        assert "4 acknowledged (3 duplicates), 1 rejected" in named.err, named.err
        assert journal(directory) == [("a", 8, 0, 1), ("", 8, 0, 3), ("a", 9, 70, 4), ("a", 9, 71, 5),
                                      ("b", 8, 0, 3)]


def test_rejections(directory):
    """Rejections are counted and are an error at the end; the good examples between them are
    learned."""
    with daemon(directory):
        path = directory / "gaps.csv"
        path.write_text("a,b\n1,1\nnan,2\n3,3\n4,\n5,5\n", encoding="ascii")
        fed = run("csv", path, *to(directory))
        assert fed.status == BAD_DATA, fed
        assert "rejected an example: x_value (stream csv, number 1)" in fed.err, fed.err
        assert "sent 5 examples" in fed.err and "3 acknowledged (0 duplicates), 2 rejected" in fed.err
        assert "rejected 2 examples; the first: x_value" in fed.err, fed.err
        assert [row[3] for row in journal(directory)] == [1, 3, 5]


def test_notes_for_an_older_daemon(directory):
    """Its rejection names no example: the error names the option that leaves out notes."""
    with Router(directory) as router:
        process = start("lines", *to(directory), stdin=subprocess.PIPE)
        process.stdin.write(b"a line\n" * 20)
        process.stdin.close()
        process.stdin = None # communicate would write to it
        for _ in "schema", "example":
            assert router.socket.poll(1000 * LIMIT)
            peer = router.socket.recv_multipart()[0]
            router.socket.send_multipart([peer, b"", struct.pack("<BBHIQQ", 1, 2, 9, 0, 0, 0)])
        status, err = finish(process)
        assert status == 76 and "unidentified example" in err and "--no-notes" in err, (status, err)


def test_other_sockets(directory):
    """Sockets of different kinds: it ends with an error, since waiting would not help."""
    for kind, options, output in (("pull", ["--socket", "router"], "use --socket push, or set examples.socket: router"),
                                ("router", [], "use --socket router")):
        with daemon(directory, kind):
            fed = run(*table(directory, 3), "--connect", f"ipc://{directory}/examples", *options)
            assert fed.status == UNAVAILABLE and output in fed.err.splitlines()[-1], fed
            assert f"a {'PULL' if kind == 'pull' else 'ROUTER'} socket" in fed.err, fed


def test_lower_epoch(directory):
    """Examples that the daemon treats as outdated were not learned: that is an error."""
    rows = table(directory, 4, 2)
    with daemon(directory):
        assert run(*rows, *to(directory), "--epoch", 8).status == OK
        fed = run(*rows, *to(directory), "--epoch", 7, "--quiet")
        assert fed.status == BAD_DATA and "did not learn 4 examples" in fed.err, fed
        first = fed.err.splitlines()[0]
        assert "stream s0" in first and "epoch than 7" in first and "--epoch" in first, fed.err
        again = run(*rows, *to(directory), "--epoch", 8)
        assert again.status == OK and "(4 duplicates)" in again.err, again
        assert "greater" not in again.err, again
        # A file with its own epochs is sent again from its beginning.
        lines = b"".join(b'{"x": [1, 1], "sequence": 0, "epoch": %d}\n' % n for n in (1, 2))
        for duplicates in 0, 2:
            sent = run("json", *to(directory), stdin=lines)
            assert sent.status == OK and f"({duplicates} duplicates)" in sent.err, sent


class Router:
    """A daemon's socket with answers chosen by the test."""

    def __init__(self, directory):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.rcvhwm = self.socket.sndhwm = 0
        self.socket.bind(f"ipc://{directory}/examples")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.destroy(0)

    def take(self, count):
        """Receives so many messages: (peer, key, sequence)."""
        taken = []
        while len(taken) < count:
            assert self.socket.poll(1000 * LIMIT), (len(taken), count)
            peer, key, _, _, header = self.socket.recv_multipart()
            taken.append((peer, key, Header(*struct.unpack("<BBHIQd", header[:24]))))
        return taken

    def answer(self, taken):
        for peer, key, header in taken:
            self.socket.send_multipart(
                [peer, key, struct.pack("<BBHIQQ", 1, 0, 0, header.epoch, header.sequence, 1)])


def sequences(taken):
    return [header.sequence for _, _, header in taken]


def test_window(directory):
    """It waits while so many are unacknowledged, and continues with each acknowledgement."""
    with Router(directory) as router:
        process = start(*table(directory, WINDOW + 500), *to(directory))
        taken = router.take(WINDOW)
        assert not router.socket.poll(200)
        router.answer(taken[:100])
        taken = taken[100:] + router.take(100)
        assert not router.socket.poll(200) and process.poll() is None
        router.answer(taken)
        router.answer(router.take(400))
        status, err = finish(process)
        assert status == OK and f"{WINDOW + 500} acknowledged" in err, (status, err)


def test_sent_again(directory):
    """A new connection begins with the oldest unanswered example, in order, without the answered
    ones."""
    count = WINDOW + 1
    with Router(directory) as router:
        process = start(*table(directory, count), *to(directory))
        taken = router.take(WINDOW)
        assert sequences(taken) == list(range(WINDOW))
        router.answer([(taken[0][0], b"unknown", taken[0][2])]) # ignored
        router.answer([taken[n] for n in (5, 2, 0)])
        router.take(1) # it has read them: one more fits
    with Router(directory) as router:
        taken = router.take(count - 3)
        assert sequences(taken) == [1, 3, 4, *range(6, count)]
        router.answer(reversed(taken))
        status, err = finish(process)
        assert status == OK and f"{count} acknowledged" in err, (status, err)
        assert "will be sent again" in err, err


def test_silent_input(directory):
    """Unanswered examples are sent again even while no new line arrives."""
    with Router(directory) as router:
        process = start("json", *to(directory), stdin=subprocess.PIPE)
        process.stdin.write(b'{"x": [1, 2]}\n')
        process.stdin.flush()
        assert router.socket.poll(1000 * LIMIT)
    with Router(directory) as router:
        assert router.socket.poll(1000 * LIMIT)
        peer, line = router.socket.recv_multipart()
        numbers = {"x": [1, 2], **json.loads(line)}
        router.socket.send_multipart([peer, b"", struct.pack("<BBHIQQ", 1, 0, 0, numbers["epoch"],
                                                             numbers["sequence"], 1)])
        process.stdin.close()
        process.stdin = None
        status, err = finish(process)
        assert status == OK and "1 acknowledged" in err, (status, err)


def test_a_schema_that_nothing_is_refused_by(directory):
    """Without answers, a daemon's rejection cannot arrive: a warning is printed."""
    with daemon(directory, "pull"):
        fed = run(*table(directory, 3), "--schema", "--connect", f"ipc://{directory}/examples")
        assert fed.status == OK and "with --socket router, it rejects them" in fed.err, fed
    text = run("csv", "--help").out.partition("--schema")[2].partition("--no-learn")[0]
    assert "with --socket router" in " ".join(text.split()), text


def test_a_schema_that_does_not_fit(directory):
    """The rejection is reported whenever it arrives, even while the feeder waits for input."""
    words = b"x has two columns, but this model takes one"
    with Router(directory) as router:
        process = start("csv", "-", "--schema", *to(directory), stdin=subprocess.PIPE)
        process.stdin.write(b"a,b\n" + 1000 * b"1,2\n")
        process.stdin.flush()
        assert router.socket.poll(1000 * LIMIT)
        peer, text = router.socket.recv_multipart()
        assert b"schema" in text, text
        assert not router.socket.poll(500)  # no example before the answer
        router.socket.send_multipart([peer, b"", struct.pack("<BBHIQQ", 1, 2, 13, 0, 0, 0), words])
        time.sleep(1)  # time for the rejection
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"3,4\n")
        process.stdin.close()
        process.stdin = None
        status, err = finish(process)
        assert status == BAD_DATA and words.decode() in err and "sent" not in err, (status, err)


def test_signals(directory):
    """It waits for the answers. If some do not arrive, it prints their number and the solution."""
    with daemon(directory) as d:
        process = start("synth", "sine", "--size", 2, "--rate", 2000, "--epoch", 3, *to(directory))
        while d.ask("status")["examples"] < 1000:
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        status, err = finish(process)
        count = len(journal(directory))
        assert status == OK and f"sent {count} examples" in err, (status, err, count)
        assert f"{count} acknowledged (0 duplicates)" in err, err
        d.end()
    with Router(directory) as router:
        process = start("synth", "sine", "--size", 2, "--count", 20, "--epoch", 3, *to(directory))
        router.answer(router.take(20)[:5])
        process.send_signal(signal.SIGTERM)
        status, err = finish(process)
        assert status == TRY_AGAIN and "15 examples were not acknowledged" in err, (status, err)
        assert "--epoch 3" in err and "sent 20 examples" in err and "5 acknowledged" in err, err


def test_signal_without_a_daemon(directory):
    """It does not wait, and reports unacknowledged examples, if any."""
    process = start("synth", "sine", "--size", 2, *to(directory))
    while "waiting for" not in process.stderr.readline().decode():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    status, err = finish(process)
    assert status == UNAVAILABLE and "nothing was sent" in err, (status, err)
    with Router(directory) as router:
        process = start("synth", "sine", "--size", 2, "--count", 20, *to(directory))
        router.take(20)
    while "connection closed" not in process.stderr.readline().decode():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    status, err = finish(process)
    assert status == TRY_AGAIN and "20 examples were not acknowledged" in err, (status, err)


def test_answers_again(directory):
    """Answers that a router repeats, swaps or invents count once, and drop nothing."""
    with Router(directory) as router:
        process = start("synth", "sine", "--size", 2, "--count", 20, "--epoch", 3, *to(directory))
        taken = router.take(20)
        router.answer(list(reversed(taken[:10])) * 3)
        for peer, key, header in taken[1:10]:
            for status, name, sequence in (1, key, header.sequence), (2, key, header.sequence), (0, key, 10**6), \
                    (0, b"other", 15), (2, key, 10**6), (7, key, 15):
                router.socket.send_multipart([peer, name, struct.pack("<BBHIQQ", 1, status, 5, 3, sequence, 1)])
        router.answer(taken[10:19])
        time.sleep(.5)
        assert process.poll() is None, process.communicate()
        router.answer(taken[10:] * 2)
        status, err = finish(process)
        assert status == OK and "sent 20 examples" in err and "20 acknowledged (0 duplicates), 0 rejected" in err, \
            (status, err)


def test_linger(directory):
    with Router(directory):
        fed = run(*table(directory, 1), *to(directory), "--linger", 0.2)
        assert fed.status == TRY_AGAIN and "1 example was not acknowledged" in fed.err, fed


def test_keys(directory):
    """Encrypted, as with any other socket; an unknown client gets the reason."""
    keygen = pathlib.Path(PROGRAM).with_name("runnel-keygen")
    secret = directory / "daemon"
    subprocess.run([keygen, secret], check=True, capture_output=True, timeout=LIMIT)
    files = {p.suffix: p for p in directory.iterdir() if p.name.startswith("daemon")}
    with daemon(directory, more=f"security: {{secret: {files['.secret']}}}\n") as d:
        d.alive()
        good_one = run(*table(directory, 5), *to(directory), "--server-key", files[".public"])
        assert good_one.status == OK and "5 acknowledged" in good_one.err, good_one
        stranger = run(*table(directory, 5), *to(directory))
        assert stranger.status == UNAVAILABLE and "--server-key" in stranger.err, stranger


def test_usage(directory):
    for arguments, word in ((["--socket", "pub"], "push or router"),
                            (["--socket", "router", "--bind", "ipc:///tmp/x"], "--bind")):
        fed = run(*table(directory, 3), *arguments)
        assert fed.status == USAGE and word in fed.err, fed
    fed = run(*table(directory, 3), "--socket", "router", "--connect", "nowhere")
    assert fed.status == USAGE and "invalid endpoint" in fed.err, fed


cases.run(globals())
