#!/usr/bin/python3
"""The client library as installed for other programs: found by pkg-config, with the programs of
docs/reference/clients.md, which are compiled against it, shared and static, and run."""
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import time

import cases
import running

SOURCE = pathlib.Path(os.environ.get("srcdir", ".")).resolve()
BUILD = pathlib.Path(os.environ.get("builddir", ".")).resolve()
PAGE = (SOURCE / "docs/reference/clients.md").read_text(encoding="utf-8")
HEADER = (SOURCE / "src/client/runnel.h").read_text(encoding="utf-8")
MAP = (SOURCE / "src/client/runnel.map").read_text(encoding="utf-8")
PROGRAM_LINES = 30  # these are enough according to the page
LIMIT = 120
UNAVAILABLE = 69
CONFIG = """
name: clients
model:
  input: {kind: real, size: 2}
  layers: [{cell: rnn, size: 4}]
  output: {loss: squared, size: 2, target: next}
learning: {window: 4, stride: 4, optimizer: {kind: adam, rate: 0.01}}
examples: {bind: "ipc://DIRECTORY/examples", socket: router}
statistics: {bind: "ipc://DIRECTORY/statistics", every: 1}
control: {bind: "ipc://DIRECTORY/control"}
state: {directory: "DIRECTORY/state", journal: {}}
"""


def variable(name):
    """A variable of the build's Makefile."""
    text = (BUILD / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    return re.search(rf"^{name} = ?(.*)$", text, re.MULTILINE)[1].strip()


CC, CFLAGS = shlex.split(variable("CC")), shlex.split(variable("CFLAGS"))


def call(*words, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=LIMIT, **options)
    assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-4000:])
    return done.stdout


class Staged:
    """The project, installed below another root directory."""

    def __init__(self, directory):
        self.root = pathlib.Path(directory, "stage")
        make = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")
                and key != "MFLAGS"}
        call("make", "-C", BUILD, "-s", "install-library", f"DESTDIR={self.root}", env=make)
        self.library = next(self.root.rglob("librunnel.so")).parent
        assert (self.library / "pkgconfig/runnel.pc").exists()
        self.environment = dict(os.environ, PKG_CONFIG_PATH=str(self.library / "pkgconfig"),
                                PKG_CONFIG_SYSROOT_DIR=str(self.root))

    def flags(self, *words):
        text = call("pkg-config", *words, "runnel", env=self.environment)
        # Libraries of the system are not below the root.
        return shlex.split(text)

    def compile(self, path, *more, static=False):
        program = path.with_suffix(".static" if static else ".shared")
        # As in the page: libzmq's own list of static libraries contains some that Debian lacks.
        libraries = [self.library / "librunnel.a", "-lzmq", "-ljansson", "-lpthread", "-lm"] \
            if static else self.flags("--libs")
        call(*CC, *CFLAGS, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", *more, path,
             *self.flags("--cflags"), *libraries, "-o", program)
        return program

    def run(self, program, *words, **options):
        environment = dict(os.environ, LD_LIBRARY_PATH=str(self.library))
        return subprocess.Popen([str(word) for word in (program, *words)], env=environment,
                                text=True, **options)


def programs(directory):
    """The C programs of the page, {name in the first comment: source}."""
    found = {}
    for block in re.findall(r"^```c\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        name = re.match(r"/\* (\w+\.c): ", block)[1]
        assert len(block.splitlines()) <= PROGRAM_LINES, (name, len(block.splitlines()))
        path = pathlib.Path(directory, name)
        path.write_text(block, encoding="utf-8")
        found[path.stem] = path
    return found


def symbols(*words):
    return {line.split()[-1].split("@")[0] for line in call("nm", *words).splitlines()
            if len(line.split()) == 3}


def test_exported_functions(directory):
    """The header, the map, the shared and the static library contain the same functions."""
    staged = Staged(directory)
    code = re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)
    declared = set(re.findall(r"\b(runnel_\w+)\(", code))
    assert len(declared) > 10
    assert set(re.findall(r"^ *(runnel_\w+);", MAP, re.MULTILINE)) == declared
    shown = symbols("-D", "--defined-only", staged.library / "librunnel.so")
    assert {name for name in shown if not name.startswith("RUNNEL_")} == declared
    assert symbols("-g", "--defined-only", staged.library / "librunnel.a") == declared
    soname = call("readelf", "-d", staged.library / "librunnel.so")
    assert "librunnel.so.1]" in soname, soname


