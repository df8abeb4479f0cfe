# --- Errors of the command line ---
#
# The build inserts this file into runnel-plot and runnel-evaluate. EXPECTED has a phrase for the type
# of each option.
import argparse
import re


def reword(message):
    """argparse's message in the words of the other programs."""
    for pattern, words in ((r"unrecognized arguments: (-\S+).*", r"unknown option \1"),
                           (r"unrecognized arguments: (.*)", r"unexpected argument \1"),
                           (r"argument (?:-\w/)?(-\S+): expected one argument", r"\1: missing value"),
                           (r"argument (?:-\w/)?(-\S+): invalid choice: (.*) \(choose from (.*)\)",
                            r"\1: expected one of \3, got \2"),
                           (r"argument (?:-\w/)?(-\S+): invalid (\w+) value: (.*)",
                            lambda m: f"{m[1]}: expected {EXPECTED[m[2]]}, got {m[3]}"),
                           (r"argument (?:-\w/)?(-\S+): (.*)", r"\1: \2")):
        if re.fullmatch(pattern, message):
            return re.sub(pattern, words, message)
    return message


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(EX_USAGE, f"{self.prog}: {reword(message)} ({self.prog} --help shows the options)\n")
