#!/usr/bin/python3
"""docs/how-to: the commands of each page run as they are printed, in their order, on sockets of this test's own.

Stubs in PATH stand for programs that need root, systemd, the network or a mail server (STUBS): they only record their
arguments and their input, which the test checks. Addresses of brokers and web hooks are replaced by servers of the test."""
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
STUBS = ("mail", "sudo", "systemctl", "journalctl", "sudoedit", "runnel-fleet", "pip", "tensorboard", "nats")
SOCKETS = {5570: "examples", 5571: "statistics", 5572: "control"}
BINDS = " ".join(f"--set {name}.bind=ipc://$SOCKETS/{name}" for name in SOCKETS.values())
# Options that lead a program to the sockets of the test, unless the command names some of them itself.
OPTIONS = {"runneld": BINDS, "runnel-ctl": "--connect ipc://$SOCKETS/control", "runnel-feed": "", "runnel-plot": "",
           "runnel-alert": "--connect ipc://$SOCKETS/statistics --silence 3",
           "runnel-web": "--connect ipc://$SOCKETS/statistics --listen 127.0.0.1:0",
           **dict.fromkeys(("runnel-watch", "runnel-record", "runnel-relay", "runnel-top"),
                           "--connect ipc://$SOCKETS/statistics")}
# A source comes first, a recording goes without a daemon, and a check binds no sockets.
WRAPPER = """#!/bin/sh
SOCKETS={directory}
case "{name} $*" in
runnel-feed*) exec {real} "$@" --connect ipc://$SOCKETS/examples ;;
*--replay* | *--config=plain*) exec {real} "$@" ;;
*--recording*) exec {real} --listen 127.0.0.1:0 "$@" ;;
*) exec {real} {options} "$@" ;;
esac
"""
# It has the rest of its arguments before its input, so that a reader of the file has all of a call.
STUB = """#!/bin/sh
input=$([ -t 0 ] || cat)
printf '%s\\n' "$(printf '%s' "$input" | jq -sRc --arg name "$(basename "$0")" '{{name: $name, input: ., words: $ARGS.positional}}' \\
    --args -- "$@")" >>{directory}/calls
"""


