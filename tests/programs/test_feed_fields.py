#!/usr/bin/python3
"""runnel-feed reads common forms of JSON and times: fields by their paths, ISO 8601, Unix time in
any unit, and dates in both orders."""
import json

import cases
from feeding import *  # noqa: F403  pylint: disable=wildcard-import

LINE = {"sensor": "a", "ts": 1700000000123, "temperature": 21.5, "site": "x",
        "data": {"on": True, "list": [1, {"v": 7}], "none": None}, "dotted.name": 3}


def printed(*arguments, stdin=b""):
    fed = run(*arguments, "--print", stdin=stdin)
    assert fed.status == OK, (arguments, fed)
    return [json.loads(line) for line in fed.out.splitlines()], fed.err


def fails(status, text, *arguments, stdin=b""):
    fed = run(*arguments, "--print", stdin=stdin)
    assert fed.status == status and text in fed.err, (arguments, text, fed)
    return fed


def of_line(*words, line=None):
    found, err = printed("json", *words, stdin=json.dumps(line or LINE).encode())
    return found[0], err


# ---- JSON ----

def test_fields():
    found, err = of_line("--key-field", "sensor", "--time-field", "ts", "--field", "t=temperature")
    assert found == {"stream": "a", "time": found["time"], "x": {"t": 21.5}}, found
    assert abs(found["time"] - 1700000000.123) < 1e-6
    assert "ignored fields: site, data, dotted.name (--field COLUMN=PATH" in err, err
    assert "ts: 1700000000123 and similar numbers are Unix milliseconds" in err, err
    found, err = of_line("--field", "on=data.on", "--field", "v=data.list.1.v", "--field", "n=data.none",
                         "--field", "d=dotted.name", "--field", "w=site", "--field", "absent=a.b.c")
    assert found["x"] == {"on": 1, "v": 7, "n": None, "d": 3, "w": "x"}, found
    assert "ignored fields: sensor, ts, temperature (" in err, err
    found, err = of_line("--key-field", "sensor")  # all members that are numbers or texts
    assert found["x"] == {"ts": 1700000000123, "temperature": 21.5, "site": "x", "dotted.name": 3}
    assert "ignored field: data (" in err, err


def test_unknown_fields_are_reported_once():
    lines = "\n".join(json.dumps({"t": n, "u": n}) for n in range(50))
    found, err = printed("json", "--field", "t=t", stdin=lines.encode())
    assert [one["x"]["t"] for one in found] == list(range(50)) and err.count("ignored") == 1, err
    fails(BAD_DATA, ":1: unknown field u: no --field names it", "json", "--field", "t=t", "--strict",
          stdin=lines.encode())
    for line in ({"t": 1, "n" * 300: 1}, {"t": [{"a": 1, "n" * 80: 2}]}):  # paths too long for an option, also in a list
        fails(BAD_DATA, f"unknown field {'t.0.' * isinstance(line['t'], list)}{'n' * 80}", "json", "--field", "t=t",
              "--field", "a=t.0.a", "--strict", stdin=json.dumps(line).encode())
    found, err = of_line("--field", "a=t.0.a", "--strict", line={"t": [{"a": 1}, {"b": 2}, 3]})
    assert found["x"] == {"a": 1} and "ignored" not in err, (found, err)
    many = {"t": 1, **{f"field{n:04}": n for n in range(2000)}}
    found, err = of_line("--field", "t=t", line=many)
    assert found["x"] == {"t": 1} and len(err) < 1000 and ", field0001, " in err, err


def test_invalid_examples():
    for line, words, output in (
            ({"t": [1]}, (), "field 't': expected a number or a text"),
            ({"u": 1}, (), "found no field for x"),
            ([1, 2], (), "expected a JSON object"),
            ({"t": 1}, ("--key-field", "k"), "field 'k': stream name not found (--key-field)"),
            ({"t": 1, "k": [1]}, ("--key-field", "k"), "field 'k': expected a text"),
            ({"t": 1, "k": "x" * 256}, ("--key-field", "k"), "field 'k': expected a text"),
            ({"t": 1}, ("--time-field", "k"), "field 'k': time not found (--time-field)"),
            ({"t": 1, "k": None}, ("--time-field", "k"), "field 'k': expected a number or a text"),
            ({"t": 1, "k": "noon"}, ("--time-field", "k"), "field 'k': expected a time as in")):
        lines = json.dumps(line).encode() + b'\n{"t": 5, "k": "5"}\n'
        fails(BAD_DATA, f"standard input:1: {output}", "json", "--field", "t=t", *words, stdin=lines)
        found, err = printed("json", "--field", "t=t", *words, "--skip-bad", stdin=lines)
        assert [one["x"] for one in found] == [{"t": 5}] and "1 bad line" in err, err


def test_options_that_are_wrong():
    for words, output in ((("--field", "t"), "expected COLUMN=PATH"), (("--field", "=t"), "COLUMN=PATH"),
                        (("--field", "\udcff=t"), "COLUMN=PATH"),
                        (("--field", "t=a..b"), "COLUMN=PATH"), (("--key-field", "."), "a JSON field"),
                        (("--field", "t=a", "--field", "t=b"), "duplicate column 't'"),
                        (("--time-format", "%s"), "requires --time-field"),
                        (("--time-field", "t", "--time-format", "x"), "strptime")):
        fails(USAGE, output, "json", *words, stdin=b"{}")
    fails(USAGE, "field 'k': ambiguous day and month in '01/02/2014': use --time-format",
          "json", "--time-field", "k", stdin=b'{"t": 1, "k": "01/02/2014"}')
    found, _ = of_line("--time-field", "k", "--time-format", "%m/%d/%Y", line={"t": 1, "k": "01/02/2014"})
    assert found["time"] == 1388620800, found


