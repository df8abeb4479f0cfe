#!/usr/bin/python3
"""Tests the page of runnel-web in Chromium with simulated daemons: charts, growth, zoom, several runs, dark
mode, phones, killed daemons, outliers and motion. With the argument test_figures it measures speed
(docs/measurements/performance.md)."""
import contextlib
import json
import os
import pathlib
import re
import sqlite3
import statistics
import subprocess
import sys
import threading
import time

from web_browser import ActionChains, By, Page, rgb
from web_testing import LIMIT, START, Daemon, Web, run_tests

RECORD = pathlib.Path(os.environ.get("builddir", "."), "runnel-record").resolve()
MESSAGES = 2000  # of a run: more than the page draws at once
LOSS = "runnel.panels[0]"


def feed(daemon, count, nonfinite=None):
    for i in range(count):
        daemon.learn(None if i == nonfinite else 1 / (1 + daemon.examples / 1000) + 0.1 * (i % 7), row=13)


def test_page_in_a_browser(directory):
    one, two = Daemon(directory, "one"), Daemon(directory, "two", run="00000000000000cc")
    with Web(directory, one.endpoint, two.endpoint) as web:
        for daemon in one, two:
            daemon.await_subscriber()
            daemon.status()
        feed(one, MESSAGES)
        feed(two, 60, nonfinite=30)
        web.until("api/daemons", lambda answer: all(
            d["loss"] and d["loss"]["examples"] == e.examples
            for d, e in zip(answer["daemons"], (one, two))))
        runs = {r["name"]: r["id"] for r in web.get("api/runs")["runs"]}
        with Page(directory) as page:
            page.driver.get(web.url)
            # Two daemons share a time axis; each has separate numbers of examples.
            page.until("runnel.view.axis", lambda axis: axis == "time")
            page.run("const list = document.querySelector('#axis'); list.value = 'examples';"
                     "list.dispatchEvent(new Event('change'))")
            look_at_charts(page, one, two, runs)
            zoom_in(page, runs)
            lay_over(page, runs)
            kill_and_bring_back(page, one, runs)
            by_night_and_on_a_phone(page)
            check_console(page, web)


def show_learning(page):
    """Shows the charts below the forecasts."""
    page.run("document.querySelector('#panel-loss').scrollIntoView({block: 'center'})")


def look_at_charts(page, one, two, runs):
    show_learning(page)
    page.wait_for_newest(one, runs["one"])
    page.wait_for_newest(two, runs["two"])
    colors = [rgb(page.value(f"runnel.store.runs.get({runs[name]}).color")) for name in ("one", "two")]
    assert colors[0] != colors[1]
    for color in colors:
        page.until_colored(color)
    for name in ["metric", "gradient", "ratio", "rate"]:
        page.until_colored(colors[0], name)
    points = page.value(f"{LOSS}.shown.find((line) => line.run.id === {runs['one']}).data.length")
    assert 500 <= points <= 1000, points  # of the 2000
    page.until_colored(rgb(page.value(
        "getComputedStyle(document.documentElement).getPropertyValue('--bad').trim()")), pixels=10)
    for daemon in one, two:
        daemon.status()  # it may have been silent for too long on a slow machine
    assert page.text("#panel-loss .unit") == "squared error"  # from the network
    assert page.text("#panel-metric .unit") == "original units"  # from the server, for the column
    assert "loss of an update's targets" in page.value("document.querySelector('#panel-rate h3 span').title")
    page.run("const list = document.querySelector('#panel-rate select'); list.value = 'rate';"
             "list.dispatchEvent(new Event('change'))")
    page.until("document.querySelector('#panel-rate h3 span').title", lambda text: "learning rate in effect" in text.lower())
    page.until("document.querySelector('#daemons').textContent", lambda text: text.count("learning") == 2
               and "one" in text and "two" in text and "20,000" in text)
    before = page.value("document.querySelector('#panel-loss canvas').toDataURL()")
    feed(one, 40)
    page.wait_for_newest(one, runs["one"])
    page.until("document.querySelector('#panel-loss canvas').toDataURL()", lambda now: now != before)
    page.run("document.querySelector('#panel-heat').scrollIntoView()")
    page.until("runnel.panels.find((p) => p.heat).inSight")
    page.run(f"const list = document.querySelector('#heat-run'); list.value = {runs['one']};"
             "list.dispatchEvent(new Event('change'))")
    page.until("document.querySelector('#panel-heat .empty').hidden")
    page.until_colored([253, 231, 37], "heat", pixels=100)
    for name in ["dormant", "rank", "growth"]:
        page.run(f"document.querySelector('#panel-{name}').scrollIntoView()")
        page.until_colored(colors[0], name)
    page.until("document.querySelector('#layers').textContent", lambda text: "layer 0: gru 32" in text)
    show_learning(page)
    page.until(f"{LOSS}.inSight")


def zoom_in(page, runs):
    widest = f"Math.max(...runnel.store.get({runs['one']}, 'loss').messages)"
    coarse = page.value(widest)
    assert coarse > 1
    from_, to = page.value("runnel.bounds()")
    plot = page.driver.find_element(By.CSS_SELECTOR, "#panel-loss .plot")
    width = plot.size["width"]
    ActionChains(page.driver).move_to_element_with_offset(plot, 0, 0).click_and_hold() \
        .move_by_offset(int(width * 0.1), 0).release().perform()
    low, high = page.until("runnel.bounds()", lambda bounds: bounds != [from_, to])
    assert from_ < low < high < to and high - low < 0.2 * (to - from_), (low, high)
    page.until(widest, lambda now: now < coarse)
    page.until(f"[{LOSS}.plot.chart.scales.x.min, {LOSS}.plot.chart.scales.x.max]",
               lambda seen: seen == [low, high])
    page.until("location.hash", lambda text: "from=" in text)
    # Empty charts contain the reason and no axis.
    page.run("runnel.setRange(1e9, 2e9)")
    page.until("document.querySelector('#panel-loss .empty').textContent",
               lambda text: text == "no values in this range")
    page.until("getComputedStyle(document.querySelector('#panel-loss canvas')).visibility",
               lambda visibility: visibility == "hidden")
    page.keys("0")
    assert page.until("runnel.bounds()", lambda bounds: bounds[1] < 1e9)[0] == from_
    page.until("document.querySelector('#panel-loss .empty').hidden")


