#!/usr/bin/python3
"""runnel-relay writes a daemon's predictions with their truths to a broker at least once, even
after a failure of the broker."""
import base64
import contextlib
import json
import os
import pathlib
import select
import struct
import subprocess
import sys
import time

import brokers
import cases
import consuming
import kafka
import nats
import publishing
import running
import zmq

from brokers import finish

RELAY = running.PROGRAM.with_name("runnel-relay")
OK, USAGE, NO_INPUT, TRY_AGAIN, NO_PERMISSION = 0, 64, 66, 75, 77
PRODUCE, TOO_LARGE, TOPIC_REFUSED = 0, 10, 29  # numbers of Kafka's protocol
CONFIG = brokers.CONFIG.replace('statistics"}}', 'statistics", predictions: true}}')


def daemon(directory, kind="pull"):
    return running.Daemon(directory, CONFIG.format(d=directory, kind=kind))


def relay(directory, *words):
    return subprocess.Popen([RELAY, "--connect", f"ipc://{directory}/statistics", *map(str, words)],
                            stderr=subprocess.PIPE, bufsize=0)


def send(socket, key, n):
    header = struct.pack("<BBHIQd", 1, 0, 0, 1, n, 1000.5 + n)
    socket.send_multipart([key, struct.pack("<2f", n, -n), b"", header])


class Stream:
    """The messages in Redis."""

    def __init__(self, broker):
        self.broker = broker

    def words(self):
        return ["--redis", self.broker.url]

    def messages(self):
        entries = self.broker.ask("XRANGE", "runnel:prediction", "-", "+")
        assert all(fields[0] == "message" for _, fields in entries)
        return [json.loads(fields[1]) for _, fields in entries]


class Topics:
    """The messages of an MQTT subscriber with a session at the broker."""

    def __init__(self, broker):
        self.broker = broker
        self.path = pathlib.Path(broker.directory, "received")
        with open(self.path, "wb") as received:
            self.process = subprocess.Popen(
                [brokers.program("mosquitto_sub"), "--unix", broker.path, "-q", "1", "-c", "-i",
                 "test", "-t", "runnel/brokers/+", "-t", "retained"], stdout=received)
        broker.publish("retained", ["{}"], "-r")
        brokers.until(lambda: self.lines() > 0, self.process)

    def words(self):
        return ["--mqtt", self.broker.url]

    def lines(self):
        return self.path.read_bytes().count(b"\n")

    def messages(self):
        text = self.path.read_text(encoding="utf-8")
        found = [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]
        return [message for message in found if message]


class Partitions:
    """The messages of a Kafka topic."""
    COUNT = 3

    def __init__(self, cluster, topic="runnel.prediction"):
        self.cluster, self.topic = cluster, topic
        cluster.ask(f"topic {topic} {self.COUNT}")

    def words(self):
        return ["--kafka", self.cluster.servers]

    def messages(self):
        found, where = [], {}
        for line in self.cluster.ask(f"dump {self.topic} {self.COUNT}"):
            partition, key, text = line.split(" ", 2)
            found.append(json.loads(text))
            assert found[-1]["stream"] == key and where.setdefault(key, partition) == partition, line
        return found


class Cluster(kafka.Kafka):
    """A cluster that becomes unreachable instead of being ended."""

    def __init__(self, _):
        super().__init__()

    def end(self):
        self.ask("down")

    def start(self):
        self.ask("up")


class Subjects:
    """JetStream's messages of a subject, with the headers against duplicates."""

    def __init__(self, broker):
        self.broker = broker
        broker.stream("P", "runnel.>")
        self.found, self.names = [], set()

    def words(self):
        return ["--nats", self.broker.url]

    def messages(self):
        last = self.broker.ask("STREAM.INFO.P")["state"]["last_seq"]
        for number in range(len(self.found) + 1, last + 1):
            message = self.broker.ask("STREAM.MSG.GET.P", {"seq": number})["message"]
            assert message["subject"] == "runnel.brokers.prediction"
            self.found.append(json.loads(base64.b64decode(message["data"])))
            self.names.add(base64.b64decode(message["hdrs"]))
        assert len(self.names) == last
        return self.found


BROKERS = [(name, server, reader) for name, server, reader in
           (("mqtt", brokers.Mosquitto, Topics), ("kafka", Cluster, Partitions),
            ("nats", nats.Nats, Subjects), ("redis", brokers.Redis, Stream)) if brokers.supports(name)]
