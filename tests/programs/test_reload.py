#!/usr/bin/python3
"""SIGHUP reads the configuration again. Changes of some keys are applied; each other change is
named with its solution. Results of a changed configuration are repeated after a crash with the same
bits."""
import json
import os
import pathlib
import pty
import re
import signal
import socket as sockets
import struct
import subprocess
import tempfile
import time

import cases
import running
from running import LIMIT, Daemon, zmq

CONFIG = """
name: {name}
seed: {seed}
device: cpu
model:
  input: {{kind: real, size: {size}}}
  layers: {layers}
  output: {{loss: squared, size: {size}, target: next}}
learning: {{rule: {rule}, window: {window}, stride: {stride}, clip: {clip}, max_streams: {streams},
           optimizer: {{kind: {kind}, rate: {rate}}}}}
examples: {{{examples}, socket: {socket}}}
statistics: {{bind: "{statistics}", every: {every}, predictions: {predictions}}}
control: {{bind: "ipc://{directory}/control"}}
state:
  directory: {state}
  checkpoint: {{examples: {count}, seconds: {seconds}}}
  journal: {{enabled: {journal}, keep: {keep}}}
"""
VALUES = {"name": "again", "seed": 1, "size": 2, "layers": "[{cell: gru, size: 4}]", "window": 4,
          "rate": 0.01, "clip": 1, "kind": "adam", "streams": 8, "rule": "tbptt",
          "stride": 2, "socket": "pull", "every": 100, "predictions": "false",
          "count": 0, "seconds": 0, "journal": "true", "keep": "checkpoint"}


class Running(Daemon):
    """A daemon whose configuration file can be rewritten with other values."""
    form = CONFIG

    def __init__(self, directory, *arguments, **values):
        self.values = dict(VALUES, directory=directory, state=f"{directory}/state",
                           examples=f'bind: "ipc://{directory}/examples"',
                           statistics=f"ipc://{directory}/statistics", **values)
        self.fed = 0
        super().__init__(directory, self.form.format(**self.values), *arguments)
        self.events = self.listen()

    def write(self, **values):
        self.values.update(values)
        self.path.write_text(self.form.format(**self.values), encoding="utf-8")

    def listen(self):
        """A subscriber whose subscription has arrived, which an event confirms."""
        events = self.context.socket(zmq.SUB)
        events.subscribe(b"event")
        events.connect(self.endpoint("statistics"))
        self.until(lambda: events.poll(100), lambda: (self.ask("pause"), self.ask("resume")))
        return events

    def event(self, *kinds):
        """The next event of these kinds."""
        while True:
            event = json.loads(self.next_message(self.events)[1])
            if event["kind"] in kinds:
                return event

    def reload(self):
        """Sends SIGHUP, and returns the event with the result."""
        self.process.send_signal(signal.SIGHUP)
        event = self.event("reloaded", "reload_failed")
        assert event["text"] in self.text(), self.text()
        return event

    def refuses(self, *sentence):
        before = self.ask("status")
        event = self.reload()
        assert event["kind"] == "reload_failed", event
        for part in sentence:
            assert part in event["text"], (part, event)
        after = self.ask("status")
        for key in ("rate", "clip", "every", "predictions", "digest"):
            assert before[key] == after[key], key

    def takes(self, **changed):
        """Checks the changed keys, with __ for a dot."""
        event = self.reload()
        assert event["kind"] == "reloaded", event
        wanted = {key.replace("__", "."): value for key, value in changed.items()}
        assert event["changed"] == wanted and not event["restart"] and not event["refused"], event
        return event

    def feed(self, count):
        with self.socket(zmq.PUSH, "examples") as push:
            for n in range(self.fed, self.fed + count):
                push.send_multipart([b"a", struct.pack("<2f", n % 7 / 7, n % 5 / 5)])
            self.fed += count
            self.until(lambda: self.ask("status")["examples"] == self.fed)

    def kill_and_start(self):
        self.end(signal.SIGKILL)
        self.log.close()
        self.start()
        self.events.close()
        self.events = self.listen()