def lay_over(page, runs):
    """Runs of different days share an axis of time since start; each can be hidden."""
    page.keys("aaa")
    assert page.value("document.querySelector('#axis').value") == "elapsed"
    page.until(f"{LOSS}.shown.map((line) => line.data.length ? line.data[0].x : 1e9)",
               lambda starts: len(starts) == 2 and max(starts) < 10)
    page.keys("2")
    page.until(f"{LOSS}.shown.length", lambda count: count == 1)
    page.keys("2")
    page.until(f"{LOSS}.shown.length", lambda count: count == 2)
    page.keys("s")
    assert page.value("runnel.view.smooth") == 0 and page.text("#smooth-value") == "off"
    two = page.value(f"runnel.store.get({runs['two']}, 'loss').columns.mean.mean.slice(0, 3)")
    page.until(f"{LOSS}.shown.find((l) => l.run.id === {runs['two']}).data.slice(0, 3)",
               lambda raw: [point["y"] for point in raw] == two)
    page.keys("sbl")
    page.until(f"{LOSS}.plot.chart.scales.y.type", lambda kind: kind == "logarithmic")
    page.keys("bla")
    assert page.value("document.querySelector('#axis').value") == "examples"


def kill_and_bring_back(page, daemon, runs):
    state = "document.querySelectorAll('.daemon .state')[0].textContent"
    daemon.close()
    page.until(state, lambda text: text.startswith("gone for "))
    daemon.open("00000000000000bb")
    daemon.await_subscriber()
    daemon.status(resumed="/state/checkpoint")
    # The page shows a run before its first loss, and then draws new values.
    page.until("runnel.store.runs.size", lambda count: count == len(runs) + 1)
    feed(daemon, 5)
    page.until("runnel.bounds()[1]", lambda newest: newest == daemon.examples)
    page.until(state, lambda text: text == "learning")
    page.until(f"{LOSS}.shown.length", lambda count: count == 3)
    chain = page.value(f"{LOSS}.shown.filter((line) => line.run.name === 'one').map((l) => l.color)")
    assert len(chain) == 2 and len(set(chain)) == 1, chain
    newest = page.value("Math.max(...[...runnel.shown])")
    assert newest not in runs.values()
    page.wait_for_newest(daemon, newest)
    page.until(f"runnel.store.runs.get({newest}).layers.length", lambda count: count == 1)
    page.until("document.querySelector('#events').textContent", lambda text: "lost" in text)


def by_night_and_on_a_phone(page):
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.value(background)
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": "dark"}]})
    dark = page.until(background, lambda color: color != light)
    assert sum(map(int, re.findall(r"\d+", dark))) < 150 < sum(map(int, re.findall(r"\d+", light)))
    page.run("runnel.draw()")
    page.until_colored(rgb(page.value(f"{LOSS}.shown[0].color")))
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True})
    page.until("document.querySelector('#panel-loss').getBoundingClientRect().width",
               lambda width: 330 < width <= 390)
    page.until("document.querySelector('#panel-loss canvas').clientWidth", lambda width: width < 390)
    page.until("document.documentElement.scrollWidth", lambda width: width <= 390)
    page.until(f"{LOSS}.plot.chart.width", lambda width: 300 < width < 390)


def check_console(page, web):
    errors = [entry for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not errors, errors
    names = page.value("performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert len(names) > 8 and all(name.startswith(web.url) for name in names), names


def open_page(page, web, daemon, run=1):
    page.driver.get(web.url)
    page.wait_for_newest(daemon, run)


def points_of(page, run=1):
    """{x: y} of the line in the loss chart."""
    return dict(page.value(f"{LOSS}.shown.find((line) => line.run.id === {run}).data.map(({{x, y}}) => [x, y])"))


def test_wild_values(directory):
    """An outlier is marked and does not affect range and line; a new level remains visible."""
    daemon = Daemon(directory)
    with Web(directory, daemon.endpoint) as web, Page(directory) as page:
        daemon.await_subscriber()
        daemon.status()
        for i in range(300):
            daemon.learn(1e30 if i == 150 else 0.5 + 0.05 * (i % 5))
        open_page(page, web, daemon)
        top = f"{LOSS}.plot.chart.scales.y.max"
        color = rgb(page.value("runnel.store.runs.get(1).color"))
        for smoothing in "on", "off":
            page.until(top, lambda most: 0.5 < most < 5)
            page.until("runnel.panels[1].plot?.chart.scales.y.max", lambda most: most and 0.5 < most < 5)
            page.until(f"{LOSS}.shown[0]?.beyond?.high", lambda high: high and high < 1e29)
            page.until_colored(color)
            page.keys("s")
        assert points_of(page)[1510] < 10  # smoothed: later values do not raise it
        page.keys("l")
        page.until(top, lambda most: most < 5)
        page.keys("l")
        for _ in range(15):  # the page draws one of those that arrive together
            daemon.learn(40.0)
            page.wait_for_newest(daemon, 1)
        page.until(top, lambda most: most > 30)
        check_console(page, web)


def test_smoothing_looks_back_only(directory):
    """Later values do not move points."""
    daemon = Daemon(directory)
    with Web(directory, daemon.endpoint) as web, Page(directory) as page:
        daemon.await_subscriber()
        daemon.status()
        feed(daemon, 300)
        web.series(300)
        open_page(page, web, daemon)
        page.run("const slider = document.querySelector('#smooth'); slider.value = 8;"
                 "slider.dispatchEvent(new Event('input'))")
        page.until("runnel.view.smooth", lambda share: share == 0.08)
        page.run("runnel.draw()")
        before = points_of(page)
        # smoothed, since the largest is 1.6
        assert len(before) == 300 and max(before.values()) < 1.55
        feed(daemon, 200)
        page.wait_for_newest(daemon, 1)
        after = points_of(page)
        moved = [(x, y, after.get(x)) for x, y in before.items() if x not in after or abs(after[x] - y) > 1e-5]
        assert len(after) > 300 and not moved, moved # six digits


def test_old_counts_are_grey(directory):
    """Rejected examples are marked for an hour, and again when the count increases."""
    daemon = Daemon(directory)
    with Web(directory, daemon.endpoint) as web, Page(directory) as page:
        daemon.await_subscriber()
        daemon.status()
        bad = "[...document.querySelectorAll('.daemon dd.bad')].map((one) => one.textContent)"
        daemon.learn(0.5, rejected=0)
        daemon.learn(0.5, rejected=17)
        open_page(page, web, daemon)
        page.until(bad, lambda texts: texts == ["17"])
        daemon.examples += 36010 # ten a second
        daemon.learn(0.5, rejected=17)
        page.until(bad, lambda texts: texts == [])
        assert "rejected17" in page.value("document.querySelector('.daemon').textContent")
        page.driver.refresh()
        page.until("document.querySelector('.daemon')?.textContent ?? ''", lambda text: "rejected17" in text)
        page.until(bad, lambda texts: texts == [])
        daemon.learn(0.5, rejected=18)
        page.until(bad, lambda texts: texts == ["18"])
        check_console(page, web)


LONG = "production-hall-north-assembly-line-7-"


def test_card_without_a_loss(directory):
    """If a daemon rejects everything, only `status` contains the count. Unknown values are not 0."""
    daemon = Daemon(directory)
    with Web(directory, daemon.endpoint) as web, Page(directory) as page:
        daemon.await_subscriber()
        daemon.status()
        page.driver.get(web.url)
        page.until("document.querySelector('.daemon').textContent", lambda text: "rejected–" in text)
        daemon.status(rejected=17, examples_per_second=0)
        page.until("document.querySelector('.daemon').textContent", lambda text: "rejected17" in text)
        assert page.value("[...document.querySelectorAll('.daemon dd.bad')].map((one) => one.textContent)") == ["17"]


def test_cards(directory):
    """A card shows the differences to other daemons, and does not move when numbers grow."""
    names = [LONG + "temperature", LONG + "pressure", LONG + "pressure-2"]
    daemons = [Daemon(directory, str(i), run=f"{i:016x}") for i in range(4)]
    with Web(directory, *(daemon.endpoint for daemon in daemons)) as web, Page(directory) as page:
        for daemon, name in zip(daemons, names + [names[0]]):
            daemon.await_subscriber()
            daemon.status(name=name)
            daemon.learn(0.5, examples_per_second=9.0, rejected=0)
        page.driver.get(web.url)
        page.until("document.querySelectorAll('.daemon').length", lambda count: count == 4)
        for width in 1280, 420:
            page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600})
            page.until("innerWidth", lambda seen: seen == width)
            page.until("[...document.querySelectorAll('.daemon .own')].map((one) => "
                       "[one.textContent, one.scrollWidth <= one.clientWidth])",
                       lambda own: own == [[name[len(LONG):], True] for name in names + names[:1]])
            page.until("[...document.querySelectorAll('.daemon .place')].map((one) => one.textContent)",
                       lambda places: places == [" 0", "", "", " 3"])
            # Daemon name, network and start time are in this order.
            page.until("document.querySelector('#daemons').textContent",
                       lambda text: text.count(f"examples{daemons[0].examples:,}") == 4)
            page.until("[...document.querySelectorAll('#runs tbody tr')].map((row) => "
                       "[...row.cells].map((cell) => cell.textContent))", lambda rows: len(rows) == 4 and all(
                           name.endswith(" now") and LONG in name and network and begun != "–"
                           and examples == f"{daemons[0].examples:,}" for _, name, network, begun, examples in rows))
            before = settled(page)
            for daemon in daemons:
                daemon.examples += 4382710
                daemon.learn(0.123456, examples_per_second=123456.7, queued=98765, rejected=4321, skipped=12,
                             metric={"rmse": 1234.5678}, skill=-0.1234, skill_recent=-0.1234)
            page.until("document.querySelector('#daemons').textContent", lambda text:
                       text.count(f"examples{daemons[0].examples:,}") == 4 and text.count("4,321") == 4)
            page.until("[...document.querySelectorAll('#runs td:last-child')].map((one) => one.textContent)",
                       lambda cells: all(cell == f"{daemons[0].examples:,}" for cell in cells))
            moved = set(before) ^ set(page.value(PLACES))
            assert not moved, (width, sorted(moved))
        bad = page.value("[...document.querySelectorAll('.daemon dd.bad')].map((one) => one.textContent)")
        assert bad.count("−12.3%") == 4, bad
        check_console(page, web)


