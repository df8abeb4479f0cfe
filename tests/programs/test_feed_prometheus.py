#!/usr/bin/python3
"""runnel-feed prometheus with a metrics server that stops, returns, denies access and sends invalid
answers, and with runnel-web."""
import math
import pathlib
import signal

import brokers
import cases
from answers import Answers, await_text
from feeding import *  # noqa: F403  pylint: disable=wildcard-import

brokers.need("curl")
NO_PERMISSION = 77


def x_of(receiver, wanted):
    """The first of the next examples whose x matches."""
    seen = []
    while not seen or not wanted(seen[-1]):
        frames = receiver.take()
        assert frames, seen[-9:]
        seen.append(list(decode(frames).x))
    return seen[-1]


def test_series_are_columns(directory):
    text = 'load 0.5\nrequests_total{code="200"} 10\nrequests_total{code="500"} 4\nbig 1e300\n'
    with Answers(text) as metrics, Receiver(directory) as receiver:
        metrics.start()
        process = start("prometheus", f"127.0.0.1:{metrics.port}", "--every", .02, "--series", "load",
                        "--rate-of", 'requests_total{code="500"}', "--series", "requests_total",
                        "--series", "big", "--series", "none", "--connect", receiver.bind().endpoint)
        example = decode(receiver.take())
        assert near_nan(example.x, [.5, math.nan, 14, math.nan, math.nan]), example.x
        assert example.key == "prometheus" and example.header.time > 1e9
        x_of(receiver, lambda x: x[1] == 0)
        metrics.text = text.replace("4", "5") + "none 1\n"
        assert x_of(receiver, lambda x: x[1] > 0 or x[4] == 1)[2] == 15
        metrics.text = text.replace("4", "2")  # the counter has restarted
        assert x_of(receiver, lambda x: x[1] > 0 and x[2] == 12)[0] == .5
        process.send_signal(signal.SIGINT)
        output = process.communicate()[1].decode()
        assert process.returncode == OK and set(metrics.asked) == {"/metrics"}
        assert 1 <= output.count("no number found for none; it is missing (NaN)") <= 2


def near_nan(found, expected):
    return np.array_equal(found, np.array(expected, "<f4"), equal_nan=True)


def test_a_server_that_stops_and_comes_back(directory):
    with Answers("a 1\n") as metrics, Receiver(directory) as receiver:
        process = start("prometheus", f"http://user:secret@127.0.0.1:{metrics.port}", "--every", .02,
                        "--series", "a", "--connect", receiver.bind().endpoint)
        name = f"http://127.0.0.1:{metrics.port}/metrics"
        output = await_text(process, "trying again until it answers")
        metrics.start()
        assert x_of(receiver, lambda x: True) == [1]
        output += await_text(process, f"{name}: available again after ")
        metrics.stop()
        output += await_text(process, "trying again until it answers")
        metrics.text = "a 2\n"
        metrics.start()
        assert x_of(receiver, lambda x: x != [1]) == [2]
        output += await_text(process, f"{name}: available again after ")
        metrics.status = 503
        output += await_text(process, f"{name}: the server answered 503; trying again")
        process.send_signal(signal.SIGTERM)
        output += process.communicate()[1].decode().splitlines()
        assert process.returncode == OK, output
        assert sum("trying again" in line for line in output) == 3
        assert sum("available again after" in line for line in output) == 2
        assert not any("secret" in line for line in output), output


def test_who_is_not_admitted(directory):
    token = directory / "token"
    token.write_text("abc\n")
    with Answers("a 1\n", wanted="Bearer abc").start() as metrics:
        arguments = ["prometheus", f"127.0.0.1:{metrics.port}", "--series", "a", "--count", 1, "--print"]
        fed = run(*arguments, "--token-file", token)
        assert fed.status == OK and '"x": [1]' in fed.out
        for wrong in [[], ["--token-file", write(directory / "wrong", "x")]]:
            fed = run(*arguments, *wrong)
            assert fed.status == NO_PERMISSION and "access denied" in fed.err
        assert run(*arguments, "--token-file", directory / "no").status == NO_INPUT
        metrics.wanted = "Basic dXNlcjpzZWNyZXQ="
        fed = run("prometheus", f"user:secret@127.0.0.1:{metrics.port}/m?a=b", *arguments[2:])
        assert fed.status == OK and metrics.asked[-1] == "/m?a=b"


def write(path, text):
    path.write_text(text)
    return path


def test_how_it_is_called(directory):
    for output, arguments in [("no series for x", []), ("expected a name", ["--series", "a{"]),
                            ("with optional labels", ["--rate-of", ""]),
                            ("--timeout", ["--series", "a", "--timeout", 0]),
                            ("--repeat", ["--series", "a", "--repeat", 2]),
                            ("per second, got 0", ["--series", "a", "--rate", 0])]:
        fed = run("prometheus", "http://127.0.0.1:1", "--print", *arguments)
        assert fed.status == USAGE and output in fed.err, fed
    fed = run("prometheus", "http://", "--print", "--series", "a")
    assert fed.status == USAGE and "expected a URL" in fed.err


def test_metrics_of_runnel_web(directory):
    """runnel-web's metrics of one daemon are fed to another."""
    if not pathlib.Path(PROGRAM).with_name("runnel-web").exists():
        return
    import web_testing
    daemon = web_testing.Daemon(directory)
    try:
        with web_testing.Web(directory, daemon.endpoint) as page:
            daemon.await_subscriber()
            daemon.status()
            daemon.learn(0.5, layers=1)
            page.until("api/daemons", lambda answer: answer["daemons"][0]["loss"])
            fed = run("prometheus", f"127.0.0.1:{page.port}", "--series", "runnel_loss_mean",
                      "--series", 'runnel_examples_total{daemon="waves"}', "--count", 1, "--print")
            assert fed.status == OK and '"x": [0.5, 10]' in fed.out, fed
    finally:
        daemon.close()


cases.run(globals())
