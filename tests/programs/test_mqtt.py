#!/usr/bin/python3
"""runnel-feed mqtt learns each message at least once after any stop, and once while the feeder
runs; messages with their own numbers are learned once."""
import collections
import json
import signal
import subprocess

import brokers
import cases
import running
from brokers import daemon, finish, journal
from feeding import BAD_DATA, LIMIT, OK, start

brokers.need("mqtt")
NO_PERMISSION = 77


def feeder(directory, *words, url=None):
    return start("mqtt", *words, "--url", url or f"unix://{directory}/mqtt.socket",
                 "--connect", f"ipc://{directory}/examples", "-v")


def newest(directory):
    return [x for _, x in journal(directory)[-1:]]


def lines(numbers):
    return [f"{n} {-n}" for n in numbers]


def subscribe(directory, *topics):
    """A feeder's session begins with its first connection; earlier messages are lost."""
    with daemon(directory) as d:
        feed = feeder(directory, *topics)
        broker = feed.args[feed.args.index("--url") + 1].removeprefix("unix://")

        def publish(payload):
            return subprocess.run([brokers.program("mosquitto_pub"), "--unix", broker, "-q", "1", "-t",
                                   topics[0].replace("+", "first").replace("#", "first"), "-m", payload],
                                  check=True)

        brokers.until(lambda: publish("0 0") and d.ask("status")["examples"] > 0, feed)
        # Messages published before this one were learned with it.
        publish("0 1")
        brokers.until(lambda: newest(directory) == [(0, 1)], feed)
        examples = d.ask("status")["examples"]
        assert finish(feed)[0] == OK
    return examples


def arrives(broker, feed, d, *message):
    """A feeder's session begins with its first connection: publishes until one message is learned."""
    brokers.until(lambda: broker.publish("s", message[:1], *message[1:]) or d.ask("status")["examples"] > 0, feed)


def learned_numbers(directory):
    return collections.Counter(x[0] for _, x in journal(directory))


