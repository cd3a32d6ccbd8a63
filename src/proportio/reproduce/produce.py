"""`run`: compute a plan, then write its tables, figures and verdicts.

OUT/results, tables, figures, claims.md, claims.json     what came out: the same bits on every run of one machine
OUT/timings                                              what depends on when and where it ran
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from proportio import storage
from proportio._compiled.threads import resolve_jobs
from proportio.errors import InputError
from proportio.reproduce import claims, figures, tables
from proportio.reproduce.claims import Verdict
from proportio.reproduce.describe import canonical
from proportio.reproduce.plan import Plan
from proportio.reproduce.runner import Report, compute


@dataclass(frozen=True)
class Outcome:
    """The files of a finished run, the verdicts of all that lies under `out`, and the seconds that this call took."""

    out: Path
    results: dict[str, Path]
    tables: list[Path]
    figures: list[Path]
    verdicts: list[Verdict]
    seconds: float

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return {
            "out": str(self.out),
            "results": {k: str(p) for k, p in self.results.items()},
            "tables": [str(p) for p in self.tables],
            "figures": [str(p) for p in self.figures],
            "claims": claims.as_json(self.verdicts),
            "seconds": round(self.seconds, 1),
        }


def run(
    plan: Plan,
    out: str | os.PathLike[str],
    *,
    only: Sequence[str] = (),
    jobs: int | None = None,
    report: Report = lambda _: None,
) -> Outcome:
    """Compute what is missing under `out`, on `jobs` processes (None: one a processor), and write everything that follows."""
    folder = Path(out)
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs={jobs}: give the number of processes, 1 or more.")
    began = time.perf_counter()
    compute(plan, folder, only=only, jobs=resolve_jobs(None) if jobs is None else jobs, report=report)
    _write_json(folder / "plan.json", canonical(plan))
    written = tables.assemble(plan, folder, only)
    report("drawing the figures")
    outcome = Outcome(folder, written, [], [], [], 0.0)
    for kind, beside in (("results", folder), ("timings", folder / "timings")):
        everything = tables.load(folder, kind)  # of earlier calls too
        if not everything:
            continue
        found = {name: everything[name] for name in written if name in everything}
        outcome.tables.extend(tables.summarise(found, beside / "tables"))
        outcome.figures.extend(figures.draw(found, beside / "figures"))
        verdicts = claims.verdicts(everything)
        outcome.verdicts.extend(verdicts)
        storage.write(beside / "claims.md", claims.as_markdown(verdicts).encode())
        _write_json(beside / "claims.json", claims.as_json(verdicts))
    return replace(outcome, seconds=time.perf_counter() - began)


def _write_json(path: Path, data: object) -> None:
    storage.write(path, (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode())