def settled(page):
    """The positions of all elements, once they are stable between two polls of the page."""
    before, since = None, time.monotonic()
    while time.monotonic() - since < 1:
        places = page.until(PLACES, lambda places: len(places) > 100)
        if places != before:
            before, since = places, time.monotonic()
        time.sleep(0.1)
    return before


PLACES = """[...document.querySelectorAll(
    "header *, .daemon, .daemon dt, .daemon dd, .daemon .own, #controls *, .panel, .plot, .lists th, .lists td")]
    .map((one) => { const { x, y, width, height } = one.getBoundingClientRect();
      return [one.tagName, one.id, x, y + scrollY, width, height].join(" "); })"""


def test_recording_alone(directory):
    """A recording is shown without a daemon, and follows its writer."""
    daemon = Daemon(directory)
    with Web(directory, daemon.endpoint) as writer:
        daemon.await_subscriber()
        daemon.status()
        feed(daemon, 50)
        writer.series(50)
        with Web(directory, recording=f"{directory}/history") as web, Page(directory) as page:
            answer = web.get("api/daemons")
            assert answer == {"daemons": [], "recording": "history"}, answer
            open_page(page, web, daemon)
            page.until_colored(rgb(page.value("runnel.store.runs.get(1).color")))
            assert page.value("document.querySelectorAll('.daemon').length") == 0
            page.until("document.querySelector('#connection').textContent", lambda text: "recording history" in text)
            feed(daemon, 20)
            page.wait_for_newest(daemon, 1)
            check_console(page, web)
            assert web.end() == 0
        assert writer.end() == 0