def blocks(page, heading=None):
    """[(language, text)] of a page, or of the section below a heading."""
    text = (SOURCE / "docs" / page).read_text(encoding="utf-8")
    if heading:
        text = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)[1]
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
            self.program(name, WRAPPER.format(directory=directory, name=name, real=BUILD / name, options=options))
        for name in STUBS:
            self.program(name, STUB.format(directory=directory))
        self.environment = {**os.environ, "PATH": f"{directory}/bin:{os.environ['PATH']}:/usr/sbin", "TERM": "xterm",
                            "HOME": str(directory), "XDG_STATE_HOME": str(directory), "MPLCONFIGDIR": str(directory)}

    def program(self, name, text):
        path = self.directory / "bin" / name
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def open(self, text, **options):
        for name, mine in self.names.items():
            text = text.replace(name, mine)
        self.started.append(subprocess.Popen(["sh", "-c", text], cwd=self.directory, env=self.environment, text=True,
                                             start_new_session=True, **options))
        return self.started[-1]

    def run(self, text, status=0):
        """A command that ends; its standard output."""
        process = self.open(text, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=running.LIMIT)
        assert process.returncode == status, (text, process.returncode, out[-2000:], err[-2000:])
        return out

    def keep(self, text, printed=""):
        """A command that keeps running: it is there until the end, and prints what matches."""
        path = self.directory / f"printed-{len(self.started)}"
        with open(path, "wb") as file:
            process = self.open(text, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        brokers.until(lambda: re.search(printed, path.read_text(encoding="utf-8", errors="replace")), process)
        return path

    def screen(self, text, printed):
        """A command that keeps running on a terminal."""
        leader, follower = pty.openpty()
        process = self.open(text, stdin=follower, stdout=follower, stderr=follower)
        os.close(follower)
        shown = b""
        while printed not in shown:
            assert process.poll() is None, shown
            shown += os.read(leader, 65536)
        threading.Thread(target=self.drain, args=(leader,), daemon=True).start()

    @staticmethod
    def drain(leader):
        with contextlib.suppress(OSError):
            while os.read(leader, 65536):
                pass

    def examples(self):
        """The number of examples that the daemon has learned."""
        done = subprocess.run([self.directory / "bin/runnel-ctl", "--json", "status"], env=self.environment,
                              capture_output=True, text=True, check=False)
        return json.loads(done.stdout)["examples"] if done.returncode == 0 else 0

    def learned(self, count=1):
        brokers.until(lambda: self.examples() >= count)

    def learn(self, text, count=1):
        """Send a message, again until its reader is connected and the daemon has learned so many examples."""
        def learned():
            self.run(text)
            return self.examples() >= count
        brokers.until(learned)

    def calls(self, name):
        """[words] of each call of a stub."""
        path = self.directory / "calls"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [call for call in map(json.loads, lines) if call["name"] == name]

    def host(self):
        """A daemon that learns the load of this machine, which publishes forecasts."""
        self.keep("runneld --config conf/host.yaml")
        self.keep("runnel-feed host")
        self.learned()

    def interrupt(self, *processes):
        """Ctrl-C, which ends each of them well."""
        for process in processes or reversed(self.started):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                assert process.wait(running.LIMIT) in (0, 130, -signal.SIGINT), (process.args, process.returncode)

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
        cases.skip("needs runnel-web, which is built where there is libmicrohttpd-dev")


def address(path):
    """The address that runnel-web prints."""
    return re.search(r"http://(127\.0\.0\.1:\d+)", path.read_text(encoding="utf-8"))[1]


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=running.LIMIT) as reply:
        return reply.read().decode()


def test_watch(directory):
    need("jq")
    need_web()
    daemon, feed, top, frame, table, skill, ask, predictions, abnormal, web = commands_of(
        "watch", "runneld", "runnel-feed", "runnel-top", "COLUMNS=", "runnel-watch --count", "runnel-watch --columns",
        "runnel-ctl", "runnel-watch --topic prediction", "runnel-watch --topic anomaly", "runnel-web")
    with Machine(directory) as machine:
        machine.keep(daemon)
        machine.keep(feed)
        machine.learned(60)
        machine.screen(top, b"learning")
        machine.run(frame)
        assert "host" in (directory / "frame.txt").read_text(encoding="utf-8")
        assert "examples" in machine.run(table)
        assert all(name in machine.run(skill) for name in ("baseline", "skill"))
        assert '"rmse"' in machine.run(ask)
        assert "forecast" in machine.run(predictions)
        machine.keep(abnormal)
        assert "<html" in get("http://" + address(machine.keep(web, "http://")))
        machine.interrupt()


def commands_of(page, *beginnings):
    """The commands of a page, each of which begins so."""
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
        "record", "runnel-record\n", "sqlite3", "sudo apt-get", *["runnel-plot"] * 4, "runnel-web", *["runnel-record"] * 3,
        "tensorboard")
    *plots, web, csv, experts, board, show = rest
    with Machine(directory) as machine:
        machine.keep(record)
        machine.host()
        brokers.until(lambda: (directory / "runnel.db").exists() and subprocess.run(
            ["sqlite3", "-readonly", directory / "runnel.db", "SELECT 1 FROM predictions WHERE low IS NOT NULL LIMIT 1"],
            capture_output=True, check=False).stdout)
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
        assert "weight" in (directory / "experts.csv").read_text(encoding="utf-8").splitlines()[0]
        machine.run(board)
        assert list((directory / "board").glob("*/events.out.tfevents*"))
        machine.run(show)
        machine.interrupt()
        assert [call["words"] for call in machine.calls("tensorboard")] == [["--logdir", "board"]]
        assert [call["words"] for call in machine.calls("sudo")] == [shlex.split(install)[1:]]


