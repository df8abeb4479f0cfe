#!/usr/bin/python3
"""Tests runnel-top in tmux at 80 x 24 and 200 x 60: the screen for a simulated daemon, and the effect of keys
on a real one."""
import contextlib
import itertools
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
import time

import cases
import running
from publishing import LOSS, LSTM, MANY, MEMBERS, STATE, STATUS, Publisher
from test_security import Guarded, Pair

PROGRAM = pathlib.Path(os.environ.get("builddir", "."), "runnel-top").resolve()
OK, USAGE, UNAVAILABLE = 0, 64, 69
LIMIT = 60  # seconds: only ends a test that hangs
HEARD = ("status", "loss", "state", "event")
BRAILLE = re.compile("[\u2801-\u28ff]")

if not PROGRAM.exists():
    print("runnel-top was not built: ncurses is missing")
    sys.exit(77)
if not shutil.which("tmux"):
    print("needs tmux")
    sys.exit(77)


class Screen:
    """A terminal of this size that runs runnel-top."""
    numbers = itertools.count()  # a server that was told to end still answers on its socket for a while

    def __init__(self, directory, columns, rows, *arguments, kind="screen-256color",
                 locale="C.UTF-8"):
        self.tmux = ["tmux", "-u", "-f", "/dev/null", "-S", f"{directory}/tmux{next(self.numbers)}"]
        words = ["env", f"TERM={kind}", f"LC_ALL={locale}", "TZ=UTC", str(PROGRAM), "--silence", "0",
                 *arguments]  # a test on a busy machine must not report a silent daemon
        command = " ".join(f"'{word}'" for word in words) + (
            "; ended=$?; stty -a | grep -ow -e -echo -e -icanon; echo ended $ended; read line")
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("TMUX", "NO_COLOR")}
        subprocess.run([*self.tmux, "new-session", "-d", "-x", str(columns), "-y", str(rows),
                        command], check=True, env=dict(environment, LC_ALL="C.UTF-8"),
                       timeout=LIMIT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run([*self.tmux, "kill-server"], check=False, capture_output=True,
                       timeout=LIMIT)  # a server that ends before its answer makes it fail

    def ask(self, *words):
        return subprocess.run([*self.tmux, *words], check=True, capture_output=True,
                              timeout=LIMIT).stdout.decode()

    def lines(self, *options):
        return self.ask("capture-pane", "-p", *options).rstrip("\n").split("\n")

    def until(self, *patterns, absent=(), holds=lambda text: True, before=lambda: None):
        """Waits for a screen that matches all patterns, none of `absent`, and holds(screen): a screen may be
        half drawn. Calls `before` at each try."""
        end = time.monotonic() + LIMIT
        while True:
            before()
            text = "\n".join(self.lines())
            if (all(re.search(pattern, text) for pattern in patterns) and
                    not any(re.search(pattern, text) for pattern in absent) and holds(text)):
                return text
            assert time.monotonic() < end, f"no {patterns} without {absent} in:\n{text}"
            time.sleep(0.05)

    def keys(self, *keys):
        self.ask("send-keys", *keys)

    def program(self):
        """The process number of runnel-top."""
        shell = int(self.ask("display-message", "-p", "#{pane_pid}"))
        return int(pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def modes(self):
        """Whether the cursor is visible, the alternate screen is active, and cursor keys are in application
        mode."""
        return self.ask("display-message", "-p",
                        "#{cursor_flag} #{alternate_on} #{keypad_cursor_flag}").strip()

    def resize(self, columns, rows):
        self.ask("resize-window", "-x", str(columns), "-y", str(rows))


@contextlib.contextmanager
def watched(directory, columns, rows, *arguments, **options):
    """A simulated daemon and a screen that has received its first messages."""
    with Publisher(directory) as daemon, \
            Screen(directory, columns, rows, "-c", daemon.endpoint, *arguments,
                   **options) as screen:
        daemon.wait_for(*HEARD)
        yield daemon, screen


def publish(daemon, **loss):
    """Sends `loss` and `state`, 100 examples later."""
    daemon.send("loss", dict(LOSS, **loss), examples=100)
    daemon.send("state", STATE)


FACTS = [r"^ host-load  learning .* up \d.* s", r"69,130 parameters on cpu \(avx2\)",
         r"loss 0\.0412, smoothed 0\.2500, from 0\.0100 to 2\.0000", r"rmse +1\.5000",
         r"gradient +12\.346", r"update +1\.23e-3", r"rate +0\.0003", r"speed +12\.3k",
         r"p50 95us p99 1\.23ms max 45\.7ms", r"queued +7  streams 12  missed 0",
         r"rejected 3  skipped 2", r"2,000 examples", r"0 lstm 128 ", r"1 dense 3 ", r"12\.5%",
         r"-0\.012 ±0\.456", r"31\.2%", r"11\.8", r"8\.195", r"plastic +0\.1125",
         r"22:13:20 checkpoint of 900 examples", r"learning: ", r"healthy: yes",
         r"keeps up: ! barely: 7 wait", r"saved +not yet in this run"]


def facts(directory, columns, rows, *more):
    with watched(directory, columns, rows) as (daemon, screen):
        daemon.send("status", STATUS)
        daemon.send("event", {"kind": "checkpoint", "text": "checkpoint of 900 examples"})
        for _ in range(20):
            publish(daemon)
        text = screen.until(*(f"(?m){fact}" for fact in FACTS), *more, holds=lambda text: len(
            BRAILLE.findall(text)) > columns and text.count("\n") == rows - 1)
        assert max(map(len, text.split("\n"))) <= columns, text
        screen.keys("q")
        screen.until("ended 0")


def test_facts_at_80(directory):
    facts(directory, 80, 24, "12.5%   31.2%  11.8  8.195 ▁▁▂▂▂▃▃▄▄▄▅▅▅▆▆▇▇▇██")


def test_a_daemon_without_statistics_of_units(directory):
    """The columns of an earlier daemon contain what it sends."""
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("loss", dict(LOSS, plasticity=None), examples=100)
        daemon.send("state", {"layers": [{key: value for key, value in LSTM.items()
                                          if key not in ("units", "weights")}]})
        screen.until(r"0\.500 ±1\.250", "▁▁▂▂▂▃▃▄▄▄▅▅▅▆▆▇▇▇██ 1.050", absent=["dormant", "growth", "plastic"])


CONSUMER = {"group": "plant", "partitions": 4, "places": {}, "lag": 900, "lags": {}, "dead": 2, "lost": 0, "away": 0.0}
FLEET = {"group": "plant", "daemons": 2, "partitions": 4, "of": 8, "taken": 4, "released": 0, "lost": 0, "adopted": 0,
         "replayed": 0, "averages": 11, "round": 12, "members": {}, "owners": [], "away": 0.0}


def test_broker(directory):
    """A line shows lag and fleet only for daemons that read a broker."""
    sockets = {"examples": "redis://127.0.0.1:6379 sensors"}
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("status", STATUS)
        for _ in range(20):
            publish(daemon)
        screen.until("queued", absent=("broker", "fleet"))
        daemon.send("status", dict(STATUS, sockets=sockets, consumer=CONSUMER))
        screen.until("(?m)^broker +waiting 900  dead 2  4 partitions of redis://127.0.0.1:6379 sensors$",
                     absent=("fleet",))
        daemon.send("status", dict(STATUS, sockets=sockets, consumer=dict(CONSUMER, lag=1e7), fleet=FLEET))
        screen.until("keeps up: ! behind: 10.0M wait", "(?m)^broker +waiting 10,000,000 ",
                     "(?m)^fleet +plant  4 of 8 partitions  2 daemons  round 12 of averages$")
        daemon.send("status", dict(STATUS, sockets=sockets, consumer=dict(CONSUMER, lag=None, lost=3, away=75.0),
                                   fleet=dict(FLEET, round=None, away=75.0)))
        screen.until("keeps up: ! broker away", "(?m)^broker +AWAY for 1 min 15 s  waiting -  dead 2  lost 3 ",
                     "(?m)^fleet +AWAY for 1 min 15 s  plant  4 of 8 partitions  2 daemons$")


def test_facts_at_200(directory):
    """Each layer has a panel with all known values."""
    facts(directory, 200, 60, r"layer 0 lstm 128", r"0\.500 ±1\.250", r"dormant 31\.2% rank 11\.8",
          r"growth +8\.195", r"recurrent +-0\.750 ±2\.500",
          r"range +-1\.000\.\.1\.000", r"cell +0\.333 ±0\.456", r"gain +1\.050 ±0\.200",
          r"bias +-0\.100 ±0\.300", r"updates +62  steps 4,000", "real 8 > lstm 128 norm")


def test_state_by_member(directory):
    """The layers of each network have its name, in panels and in lines."""
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("loss", LOSS, examples=100)
        daemon.send("state", MEMBERS)
        screen.until("(?m)^0 change lstm 128 .* 12.5% ", "(?m)^1 level lstm 128 ", "(?m)^2 level dense 3 ")
        dead = json.loads(json.dumps(MEMBERS))
        dead["members"]["level"]["layers"][1]["hidden"].update(minimum=0, maximum=0)
        daemon.send("state", dead)
        screen.until("healthy: ! layer 2 dead")
        screen.keys("q")
        screen.until("ended 0")


def test_state_of_many_members(directory):
    """Each line contains the beginning and end of a long layer name."""
    with watched(directory, 80, 60) as (daemon, screen):
        daemon.send("loss", LOSS, examples=100)
        daemon.send("state", {"layers": [LSTM], "members": {name: {"layers": [LSTM]} for name in MANY}})
        screen.until("(?m)^ 0 network~sensor-0 lstm 128 ", "(?m)^ 1 network~sensor-1 lstm 128 ")
        screen.keys("]" * len(MANY))
        screen.until("(?m)^19 network~ensor-19 lstm 128 ")
        screen.keys("q")
        screen.until("ended 0")


def curve(text):
    """(row, column) of the highest dots of the chart, column by column."""
    rows = [line[8:] for line in text.split("\n") if re.match(r"^ *[-\d.e]*[│┤]", line)]
    highest = {}
    for row, line in enumerate(rows):
        for column, character in enumerate(line):
            if BRAILLE.match(character):
                highest.setdefault(column, row)
    return len(rows), [highest[column] for column in sorted(highest)]


def falls(text):
    """The chart is as wide as the screen, and the curve extends from top to bottom."""
    rows, line = curve(text)
    return len(line) == 72 and line[0] == 0 and line[-1] == rows - 1 and line == sorted(line)


def is_straight(text):
    rows, line = curve(text)
    return len(line) > 0 and abs(line[len(line) // 2] - rows / 2) <= 1


def test_the_chart_falls_with_the_loss(directory):
    with watched(directory, 80, 24) as (daemon, screen):
        for i in range(101):
            value = 10 ** (-i / 50)  # 1 to 0.01
            publish(daemon, mean=value, smoothed=value, minimum=value, maximum=value)
        screen.until(r"loss 0\.0100, ", "learning: ↘ falling", r"(?m)^ 1\.0000┤", holds=falls)
        screen.keys("l")
        screen.until(r"log +10,100 examples", "(?m)^ 1.0000┤", r"(?m)^ 0\.\d+┤", holds=is_straight)
        screen.keys("l", "-")
        for _ in range(30):
            publish(daemon, mean=-1, smoothed=-1, minimum=-2, maximum=-0.5)
        screen.keys("l")
        screen.until("no log: not all > 0")


def test_truths_with_forecasts(directory):
    """Subscribes to predictions only if the daemon publishes them."""
    scored = {"example": 8, "data_time": None, "prediction": [1.5, 7], "target": [1.25, 3],
            "interval": [[1.375, 2], None], "loss": 0.1}
    with watched(directory, 80, 24) as (daemon, screen):
        publish(daemon, coverage={"total": 0.8975, "recent": 0.9})
        screen.until("learning")
        assert "forecast" not in "\n".join(screen.lines())
        daemon.send("status", dict(STATUS, predictions=True))
        daemon.wait_for("prediction")
        daemon.send("prediction", {"stream": "a", "example": 9, "prediction": [2, 2], "loss": 0.1,
                                   "scored": scored})
        daemon.send("status", dict(STATUS, predictions=True))
        screen.until(r"newest a\[0\]: 1.2500, forecast 1.5000, from 1.3750 to 2.0000: missed",
                     "hits 89.75%", before=lambda: publish(daemon, coverage={"total": 0.8975}))
        daemon.send("prediction", {"stream": "a", "example": 9, "prediction": [2, 2], "loss": 0.1,
                                   "interval": [[1.5, 2.5], None], "scored": dict(scored, interval=None)})
        screen.until(r"a\[0\]: 1.2500, forecast 1.5000; next 2.0000, from 1.5000 to 2.5000")
        daemon.send("prediction", {"stream": "a", "example": 9, "prediction": [2, 2], "loss": 0.1,
                                   "interval": [[1.5, 2.5], None], "scored": scored})
        screen.until(r"a\[0\]: 1.2500, forecast 1.5000, from 1.3750 to 2.0000: missed; next 2.0000\n")
        given = dict(scored, example=10) # `target: given`: nothing is open
        daemon.send("prediction", {"stream": "a", "example": 10, "prediction": [2, 2], "loss": 0.1,
                                   "interval": [[1.5, 2.5], None], "scored": given})
        screen.until(r"a\[0\]: 1.2500, forecast 1.5000, from 1.3750 to 2.0000: missed +hits 89.75%")
        wide = dict(scored, prediction=[-1500, 7], target=[-1250.5, 3], interval=[[-2000, -1375.25], None])
        daemon.send("prediction", {"stream": "machine 12", "example": 9, "prediction": [-1234.5, 2], "loss": 0.1,
                                   "interval": [[-1300, -1200], None], "scored": wide})
        screen.until(r"machine 12\[0\]: -1250.5, forecast -1500.0: missed; next -1234.5 *\n")


def test_experts_with_the_largest_weights(directory):
    """In a line of its own below the newest word."""
    weights = {"orders": 0.25, "word": 0.125, "network": 0.5, "skip": 0.0625, "mixture": None}
    experts = {name: {"mean": 1, "weight": weight} for name, weight in weights.items()}
    scored = {"target": 97, "word": "'a'", "prediction": {"words": ["'b'"], "probabilities": [0.75]}}
    with watched(directory, 80, 24) as (daemon, screen):
        publish(daemon)
        screen.until("skipped 2", absent=["experts"])
        daemon.send("status", dict(STATUS, predictions=True))
        daemon.wait_for("prediction")
        daemon.send("prediction", {"stream": "a", "example": 9, "prediction": scored["prediction"],
                                   "scored": scored})
        screen.until(r"newest a: 'a', forecast 'b' \(75.00%\); next 'b' *\n"
                     r" *experts network 50.00%, orders 25.00%, word 12.50% *\n",
                     before=lambda: publish(daemon, experts=experts))


def test_anomalies_are_counted(directory):
    with watched(directory, 80, 24) as (daemon, screen):
        publish(daemon)
        screen.until("skipped 2", absent=["anomalies"])
        publish(daemon, anomaly={"score": 1.75, "alarms": 1234})
        screen.until("rejected 3  skipped 2  anomalies 1,234")


def test_the_forecast_of_a_chosen_column(directory):
    scored = {"example": 8, "data_time": None, "prediction": [1.5, 7, 5], "target": [1.25, 3, None],
            "interval": [[1.375, 2], [2, 8], None], "loss": 0.1}
    skills = [{"rmse": 1, "mae": 1, "skill": skill} for skill in (0.5, -0.25, None)]
    with watched(directory, 100, 24) as (daemon, screen):
        daemon.send("status", dict(STATUS, predictions=True))
        daemon.wait_for("prediction")
        daemon.send("prediction", {"stream": "a", "example": 9, "prediction": [2, 2, 2], "loss": 0.1, "scored": scored})
        publish(daemon, columns=skills, coverage={"total": 0.8975})
        screen.until(r"newest a\[0\]: 1.2500, forecast 1.5000, .*skill \+0.500, hits 89.75%")
        screen.keys("c")
        screen.until(r"newest a\[1\]: 3.0000, forecast 7.0000, from 2.0000 to 8.0000 .*skill -0.250, hits 89.75%")
        screen.keys("c")
        screen.until(r"newest a\[2\]: not observed, forecast 5.0000 +hits 89.75%")
        publish(daemon, columns=skills, coverage={"total": 0.8975}, crps={"mean": 1, "skill": 0.25})
        screen.until(r"newest a\[2\]: not observed, forecast 5.0000 +hits 89.75%, CRPS skill \+0.250")
        screen.keys("c")
        screen.until(r"newest a\[0\]: 1.2500")
        screen.keys("w")
        screen.until(r"worst a\[1\]: 3.0000")
        publish(daemon, columns=[dict(skills[0], skill=-0.75), *skills[1:]])
        screen.until(r"worst a\[0\]: 1.2500, .*skill -0.750")
        screen.keys("w")
        screen.until(r"newest a\[0\]: 1.2500")


def test_the_forecast_of_a_target_that_has_a_name(directory):
    """At 80 columns a long name is shortened, and the next value remains visible."""
    scored = {"example": 8, "data_time": None, "prediction": [1.5, 7], "target": [1.25, 3],
            "interval": [[1.375, 2], [2, 8]], "loss": 0.1}
    for columns, name in [(80, "temper~earing"), (120, "temperatu~of_bearing")]:
        with watched(directory, columns, 24) as (daemon, screen):
            daemon.send("status", dict(STATUS, predictions=True, target_names="load, temperature_of_bearing"))
            daemon.wait_for("prediction")
            daemon.send("prediction", {"stream": "a", "example": 9, "prediction": [2, 2], "loss": 0.1,
                                       "interval": [[1.5, 2.5], [1, 3]], "scored": scored})
            publish(daemon)
            screen.until(r"newest a\[load\]: 1.2500, forecast 1.5000")
            screen.keys("c")
            screen.until(rf"newest a\[{name}\]: 3.0000, forecast 7.0000.*; next 2.0000")
            assert len(name) <= columns // 5


def test_resize(directory):
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("status", STATUS)
        publish(daemon)
        screen.until("0 lstm 128")
        screen.resize(200, 60)
        screen.until("layer 0 lstm 128 ─")
        for columns, rows in [(30, 8), (4, 2), (1, 1), (300, 90)]:
            screen.resize(columns, rows)
            publish(daemon)
        screen.until("layer 0 lstm 128 ─", "300 examples|600 examples|500 examples")
        screen.resize(80, 24)
        publish(daemon)
        screen.until("0 lstm 128", "host-load  learning", absent=["layer 0 lstm"])


def test_freeze_and_scroll_back(directory):
    with watched(directory, 80, 24) as (daemon, screen):
        for i in range(1, 41):
            publish(daemon, mean=i / 100)
        screen.until("loss 0.4000, ", "4,000 examples")
        screen.keys("Space")
        screen.until("FROZEN at 22:13:20")
        publish(daemon, mean=0.5)
        daemon.send("event", {"kind": "set", "text": "something new", "note": "a line"})
        screen.until("something new: a line", "loss 0.4000, ", "4,000 examples")
        screen.keys("Home")
        screen.until("loss 0.0100, ", " 100 examples")
        screen.keys("End")
        screen.until("loss 0.5000, ", "4,100 examples")
        screen.keys("Left")
        screen.until("FROZEN", r"loss 0\.3800, ", "3,850 examples")
        screen.keys("Space")
        screen.until("loss 0.5000, ", absent=["FROZEN"])
        screen.keys("+")
        screen.until(r"(?m)^ +\d,\d{3} .* 4,100 examples")


def test_help_and_views(directory):
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("status", STATUS)
        for i in range(30):
            daemon.send("event", {"kind": "set", "text": f"number {i} "})
            publish(daemon)
        screen.until("number 29", "events: 2[0-9] older above")
        screen.keys("?")
        screen.until("(?m)^ +q +quit", "set the learning rate", "press any key to return")
        screen.keys("x")
        screen.until("rmse", absent=["press any key to return"])
        screen.keys("v")
        screen.until("rmse", "loss 0.0412", absent=["number 29", "0 lstm 128"])
        screen.keys("v")
        screen.until("layer 0 lstm 128 ─", "recurrent", "range", absent=["rmse"])
        screen.keys("v")
        screen.until("number 29", "(?m)number 10$", absent=["(?m)number 2$"])
        screen.keys(*["Up"] * 20)
        screen.until("(?m)number 2$", "newer below", absent=["number 29"])
        screen.keys("v")
        screen.until("rmse")


def test_inputs_out_of_scale_are_not_healthy(directory):
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("status", STATUS)
        publish(daemon)
        screen.until("healthy: yes")
        daemon.send("event", {"kind": "input_scale", "text": "3 inputs are out of scale"})
        screen.until("healthy: ! inputs out of scale", "3 inputs are out")


def test_inputs_out_of_scale_of_an_idle_daemon(directory):
    """The skip happened before the subscription, but status contains the count."""
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("status", dict(STATUS, input_scale=3))
        screen.until("healthy: ! inputs out of scale")


def test_worse_than_the_simplest_forecast(directory):
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("status", STATUS)
        for _ in range(4):
            publish(daemon, baseline=0.05, skill=0.125, skill_recent=0.25)
        text = screen.until(r"skill +\+0\.125")
        assert "below baseline" not in text, text
        publish(daemon, baseline=0.05, skill=0.0625, skill_recent=-0.25)
        screen.until("learning: ! below baseline", r"skill +\+0\.062")
        shown = "\n".join(screen.lines("-e"))
        assert re.search(r"\033\[[\d;]*38;5;\d+m\+0\.062", shown.replace(" ", "")), repr(shown[:3000])


def test_important_reports(directory):
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("status", STATUS)
        for _ in range(12):
            publish(daemon, queued=0)
        screen.until("healthy: yes", "keeps up: yes")
        publish(daemon, rejected=5)
        screen.until("healthy: ! rejects: 2", "rejected 5")
        publish(daemon, rejected=5, skipped=3)
        screen.until("healthy: ! skips: 1")
        for i in range(12):
            publish(daemon, queued=2 ** i, rejected=5, skipped=3)
        screen.until("keeps up: ! no: 2048 wait")
        later = dict(time=1700000100, queued=0, rejected=5, skipped=3)
        saturated = json.loads(json.dumps(STATE))
        saturated["layers"][0]["hidden"]["saturated"] = 0.75
        publish(daemon, **later)
        daemon.send("state", saturated)
        screen.until("healthy: ! layer 0 75% saturated")
        dead = json.loads(json.dumps(STATE))
        dead["layers"][1]["hidden"].update(minimum=0, maximum=0)
        daemon.send("state", dead)
        screen.until("healthy: ! layer 1 dead")
        daemon.send("loss", dict(LOSS, **later), examples=100, lost=37)
        screen.until("missed 37 loss messages", "missed 37$|missed 37 ")
        daemon.send("status", dict(STATUS, state="paused"))
        screen.until("host-load  paused", "learning: ! paused")
        screen.until(r"up (1[4-9]|[2-9]\d) s") # of a status with 12
        daemon.send("status", dict(STATUS, checkpoint={"examples": 4321, "time": time.time() - 182}))
        screen.until("saved +3 min ([2-9]|[1-5]\\d) s ago, of 4,321")
        journal = {"position": 1234, "entries": 1234, "bytes": 5.6e6, "free_bytes": 12e9,
                   "waiting": 0, "replaying": False}
        daemon.send("status", dict(STATUS, journal=journal))
        screen.until(r"journal  1,234 entries; 12\.0 GB free")
        journal["replaying"] = True
        daemon.send("status", dict(STATUS, journal=journal, replaying=True))
        screen.until("replaying, learning", "journal  replaying 1,234 entries",
                     "learning: ! replaying")
        journal.update(free_bytes=1e6, replaying=False)
        daemon.send("status", dict(STATUS, journal=journal))
        screen.until("healthy: ! disk: 1.00 MB free")
        daemon.send("status", dict(STATUS, journal=dict(journal, waiting=9, free_bytes=12e9)))
        screen.until("keeps up: ! slow disk: 9 s", "journal  1,234 entries; 9 s behind")


def test_all_is_rejected(directory):
    """Without a loss, the count of `status` is shown."""
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("status", dict(STATUS, rejected=0, examples_per_second=None, every_seconds=10))
        screen.until("rejected 0 ", "no loss yet: one every 100 examples or 10 s")
        daemon.send("event", {"kind": "rejected", "text": "rejected 7 examples (x_size), the last: 4 bytes"})
        daemon.send("status", dict(STATUS, rejected=7, examples_per_second=0))
        screen.until("rejected 7 ", "healthy: ! examples rejected")
        publish(daemon, rejected=7)
        daemon.send("status", dict(STATUS, rejected=9, examples_per_second=2.5))
        screen.until("rejected 9 ", "speed +2.50")


def test_a_reset_starts_again(directory):
    with watched(directory, 80, 24) as (daemon, screen):
        for _ in range(30):
            publish(daemon)
        screen.until("3,000 examples")
        daemon.examples = 0
        for _ in range(3):
            publish(daemon)
        screen.until(r"(?m)^ +100 .* 300 examples", "not enough data")


def test_silence_and_return(directory):
    with watched(directory, 80, 24, "--silence", "0.5") as (daemon, screen):
        daemon.send("status", STATUS)
        screen.until(r"host-load  SILENT since \d\d:\d\d:\d\d \(\d+ s\)", "learning: no messages")
        daemon.send("status", STATUS)
        screen.until("is back after")
        screen.until("host-load  learning", before=lambda: daemon.send("status", STATUS))
        daemon.close()
        screen.until(r"GONE since \d\d:\d\d:\d\d \(\d+ s\)")
        with Publisher(directory, run="00000000000000bb") as second:
            second.wait_for(*HEARD)
            status = dict(STATUS, name="again")
            second.send("status", status)
            screen.until("was restarted")
            screen.until("again  learning", before=lambda: second.send("status", status))


def has_gap(text):
    """Whether the curve has two parts with a gap of nearly their length."""
    rows = [line[8:] for line in text.split("\n") if re.search("[\u2801-\u28ff]{20}", line)]
    return bool(rows) and bool(re.search("^[^ ]{20,} {20,}[^ ]{20,}$", rows[0]))


def test_missed_messages(directory):
    """The curve has a gap for examples without a subscriber, here and after a restart."""
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("status", STATUS)
        for _ in range(10):
            publish(daemon, smoothed=1)
        daemon.examples += 1000
        for _ in range(10):
            publish(daemon, smoothed=1)
        screen.until("3,000 examples", "no message between examples 1,000 and 2,100",
                     "(?m)^ +[─g]+$|^ +─+g─+ *$", holds=has_gap)
        daemon.close()
        with Publisher(directory, run="00000000000000bb") as second:
            second.wait_for(*HEARD)
            second.send("status", STATUS)
            second.examples = 4000
            publish(second)
            screen.until("no message between examples 3,000 and 4,100")
            second.send("status", dict(STATUS, every=200), examples=50)
            second.send("loss", LOSS, examples=150)
            second.send("status", dict(STATUS, every=100), examples=150)
            second.send("loss", LOSS, examples=50)
            publish(second, mean=0.75)
            screen.until("loss 0.7500", absent=["between 4,"])


def test_several_daemons(directory):
    with Publisher(directory) as first, Publisher(directory, "bb", "other") as second, \
            Screen(directory, 80, 24, "-c", first.endpoint, "-c", second.endpoint, "-c",
                   f"ipc://{directory}/none") as screen:
        for daemon, name in (first, "left"), (second, "right"):
            daemon.wait_for(*HEARD)
            daemon.send("status", dict(STATUS, name=name))
            publish(daemon, mean=0.1 if name == "left" else 0.2)
        screen.until(r"(?m)^ left  learning +up \d[\dmins ]+ s +right  learning",
                     "1 left   2 right   3 ipc.*!", "loss 0.1000, .*loss 0.2000",
                     "rejected 3.*rejected 3", "0 lstm 128.*0 lstm 128")
        screen.keys("a")
        screen.until("(?m)^ left  learning", "loss 0.1000", absent=["loss 0.2000"])
        screen.keys("Tab")
        screen.until("(?m)^ right  learning", "loss 0.2000", absent=["loss 0.1000"])
        screen.keys("3")
        screen.until("waiting for a daemon", "no loss yet")
        screen.keys("P")
        screen.until("no message from ipc.* yet")
        screen.keys("a", "1")
        screen.until("loss 0.1000, .*loss 0.2000")
        screen.resize(200, 60)
        screen.until("left  learning.*right  learning.*waiting for a daemon")


def test_without_utf8_and_colours(directory):
    with watched(directory, 80, 24, kind="vt100", locale="C") as (daemon, screen):
        daemon.send("status", dict(STATUS, name="n\u00e4me\033[2J"))
        daemon.send("event", {"kind": "skipped_update", "text": "loss is not finite"})
        for i in range(60):
            publish(daemon, smoothed=2 - i / 40, rejected=3 + i // 50)
        text = screen.until(r"n\?\?me \[2J  learning", "rejected 4  skipped 2", r"\*\*", "::",
                            r"-0\.012 ~0\.456", "! rejects: 1", "falling|steady", "loss is not finite")
        assert text.isascii(), text
        assert not re.search(r"\033\[[\d;]*3[0-8]", "\n".join(screen.lines("-e"))), "no colours"


def test_colours(directory):
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("status", STATUS)
        publish(daemon)
        publish(daemon, rejected=9)
        screen.until("! rejects: 6")
        shown = "\n".join(screen.lines("-e"))
        assert re.search(r"\033\[[\d;]*38;5;\d+m! rejects", shown), repr(shown[:3000])


def test_invalid_messages(directory):
    with watched(directory, 80, 24) as (daemon, screen):
        for frames in [[b"loss"], [b"loss", b"x"], [b"state", b"[1]"], [b"loss"] + [b"x"] * 9]:
            daemon.socket.send_multipart(frames)
        screen.until("invalid message")
        for value in [None, "x\ty\033", -1, 1e308, -1e308, 1e-308, True, [], {}, [1, {}], 10**18,
                      {"mean": "a", "rmse": [], "p50": {}}, "\u00e9" * 5000]:
            for topic, fields in [("loss", LOSS), ("status", STATUS), ("state", STATE),
                                  ("event", {"kind": 1})]:
                message = {key: value for key in [*fields, "run", "sequence", "time", "text"]}
                for examples in value, 1, 1e300:
                    message["examples"] = examples
                    daemon.socket.send_multipart([topic.encode(), json.dumps(message).encode()])
            layers = {"examples": 5, "layers": [value, {"hidden": value, "histogram": [value] * 20}]}
            daemon.socket.send_multipart([b"state", json.dumps(layers).encode()])
        publish(daemon, mean=0.5555)
        screen.until("loss 0.5555")
        for key in "l", "+", "Left", "v", "v", "v", "v", "End", "Space":
            screen.keys(key)
        publish(daemon, mean=0.7777)
        screen.until("loss 0.7777")
        screen.keys("q")
        screen.until("ended 0")


def test_words_of_any_length(directory):
    """Unbreakable text after an unknown character, invalid layer numbers, and unknown network names do not
    affect other messages."""
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("event", {"kind": "set", "text": "\u0378" + 500 * "y"})
        daemon.send("status", dict(STATUS, name=100000 * "\u6f22", model=100000 * "x"))
        screen.keys("v", "v", "v")
        screen.until("y{60}", "\u6f22{10}")
        for layers in [], [LSTM] * 100, [LSTM, None, 3], [LSTM]:
            publish(daemon)
            daemon.send("state", {"layers": layers})
        screen.keys("v")
        daemon.send("status", dict(STATUS, name=2 ** 20 * "z"))
        screen.until("ignored 1 invalid message: the message is larger than 1 MiB", "0 lstm 128", "\u6f22{10}")
        screen.keys("q")
        screen.until("ended 0")


def test_events_are_found_again(directory):
    """Keys of events also work on views without events."""
    with watched(directory, 80, 24) as (daemon, screen):
        daemon.send("event", {"kind": "set", "text": "the only one"})
        screen.until("the only one")
        screen.keys("v", *["Up"] * 9)
        screen.until("loss 0|no loss yet", absent=["the only one"])
        screen.keys("v", "v", "v")
        screen.until("the only one", absent=["-\\d older"])


def test_the_terminal_is_restored(directory):
    """The terminal is restored at every kind of end."""
    for number, status in [("INT", 0), ("TERM", 0), ("HUP", 0), ("SEGV", 139), ("ABRT", 134),
                           ("QUIT", 131)]:
        own = pathlib.Path(directory, number)
        own.mkdir()
        with watched(own, 80, 24) as (daemon, screen):
            daemon.send("status", STATUS)
            screen.until("host-load  learning")
            assert screen.modes() == "0 1 1"
            os.kill(screen.program(), getattr(signal, f"SIG{number}"))
            screen.until(f"ended {status}", absent=["host-load", "-echo", "-icanon"])
            assert screen.modes() == "1 0 0", number


def test_a_blocked_terminal(directory):
    """The output is blocked: a second signal ends the program."""
    with Publisher(directory) as daemon:
        master, slave = pty.openpty()
        process = subprocess.Popen([PROGRAM, "-c", daemon.endpoint], stdin=slave, stdout=slave,
                                   env=dict(os.environ, TERM="xterm"))
        daemon.wait_for(*HEARD)
        termios.tcflow(slave, termios.TCOOFF)
        try:
            end = time.monotonic() + LIMIT
            while process.poll() is None:
                publish(daemon)
                process.send_signal(signal.SIGTERM)
                time.sleep(0.2)
                assert time.monotonic() < end
        finally:
            process.kill()
            process.wait()
            os.close(slave)
            os.close(master)


CONFIG = """
name: real
model:
  input: {{kind: real, size: 2}}
  layers: [{{cell: gru, size: 8}}]
  output: {{loss: squared, size: 2, target: next}}
examples: {{bind: "ipc://{0}/examples"}}
statistics: {{bind: "ipc://{0}/statistics", every: 10}}
control: {{bind: "ipc://{0}/control"}}
state: {{directory: "{0}/state"}}
"""


def learn(daemon, count=200):
    with daemon.socket(running.zmq.PUSH, "examples") as feeder:
        for i in range(count):
            feeder.send_json({"stream": "a", "x": [i % 7 / 7, i % 5 / 5]})
        end = time.monotonic() + LIMIT
        while daemon.ask("status")["examples"] < count:
            assert time.monotonic() < end
            time.sleep(0.02)


def test_a_real_daemon_and_keys_that_act(directory):
    with running.Daemon(directory, CONFIG.format(directory)) as daemon, \
            Screen(directory, 80, 24, "-c", daemon.endpoint("statistics")) as screen:
        screen.until("real  learning", "started")
        learn(daemon)
        screen.until("0 gru 8 ", "rmse +0", "200 examples", "healthy: yes")
        screen.keys("P")
        screen.until("Pause real until it is resumed.*y/N")
        screen.keys("n")
        screen.until("cancelled")
        assert daemon.ask("status")["state"] == "learning"
        screen.keys("P", "y")
        screen.until("real  paused", "done: the daemon is paused", "paused after 200 examples")
        assert daemon.ask("status")["state"] == "paused"
        screen.keys("P")
        screen.until("Resume real.*y/N")
        screen.keys("y")
        screen.until("real  learning", "done: the daemon is learning")
        screen.keys("R")
        screen.until("Learning rate of real, now 0.001, new: _")
        screen.keys("0", ".", "5", "BSpace", "0", "2", "Enter")
        screen.until("Set the learning rate of real from 0.001 to 0.02.*y/N")
        screen.keys("y")
        screen.until("done: learning.optimizer.rate is now 0.02")
        assert daemon.ask("status")["rate"] == 0.02
        screen.keys("R", "-", "1", "Enter", "y")
        screen.until("(?s)learning.optimizer.rate: expected a number")
        screen.keys("R", "7", "Escape")
        screen.until("cancelled")
        screen.keys("C")
        screen.until("Write a checkpoint of real now.*y/N")
        screen.keys("y")
        screen.until("done: checkpoint .*state", "checkpoint of 200 examples")
        assert daemon.ask("status")["rate"] == 0.02 and list(daemon.directory.glob("state/*.safetensors"))


def test_the_wrong_daemon_is_not_touched(directory):
    with running.Daemon(directory, CONFIG.format(directory)) as daemon, \
            Publisher(directory, name="other") as other, \
            Screen(directory, 80, 24, "-c", other.endpoint, "--control",
                   daemon.endpoint("control")) as screen:
        other.wait_for(*HEARD)
        other.send("status", STATUS)
        screen.until("host-load  learning")
        screen.keys("P", "y")
        screen.until(r"(?s)is not the one shown\s+here:\s+command not sent; pass its\s+control\s+socket\s+with\s+--control")
        assert daemon.ask("status")["state"] == "learning"


def test_access_denied(directory):
    """The line of the state contains the reason; the screen does not wait for a daemon."""
    with Guarded(directory, statistics=(), control=()) as daemon:
        daemon.ask("status")  # it listens
        stranger = Pair(directory, "stranger")
        connect = "-c", daemon.endpoint("statistics")
        for key, reason in ([], "REFUSED|ACCESS DENIED"), (["--server-key", stranger.public_file], "ACCESS DENIED"):
            own = pathlib.Path(directory, f"screen{len(key)}")
            own.mkdir()
            with Screen(own, 160, 24, *connect, *map(str, key)) as screen:
                waits = "waiting for a daemon"  # before, on a busy machine
                before = screen.until(f"{reason}: the daemon", "the daemon .*--server-key").count(waits)
                time.sleep(1.5)  # a second without any daemon would be reported
                screen.until(f"{reason}: the daemon", holds=lambda text, n=before: text.count(waits) <= n)


def once(*arguments, locale="C.UTF-8", **sizes):
    environment = dict(os.environ, LC_ALL=locale, TZ="UTC", **sizes)
    return subprocess.Popen([PROGRAM, "--once", *arguments], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment)


def test_once(directory):
    with Publisher(directory) as daemon:
        prints = [once("-c", daemon.endpoint), once("-c", daemon.endpoint, locale="C"),
                  once("-c", daemon.endpoint, COLUMNS="200", LINES="60")]
        daemon.wait_for(*HEARD, subscribers=3)
        daemon.send("status", STATUS)
        publish(daemon)
        for process, rows in zip(prints, (24, 24, 60)):
            out, err = process.communicate(timeout=LIMIT)
            text = out.decode()
            assert (process.returncode, err) == (OK, b""), err
            assert text.count("\n") == rows and "\033" not in text, text
            for fact in r"host-load  learning", "loss 0.0412", r"gradient +12\.346", "rejected 3":
                assert re.search(fact, text), (fact, text)
        assert prints[1].args and text.count("layer 0 lstm 128") == 1


def test_once_without_a_daemon(directory):
    reason = b"no message from ipc:.*: the socket does not exist"
    for seconds in "0.2", "5", "30":  # a busy machine may not get the reason in a few
        done = subprocess.run([PROGRAM, "--once", "--wait", seconds, "-c", f"ipc://{directory}/none"],
                              capture_output=True, timeout=LIMIT)
        assert done.returncode == UNAVAILABLE and b"waiting for a daemon" in done.stdout
        if re.search(reason, done.stderr):
            break
    assert re.search(reason, done.stderr), done


def test_usage(directory):
    for arguments in [["x"], ["--wait", "1"], ["--once", "--wait", "x"], ["--silence", "-1"],
                      ["--bogus"], ["--once", "-c", "nowhere"], [], ["--once", "--control", "a",
                      "--control", "b"], ["--once"] + ["-c", "ipc:///none"] * 17]:
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, timeout=LIMIT,
                              stdin=subprocess.DEVNULL)
        assert (done.returncode, done.stdout) == (USAGE, b""), (arguments, done)
        assert b"--help" in done.stderr, (arguments, done)
    with Screen(directory, 80, 24, kind="dumb") as screen:
        screen.until("terminal type 'dumb' is not supported", f"ended {UNAVAILABLE}")


cases.run(globals())
