"""The methods of the study, each a name and how it is made; those with a classifier share one, plain or tuned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from proportio.auto import AutoDFM
from proportio.baselines import ACC, CC, EM, KDE, PACC, RLLS, DyS, HDx, HDy, Pearson, Wasserstein
from proportio.features import Chain, Posterior, RandomFourier
from proportio.kmm import KMM
from proportio.methods import BBSE, DFM, RFFM
from proportio.reproduce.cells import Method


def plain() -> Pipeline:
    """Logistic regression of standardised columns."""
    return Pipeline([("scale", StandardScaler()), ("model", LogisticRegression(max_iter=300))])


def tuned() -> GridSearchCV:
    """The best by log-loss in 3 folds of logistic regression at four penalties and gradient boosting."""
    grid = [
        {"model": [LogisticRegression(max_iter=300)], "model__C": [0.01, 0.1, 1.0, 10.0]},
        {"model": [HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=0)]},
    ]
    return GridSearchCV(plain(), grid, scoring="neg_log_loss", cv=3)


CLASSIFIERS: dict[str, Callable[[], Any]] = {"plain": plain, "tuned": tuned}


def with_classifier(kind: Callable[..., Any], classifier: str, random_state: int = 0, **params: Any) -> Any:
    """The method on the classifier of this name."""
    return kind(CLASSIFIERS[classifier](), random_state=random_state, **params)


# One function a method, so that a plan can name it and another process import it.


def cc(random_state: int = 0, classifier: str = "plain") -> Any:
    """Classify and count."""
    return with_classifier(CC, classifier, random_state)


def acc(random_state: int = 0, classifier: str = "plain") -> Any:
    """Adjusted count, BBSE+."""
    return with_classifier(ACC, classifier, random_state)


def pacc(random_state: int = 0, classifier: str = "plain") -> Any:
    """Probabilistic adjusted count."""
    return with_classifier(PACC, classifier, random_state)


def soft_bbse(random_state: int = 0, classifier: str = "plain") -> Any:
    """softBBSE+."""
    return with_classifier(BBSE, classifier, random_state, soft=True)


def rlls(random_state: int = 0, classifier: str = "plain", draws: int = 100) -> Any:
    """Regularised label-shift weights."""
    return with_classifier(RLLS, classifier, random_state, draws=draws)


def em(random_state: int = 0, classifier: str = "plain", calibration: str | None = None) -> Any:
    """Maximum likelihood."""
    return with_classifier(EM, classifier, random_state, calibration=calibration)


def hdy(random_state: int = 0, classifier: str = "plain") -> Any:
    """Hellinger distance of posteriors, swept."""
    return with_classifier(HDy, classifier, random_state)


def dys(random_state: int = 0, classifier: str = "plain") -> Any:
    """Topsøe divergence of posteriors."""
    return with_classifier(DyS, classifier, random_state)


def kde(random_state: int = 0, classifier: str = "plain", divergence: str = "ml", draws: int = 100) -> Any:
    """Kernel densities of posteriors."""
    return with_classifier(KDE, classifier, random_state, divergence=divergence, draws=draws)


def wasserstein(random_state: int = 0, classifier: str = "plain", draws: int = 0) -> Any:
    """Earth mover's distance of posteriors."""
    return with_classifier(Wasserstein, classifier, random_state, draws=draws)


def soft_posteriors(random_state: int = 0, classifier: str = "plain") -> Any:
    """Soft matching of random Fourier features of posteriors."""
    phi = Chain(
        Posterior(CLASSIFIERS[classifier](), random_state=random_state), RandomFourier(300, 0.1, standardize=False)
    )
    return DFM(phi, soft=True, random_state=random_state)


def default(random_state: int = 0, classifier: str = "plain") -> Any:
    """AutoDFM."""
    return with_classifier(AutoDFM, classifier, random_state)


WITH_CLASSIFIER = (
    Method("AutoDFM", default),
    Method("CC", cc),
    Method("ACC (BBSE+)", acc),
    Method("PACC", pacc),
    Method("softBBSE+", soft_bbse),
    Method("RLLS", rlls),
    Method("EM", em),
    Method("EM, temperature", em, {"calibration": "temperature"}),
    Method("EM, bcts", em, {"calibration": "bcts"}),
    Method("EM, vector", em, {"calibration": "vector"}),
    Method("HDy", hdy),
    Method("DyS", dys),
    Method("KDEy-ML", kde),
    Method("KDEy-CS", kde, {"divergence": "cs"}),
    Method("Wasserstein", wasserstein),
    Method("soft RFF of posteriors", soft_posteriors),
)
WITHOUT = (
    Method("HDx", HDx),
    Method("Pearson", Pearson, {"draws": 100}),
    Method("RFFM", RFFM),
    Method("softRFFM", RFFM, {"soft": True}),
    Method("softEnergy", KMM, {"kernel": "energy", "soft": True}),
)
