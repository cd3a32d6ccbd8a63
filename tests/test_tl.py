"""AnnData in, results in uns and obs: what scanpy's users expect, and what the library says of the same rows."""

from __future__ import annotations

from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import proportio as pp

RNG = np.random.default_rng(0)
OPTIONS: dict[str, Any] = {"n_features": 60, "bandwidth": 2.0}
GENES = [f"g{k}" for k in range(4)]


def cells(n: int, seed: int) -> anndata.AnnData:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, n)
    X = (rng.normal(size=(n, 4)) + 3 * kind[:, None] * np.array([1, -1, 0, 0])).astype(np.float32)
    obs = pd.DataFrame(
        {"kind": pd.Categorical(np.where(kind, "B", "T")), "patient": np.where(np.arange(n) % 3, "p1", "p2")}
    )
    adata = anndata.AnnData(X, obs=obs.set_axis([f"c{k}" for k in range(n)]), var=pd.DataFrame(index=GENES))
    adata.obsm["X_pca"], adata.layers["counts"] = X[:, :2] * 2, sparse.csr_matrix(X)
    return adata


REFERENCE, QUERY = cells(400, 1), cells(300, 2)


def expected(rows: Any, known: Any = REFERENCE.X) -> pp.Estimate:
    return pp.RFFM(soft=True, **OPTIONS).fit(known, REFERENCE.obs["kind"].astype(str)).estimate(rows)


def test_results_are_in_uns_and_scores_in_obs() -> None:
    adata = QUERY.copy()
    assert pp.tl.estimate(adata, REFERENCE, labels_key="kind", **OPTIONS) is None
    est = expected(QUERY.X)
    found = adata.uns["proportio"]
    assert found["params"] == {"labels_key": "kind", "level": 0.95, "method": "RFFM", **OPTIONS}
    shares = found["shares"]
    assert shares["class"].tolist() == ["B", "T", "(unknown)"] and set(shares["sample"]) == {"all"}
    assert shares["share"].tolist() == [*est.proportions, est.unknown]
    assert shares[["low", "high"]].to_numpy()[:2].tolist() == est.interval().tolist()
    assert found["samples"]["verdict"].tolist() == [est.label_shift_test().verdict]
    model = pp.RFFM(soft=True, **OPTIONS).fit(REFERENCE.X, REFERENCE.obs["kind"].astype(str))
    assert np.array_equal(adata.obs["proportio_unknown"], model.score_unknown(QUERY.X))


def test_every_sample_is_estimated_by_itself() -> None:
    adata = QUERY.copy()
    pp.tl.estimate(adata, REFERENCE, labels_key="kind", sample_key="patient", key_added="mix", **OPTIONS)
    shares = adata.uns["mix"]["shares"].set_index(["sample", "class"])["share"]
    for patient in ("p1", "p2"):
        assert shares[patient, "B"] == expected(QUERY.X[QUERY.obs["patient"] == patient]).proportions[0]
    assert adata.uns["mix"]["samples"]["cells"].sum() == 300 and adata.obs["mix_unknown"].notna().all()


@pytest.mark.parametrize(("where", "name"), [("use_rep", "X_pca"), ("layer", "counts")])
def test_a_representation_or_a_layer_is_read_of_both(where: str, name: str) -> None:
    adata = QUERY.copy()
    pp.tl.estimate(adata, REFERENCE, labels_key="kind", **{where: name}, **OPTIONS)
    known, rows = (a.obsm["X_pca"] if name == "X_pca" else a.X for a in (REFERENCE, QUERY))
    assert adata.uns["proportio"]["shares"]["share"].tolist()[:2] == expected(rows, known).proportions.tolist()


def test_copy_leaves_the_data_as_they_were() -> None:
    copied = pp.tl.estimate(QUERY, REFERENCE, labels_key="kind", copy=True, **OPTIONS)
    assert "proportio" in copied.uns and "proportio" not in QUERY.uns and "proportio_unknown" not in QUERY.obs


def test_genes_are_matched_by_name() -> None:
    shuffled = QUERY[:, ["g2", "g0", "g3", "g1"]].copy()
    pp.tl.estimate(shuffled, REFERENCE, labels_key="kind", **OPTIONS)
    assert shuffled.uns["proportio"]["shares"]["share"].tolist()[:2] == expected(QUERY.X).proportions.tolist()


def test_a_model_fitted_before_is_a_reference_too() -> None:
    adata = QUERY.copy()
    frame = REFERENCE.to_df()
    pp.tl.estimate(adata, pp.RFFM(soft=True, **OPTIONS).fit(frame, REFERENCE.obs["kind"].astype(str)))
    assert adata.uns["proportio"]["shares"]["share"].tolist()[:2] == expected(QUERY.X).proportions.tolist()


def test_cells_without_a_label_are_no_reference_but_may_be_the_batch() -> None:
    adata = QUERY.copy()
    adata.obs["kind"] = adata.obs["kind"].where(np.arange(300) < 200)
    pp.tl.estimate(adata, adata, labels_key="kind", **OPTIONS)
    known = pp.RFFM(soft=True, **OPTIONS).fit(QUERY.X[:200], QUERY.obs["kind"][:200].astype(str))
    assert adata.uns["proportio"]["shares"]["share"].tolist()[:2] == known.predict(QUERY.X).tolist()


def test_results_are_written_with_the_file(tmp_path: Any) -> None:
    adata = QUERY.copy()
    pp.tl.estimate(adata, REFERENCE, labels_key="kind", **OPTIONS)
    adata.write_h5ad(tmp_path / "a.h5ad")
    again = anndata.read_h5ad(tmp_path / "a.h5ad").uns["proportio"]
    assert again["shares"]["share"].tolist() == adata.uns["proportio"]["shares"]["share"].tolist()
    assert again["params"]["method"] == "RFFM"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "labels_key is missing"),
        ({"labels_key": "state"}, "reference.obs has no column 'state'; it has 'kind', 'patient'"),
        ({"labels_key": "kind", "sample_key": "day"}, "adata.obs has no column 'day'"),
        ({"labels_key": "kind", "use_rep": "X_umap"}, "reference.obsm has no 'X_umap'; it has 'X_pca'"),
        ({"labels_key": "kind", "layer": "raw"}, "reference has no layer 'raw'; it has 'counts'"),
        ({"labels_key": "kind", "layer": "counts", "use_rep": "X_pca"}, "exclude each other"),
    ],
)
def test_what_cannot_be_found_is_named(options: dict[str, Any], says: str) -> None:
    adata = QUERY.copy()
    with pytest.raises(pp.ProportioError, match=says):
        pp.tl.estimate(adata, REFERENCE, **options)
    assert "proportio" not in adata.uns


def test_genes_that_are_missing_are_named() -> None:
    with pytest.raises(pp.MismatchError, match="adata lacks 1 genes of the reference, such as 'g3'"):
        pp.tl.estimate(QUERY[:, GENES[:3]].copy(), REFERENCE, labels_key="kind", **OPTIONS)
    with pytest.raises(pp.InputTypeError, match="not an AnnData"):
        pp.tl.estimate(QUERY.X, REFERENCE, labels_key="kind")