def test_takes_what_may_change(directory):
    with Running(directory) as daemon:
        daemon.write(rate=0.25, clip=2, every=3, predictions="true")
        event = daemon.takes(learning__optimizer__rate="0.25", learning__clip="2",
                             statistics__every="3", statistics__predictions="true")
        assert "learning.optimizer.rate is 0.25" in event["text"], event
        status = daemon.ask("status")
        assert (status["rate"], status["clip"], status["every"], status["predictions"]) \
            == (0.25, 2, 3, True), status
        daemon.takes()
        with daemon.context.socket(zmq.SUB) as subscriber:
            subscriber.subscribe(b"prediction")
            subscriber.connect(daemon.endpoint("statistics"))
            daemon.until(lambda: subscriber.poll(100), lambda: daemon.feed(1))
        daemon.write(count=daemon.fed + 2)
        daemon.takes(state__checkpoint__examples=str(daemon.fed + 2))
        daemon.feed(1)
        daemon.write(count=1)
        daemon.takes(state__checkpoint__examples="1")
        assert daemon.event("checkpoint")["examples"] >= daemon.fed
        daemon.write(count=0, seconds=0.05)
        daemon.takes(state__checkpoint__examples="0", state__checkpoint__seconds="0.05")
        daemon.feed(1)
        daemon.event("checkpoint")


def test_what_was_set_stays_unless_the_file_changes_it(directory):
    with Running(directory) as daemon:
        daemon.ask("set", key="learning.optimizer.rate", value=0.5)
        daemon.write(clip=3)
        daemon.takes(learning__clip="3")
        status = daemon.ask("status")
        assert (status["rate"], status["clip"]) == (0.5, 3), status
        daemon.write(rate=0.02)
        daemon.takes(learning__optimizer__rate="0.02")
        assert daemon.ask("status")["rate"] == 0.02
        daemon.ask("set", key="learning.optimizer.rate", value=0.5)
        daemon.ask("reset")  # to the value that is in the file now
        assert daemon.ask("status")["rate"] == 0.02


def test_applies_what_may_change_and_names_the_rest(directory):
    """--check-config --state reports the same."""
    with Running(directory) as daemon:
        daemon.feed(5)
        daemon.ask("checkpoint")
        first = daemon.export()
        refused = {"model.input.size": {"size": 3}, "seed": {"seed": 2},
                   "learning.max_streams": {"streams": 7},
                   "model.layers": {"layers": "[{cell: gru, size: 4}, {cell: gru, size: 4}]"},
                   "model.layers.0.size": {"layers": "[{cell: gru, size: 5}]"}}
        restart = {"name": {"name": "x"}, "learning.window": {"window": 5},
                   "state.directory": {"state": "/nowhere"},
                   "examples.socket": {"socket": "router"},
                   "examples.bind": {"examples": f'bind: "ipc://{directory}/other"'},
                   "examples.connect": {"examples": f'connect: "ipc://{directory}/examples"'},
                   "statistics.bind": {"statistics": f"ipc://{directory}/other"},
                   "state.journal.enabled": {"journal": "false"},
                   "state.journal.keep": {"keep": "all"}}
        for key, change in {**refused, **restart}.items():
            before = dict(daemon.values)
            daemon.write(rate=0.5, every=7, **change)
            event = daemon.reload()
            assert event["changed"] == {"learning.optimizer.rate": "0.5",
                                        "statistics.every": "7"}, event
            waiting = set(event["restart"]), set(event["refused"])
            also = {"model.output.size"} if "size" in change else set()
            assert waiting == ((set(), {key} | also) if key in refused else ({key}, set())), event
            assert key in event["text"], event
            assert (("`runnel-ctl export FILE`" if key in refused else "until a restart")
                    in event["text"]), event
            status = daemon.ask("status")
            assert (status["rate"], status["every"]) == (0.5, 7), status
            assert check_state(daemon, f"{directory}/state")[0] == 78 * (key in refused), key
            daemon.write(**before)
            daemon.takes(learning__optimizer__rate="0.01", statistics__every="100")
        assert daemon.export() == first


