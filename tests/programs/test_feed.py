#!/usr/bin/python3
"""runnel-feed's sources: the examples for known data, and the errors for bad data."""
import gzip
import json
import math
import os
import re
import signal
import struct
import subprocess
import time

import cases
from feeding import *  # noqa: F403  pylint: disable=wildcard-import

U4 = {"x_type": "<u4"}


def write(path, data):
    """Writes a file; a name in .gz is compressed."""
    data = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def values(examples):
    return [list(map(float, e.x)) for e in examples]


def near(found, expected):
    return np.allclose(np.array(found, float), np.array(expected, float), equal_nan=True)


def fails(status, text, *arguments, stdin=b""):
    """It must end with the status and the text, and print a usable last line."""
    fed = run(*arguments, "--print", stdin=stdin)
    assert fed.status == status, (arguments, fed)
    assert text in fed.err, (arguments, text, fed.err)
    return fed


# ---- text ----

def test_text_bytes(directory):
    data = bytes(range(256)) * 3 + b"end"
    for name in ["t.txt", "t.gz"]:
        examples = good("text", write(directory / name, data), **U4)
        assert b"".join(e.x.astype("u1").tobytes() for e in examples) == data
        assert all(e.key == "text" and len(e.frames) == 2 for e in examples)
    piped = good("text", "-", "--stream", "größe", stdin=data, **U4)
    assert [int(e.x[0]) for e in piped] == list(data)
    assert {e.key for e in piped} == {"größe"}


def test_text_steps_repeat_count_end(directory):
    path = write(directory / "t", "abcdefg")
    assert [bytes(e.x.astype("u1")) for e in good("text", path, "--steps", 3, "--repeat", 2, **U4)
            ] == [b"abc", b"def", b"g"] * 2
    assert len(good("text", path, "--repeat", 0, "--count", 30, **U4)) == 30
    examples = good("text", path, "--end", "--repeat", 2, **U4)
    assert ends(examples) == [6, 13] and len(examples) == 14
    examples = good("text", path, "--end", "--steps", 3, **U4)
    assert ends(examples) == [2] and examples[2].x.tobytes() == b"g\0\0\0"


def test_text_alphabet(directory):
    path, other = write(directory / "t", "cab\nbac\n"), write(directory / "o", "abc\nx")
    fed = feed("text", path, "--alphabet", "auto", **U4)
    assert [int(e.x[0]) for e in fed.examples] == [3, 1, 2, 0, 2, 1, 3, 0]
    assert "alphabet of 4 symbols" in fed.err
    assert "alphabet of 5 symbols" in feed("text", path, "--alphabet", other, **U4).err
    fails(BAD_DATA, f"{other}:2: byte 5 is 0x78", "text", other, "--alphabet", path)
    fed = run("text", other, "--alphabet", path, "--print", "--skip-bad")
    assert fed.status == OK and len(fed.out.splitlines()) == 4 and "1 bad line" in fed.err
    fails(USAGE, "cannot read a pipe twice", "text", "-", "--alphabet", "auto", stdin=b"x")
    fails(USAGE, "--repeat", "text", "-", "--repeat", 2, stdin=b"x")


def test_invalid_files(directory):
    fails(NO_INPUT, "file not found", "text", directory / "nothing")
    fails(NO_INPUT, "directory", "csv", directory)
    fails(BAD_DATA, "no example", "text", write(directory / "empty", ""))
    whole = write(directory / "t.gz", os.urandom(50000)).read_bytes()
    fails(BAD_DATA, "the file is truncated", "text", write(directory / "cut", whole[:20000]))
    damaged = whole[:20000] + b"\0" * 100 + whole[20100:]
    fails(BAD_DATA, "damaged", "text", write(directory / "damaged", damaged))
    fails(BAD_DATA, "zcat", "text", "-", stdin=whole)


# ---- csv ----

TABLE = "a,b,c\n1,2,3\n4,5,6\n"


