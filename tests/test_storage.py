"""Files: every kind of model comes back bit for bit, damage is always noticed, and writing is all or nothing."""

from __future__ import annotations

import json
import os
import pickletools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import proportio as pp
from proportio import storage
from proportio.features import Chain, Function, Histogram, OneHot, Posterior, RandomFourier, Stack
from proportio.models import from_bytes

RNG = np.random.default_rng(3)
Y = np.arange(90) % 3
X = RNG.normal(size=(90, 4)) + 1.5 * Y[:, None]
BATCH = RNG.normal(size=(80, 4)) + 1.0


def squares(A: Any) -> Any:
    return np.hstack([A, A * A])


def squashed(A: Any) -> Any:
    return np.hstack([np.tanh(A), np.tanh(A - 3)])


def trees(model: Any) -> Any:
    """What `load` must be supplied with: the members of the cross-fitted classifier."""
    return [model.features_.members_]


def of_stack(model: Any) -> Any:
    return [model.features_.maps_[1].members_]


def of_chain(model: Any) -> Any:
    return [model.features_.first_.members_]


MODELS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any] | None]] = {
    **{
        f"RFFM {kind}": ((lambda kind=kind: pp.RFFM(n_features=16, bandwidth=1.0, kind=kind)), None)  # type: ignore[misc]
        for kind in ("auto", "orthogonal", "iid", "qmc", "structured", "cos-bias")
    },
    "RFFM laplace": (lambda: pp.RFFM(n_features=16, bandwidth=1.0, kernel="laplace"), None),
    "RFFM chosen bandwidth": (lambda: pp.RFFM(n_features=16), None),
    "RFFM raw columns": (lambda: pp.RFFM(n_features=16, bandwidth="median", standardize=False), None),
    "softRFFM": (lambda: pp.RFFM(n_features=16, bandwidth=1.0, soft=True), None),
    "KMM gaussian": (lambda: pp.KMM(bandwidth=1.0), None),
    "KMM laplace": (lambda: pp.KMM("laplace", bandwidth=1.0), None),
    "KMM energy": (lambda: pp.KMM("energy"), None),
    "KMM energy at an origin": (lambda: pp.KMM("energy", soft=True, origin=[0.0, 1.0, 0.0, 1.0], radius=50.0), None),
    "BBSE": (lambda: pp.BBSE(cv=3), None),
    "AutoDFM": (lambda: pp.AutoDFM(n_features=40, cv=3), None),
    "BBSE split": (lambda: pp.BBSE(cv="split", positive=False), None),
    "BBSE trees": (lambda: pp.BBSE(DecisionTreeClassifier(max_depth=3, random_state=0), cv=3), trees),
    "BBSE prefit": (
        lambda: pp.BBSE(GaussianNB().fit(X, Y), cv="prefit", soft=True),
        lambda model: model.features_.members_[0],
    ),
    "DFM histogram": (lambda: pp.DFM(Histogram(bins=5)), None),
    "DFM uniform histogram": (lambda: pp.DFM(Histogram(bins=5, strategy="uniform")), None),
    "DFM posterior": (lambda: pp.DFM(Posterior(cv=2)), None),
    "DFM fourier": (lambda: pp.DFM(RandomFourier(16, 1.0)), None),
    "DFM stack": (lambda: pp.DFM(Stack([Histogram(bins=4), OneHot(cv=2)], [2.0, 1.0])), None),
    "DFM stack of trees": (
        lambda: pp.DFM(Stack([Histogram(bins=4), OneHot(DecisionTreeClassifier(max_depth=3, random_state=0), cv=2)])),
        of_stack,
    ),
    "DFM chain": (lambda: pp.DFM(Chain(Posterior(cv=2), RandomFourier(16, 1.0))), None),
    "DFM chain of trees": (
        lambda: pp.DFM(Chain(Posterior(GaussianNB(), cv=2), RandomFourier(16, 1.0))),
        of_chain,
    ),
    "DFM callable": (lambda: pp.DFM(squares), lambda model: squares),
    "DFM bounded callable": (lambda: pp.DFM(Function(squashed, bound=3.0)), lambda model: squashed),
}
FITTED: dict[str, Any] = {}
every_model = pytest.mark.parametrize("name", MODELS)


def fitted(name: str) -> tuple[Any, Any]:
    """The fitted model, and what its file must be supplied with."""
    if name not in FITTED:
        FITTED[name] = MODELS[name][0]().fit(X, Y)
    supply = MODELS[name][1]
    return FITTED[name], None if supply is None else supply(FITTED[name])