def copy_run(path, count):
    """This number of runs with separate daemons, SQL copies of the first."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        for table, key in [("runs", "id"), ("loss", "run")]:
            names = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
            for number in range(1, count):
                change = {key: f"{key} + {number}", "name": f"'run {number:02}'", "mean": f"mean * {1 + number / 50}",
                          "run": f"'{number:016x}'" if table == "runs" else f"run + {number}"}
                file.execute(f"INSERT INTO {table} SELECT {', '.join(change.get(name, name) for name in names)}"
                             f" FROM {table} WHERE {key} = 1")
        file.commit()


def test_many_runs(directory):
    """Twenty runs have twenty colours in light and dark mode, further runs have dashes."""
    daemon = Daemon(directory)
    with Web(directory, daemon.endpoint) as web:
        daemon.await_subscriber()
        daemon.status()
        for i in range(50):
            daemon.learn(1 / (1 + i / 10))
        web.series(50)
        assert web.end() == 0
    copy_run(f"{directory}/history", 24)
    with Web(directory, recording=f"{directory}/history") as web, Page(directory) as page:
        page.driver.get(web.url)
        page.until("document.querySelectorAll('#runs tbody tr').length", lambda count: count == 24)
        page.run("for (let box; (box = document.querySelector('#runs input:not(:checked)'));) box.click()")
        for theme in "light", "dark":
            page.until("document.documentElement.dataset.theme", lambda now, theme=theme: now == theme or page.keys("d"))
            page.run("runnel.draw()")
            page.until(f"{LOSS}.shown.length", lambda count: count == 24)
            styles = page.value(f"{LOSS}.shown.map((line) => [line.borderColor, line.borderDash.join()])")
            assert len({colour for colour, dash in styles if not dash}) == 20, styles
            assert len(set(map(tuple, styles))) == 24, styles
            swatches = page.value("[...document.querySelectorAll('#runs .swatch')].map((one) => [one.className,"
                                  "one.style.getPropertyValue('--color')].join())")
            assert len(set(swatches)) == 24, swatches
            for colour, _ in styles[0], styles[19]:
                page.until_colored(rgb(colour))
        check_console(page, web)


def test_settings(directory):
    """Shows and searches the different settings of several runs, live and recorded."""
    rows = ("[...document.querySelectorAll('#settings tbody tr')].map((row) =>"
            "[...row.children].map((cell) => cell.textContent))")
    daemons = [Daemon(directory, "one"), Daemon(directory, "two", run="00000000000000cc")]
    rates = [0.001, 0.0003]

    def send_status(rate, daemon):
        configuration = {"seed": 1, "model.layers.0.cell": "gru", "learning.optimizer.rate": rate,
                         "tags": {"site": daemon.name}}
        daemon.status(tags=configuration["tags"], configuration=configuration, digest=f"{int(rate * 1e5):016x}")

    with Web(directory, *(daemon.endpoint for daemon in daemons)) as web:
        for rate, daemon in zip(rates, daemons, strict=True):
            daemon.await_subscriber()
            send_status(rate, daemon)
            feed(daemon, 20)
        web.until("api/runs", lambda answer: len(answer["runs"]) == 2 and all(run["tags"] for run in answer["runs"]))
        with Page(directory) as page:
            page.driver.get(web.url)
            page.until("document.querySelectorAll('#runs tbody tr').length", lambda count: count == 2)
            page.run("document.querySelector('#settings').open = true")
            found = page.until(rows, lambda found: len(found) == 2 and found[1][0] == "tags.site")
            assert sorted(found[0]) == ["0.0003", "0.001", "learning.optimizer.rate"], found
            send_status(0.02, daemons[1])  # set at run time
            page.until(rows, lambda found: "0.02" in found[0])
            page.run("document.querySelector('#settings-differences').click()")
            page.until(rows, lambda found: len(found) == 4)
            page.driver.find_element(By.ID, "settings-search").send_keys("cell")
            found = page.until(rows, lambda found: len(found) == 1)
            assert found == [["model.layers.0.cell", "gru", "gru"]], found
            assert "site two" in page.value("document.querySelector('#runs').textContent")
            check_console(page, web)
        assert web.end() == 0
    with Web(directory, recording=f"{directory}/history") as web, Page(directory) as page:
        page.driver.get(web.url)
        page.until("document.querySelectorAll('#runs tbody tr').length", lambda count: count == 2)
        page.run("document.querySelector('#settings').open = true")
        found = page.until(rows, lambda found: len(found) == 2 and found[1][0] == "tags.site")
        assert sorted(found[0]) == ["0.001", "0.02", "learning.optimizer.rate"], found
        check_console(page, web)
        assert web.end() == 0


def test_fleet(directory):
    """Shows members, partitions and lag of a daemon's fleet, if it has one."""
    cells = ("[...document.querySelectorAll('.fleet .{} tbody tr')].map((row) =>"
             "[...row.children].map((cell) => cell.textContent))")
    one = Daemon(directory, "one")
    members = {"one": {"state": "learning", "partitions": 2, "examples": 1200, "rate": 20.5},
               "two": {"state": "gone", "partitions": 1, "examples": 70, "rate": 0.0}}
    owners = [{"daemon": "one", "committed": 700, "lag": 3}, {"daemon": "one", "committed": 500, "lag": 4},
              {"daemon": "two", "committed": 70, "lag": None}, {"daemon": None, "committed": 0, "lag": None}]
    with Web(directory, one.endpoint) as web:
        one.await_subscriber()
        one.status()
        feed(one, 20)
        with Page(directory) as page:
            page.driver.get(web.url)
            page.until("runnel.daemons[0]?.status?.name", lambda found: found == "one")
            assert page.value("document.querySelector('#fleets').hidden")
            one.status(fleet={"group": "plant", "daemons": 1, "of": 4, "members": members, "owners": owners})
            page.until("document.querySelector('#fleets').hidden", lambda hidden: hidden is False)
            assert page.value(cells.format("members")) == [
                ["one", "learning", "2", "1,200", "20.5", "7"], ["two", "gone", "1", "70", "0", "–"]]
            assert page.value(cells.format("owners")) == [
                ["0", "one", "700", "3"], ["1", "one", "500", "4"], ["2", "two", "70", "–"],
                ["3", "unassigned", "0", "–"]]
            assert page.text(".fleet .what") == "plant: 1 daemon, 4 partitions, at least 7 waiting"
            long = [f"{n}-" + 30 * "ab" for n in range(20)]  # no name is cut or widens the page
            one.status(fleet={"group": "plant", "daemons": 20, "of": 20, "round": 12,
                              "members": {name: members["one"] for name in long},
                              "owners": [{"daemon": name, "committed": 7000000, "lag": 12345} for name in long]})
            page.until("document.querySelectorAll('.fleet .owners tbody tr').length", lambda count: count == 20)
            assert page.text(".fleet .what") == "plant: 20 daemons, 20 partitions, 246,900 waiting, " \
                "averaging round 12"
            for width in 400, 800, 1400:
                page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                    "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
                page.until(
                    "[...document.querySelectorAll('.fleet .members th, .fleet .owners td:nth-child(2)')].every("
                    "(one) => one.scrollWidth <= one.clientWidth + 1) && document.documentElement.scrollWidth",
                    lambda wide, width=width: wide == width)
            check_console(page, web)


def test_fleets(directory):
    """Groups of the same name at two brokers are two fleets; one daemon of each reports all members."""
    pair = [Daemon(directory, name) for name in ("one", "two")]
    where = ["redis://127.0.0.1:6379 sensors", "127.0.0.1:9092 sensors"]
    names = "[...document.querySelectorAll('.fleet {}')].map((cell) => cell.textContent)"

    def send_status(daemon, at, there):
        daemon.status(sockets={"examples": at}, fleet={
            "group": "plant", "daemons": there, "of": 1,
            "members": {daemon.name: {"state": "learning", "partitions": 1, "examples": 1, "rate": 1.0}},
            "owners": [{"daemon": daemon.name, "committed": 1, "lag": 0}]})

    with Web(directory, *[daemon.endpoint for daemon in pair]) as web, Page(directory) as page:
        for daemon, at in zip(pair, where, strict=True):
            daemon.await_subscriber()
            send_status(daemon, at, 1)
        page.driver.get(web.url)
        page.until(names.format(".what"), lambda found: found == [
            f"plant at {at}: 1 daemon, 1 partition, 0 waiting" for at in sorted(where)])
        assert page.value(names.format(".members tbody th")) == ["two", "one"]
        pair[0].examples = 10  # the newest
        send_status(pair[0], where[1], 2)
        page.until(names.format(".what"), lambda found: found == ["plant: 2 daemons, 1 partition, 0 waiting"])
        check_console(page, web)


