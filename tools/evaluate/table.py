# --- A table ---
#
# Detects the structure of a CSV file: its delimiter, a header line, numeric columns to forecast,
# and the time. The build inserts this file into runnel-evaluate.
import collections
import csv
import fnmatch
import gzip
import itertools
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import textwrap

# in this order, as in runnel-feed
DELIMITERS = {";": ";", "\t": "tab", "|": "|", ",": ",", " ": " "}
SAMPLE = 200        # lines to detect the delimiter
FEW = 0.05          # share of other cells in a numeric column
ROWS_MIN = 30       # fewer rows cannot be evaluated
COLUMNS_MAX = 32
FOUND = 20          # characters of a quoted invalid cell
WIDTH_OF_LINES = 100
LISTED = 8          # columns in a sentence
MISSING = "nan,null,NA,N/A,-"   # words of missing cells, as in runnel-feed
BLANKS = " \t"
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
TIME_NAME = re.compile(r"(.*[^a-z])?(date|time|datetime|timestamp|ts|year|month|day|hour|epoch)([^a-z].*)?",
                       re.IGNORECASE)
INDEX_NAME = re.compile(r"|id|index|row|no|nr|number|unnamed.*", re.IGNORECASE)
# besides times and indices
ORDER_NAME = re.compile(r"t|step|tick|cycle|cycles|period", re.IGNORECASE)
KEY_NAME = re.compile(r"(.*[^a-z])?(id|no|nr|number|key|sensor|device|station|unit|node|machine|host|site|item|store|"
                      r"series|channel)([^a-z].*)?", re.IGNORECASE)  # of numbers that name streams
STREAM_ROWS = 10    # of a stream, on average
DATE = re.compile(r"(\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{8}(?=[T ]))([T ,].*)?")  # in any format
CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[AaPp][Mm])?")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?")
GAP = 1.5           # times the usual step of time
UNIX_LEAST = 1e8    # seconds: 1973
UNIX_MILLISECONDS = 1e13
NO_TIME = "is a time in an unknown format (see --time-format)"
LARGEST = 3.4028235e38    # of 32 bits

Column = collections.namedtuple("Column", "name kind why")  # kind: number, index, time, stream, other, unused
COUNTS, STILL = "only counts rows", "never changes"
STREAMS_MAX = 1024  # default of learning.max_streams


class Unusable(Exception):
    """An unusable table, with one sentence about the reason."""


class Cells:
    """Reads cells like runnel-feed, after decimal commas are replaced by points."""

    def __init__(self, words=None):
        self.words = words  # of --missing, or None
        self.missing = {"", *(MISSING if words is None else words).lower().split(",")}
        self.decimal_comma = False

    def is_missing(self, cell):
        return cell.strip(BLANKS).lower() in self.missing

    def text(self, cell):
        return (cell.replace(",", ".", 1) if self.decimal_comma else cell).strip(BLANKS)

    def is_number(self, cell):
        text = self.text(cell)
        return bool(NUMBER.fullmatch(text)) and abs(float(text)) <= LARGEST and not self.is_missing(cell)

    def is_bad(self, cell):
        return not self.is_missing(cell) and not self.is_number(cell)

    def are_numbers(self, cells):
        """Whether almost all present cells are numbers."""
        good = len(self.values(cells))
        bad = len(cells) - good - sum(self.is_missing(cell) for cell in cells)
        return good > 0 and bad <= FEW * (good + bad)

    def values(self, cells):
        return [float(self.text(cell)) for cell in cells if self.is_number(cell)]


