#!/usr/bin/env python3
"""Tests runnel-experiment: its runs, its results, invalid input, and equal results after kills and
a full disk."""
import fcntl
import json
import os
import pathlib
import pty
import resource
import signal
import sqlite3
import subprocess
import time

import cases
import experiments
import running
from experiments import CANNOT_CREATE, CONFIG, DATA, DISK, INTERRUPTED, NO_INPUT, OK, USAGE

SIGNAL = {"signal": {"feed": "synth sine --size 2 --count 400"}}
RATES = {"streams": SIGNAL, "base": experiments.real(2),
         "grid": {"rate": [0.001, 0.01], "norm": ["layer", "none"]}, "seeds": 2}
NAMES = ["rate 0.001, norm layer", "rate 0.001, norm none", "rate 0.01, norm layer",
         "rate 0.01, norm none"]


def over(directory):
    """The number of finished runs, also while results are written."""
    try:
        return experiments.rows(directory, "SELECT count(*) FROM runs WHERE state = 'done'")[0][0]
    except sqlite3.OperationalError:  # the file does not exist yet, or is not readable yet
        return 0


def start(directory, *arguments, **options):
    return subprocess.Popen([experiments.PROGRAM, *map(str, arguments)], cwd=directory,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def until(process, reached):
    """Waits until the condition is true or the process has ended."""
    end = time.monotonic() + running.LIMIT
    while process.poll() is None and not reached():
        assert time.monotonic() < end
        time.sleep(0.005)


# --- runs ----------------------------------------------------------------------------------------

def test_memory_of_long_lags(directory):
    """conf/lags.yaml learns to recall a symbol after 50 steps; a window of 16 guesses."""
    lags = (pathlib.Path(os.environ.get("srcdir", ".")) / "conf/lags.yaml").resolve()
    experiments.write(directory, "e.yaml", {
        "base": str(lags), "streams": {"lag": {"feed": "synth recall --delay 50 --count 120003"}},
        "variants": [{"name": "mingru"}, {"name": "window", "rule": "tbptt", "window": 16,
                                          "layers.0": {"cell": "gru", "size": 16, "norm": "none"}}]})
    assert experiments.call(directory, "e.yaml").status == OK
    (found,), (guessed,) = experiments.rows(directory / "e.experiment", "SELECT recent FROM runs ORDER BY variant")
    assert found < 0.1 and guessed > 1, (found, guessed)


def test_a_grid(directory):
    experiments.write(directory, "e.yaml", RATES)
    done = experiments.call(directory, "e.yaml")
    assert done.status == OK and "8 of 8 runs finished" in done.out, done
    results = directory / "e.experiment"
    found = experiments.digests(results)
    assert [(row[0], row[2]) for row in found] == [(name, n) for name in NAMES for n in (1, 2)], found
    assert all(row[3] == "done" and row[10] == 400 for row in found)
    assert len({row[4] for row in found}) == 8
    assert experiments.rows(results, "SELECT key, short, value FROM settings WHERE variant = 3") == [
        ("learning.optimizer.rate", "rate", "0.01"), ("model.layers.N.norm", "norm", "none")]
    facts = dict(experiments.rows(results, "SELECT key, value FROM experiment"))
    assert (facts["name"], facts["total"], facts["seeds"]) == ("e", "8", "[1, 2]"), facts
    assert float(facts["finished"]) >= float(facts["started"]) > 0
    (configuration, data, scored), *_ = experiments.rows(
        results, "SELECT configuration, data, scored FROM runs ORDER BY run")
    assert "rate: 0.001" in configuration and "scale: standard" in configuration
    assert scored == 399
    assert experiments.rows(results, "SELECT digest, examples, command FROM streams") == [
        (data, 400, "runnel-feed synth sine --size 2 --count 400")]
    assert experiments.rows(results, "SELECT count(*), max(examples) FROM curves WHERE run = 1") == [
        (200, 400)]
    assert not list(results.glob("*-wal")), list(results.iterdir())


def test_new_variants_are_added_without_a_second_run(directory):
    experiments.write(directory, "e.yaml", RATES)
    assert experiments.call(directory, "e.yaml").status == OK
    results = directory / "e.experiment"
    before = experiments.rows(results, "SELECT run, started FROM runs ORDER BY run")
    again = experiments.call(directory, "e.yaml")
    assert again.status == OK and again.err == "" and "8 of 8" in again.out, again
    assert experiments.rows(results, "SELECT run, started FROM runs ORDER BY run") == before
    more = {**RATES, "seeds": 3,
            "grid": {"rate": [0.001, 0.01, 0.1], "norm": ["layer", "none"]}}
    experiments.write(directory, "e.yaml", more)
    done = experiments.call(directory, "e.yaml")
    assert done.status == OK and "18 of 18" in done.out, done
    after = experiments.rows(results, "SELECT run, started FROM runs ORDER BY run")
    assert after[:8] == before and len(after) == 18


def test_variants_times_grid_streams_and_only(directory):
    """Each stream may have its own base and settings; --only leaves others for later."""
    pathlib.Path(directory, "text").write_text("abcabcabc\n" * 30, encoding="utf-8")
    letters = experiments.real(2)
    letters["model"] = {"input": {"kind": "symbol", "size": 256},
                        "layers": [{"cell": "gru", "size": 4}, {"cell": "dense", "size": 4}],
                        "output": {"loss": "softmax", "size": 256, "target": "next"}}
    experiments.write(directory, "letters.yaml", {"name": "letters", **letters})
    experiments.write(directory, "e.yaml", {
        "name": "both", "base": experiments.real(2), "set": {"window": 8},
        "streams": {**SIGNAL, "text": {"feed": ["text", "text"], "base": "letters.yaml",
                                       "set": {"layers.0.size": 6}}},
        "variants": [{"name": "plain"}, {"name": "wide", "gain": 0.5}],
        "grid": {"clip": [1, 2]}, "seeds": [4]})
    done = experiments.call(directory, "e.yaml", "--only", "plain*", "--set", "rate=0.02")
    assert done.status == OK and "4 of 8 runs finished" in done.out, done
    results = directory / "both.experiment"
    assert {row[0] for row in experiments.digests(results)} == {"plain, clip 1", "plain, clip 2"}
    done = experiments.call(directory, "e.yaml", "--set", "rate=0.02")
    assert done.status == OK and "8 of 8 runs finished" in done.out, done
    configuration, = experiments.rows(results, """
        SELECT configuration FROM runs JOIN variants USING (variant) JOIN streams USING (stream)
        WHERE variants.name = 'wide, clip 2' AND streams.name = 'text'""")[0]
    for expected in "window: 8", "size: 6", "size: 4", "gain: 0.5", "clip: 2", "rate: 0.02", "seed: 4":
        assert expected in configuration, configuration


def test_check_runs_nothing(directory):
    experiments.write(directory, "e.yaml", RATES)
    done = experiments.call(directory, "e.yaml", "--check")
    assert done.status == OK and "4 variants x 1 stream x 2 seeds = 8 runs" in done.out, done
    assert all(name in done.out for name in NAMES)
    assert [path.name for path in directory.iterdir()] == ["e.yaml"]


def test_optional_results(directory):
    experiments.write(directory, "e.yaml", {
        **RATES, "report": {"keep": ["weights", "losses", "parameters"], "points": 10}})
    assert experiments.call(directory, "e.yaml").status == OK
    results = directory / "e.experiment"
    weights = experiments.rows(results, "SELECT point, tensor, norm, change FROM weights WHERE run = 1")
    assert len({row[0] for row in weights}) == 10 and all(row[2] >= 0 for row in weights)
    hidden = [row for row in weights if row[1] == "layers.0.weight_hh"]
    assert len(hidden) == 10 and all(row[3] > 0 for row in hidden), hidden
    (norm,), = experiments.rows(results, "SELECT weight_norm FROM curves WHERE run = 1 AND point = 9")
    total = sum(row[2] ** 2 for row in weights if row[0] == 9) ** 0.5
    assert abs(norm - total) < 1e-9 * total
    losses = experiments.losses(results)
    means = experiments.rows(results, "SELECT mean FROM runs WHERE run = 1")
    known = [loss for loss in losses if loss == loss]
    assert len(losses) == 400 and len(known) == 399
    assert abs(sum(known) / 399 - means[0][0]) < 1e-12


def test_a_variable_of_the_environment(directory):
    (directory / "data").mkdir()
    experiments.table(directory / "data" / "t.csv")
    experiments.write(directory, "e.yaml", {
        "base": experiments.real(2),
        "streams": {"t": {"feed": "csv ${WHERE_DATA_IS}/t.csv --columns c0,c1"}}})
    without = experiments.call(directory, "e.yaml", environment={"WHERE_DATA_IS": ""})
    assert without.status == CONFIG and "variable WHERE_DATA_IS" in without.err, without
    where = {"WHERE_DATA_IS": str(directory / "data")}
    assert experiments.call(directory, "e.yaml", environment=where).status == OK
    os.rename(directory / "data", directory / "elsewhere")
    where = {"WHERE_DATA_IS": str(directory / "elsewhere")}
    assert experiments.call(directory, "e.yaml", environment=where).status == OK


def test_files_are_looked_for_beside_the_experiment(directory):
    """The paths of bases, streams and starting values are relative to the experiment's file, not to
    the working directory."""
    sub = directory / "sub"
    sub.mkdir()
    experiments.table(sub / "t.csv")
    experiments.write(sub, "base.yaml", {"name": "b", **experiments.real(2)})
    plain = {"base": "base.yaml", "streams": {"t": {"feed": "csv t.csv --columns c0,c1"}},
             "report": {"keep": "parameters"}}
    experiments.write(sub, "first.yaml", plain)
    assert experiments.call(directory, "sub/first.yaml").status == OK
    (parameters,), = experiments.rows(directory / "first.experiment",
                                      "SELECT safetensors FROM parameters")
    (sub / "start.safetensors").write_bytes(parameters)
    experiments.write(sub, "second.yaml", {
        **plain, "variants": [{"name": "new"}, {"name": "again", "initial": "start.safetensors"}]})
    assert experiments.call(directory, "sub/second.yaml").status == OK
    new, again = [row[6] for row in sorted(experiments.digests(directory / "second.experiment"),
                                           reverse=True)]
    assert again < new


def test_a_journal_is_a_stream(directory):
    config = {"name": "d", **experiments.real(2), "state": {"directory": f"{directory}/state"},
              **{name: {"bind": f"ipc://{directory}/{name}"}
                 for name in ("examples", "statistics", "control")}}
    config["state"]["journal"] = {"keep": "all"}
    with running.Daemon(directory, json.dumps(config)) as daemon:
        subprocess.run([experiments.FEED, "synth", "sine", "--size", "2", "--count", "150", "-q",
                        "-c", daemon.endpoint("examples")], check=True, timeout=running.LIMIT)
        running.wait_learned(daemon, 150)
        assert daemon.end() == 0
    experiments.write(directory, "e.yaml", {"base": experiments.real(2),
                                            "streams": {"d": {"replay": ["state"]}}})
    assert experiments.call(directory, "e.yaml").status == OK
    assert experiments.digests(directory / "e.experiment")[0][10] == 150


# --- invalid input -------------------------------------------------------------------------------

def refused(directory, experiment, *expected, status=CONFIG, arguments=()):
    """It ends before a run and leaves no files."""
    experiments.write(directory, "e.yaml", experiment)
    done = experiments.call(directory, "e.yaml", *arguments)
    assert done.status == status and done.out == "" and done.err.count("\n") == 1, done
    assert all(words in done.err for words in expected), done.err
    assert not (directory / "e.experiment").exists()


def test_a_wrong_variant_names_itself_and_its_key(directory):
    variants = [{"name": "good"}, {"name": "bad", "norm": "layers"}]
    refused(directory, {**RATES, "variants": variants}, 'variant "bad, rate 0.001, norm layer"')
    del RATES["grid"]["norm"]
    try:
        refused(directory, {**RATES, "variants": variants}, 'variant "bad, rate 0.001"',
                "stream signal", "model.layers.0.norm", "got \"layers\"")
        refused(directory, {**RATES, "variants": [{"name": "odd", "kind": "sgd"}]}, 'variant "odd"',
                "ambiguous", "model.input.kind", "learning.optimizer.kind")
        refused(directory, {**RATES, "variants": [{"name": "odd", "nrom": "layer"}]}, 'variant "odd"',
                'unknown key "nrom"')
        refused(directory, {**RATES, "variants": [{"name": "a", "seed": 3}]}, 'variant "a',
                "seed", "seeds: [1, 2, 3]")
        refused(directory, {**RATES, "variants": [{"name": "a"}, {"name": "a"}]}, "duplicate variant name",
                '"a, rate 0.001"')
    finally:
        RATES["grid"]["norm"] = ["layer", "none"]


def test_wrong_experiments(directory):
    refused(directory, {**RATES, "seed": 3}, "e.yaml:1:", 'unknown key "seed"', "seeds")
    refused(directory, {**RATES, "seeds": 0}, "seeds", '"0"', "from 1")
    refused(directory, {**RATES, "seeds": [1, 1]}, "seeds", "duplicate seed 1")
    refused(directory, {**RATES, "grid": {"rate": 0.1}}, "grid", "list of values")
    refused(directory, {**RATES, "report": {"measure": "los"}}, "report.measure", '"los"')
    refused(directory, {**RATES, "report": {"recent": 0}}, "report.recent")
    refused(directory, {**RATES, "streams": {}}, "streams", "missing")
    refused(directory, {**RATES, "streams": {"a/b": SIGNAL["signal"]}}, "streams", "a/b")
    refused(directory, {**RATES, "streams": {"a": {"feed": "text 'x"}}}, "quote")
    refused(directory, {"streams": SIGNAL}, "base", "missing")
    refused(directory, {"streams": SIGNAL, "base": {"model": {}}}, 'variant "base", stream signal: base: '
            "model.input.kind: missing")
    # A base may be any readable file: an error does not quote a file that is not a configuration.
    none, yaml = "/other:1:1: not a configuration", "not YAML"
    for text, expected in (("root:$6$secret:19000:0:99999:7:::\n", none), ("secret words\n", none), ("password: secret\n", none),
                       ("- secret\n", none), ("!secret a\n", none), ('{"token": "secret"}', none),
                       ("name: a\ntoken: secret\nsecret: b\n", none), ("\0secret\n", yaml), ("secret: [\n", yaml)):
        (directory / "other").write_text(text, encoding="utf-8")
        refused(directory, {"streams": SIGNAL, "base": "other"}, expected)
        assert "secret" not in experiments.call(directory, "e.yaml").err, text
    refused(directory, {**RATES, "base": "there-is-none.yaml"}, "there-is-none.yaml", "cannot open")
    refused(directory, RATES, "--only", status=USAGE, arguments=["--only", "nothing"])
    refused(directory, RATES, "--set rat=1", status=CONFIG, arguments=["--set", "rat=1"])
    done = experiments.call(directory, "none.yaml")
    assert done.status == NO_INPUT and "none.yaml" in done.err, done


def test_a_feeder_that_fails(directory):
    experiments.write(directory, "e.yaml", {**RATES, "streams": {"t": {"feed": "text nowhere"}}})
    done = experiments.call(directory, "e.yaml")
    assert done.status == NO_INPUT and "nowhere" in done.err and "streams.t" in done.err, done
    assert not list((directory / "e.experiment" / "streams").iterdir())
    (directory / "nowhere").write_text("abc" * 100, encoding="utf-8")
    experiments.write(directory, "e.yaml", {**RATES, "streams": {"t": {"feed": "text nowhere"}}})
    done = experiments.call(directory, "e.yaml")  # symbols are not vectors of two numbers
    assert done.status == DATA and "8 runs failed" in done.err and "x_size" in done.err, done
    assert experiments.rows(directory / "e.experiment", """
        SELECT DISTINCT state, mean, skill, rmse FROM runs""") == [("failed", None, None, None)]
    experiments.write(directory, "e.yaml", {**RATES, "streams": {"t": {"feed": "json good"}}})
    lines = ['{"x": [0.1, 0.2]}', '{"x": [0.1, null]}', '{"x": [0.3, 0.1]}']
    (directory / "good").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = experiments.call(directory, "e.yaml", "--again")
    assert done.status == OK and done.err.count("1 of 3 messages were rejected") == 1, done
    assert experiments.rows(directory / "e.experiment", "SELECT DISTINCT examples, rejected FROM runs"
                            ) == [(2, 1)]


def test_a_run_that_becomes_nonfinite_is_marked_and_the_others_go_on(directory):
    base = experiments.real(2)
    base["model"]["layers"] = [{"cell": "dense", "size": 8, "norm": "none"} for _ in range(4)]
    base["model"]["input"]["scale"] = "none"
    base["learning"] = {"window": 1}
    experiments.write(directory, "e.yaml", {
        "base": base, "streams": SIGNAL, "variants": [
            {"name": "calm"},
            {"name": "wild", "optimizer": {"kind": "sgd", "rate": 100, "momentum": 0.9}}]})
    done = experiments.call(directory, "e.yaml")
    assert done.status == OK and "not finite" in done.err, done
    states = experiments.rows(directory / "e.experiment",
                              "SELECT name, state, error FROM runs JOIN variants USING (variant)")
    assert states == [("calm", "done", None), ("wild", "nonfinite", None)], states


# --- results of another experiment ---------------------------------------------------------------

def finished(directory, experiment=None):
    experiments.write(directory, "e.yaml", experiment or {**RATES, "seeds": 1})
    done = experiments.call(directory, "e.yaml", "-q")
    assert done.status == OK, done
    return directory / "e.experiment", experiments.digests(directory / "e.experiment")


def not_mixed(directory, *expected, status=DATA):
    """The call is rejected and changes nothing."""
    before = experiments.digests(directory / "e.experiment")
    done = experiments.call(directory, "e.yaml")
    assert done.status == status and all(words in done.err for words in expected), done
    assert "-o" in done.err and "--again" in done.err
    assert experiments.digests(directory / "e.experiment") == before


def test_another_data_set_is_refused(directory):
    experiments.table(directory / "t.csv")
    table = {**RATES, "seeds": 1, "streams": {"t": {"feed": "csv t.csv --columns c0,c1"}}}
    finished(directory, table)
    experiments.table(directory / "t.csv", seed=6)
    not_mixed(directory, "stream t", "changed", "t.csv")
    experiments.write(directory, "e.yaml", {**table, "streams": {"t": {"feed": "csv u.csv"}}})
    not_mixed(directory, "stream t", "u.csv")
    experiments.write(directory, "e.yaml", table)
    done = experiments.call(directory, "e.yaml", "--again", "-q")
    assert done.status == OK, done


def test_nothing_of_the_users_is_overwritten(directory):
    (directory / "base.yaml").write_text("mine", encoding="utf-8")
    experiments.write(directory, "e.yaml", {**RATES, "seeds": 1})
    for _ in range(2):
        done = experiments.call(directory, "e.yaml", "-o", ".")
        assert done.status == CANNOT_CREATE and "base.yaml already exists" in done.err, done
    assert (directory / "base.yaml").read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in directory.iterdir()) == ["base.yaml", "e.yaml"]


