"""What users and other programs rely on: the names, the parameters and the laziness of `import proportio`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import proportio as pp

PARAMETERS = {
    "RFFM": ["n_features", "bandwidth", "soft", "positive", "random_state", "on_missing", "n_jobs", "kernel", "kind"],
    "KMM": ["kernel", "bandwidth", "soft", "positive", "random_state", "on_missing", "n_jobs"],
    "BBSE": ["classifier", "positive", "soft", "random_state", "on_missing", "n_jobs"],
    "DFM": ["features", "soft", "positive", "random_state", "on_missing", "n_jobs"],
}
METHODS = ["fit", "partial_fit", "predict", "estimate", "sketch", "save", "to_bytes"]
METHODS += ["score_unknown", "unknown_at_least", "flag_unknown"]


@pytest.mark.parametrize("name", pp.__all__)
def test_every_public_name_is_importable_and_documented(name: str) -> None:
    thing = getattr(pp, name)
    assert inspect.getdoc(thing)
    assert thing.__doc__, "a docstring of its own, not an inherited one"


@pytest.mark.parametrize("name", pp.features.__all__)
def test_every_feature_map_is_importable_and_documented(name: str) -> None:
    thing = getattr(pp.features, name)
    assert issubclass(thing, pp.features.FeatureMap)
    assert (thing.__doc__ and "Φ" in thing.__doc__) or name == "FeatureMap"


def test_star_import_gives_exactly_the_public_names() -> None:
    space: dict[str, Any] = {}
    exec("from proportio import *", space)
    assert set(space) - {"__builtins__"} == set(pp.__all__)


def test_all_is_sorted_out_and_without_doubles() -> None:
    for names in (pp.__all__, pp.features.__all__):
        assert len(names) == len(set(names))
        assert not [n for n in names if n.startswith("_")]


def test_dir_lists_the_public_names_and_the_version() -> None:
    assert dir(pp) == sorted([*pp.__all__, "__version__"])
    assert pp.__version__.count(".") == 2


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'proportio' has no attribute 'RFFN'"):
        pp.RFFN  # noqa: B018
    assert not hasattr(pp, "plot")


def test_a_name_is_the_same_object_each_time() -> None:
    assert pp.RFFM is pp.RFFM
    assert pp.features is pp.features


@pytest.mark.parametrize("name", PARAMETERS)
def test_estimators_have_the_documented_parameters(name: str) -> None:
    accepted = inspect.signature(getattr(pp, name)).parameters
    assert set(PARAMETERS[name]) <= set(accepted)
    assert next(iter(accepted)) == PARAMETERS[name][0]


@pytest.mark.parametrize("name", PARAMETERS)
@pytest.mark.parametrize("method", METHODS)
def test_estimators_have_the_documented_methods(name: str, method: str) -> None:
    assert inspect.getdoc(getattr(getattr(pp, name), method))


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("RFFM", {"n_features": 1000, "bandwidth": "auto", "soft": False, "positive": True, "random_state": 0}),
        ("KMM", {"kernel": "gaussian", "bandwidth": "auto", "soft": False}),
        ("BBSE", {"classifier": None, "positive": True, "soft": False}),
    ],
)
def test_defaults_are_the_documented_ones(name: str, defaults: dict[str, Any]) -> None:
    given = getattr(pp, name)().get_params()
    assert {k: given[k] for k in defaults} == defaults


def test_rffm_takes_its_first_three_parameters_by_position() -> None:
    model = pp.RFFM(200, 1.5, True)
    assert (model.n_features, model.bandwidth, model.soft) == (200, 1.5, True)


def test_soft_and_positive_of_dfm_and_bbse_go_by_name() -> None:
    with pytest.raises(TypeError, match="positional"):
        pp.DFM(pp.features.Histogram(), True)  # type: ignore[misc]
    with pytest.raises(TypeError, match="positional"):
        pp.BBSE(None, False)  # type: ignore[misc]


@pytest.mark.parametrize(
    "name",
    ["classes", "proportions", "unknown", "weights", "source_prior", "diagnostics", "counts", "n_target", "dropped"],
)
def test_an_estimate_has_the_documented_fields(name: str) -> None:
    assert name in pp.Estimate.__dataclass_fields__


@pytest.mark.parametrize(
    "name",
    [
        "to_dict",
        "to_json",
        "from_json",
        "to_frame",
        "interval",
        "covariance",
        "region",
        "bound",
        "label_shift_test",
        "drift_test",
    ],
)
def test_an_estimate_has_the_documented_methods(name: str) -> None:
    assert inspect.getdoc(getattr(pp.Estimate, name))


@pytest.mark.parametrize("name", ["merge", "to_bytes", "from_bytes", "save", "load"])
def test_a_sketch_has_the_documented_methods(name: str) -> None:
    assert inspect.getdoc(getattr(pp.Sketch, name))


def test_load_takes_a_path_and_what_to_supply() -> None:
    assert list(inspect.signature(pp.load).parameters) == ["path", "supply"]


@pytest.mark.parametrize("name", [n for n in pp.__all__ if n.endswith("Error")])
def test_every_error_is_a_proportio_error_and_a_builtin_one(name: str) -> None:
    error = getattr(pp, name)
    assert issubclass(error, pp.ProportioError)
    assert name == "ProportioError" or issubclass(error, (ValueError, TypeError))


def test_the_warning_can_be_silenced_alone() -> None:
    assert issubclass(pp.ProportioWarning, UserWarning)
