#!/usr/bin/python3
"""runnel-feed redis learns each entry once, even after kills; other entries stop nothing."""
import json
import signal
import socket

import brokers
import cases
import running
from brokers import await_text, daemon, finish, journal
from feeding import BAD_DATA, LIMIT, OK, start

brokers.need("redis")
NO_PERMISSION = 77


def feeder(directory, *words, url=None):
    return start("redis", *words, "--url", url or f"unix://{directory}/redis.socket",
                 "--connect", f"ipc://{directory}/examples")


def fill(redis, stream, numbers):
    redis.pipeline([("XADD", stream, "*", "payload", f"{n} {-n}") for n in numbers])


def parameters(directory, count, name="plain"):
    """The parameters of an undisturbed daemon."""
    plain = directory / name
    plain.mkdir()
    with daemon(plain) as d:
        feed = start("json", "-", "--connect", f"ipc://{plain}/examples", "--socket", "router",
                     stdin=-1)
        feed.communicate("".join(json.dumps({"stream": "s", "x": [n, -n]}) + "\n"
                                 for n in range(count)).encode(), timeout=LIMIT)
        assert feed.returncode == OK
        running.wait_learned(d, count)
        return d.export()


def test_kills(directory):
    """Redis, the daemon and the feeder are killed: each entry is learned once, and acknowledged
    once it is safe."""
    count = 2400
    with brokers.Redis(directory) as redis, daemon(directory) as d:
        fill(redis, "s", range(count // 2))
        feed = feeder(directory, "s", "--batch", 100)
        try:
            for part in (1, 2, 3):
                running.wait_learned(d, part * count // 8)
                redis.kill()
                redis.start()
                running.wait_learned(d, part * count // 8 + 100)
                d.end(signal.SIGKILL)
                d.start()
                running.wait_learned(d, part * count // 8 + 200)
                feed.kill()
                feed.communicate()
                feed = feeder(directory, "s", "--batch", 100)
            fill(redis, "s", range(count // 2, count))
            running.wait_learned(d, count)
            brokers.until(lambda: redis.waiting("s") == 0, feed)
            status, err = finish(feed)
        finally:
            feed.kill()
            feed.communicate()
        assert status == OK, (status, err)
        end = d.ask("status")
        assert end["journal"]["missing"] == 0 and end["rejected"] == 0, end
        learned, blob = journal(directory), d.export()
    assert learned == [("s", (n, -n)) for n in range(count)]
    assert blob == parameters(directory, count)


def test_daemon_away(directory):
    """An entry is not acknowledged before the daemon has it."""
    with brokers.Redis(directory) as redis, daemon(directory) as d:
        feed = feeder(directory, "s")
        fill(redis, "s", range(10))
        brokers.until(lambda: redis.ask("XLEN", "s") and d.ask("status")["examples"] == 10, feed)
        brokers.until(lambda: redis.waiting("s") == 0, feed)
        d.end(signal.SIGKILL)
        fill(redis, "s", range(10, 20))
        brokers.until(lambda: redis.waiting("s") == 10, feed)
        status, err = finish(feed)
        assert status == 75 and "not acknowledged" in err and "--epoch" not in err, (status, err)
        assert redis.waiting("s") == 10
        d.start()
        feed = feeder(directory, "s")
        running.wait_learned(d, 20)
        brokers.until(lambda: redis.waiting("s") == 0, feed)
        assert finish(feed)[0] == OK
    assert [x[0] for _, x in journal(directory)] == list(range(20))


def test_away(directory):
    """A missing server is reported once, and so is its return."""
    with daemon(directory) as d, brokers.Redis(directory) as redis:
        redis.end()
        feed = feeder(directory, "s")
        output = await_text(feed, "trying again")
        assert "redis.socket" in output, output
        redis.start()
        fill(redis, "s", range(3))
        running.wait_learned(d, 3)
        status, err = finish(feed)
        assert status == OK and err.count("available again after") == 1 and "trying again" not in err, err


def test_a_closed_connection(directory):
    """A write to a connection that has just closed does not end it."""
    with daemon(directory), socket.socket(socket.AF_UNIX) as server:
        server.settimeout(LIMIT)
        server.bind(str(directory / "redis.socket"))
        server.listen()
        feed = feeder(directory, "s")
        link = server.accept()[0]
        with link:
            assert link.recv(100)  # it logs in, or asks whether it has to
            link.shutdown(socket.SHUT_RD)
            link.sendall(b"+PONG\r\n")
            await_text(feed, "trying again")
        feed.kill()


def test_permission(directory):
    """Wrong credentials end it with an error, also over TCP; the right ones are read from a file."""
    secret, wrong = directory / "secret", directory / "wrong"
    secret.write_text("open sesame\n", encoding="ascii")
    wrong.write_text("open barley\n", encoding="ascii")
    words = ("--requirepass", "open sesame")
    with daemon(directory) as d, brokers.Redis(directory, *words, port=True) as redis:
        for url in (redis.url, f"redis://127.0.0.1:{redis.port}"):
            for more in ((), ("--password-file", wrong), ("--user", "x", "--password-file", secret)):
                feed = feeder(directory, "s", *more, url=url)
                _, err = feed.communicate(timeout=LIMIT)
                assert feed.returncode == NO_PERMISSION, (feed.returncode, err)
                assert b"access denied" in err and b"--password-file" in err, err
        redis.pipeline([("AUTH", "open sesame"), ("XADD", "s", "*", "x", "[1, 2]")])
        feed = feeder(directory, "s", "--password-file", secret,
                      url=f"redis://127.0.0.1:{redis.port}")
        running.wait_learned(d, 1)
        assert finish(feed)[0] == OK


def test_payloads(directory):
    """Allowed and invalid contents of an entry."""
    good = [(("p", "1.5 -2"), (1.5, -2)), (("p", "1.5,-2e1"), (1.5, -20)), (("p", "[1, 2]"), (1, 2)),
            (("p", ' {"x": [3, 4], "stream": "other"}'), (3, 4)),
            (("p", f"0.5{'0' * 300} {'0' * 40}4.25"), (0.5, 4.25)),
            (("x", "[5, 6]", "learn", "false"), (5, 6)),
            (("x", "[7, 8]", "sequence", "1", "epoch", "9"), (7, 8))]
    bad = [("p", "free"), ("p", ""), ("p", "[1, 2"), ("p", "null"), ("p", "1 2 inf"), ("p", "1 2x"),
           ("p", '{"x": [1, 2], "stream": 7}'), ("p", b"\xff\xfe"), ("p", b"\0 \0"),
           ("p", b"1 2\0"), ("p", f"1 2.{'5' * 600}")]
    with daemon(directory) as d, brokers.Redis(directory) as redis:
        feed = feeder(directory, "s")
        redis.pipeline([("XADD", "s", "*", *words) for words in bad[:4]])
        redis.pipeline([("XADD", "s", "*", *words) for words, _ in good])
        redis.pipeline([("XADD", "s", "*", *words) for words in bad[4:]])
        redis.ask("XADD", "s", "*", "p", "1 2 3")  # the daemon rejects it
        running.wait_learned(d, len(good))
        brokers.until(lambda: redis.ask("XINFO", "GROUPS", "s")[0][7] ==
                      redis.ask("XINFO", "STREAM", "s")[7] and redis.waiting("s") == 0, feed)
        status, err = finish(feed)
        assert status == BAD_DATA and "rejected 1 example; the first: x_size" in err, err
        assert err.count("is not an example") == 1 and f"{len(bad)} bad lines were skipped" in err, err
        assert "of s is not an example: expected numbers or JSON" in err, err
    assert [x for _, x in journal(directory)] == [x for _, x in good]
    assert [key for key, _ in journal(directory)].count("other") == 1


def test_json(directory):
    """A device's JSON without changes, in one field of an entry or as its fields."""
    with brokers.Redis(directory) as redis, brokers.named(directory) as d:
        feed = feeder(directory, "s", *brokers.JSON_WORDS, "--field", "p")
        redis.pipeline([("XADD", "s", "*", "p", text) for text in brokers.JSON_MESSAGES])
        brokers.check_json(directory, feed, d)
        feed = feeder(directory, "u", "--field", "t=temperature", "--field", "load=load", "--key-field", "sensor")
        redis.ask("XADD", "u", "*", "sensor", "b", "temperature", "4", "load", "1", "site", "x")
        running.wait_learned(d, len(brokers.JSON_LEARNED) + 1)
        status, err = finish(feed)
        assert status == OK and "ignored field: site" in err, (status, err)
        stream, x = journal(directory)[-1]
        assert stream == "b" and x == (4, 1), (stream, x)
        feed = feeder(directory, "v")  # without options, the rejection names them
        redis.ask("XADD", "v", "*", "t", "4", "load", "1", "site", "x")
        output = await_text(feed, "rejected an example")
        finish(feed)
        assert "unknown column 'site'" in output and "--field COLUMN=PATH sends only" in output, output


def test_labels(directory):
    """A label has the number of its example's ID; epoch and producer are the broker's."""
    with brokers.later(directory) as d, brokers.Redis(directory) as redis:
        feed = feeder(directory, "s")
        for time, more in (1795385175500, []), (1795385175501, ["label_epoch", "418"]):
            redis.ask("XADD", "s", f"{time}-3", "x", "[1, 2]")
            redis.ask("XADD", "s", f"{time}-4", "label_of", str(time % 2 ** 32 * 2 ** 21 + 3),
                      "y", "[1, 2]", *more)
        running.wait_learned(d, 4)
        found = d.ask("status")["labels"]
        assert found["taken"] == 2 and not found["refused"], found
        status, err = finish(feed)
        assert status == OK, (status, err)


def test_strict(directory):
    """--strict ends at the first bad entry, which stays at the broker."""
    for bad, why in (("free", "is not an example"), ("1 2 3", "rejected an example: x_size")):
        home = directory / bad[0]
        home.mkdir()
        with daemon(home) as d, brokers.Redis(home) as redis:
            fill(redis, "s", range(5))
            feed = feeder(home, "s", "--strict")
            running.wait_learned(d, 5)
            brokers.until(lambda: redis.ask("XINFO", "GROUPS", "s") and redis.waiting("s") == 0, feed)
            redis.ask("XADD", "s", "*", "p", bad)
            fill(redis, "s", range(5, 8))
            _, err = feed.communicate(timeout=LIMIT)
            assert feed.returncode == BAD_DATA and why in err.decode(), err
            assert redis.waiting("s") > 0


def test_consumers(directory):
    """Two feeders share a group; one takes over the other's unacknowledged entries, and nothing is
    learned twice. A feeder waits for a name that is in use."""
    with daemon(directory) as d, brokers.Redis(directory) as redis:
        fill(redis, "s", range(20))
        fill(redis, "t", range(20, 30))
        redis.ask("XGROUP", "CREATE", "s", "runnel", "0")
        # A consumer that got five entries, and ended before it sent them.
        redis.ask("XREADGROUP", "GROUP", "runnel", "gone", "COUNT", "5", "STREAMS", "s", ">")
        feed = feeder(directory, "s", "t", "--take-over", 0)
        running.wait_learned(d, 30)
        brokers.until(lambda: redis.waiting("s") == redis.waiting("t") == 0, feed)
        twin = feeder(directory, "s", "t")
        await_text(twin, "another feeder reads as consumer runnel-feed")
        other = feeder(directory, "s", "t", "--consumer", "other")
        fill(redis, "s", range(30, 50))
        running.wait_learned(d, 50)
        for process in (twin, feed, other):
            finish(process)
        assert d.ask("status")["examples"] == 50
    found = journal(directory)
    assert sorted(x[0] for _, x in found) == list(range(50))
    assert [x[0] for key, x in found if key == "t"] == list(range(20, 30))


if __name__ == "__main__":
    cases.run(globals())
