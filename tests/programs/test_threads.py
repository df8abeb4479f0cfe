#!/usr/bin/python3
"""learning.threads: members in parallel, and one network shared by threads, learn the same bits as
one thread, also after kills and with other numbers of threads. Also tests the place and the cost of
threads."""
import json
import os
import signal
import subprocess
import tempfile
import time

import cases
import experiments
import running
from running import Daemon, wait_learned, zmq

COUNT = 1500
CONFIG = """
name: threads
device: cpu
{network}
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics", every: 500}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: "{directory}/state", checkpoint: {{examples: 400, seconds: 0}}}}
"""
MEMBERS = """
preset: forecast
model: {input: {size: 2}}
members:
  - {name: change}
  - {name: level, set: {model.output.relative: none}}
  - {name: wide, set: {model.layers.0.size: 70, learning.window: 20}}
  - {name: other, set: {model.layers.0.cell: lstm, seed: 5}}
"""
LONE = """
model:
  input: {kind: real, size: 2}
  layers: [{cell: lstm, size: 70, norm: layer}, {cell: gru, size: 70, norm: rms}]
  output: {loss: gaussian, size: 2, target: next}
learning: {window: 8, stride: 4}
"""
FULL = """
name: full
device: cpu
model:
  input: {kind: real, size: 8, scale: forecast}
  layers: [{cell: lstm, size: 32, norm: layer}]
  output: {loss: squared, size: 8, target: next}
experts: [last]
members: [{name: a}, {name: b, set: {seed: 2}}, {name: c, set: {learning.window: 8}}]
"""
SPLIT = {**os.environ, "RUNNEL_SPLIT": "1"}  # shares products of any size


def daemon(directory, network, *settings, **variables):
    """A daemon whose threads share its networks, even if they are small."""
    arguments = [text for setting in settings for text in ("--set", setting)]
    Daemon.environment = {**SPLIT, **variables}
    return Daemon(directory, CONFIG.format(directory=directory, network=network), *arguments)


def feed(running_daemon, first, end):
    """Examples first..end of two streams; their content depends only on their number."""
    with running_daemon.socket(zmq.PUSH, "examples") as socket:
        for n in range(first, end):
            x = [(n * 7919 % 101) / 50 - 1, (n % 24) / 12 - 1]
            socket.send(json.dumps({"stream": f"s{n % 2}", "x": x}).encode())
        wait_learned(running_daemon, end)


def threads_of(running_daemon):
    """The names of a daemon's learning threads without its first one."""
    tasks = f"/proc/{running_daemon.process.pid}/task"
    names = []
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/comm", encoding="utf-8") as file:
            names.append(file.read().strip())
    return sorted(name for name in names if name.startswith("runnel-learn"))


def learned(network, *numbers):
    """The parameters after COUNT examples. The number of threads changes at each end; the first end
    is a request, others are kills."""
    with tempfile.TemporaryDirectory() as directory:
        for part, number in enumerate(numbers):
            with daemon(directory, network, f"learning.threads={number}") as running_daemon:
                status = running_daemon.ask("status")
                assert status["threads"] == number, status
                assert threads_of(running_daemon) == [
                    f"runnel-learn-{n}" for n in range(1, number)]
                end = COUNT * (part + 1) // len(numbers)
                feed(running_daemon, status["examples"], end)
                if part + 1 == len(numbers):
                    return running_daemon.export()
                if part == 0:
                    assert running_daemon.end() == 0
                else:
                    assert running_daemon.end(signal.SIGKILL) == -signal.SIGKILL
    return None


def test_members_learn_the_same_bits(_):
    assert learned(MEMBERS, 3, 1, 8, 2) == learned(MEMBERS, 1)


def test_a_shared_network_learns_the_same_bits(_):
    assert learned(LONE, 2, 3, 1) == learned(LONE, 1)


def test_plans_that_are_full(directory):
    """Members without a readout look at one target more than their plan has room for."""
    config = directory / "c.yaml"
    config.write_text(FULL, encoding="utf-8")
    bench = running.PROGRAM.with_name("runnel-bench")
    found = []
    for threads in 1, 2:
        path = directory / f"{threads}.safetensors"
        subprocess.run([bench, "--config", config, "--set", f"learning.threads={threads}",
                        "--examples", "300", "--parameters", path], check=True)
        found.append(path.read_bytes())
    assert found[0] == found[1]