def test_members(directory):
    """The layers of each network can be shown, live and recorded."""
    daemon = Daemon(directory)
    with Web(directory, daemon.endpoint) as web, Page(directory) as page:
        daemon.await_subscriber()
        daemon.status()
        for _ in range(20):
            daemon.learn(0.5, members=["change", "level"])
        open_page(page, web, daemon)
        page.until("[...document.querySelectorAll('#layers button')].map((tab) => tab.textContent)",
                   lambda tabs: tabs == ["layer 0: change gru 32", "layer 1: level gru 32"])
        page.run("document.querySelectorAll('#layers button')[1].click()")
        page.until("runnel.store.get(1, 1)?.length", lambda length: length == 20)
        for _ in range(5):
            daemon.learn(0.5, members=["change", "level"])
        page.until("runnel.store.get(1, 1).length", lambda length: length > 20)
        check_console(page, web)
        assert web.end() == 0


PANEL = "runnel.panels.find((panel) => panel.spec.id === 'forecast')"


SKILL = """(() => { const { shown, plot } = runnel.panels.find((panel) => panel.spec.id === "skill");
    return [shown.find((line) => line.known).data.map((point) => point.raw), plot.chart.scales.y.max > 0]; })()"""


def choose_soon(page, what, value):
    """Waits until it can be selected."""
    page.until(f"[...document.querySelector('#forecast-{what}').options]"
               f".some((one) => one.value == {json.dumps(value)})")
    choose(page, what, value)


def choose(page, what, value):
    page.run(f"const list = document.querySelector('#forecast-{what}'); list.value = {json.dumps(value)};"
             "list.dispatchEvent(new Event('change'))")


def see_forecasts(page, web):
    page.driver.get(web.url)
    page.until("document.querySelector('#panel-forecast')")
    page.run("document.querySelector('#panel-forecast').scrollIntoView({block: 'center'})")


def test_forecasts(directory):
    """Shows truth, forecast and band of a selected stream and column, values outside the band, and tables of
    skill."""
    daemon, silent = Daemon(directory), Daemon(directory, "silent", run="00000000000000cc")
    with Web(directory, daemon.endpoint, silent.endpoint) as web, Page(directory) as page:
        for one in daemon, silent:
            one.await_subscriber()
            one.status(predictions=one is daemon)
        daemon.await_predictions()
        weights = {"last": 0.25, "ar12": 0.75}
        for i in range(60):
            # Every tenth value of column 1 is outside the band; column 0 was not observed.
            wave = 10 + i % 4
            daemon.predict([wave, wave + 100], [None if i % 10 == 5 else wave + 0.5,
                                                1e30 if i == 35 else wave + (103 if i % 10 == 5 else 100.5)],
                           stream="pump", data_time=START + 3600 * i, baseline=[wave + 2, wave + 102])
        for i in range(20):
            daemon.predict([5.0], [5.5], stream="tank")
        columns = [{"rmse": 1.5, "mae": 1.0, "skill": 0.25}, {"rmse": 3.0, "mae": 2.0, "skill": -0.5}]
        for worth in -0.5, -0.25:
            daemon.learn(0.5, columns=columns, baseline=0.4, skill=worth, skill_recent=worth,
                         experts={name: {"mean": 0.9, "weight": weight} for name, weight in weights.items()})
        silent.learn(0.5)
        see_forecasts(page, web)
        page.until(f"{PANEL}.shown.length", lambda count: count == 4)
        page.until("[...document.querySelector('#forecast-stream').options].map((one) => one.value)",
                   lambda streams: streams == ["pump", "tank"])
        summary = "document.querySelector('#forecast-summary').textContent"
        page.until(summary, lambda text: "contains 54 of 54 truths (100%)" in text and "rmse 0.5, baseline 1.5" in text)
        # All columns are side by side with their names; a click enlarges one.
        small = "[...document.querySelectorAll('.multiples button')]"
        page.until(f"{small}.map((one) => [one.querySelector('span').textContent, one.getAttribute('aria-pressed')])",
                   lambda found: found == [["0", "true"], ["1", "false"]])
        for name in "text", "accent":
            page.until_colored(rgb(page.value(f"runnel.colors().{name}")), "multiples")
        page.run(f"{small}[1].click()")
        page.until("document.querySelector('#panel-forecast h3 span').textContent", lambda text: text == "pump · 1")
        page.until(summary, lambda text: "contains 54 of 60 truths (90%)" in text)
        places = page.value("['forecasts', 'panel-skill', 'panel-loss'].map((id) => "
                            "document.getElementById(id).getBoundingClientRect().top)")
        assert places == sorted(places), places # forecasts, then skill, then learning
        assert page.value(f"{PANEL}.shown[0].misses.filter(Boolean).length") == 6
        page.until(f"{PANEL}.plot.axis", lambda axis: axis == "time")
        assert page.value(f"{PANEL}.shown[0].data[1].x") == START + 3600
        after = START + 3600 * 59 + 60  # a minute after its prediction, as usual
        assert page.value(f"{PANEL}.shown[3].data[1]") == {"x": after, "y": 113, "value": 113, "raw": 113}
        assert page.value(f"[{PANEL}.shown[3].low, {PANEL}.shown[3].high]") == [[None, 112], [None, 114]]
        page.until(f"{PANEL}.plot.chart.scales.x.max", lambda most: after < most < after + 3600)
        page.until(summary, lambda text: text.endswith("Next: forecast 113, 112 … 114."))
        # Despite the outlier.
        page.until(f"{PANEL}.plot.chart.scales.y.max", lambda top: 110 < top < 1000)
        for color in "accent", "bad", "text":
            page.until_colored(rgb(page.value(f"runnel.colors().{color}")), "forecast")
        page.until(SKILL, lambda line: line == [[-0.5, -0.25], True])  # zero is visible
        choose(page, "stream", "tank")
        page.until(f"{PANEL}.plot.axis", lambda axis: axis == "examples")
        page.until(summary, lambda text: "contains 20 of 20" in text)
        daemon.predict([5.0], [5.5], stream="tank")
        page.until(summary, lambda text: "contains 21 of 21" in text)
        rows = ("[...document.querySelectorAll('{} tbody tr')].map((row) => "
                "[...row.children].map((one) => one.textContent))")
        page.until(rows.format("#panel-columns"), lambda cells: cells == [
            ["0", "1.5", "1", "+25.0%"], ["1", "3", "2", "−50.0%"]])
        assert page.text("#panel-columns .bad") == "−50.0%"
        page.until(rows.format("#panel-experts"), lambda cells: cells == [
            ["last", "0.9", "25.0%"], ["ar12", "0.9", "75.0%"]])
        # Columns with names are shown by name.
        choose(page, "stream", "pump")
        columns_to_choose = "[...document.querySelector('#forecast-column').options].map((one) => one.textContent)"
        page.until(columns_to_choose, lambda shown: shown == ["0", "1"])
        daemon.status(predictions=True, target_names="load, oil")
        page.until(columns_to_choose, lambda shown: shown == ["load", "oil"])
        page.until(rows.format("#panel-columns"), lambda cells: [row[0] for row in cells] == ["load", "oil"])
        choose(page, "stream", "tank")
        address = page.value("location.href")
        assert "stream=tank" in address
        page.driver.get("about:blank")
        page.driver.get(address)
        page.until("document.querySelector('#forecast-summary')?.textContent",
                   lambda text: text and "contains 21 of 21" in text)
        choose(page, "daemon", 1)
        page.until("document.querySelector('#panel-forecast .empty').textContent",
                   lambda text: "statistics.predictions: true" in text)
        page.until("document.querySelector('#panel-experts .empty')?.textContent",
                   lambda text: text and "scale: forecast" in text)
        check_console(page, web)


