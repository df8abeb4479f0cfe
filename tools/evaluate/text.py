# --- A text or a log ---
#
# Bits of each symbol, of the daemon and of baselines. The build inserts this file into runnel-evaluate.
import math
import pathlib
import re

import numpy as np

TEXT_NAME = re.compile(r".*\.(txt|log)(\.\d+)?(\.gz)?", re.DOTALL)
COMPARED = 200000   # symbols: the baselines of more take minutes
CONTEXT = 4         # symbols, of the longest context
BASELINES = ["frequencies", "order 1", "order 2", "order 3", f"PPM({CONTEXT})"]
POINTS_OF_BITS = 50


class Text(Table):
    """A file whose bytes (.txt) or lines (.log) are symbols. A line is the number of its template."""
    FORM = "a text or a log"

    def __init__(self, path, most):
        self.path = pathlib.Path(path)
        self.log = TEXT_NAME.fullmatch(self.path.name)[1] == "log"
        self.UNIT = "line" if self.log else "byte"
        lines = self.read_lines()
        count = len(lines) if self.log else sum(map(len, lines))
        if count < ROWS_MIN:
            raise Unusable(f"{path}: expected at least {ROWS_MIN} {self.UNIT}s, got {count}")
        self.cut, self.most = 0 < most < count, most
        self.stream = self.known = None
        self.rows, self.decimal_comma = 0, False

    def source(self):
        return ["lines" if self.log else "text", str(self.path)]

    def configuration(self):
        return (f"name: {self.name()}\npreset: symbols\nmodel: {{input: {{size: {1000 if self.log else 256}}}}}\n"
                + "members: []\nanomaly: {surprise_threshold: 4}\n" * self.log +
                "examples: {socket: router}\nstatistics: {predictions: true}\n")

    def describe(self):
        yield f"{self.path}: predicts each {self.UNIT}" + " by its template" * self.log + " from the earlier ones"
        if self.cut:
            yield f"only the first {self.most:,} {self.UNIT}s are read: --count 0 reads all"

    def topics(self):
        return "-t prediction -t loss" + " -t anomaly" * self.log

    def kept(self):
        return f"--templates-file {self.name()}.templates " * self.log


class Contexts:
    """Counts of the symbols after each context of up to CONTEXT symbols. `size`: number of distinct symbols."""

    def __init__(self, size):
        self.size, self.all, self.kept = size, {}, {}

    def take(self, past, symbol):
        """Bits of the symbol by each of BASELINES. Learns it."""
        contexts = [past[len(past) - n:] for n in range(len(past) + 1)]
        counts = [self.all.setdefault(context, {}) for context in contexts[:CONTEXT]]
        known = [(one.get(symbol, 0) + 0.5) / (sum(one.values()) + self.size / 2) for one in counts]
        for one in counts:
            one[symbol] = one.get(symbol, 0) + 1
        known += known[-1:] * (CONTEXT - len(known))  # the stream has no longer context yet
        return [-math.log2(p) for p in (*known, self.escape(contexts, symbol))]

    def escape(self, contexts, symbol):
        """The probability by PPMC: the longest context first, and an escape to the next shorter one. Only the
        contexts that were needed learn."""
        p, excluded = 1.0, set()
        for context in reversed(contexts):
            counts = self.kept.setdefault(context, {})
            left = {s: n for s, n in counts.items() if s not in excluded}
            counts[symbol] = counts.get(symbol, 0) + 1
            total = sum(left.values()) + len(left)
            if symbol in left:
                return p * left[symbol] / total
            p *= len(left) / total if left else 1
            excluded.update(left)
        return p / max(1, self.size - len(excluded))