def test_daemon_killed(directory):
    """The daemon is killed while feeder and broker run: each message is learned once."""
    count = 2400
    with brokers.Mosquitto(directory) as broker:
        first = subscribe(directory, "s")
        broker.publish("s", lines(range(count)))
        with daemon(directory) as d:
            feed = feeder(directory, "s")
            for part in (1, 2, 3):
                running.wait_learned(d, first + part * count // 4)
                d.end(signal.SIGKILL)
                d.start()
            running.wait_learned(d, first + count)
            status, err = finish(feed)
            assert status == OK and "twice" not in err, (status, err)
    assert [x[0] for _, x in journal(directory)[first:]] == list(range(count))


def test_stops(directory):
    """The broker is stopped and the feeder is killed: nothing is lost."""
    count = 2400
    with brokers.Mosquitto(directory) as broker:
        first = subscribe(directory, "s")
        broker.publish("s", lines(range(count)))
        with daemon(directory) as d:
            feed = feeder(directory, "s")
            for part in (1, 2):
                running.wait_learned(d, first + part * count // 8)
                broker.end()
                broker.start()
                running.wait_learned(d, first + part * count // 8 + 50)
                feed.kill()
                feed.communicate()
                feed = feeder(directory, "s")
            brokers.until(lambda: len(learned_numbers(directory)) == count, feed)
            status, err = finish(feed)
            # The earlier feeders may have left nothing to do, so that it is ended while it starts.
            assert status in (OK, -signal.SIGTERM) or "no daemon answers" in err, (status, err)
    assert set(learned_numbers(directory)) == set(range(count))


def test_numbered(directory):
    """Messages with their own numbers are learned once, even if a feeder is killed."""
    count = 600
    def numbered(n):
        return json.dumps({"x": [n, -n], "producer": "77", "epoch": 1, "sequence": n})

    with brokers.Mosquitto(directory) as broker:
        first = subscribe(directory, "s")
        broker.publish("s", [numbered(n) for n in range(count)])
        with daemon(directory) as d:
            for part in (1, 2, 3):
                feed = feeder(directory, "s")
                running.wait_learned(d, first + part * count // 4)
                feed.kill()
                feed.communicate()
            feed = feeder(directory, "s")
            broker.publish("s", [numbered(count)])
            running.wait_learned(d, first + count + 1)
            status, err = finish(feed)
            assert status == OK, (status, err)
            assert [x[0] for _, x in journal(directory)[first:]] == list(range(count + 1))


def test_topics(directory):
    """A topic is a stream; retained messages are skipped by default; other messages are counted."""
    with brokers.Mosquitto(directory) as broker:
        broker.publish("plant/old", ["7 7"], "-r")
        first = subscribe(directory, "plant/+", "other")
        broker.publish("plant/a", ["1,2", "[3, 4]", "free"])
        broker.publish("other", ['{"x": [5, 6], "stream": "named"}'])
        with daemon(directory) as d:
            feed = feeder(directory, "plant/+", "other")
            running.wait_learned(d, first + 3)
            status, err = finish(feed)
            assert status == OK and "of plant/a is not an example" in err, (status, err)
            assert "1 bad line was skipped" in err, err
            assert sorted(journal(directory)[first:]) == [
                ("named", (5, 6)), ("plant/a", (1, 2)), ("plant/a", (3, 4))]
            feed = feeder(directory, "plant/+", "--retained", "--client-id", "another")
            running.wait_learned(d, first + 4)
            assert finish(feed)[0] == OK
            assert journal(directory)[-1] == ("plant/old", (7, 7))


def test_labels(directory):
    """A label has the number that its example got from the feeder, or had itself."""
    with brokers.Mosquitto(directory) as broker, brokers.later(directory) as d:
        feed = feeder(directory, "s")

        arrives(broker, feed, d, "0 0")
        broker.publish("s", [json.dumps(line) for line in (
            {"stream": "ours", "x": [1, 2]}, {"stream": "ours", "x": [3, 4]},
            {"stream": "ours", "label_of": 1, "y": [1, 2]},
            {"stream": "own", "sequence": 17, "x": [5, 6]},
            {"stream": "own", "label_of": 17, "y": [1, 2]})])
        brokers.until(lambda: sum(d.ask("status")["rejected_by"].values()) or
                      d.ask("status")["labels"]["taken"] == 2, feed)
        found = d.ask("status")
        assert found["labels"]["taken"] == 2 and not found["labels"]["refused"], found["labels"]
        status, err = finish(feed)
        assert status == OK, (status, err)


def test_json(directory):
    """A device's JSON without changes, with the fields of options."""
    with brokers.Mosquitto(directory) as broker, brokers.named(directory) as d:
        feed = feeder(directory, "s", *brokers.JSON_WORDS)

        arrives(broker, feed, d, brokers.JSON_PROBE)
        broker.publish("s", brokers.JSON_MESSAGES)
        brokers.check_json(directory, feed, d)


def test_daemon_away(directory):
    """A message is not acknowledged before the daemon has it."""
    with brokers.Mosquitto(directory) as broker:
        first = subscribe(directory, "s")
        with daemon(directory) as d:
            feed = feeder(directory, "s")
            broker.publish("s", lines(range(1, 5)))
            running.wait_learned(d, first + 4)
            d.end(signal.SIGKILL)
            broker.publish("s", lines(range(5, 15)))
            status, err = finish(feed)
            assert status in (OK, 75), (status, err)
            d.start()
            feed = feeder(directory, "s")
            broker.publish("s", lines([15]))
            brokers.until(lambda: set(learned_numbers(directory)) == set(range(16)), feed)
            assert finish(feed)[0] == OK


def test_strict(directory):
    with brokers.Mosquitto(directory) as broker:
        first = subscribe(directory, "s")
        broker.publish("s", ["1 1", "free", "2 2"])
        with daemon(directory) as d:
            feed = feeder(directory, "s", "--strict")
            _, err = feed.communicate(timeout=LIMIT)
            assert feed.returncode == BAD_DATA and b"is not an example" in err, err
            feed = feeder(directory, "s")
            # The first may have been acknowledged before it ended, or arrives once more.
            brokers.until(lambda: newest(directory) == [(2, 2)], feed)
            status, err = finish(feed)
            assert status == OK and "is not an example" in err, (status, err)
            learned = [x[0] for _, x in journal(directory)[first:]]
            assert learned in ([1, 2], [1, 1, 2]), learned


def test_permission(directory):
    """Wrong credentials end it with an error; a missing broker is reported once."""
    secret, wrong = directory / "secret", directory / "wrong"
    secret.write_text("open sesame\n", encoding="ascii")
    wrong.write_text("open barley\n", encoding="ascii")
    subprocess.run([brokers.program("mosquitto_passwd"), "-b", "-c", directory / "users", "ali",
                    "open sesame"], check=True)
    words = ("allow_anonymous false", f"password_file {directory}/users")
    with daemon(directory) as d, brokers.Mosquitto(directory, *words, port=True) as broker:
        for url in (broker.url, f"mqtt://127.0.0.1:{broker.port}"):
            for more in ((), ("--user", "ali", "--password-file", wrong)):
                feed = feeder(directory, "s", *more, url=url)
                _, err = feed.communicate(timeout=LIMIT)
                assert feed.returncode == NO_PERMISSION, (feed.returncode, err)
                assert b"access denied" in err and b"--password-file" in err, err
        broker.end()
        feed = feeder(directory, "s", "--user", "ali", "--password-file", secret,
                      url=f"mqtt://127.0.0.1:{broker.port}")
        output = brokers.await_text(feed, "trying again")
        assert f"127.0.0.1:{broker.port}" in output, output
        broker.start()
        arrives(broker, feed, d, "1 1", "-u", "ali", "-P", "open sesame")
        status, err = finish(feed)
        assert status == OK and "available again after" in err, (status, err)


if __name__ == "__main__":
    cases.run(globals())
