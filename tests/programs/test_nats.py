#!/usr/bin/python3
"""runnel-feed nats learns each message once and in order, even after kills; other messages stop
nothing."""

import brokers
import cases
import running
from brokers import await_text, daemon, finish, journal
from feeding import BAD_DATA, LIMIT, OK, USAGE, run, start

brokers.need("nats")
import nats  # noqa: E402  pylint: disable=wrong-import-position

NO_PERMISSION = 77


def feeder(directory, server, *words):
    return start("nats", *words, "--url", server.url, "--connect", f"ipc://{directory}/examples")


def numbers(first, last):
    return [("s.a", b"%d %d" % (n, -n)) for n in range(first, last)]


def test_server_daemon_and_feeder_go_away(directory):
    """Nothing is lost, learned twice or out of order; each failure of the server is reported once,
    and so is its end."""
    part = 1500
    with nats.Nats(directory) as server, daemon(directory) as d:
        back = f"{server.url}: available again after "
        server.stream("S", "s.>")
        server.publish(numbers(0, 2 * part))
        server.kill()
        feed = feeder(directory, server, "S")
        output = await_text(feed, "; trying again until it answers")
        server.start()
        output += await_text(feed, back)
        running.wait_learned(d, part)
        server.kill()
        d.process.kill()
        d.process.wait()
        output += await_text(feed, "; trying again until it answers")
        d.start()
        server.start()
        output += await_text(feed, back)
        server.publish(numbers(2 * part, 4 * part))
        running.wait_learned(d, 3 * part)
        feed.kill()
        output += feed.communicate()[1].decode()
        assert output.count("trying again until") == 2 and output.count(back) == 2, output
        feed = feeder(directory, server, "S")
        running.wait_learned(d, 4 * part)
        brokers.until(lambda: server.acknowledged("S") == 4 * part)  # acknowledged while it runs
        server.publish(numbers(4 * part, 4 * part + 1))
        running.wait_learned(d, 4 * part + 1)
        status, err = finish(feed)
        assert status == OK and "0 rejected" in err, err
        assert server.acknowledged("S") == 4 * part + 1  # and at the end
        assert d.ask("status")["examples"] == 4 * part + 1 and d.end() == OK
    assert [int(x[0]) for _, x in journal(directory)] == list(range(4 * part + 1))


def test_nothing_is_acknowledged_before_it_is_safe(directory):
    """Daemon and feeder are away equally long: the next feeder gets the missing messages."""
    with nats.Nats(directory) as server, daemon(directory) as d:
        server.stream("S", "s.>")
        server.publish(numbers(0, 300))
        feed = feeder(directory, server, "S", "--rate", 100)
        running.wait_learned(d, 50)
        d.process.kill()
        d.process.wait()
        had = len(journal(directory))
        assert finish(feed)[0] in (OK, 75)  # 75: it has sent more
        assert server.acknowledged("S") <= had
        d.start()
        feed = feeder(directory, server, "S")
        running.wait_learned(d, 300)
        assert finish(feed)[0] == OK and d.end() == OK
    assert [int(x[0]) for _, x in journal(directory)] == list(range(300))


def test_a_stream_that_is_made_again(directory):
    """The numbers of a stream that is created again are new ones; the feeder waits for a missing
    stream."""
    with nats.Nats(directory) as server, daemon(directory) as d:
        feed = feeder(directory, server, "S")
        await_text(feed, "JetStream stream not found; trying again")
        server.stream("S", "s.>")
        server.publish(numbers(0, 3))
        running.wait_learned(d, 3)
        assert finish(feed)[0] == OK
        made = server.ask("STREAM.INFO.S")["created"][:19]
        while server.ask("STREAM.INFO.S")["created"][:19] == made:  # another second
            server.ask("STREAM.DELETE.S")
            server.stream("S", "s.>")
        server.publish(numbers(3, 5))
        feed = feeder(directory, server, "S", "--count", 2)
        _, err = feed.communicate(timeout=LIMIT)
        assert feed.returncode == OK and b"2 acknowledged (0 duplicates)" in err, err
        assert d.end() == OK
    assert [int(x[0]) for _, x in journal(directory)] == list(range(5))