# ---- Times ----

def times(directory, texts, *words, header="t,v"):
    """The times of a file's rows, and the messages."""
    path = directory / "t.csv"
    path.write_text(header + "\n" + "".join(f"{text},1\n" for text in texts), encoding="utf-8")
    found, err = printed("csv", path, "--time", header.rpartition(",")[0], *words)
    return [one["time"] for one in found], err


def test_time_forms(directory):
    evening = 1420038300  # 2014-12-31 15:05 UTC
    for text, expected in (
            ("2014-12-31T15:05:00.5Z", evening + .5), ("2014-12-31 15:05", evening),
            ("2014/12/31 16:05:00+01:00", evening), ("2014-12-31 15:05:00 UTC", evening),
            ("20141231T150500", evening), ("31/12/2014 15:05", evening), ("12/31/2014 3:05 PM", evening),
            ("12/31/2014 03:05:00 pm", evening), ("31.12.2014 15:05:00", evening), ("1.2.2014", 1391212800),
            ("12-31-2014", 1419984000), ("05/05/2014", 1399248000), ("2014-12-31", 1419984000)):
        assert times(directory, [text])[0] == [expected], text
    for text in ("2014-02-30", "30/02/2014", "13/13/2014", "12.31.2014", "2014-12-31 25:00", "12:00",
                 "31/12/14", "2014-12-31 13:00 PM", "1e999"):
        (directory / "b.csv").write_text(f"t,v\n{text},1\n", encoding="utf-8")
        fails(BAD_DATA, f"b.csv:2: column 't': expected a time as in", "csv",
              directory / "b.csv", "--time", "t")


def test_unix_times_by_magnitude(directory):
    for factor, unit in ((1, ""), (10**3, "milliseconds"), (10**6, "microseconds"), (10**9, "nanoseconds")):
        found, err = times(directory, [1420038300 * factor, 1420038301 * factor])
        assert found == [1420038300, 1420038301], found
        assert err.count("and similar numbers are Unix") == (factor > 1) and unit in err, err
    assert times(directory, [1000, 2000], "--time-format", "ms")[0] == [1, 2]
    for text, form in (("20141231", "%Y%m%d"), ("20141231150500", "%Y%m%d%H%M%S")):
        (directory / "b.csv").write_text(f"t,v\n{text},1\n", encoding="utf-8")
        fails(BAD_DATA, f"--time-format '{form}'", "csv", directory / "b.csv", "--time", "t", "--skip-bad")
        assert times(directory, [text], "--time-format", form)[0][0] - 1419984000 in (0, 54300)


def test_day_and_month(directory):
    """A later row decides; if none does, or rows contradict each other, the message names an
    option."""
    found, err = times(directory, ["01/02/2014 10:00", "02/02/2014 10:00", "13/02/2014 10:00"])
    assert found == [1391248800, 1391335200, 1392285600] and "begin with the day" in err, (found, err)
    found, err = times(directory, ["01/02/2014", "01/13/2014"], "--repeat", 2)
    assert found == [1388620800, 1389571200] * 2 and "begin with the month" in err, (found, err)
    path = directory / "t.csv"
    path.write_text("t,v\n01/02/2014 10:00,1\n02/02/2014 10:00,2\n", encoding="utf-8")
    fails(USAGE, "t.csv:2: column 't': ambiguous day and month in '01/02/2014 10:00': use "
          "--time-format '%d/%m/%Y %H:%M' or '%m/%d/%Y %H:%M'", "csv", path, "--time", "t", "--skip-bad")
    # A pipe cannot be read in advance.
    fails(BAD_DATA, "ambiguous day and month", "csv", "-", "--time", "t", "--skip-bad",
          stdin=b"t,v\n01/02/2014,1\n13/02/2014,2\n")
    path.write_text("t,v\n13/02/2014,1\n02/13/2014,2\n", encoding="utf-8")
    fails(BAD_DATA, "t.csv:3: column 't': expected the day first, as in other rows (--time-format), got '02/13/2014'", "csv", path,
          "--time", "t")


def test_time_format(directory):
    assert times(directory, ["31.12.14 15h05"], "--time-format", "%d.%m.%y %Hh%M")[0] == [1420038300]
    assert times(directory, ["15:05:00.25 31 Dec 2014 +0100"], "--time-format",
                 "%H:%M:%S.25 %d %b %Y %z")[0] == [1420034700]
    assert times(directory, ["20141231 15:05:00.5"], "--time-format", "%Y%m%d %T")[0] == [1420038300.5]
    path = directory / "t.csv"
    fails(BAD_DATA, "expected a time as in '%d' (--time-format), got ", "csv", path, "--time", "t",
          "--time-format", "%d")
    fails(USAGE, "strptime", "csv", path, "--time", "t", "--time-format", "iso")
    fails(USAGE, "--time-format: requires --time", "csv", path, "--time-format", "%d")


def test_two_columns(directory):
    found, _ = times(directory, ["31/12/2014,15:05", "31/12/2014,3:06 PM"], header="date,time,v")
    assert found == [1420038300, 1420038360], found
    path = directory / "t.csv"
    path.write_text('"a,b",v,w\n2014-12-31,1,2\n', encoding="utf-8")
    assert printed("csv", path, "--time", "a,b")[0][0]["x"] == [1, 2]  # a name with a comma
    fails(USAGE, "--time: expected COLUMN or DATE,TIME, got '1-3'", "csv", path, "--time", "1-3")


if __name__ == "__main__":
    cases.run(globals())
