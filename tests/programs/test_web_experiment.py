#!/usr/bin/python3
"""Tests the results of an experiment in runnel-web. /api/experiment contains the data of the file, also while
it is written, and invalid files are rejected. In Chromium: sorting, filters, groups, charts with mean and
band over seeds, and the comparison of two configurations."""
import contextlib
import functools
import math
import pathlib
import sqlite3
import statistics
import subprocess
import tempfile

import experiment_results as results
from web_browser import ActionChains, By, Page, rgb
from web_testing import LIMIT, PROGRAM, Daemon, Live, Web, run_tests

DATA, NO_INPUT, USAGE = 65, 66, 64
FIGURES = ["mean", "recent", "baseline", "baseline_recent", "skill", "skill_recent", "rmse", "mae", "accuracy", "bits",
           "crps", "crps_skill"]
VARIANTS = results.grid(rate=["1e-3", "1e-4"], norm=["layer", "none"])
LINES = "runnel.chart().lines.filter((line) => line.group)"


def make(directory, *arguments, **options):
    return results.make(pathlib.Path(directory, "demo.experiment"), *(arguments or [VARIANTS]), **options)


@contextlib.contextmanager
def database(path):
    """Changes are committed at the end."""
    file = sqlite3.connect(path / "results.sqlite", timeout=LIMIT)
    file.row_factory = sqlite3.Row
    with contextlib.closing(file), file:
        yield file


# ---- API ----

def test_api(directory):
    path = make(directory, states={(0, 0, 2): "nonfinite", (1, 0, 1): "failed", (3, 0, 3): "waiting"})
    with Web(directory, results=str(path)) as web:
        about = web.get("api/experiment")
        assert about["name"] == "demo" and about["device"] == "cpu" and about["measure"] is None, about
        assert (about["total"], about["over"], about["nonfinite"], about["failed"]) == (12, 11, 1, 1)
        assert [one["name"] for one in about["measures"]] == FIGURES
        assert [[s["key"], s["short"], s["value"]] for s in about["variants"][2]["settings"]] == [
            ["learning.optimizer.rate", "rate", "1e-4"], ["model.layers.N.norm", "norm", "layer"]]
        assert about["streams"][0]["command"] == "runnel-feed csv waves.csv"
        with database(path) as file:
            for run, row in zip(about["runs"], file.execute("SELECT * FROM runs ORDER BY variant, stream, seed")):
                for key in ["run", "variant", "stream", "seed", "state", "error"]:
                    assert run[key] == row[key], (key, run)
                for key in [*FIGURES, "seconds", "examples", "updates", "started"]:
                    assert run.get(key) == dict(row).get(key), (key, run)
            points = [dict(row) for row in file.execute("SELECT * FROM curves WHERE run = 2 ORDER BY point")]
        curve, other = web.get("api/experiment/curves?runs=2,5")["curves"]
        assert curve["run"] == 2 and other["run"] == 5 and None in curve["mean"]
        for key in ["examples", "scored", "mean", "baseline", "gradient_norm", "update_ratio", "weight_norm"]:
            for value, point in zip(curve[key], points, strict=True):
                assert value == point[key] or math.isclose(value, point[key], rel_tol=1e-5), (key, value, point[key])
        run = web.get("api/experiment/run?run=5")
        assert run["configuration"] == "name: x\nseed: 2\n" and run["digest"] == f"{1:016x}" and run["columns"] == []
        for question, status in [("run?run=99", 404), ("run?run=x", 400), ("run", 400), ("curves?runs=2,99", 404),
                                 ("curves?runs=", 400), ("curves?runs=1,,2", 400), ("curves?runs=1;2", 400),
                                 ("curves?runs=" + ",".join(["1"] * 101), 400), ("nothing", 404)]:
            assert web.open(f"api/experiment/{question}")[0] == status, question
        assert web.open("api/runs")[0] == 404 and web.open("metrics")[0] == 200
        assert b"runnel: experiment" in web.open("")[2]
        assert web.end() == 0


