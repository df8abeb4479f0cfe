#!/usr/bin/python3
"""Tests runnel-web with simulated daemons: pages, JSON, server-sent events, metrics, history, access control,
and malicious clients."""
import contextlib
import http.client
import importlib.util
import json
import math
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import subprocess
import time

import cases
from web_testing import LIMIT, PROGRAM, START, Daemon, Live, Web, readable, run_tests

SOURCE = pathlib.Path(os.environ.get("srcdir", "."))
BUILD = pathlib.Path(os.environ.get("builddir", "."))
USAGE, UNAVAILABLE, IO = 64, 69, 74
IDLE = 500
HEAD_SECONDS = 5  # limit of runnel-web for the arrival of a request
GROWTH_KIB = 24 << 10  # limit for 500 connections


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=LIMIT,
                          check=False)


def start(directory, *arguments):
    """A daemon whose messages have arrived at the program, and the program."""
    daemon = Daemon(directory)
    web = Web(directory, daemon.endpoint, arguments=arguments)
    daemon.await_subscriber()
    daemon.status()
    return daemon, web


def test_page(directory):
    """Every file that the page contains is served with its type, and no file is external."""
    daemon, web = start(directory)
    with web:
        status, headers, body = web.open("/")
        page = body.decode()
        assert status == 200 and headers["Content-Type"].startswith("text/html")
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy
        assert "unsafe" not in policy and headers["X-Content-Type-Options"] == "nosniff"
        # the rest of it is tested in test_web_experiment.py
        page += web.open("experiment")[2].decode()
        names = set(re.findall(r'(?:src|href)="([^"#]+)"', page)) - {"api/daemons", "api/experiment", "metrics"}
        types = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
        asked = set()
        while names - asked:
            name = (names - asked).pop()
            asked.add(name)
            status, headers, body = web.open(name)
            assert status == 200 and body, name
            assert headers["Content-Type"].startswith(types[pathlib.Path(name).suffix]), name
            if name != "chart.js":
                text = body.decode()
                names |= {found[2:] for found in re.findall(r'from "(\./[^"]+)"', text)}
                assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), name
        assert {"app.js", "data.js", "draw.js", "chart.js", "style.css"} <= asked, asked
        own = {path.name for path in (SOURCE / "tools/web/page").iterdir()} - {"index.html", "experiment.html"}
        assert own <= asked, own - asked
        for name in "", "app.js", "chart.js":  # not sent again to a client that has it
            _, headers, body = web.open(name)
            status, _, copy = web.open(name, **{"If-None-Match": headers["ETag"]})
            assert status == 304 and not copy, name
            assert web.open(name, **{"If-None-Match": '"another"'})[2] == body, name
        assert web.end() == 0


def test_options(directory):
    for arguments, word in [
            (["--listen", "0.0.0.0:0"], "--token"), (["--listen", "nonsense"], "ADDRESS:PORT"),
            (["--listen", "127.0.0.1:99999999"], "ADDRESS:PORT"),
            (["--listen", "127.0.0.1:65536"], "ADDRESS:PORT"), (["x", "y"], "unexpected argument"),
            (["-c", "ipc:///tmp/a", "-c", "ipc:///tmp/a"], "duplicate value"), (["-c", "nonsense"], "endpoint")]:
        ended = run(*arguments, "--history", f"{directory}/h")
        assert ended.returncode == USAGE and word in ended.stderr, (arguments, ended)
    token = pathlib.Path(directory, "token")
    for text, mode, word in [("short\n", 0o600, "openssl"), ("0123456789abcdef\n", 0o644, "chmod"),
                             ("0123456789abcde\"\n", 0o600, "openssl"), ("a" * 129, 0o600, "openssl"),
                             ("a" * 129 + "\n", 0o600, "openssl"), ("", 0o600, "openssl")]:
        token.write_text(text, encoding="ascii")
        token.chmod(mode)
        ended = run("--token", token, "--history", f"{directory}/h", "--listen", "127.0.0.1:0")
        assert ended.returncode == USAGE and word in ended.stderr, (text, ended)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = run("--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--history", f"{directory}/h")
        assert ended.returncode == UNAVAILABLE and "--listen" in ended.stderr, ended
    for other in ["--connect", "ipc:///tmp/a"], ["--history", f"{directory}/h"]:
        ended = run("--recording", f"{directory}/r", *other)
        assert ended.returncode == USAGE and "-r" in ended.stderr, ended
    ended = run("--recording", f"{directory}/r", "--listen", "127.0.0.1:0")
    assert ended.returncode == IO and f"{directory}/r" in ended.stderr, ended
    no_history = pathlib.Path(directory, "none")
    no_history.write_text("this is no recording, but more than a few bytes of text" * 100)
    ended = run("--history", no_history, "--listen", "127.0.0.1:0")
    assert ended.returncode == IO and "none" in ended.stderr, ended


