#!/usr/bin/python3
"""docs/how-to: runs the commands of each page as printed, in their order, on sockets of this test.

Stubs in PATH replace programs that need root, systemd, the network or a mail server (STUBS). They
record their arguments and their input. Servers of the test replace the addresses of brokers and web
hooks."""
import contextlib
import http.server
import importlib.util
import json
import os
import pathlib
import pty
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import brokers
import cases
import kafka
import nats
import running

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
STUBS = ("mail", "sudo", "systemctl", "journalctl", "sudoedit", "runnel-fleet", "pip",
         "tensorboard", "nats")
SOCKETS = {5570: "examples", 5571: "statistics", 5572: "control"}
BINDS = " ".join(f"--set {name}.bind=ipc://$SOCKETS/{name}" for name in SOCKETS.values())
STATISTICS = "--connect ipc://$SOCKETS/statistics"
# Options that connect a program to the sockets of the test.
OPTIONS = {"runneld": BINDS, "runnel-ctl": "--connect ipc://$SOCKETS/control", "runnel-feed": "",
           "runnel-plot": "", "runnel-alert": f"{STATISTICS} --silence 3",
           "runnel-web": f"{STATISTICS} --listen 127.0.0.1:0", "runnel-watch": STATISTICS,
           "runnel-record": STATISTICS, "runnel-relay": STATISTICS, "runnel-top": STATISTICS}
# The source of runnel-feed comes first; recordings need no daemon.
WRAPPER = """#!/bin/sh
SOCKETS={directory}
case "{name} $*" in
runnel-feed*) exec {real} "$@" --connect ipc://$SOCKETS/examples ;;
*--replay*) exec {real} "$@" ;;
*--recording*) exec {real} --listen 127.0.0.1:0 "$@" ;;
*) exec {real} {options} "$@" ;;
esac
"""
STUB = """#!/bin/sh
call=$([ -t 0 ] || cat)
call=$(printf '%s' "$call" | jq -sRc --arg name "$(basename "$0")" \\
    '{{name: $name, input: ., words: $ARGS.positional}}' --args -- "$@")
printf '%s\\n' "$call" >>{directory}/calls
"""


def read(path):
    return path.read_text(encoding="utf-8", errors="replace")