if not BROKERS:
    print("this build supports no broker")
    sys.exit(77)


def warm_up(d, socket, reader, process):
    """Sends examples until the first prediction arrives: then the relay is subscribed and
    connected."""
    count, end = 0, time.monotonic() + running.LIMIT
    while not any(message["stream"] == "warm" for message in reader.messages()):
        send(socket, b"warm", count)
        count += 1
        d.alive()
        assert process.poll() is None and time.monotonic() < end
        socket.getsockopt(zmq.EVENTS)
        running.wait_learned(d, count)
    return count


@contextlib.contextmanager
def relayed(home, broker, reader_of, *words):
    """A daemon, a feeder, and the messages that have arrived at the broker so far."""
    with broker, daemon(home) as d, d.socket(zmq.PUSH, "examples") as socket:
        reader = reader_of(broker)
        process = relay(home, *reader.words(), *words)
        yield d, socket, reader, process, warm_up(d, socket, reader, process)


def test_predictions(directory):
    """Each prediction arrives with the time of its example and its truth, although the broker is
    stopped and started again."""
    count = 300
    for name, server, reader_of in BROKERS:
        home = directory / name
        home.mkdir()
        broker = server(home)
        with relayed(home, broker, reader_of) as (d, socket, reader, process, before):
            for part in (0, 1, 2):
                if part == 1:
                    broker.end()
                for n in range(part * count // 3, (part + 1) * count // 3):
                    send(socket, b"s", n)
                running.wait_learned(d, before + (part + 1) * count // 3)
                if part == 1:
                    brokers.await_text(process, "trying again until it answers")
                    broker.start()

            def of_stream():
                found = {}
                for message in reader.messages():
                    if message["stream"] == "s":
                        assert found.setdefault(message["example"], message) == message
                return found
            brokers.until(lambda: len(of_stream()) == count, process)
            found = of_stream()
            for n, number in enumerate(sorted(found)):
                message = found[number]
                assert message["data_time"] == 1000.5 + n and len(message["prediction"]) == 2
                if n:
                    assert message["scored"]["target"] == [n, -n], message
            status, err = finish(process)
            assert status == OK and "available again after" in err, (name, status, err)
            assert "0 dropped, 0 not written" in err, err


def test_columns_are_named(directory):
    """Each message has the names of the columns next to its lists."""
    name, server, reader_of = BROKERS[-1]
    config = CONFIG.replace("{{kind: real, size: 2}}", "{{columns: [{{name: load}}, {{name: oil}}]}}").replace(
        "size: 2, target: next", "target: next")
    with server(directory) as broker, running.Daemon(directory, config.format(d=directory, kind="pull")) as d, \
            d.socket(zmq.PUSH, "examples") as socket:
        reader = reader_of(broker)
        process = relay(directory, *reader.words())
        warm_up(d, socket, reader, process)
        assert all(message["target_names"] == ["load", "oil"] for message in reader.messages()), (name, reader.messages())
        assert finish(process)[0] == OK


def test_streams_that_are_no_topics(directory):
    """Stream names that are invalid in MQTT topics end nothing."""
    brokers.need("mqtt")
    with relayed(directory, brokers.Mosquitto(directory), Topics, "--topic", "runnel/brokers/{stream}") as (
            d, socket, reader, process, before):
        names = ["a\x01b", "\x9b2J", "c\uffff", "d/#", "e"]
        for name in names:
            send(socket, name.encode(), 1)
        running.wait_learned(d, before + len(names))
        brokers.until(lambda: set(names) <= {message["stream"] for message in reader.messages()}, process)
        assert finish(process)[0] == OK


def short(topic):
    """As Kafka requires: with the FNV-1a hash of the whole at the end."""
    return f"{topic[:249 - 17]}-{consuming.fnv1a(topic):016x}"


def test_streams_that_are_no_topics_of_kafka(directory):
    """At most 249 bytes, and neither "." nor ".."; two long names stay two topics."""
    brokers.need("kafka")
    long = [255 * "k", 254 * "k" + "j"]
    for mark, names in ("{stream}", {".": "_", "..": "__", **{name: short(name) for name in long}}), \
                       ("{stream}+{stream}+{stream}", {name: short("+".join(3 * [name])) for name in long}):
        home = directory / str(len(mark))
        home.mkdir()
        with kafka.Kafka() as cluster, daemon(home) as d, d.socket(zmq.PUSH, "examples") as socket:
            warm = Partitions(cluster, mark.replace("{stream}", "warm"))
            topics = {name: Partitions(cluster, topic) for name, topic in names.items()}
            process = relay(home, *warm.words(), "--topic", mark)
            before = warm_up(d, socket, warm, process)
            for name in names:
                send(socket, name.encode(), 1)
            running.wait_learned(d, before + len(names))
            for name, topic in topics.items():
                brokers.until(lambda at=topic: at.messages(), process)
                assert {message["stream"] for message in topic.messages()} == {name}
            status, err = finish(process)
            assert status == OK, (status, err)


def test_predictions_that_are_too_large(directory):
    """They are counted, reported once and skipped; all others arrive."""
    for name, server, reader_of in BROKERS:
        if name not in ("kafka", "nats"):
            continue
        home = directory / name
        home.mkdir()
        more = ["--setting", "message.max.bytes=1500"] if name == "kafka" else []
        broker = server(home) if name == "kafka" else nats.Nats(home, "max_payload: 1500")
        with relayed(home, broker, reader_of, *more) as (d, socket, reader, process, before):
            for stream in 255 * b"\x01", b"s", 255 * b"\x02", b"t":  # \u0001 in JSON
                send(socket, stream, 1)
            running.wait_learned(d, before + 4)
            brokers.until(lambda at=reader: {"s", "t"} <= {message["stream"] for message in at.messages()},
                          process)
            status, err = finish(process)
            assert status == TRY_AGAIN and "0 not written, 2 too large" in err, (name, status, err)
            assert err.count("rejects messages of") == 1, err


def test_a_batch_that_is_too_large(directory):
    """A batch that Kafka rejects as a whole is sent message by message."""
    brokers.need("kafka")
    cluster = kafka.Kafka()
    with relayed(directory, cluster, Partitions) as (d, socket, reader, process, before):
        cluster.ask(f"refuse {PRODUCE} {TOO_LARGE} 1")
        for n in range(100):
            send(socket, b"s", n)
        running.wait_learned(d, before + 100)

        def found():
            return {message["data_time"] for message in reader.messages() if message["stream"] == "s"}
        brokers.until(lambda: len(found()) == 100, process)
        status, err = finish(process)
        assert status == OK and "0 too large" in err, (status, err)


def test_ids_that_are_no_headers(directory):
    """The daemon's texts cannot add headers; without a run, messages have no ID."""
    brokers.need("nats")
    with nats.Nats(directory) as broker, publishing.Publisher(directory) as publisher:
        broker.stream("P", "runnel.>")
        process = relay(directory, "--nats", broker.url)
        publisher.wait_for("prediction", "status")
        for run in "a", "a\r\nNats-Rollup: all", "b":
            publisher.send("prediction", {"run": run, "stream": "s", "prediction": [1]})
        brokers.until(lambda: broker.ask("STREAM.INFO.P")["state"]["last_seq"] == 3, process)
        heads = [broker.ask("STREAM.MSG.GET.P", {"seq": number})["message"].get("hdrs") for number in (1, 2, 3)]
        assert finish(process)[0] == OK
        assert [head and base64.b64decode(head).split()[1:] for head in heads] == \
            [[b"Nats-Msg-Id:", b"a/prediction/1"], None, [b"Nats-Msg-Id:", b"b/prediction/3"]], heads


def test_buffer(directory):
    """While the broker is away, the newest messages are kept, and dropped ones are reported."""
    _, server, reader_of = BROKERS[-1]
    broker = server(directory)
    with relayed(directory, broker, reader_of, "--buffer", 10) as (d, socket, reader, process, before):
        broker.end()
        for n in range(600):
            send(socket, b"s", n)
        running.wait_learned(d, before + 600)
        brokers.await_text(process, "dropping the oldest", "trying again")
        broker.start()
        brokers.until(lambda: any(message["stream"] == "s" and message["data_time"] == 1599.5
                                  for message in reader.messages()), process)
        status, err = finish(process)
        assert status == TRY_AGAIN and "available again after" in err and "0 not written" in err, (status, err)


def test_the_section_publish(directory):
    """A daemon's configuration sets the destination of its predictions; paths are relative to it."""
    brokers.need("redis")
    (directory / "secret").write_text("right\n")
    with brokers.Redis(directory, "--requirepass", "right") as broker:
        section = (f"publish: {{redis: '{broker.url}', topic: 'of {{stream}}', messages: [prediction, event], "
                   "password_file: secret, keep: 5}\n")
        config = CONFIG.format(d=directory, kind="pull") + section
        with running.Daemon(directory, config) as d, d.socket(zmq.PUSH, "examples") as socket:
            process = subprocess.Popen([RELAY, "--config", d.path, "--publish", "prediction", "--count", "3"],
                                       stderr=subprocess.PIPE, bufsize=0)
            count, end = 0, time.monotonic() + running.LIMIT
            while process.poll() is None:
                assert time.monotonic() < end
                send(socket, b"a b", count)
                count += 1
                running.wait_learned(d, count)
            _, err = finish(process)
            assert process.returncode == OK and "wrote 3 messages" in err, err
            replies = broker.pipeline([("AUTH", "right"), ("XLEN", "of a_b"), ("KEYS", "*")])
            assert replies[1:] == [3, ["of a_b"]], replies


def test_sections_that_are_wrong(directory):
    """The daemon prints the place and the allowed values, as runnel-relay does; passwords are never
    printed."""
    base = CONFIG.format(d=directory, kind="pull")
    path = directory / "config.yaml"
    for daemons, relays, section in [
            ("publish.mqtt: the address contains a user", None, "{mqtt: 'mqtt://u:hidden@h'}"),
            ("publish.mqtt: the address contains a user", None, "{mqtt: 'mqtt://u:hid/hidden@h'}"),
            ("publish.settings: sasl.password is a secret;", None,
             "{kafka: h, settings: [acks=all, sasl.password=hidden]}"),
            ("publish.settings: sasl.oauthbearer.client.secret is a secret;", None,
             "{kafka: h, settings: [sasl.oauthbearer.client.secret=hidden]}"),
            ("publish.settings: ssl.key.pem is a secret;", None, "{kafka: h, settings: [ssl.key.pem=hidden]}"),
            ("got \"sasl.jaas.config=...\"", None,
             f"{{kafka: h, settings: [sasl.jaas.config=hidden{128 * 'x'}]}}"),
            ("publish.password_file: expected a path", "publish.password_file: expected one value, got a list",
             "{redis: 'redis://h', password_file: [a, b]}"),
            ("publish.password_file:", "publish.password_file: duplicate key",
             "{redis: 'redis://h', password_file: a, password_file: b}"),
            ("publish.redis: cannot be combined with publish.mqtt", "publish.redis: --redis: excludes --mqtt",
             "{mqtt: 'mqtt://h', redis: 'redis://h'}"),
            ("publish.nats: expected SCHEME://HOST:PORT", "got 'http://h'", "{nats: 'http://h'}"),
            ("publish.kafka: expected HOST:PORT,HOST:PORT, got \"http://h\"", None, "{kafka: 'http://h'}"),
            ("publish.topic: requires publish.mqtt", "missing broker", "{topic: a}"),
            ("publish.keep: requires publish.redis", None, "{mqtt: 'mqtt://h', keep: 3}"),
            ("publish.messages: unknown topic \"x\"", "publish.messages: --publish: expected one of",
             "{mqtt: 'mqtt://h', messages: [x]}"),
            ("publish.nonsense: unknown key", "publish.nonsense: unknown key", "{nonsense: 1}")]:
        path.write_text(f"{base}publish: {section}\n")
        done = subprocess.run([running.PROGRAM, "--config", path, "--check-config"], capture_output=True,
                              check=False, text=True)
        assert done.returncode == 78 and daemons in done.stderr and "hidden" not in done.stderr, done
        if relays and brokers.supports("nats"):
            done = subprocess.run([RELAY, "--config", path], capture_output=True, check=False, text=True)
            assert done.returncode in (USAGE, 78) and relays in done.stderr, done
    path.write_text(base.replace("predictions: true", "predictions: false") +
                    "publish: {mqtt: 'mqtt://h'}\n")
    done = subprocess.run([running.PROGRAM, "--config", path, "--check-config"], capture_output=True,
                          check=False, text=True)
    assert done.returncode == 78 and "require statistics.predictions: true" in done.stderr, done
    path.write_text(base + "publish: {mqtt: 'unix:///run/a@b'}\n")
    subprocess.run([running.PROGRAM, "--config", path, "--check-config"], check=True, capture_output=True)
    path.write_text(base)
    for status, output, name in [(78, "missing section publish", path), (66, "cannot open", "none")]:
        done = subprocess.run([RELAY, "--config", name], capture_output=True, check=False, text=True)
        assert done.returncode == status and output in done.stderr, done


def test_refused(directory):
    """Wrong credentials end it with an error; one broker is required."""
    for words in [], ["--redis", "redis://127.0.0.1", "--nats", "nats://127.0.0.1"], \
            ["--redis", "http://u:hidden@h"], ["--redis", "redis://u:1/hidden@h"]:
        done = subprocess.run([RELAY, *words], capture_output=True, check=False, timeout=running.LIMIT)
        assert done.returncode == USAGE and b"hidden" not in done.stderr, done
    if brokers.supports("kafka"):
        words = ["--kafka", "127.0.0.1:1", "--password-file", directory / "none"]
        done = subprocess.run([RELAY, *words], capture_output=True, check=False, timeout=running.LIMIT)
        assert done.returncode == NO_INPUT and b"cannot read " in done.stderr, done
    with daemon(directory):
        if brokers.supports("redis"):
            with brokers.Redis(directory, "--requirepass", "secret") as broker:
                process = relay(directory, "--redis", broker.url)
                _, err = process.communicate(timeout=running.LIMIT)
                assert process.returncode == NO_PERMISSION and b"access denied" in err, err
        if brokers.supports("nats"):
            with nats.Nats(directory, "authorization { user: u, password: right }") as broker:
                process = relay(directory, "--nats", broker.url, "--user", "x")
                _, err = process.communicate(timeout=running.LIMIT)
                assert process.returncode == NO_PERMISSION and b"access denied" in err, err


def test_another_broker_than_that_of_the_file(directory):
    """Another broker does not get the file's login, in any order of the options; the file's own
    broker does."""
    brokers.need("redis")
    (directory / "secret").write_text("right\n")
    with brokers.Redis(directory, "--requirepass", "right") as broker:
        path = directory / "config.yaml"
        file = "password_file: secret"
        for section, words, admitted in (f"redis: 'redis://127.0.0.1:1', {file}", [], False), \
                (file, [], False), (f"redis: '{broker.url}', {file}", [], True), \
                (f"redis: 'redis://127.0.0.1:1', {file}", ["--password-file", directory / "secret"], True):
            path.write_text(f"statistics: {{bind: 'ipc://{directory}/none'}}\n"
                            f"publish: {{{section}}}\n")
            process = subprocess.Popen([RELAY, "--config", path, *words, "--redis", broker.url],
                                       stderr=subprocess.PIPE, bufsize=0)
            if admitted:
                brokers.until(lambda: "cmd=auth" in broker.pipeline([("AUTH", "right"), ("CLIENT", "LIST")])[1],
                              process)
                assert finish(process)[0] == OK
            else:
                _, err = process.communicate(timeout=running.LIMIT)
                assert process.returncode == NO_PERMISSION and b"access denied" in err, err


def test_refused_by_kafka(directory):
    """Without write permission for a topic, the first message fails."""
    brokers.need("kafka")
    with kafka.Kafka() as cluster, daemon(directory) as d, d.socket(zmq.PUSH, "examples") as socket:
        cluster.ask("topic runnel.prediction 1")
        cluster.ask(f"refuse {PRODUCE} {TOPIC_REFUSED}")
        process, count = relay(directory, "--kafka", cluster.servers), 0
        end = time.monotonic() + running.LIMIT
        while process.poll() is None:
            assert time.monotonic() < end
            send(socket, b"s", count)
            count += 1
            d.alive()
            running.wait_learned(d, count)
        _, err = finish(process)
        assert process.returncode == NO_PERMISSION and "access denied" in err, err


def test_a_stream_that_is_made_later(directory):
    """Messages wait for a JetStream stream that takes them."""
    brokers.need("nats")
    with nats.Nats(directory) as broker, daemon(directory) as d, d.socket(zmq.PUSH, "examples") as socket:
        process = relay(directory, "--nats", broker.url, "--topic", "of.{stream}")
        output, count, end = b"", 0, time.monotonic() + running.LIMIT
        while b"of.a_b_c yet; trying again until it answers" not in output:
            assert process.poll() is None and time.monotonic() < end, output
            send(socket, b"a b.c", count)
            count += 1
            running.wait_learned(d, count)
            if select.select([process.stderr], [], [], 0.01)[0]:
                output += os.read(process.stderr.fileno(), 1 << 16)
        broker.stream("P", "of.*")
        brokers.until(lambda: broker.ask("STREAM.INFO.P")["state"]["messages"] > 0, process)
        assert finish(process)[0] == OK


if __name__ == "__main__":
    cases.run(globals())