def test_the_header_stands_alone(directory):
    staged = Staged(directory)
    for name, compiler in ("c", [*CC, "-std=c99", "-Wstrict-prototypes"]), ("cpp", ["g++", "-std=c++11"]):
        if not shutil.which(compiler[0]):
            continue
        path = pathlib.Path(directory, f"alone.{name}")
        path.write_text("#include <runnel.h>\n#include <runnel.h>\n"
                        "int main(void) { return !runnel_version(); }\n", encoding="utf-8")
        call(*compiler, *CFLAGS, "-pedantic", "-Wall", "-Wextra", "-Werror", path,
             *staged.flags("--cflags", "--libs"), "-o", path.with_suffix(""))
    assert all(line.split()[1].startswith("<") for line in HEADER.splitlines()
               if line.startswith("#include")), "it includes another header of the project"


def test_the_page(directory):
    """Its programs watch a daemon, send requests and feed it."""
    staged, sources = Staged(directory), programs(directory)
    assert {"watch", "ask", "feed"} == set(sources), sources
    for static in False, True:
        built = {name: staged.compile(path, static=static) for name, path in sources.items()}
        below = pathlib.Path(directory, "static" if static else "shared")
        below.mkdir()
        with running.Daemon(below, CONFIG.replace("DIRECTORY", str(below))) as daemon:
            printed = below / "said"
            with open(printed, "w", encoding="utf-8") as out:
                watch = staged.run(built["watch"], daemon.endpoint("statistics"), stdout=out)
            daemon.ask("status")
            asked = staged.run(built["ask"], daemon.endpoint("control"), stdout=subprocess.PIPE)
            status = json.loads(asked.communicate(timeout=LIMIT)[0])
            assert asked.returncode == 0 and status["name"] == "clients", status
            refused = staged.run(built["ask"], daemon.endpoint("control"), '{"command": "no"}',
                                 stderr=subprocess.PIPE)
            err = refused.communicate(timeout=LIMIT)[1]
            assert refused.returncode == 70 and "no" in err, err
            wrong = staged.run(built["watch"], daemon.endpoint("control"), stderr=subprocess.PIPE)
            err = wrong.communicate(timeout=LIMIT)[1]
            assert "is a ROUTER socket, not runneld's statistics socket" in err, err
            deadline = time.monotonic() + LIMIT
            while daemon.ask("status")["examples"] < 5 or "loss {" not in printed.read_text():
                assert time.monotonic() < deadline and watch.poll() is None, printed.read_text()
                feed(staged, built, daemon)
            watch.kill()
            watch.wait()
            line = [line for line in printed.read_text().splitlines() if line.startswith("loss ")][0]
            assert json.loads(line.partition(" ")[2])["examples"] >= 1


def feed(staged, built, daemon):
    process = staged.run(built["feed"], daemon.endpoint("examples"), stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE)
    out = process.communicate("".join(f"{i} {-i}\n" for i in range(5)), timeout=LIMIT)[0]
    assert (process.returncode, out) == (0, "5 acknowledged\n"), out
    nobody = staged.run(built["feed"], "tcp:nowhere", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    err = nobody.communicate(timeout=LIMIT)[1]
    assert nobody.returncode == 64 and "invalid endpoint 'tcp:nowhere'" in err, err


cases.run(globals())
