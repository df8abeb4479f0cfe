#!/usr/bin/python3
"""Kill a daemon that three producers feed, again and again, and check that every acknowledged
example has been learned exactly once, with the parameters of a daemon that was left alone.

    builddir=BUILD tools/figures/killloop.py [--kills 500] [--seed 1] [--device cpu] [--sync full]

$RUNNEL_CUDA_MODULE names the module of --device cuda. Exit 0: all checks passed."""
import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "programs"))

import recovery  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--sync", default="full", choices=("full", "normal", "off"))
    parser.add_argument("--checkpoint", type=int, default=300, help="examples between two")
    arguments = parser.parse_args()
    begin = time.monotonic()
    done = recovery.kill_loop(arguments.kills, arguments.seed, lambda text: print(text, flush=True),
                              arguments.device, arguments.sync, arguments.checkpoint)
    print(f"{done.kills} kills ({done.in_start} of them during a start) in "
          f"{time.monotonic() - begin:.0f} s: {done.examples} examples, each learned once; "
          f"{done.commands} commands; parameters equal after {done.recoveries} recoveries and at "
          "the end")


if __name__ == "__main__":
    main()