def test_follows(directory):
    """The file is being written in WAL mode, and then replaced."""
    path = make(directory, states={(3, 0, 3): "waiting"})
    writer = sqlite3.connect(path / "results.sqlite")
    with contextlib.closing(writer):
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE experiment SET value = 'later' WHERE key = 'name'")
        writer.commit()
        assert pathlib.Path(path, "results.sqlite-wal").stat().st_size > 0
        with Web(directory, results=str(path / "results.sqlite")) as web:
            live = Live(web)
            about = web.get("api/experiment")
            assert (about["name"], about["over"]) == ("later", 11), about
            writer.execute("UPDATE runs SET state = 'done', mean = 0.125 WHERE state = 'waiting'")
            writer.commit()
            live.until("experiment", lambda data: data["revision"] > about["revision"])
            about = web.get("api/experiment")
            assert about["over"] == 12 and about["runs"][-1]["mean"] == 0.125, about["runs"][-1]
            writer.close()
            path.rename(f"{path}.old")  # another file in its place
            make(directory, VARIANTS[:2])
            web.until("api/experiment", lambda answer: answer["total"] == 6)
            live.close()
            assert web.end() == 0


def refused(*arguments):
    """(exit status, output) of a call that ends at once."""
    done = subprocess.run([PROGRAM, "--listen", "127.0.0.1:0", *arguments], capture_output=True, text=True, timeout=LIMIT,
                          check=False)
    assert done.stdout == "" and done.stderr.startswith("runnel-web: ") and done.stderr.count("\n") <= 2, done
    return done.returncode, done.stderr


def test_refusals(directory):
    good = make(directory) / "results.sqlite"
    for name, change in [("zeros", lambda old: old[:4096] + bytes(len(old) - 4096)),
                         ("noise", lambda old: b"no database" * 1000), ("empty", lambda old: b"")]:
        path = pathlib.Path(directory, name)
        path.write_bytes(change(good.read_bytes()))
        status, output = refused(path)
        assert status == DATA and str(path) in output, (name, status, output)
    other = pathlib.Path(directory, "other")
    with contextlib.closing(sqlite3.connect(other)) as file:
        file.execute("PRAGMA application_id = 77")
        file.execute("CREATE TABLE runs (run INTEGER)")
    assert refused(other)[0] == DATA
    status, output = refused(f"{directory}/nowhere")
    assert status == NO_INPUT and "nowhere" in output, output
    assert refused(directory)[0] == NO_INPUT  # a directory without results
    for option in ["-c", "ipc:///tmp/none"], ["-r", "recording"], ["-H", "history"]:
        assert refused(good, *option)[0] == USAGE, option
    assert refused(good, good)[0] == USAGE


def make_endless(file, table):
    """A view with endless rows in place of a table."""
    columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
    file.execute(f"DROP TABLE {table}")
    file.execute(f"CREATE VIEW {table} ({', '.join(columns)}) AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1"
                 f" FROM n) SELECT {', '.join(['i'] * len(columns))} FROM n")


