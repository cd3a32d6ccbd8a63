"""The Estimate: frozen, travels as strict JSON, and says in words what a reader must know."""

from __future__ import annotations

import dataclasses
import json
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import proportio as pp
from proportio.estimate import SCHEMA, Diagnostics

RNG = np.random.default_rng(4)
Y = np.repeat(["a", "b", "c"], 60)
X = RNG.normal(size=(180, 3)) + 2.0 * np.repeat([0, 1, 2], 60)[:, None] * np.array([1, -1, 0.5])
BATCH = np.concatenate([X[:30], X[-90:]])

MODELS: dict[str, Any] = {
    "RFFM": pp.RFFM(n_features=60, bandwidth=1.0),
    "softRFFM": pp.RFFM(n_features=60, bandwidth=1.0, soft=True),
    "KMM": pp.KMM("energy"),
    "softBBSE": pp.BBSE(cv=3, soft=True),
    "AutoDFM": pp.AutoDFM(n_features=40, cv=3),
    "DFM": pp.DFM(pp.features.Histogram(bins=6)),
}


@pytest.fixture(scope="module")
def estimates() -> dict[str, pp.Estimate]:
    return {name: model.fit(X, Y).estimate(BATCH) for name, model in MODELS.items()}


@pytest.fixture(scope="module", params=list(MODELS))
def est(request: pytest.FixtureRequest, estimates: dict[str, pp.Estimate]) -> pp.Estimate:
    return estimates[request.param]


def bare(**changes: Any) -> pp.Estimate:
    given = {"source_prior": np.array([0.5, 0.5]), "counts": [10, 10], "n_target": 1234, **changes}
    return pp.Estimate.of(given.pop("classes", ("a", "b")), given.pop("proportions", np.array([0.25, 0.75])), **given)


def diagnostics(**changes: Any) -> Diagnostics:
    return Diagnostics(
        **{
            **dict.fromkeys(("delta_min", "lambda_min", "residual", "kkt"), 0.1),
            **changes,
            **{k: changes.get(k) for k in ("bandwidth", "n_features", "bound")},
        }
    )


# -- the numbers ---------------------------------------------------------------------------------------------------


def test_shares_and_unknown_sum_to_one(est: pp.Estimate) -> None:
    assert abs(est.proportions.sum() + est.unknown - 1) < 1e-12
    assert (est.proportions >= 0).all() and 0 <= est.unknown <= 1


def test_weights_are_shares_over_the_source_prior(est: pp.Estimate) -> None:
    np.testing.assert_allclose(est.weights, est.proportions / est.source_prior, rtol=1e-15)
    np.testing.assert_allclose(est.source_prior, 1 / 3, rtol=1e-15)
    assert est.counts.tolist() == [60, 60, 60]


def test_only_a_soft_method_leaves_something_unknown(estimates: dict[str, pp.Estimate]) -> None:
    for name, est in estimates.items():
        assert est.soft == (name.startswith("soft") or name == "AutoDFM")
        assert est.soft or est.unknown == 0.0


def test_method_names_itself(estimates: dict[str, pp.Estimate]) -> None:
    for name, est in estimates.items():
        assert est.method == name


def test_predict_is_the_shares_of_the_estimate_in_an_array_of_its_own() -> None:
    model = MODELS["RFFM"].fit(X, Y)
    shares = model.predict(BATCH)
    assert np.array_equal(shares, model.estimate(BATCH).proportions)
    shares[0] = 5.0  # the caller's to change


def test_source_prior_counts_weights() -> None:
    w = np.where(Y == "a", 4.0, 1.0)
    est = pp.RFFM(n_features=60, bandwidth=1.0).fit(X, Y, sample_weight=w).estimate(BATCH)
    np.testing.assert_allclose(est.source_prior, [4 / 6, 1 / 6, 1 / 6])
    assert est.counts.tolist() == [60, 60, 60]


def test_dropped_rows_of_a_batch_are_counted() -> None:
    holes = BATCH.copy()
    holes[:7, 1] = np.nan
    model = pp.RFFM(n_features=60, bandwidth=1.0, on_missing="drop").fit(X, Y)
    for source in (holes, iter([holes[:3], holes[3:]])):
        est = model.estimate(source)
        assert (est.dropped, est.n_target) == (7, len(BATCH) - 7)
        assert f"{len(BATCH) - 7} rows (7 incomplete rows dropped)" in repr(est)
    np.testing.assert_array_equal(model.predict(holes), model.predict(holes[7:]))


