#!/usr/bin/python3
"""What the README, the tutorials and the how-to pages print is true: their commands run one after the other, as a reader
runs them, and print what the pages show, up to its numbers."""
import cases
import pages


def read(directory, name, **options):
    with pages.Reader(directory, pages.read(f"docs/{name}.md")) as reader:
        assert reader.read(**options) >= 4


def test_forecast(directory):
    read(directory, "tutorials/forecast")


def test_experiment(directory):
    read(directory, "tutorials/experiment")


def test_late_labels(directory):
    read(directory, "tutorials/late-labels")


cases.run(globals())