class Hook(http.server.BaseHTTPRequestHandler):
    """A web hook: it keeps what is posted to each path."""
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
        "alerts", "runnel-alert\n", "runnel-alert -- sh -c 'mail", "umask", "runnel-alert -- sh -c 'jq", "umask",
        "runnel-alert --post", "sudo systemctl", "runnel-watch", "runnel-alert --replay")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{server.server_address[1]}"
    with Machine(directory, **{"https://hooks.slack.com/services/T0/B0/SECRET": f"{here}/slack",
                               "https://hooks.example/runnel": f"{here}/hook"}) as machine:
        machine.host()
        for text in slack_url, hook_url:
            machine.run(text)
        assert (directory / "slack.url").stat().st_mode & 0o077 == 0
        printed = machine.keep(alerts)
        for text in mail, slack, post:
            machine.keep(text)
        machine.run(service)
        assert machine.calls("sudo")[0]["words"] == ["systemctl", "enable", "--now", "runnel-alert"]
        machine.run(watch)
        assert len((directory / "yesterday.json").read_text(encoding="utf-8").splitlines()) == 100
        machine.run(replay)
        machine.run("runnel-ctl shutdown")
        brokers.until(lambda: "silence" in printed.read_text(encoding="utf-8") and machine.calls("mail") and
                      {"/slack", "/hook"} <= set(Hook.posted))
        call = machine.calls("mail")[0]
        alert = json.loads(call["input"])
        assert call["words"] == ["-s", f"{alert['state']}: {alert['text']}", "root"] and alert["daemon"] == "host", call
        assert list(Hook.posted["/slack"][0]) == ["text"] and "host: began: " in Hook.posted["/slack"][0]["text"]
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
        assert [call["words"] for call in machine.calls("pip")] == [["install", "./streams/python[pandas]"]]
    project = (SOURCE / "streams/python/pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r"^pandas = ", project, re.MULTILINE)
    programs = [text for language, text in blocks("how-to/notebook.md") if language == "python"]
    assert len(programs) == 3
    for text in programs:
        environment = os.environ | {"RUNNELD": str(BUILD / "runneld"), "PYTHONPATH": str(SOURCE / "streams/python"),
                                    "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True,
                              timeout=2 * running.LIMIT, check=False)
        assert done.returncode == 0 and done.stdout, (text, done.stderr)


def test_prometheus(directory):
    need("curl", "prometheus", "promtool", "openssl")
    need_web()
    web, curl, prometheus, query, check, token, remote = commands_of(
        "prometheus", "runnel-web", "curl", "prometheus", "promtool query", "promtool check", "umask", "runnel-web")
    rules, scrape = [text for language, text in blocks("how-to/prometheus.md") if language == "yaml"]
    metrics = (SOURCE / "docs/reference/metrics.md").read_text(encoding="utf-8")
    used = set(re.findall(r"runnel_\w+", rules))
    assert len(used) > 4 and all(f"`{name}" in metrics for name in used), used
    with brokers.hold_port() as holder, Machine(directory) as machine:
        machine.host()
        page = address(machine.keep(web, "http://"))
        first = machine.started[-1]
        machine.names |= {"127.0.0.1:5580": page, "127.0.0.1:9091": f"127.0.0.1:{holder.getsockname()[1]}",
                          "*:5580": "127.0.0.1:0", "conf/prometheus.yml": "prometheus.yml"}
        assert re.search(r"^runnel_examples_total\{.*\} \d", machine.run(curl), re.MULTILINE)
        config = (SOURCE / "conf/prometheus.yml").read_text(encoding="utf-8")
        (directory / "prometheus.yml").write_text(config.replace("127.0.0.1:5580", page).replace("scrape_interval: 10s", "scrape_interval: 1s"))
        machine.keep(prometheus)
        end = time.monotonic() + running.LIMIT
        while "=> 1 @" not in (found := subprocess.run(
                ["promtool", *shlex.split(query.replace("127.0.0.1:9091", machine.names["127.0.0.1:9091"]))[1:]],
                capture_output=True, text=True, check=False).stdout):
            assert time.monotonic() < end, found
            time.sleep(0.2)
        (directory / "runnel-rules.yml").write_text(rules)
        assert "6 rules found" in machine.run(check)
        machine.interrupt(first)
        machine.run(token)
        secret = (directory / "web.token").read_text(encoding="utf-8").strip()
        url = f"http://{address(machine.keep(remote, 'http://'))}/metrics"
        assert "runnel_forecast" in get(url, Authorization=f"Bearer {secret}")
        try:
            get(url)
            raise AssertionError("no token, and no refusal")
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
    page = (SOURCE / "docs/how-to/brokers.md").read_text(encoding="utf-8")
    message, = re.findall(r"`(\{\"sensor\".*?\}\})`", page, re.DOTALL)
    columns, = re.findall(r"`(model: \{input: \{columns.*?\}\})`", page, re.DOTALL)
    (directory / "broker").mkdir()
    with brokers.Mosquitto(directory / "broker") as broker, \
            Machine(directory, **{"mqtt://broker.example": broker.url, "mqtts://broker.example": broker.url,
                                  "-h broker.example": f"--unix {broker.path}"}) as machine:
        daemon = plant(machine)
        machine.keep(feed)
        feeder = machine.started[-1]
        machine.keep(relay)
        received = machine.keep(f"mosquitto_sub --unix {broker.path} -t 'forecast/#' -v")
        machine.learn(publish)
        brokers.until(lambda: machine.run(publish) == "" and received.read_text(encoding="utf-8").startswith("forecast/plant_a {"))
        machine.interrupt(feeder)
        machine.run(secret)
        assert (directory / "broker.secret").stat().st_mode & 0o077 == 0
        machine.keep(login)
        machine.learn(publish, machine.examples() + 1)
        machine.interrupt(machine.started[-2], daemon)
        config = blocks("how-to/brokers.md")[0][1]
        plain = "model: {input: {size: 2}}"
        assert plain in config
        plant(machine, config.replace(plain, " ".join(columns.split())).replace("name: plant", "name: device"))
        machine.keep(device)
        machine.learn(f"mosquitto_pub {machine.names['-h broker.example']} -t device/a -m '{' '.join(message.split())}'")
        machine.interrupt()


def test_redis(directory):
    brokers.need("redis")
    need("redis-cli")
    feed, add = commands("how-to/brokers.md", "Redis")
    relay = commands("how-to/brokers.md", "Write forecasts back")[1]
    own, = commands("how-to/brokers.md", "Without a feeder")
    (directory / "broker").mkdir()
    with brokers.Redis(directory / "broker") as broker, \
            Machine(directory, **{"redis://broker.example": broker.url, "-h broker.example": f"-s {broker.path}",
                                  "conf/redis.yaml": "redis.yaml"}) as machine:
        daemon = plant(machine)
        machine.keep(feed)
        feeder = machine.started[-1]
        machine.keep(relay)
        machine.learn(add)
        brokers.until(lambda: machine.run(add) and broker.ask("XLEN", "forecasts") > 0)
        machine.interrupt(feeder, daemon)

        config = (SOURCE / "conf/redis.yaml").read_text(encoding="utf-8")
        assert "redis://127.0.0.1:6379" in config
        (directory / "redis.yaml").write_text(config.replace("redis://127.0.0.1:6379", broker.url))
        machine.program("runneld", WRAPPER.format(directory=directory, name="runneld", real=BUILD / "runneld",
                                                  options=BINDS.replace("--set examples.bind=ipc://$SOCKETS/examples", "")))
        machine.keep(own)
        machine.learn(add)
        machine.interrupt()


def test_kafka(directory):
    brokers.need("kafka")
    if not os.path.exists(kafka.PROGRAM):
        cases.skip("needs tests/support/mock_kafka")
    feed, = commands("how-to/brokers.md", "Kafka")
    relay = commands("how-to/brokers.md", "Write forecasts back")[2]
    with kafka.Kafka() as cluster, Machine(directory, **{"broker.example:9092": cluster.servers}) as machine:
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
    with nats.Nats(directory / "broker") as broker, Machine(directory, **{"nats://broker.example": broker.url}) as machine:
        plant(machine)
        machine.run(make)
        assert [call["words"] for call in machine.calls("nats")] == [
            ["stream", "add", "SENSORS", "--subjects", "sensors.>", "--defaults"]]
        broker.stream("SENSORS", "sensors.>")
        machine.keep(feed)
        broker.publish([("sensors.hall-3", b"[21.5, 0.7]")])
        machine.learned()
        machine.interrupt()


def test_sections_of_brokers(directory):
    """The sections of the configuration that the page shows are valid, and each command is run by a case above."""
    assert len(commands("how-to/brokers.md")) == 15
    found = blocks("how-to/brokers.md")
    base = found[0][1].replace("examples: {socket: router}", "")
    sections = [text for language, text in found[2:] if language == "yaml"]
    assert len(sections) == 2
    for text in sections:
        (directory / "plain.yaml").write_text(base + text)
        done = subprocess.run([BUILD / "runneld", "--config", directory / "plain.yaml", "--check-config"], check=False,
                              capture_output=True, text=True, timeout=running.LIMIT)
        assert done.returncode == 0, done.stderr


# --- the service ---

def test_systemd(directory):
    need("jq")
    start, make, check, load, others, gpu, secret, fleet = commands_of(
        "systemd", *["sudo"] * 7, "for n")
    with Machine(directory) as machine:
        (directory / "fleet.yaml").write_text('name: worker-1\nstatistics: {bind: "tcp://127.0.0.1:5571"}\n'
                                              'control: {bind: "tcp://127.0.0.1:5581"}\n')
        for text in start, make, check, load, others, gpu, secret, fleet:
            machine.run(text)
        calls = machine.calls("sudo")
        text = "".join((start, make, check, load, others, gpu, secret)).replace(" && ", "\n")
        wanted = [shlex.split(line)[1:] for line in text.splitlines() if line.startswith("sudo ")]
        assert [call["words"] for call in calls[:len(wanted)]] == wanted
        files = {call["words"][1]: call["input"] for call in calls if call["words"][0] == "tee"}
        assert len(files) == 3 and files["/etc/runnel/worker-2.yaml"] == (
            'name: worker-2\nstatistics: {bind: "tcp://127.0.0.1:5572"}\ncontrol: {bind: "tcp://127.0.0.1:5582"}'), files
        assert calls[-1]["words"][:3] == ["systemctl", "enable", "--now"]
        assert machine.calls("runnel-fleet")[0]["words"] == ["--group", "plant"]
        assert len(machine.calls("systemctl")) == 2 and len(machine.calls("journalctl")) == 1
    for name in re.findall(r"/usr/share/runnel/(\S+\.\w+)", "".join((start, others, gpu))):
        assert (SOURCE / name).exists(), name
    # The check of a configuration, with files of this test: sudo, the user and the paths are the page's.
    words = shlex.split(check)
    assert words[:4] == ["sudo", "-u", "runnel", "runneld"]
    (directory / "state").mkdir()
    paths = {"/etc/runnel/host.yaml": SOURCE / "conf/host.yaml", "/var/lib/runnel/host": directory / "state"}
    assert set(paths) <= set(words)
    done = subprocess.run([BUILD / "runneld", *(paths.get(word, word) for word in words[4:])], capture_output=True,
                          text=True, timeout=running.LIMIT, check=False)
    assert done.returncode == 0, done.stderr


cases.run(globals())
