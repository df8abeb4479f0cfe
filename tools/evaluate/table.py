# --- a table ---
#
# What is in a CSV file that nobody has described: where its fields end, whether its first line names
# the columns, which of them are numbers worth a forecast, and which one is the time. The build puts
# this file into runnel-evaluate.
import collections
import csv
import gzip
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile

DELIMITERS = {";": ";", "\t": "tab", "|": "|", ",": ",", " ": " "}  # in this order; as runnel-feed has it
SAMPLE = 200        # lines that decide on the delimiter
FEW = 0.05          # of a column of numbers that may be something else
ROWS_MIN = 30       # below that there is nothing to learn
COLUMNS_MAX = 32
FOUND = 20          # characters of what is no number
MISSING = {"", "nan", "NaN", "NAN", "NA"}
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
TIME_NAME = re.compile(r"(.*[^a-z])?(date|time|datetime|timestamp|ts|year|month|day|hour|epoch)([^a-z].*)?",
                       re.IGNORECASE)
INDEX_NAME = re.compile(r"|id|index|row|no|nr|number|unnamed.*", re.IGNORECASE)
DATE = re.compile(r"(\d{1,4}[./-]\d{1,2}[./-]\d{1,4}|\d{8}(?=[T ]))([T ,].*)?")  # of any kind
CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[AaPp][Mm])?")
THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?")
GAP = 1.5           # times the usual step of time
UNIX_LEAST = 1e8    # seconds: 1973
UNIX_MILLISECONDS = 1e13
NO_TIME = "is a time in an unknown form (see --time-format)"
LARGEST = 3.4028235e38    # of 32 bits

Column = collections.namedtuple("Column", "name kind why")  # kind: number, time, other


class Unusable(Exception):
    """With one sentence that says why."""


