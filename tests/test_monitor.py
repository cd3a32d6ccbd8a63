"""The monitor: alarms that hold over whole streams, a state that survives a kill, and what it hands to other systems."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import proportio as pp
from proportio import schema
from proportio.monitor import MonitorStep
from proportio.monitor.functionals import Functionals

ROOT = Path(__file__).resolve().parents[1]
CENTRES = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0], [4.0, 4.0]])
SHARES = np.array([0.5, 0.3, 0.2, 0.0])


def draw(rng: np.random.Generator, n: int, shares: Any = SHARES) -> tuple[Any, Any]:
    """Rows and labels of three classes and a contaminant."""
    y = rng.choice(4, n, p=shares)
    return rng.normal(size=(n, 2)) + CENTRES[y], y


def fitted(seed: int, n: int = 4000) -> pp.RFFM:
    X, y = draw(np.random.default_rng(seed), n)
    return pp.RFFM(n_features=64, bandwidth=1.5, random_state=seed).fit(X, np.array(["a", "b", 'c "\\'])[y])


@pytest.fixture(scope="module")
def model() -> pp.RFFM:
    return fitted(0)


def run(
    monitor: pp.Monitor, seed: int, batches: int, size: int = 200, shares: Any = None, first: int = 0
) -> list[MonitorStep]:
    rng = np.random.default_rng(seed)
    return [
        monitor.update(draw(rng, size, SHARES if shares is None else shares(rng))[0], batch_id=first + t)
        for t in range(batches)
    ]


# -- alarms ----------------------------------------------------------------------------------------------------------


def test_streams_without_change_raise_hardly_an_alarm() -> None:
    raised = 0
    for seed in range(15):
        monitor = pp.Monitor(fitted(seed, 1000))
        rng = np.random.default_rng([seed, 1])
        for _ in range(60):
            X = draw(rng, 100)[0]
            monitor._watch(monitor.functionals.of_rows(monitor.model.features_.embed(X), monitor._guess))
        raised += bool(monitor.alarms)
    assert raised <= 3  # of 15 at 0.05, more has a chance of 0.005


def test_wandering_shares_are_drift_and_not_broken_label_shift(model: pp.RFFM) -> None:
    monitor = pp.Monitor(model)
    run(monitor, 1, 60, shares=lambda rng: np.append(rng.dirichlet([1, 2, 6]), 0))
    assert monitor.alarms == ("drift",)


def test_contamination_breaks_label_shift_and_says_since_when(model: pp.RFFM) -> None:
    monitor = pp.Monitor(model)
    run(monitor, 2, 25, size=500)
    assert monitor.alarms == ()
    steps = run(monitor, 3, 25, size=500, shares=lambda _: np.append(0.8 * SHARES[:3], 0.2), first=25)
    assert "label_shift" in monitor.alarms
    first = next(s for s in steps if "label_shift" in s.alarms)
    assert first.label_shift > 1 and first.since["label_shift"] >= 18
    assert "label_shift" in steps[-1].alarms  # it stays raised


def test_moved_shares_are_seen_soon_after_a_late_change(model: pp.RFFM) -> None:
    monitor = pp.Monitor(model)
    run(monitor, 4, 100)
    steps = run(monitor, 5, 60, shares=lambda _: np.array([0.25, 0.3, 0.45, 0]), first=100)
    first = next(s for s in steps if "drift" in s.alarms)
    assert first.batch <= 140 and first.since["drift"] >= 75


def test_sketches_tell_less_than_rows_and_the_same_shares(model: pp.RFFM) -> None:
    rows, sketches = pp.Monitor(model), pp.Monitor(model)
    rng = np.random.default_rng(6)
    for _ in range(5):
        X = draw(rng, 300)[0]
        a, b = rows.update(X), sketches.update(model.sketch(X))
        assert a.proportions == b.proportions and a.low == b.low
    np.testing.assert_allclose(rows.capital.total, sketches.capital.total, rtol=1e-4)
    assert (rows.capital.radius(0.05) <= sketches.capital.radius(0.05)).all()


def test_a_stream_of_tables_is_their_concatenation(model: pp.RFFM) -> None:
    X = draw(np.random.default_rng(7), 300)[0]
    whole, parts = pp.Monitor(model), pp.Monitor(model)
    a, b = whole.update(X), parts.update(iter([X[:100], X[100:110], X[110:]]))
    np.testing.assert_allclose(a.proportions, b.proportions, atol=1e-10)
    np.testing.assert_allclose(whole.capital.paid, parts.capital.paid, rtol=1e-10)


# -- the mathematics -------------------------------------------------------------------------------------------------


def test_the_intervals_of_the_reference_hold_together() -> None:
    """40 references at level 0.2: all intervals at once fail in at most a share of 0.2 + 3 Monte Carlo errors."""
    y = np.repeat(np.arange(3), 20_000)
    X = np.random.default_rng(0).normal(size=(60_000, 2)) + CENTRES[y]
    failed = 0
    for seed in range(40):
        m = fitted(seed, 600)
        f = Functionals.of(m.sketch_, 1.0, 0.2, "sampled", "t")
        values = (m.features_.embed(X) @ f.W + f.reach) / (2 * f.reach)
        truth = np.array([values[y == i].mean(axis=0) for i in range(3)])
        whole = SHARES[:3] @ truth
        held = (truth >= f.l).all() and (truth <= f.u).all() and (whole >= f.low).all() and (whole <= f.high).all()
        failed += not held
    assert failed / 40 <= 0.2 + 3 * np.sqrt(0.2 * 0.8 / 40)


def test_hoeffding_s_intervals_have_their_closed_form(model: pp.RFFM) -> None:
    f = Functionals.of(model.sketch_, 1.0, 0.1, "fixed", "hoeffding")
    rows = model.sketch_.tally.rows[:, np.arange(64) % 4 > 0].sum(axis=1)
    radius = np.sqrt(np.log(2 * 4 * f.W.shape[1] / 0.1) / 2 / rows)
    np.testing.assert_allclose((f.u - f.l)[:, 0], 2 * radius, rtol=1e-12)


def test_the_programme_finds_the_best_shares(model: pp.RFFM) -> None:
    f = pp.Monitor(model).functionals
    rng = np.random.default_rng(0)
    grid = np.array([(a, b, 1 - a - b) for a in np.linspace(0, 1, 201) for b in np.linspace(0, 1, 201) if a + b <= 1])
    for _ in range(10):
        mean, radius = rng.random(f.W.shape[1]), rng.uniform(0.05, 0.3, f.W.shape[1])
        value, alpha = f.best(mean, radius)
        by_hand = min(f.misfit(a, mean, radius) for a in grid[::7])
        assert value <= by_hand + 1e-9
        assert abs(alpha.sum() - 1) < 1e-9 and f.misfit(alpha, mean, radius) == pytest.approx(value)
        near = grid[np.argmin(np.abs(grid - alpha).sum(axis=1))]
        assert f.misfit(near, mean, radius) >= value - 1e-9


def test_under_label_shift_the_classes_expectations_mix(model: pp.RFFM) -> None:
    f = pp.Monitor(model).functionals
    X, y = draw(np.random.default_rng(9), 4000)
    values = model.features_.embed(X) @ f.W
    mix = sum((y == i).mean() * values[y == i].mean(axis=0) for i in range(3))
    np.testing.assert_allclose(values.mean(axis=0), mix, atol=1e-12)


# -- batches, once each ----------------------------------------------------------------------------------------------


def test_a_batch_is_counted_once(model: pp.RFFM) -> None:
    monitor = pp.Monitor(model)
    X = draw(np.random.default_rng(0), 100)[0]
    monitor.update(X, batch_id="monday")
    with pytest.raises(pp.InputError, match="batch 'monday' was added before: skip it"):
        monitor.update(X, batch_id="monday")
    assert monitor.batches == 1 and "monday" in monitor and "tuesday" not in monitor
    monitor.update(X)
    monitor.update(X)
    assert monitor.batches == 3


def test_a_bad_batch_leaves_no_trace(model: pp.RFFM) -> None:
    monitor = pp.Monitor(model)
    with pytest.raises(pp.InputError):
        monitor.update([[np.nan, 1.0]], batch_id="bad")
    with pytest.raises(pp.MismatchError, match="another model"):
        monitor.update(fitted(5).sketch([[1.0, 2.0]]))
    with pytest.raises(pp.MismatchError, match="without sample_weight"):
        monitor.update(model.sketch([[1.0, 2.0]], sample_weight=[2.0]))
    assert monitor.batches == 0 and "bad" not in monitor and monitor.history == ()


def test_a_resumed_monitor_goes_on_to_the_last_bit(model: pp.RFFM, tmp_path: Path) -> None:
    path = tmp_path / "state"
    whole = pp.Monitor(model, keep=25)
    run(whole, 0, 20)
    whole.save(path)
    again = pp.Monitor.load(path, model)
    assert again.history == whole.history and again.batches == 20 and 3 in again and again.keep == 25
    for monitor in (whole, again):
        run(monitor, 1, 12, shares=lambda _: np.array([0.2, 0.2, 0.3, 0.3]), first=20)
    assert again.history == whole.history and len(whole.history) == 25
    np.testing.assert_array_equal(again.capital.paid, whole.capital.paid)
    assert again.alarms == whole.alarms != ()


def test_a_state_that_does_not_fit_is_refused(model: pp.RFFM, tmp_path: Path) -> None:
    path = tmp_path / "state"
    pp.Monitor(model).save(path)
    with pytest.raises(pp.MismatchError, match="another model's monitor"):
        pp.Monitor.load(path, fitted(3))
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(pp.FileError, match="truncated"):
        pp.Monitor.load(path, model)
    model.save(path)
    with pytest.raises(pp.FileError, match="holds a model, but a monitor was asked for"):
        pp.Monitor.load(path, model)
    with pytest.raises(pp.FileError, match="cannot be read"):
        pp.Monitor.load(tmp_path / "nothing", model)


def test_the_state_stays_small(model: pp.RFFM, tmp_path: Path) -> None:
    monitor = pp.Monitor(model, keep=5)
    sizes = []
    for t in range(600):
        X = draw(np.random.default_rng(t), 4)[0]
        monitor._watch(monitor.functionals.of_rows(model.features_.embed(X), monitor._guess))
        if t in (299, 599):
            monitor.save(tmp_path / "state")
            sizes.append((tmp_path / "state").stat().st_size)
    assert sizes[1] < 1.2 * sizes[0] and len(monitor.capital.start) < 50


def test_killed_again_and_again_no_batch_is_lost_or_counted_twice() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks/monitor.py"), "--only", "kills", "--kills", "5"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed 5 times" in done.stdout and "the same to the last bit" in done.stdout


# -- for others ------------------------------------------------------------------------------------------------------


def test_steps_keep_to_their_schema_and_come_back(model: pp.RFFM) -> None:
    monitor = pp.Monitor(model)
    steps = run(monitor, 0, 3) + run(monitor, 1, 30, shares=lambda _: np.array([0.1, 0.1, 0.4, 0.4]), first=3)
    assert steps[-1].alarms
    for step in steps:
        data = json.loads(json.dumps(step.to_dict(), allow_nan=False))
        Draft202012Validator(schema.load("monitor_step")).validate(data)
        assert MonitorStep.from_dict(data) == step


def test_the_frame_has_a_row_a_batch_and_class(model: pp.RFFM) -> None:
    monitor = pp.Monitor(model)
    steps = run(monitor, 0, 4)
    frame = monitor.to_frame()
    assert len(frame) == 12 and frame["class"].tolist()[:3] == model.classes_.tolist()
    np.testing.assert_array_equal(frame["proportion"].to_numpy().reshape(4, 3), [s.proportions for s in steps])
    assert frame["batch_id"].tolist()[::3] == ["0", "1", "2", "3"]


def test_prometheus_reads_every_line(model: pp.RFFM, tmp_path: Path) -> None:
    monitor = pp.Monitor(model)
    with pytest.raises(pp.InputError, match="no batch yet"):
        monitor.write_prometheus(tmp_path / "metrics.prom")
    step = run(monitor, 0, 2)[-1]
    monitor.write_prometheus(tmp_path / "metrics.prom")
    text = (tmp_path / "metrics.prom").read_text()
    sample = re.compile(r'^([a-z_]+)(?:\{([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"\})? (-?\d[\d.e+-]*|NaN|[+-]Inf)$')
    values: dict[tuple[str, str | None], float] = {}
    declared = set()
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            declared.add(line.split()[2])
            assert line.split()[3] in ("gauge", "counter")
        elif not line.startswith("# HELP "):
            found = sample.match(line)
            assert found is not None and found[1] in declared, line
            values[found[1], found[3]] = float(found[4])
    assert values["proportio_share", "a"] == step.proportions[0]
    assert values["proportio_share", 'c \\"\\\\'] == step.proportions[2]
    assert values["proportio_batches_total", None] == 2
    assert values["proportio_alarm", "drift"] == 0


def test_mlflow_gets_the_numbers(model: pp.RFFM, monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def log_metrics(self, metrics: dict[str, float], step: int) -> None:
            self.got = metrics, step

    monitor, client = pp.Monitor(model), Client()
    step = run(monitor, 0, 1)[0]
    monitor.log_mlflow(client)
    metrics, number = client.got
    assert number == 1 and metrics["share/a"] == step.proportions[0] and metrics["alarm/drift"] == 0
    assert all(re.fullmatch(r"[\w\-. /]+", name) and np.isfinite(v) for name, v in metrics.items())
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match=r"needs mlflow: pip install 'proportio\[mlflow\]'"):
        monitor.log_mlflow()


def test_models_that_cannot_be_watched_say_why() -> None:
    X, y = draw(np.random.default_rng(0), 200)
    with pytest.raises(pp.BoundError, match="use RFFM or BBSE"):
        pp.Monitor(pp.KMM(bandwidth=1.0).fit(X, y))
    with pytest.raises(pp.InputError, match="class 0, 1 has too few rows"):
        pp.Monitor(pp.RFFM(n_features=8, bandwidth=1.0).fit(X[:4], [0, 0, 1, 1]))
    with pytest.raises(pp.NotFittedError):
        pp.Monitor(pp.RFFM())
    good = fitted(0, 300)
    for wrong in ({"level": 0}, {"source": "both"}, {"noise": "none"}, {"keep": 0}):
        with pytest.raises(pp.InputError):
            pp.Monitor(good, **wrong)


def test_decisions_of_a_classifier_are_watched_too() -> None:
    rng = np.random.default_rng(0)
    X, y = draw(rng, 2000)
    monitor = pp.Monitor(pp.BBSE(cv=3).fit(X, y))
    run(monitor, 0, 30)
    assert monitor.alarms == ()
    run(monitor, 1, 60, shares=lambda _: np.array([0.1, 0.2, 0.7, 0]), first=30)
    assert monitor.alarms == ("drift",)
