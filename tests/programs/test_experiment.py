#!/usr/bin/env python3
"""runnel-experiment: what is run, what is kept, what bad input gets; resumed after kills and a full
disk the results are the same."""
import cases
import experiments

RATES = {"streams": {"signal": {"feed": "synth sine --size 2 --count 400"}},
         "base": experiments.real(2), "grid": {"rate": [0.001, 0.01], "norm": ["layer", "none"]},
         "seeds": 2}


def test_a_grid(directory):
    experiments.write(directory, "e.yaml", RATES)
    done = experiments.call(directory, "e.yaml")
    assert done.status == 0 and "8 of 8 runs over" in done.out, done
    found = experiments.digests(directory / "e.experiment")
    names = ["rate 0.001, norm layer", "rate 0.001, norm none",
             "rate 0.01, norm layer", "rate 0.01, norm none"]
    assert [(row[0], row[2]) for row in found] == [(name, seed) for name in names
                                                  for seed in (1, 2)], found
    assert all(row[3] == "done" and row[10] == 400 for row in found)
    assert len({row[4] for row in found}) == 8


if __name__ == "__main__":
    cases.run(globals())