def test_a_rate_waits_for_its_optimizer(directory):
    with Running(directory) as daemon:
        for every, kind, rate in (7, "cocob", "auto"), (8, "sgd", 0.1):
            daemon.write(kind=kind, rate=rate, every=every)
            event = daemon.reload()
            assert event["changed"] == {"statistics.every": str(every)}, event
            assert {"learning.optimizer.kind",
                    "learning.optimizer.rate"} <= set(event["restart"]), event
            assert daemon.ask("status")["rate"] == 0.01


def test_security_waits_together(directory):
    with Running(directory) as daemon:
        daemon.path.write_text(daemon.path.read_text() + "security: {quota: {waiting: 9}}\n")
        daemon.takes(security__quota__waiting="9")
        daemon.write(every=7)
        daemon.path.write_text(daemon.path.read_text() +
                               "security: {secret: daemon.secret, allow: {control: control.keys}, "
                               "quota: {waiting: 10}}\n")
        event = daemon.reload()
        assert event["changed"] == {"statistics.every": "7"}, event
        assert set(event["restart"]) == {"security.secret", "security.allow.control",
                                         "security.quota.waiting"}, event
        assert not event["refused"], event


MEMBERS = """
name: members
preset: forecast
device: cpu
model: {{input: {{size: 2}}, layers: [{{cell: gru, size: {size}}}]}}
anomaly: {{enabled: false}}
members:
  - {{name: change, set: {{learning.optimizer.rate: {rate}}}}}
  - {{name: level, set: {{model.output.relative: none, learning.clip: {clip}}}}}
examples: {{{examples}}}
statistics: {{bind: "{statistics}", every: {every}}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {state}}}
"""


class Members(Running):
    form = MEMBERS


def rates(daemon):
    return [tuple(m["set"].get(f"learning.{key}") for key in ("optimizer.rate", "clip"))
            for m in daemon.ask("config")["configuration"]["members"]]


def test_members_take_rates_and_clips(directory):
    with Members(directory) as daemon:
        daemon.feed(20)
        before = rates(daemon)
        daemon.write(rate=0, clip=4)
        event = daemon.reload()
        assert set(event["changed"]) == {"members"} and not event["refused"], event
        assert "learning.optimizer.rate=0" in event["changed"]["members"], event
        assert rates(daemon) != before
        now = rates(daemon)
        first = daemon.export()
        daemon.feed(20)
        kept, after = tensors(first), tensors(daemon.export())
        name = "layers.0.weight_ih"
        assert kept[f"members.change.{name}"] == after[f"members.change.{name}"]
        assert kept[f"members.level.{name}"] != after[f"members.level.{name}"]
        durable(daemon)
        daemon.kill_and_start()  # the examples before and after the change are learned again
        assert tensors(daemon.export()) == after
        daemon.write(rate=0.5, size=9, every=7)  # of the members only the rates differ
        event = daemon.reload()
        assert set(event["changed"]) == {"members", "statistics.every"}, event
        assert set(event["refused"]) == {"model.layers.0.size"}, event
        assert rates(daemon)[0] != now[0] and rates(daemon)[1] == now[1]
        text = daemon.path.read_text()
        text = text.replace("rate: 0.5", "rate: 0.7").replace("name: level", "name: l")
        daemon.path.write_text(text)
        event = daemon.reload()
        assert not event["changed"] and "members" in event["refused"], event


def test_keeps_everything_when_the_file_is_wrong(directory):
    with Running(directory) as daemon:
        good = daemon.path.read_text()
        for text, sentence in [(good.replace("rate: 0.01", "rate: fast"), "config.yaml:10:"),
                               (good + "unheard: 1\n", 'unknown key'), ("{", "config.yaml"),
                               (good.replace("stride: 2", "stride: 9"), "learning.stride"),
                               (good + "security: {allow: {control: keys}}\n", "security.secret"),
                               (good.replace("ipc://", "tcp://*:", 1), "config.yaml")]:
            daemon.path.write_text(text)
            daemon.refuses(sentence, "the configuration is unchanged")
        daemon.path.unlink()
        daemon.refuses("cannot open the configuration")
        daemon.path.write_text(good)
        daemon.takes()