def test_csv_columns(directory):
    path = write(directory / "t.csv", TABLE)
    assert values(good("csv", path)) == [[1, 2, 3], [4, 5, 6]]
    assert values(good("csv", write(directory / "t.gz", TABLE))) == [[1, 2, 3], [4, 5, 6]]
    assert values(good("csv", path, "--columns", "c,a")) == [[3, 1], [6, 4]]
    assert values(good("csv", path, "--columns", "3, 1-2")) == [[3, 1, 2], [6, 4, 5]]
    examples = good("csv", path, "--targets", "b")
    assert values(examples) == [[1, 3], [4, 6]] and [list(e.y) for e in examples] == [[2], [5]]
    assert all(len(e.frames) == 3 for e in examples)
    examples = good("csv", path, "--symbol", "a", "--class", "c", **U4, y_type="<u4")
    assert [(int(e.x[0]), int(e.y[0])) for e in examples] == [(1, 3), (4, 6)]
    assert near(values(good("csv", path, "--multiply", "a=0.01,3=-2")),
                [[.01, 2, -6], [.04, 5, -12]])
    assert values(good("csv", path, "--no-header", "--columns", 2, "--skip-bad")) == [[2], [5]]
    fails(USAGE, "column 'd' not found", "csv", path, "--columns", "d")
    fails(USAGE, "no column matches 'd*'", "csv", path, "--columns", "d*")
    fails(USAGE, "a, b, c", "csv", path, "--targets", "4")
    fails(USAGE, "exclude each other", "csv", path, "--targets", "a", "--class", "b")
    fails(USAGE, "COLUMN=FACTOR", "csv", path, "--multiply", "a")


def test_csv_good_rows_before_a_bad_one(directory):
    """They are sent, including the held rows, but the end of their sequence is unknown."""
    path = write(directory / "t.csv", "s,k,a\n1,p,1\n1,q,2\n1,p,3\n2,p,4\n2,p\n2,p,6\n")
    fed = feed("csv", path, "--stream-column", "k", "--sequence", "s")
    assert fed.status == BAD_DATA
    assert [(e.key, e.x[0]) for e in fed.examples] == [("p", 1), ("p", 3), ("p", 4), ("q", 2)]
    assert ends(fed.examples) == [1]
    assert ":6: expected 3 fields as in the first line, got 2" in fed.err
    assert "; 4 good examples before it were sent" in fed.err
    fed = feed("csv", path, "--stream-column", "k", "--sequence", "s", "--skip-bad")
    assert fed.status == OK and len(fed.examples) == 5
    path = write(directory / "t.csv", "a\n1\n2\n3\n4,5\n")
    fed = feed("csv", path, "--steps", 2, "--end")
    assert fed.status == BAD_DATA and values(fed.examples) == [[1, 2], [3]] and not ends(fed.examples)


def test_csv_missing_cells(directory):
    def of(text, *options):
        return values(good("csv", write(directory / "t.csv", text), *options))
    gap = [math.nan, math.nan]
    assert near(of("a,b\n1,2\nnull,NULL\n-, NaN \nN/A,na\n,NA\n5,6\n"), [[1, 2], *[gap] * 4, [5, 6]])
    assert near(of("a,b\n?,2\n-999,3\n none,4\n", "--missing", "?,-999,None"), [
        [math.nan, k] for k in (2, 3, 4)])
    path = write(directory / "t.csv", "a,b\n-,x\n1,-\nNULL,null\n")
    lines = run("csv", path, "--names", "--print").out.splitlines()
    assert [json.loads(line)["x"] for line in lines] == [{"b": "x"}, {"a": 1}, {}]
    lines = run("csv", path, "--names", "--missing", "null", "--print").out.splitlines()
    assert [json.loads(line)["x"] for line in lines] == [{"a": "-", "b": "x"}, {"a": 1, "b": "-"}, {}]


def test_csv_bad_cells(directory):
    """A bad cell is a missing value and its row is kept; in a column without a number so far it
    ends the feeder."""
    bad = ["x", "12 kg", '"1,5"', "0x10", "1e39"]
    path = write(directory / "t.csv", "a,b\n1,2\n" + "".join(f"{cell},{k}\n" for k, cell in enumerate(bad)) +
                 "3,?\n4,5\n")
    for options in (), ("--skip-bad",), ("--repeat", 1):
        fed = feed("csv", path, *options)
        assert fed.status == OK and near(values(fed.examples), [
            [1, 2], *[[math.nan, k] for k in range(5)], [3, math.nan], [4, 5]]), fed
        for output in ("t.csv:3: column 'a': expected a number, got 'x'; such cells",
                     "t.csv:8: column 'b': expected a number, got '?'; such cells",
                     "t.csv: cells that are not numbers count as missing: 5 in 'a'\n"):
            assert fed.err.count(output) == 1, (output, fed.err)
        assert fed.err.count("column '") == 2 and "skipped" not in fed.err, fed.err
    assert "column" not in run("csv", path, "--quiet", "--print").err
    for cell, ways in (("x", ("leave it out with --columns", "--stream-column 'b'", "--missing")),
                       ("2024-01-02", ("--time 'b'",)), ("02/03/2024", ("--time 'b'",)), ("12:30", ("--time 'b'",))):
        for way in ways:
            fails(BAD_DATA, way, "csv", write(directory / "t.csv", f"a,b\n1,{cell}\n2,3\n"))
    fails(BAD_DATA, "; for two columns use --time DATE,'b'", "csv", directory / "t.csv", "--time", "b")
    write(directory / "t.csv", "a,b\n1,x\n2,3\n")
    fails(BAD_DATA, "t.csv:2: column 'b': expected a number, got 'x'\n", "csv", directory / "t.csv",
          "--columns", "a,b")
    assert values(good("csv", directory / "t.csv", "--skip-bad")) == [[2, 3]]
    fails(BAD_DATA, "t.csv:3: column 'a': expected a class: a whole number from 0, got '2.5'", "csv",
          write(directory / "t.csv", "a\n1\n2.5\n"), "--symbol", "a")
    examples = good("csv", write(directory / "t.csv", "a,b\n1,2\n2,2.5\n"), "--class", "b", y_type="<u4")
    assert [e.y[0] for e in examples] == [2, NO_CLASS]