def test_distributions(directory):
    """Quantiles are drawn as bands around the median; misses are those of their 90% band. The histogram of PITs
    has the sentence of the daemon."""
    daemon = Daemon(directory)
    with Web(directory, daemon.endpoint) as web, Page(directory) as page:
        daemon.await_subscriber()
        daemon.status(predictions=True)
        daemon.await_predictions()
        for i in range(40):  # every fourth value is outside the band of quantiles, but not the interval
            daemon.predict([i % 7], [i % 7 + (2.5 if i % 4 == 1 else 0.5)], data_time=START + 3600 * i, band=9.0,
                           fan={0.05: -1, 0.25: -0.5, 0.5: 0, 0.6: 0.3, 0.75: 0.5, 0.95: 2})
        daemon.learn(0.5)
        see_forecasts(page, web)
        page.until(f"{PANEL}.shown.length", lambda count: count == 4)
        page.until("document.querySelector('#forecast-summary').textContent",
                   lambda text: "contains 30 of 40 truths (75%)" in text and text.endswith("4, 3 … 6."))
        fans = page.value(f"[1, 3].map((n) => {PANEL}.shown[n].fan.map(({{ low, high }}) => [low[1], high[1]]))")
        assert fans == [[[0, 3], [0.5, 1.5]], [[3, 6], [3.5, 4.5]]], fans
        assert "50, 90% bands" in page.text("#panel-forecast .legend")
        # nearer to the median the accent covers more of the card
        page.until_colored(rgb(page.value("runnel.colors().accent")), "forecast")
        assert not page.driver.find_element("id", "panel-calibration").is_displayed()
        narrow = "too narrow: true values fall outside the 90% band more often than they should"
        daemon.learn(0.5, pit=[0.2] + [0.6 / 18] * 18 + [0.2], calibration=narrow, crps={"mean": 0.25, "skill": 0.5},
                     coverage={"total": 0.9, "recent": 0.9, "levels": [0.3, 0.6, 0.8, 0.9]})
        page.until("document.querySelector('#panel-calibration .bad')?.textContent", lambda text: text == narrow)
        text = page.value("document.querySelector('#panel-calibration').textContent")
        assert "90% band 60.0%" in text and "skill +50.0%" in text, text
        heights = page.value("[...document.querySelectorAll('.pit i')].map((bar) => bar.offsetHeight)")
        assert len(heights) == 20 and heights[0] == heights[19] > 5 * heights[10] > 0, heights
        check_console(page, web)


ABNORMAL = ("[...document.querySelectorAll('#anomalies button')].map((one) => "
            "[one.querySelector('b').textContent, one.lastChild.textContent])")


def click_anomaly(page, number):
    page.run(f"document.querySelectorAll('#anomalies button')[{number}].click()")


