"""The look of every figure: Okabe and Ito's colours, which the colour-blind tell apart, and quiet axes."""

from __future__ import annotations

from typing import Any

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
GREY = "#777777"
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
