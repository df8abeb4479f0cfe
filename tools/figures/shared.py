"""What the scripts of tools/figures share: how they are called, where the programs are, what they
print. A daemon of their own they start as the tests do (tests/programs/running.py).

Each script is called as NAME [--build DIRECTORY] [options]; --help says the rest. DIRECTORY is a tree
in which the programs have been built: default $builddir, which `make` sets, else build/plain.

What a script has started ends with it, also when it is interrupted or fails."""
import argparse
import atexit
import contextlib
import ctypes
import os
import pathlib
import signal
import sys
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("builddir") or SOURCE / "build/plain")
UNAVAILABLE = 69  # EX_UNAVAILABLE
ENDS = signal.SIGHUP, signal.SIGINT, signal.SIGTERM
PATIENCE = 10  # seconds that a script may take to end after one of them
PR_SET_CHILD_SUBREAPER = 36

sys.dont_write_bytecode = True  # the sources may not be writable
sys.path.insert(0, str(SOURCE / "tests" / "programs"))


def fail(sentence, status=1):
    """End the script with a sentence and without a traceback."""
    print(f"{pathlib.Path(sys.argv[0]).name}: {sentence}", file=sys.stderr)
    sys.exit(status)


def descendants():
    """The numbers of the processes that this one has started, and of those that they have."""
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
    """Kill them all, stopped or not, and wait until they are gone. Those whose parents are killed first
    become this process's."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    end = time.monotonic() + PATIENCE
    while (left := descendants()) and time.monotonic() < end:
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def end_children_with_script():
    """From now on: at its end, with an exception, and when it is told to end. Then it unwinds without them,
    which removes its temporary directories, or, where that waits for something, ends all the same."""
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

    # Where Python ignores that exit (in a destructor, say), the script fails without its children instead.
    atexit.register(lambda: status and os._exit(status[0]))
    for number in ENDS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, end)
    atexit.register(end_children)


def parser(manual, build=BUILD, what="directory of the built programs (default: $builddir, else "
                                     "build/plain)"):
    """A parser of the command line, with --build; the script's docstring is its --help. From here on what
    it starts ends with it."""
    end_children_with_script()
    made = argparse.ArgumentParser(description=manual,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--build", type=pathlib.Path, default=build, metavar="DIRECTORY", help=what)
    return made


def names(known):
    """The type of an option that is a list of such names: NAME,..."""
    def read(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"unknown name {name}; expected "
                                                 f"{', '.join(known)}")
        return text.split(",")
    return read


def program(build, name, how="make"):
    """The path of a program, or of another file that is built."""
    path = pathlib.Path(build, name)
    if not path.exists():
        fail(f"{path} not found; build it first ({how}), or pass another tree with --build",
             UNAVAILABLE)
    return path.resolve()


def table(rows, align=None):
    """Rows of cells, the first one the heads, as a Markdown table: numbers to the right."""
    heads, *rows = [[str(cell) for cell in row] for row in rows]
    align = align or "l" + "r" * (len(heads) - 1)
    rule = ["--:" if side == "r" else "---" for side in align]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *rows])
