"""The quantifiers of the field, each in the configuration that its documentation recommends: arrays in, seconds and shares out."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

D, CHUNK = 1000, 4096

Run = Callable[[Any, Any, Any], tuple[float, float, Any]]  # X, y, T → seconds to fit, seconds to predict, shares


def timed(fit: Callable[[], Any], predict: Callable[[Any], Any]) -> tuple[float, float, Any]:
    began = time.perf_counter()
    model = fit()
    fitted = time.perf_counter()
    shares = np.asarray(predict(model), dtype=float)
    return fitted - began, time.perf_counter() - fitted, shares


def estimator(make: Callable[[int], Any]) -> Run:
    """Of a class with fit and predict."""
    return lambda X, y, T: timed(lambda: make(X.shape[1]).fit(X, y), lambda m: m.predict(T))


def by_classes(answer: Any, c: int) -> Any:
    """The shares in the order of the classes, of a dictionary or an array."""
    return [answer[i] for i in range(c)] if isinstance(answer, dict) else answer


def sigma(d: int) -> float:
    """The bandwidth of every Gaussian kernel, in standard deviations of the columns."""
    return float(np.sqrt(d / 2))


def logistic() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


def ours(name: str, **options: Any) -> Run:
    import proportio as pp

    wide = {"bandwidth": sigma} if name != "BBSE" and options.get("kernel") != "energy" else {}
    return estimator(lambda d: getattr(pp, name)(**options, **{k: f(d) for k, f in wide.items()}))


def quapy(name: str) -> Run:
    import quapy.method.aggregative as methods

    return estimator(lambda d: getattr(methods, name)(logistic()))


def mlquantify(module: str, name: str, **options: Any) -> Run:
    found = getattr(__import__(f"mlquantify.{module}", fromlist=[name]), name)

    def run(X: Any, y: Any, T: Any) -> tuple[float, float, Any]:
        kernel = name == "MMD_RKHS"
        more = {"gamma": 1 / (2 * sigma(X.shape[1]) ** 2)} if kernel else {"estimator": logistic()}
        center, scale = (X.mean(axis=0), X.std(axis=0)) if kernel else (0.0, 1.0)
        return timed(
            lambda: found(**more, **options).fit((X - center) / scale, y),
            lambda m: by_classes(m.predict((T - center) / scale), len(np.unique(y))),
        )

    return run


def quantificationlib(module: str, name: str) -> Run:
    found = getattr(__import__(f"quantificationlib.multiclass.{module}", fromlist=[name]), name)
    if name == "EDX":
        return estimator(lambda d: found())

    def run(X: Any, y: Any, T: Any) -> tuple[float, float, Any]:
        return timed(
            lambda: found(estimator_train=logistic(), estimator_test=logistic()).fit(X, y), lambda m: m.predict(T)
        )

    return run


def abstention() -> Run:
    from abstention.label_shift import EMImbalanceAdapter

    def run(X: Any, y: Any, T: Any) -> tuple[float, float, Any]:
        def shares(model: Any) -> Any:
            posteriors, prior = model.predict_proba(T), np.bincount(y) / len(y)
            adapt = EMImbalanceAdapter(estimate_priors_from_valid_labels=True)
            weights = adapt(posteriors, model.predict_proba(X), np.eye(len(prior))[y]).multipliers
            return np.asarray(weights) * prior

        return timed(lambda: logistic().fit(X, y), shares)

    return run


def matched(means: Any, target: Any) -> Any:
    """argmin over the simplex of ‖means α − target‖²: the programme that the bare tensor libraries leave to others."""
    from proportio.gram import GramSystem
    from proportio.simplex import solve

    return solve(GramSystem(means.T @ means, means.T @ target, float(target @ target)), soft=False).alpha


def torch_fourier() -> Run:
    import torch

    def run(X: Any, y: Any, T: Any) -> tuple[float, float, Any]:
        center, scale = X.mean(axis=0), X.std(axis=0)
        torch.manual_seed(0)
        W = torch.randn(X.shape[1], D // 2) / sigma(X.shape[1])
        c = int(y.max()) + 1

        def means(rows: Any, labels: Any, groups: int) -> Any:
            total = torch.zeros(groups, D, dtype=torch.float64)
            for i in range(0, len(rows), CHUNK):
                t = torch.from_numpy((rows[i : i + CHUNK] - center) / scale) @ W
                total.index_add_(0, labels[i : i + CHUNK], torch.cat([t.cos(), t.sin()], 1).double())
            return (total / torch.bincount(labels, minlength=groups)[:, None]).numpy().T * np.sqrt(2 / D)

        return timed(
            lambda: means(X, torch.from_numpy(y), c),
            lambda B: matched(B, means(T, torch.zeros(len(T), dtype=torch.int64), 1)[:, 0]),
        )

    return run


def keops_gaussian() -> Run:
    import torch
    from pykeops.torch import LazyTensor

    from proportio.gram import GramSystem
    from proportio.simplex import solve

    def run(X: Any, y: Any, T: Any) -> tuple[float, float, Any]:
        center, scale = X.mean(axis=0), X.std(axis=0) * sigma(X.shape[1])
        c = int(y.max()) + 1
        order = np.argsort(y, kind="stable")
        counts = np.bincount(y)

        def sums(a: Any, b: Any, of_b: Any) -> Any:
            """Σ of k(x, ·) over each class of b, for every x: one-hot weights on the right."""
            x, z = LazyTensor(torch.from_numpy(a)[:, None, :]), LazyTensor(torch.from_numpy(b)[None, :, :])
            return ((-0.5 * ((x - z) ** 2).sum(-1)).exp() @ torch.from_numpy(of_b)).numpy().astype(float)

        def fit() -> Any:
            rows = np.ascontiguousarray(((X - center) / scale)[order], dtype=np.float32)
            share = (np.eye(c)[y[order]] / counts).astype(np.float32)
            return rows, share, share.T @ sums(rows, rows, share)

        def predict(model: Any) -> Any:
            rows, share, G = model
            batch = np.ascontiguousarray((T - center) / scale, dtype=np.float32)
            return solve(GramSystem(G, sums(batch, rows, share).mean(axis=0), 1.0), soft=False).alpha

        return timed(fit, predict)

    return run


def pot() -> Run:
    import ot

    def run(X: Any, y: Any, T: Any) -> tuple[float, float, Any]:
        center, scale = X.mean(axis=0), X.std(axis=0)
        made = ot.da.JCPOTTransport(reg_e=1.0, max_iter=100)
        a, b = ((v - center) / scale for v in (X, T))
        return timed(lambda: made.fit(Xs=[a[::2], a[1::2]], ys=[y[::2], y[1::2]], Xt=b), lambda m: m.proportions_[0])

    return run


METHODS: dict[str, tuple[Callable[[], Run], str]] = {
    "proportio RFFM": (lambda: ours("RFFM", n_features=D), "D = 1,000, orthogonal frequencies"),
    "proportio BBSE": (lambda: ours("BBSE"), "logistic regression, cross-fitted in 5 folds"),
    "proportio KMM Energy": (
        lambda: ours("KMM", kernel="energy"),
        "exact where that is cheap, else sliced, tolerance 1%",
    ),
    "proportio KMM Gaussian": (lambda: ours("KMM", kernel="gaussian"), "exact pair sums"),
    "QuaPy EMQ": (lambda: quapy("EMQ"), "logistic regression, no cross-validation (its default)"),
    "QuaPy ACC": (lambda: quapy("ACC"), "logistic regression in 5 folds (its default)"),
    "QuaPy KDEyML": (lambda: quapy("KDEyML"), "logistic regression in 5 folds, bandwidth 0.1 (its defaults)"),
    "mlquantify EMQ": (lambda: mlquantify("likelihood", "EMQ"), "logistic regression"),
    "mlquantify MMD_RKHS": (
        lambda: mlquantify("matching", "MMD_RKHS"),
        "the same σ; in this version it matches the means of the columns and evaluates no kernel",
    ),
    "quantificationlib EDX": (lambda: quantificationlib("energy", "EDX"), "Energy distance on the rows"),
    "quantificationlib EM": (lambda: quantificationlib("em", "EM"), "logistic regression"),
    "abstention EM": (abstention, "logistic regression, no calibration"),
    "PyTorch Fourier": (torch_fourier, "the same features in chunks of 4,096 rows, our programme"),
    "PyKeOps Gaussian": (keops_gaussian, "exact sums of one-hot weights, float32, our programme"),
    "POT JCPOT": (
        pot,
        "entropic, reg 1, at most 100 steps, an n × m plan; it needs two sources, here halves of the reference",
    ),
}