def test_api(directory):
    daemon, web = start(directory)
    with web:
        for i in range(100):
            daemon.learn(None if i == 50 else 1 + i / 100)
        daemon.event("checkpoint", "checkpoint of 1000 examples")
        web.until("api/events?run=1", lambda answer: any(
            event["kind"] == "checkpoint" for event in answer["events"]))  # the newest one
        whole = web.series(100)
        assert whole["examples"] == [10 * (i + 1) for i in range(100)]
        assert whole["steps"][-1] == 2000 and whole["time"][0] == START + 1
        mean = whole["columns"]["mean"]["mean"]
        assert mean[50] is None and mean[51] == 1.51 and set(whole["messages"]) == {1}
        assert whole["columns"]["metric_rmse"]["mean"][0] == 1
        coarse = web.get("api/series?run=1&points=10&columns=mean,minimum,maximum")
        assert set(coarse["columns"]) == {"mean", "minimum", "maximum"}
        assert 5 <= len(coarse["time"]) <= 10 and sum(coarse["messages"]) == 100
        column = coarse["columns"]
        assert sum(column["mean"]["missing"]) == 1
        assert min(column["minimum"]["minimum"]) == 0.5 and max(column["maximum"]["maximum"]) == 3.98
        part = web.get(f"api/series?run=1&axis=time&from={START + 20}&to={START + 29}")
        assert part["examples"] == list(range(200, 300, 10)), part["examples"]
        layer = web.get("api/series?run=1&layer=0&axis=steps&from=100&to=200")
        assert layer["columns"]["hidden_std"]["mean"][0] == 0.4
        assert layer["histogram"][0] == [0] * 5 + [32] + [0] * 14, layer["histogram"][0]
        run_known, = web.get("api/runs")["runs"]
        assert run_known["name"] == "waves" and run_known["layers"] == [{"kind": "gru", "size": 32}]
        event, = [e for e in web.get("api/events?run=1")["events"] if e["kind"] == "checkpoint"]
        assert event["examples"] == 1000 and event["text"] == "checkpoint of 1000 examples"
        known, = web.get("api/daemons")["daemons"]
        assert (known["presence"], known["run_id"], known["missed"]) == ("speaking", 1, 0)
        assert known["loss"]["examples"] == known["state"]["examples"] == 1000
        column, = [column for column in web.get("api/columns")["loss"]
                   if column["name"] == "latency_us_p50"]
        assert column.pop("meaning").endswith("learning an example: median of the interval.")
        assert column == {"name": "latency_us_p50", "path": "latency_us.p50", "unit": "us"}
        for path, expected, word in [
                ("run=999", 404, "run 999"), ("run=999&layer=0", 404, "run 999"),
                ("run=1&layer=7", 404, "layer 7"), ("run=1&columns=mean,foo", 400, "foo"),
                ("run=1&columns=histogram", 400, "histogram"),
                ("run=1&columns=" + 64 * "m", 400, "mmm"), ("run=1&layer=0&columns=mean", 400, "mean")]:
            status, _, body = web.open(f"api/series?{path}")
            assert status == expected and word in json.loads(body)["error"], (path, status, body)
        assert "histogram" in web.get("api/series?run=1&layer=0&columns=histogram,hidden_std")
        daemon.learn(0.5, members=["change", "level"])
        web.until("api/runs", lambda answer: answer["runs"][0]["layers"][1:] == [
            {"kind": "gru", "size": 32, "member": "level"}])
        assert web.get("api/series?run=1&layer=1")["columns"]["hidden_norm"]["mean"] == [3.3]
        assert run_known["tags"] is None and run_known["seed"] is None
        # of an older daemon
        assert web.get("api/configuration?run=1") == {"run": 1, "configuration": None}
        settings = {"seed": 7, "learning.optimizer.rate": 0.0003, "model.layers.0.cell": "gru", "tags": {"site": "大阪"}}
        daemon.status(seed=7, tags=settings["tags"], configuration=settings, compatible="fedcba9876543210")
        reported = web.until("api/runs", lambda answer: answer["runs"][0]["tags"])["runs"][0]
        assert reported["tags"] == settings["tags"] and reported["seed"] == 7
        assert reported["compatible"] == "fedcba9876543210"
        assert web.get("api/configuration?run=1") == {"run": 1, "configuration": settings}
        assert web.open("api/configuration?run=999")[0] == 404 and web.open("api/configuration")[0] == 400
        assert web.get("api/skill?run=1") == {"run": 1, "columns": [], "experts": {}}
        assert web.open("api/skill?run=999")[0] == 404
        columns = [{"rmse": 1.5, "mae": 1.25, "skill": -0.5, "crps": 0.75, "log_score": -2},
                   {"rmse": None, "mae": None, "skill": None, "crps": None, "log_score": None}]
        experts = {"last": {"mean": 1, "weight": 0.25}, 'a"b': {"mean": 0.5, "weight": None}}
        daemon.learn(0.5, columns=columns, experts=experts)
        web.until("api/skill?run=1", lambda answer: answer == {"run": 1, "columns": columns, "experts": experts})
        for wrong in ["series", "series?run=0", "series?run=x", "series?run=1.5", "series?run=1&points=1",
                      "series?run=1&points=1e9", "series?run=1&layer=1024", "series?run=1&layer=-1",
                      "series?run=1&axis=loss", "series?run=1&from=nan", "series?run=1&to=",
                      "series?run=1&from=0x10", "events?run=", "skill", "skill?run=1.5"]:
            status, _, body = web.open(f"api/{wrong}")
            assert status == 400 and json.loads(body)["error"], (wrong, status)
        status, _, body = web.open("api/nothing")
        paths = ["daemons", "runs", "configuration", "columns", "series", "events", "skill", "forecasts", "live"]
        assert status == 404 and all(f"/api/{path}" in json.loads(body)["error"] for path in paths)
        assert web.end() == 0


