#!/usr/bin/python3
"""Message brokers over TLS: checks of the certificate's issuer and name."""
import pathlib
import subprocess

import brokers
import cases
import nats
from brokers import await_text
from feeding import LIMIT, OK, start

openssl = brokers.program("openssl")


def certificates(directory):
    """An authority's certificate, and a certificate for localhost with its key, signed by it."""
    def run(*words):
        subprocess.run([openssl, *words], check=True, capture_output=True, cwd=directory, timeout=LIMIT)
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    run("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-days", "30", "-subj", "/CN=authority")
    run("req", *new, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (directory / "names").write_text("subjectAltName=DNS:localhost\n")
    run("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
        "-out", "server.pem", "-days", "30", "-extfile", "names")
    return directory / "ca.pem", directory / "server.pem", directory / "server.key"


class Mosquitto(brokers.Mosquitto):
    """Its port uses TLS, its socket in the directory does not."""

    def __init__(self, directory, certificate, key):
        super().__init__(directory, f"certfile {certificate}", f"keyfile {key}", port=True)


class Nats(nats.Nats):
    def __init__(self, directory, certificate, key):
        super().__init__(directory, f'tls {{ cert_file: "{certificate}", key_file: "{key}" }}')

    def talk(self, text, done):
        raise OSError

    def answers(self):
        log = pathlib.Path(self.directory, "broker.log")
        return log.exists() and "Server is ready" in log.read_text(errors="replace")


def test_mqtt(directory):
    brokers.need("mqtt")
    authority, certificate, key = certificates(directory)
    with Mosquitto(directory, certificate, key) as broker:
        broker.publish("s", ["1 2"], "-r")
        for host, good in [("localhost", ["--cafile", authority]), ("127.0.0.1", None), ("localhost", None)]:
            words = ["mqtt", "s", "--print", "--retained", "--count", 1, "--url", f"mqtts://{host}:{broker.port}"]
            if good:
                process = start(*words, *good)
                out, err = process.communicate(timeout=LIMIT)
                assert process.returncode == OK and b"[1,2]" in out.replace(b" ", b""), (out, err)
            else:  # another name; an issuer that the system does not trust
                process = start(*words, *(["--cafile", authority] if host != "localhost" else []))
                await_text(process, "trying again until it answers")
                process.kill()


def test_nats(directory):
    brokers.need("nats")
    authority, certificate, key = certificates(directory)
    with Nats(directory, certificate, key) as broker:
        for host, words, expected in [("localhost", ["--cafile", authority], "JetStream stream not found"),
                                  ("127.0.0.1", ["--cafile", authority], "trying again until it answers"),
                                  ("localhost", [], "trying again until it answers")]:
            process = start("nats", "S", "--print", "--url", f"tls://{host}:{broker.port}", *words)
            text = await_text(process, expected)
            assert ("stream not found" in text) == (expected != "trying again until it answers"), text
            process.kill()


cases.run(globals())
