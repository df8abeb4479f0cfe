"""Common code of the scripts of tools/figures: their command line, the paths of programs, their
output. They start daemons like the tests (tests/programs/running.py).

Each script is called as NAME [--build DIRECTORY] [options]; see --help. DIRECTORY is a tree with
built programs: by default $builddir, which `make` sets, else build/plain.

Processes of a script end with it, also if it is interrupted or fails."""
import argparse
import atexit
import contextlib
import ctypes
import hashlib
import os
import pathlib
import signal
import subprocess
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("builddir") or SOURCE / "build/plain")
UNAVAILABLE = 69  # EX_UNAVAILABLE
ENDS = signal.SIGHUP, signal.SIGINT, signal.SIGTERM
PATIENCE = 10  # seconds for a script to end after a signal
PR_SET_CHILD_SUBREAPER = 36

sys.dont_write_bytecode = True  # the sources may be read-only
sys.path.insert(0, str(SOURCE / "tests" / "programs"))


def fail(sentence, status=1):
    """Ends the script with a sentence and without a traceback."""
    print(f"{pathlib.Path(sys.argv[0]).name}: {sentence}", file=sys.stderr)
    sys.exit(status)


def descendants():
    """The numbers of this process's descendants."""
    children, found = {}, [os.getpid()]
    for place in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended since
            state, parent = (place / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[:2]
            if state not in "ZX":
                children.setdefault(int(parent), []).append(int(place.name))
    for process in found:
        found += children.get(process, [])
    return found[1:]


def end_children():
    """Kills them all, stopped or not, and waits until they are gone. Orphans become this
    process's children."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    end = time.monotonic() + PATIENCE
    while (left := descendants()) and time.monotonic() < end:
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def end_children_with_script():
    """Ends descendants with this script from now on: at its end, with an exception, and after a
    signal. Then it unwinds without them, which removes its temporary directories; if unwinding
    blocks, it ends anyway."""
    script, status = os.getpid(), []

    def end(number, _):
        if os.getpid() != script:  # a copy of it
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        for other in ENDS:
            signal.signal(other, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, lambda *_: (end_children(), os._exit(128 + number)))
        signal.alarm(PATIENCE)
        status.append(128 + number)
        end_children()
        sys.exit(128 + number)

    # If Python ignores that exit (e.g. in a destructor), the script fails without its children
    # instead.
    atexit.register(lambda: status and os._exit(status[0]))
    for number in ENDS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, end)
    atexit.register(end_children)


def parser(manual, build=BUILD, what="directory of the built programs (default: $builddir, else "
                                     "build/plain)"):
    """A parser of the command line, with --build; the script's docstring is its --help.
    Descendants end with the script from here on."""
    end_children_with_script()
    made = argparse.ArgumentParser(description=manual,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--build", type=pathlib.Path, default=build, metavar="DIRECTORY", help=what)
    return made


def names(known):
    """The type of an option with a list of names: NAME,..."""
    def read(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown name {name}; expected "
                                                 f"{', '.join(known)}")
        return text.split(",")
    return read


def program(build, name, how="make"):
    """The path of a program, or of another built file."""
    path = pathlib.Path(build, name)
    if not path.exists():
        fail(f"{path} not found; build it first ({how}), or pass another tree with --build",
             UNAVAILABLE)
    return path.resolve()


def places(directory, state=", journal: {enabled: false}", **more):
    """The sockets and the state of a daemon, for its configuration; `more`: other keys of sockets."""
    return "".join(f'{name}: {{bind: "ipc://{directory}/{name}"{more.get(name, "")}}}\n'
                   for name in ("examples", "statistics", "control")
                   ) + f"state: {{directory: {directory}/state{state}}}\n"


def engine_tests():
    """The tests that use every engine."""
    return sorted(path.stem for path in (SOURCE / "tests" / "engines").glob("test_*.c")
                  if "under_test_run(" in path.read_text())


def halves(names):
    """All names, half A (an even md5), and half B."""
    even = {name for name in names if int(hashlib.md5(name.encode()).hexdigest(), 16) % 2 == 0}
    return {"all": set(names), "A": even, "B": set(names) - even}


def seconds_used(process):
    """Its processor time so far: user and system."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def learn(bench, configuration, examples, *more):
    """Wall seconds, and processor seconds, of runnel-bench for so many examples."""
    command = [bench, "--config", configuration, "--examples", str(examples), "--parameters", os.devnull, *more]
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        fail(f"{' '.join(map(str, command))} ended with status {process.returncode}")
    return time.monotonic() - begin, used.ru_utime + used.ru_stime


def thread_seconds(process):
    """Processor seconds of each of its threads: {number as text: seconds}."""
    tasks = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9 for task in tasks}


def resident(process):
    """Its resident memory in bytes."""
    pages = pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGESIZE")


def write_between(path, begin, end, text, what):
    """Replaces the text between two marks of a page."""
    page = path.read_text(encoding="utf-8")
    if begin not in page or end not in page:
        fail(f"{path} has no marker for {what}")
    before, _, rest = page.partition(begin)
    path.write_text(before + begin + text + end + rest.partition(end)[2], encoding="utf-8")


def table(rows, align=None):
    """Rows of cells, the first one the heads, as a Markdown table, with numbers aligned to the
    right."""
    heads, *rows = [[str(cell) for cell in row] for row in rows]
    align = align or "l" + "r" * (len(heads) - 1)
    rule = ["--:" if side == "r" else "---" for side in align]
    first, *rest = ["| " + " | ".join(row) + " |" for row in [heads, *rows]]
    return "\n".join([first, "|" + "|".join(rule) + "|", *rest])
