"""Each claim of the paper as a question to the results: what it says, whether it came out, and the numbers.

A verdict is computed, never typed: "holds" or "differs", with what was measured. Claims marked as ours are the library's own.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pandas as pd

from proportio.reproduce import checks as ask
from proportio.reproduce.checks import FOUR, NOISES, Check

GRID = (*FOUR, *NOISES)


@dataclass(frozen=True)
class Claim:
    """A statement, where it stands, the table that decides it, and the methods, kinds and noises that must be in it."""

    place: str
    words: str
    experiment: str
    check: Check
    needs: tuple[str, ...] = ()
    ours: bool = False


@dataclass(frozen=True)
class Verdict:
    """What came of one claim."""

    place: str
    words: str
    verdict: str
    measured: str
    ours: bool


CLAIMS = (
    Claim("§4.2", "Without contamination all methods give excellent results", "robustness", ask.clean_is_easy, GRID),
    Claim(
        "§4", "The soft form does not hurt where there is no contamination", "robustness", ask.soft_does_not_hurt, GRID
    ),
    Claim("§4.2", "Results deteriorate as the contamination increases", "robustness", ask.errors_grow, GRID),
    Claim(
        "§4.2",
        "Background noise: softRFFM is significantly better than the others",
        "robustness",
        ask.best_under("background"),
        GRID,
    ),
    Claim(
        "§4.2",
        "Background noise: all perform well, around 0.1 in the worst case",
        "robustness",
        ask.background_stays_small,
        GRID,
    ),
    Claim(
        "§4.2",
        "Far class: softRFFM significantly outperforms the others",
        "robustness",
        ask.best_under("far class"),
        GRID,
    ),
    Claim("§4.2", "Class in the middle: no method is robust", "robustness", ask.none_robust_in_the_middle, GRID),
    Claim("§4.2", "softBBSE+ is not robust", "robustness", ask.not_robust("softBBSE+"), GRID),
    Claim("§4.2", "softEnergy is not robust", "robustness", ask.not_robust("softEnergy"), GRID),
    Claim(
        "ours",
        "softEnergy withstands the class in the middle only because its dummy class sits there",
        "robustness",
        ask.energy_is_saved_by_its_origin,
        ("softEnergy, corner", *GRID),
        True,
    ),
    Claim(
        "§4.1",
        "RFFM gives results similar to exact KMM with the Gaussian kernel",
        "robustness",
        ask.features_do_as_the_kernel,
        ("exact softKMM", *GRID),
    ),
    Claim(
        "§4.2, HIPC",
        "softRFFM is the most robust of the four when a class is missing, on average over all",
        "hipc",
        ask.cells_best("softRFFM"),
        FOUR,
    ),
    Claim("§4.2, HIPC", "… when that class is a tenth and more", "hipc", ask.cells_best("softRFFM", 0.1), FOUR),
    Claim(
        "§4.2, HIPC",
        "Its advantage is the greater, the higher the share of noise",
        "hipc",
        ask.cells_worth_more("softRFFM"),
        FOUR,
    ),
    Claim(
        "ours",
        "The same with Δ_min to the letter (V-statistic): the most robust when that class is a tenth and more",
        "hipc",
        ask.cells_best("softRFFM, σ by V", 0.1),
        ("softRFFM, σ by V", *FOUR),
        True,
    ),
    Claim(
        "ours",
        "With σ halved softRFFM is the most robust, on average over all missing classes",
        "hipc",
        ask.cells_best("softRFFM, σ/2"),
        ("softRFFM, σ/2", *FOUR),
        True,
    ),
    Claim(
        "ours",
        "With σ halved the advantage grows with the share of noise",
        "hipc",
        ask.cells_worth_more("softRFFM, σ/2"),
        ("softRFFM, σ/2", *FOUR),
        True,
    ),
    Claim(
        "§4.1", "5·10⁶ rows twice, d = 5: less than a second", "speed", ask.under_a_second, ("RFFM", "RFFM, σ chosen")
    ),
    Claim(
        "§4.1",
        "Exact KMM takes over a hundred times as long (almost 2 minutes on the paper's GPU)",
        "speed",
        ask.faster_than_exact,
        ("RFFM", "exact KMM"),
    ),
    Claim(
        "Theorem 1",
        "Both inequalities hold with probability 1 − δ = 0.95",
        "bounds",
        ask.held("Theorem 1, eq. 1", "Theorem 1, eq. 2"),
    ),
    Claim("Theorem 1", "Eq. 1 is never above eq. 2", "bounds", ask.eq1_below_eq2),
    Claim("Theorem 2", "Holds for the hard form under contamination", "bounds", ask.held("Theorem 2")),
    Claim(
        "Corollary 1",
        "Holds for the soft form under contamination (with the factor α_0)",
        "bounds",
        ask.held("Corollary 1"),
    ),
    Claim(
        "ours",
        "The sharp bound holds, clean and contaminated",
        "bounds",
        ask.held("sharp, α* known", "sharp, from the data", "sharp, contaminated"),
        ours=True,
    ),
    Claim("ours", "The sharp bound is below Theorem 1's", "bounds", ask.sharp_below_theorem1, ours=True),
    Claim(
        "Appendix D",
        "Random Fourier features approximate the kernel at the rate 1/√D",
        "fourier",
        ask.root_rate,
        ("iid", "cos-bias"),
    ),
    Claim(
        "Appendix D",
        "Cosines with a bias are worse than pairs of cosine and sine",
        "fourier",
        ask.bias_never_better,
        ("iid", "cos-bias"),
    ),
    Claim(
        "ours",
        "Orthogonal, Sobol and structured frequencies are no worse than independent ones",
        "fourier",
        ask.kinds_compared,
        ("iid", "orthogonal", "qmc", "structured"),
        ours=True,
    ),
    Claim(
        "§3.1",
        "Δ_min is a natural criterion for σ: near the best without contamination",
        "bandwidth",
        ask.chosen_well("chosen_by_paper", "none"),
        ("none",),
    ),
    Claim(
        "ours",
        "Under background noise and a middle class a smaller σ than that of Δ_min is better",
        "bandwidth",
        ask.smaller_is_better,
        ("none", "background", "middle class"),
        ours=True,
    ),
    Claim(
        "ours",
        "The predicted error chooses σ as well, without contamination",
        "bandwidth",
        ask.chosen_well("chosen_by_error", "none"),
        ("none",),
        ours=True,
    ),
)


def names_in(table: pd.DataFrame) -> set[str]:
    """The methods, kinds of frequency and noises of a table."""
    return {str(name) for column in ("method", "kind", "noise") if column in table for name in table[column].unique()}


def verdicts(tables: dict[str, pd.DataFrame]) -> list[Verdict]:
    """Every claim that the tables can decide."""
    out = []
    for claim in CLAIMS:
        table = tables.get(claim.experiment)
        if table is None or not set(claim.needs) <= names_in(table):
            continue
        holds, measured = claim.check(table)
        out.append(Verdict(claim.place, claim.words, "holds" if holds else "differs", measured, claim.ours))
    return out


def as_json(found: list[Verdict]) -> list[dict[str, object]]:
    """Plain values."""
    return [asdict(v) for v in found]


def as_markdown(found: list[Verdict]) -> str:
    """The table of verdicts, one line a claim."""
    lines = ["| where | claim | came out | measured |", "|---|---|---|---|"]
    lines += [
        f"| {v.place} | {v.words} | {'**differs**' if v.verdict == 'differs' else v.verdict} | {v.measured} |"
        for v in found
    ]
    return "\n".join(lines) + "\n"
