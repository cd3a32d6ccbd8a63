"""The command on real files of every format: its numbers are the library's, to the last digit."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import flowio
import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from scipy import sparse
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import proportio as pp
from proportio import cli, schema

HIPC = Path(__file__).resolve().parents[2] / "shared" / "hipc"
OPTIONS = ["--n-features", "60", "--bandwidth", "6", "--seed", "3"]


def run(*arguments: Any) -> Any:
    done = CliRunner().invoke(cli.app, [str(a) for a in arguments])
    assert done.exit_code in (0, 1) and (done.exception is None or isinstance(done.exception, SystemExit)), done.output
    return done


def digits() -> tuple[pd.DataFrame, pd.DataFrame]:
    X, y = load_digits(return_X_y=True)
    frame = pd.DataFrame(X[:, [k for k in range(64) if X[:, k].std() > 4]]).rename(columns=lambda k: f"p{k}")
    frame = frame.assign(digit=y, sample=np.where(np.arange(len(y)) % 3, "left", "right"))
    known, new = frame.iloc[:900], frame.iloc[900:]
    return known[known["digit"] != 4].reset_index(drop=True), new.reset_index(drop=True)


KNOWN, NEW = digits()
FEATURES = [c for c in KNOWN.columns if c.startswith("p")]


def write_csv(frame: pd.DataFrame, stem: Path) -> Path:
    path = stem.with_suffix(".csv")
    frame.to_csv(path, index=False)
    return path


def write_parquet(frame: pd.DataFrame, stem: Path) -> Path:
    path = stem.with_suffix(".parquet")
    frame.to_parquet(path, index=False)
    return path


def write_arrow(frame: pd.DataFrame, stem: Path) -> Path:
    path = stem.with_suffix(".feather")
    frame.to_feather(path)
    return path


def write_fcs(frame: pd.DataFrame, stem: Path) -> Path:
    numbers = frame.assign(sample=(frame["sample"] == "left").astype(float)) if "sample" in frame else frame
    detectors = [f"FL{k}-A" for k in range(numbers.shape[1])]
    path = stem.with_suffix(".fcs")
    with path.open("wb") as f:
        flowio.create_fcs(f, numbers.to_numpy(np.float32).ravel().tolist(), detectors, list(map(str, numbers.columns)))
    return path


def write_h5ad(frame: pd.DataFrame, stem: Path) -> Path:
    features = [c for c in frame.columns if c not in ("digit", "sample", "population")]
    adata = anndata.AnnData(
        sparse.csr_matrix(frame[features].to_numpy(np.float32)),
        obs=frame.drop(columns=features).set_axis(frame.index.astype(str)),
        var=pd.DataFrame(index=features),
    )
    path = stem.with_suffix(".h5ad")
    adata.write_h5ad(path)
    return path


FORMATS: dict[str, Callable[[pd.DataFrame, Path], Path]] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "feather": write_arrow,
    "fcs": write_fcs,
    "h5ad": write_h5ad,
}


def library(frame: pd.DataFrame, label: str = "digit") -> Any:
    return pp.RFFM(60, 6.0, soft=True, random_state=3).fit(frame[FEATURES], frame[label])


def type_of(format_: str) -> type[Any]:
    """What the values of a format are read as."""
    return np.float32 if format_ in ("fcs", "h5ad") else np.float64


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reference and batch in every format, and a model fitted by the command."""
    here = tmp_path_factory.mktemp("digits")
    for name, write in FORMATS.items():
        write(KNOWN, here / "known")
        write(NEW, here / "new")
        features = ["--features", ",".join(FEATURES)]
        run("fit", here / f"known.{name}", "--label", "digit", "-o", here / f"{name}.safetensors", *features, *OPTIONS)
    return here


