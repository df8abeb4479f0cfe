#!/usr/bin/python3
"""docs/tutorials/mqtt-to-grafana.md: each command of the page runs as printed and prints what the page shows, up to its
numbers; the chart of the dashboard then has its data. The page's apt-get, which needs root and the network, and Grafana,
which Debian does not ship, are left out."""
import json
import urllib.parse
import urllib.request

import brokers
import cases
import pages
import running

CONFIGURATIONS = "/usr/local/share/runnel/conf"
WEB, PROMETHEUS = "127.0.0.1:5580", "127.0.0.1:9091"  # of the page
INSTALLS = "sudo apt-get install "


class Reader(pages.Reader):
    """Finds the broker of this test, and ports that the system chose."""

    def __init__(self, directory, page, broker, port):
        super().__init__(directory, page, {PROMETHEUS: f"127.0.0.1:{port}", CONFIGURATIONS: f"{directory}/conf"})
        self.wrap("runnel-feed", pages.BUILD / "runnel-feed", f"--connect ipc://{directory}/5570 --url {broker.url}")
        self.wrap("runnel-web", pages.BUILD / "runnel-web", f"--connect ipc://{directory}/5571 --listen 127.0.0.1:0")
        for name in "mosquitto_pub", "mosquitto_sub":
            self.wrap(name, brokers.program(name), f"--unix {broker.path}")

    def keep(self, text, terminal):
        super().keep(text, terminal)
        if text.startswith("runnel-web"):
            self.until(lambda: "http://" in self.output(0, terminal), "the address of the page")
            self.names[WEB] = self.output(0, terminal).split()[0].removeprefix("http://").rstrip("/")
            config = pages.read("conf/prometheus.yml")
            assert WEB in config and "scrape_interval: 10s" in config
            (self.directory / "conf").unlink()
            (self.directory / "conf").mkdir()
            (self.directory / "conf/prometheus.yml").write_text(
                config.replace(WEB, self.names[WEB]).replace("scrape_interval: 10s", "scrape_interval: 1s"))


def check_dashboard(address):
    """Each line of the chart has a number."""
    dashboard = json.loads(pages.read("conf/grafana-dashboard.json"))
    chart, = [panel for panel in dashboard["panels"] if "truth and forecast" in panel.get("title", "")]
    assert len(chart["targets"]) == 5, chart
    for target in chart["targets"]:
        text = target["expr"].replace("$daemon", "plant").replace("$stream", "hall-3").replace("$column", "temperature")
        url = f"http://{address}/api/v1/query?" + urllib.parse.urlencode({"query": text})

        def answer(url=url):
            with urllib.request.urlopen(url, timeout=running.LIMIT) as reply:
                found = json.load(reply)["data"]["result"]
            return found and "NaN" not in [one["value"][1] for one in found]
        brokers.until(answer)


def test_page(directory):
    brokers.need("mqtt")
    for name in "prometheus", "promtool", "curl", "mosquitto_sub":
        brokers.program(name)
    if not (pages.BUILD / "runnel-web").exists():
        cases.skip("needs runnel-web, which requires libmicrohttpd-dev")
    page = pages.read("docs/tutorials/mqtt-to-grafana.md")
    packages = next(text for _, text, *_ in pages.blocks(page) if text.startswith(INSTALLS)).removeprefix(INSTALLS)
    assert set(packages.split()) <= {"curl", *pages.read("tools/setup.sh").split()}, packages
    holder = brokers.hold_port()
    with holder, brokers.Mosquitto(directory) as broker, \
            Reader(directory, page, broker, holder.getsockname()[1]) as reader:
        assert reader.read(skip=[INSTALLS]) == 9
        assert {WEB, PROMETHEUS, CONFIGURATIONS} == set(reader.names)
        check_dashboard(reader.names[PROMETHEUS])
        assert "ignored field: site" in reader.log(), reader.log()
        for terminal in list(reader.terminals):
            reader.interrupt(terminal)


cases.run(globals())
