"""Putting quantifiers to the test: protocols, measures, `compare`, paired differences and ranks; plots in `evaluation.plots`."""

from proportio.evaluation.comparison import compare, paired, ranks
from proportio.evaluation.measures import MEASURES, measure, smoothed
from proportio.evaluation.protocols import Batch, Contamination, CovariateShift, Grid, Natural, Protocol, Uniform

__all__ = [
    "MEASURES",
    "Batch",
    "Contamination",
    "CovariateShift",
    "Grid",
    "Natural",
    "Protocol",
    "Uniform",
    "compare",
    "measure",
    "paired",
    "ranks",
    "smoothed",
]