def test_diagnostics_certify_the_optimum(est: pp.Estimate) -> None:
    d = est.diagnostics
    assert 0 <= d.kkt < 1e-9 and d.residual >= 0
    assert d.delta_min > 0 and 0 < d.lambda_min <= d.delta_min * (1 + 1e-12)  # an eigenvalue solver's rounding
    assert d.status == "ok" and d.dependent == () and d.warnings == ()


def test_versions_and_timings_are_recorded(est: pp.Estimate) -> None:
    assert est.versions["proportio"] and {"numpy", "scikit-learn", "numba", "daqp"} <= set(est.versions)
    assert {"fit", "sketch", "solve"} <= set(est.timings) and min(est.timings.values()) >= 0


# -- frozen --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(pp.Estimate)])
def test_no_field_can_be_set(est: pp.Estimate, field: str) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(est, field, None)


@pytest.mark.parametrize("field", ["classes", "proportions", "weights", "source_prior", "counts"])
def test_no_array_can_be_written(est: pp.Estimate, field: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(est, field)[0] = 0


def test_diagnostics_are_frozen(est: pp.Estimate) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        est.diagnostics.status = "fine"  # type: ignore[misc]


def test_the_arrays_are_copies_of_what_was_given() -> None:
    shares = np.array([0.25, 0.75])
    est = bare(proportions=shares)
    shares[0] = 9.0
    assert est.proportions.tolist() == [0.25, 0.75]


# -- JSON ----------------------------------------------------------------------------------------------------------


def identical(a: pp.Estimate, b: pp.Estimate) -> None:
    for field in dataclasses.fields(pp.Estimate):
        mine, other = getattr(a, field.name), getattr(b, field.name)
        if isinstance(mine, np.ndarray):
            assert mine.dtype == other.dtype, field.name
            np.testing.assert_array_equal(mine, other)
        elif field.name == "blocks":
            continue  # they stay where the sketches are; what they said about the noise travels
        elif field.name == "diagnostics":
            np.testing.assert_equal(dataclasses.asdict(mine), dataclasses.asdict(other))  # NaN equals NaN
        else:
            assert mine == other and type(mine) is type(other), field.name

    if a.blocks is not None or b.blocks is not None:
        assert a.evidence.to_dict() == b.evidence.to_dict() and a.residual.to_dict() == b.residual.to_dict()


def strict(text: str) -> Any:
    def reject(token: str) -> Any:
        raise AssertionError(token)

    return json.loads(text, parse_constant=reject)


def test_json_brings_back_every_field(est: pp.Estimate) -> None:
    identical(pp.Estimate.from_json(est.to_json()), est)
    identical(pp.Estimate.from_dict(est.to_dict()), est)
    identical(pp.Estimate.from_json(est.to_json(indent=2).encode()), est)


def test_nan_diagnostics_travel_as_null() -> None:
    est = bare()
    assert np.isnan(est.diagnostics.delta_min)
    data = strict(est.to_json())
    assert data["diagnostics"]["delta_min"] is None
    identical(pp.Estimate.from_json(est.to_json()), est)


def test_infinite_and_nan_numbers_stay_out_of_the_json() -> None:
    est = bare(source_prior=np.array([0.0, 1.0]), diagnostics=diagnostics(kkt=np.inf, residual=np.nan))
    data = strict(est.to_json())
    assert data["weights"] == [None, 0.75] and data["diagnostics"]["kkt"] is None
    assert np.isnan(pp.Estimate.from_json(est.to_json()).weights[0])


def test_dependent_classes_travel_as_labels() -> None:
    est = bare(diagnostics=diagnostics(status="dependent", dependent=("a", "b"), warnings=("one", "two")))
    identical(pp.Estimate.from_json(est.to_json()), est)


@pytest.mark.parametrize("classes", [(1, 2), (True, False), ("α", "<b>"), (1.0, 2.0)])
def test_labels_of_every_type_travel(classes: tuple[Any, ...]) -> None:
    est = bare(classes=classes)
    identical(pp.Estimate.from_json(est.to_json()), est)


@settings(max_examples=50, deadline=None)
@given(shares=st.lists(st.floats(0, 1), min_size=1, max_size=6), soft=st.booleans(), n=st.integers(0, 2**53))
def test_any_numbers_come_back_to_the_last_bit(shares: list[float], soft: bool, n: int) -> None:
    c = len(shares)
    est = bare(
        classes=range(c),
        proportions=np.array(shares),
        source_prior=np.full(c, 1 / c),
        counts=[1] * c,
        soft=soft,
        n_target=n,
    )
    strict(est.to_json())
    identical(pp.Estimate.from_json(est.to_json()), est)


def test_the_dict_holds_plain_python_only(est: pp.Estimate) -> None:
    def check(value: Any) -> None:
        assert type(value) in (dict, list, str, int, float, bool, type(None)), type(value)
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(part)

    check(est.to_dict())
    assert est.to_dict()["schema"] == SCHEMA


@pytest.mark.parametrize(
    "text",
    ["", "not json", "[]", "null", "3", "{}", '{"schema": 1}', '{"schema": "one"}', "[" * 5000, b"\xff\xfe", '{"a": 1'],
)
def test_rubbish_is_refused(text: Any) -> None:
    with pytest.raises(pp.FileError, match=r"not JSON|not the JSON of an estimate"):
        pp.Estimate.from_json(text)


@pytest.mark.parametrize(
    "field", ["method", "classes", "proportions", "source_prior", "counts", "diagnostics", "n_target"]
)
def test_an_estimate_without_a_field_is_refused(field: str) -> None:
    data = bare().to_dict()
    data.pop(field)
    with pytest.raises(pp.FileError, match=f"not the JSON of an estimate.*{field}"):
        pp.Estimate.from_dict(data)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("proportions", ["x", "y"]),
        ("diagnostics", 3),
        ("n_target", None),
        ("timings", 7),
        ("proportions", [0.1, 0.2, 0.7]),
    ],
)
def test_an_estimate_with_a_spoiled_field_is_refused(field: str, value: Any) -> None:
    with pytest.raises(pp.FileError, match="not the JSON of an estimate"):
        pp.Estimate.from_dict({**bare().to_dict(), field: value})


