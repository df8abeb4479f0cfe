"""A NATS server with JetStream for tests, on its own loopback port, with its own files."""
import json
import re
import socket

import brokers
import running


class Nats(brokers.Server):
    def __init__(self, directory, *more):
        self.login = {}
        super().__init__(directory, *more, port=True)

    @property
    def url(self):
        return f"nats://127.0.0.1:{self.port}"

    def command(self):
        path = self.directory / "nats.conf"
        path.write_text(f'listen: "127.0.0.1:{self.port}"\n'
                        f'jetstream {{ store_dir: "{self.directory}/jetstream" }}\n' + '\n'.join(self.words) + '\n')
        return [brokers.program("nats-server"), "--config", str(path)]

    def answers(self):
        try:
            return b"INFO" in self.talk(b"PING\r\n", lambda text: b"PONG" in text or b"-ERR" in text)
        except OSError:
            return False

    def talk(self, text, done):
        """Collects the server's output until done() is true."""
        with socket.create_connection(("127.0.0.1", self.port), running.LIMIT) as link:
            options = json.dumps({"verbose": False, "pedantic": False, **self.login})
            link.sendall(b"CONNECT " + options.encode() + b"\r\n" + text)
            output = b""
            while not done(output):
                more = link.recv(1 << 20)
                if not more:
                    raise OSError(output)
                output += more
        return output

    def ask(self, subject, request=None, missing=False):
        """The reply of JetStream's API; `missing`: None if it does not exist."""
        body = json.dumps(request).encode() if request else b""
        output = self.talk(b"SUB reply 1\r\nPUB %s reply %d\r\n%s\r\n" %
                         (f"$JS.API.{subject}".encode(), len(body), body),
                         lambda text: re.search(rb"MSG reply 1 .*\r\n.*\r\n", text))
        reply = json.loads(re.search(rb"MSG reply 1 .*\r\n(.*)\r\n", output)[1])
        if missing and reply.get("error", {}).get("code") == 404:
            return None
        assert "error" not in reply, reply
        return reply

    def stream(self, name, *subjects):
        self.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, "storage": "file"})

    def publish(self, pairs):
        """Publishes (subject, payload) in order; returns when all are in the stream."""
        pairs = list(pairs)
        for start in range(0, len(pairs), 1000):  # fits into a socket
            part = pairs[start:start + 1000]
            text = b"".join(b"PUB %s reply %d\r\n%s\r\n" % (subject.encode(), len(body), body)
                            for subject, body in part)
            self.talk(b"SUB reply 1\r\n" + text, lambda output, n=len(part): output.count(b'"seq"') >= n)

    def acknowledged(self, stream, name="runnel"):
        """The number up to which the consumer has acknowledged all messages; a feeder may be
        creating it again."""
        found = self.ask(f"CONSUMER.INFO.{stream}.{name}", missing=True)
        return found["ack_floor"]["stream_seq"] if found else 0