def test_any_file_is_a_name(directory):
    for number, name in enumerate(("#1.yaml", "[a].yaml", "null.yaml", "\u00e9t\u00e9.yml", 90 * "x")):
        experiments.write(directory, name, {**RATES, "seeds": 1, "grid": {"rate": [0.01]}})
        done = experiments.call(directory, name, "-q")
        assert done.status == OK, (name, done)
        assert len(list(directory.glob("*.experiment"))) == number + 1


def test_a_feeder_is_waited_for_whoever_ignores_children(directory):
    """A truncated file is not used as a stream, even if the caller ignores SIGCHLD."""
    (directory / "t.csv").write_text("a,b\n" + "1,2\n" * 500 + '1,"2\n', encoding="utf-8")
    experiments.write(directory, "e.yaml", {**RATES, "streams": {"t": {"feed": "csv t.csv"}}})
    done = experiments.call(directory, "e.yaml",
                            preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.status == DATA and "its examples were discarded" in done.err, done


def test_again_keeps_results_until_others_can_take_their_place(directory):
    """A stream that cannot be recorded, or a kill meanwhile, does not affect the old results."""
    experiments.table(directory / "t.csv")
    table = {**RATES, "seeds": 1, "streams": {"t": {"feed": "csv t.csv --columns c0,c1"}}}
    results, before = finished(directory, table)
    recorded = (results / "streams" / "t.examples").read_bytes()
    experiments.write(directory, "e.yaml", {**table, "streams": {"t": {"feed": "csv gone.csv"}}})
    done = experiments.call(directory, "e.yaml", "--again")
    assert done.status == NO_INPUT and "gone.csv" in done.err, done
    assert experiments.digests(results) == before
    experiments.write(directory, "e.yaml", {
        **table, "streams": {"t": {"feed": "synth sine --size 2 --count 100000"}}})
    process = start(directory, "e.yaml", "--again")
    until(process, (results / "streams" / "t.examples.part").exists)
    process.kill()
    process.communicate()
    experiments.write(directory, "e.yaml", table)
    done = experiments.call(directory, "e.yaml", "-q")
    assert done.status == OK, done
    assert experiments.digests(results) == before
    assert (results / "streams" / "t.examples").read_bytes() == recorded
    assert sorted(path.name for path in results.iterdir()) == [
        "base.yaml", "lock", "results.sqlite", "streams"]


def test_a_recording_that_is_another_one_is_refused(directory):
    results, _ = finished(directory)
    experiments.write(directory, "e.yaml", {**RATES, "seeds": 2})
    path = results / "streams" / "signal.examples"
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    done = experiments.call(directory, "e.yaml")
    assert done.status == DATA and "signal.examples" in done.err, done
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    done = experiments.call(directory, "e.yaml")
    assert done.status == DATA and "was changed after recording" in done.err, done
    path.write_bytes(whole)
    assert experiments.call(directory, "e.yaml").status == OK


def test_other_settings_under_a_name_are_refused(directory):
    variant = {"streams": SIGNAL, "base": experiments.real(2), "variants": [{"name": "a", "rate": 1e-3}]}
    finished(directory, variant)
    experiments.write(directory, "e.yaml", {**variant, "variants": [{"name": "a", "rate": 1e-2}]})
    not_mixed(directory, 'variant "a"', "a different configuration")
    experiments.write(directory, "e.yaml", {**variant, "base": experiments.real(2, seed=1)})
    assert experiments.call(directory, "e.yaml").status == OK  # the experiment sets the seeds
    experiments.write(directory, "e.yaml", {**variant, "report": {"recent": 0.5}})
    not_mixed(directory, "report.recent")


def test_another_version_or_machine_is_refused(directory):
    results, _ = finished(directory)
    with sqlite3.connect(results / "results.sqlite") as file:
        file.execute("UPDATE experiment SET value = '0.0.1' WHERE key = 'version'")
    file.close()
    not_mixed(directory, "version 0.0.1")
    with sqlite3.connect(results / "results.sqlite") as file:
        file.execute("""UPDATE experiment SET value = (SELECT version FROM runs LIMIT 1)
                        WHERE key = 'version'""")
        file.execute("UPDATE runs SET device = 'cpu abacus, compiler none'")
    file.close()
    experiments.write(directory, "e.yaml", {**RATES, "seeds": 2})
    not_mixed(directory, "abacus")


def test_damaged_or_missing_results(directory):
    results, _ = finished(directory)
    path = results / "results.sqlite"
    whole = path.read_bytes()
    path.write_bytes(b"no database at all, " * 500)
    done = experiments.call(directory, "e.yaml")
    assert done.status == DATA and "results.sqlite" in done.err, done
    path.unlink()
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE notes (text)")
    file.close()
    done = experiments.call(directory, "e.yaml")
    assert done.status == DATA and "database of another program" in done.err, done
    path.write_bytes(whole)
    done = experiments.call(directory, results)
    assert done.status == OK and "4 of 4" in done.out, done
    done = experiments.call(directory, directory / "nowhere.experiment")
    assert done.status == NO_INPUT and "nowhere.experiment" in done.err, done


def test_two_at_a_time(directory):
    experiments.write(directory, "e.yaml", RATES)
    (directory / "e.experiment").mkdir()
    with open(directory / "e.experiment" / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = experiments.call(directory, "e.yaml")
    assert done.status == INTERRUPTED and "in use" in done.err, done
    assert experiments.call(directory, "e.yaml").status == OK


# --- kills, and a full disk ----------------------------------------------------------------------

LONG = {**RATES, "streams": {"signal": {"feed": "synth sine --size 2 --count 20000"}}}


def test_killed_three_times_the_results_are_the_same(directory):
    experiments.write(directory, "e.yaml", LONG)
    assert experiments.call(directory, "e.yaml", "-q", "-o", "whole").status == OK
    whole, cut = directory / "whole", directory / "cut"
    for count in 1, 3, 5:
        process = start(directory, "e.yaml", "--jobs", 2, "-o", cut)
        until(process, lambda least=count: over(cut) >= least)
        process.kill()
        process.communicate()
    done = experiments.call(directory, "e.yaml", "-o", cut)
    assert done.status == OK and "8 of 8" in done.out, done
    assert experiments.digests(whole) == experiments.digests(cut)
    tables = [experiments.call(directory, path).out for path in (whole, cut)]
    timeless = [[line.rsplit(None, 1)[0] for line in text.splitlines() if " layer " in line]
                for text in tables]
    assert timeless[0] and timeless[0] == timeless[1], tables


def test_killed_while_it_records(directory):
    experiments.write(directory, "e.yaml", {
        **LONG, "seeds": 1, "grid": {"rate": [0.01]},
        "streams": {"signal": {"feed": "synth sine --size 2 --count 100000"}}})
    process = start(directory, "e.yaml")
    part = directory / "e.experiment" / "streams" / "signal.examples.part"
    until(process, part.exists)
    process.kill()
    process.communicate()
    done = experiments.call(directory, "e.yaml")
    assert done.status == OK and "1 of 1" in done.out, done
    assert experiments.digests(directory / "e.experiment")[0][10] == 100000
    assert not part.exists()


def test_an_empty_directory_and_an_empty_file_are_resumed(directory):
    results = directory / "e.experiment"
    results.mkdir()
    (results / "results.sqlite").write_bytes(b"")
    finished(directory)


def test_interrupted(directory):
    """SIGTERM: finished runs are kept, and the message names the command to resume."""
    experiments.write(directory, "e.yaml", {  # a minute
        **RATES, "seeds": 100, "streams": {"signal": {"feed": "synth sine --size 2 --count 100000"}}})
    process = start(directory, "e.yaml", "--jobs", 1, "-q")
    until(process, lambda: over(directory / "e.experiment") >= 1)
    process.terminate()
    _, err = process.communicate(timeout=running.LIMIT)
    assert process.returncode == INTERRUPTED and "run the same command to resume" in err, err
    before = over(directory / "e.experiment")
    assert before >= 1
    done = experiments.call(directory, "e.yaml", "--seeds", 1)
    assert done.status == OK and over(directory / "e.experiment") >= max(before, 4), done


def test_as_many_jobs_as_cpus(directory):
    """In a container with a CPU limit, the number of jobs is at most that limit."""
    experiments.write(directory, "e.yaml", {  # a minute
        **RATES, "seeds": 100, "streams": {"signal": {"feed": "synth sine --size 2 --count 100000"}}})
    group = directory / "sys/fs/cgroup/cpu.max"
    group.parent.mkdir(parents=True)
    (directory / "proc/self").mkdir(parents=True)
    (directory / "proc/self/cgroup").write_text("0::/\n", encoding="utf-8")
    cpus = len(os.sched_getaffinity(0))
    for limit, jobs in ("max 100000", cpus), ("150000 100000", min(cpus, 2)), ("50000 100000", 1):
        group.write_text(limit + "\n", encoding="utf-8")
        process = start(directory, "e.yaml", "-q", env={**os.environ, "RUNNEL_MACHINE": str(directory)})
        before = over(directory / "e.experiment")
        until(process, lambda before=before: over(directory / "e.experiment") > before)
        assert len(os.listdir(f"/proc/{process.pid}/task")) == 1 + jobs, limit
        process.kill()
        process.communicate()


def test_interrupted_while_it_records(directory):
    """The feeder ends, and the incomplete stream is deleted."""
    slow = "synth sine --size 2 --count 100000 --rate 100"  # a quarter of an hour
    experiments.write(directory, "e.yaml", {**RATES, "streams": {"signal": {"feed": slow}}})
    process = start(directory, "e.yaml")
    streams = directory / "e.experiment" / "streams"
    until(process, (streams / "signal.examples.part").exists)
    process.terminate()
    _, err = process.communicate(timeout=running.LIMIT)
    assert process.returncode == INTERRUPTED and "streams.signal" in err, err
    assert not list(streams.iterdir())


def limited(size):
    return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                     (size, resource.RLIM_INFINITY))}