def wait_for_anomalies(path, count):
    """Waits until the recording has this number of predictions."""
    deadline = time.monotonic() + LIMIT
    while True:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as file:
            found, = file.execute("SELECT count(DISTINCT event) FROM anomalies").fetchone()
        if found == count:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_anomalies(directory):
    """A list of anomalies with marks in the chart of their stream and column. A click shows the steps around
    one, of a daemon or a recording."""
    daemon = Daemon(directory)
    recorder = subprocess.Popen([RECORD, "-c", daemon.endpoint, "-o", f"{directory}/runs.db"],
                                stderr=subprocess.DEVNULL)
    at, summary = {}, "document.querySelector('#forecast-summary').textContent"

    def speak():
        """300 examples of a stream, 20 of another; its second column is abnormal at 41 and 281."""
        daemon.status(predictions=True)
        daemon.learn(0.5)
        for i in range(300):
            daemon.predict([5.0, 1.0], [5.5, 9.0 if i in (40, 280) else 1.5], stream="pump", data_time=START + 60 * i,
                           score=None if i < 160 else 2.5 if i == 280 else 0.25)
            at[i] = daemon.examples
            if i in (40, 280):
                daemon.anomaly(daemon.examples, "pump", START + 60 * i, [(1, 3.25 + i / 100, 1.0, 9.0)])
        for i in range(20):
            daemon.predict([5.0], [5.5], stream="tank")
        daemon.anomaly(daemon.examples, "tank", None, [], reason="stuck", note="<i>line</i>\x1b[1m 7")

    def look(page, web, first):
        page.until("document.querySelector('#panel-anomalies')")
        page.run("document.querySelector('#panel-forecast').scrollIntoView({block: 'center'})")
        page.until(ABNORMAL, lambda rows: rows == [
            ["tank", "<i>line</i> [1m 7"], ["pump", "novelty 6.05, column 1: 9, forecast 1"],
            ["pump", "novelty 3.65, column 1: 9, forecast 1"]])
        marks = f"{PANEL}.plot.chart.events.map((event) => event.x)"
        score, commands = "document.querySelector('#panel-forecast .plot.low')", (
            "[...document.querySelectorAll('#verdict code')].map((one) => one.textContent)")
        shown = f"{PANEL}.shown[0].data.map((point) => point.x)"
        choose_soon(page, "column", 1)
        page.until(summary, lambda text: "contains 199 of 200" in text)
        page.until(marks, lambda places: places == [START + 60 * 280])
        page.until_colored(rgb(page.value("runnel.colors().warn")), "forecast")
        # The panel below shows the score of the stream and the alarm limit.
        page.until(f"{score}.querySelector('canvas')?.ariaLabel", lambda text:
                   text == "Anomaly score: at most 2.5, alarm at 1.5")
        web.until(f"api/forecasts?{first}&stream=pump&column=1&points=200", lambda answer:
                  answer["score"] == [None] * 60 + [0.25] * 120 + [2.5] + [0.25] * 19)
        choose(page, "column", 0)
        page.until(marks, lambda places: places == [])
        click_anomaly(page, 2)
        page.until(shown, lambda places: START + 60 * 40 in places and START + 60 * 280 not in places)
        page.until(marks, lambda places: places == [START + 60 * 40])
        page.until("document.querySelector('#panel-forecast .readout').textContent",
                   lambda text: "truth 9" in text and "forecast 1" in text)
        page.until("document.querySelector('#forecast-column').value", lambda column: column == "1")
        page.until(f"{score}.hidden")  # these steps have none
        page.until(commands, lambda texts: texts == [f"runnel-ctl {word} --at @{START + 60 * 40:.0f} pump"
                                                     for word in ("normal", "abnormal")])
        address = f"api/forecasts?{first}&stream=pump&column=1&points=10&around={at[40]}"
        assert web.get(address)["example"] == [at[i] for i in range(35, 45)], web.get(address)
        assert web.get(address.replace(f"={at[40]}", f"={at[1]}"))["example"] == [at[i] for i in range(6)]
        newest = "document.querySelector('#forecast-newest')"
        page.until(f"!{newest}.hidden")
        page.run(f"{newest}.click()")
        page.until(summary, lambda text: "contains 199 of 200" in text)
        page.until(f"{newest}.hidden")
        page.until("document.querySelector('#verdict').hidden")
        click_anomaly(page, 0)
        page.until(summary, lambda text: "contains 20 of 20" in text or "contains 19 of 19" in text)
        page.until("document.querySelector('#verdict').hidden")  # it has no name
        check_console(page, web)

    try:
        with Web(directory, daemon.endpoint) as web, Page(directory) as page:
            daemon.await_predictions()  # of runnel-record
            daemon.status(predictions=True)
            daemon.await_predictions()
            page.driver.get(web.url)
            speak()
            look(page, web, "ahead=0&daemon=0")
            daemon.anomaly(3, "pump", START, [(0, 9.0, 1.0, 2.0)])  # older than the history
            page.until(ABNORMAL, lambda rows: len(rows) == 4)
            click_anomaly(page, 0)
            page.until("document.querySelector('#panel-forecast .empty').textContent", lambda text:
                       text == "example 3 not found: it is older than the steps in memory and in the history")
            daemon.anomaly(daemon.examples, "tank", None, [(0, 2.5, 5.0, 5.5)])
            page.until(ABNORMAL, lambda rows: rows[0] == ["tank", "novelty 2.5, column 0: 5.5, forecast 5"])
            web.until("api/anomalies?run=1&stream=tank", lambda answer: len(answer["anomalies"]) == 2)
            found = web.get("api/anomalies?run=1&points=1")["anomalies"]
            assert found[0] | {"event": 0, "steps": 0, "time": 0} == {
                "event": 0, "stream": "tank", "reason": "novelty", "column": 0, "examples": daemon.examples,
                "steps": 0, "time": 0, "data_time": None, "score": 2.5, "threshold": 1.5, "column_score": 2.5,
                "forecast": 5, "truth": 5.5, "note": None}, found
            for path, expected in [("run=99", 200), ("run=0", 400), ("", 400), ("run=1&points=0", 400)]:
                assert web.open(f"api/anomalies?{path}")[0] == expected, path
            wait_for_anomalies(f"{directory}/runs.db", 5)
            recorder.terminate()
            assert recorder.wait(LIMIT) == 0
        with sqlite3.connect(f"{directory}/runs.db") as file:  # the last two are only in the list
            file.execute("DELETE FROM anomalies WHERE event IN (SELECT DISTINCT event FROM anomalies ORDER BY event DESC LIMIT 2)")
        with Web(directory, recording=f"{directory}/runs.db") as web, Page(directory) as page:
            page.driver.get(web.url)
            look(page, web, "ahead=1&run=1")
            assert web.end() == 0
    finally:
        if recorder.poll() is None:
            recorder.terminate()
            recorder.wait(LIMIT)


def test_incidents(directory):
    """The chart shades the incidents of its stream and the list hides their alarms, also after a reload of the
    page and a restart of the daemon."""
    daemon, minute = Daemon(directory), [START + 60 * i for i in range(120)]

    def look(page, ends):
        page.until("document.querySelector('#panel-anomalies')")
        page.run("document.querySelector('#panel-forecast').scrollIntoView({block: 'center'})")
        page.until(f"{PANEL}.plot?.chart.spans.map(({{ from, to, silenced }}) => [from, to, silenced])",
                   lambda spans: spans == [[minute[40], minute[60], False], [minute[70], minute[80], True],
                                           [minute[90], ends and minute[ends], False]])

    with Web(directory, daemon.endpoint) as web, Page(directory) as page:
        daemon.status(predictions=True)
        daemon.await_predictions()
        page.driver.get(web.url)
        daemon.status(predictions=True)
        for i in range(100):
            daemon.predict([5.0, 1.0], [5.5, 1.5], stream="pump", data_time=minute[i])
        for of in [(40,), (40, 60), (70,), (70, 80), (90,)]:
            daemon.incident(minute, *of, silenced=70 in of)
        for i in 40, 45, 65:
            daemon.anomaly(i + 1, "pump", minute[i], [(1, 2.5, 1.0, 9.0)], note="oil is hot" if i == 40 else None)
        look(page, None)
        page.driver.refresh()
        look(page, None)
        alarm, known = ["pump", "novelty 2.5, column 1: 9, forecast 1"], ["pump", "oil is hot"]
        newer = [alarm, ["pump", "level 2.5, oil 75.0%"], ["pump", "level 2.5, 10 min, oil 75.0%, silenced"]]
        page.until(ABNORMAL, lambda rows: rows == [*newer, known])
        click_anomaly(page, 3)
        page.until(ABNORMAL, lambda rows: rows == [*newer, known, alarm, known])
        daemon.learn(0.5)
        daemon.close()
        daemon.open("00000000000000bb")
        daemon.await_subscriber()
        daemon.status(predictions=True, resumed="/state/checkpoint")
        daemon.learn(0.5)
        daemon.incident(minute, 90, 110)
        look(page, 110)
        check_console(page, web)