class Bits:
    """Bits of each symbol, {method: (symbols,)}, as the comparison of forecasts. The daemon's are means of the
    intervals `parts`."""
    main = "runnel"

    def __init__(self, examples, parts, report):
        streams, rows, self.truth = {}, [], examples[:parts[-1].until]
        symbols = [str(example["x"]) for example in self.truth[:COMPARED]]
        self.distinct = len(set(symbols))
        contexts = Contexts(self.distinct)
        known = set() if isinstance(examples[0]["x"], (str, dict)) else set(symbols)
        for n, (example, symbol) in enumerate(zip(examples, symbols)):
            if n % 500 == 0:
                report(n)
            past = streams.get(example["stream"], ())
            rows.append(contexts.take(past, symbol if symbol in known else None))  # a new word: the unknown
            known.add(symbol)
            streams[example["stream"]] = () if example.get("end") else (*past, symbol)[-CONTEXT:]
        self.compared = slice(0, len(rows))
        self.bits = dict(zip(BASELINES, np.array(rows).T))
        own = [np.full(i.until - i.first, math.nan if i.loss is None else i.loss / math.log(2)) for i in parts]
        self.bits[self.main] = np.concatenate(own)
        self.best = min(BASELINES, key=lambda name: self.mean(name, self.compared))

    def mean(self, name, part):
        values = self.bits[name][part]
        values = values[np.isfinite(values)]
        return float(values.mean()) if len(values) else math.nan

    def skill(self, against, part=slice(None)):
        first, until, _ = part.indices(len(self.bits[against]))
        return 1 - self.mean(self.main, slice(first, until)) / self.mean(against, part) if until > first else math.nan


def report_bits(evaluation, final, parts, examples):
    progress = Progress(min(COMPARED, len(examples)))
    bits = Bits(examples, parts, lambda n: progress("baselines", n))
    progress.end()
    unit, arguments = evaluation.table.UNIT if evaluation.table else "symbol", evaluation.arguments
    if arguments.json:
        print(json.dumps({"name": final["name"], "model": final["model"], "examples": len(examples),
                          "compared": bits.compared.stop, "skill": bits.skill(bits.best, bits.compared),
                          "bits": {name: bits.mean(name, bits.compared) for name in bits.bits}}))
    else:
        names = [bits.main, *BASELINES]
        print(f"bits a {unit}".ljust(14) + "".join(f"{name:>12}" for name in [*names, "skill"]))
        spans = [(label, slice(own[0].first, own[-1].until)) for label, own in cut(parts)]
        for label, span in [(f"first {COMPARED:,}", bits.compared)] * (len(bits.truth) > COMPARED) + spans:
            values = [*(bits.mean(name, span) for name in names), bits.skill(bits.best, span)]
            print(f"{label:<14}" + "".join(f"{'-' if math.isnan(v) else format(v, '.3f'):>12}" for v in values))
        kinds = "templates" if evaluation.table and evaluation.table.log else f"distinct {unit}s"
        print(f"Lower is better. A {unit} at random of the {bits.distinct} {kinds} has {math.log2(bits.distinct):.3f} bits.\n"
              f"Skill is 1 - bits of runnel / bits of {bits.best}, the best baseline: above 0 runnel is better.")
        if len(bits.truth) > COMPARED:
            print(f"The baselines cover the first {COMPARED:,} {unit}s.")
    if arguments.plot:
        draw_bits(arguments.plot, f"{final['name']}: {final['model']}", bits, unit)
        if not arguments.json:
            print(f"Plot of bits and of skill by tenth: {arguments.plot}")


def draw_bits(path, title, bits, unit):
    figure, panels, _ = open_plot([3.2, 1.8])
    edges = [len(bits.truth) * n // POINTS_OF_BITS for n in range(POINTS_OF_BITS + 1)]
    for name, colour in zip([*BASELINES, bits.main], [*RIVAL_COLOURS, FORECAST]):
        values = [bits.mean(name, slice(a, b)) for a, b in zip(edges, edges[1:])]
        panels[0].plot(edges[1:], values, color=colour, linewidth=1.8 if name == bits.main else 1.1, label=name)
    panels[0].set_ylim(bottom=0)
    panels[0].set_title(f"bits a {unit}, from the first to the last {unit}: lower is better", loc="left", fontsize=9)
    panels[0].legend(**{**LEGEND, "ncols": 6})
    draw_skill(panels[1], bits, BASELINES)
    save_plot(figure, panels, path, title)
