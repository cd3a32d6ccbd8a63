"""A plan of seconds, as a script: `python small_plan.py OUT JOBS` runs it; the tests kill it and run it again."""

from __future__ import annotations

import sys
from dataclasses import replace

from proportio.reproduce import Plan, run
from proportio.reproduce.bounds import Bounds
from proportio.reproduce.fourier import Fourier
from proportio.reproduce.plan import FIXED, NOISES, PAIRWISE, PAPER
from proportio.reproduce.robustness import Pictures, Robustness, Sizes
from proportio.reproduce.sigma import Sigma
from proportio.reproduce.speed import Speed

SIZES = Sizes(classes=5, source_rows=100, clean_rows=500)


def small_plan() -> Plan:
    grid = Robustness(PAPER, NOISES, (), dims=(2, 3), repetitions=2, levels=(0.0, 0.15, 0.3), sizes=SIZES)
    return Plan(
        "small",
        (
            Pictures(NOISES, levels=(0.3,), shown=50, sizes=SIZES),
            grid,
            Bounds(NOISES[:1], sizes=(300, 1_000), repetitions=2),
            Fourier(("iid", "cos-bias"), (64, 256), (2,), draws=3, rows_a_class=50),
            Sigma(NOISES, (2,), repetitions=2, sizes=replace(SIZES, source_rows=50)),
        ),
    )


def timed_plan() -> Plan:
    return Plan("timed", (Speed((FIXED,), (PAIRWISE,), (500, 1_000), (500,), repeats=1),))


if __name__ == "__main__":
    run(small_plan(), sys.argv[1], jobs=int(sys.argv[2]), report=lambda line: print(line, flush=True))