def test_contents_of_messages(directory):
    """Numbers, lists and JSON lines; subjects name streams; other messages are counted and skipped,
    and with --strict left at the broker."""
    with nats.Nats(directory) as server, daemon(directory) as d:
        server.stream("S", "s.>")
        server.publish([("s.a", b"1 2"), ("s.b", b"[3, 4]"), ("s.a", b"nonsense"), ("s.b", b"[3, 4, 5]"),
                        ("s.a", b'{"x": [5, 6], "stream": "c"}'), ("s.d", b"7,8"), ("s.a", b"")])
        feed = feeder(directory, server, "S")
        running.wait_learned(d, 4)
        brokers.until(lambda: server.acknowledged("S") == 7)
        status, err = finish(feed)
        assert status == BAD_DATA and "x_size" in err and "message 3 of S" in err, err
        feed = feeder(directory, server, "S", "--consumer", "second", "--strict")
        _, err = feed.communicate(timeout=LIMIT)
        assert feed.returncode == BAD_DATA and b"message 3 of S" in err, err
        feed = feeder(directory, server, "S", "--consumer", "third", "--filter", "s.d", "--stream", "e",
                      "--count", 1)
        assert feed.wait(LIMIT) == OK
        feed = feeder(directory, server, "S", "--consumer", "fourth", "--from", 5, "--count", 1)
        assert feed.wait(LIMIT) == OK
        assert d.end() == OK
    assert journal(directory) == [("s.a", (1, 2)), ("s.b", (3, 4)), ("c", (5, 6)), ("s.d", (7, 8)),
                                  ("e", (7, 8))]


def test_json(directory):
    """A device's JSON without changes, with the fields of options."""
    with nats.Nats(directory) as server, brokers.named(directory) as d:
        server.stream("S", "s.>")
        server.publish([("s.a", text.encode()) for text in brokers.JSON_MESSAGES])
        brokers.check_json(directory, feeder(directory, server, "S", *brokers.JSON_WORDS), d)


def test_two_feeders_need_two_consumers(directory):
    with nats.Nats(directory) as server, daemon(directory) as d:
        server.stream("S", "s.>")
        server.publish(numbers(0, 1))
        first = feeder(directory, server, "S")
        running.wait_learned(d, 1)
        second = feeder(directory, server, "S")
        await_text(second, "another feeder uses the consumer runnel; trying again")
        first.kill()
        server.publish(numbers(1, 2))
        running.wait_learned(d, 2)
        assert finish(second)[0] == OK


def test_who_is_not_admitted(directory):
    password = directory / "password"
    password.write_text("right\n")
    with nats.Nats(directory, "authorization { user: u, password: right }") as server:
        server.login = {"user": "u", "pass": "right"}
        server.stream("S", "s.>")
        server.publish(numbers(7, 8))
        for words in [[], ["--user", "x", "--password-file", password]]:
            fed = run("nats", "S", "--print", "--url", server.url, *words)
            assert fed.status == NO_PERMISSION and "access denied" in fed.err, fed
        fed = run("nats", "S", "--print", "--url", server.url, "--count", 1, "--user", "u",
                  "--password-file", password)
        assert fed.status == OK and '"x":[7,-7]' in fed.out.replace(" ", ""), fed


def test_how_it_is_called(directory):
    for status, output, words in [(USAGE, "--url", ["--url", "http://x"]), (USAGE, "--repeat", ["--repeat", 2]),
                                (66, "cannot read", ["--credentials", directory / "none"])]:
        fed = run("nats", "S", "--print", *words)
        assert fed.status == status and output in fed.err, fed


cases.run(globals())
