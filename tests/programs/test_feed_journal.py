#!/usr/bin/python3
"""runnel-feed journal with files of systemd-journal-remote: fields, and entries that are learned
once although daemon and feeder are killed and files are rotated."""
import datetime
import json
import os
import struct
import subprocess
import sys

import brokers
import cases
import running
from brokers import await_text, finish, journal
from feeding import BAD_DATA, LIMIT, NO_INPUT, OK, USAGE, run, start

brokers.need("systemd")
REMOTE = "/lib/systemd/systemd-journal-remote"
if not os.access(REMOTE, os.X_OK):
    print("needs systemd-journal-remote")
    sys.exit(77)
FIRST = 1_700_000_000_000_000  # microseconds
BOOT = "0123456789abcdef0123456789abcdef"


def exported(number, fields):
    """An entry in the export format."""
    text = (f"__REALTIME_TIMESTAMP={FIRST + number * 1000}\n__MONOTONIC_TIMESTAMP={number * 1000 + 1}\n"
            f"_BOOT_ID={BOOT}\n").encode()
    for name, value in fields.items():
        value = value if isinstance(value, bytes) else str(value).encode()
        text += (name.encode() + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"
                 if b"\n" in value or b"\0" in value else name.encode() + b"=" + value + b"\n")
    return text + b"\n"


def write(path, entries):
    """Writes (number, fields) to a journal file in order, a new one or after its entries."""
    subprocess.run([REMOTE, "-o", path, "-"], input=b"".join(exported(*e) for e in entries), check=True,
                   capture_output=True, timeout=LIMIT)


def numbers(first, last):
    return [(n, {"N": n, "MINUS": -n, "_SYSTEMD_UNIT": "a.service"}) for n in range(first, last)]


def shown(directory, *words, status=OK):
    """Its output for all entries."""
    fed = run("journal", "--print", "--no-follow", "-D", directory, *words)
    assert fed.status == status, fed.err
    return [json.loads(line) for line in fed.out.splitlines()]


