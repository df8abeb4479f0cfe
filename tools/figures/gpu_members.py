"""Members on a GPU: K networks of a configuration with different seeds learn the same stream as
forecasts. Compares them with K times the time of one, and with the CPU."""
import re

import gpu_table

NAMES = ("gru64", "lstm128")
COUNTS = (1, 4, 16, 64)
# Only forecasts have members; the cheapest expert, since members share the time of experts.
FORECAST = ("model.input.scale=forecast", "model.output.target=next", "experts=[last]")
TITLES = ("configuration", "members", "floor us", "us", "times floor", "us a member", "one alone us",
          "K times that, us", "of it", "one at a time us", "times one alone", "CPU us", "x")


def measure(settings, name, count, device):
    """The output of runnel-bench; gpu_table.Failure if it fails."""
    command = [settings.bench, "--config", settings.configuration(name), "--device", device, "--members", str(count),
               "--json", "--seconds", str(settings.seconds), "--examples", str(settings.examples),
               "--plan", str(settings.plan)]
    for key in FORECAST:
        command += ["--set", key]
    return gpu_table.run(command, settings.seconds)


def attempt(settings, name, count, device):
    """The output and the failure of a measurement: (found, None), or (None, why)."""
    try:
        return measure(settings, name, count, device), None
    except gpu_table.Failure as failure:
        return None, str(failure)


def measure_row(settings, name, count):
    """A row of the table. A network too large for the GPU's memory is listed, without failure."""
    row = {"name": name, "count": count, "failures": [], "notes": []}
    for key, device in (("gpu", settings.device), ("cpu", "cpu")):
        row[key], why = attempt(settings, name, count, device)
        fits = why is None or not re.search(r"\bMiB\b|out of memory", why)
        if why:
            row["failures" if fits else "notes"].append(f"{name}, {count} members, {device}: {why}")
    return row


def times_one(row):
    """Time of all members / time of one network, queued; None if unknown."""
    return row["gpu"]["members"]["queued"]["times_lone"] if row["gpu"] else None


def cells(row):
    found, count = row["gpu"], row["count"]
    texts, ours = [row["name"], str(count)], None
    if found:
        queued, ours, lone = found["queued"], found["us"]["queued"]["quiet"], found["us"]["lone_queued"]["quiet"]
        single = found["us"]["single"]["quiet"]
        texts += [gpu_table.number(value) for value in (
            queued["floor_us"], ours, 1 / queued["ratio"], ours / count, lone, count * lone)]
        texts += [f"{100 * ours / (count * lone):.0f}%", gpu_table.number(single),
                  gpu_table.number(single / found["us"]["lone_single"]["quiet"])]
    else:
        texts += ["-"] * 9
    cpu = row["cpu"]["us"]["queued"]["quiet"] if row["cpu"] else None
    return texts + [gpu_table.number(cpu), gpu_table.number(cpu / ours if cpu and ours else None)]


def table(rows):
    """Lines of Markdown."""
    lines = ["Microseconds per example that all members learn, queued unless noted: forecasts, the",
             "expert `last` alone. *Of it*: share of K times the time of the first member alone, "
             "in the same",
             "rounds; 100% is the time of members that learn one after another. *x*: the CPU's "
             "time for all",
             "members, divided by the GPU's.", "",
             "| " + " | ".join(TITLES) + " |", "|---|" + "--:|" * (len(TITLES) - 1)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    notes = [note for row in rows for note in row["notes"]]
    notes = [f"- {note}" for note in notes]
    return lines + (["", "Too large for this GPU:", "", *notes] if notes else [])