def test_an_estimate_of_a_newer_schema_says_to_upgrade() -> None:
    with pytest.raises(pp.FileError, match=f"schema {SCHEMA + 1}, newer than {SCHEMA}: upgrade proportio"):
        pp.Estimate.from_dict({**bare().to_dict(), "schema": SCHEMA + 1})


# -- tables and text -----------------------------------------------------------------------------------------------


def test_frame_has_a_row_a_class_and_one_for_the_unknown(est: pp.Estimate) -> None:
    frame = est.to_frame()
    assert list(frame.columns) == ["class", "proportion", "low", "high", "source_prior", "weight", "source_rows"]
    np.testing.assert_array_equal(frame[["low", "high"]].to_numpy()[:3], est.interval())
    assert frame["class"].tolist() == ["a", "b", "c", *(["(unknown)"] if est.soft else [])]
    assert abs(frame["proportion"].sum() - 1) < 1e-12
    np.testing.assert_array_equal(frame["weight"].to_numpy()[:3], est.weights)
    assert frame["source_rows"].tolist()[:3] == [60, 60, 60]


def test_repr_shows_method_rows_and_every_share(est: pp.Estimate) -> None:
    lines = repr(est).splitlines()
    assert lines[0] == f"Estimate by {est.method} of 120 rows"
    assert lines[1].split() == ["class", "share", "95%", "interval", "source"]
    for name, share, (low, high), line in zip("abc", est.proportions, est.interval(), lines[2:], strict=False):
        assert line.split()[:6] == [name, f"{share:.4f}", f"{low:.3f}", "to", f"{high:.3f}", "0.3333"]
    assert any(line.startswith("(unknown)") for line in lines) == est.soft
    assert "status" not in repr(est)


def test_an_estimate_without_evidence_is_shown_without_intervals() -> None:
    lines = repr(bare()).splitlines()
    assert lines[1].split() == ["class", "share", "source"] and lines[2].split()[:3] == ["a", "0.2500", "0.5000"]
    assert bare().to_frame()["low"].isna().all()


