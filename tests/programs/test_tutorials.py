#!/usr/bin/python3
"""What the README, the tutorials and the how-to pages print is true: their commands run one after the other, as a reader
runs them, and print what the pages show, up to its numbers."""
import cases
import pages


def test_forecast(directory):
    with pages.Reader(directory, pages.read("docs/tutorials/forecast.md")) as reader:
        assert reader.read() >= 7


cases.run(globals())