def test_csv_many_columns(directory):
    """By ranges of names and patterns; an error is one short line for any number of columns."""
    names = ["date", *(f"load{k}" for k in range(30)), *(f"temp{k}" for k in range(29)), "a*b", "x..y"]
    path = write(directory / "t.csv", f"{','.join(names)}\n{','.join(map(str, range(62)))}\n")

    def of(items):
        fed = run("csv", path, "--columns", items, "--print")
        assert fed.status == OK, fed.err
        return [int(k) for k in json.loads(fed.out)["x"]]
    assert of("load3..load6,temp*") == [4, 5, 6, 7, *range(31, 60)]
    assert of("temp28,temp2?,load[12]") == [59, *range(51, 59), 2, 3]
    assert of("a*b,x..y,3-4") == [60, 61, 2, 3]
    for items in "load6..load3", "load0..none", "none*", "63", "4-63":
        reason = "no column matches 'none*'" if items == "none*" else f"column '{items}' not found"
        line, _ = fails(USAGE, f"--columns: {reason}", "csv", path, "--columns", items).err.splitlines()
        assert len(line) < 700, line


def test_csv_order_of_times(directory):
    """A time that is not later than the previous one is reported once and counted, in each stream."""
    def of(rows, *options):
        text = "".join(f"2024-01-01 0{hour}:00,{key},{hour}\n" for hour, key in rows)
        fed = run("csv", write(directory / "t.csv", "t,k,v\n" + text), "--print", "--time", "t", *options)
        assert fed.status == OK, fed.err
        return fed.err
    mixed = [(hour, key) for hour in range(4) for key in "pq"]
    for rows, output, count in (
            (mixed, "t.csv:3: column 't': duplicate time", "4 rows have the same time"),
            (sorted(mixed, key=lambda row: row[1]) * 2, "t.csv:6: column 't': the time goes back",
             "the time goes back in 3 rows")):
        found = of(rows, "--columns", "v")
        assert found.count("; if 'k' names streams, use --stream-column 'k'\n") == 1, found
        assert found.count(output) == found.count(count) == found.count("column 't'") == 1, found
        assert "; if 'k' names streams" in of(rows, "--names")
    assert "; if 'k' is the time of day, use --time 't,k'\n" in of(
        [(1, "10:30"), (1, "10:45")], "--columns", "v")
    for found in (of(mixed, "--stream-column", "k"), of(mixed, "--stream-column", "k", "--names"),
                  of(mixed[::2], "--columns", "v", "--repeat", 2)):
        assert "duplicate time" not in found and "goes back" not in found, found
    found = of([*mixed, (3, "p"), (2, "q")], "--stream-column", "k")
    assert "t.csv:10: column 't': duplicate time in stream\n" in found, found
    assert "t.csv:11: column 't': the time goes back in stream\n" in found, found


def test_csv_forms(directory):
    def of(text, *options):
        return values(good("csv", write(directory / "t.csv", text), *options))
    assert of("a,b\r\n1,2\r\n\r\n3,4") == [[1, 2], [3, 4]]
    assert of("\ufeffa;b\n 1 ;2e3\n", "--delimiter", ";", "--columns", "a,b") == [[1, 2000]]
    assert of("a\tb\n1\t2\n", "--delimiter", "tab") == [[1, 2]]
    assert of('"a ""x"", y","b\nz"\n"1","2"\n', "--columns", 'b\nz') == [[2]]
    assert of("1,2\n3,4\n", "--no-header") == [[1, 2], [3, 4]]
    assert near(of("a,b,c,d\n,nan,NA,1\n", ), [[math.nan, math.nan, math.nan, 1]])
    assert near(of("a,b,c,d\n \t, nan\t,NA ,1 \n"), [[math.nan, math.nan, math.nan, 1]])
    fails(BAD_DATA, "expected a number, got 'NA NA '", "csv",
          write(directory / "t.csv", "a\nNA NA \n"))
    examples = good("csv", write(directory / "t.csv", "a,b\n1,NA \n2, nan\t\n3, 4 \n4, \n"),
                    "--class", "b", y_type="<u4")
    assert [e.y[0] for e in examples] == [NO_CLASS, NO_CLASS, 4, NO_CLASS]
    many = "a,b\n" + "".join(f"{i},{i / 7}\n" for i in range(30000))
    assert near(of(many), [[i, i / 7] for i in range(30000)])


