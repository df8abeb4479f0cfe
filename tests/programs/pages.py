"""Runs a page of the documentation as a reader does: saves its files, and runs its commands in the
order of the page. Sockets and the state directory are the test's own."""
import contextlib
import itertools
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import running

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
PORT = re.compile(r"tcp://(?:127\.0\.0\.1|\*):(55[789]\d|567\d|\$port)")
NUMBER = re.compile(r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b|[-+<]?\d[\d.,:TZ]*(?:e[-+]?\d+)?[kMG]?")
MARKS = {">", "*", "**"}  # of the table of an experiment, which depends on its numbers
QUERIES = "curl mosquitto_sub promtool runnel-ctl runnel-fleet runnel-watch".split()  # commands that may run again
TERMINALS = "first second third fourth fifth".split()
CONNECTS = {"runnel-feed": 5570, "runnel-watch": 5571, "runnel-web": 5571, "runnel-ctl": 5572}
PROGRAMS = "runnel runnel-evaluate runnel-experiment runnel-fleet runnel-keygen runnel-plot runnel-replay".split()


def read(name):
    return (SOURCE / name).read_text(encoding="utf-8")


def blocks(page):
    """Yields a tuple for each block of code: (language, text, expected output or None,
    paragraph before, text after)."""
    found = list(re.finditer(r"^```(\w*)\n(.*?)^```$(?:\n+```\n(.*?)^```$)?", page, re.MULTILINE | re.DOTALL))
    ends = [block.start() for block in found[1:]] + [len(page)]
    for block, end in zip(found, ends):
        before = page[:block.start()].rstrip().split("\n\n")[-1]
        yield block[1], block[2], block[3], " ".join(before.split()), " ".join(page[block.end():end].split())


def words(line):
    """The words of a line of output, with # for each number."""
    return [NUMBER.sub("#", word) for word in line.split() if word not in MARKS]


def shows(wanted, output):
    """Whether an output matches that of the page, up to numbers. `...` matches any number of
    lines."""
    lines = [" ".join(words(line)) for line in wanted.splitlines() if line.strip()]
    pattern = "".join("(?:.*\n)*" if line == "..." else re.escape(line) + "\n" for line in lines)
    found = "".join(" ".join(words(line)) + "\n" for line in output.splitlines() if line.strip())
    return re.fullmatch(pattern, found) is not None


class Reader:
    """A page, a directory, and the terminals in which its commands run."""

    def __init__(self, directory, page, names=None):
        self.directory, self.page, self.names = directory, page, dict(names or {})
        self.terminals, self.started, self.counter = {}, [], itertools.count()
        (directory / "bin").mkdir()
        for name in PROGRAMS:
            self.script(name, f'exec {BUILD / name} "$@"')
        for name, port in CONNECTS.items():
            self.wrap(name, BUILD / name, f"--connect ipc://{directory}/{port}")
        sets = " ".join(f"--set {name}.bind=ipc://{directory}/{port}"
                        for name, port in (("statistics", 5571), ("control", 5572)))
        self.script("runneld", f'grep -qs "redis:" "$2" || set -- --set examples.bind=ipc://{directory}/5570 "$@"\n'
                               f'exec {BUILD / "runneld"} {sets} "$@"')
        self.script("python3", f'exec {sys.executable} -u "$@"')
        os.symlink(SOURCE / "conf", directory / "conf")
        self.environment = {**os.environ, "PATH": f"{directory}/bin:{os.environ['PATH']}", "HOME": str(directory),
                            "XDG_STATE_HOME": f"{directory}/.local/state", "PYTHONPATH": str(SOURCE / "streams/python"),
                            "PYTHONDONTWRITEBYTECODE": "1", "RUNNELD": str(BUILD / "runneld")}
        self.shell = self.popen(["bash"], stdin=subprocess.PIPE, stdout=self.file("shell.out"),
                                stderr=self.file("shell.err"))
        self.shell.stdin.write(b"trap failed=1 ERR\n")

    def script(self, name, text):
        path = self.directory / "bin" / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def wrap(self, name, real, options):
        """The program with more options, unless the page sets the first of them."""
        self.script(name, f'case " $* " in *" {options.split()[0]} "*) exec {real} "$@" ;; esac\n'
                          f'exec {real} "$@" {options}')

    def file(self, name):
        return open(self.directory / name, "ab")

    def popen(self, command, **options):
        self.started.append(subprocess.Popen(command, cwd=self.directory, env=self.environment,
                                             start_new_session=True, **options))
        return self.started[-1]

    def moved(self, text):
        """The text with the paths and addresses of this test."""
        for name, mine in self.names.items():
            text = text.replace(name, mine)
        return PORT.sub(rf"ipc://{self.directory}/\1", text)

    def printed(self, text):
        return re.sub(rf"ipc://{self.directory}/(5[56]\d\d)", r"tcp://127.0.0.1:\1", text).replace(str(self.directory), "~")

    def log(self):
        """Everything that the commands have printed."""
        texts = (path.read_text(encoding="utf-8", errors="replace") for path in sorted(self.directory.glob("*.out")) +
                 sorted(self.directory.glob("*.err")))
        return "\n".join(texts)[-8000:]

    def run(self, text, tolerant=False):
        """The output of commands in the shell; None if one of them failed and the failure is
        tolerated."""
        start, mark = os.path.getsize(self.directory / "shell.out"), f"done-{next(self.counter)}"
        self.shell.stdin.write(f"failed=0\n{self.moved(text)}\necho {mark} $failed\n".encode())
        self.shell.stdin.flush()
        end = time.monotonic() + 4 * running.LIMIT
        while not (done := re.fullmatch(rf"(.*){mark} ([01])\n", output := self.output(start), re.DOTALL)):
            assert self.shell.poll() is None, f"exit {self.shell.returncode}: {text}\n{output}\n{self.log()}"
            assert time.monotonic() < end, f"timed out: {text}\n{output}\n{self.log()}"
            time.sleep(0.02)
        assert tolerant or done[2] == "0", f"a command failed: {text}\n{output}\n{self.log()}"
        return self.printed(done[1]) if done[2] == "0" else None

    def output(self, start, terminal="shell"):
        """The output since `start`, which may end within a character."""
        return (self.directory / f"{terminal}.out").read_bytes()[start:].decode(errors="replace")

    def keep(self, text, terminal):
        """Starts a command that keeps running, in its own terminal."""
        assert terminal not in self.terminals or self.terminals[terminal].poll() is not None, f"{terminal}: busy"
        self.terminals[terminal] = self.popen(["bash", "-c", self.moved(text)], stdin=subprocess.DEVNULL,
                                              stdout=self.file(f"{terminal}.out"), stderr=self.file(f"{terminal}.err"))

    def interrupt(self, terminal):
        """Ctrl-C in a terminal, and again while something runs: bash ignores an interrupt that comes
        just after its command has ended, and its loop goes on."""
        process = self.terminals.pop(terminal)
        end = time.monotonic() + running.LIMIT
        while process.poll() is None:
            assert time.monotonic() < end, f"{terminal}: still running\n{self.log()}"
            os.killpg(process.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)

    def until(self, condition, wanted):
        """Waits for a condition from the page."""
        end = time.monotonic() + running.LIMIT
        while not condition():
            assert time.monotonic() < end, f"expected\n{wanted}\n{self.log()}"
            time.sleep(0.2)

    def check(self, text, output):
        """Runs commands until they print the output of the page. Only commands without side effects
        run again."""
        if text.split()[0] in QUERIES:
            self.until(lambda: shows(output, self.run(text, tolerant=True) or ""), f"{text}\n{output}")
        else:
            found = self.run(text)
            assert shows(output, found), f"{text}\nexpected\n{output}\ngot\n{found}\n{self.log()}"

    def read_block(self, language, text, output, before, after):
        """Processes one block; returns whether it is a command."""
        named = re.findall(r"[Ss]ave (?:this|it) as `([^`]+)`", before)
        for terminal in TERMINALS:
            if f"Ctrl-C in the {terminal} terminal" in before:
                self.interrupt(terminal)
        terminal = [name for name in TERMINALS if f"{name} terminal" in before.split("Ctrl-C in the")[-1]]
        if named:
            (self.directory / named[-1]).write_text(self.moved(text), encoding="utf-8")
        elif not language:  # output of the terminal that the text names, or an illustration
            self.until(lambda: not terminal or shows(f"...\n{text}...", self.output(0, terminal[-1])), text)
        else:
            assert language == "sh", f"a block in {language} without a file name: {text}"
            if output:
                self.check(text, output)
            elif terminal:
                self.keep(text, terminal[-1])
            else:
                self.run(text)
            for wanted in re.findall(r"\breports `([^`]+)`", after):
                self.until(lambda wanted=wanted: " ".join(words(wanted)) in " ".join(words(self.log())), wanted)
        return language == "sh"

    def read(self, skip=()):
        """Runs the page, and returns the number of commands. Skips a block that begins with one of
        `skip`."""
        count = 0
        for block in blocks(self.page):
            if not block[1].startswith(tuple(skip)):
                count += self.read_block(*block)
        return count

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for process in self.started:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