def test_forecasts(directory):
    """Truths with their forecasts by stream and column: bounded, and removed with the daemon."""
    daemon, web = start(directory)
    with web:
        web.until("api/forecasts", lambda answer: answer["published"] is False)
        daemon.status(predictions=True)
        daemon.await_predictions()
        live = Live(web)
        daemon.predict([1.0], stream="first")  # has no target
        for i in range(1200):
            daemon.predict([i, 2 * i], [i + 0.25, None], baseline=[i - 1, 0], data_time=START + i)
        daemon.predict([0.0], [0.5], stream="far", ahead=6)
        # a label of another example
        daemon.send("prediction", {"stream": "later", "example": 5000, "scored": {
            "example": 17, "data_time": START, "prediction": {"mean": [1.0], "sd": [2.0]}, "interval": [None],
            "target": [2.0], "baseline": {"mean": [0.5], "sd": [1.0]}, "loss": 1}})
        daemon.send("prediction", {"stream": "many", "example": 6000, "data_time": START, "prediction": [[1.0], [2.0]],
                                   "scored": [{"example": 6000, "step": i, "prediction": [1.0], "target": [2.0],
                                               "interval": [[0, 3]], "baseline": [0.0]} for i in range(2)]})
        known = web.until("api/forecasts", lambda answer: len(answer["series"]) == 4)
        assert {(s["stream"], s["ahead"], s["columns"], s["steps"]) for s in known["series"]} >= {
            ("far", 6, 1, 1), ("later", 0, 1, 1), ("many", 0, 1, 2)}, known
        live.until("prediction", lambda data: data == {"daemon": 0})
        live.close()
        last = web.get("api/forecasts?stream=a&column=0&points=2")
        assert last["example"] == [1200, 1201] and last["data_time"] == [START + 1198, START + 1199]
        assert last["target"] == [1198.25, 1199.25] and last["prediction"] == [1198, 1199]
        assert last["low"] == [1197, 1198] and last["high"] == [1199, 1200] and last["baseline"] == [1197, 1198]
        assert last["next"] == {"example": 1202, "data_time": START + 1259, "prediction": 1199, "low": 1198,
                                # the time of the data is 60 s after that of the prediction
                                "high": 1200, "quantiles": []}
        assert last["levels"] == [] and last["quantiles"] == []
        assert web.get("api/forecasts?stream=a&column=0&points=2&around=700")["next"] is None
        assert web.get("api/forecasts?stream=far&ahead=6")["next"] is None  # the horizon is unknown
        other = web.get("api/forecasts?stream=a&column=1")
        assert set(other["target"]) == {None} and 500 < len(other["target"]) <= 1000
        assert web.get("api/forecasts?stream=far&ahead=6")["target"] == [0.5]
        late = web.get("api/forecasts?stream=later")
        assert late["example"] == [17] and (late["prediction"], late["baseline"]) == ([1], [0.5])
        assert late["low"] == [None] and late["data_time"] == [START]
        many = web.get("api/forecasts?stream=many")
        assert many["example"] == [6000, 6000.5] and many["data_time"] == [None, None]
        # `target: given`: its truth is in the same message
        for example, forecast in (7001, 7001), (7002, 7002):
            daemon.send("prediction", {"stream": "given", "example": example, "prediction": [1.0], "interval": [[0, 2]],
                                       "scored": {"example": forecast, "prediction": [1.0], "target": [2.0]}})
        for i in range(2):  # `target: later`: predictions, and then the label of the first
            daemon.send("prediction", {"stream": "late", "example": 8000 + i, "data_time": START + i,
                                       "prediction": [i + 0.5], "interval": [[i, i + 1]]})
        daemon.send("prediction", {"stream": "late", "example": 8002, "scored": {
            "example": 8000, "data_time": START, "prediction": [0.5], "target": [0.75]}})
        web.until("api/forecasts", lambda answer: any(one["stream"] == "late" for one in answer["series"]))
        assert web.get("api/forecasts?stream=given")["next"] is None
        # predicted before anything was scored
        assert web.get("api/forecasts?stream=late")["next"] is None
        daemon.send("prediction", {"stream": "late", "example": 8003, "data_time": START + 3, "prediction": [3.5],
                                   "interval": [None]})
        open_one = web.until("api/forecasts?stream=late", lambda answer: answer["next"])["next"]
        assert open_one == {"example": 8003, "data_time": START + 3, "prediction": 3.5, "low": None, "high": None,
                            "quantiles": []}
        daemon.send("prediction", {"stream": "late", "example": 8004, "scored": {
            "example": 8003, "data_time": START + 3, "prediction": [3.5], "target": [4]}})
        closed = web.until("api/forecasts?stream=late", lambda answer: answer["next"] is None)
        assert closed["example"] == [8000, 8003], closed
        daemon.examples = 1100  # it resumed from a checkpoint
        daemon.predict([7.0, 0.0], [7.5, 0.0])
        back = web.until("api/forecasts?stream=a", lambda answer: answer["example"][-1] == 1101)
        assert back["example"][-2:] == [1100, 1101] and back["target"][-1] == 7.5
        for path, expected in [("stream=b", 404), ("stream=a&column=2", 404), ("daemon=1", 400), ("column=x", 400),
                               ("points=0", 400), ("points=1001", 400), ("ahead=-1", 400), ("daemon=0.5", 400)]:
            status, _, body = web.open(f"api/forecasts?{path}")
            assert status == expected and json.loads(body)["error"], (path, status, body)
        for i in range(400):  # more streams than the limit
            daemon.predict([0.0], [0.5], stream=f"stream {i}")
        for odd in [{"stream": 7}, {"scored": []}, {"stream": "odd", "example": "x", "scored": {"target": [1]}},
                    {"stream": "a", "example": 1102, "prediction": [1], "scored": {
                        "target": ["x"] * 5000, "interval": 3, "prediction": [[]]}},
                    {"stream": "odd", "example": 1, "prediction": [1], "scored": {"target": [1], "prediction": "x"}},
                    {"stream": "odd", "example": 1, "prediction": [1], "scored": {  # a class
                        "target": 3, "prediction": [0.1, 0.9]}}]:
            daemon.send("prediction", odd)
        forecast = {"words": ["busy", None], "probabilities": [0.8, 0.2]}
        daemon.send("prediction", {"stream": "words", "example": 1, "prediction": forecast, "scored": {
            "example": 1, "target": "busy", "prediction": forecast}})
        full = web.until("api/forecasts", lambda answer: answer["wordless"] and "said" in answer)
        assert full["said"] == {"stream": "words", "came": "busy", "prediction": forecast}, full["said"]
        daemon.send("prediction", {"stream": "symbols", "example": 1, "prediction": forecast, "scored": {
            "target": 99, "word": "'c'", "probability": 0.25, "prediction": forecast}})
        shown = web.until("api/forecasts", lambda answer: answer["said"]["stream"] == "symbols")["said"]
        assert shown["came"] == "'c'" and shown["chance"] == 0.25, shown
        assert 50 < len(full["series"]) < 400 and full["left_out"] > 0, len(full["series"])
        assert web.end() == 0