def test_csv_sequences(directory):
    path = write(directory / "t.csv", "s,v\nA,1\nA,2\nB,3\nC,4\nC,5\n")
    examples = good("csv", path, "--sequence", "s", "--repeat", 2)
    assert values(examples) == [[1], [2], [3], [4], [5]] * 2
    assert ends(examples) == [1, 2, 4, 6, 7, 9]
    assert [e.header.sequence for e in examples if e.header] == [1, 2, 4, 6, 7, 9]
    bundled = good("csv", path, "--sequence", "s", "--steps", 10)
    assert values(bundled) == [[1, 2], [3], [4, 5]] and ends(bundled) == [0, 1, 2]
    assert ends(good("csv", path, "--columns", "v", "--end")) == [4]


def test_csv_streams(directory):
    path = write(directory / "t.csv", "k,s,v\nx,1,1\ny,1,2\nx,1,3\ny,2,4\nx,2,5\n")
    examples = good("csv", path, "--stream-column", "k", "--columns", "v", "--numbered", "--epoch", 7)
    assert [(e.key, e.x[0], e.header.sequence) for e in examples] == [
        ("x", 1, 0), ("y", 2, 0), ("x", 3, 1), ("y", 4, 1), ("x", 5, 2)]
    assert all(e.header.epoch == 7 and e.header.time > 1.5e9 and e.y is None for e in examples)
    examples = good("csv", path, "--stream-column", "k", "--sequence", "s")
    for key, expected in [("x", [(1, 0), (3, 1), (5, 1)]), ("y", [(2, 1), (4, 1)])]:
        of = [(e.x[0], bool(e.header and e.header.flags & END)) for e in examples if e.key == key]
        assert of == expected, (key, of)
    fails(USAGE, "exclude", "csv", path, "--stream-column", "k", "--stream", "z")
    long = write(directory / "long.csv", "k,v\n" + "x" * 256 + ",1\n")
    fails(BAD_DATA, "long.csv:2: column 'k'", "csv", long, "--stream-column", "k")


def test_csv_time(directory):
    path = write(directory / "t.csv", "t,v\n2016-07-01 00:00:00,1\n2016-07-01T01:00:00.5Z,2\n"
                 "2016-07-01 02:00+01:00,3\n1467338400,4\n2016-07-02,5\n")
    examples = good("csv", path, "--time", "t")
    assert [e.header.time - 1467331200 for e in examples] == [0, 3600.5, 3600, 7200, 86400]
    assert values(examples) == [[1], [2], [3], [4], [5]]
    bad = write(directory / "b.csv", "t,v\n1st of July,1\n")
    fails(BAD_DATA, "b.csv:2: column 't': expected a time as in", "csv", bad,
          "--time", "t")


def test_csv_bad_rows(directory):
    for text, output in [("a,b\n\n\n3,x\n", ":4: column 'b': expected a number, got 'x'"),
                       ("a,b\n1,2\n3\n", ":3: expected 2 fields as in the first line, got 1"),
                       ("a,b\n1,2\n3,4,5\n", ":3: expected 2 fields as in the first line, got 3"),
                       ('"a\n",b\n\n3,4 5\n', ":4: column 'b': expected a number, got '4 5'"),
                       ("a,b\n1,inf\n", ":2: column 'b': expected a number, got 'inf'"),
                       ("a,b\n1,1e39\n", ":2: column 'b': expected a number in the range of float32, got '1e39'"),
                       ('a,b\n1,"2\n3,4\n', ":2: missing closing quote of a field"),
                       ('a,b\n"1"x,2\n', ":2: text between"),
                       ("a,b\n1,\0\n", ":2: the line contains a zero byte"), ("", ": empty file"),
                       ("a,b\n", "no example")]:
        fails(BAD_DATA, output, "csv", write(directory / "t.csv", text))
    path = write(directory / "t.csv", 'a,b\n1,2\nx,2\n3\n3,4\n"5"6,7\n8,9\n"1,1\n')
    fed = run("csv", path, "--skip-bad", "--print", "--verbose")
    assert [json.loads(line)["x"] for line in fed.out.splitlines()] == [
        [1, 2], [None, 2], [3, 4], [8, 9]]
    assert "3 bad lines were skipped" in fed.err and "t.csv:3: column 'a': expected a number, got 'x'" in fed.err
    fails(BAD_DATA, "expected a class", "csv", write(directory / "t.csv", "a,b\n1,2.5\n"),
          "--class", "b")
    fails(BAD_DATA, "expected a symbol", "csv", write(directory / "t.csv", "a,b\n,2\n"),
          "--symbol", "a")


