# How well did the network predict, beside repeating the last value? For conf/host.yaml:
#     awk -f persistence.awk READINGS STATISTICS
# READINGS: what was sent, from `runnel-feed host --print`; one example of one step a line.
# STATISTICS: what came of it, from `runnel-watch --json`.
#
# The baseline predicts that every number stays what it was. Its loss is that of the network: the
# mean over the numbers of the squared error in standard deviations, with the running mean and
# deviation of scale: standard, the target's own reading included, and the memory and limit there.

BEGIN {
    memory = 1000
    limit = 30
    unlimited = 30 # the first readings
}

FNR == 1 {
    file++
}

# x of one reading: "x": [1, 2, null]
file == 1 && match($0, /"x": *\[[^]]*\]/) {
    list = substr($0, RSTART, RLENGTH)
    sub(/^[^[]*\[/, "", list)
    sub(/\].*$/, "", list)
    reading(split(list, x, / *, */))
}

function within(value, most) {
    return value > most ? most : value < -most ? -most : value
}

function scaled(k, value) {
    return variance[k] > 0 ? within((value - mean[k]) / sqrt(variance[k]), limit) : 0
}

function reading(size, k, sum, count, rate, least, deviation, error) {
    examples++
    for (k = 1; k <= size; k++) {
        if (x[k] ~ /null/)
            continue
        seen[k]++
        change = x[k] - mean[k]
        rate = 1 / (seen[k] < memory ? seen[k] : memory)
        least = 1e-9 * (mean[k] < 0 ? -mean[k] : mean[k]) + 1e-12
        deviation = sqrt(variance[k])
        if (seen[k] > unlimited)
            change = within(change, limit * (deviation > least ? deviation : least))
        mean[k] += rate * change
        variance[k] = (1 - rate) * (variance[k] + rate * change ^ 2)
        if (examples > 1) {
            # Before there is a last value the mean takes its place, as for the network.
            error = scaled(k, x[k]) - scaled(k, k in last ? last[k] : mean[k])
            sum += error ^ 2
            count++
        }
        last[k] = x[k]
    }
    scored[examples] = count > 0
    baseline[examples] = count > 0 ? sum / count : 0
}

# The value of a member with a plain number, or "".
function number(name) {
    if (!match($0, "\"" name "\": *-?[0-9][-+.0-9eE]*"))
        return ""
    value = substr($0, RSTART, RLENGTH)
    sub(/^[^:]*: */, "", value)
    return value + 0
}

# A message covers the examples since the one before it.
file == 2 && /"topic": *"loss"/ {
    end = number("examples")
    if (number("sequence") != messages + 1 || end == "")
        lost++
    messages = number("sequence")
    if (number("mean") != "") {
        n++
        first[n] = begin + 1
        until[n] = end
        model[n] = number("mean")
    }
    begin = end
}

# Sum up messages `from` to `to`: both losses over the same scored targets.
function part(from, to, i, e, count) {
    model_sum = baseline_sum = targets = 0
    for (i = from; i <= to; i++) {
        count = 0
        for (e = first[i]; e <= until[i]; e++)
            if (scored[e]) {
                count++
                baseline_sum += baseline[e]
            }
        model_sum += model[i] * count
        targets += count
    }
    if (targets == 0)
        too_little()
}

function too_little() {
    print "Too little was measured for a comparison; let the demo run longer."
    exit
}

END {
    tenth = int(n / 10)
    if (tenth < 1)
        tenth = 1
    if (n < 2 || lost || until[n] > examples)
        too_little()
    part(1, tenth)
    model_first = model_sum / targets
    baseline_first = baseline_sum / targets
    part(n - tenth + 1, n)
    model_last = model_sum / targets
    baseline_last = baseline_sum / targets
    verdict = model_last < baseline_last ? "is now better than" : "is not yet better than"
    printf "In %d s the network learned from %d readings of this machine's load: its mean loss went " \
        "from %.3f in the first tenth to %.3f in the last, where repeating the last value costs " \
        "%.3f and %.3f on the same targets, so it %s that.\n", \
        seconds, until[n], model_first, model_last, baseline_first, baseline_last, verdict
}
