"""The look of a method: the same colour, marker and dashes in every figure.

Markers and dashes tell the methods apart without them.
"""

from __future__ import annotations

from collections.abc import Sequence

from proportio.palette import BLACK, BLUE, GREEN, GREY, LOOK, ORANGE, PURPLE, RED, SKY, SPARE

STYLE: dict[str, tuple[str, str, str]] = {  # colour, marker, dashes
    "RFFM": (SKY, "s", "--"),
    "softRFFM": (BLUE, "o", "-"),
    "softEnergy": (RED, "^", "-."),
    "softBBSE+": (GREEN, "D", ":"),
    "exact softKMM": (BLACK, "x", "-"),
    "exact KMM": (BLACK, "x", "-"),
    "soft posteriors": (PURPLE, "v", "--"),
    "softRFFM, σ/2": (ORANGE, "P", "-"),
    "softRFFM, σ by V": (GREY, "*", "--"),
    "softBBSE+, tree": (GREEN, "X", ":"),
    "softBBSE+, naive Bayes": (BLACK, "h", ":"),
    "softEnergy, raw columns": (RED, "<", "-."),
    "softEnergy, corner": (RED, ">", "-."),
    "softRFFM, σ by error": (SKY, "p", "-"),
    "RFFM, σ chosen": (BLUE, "o", "-"),
    "background": (SKY, "s", "--"),
    "far class": (RED, "^", "-."),
    "middle class": (PURPLE, "D", ":"),
    "none": (BLACK, "o", "-"),
    "iid": (BLACK, "o", "-"),
    "orthogonal": (BLUE, "s", "-"),
    "qmc": (ORANGE, "^", "--"),
    "structured": (GREEN, "D", ":"),
    "cos-bias": (RED, "x", "-."),
    "Theorem 1, eq. 1": (SKY, "s", "--"),
    "Theorem 1, eq. 2": (BLUE, "o", "--"),
    "sharp, α* known": (ORANGE, "^", "-"),
    "sharp, from the data": (RED, "v", "-"),
    "Theorem 2": (GREEN, "D", "--"),
    "Corollary 1": (PURPLE, "P", "--"),
    "sharp, contaminated": (ORANGE, "^", "-"),
    "error": (BLACK, "x", "-"),
}


__all__ = ["BLACK", "BLUE", "GREEN", "GREY", "LOOK", "ORANGE", "PURPLE", "RED", "SKY", "SPARE", "STYLE", "style_of"]


def style_of(name: str, order: Sequence[str] = ()) -> dict[str, str]:
    """Colour, marker and dashes of a method, by name; a new method takes a spare one."""
    colour, marker, dashes = STYLE.get(name) or SPARE[list(order).index(name) % len(SPARE) if name in order else 0]
    return {"color": colour, "marker": marker, "linestyle": dashes}
