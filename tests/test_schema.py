"""Every JSON that is written keeps to its published schema, and a wrong one does not."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator, ValidationError

import proportio as pp
from proportio import report, schema

pytestmark = pytest.mark.filterwarnings("ignore::proportio.errors.ProportioWarning")  # small worlds

RNG = np.random.default_rng(3)
Y = np.repeat(["a", "b", "c"], 60)
X = RNG.normal(size=(180, 3)) + 2.0 * np.repeat([0, 1, 2], 60)[:, None] * np.array([1, -1, 0.5])
BATCH = np.concatenate([X[:30], X[-90:]])
MODELS: dict[str, Any] = {
    "hard": pp.RFFM(n_features=60, bandwidth=1.0),
    "soft": pp.RFFM(n_features=60, bandwidth=1.0, soft=True),
    "exact": pp.KMM("energy"),
    "one-hot": pp.BBSE(cv=3, soft=True),
    "unconstrained": pp.BBSE(cv=3, positive=False),
}


def check(data: Any, name: str) -> None:
    """Strict JSON, and of the schema."""
    Draft202012Validator(schema.load(name)).validate(json.loads(json.dumps(data, allow_nan=False)))


@pytest.fixture(scope="module")
def estimates() -> dict[str, pp.Estimate]:
    found = {name: model.fit(X, Y).estimate(BATCH) for name, model in MODELS.items()}
    twins = np.concatenate([X, X[60:120]]), np.concatenate([Y, np.repeat("b again", 60)])
    found["dependent"] = pp.RFFM(n_features=60, bandwidth=1.0).fit(*twins).estimate(BATCH)
    many = np.arange(1200) % 60
    found["many"] = pp.RFFM(n_features=30, bandwidth=1.0).fit(RNG.normal(size=(1200, 3)), many).estimate(BATCH)
    found["bare"] = pp.Estimate.of((True, False), np.array([0.25, 0.5]), source_prior=np.array([0.0, 1.0]), soft=True)
    found["few"] = pp.RFFM(n_features=20, bandwidth=1.0).fit(X[[0, 1, 60, 61]], Y[[0, 1, 60, 61]]).estimate(X[:2])
    return found


@pytest.mark.parametrize("name", schema.NAMES)
def test_every_schema_is_one(name: str) -> None:
    Draft202012Validator.check_schema(schema.load(name))


def test_every_file_of_the_package_is_offered() -> None:
    folder = Path(schema.__file__).parent
    assert sorted(p.stem for p in folder.glob("*.json")) == sorted(schema.NAMES)
    with pytest.raises(pp.InputError, match="no schema 'estimates': they are answer, bound, check"):
        schema.load("estimates")


def test_estimates_and_what_they_say_keep_to_their_schemas(estimates: dict[str, pp.Estimate]) -> None:
    for name, est in estimates.items():
        for value in (est, pp.Estimate.from_json(est.to_json())):
            check(value.to_dict(), "estimate")
            if name == "bare":
                continue
            check(value.label_shift_test().to_dict(), "label_shift_test")
            check(value.drift_test().to_dict(), "drift_test")
            if value.diagnostics.bound is not None:
                check(value.bound().to_dict(), "bound")


def test_reports_carry_what_their_schema_says(estimates: dict[str, pp.Estimate]) -> None:
    for est in (estimates[name] for name in ("hard", "soft", "many", "bare")):
        for given in (est, {"monday": est, "tuesday": est}):
            found = re.search(r'id="data">(.*?)</script>', report.page(given), re.DOTALL)
            assert found is not None
            check(json.loads(found[1]), "report")


def test_the_outcome_of_a_reproduction_keeps_to_its_schema() -> None:
    claims = json.loads((Path(__file__).resolve().parents[1] / "docs/reproduction/claims.json").read_text())
    from proportio.reproduce.claims import Verdict
    from proportio.reproduce.produce import Outcome

    verdicts = [Verdict(**claim) for claim in claims]
    outcome = Outcome(Path("out"), {"hipc": Path("out/hipc.parquet")}, [Path("t.md")], [Path("f.svg")], verdicts, 1.25)
    check(outcome.to_dict(), "reproduction")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("schema",), 1),
        (("classes",), []),
        (("unknown",), 1.5),
        (("unknown",), None),
        (("proportions", 0), "0.5"),
        (("proportions", 0), -0.1),
        (("counts", 0), 1.5),
        (("diagnostics", "status"), None),
        (("diagnostics", "surprise"), 1),
        (("evidence", "G", 0), 3.0),
        (("residual", "T"), None),
        (("surprise",), 1),
    ],
)
def test_a_spoiled_estimate_is_refused(estimates: dict[str, pp.Estimate], place: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(estimates["soft"].to_dict())
    part: Any = data
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    with pytest.raises(ValidationError):
        check(data, "estimate")


@pytest.mark.parametrize("field", ["schema", "method", "classes", "proportions", "evidence", "diagnostics"])
def test_an_estimate_without_a_field_is_refused(estimates: dict[str, pp.Estimate], field: str) -> None:
    data = estimates["hard"].to_dict()
    data.pop(field)
    with pytest.raises(ValidationError, match=f"'{field}' is a required property"):
        check(data, "estimate")


@pytest.mark.parametrize("name", ["hard", "soft", "dependent"])
def test_an_estimate_of_the_first_schema_is_still_read(estimates: dict[str, pp.Estimate], name: str) -> None:
    est = estimates[name]
    old = est.to_dict() | {"schema": 1}
    whole = {k: getattr(est.evidence, k).tolist() for k in ("G", "covariance", "H", "basis", "blind")}
    old["evidence"] = {**old["evidence"], **whole}
    again = pp.Estimate.from_dict(old)
    assert again.to_dict() == est.to_dict()
    np.testing.assert_array_equal(again.covariance, est.covariance)


def test_a_hundred_classes_take_a_third_of_the_numbers_that_whole_matrices_would(
    estimates: dict[str, pp.Estimate],
) -> None:
    def numbers(value: Any) -> int:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return 1 if parts is None else sum(map(numbers, parts))

    e = estimates["soft"].evidence
    whole = 4 * e.c**2
    assert numbers([e.to_dict()[k] for k in ("G", "covariance", "H", "basis")]) <= whole / 2 + 1
