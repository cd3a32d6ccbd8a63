"""Feature maps Φ, each with its declared bound C."""

from proportio.features.base import FeatureMap
from proportio.features.classifier import OneHot, Posterior
from proportio.features.compose import Chain, Function, Stack
from proportio.features.fourier import RandomFourier
from proportio.features.histogram import Histogram
from proportio.features.sliced import SlicedEnergy
from proportio.features.typical import Typical

__all__ = [
    "Chain",
    "FeatureMap",
    "Function",
    "Histogram",
    "OneHot",
    "Posterior",
    "RandomFourier",
    "SlicedEnergy",
    "Stack",
    "Typical",
]
