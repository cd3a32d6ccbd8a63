"""Estimates as the command prints and writes them: tables for people, JSON for programs, tidy CSV for tables of many samples.

CSV    sample, class, share, low, high, count, source_share: one line for each sample and class; count = share × rows
JSON   the estimate's own (`Estimate.from_json` reads it), with sample, level, intervals, label_shift and gates beside
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proportio import display
from proportio.commands.gates import Gate, Outcome
from proportio.estimate import Estimate
from proportio.shift import LabelShiftTest

SCHEMA = 1
UNKNOWN = "(unknown)"
COLUMNS = ("sample", "class", "share", "low", "high", "count", "source_share")
WIDTH = 100  # of the table of many samples


@dataclass(frozen=True)
class Answer:
    """One sample's estimate, with everything that is printed of it."""

    sample: str | None
    estimate: Estimate
    level: float
    limits: list[tuple[float, float]]
    test: LabelShiftTest
    outcomes: tuple[Outcome, ...] = ()

    @classmethod
    def of(cls, sample: str | None, est: Estimate, level: float, gates: Sequence[Gate], strict: bool) -> Answer:
        """The answer of an estimate; its block sums, half a megabyte, are let go."""
        limits = [line.limits or (float("nan"), float("nan")) for line in est._lines(level)]
        outcomes = tuple(gate.decide(est, level, strict=strict) for gate in gates)
        return cls(sample, est.without_blocks(), level, limits, est.label_shift_test(), outcomes)

    @property
    def failed(self) -> bool:
        return any(o.failed for o in self.outcomes)

    @property
    def shares(self) -> list[float]:
        """Those of the classes, and the unknown share if there is room for one."""
        return [*self.estimate.proportions.tolist(), *([self.estimate.unknown] if self.estimate.soft else [])]

    def to_dict(self) -> dict[str, Any]:
        """What the JSON holds: of the schema "answer"."""
        return {
            **self.verdict("answer"),
            "level": self.level,
            "rows": self.estimate.n_target,
            "shares": [dict(zip(COLUMNS[1:], line[1:], strict=True)) for line in self.lines()],
            "estimate": self.estimate.to_dict(),
        }

    def verdict(self, kind: str = "check") -> dict[str, Any]:
        """Label shift and the gates alone: of the schema "check"."""
        gates = [{"gate": o.gate, "failed": o.failed, "seen": o.seen} for o in self.outcomes]
        return {
            "schema": SCHEMA,
            "kind": kind,
            "sample": self.sample,
            "label_shift": self.test.to_dict(),
            "gates": gates,
        }

    def lines(self) -> list[tuple[Any, ...]]:
        """The lines of the tidy table."""
        est = self.estimate
        return [
            (self.sample or "", line.name, line.share, *limits, line.share * est.n_target, line.prior or 0.0)
            for line, limits in zip(est._lines(self.level), self.limits, strict=True)
        ]

    def text(self) -> str:
        """The table of one sample, and what to make of it."""
        return f"{self.estimate.describe(self.level)}\n{self.test.verdict}: {self.test.explanation}"


def as_json(objects: Sequence[Mapping[str, Any]], many: bool) -> str:
    """One object, or of many samples one a line."""
    if many:
        return "".join(json.dumps(d, allow_nan=False, ensure_ascii=False) + "\n" for d in objects)
    return json.dumps(objects[0], allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def as_csv(answers: Sequence[Answer]) -> str:
    """The tidy table; numbers have the digits that read back to the same floats."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(line for answer in answers for line in answer.lines())
    return out.getvalue()


def as_table(answers: Sequence[Answer]) -> str:
    """Samples as lines, classes as columns as far as they fit, and the verdict of each."""
    first = answers[0].estimate
    names = [*map(str, first.classes), *([UNKNOWN] if first.soft else [])]
    wide = max(6, *(len(str(a.sample)) for a in answers))
    columns = [max(7, min(len(n), 14)) for n in names]
    room = max(1, sum(1 for k in range(len(columns)) if wide + 10 + sum(columns[: k + 1]) + 2 * (k + 1) <= WIDTH))
    shown = list(range(room)) if room >= len(names) else [*range(room - 1), len(names) - 1]
    head = "".join(f"  {names[k][:14]:>{columns[k]}}" for k in shown)
    table = [f"{'sample':<{wide}}  {'rows':>8}{head}  label shift"]
    for a in answers:
        cells = "".join(f"  {a.shares[k]:>{columns[k]}.4f}" for k in shown)
        table.append(f"{a.sample!s:<{wide}}  {a.estimate.n_target:>8,}{cells}  {a.test.verdict}")
    if len(shown) < len(names):
        table.append(f"and more classes, {len(names) - len(shown)}: --csv has all of them, with their intervals")
    notes = list(dict.fromkeys(note for a in answers for note in a.estimate.diagnostics.warnings))
    table += [f"note: {note}" for note in notes[: display.MOST]]
    return "\n".join(table)