def loaded(name: str) -> tuple[Any, Any]:
    model, supply = fitted(name)
    return model, from_bytes(model.to_bytes(), supply=supply)


# Probabilities of a logistic regression that travels as arrays: softmax(xᵀW + b) of a file and scikit-learn's own pipeline
# round differently in the last bits. Decisions (one-hot) do not.
ROUNDED = ("DFM posterior", "DFM chain")


def same_bits(name: str, a: Any, b: Any) -> bool:
    return np.allclose(a, b, rtol=1e-11, atol=1e-13) if name in ROUNDED else np.array_equal(a, b)


def listed(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def is_pickle(data: bytes) -> bool:
    """A run of pickle opcodes that opens with a protocol and ends in STOP, and says something between."""
    try:
        return data[1] <= 5 and len(list(pickletools.genops(data))) > 3
    except (ValueError, IndexError, UnicodeDecodeError, AttributeError, NotImplementedError):
        return False


# -- round trips ---------------------------------------------------------------------------------------------------


@every_model
def test_a_loaded_model_predicts_the_same_bits(name: str, tmp_path: Path) -> None:
    model, supply = fitted(name)
    model.save(tmp_path / "ref.safetensors")
    again = pp.load(tmp_path / "ref.safetensors", supply=supply)
    assert type(again) is type(model)
    assert same_bits(name, again.predict(BATCH), model.predict(BATCH))


@every_model
def test_a_loaded_model_knows_what_the_original_knew(name: str) -> None:
    model, again = loaded(name)
    mine, other = model.estimate(BATCH), again.estimate(BATCH)
    assert np.array_equal(again.classes_, model.classes_) and again.classes_.dtype == model.classes_.dtype
    if name not in ROUNDED:
        assert other.diagnostics == mine.diagnostics
    assert (other.method, other.soft, other.n_target) == (mine.method, mine.soft, mine.n_target)
    assert same_bits(name, [*other.weights, other.unknown], [*mine.weights, mine.unknown])
    assert np.array_equal(other.counts, mine.counts)
    assert same_bits(name, again.score_unknown(BATCH), model.score_unknown(BATCH))
    assert again.n_features_in_ == 4


@every_model
def test_sketches_of_the_original_and_of_the_loaded_model_add_up(name: str) -> None:
    model, again = loaded(name)
    ours, theirs = model.sketch(BATCH[:30]), again.sketch(BATCH[30:], start=30)
    for total in (ours + theirs, theirs + ours):
        np.testing.assert_allclose(again.estimate(total).proportions, model.predict(BATCH), atol=1e-8)
        assert np.array_equal(model.estimate(total).proportions, again.estimate(total).proportions)


@every_model
def test_a_model_loaded_twice_is_the_same_model(name: str) -> None:
    model, supply = fitted(name)
    once = from_bytes(model.to_bytes(), supply=supply)
    twice = from_bytes(once.to_bytes(), supply=supply)
    assert np.array_equal(twice.predict(BATCH), once.predict(BATCH))
    assert twice.sketch_.map_id == model.sketch_.map_id


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["CD4+", "naïve B", "Ω"]),
        np.array([-7, 0, 10**12]),
        np.array([1.0, 2.0, 5.0]),
        np.array([3, 4, 200], dtype=np.uint8),
    ],
    ids=["str", "int", "float", "uint8"],
)
def test_labels_of_every_type_survive(labels: Any) -> None:
    model = pp.RFFM(n_features=16, bandwidth=1.0).fit(X, labels[Y])
    again = from_bytes(model.to_bytes())
    assert np.array_equal(again.classes_, labels) and again.classes_.dtype == model.classes_.dtype
    assert again.sketch_.groups == tuple(labels.tolist())


def test_boolean_labels_survive() -> None:
    model = pp.RFFM(n_features=16, bandwidth=1.0).fit(X, Y == 1)
    again = from_bytes(model.to_bytes())
    assert again.classes_.dtype == bool and again.classes_.tolist() == [False, True]
    assert np.array_equal(again.predict(BATCH), model.predict(BATCH))


def test_column_names_survive_and_are_checked() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = pp.RFFM(n_features=16, bandwidth=1.0).fit(frame, Y)
    again = from_bytes(model.to_bytes())
    assert again.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(pp.MismatchError, match="another order"):
        again.predict(frame[["b", "a", "c", "d"]])