class Table:
    """path, delimiter, header, decimal_comma, rows (of the part that was read), columns; the indices
    `numbers`, `time` (or None) and `clock`, the time of day where that has a column of its own."""

    def __init__(self, path, most, time_format=None):
        self.path, self.time_format = pathlib.Path(path), time_format
        lines = self.read_lines()
        self.delimiter = find_delimiter(lines[:SAMPLE])
        rows = self.read_rows(lines, most)
        first = rows[0]
        self.header = not any(is_number(cell, False) or DATE.fullmatch(cell.strip()) for cell in first)
        names = [cell.strip() for cell in first] if self.header else [""] * len(first)
        rows = rows[1:] if self.header else rows
        good = [row for row in rows if len(row) == len(first)][:most or None]
        if len(good) < (1 - FEW) * len(rows):
            raise Unusable(f"{path}: the first line has {len(first)} field{'s' * (len(first) != 1)}, "
                           f"but {len(rows) - len(good)} of {len(rows)} rows have another number of them")
        self.ragged = 0 if len(good) == most else len(rows) - len(good)
        rows, self.rows = good, len(good)
        self.cut = len(good) == most
        if self.rows < ROWS_MIN:
            raise Unusable(f"{path} has {self.rows} row{'s' * (self.rows != 1)} of data; "
                           f"at least {ROWS_MIN} are needed")
        cells = list(zip(*rows))
        self.decimal_comma = self.delimiter != "," and any(
            not is_numbers(c, False) and is_numbers(c, True) for c in cells)
        self.columns = [describe(n, name, c, self.decimal_comma)
                        for n, (name, c) in enumerate(zip(names, cells), start=1)]
        self.moments = []
        self.find_time(cells)
        self.choose()

    def read_lines(self):
        if not self.path.exists():
            raise Unusable(f"there is no file {self.path}")
        if self.path.is_dir():
            raise Unusable(f"{self.path} is a directory; name a CSV file in it")
        try:
            with (gzip.open if self.path.suffix == ".gz" else open)(self.path, "rb") as file:
                content = file.read()
        except (OSError, EOFError) as problem:
            raise Unusable(f"{self.path} cannot be read: {getattr(problem, 'strerror', None) or problem}")
        try:
            lines = content.decode("utf-8-sig").splitlines(keepends=True)
        except UnicodeDecodeError:
            lines = content.decode("latin-1").splitlines(keepends=True)
        if not any(line.strip() for line in lines):
            raise Unusable(f"{self.path} is empty")
        if any("\0" in line for line in lines[:SAMPLE]):
            raise Unusable(f"{self.path} is no text: a table is lines of fields, as CSV has them")
        return lines

    def read_rows(self, lines, most):
        try:
            rows = []
            for row in csv.reader(lines, delimiter=self.delimiter):
                if row:
                    rows.append(row)
                if len(rows) > most > 0:
                    break
            return rows
        except csv.Error as problem:
            raise Unusable(f"{self.path} is no CSV file: {problem}")

    def find_time(self, cells):
        """The first column that looks like a time and can be read."""
        self.time = self.clock = None
        for n in [n for n, c in enumerate(self.columns) if c.kind == "time"]:
            clock = next((m for m in (n + 1, n - 1) if 0 <= m < len(cells) and is_clock(cells[m])), None)
            if clock is not None and any(":" in cell for cell in cells[n]):
                clock = None
            times = cells[n] if clock is None else [" ".join(pair) for pair in zip(cells[n], cells[clock])]
            moments, wrong = read_times(times, self.time_format)
            if self.time is None and len(cells[n]) - sum(m is not None for m in moments) <= FEW * len(moments):
                self.time, self.clock, self.moments = n, clock, moments
                if clock is not None:
                    self.columns[clock] = self.columns[clock]._replace(kind="time", why="is the time of day")
            else:
                self.columns[n] = self.columns[n]._replace(kind="other", why=wrong or NO_TIME)

    def choose(self):
        self.numbers = [n for n, c in enumerate(self.columns) if c.kind == "number"]
        if not self.numbers:
            found = "; ".join(f"'{c.name}' {c.why}" for c in self.columns[:4])
            raise Unusable(f"{self.path} has no column of numbers to forecast: {found}")
        for n in self.numbers[COLUMNS_MAX:]:
            self.columns[n] = self.columns[n]._replace(kind="other", why="is one of too many")
        self.numbers = self.numbers[:COLUMNS_MAX]

    def names(self):
        return [self.columns[n].name for n in self.numbers]

    def source(self):
        """Arguments for runnel-feed, which reads what `decimal_point` gives where commas are decimal."""
        words = ["csv", "-" if self.decimal_comma else str(self.path),
                 "--columns", self.listed(self.numbers)]
        if self.time is not None:
            words += ["--time", self.listed([n for n in (self.time, self.clock) if n is not None])]
            words += ["--time-format", self.time_format] if self.time_format else []
        if self.delimiter != ",":
            words += ["--delimiter", DELIMITERS[self.delimiter]]
        return words + ["--no-header"] * (not self.header) + ["--skip-bad"]

    def name(self):
        """Of the stream, as a configuration takes one."""
        return re.sub(r"[^A-Za-z0-9_.-]+", "-", self.path.name.split(".")[0])[:40].strip("-") or "table"

    def inputs(self):
        """Columns by their names where a configuration takes those, for who watches; else how many."""
        names = self.names()
        if (not self.header or len(set(names)) < len(names)
                or not all(re.fullmatch("[A-Za-z0-9_-]{1,32}", name) for name in names)):
            return f"size: {len(names)}"
        return "columns: [" + ", ".join(f'{{name: "{name}"}}' for name in names) + "]"

    def configuration(self):
        return (f"name: {self.name()}\npreset: forecast\n"
                f"model: {{input: {{{self.inputs()}}}}}\n"
                "examples: {socket: router}\n"
                "statistics: {predictions: true}\n")

    def describe(self):
        """Sentences on what was found."""
        shown = [f"'{name}'" for name in self.names()]
        yield (f"{self.path}: {self.rows:,} rows; to forecast: {', '.join(shown)}"
               + (f"; time: '{self.columns[self.time].name}'" if self.time is not None else ""))
        left = [f"'{c.name}' {c.why}" for c in self.columns if c.kind == "other"]
        if left:
            yield f"left out: {'; '.join(left)}"
        if self.ragged:
            yield (f"{self.ragged} row{' is' if self.ragged == 1 else 's are'} skipped: "
                   "another number of fields than in the first line")
        yield from self.describe_time()
        if self.cut:
            yield f"only the first {self.rows:,} rows are read: --count 0 reads all"
        if self.decimal_comma:
            yield "commas in numbers are taken for decimal points"
        still = [f"'{self.columns[n].name}'" for n in self.numbers if self.columns[n].why]
        if still:
            yield f"never changes: {', '.join(still)}"

    def describe_time(self):
        known = [m for m in self.moments if m is not None]
        steps = sorted(b - a for a, b in zip(known, known[1:]))
        name = self.columns[self.time].name if steps else ""
        back = sum(step < 0 for step in steps)
        if back > len(steps) / 2:
            yield (f"WARNING: '{name}' goes backwards, the newest row first: what is forecast here is the past; "
                   f"sort the rows, the oldest first")
        elif back:
            yield (f"WARNING: '{name}' goes backwards {back} time{'s' * (back != 1)}: a forecast is of the next "
                   "row, whatever its time; sort the rows, the oldest first")
        elif steps and steps[-1] > GAP * (usual := steps[len(steps) // 2]) > 0:
            gaps = sum(step > GAP * usual for step in steps)
            yield (f"'{name}' has {gaps} gap{'s' * (gaps != 1)}, the longest of {steps[-1] / usual:.0f} steps: "
                   "a forecast is of the next row, whatever its time")

    def write_points(self, file):
        """The file with points for commas; its reader may be satisfied before the end."""
        try:
            with file:
                file.writelines(line.replace(",", ".") for line in self.read_lines())
        except BrokenPipeError:
            pass

    def say_how_to_go_on(self, overrides):
        words = shlex.join(self.source())
        sets = "".join(f" --set {shlex.quote(one)}" for one in overrides)
        before = f"tr , . <{shlex.quote(str(self.path))} | " if self.decimal_comma else ""
        print(f"""
To go on with a daemon that keeps what it learns, save this as {self.name()}.yaml:

    {self.configuration().strip().replace(chr(10), chr(10) + "    ")}

and run, each in a terminal of its own:

    {shown("runneld")} --config {self.name()}.yaml{sets}
    {shown("runnel-watch")} -t prediction -t loss
    {before}{shown("runnel-feed")} {words} \\
        --stream {self.name()} --socket router --producer 1

When the file has grown, the last command again sends the new rows: each row is learned once, since the daemon
knows the producer's numbers. runnel-web(1) shows forecasts and what came on a page.""")

    def listed(self, indices):
        """Names where they cannot be taken for something else, else numbers from 1."""
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
    """A program as a shell finds it."""
    found = program(name)
    known = shutil.which(name)
    return name if known and pathlib.Path(known).samefile(found) else found


def is_number(cell, decimal_comma):
    text = cell.replace(",", ".", 1) if decimal_comma else cell
    return bool(NUMBER.fullmatch(text)) and abs(float(text)) <= LARGEST


def is_numbers(cells, decimal_comma):
    """Whether all but a few of those that are there are numbers."""
    there = [cell for cell in cells if cell.strip() not in MISSING]
    good = sum(is_number(cell, decimal_comma) for cell in there)
    return good > 0 and len(there) - good <= FEW * len(there)


def find_delimiter(lines):
    """The first that cuts nearly all lines into the same number of fields, more than one."""
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
    """Unix seconds of each cell, or None, as runnel-feed reads them; and why it reads none, or None."""
    with tempfile.NamedTemporaryFile("w", prefix="evaluate.", suffix=".csv", encoding="utf-8",
                                     newline="") as file:
        csv.writer(file).writerows([("t", "n"), *((cell, n) for n, cell in enumerate(cells))])
        file.flush()
        words = ["--time-format", time_format] if time_format else []
        done = subprocess.run([program("runnel-feed"), "csv", file.name, "--time", "t", "--columns", "n",
                               "--print", "--quiet", "--skip-bad", *words],
                              capture_output=True, text=True, check=False)
    moments = [None] * len(cells)
    for line in done.stdout.splitlines():
        example = json.loads(line)
        moments[int(example["x"][0])] = example.get("time", 0.0)
    unclear = re.search(r"column 't': (.*--time-format.*)", done.stderr)
    return moments, f"is a time, but {unclear[1]}" if done.returncode and unclear else None


def why_no_number(name, cells, decimal_comma):
    found = next(cell.strip() for cell in cells
                 if cell.strip() not in MISSING and not is_number(cell, decimal_comma))
    if TIME_NAME.fullmatch(name):
        return NO_TIME
    way = ": write it without the commas" if THOUSANDS.fullmatch(found) else ""
    return f"is no number (found '{found[:FOUND]}'){way}"


def describe(number, name, cells, decimal_comma):
    shown = name or f"column {number}"
    times = sum(bool(DATE.fullmatch(cell.strip())) for cell in cells)
    if len(cells) - times <= FEW * len(cells):
        return Column(shown, "time", "is the time")
    if all(cell.strip() in MISSING for cell in cells):
        return Column(shown, "other", "is empty")
    if not is_numbers(cells, decimal_comma):
        return Column(shown, "other", why_no_number(name, cells, decimal_comma))
    values = [float(cell.replace(",", ".", 1) if decimal_comma else cell)
              for cell in cells if is_number(cell, decimal_comma)]
    steps = {round(b - a, 9) for a, b in zip(values, values[1:])}
    rising = bool(steps) and min(steps) > 0
    if rising and (TIME_NAME.fullmatch(name) or
                   len(steps) == 1 and UNIX_LEAST <= values[0] <= UNIX_MILLISECONDS):
        known = len(values) == len(cells) and (values[0] >= UNIX_LEAST or all(
            len(cell.strip()) == 8 for cell in cells))
        return Column(shown, "time" if known else "other", "is the time" if known else NO_TIME)
    if rising and (len(steps) == 1 or INDEX_NAME.fullmatch(name)):
        return Column(shown, "other", "only counts rows")
    return Column(shown, "number", "never changes" if len(set(values)) == 1 else "")
