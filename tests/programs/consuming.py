"""Common functions for tests of a daemon that reads a broker."""
import json
import struct

import brokers
import running

FNV_BEGIN, FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3


def fnv1a(text):
    value = FNV_BEGIN
    for byte in text.encode():
        value = (value ^ byte) * FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return value


def partition_of(key, count):
    """The rule of docs/reference/brokers.md: 64-bit FNV-1a of the key, modulo the number of
    partitions."""
    return fnv1a(key) % count


# Creates a stream again: KEYS[1], the ID of its first entry, and its fields.
MAKE_AGAIN = "redis.call('DEL', KEYS[1]) return redis.call('XADD', KEYS[1], unpack(ARGV))"


def config(directory, examples):
    text = brokers.CONFIG.format(d=directory, kind="pull")
    socket = f'{{bind: "ipc://{directory}/examples", socket: pull}}'
    assert socket in text
    return text.replace(socket, examples)


def json_daemon(directory, broker, more=""):
    """A daemon that reads brokers.JSON_MESSAGES."""
    text = config(directory, "{" + broker + ", json: {field: [t=data.temperature, load=load], key_field: sensor, "
                  "time_field: ts" + more + "}}")
    return running.Daemon(directory, brokers.with_names(text))


def ends(daemon, code, *words):
    """Checks that a daemon ends, its exit code, and words of its output."""
    with daemon as d:
        assert d.process.wait(running.LIMIT) == code, (d.process.returncode, d.text())
        output = d.text()
    for word in words:
        assert word in output, (word, output)


def plain(directory, learned):
    """The parameters of a daemon that gets the same examples in order over its socket."""
    directory.mkdir()
    with brokers.daemon(directory, "pull") as d, d.socket(running.zmq.PUSH, "examples") as socket:
        socket.setsockopt(running.zmq.SNDHWM, 0)
        for stream, x in learned:
            socket.send_multipart([stream.encode(), struct.pack(f"<{len(x)}f", *x)])
        running.wait_learned(d, len(learned))
        return d.export()


def skips(directory):
    """The skipped places in the journal, in order."""
    found = brokers.rows(directory, "SELECT command FROM entries WHERE kind > 1 ORDER BY position")
    return [json.loads(text)["place"] for text, in found if json.loads(text)["command"] == "skip"]


def consumer(daemon):
    return daemon.ask("status")["consumer"]


def wait_kept(daemon, count):
    """The status of a daemon that has learned `count` examples and has its whole journal on
    disk."""
    running.wait_learned(daemon, count)
    brokers.until(lambda: (s := daemon.ask("status")["journal"])["durable"] == s["position"])
    return daemon.ask("status")