def test_recorded_forecasts(directory):
    """Shows the predictions of a recording like those of a daemon."""
    daemon = Daemon(directory)
    recorder = subprocess.Popen([RECORD, "-c", daemon.endpoint, "-o", f"{directory}/runs.db"],
                                stderr=subprocess.DEVNULL)
    try:
        daemon.await_predictions()
        daemon.status(predictions=True)
        for i in range(40):
            daemon.predict([5.0, 1.0], [5.5, 1.5 if i % 4 else 9.0], stream="pump", data_time=START + 60 * i,
                           fan={0.05: -3, 0.5: 0, 0.95: 3})
        daemon.learn(0.5, columns=[{"rmse": 1.5, "mae": 1.25, "skill": -0.5}, {"rmse": 7, "mae": 6, "skill": 0.25}],
                     experts={"ar12": {"mean": 0.5, "weight": 0.625}})
        with Web(directory, recording=f"{directory}/runs.db") as web, Page(directory) as page:
            web.until("api/forecasts?run=1", lambda answer: [one["steps"] for one in answer["series"]] == [40])
            recorded = web.get("api/forecasts?run=1&stream=pump&ahead=1&column=1&points=2")
            assert recorded["target"] == [1.5, 1.5] and recorded["levels"] == [0.05, 0.5, 0.95], recorded
            assert recorded["quantiles"] == [[-2, -2], [1, 1], [4, 4]], recorded
            see_forecasts(page, web)
            choose_soon(page, "column", 1)
            page.until("document.querySelector('#forecast-summary').textContent", lambda text: "contains 30 of 40" in text)
            page.until(f"{PANEL}.plot.axis", lambda axis: axis == "time")
            page.until(f"{PANEL}.shown[1].fan.map(({{ low }}) => low[1])", lambda lows: lows == [-2])
            for panel, expected in [("columns", [["0", "1.5", "1.25", "−50.0%"], ["1", "7", "6", "+25.0%"]]),
                                    ("experts", [["ar12", "0.5", "62.5%"]])]:
                page.until(f"[...document.querySelectorAll('#panel-{panel} tbody tr')]"
                           ".map((row) => [...row.children].map((cell) => cell.textContent))",
                           lambda rows: rows == expected)
            for path, expected in [("run=1&stream=none", 404), ("run=0", 400), ("stream=pump", 400), ("run=x", 400)]:
                assert web.open(f"api/forecasts?{path}")[0] == expected, path
            check_console(page, web)
            assert web.end() == 0
    finally:
        recorder.terminate()
        recorder.wait(LIMIT)


# ---- Figures ----

def processor_seconds(process):
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rsplit(")")[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"^VmHWM:\s*(\d+)", status, re.MULTILINE)[1]) / 1024


def first_chart(page, web):
    """Milliseconds from opening the page to its first chart with data."""
    page.driver.get("about:blank")
    page.driver.get(web.url)
    return page.until("window.runnel?.drawing.firstChart")


FRAMES = """
const done = arguments[arguments.length - 1], times = [], all = runnel.bounds(), span = all[1] - all[0];
let last = null, i = 0;
function frame(now) {
  if (last !== null) times.push(now - last);
  last = now;
  if (i++ >= 120) return done(times);
  runnel.setRange(all[0] + span * 0.3 * (i / 120), all[1] - span * 0.3 * (i / 120));
  requestAnimationFrame(frame);
}
requestAnimationFrame(frame);"""

DELAYS = """
const done = arguments[arguments.length - 1], delays = [];
let newest = 0;
function look() {
  const series = runnel.store.get(arguments_run, "loss"), line = runnel.panels[0].shown.find((l) =>
    l.run.id === arguments_run);
  const drawn = line?.data.length ? series.time[line.data.length - 1] : 0;
  if (drawn > newest) { if (newest) delays.push(Date.now() - 1000 * drawn); newest = drawn; }
  if (delays.length >= 100) return done(delays);
  requestAnimationFrame(look);
}
look();"""


def test_figures(directory):
    """A day at 1 Hz and 100,000 points of one run, then four daemons at 10 messages a second."""
    daemons = [Daemon(directory, f"d{i}", run=f"{i:016x}") for i in range(4)]
    stop = threading.Event()
    with Web(directory, *(daemon.endpoint for daemon in daemons)) as web:
        for daemon in daemons:
            daemon.await_subscriber()
            daemon.status()
        begun = time.monotonic()
        for burst in range(100):
            for _ in range(1000):
                daemons[0].learn(1 + 1 / (1 + daemons[0].examples / 10000))
            web.until("api/daemons", lambda answer: answer["daemons"][0]["loss"]
                      and answer["daemons"][0]["loss"]["examples"] == daemons[0].examples)
        print(f"100,000 messages of loss and state processed in {time.monotonic() - begun:.1f} s")
        ids = {run["name"]: run["id"] for run in web.get("api/runs")["runs"]}
        begun = time.monotonic()
        day = web.get(f"api/series?run={ids['d0']}&axis=time&from={START}&to={START + 86400}")
        print(f"a day at 1 Hz as {len(day['time'])} points: {1000 * (time.monotonic() - begun):.0f} ms")
        with Page(directory) as page:
            opened = [first_chart(page, web) for _ in range(5)]
            print(f"first chart after {statistics.median(opened):.0f} ms (median of 5, of 100,000 points)")
            page.driver.set_script_timeout(LIMIT)
            frames = page.driver.execute_async_script(FRAMES)
            print(f"frames while zooming over 100,000 points: median {statistics.median(frames):.1f} ms, "
                  f"95% {statistics.quantiles(frames, n=20)[-1]:.1f} ms")

            def speak(daemon):
                while not stop.wait(0.1):
                    daemon.learn(1.0, time=time.time())
            for daemon in daemons:
                daemon.kind = threading.Thread(target=speak, args=[daemon])
                daemon.kind.start()
            run = next(r["id"] for r in web.until("api/runs", lambda answer: len(answer["runs"]) == 4)["runs"]
                       if r["name"] == "d1")
            page.driver.get(web.url)
            page.until("runnel.panels?.[0]?.shown?.length === 4")
            before, begun = processor_seconds(web.process), time.monotonic()
            delays = page.driver.execute_async_script(DELAYS.replace("arguments_run", str(run)))
            time.sleep(20)
            used = (processor_seconds(web.process) - before) / (time.monotonic() - begun)
            print(f"message to screen: median {statistics.median(delays):.0f} ms, "
                  f"95% {statistics.quantiles(delays, n=20)[-1]:.0f} ms")
            print(f"four daemons at 10 messages of loss and of state a second, one page open: "
                  f"{100 * used:.1f}% of a core, {memory_mb(web.process):.0f} MB at most")
            stop.set()
            for daemon in daemons:
                daemon.kind.join()


run_tests([test_figures] if "test_figures" in sys.argv else [
    test_page_in_a_browser, test_wild_values, test_smoothing_looks_back_only, test_card_without_a_loss,
    test_old_counts_are_grey, test_cards, test_recording_alone,
    test_many_runs, test_settings, test_fleet, test_fleets, test_members, test_forecasts,
    test_distributions, test_anomalies, test_incidents, test_recorded_forecasts])