def test_overrides_count_again(directory):
    with Running(directory, "--set", "learning.optimizer.rate=0.125") as daemon:
        daemon.write(rate=0.5, clip=4)
        daemon.takes(learning__clip="4")
        assert daemon.ask("status")["rate"] == 0.125


def learn(daemon, disturb):
    """Learns some examples with changes in between; `disturb` is called where the daemon may be
    killed."""
    daemon.feed(13)
    disturb(daemon)
    daemon.write(rate=0.05)
    daemon.takes(learning__optimizer__rate="0.05")
    disturb(daemon)
    daemon.feed(17)
    daemon.ask("set", key="learning.clip", value=0.125)
    daemon.feed(5)
    disturb(daemon)
    daemon.write(rate=0.03, clip=0.5)
    daemon.takes(learning__optimizer__rate="0.03", learning__clip="0.5")
    daemon.ask("set", key="learning.optimizer.rate", value=0.3)
    daemon.feed(9)
    disturb(daemon)
    daemon.write(every=7)
    daemon.takes(statistics__every="7")
    daemon.feed(6)
    disturb(daemon)
    status = daemon.ask("status")
    assert (status["rate"], status["clip"], status["every"]) == (0.3, 0.5, 7), status
    exported = [daemon.export()]
    daemon.ask("reset")
    daemon.fed = 0
    daemon.feed(9)
    disturb(daemon)
    daemon.feed(9)
    status = daemon.ask("status")
    assert (status["rate"], status["clip"]) == (0.03, 0.5), status
    return exported + [daemon.export()]


def tensors(blob):
    """The bytes of the tensors by name."""
    size = int.from_bytes(blob[:8], "little")
    return {name: blob[8 + size:][slice(*about["data_offsets"])]
            for name, about in json.loads(blob[8:8 + size]).items() if name != "__metadata__"}


def durable(daemon):
    daemon.until(lambda: (lambda j: j["durable"] == j["position"])(daemon.ask("status")["journal"]))


def test_recovery_has_the_same_bits(directory):
    def kill(daemon):
        durable(daemon)
        daemon.kill_and_start()

    def kill_after_a_checkpoint(daemon):
        daemon.ask("checkpoint")
        kill(daemon)

    results = []
    for disturb in (lambda daemon: None, kill, kill_after_a_checkpoint):
        with tempfile.TemporaryDirectory(prefix="runnel-") as name:
            with Running(name) as daemon:
                results.append(learn(daemon, disturb))
    assert results[0] == results[1], "killed"
    assert results[0] == results[2], "killed after a checkpoint"


def test_a_file_that_changed_while_the_daemon_was_down(directory):
    """Journal entries were learned with the old rate. The new rate applies after them."""
    results = []
    for crash in False, True:
        with tempfile.TemporaryDirectory(prefix="runnel-") as name:
            with Running(name) as daemon:
                daemon.feed(5)
                daemon.ask("checkpoint")
                daemon.feed(11)
                daemon.write(rate=0.2)
                if crash:
                    durable(daemon)
                    daemon.kill_and_start()
                    assert "learning.optimizer.rate is 0.2" in daemon.text(), daemon.text()
                else:
                    daemon.takes(learning__optimizer__rate="0.2")
                daemon.feed(11)
                if crash:
                    durable(daemon)
                    daemon.kill_and_start()
                assert daemon.ask("status")["latency_us"]["max"] < 1e6 * LIMIT
                daemon.feed(1)
                results.append(daemon.export())
    assert results[0] == results[1]


