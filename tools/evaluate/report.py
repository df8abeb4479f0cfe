# --- Reports ---
#
# The build inserts this file into runnel-evaluate.
import collections
import math

import numpy as np

PARTS = 10
WIDTH = 13
LEAST = -1000  # lower skills are printed as '< -1000'
# One `loss` message: the examples it covers, its mean, that of the daemon's own baseline on the
# same targets (None: no baseline); metric as in Score.
Interval = collections.namedtuple("Interval", "first until loss metric baseline time")
# Means of network and baseline over some examples; metrics may be None.
Part = collections.namedtuple("Part", "targets loss metric baseline_loss baseline_metric")


def intervals(losses):
    first, result = 0, []
    for number, message in enumerate(losses, start=1):
        if message["sequence"] != number:
            give_up("a statistics message was lost; try again on a quieter machine")
        metric = message["metric"]
        rmse, accuracy = metric.get("rmse"), metric.get("accuracy")
        result.append(Interval(first, message["examples"], message["mean"],
                               rmse**2 if rmse is not None else accuracy, message.get("baseline"),
                               message["time"]))
        first = message["examples"]
    return result


def mean(pairs):
    """Weighted mean of (value, weight), None without values."""
    pairs = [(value, weight) for value, weight in pairs if value is not None and weight]
    total = sum(weight for _, weight in pairs)
    return sum(value * weight for value, weight in pairs) / total if total else None


def summarize(chosen, scores):
    """Means over the targets of the chosen intervals, the same targets for network and baseline."""
    weights = [sum(s is not None for s in scores[i.first:i.until]) for i in chosen]
    rival = [s for i in chosen for s in scores[i.first:i.until] if s is not None]
    return Part(sum(weights),
                mean((i.loss, w) for i, w in zip(chosen, weights)),
                mean((i.metric, w) for i, w in zip(chosen, weights)),
                mean((s.loss, 1) for s in rival),
                mean((s.metric, 1) for s in rival))


def figure(value):
    if value is None or math.isnan(value):
        return f"{'-':>{WIDTH}}"
    return f"{value:>{WIDTH}.4f}" if abs(value) < 1e5 else f"{value:>{WIDTH}.4g}"


def skill_figure(value):
    return f"{'< -1000':>{WIDTH}}" if value < LEAST else figure(value)


def row(label, width, values):
    return f"{label:<{width}}" + "".join(figure(value) for value in values)