def test_repr_of_many_classes_is_cut() -> None:
    est = bare(classes=range(100), proportions=np.full(100, 0.01), source_prior=np.full(100, 0.01), counts=[1] * 100)
    assert len(repr(est).splitlines()) == 23
    assert repr(est).endswith("... and 80 more classes")


def test_repr_writes_thousands_apart() -> None:
    assert repr(bare()).startswith("Estimate by DFM of 1,234 rows")


def test_repr_shows_the_status_and_the_notes() -> None:
    text = repr(bare(diagnostics=diagnostics(status="merge them", warnings=("mind this",))))
    assert "status: merge them" in text and "note: mind this" in text


def test_html_escapes_what_came_from_the_data() -> None:
    est = bare(
        classes=("<b>bold</b>", "a&b"),
        method="<i>M</i>",
        diagnostics=diagnostics(status="<script>1</script>", warnings=("<u>",)),
    )
    page = est._repr_html_()
    for raw in ("<b>bold", "a&b<", "<i>M", "<script>", "<u>"):
        assert raw not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page and "a&amp;b" in page and "&lt;script&gt;" in page and "&lt;u&gt;" in page


def test_html_has_every_share(est: pp.Estimate) -> None:
    page = est._repr_html_()
    assert all(f">{share:.4f}</td>" in page for share in est.proportions)
    assert ("(unknown)" in page) == est.soft and "120 rows" in page


# -- care is called for --------------------------------------------------------------------------------------------


def test_dependent_classes_are_named_in_status_and_warning() -> None:
    X2, y2 = np.concatenate([X, X[60:120]]), np.concatenate([Y, np.repeat("b again", 60)])
    model = pp.RFFM(n_features=60, bandwidth=1.0).fit(X2, y2)
    with pytest.warns(pp.ProportioWarning, match="cannot tell b, b again apart.*Merge them"):
        est = model.estimate(BATCH)
    assert est.diagnostics.dependent == ("b", "b again")
    assert est.diagnostics.status.startswith("dependent classes: the features cannot tell b, b again apart")
    assert est.diagnostics.warnings == (est.diagnostics.status,)
    assert "status: dependent classes" in repr(est) and "cannot tell b, b again" in est._repr_html_()
    identical(pp.Estimate.from_json(est.to_json()), est)


def test_joint_share_of_dependent_classes_is_that_of_the_one() -> None:
    X2, y2 = np.concatenate([X, X[60:120]]), np.concatenate([Y, np.repeat("b again", 60)])
    plain = pp.RFFM(n_features=60, bandwidth=1.0, standardize=False).fit(X, Y).predict(BATCH)
    with pytest.warns(pp.ProportioWarning, match="dependent"):
        split = pp.RFFM(n_features=60, bandwidth=1.0, standardize=False).fit(X2, y2).predict(BATCH)
    np.testing.assert_allclose([split[0], split[1] + split[2], split[3]], plain, atol=1e-8)


def test_classes_that_differ_by_chance_only_are_called_so() -> None:
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        model = pp.RFFM(n_features=60, bandwidth=0.5).fit(rng.normal(size=(60, 3)), np.arange(60) % 3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            est = model.estimate(rng.normal(size=(50, 3)))
        found.append(est.diagnostics.status.startswith("not separated"))
        assert [str(w.message) for w in caught] == ([est.diagnostics.status] if found[-1] else [])
        assert est.diagnostics.dependent == ()
    assert sum(found) >= 10  # the smallest of two noisy eigenvalues around 0 is below 0 more often than not


def test_separated_classes_are_not_called_chance(estimates: dict[str, pp.Estimate]) -> None:
    assert {est.diagnostics.status for est in estimates.values()} == {"ok"}


def test_the_warning_points_at_the_callers_line() -> None:
    model = pp.RFFM(n_features=60, bandwidth=1.0).fit(np.concatenate([X, X]), np.concatenate([Y, np.char.add(Y, "2")]))
    with pytest.warns(pp.ProportioWarning) as caught:
        model.estimate(BATCH)
    assert caught[0].filename == __file__