def test_too_many_predictions(directory):
    """Predictions beyond the limit are dropped except for the newest thousand; all other topics are
    complete."""
    many = 30000  # 27 MB: reading them takes longer than sending them
    daemon, web = start(directory)
    with web:
        daemon.status(predictions=True)
        daemon.await_predictions()
        for i in range(many):
            daemon.predict([i + 0.5] * 8, [float(i)] * 8)
            if i % 1000 == 0:
                daemon.learn(0.5)
        last = daemon.examples
        def steps():
            return web.get("api/forecasts?daemon=0&stream=a&column=7&points=500")
        web.until("api/forecasts?daemon=0", lambda answer: answer["passed"] > 0 and answer["series"]
                  and steps()["example"][-1] == last)
        assert steps()["target"] == [float(i) for i in range(many - 500, many)]
        assert len(web.get("api/series?run=1")["examples"]) == many // 1000
        assert web.get("api/daemons")["daemons"][0]["missed"] == 0
        assert web.end() == 0


def test_live(directory):
    """All subscribers get each message. At a high rate no minimum or maximum is lost."""
    daemon, web = start(directory)
    with web:
        listeners = [Live(web), Live(web)]
        daemon.status(state="paused")
        daemon.event("paused", "paused by command")
        daemon.learn(0.25)
        for live in listeners:
            status = live.until("status", lambda data: data["message"]["state"] == "paused")
            assert status["daemon"] == 0
            live.until("event", lambda data: data["message"]["kind"] == "paused")
            loss = live.until("loss")
            assert loss["run_id"] == 1 and loss["merged"] == 1
            assert loss["message"]["mean"] == 0.25 and loss["message"]["latency_us"]["p50"] == 10
            assert live.until("state")["message"]["layers"][0]["hidden"]["norm"] == 3.3
        for i in range(300):
            daemon.learn(100.0 if i == 7 else 0.001 if i == 11 else 1.0)
        daemon.learn(2.0)
        got = [listeners[0].until("loss")]
        while got[-1]["message"]["examples"] < daemon.examples:
            got.append(listeners[0].until("loss"))
        assert sum(one["merged"] for one in got) == 301, [one["merged"] for one in got]
        assert max(one["message"]["maximum"] for one in got) == 200
        assert min(one["message"]["minimum"] for one in got) == 0.0005
        total = sum(one["merged"] * one["message"]["mean"] for one in got)
        assert math.isclose(total, 298 + 100 + 0.001 + 2, rel_tol=1e-9), total
        for live in listeners:
            live.close()
        assert web.end() == 0


def test_daemon_is_killed_and_restarts(directory):
    daemon, web = start(directory)
    with web:
        live = Live(web)
        daemon.learn(1.0)
        web.series(1)
        daemon.close()
        gone = live.until("daemon", lambda data: data["presence"] == "gone")
        assert gone["name"] == "waves"
        daemon.open("00000000000000bb")
        daemon.await_subscriber()
        daemon.status(resumed="/state/checkpoint")
        daemon.learn(2.0)
        live.until("daemon", lambda data: data["presence"] == "speaking")
        assert live.until("loss")["run_id"] == 2
        first, second = web.get("api/runs")["runs"]
        assert (first["run"], second["run"]) == ("00000000000000aa", "00000000000000bb")
        assert second["resumed"] == "/state/checkpoint"
        watched = [e for e in web.get("api/events?run=1")["events"] if e["kind"] == "watch"]
        assert any("lost" in e["text"] for e in watched), watched
        live.close()
        assert web.end() == 0


def test_history_survives(directory):
    daemon, web = start(directory)
    with web:
        for i in range(30):
            daemon.learn(1.0 + i)
        web.series(30)
        daemon.event("checkpoint", "saved")
        daemon.incident([START] * 50, 40)
        web.until("api/events?run=1", lambda answer: len(answer["events"]) == 2)
        assert run("--history", f"{directory}/history", "--listen", "127.0.0.1:0").returncode == IO
        assert web.end() == 0
    with Web(directory, daemon.endpoint) as web:
        assert web.get("api/series?run=1")["columns"]["mean"]["mean"] == [1.0 + i for i in range(30)]
        assert [one["incident"] for one in web.get("api/events?run=1&kind=checkpoint")["events"]] == [None]
        event, = web.get("api/events?run=1&kind=incident")["events"]
        assert event["incident"]["columns"][0]["share"] == 0.75 and event["text"] == "an incident", event
        assert web.get("api/daemons")["daemons"][0]["presence"] == "expected"
        assert web.end() == 0


def test_quantiles(directory):
    """A list of the steps for each level, of the newest levels."""
    daemon = Daemon(directory)
    with Web(directory, daemon.endpoint) as web:
        daemon.await_subscriber()
        daemon.status(predictions=True)
        daemon.await_predictions()
        daemon.predict([1.0], [1.5], fan={0.5: 0})
        for n in range(3):
            daemon.predict([n, 10 + n], [n, 11], fan={0.05: -2, 0.5: 0.5, 0.95: 4})
        daemon.send("prediction", {"stream": "a", "example": 4, "prediction": [5.0, 5.0], "levels": [0.05, 0.5, 0.95],
                                   "quantiles": [None, [4, 5, 6]], "interval": [None, [4, 6]]})
        found = web.until("api/forecasts?stream=a&column=1",
                          lambda answer: (answer.get("next") or {}).get("prediction") == 5)
        assert found["example"] == [2, 3, 4] and found["levels"] == [0.05, 0.5, 0.95], found
        assert found["quantiles"] == [[8, 9, 10], [10.5, 11.5, 12.5], [14, 15, 16]], found
        assert found["next"]["quantiles"] == [4, 5, 6], found
        assert web.get("api/forecasts?stream=a&column=0")["next"]["quantiles"] == [None] * 3
        assert web.end() == 0


