"""Coverage, size, power and violations by simulation: `python benchmarks/study.py [--only TEXT] [--reps 2000] [--minutes N]`.

Finished parts stay in `.study/`, so that the study can be stopped at any moment and resumed; cheap families come first.
docs/studies/uncertainty.md and its figure are written from what is there, with the replications behind each row (`--report`: that
alone). Everything at 2,000 replications takes some two hours of one free core, half of them KMM with 5,000 rows a class.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import study_report
from parts import Simulated, simulate
from study_unknown import biases, noises
from study_worlds import families

HERE = Path(__file__).resolve().parents[1]
KEPT, PAGES = HERE / ".study", HERE / "docs" / "studies"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="families whose name contains this")
    parser.add_argument("--reps", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no further part after this long")
    parser.add_argument("--report", action="store_true", help="run nothing, write the page from what is kept")
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--pages", type=Path, default=PAGES)
    args = parser.parse_args(argv)
    if not args.report:
        everything: list[Simulated] = [*families(), *noises(), *biases()]
        simulate([f for f in everything if args.only in f.name], args.kept, args.reps, args.minutes)
    study_report.write(args.kept, args.pages, families())
    return 0


if __name__ == "__main__":
    sys.exit(main())
