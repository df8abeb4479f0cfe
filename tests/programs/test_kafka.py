#!/usr/bin/python3
"""runnel-feed kafka learns each message once, although cluster, daemon and feeder stop; other
messages stop nothing."""
import json

import brokers
import cases
import running
from brokers import await_text, daemon, finish, journal
from feeding import BAD_DATA, LIMIT, OK, USAGE, run, start

brokers.need("kafka")
import kafka  # noqa: E402  pylint: disable=wrong-import-position

NO_PERMISSION = 77
JOIN_GROUP, GROUP_REFUSED = 11, 30  # numbers of Kafka's protocol


def feeder(directory, cluster, *words):
    return start("kafka", *words, "--servers", cluster.servers, *kafka.QUICK,
                 "--connect", f"ipc://{directory}/examples")


def test_cluster_daemon_and_feeder_go_away(directory):
    """Each message is learned once, in the order of its partition: the cluster is away at the
    start, later it and the daemon stop, and the feeder is killed."""
    part = 1000
    with kafka.Kafka() as cluster, daemon(directory) as d:
        back = f"{cluster.servers}: available again after "
        cluster.ask("topic s 2")
        cluster.ask(f"fill s 0 0 {2 * part}")
        cluster.ask("down")
        feed = feeder(directory, cluster, "s")
        output = await_text(feed, "no server answers")
        cluster.ask("up")
        output += await_text(feed, back)
        running.wait_learned(d, part)
        cluster.ask("down")
        d.process.kill()
        d.process.wait()
        output += await_text(feed, "no server answers")
        d.start()
        cluster.ask("up")
        output += await_text(feed, back)
        cluster.ask(f"fill s 1 {2 * part} {3 * part}")
        running.wait_learned(d, 5 * part // 2)
        feed.kill()
        output += feed.communicate()[1].decode()
        assert output.count("trying again") >= 2 and output.count(back) >= 2, output
        cluster.ask(f"fill s 0 {3 * part} {4 * part}")
        feed = feeder(directory, cluster, "s")
        running.wait_learned(d, 4 * part)
        status, err = finish(feed)
        assert status == OK and "0 rejected" in err, err
        cluster.ask(f"fill s 0 {4 * part} {4 * part + 1}")
        feed = feeder(directory, cluster, "s", "--count", 1)  # from the group's offset
        _, err = feed.communicate(timeout=LIMIT)
        assert feed.returncode == OK and b"1 acknowledged (0 duplicates)" in err, err
        assert running.wait_learned(d, 4 * part + 1)["examples"] == 4 * part + 1
        assert d.end() == OK
    numbers = [int(x[0]) for _, x in journal(directory)]
    assert sorted(numbers) == list(range(4 * part + 1))
    second = range(2 * part, 3 * part)
    assert [n for n in numbers if n in second] == list(second)
    assert [n for n in numbers if n not in second] == [n for n in range(4 * part + 1)
                                                       if n not in second]


def test_contents_of_messages(directory):
    """Numbers, lists and JSON lines; keys name streams; other messages are counted and skipped."""
    with kafka.Kafka() as cluster, daemon(directory) as d:
        cluster.ask("topic s 1")
        for key, value in [("a", "1 2"), ("b", "[3, 4]"), ("a", "nonsense"), ("b", "[3, 4, 5]"),
                           ("a", json.dumps({"x": [5, 6], "stream": "c"})), ("größe", "7,8")]:
            cluster.ask(f"put s 0 {key} {value}")
        strict = feeder(directory, cluster, "s", "--by-key", "--group", "strict", "--strict")
        feed = feeder(directory, cluster, "s", "--by-key")
        running.wait_learned(d, 4)
        status, err = finish(feed)
        assert status == BAD_DATA and "x_size" in err and "offset 2 of s[0]" in err, err
        _, err = strict.communicate(timeout=LIMIT)
        assert strict.returncode == BAD_DATA and b"offset 2 of s[0]" in err, err
        assert d.end() == OK
    assert journal(directory)[:4] == [("a", (1, 2)), ("b", (3, 4)), ("c", (5, 6)), ("größe", (7, 8))]


def test_json(directory):
    """A device's JSON without changes, with the fields of options."""
    with kafka.Kafka() as cluster, brokers.named(directory) as d:
        cluster.ask("topic s 1")
        for text in brokers.JSON_MESSAGES:
            cluster.ask(f"put s 0 - {text}")
        brokers.check_json(directory, feeder(directory, cluster, "s", *brokers.JSON_WORDS), d)


def test_who_is_not_admitted():
    with kafka.Kafka() as cluster:
        cluster.ask("topic s 1")
        cluster.ask(f"refuse {JOIN_GROUP} {GROUP_REFUSED}")
        fed = run("kafka", "s", "--servers", cluster.servers, "--print", *kafka.QUICK)
        assert fed.status == NO_PERMISSION and "access denied to the group runnel" in fed.err, fed


def test_how_it_is_called(directory):
    for output, words in [("--setting: expected NAME=VALUE, got 'x'", ["--setting", "x"]),
                        ("setting no.such", ["--setting", "no.such=1"]),
                        ("auto.offset.reset", ["--from", "somewhere"]), ("--repeat", ["--repeat", 2])]:
        fed = run("kafka", "s", "--print", *words)
        assert fed.status == USAGE and output in fed.err, fed
    fed = run("kafka", "s", "--print", "--user", "u", "--password-file", directory / "none")
    assert fed.status == 66 and "cannot read " in fed.err, fed
    fed = run("kafka", "s", "--print", "--user", "u")
    assert fed.status == USAGE and "--user: missing password: set --password-file to a file" in fed.err, fed


cases.run(globals())