# ---- idx ----

def idx(array, kind=8):
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + \
        array.astype("u1").tobytes()


def test_idx(directory):
    pixels = np.random.default_rng(1).integers(0, 256, (50, 3, 4))
    labels = np.arange(50) % 10
    images, names = write(directory / "i.gz", idx(pixels)), write(directory / "l", idx(labels))
    examples = good("idx", images, names, y_type="<u4")
    assert near(values(examples), pixels.reshape(50, 12) / 255)
    assert [list(e.y) for e in examples] == [[n] for n in labels]
    assert ends(examples) == list(range(50))
    assert all(e.y is None for e in good("idx", images))

    shuffled = [good("idx", images, "--shuffle", s, "--repeat", 2) for s in (3, 3, 4)]
    first, again, other = [[e.x.tobytes() for e in run] for run in shuffled]
    plain = [e.x.tobytes() for e in examples]
    assert first == again and first != other and sorted(first[:50]) == sorted(plain)
    assert first[:50] not in (plain, first[50:]) and sorted(first[50:]) == sorted(plain)


def test_permutations(directory):
    """Pixels, labels and symbols have another order every N examples, over all passes."""
    pixels = np.random.default_rng(1).integers(0, 256, (50, 4, 6))
    labels = np.arange(50) % 10
    images, names = write(directory / "i", idx(pixels)), write(directory / "l", idx(labels))
    means = pixels.reshape(50, 2, 2, 3, 2).mean(axis=(2, 4)).reshape(50, 6) / 255
    plain = [good("idx", images, names, "--average", 2, "--permute-pixels", 30, "--permute-labels", 30,
                  "--repeat", 2, "--seed", seed, y_type="<u4") for seed in (3, 3, 4)]
    first, again, other = [[(e.x.tobytes(), e.y[0]) for e in run] for run in plain]
    assert first == again != other
    orders = set()
    for begin in (0, 30, 60, 90):
        block = [n % 50 for n in range(100)][begin:begin + 30]
        x, y = np.array(values(plain[0][begin:begin + 30])), [int(e.y[0]) for e in plain[0][begin:begin + 30]]
        order = [int(np.abs(means[block, k, None] - x).max(axis=0).argmin()) for k in range(6)]
        assert sorted(order) == list(range(6)) and near(x[:, order], means[block])
        classes = dict(zip(labels[block], y))
        assert sorted(classes.values()) == list(range(10)) and y == [classes[c] for c in labels[block]]
        orders.add((*order, *(classes[c] for c in range(10))))
    assert len(orders) == 4
    fails(USAGE, "--average: expected a divisor of 4 and 6, got 3", "idx", images, "--average", 3)

    text = write(directory / "t", b"abcab" * 4)
    symbols = [int(e.x[0]) for e in good("text", text, "--alphabet", "auto", "--permute", 10, **U4)]
    assert sorted(set(symbols)) == [0, 1, 2] and symbols[:5] == symbols[5:10] != symbols[10:15] == symbols[15:]


def test_idx_bad(directory):
    images = idx(np.zeros((5, 2, 2)))
    for data, output in [(images[:-1], "expected 5 x 4 bytes, got 19"),
                       (images + b"x", "the file is longer"), (images[:10], "within its dimensions"),
                       (idx(np.zeros((5, 2, 2)), 13), "got 0x0D"), (b"P6 1 1", "not an IDX file"),
                       (b"\0\0\x08\x09", "dimensions, got 9"), (idx(np.zeros((0, 2))), "no images"),
                       (b"\0\0\x08\x03" + b"\xff" * 12, "an image must have 1 to")]:
        fails(BAD_DATA, output, "idx", write(directory / "i", data))
    write(directory / "i", images)
    fails(BAD_DATA, "has 4 labels", "idx", directory / "i",
          write(directory / "l", idx(np.zeros(4))))
    fails(BAD_DATA, "name the images first", "idx", directory / "i", directory / "i")


# ---- host ----

