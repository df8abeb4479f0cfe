"""The streams of tools/figures/paper: data from the user, and streams generated with a fixed
seed."""
import numpy

# Data from the user, and its source
GIVEN = {"tinyshakespeare.txt": "github.com/karpathy/char-rnn",
         "omniglot-strokes.csv.gz": "github.com/hardmaru/sketch-rnn-datasets",
         "ETTh1.csv": "github.com/zhouhaoyi/ETDataset",
         "t10k-images-idx3-ubyte.gz": "MNIST", "t10k-labels-idx1-ubyte.gz": "MNIST"}
SHIFT_ROWS = 40000
SHIFT_AT = SHIFT_ROWS // 2      # conf/experiments/shift.yaml and drift.yaml
SHIFT_BY = 4, -3, 5, -4         # levels, in deviations
PERIODS = (7, 19), (9, 29), (11, 23), (13, 31)
NOISE = 0.1
LENGTHS = 10, 30, 100, 500
LENGTH_STEPS = 40000            # conf/experiments/length.yaml


def shift(path):
    """Sums of two sines and noise, with other levels from the middle on."""
    random = numpy.random.default_rng(1)
    time = numpy.arange(SHIFT_ROWS)[:, None]
    slow, fast = (2 * numpy.pi / numpy.array(periods) for periods in zip(*PERIODS))
    table = numpy.sin(slow * time) + numpy.sin(fast * time) + NOISE * random.normal(size=(SHIFT_ROWS, 4))
    table[SHIFT_AT:] += SHIFT_BY
    numpy.savetxt(path, table, "%.5f", ",", header="a,b,c,d", comments="")


def sequences(path, text, length):
    """A text cut into sequences: number of the sequence, and the byte's number among the
    occurring bytes."""
    alphabet = {byte: number for number, byte in enumerate(sorted(set(text)))}
    lines = [f"{step // length},{alphabet[byte]}\n" for step, byte in enumerate(text[:LENGTH_STEPS])]
    path.write_text("sequence,symbol\n" + "".join(lines), encoding="ascii")


def once(path, write):
    """Writes a missing file atomically."""
    if not path.exists():
        part = path.with_suffix(".part")
        write(part)
        part.rename(path)


def make(directory, data):
    """Makes all streams of conf/experiments in a directory: links to existing data, and
    generated tables."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in GIVEN:
        link = directory / name
        if (data / name).exists() and not link.exists():
            link.symlink_to((data / name).resolve())
    once(directory / "shift.csv", shift)
    text = directory / "tinyshakespeare.txt"
    if text.exists():
        for length in LENGTHS:
            once(directory / f"sequences-{length}.csv",
                 lambda path, length=length: sequences(path, text.read_bytes(), length))