def check_state(daemon, *directory):
    """Exit code and errors of --check-config --state."""
    done = subprocess.run([running.PROGRAM, "--config", daemon.path, "--check-config", "--state",
                           *directory], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_check_answers_what_a_restart_would(directory):
    with Running(directory) as daemon:
        code, text = check_state(daemon)
        assert code == 0 and "resumes after 0 examples" in text, text
        daemon.feed(7)
        daemon.ask("checkpoint")
        files = {p.name: p.stat().st_mtime_ns for p in pathlib.Path(directory, "state").iterdir()}
        code, text = check_state(daemon)  # of a running daemon
        assert code == 0 and "resumes after 7 examples" in text, text
        for change in {"rate": 0.5}, {"every": 7}, {"examples": 'bind: "ipc:///nowhere"'}:
            before = dict(daemon.values)
            daemon.write(**change)
            code, text = check_state(daemon)
            assert code == 0 and "resumes after 7 examples" in text, (change, text)
            daemon.write(**before)
        daemon.write(layers="[{cell: gru, size: 5}]")
        other = pathlib.Path(directory, "other")
        code, text = check_state(daemon, other)
        assert code == 0 and "initial parameters" in text and not other.exists(), text
        code, refusal = check_state(daemon)
        assert code == 78 and "another configuration" in refusal, refusal
        assert files == {p.name: p.stat().st_mtime_ns
                         for p in pathlib.Path(directory, "state").iterdir()}
        daemon.end()
        daemon.start()
        assert daemon.process.wait(LIMIT) == 78
        assert refusal.splitlines()[-1] in daemon.text(), (refusal, daemon.text())


def predicts(daemon):
    """The prediction for the next example."""
    with daemon.context.socket(zmq.SUB) as subscriber:
        subscriber.subscribe(b"")
        subscriber.connect(daemon.endpoint("statistics"))
        daemon.until(lambda: subscriber.poll(100), lambda: (daemon.ask("pause"), daemon.ask("resume")))
        daemon.feed(1)
        while (message := daemon.next_message(subscriber))[0] != b"prediction":
            continue
        return json.loads(message[1])["prediction"]


def restart(daemon, **changed):
    """Ends the daemon, and starts it with another configuration."""
    assert daemon.end() == 0
    daemon.write(**changed)
    daemon.log.close()
    daemon.start()
    daemon.events.close()
    daemon.events = daemon.listen()


BEGINNING = [{"window": 7}, {"window": 2}, {"stride": 1}, {"rule": "rtrl"},
             {"kind": "sgd", "rate": 0.5}, {"kind": "cocob", "rate": "auto"}]


def test_a_restart_with_another_window_or_optimizer_keeps_what_was_learned(directory):
    """Parameters and states are kept. After a kill, later examples are learned again with the same
    bits, even if the first checkpoint of the new configuration is damaged."""
    forecasts = []
    for change in [{}] + BEGINNING:
        with tempfile.TemporaryDirectory(prefix="runnel-") as name:
            with Running(name, predictions="true", keep="all") as daemon:
                daemon.feed(13)
                first = tensors(daemon.export())
                restart(daemon, **change)
                assert daemon.ask("status")["examples"] == 13
                assert tensors(daemon.export()) == first, change
                anew = "start from scratch" in daemon.text()
                assert anew == bool(change), daemon.text()
                assert ("optimizer's moments start from scratch" in daemon.text()) == ("kind" in change)
                code, text = check_state(daemon)  # the first checkpoint of the new configuration
                assert code == 0 and "start from scratch" not in text, text
                forecasts.append(predicts(daemon))
                daemon.feed(20)
                learned = tensors(daemon.export())
                assert learned != first, change
                durable(daemon)
                daemon.kill_and_start()
                assert "replaying" in daemon.text()
                assert tensors(daemon.export()) == learned, change
                durable(daemon)
                newest = pathlib.Path(name, "state/checkpoint.safetensors")
                newest.write_bytes(newest.read_bytes()[:-9])
                daemon.kill_and_start()
                assert "resuming from the previous checkpoint" in daemon.text(), daemon.text()
                assert tensors(daemon.export()) == learned, change
                restart(daemon)
                assert tensors(daemon.export()) == learned, change
    assert all(one == forecasts[0] for one in forecasts), forecasts


def test_members_restart_their_windows(directory):
    with Members(directory) as daemon:
        daemon.feed(40)
        first = tensors(daemon.export())
        daemon.end()
        text = daemon.path.read_text() + "learning: {window: 5, stride: 5}\n"
        daemon.path.write_text(text)
        code, output = check_state(daemon)
        assert code == 0 and "start from scratch" in output, output
        daemon.log.close()
        daemon.start()
        daemon.events = daemon.listen()
        assert tensors(daemon.export()) == first
        daemon.feed(20)
        learned = tensors(daemon.export())
        durable(daemon)
        daemon.kill_and_start()
        assert tensors(daemon.export()) == learned != first


def test_journal_entries_are_learned_with_their_configuration(directory):
    with Running(directory, keep="all") as daemon:
        daemon.feed(9)
        daemon.ask("checkpoint")
        daemon.feed(10)
        durable(daemon)
        learned = tensors(daemon.export())
        daemon.end(signal.SIGKILL)
        daemon.write(window=6)
        daemon.log.close()
        daemon.start()
        assert daemon.process.wait(LIMIT) == 78
        assert "10 entries after the checkpoint, learned with another window" in daemon.text()
        code, text = check_state(daemon)
        assert code == 78 and "has 10 entries after the checkpoint" in text, text
        daemon.write(window=4)
        daemon.log.close()
        daemon.start()
        daemon.events = daemon.listen()
        assert tensors(daemon.export()) == learned
        daemon.write(window=6)
        code, text = check_state(daemon)
        assert code == 0 and "stop the running daemon first" in text, text
        restart(daemon)  # its last checkpoint has everything
        assert tensors(daemon.export()) == learned
        before = daemon.ask("status")["examples"]
        reply = daemon.request("rollback", to=5)[0]
        assert not reply["ok"] and "another window" in reply["error"], reply
        daemon.feed(3)
        assert daemon.ask("status")["examples"] == before + 3
        durable(daemon)
        daemon.end(signal.SIGKILL)
        daemon.write(window=4)  # back again
        daemon.log.close()
        daemon.start()
        assert daemon.process.wait(LIMIT) == 78
        assert "3 entries after the checkpoint" in daemon.text(), daemon.text()


def test_notifies_the_manager(directory):
    header = (running.PROGRAM.parent / "build-config.h").read_text()
    if not re.search(r"^#define RUNNEL_SYSTEMD 1$", header, re.MULTILINE):
        return
    with sockets.socket(sockets.AF_UNIX, sockets.SOCK_DGRAM) as manager:
        manager.bind(f"{directory}/notify")
        manager.settimeout(LIMIT)
        os.environ["NOTIFY_SOCKET"] = f"{directory}/notify"
        try:
            daemon = Running(directory)
        finally:
            del os.environ["NOTIFY_SOCKET"]
        with daemon:
            while manager.recv(4096) != b"READY=1":
                pass
            for change in (lambda: daemon.write(clip=2)), (lambda: daemon.write(seed=9)):
                change()
                daemon.reload()
                notified = [b""]
                while notified[-1] != b"READY=1":
                    notified.append(manager.recv(4096))
                reloading = [t for t in notified if t.startswith(b"RELOADING=1\nMONOTONIC_USEC=")]
                assert len(reloading) == 1, notified
                assert 0 < int(reloading[0].rsplit(b"=", 1)[1]) <= time.monotonic_ns() // 1000, notified


def test_a_closed_terminal_ends_it(directory):
    path = directory / "config.yaml"
    path.write_text(CONFIG.format(**dict(
        VALUES, directory=directory, state=f"{directory}/state",
        examples=f'bind: "ipc://{directory}/examples"',
        statistics=f"ipc://{directory}/statistics")))
    child, terminal = pty.fork()
    if child == 0:
        os.execv(running.PROGRAM, [running.PROGRAM, "--config", path])
    try:
        output = b""
        while b"fresh parameters" not in output:
            output += os.read(terminal, 4096)
        os.kill(child, signal.SIGHUP)
        while b"reloaded the configuration" not in output:
            output += os.read(terminal, 4096)
        assert b" connections closed" not in output, output
        os.close(terminal)
        ended = time.monotonic() + LIMIT
        while (result := os.waitpid(child, os.WNOHANG)) == (0, 0):
            assert time.monotonic() < ended
            time.sleep(0.02)
        child = None
        assert os.waitstatus_to_exitcode(result[1]) == 0, result
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


if __name__ == "__main__":
    cases.run(globals())