STAT = "cpu  {} 10 100 4000 50 0 0 0 0 0\ncpu0 1 1 1 1\nintr 5 0 0\nctxt {}\nbtime 1\n"


def test_host_numbers(directory):
    """With a /proc of the test: the counters change once, and one sample must show the difference."""
    (directory / "net").mkdir()
    write(directory / "stat", STAT.format(1000, 70000))
    write(directory / "meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n")
    write(directory / "loadavg", "1.50 0.1 0.1 1/2 3\n")
    net = "Inter-| x\n face |bytes\n  lo: 9 0 0 0 0 0 0 0 9 0\neth0:{} 1 0 0 0 0 0 0 {} 0\n"
    write(directory / "net/dev", net.format(100, 200))
    disk = "7 0 loop0 9 9 99 9 9 9 99 9\n8 0 sda 1 0 {} 0 1 0 {} 0\n8 1 sda1 1 0 5 0 1 0 7 0\n"
    write(directory / "diskstats", disk.format(100, 300))
    with Receiver(directory) as receiver:
        process = start("host", "--proc", directory, "--rate", 200, "--connect",
                        receiver.bind().endpoint)
        x = decode(receiver.take()).x
        assert near(x[[0, 1, 4, 5, 6, 7]], 0) and abs(x[2] - .75) < 1e-6
        assert abs(x[3] - 1.5 / os.sysconf("SC_NPROCESSORS_ONLN")) < 1e-6
        process.send_signal(signal.SIGSTOP) # it must not read a half-written file
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        for path, now in [("stat", STAT.format(1300, 70900).replace("100 4000", "200 4600")),
                          ("net/dev", net.format(999, 999)),
                          ("diskstats", disk.format(110, 310))]:
            with open(directory / path, "r+", encoding="ascii") as file: # the same file, in place
                file.write(now)
        process.send_signal(signal.SIGCONT)
        seen = np.zeros(8)
        while not (seen > 0).all():
            example = decode(receiver.take())
            seen = np.maximum(seen, example.x)
        assert near(seen[:2], [400 / 1000, 100 / 1000]), seen
        assert example.header.time > 1.5e9 and example.header.sequence > 0
        process.terminate()
        assert process.wait(LIMIT) == OK
        process.communicate()


def test_host_missing(directory):
    write(directory / "loadavg", "1.50 0.1 0.1 1/2 3\n")
    fed = feed("host", "--proc", directory, "--rate", 200, "--count", 3)
    for example in fed.examples:
        assert list(np.isnan(example.x)) == [True] * 3 + [False] + [True] * 4
    for name in ["stat", "meminfo", "net/dev", "diskstats"]:
        assert fed.err.count(f"{directory}/{name}: No such file") == 1
    assert "loadavg" not in fed.err


def test_host_itself(directory):
    before = time.monotonic()
    examples = good("host", "--count", 10, "--rate", 50)
    assert time.monotonic() - before >= 9.5 / 50 # absolute deadlines: never early
    x = np.array(values(examples))
    assert x.shape == (10, 8) and not np.isnan(x[:, :5]).any()
    assert ((x[:, :3] >= 0) & (x[:, :3] <= 1)).all() and (x[:, 1] <= x[:, 0] + 1e-6).all()
    times = [e.header.time for e in examples]
    assert times == sorted(times) and {e.key for e in examples} == {"host"}
    before = time.monotonic()
    assert len(good("host", "--count", 2, "--every", .3)) == 2
    assert time.monotonic() - before >= .55
    fails(USAGE, "--every: expected seconds, got '0'", "host", "--every", 0)


# ---- synth ----

def synth(kind, count, *options, **types):
    return good("synth", kind, "--count", count, *options, **types)


def test_synth_seeds(directory):
    for kind in ["sine", "mackey-glass", "lorenz", "adding", "copy", "drift", "slow", "regimes", "recall"]:
        first, same, other = [[e.frames[:3] for e in synth(kind, 300, "--seed", seed)]
                              for seed in (5, 5, 6)]
        assert first == same and first != other, kind
        bundled = synth(kind, 60, "--seed", 5, "--steps", 5)
        if kind not in ("adding", "copy"):
            assert b"".join(f[1] for f in first) == b"".join(e.frames[1] for e in bundled)


def test_synth_sine(directory):
    x = np.array(values(synth("sine", 4096, "--size", 3)))
    assert x.shape == (4096, 3) and np.abs(x).max() <= 1
    for k in range(3): # three lines in the spectrum have all its power
        power = np.sort(np.abs(np.fft.rfft(x[:, k] * np.hanning(4096))) ** 2)
        assert power[-12:].sum() > .98 * power.sum()
    noisy = np.array(values(synth("sine", 4096, "--size", 3, "--noise", .5)))
    assert noisy.std() > x.std() + .1