def test_older_steps(directory):
    """Older steps come from the history if the recording contains them; else the reply is 410."""
    daemon = Daemon(directory)
    record = pathlib.Path(os.environ.get("builddir", "."), "runnel-record").resolve()
    recorder = subprocess.Popen([record, "-c", daemon.endpoint, "-o", f"{directory}/history"], stderr=subprocess.DEVNULL)
    try:
        daemon.await_predictions()
        daemon.status(predictions=True)
        daemon.learn(0.5)
        for i in range(100):
            daemon.predict([i, 2 * i], [i + 0.25, 2 * i + 1], data_time=START + i)
        deadline = time.monotonic() + LIMIT
        while True:
            with sqlite3.connect(f"file:{directory}/history?mode=ro", uri=True) as file:
                count = file.execute("SELECT count(*) FROM sqlite_master WHERE name = 'predictions'").fetchone()[0]
                if count and file.execute("SELECT count(*) FROM predictions").fetchone()[0] >= 198:
                    break
            assert time.monotonic() < deadline
            time.sleep(0.05)
        recorder.terminate()
        assert recorder.wait(LIMIT) == 0
    finally:
        recorder.kill()
    sequences = daemon.sequences
    daemon.close()
    daemon.open(daemon.run)
    daemon.sequences = sequences
    with Web(directory, daemon.endpoint) as web:
        daemon.await_subscriber()
        daemon.status(predictions=True)
        daemon.await_predictions()
        daemon.learn(0.5)
        for i in range(100, 150):
            daemon.predict([i, 2 * i], [i + 0.25, 2 * i + 1], data_time=START + i)
        daemon.predict([1.0], [2.0], stream="new")
        ask = "api/forecasts?daemon=0&stream=a&column=1&points=10"
        web.until(ask, lambda answer: len(answer["example"]) == 10 and answer["target"][-1] == 299)
        first = web.get("api/forecasts?daemon=0&stream=a&column=1")["example"][0]
        old = web.get(f"{ask}&around=60")
        assert old["run"] and len(old["example"]) == 10 and min(old["example"]) < 60 < max(old["example"]) < first, old
        assert old["target"] == [2 * (example - 11) + 1 for example in old["example"]], old
        status, _, text = web.open("api/forecasts?daemon=0&stream=new&around=3")
        assert status == 410 and b"example 3 " in text, (status, text)
        assert web.end() == 0


def test_metrics_have_checkers(_):
    """The following cases require both programs for checks of /metrics."""
    if not shutil.which("promtool") or not importlib.util.find_spec("prometheus_client"):
        cases.skip("needs promtool and prometheus_client (Debian: prometheus, python3-prometheus-client)")


def check_classic(text):
    if shutil.which("promtool"):
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True,
                                 check=False, timeout=LIMIT)
        assert checked.returncode == 0 and not checked.stdout + checked.stderr, checked


def check_open(text):
    assert text.endswith("# EOF\n")
    for name, unit in re.findall(r"^# UNIT (\S+) (\S+)$", text, re.MULTILINE):
        assert name.endswith("_" + unit), (name, unit)
    families = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    assert len(dict(families)) == len(families) > 30
    for name, kind in families:
        samples = re.findall(rf"^({name}\S*)\{{", text, re.MULTILINE)
        suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
        own = [sample for sample in samples if sample == name + suffix]
        assert own or kind == "counter", (name, kind)
        assert re.search(rf"^# HELP {name} \S", text, re.MULTILINE), name
    try:
        from prometheus_client.openmetrics import parser
    except ImportError:
        return
    assert len(list(parser.text_string_to_metric_families(text))) == len(families)


def test_all_is_rejected(directory):
    """Without a loss message, `status` contains the newest figures."""
    daemon, web = start(directory)
    with web:
        for count, loss in (5, False), (7, True):
            if loss:
                daemon.learn(0.5, rejected_by={"x_size": 6}, examples_per_second=100)
            daemon.status(rejected=count, rejected_by={"x_size": count}, examples_per_second=0.5,
                          examples=12, time=START + 1e6)
            web.until("api/daemons", lambda answer: (status := answer["daemons"][0]["status"]) and
                      status.get("rejected") == count and bool(answer["daemons"][0]["loss"]) == loss)
            text = web.open("/metrics")[2]
            check_classic(text)
            for name, value in [("rejected_examples_total", count), ("examples_per_second", 0.5),
                                ("examples_total", 12)]:
                assert [line for line in text.decode().splitlines()
                        if line.startswith(f"runnel_{name}{{") and line.endswith(f" {value}")], (name, text)