def test_parameters_survive() -> None:
    model = pp.RFFM(n_features=16, bandwidth=0.7, soft=True, kernel="laplace", random_state=5, on_missing="drop")
    again = from_bytes(model.fit(X, Y).to_bytes())
    assert again.get_params() == model.get_params()


def test_a_loaded_model_goes_on_learning() -> None:
    model = pp.RFFM(n_features=16, bandwidth=1.0).fit(X[:60], Y[:60])
    again = from_bytes(model.to_bytes())
    assert np.array_equal(
        again.partial_fit(X[60:], Y[60:]).predict(BATCH), model.partial_fit(X[60:], Y[60:]).predict(BATCH)
    )


# -- what must be supplied -----------------------------------------------------------------------------------------


def test_another_classifier_than_the_fitted_one_is_refused() -> None:
    model, _ = fitted("BBSE prefit")
    with pytest.raises(pp.MismatchError, match="the classifier supplied answers differently"):
        from_bytes(model.to_bytes(), supply=GaussianNB().fit(X, np.roll(Y, 1)))


def test_another_callable_than_the_fitted_one_is_refused() -> None:
    model, _ = fitted("DFM callable")
    with pytest.raises(pp.FileError, match="the callable supplied answers differently"):
        from_bytes(model.to_bytes(), supply=lambda A: np.hstack([A, A]))


@pytest.mark.parametrize("name", [n for n, (_, supply) in MODELS.items() if supply])
def test_a_model_that_carries_no_code_asks_for_it(name: str) -> None:
    model, _ = fitted(name)
    with pytest.raises(
        pp.FileError, match=r"this model needs its .*no file of ours carries code: pass it as load\(path"
    ):
        from_bytes(model.to_bytes())


@every_model
def test_a_file_holds_numbers_and_json_and_no_pickle(name: str) -> None:
    data = fitted(name)[0].to_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    json.loads(header["__metadata__"]["proportio"])
    for key, array in load_tensors(data).items():
        assert array.dtype.kind in "biuf", key
    assert not any(is_pickle(data[i:]) for i in range(len(data)) if data[i : i + 1] == b"\x80")
    for module in (b"sklearn", b"numpy.core", b"builtins", b"__reduce__"):
        assert module not in data


# -- damage --------------------------------------------------------------------------------------------------------


def blobs() -> dict[str, tuple[bytes, Callable[[bytes], Any]]]:
    model = fitted("RFFM auto")[0]
    return {
        "model": (model.to_bytes(), from_bytes),
        "sketch": (model.sketch(BATCH).to_bytes(), pp.Sketch.from_bytes),
        "BBSE": (fitted("BBSE")[0].to_bytes(), from_bytes),
        "KMM sketch": (fitted("KMM energy")[0].sketch(BATCH).to_bytes(), pp.Sketch.from_bytes),
    }


BLOBS = blobs()
every_blob = pytest.mark.parametrize("kind", BLOBS)
fuzz = settings(max_examples=150, deadline=None)


@every_blob
@fuzz
@given(data=st.data())
def test_truncation_at_any_length_is_noticed(kind: str, data: st.DataObject) -> None:
    blob, read = BLOBS[kind]
    with pytest.raises(pp.FileError):
        read(blob[: data.draw(st.integers(0, len(blob) - 1))])