def test_contents_of_entries(directory):
    write(directory / "a.journal", [
        (0, {"MESSAGE": "started job 17", "PRIORITY": 6, "_SYSTEMD_UNIT": "x.service"}),
        (1, {"MESSAGE": b"disk\nfailed \0 now", "PRIORITY": 3}),
        (2, {"MESSAGE": "started job 18", "PRIORITY": 6, "_SYSTEMD_UNIT": "y.service"}),
        (3, {"PRIORITY": 5, "_SYSTEMD_UNIT": "z" * 300 + b"\xff".decode("latin1")}),
    ])
    plain = shown(directory)
    assert [e["x"] for e in plain] == [0, 1, 0] and {e["stream"] for e in plain} == {"journal"}
    assert [e["time"] for e in plain] == [FIRST / 1e6 + n / 1000 for n in (0, 1, 2)]
    whole = shown(directory, "--fields", "PRIORITY,MESSAGE,_SYSTEMD_UNIT")
    assert [e["x"] for e in whole] == [
        {"PRIORITY": 6, "MESSAGE": 0, "_SYSTEMD_UNIT": "x.service"}, {"PRIORITY": 3, "MESSAGE": 1},
        {"PRIORITY": 6, "MESSAGE": 0, "_SYSTEMD_UNIT": "y.service"},
        {"PRIORITY": 5, "_SYSTEMD_UNIT": "z" * 255}]
    words = shown(directory, "--words", "PRIORITY,_SYSTEMD_UNIT", "--stream-field", "_SYSTEMD_UNIT")
    assert words[1]["x"] == {"PRIORITY": "3", "_SYSTEMD_UNIT": "-"} and words[1]["stream"] == "-"
    assert words[0]["stream"] == "x.service"
    assert [e["x"] for e in shown(directory, "--unit", "x", "--unit", "y.service")] == [0, 0]
    assert [e["x"] for e in shown(directory, "--match", "PRIORITY=3")] == [0]
    assert shown(directory, "--since", f"{FIRST // 10**6}.002", "--fields", "PRIORITY")[0]["x"] == {
        "PRIORITY": 6}
    assert shown(directory, "--since", "now") == shown(directory, "--since", "1e300") == []
    third = datetime.datetime.fromtimestamp(FIRST // 10**6, datetime.timezone.utc)
    east = third + datetime.timedelta(hours=2)
    for since in (f"{FIRST // 1000 + 2}", f"{third:%Y/%m/%d %H:%M:%S}.002", f"{third:%d.%m.%Y %H:%M:%S}.002",
                  f"{third:%Y-%m-%d %I:%M:%S}.002 {third:%p}", f"{east:%Y-%m-%dT%H:%M:%S}.002+02:00"):
        assert [e["x"] for e in shown(directory, "--since", since, "--fields", "PRIORITY")] == [
            {"PRIORITY": 6}, {"PRIORITY": 5}], since
    whose = {e["producer"] for e in plain} | {e["producer"] for e in whole}
    filtered = {e["producer"] for e in shown(directory, "--match", "PRIORITY=3")}
    assert len(whose) == 1 and len(filtered) == 1 and whose != filtered
    assert [e["sequence"] for e in whole] == sorted({e["sequence"] for e in whole})
    both = [["--match", "PRIORITY=6", "--match", "_SYSTEMD_UNIT=x.service"],
            ["--match", "_SYSTEMD_UNIT=x.service", "--match", "PRIORITY=6"]]
    first, second = (shown(directory, *words) for words in both)
    assert len(first) == 1 and first == second  # also the same producer
    assert shown(directory, "--since", "1960-01-01T00:00:00Z") == plain
    units = shown(directory, "--fields", "_SYSTEMD_UNIT")  # the second entry has none
    assert [e["sequence"] for e in units] == [whole[n]["sequence"] for n in (0, 2, 3)]


def test_missing_words(directory):
    """Missing words are the same as in a table, unless the field is one of words."""
    write(directory / "a.journal", [(n, {"LOAD": load, "N": n}) for n, load in enumerate((1, "NA", "nan", "-", 2))])
    assert [e["x"].get("LOAD") for e in shown(directory, "--fields", "LOAD,N")] == [1, None, None, None, 2]
    assert [e["x"]["LOAD"] for e in shown(directory, "--words", "LOAD")] == ["1", "NA", "nan", "-", "2"]


def test_entries_without_any_of_the_fields_are_passed(directory):
    """The next call begins after them."""
    write(directory / "a.journal", numbers(0, 3))
    words = ["--fields", "ABSENT", "--cursor-file", directory / "cursor"]
    assert shown(directory, *words) == []
    assert shown(directory, "--fields", "N", *words[2:]) == []


def test_files_of_several_servers(directory):
    """Each server has its own numbers: entries in any order are not duplicates."""
    log = directory / "entries"
    log.mkdir()
    for part in range(2):
        write(log / f"{part}.journal", [(n, {"N": n, "MINUS": -n}) for n in range(part, 40, 2)])
    with running.Daemon(directory, CONFIG.format(d=directory, kind="router")) as d:
        feed = feeder(directory, "--no-follow")
        _, err = feed.communicate(timeout=LIMIT)
        assert feed.returncode == OK and b"40 acknowledged (0 duplicates)" in err, err
        assert d.end() == OK
    assert sorted(values(directory)) == list(range(40))


def feeder(directory, *words):
    return start("journal", "-D", directory / "entries", "--fields", "N,MINUS", "--cursor-file",
                 directory / "cursor", *words, "--connect", f"ipc://{directory}/examples")


def values(directory):
    return [int(x[0]) for _, x in journal(directory)]


CONFIG = brokers.CONFIG.replace("{{kind: real, size: 2}}", "{{columns: [{{name: N}}, {{name: MINUS}}]}}")


def test_daemon_and_feeder_go_away(directory):
    """Nothing is lost or learned twice; new entries arrive, also in another file; and the next
    feeder begins at the cursor."""
    part = 1500
    log = directory / "entries"
    log.mkdir()
    write(log / "a.journal", numbers(0, 2 * part))
    with running.Daemon(directory, CONFIG.format(d=directory, kind="router")) as d:
        feed = feeder(directory, "--rate", 20000)
        running.wait_learned(d, part // 2)
        d.process.kill()
        d.process.wait()
        write(log / "a.journal", numbers(2 * part, 3 * part))
        d.start()
        running.wait_learned(d, 3 * part)
        feed.kill()
        feed.communicate()
        os.rename(log / "a.journal", log / "a@1.journal")
        write(log / "a.journal", numbers(3 * part, 4 * part))
        feed = feeder(directory)
        running.wait_learned(d, 4 * part)
        write(log / "a.journal", numbers(4 * part, 4 * part + 1))
        running.wait_learned(d, 4 * part + 1)
        status, err = finish(feed)
        assert status == OK and "0 rejected" in err, err
        os.remove(log / "a@1.journal")
        write(log / "a.journal", numbers(4 * part + 1, 4 * part + 2))
        feed = feeder(directory, "--no-follow")
        _, err = feed.communicate(timeout=LIMIT)
        assert feed.returncode == OK and b"1 acknowledged (0 duplicates)" in err, err
        feed = feeder(directory, "--no-follow")
        assert feed.wait(LIMIT) == OK  # without new entries
        assert d.end() == OK
    assert values(directory) == list(range(4 * part + 2))


def test_without_a_cursor_it_is_all_duplicates(directory):
    log = directory / "entries"
    log.mkdir()
    write(log / "a.journal", numbers(0, 500))
    with running.Daemon(directory, CONFIG.format(d=directory, kind="router")) as d:
        for output in (b"500 acknowledged (0 duplicates)", b"500 acknowledged (500 duplicates)"):
            feed = start("journal", "-D", log, "--fields", "N,MINUS", "--no-follow",
                         "--connect", f"ipc://{directory}/examples")
            _, err = feed.communicate(timeout=LIMIT)
            assert feed.returncode == OK and output in err, err
        assert d.end() == OK
    assert values(directory) == list(range(500))


def test_templates_outlive_a_kill(directory):
    """A cursor requires a file of templates: an id means the same in the next call."""
    log = directory / "entries"
    log.mkdir()
    fed = run("journal", "--print", "-D", log, "--cursor-file", directory / "cursor")
    assert fed.status == USAGE and "--templates-file" in fed.err, fed
    kinds = ["alpha beta", "gamma delta epsilon", "zeta"]
    write(log / "a.journal", [(n, {"MESSAGE": kinds[n % 3]}) for n in range(9)])
    config = brokers.CONFIG.replace("{{kind: real, size: 2}}", "{{kind: symbol, size: 1000}}").replace(
        "loss: squared, size: 2", "loss: softmax, size: 1000")
    with running.Daemon(directory, config.format(d=directory, kind="router")) as d:
        for count in (2, 9):
            words = ["--count", count] if count == 2 else ["--no-follow"]
            feed = start("journal", "-D", log, "--cursor-file", directory / "cursor", "--templates-file",
                         directory / "templates", *words, "--connect", f"ipc://{directory}/examples")
            _, err = feed.communicate(timeout=LIMIT)
            assert feed.returncode == OK, err
            running.wait_learned(d, count)
        assert d.end() == OK
    learned = [(stream, struct.unpack("<I", struct.pack("<f", *x))[0]) for stream, x in journal(directory)]
    assert learned == [("journal", n % 3) for n in range(9)]


def test_how_it_is_called(directory):
    (directory / "cursor").write_text("nonsense\n")
    (directory / "empty").write_text("")
    for status, output, words in [
            (USAGE, "--since: expected a time as in 2016-07-01 12:34:56 or 31/12/2014, or Unix time (or now), got 'then'",
             ["--since", "then"]),
            (USAGE, "--since: ambiguous time '02/03/2026'; expected now or a time such as 2026-11-23 12:00:00",
             ["--since", "02/03/2026"]),
            (USAGE, "expected FIELD=VALUE", ["--match", "PRIORITY"]),
            (USAGE, "expected field names", ["--fields", "A,,B"]),
            (USAGE, "--fields: invalid field name 'message'", ["--fields", "message"]),
            (USAGE, "--stream-field: invalid field name", ["--stream-field", "unit"]),
            (USAGE, "--repeat", ["--repeat", 2]),
            (BAD_DATA, "invalid cursor", ["--fields", "A", "--cursor-file", directory / "cursor"]),
            (BAD_DATA, "empty file", ["--fields", "A", "--cursor-file", directory / "empty"])]:
        fed = run("journal", "--print", "-D", directory, *words)
        assert fed.status == status and output in fed.err, fed
    fed = run("journal", "--print", "-D", directory / "none")
    assert fed.status == NO_INPUT and "cannot open the journal" in fed.err, fed
    waiting = start("journal", "--print", "-D", directory)
    await_text(waiting, "no readable journal files")
    write(directory / "a.journal", numbers(0, 1))
    waiting.kill()


cases.run(globals())