def test_metrics(directory):
    daemon, web = start(directory)
    other = Daemon(directory, 'o"\\ther')
    web.end()
    with Web(directory, daemon.endpoint, other.endpoint, arguments=["--forecasts"]) as web:
        empty = web.open("/metrics")[2]
        check_classic(empty)
        for one in daemon, other:
            one.await_subscriber()
            one.status(predictions=True, target_names="load, oil" if one is daemon else None, journal={"position": 70, "durable": 60, "oldest": 1, "entries": 70,
                                "bytes": 8192, "free_bytes": 1e9, "waiting": 0.25,
                                "replaying": False, "duplicates": 3, "missing": 4,
                                "sync": "full", "keep": "all"},
                       checkpoint={"examples": 5, "time": START},
                       security={"key": "k", "refused": 6, "refused_by": {"no_key": 6}})
            one.event("checkpoint", "x")
            one.learn(0.5, layers=2, baseline=0.75, skill=0.25, skill_recent=None,
                      anomaly={"score": 2.5, "alarms": 3, "open": 1}, data_time=1420068600, crps={"mean": 0.5, "skill": 0.375},
                      columns=[{"rmse": 1.5, "mae": 1, "skill": None, "crps": 0.75, "log_score": -2.5},
                               {"rmse": 30.5, "mae": 20, "skill": 0.125, "crps": None, "log_score": None}],
                      experts={"last": {"mean": 1, "weight": 0.375},
                               # last: the test waits for it
                               "ar12": {"mean": 0.5, "weight": 0.625}})
        other.learn(None, members=["change", "level"], metric={"rmse": None, "accuracy": 0.5, "bits": 1.0})
        web.until("api/daemons", lambda answer: all(
            one["loss"] and one["loss"]["examples"] == 10 * (1 + one["daemon"])
            and one["state"] and one["state"]["examples"] == 10 * (1 + one["daemon"])
            for one in answer["daemons"]))
        for one, stream, target, more in [
                (daemon, "plant/a", [3.0, None], {"fan": {0.05: -1.25, 0.5: 0}}), (other, 'a"b', [7.0, 8.0], {"ahead": 6})]:
            one.await_predictions()
            one.predict([2.5, 20.5], target, stream=stream, band=1.5, **more)
            web.until(f"api/forecasts?daemon={one is other:d}", lambda answer: answer["series"])
        _, headers, text = web.open("/metrics")
        uptime, = re.findall(rb"(?m)^runnel_uptime_seconds.*waves.* ([0-9.e+]+)$", text)
        assert 12.5 < float(uptime) < 12.5 + LIMIT, uptime  # added since the status
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        check_classic(text)
        text = text.decode()
        labels = f'{{daemon="waves",endpoint="{daemon.endpoint}"'
        theirs = labels.replace("waves", 'o\\"\\\\ther')
        for line in [f"runnel_up{labels}}} 1", f"runnel_loss_mean{labels}}} 0.5",
                     f"runnel_examples_total{labels}}} 10", f"runnel_latency_p50_seconds{labels}}} 1e-05",
                     f'runnel_layer_hidden_norm{labels},layer="1",kind="gru"}} 3.3',
                     f'runnel_layer_units_dormant_ratio{labels},layer="1",kind="gru"}} 0.25',
                     f'runnel_layer_units_rank{labels},layer="1",kind="gru"}} 9.5',
                     f'runnel_layer_weights_growth_ratio{labels},layer="0",kind="gru"}} 1.01',
                     f"runnel_plasticity_ratio{labels}}} 0.25",
                     f'runnel_layer_hidden_norm{theirs},layer="1",kind="gru",member="level"}} 3.3',
                     f'runnel_rejected_examples_total{labels},reason="x_size"}} 2',
                     f"runnel_last_checkpoint_timestamp_seconds{labels}}} {START:.0f}",
                     f"runnel_journal_position{labels}}} 70",
                     f"runnel_journal_durable_position{labels}}} 60",
                     f"runnel_journal_waiting_seconds{labels}}} 0.25",
                     f"runnel_duplicate_examples_total{labels}}} 3",
                     f"runnel_missing_examples_total{labels}}} 4",
                     f"runnel_baseline_loss_mean{labels}}} 0.75",
                     f"runnel_anomaly_score{labels}}} 2.5", f"runnel_anomalies_total{labels}}} 3",
                     f"runnel_open_incidents{labels}}} 1",
                     f"runnel_data_timestamp_seconds{labels}}} 1420068600",
                     f"runnel_skill{labels}}} 0.25", f"runnel_skill_recent{labels}}} NaN",
                     f'runnel_column_rmse{labels},column="oil"}} 30.5',
                     f'runnel_column_skill{labels},column="load"}} NaN',
                     f'runnel_reading{labels},stream="plant/a",column="load"}} 3',
                     f'runnel_reading{labels},stream="plant/a",column="oil"}} NaN',
                     f'runnel_forecast{labels},stream="plant/a",column="oil"}} 20.5',
                     f'runnel_forecast_low{labels},stream="plant/a",column="load"}} 1',
                     f'runnel_forecast_high{labels},stream="plant/a",column="load"}} 4',
                     f'runnel_reading{theirs},stream="a\\"b",column="1",ahead="6"}} 8',
                     f'runnel_forecast_quantile{labels},stream="plant/a",column="load",level="0.05"}} 1.25',
                     f'runnel_forecast_quantile{labels},stream="plant/a",column="load",level="0.5"}} 2.5',
                     f'runnel_forecast_quantile{labels},stream="plant/a",column="oil",level="0.05"}} 19.25',
                     f'runnel_column_crps{labels},column="load"}} 0.75', f"runnel_crps_skill{labels}}} 0.375",
                     f'runnel_column_log_score{labels},column="load"}} -2.5',
                     f'runnel_expert_weight{labels},expert="ar12"}} 0.625',
                     f'runnel_refused_connections_total{labels},reason="no_key"}} 6',
                     f'runnel_events_total{labels},kind="checkpoint"}} 1']:
            assert line in text.splitlines(), line
        source = pathlib.Path(os.environ.get("srcdir", pathlib.Path(__file__).parents[2]))
        shown = re.findall(r"runnel_\w+", (source / "conf/grafana-dashboard.json").read_text())
        assert len(set(shown)) > 20
        missing = set(shown) - set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
        assert not missing, f"conf/grafana-dashboard.json has {missing}, which /metrics lacks"
        assert re.search(r'^runnel_loss_mean\{daemon="o\\"\\\\ther",.*\} NaN$', text, re.MULTILINE)
        _, headers, text = web.open("/metrics", Accept="application/openmetrics-text;version=1.0.0")
        assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
        check_open(text.decode())
        assert web.end() == 0