@every_blob
@fuzz
@given(data=st.data())
def test_one_changed_byte_is_noticed(kind: str, data: st.DataObject) -> None:
    blob, read = BLOBS[kind]
    at = data.draw(st.integers(0, len(blob) - 1))
    damaged = bytearray(blob)
    damaged[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(pp.FileError):
        read(bytes(damaged))


@every_blob
def test_any_changed_byte_of_the_header_is_noticed(kind: str) -> None:
    blob, read = BLOBS[kind]
    length = 8 + int.from_bytes(blob[:8], "little")
    body = len(blob[:length].rstrip())
    rng = np.random.default_rng(0)
    for at in range(0, body, max(1, body // 400)):
        damaged = bytearray(blob)
        damaged[at] ^= int(rng.integers(1, 256))
        with pytest.raises(pp.FileError):
            read(bytes(damaged))


@every_blob
@settings(max_examples=50, deadline=None)
@given(tail=st.binary(min_size=1, max_size=30))
def test_bytes_appended_are_noticed(kind: str, tail: bytes) -> None:
    blob, read = BLOBS[kind]
    with pytest.raises(pp.FileError):
        read(blob + tail)


@fuzz
@given(junk=st.binary(max_size=300))
def test_random_bytes_are_refused(junk: bytes) -> None:
    with pytest.raises(pp.FileError):
        from_bytes(junk)
    with pytest.raises(pp.FileError):
        pp.Sketch.from_bytes(junk)


def test_an_array_left_out_is_noticed() -> None:
    blob, read = BLOBS["model"]
    tensors = load_tensors(blob)
    tensors.pop(next(iter(tensors)))
    header = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])["__metadata__"]
    with pytest.raises(pp.FileError, match="checksum"):
        read(save_tensors(tensors, header))


def forged(change: Callable[[dict[str, Any], storage.Arrays], object]) -> bytes:
    """A model file whose contents were changed and whose checksum was made anew."""
    meta, arrays = storage.unpack(fitted("RFFM orthogonal")[0].to_bytes(), "model")
    meta = json.loads(json.dumps(meta))
    arrays = {k: v.copy() for k, v in arrays.items()}
    change(meta, arrays)
    return storage.pack("model", {k: v for k, v in meta.items() if k not in ("schema", "kind")}, arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda meta, arrays: meta.pop("class"),
        lambda meta, arrays: meta.update({"class": "os.system"}),
        lambda meta, arrays: meta["map"].update({"class": "Exec"}),
        lambda meta, arrays: meta.update(params={"nonsense": 1}),
        lambda meta, arrays: meta["map"].update(sigma=-1.0),
        lambda meta, arrays: arrays.pop("map.omega"),
        lambda meta, arrays: arrays.update({"map.omega": arrays["map.omega"][:2]}),
        lambda meta, arrays: arrays.update({"map.scale": np.full(4, np.nan)}),
        lambda meta, arrays: arrays.update({"map.center": np.zeros(9)}),
    ],
    ids=["no class", "foreign class", "foreign map", "params", "sigma", "no omega", "short omega", "NaN", "center"],
)
def test_contents_that_do_not_fit_together_are_refused(change: Callable[[Any, Any], object]) -> None:
    assert np.array_equal(
        from_bytes(forged(lambda meta, arrays: None)).predict(BATCH), fitted("RFFM orthogonal")[0].predict(BATCH)
    )
    with pytest.raises(pp.InputError):
        from_bytes(forged(change))


# -- all or nothing ------------------------------------------------------------------------------------------------


def test_saving_replaces_the_old_file_and_leaves_no_litter(tmp_path: Path) -> None:
    path = tmp_path / "ref.safetensors"
    fitted("DFM histogram")[0].save(path)
    fitted("RFFM auto")[0].save(path)
    assert listed(tmp_path) == ["ref.safetensors"]
    assert type(pp.load(path)) is pp.RFFM


@pytest.mark.parametrize("function", ["os.fsync", "pathlib.Path.replace"])
def test_a_failure_while_writing_leaves_the_old_file_alone(
    function: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ref.safetensors"
    fitted("RFFM auto")[0].save(path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(function, fail)
        with pytest.raises(pp.FileError, match=r"ref.safetensors: cannot be written \(No space left on device\)"):
            fitted("DFM histogram")[0].save(path)
    assert path.read_bytes() == before
    assert listed(tmp_path) == ["ref.safetensors"]


def test_an_interrupt_while_writing_leaves_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fitted("RFFM auto")[0].save(tmp_path / "ref.safetensors")
    assert listed(tmp_path) == []


def test_a_path_may_be_text(tmp_path: Path) -> None:
    model = fitted("RFFM auto")[0]
    model.save(str(tmp_path / "ref.safetensors"))
    assert np.array_equal(pp.load(str(tmp_path / "ref.safetensors")).predict(BATCH), model.predict(BATCH))


def test_a_saved_reference_has_kilobytes_whatever_its_rows(tmp_path: Path) -> None:
    model = pp.RFFM(n_features=100, bandwidth=1.0)
    sizes = [len(model.fit(np.tile(X, (k, 1)), np.tile(Y, k)).to_bytes()) for k in (1, 20)]
    assert abs(sizes[0] - sizes[1]) < 200 and max(sizes) < 300_000


def test_a_file_is_as_readable_as_the_user_lets_files_be(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        storage.write(tmp_path / "ours", b"1")
        os.umask(0o077)
        storage.write(tmp_path / "mine", b"1")
    finally:
        os.umask(before)
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o600
