"""Both ways between proportio and QuaPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import proportio as pp
from proportio import evaluation
from proportio.evaluation.quapy import from_quapy, to_quapy

pytest.importorskip("quapy")
import quapy as qp
from quapy.data import LabelledCollection
from quapy.method.aggregative import EMQ, PACC
from quapy.model_selection import GridSearchQ
from quapy.protocol import APP, NPP, UPP
from sklearn.linear_model import LogisticRegression

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs

RNG = np.random.default_rng(0)
Y = RNG.permutation(np.repeat([0, 1, 2], [300, 200, 150]))
X = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])[Y] + RNG.normal(size=(650, 2))
TEST = LabelledCollection(X[300:], Y[300:])
MODELS = {
    "RFFM": pp.RFFM(100, 1.0),
    "softRFFM": pp.RFFM(100, 1.0, soft=True),
    "EM": pp.baselines.EM(cv=3),
    "HDx": pp.baselines.HDx(bins=8),
}


@pytest.mark.parametrize("protocol", [APP, NPP, UPP])
@pytest.mark.parametrize("name", MODELS)
def test_their_protocol_runner_reproduces_our_numbers(name: str, protocol: Any) -> None:
    more = {"n_prevalences": 4} if protocol is APP else {}
    runner = protocol(TEST, sample_size=60, repeats=5, random_state=0, **more)
    model = to_quapy(MODELS[name]).fit(X[:300], Y[:300])
    true, estimated = qp.evaluation.prediction(model, runner)
    for (rows, prevalence), p, q in zip(runner(), true, estimated, strict=True):
        ours = MODELS[name].predict(rows)
        np.testing.assert_allclose(q, ours / ours.sum(), atol=1e-12)
        np.testing.assert_allclose(p, prevalence)
    report = qp.evaluation.evaluation_report(model, runner, error_metrics=["mae"])
    np.testing.assert_allclose(report["mae"], evaluation.measure("ae", true, estimated, 60), atol=1e-12)


def test_their_model_selection_accepts_ours() -> None:
    widths = [0.02, 1.0]
    protocol = UPP(TEST, sample_size=60, repeats=10, random_state=0)
    search = GridSearchQ(
        to_quapy(pp.RFFM(100)), {"bandwidth": widths}, protocol=protocol, error="mae", raise_errors=True
    )
    search.fit(X[:300], Y[:300])
    errors = []
    for width in widths:
        model = pp.RFFM(100, bandwidth=width).fit(X[:300], Y[:300])
        errors.append(np.mean([np.abs(model.predict(rows) - p).mean() for rows, p in protocol()]))
    assert search.best_params_ == {"bandwidth": widths[int(np.argmin(errors))]}
    assert search.best_score_ == pytest.approx(min(errors))


def test_our_compare_accepts_theirs_with_any_labels() -> None:
    named = np.array(["cat", "dog", "eel"])[Y]
    methods = {
        "theirs": from_quapy(PACC(LogisticRegression())),
        "EMQ": from_quapy(EMQ(LogisticRegression())),
        "ours": pp.baselines.PACC(LogisticRegression()),
    }
    frame = pp.compare(methods, X, named, protocol=evaluation.Uniform(80, 10))
    assert set(frame["error"]) == {""}
    mean = frame.groupby("method")["ae"].mean()
    assert mean.max() < 0.08 and abs(mean["theirs"] - mean["ours"]) < 0.01


@pytest.mark.parametrize("name", ["ae", "nae", "rae", "nrae", "se", "kld", "nkld"])
def test_measures_are_theirs(name: str) -> None:
    true, estimated = RNG.dirichlet(np.ones(4), 20), RNG.dirichlet(np.ones(4), 20)
    true[0] = [0, 0, 0.5, 0.5]
    theirs = getattr(qp.error, name)
    more = {"eps": 1 / 200} if name in ("rae", "nrae", "kld", "nkld") else {}
    np.testing.assert_allclose(
        evaluation.measure(name, true, estimated, 100), theirs(true, estimated, **more), atol=1e-12
    )


def test_the_match_distance_is_theirs() -> None:
    true, estimated = RNG.dirichlet(np.ones(4)), RNG.dirichlet(np.ones(4))
    assert evaluation.measure("nmd", true, estimated, 10) == pytest.approx(float(qp.error.md(true, estimated)) / 3)
