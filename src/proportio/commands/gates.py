"""Gates: what an estimate must not show, or else the command exits with 1.

    gate     = "shift" | subject operator number
    subject  = "unknown" | "share:" class
    operator = "<" | "<=" | ">" | ">="
    class    = a word, or any text in double or single quotes (a backslash takes the next character as it is)
    number   = a share from 0 to 1, or a percentage such as 3%

A gate fails only when the data support it: the whole interval lies on the failing side (`shift`: the test says that something
else is in the batch). Strictly, the point estimate decides (`shift`: an effect above the test's tolerance).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from proportio.errors import InputError

if TYPE_CHECKING:
    from proportio.estimate import Estimate

Operator = Literal["<", "<=", ">", ">="]

GRAMMAR = (
    "write shift, unknown > 0.05, or share:CLASS > 0.03, with <, <=, > or >=, a share or a percentage, and quotes around a class "
    'that has spaces, colons or signs: share:"not fraud" < 3%.'
)
_SPACE = re.compile(r"\s*")
_WORD = re.compile(r"[^\s:<>=\"'%]+")
_OPERATOR = re.compile(r"<=|>=|<|>")
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'", re.DOTALL)
LONGEST = 1000


@dataclass(frozen=True)
class Outcome:
    """Whether a gate failed, and what was seen."""

    gate: str
    failed: bool
    seen: str

    def __str__(self) -> str:
        return f"gate {self.gate}: {'FAILED' if self.failed else 'passed'}: {self.seen}"


@dataclass(frozen=True)
class Gate:
    """One parsed gate; `name` is None for `shift` and for the unknown share."""

    text: str
    subject: Literal["shift", "unknown", "share"]
    name: str | None = None
    operator: Operator = ">"
    limit: float = 0.0

    def check(self, classes: Sequence[Any], soft: bool) -> None:
        """Refuse, before any work, what a model with these classes can never answer."""
        if self.subject == "unknown" and not soft:
            raise InputError(
                f"gate {self.text!r}: this model is hard, so that its unknown share is 0 whatever the batch: fit it with --soft."
            )
        if self.subject == "share" and self.name not in list(map(str, classes)):
            known = ", ".join(map(str, classes[:8])) + (" ..." if len(classes) > 8 else "")
            raise InputError(f"gate {self.text!r}: {self.name!r} is not a class of the model, which knows {known}.")

    def decide(self, est: Estimate, level: float = 0.95, *, strict: bool = False) -> Outcome:
        """Did the estimate fail this gate?"""
        if self.subject == "shift":
            test = est.label_shift_test()
            failed = test.effect_size > test.tolerance if strict else test.verdict == "something else is in it"
            return Outcome(self.text, failed, f"{test.verdict} (p = {test.pvalue:.2g}, effect {test.effect_size:.2g})")
        if self.subject == "unknown":
            point, limits = est.unknown, est.interval(level, of="unknown")
        else:
            k = list(map(str, est.classes)).index(str(self.name))
            point, limits = float(est.proportions[k]), est.interval(level)[k]
        low, high = (point, point) if strict else (float(limits[0]), float(limits[1]))
        beyond = {">": low > self.limit, ">=": low >= self.limit, "<": high < self.limit, "<=": high <= self.limit}
        seen = f"{point:.4f}" if strict else f"{point:.4f}, {level:.0%} interval {low:.4f} to {high:.4f}"
        return Outcome(self.text, beyond[self.operator], seen)


def parse(text: str) -> Gate:
    """One gate from its text.

    >>> parse("share:'not fraud' >= 3%")
    Gate(text="share:'not fraud' >= 3%", subject='share', name='not fraud', operator='>=', limit=0.03)
    """
    return _Parser(text).gate()


class _Parser:
    """Reads a gate from left to right; `at` is where it stands."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str) or len(text) > LONGEST:
            raise InputError(f"a gate is a text of at most {LONGEST} characters: {GRAMMAR}")
        self.text, self.at = text, 0

    def gate(self) -> Gate:
        self.skip()
        start = self.at
        word = self.take(_WORD)
        if word == "shift":
            self.end()
            return Gate(self.text, "shift")
        if word not in ("unknown", "share"):
            self.at = start
            self.refuse("'shift', 'unknown' or 'share:' expected")
        name = self.name() if word == "share" else None
        self.skip()
        operator: Any = self.take(_OPERATOR) or self.refuse("one of <, <=, > and >= expected")
        limit = self.number()
        self.end()
        return Gate(self.text, "unknown" if word == "unknown" else "share", name, operator, limit)

    def name(self) -> str:
        if self.text[self.at : self.at + 1] != ":":
            self.refuse("a colon and a class expected")
        self.at += 1
        quoted = _QUOTED.match(self.text, self.at)
        if quoted:
            self.at = quoted.end()
            return re.sub(r"\\(.)", r"\1", quoted[1] if quoted[1] is not None else quoted[2], flags=re.DOTALL)
        return self.take(_WORD) or self.refuse("a class expected")

    def number(self) -> float:
        self.skip()
        start = self.at
        digits = self.take(_NUMBER) or self.refuse("a share expected")
        value = float(digits)
        self.skip()
        if self.text[self.at : self.at + 1] == "%":
            self.at += 1
            value /= 100
        if value > 1:
            self.at = start
            self.refuse("a share lies from 0 to 1, a percentage from 0% to 100%")
        return value

    def take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def skip(self) -> None:
        self.take(_SPACE)

    def end(self) -> None:
        self.skip()
        if self.at < len(self.text):
            self.refuse("the gate should end")

    def refuse(self, what: str) -> str:
        there = self.text[self.at : self.at + 12]
        place = f"before {there!r}" if there else "at the end"
        raise InputError(f"gate {self.text!r}: {what} {place} (character {self.at + 1}): {GRAMMAR}")