def test_as_many_as_members(directory):
    """At most one less than the number of CPUs, and at least one; in a container its own limit
    applies."""
    cpus = len(os.sched_getaffinity(0))
    group = directory / "sys/fs/cgroup/cpu.max"
    group.parent.mkdir(parents=True)
    (directory / "proc/self").mkdir(parents=True)
    (directory / "proc/self/cgroup").write_text("0::/\n", encoding="utf-8")
    for limit, quota in ("max 100000", cpus), ("250000 100000", 2), ("50000 100000", 1):
        group.write_text(limit + "\n", encoding="utf-8")
        with tempfile.TemporaryDirectory() as place, \
                daemon(place, MEMBERS, RUNNEL_MACHINE=str(directory)) as running_daemon:
            assert running_daemon.ask("status")["threads"] == max(1, min(4, cpus - 1, quota - 1))


def test_one_network_has_one(directory):
    with daemon(directory, LONE) as running_daemon:
        assert running_daemon.ask("status")["threads"] == 1
        assert not threads_of(running_daemon)


def test_threads_that_wait_do_not_run(directory):
    """Eight running threads would use all CPUs in every second. One second is enough in which they
    use less than a fifth."""
    with daemon(directory, MEMBERS, "learning.threads=8") as running_daemon:
        feed(running_daemon, 0, 200)
        deadline = time.monotonic() + running.LIMIT
        idle = False
        while not idle and time.monotonic() < deadline:
            before, begin = cpu_seconds(running_daemon), time.monotonic()
            time.sleep(1)
            idle = cpu_seconds(running_daemon) - before < (time.monotonic() - begin) / 5
        assert idle


def cpu_seconds(running_daemon):
    with open(f"/proc/{running_daemon.process.pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_pinned(directory):
    """The learning threads stay on their CPUs; other threads may run anywhere."""
    cpu = min(os.sched_getaffinity(0))
    with daemon(directory, MEMBERS, "learning.threads=1", f"learning.pin=[{cpu}]") as one:
        feed(one, 0, 200)
        assert os.sched_getaffinity(one.process.pid) == {cpu}
        tasks = [int(task) for task in os.listdir(f"/proc/{one.process.pid}/task")]
        assert any(os.sched_getaffinity(task) == os.sched_getaffinity(0) for task in tasks)


def test_pins_that_cannot_be(directory):
    cpus = len(os.sched_getaffinity(0))
    nowhere = max(os.sched_getaffinity(0)) + 1
    for settings, sentence in (
            ((f"learning.threads={cpus + 1}", "learning.pin=true"),
             f"learning.pin: true has {cpus} CPUs, fewer than learning.threads: {cpus + 1}; lower learning.threads"),
            (("learning.threads=2", f"learning.pin={nowhere}"),
             f"learning.pin: {nowhere} has 1 CPUs, fewer than learning.threads: 2"),
            ((f"learning.pin=[{nowhere}]",),
             f"learning.pin: CPU {nowhere} is not available; this process may use {cpus} CPUs")):
        with daemon(directory, MEMBERS, *settings) as running_daemon:
            assert running_daemon.process.wait(running.LIMIT) == 78
            assert sentence in running_daemon.text(), running_daemon.text()


def test_members_share_them(directory):
    text = MEMBERS.replace("seed: 5", "learning.threads: 2")
    with daemon(directory, text) as running_daemon:
        assert running_daemon.process.wait(running.LIMIT) == 78
        assert ("member other cannot set learning.threads; expected seed or keys of"
                in running_daemon.text()), running_daemon.text()


def test_other_threads_need_a_restart(directory):
    with daemon(directory, LONE) as running_daemon:
        running_daemon.ask("status")  # it has read its configuration
        text = running_daemon.path.read_text(encoding="utf-8")
        running_daemon.path.write_text(text.replace("{window: 8", "{threads: 2, window: 8"),
                                       encoding="utf-8")
        running_daemon.process.send_signal(signal.SIGHUP)
        running_daemon.until(lambda: "not applied until a restart: learning.threads"
                             in running_daemon.text())


def test_runs_of_an_experiment_side_by_side(directory):
    """The number of parallel runs and of their threads does not change a bit."""
    experiments.table(directory / "data.csv")
    found = []
    for jobs, setting in ((1, {}), (2, {}), (1, {"learning.threads": 3}),
                          (2, {"learning.threads": 2, "learning.pin": True})):
        name = f"e{len(found)}"
        experiments.write(directory, f"{name}.yaml", {
            "base": {"preset": "forecast", "model": {"input": {"size": 2}}, "device": "cpu"},
            "streams": {"data": {"feed": "csv data.csv --columns c0,c1"}}, "set": setting,
            "grid": {"rate": [0.001, 0.01]}})
        done = experiments.call(directory, f"{name}.yaml", "-q", "--jobs", jobs, "-o", name)
        assert done.status == 0, done
        found.append(experiments.digests(directory / name))
    assert found[0] and all(digests == found[0] for digests in found)


if __name__ == "__main__":
    cases.run(globals())
