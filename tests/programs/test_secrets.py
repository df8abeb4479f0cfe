#!/usr/bin/python3
"""Passwords in arguments: programs do not print them, and remove them from their arguments, which
all users of the machine can read."""
import pathlib
import subprocess
import time

import cases
import running

SECRET = "hunter2hunter2"
CONFIG = 78


def tool(name):
    return running.PROGRAM.with_name(name)


def test_arguments(directory):
    """The program gets them, and the list of processes does not contain them."""
    for secret in f"redis://me:{SECRET}@host:1", f"redis://:{SECRET}@host", f"ssl.key.pem={SECRET}", \
            f"nats://{SECRET}@host:4222", f"user@host/sasl.password={SECRET}", f"http://host:1/?password={SECRET}", \
            f"publish.settings=[sasl.password={SECRET}]":
        process = subprocess.Popen([tool("runnel-feed"), "lines", "--print", "--stream", secret],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        hidden, end = secret.replace(SECRET, len(SECRET) * "*").rstrip("]"), time.monotonic() + running.LIMIT
        while hidden not in (arguments := pathlib.Path(f"/proc/{process.pid}/cmdline").read_text(encoding="utf-8")):
            assert process.poll() is None and time.monotonic() < end, arguments
            time.sleep(0.01)
        assert SECRET not in arguments, arguments
        assert secret.encode() in process.communicate(b"a line\n", timeout=running.LIMIT)[0]
        assert process.returncode == 0


def test_errors(directory):
    """Errors of invalid overrides, and of settings in a file."""
    path = directory / "config.yaml"
    path.write_text("name: secrets\nmodel: {input: {kind: real, size: 1}, layers: [{cell: gru, size: 1}],"
                    " output: {loss: squared, size: 1, target: next}}\n", encoding="utf-8")
    for words, override in (
            ("requires publish.kafka", f"publish.settings=[sasl.password={SECRET}]"),
            ("got a mapping", f"publish.settings={{sasl.password: {SECRET}}}"),
            ("contains a user", f"publish.redis=redis://u:{SECRET}@h:1"),
            ("contains a user", f'publish={{redis: "redis://u:{SECRET}@h"}}'),
            ("sasl.password is a secret;", f'publish={{kafka: "h:1", settings: ["sasl.password {SECRET}"]}}'),
            ("sasl.password is a secret;", f'publish={{kafka: "h:1", settings: ["sasl.password={SECRET}"]}}'),
            ("unknown key", f"publish.password={SECRET}"),
            ("examples.redis.stream", f"examples.redis.url=redis://:{SECRET}@h")):
        done = subprocess.run([running.PROGRAM, "--check", "--config", path, "--set", override],
                              capture_output=True, text=True, timeout=running.LIMIT, check=False)
        assert done.returncode == CONFIG and words in done.stderr and SECRET not in done.stderr, done
    for words in ["keygen", "a", f"redis://u:{SECRET}@h"], ["feed", f"nats://{SECRET}@h"]:
        fed = subprocess.run([tool(f"runnel-{words[0]}"), *words[1:]], capture_output=True, text=True,
                             timeout=running.LIMIT, check=False)
        assert "unexpected argument" in fed.stderr and SECRET not in fed.stderr, fed
    fed = subprocess.run([tool("runnel-feed"), "kafka", "t", "--setting", f"sasl.password {SECRET}"],
                         capture_output=True, text=True, timeout=running.LIMIT, check=False)
    assert fed.returncode and SECRET not in fed.stderr, fed


if __name__ == "__main__":
    cases.run(globals())