def test_crafted(directory):
    """Malicious files: an endless view is rejected; too long lists, NULL names and numbers out of range are
    read within limits."""
    for table in ["runs", "experiment", "settings"]:
        path = results.make(f"{directory}/{table}", VARIANTS)
        with database(path) as file:
            make_endless(file, table)
        status, output = refused(str(path))
        assert status == DATA and str(path) in output, (status, output)
    path = results.make(f"{directory}/odd", VARIANTS)
    with database(path) as file:
        file.execute("UPDATE experiment SET value = ? WHERE key = 'seeds'", (" 1" * 100000,))
        file.execute("UPDATE experiment SET value = '1e999' WHERE key IN ('recent', 'points', 'total')")
        file.execute("DROP TABLE variants")
        file.execute("CREATE TABLE variants (variant INTEGER, name TEXT)")
        file.execute("INSERT INTO variants VALUES (-1, NULL), (NULL, NULL)")
        file.execute("DROP TABLE settings")
        file.execute("CREATE TABLE settings (variant INTEGER, key TEXT, short TEXT, value TEXT)")
        file.execute("INSERT INTO settings VALUES (-1, NULL, '', NULL), (-1, '', '', ''), (0, NULL, NULL, NULL)")
    with Web(directory, results=str(path)) as web:
        assert web.get("api/experiment")["variants"][0]["name"] == ""
        assert web.end() == 0
    done = subprocess.run([PROGRAM.with_name("runnel-experiment"), "--html", "-", path], capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    assert done.returncode in (0, DATA), done


def test_without_an_experiment(directory):
    daemon = Daemon(directory)
    with Web(directory, daemon.endpoint) as web:
        assert web.open("api/experiment")[0] == 404
        assert web.end() == 0


# ---- Page ----

def cells(page, row=None):
    """The texts of the rows, or of one row, without the first cell."""
    rows = page.value("[...document.querySelectorAll('#results-body tr')].map((row) =>"
                      " [...row.cells].slice(1).map((cell) => cell.textContent))")
    return rows if row is None else rows[row]


def heads(page):
    return page.value("[...document.querySelectorAll('#results-head button')].map((one) => one.textContent)")


def column(page, title):
    place = heads(page).index(title)
    return [row[place] for row in cells(page)]


def click(page, selector, title):
    page.run(f"[...document.querySelectorAll('{selector}')].find((one) => one.textContent === '{title}').click()")


def filter_by(page, text):
    page.run(f"const box = document.querySelector('#filter'); box.value = {text!r}; box.dispatchEvent(new Event('input'))")


def choose(page, *rows):
    for row in rows:
        page.run(f"document.querySelectorAll('#results-body tr')[{row}].click()")


BROWSER = contextlib.ExitStack()


@functools.cache
def browser():
    """Shared by all tests; each opens another address."""
    return BROWSER.enter_context(Page(BROWSER.enter_context(tempfile.TemporaryDirectory())))


@contextlib.contextmanager
def opened(directory, path, shows="runnel.chart()?.lines.length"):
    with Web(directory, results=str(path)) as web:
        page = browser()
        page.driver.get(web.url)
        page.until(shows)
        page.until("runnel.experiment.fetching.size", lambda count: count == 0)
        yield page
        page.no_errors()
        page.driver.get("about:blank")
        assert web.end() == 0


def test_table(directory):
    """Sorts, filters and groups rows."""
    path = make(directory, states={(0, 0, 2): "nonfinite", (1, 0, 1): "failed", (3, 0, 3): "waiting"})
    with database(path) as file:
        file.execute("UPDATE runs SET mae = 0.1")
    with opened(directory, path) as page:
        assert heads(page) == ["rate", "norm", "runs", "skill", "loss", "recent loss", "baseline", "recent skill", "rmse",
                               "mae", "seconds"]
        assert column(page, "rate") == ["1e-3", "1e-3", "1e-4", "1e-4"] # best skill first
        assert column(page, "runs") == ["2 done, 1 not finite", "1 failed, 2 done", "3 done", "2 done, 1 waiting"]
        done = [results.loss(2, seed) for seed in (1, 2, 3)]
        mean, deviation = map(float, column(page, "loss")[2].split(" ±"))
        assert math.isclose(mean, statistics.mean(done), rel_tol=1e-3)
        assert math.isclose(deviation, statistics.stdev(done), rel_tol=0.06)
        assert column(page, "mae")[2] == "0.1"  # no deviation, although 0.1 + 0.1 + 0.1 is not 0.3
        done = [results.loss(0, seed) for seed in (1, 3)]  # a nonfinite loss does not count
        assert math.isclose(float(column(page, "loss")[0].split(" ±")[0]), statistics.mean(done), rel_tol=1e-3)
        click(page, "#results-head button", "loss")
        assert column(page, "rate")[0] == "1e-3" and page.value(
            "document.querySelector('[aria-sort=ascending]').textContent") == "loss"
        click(page, "#results-head button", "loss")
        assert column(page, "norm") == ["none", "layer", "none", "layer"]
        click(page, "#results-head button", "rate")
        assert column(page, "rate") == ["1e-4", "1e-4", "1e-3", "1e-3"] # as numbers
        click(page, "#groups button", "variant")
        click(page, "#groups button", "norm")
        assert sorted(column(page, "norm")) == ["layer", "none"] and "rate" not in heads(page)
        assert page.text("#count") == "12 runs in 2 groups"
        click(page, "#groups button", "norm")
        assert len(cells(page)) == 12 and heads(page)[:4] == ["run", "rate", "norm", "seed"]
        for text, count in [("norm=layer", 6), ("norm=layer rate<=1e-4", 3), ("rate>1e-4", 6), ("seed!=2 state=done", 6),
                            ("state=\"not finite\"", 1), ("skill>0.45 skill<0.5", None), ("1e-4 NONE", 3), ("norm=l*r", 6),
                            ("learning.optimizer.rate=0.001", 6), ("mean>100", 0), ("", 12)]:
            filter_by(page, text)
            if count is None:
                count = sum(0.45 < 1 - results.loss(v, s) / 0.5 < 0.5 for v in range(4) for s in (1, 2, 3)
                            if (v, s) != (3, 3))
            page.until("document.querySelectorAll('#results-body tr').length", lambda now, count=count: now == count)
            assert page.text("#problem") == ""
        filter_by(page, "nonsense>3")
        page.until("document.querySelector('#problem').textContent", lambda text: "nonsense" in text and "norm" in text)
        filter_by(page, "norm=layer")
        page.until("location.hash", lambda text: "filter=norm" in text)
        page.driver.refresh()
        page.until("document.querySelectorAll('#results-body tr').length", lambda count: count == 6)


def test_best_is_marked_where_it_differs(directory):
    """Significance as in the report, from the adjusted paired test with each other variant; the first is
    mean[0]."""
    def marked(name, means, spread, seeds=(1, 2, 3, 4, 5)):
        path = results.make(pathlib.Path(directory, name), VARIANTS[:len(means)], seeds=seeds,
                            change=lambda variant, seed: means[variant] + spread * results.noise(variant, seed) -
                            results.loss(variant, seed))
        with opened(directory, path) as page:
            row = page.value("[...document.querySelectorAll('#results-body tr')].findIndex((row) => row.querySelector('.best'))")
            return column(page, "skill")[row].split()[0] if row >= 0 else None, page.text("#verdict")
    assert marked("last", [0.3, 0.29, 0.1], 0.001)[0].startswith("0.8")
    skill, verdict = marked("first", [0.1, 0.2, 0.3], 0.001)
    assert skill.startswith("0.8") and verdict == "", (skill, verdict)
    assert marked("chance", [0.3, 0.299, 0.298], 0.05) == (None, "skill: no variant differs from the first (p < 0.05)")
    assert marked("two", [0.3, 0.1, 0.1], 0.001) == (None, "skill: no variant differs from all others (p < 0.05)")
    # the same p as in the report, for any degrees of freedom
    with opened(directory, make(directory)) as page:
        for t, degrees, p in (2, 1, 0.2951672353), (-2, 2, 0.1835034191), (3, 3, 0.0576688856), (2.5, 4, 0.0667665), (
                4.1, 9, 0.0026767):
            found = page.driver.execute_async_script("const end = arguments[2]; import('./experiment_data.js').then("
                                                     "({ student }) => end(student(arguments[0], arguments[1])))", t, degrees)
            assert math.isclose(found, p, rel_tol=1e-3), (t, degrees, found, p)


def test_curves(directory):
    """The chart has mean and band over seeds, smoothing, logarithms, zoom, baseline and legend."""
    path = make(directory)
    with opened(directory, path) as page:
        page.until(f"{LINES}.length", lambda count: count == 4)
        name, mean, low, high = page.value(f"(([l]) => [l.group.name, l.data.map((p) => p.value), l.low, l.high])({LINES})")
        assert name == "rate 1e-3, norm layer" or name == VARIANTS[0][0], name
        for point in range(results.POINTS):
            of = [results.loss(0, seed, point) for seed in (1, 2, 3)]
            middle, wide = statistics.mean(of), statistics.stdev(of)
            for number, expected in [(mean[point], middle), (low[point], middle - wide), (high[point], middle + wide)]:
                assert math.isclose(number, expected, rel_tol=1e-4), (point, number, expected)
        assert page.value("runnel.chart().lines.at(-1).borderDash.length") == 2 # the baseline
        assert page.value("runnel.chart().lines.at(-1).data.every((point) => point.value === 0.5)")
        page.until_colored(rgb(page.value(f"{LINES}[0].color")), "curves")
        look_back(page, path)
        measured_now_and_then(page, path)
        for box, axis in ("log", "y"), ("log-x", "x"):
            page.run(f"document.querySelector('#{box}').click()")
            page.until(f"runnel.chart().plot.chart.scales.{axis}.type", lambda kind: kind == "logarithmic")
        labels = page.value("runnel.chart().plot.chart.scales.x.ticks.map((tick) => tick.value)")
        assert 100 in labels and 1000 in labels, labels
        page.run("for (const box of ['log', 'log-x']) document.querySelector('#' + box).click()")
        zoom(page)
        plot, legend = page.value("['.plot', '#curves-legend'].map((one) => document.querySelector(one)"
                                  ".getBoundingClientRect().toJSON())")
        assert plot["bottom"] <= legend["top"] and "baseline" in page.text("#curves-legend")


def look_back(page, path):
    """Later values do not move points of a smoothed curve."""
    page.run("const slider = document.querySelector('#smooth'); slider.value = 20; slider.dispatchEvent(new Event('input'))")
    page.until("runnel.view.smooth", lambda share: share == 0.2)
    points = f"{LINES}.find((line) => line.group.runs[0].variant === 0).data.map((point) => point.value)"
    raw = [statistics.mean(results.loss(0, seed, point) for seed in (1, 2, 3)) for point in range(results.POINTS)]
    before = page.until(points, lambda values: abs(values[-1] - raw[-1]) > 1e-4)
    assert math.isclose(before[0], raw[0], rel_tol=1e-4)  # the first state
    with database(path) as file:  # new runs: the page reads them again
        file.execute("UPDATE curves SET mean = 9 WHERE point >= 30 AND run <= 3")
        file.execute("UPDATE runs SET started = started + 1000")
    after = page.until(points, lambda values: len(values) == len(before) and values[30] != before[30])
    assert after[:30] == before[:30]
    with database(path) as file:
        file.execute("UPDATE curves SET mean = 0.3 WHERE point >= 30 AND run <= 3")
        file.execute("UPDATE runs SET started = started + 1000")
    page.until(points, lambda values: len(values) == len(before) and values[-1] < 1)
    page.run("const slider = document.querySelector('#smooth'); slider.value = 0; slider.dispatchEvent(new Event('input'))")


def measured_now_and_then(page, path):
    """The line between two norms of the weights has no gap."""
    with database(path) as file:
        file.execute("UPDATE curves SET weight_norm = NULL WHERE point % 10")
        file.execute("UPDATE runs SET started = started + 1000")
    choose_figure = "const list = document.querySelector('#column'); list.value = '{}'; list.dispatchEvent(new Event('change'))"
    page.run(choose_figure.format("weight_norm"))
    page.until(f"{LINES}[0].data.map((point) => point.value)", lambda values: values == [10, 11, 12, 13])
    assert page.value("runnel.chart().lines.length") == 4 # no baseline
    page.run(choose_figure.format("mean"))


def zoom(page):
    plot = page.driver.find_element(By.CSS_SELECTOR, "#panel-curves .plot")
    page.run("document.querySelector('#panel-curves').scrollIntoView()")
    width = plot.size["width"]
    ActionChains(page.driver).move_to_element_with_offset(plot, 0, 0).click_and_hold() \
        .move_by_offset(int(width * 0.1), 0).release().perform()
    page.until("(({ min, max }) => max - min)(runnel.chart().plot.chart.scales.x)", lambda span: span < 400)
    page.run("document.querySelector('#whole').click()")
    page.until("runnel.chart().plot.chart.scales.x.max", lambda end: end == results.EXAMPLES)


def test_choosing(directory):
    """Selected rows are drawn, and the configurations of two are compared."""
    path = make(directory)
    common = [f"key{i}: {i}" for i in range(20)]
    with database(path) as file:
        for run in range(1, 13):
            lines = [*common[:10], f"rate: {'1e-3' if run <= 6 else '1e-4'}", *common[10:]]
            file.execute("UPDATE runs SET configuration = ? WHERE run = ?", ("\n".join(lines), run))
    text = "document.querySelector('#configuration').textContent"
    with opened(directory, path) as page:
        choose(page, 0)
        page.until(f"{LINES}.length", lambda count: count == 1)
        page.until(text, lambda now: "rate: 1e-3" in now and "key19: 19" in now)
        page.until("document.querySelector('#facts').textContent", lambda now: f"{0:016x}" in now and "1,234" in now)
        choose(page, 3)
        page.until(f"{LINES}.map((line) => line.group.name)", lambda names: names == [VARIANTS[0][0], VARIANTS[3][0]])
        page.until(text, lambda now: "- rate: 1e-3\n+ rate: 1e-4\n" in now and "key9: 9" in now and "key0: 0" not in now)
        choose(page, 0)
        page.until(f"{LINES}.length", lambda count: count == 1)
        page.run("document.querySelector('#none').click()")
        page.until(f"{LINES}.length", lambda count: count == 4)


def test_while_it_runs(directory):
    """Progress, rows and curves are updated, and the best row is first."""
    waiting = {(variant, 0, seed): "waiting" for variant in range(4) for seed in (1, 2, 3)}
    path = make(directory, states=waiting)
    over = "document.querySelector('#over-text').textContent"
    with opened(directory, path, f"{over}.startsWith('0 of 12 runs')") as page:
        page.until("document.querySelector('#panel-curves .empty')?.textContent", lambda text: "no finished run" in text)
        assert column(page, "runs") == ["3 waiting"] * 4
        for run, skill in (1, 0.25), (7, 0.5):
            with database(path) as file:
                file.execute("UPDATE runs SET state = 'done', mean = 0.25, baseline = 0.5, skill = ?, started = 1"
                             " WHERE run = ?", (skill, run))
                file.executemany(f"INSERT INTO curves VALUES ({run}, ?, ?, 50, 0.25, 0.5, 1, 1, 1)",
                                 [(point, 50 * (point + 1)) for point in range(results.POINTS)])
        page.until(over, lambda text: text.startswith("2 of 12 runs"))
        page.until(f"{LINES}.length", lambda count: count == 2)
        assert column(page, "skill") == ["0.5", "0.25", "–", "–"]
        with database(path) as file:
            file.execute("UPDATE runs SET state = 'failed', error = 'the disk was full' WHERE run = 12")
        page.until(over, lambda text: text.startswith("3 of 12 runs · 1 failed"))
        page.until("document.querySelector('#results .bad')?.title", lambda text: text == "run 12: the disk was full")


def test_many(directory):
    """Five hundred runs in light and dark mode: the first twenty groups are drawn in different colours."""
    variants = results.grid(rate=[f"{i}e-4" for i in range(1, 11)], norm=["layer", "none"], size=list(range(8, 13)))
    path = make(directory, variants, seeds=range(1, 6))
    with opened(directory, path) as page:
        assert page.text("#count") == "500 runs in 100 groups"
        for _ in range(2):
            page.until(f"{LINES}.length", lambda count: count == 20)
            assert len(set(page.value(f"{LINES}.map((line) => line.color)"))) == 20
            page.until_colored(rgb(page.value(f"{LINES}[19].color")), "curves")
            page.keys("d")
        for key in "variant", "rate":
            click(page, "#groups button", key)
        page.until(f"{LINES}.length", lambda count: count == 10)
        assert column(page, "runs") == ["50 done"] * 10
        click(page, "#groups button", "rate")
        page.until("document.querySelectorAll('#results-body tr').length", lambda count: count == 500)


def test_streams(directory):
    """The losses of several streams have no common mean: the first stream is shown, and others can be
    selected."""
    path = make(directory, streams=("waves", "text"))
    with opened(directory, path) as page:
        assert page.text("#count") == "12 of 24 runs in 4 groups"
        page.run("const list = document.querySelector('#stream'); list.value = ''; list.dispatchEvent(new Event('change'))")
        page.until("document.querySelector('#count').textContent", lambda text: text == "24 runs in 8 groups")
        for key in "variant", "norm":
            click(page, "#groups button", key)
        assert sorted(zip(column(page, "norm"), column(page, "stream"))) == [
            ("layer", "text"), ("layer", "waves"), ("none", "text"), ("none", "waves")]


with BROWSER:
    browser()  # before the cases: processes of a case end with it
    run_tests([test_api, test_follows, test_refusals, test_crafted, test_without_an_experiment, test_table,
               test_best_is_marked_where_it_differs, test_curves, test_choosing,
               test_while_it_runs, test_many, test_streams])
