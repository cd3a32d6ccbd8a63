"""h5ad files: X, layers and representations in chunks, dense or sparse, and what cannot be read is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import proportio as pp
from proportio.sources import h5ad

RNG = np.random.default_rng(0)
X = RNG.poisson(1.0, size=(50, 6)).astype(np.float32)
GENES = [f"g{k}" for k in range(6)]
KINDS = pd.Categorical(np.where(np.arange(50) % 2, "B", "T"))


def write(path: Path, matrix: Any = X, **more: Any) -> Path:
    obs = pd.DataFrame({"kind": KINDS, "depth": X.sum(axis=1), "g0": "shadowed"}, index=[f"c{k}" for k in range(50)])
    anndata.AnnData(matrix, obs=obs, var=pd.DataFrame(index=GENES), **more).write_h5ad(path)
    return path


def values(source: pp.Source, columns: list[str] | None = None) -> Any:
    return pd.concat([batch.to_pandas() for batch in source.batches(columns)], ignore_index=True)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csc_matrix], ids=["dense", "csr", "csc"])
def test_the_rows_are_those_of_x_in_whatever_form_and_chunks(
    form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(h5ad, "CHUNK", 7 * 6)  # seven rows at a time
    source = pp.scan(write(tmp_path / "a.h5ad", form(X)))
    assert source.columns == tuple(GENES) and source.n_rows == 50
    assert np.array_equal(values(source).to_numpy(), X)
    assert np.array_equal(values(source, ["g4", "g1"]).to_numpy(), X[:, [4, 1]])


def test_columns_of_obs_go_along_where_they_are_asked_for(tmp_path: Path) -> None:
    source = pp.scan(write(tmp_path / "a.h5ad"), along=["kind", "depth"])
    assert source.columns == (*GENES, "kind", "depth")
    found = values(source, ["kind", "g2", "depth"])
    assert found["kind"].tolist() == list(KINDS) and np.array_equal(found["g2"], X[:, 2])
    model = pp.RFFM(n_features=20, bandwidth=2.0).fit(pp.scan(tmp_path / "a.h5ad", along="kind"), "kind")
    assert model.classes_.tolist() == ["B", "T"] and model.feature_names_in_.tolist() == GENES


def test_layers_and_representations(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5ad", layers={"twice": sparse.csr_matrix(2 * X)}, obsm={"X_pca": X[:, :2] - 1})
    assert np.array_equal(values(pp.scan(path, layer="twice")).to_numpy(), 2 * X)
    source = pp.scan(path, use_rep="X_pca")
    assert source.columns == ("X_pca_0", "X_pca_1") and np.array_equal(values(source).to_numpy(), X[:, :2] - 1)
    assert source.reading == {"format": "h5ad", "layer": None, "use_rep": "X_pca"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"layer": "raw"}, r"has no layers/raw"),
        ({"use_rep": "X_umap"}, "has no obsm/X_umap"),
        ({"along": "cell_type"}, r"obs has no column 'cell_type'; it has 'kind', 'depth'"),
        ({"layer": "a", "use_rep": "b"}, "exclude each other"),
        ({"obs": "kind"}, "take no option 'obs'"),
    ],
)
def test_what_is_not_there_is_named(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(pp.ProportioError, match=says):
        pp.scan(write(tmp_path / "a.h5ad"), **options)


def test_variables_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(pp.MismatchError, match="has no variable 'g9', of 6 variables"):
        list(pp.scan(write(tmp_path / "a.h5ad")).batches(["g9"]))


def test_what_is_no_h5ad_file_is_refused(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.h5ad").read_bytes()
    (tmp_path / "cut.h5ad").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.h5ad").write_text("a,b\n1,2\n")
    for name in ("cut.h5ad", "text.h5ad"):
        with pytest.raises(pp.FileError, match=f"{name}: cannot be read: truncated, or not an h5ad file"):
            pp.scan(tmp_path / name)
    write(tmp_path / "b.h5ad")
    with pytest.raises(pp.InputError, match="an h5ad source is one file"):
        pp.scan([tmp_path / "a.h5ad", tmp_path / "b.h5ad"])
