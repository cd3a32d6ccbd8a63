"""Data that a user brings: the layout that is read, the checksum that guards it, and what is said when it is not there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from proportio import datasets
from proportio.datasets import LABEL, MARKERS, load_hipc
from proportio.errors import FileError, InputError

HERE = Path(__file__).resolve().parents[2] / "shared" / "hipc"


def sample(path: Path, value: float, populations: list[str]) -> None:
    columns = {name: np.full(len(populations), value + k, dtype=np.float32) for k, name in enumerate(MARKERS)}
    parquet.write_table(pa.table({LABEL: populations, **columns}), path)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    sample(tmp_path / "D54_1.parquet", 0.0, ["a", "b"])
    sample(tmp_path / "D54_3.parquet", 10.0, ["a"])
    sample(tmp_path / "D54_4.parquet", 20.0, ["b"])
    return tmp_path


def test_replicates_of_a_patient_are_joined_and_columns_come_in_order(copy: Path) -> None:
    patients = load_hipc(copy, laboratory="D54", samples=[1, 3, 4])
    assert sorted(patients) == [1, 2]
    assert patients[1].y.tolist() == ["a", "b", "a"] and patients[2].y.tolist() == ["b"]
    assert patients[1].X.dtype == np.float32 and patients[1].X[2].tolist() == [10.0 + k for k in range(7)]
    assert patients[1].shares == {"a": pytest.approx(2 / 3), "b": pytest.approx(1 / 3)}


def test_a_missing_directory_names_the_files_to_put_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"nowhere: no such directory.*not shipped.*W2_\{k\}\.parquet"):
        load_hipc(tmp_path / "nowhere")


def test_a_missing_sample_says_what_is_there(copy: Path) -> None:
    with pytest.raises(
        FileError, match=r"D54_9\.parquet: this sample is missing; the directory has D54_1\.parquet, .*samples="
    ):
        load_hipc(copy, laboratory="D54", samples=[1, 9])


def test_a_sample_that_no_laboratory_has_is_refused(copy: Path) -> None:
    with pytest.raises(InputError, match="sample 10 does not exist"):
        load_hipc(copy, laboratory="D54", samples=[10])


def test_a_file_that_is_not_the_known_one_is_refused_unless_told_otherwise(tmp_path: Path) -> None:
    sample(tmp_path / "W2_1.parquet", 0.0, ["a", "b"])
    with pytest.raises(
        FileError, match=r"W2_1\.parquet: its SHA-256 is [0-9a-f]{12}…, not 11314453471c….*verify=False"
    ):
        load_hipc(tmp_path, samples=[1])
    assert len(load_hipc(tmp_path, samples=[1], verify=False)[1].y) == 2


def test_the_known_file_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample(tmp_path / "W2_1.parquet", 0.0, ["a", "b"])
    digest = hashlib.sha256((tmp_path / "W2_1.parquet").read_bytes()).hexdigest()
    monkeypatch.setitem(datasets.SHA256, "W2_1.parquet", digest)
    assert sorted(load_hipc(tmp_path, samples=[1])) == [1]


def test_a_file_that_is_not_parquet_and_one_without_its_columns_are_named(copy: Path) -> None:
    (copy / "D54_5.parquet").write_bytes(b"not parquet")
    parquet.write_table(pa.table({"CD4": [1.0], LABEL: ["a"]}), copy / "D54_6.parquet")
    with pytest.raises(FileError, match=r"D54_5\.parquet: not a Parquet file"):
        load_hipc(copy, laboratory="D54", samples=[5])
    with pytest.raises(FileError, match=r"D54_6\.parquet: has no column 'CCR7', .*only CD4, population"):
        load_hipc(copy, laboratory="D54", samples=[6])


@pytest.mark.skipif(not HERE.is_dir(), reason=f"the HIPC cells are not at {HERE}; they are not ours to ship")
def test_the_real_cells_have_three_patients_and_ten_populations() -> None:
    patients = load_hipc(HERE)
    assert {p: len(c.y) for p, c in patients.items()} == {1: 31_342, 2: 64_531, 3: 67_952}
    assert all(len(c.shares) == 10 and sum(c.shares.values()) == pytest.approx(1) for c in patients.values())
