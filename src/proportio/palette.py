"""The colours and the look of every figure. Colours are Okabe and Ito's, which the colour-blind tell apart."""

from __future__ import annotations

from typing import Any

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREY = "#777777"

SPARE = [(c, m, "-") for m in "hp<>" for c in (BLACK, ORANGE, GREEN, PURPLE, RED, BLUE)]
LOOK: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8.5,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.8,
    "legend.frameon": False,
    "svg.hashsalt": "proportio",
    "svg.fonttype": "none",
    "figure.dpi": 100,
}
