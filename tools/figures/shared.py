"""What the scripts of tools/figures share: how they are called, where the programs are, what they
print. A daemon of their own they start as the tests do (tests/programs/running.py).

Each script is called as NAME [--build DIRECTORY] [options]; --help says the rest. DIRECTORY is a tree
in which the programs have been built: default $builddir, which `make` sets, else build/plain."""
import argparse
import os
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("builddir") or SOURCE / "build/plain")
UNAVAILABLE = 69  # EX_UNAVAILABLE

sys.dont_write_bytecode = True  # the sources may not be writable
sys.path.insert(0, str(SOURCE / "tests" / "programs"))


def fail(sentence, status=1):
    """End the script with a sentence and without a traceback."""
    print(f"{pathlib.Path(sys.argv[0]).name}: {sentence}", file=sys.stderr)
    sys.exit(status)


def parser(manual, build=BUILD, what="where the programs have been built (default: $builddir, else "
                                     "build/plain)"):
    """A parser of the command line, with --build; the script's docstring is its --help."""
    made = argparse.ArgumentParser(description=manual,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--build", type=pathlib.Path, default=build, metavar="DIRECTORY", help=what)
    return made


def names(known):
    """The type of an option that is a list of such names: NAME,..."""
    def read(text):
        for name in text.split(","):
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(known)}")
        return text.split(",")
    return read


def program(build, name, how="make"):
    """The path of a program, or of another file that is built."""
    path = pathlib.Path(build, name)
    if not path.exists():
        fail(f"there is no {path}: build it first ({how}), or name another tree with --build",
             UNAVAILABLE)
    return path.resolve()


def table(rows, align=None):
    """Rows of cells, the first one the heads, as a Markdown table: numbers to the right."""
    heads, *rows = [[str(cell) for cell in row] for row in rows]
    align = align or "l" + "r" * (len(heads) - 1)
    rule = ["--:" if side == "r" else "---" for side in align]
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, rule, *rows])