def test_forecasts_in_metrics(directory):
    daemon, web = start(directory)
    with web:
        daemon.status(predictions=True)
        daemon.await_predictions()
        daemon.predict([2.5], [3.0])
        web.until("api/forecasts?daemon=0", lambda answer: answer["series"])
        assert b"runnel_reading" not in web.open("/metrics")[2]  # one for each stream and column
        assert web.end() == 0


def test_odd_statistics(directory):
    """Invalid values of a daemon neither end the program nor affect other daemons."""
    daemon, web = start(directory)
    with web:
        for kind in ["k" * 100, "k" * 100, "", "other", "é" * 20, "a\x1b[31m\n\"b", None, 7, ["x"]]:
            daemon.event(kind, None)
        for i in range(40):
            daemon.event(f"kind {i}", "x")
        for fields in [{"rejected_by": {f"reason {i}": 1 for i in range(1000)}}, {"rejected_by": 3},
                       {"metric": [1], "latency_us": "x", "mean": [], "queued": -1e308}]:
            daemon.learn(**{"mean": 1.0, "layers": 0, **fields})
        for layers in [7, [], [None, 3, "x", {"hidden": 1}], [{"hidden": {"norm": 1.0}}] * 100]:
            daemon.send("state", {"layers": layers})
        daemon.send("status", {"name": "a\nb\"c\\d", "model": 3, "state": ["x"], "device": {}})
        daemon.learn(0.5)
        web.until("api/daemons", lambda answer:
                  (answer["daemons"][0]["loss"] or {}).get("mean") == 0.5)
        for accept in "text/plain", "application/openmetrics-text":
            _, _, text = web.open("/metrics", Accept=accept)
            if accept == "text/plain":
                check_classic(text)
            samples = re.findall(r"^(\w+\{.*\}) \S+$", text.decode(), re.MULTILINE)
            assert len(samples) == len(set(samples)) < 400, len(samples)
            assert any('kind="' + "k" * 31 + '"' in sample for sample in samples)
        assert web.series(4)["columns"]["mean"]["mean"][-1] == 0.5
        assert web.get("api/events?run=1")["events"]
        assert web.end() == 0


def test_access(directory):
    daemon, web = start(directory)
    with web:
        for host, status in [("localhost", 200), (f"127.0.0.1:{web.port}", 200), ("[::1]:1", 200),
                             ("127.0.0.2:80", 200), ("a.localhost", 200), ("evil.example", 403),
                             ("127.0.0.1.evil", 403), ("128.0.0.1", 403), ("localhost.evil", 403),
                             ("evillocalhost", 403), ("[::2]", 403), ("[::1", 403),
                             ("a" * 300 + ".localhost", 403), ("", 403)]:
            assert web.open("/api/daemons", Host=host)[0] == status, host
        # Requests of a page of another site are rejected; a link to this page works.
        for site, mode, status in [("same-origin", "cors", 200), ("none", "navigate", 200),
                                   ("cross-site", "navigate", 200), ("cross-site", "no-cors", 403),
                                   ("same-site", "cors", 403)]:
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
            assert web.open("/api/daemons", **headers)[0] == status, (site, mode)
    token = "0123456789abcdef-._~"
    path = pathlib.Path(directory, "token")
    path.write_text(token + "\n", encoding="ascii")
    path.chmod(0o600)
    with Web(directory, daemon.endpoint, arguments=["--token", path]) as web:
        for where in ["/", "/api/daemons", "/api/live", "/metrics", "/app.js", "/?token=" + token[:-1]]:
            status, headers, _ = web.open(where)
            assert status == 401 and "Bearer" in headers["WWW-Authenticate"], where
        assert web.open("/metrics", Authorization=f"Bearer {token}", Host="evil.example")[0] == 200
        assert web.open("/metrics", Authorization=f"Bearer {token}x")[0] == 401
        assert web.open("/metrics", Authorization=f"Basic {token}")[0] == 401
        status, headers, _ = web.open(f"/?token={token}")
        cookie = headers["Set-Cookie"]
        assert status == 303 and headers["Location"] == "/"
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        assert web.open("/", Cookie=cookie.split(";")[0])[0] == 200
        assert web.open("/", Cookie="runnel_token=x")[0] == 401
        assert web.end() == 0