def cut(parts):
    """(label, intervals) of the whole stream, each tenth, and the last fifth."""
    tenths = [parts[len(parts) * n // PARTS:len(parts) * (n + 1) // PARTS] for n in range(PARTS)]
    named = [(f"tenth {n}", tenth) for n, tenth in enumerate(tenths, start=1)]
    return [("whole", parts), *named, ("last fifth", tenths[-2] + tenths[-1])]


def columns_of(part, kind):
    values = [part.loss, part.baseline_loss]
    if kind in ("softmax", "mixture"):
        values += [value / math.log(2) for value in values]
    if kind == "softmax":
        values += [part.metric, part.baseline_metric]
    return values


def report_losses(parts, scores, kind, name):
    metrics = {"softmax": ("bits", "accuracy"), "mixture": ("bits",)}[kind]
    print(f"baseline: {name}")
    print(f"{'':<12}{'targets':>9}"
          + "".join(f"{metric:>12}{'baseline':>12}" for metric in ("loss", *metrics)))
    for label, chosen in cut(parts):
        part = summarize(chosen, scores)
        print(f"{label:<12}{part.targets:>9}" + "".join(figure(v) for v in columns_of(part, kind)))


def report_own(parts, kind):
    """Losses compared with the daemon's own baseline."""
    scored = "rmse" if kind in ("squared", "gaussian") else "accuracy"
    print(f"{'':<12}" + "".join(f"{name:>{WIDTH}}" for name in ("loss", "baseline", "skill", scored)))
    for label, chosen in cut(parts):
        loss, rival, metric = (mean((getattr(i, name), i.until - i.first) for i in chosen)
                               for name in ("loss", "baseline", "metric"))
        skill = None
        if loss is not None and rival:
            skill = 1 - loss / rival if kind == "squared" else rival - loss
        if metric is not None and scored == "rmse":
            metric = math.sqrt(metric)
        print(row(label, 12, [loss, rival, skill, metric]))
    print("Skill is 1 - loss / baseline." if kind == "squared" else "Skill is baseline - loss, nats.")


def report_parts(parts, comparison, losses):
    """Root mean squared error of the whole stream and its tenths, with that of the last value;
    and losses if requested."""
    named = ("loss", "baseline") * losses
    print(f"{'':<12}{'targets':>9}" + "".join(
        f"{name:>{WIDTH}}" for name in (*named, "rmse", "last value", "skill")))
    for label, chosen in cut(parts):
        span = slice(chosen[0].first, chosen[-1].until)
        weights = [comparison.targets[i.first:i.until].any(axis=1).sum() for i in chosen]
        own = (mean((getattr(i, name), w) for i, w in zip(chosen, weights)) for name in named)
        print(f"{label:<12}{sum(weights):>9}" + "".join(figure(value) for value in (
            *own, comparison.rmse(comparison.main, span), comparison.rmse("last value", span)))
            + skill_figure(comparison.skill("last value", span)))


def report_columns(names, parts, comparison, rivals):
    """The network's skill against each rival by column, and the errors over all columns."""
    methods = [comparison.main, *rivals]
    print_skills(names, rivals, "rmse", np.sqrt(comparison.squares(comparison.main)),
                 [comparison.skills(rival) for rival in rivals], [comparison.rmse(m) for m in methods])
    print("Skill is 1 - mean squared error of the forecasts / that of the other method: above 0 the "
          "forecasts are\nbetter, at 1 perfect.")
    scored = comparison.targets.any(axis=1)
    outside = int(scored.sum() - scored[parts[0].first:parts[-1].until].sum())
    if outside:
        print(f"The table by tenths leaves out {outside} target{'s' * (outside != 1)} before its first or after its "
              "last loss message.")
    wild = int(comparison.wild.any(axis=1).sum())
    if wild:
        print(f"{wild} row{'s' * (wild != 1)} left out of these figures: a value there is more than "
              "1e9 times the usual change away.")


def print_skills(names, rivals, unit, errors, skills, whole):
    """A table of the error and the skills by column, and the error of each method over all columns."""
    width = max(12, *(len(name) + 2 for name in names))
    print(f"{'':<{width + WIDTH}}{'skill against':>{WIDTH + 3}}")
    print(f"{'':<{width}}{unit:>{WIDTH}}" + "".join(f"{rival:>{WIDTH}}" for rival in rivals))
    for k, name in enumerate(names):
        print(row(name, width, [errors[k]]) + "".join(skill_figure(skill[k]) for skill in skills))
    if len(names) > 1:
        print(row("mean", width, [math.nan]) + "".join(
            skill_figure(mean((s, 1) for s in skill if math.isfinite(s)) or math.nan) for skill in skills))
    print(row(unit if len(names) == 1 else f"{unit}, all", width, whole))


def report_distributions(names, comparison, rivals):
    """The same by CRPS; how often intervals held."""
    if not comparison.coverage():
        return
    print()
    methods = [comparison.main, *rivals]
    print_skills(names, rivals, "crps", comparison.scores(comparison.main)[0],
                 [comparison.score_skills(rival) for rival in rivals],
                 [comparison.scores(method)[1] for method in methods])
    print("CRPS measures a whole distribution; of a method with one forecast it is the mean absolute error.")
    print(", ".join(f"{100 * held:.1f}%{' of the values are' * (n == 0)} within the {percent}% band"
                    for n, (percent, held) in enumerate(comparison.coverage().items()))
          + " of their distributions.")


def report_experts(comparison, experts):
    """The errors of each expert and member of the mixture alone."""
    print(f"\n{'':<12}{'rmse':>{WIDTH}}{'skill':>{WIDTH}}   of the mixture against this one alone")
    for name in experts:
        label = name[len(EXPERT):]
        print(row(label, 12, [comparison.rmse(name)]) + skill_figure(comparison.skill(name)))


def report_coverage(comparison, bands):
    within = (comparison.truth >= bands[:, :, 0]) & (comparison.truth <= bands[:, :, 1])
    # the values of a constant column do not count
    changes = [len(np.unique(x[np.isfinite(x)])) > 1 for x in comparison.truth.T]
    known = comparison.targets & np.isfinite(bands).all(axis=2) & changes
    if known.any():
        print(f"{100 * (within & known).sum() / known.sum():.1f}% of the values are within the published "
              "90% band.")


def as_json(names, comparison, rivals):
    """`crps` of a method with one forecast is its mean absolute error on the same values."""
    number = lambda value: None if not math.isfinite(value) else float(value)
    tables = {}
    for method in [comparison.main, *rivals]:
        tables[method] = {
            "rmse": number(comparison.rmse(method)), "skill": number(comparison.skill(method)),
            "crps": number(comparison.scores(method)[1]),
            "columns": {name: {"rmse": number(math.sqrt(comparison.squares(method)[k])),
                               "mae": number(comparison.mae(method)[k]),
                               "crps": number(comparison.scores(method)[0][k]),
                               "crps_skill": number(comparison.score_skills(method)[k]),
                               "skill": number(comparison.skills(method)[k])}
                        for k, name in enumerate(names)}}
    return tables
