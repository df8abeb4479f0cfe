#!/usr/bin/python3
"""runnel-feed lines: templates of log lines compared with a second implementation, and their ids
after any end of the feeder."""
import json
import pathlib
import random
import resource
import signal
import subprocess
import time

import cases
import running
from feeding import *  # noqa: F403  pylint: disable=wildcard-import

U4 = {"x_type": "<u4"}
SIMILARITY, CHILDREN = 0.4, 100


class Drain:
    """The algorithm of the paper with a tree of depth 4, for lines without numbers."""

    def __init__(self):
        self.tree, self.templates = {}, []

    def branch(self, words, adding=False):
        children = self.tree.setdefault(len(words), {})
        if words[0] not in children and adding:
            room = len(children) + ("<*>" not in children) < CHILDREN
            children.setdefault(words[0] if room else "<*>", [])
        return children.get(words[0], children.get("<*>", []))

    def id(self, line):
        words = line.split()
        best = None
        for number in self.branch(words):
            template = self.templates[number]
            same = sum(a == b for a, b in zip(template, words))
            rank = (same, template.count("<*>"))
            if same / len(words) >= SIMILARITY and (best is None or rank > best[0]):
                best = (rank, number)
        if best:
            template = self.templates[best[1]]
            self.templates[best[1]] = [a if a == b else "<*>" for a, b in zip(template, words)]
            return best[1]
        self.branch(words, adding=True).append(len(self.templates))
        self.templates.append(words)
        return len(self.templates) - 1


