"""`python -m benchmarks.field [--quick | --full | --tiny] [--only SET ...] [--out DIR] [--cache DIR] [--docs DIR] [--jobs N]`.

Fetches the data sets that are not in the cache, computes every part that is not under OUT yet (stop it at any time and run it
again), then writes the page. A set that cannot be fetched is skipped with a line. `--fetch` only fetches.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.field import page, plan
from benchmarks.field.sets import BY_NAME, UnavailableError

from proportio.reproduce import tables
from proportio.reproduce.runner import compute


def main(arguments: list[str] | None = None) -> int:
    """Run the study; 0 where there is a page (or, with --fetch, any data)."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.field", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    for name in ("quick", "full", "tiny"):
        size.add_argument(f"--{name}", dest="size", action="store_const", const=name)
    parser.set_defaults(size="quick")
    parser.add_argument("--only", nargs="*", default=list(plan.NAMES), help="data sets, by name")
    parser.add_argument("--out", type=Path, default=Path("build/field"))
    parser.add_argument("--cache", type=Path, default=Path("build/field-data"))
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--fetch", action="store_true", help="fetch the data sets and stop")
    asked = parser.parse_args(arguments)

    unknown = [name for name in asked.only if name not in BY_NAME]
    if unknown:
        parser.error(f"no data set {unknown[0]!r}: there are {', '.join(BY_NAME)}")
    wanted = ["digits"] if asked.size == "tiny" else asked.only
    asked.cache = asked.cache.resolve()
    there, skipped = fetch(wanted, asked.cache)
    if asked.fetch or not there:
        return 0 if there else 1
    cache = str(asked.cache)
    chosen = plan.tiny(cache) if asked.size == "tiny" else getattr(plan, asked.size)(cache, tuple(there))
    out = asked.out / asked.size
    compute(chosen, out, jobs=asked.jobs, report=say)
    written = tables.assemble(chosen, out)
    say(f"the page: {page.write(tables.load(out, 'results')['field'], skipped, chosen, asked.docs, asked.cache)}")
    say(f"the table: {written['field']}")
    return 0


def fetch(names: list[str], cache: Path) -> tuple[list[str], dict[str, str]]:
    """The sets that are there, and why the others are not."""
    there, skipped = [], {}
    for name in names:
        try:
            X, _ = BY_NAME[name].load(cache)
        except UnavailableError as error:
            skipped[name] = str(error)
            say(f"{name}: skipped, {error}")
        else:
            there.append(name)
            say(f"{name}: {len(X):,} rows × {X.shape[1]} columns")
    return there, skipped


def say(line: str) -> None:
    """Progress, on stderr."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