def output(*command):
    """The standard output of a command; empty if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=running.LIMIT,
                          check=False)
    return done.stdout if done.returncode == 0 else ""


def blocks(page, heading=None):
    """[(language, text)] of a page, or of the section below a heading."""
    text = read(SOURCE / "docs" / page)
    if heading:
        pattern = rf"^##+ {re.escape(heading)}\n(.*?)(?=^## |\Z)"
        text = re.search(pattern, text, re.MULTILINE | re.DOTALL)[1]
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands(page, heading=None):
    return [text for language, text in blocks(page, heading) if language == "sh"]


class Machine:
    """A directory in which commands run, with the programs of this build and stubs in PATH."""

    def __init__(self, directory, **names):
        self.directory, self.names, self.started = directory, names, []
        (directory / "conf").symlink_to(SOURCE / "conf")
        (directory / "bin").mkdir()
        for name, options in OPTIONS.items():
            self.wrap(name, options)
        for name in STUBS:
            self.program(name, STUB.format(directory=directory))
        path = f"{directory}/bin:{os.environ['PATH']}:/usr/sbin"
        homes = dict.fromkeys(("HOME", "XDG_STATE_HOME", "MPLCONFIGDIR"), str(directory))
        self.environment = {**os.environ, "PATH": path, "TERM": "xterm", **homes}

    def wrap(self, name, options):
        self.program(name, WRAPPER.format(directory=self.directory, name=name, real=BUILD / name,
                                          options=options))

    def program(self, name, text):
        path = self.directory / "bin" / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def open(self, text, **options):
        for name, mine in self.names.items():
            text = text.replace(name, mine)
        process = subprocess.Popen(["sh", "-c", text], cwd=self.directory, env=self.environment,
                                   text=True, start_new_session=True, **options)
        self.started.append(process)
        return process

    def run(self, text, status=0):
        """A command that ends; its standard output."""
        process = self.open(text, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=running.LIMIT)
        assert process.returncode == status, (text, process.returncode, out[-2000:], err[-2000:])
        return out

    def keep(self, text, printed=""):
        """Starts a command that keeps running until the end, and waits for output that matches."""
        path = self.directory / f"printed-{len(self.started)}"
        with open(path, "wb") as file:
            process = self.open(text, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        brokers.until(lambda: re.search(printed, read(path)), process)
        return path

    def screen(self, text, printed):
        """A command that keeps running on a terminal."""
        leader, follower = pty.openpty()
        process = self.open(text, stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        shown, end = b"", time.monotonic() + running.LIMIT
        while printed not in shown:
            assert process.poll() is None and time.monotonic() < end, shown
            shown += os.read(leader, 65536)
        threading.Thread(target=self.drain, args=(leader,), daemon=True).start()

    @staticmethod
    def drain(leader):
        with contextlib.suppress(OSError):
            while os.read(leader, 65536):
                pass

    def examples(self):
        """The number of examples that the daemon has learned."""
        status = output(self.directory / "bin/runnel-ctl", "--json", "status")
        return json.loads(status)["examples"] if status else 0

    def learned(self, count=1):
        brokers.until(lambda: self.examples() >= count)

    def learn(self, text, count=1):
        """Sends a message repeatedly until the daemon has learned `count` examples."""
        def learned():
            self.run(text)
            return self.examples() >= count
        brokers.until(learned)

    def calls(self, name):
        """[words] of each call of a stub."""
        path = self.directory / "calls"
        lines = read(path).splitlines() if path.exists() else []
        return [call for call in map(json.loads, lines) if call["name"] == name]

    def host(self):
        """A daemon that learns the load of this machine and publishes forecasts."""
        self.keep("runneld --config conf/host.yaml")
        self.keep("runnel-feed host")
        self.learned()

    def interrupt(self, *processes):
        """Sends Ctrl-C to each command and checks that it ends normally."""
        for process in processes or reversed(self.started):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                assert process.wait(running.LIMIT) in (0, 130, -signal.SIGINT), process.args

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def need(*names):
    for name in names:
        brokers.program(name)


def need_web():
    if not (BUILD / "runnel-web").exists():
        cases.skip("needs runnel-web, which requires libmicrohttpd-dev")


def address(path):
    """The address that runnel-web prints."""
    return re.search(r"http://(127\.0\.0\.1:\d+)", read(path))[1]


def get(url, **headers):
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=running.LIMIT) as reply:
        return reply.read().decode()


def test_watch(directory):
    need("jq")
    need_web()
    daemon, feed, top, frame, table, skill, ask, calibration, predictions, abnormal, web = commands_of(
        "watch", "runneld", "runnel-feed", "runnel-top", "COLUMNS=", "runnel-watch -t loss --count 3",
        "runnel-watch -t loss --count 3 --columns", "runnel-ctl", "runnel-ctl", "runnel-watch --topic prediction",
        "runnel-watch --topic anomaly", "runnel-web")
    with Machine(directory) as machine:
        machine.keep(daemon)
        machine.keep(feed)
        machine.learned(60)
        machine.screen(top, b"learning")
        machine.run(frame)
        assert "host" in read(directory / "frame.txt")
        assert "examples" in machine.run(table)
        assert all(name in machine.run(skill) for name in ("baseline", "skill"))
        assert '"rmse"' in machine.run(ask)
        assert any(word in machine.run(calibration) for word in ("calibrated", "too ", "shifted"))
        assert "forecast" in machine.run(predictions)
        machine.keep(abnormal)
        assert "<html" in get("http://" + address(machine.keep(web, "http://")))
        machine.interrupt()


def commands_of(page, *beginnings):
    """The commands of a page that begin with these words."""
    found = commands(f"how-to/{page}.md")
    assert len(found) == len(beginnings), (len(found), len(beginnings))
    for text, beginning in zip(found, beginnings):
        assert text.startswith(beginning), (text, beginning)
    return found


def test_record(directory):
    need("sqlite3", "jq")
    need_web()
    if not importlib.util.find_spec("matplotlib"):
        cases.skip("needs python3-matplotlib")
    record, query, install, *rest = commands_of(
        "record", "runnel-record\n", "sqlite3", "sudo apt-get", *["runnel-plot"] * 4, "runnel-web",
        *["runnel-record"] * 3, "tensorboard")
    *plots, web, csv, experts, board, show = rest
    with Machine(directory) as machine:
        machine.keep(record)
        machine.host()
        recorded = "SELECT 1 FROM predictions WHERE low IS NOT NULL LIMIT 1"
        brokers.until(lambda: output("sqlite3", "-readonly", directory / "runnel.db", recorded))
        assert machine.run(query).startswith("host|")
        for text in commands("reference/recordings.md"):
            machine.run(text)
        machine.run(install)
        for text in plots:
            machine.run(text)
        for name in "loss.png", "rmse.svg", "hidden.png", "prediction.png":
            assert (directory / name).stat().st_size > 1000, name
        assert '"host"' in get(f"http://{address(machine.keep(web, 'http://'))}/api/runs")
        assert len(machine.run(csv).splitlines()) == 11
        machine.run(experts)
        assert "weight" in read(directory / "experts.csv").splitlines()[0]
        machine.run(board)
        assert list((directory / "board").glob("*/events.out.tfevents*"))
        machine.run(show)
        machine.interrupt()
        assert [call["words"] for call in machine.calls("tensorboard")] == [["--logdir", "board"]]
        assert [call["words"] for call in machine.calls("sudo")] == [shlex.split(install)[1:]]


class Hook(http.server.BaseHTTPRequestHandler):
    """A web hook that stores the posts to each path."""
    posted = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posted.setdefault(self.path, []).append(json.loads(body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_alerts(directory):
    need("jq", "curl")
    alerts, mail, slack_url, slack, hook_url, post, service, watch, replay = commands_of(
        "alerts", "runnel-alert\n", "runnel-alert -- sh -c 'mail", "umask",
        "runnel-alert -- sh -c 'jq", "umask", "runnel-alert --post", "sudo systemctl",
        "runnel-watch", "runnel-alert --replay")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_address[1]}"
    names = {"https://hooks.slack.com/services/T0/B0/SECRET": f"{here}/slack",
             "https://hooks.example/runnel": f"{here}/hook"}
    with Machine(directory, **names) as machine:
        machine.host()
        for text in slack_url, hook_url:
            machine.run(text)
        assert (directory / "slack.url").stat().st_mode & 0o077 == 0
        printed = machine.keep(alerts)
        for text in mail, slack, post:
            machine.keep(text)
        machine.run(service)
        call, = machine.calls("sudo")
        assert call["words"] == ["systemctl", "enable", "--now", "runnel-alert"]
        machine.run(watch)
        assert len(read(directory / "yesterday.json").splitlines()) == 100
        machine.run(replay)
        machine.run("runnel-ctl shutdown")
        brokers.until(lambda: "silence" in read(printed) and machine.calls("mail") and
                      {"/slack", "/hook"} <= set(Hook.posted))
        call = machine.calls("mail")[0]
        alert = json.loads(call["input"])
        assert call["words"] == ["-s", f"{alert['state']}: {alert['text']}", "root"], call
        assert alert["daemon"] == "host"
        message = Hook.posted["/slack"][0]
        assert list(message) == ["text"] and message["text"].startswith("host: began: "), message
        page, = [text for language, text in blocks("how-to/alerts.md") if language == "json"]
        assert set(Hook.posted["/hook"][0]) == set(json.loads(page)) == set(alert)
        machine.interrupt()
    server.shutdown()


def test_alerts_as_a_service(_):
    unit, = [text for language, text in blocks("how-to/alerts.md") if language == "ini"]
    assert re.search(r"^ExecStart=runnel-alert --post @/", unit, re.MULTILINE), unit


def test_notebook(directory):
    if not importlib.util.find_spec("pandas"):
        cases.skip("needs python3-pandas")
    need("jq")
    with Machine(directory) as machine:
        for text in commands("how-to/notebook.md"):
            machine.run(text)
        call, = machine.calls("pip")
        assert call["words"] == ["install", "./streams/python[pandas]"]
    assert re.search(r"^pandas = ", read(SOURCE / "streams/python/pyproject.toml"), re.MULTILINE)
    programs = [text for language, text in blocks("how-to/notebook.md") if language == "python"]
    assert len(programs) == 3
    environment = os.environ | {"RUNNELD": str(BUILD / "runneld"), "PYTHONDONTWRITEBYTECODE": "1",
                                "PYTHONPATH": str(SOURCE / "streams/python")}
    for text in programs:
        done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True,
                              text=True, timeout=2 * running.LIMIT, check=False)
        assert done.returncode == 0 and done.stdout, (text, done.stderr)


def test_prometheus(directory):
    need("curl", "prometheus", "promtool", "openssl")
    need_web()
    web, curl, prometheus, query, check, token, remote = commands_of(
        "prometheus", "runnel-web", "curl", "prometheus", "promtool query", "promtool check",
        "umask", "runnel-web")
    rules, scrape = [text for kind, text in blocks("how-to/prometheus.md") if kind == "yaml"]
    metrics = read(SOURCE / "docs/reference/metrics.md")
    used = set(re.findall(r"runnel_\w+", rules))
    assert len(used) > 4 and all(re.search(rf"\b{name}\b", metrics) for name in used), used
    with brokers.hold_port() as holder, Machine(directory) as machine:
        machine.host()
        page = address(machine.keep(web, "http://"))
        first = machine.started[-1]
        server = f"127.0.0.1:{holder.getsockname()[1]}"
        machine.names |= {"127.0.0.1:5580": page, "127.0.0.1:9091": server, "*:5580": "127.0.0.1:0",
                          "conf/prometheus.yml": "prometheus.yml"}
        assert re.search(r"^runnel_examples_total\{.*\} \d", machine.run(curl), re.MULTILINE)
        config = read(SOURCE / "conf/prometheus.yml").replace("127.0.0.1:5580", page)
        (directory / "prometheus.yml").write_text(config.replace("interval: 10s", "interval: 1s"))
        machine.keep(prometheus)
        words = shlex.split(query.replace("127.0.0.1:9091", server))
        brokers.until(lambda: "=> 1 @" in output(*words))
        (directory / "runnel-rules.yml").write_text(rules)
        assert "6 rules found" in machine.run(check)
        machine.interrupt(first)
        machine.run(token)
        secret = read(directory / "web.token").strip()
        url = f"http://{address(machine.keep(remote, 'http://'))}/metrics"
        assert "runnel_forecast" in get(url, Authorization=f"Bearer {secret}")
        try:
            get(url)
            raise AssertionError("a request without a token was accepted")
        except urllib.error.HTTPError as error:
            assert error.code == 401, error
        (directory / "scrape.yml").write_text(scrape)
        machine.run("promtool check config scrape.yml")
        machine.interrupt()


# --- brokers ---

def plant(machine, text=None):
    """The daemon of the page, or one with other columns."""
    found = blocks("how-to/brokers.md")
    config, start = found[0][1], found[1][1]
    assert found[0][0] == "yaml" and start.startswith("runneld")
    (machine.directory / "plant.yaml").write_text(text or config)
    machine.keep(start)
    return machine.started[-1]


def test_mqtt(directory):
    brokers.need("mqtt")
    need("mosquitto_pub", "mosquitto_sub")
    feed, publish, device = commands("how-to/brokers.md", "MQTT")
    relay = commands("how-to/brokers.md", "Write forecasts back")[0]
    secret, login = commands("how-to/brokers.md", "Log in")
    page = read(SOURCE / "docs/how-to/brokers.md")
    message, = re.findall(r"`(\{\"sensor\".*?\}\})`", page, re.DOTALL)
    columns, = re.findall(r"`(model: \{input: \{columns.*?\}\})`", page, re.DOTALL)
    (directory / "broker").mkdir()
    with brokers.Mosquitto(directory / "broker") as broker, Machine(directory) as machine:
        here = f"--unix {broker.path}"
        machine.names = {"mqtt://broker.example": broker.url, "mqtts://broker.example": broker.url,
                         "-h broker.example": here}
        daemon = plant(machine)
        machine.keep(feed)
        feeder = machine.started[-1]
        machine.keep(relay)
        received = machine.keep(f"mosquitto_sub {here} -t 'forecast/#' -v")
        machine.learn(publish)
        brokers.until(lambda: not machine.run(publish) and
                      read(received).startswith("forecast/plant_a {"))
        machine.interrupt(feeder)
        machine.run(secret)
        assert (directory / "broker.secret").stat().st_mode & 0o077 == 0
        machine.keep(login)
        machine.learn(publish, machine.examples() + 1)
        machine.interrupt(machine.started[-2], daemon)
        config = blocks("how-to/brokers.md")[0][1]
        plain = "model: {input: {size: 2}}"
        assert plain in config
        config = config.replace(plain, " ".join(columns.split()))
        plant(machine, config.replace("name: plant", "name: device"))
        machine.keep(device)
        message = " ".join(message.split())
        machine.learn(f"mosquitto_pub {here} -t device/a -m '{message}'")
        machine.interrupt()


def test_redis(directory):
    brokers.need("redis")
    need("redis-cli")
    feed, add = commands("how-to/brokers.md", "Redis")
    relay = commands("how-to/brokers.md", "Write forecasts back")[1]
    own, = commands("how-to/brokers.md", "Without a feeder")
    (directory / "broker").mkdir()
    with brokers.Redis(directory / "broker") as broker, Machine(directory) as machine:
        machine.names = {"redis://broker.example": broker.url, "conf/redis.yaml": "redis.yaml",
                         "-h broker.example": f"-s {broker.path}"}
        daemon = plant(machine)
        machine.keep(feed)
        feeder = machine.started[-1]
        machine.keep(relay)
        machine.learn(add)
        brokers.until(lambda: machine.run(add) and broker.ask("XLEN", "forecasts") > 0)
        machine.interrupt(feeder, daemon)

        config, server = read(SOURCE / "conf/redis.yaml"), "redis://127.0.0.1:6379"
        assert server in config
        (directory / "redis.yaml").write_text(config.replace(server, broker.url))
        machine.wrap("runneld", BINDS.replace("--set examples.bind=ipc://$SOCKETS/examples", ""))
        machine.keep(own)
        machine.learn(add)
        machine.interrupt()


def test_kafka(directory):
    brokers.need("kafka")
    if not os.path.exists(kafka.PROGRAM):
        cases.skip("needs tests/support/mock_kafka")
    feed, = commands("how-to/brokers.md", "Kafka")
    relay = commands("how-to/brokers.md", "Write forecasts back")[2]
    with kafka.Kafka() as cluster, Machine(directory) as machine:
        machine.names = {"broker.example:9092": cluster.servers}
        cluster.ask("topic sensors 1")
        cluster.ask("topic forecasts 1")
        plant(machine)
        machine.keep(relay)
        machine.keep(feed)
        cluster.load("sensors", [(0, "hall-3", "[21.5,0.7]")])
        machine.learned()
        machine.interrupt()


def test_nats(directory):
    brokers.need("nats")
    need("jq", "nats-server")
    make, feed = commands("how-to/brokers.md", "NATS")
    (directory / "broker").mkdir()
    with nats.Nats(directory / "broker") as broker, Machine(directory) as machine:
        machine.names = {"nats://broker.example": broker.url}
        plant(machine)
        machine.run(make)
        call, = machine.calls("nats")
        assert call["words"] == shlex.split(make)[1:]
        broker.stream("SENSORS", "sensors.>")
        machine.keep(feed)
        broker.publish([("sensors.hall-3", b"[21.5, 0.7]")])
        machine.learned()
        machine.interrupt()


def test_sections_of_brokers(directory):
    """The sections of configurations are valid; the cases above run each command of the page."""
    assert len(commands("how-to/brokers.md")) == 15
    found = blocks("how-to/brokers.md")
    base = found[0][1].replace("examples: {socket: router}", "")
    sections = [text for language, text in found[2:] if language == "yaml"]
    assert len(sections) == 2
    for text in sections:
        (directory / "plain.yaml").write_text(base + text)
        subprocess.run([BUILD / "runneld", "--config", directory / "plain.yaml", "--check-config"],
                       check=True, timeout=running.LIMIT)


# --- the service ---

FLEET = 'name: worker-{n}\nstatistics: {{bind: "tcp://127.0.0.1:557{n}"}}\n' \
    'control: {{bind: "tcp://127.0.0.1:558{n}"}}'


def test_systemd(directory):
    need("jq")
    start, make, check, load, others, gpu, secret, fleet = commands_of(
        "systemd", *["sudo"] * 7, "for n")
    with Machine(directory) as machine:
        (directory / "fleet.yaml").write_text(FLEET.format(n=1))
        for text in start, make, check, load, others, gpu, secret, fleet:
            machine.run(text)
        calls = machine.calls("sudo")
        text = "".join((start, make, check, load, others, gpu, secret)).replace(" && ", "\n")
        wanted = [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("sudo ")]
        assert [call["words"] for call in calls[:len(wanted)]] == wanted
        files = {call["words"][1]: call["input"] for call in calls if call["words"][0] == "tee"}
        made = {f"/etc/runnel/worker-{n}.yaml": FLEET.format(n=n) for n in (1, 2, 3)}
        assert files == made, files
        assert calls[-1]["words"][:3] == ["systemctl", "enable", "--now"]
        assert machine.calls("runnel-fleet")[0]["words"] == ["--group", "plant"]
        assert len(machine.calls("systemctl")) == 2 and len(machine.calls("journalctl")) == 1
    for name in re.findall(r"/usr/share/runnel/(\S+\.\w+)", "".join((start, others, gpu))):
        assert (SOURCE / name).exists(), name
    # The check of a configuration runs with files of the test in place of the page's.
    words = shlex.split(check)
    assert words[:4] == ["sudo", "-u", "runnel", "runneld"]
    (directory / "state").mkdir()
    paths = {"/etc/runnel/host.yaml": SOURCE / "conf/host.yaml",
             "/var/lib/runnel/host": directory / "state"}
    assert set(paths) <= set(words)
    subprocess.run([BUILD / "runneld", *(paths.get(word, word) for word in words[4:])], check=True,
                   timeout=running.LIMIT)


cases.run(globals())