def test_synth_chaos(directory):
    def slope(s):
        return np.array([10 * (s[1] - s[0]), s[0] * (28 - s[2]) - s[1], s[0] * s[1] - 8 / 3 * s[2]])
    x = np.array(values(synth("lorenz", 2000)))
    for now, later in zip(x[:-1], x[1:]):
        s = now
        for _ in range(20): # Heun's method with a tenth of the step
            k = slope(s)
            s = s + .001 / 2 * (k + slope(s + .001 * k))
        assert np.abs(s - later).max() < 2e-2
    assert x[:, 2].max() > 35 and x[:, 0].min() < -10 < 10 < x[:, 0].max()

    x = np.array(values(synth("mackey-glass", 1000)))[:, 0]
    delayed = .2 * x[:-17] / (1 + x[:-17] ** 10) # at t - 17, for t = 17..999
    slope = delayed - .1 * x[17:]
    change = x[19:] - x[17:-2]
    simpson = (slope[:-2] + 4 * slope[1:-1] + slope[2:]) / 3
    assert np.abs(change - simpson).max() < 2e-2 and .3 < x.min() < .6 < 1.2 < x.max() < 1.5


def test_synth_adding(directory):
    examples = synth("adding", 3000, "--length", 40)
    x, y = np.array(values(examples)), np.array([e.y[0] for e in examples])
    last = ends(examples)
    assert [i for i, v in enumerate(y) if not math.isnan(v)] == last
    for start_, end in zip([0] + [i + 1 for i in last], last):
        markers, numbers = x[start_:end + 1, 1], x[start_:end + 1, 0]
        assert 40 <= len(markers) <= 44 and markers[0] == markers[-1] == -1
        assert (markers == 1).sum() in (1, 2) and (markers[1:-1] >= 0).all()
        assert abs(y[end] - (.5 + numbers[markers == 1].sum() / 4)) < 1e-6
    assert np.abs(x[:, 0]).max() <= 1 and len(set(np.diff(last))) > 1


def test_synth_copy(directory):
    examples = synth("copy", 2 * 21, "--length", 3, "--delay", 15, "--alphabet", 5, **U4,
                     y_type="<u4")
    x, y = [int(e.x[0]) for e in examples], [int(e.y[0]) for e in examples]
    for i in (0, 21):
        assert all(s < 5 for s in x[i:i + 3])
        assert x[i + 3:i + 21] == [5] * 14 + [6] + [5] * 3
        assert y[i:i + 21] == [NO_CLASS] * 18 + x[i:i + 3]
    assert ends(examples) == [20, 41]


def test_synth_drift(directory):
    fed = feed("synth", "drift", "--count", 300, "--change", 100, "--verbose")
    x, y = np.array(values(fed.examples)), np.array([e.y[0] for e in fed.examples])
    weights = [np.linalg.lstsq(x[i:i + 100], y[i:i + 100], rcond=None)[0] for i in (0, 100, 200)]
    for i, w in enumerate(weights):
        assert np.abs(x[100 * i:100 * i + 100] @ w - y[100 * i:100 * i + 100]).max() < 1e-5
    assert np.abs(weights[0] - weights[1]).max() > .05 < np.abs(weights[1] - weights[2]).max()
    assert re.findall(r"changes at step (\d+)", fed.err) == ["101", "201"]
    assert "changes" not in feed("synth", "drift", "--count", 300, "--change", 0, "--verbose").err


def test_synth_slow(directory):
    examples = synth("slow", 400, "--change", 100)
    x, y = np.array(values(examples)), [e.y[0] for e in examples]
    assert set(x.ravel()) == {0, 1} and len(set(y)) > 2 and len({tuple(row) for row in x[:100, 15:]}) > 20
    changed = [(i, int((x[i] != x[i - 1])[:15].sum())) for i in range(1, 400) if (x[i] != x[i - 1])[:15].any()]
    assert changed == [(100, 1), (200, 1), (300, 1)]
    answers = {}
    assert all(answers.setdefault(tuple(row), target) == target for row, target in zip(x, y))


def test_synth_regimes(directory):
    examples = synth("regimes", 2000, "--change", 1000)
    x, y = np.array(values(examples)), np.array([e.y for e in examples])
    assert x.shape == (2000, 8) and y.shape == (2000, 4)
    assert np.abs(x[:1000].mean(axis=0) - x[1000:].mean(axis=0)).max() > 1
    assert np.abs(np.diff(x, axis=0)).mean() < x[:1000].std()  # the sensors are correlated over time

    def error(a, b):
        """Of a linear model of regime a, on regime b."""
        ones = np.hstack([x, np.ones((2000, 1))])
        w = np.linalg.lstsq(ones[a], y[a], rcond=None)[0]
        return np.square(ones[b] @ w - y[b]).mean()
    first, second = slice(0, 1000), slice(1000, 2000)
    assert error(first, first) < y[first].var() and error(first, second) > 2 * error(second, second)