@pytest.mark.parametrize("name", FORMATS)
def test_the_command_answers_what_the_library_answers(name: str, folder: Path) -> None:
    known, new = (f.astype(dict.fromkeys(FEATURES, type_of(name))) for f in (KNOWN, NEW))
    est = library(known).estimate(new[FEATURES])
    done = run("estimate", folder / f"new.{name}", "--model", folder / f"{name}.safetensors", "--json", "-")
    assert done.stderr == ""
    found = json.loads(done.stdout)
    shares = [*est.proportions, est.unknown]
    assert [s["class"] for s in found["shares"]] == [*map(str, est.classes), "(unknown)"]
    assert [s["share"] for s in found["shares"]] == shares
    assert [s["count"] for s in found["shares"]] == [s * len(new) for s in shares]
    assert [[s["low"], s["high"]] for s in found["shares"]] == [
        *est.interval().tolist(),
        est.interval(of="unknown").tolist(),
    ]
    assert found["label_shift"] == est.label_shift_test().to_dict()
    Draft202012Validator(schema.load("answer")).validate(found)
    again = pp.Estimate.from_dict(found["estimate"])
    assert np.array_equal(again.proportions, est.proportions) and np.allclose(again.interval(0.8), est.interval(0.8))


@pytest.mark.parametrize("name", FORMATS)
def test_every_sample_of_a_column_is_what_its_rows_alone_give(name: str, folder: Path) -> None:
    model = pp.load(folder / f"{name}.safetensors")
    out = folder / f"{name}.out.csv"
    done = run(
        "estimate",
        folder / f"new.{name}",
        "--model",
        folder / f"{name}.safetensors",
        "--by",
        "sample",
        "--csv",
        out,
        "--json",
        "-",
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    table = list(csv.DictReader(io.StringIO(out.read_text())))
    samples = {"left": "1.0", "right": "0.0"} if name == "fcs" else {"left": "left", "right": "right"}
    assert sorted(d["sample"] for d in lines) == sorted(samples.values())
    assert len(table) == 2 * (len(model.classes_) + 1)
    for sample, called in samples.items():
        rows = NEW.loc[NEW["sample"] == sample, FEATURES].astype(type_of(name))
        est = model.estimate(rows)
        found = next(d for d in lines if d["sample"] == called)
        assert found["estimate"]["proportions"] == est.proportions.tolist() and found["rows"] == len(rows)
        mine = [line for line in table if line["sample"] == called]
        assert [float(line["share"]) for line in mine] == [*est.proportions, est.unknown]
        assert [float(line["low"]) for line in mine[:-1]] == est.interval()[:, 0].tolist()
        assert float(mine[0]["count"]) == est.proportions[0] * len(rows)
        assert float(mine[0]["source_share"]) == est.source_prior[0]


def test_a_sample_a_file_and_all_files_at_once(folder: Path, tmp_path: Path) -> None:
    model = pp.load(folder / "csv.safetensors")
    for k, part in enumerate((NEW[:300], NEW[300:])):
        write_csv(part, tmp_path / f"part{k}")
    done = run("estimate", tmp_path, "--model", folder / "csv.safetensors", "--by", "file")
    assert [line.split()[0] for line in done.stdout.splitlines()][:3] == ["sample", "part0", "part1"]
    assert f"{model.predict(NEW[FEATURES][:300])[0]:.4f}" in done.stdout.splitlines()[1]
    found = json.loads(
        run("estimate", f"{tmp_path}/*.csv", "--model", folder / "csv.safetensors", "--json", "-").stdout
    )
    assert found["estimate"]["proportions"] == model.estimate(NEW[FEATURES]).proportions.tolist()


def test_a_format_may_be_named_where_the_suffix_does_not_tell(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "new.data").write_bytes((folder / "new.fcs").read_bytes())
    options = ["--model", folder / "fcs.safetensors", "--by", "sample", "--json", "-", "--format", "fcs"]
    named, told = run("estimate", tmp_path / "new.data", *options), run("estimate", folder / "new.fcs", *options)
    shares = [[json.loads(line)["shares"] for line in done.stdout.splitlines()] for done in (named, told)]
    assert shares[0] == shares[1]


def test_a_reference_in_the_place_of_a_model(folder: Path) -> None:
    options = ["--label", "digit", "--features", ",".join(FEATURES), *OPTIONS]
    done = run("estimate", folder / "new.csv", "--reference", folder / "known.csv", *options, "--json", "-")
    assert (
        json.loads(done.stdout)["estimate"]["proportions"]
        == library(KNOWN).estimate(NEW[FEATURES]).proportions.tolist()
    )


def test_one_population_a_file_is_labelled_by_the_files_name(tmp_path: Path) -> None:
    for digit, part in KNOWN.groupby("digit"):
        write_fcs(part[FEATURES], tmp_path / f"d{digit}")
    run("fit", tmp_path, "--label", "file", "-o", tmp_path / "m.safetensors", *OPTIONS)
    model = pp.load(tmp_path / "m.safetensors")
    assert model.classes_.tolist() == [f"d{k}" for k in (0, 1, 2, 3, 5, 6, 7, 8, 9)]
    batch = NEW[FEATURES].astype(np.float32)
    rows = KNOWN.sort_values("digit", kind="stable").astype(dict.fromkeys(FEATURES, np.float32))
    assert np.array_equal(model.predict(batch), library(rows).predict(batch))


def test_sketches_say_what_the_rows_say(folder: Path, tmp_path: Path) -> None:
    model = folder / "csv.safetensors"
    for k, part in enumerate((NEW[:300], NEW[300:])):
        write_csv(part, tmp_path / f"part{k}")
        run("sketch", tmp_path / f"part{k}.csv", "--model", model, "-o", tmp_path / f"{k}.safetensors")
    run("merge", tmp_path / "0.safetensors", tmp_path / "1.safetensors", "-o", tmp_path / "all.safetensors")
    merged = run("estimate", tmp_path / "all.safetensors", "--model", model, "--json", "-").stdout
    both = run(
        "estimate", tmp_path / "0.safetensors", tmp_path / "1.safetensors", "--model", model, "--json", "-"
    ).stdout
    rows = pp.load(model).estimate(NEW[FEATURES])
    assert (
        json.loads(merged)["estimate"]["proportions"]
        == json.loads(both)["estimate"]["proportions"]
        == rows.proportions.tolist()
    )
    each = run(
        "estimate", tmp_path / "0.safetensors", tmp_path / "1.safetensors", "--model", model, "--by", "file"
    ).stdout
    assert [line.split()[0] for line in each.splitlines()][:3] == ["sample", "0", "1"]


def test_explain_prints_the_profile_and_writes_the_scores(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.parquet"
    done = run("explain", folder / "new.csv", "--model", folder / "csv.safetensors", "-o", out, "--top", "3")
    model = pp.load(folder / "csv.safetensors")
    assert done.stdout == f"{model.explain_unknown(NEW[FEATURES], top=3)}\n"
    written = pd.read_parquet(out)
    assert np.array_equal(written["unknown_score"], model.score_unknown(NEW[FEATURES]))
    assert written["digit"].tolist() == NEW["digit"].tolist()


def test_correct_carries_predictions_over_to_the_shares_of_the_batch(folder: Path, tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    known = NEW[NEW["digit"] < 4]
    source, batch = KNOWN[KNOWN["digit"] < 4], known[(known["digit"] == 0) | (known.index % 5 == 0)]
    write_parquet(source[[*FEATURES, "digit"]], tmp_path / "source")
    write_parquet(batch[FEATURES], tmp_path / "batch")
    est = tmp_path / "est.json"
    options = ["--label", "digit", *OPTIONS]
    run("estimate", tmp_path / "batch.parquet", "--reference", tmp_path / "source.parquet", *options, "--json", est)
    classifier = LogisticRegression(max_iter=2000).fit(source[FEATURES] / 16, source["digit"])
    posteriors = classifier.predict_proba(batch[FEATURES] / 16)
    pd.DataFrame(posteriors, columns=[f"p_{k}" for k in classifier.classes_]).assign(row=batch.index).to_csv(
        tmp_path / "p.csv", index=False
    )
    done = run("correct", tmp_path / "p.csv", "--estimate", est, "--prefix", "p_", "-o", tmp_path / "out.csv")
    out = pd.read_csv(tmp_path / "out.csv", float_precision="round_trip")
    with pytest.warns(pp.ProportioWarning, match="something else"):  # every fifth digit is of a few writers
        corrected = pp.correct(classifier, pp.Estimate.from_dict(json.loads(est.read_text())["estimate"]))
    assert "note: something else is in this batch" in done.stderr
    better = corrected.predict_proba(batch[FEATURES] / 16)
    np.testing.assert_allclose(out[[f"p_{k}" for k in classifier.classes_]], better, rtol=1e-12)
    assert out["p_class"].tolist() == classifier.classes_[better.argmax(axis=1)].tolist()
    assert out["row"].tolist() == batch.index.tolist()


def test_check_says_the_verdict_only_and_gates_decide_the_exit_code(folder: Path) -> None:
    model, batch = folder / "csv.safetensors", folder / "new.csv"
    test = pp.load(model).estimate(NEW[FEATURES]).label_shift_test()
    done = run("check", batch, "--model", model)
    assert (done.exit_code, done.stdout) == (0, f"{test}\n")
    failing = run("check", batch, "--model", model, "--fail-on", "shift")
    assert failing.exit_code == (1 if test.verdict == "something else is in it" else 0)
    assert failing.stdout == done.stdout and "gate shift: " in failing.stderr
    asked = ["--fail-on", "share:0 > 90%", "--fail-on", "unknown >= 0", "--json", "-"]
    done = run("estimate", batch, "--model", model, *asked)
    assert done.exit_code == 1
    gates = json.loads(done.stdout)["gates"]
    assert [(g["gate"], g["failed"]) for g in gates] == [("share:0 > 90%", False), ("unknown >= 0", True)]
    assert "unknown >= 0: FAILED" in done.stderr and "share:0 > 90%: passed" in done.stderr
    quiet = run("estimate", batch, "--model", model, "--quiet", *asked)
    assert json.loads(quiet.stdout)["gates"] == gates and len(quiet.stderr.splitlines()) == 1


def test_the_report_shows_the_shares_and_what_the_unknown_looks_like(folder: Path, tmp_path: Path) -> None:
    run("estimate", folder / "new.csv", "--model", folder / "csv.safetensors", "--html", tmp_path / "one.html")
    one = (tmp_path / "one.html").read_text()
    est = pp.load(folder / "csv.safetensors").estimate(NEW[FEATURES])
    assert one.startswith("<!doctype html>") and repr(float(est.proportions[0])) in one  # in the JSON within
    profile = pp.load(folder / "csv.safetensors").explain_unknown(NEW[FEATURES])
    assert (profile.contrasts[0].column in one) == (est.interval(of="unknown")[0] > 0)
    run(
        "estimate",
        folder / "new.csv",
        "--model",
        folder / "csv.safetensors",
        "--by",
        "sample",
        "--html",
        tmp_path / "two.html",
    )
    assert "left" in (tmp_path / "two.html").read_text()


def test_the_json_of_check_and_doctor_is_of_its_schema(folder: Path) -> None:
    done = run("check", folder / "new.csv", "--model", folder / "csv.safetensors", "--by", "sample", "--json", "-")
    for line in done.stdout.splitlines():
        Draft202012Validator(schema.load("check")).validate(json.loads(line))
    found = json.loads(run("doctor", "--json").stdout)
    Draft202012Validator(schema.load("doctor")).validate(found)
    assert found["proportio"] == pp.__version__ and found["versions"]["numpy"] == np.__version__
    assert run("doctor").stdout.startswith(f"proportio {pp.__version__} on Python")


def test_a_layer_and_a_representation_of_an_h5ad_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    low = (rng.normal(size=(400, 3)) + 2 * y[:, None]).astype(np.float32)
    adata = anndata.AnnData(
        sparse.csc_matrix((400, 5), dtype=np.float32),
        obs=pd.DataFrame({"kind": pd.Categorical(np.where(y, "B", "T"))}, index=[f"c{k}" for k in range(400)]),
    )
    adata.obsm["X_pca"] = low
    adata.layers["dense"] = np.hstack([low, low[:, :2]])
    adata.write_h5ad(tmp_path / "a.h5ad")
    for option, name, X in [("--use-rep", "X_pca", low), ("--layer", "dense", np.hstack([low, low[:, :2]]))]:
        run("fit", tmp_path / "a.h5ad", "--label", "kind", option, name, "-o", tmp_path / "m.safetensors", *OPTIONS)
        found = json.loads(
            run("estimate", tmp_path / "a.h5ad", "--model", tmp_path / "m.safetensors", "--json", "-").stdout
        )
        expected = pp.RFFM(60, 6.0, soft=True, random_state=3).fit(X, np.where(y, "B", "T")).estimate(X[:])
        assert found["estimate"]["classes"] == ["B", "T"]
        assert found["estimate"]["proportions"] == expected.proportions.tolist()


def test_the_transform_of_the_reference_is_the_batchs_without_saying(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    frame = pd.DataFrame(
        {"CD3": np.exp(rng.normal(4 + 3 * y, 0.5)), "CD4": np.exp(rng.normal(7 - 3 * y, 0.5)), "pop": y}
    )
    write_fcs(frame, tmp_path / "r")
    write_fcs(frame.drop(columns="pop")[::2], tmp_path / "b")
    run(
        "fit",
        tmp_path / "r.fcs",
        "--label",
        "pop",
        "--transform",
        "arcsinh:50",
        "-o",
        tmp_path / "m.safetensors",
        *OPTIONS,
    )
    found = json.loads(run("estimate", tmp_path / "b.fcs", "--model", tmp_path / "m.safetensors", "--json", "-").stdout)
    X = np.arcsinh(frame[["CD3", "CD4"]].astype(np.float32).astype(float) / 50)
    expected = pp.RFFM(60, 6.0, soft=True, random_state=3).fit(X, y).estimate(X[::2])
    assert found["estimate"]["proportions"] == expected.proportions.tolist()


@pytest.mark.skipif(not HIPC.is_dir(), reason=f"the HIPC cells are not at {HIPC}; they are not ours to ship")
@pytest.mark.filterwarnings("ignore::proportio.errors.ProportioWarning")  # few and similar cells; numbers are compared
@pytest.mark.parametrize("name", ["csv", "parquet", "fcs", "h5ad"])
def test_real_cells_in_every_format(name: str, tmp_path: Path) -> None:
    known, new = (pd.read_parquet(HIPC / f"W2_{k}.parquet")[::8].reset_index(drop=True) for k in (1, 4))
    kinds = sorted(known["population"].unique())
    known = known.assign(population=[kinds.index(p) for p in known["population"]])
    markers = [c for c in known.columns if c != "population"]
    exact = np.float64 if name == "csv" else np.float32
    known, new = (frame.astype(dict.fromkeys(markers, exact)) for frame in (known, new))
    reference, batch = FORMATS[name](known, tmp_path / "known"), FORMATS[name](new[markers], tmp_path / "new")
    run(
        "fit",
        reference,
        "--label",
        "population",
        "-o",
        tmp_path / "m.safetensors",
        "--n-features",
        "400",
        "--bandwidth",
        "1",
    )
    found = json.loads(run("estimate", batch, "--model", tmp_path / "m.safetensors", "--json", "-").stdout)
    expected = pp.RFFM(400, 1.0, soft=True).fit(known[markers], known["population"]).estimate(new[markers])
    assert found["estimate"]["proportions"] == expected.proportions.tolist()
    assert [[s["low"], s["high"]] for s in found["shares"][:-1]] == expected.interval().tolist()