def word(draw, many):
    """One of `many` words without digits, common ones first."""
    number = min(int(draw.expovariate(1) * many / 5), many - 1)
    return "".join("abcdefghijklmnopqrstuvwxyz"[number // 26 ** k % 26] for k in range(4))


def log(count, seed=1, first=300):
    """Lines of 1 to 8 words, with more first words than branches."""
    draw = random.Random(seed)
    return [" ".join([word(draw, first)] + [word(draw, 40) for _ in range(draw.randrange(8))])
            for _ in range(count)]


def ids(lines, *arguments, status=OK):
    fed = run("lines", "--print", *arguments, stdin="".join(f"{line}\n" for line in lines).encode())
    assert fed.status == status, fed.err
    return [int(line.split('"x": [')[1].split("]")[0]) for line in fed.out.splitlines()]


def saved(path):
    """The templates of a file: the last line of an id counts."""
    found = {}
    for line in path.read_text().splitlines():
        number, text = line.split(" ", 1)
        assert int(number) <= len(found)
        found[int(number)] = text
    return [found[i] for i in range(len(found))]


def test_templates_are_those_of_the_algorithm(directory):
    lines, second = log(5000), Drain()
    expected = [second.id(line) for line in lines]
    assert len(second.tree[5]) == CHILDREN and "<*>" in second.tree[5]
    path = directory / "templates"
    assert ids(lines, "--templates", 100000, "--templates-file", path) == expected
    assert saved(path) == [" ".join(words) for words in second.templates]


def test_ids_survive_the_feeder(directory):
    """The ids stay the same after a kill at any moment, even within a line of the file."""
    lines, path = log(2000), directory / "templates"
    whole = ids(lines, "--templates", 100000)
    found = ids(lines[:700], "--templates", 100000, "--templates-file", path)
    with open(path, "ab") as file:
        file.write(b"17 half a li")
    process = start("lines", "--print", "--templates", 100000, "--templates-file", path,
                    stdin=subprocess.PIPE)
    process.stdin.write("".join(f"{line}\n" for line in lines[700:900]).encode())
    known = saved(path)[:-1] if not path.read_bytes().endswith(b"\n") else saved(path)
    second = Drain()
    for line in lines[:900]:
        second.id(line)
    end = time.monotonic() + LIMIT
    while not path.read_bytes().endswith(b"\n") or len(known := saved(path)) < len(second.templates):
        assert time.monotonic() < end, known
        time.sleep(.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    found += whole[700:900]
    found += ids(lines[900:], "--templates", 100000, "--templates-file", path)
    assert found == whole


def test_the_rest_shares_an_id(directory):
    lines = [f"{w} {w} {w}" for w in ("one", "two", "three", "four", "five", "two", "one")]
    path = directory / "templates"
    assert ids(lines, "--templates", 4, "--templates-file", path) == [0, 1, 2, 3, 3, 1, 0]
    fed = run("lines", "--print", "--templates", 4, stdin="\n".join(lines).encode())
    assert fed.err.count("other lines share the id 3; see --templates") == 1
    assert ids(["four four four"], "--templates", 10, "--templates-file", path) == [3]
    fed = run("lines", "--print", "--templates", 4, "--templates-file", path, stdin=b"x\n")
    assert fed.status == USAGE and f"{path}:4: more than 3 templates" in fed.err


def test_times_and_streams(directory):
    data = (b"<13>Nov 22 21:12:41 box cron[17]: started\n\n   \n"
            b"2016-07-01T12:34:56.5Z disk sda1 failed\n  at line 7\n\xff\0\x1b[1m caf\xe9\n")
    path = directory / "log"
    path.write_bytes(data)
    for examples in (good("lines", path, "--leave-out", 1, **U4),
                     good("lines", "--leave-out", 1, "--stream", "box", stdin=data, **U4)):
        assert [int(e.x[0]) for e in examples] == [0, 1, 2, 3]
        assert [e.header.time for e in examples][1:] == [1467376496.5] * 3
        assert time.gmtime(examples[0].header.time)[1:6:2] != (1, 1, 1)
    assert {e.key for e in examples} == {"box"}
    shown = run("lines", path, "--leave-out", 1, "--print", "--verbose").err
    for text in ("template 0: cron[<N>]: started", "template 1: sda<N> failed",
                 "template 2: line <N>", "template 3: [<N>m caf"):
        assert text in shown, shown
    two = good("lines", path, "--steps", 2, "--repeat", 2, **U4)
    assert [len(e.x) for e in two] == [2] * 4 and two[0].x.tobytes() == two[2].x.tobytes()


def test_a_line_goes_along_as_a_note(directory):
    """With its template, as a text of limited size that is safe for a terminal; only on request."""
    lines = ["2016-07-01T12:34:56Z disk sda1 failed", "disk sdb2 failed", "café \x1b[1m \u202e" + 4000 * "é"]
    data = "\n".join(lines).encode() + b"\n\xff\0\xfe one\n"
    notes = []
    for example in good("lines", stdin=data, **U4):
        assert example.header.flags == 64 and len(example.frames) == 5
        notes.append(example.frames[4].decode())
    assert notes[:2] == [f"{lines[0]} (template 0: disk sda<N> failed)", f"{lines[1]} (template 0: disk <*> failed)"]
    assert notes[2].startswith("café  [1m    é") and "é (template 1: café [<N>m" in notes[2], notes[2]
    assert notes[3].endswith(" one (template 2: one)") and all(len(note.encode()) <= 1000 for note in notes)
    assert not any(ord(c) < 32 for note in notes for c in note)
    for arguments in (["--no-notes"], ["--steps", 2]):
        assert all(len(e.frames) <= 4 and not (e.header and e.header.flags)
                   for e in good("lines", *arguments, stdin=data, **U4))
    printed = run("lines", "--print", stdin=data).out.splitlines()
    assert [json.loads(line)["note"] for line in printed] == notes


def examples(text, *arguments, status=OK):
    fed = run("lines", "--print", "--message", "--no-notes", *arguments, stdin=text.encode())
    assert fed.status == status, fed.err
    return [json.loads(line) for line in fed.out.splitlines()], fed.err


def test_lines_are_messages(directory):
    """Words without their numbers, or bytes. Empty lines are left out, and long ones cut with one
    message."""
    text = "2026-05-01 10:00:00 got 17 à b\"c\n\n \t\n2026-05-01 10:00:01 x y z w\nx y z w v\n"
    found, err = examples(text)
    assert [e["x"] for e in found] == [["got", "<N>", "à", 'b"c'], [*"xyzw"], [*"xyzwv"]]
    assert found[1]["time"] - found[0]["time"] == 1 and "cut" not in err
    found, err = examples(text, "--longest", "3", "--leave-out", "1", "--no-learn", "--numbered")
    assert [e["x"] for e in found] == [["<N>", "à", 'b"c'], [*"yzw"], [*"yzw"]]
    assert [(e["learn"], e["sequence"]) for e in found] == [(False, n) for n in range(3)]
    assert "standard input:5: the line has 4 words, only the first 3 are sent" in err
    found, err = examples(text, "--longest", "2")
    assert err.count("only the first 2 are sent") == 1 and "3 lines were cut to 2 words" in err
    found, _ = examples("spam a b\nham\nham c\n", "--class")
    assert [(e["x"], e["y"]) for e in found] == [(["a", "b"], ["spam"]), (["c"], ["ham"])]
    found, err = examples("abc\nà\n", "--bytes", "--longest", "2")
    assert [e["x"] for e in found] == [[97, 98], [0xC3, 0xA0]] and "3 bytes" in err
    long, _ = examples("é" * 200 + "\n")
    assert long[0]["x"] == ["é" * 127]
    for option in ["--bytes"], ["--class"], ["--longest", "9"]:
        assert f"{option[0]}: requires --message" in run("lines", "--print", *option, stdin=b"a\n").err
    assert "--steps" in run("lines", "--print", "--message", "--steps", "2", stdin=b"a\n").err


def test_lines_are_learned_as_messages(directory):
    """conf/next-line.yaml: the words of a log, and lines that are cut to its longest message."""
    config = (pathlib.Path(__file__).parents[2] / "conf/next-line.yaml").read_text() + f"""
device: cpu
examples: {{bind: "ipc://{directory}/examples"}}
statistics: {{bind: "ipc://{directory}/statistics"}}
control: {{bind: "ipc://{directory}/control"}}
state: {{directory: {directory}/state}}
"""
    with running.Daemon(directory, config) as daemon:
        text = "".join(f"up {n} host-{n % 3}\ndown now\n" for n in range(40)) + "a " * 100 + "\n"
        fed = run("lines", "--message", "--longest", "64", "--connect", daemon.endpoint("examples"),
                  stdin=text.encode())
        assert fed.status == OK and "100 words, only the first 64" in fed.err, fed.err
        status = running.wait_learned(daemon, 81)
        assert (status["rejected"], status["steps"]) == (0, 81), status
        assert status["words_by"] == {"input": 6}, status
        daemon.end()


def test_a_line_leaves_when_it_comes(directory):
    with Receiver(directory) as receiver:
        process = start("lines", "--connect", receiver.bind().endpoint, stdin=subprocess.PIPE)
        for i, line in enumerate([b"a b\n", b"c\n", b"d e f\n"]):
            process.stdin.write(line)
            assert int(decode(receiver.take(), "<u4").x[0]) == i
        process.communicate()
        assert process.returncode == OK


def test_invalid_files_of_templates(directory):
    path = directory / "templates"
    for text, output in [("x\n", ":1: expected an id and a template, got 'x'"),
                       ("0 a b\n2 c\n", ":2: expected a template of 0 to 1, got template 2"),
                       ("0 a b\n0 c\n", ":2: template 0 has 1 words here, but 2"),
                       ("0  \n", ":1: expected a template of 0 to 0, got an empty template 0"),
                       ("-1 a\n", ":1: expected an id and a template, got '-1 a'"), ("99999999999 a\n", ":1: expected")]:
        path.write_text(text)
        fed = run("lines", "--print", "--templates-file", path, stdin=b"x\n")
        assert fed.status == BAD_DATA and f"{path}{output}" in fed.err, (text, fed)
        assert path.read_text() == text
    fed = run("lines", "--print", "--templates-file", directory / "no" / "x", stdin=b"x\n")
    assert fed.status == 73 and "cannot open: No such file" in fed.err
    fed = run("lines", "--print", "--templates-file", "/dev/zero", stdin=b"x\n")
    assert fed.status == 73 and "/dev/zero: not a regular file" in fed.err
    path.write_text("")
    holder = start("lines", "--print", "--templates-file", path, stdin=subprocess.PIPE)
    holder.stdin.write(b"x\n")
    end = time.monotonic() + LIMIT
    while not path.read_text():
        assert time.monotonic() < end
        time.sleep(.01)
    fed = run("lines", "--print", "--templates-file", path, stdin=b"x\n")
    assert fed.status == 75 and "in use by another process" in fed.err
    holder.communicate()


def test_a_full_disk(directory):
    """An id that cannot be saved is not sent."""
    path = directory / "templates"
    limits = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12, 12)),
              "restore_signals": False, "stdin": subprocess.PIPE}
    process = start("lines", "--print", "--templates-file", path, **limits)
    out, err = process.communicate(b"x\ny z\nw w w\n", timeout=LIMIT)
    assert process.returncode == 74 and f"{path}: cannot write: " in err.decode(), err
    assert out.count(b"\n") == 2
    assert ids(["y z", "x", "w w w"], "--templates-file", path) == [1, 0, 2]


cases.run(globals())