def test_a_full_disk_ends_cleanly_and_resumes(directory):
    """A limit of file sizes while it records, and while it writes a run."""
    keeping = {**RATES, "report": {"keep": ["losses", "parameters"]}}
    experiments.write(directory, "e.yaml", keeping)
    whole, cut = directory / "whole", directory / "cut"
    assert experiments.call(directory, "e.yaml", "-q", "-o", whole).status == OK
    for size, name in (4096, "results.sqlite"), (150000, "results.sqlite"):
        done = experiments.call(directory, "e.yaml", "-o", cut, **limited(size))
        assert done.status == DISK and name in done.err and "resume" in done.err, (size, done)
    done = experiments.call(directory, "e.yaml", "-o", cut)
    assert done.status == OK and "8 of 8" in done.out, done
    assert experiments.digests(whole) == experiments.digests(cut)


def test_a_disk_that_is_full_while_it_records(directory):
    experiments.write(directory, "e.yaml", LONG)
    done = experiments.call(directory, "e.yaml", **limited(300000))
    assert done.status == DISK and "signal.examples" in done.err and "resume" in done.err, done
    assert not list((directory / "e.experiment" / "streams").iterdir())
    experiments.write(directory, "e.yaml", {**LONG, "seeds": 1})
    done = experiments.call(directory, "e.yaml")
    assert done.status == OK and "4 of 4" in done.out, done


# --- progress ------------------------------------------------------------------------------------

def test_progress_on_a_terminal(directory):
    """One line is drawn again with the number of runs, elapsed time and progress; then a line for
    each run."""
    experiments.write(directory, "e.yaml", LONG)
    own, others = pty.openpty()
    process = subprocess.Popen([experiments.PROGRAM, "e.yaml", "--jobs", "1"], cwd=directory,
                               stdout=subprocess.DEVNULL, stderr=others)
    os.close(others)
    text = b""
    while True:
        try:
            piece = os.read(own, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        text += piece
    os.close(own)
    assert process.wait(running.LIMIT) == OK
    assert b"8 of 8: rate 0.01, norm none, seed 2: loss " in text, text
    assert b" of 8 runs, " in text, text


if __name__ == "__main__":
    cases.run(globals())
