"""The related methods of the field, with the API of the other quantifiers: same `fit`, `predict`, `estimate` and frozen Estimate.

Each is solved to a certificate, `est.diagnostics.kkt`, and none trains a classifier on the rows that it represents.
"""

from proportio.baselines.counting import ACC, CC, PACC
from proportio.baselines.histograms import DyS, HDx, HDy
from proportio.baselines.kde import KDE
from proportio.baselines.likelihood import EM
from proportio.baselines.pearson import Pearson
from proportio.baselines.rlls import RLLS
from proportio.baselines.wasserstein import Wasserstein

__all__ = ["ACC", "CC", "EM", "KDE", "PACC", "RLLS", "DyS", "HDx", "HDy", "Pearson", "Wasserstein"]
