# Prints the results of a demo of conf/host.yaml: awk -f demo.awk STATISTICS
# STATISTICS: from `runnel-watch --json`, with predictions. A prediction that scores the previous one has
# its forecast, band and truth; the baseline repeats the previous truth.

BEGIN {
    names = "CPU busy|CPU system|memory used|load average|context switches|received|sent|disks"
    columns = split(names, name, "|")
    least = 1e-6 # smaller values are printed as 0
}

# The numbers of "key": [1, null, ..] in the text, or pairs of "key": [[1, 2], null, ..].
function numbers(text, key, into, list) {
    if (!match(text, "\"" key "\": *\\[(\\[[^]]*\\]|[^]\\[])*\\]"))
        return 0
    list = substr(text, RSTART, RLENGTH)
    sub(/^"[^"]*": */, "", list)
    if (key == "interval")
        gsub(/null/, "null,null", list)
    gsub(/[][ ]/, "", list)
    return split(list, into, ",")
}

/"topic": *"prediction"/ {
    if (match($0, "\"sequence\": *[0-9]+"))
        sequence = substr($0, RSTART + 11, RLENGTH - 11) + 0
    lost += sequence != ++readings
    at = index($0, "\"scored\"")
    head = at ? substr($0, 1, at - 1) : $0
    numbers(head, "prediction", next_said)
    bands = numbers(head, "interval", next_band)
    if (!at)
        next
    tail = substr($0, at)
    numbers(tail, "prediction", said)
    numbers(tail, "target", came)
    known = numbers(tail, "interval", band)
    for (k = 1; k <= columns; k++) {
        if (came[k] ~ /null/ || said[k] ~ /null/)
            continue
        if (k in last) {
            error[readings, k] = (said[k] - came[k]) ^ 2
            rival[readings, k] = (last[k] - came[k]) ^ 2
        }
        if (known && band[2 * k] !~ /null/) {
            banded[k]++
            inside[k] += came[k] >= band[2 * k - 1] && came[k] <= band[2 * k]
        }
        last[k] = came[k]
    }
}

# Sums of one column over the readings from .. to.
function sums(k, from, to, r) {
    of_error = of_rival = targets = 0
    for (r = from; r <= to; r++)
        if ((r, k) in error) {
            of_error += error[r, k]
            of_rival += rival[r, k]
            targets++
        }
    return targets > 0
}

# The mean over columns of 1 - squared error / squared error of the last value; "-" if nothing changed.
function skill(from, to, k, sum, count) {
    for (k = 1; k <= columns; k++)
        if (sums(k, from, to) && of_rival > 0) {
            sum += 1 - of_error / of_rival
            count++
        }
    return count ? sum / count : "-"
}

function shown(value) {
    if (value == "-" || value ~ /null/)
        return "-"
    return value < least && value > -least ? 0 : sprintf("%.4g", value)
}

END {
    tenth = int(readings / 10)
    first = skill(1, tenth)
    newest = skill(readings - tenth + 1, readings)
    if (lost || readings < 20 || first == "-" || newest == "-") {
        print "Not enough readings for a comparison: set a greater RUNNEL_DEMO_SECONDS."
        exit
    }
    printf "%-18s %9s %10s %20s %8s %10s %11s %7s\n", "", "reading", "forecast", "90% band", "in band", "rmse",
        "last value", "skill"
    for (k = 1; k <= columns; k++) {
        if (!sums(k, 1, readings))
            continue
        between = "-"
        if (bands && next_band[2 * k] !~ /null/)
            between = shown(next_band[2 * k - 1]) " .. " shown(next_band[2 * k])
        within = banded[k] ? sprintf("%.0f%%", 100 * inside[k] / banded[k]) : "-"
        better = of_rival > 0 ? sprintf("%.2f", 1 - of_error / of_rival) : "-"
        printf "%-18s %9s %10s %20s %8s %10s %11s %7s\n", name[k], shown(last[k]), shown(next_said[k]), between,
            within, shown(sqrt(of_error / targets)), shown(sqrt(of_rival / targets)), better
    }
    print "The last four are log(1 + rate a second)."
    verdict = newest > 0 ? "now better" : "not yet better"
    printf "\nIn %d s the network learned from %d readings of this machine's load, and forecast each of them. " \
        "The skill compares its squared error with that of repeating the last value. It was %.2f in the first " \
        "tenth and is %.2f in the last: the network is %s than the last value.\n",
        seconds, readings, first, newest, verdict
}
