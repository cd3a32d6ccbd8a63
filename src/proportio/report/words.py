"""What an estimate says, in sentences: the verdict on label shift first, where it fails, then the shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from proportio import display
from proportio.errors import InputError
from proportio.estimate import Estimate
from proportio.shift import EXPLAINED, SOMETHING_ELSE, DriftTest, LabelShiftTest

Tone: TypeAlias = Literal["good", "alarm", "unsure"]
TONES: dict[str, Tone] = {EXPLAINED: "good", SOMETHING_ELSE: "alarm"}


def label_shift(est: Estimate) -> LabelShiftTest | None:
    """The test, or None for an estimate that does not carry what it takes."""
    try:
        return est.label_shift_test()
    except InputError:
        return None


def drift(est: Estimate) -> DriftTest | None:
    """The test, or None for an estimate that does not carry what it takes."""
    try:
        return est.drift_test()
    except InputError:
        return None


def verdict(est: Estimate) -> tuple[Tone, LabelShiftTest] | None:
    """Whether the verdict is good, an alarm, or unsure; None where there is none."""
    test = label_shift(est)
    return None if test is None else (TONES.get(test.verdict, "unsure"), test)


def percent(share: float, decimals: int) -> str:
    """A share in percent; what would be printed as 0 but is more says so.

    >>> percent(0.123, 0), percent(0.00004, 1), percent(0.0, 1)
    ('12%', 'under 0.1%', '0%')
    """
    least = 10.0**-decimals
    if 0 < 100 * share < least / 2:
        return f"under {least:g}%"
    return f"{100 * share:.{decimals if share else 0}f}%"


def decimals(width: float) -> int:
    """As many decimals of a percentage as an interval of this width supports."""
    return 0 if width >= 0.03 else 1 if width >= 0.003 else 2


def amount(line: display.Line) -> tuple[str, str]:
    """A share and, in brackets, its interval: ('12%', ' (9 to 15%)')."""
    if line.limits is None:
        return percent(line.share, 1), ""
    low, high = line.limits
    places = decimals(high - low)
    return percent(line.share, places), f" ({100 * low:.{places}f} to {percent(high, places)})"


def shares(est: Estimate) -> str:
    """The answer in a sentence or two."""
    lines = est._lines()
    known, unknown = lines[: len(est.classes)], lines[len(est.classes) :]
    largest = sorted(known, key=lambda line: -line.share)
    shown = sorted(known, key=lambda line: line.share) if len(known) == 2 else largest[: 3 if len(known) > 3 else 2]
    parts = [f"{amount(line)[0]} is {called(line.name)}{amount(line)[1]}" for line in shown]
    said = f"Of this batch, about {listed(parts)}."
    if len(shown) < len(known):
        rest = sum(line.share for line in known) - sum(line.share for line in shown)
        others = len(known) - len(shown)
        said += f" The other {others} classes hold {percent(rest, 0)}." if others > 1 else ""
    if unknown and (unknown[0].limits or (0.0, unknown[0].share))[1] >= 0.005:
        share, between = amount(unknown[0])
        said += f" No class explains about {share}{between}; if what is unknown resembles a class, it is more."
    return said


def moved(est: Estimate) -> str:
    """What the shares did against the reference's."""
    test = drift(est)
    if test is None:
        return (
            "This estimate carries no error bars (it was made by hand, or read without them), so no move can be judged."
        )
    change = est.proportions - est.source_prior
    i = int(np.argmax(np.abs(change)) if len(change) > 2 else np.argmin(est.proportions))
    places = decimals(float(abs(change[i])))
    most = (
        f"{called(str(est.classes[i]))} most of all, from {percent(est.source_prior[i], places)} of the reference to "
        f"{percent(est.proportions[i], places)}"
    )
    if np.isnan(test.pvalue):
        return "Too few rows, or classes too alike, to tell whether the shares moved from the reference's."
    p = f"p = {test.pvalue:.2g}" if test.pvalue >= 1e-4 else "p < 0.0001"
    if test.verdict == "the shares moved":
        return f"The shares moved from the reference's ({p}): {most}. Half the sum of all moves is about {test.distance:.0%}."
    return f"This batch shows no move of the shares from the reference's beyond chance ({p})."


def status(est: Estimate) -> str:
    """What the optimiser or the classes' likeness leaves in doubt, as a sentence; empty where nothing is."""
    said = est.diagnostics.status
    return "" if said == "ok" else clipped(said[:1].upper() + said[1:], 400)


def caution(found: tuple[Tone, LabelShiftTest] | None) -> str:
    """The verdict on label shift as the reader must know it before the shares."""
    if found is None:
        return "Whether the classes look in this batch as in the reference is not known: this estimate carries no test of it."
    return {
        "alarm": "Something else is in this batch. The shares and intervals below assume that nothing else is: "
        "read them with care.",
        "good": "New shares of the known classes explain this batch.",
        "unsure": "There is too little data, or there are too few features, to tell whether new shares of the known classes "
        "explain this batch.",
    }[found[0]]


def many(tones: Sequence[Tone | None], level: float = 0.05) -> str:
    """The verdicts on many samples in a sentence."""
    n, broken = len(tones), sum(t == "alarm" for t in tones)
    unsure = sum(t not in ("alarm", "good") for t in tones)
    if not broken:
        said = f"In none of the {n} samples does anything else than the known classes show."
    else:
        said = (
            f"In {broken} of the {n} samples something else than the known classes shows: read those first. "
            f"Chance alone accounts for up to about {max(1, round(level * n))}."
        )
    return said + (f" In {unsure} there is too little to tell." if unsure else "")


def called(name: str) -> str:
    """A class in a sentence: numbers and the like need the word before them."""
    name = clipped(name, 60)
    return name if name.isalpha() and len(name) > 1 else f"class {name}"


def clipped(name: str, most: int) -> str:
    """The name, or its beginning."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def listed(parts: Sequence[str]) -> str:
    """a, b and c."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
