#!/usr/bin/python3
"""runnel-feed http with a server that sends all forms of JSON, repeated answers, invalid ones, and
none."""
import json
import signal
import socket

import brokers
import cases
import running
from answers import Answers, await_text
from feeding import *  # noqa: F403  pylint: disable=wildcard-import

brokers.need("curl")
NO_PERMISSION = 77
FIELDS = ("--key-field", "sensor", "--time-field", "ts", "--field", "t=temperature")
BEGIN = 1700000000


def reading(second, sensor="a", **more):
    return {"sensor": sensor, "ts": 1000 * (BEGIN + second), "temperature": 20.5 + second, "site": "x"} | more


def example(second, sensor="a"):
    return {"stream": sensor, "time": BEGIN + second, "x": {"t": 20.5 + second}}


def ask(server, receiver, *words):
    return start("http", f"http://127.0.0.1:{server.port}/status", "--interval", .02, *words, "--connect",
                 receiver.endpoint)


def take(receiver, count=1):
    found = [receiver.take() for _ in range(count)]
    assert all(frames and len(frames) == 1 for frames in found), found
    return [json.loads(frames[0]) for frames in found]


def finish(process):
    process.send_signal(signal.SIGINT)
    output = process.communicate()[1].decode()
    assert process.returncode == OK, output
    return output


def test_forms(directory):
    """An object, a list and JSON lines; objects that were sent before are not sent again."""
    with Answers(json.dumps(reading(0))).start() as server, Receiver(directory).bind() as receiver:
        process = ask(server, receiver, *FIELDS)
        assert take(receiver) == [example(0)]
        asked = len(server.asked)
        brokers.until(lambda: len(server.asked) > asked + 3)
        server.text = json.dumps([reading(0), reading(1), reading(1, "b"), reading(2)])
        assert take(receiver, 3) == [example(1), example(1, "b"), example(2)]
        server.text = "\n".join(json.dumps(one) for one in (reading(2), {"ts": 1}, [1], reading(3))) + "\n"
        assert take(receiver) == [example(3)]
        server.text = "[]"
        asked = len(server.asked)
        brokers.until(lambda: len(server.asked) > asked + 3)
        server.text = json.dumps(reading(4))
        assert take(receiver) == [example(4)]
        output = finish(process)
        assert set(server.asked) == {"/status"} and output.count("ignored field: site (--field") == 1, output
        assert "message 2 of the answer is not an example: field 'sensor': stream name not found" in output, output
        assert "It is counted, and so are all others" in output, output


def test_without_times(directory):
    """Each answer is an example with the time of its arrival."""
    with Answers('{"load": 0.5, "host": "web-3"}').start() as server, Receiver(directory).bind() as receiver:
        process = ask(server, receiver, "--stream", "web")
        first, second = take(receiver, 2)
        finish(process)
    assert first["x"] == second["x"] == {"load": .5, "host": "web-3"} and first["stream"] == "web", first
    assert BEGIN < first["time"] < second["time"], (first, second)


def test_numbers(directory):
    """With a router, ignored answers leave no gap in the numbers."""
    with Answers(json.dumps([reading(n // 2) for n in range(6)])).start() as server, brokers.named(directory) as d:
        process = start("http", f"http://127.0.0.1:{server.port}", "--interval", .02, *FIELDS, "--field",
                        "load=temperature", "--socket", "router", "--connect",
                        f"ipc://{directory}/examples")
        running.wait_learned(d, 3)
        finish(process)
        status = d.ask("status")
        assert status["examples"] == 3 and status["journal"]["missing"] == 0, status
    assert brokers.journal(directory) == [("a", (20.5 + n, 20.5 + n)) for n in range(3)]


def test_failures(directory):
    """Each failure is reported once, with its reason, and retried."""
    with Answers(json.dumps(reading(0)), 503).start() as server, Receiver(directory).bind() as receiver:
        process = ask(server, receiver, *FIELDS)
        name = f"http://127.0.0.1:{server.port}/status: "
        await_text(process, name + "the server answered 503; trying again until it answers")
        server.status = 200
        assert take(receiver) == [example(0)]
        await_text(process, name + "available again after")
        server.text = "<html>"
        await_text(process, name + "the answer is not JSON (byte 1: ")
        server.text = json.dumps(reading(1)) + '{"sensor'
        asked = len(server.asked)
        brokers.until(lambda: len(server.asked) > asked + 1)
        server.text = json.dumps(reading(2))
        assert take(receiver) == [example(2)]  # nothing of the truncated answer
        await_text(process, name + "available again after")
        server.stop()
        await_text(process, "trying again until it answers")
        assert "trying again" not in finish(process)
    with socket.create_server(("127.0.0.1", 0)) as silent, Receiver(directory, "other").bind() as receiver:
        process = start("http", f"127.0.0.1:{silent.getsockname()[1]}", "--timeout", .1, "--connect", receiver.endpoint)
        await_text(process, "timed out")
        finish(process)


def test_how_it_is_called(directory):
    for output, arguments in [("--interval", ["--interval", 0]), ("--repeat", ["--repeat", 2]),
                            ("expected COLUMN=PATH", ["--field", "t"]), ("--token-file no:", ["--token-file", "no"])]:
        fed = run("http", "http://127.0.0.1:1", "--print", *arguments)
        assert fed.status in (USAGE, NO_INPUT) and output in fed.err, fed
    fed = run("http", "http://", "--print")
    assert fed.status == USAGE and "expected a URL such as http://127.0.0.1:9100/" in fed.err, fed
    for url in ("ftp://127.0.0.1/", "ftp.localhost", "file:///etc/hosts", "htp://127.0.0.1"):
        fed = run("http", url, "--print")
        assert fed.status == USAGE and f"expected a URL such as http://127.0.0.1:9100/, got '{url}'" in fed.err, fed
    with Answers("", 302).start() as server:
        server.location = "ftp://127.0.0.1:1/"
        fed = run("http", f"http://127.0.0.1:{server.port}", "--print")
        assert fed.status == UNAVAILABLE and "trying again" not in fed.err, fed
    token = directory / "token"
    for text in ("\nabc\n", "  \n", "a" * 4095, "a" * 5000 + "\n"):
        token.write_text(text)
        fed = run("http", "http://127.0.0.1:1", "--print", "--token-file", token)
        assert fed.status == USAGE and f"{token}: expected a token of 1 to 4094 bytes in the first" in fed.err, fed
    token.write_text("abc\n")
    with Answers(json.dumps(reading(0)), wanted="Bearer abc").start() as server:
        arguments = ["http", f"127.0.0.1:{server.port}", "--count", 1, "--print", *FIELDS]
        fed = run(*arguments, "--token-file", token)
        assert fed.status == OK and json.loads(fed.out) == example(0), fed
        assert run(*arguments).status == NO_PERMISSION
        fed = run(*arguments, "--token-file", token, "--strict")
        assert fed.status == BAD_DATA and "unknown field site: no --field names it (--strict)" in fed.err, fed


cases.run(globals())