class Table:
    """path, delimiter, header, rows (of the part that was read), columns; the indices `numbers`,
    `time` (or None), `clock` (a separate column for the time of day) and `stream` (the column
    with the streams' names, if any); `bad`: invalid cells in numeric columns. `known` is a list of
    columns that are known `ahead` steps ahead, then indices."""
    FORM, UNIT, TOPICS, KEPT = "a CSV file", "row", "-t prediction -t loss", ""  # KEPT: for the feeder

    def __init__(self, path, most, time_format=None, columns=None, missing=None, known=None, ahead=(1,)):
        self.known, self.ahead = known, ahead
        self.path, self.time_format, self.chosen = pathlib.Path(path), time_format, columns
        self.reading = Cells(missing)
        lines = self.read_lines()
        self.delimiter = find_delimiter(lines[:SAMPLE])
        rows, begins = self.read_rows(lines, most)
        first = rows[0]
        self.header = not any(self.reading.is_number(cell) or DATE.fullmatch(cell.strip()) for cell in first)
        names = [cell.strip() for cell in first] if self.header else [""] * len(first)
        rows = rows[1:] if self.header else rows
        begins = [line for row, line in zip(rows, begins[self.header:]) if len(row) == len(first)]
        good = [row for row in rows if len(row) == len(first)][:most or None]
        if len(good) < (1 - FEW) * len(rows):
            raise Unusable(f"{path}: the first line has {len(first)} field{'s' * (len(first) != 1)}, "
                           f"but {len(rows) - len(good)} of {len(rows)} rows have a different "
                           "number; name a text FILE.txt, a log FILE.log")
        self.ragged = 0 if len(good) == most else len(rows) - len(good)
        rows, self.rows = good, len(good)
        self.cut = len(good) == most
        if self.rows < ROWS_MIN:
            raise Unusable(f"{path}: expected at least {ROWS_MIN} rows of data, got {self.rows}")
        cells = list(zip(*rows))
        self.decimal_comma = False
        if self.delimiter != ",":
            points = [self.reading.are_numbers(c) for c in cells]
            self.reading.decimal_comma = True
            self.decimal_comma = any(self.reading.are_numbers(c) and not point for c, point in zip(cells, points))
            self.reading.decimal_comma = self.decimal_comma
        self.columns = [describe(n, name, c, self.reading)
                        for n, (name, c) in enumerate(zip(names, cells), start=1)]
        self.moments = []
        self.find_time(cells)
        self.find_streams(cells)
        self.choose()
        self.find_bad(cells, begins)

    def read_lines(self):
        if not self.path.exists():
            raise Unusable(f"{self.path}: file not found")
        if self.path.is_dir():
            raise Unusable(f"{self.path} is a directory; pass {self.FORM}")
        try:
            with (gzip.open if self.path.suffix == ".gz" else open)(self.path, "rb") as file:
                content = file.read()
        except (OSError, EOFError) as problem:
            raise Unusable(f"cannot read {self.path}: "
                           f"{getattr(problem, 'strerror', None) or problem}")
        try:
            lines = content.decode("utf-8-sig").splitlines(keepends=True)
        except UnicodeDecodeError:
            lines = content.decode("latin-1").splitlines(keepends=True)
        if not any(line.strip() for line in lines):
            raise Unusable(f"{self.path} is empty")
        if any("\0" in line for line in lines[:SAMPLE]):
            raise Unusable(f"{self.path} is not a text file; expected {self.FORM}")
        return lines

    def read_rows(self, lines, most):
        try:
            rows, begins, begin = [], [], 1
            reader = csv.reader(lines, delimiter=self.delimiter)
            for row in reader:
                if row:
                    rows.append(row)
                    begins.append(begin)
                begin = reader.line_num + 1
                if len(rows) > most > 0:
                    break
            return rows, begins
        except csv.Error as problem:
            raise Unusable(f"{self.path}: invalid CSV: {problem}")

    def find_time(self, cells):
        """The first column with readable times."""
        self.time = self.clock = None
        self.unread = []  # columns of times that cannot be read
        self.found = []  # how ambiguous times were read
        for n in [n for n, c in enumerate(self.columns) if c.kind == "time"]:
            clock = next((m for m in (n + 1, n - 1) if 0 <= m < len(cells) and is_clock(cells[m])), None)
            if clock is not None and any(":" in cell for cell in cells[n]):
                clock = None
            times = cells[n] if clock is None else [" ".join(pair) for pair in zip(cells[n], cells[clock])]
            moments, notices, wrong = read_times(times, self.time_format)
            if self.time is None and len(cells[n]) - sum(m is not None for m in moments) <= FEW * len(moments):
                self.time, self.clock, self.moments = n, clock, moments
                self.found = [f"'{self.columns[n].name}': {notice}" for notice in notices]
                if clock is not None:
                    self.columns[clock] = self.columns[clock]._replace(kind="time", why="is the time of day")
            else:
                self.columns[n] = self.columns[n]._replace(kind="other", why=wrong or NO_TIME)
                self.unread.append(n)

    def find_streams(self, cells):
        """Find the column with stream names: times repeat or restart in the table, but not within
        a stream."""
        self.stream = None
        order, n = self.moments, self.time
        if n is None and self.unread:
            n = self.unread[0]
            places = {cell: k for k, cell in enumerate(dict.fromkeys(cells[n]))}
            order = [places[cell] for cell in cells[n]]
        elif n is None:
            n = next((n for n, c in enumerate(self.columns) if c.kind == "number" and any(
                form.fullmatch(c.name) for form in (TIME_NAME, INDEX_NAME, ORDER_NAME))), None)
            order = self.reading.values(cells[n]) if n is not None else []
        if len(order) < self.rows or not begins_again(order):
            return
        few = [k for k, column in enumerate(self.columns) if k != n and not TIME_NAME.fullmatch(column.name)
               and (column.kind == "other" or column.kind in ("number", "index") and KEY_NAME.fullmatch(column.name))
               and 2 <= len(set(cells[k])) <= self.rows / STREAM_ROWS]
        few.sort(key=lambda k: self.columns[k].kind != "other")
        for k in few:
            if is_ordered(order, cells[k]):
                self.stream, self.keys = k, cells[k]
                self.columns[k] = self.columns[k]._replace(kind="stream", why="names the stream")
                if self.columns[n].kind == "number":
                    self.columns[n] = self.columns[n]._replace(kind="index", why=COUNTS)
                return
        for a, b in itertools.combinations(few, 2):
            if is_ordered(order, list(zip(cells[a], cells[b]))):
                first, second = self.columns[a].name, self.columns[b].name
                raise Unusable(f"{self.path} has rows of several streams, named by '{first}' and "
                               f"'{second}' together: join both into one column, e.g. mlr --csv "
                               f"put '$stream = ${{{first}}} . \"-\" . "
                               f"${{{second}}}'")

    def choose(self):
        names = [c.name if self.header else str(n) for n, c in enumerate(self.columns, start=1)]
        self.known = select(self.known, names, self.path, "--known") if self.known else []
        for n in self.known:
            self.columns[n] = self.columns[n]._replace(kind="known", why="is known ahead")
        numbers = [n for n, c in enumerate(self.columns) if c.kind == "number"]
        self.numbers, self.left = numbers[:COLUMNS_MAX], numbers[COLUMNS_MAX:]
        if self.chosen is not None:
            self.numbers = [n for n in select(self.chosen, names, self.path)
                            if self.columns[n].kind in ("number", "index")]
            self.left = []
            for n in numbers:
                if n not in self.numbers:
                    self.columns[n] = self.columns[n]._replace(kind="unused")
        if not self.numbers:
            asked = [self.columns[n] for n in select(self.chosen, names, self.path)] if self.chosen else self.columns
            found = "; ".join(f"'{c.name}' {c.why}" for c in asked[:4])
            raise Unusable(f"{self.path} has no column of numbers to forecast: {found}")

    def find_bad(self, cells, begins):
        """(column, number, the first, its line) of cells that count as missing; and words that
        the feeder must treat as missing, since they precede its column's first number."""
        self.bad, self.early = [], []
        for n in self.numbers:
            bad = [k for k, cell in enumerate(cells[n]) if self.reading.is_bad(cell)]
            if not bad:
                continue
            self.bad.append((self.columns[n].name, len(bad), cells[n][bad[0]].strip(BLANKS), begins[bad[0]]))
            first = next(k for k, cell in enumerate(cells[n]) if self.reading.is_number(cell))
            early = (cells[n][k].strip(BLANKS) for k in bad if k < first)
            self.early += [word for word in early if "," not in word]

    def times(self):
        return [n for n in (self.time, self.clock) if n is not None]

    def names(self):
        return [self.columns[n].name for n in self.numbers]

    def source(self):
        """Arguments for runnel-feed; with decimal commas it reads the output of write_points."""
        if self.decimal_comma and self.known:
            raise Unusable("--known requires decimal points; convert the file first: tr , .")
        words = ["csv", "-" if self.decimal_comma else str(self.path),
                 "--columns", self.listed(self.numbers)]
        if self.known:
            words += ["--known", self.listed(self.known), "--ahead", ",".join(map(str, self.ahead))]
        if self.time is not None:
            words += ["--time", self.listed(self.times())]
            words += ["--time-format", self.time_format] if self.time_format else []
        if self.stream is not None:
            words += ["--stream-column", self.listed([self.stream])]
        if self.reading.words is not None or self.early:
            given = MISSING if self.reading.words is None else self.reading.words
            words += ["--missing", ",".join([given, *dict.fromkeys(self.early)])]
        if self.delimiter != ",":
            words += ["--delimiter", DELIMITERS[self.delimiter]]
        return words + ["--no-header"] * (not self.header) + ["--skip-bad"]

    def name(self):
        """A stream's name that is valid in a configuration."""
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", self.path.name.split(".")[0])[:40].strip("-") or "table"

    def inputs(self):
        """Columns by name if the names are valid in a configuration, else their number."""
        known = [self.columns[n].name for n in self.known]
        names = self.names() + known
        if (not self.header or len(set(names)) < len(names)
                or not all(re.fullmatch("[A-Za-z0-9_-]{1,32}", name) for name in names)):
            if known:
                raise Unusable("--known requires a header with distinct names of letters, digits, '-' and '_'")
            return f"size: {len(names)}"
        more = {name: f", known: {max(self.ahead)}" for name in known}
        return "columns: [" + ", ".join(f'{{name: "{name}"{more.get(name, "")}}}' for name in names) + "]"

    def configuration(self):
        model = textwrap.fill(f"model: {{input: {{{self.inputs()}}}}}".replace("{name: ", "{name:\0"), WIDTH_OF_LINES,
                              subsequent_indent="    ",
                              break_long_words=False, break_on_hyphens=False).replace("\0", " ")
        return (f"name: {self.name()}\npreset: forecast\n{model}\n"
                + self.streams_setting() +
                "examples: {socket: router}\n"
                "statistics: {predictions: true}\n")

    def streams_setting(self):
        count = len(set(self.keys)) if self.stream is not None else 0
        return f"learning: {{max_streams: {count}}}\n" if count > STREAMS_MAX else ""

    def describe(self):
        """Sentences about the detected structure."""
        yield (f"{self.path}: {self.rows:,} rows; to forecast: {listing(self.names())}"
               + (f"; known ahead: {listing(self.columns[n].name for n in self.known)}" if self.known else "")
               + (f"; time: {listing(self.columns[n].name for n in self.times())}" if self.times() else ""))
        yield from self.found
        if self.stream is not None:
            yield (f"{len(set(self.keys)):,} streams, named by '{self.columns[self.stream].name}': "
                   "each row is forecast from earlier rows of its stream")
        left = [f"'{c.name}' {c.why}" for n, c in enumerate(self.columns)
                if c.kind in ("other", "index") and n not in self.numbers]
        if left:
            yield f"left out: {'; '.join(left[:LISTED])}" + (
                f"; and {len(left) - LISTED} more columns" if len(left) > LISTED else "")
        if self.left:
            yield (f"left out: {len(self.left)} of {len(self.left) + len(self.numbers)} columns of numbers: "
                   "runnel-evaluate --columns selects columns by name, number, range or pattern "
                   "(a,b,4-6,c..f,'load*')")
        for name, count, cell, line in self.bad[:LISTED]:
            cells, what = (f"{count} cells are not numbers and count", "the first ") if count > 1 else (
                "1 cell is not a number and counts", "")
            yield f"'{name}': {cells} as missing: {what}'{cell[:FOUND]}' in line {line}"
        if len(self.bad) > LISTED:
            yield f"{len(self.bad) - LISTED} more columns have cells that are not numbers and count as missing"
        if self.ragged:
            yield (f"{self.ragged} row{' is' if self.ragged == 1 else 's are'} skipped: their "
                   "number of fields differs from the first line")
        yield from self.describe_time()
        if self.cut:
            yield f"only the first {self.rows:,} rows are read: --count 0 reads all"
        if self.decimal_comma:
            yield "commas in numbers are read as decimal points"
        still = [self.columns[n].name for n in self.numbers if self.columns[n].why == STILL]
        if still:
            yield f"never changes: {listing(still)}"

    def describe_time(self):
        steps = sorted(steps_of(self.moments, self.keys if self.stream is not None else None))
        name = self.columns[self.time].name if steps else ""
        back, same = sum(step < 0 for step in steps), sum(step == 0 for step in steps)
        if same:
            yield (f"WARNING: '{name}' repeats the time of the previous row in {same:,} "
                   f"row{'s' * (same != 1)}: rows of several streams need a column with the "
                   "stream's name (runnel-feed csv --stream-column)")
        if back > len(steps) / 2:
            yield (f"WARNING: '{name}' goes backwards (newest row first): the forecasts are of "
                   "the past; sort the rows from old to new")
        elif back:
            yield (f"WARNING: '{name}' goes backwards {back} time{'s' * (back != 1)}: forecasts "
                   "are for the next row, regardless of its time; sort the rows from old to new")
        elif steps and steps[-1] > GAP * (usual := steps[len(steps) // 2]) > 0:
            gaps = sum(step > GAP * usual for step in steps)
            yield (f"'{name}' has {gaps} gap{'s' * (gaps != 1)}, the longest of "
                   f"{steps[-1] / usual:.0f} steps: forecasts are for the next row, regardless of "
                   "its time")

    def write_points(self, file):
        """Writes the file with points for commas; its reader may stop before the end."""
        try:
            with file:
                file.writelines(line.replace(",", ".") for line in self.read_lines())
        except BrokenPipeError:
            pass

    def print_how_to_continue(self, overrides):
        words = shlex.join(self.source())
        sets = "".join(f" --set {shlex.quote(one)}" for one in overrides)
        stream = f"--stream {self.name()} " if self.stream is None else ""
        before = f"tr , . <{shlex.quote(str(self.path))} | " if self.decimal_comma else ""
        print(f"""
To continue with a daemon that saves its progress, save this as {self.name()}.yaml:

    {self.configuration().strip().replace(chr(10), chr(10) + "    ")}

and run each command in its own terminal:

    {shown("runneld")} --config {self.name()}.yaml{sets}
    {shown("runnel-watch")} {self.TOPICS}
    {before}{shown("runnel-feed")} {words} \\
        {self.KEPT}{stream}--socket router --producer 1

Repeat the last command when the file has grown: each {self.UNIT} is learned once, since the daemon
recognizes repeated {self.UNIT}s by the producer's numbers. runnel-web(1) shows predictions and values.""")

    def listed(self, indices):
        """Names if they are unambiguous, else numbers from 1."""
        names = [column.name for column in self.columns]
        plain = [n for n in indices if re.fullmatch(r"[A-Za-z_][\w.()%/-]*", names[n], re.ASCII)
                 and names.count(names[n]) == 1]
        if self.header and len(plain) == len(indices) <= COLUMNS_MAX // 4:
            return ",".join(names[n] for n in indices)
        spans = []
        for n in indices:
            if spans and spans[-1][1] == n - 1:
                spans[-1][1] = n
            else:
                spans.append([n, n])
        return ",".join(f"{a + 1}-{b + 1}" if b > a else str(a + 1) for a, b in spans)


def shown(name):
    """The name of a program for a shell."""
    found = program(name)
    known = shutil.which(name)
    return name if known and pathlib.Path(known).samefile(found) else found


def listing(names):
    shown = [f"'{name}'" for name in names]
    if len(shown) > LISTED:
        shown = [*shown[:LISTED - 2], "...", f"{shown[-1]} ({len(shown)} columns)"]
    return ", ".join(shown)


def select(items, names, path, option="--columns"):
    """Indices of a list of columns, as in runnel-feed csv --columns."""
    def number(text):
        return int(text) - 1 if re.fullmatch("[0-9]+", text) and 1 <= int(text) <= len(names) else None

    chosen = []
    for item in (item.strip(BLANKS) for item in items.split(",")):
        first, dots, last = item.partition("..")
        low, dash, high = item.partition("-")
        if item in names:
            found = [names.index(item)]
        elif dots and first in names and last in names:
            found = range(names.index(first), names.index(last) + 1)
        elif number(low) is not None and (not dash or number(high) is not None):
            found = range(number(low), (number(high) if dash else number(low)) + 1)
        else:
            found = [n for n, name in enumerate(names) if fnmatch.fnmatchcase(name, item)]
        if not found:
            what = f"no column matches '{item}'" if set(item) & set("*?[") else f"column '{item}' not found"
            raise Unusable(f"{option}: {what} in {path}; columns: {listing(names)}")
        chosen += [n for n in found if n not in chosen]
    return chosen


def steps_of(order, keys=None):
    """Differences between consecutive rows, within their streams if `keys` names them."""
    newest = {}
    for moment, key in zip(order, keys or itertools.repeat(None)):
        if moment is not None:
            if key in newest:
                yield moment - newest[key]
            newest[key] = moment


def begins_again(order):
    """Whether times are not one order of all rows: they repeat often, or go back by half of the
    range."""
    known = [moment for moment in order if moment is not None]
    steps = list(steps_of(known))
    forward = sum(step > 0 for step in steps) >= sum(step < 0 for step in steps)
    wrong = [abs(step) for step in steps if step == 0 or (step < 0) == forward]
    return len(wrong) > FEW * len(steps) or max(wrong, default=0) * 2 > max(known) - min(known)


def is_ordered(order, keys):
    """Whether nearly all times rise, or nearly all fall, within each stream."""
    steps = list(steps_of(order, keys))
    return max(sum(step > 0 for step in steps), sum(step < 0 for step in steps)) >= (1 - FEW) * len(steps)


def find_delimiter(lines):
    """The first delimiter that splits nearly all lines into the same number of fields, more than
    one."""
    for delimiter in DELIMITERS:
        try:
            counts = collections.Counter(len(row) for row in csv.reader(lines, delimiter=delimiter) if row)
        except csv.Error:
            continue
        fields, often = max(counts.items(), key=lambda item: item[1])
        if fields > 1 and often >= (1 - FEW) * sum(counts.values()):
            return delimiter
    return ","


def is_clock(cells):
    return all(CLOCK.fullmatch(cell.strip()) for cell in cells)


def read_times(cells, time_format):
    """Unix seconds of each cell, or None, as read by runnel-feed; its notices; and the reason if
    it reads none, or None."""
    with tempfile.NamedTemporaryFile("w", prefix="evaluate.", suffix=".csv", encoding="utf-8",
                                     newline="") as file:
        csv.writer(file).writerows([("t", "n"), *((cell, n) for n, cell in enumerate(cells))])
        file.flush()
        words = ["--time-format", time_format] if time_format else []
        done = subprocess.run([program("runnel-feed"), "csv", file.name, "--time", "t", "--columns", "n",
                               "--print", "--skip-bad", *words],
                              capture_output=True, text=True, check=False)
    moments = [None] * len(cells)
    for line in done.stdout.splitlines():
        example = json.loads(line)
        moments[int(example["x"][0])] = example.get("time", 0.0)
    unclear = re.search(r"column 't': (.*--time-format.*)", done.stderr)
    return (moments, re.findall("^runnel-feed: t: (.*)", done.stderr, re.M),
            f"is a time, but {unclear[1]}" if done.returncode and unclear else None)


def why_no_number(name, cells, reading):
    found = next(cell.strip() for cell in cells if reading.is_bad(cell))
    if TIME_NAME.fullmatch(name):
        return NO_TIME
    way = ": write it without the commas" if THOUSANDS.fullmatch(found) else ""
    return f"is not a number (got '{found[:FOUND]}'){way}"


def describe(number, name, cells, reading):
    shown = name or f"column {number}"
    times = sum(bool(DATE.fullmatch(cell.strip())) for cell in cells)
    if len(cells) - times <= FEW * len(cells):
        return Column(shown, "time", "is the time")
    if all(reading.is_missing(cell) for cell in cells):
        return Column(shown, "other", "is empty")
    if not reading.are_numbers(cells):
        return Column(shown, "other", why_no_number(name, cells, reading))
    values = reading.values(cells)
    steps = {round(b - a, 9) for a, b in zip(values, values[1:])}
    rising = bool(steps) and min(steps) > 0
    if TIME_NAME.fullmatch(name) and len(values) == len(cells) and (
            min(values) >= UNIX_LEAST or all(re.fullmatch("(19|20)[0-9]{6}", cell.strip()) for cell in cells)):
        return Column(shown, "time", "is the time")
    if rising and (TIME_NAME.fullmatch(name) or
                   len(steps) == 1 and UNIX_LEAST <= values[0] <= UNIX_MILLISECONDS):
        known = len(values) == len(cells) and (values[0] >= UNIX_LEAST or all(
            len(cell.strip()) == 8 for cell in cells))
        return Column(shown, "time" if known else "other", "is the time" if known else NO_TIME)
    if rising and (len(steps) == 1 or INDEX_NAME.fullmatch(name)):
        return Column(shown, "index", COUNTS)
    return Column(shown, "number", STILL if len(set(values)) == 1 else "")