def test_synth_recall(directory):
    examples = synth("recall", 63, "--delay", 20, "--alphabet", 3, **U4, y_type="<u4")
    x, y = [int(e.x[0]) for e in examples], [int(e.y[0]) for e in examples]
    for i in (0, 21, 42):
        assert x[i] < 3 and all(3 <= s < 8 for s in x[i + 1:i + 20]) and x[i + 20] == 8
        assert y[i:i + 21] == [NO_CLASS] * 20 + [x[i]]
    assert ends(examples) == []


def test_synth_usage(directory):
    fails(USAGE, "unknown kind 'cosine'", "synth", "cosine")
    fails(USAGE, "--length: not supported by sine", "synth", "sine", "--length", 3)
    fails(USAGE, "--noise: not supported by copy", "synth", "copy", "--noise", 1)
    fails(USAGE, "--length: expected 20 to", "synth", "adding", "--length", 3)
    fails(USAGE, "--repeat", "synth", "sine", "--repeat", 2)


# ---- json ----

def test_json(directory):
    lines = [b'{"x": [1, null], "y": 3, "end": true}', b'{"stream":"a","x":[[1],[2]],"learn":false}']
    assert good("json", stdin=lines[0] + b"\r\n\n" + lines[1]) == [[lines[0]], [lines[1]]]
    named = good("json", "--stream", "b", stdin=b"\n".join(lines))
    assert json.loads(named[0][0]) == dict(json.loads(lines[0]), stream="b")
    assert named[1] == [lines[1]]
    assert good("json", write(directory / "j.gz", lines[0]), "--repeat", 2) == [[lines[0]]] * 2


def test_json_bad(directory):
    for line, output in [('{"x": [1}', "column"), ("[1]", "expected an object"), ("{}", 'missing "x"'),
                       ('{"x": true}', '"x": expected'), ('{"x": [[[1]]]}', '"x"'),
                       ('{"x": 1, "end": 1}', '"end": expected true or false'),
                       ('{"x": 1, "z": 1}', 'unknown member "z"'),
                       ('{"x": 1, "x": 2}', "duplicate"),
                       ('{"x": 1, "stream": "%s"}' % ("k" * 256), '"stream"')]:
        fed = fails(BAD_DATA, output, "json", stdin=b'{"x": 1}\n\n' + line.encode())
        assert "standard input:3: " in fed.err and fed.out == '{"x": 1}\n'
    fed = run("json", "--print", "--skip-bad", stdin=b'{"x": 1}\nnonsense\n{"x": 2}')
    assert fed.status == OK and fed.out == '{"x": 1}\n{"x": 2}\n' and "1 bad line" in fed.err
    fails(USAGE, "not supported by json", "json", "--no-learn")


def test_json_live(directory):
    """Each line is sent at once, not when a buffer is full."""
    with Receiver(directory) as receiver:
        process = start("json", "--connect", receiver.bind().endpoint, stdin=subprocess.PIPE)
        for i in range(3):
            line = b'{"x": %d}' % i
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            assert receiver.take() == [line]
        process.communicate()
        assert process.returncode == OK


def test_print_shows_the_examples(directory):
    """--print | json sends the same examples as the source itself, number for number."""
    table = "s,a,b,t\n" + "".join(f"{i // 3},{i / 7},{'' if i % 5 else i / 3},{i * 1e-9}\n"
                                  for i in range(20))
    path = write(directory / "t.csv", table)
    arguments = ["csv", path, "--sequence", "s", "--targets", "t", "--steps", 2, "--no-learn"]
    printed = run(*arguments, "--print").out.splitlines()
    for line, example in zip(printed, good(*arguments), strict=True):
        output = json.loads(line)
        numbers = np.array(output["x"], float).ravel().astype("<f4")
        assert numbers.tobytes() == example.x.tobytes() or near(numbers, example.x)
        assert np.array(output["y"], "<f4").tobytes() == example.y.tobytes()
        assert output["learn"] is False and example.header.flags & DO_NOT_LEARN
        assert output.get("end", False) == bool(example.header.flags & END)
        assert (output["stream"], output["sequence"]) == (example.key, example.header.sequence)
    again = good("json", stdin="\n".join(printed).encode())
    assert [e[0].decode() for e in again] == printed


cases.run(globals())