def ask_from(address, port, path, **headers):
    """(status, headers) of a GET from a loopback address: a separate client."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT,
                                            source_address=(address, 0))
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"Host": "localhost", **headers})
        reply = connection.getresponse()
        return reply.status, reply.headers


def test_guessing_tokens(directory):
    """Repeated wrong tokens block an address for an increasing time; the correct token is accepted."""
    token, guesser, stale, honest = "0123456789abcdef", "127.0.0.2", "127.0.0.3", "127.0.0.4"
    right = {"Authorization": f"Bearer {token}"}
    path = pathlib.Path(directory, "token")
    path.write_text(token + "\n", encoding="ascii")
    path.chmod(0o600)
    daemon = Daemon(directory)
    log = pathlib.Path(directory, "log")
    with log.open("w") as output, Web(directory, daemon.endpoint, arguments=["--token", path],
                                    stderr=output) as web:
        began = time.monotonic()
        status, headers = ask_from(guesser, web.port, f"/?token={token}")
        session = {"Cookie": headers["Set-Cookie"].split(";")[0]}
        assert status == 303

        def guess(count, begin):
            return [ask_from(guesser, web.port, "/metrics", Authorization=f"Bearer {begin + i:016d}")
                    for i in range(count)]

        first = guess(9, 0)
        assert {status for status, _ in first} == {401}
        assert ask_from(guesser, web.port, "/metrics", **right)[0] == 200
        asked, refused, unheard = len(first), 0, 0
        for _ in range(10):  # a busy machine may reject in between; then the next wait is longer
            answers = guess(20, asked)
            asked += len(answers)
            late = [headers for status, headers in answers if status == 429]
            refused += len(late)
            assert all(int(headers["Retry-After"]) > 0 for headers in late)
            unheard += ask_from(guesser, web.port, "/metrics", **right)[0] == 429
            if late and unheard:
                break
        assert refused > 0 and unheard
        assert ask_from(guesser, web.port, "/metrics", **session)[0] == 200  # had sent the token
        assert ask_from(honest, web.port, "/metrics", **right)[0] == 200
        for _ in range(50):  # a client with an old token is not a guess
            assert ask_from(stale, web.port, "/", Cookie="runnel_token=" + "a" * 16)[0] == 401
        status, headers = ask_from(stale, web.port, "/", Cookie=f"runnel_token={token}")
        assert status == 200 and "runnel_token" in headers["Set-Cookie"]
        text = web.open("/metrics", **right)[2].decode()
        check_classic(text.encode())
        wrong, = re.findall(r"(?m)^runnel_web_wrong_tokens_total (\d+)$", text)
        unread, = re.findall(r"(?m)^runnel_web_refused_tokens_total (\d+)$", text)
        assert int(wrong) + int(unread) == asked + 50 + unheard, (wrong, unread, asked)
        assert web.end() == 0
        lines = re.findall(r"(\d+) requests? with a wrong token and (\d+) rejected unchecked, the newest from (\S+)",
                           log.read_text(encoding="utf-8"))
        assert sum(int(a) + int(b) for a, b, _ in lines) == int(wrong) + int(unread), lines
        assert {address for _, _, address in lines} <= {guesser, stale}, lines
        assert len(lines) <= 2 + time.monotonic() - began, lines  # one per second, and the last


def memory_kib(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    return int(re.search(r"^VmRSS:\s*(\d+)", status, re.MULTILINE)[1])


def answer_to(port, request):
    """Everything received for these bytes, until the server closes the connection or has sent something."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b""))
        except OSError:  # closed while the test was sending
            return b""


MALFORMED = [
    b"", b"\r\n\r\n", b"\0" * 1000, b"GET\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
    b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"b" * 100000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n" + b"x" * 100000,
    b"GET /api/series?" + b"run=1&" * 2000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /%00%ff%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
]
OUTSIDE = ["/../../../../etc/passwd", "/..%2f..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd",
           "//etc/passwd", "/tools/web/page/app.js", "/app.js/../../../etc/passwd", "/..\\..\\etc\\passwd",
           "/app.js%00.html", "/history", "/api/../history", "/index.html/"]


def check_refusals(web):
    for request in MALFORMED:
        reply = answer_to(web.port, request)
        assert not reply or re.match(rb"HTTP/1\.[01] [45]\d\d ", reply), (request[:80], reply[:80])
    for path in OUTSIDE:
        connection = http.client.HTTPConnection("127.0.0.1", web.port, timeout=LIMIT)
        connection.putrequest("GET", path, skip_host=False)
        connection.endheaders()
        reply = connection.getresponse()
        body = reply.read()
        assert reply.status in (400, 404) and b"root:" not in body, (path, reply.status)
        connection.close()
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW"]:
        reply = answer_to(web.port, f"{method} / HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert b" 405 " in reply.split(b"\r\n")[0] and b"Allow: GET, HEAD" in reply, (method, reply)
    head = answer_to(web.port, b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b" 200 " in head.split(b"\r\n")[0] and head.endswith(b"\r\n\r\n"), head
    head = answer_to(web.port, b"HEAD /api/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert b" 200 " in head.split(b"\r\n")[0] and b"text/event-stream" in head, head


def test_bad_clients(directory):
    """Of 500 silent connections, one at a byte a second and one that does not read, the silent and slow ones
    are closed in time. Other clients are not delayed."""
    daemon, web = start(directory)
    sanitized = "define RUNNEL_SANITIZERS 1" in (BUILD / "build-config.h").read_text()
    with web:
        daemon.learn(1.0)
        web.series(1)
        before, begun = memory_kib(web.process), time.monotonic()
        idle = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(IDLE)]
        slow = socket.create_connection(("127.0.0.1", web.port))
        deaf = socket.create_connection(("127.0.0.1", web.port))
        deaf.sendall(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        check_refusals(web)
        assert web.get("api/daemons")["daemons"][0]["name"] == "waves"
        for _ in range(2000):
            daemon.learn(1.0)
        web.until("api/daemons", lambda answer: answer["daemons"][0]["loss"]["examples"] == 20010)
        assert sanitized or memory_kib(web.process) - before < GROWTH_KIB
        waiting, request = [*idle, slow], iter(b"GET / HTTP/1.1\r\nX: " + b"y" * 1000)
        while waiting:
            assert time.monotonic() < begun + LIMIT, f"{len(waiting)} connections are still open"
            try:
                slow.send(bytes([next(request)]))
            except OSError:
                pass  # the server has closed it
            for one in readable(waiting, 0.5):
                waiting.remove(one)
        assert time.monotonic() - begun >= HEAD_SECONDS / 2  # and not at once
        assert web.get("api/daemons")["daemons"][0]["name"] == "waves"
        for one in [*idle, slow, deaf]:
            one.close()
        assert web.end() == 0


run_tests([test_page, test_options, test_api, test_forecasts, test_quantiles, test_older_steps,
           test_metrics_have_checkers,
           test_too_many_predictions, test_live,
           test_daemon_is_killed_and_restarts, test_history_survives, test_all_is_rejected, test_metrics,
           test_forecasts_in_metrics,
           test_odd_statistics, test_access,
           test_guessing_tokens, test_bad_clients])
