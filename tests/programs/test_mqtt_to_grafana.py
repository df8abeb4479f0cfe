#!/usr/bin/python3
"""docs/tutorials/mqtt-to-grafana.md: each command of the page runs as it stands there, one after the other, on sockets of
this test's own, and prints what the page shows, up to its numbers; the dashboard's chart then has its data."""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import brokers
import cases
import running

SOURCE = pathlib.Path(os.environ.get("srcdir", "."))
BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
PAGE = (SOURCE / "docs/tutorials/mqtt-to-grafana.md").read_text(encoding="utf-8")
WEB, PROMETHEUS, STATISTICS = "127.0.0.1:5580", "127.0.0.1:9091", "tcp://127.0.0.1:5571"  # of the page
INSTALLS = "sudo apt-get install "


def blocks():
    """(language, text, the output that follows or None)"""
    found = re.findall(r"^```(\w*)\n(.*?)^```$\n*(?:^```\n(.*?)^```$)?", PAGE, re.MULTILINE | re.DOTALL)
    return [(language, text, output or None) for language, text, output in found if language]


def pattern(output):
    """Any other numbers, and columns that are wider, are the same output."""
    words = [re.sub(r"\d+(\\\.\d+)?", r"[-+.e\\d]+", re.escape(word)) for word in output.split()]
    return r"\s+".join(words)


class Terminals:
    """The page's programs, which find sockets of this test's own."""

    def __init__(self, directory, broker, port):
        self.directory, self.names, self.started = directory, {PROMETHEUS: f"127.0.0.1:{port}"}, []
        sets = [f"--set {name}.bind=ipc://{directory}/{name}" for name in ("examples", "statistics", "control")]
        statistics = f"--connect ipc://{directory}/statistics"
        broker_options = f"--unix {broker.path}"
        (directory / "bin").mkdir()
        for name, more in (("runneld", " ".join(sets)), ("runnel-feed", f"--url {broker.url} --connect ipc://{directory}/examples"),
                           ("runnel-watch", statistics), ("runnel-web", f"{statistics} --listen 127.0.0.1:0"),
                           ("mosquitto_pub", broker_options), ("mosquitto_sub", broker_options)):
            path = directory / "bin" / name
            real = BUILD / name if name.startswith("runnel") else brokers.program(name)
            path.write_text(f'#!/bin/sh\nexec {real} "$@" {more}\n')
            path.chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{directory}/bin:{os.environ['PATH']}", "HOME": str(directory),
                            "XDG_STATE_HOME": str(directory)}

    def open(self, text, **options):
        for name, mine in self.names.items():
            text = text.replace(name, mine)
        self.started.append(subprocess.Popen(["sh", "-c", text], cwd=self.directory, env=self.environment, text=True,
                                             stdin=subprocess.DEVNULL, start_new_session=True, **options))
        return self.started[-1]

    def keep(self, text):
        """A command that keeps running, with what it says in a file."""
        with open(self.directory / "said", "ab") as said:
            process = self.open(text, stdout=subprocess.PIPE if text.startswith("runnel-web") else said, stderr=said)
        if process.stdout:  # the page, which is on a port that it has chosen
            self.names[WEB] = process.stdout.readline().strip().removeprefix("http://").rstrip("/")
            threading.Thread(target=process.stdout.read, daemon=True).start()
            config = (SOURCE / "conf/prometheus.yml").read_text(encoding="utf-8")
            assert WEB in config and "scrape_interval: 10s" in config
            (self.directory / "conf").mkdir()
            (self.directory / "conf/prometheus.yml").write_text(
                config.replace(WEB, self.names[WEB]).replace("scrape_interval: 10s", "scrape_interval: 1s"))

    def await_output(self, text, output):
        """A command that ends: again and again, until it prints what the page shows."""
        end, wanted = time.monotonic() + running.LIMIT, pattern(output)
        while True:
            process = self.open(text, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            out, err = process.communicate(timeout=running.LIMIT)
            out = out.replace(f"ipc://{self.directory}/statistics", STATISTICS)
            if process.returncode == 0 and re.fullmatch(wanted, out.strip()):
                return
            assert time.monotonic() < end, (text, output, out, err, self.said())
            time.sleep(0.2)

    def said(self):
        return (self.directory / "said").read_text(encoding="utf-8", errors="replace")

    def interrupt(self):
        """Ctrl-C in each of them."""
        for process in reversed(self.started):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                process.wait(running.LIMIT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def check_dashboard(address):
    """Each line of the chart has a number."""
    dashboard = json.loads((SOURCE / "conf/grafana-dashboard.json").read_text(encoding="utf-8"))
    chart, = [panel for panel in dashboard["panels"] if "truth and forecast" in panel.get("title", "")]
    assert len(chart["targets"]) == 4, chart
    for target in chart["targets"]:
        text = target["expr"].replace("$daemon", "plant").replace("$stream", "hall-3").replace("$column", "temperature")
        url = f"http://{address}/api/v1/query?" + urllib.parse.urlencode({"query": text})

        def answer(url=url):
            with urllib.request.urlopen(url, timeout=running.LIMIT) as reply:
                found = json.load(reply)["data"]["result"]
            return len(found) == 1 and found[0]["value"][1] != "NaN"
        brokers.until(answer)


def test_page(directory):
    brokers.need("mqtt")
    for name in "prometheus", "promtool", "curl", "mosquitto_sub":
        brokers.program(name)
    if not (BUILD / "runnel-web").exists():
        cases.skip("needs runnel-web, which is built where there is libmicrohttpd-dev")
    holder = brokers.hold_port()
    with holder, brokers.Mosquitto(directory) as broker, \
            Terminals(directory, broker, holder.getsockname()[1]) as terminals:
        shown = 0
        for language, text, output in blocks():
            if language == "yaml":
                (directory / "plant.yaml").write_text(text)
            elif text.startswith(INSTALLS):
                packages = (SOURCE / "tools/setup.sh").read_text(encoding="utf-8").split()
                assert set(text.removeprefix(INSTALLS).split()) <= {"curl", *packages}, text
            elif output:
                terminals.await_output(text, output)
                shown += 1
            else:
                terminals.keep(text)
        assert shown == 4 and len({WEB, PROMETHEUS} & set(terminals.names)) == 2, shown
        check_dashboard(terminals.names[PROMETHEUS])
        assert "ignored field: site" in terminals.said(), terminals.said()
        terminals.interrupt()


cases.run(globals())
