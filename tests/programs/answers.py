"""An HTTP server for tests of feeders that poll one."""
import gzip
import http.server
import socket
import threading


class Answers:
    """A server that answers with `text` and `status`. It keeps its port while it is stopped."""

    def __init__(self, text, status=200, wanted=None):
        self.text, self.status, self.wanted, self.asked = text, status, wanted, []
        self.location = None  # for a redirection
        self.holder = socket.socket()
        self.holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.holder.bind(("127.0.0.1", 0))
        self.port = self.holder.getsockname()[1]
        self.server = None

    def start(self):
        answers = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                answers.asked.append(self.path)
                admitted = answers.wanted in (None, self.headers.get("Authorization"))
                body = answers.text.encode()
                self.send_response(answers.status if admitted else 401)
                if "gzip" in self.headers.get("Accept-Encoding", ""):
                    body = gzip.compress(body)
                    self.send_header("Content-Encoding", "gzip")
                if answers.location:
                    self.send_header("Location", answers.location)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # a client that has gone

            def server_bind(self):
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                super().server_bind()

        self.server = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, args=(.01,), daemon=True).start()
        return self

    def stop(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
        self.server = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.holder.close()


def await_text(process, text):
    """Reads lines of stderr up to the first that contains the text, and returns them."""
    lines = []
    while not lines or text not in lines[-1]:
        lines.append(process.stderr.readline().decode())
        assert lines[-1], lines
    return lines
