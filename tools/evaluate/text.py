# --- A text or a log ---
#
# Bits of each symbol, of the daemon and of baselines. The build inserts this file into runnel-evaluate.
import math
import pathlib
import re

import numpy as np

TEXT_NAME = re.compile(r".*\.(txt|log)(\.\d+)?(\.gz)?", re.DOTALL | re.IGNORECASE)
COMPARED = 200000   # symbols: the baselines of more take minutes
FIRST = slice(COMPARED)
CONTEXT = 4         # symbols, of the longest context
BASELINES = ["frequencies", "order 1", "order 2", "order 3", f"PPM({CONTEXT})"]
POINTS_OF_BITS = 50


class Text(Table):
    """A file whose bytes (.txt) or templates of lines (.log) are symbols."""
    FORM = "a text or a log"

    def __init__(self, path, most):
        self.path = pathlib.Path(path)
        self.log = TEXT_NAME.fullmatch(self.path.name)[1].lower() == "log"
        self.UNIT, lines = "line" if self.log else "byte", self.read_lines()
        self.TOPICS += " -t anomaly" * self.log
        self.KEPT = f"--templates-file {self.name()}.templates " * self.log
        count = len(lines) if self.log else sum(map(len, lines))
        if count < ROWS_MIN:
            raise Unusable(f"{path}: expected at least {ROWS_MIN} {self.UNIT}s, got {count}")
        self.cut, self.most = 0 < most < count, most
        self.stream, self.known, self.rows, self.decimal_comma = None, None, 0, False

    def source(self):
        return ["lines" if self.log else "text", str(self.path)]

    def configuration(self):
        return (f"name: {self.name()}\npreset: symbols\nmodel: {{input: {{size: {1000 if self.log else 256}}}}}\n"
                + "members: []\nexperts: [orders, skip, repeat, position, kneser]\n" * self.log
                + "anomaly: {surprise_threshold: 4}\n" * self.log +
                "examples: {socket: router}\nstatistics: {predictions: true}\n")

    def describe(self):
        yield f"{self.path}: predicts each {self.UNIT}" + " by its template" * self.log + " from the earlier ones"
        if self.cut:
            yield f"only the first {self.most:,} {self.UNIT}s are read: --count 0 reads all"


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
        """The probability by PPMC, from the longest context on. Only the contexts that were needed learn."""
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
    """Bits of each symbol by method, as the comparison of forecasts. The daemon's are means of intervals."""
    main = "runnel"

    def __init__(self, examples, parts, report):
        streams, rows, self.truth = {}, [], examples[:parts[-1].until]
        symbols = [str(example["x"]) for example in self.truth[FIRST]]
        self.distinct = len(set(symbols))
        contexts = Contexts(max(2, self.distinct))
        known = set() if isinstance(examples[0]["x"], (str, dict)) else set(symbols)
        for n, (example, symbol) in enumerate(zip(examples, symbols)):
            if n % 500 == 0:
                report(n)
            past = streams.get(example["stream"], ())
            rows.append(contexts.take(past, symbol if symbol in known else None))  # a new word: the unknown
            known.add(symbol)
            streams[example["stream"]] = () if example.get("end") else (*past, symbol)[-CONTEXT:]
        self.bits = dict(zip(BASELINES, np.array(rows).T))
        self.bits[self.main] = np.concatenate([np.full(i.until - i.first, i.loss, float) for i in parts]) / math.log(2)
        self.best = min(BASELINES, key=lambda name: self.mean(name, FIRST))

    def mean(self, name, part, most=None):
        values = self.bits[name][part][:most]
        return float(values.mean()) if len(values) else math.nan

    def skill(self, against, part=slice(None)):
        """Over the symbols that the baselines cover."""
        return 1 - self.mean(self.main, part, len(self.bits[against][part])) / self.mean(against, part)


def report_bits(evaluation, final, parts, examples):
    progress = Progress(min(COMPARED, len(examples)))
    bits = Bits(examples, parts, lambda n: progress("baselines", n))
    progress.end()
    unit = evaluation.table.UNIT if evaluation.table else "symbol"
    kinds = "templates" if unit == "line" else f"distinct {unit}s"
    names, more, picture = [bits.main, *BASELINES], len(bits.truth) > COMPARED, evaluation.arguments.plot
    if picture:
        draw_bits(picture, f"{final['name']}: {final['model']}", bits, unit)
    if evaluation.arguments.json:
        print(json.dumps({"name": final["name"], "model": final["model"], "examples": len(examples),
                          "compared": len(bits.truth[FIRST]), "skill": bits.skill(bits.best, FIRST),
                          "bits": {name: bits.mean(name, FIRST) for name in names}}))
        return
    print(f"bits a {unit}".ljust(14) + "".join(f"{name:>12}" for name in [*names, "skill"]))
    spans = [(label, slice(own[0].first, own[-1].until)) for label, own in cut(parts)]
    for label, span in [(f"first {COMPARED:,}", FIRST)] * more + spans:
        values = [*(bits.mean(name, span) for name in names), bits.skill(bits.best, span)]
        print(f"{label:<14}" + "".join(f"{'-' if math.isnan(v) else format(v, '.3f'):>12}" for v in values))
    print(f"Lower is better. A {unit} at random of the {bits.distinct} {kinds} has {math.log2(bits.distinct):.3f} bits.\n"
          f"Skill is 1 - bits of runnel / bits of {bits.best}, the best baseline: above 0 runnel is better."
          + f"\nThe baselines cover the first {COMPARED:,} {unit}s." * more
          + f"\nPlot of bits and of skill by tenth: {picture}" * bool(picture))


def draw_bits(path, title, bits, unit):
    figure, panels, _ = open_plot([3.2, 1.8])
    edges = [len(bits.truth) * n // POINTS_OF_BITS for n in range(POINTS_OF_BITS + 1)]
    for name, colour in zip([*BASELINES, bits.main], [*RIVAL_COLOURS, FORECAST]):
        panels[0].plot(edges[1:], [bits.mean(name, slice(a, b)) for a, b in zip(edges, edges[1:])], color=colour,
                       linewidth=1.8 if name == bits.main else 1.1, label=name)
    panels[0].set_ylim(bottom=0)
    panels[0].ticklabel_format(style="plain")
    panels[0].set_title(f"bits a {unit}: lower is better", loc="left", fontsize=9)
    panels[0].legend(**{**LEGEND, "ncols": 6})
    draw_skill(panels[1], bits, BASELINES)
    save_plot(figure, panels, path, title)
