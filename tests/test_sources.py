"""Sources of batches: what a file, a stream or a class of one's own gives is what its rows in memory give."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import proportio as pp
from proportio import fitting, storage
from proportio.sources import draw_sample, rest_of
from proportio.sources.base import ahead

RNG = np.random.default_rng(3)
N = 3000
LABELS = RNG.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2])
X = (RNG.normal(size=(N, 3)) + 1.5 * (LABELS == "b")[:, None] - (LABELS == "c")[:, None]).astype(np.float32)
NAMES = ["CD3", "CD4", "CD8"]
FRAME = pd.DataFrame(X, columns=NAMES).assign(population=LABELS)
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)
FEATURES = FRAME[NAMES]


def rffm(**params: Any) -> pp.RFFM:
    return pp.RFFM(n_features=40, bandwidth=1.0, **params)


MODEL = rffm().fit(FEATURES, LABELS)
EXPECTED = MODEL.sketch(FEATURES)


def write_parquet(folder: Path) -> Path:
    pq.write_table(TABLE, folder / "rows.parquet", row_group_size=700)
    return folder / "rows.parquet"


def write_csv(folder: Path) -> Path:
    FRAME.astype(dict.fromkeys(NAMES, np.float64)).to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def write_tsv(folder: Path) -> Path:
    FRAME.astype(dict.fromkeys(NAMES, np.float64)).to_csv(folder / "rows.tsv.gz", index=False, sep="\t")
    return folder / "rows.tsv.gz"


def write_feather(folder: Path) -> Path:
    pyarrow.feather.write_feather(TABLE, str(folder / "rows.feather"), chunksize=900)
    return folder / "rows.feather"


def write_stream(folder: Path) -> Path:
    with pa.OSFile(str(folder / "rows.arrows"), "wb") as f, pa.ipc.new_stream(f, TABLE.schema) as w:
        w.write_table(TABLE, max_chunksize=800)
    return folder / "rows.arrows"


def write_directory(folder: Path) -> Path:
    for i in range(0, N, 1000):
        pq.write_table(TABLE[i : i + 1000], folder / f"part-{i}.parquet")
    (folder / "_SUCCESS").touch()
    return folder


def write_pattern(folder: Path) -> Path:
    return write_directory(folder) / "part-*.parquet"


def write_hive(folder: Path) -> Path:
    for year, rows in ((2023, TABLE[:2000]), (2024, TABLE[2000:])):
        (folder / f"year={year}").mkdir()
        pq.write_table(rows, folder / f"year={year}" / "rows.parquet")
    return folder


KINDS = [write_parquet, write_csv, write_tsv, write_feather, write_stream, write_directory, write_pattern, write_hive]
every_kind = pytest.mark.parametrize("write", KINDS, ids=lambda w: w.__name__.removeprefix("write_"))
every_model = pytest.mark.parametrize(
    "make", [rffm, lambda: pp.BBSE(cv=3), lambda: pp.KMM(bandwidth=1.0)], ids=["RFFM", "BBSE", "KMM"]
)


def same_model(a: Any, b: Any) -> None:
    (meta, arrays), (other, others) = (storage.unpack(m.to_bytes(), "model") for m in (a, b))
    assert meta == other and arrays.keys() == others.keys()
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, others[name], err_msg=name)


# -- the same rows, the same sketch --------------------------------------------------------------------------------


@every_kind
@pytest.mark.parametrize("batch_rows", [None, 257])
def test_a_file_gives_the_sketch_of_its_rows_and_the_label_is_no_feature(
    tmp_path: Path, write: Callable[[Path], Path], batch_rows: int | None
) -> None:
    source = pp.scan(write(tmp_path), batch_rows=batch_rows)
    assert set(source.columns) - {"year"} == set(FRAME.columns)
    for n_jobs in (1, 2):
        sketch = rffm(n_jobs=n_jobs).fit(FEATURES, LABELS).sketch(source)
        np.testing.assert_array_equal(sketch.sums, EXPECTED.sums)  # type: ignore[attr-defined]
        np.testing.assert_array_equal(sketch.tally.stacked(), EXPECTED.tally.stacked())


@every_kind
@every_model
def test_fitting_a_small_file_gives_the_model_of_its_rows(
    tmp_path: Path, write: Callable[[Path], Path], make: Callable[[], Any]
) -> None:
    source = pp.scan(write(tmp_path), columns=[*NAMES, "population"])
    same_model(make().fit(source, "population"), make().fit(FEATURES, LABELS))
    same_model(make().fit(FRAME, "population"), make().fit(FEATURES, LABELS))


def test_a_list_of_files_is_read_in_its_order(tmp_path: Path) -> None:
    write_directory(tmp_path)
    source = pp.scan([tmp_path / "part-0.parquet", str(tmp_path / "part-1000.parquet"), tmp_path / "part-2000.parquet"])
    np.testing.assert_array_equal(MODEL.sketch(source).sums, EXPECTED.sums)  # type: ignore[attr-defined]
    assert source.n_rows == N and "3,000 rows, 4 columns" in repr(source)


def test_the_folders_of_a_data_set_are_columns(tmp_path: Path) -> None:
    model = rffm().fit(pp.scan(write_hive(tmp_path), columns=["CD3", "CD4", "year"]), "year")
    assert model.classes_.tolist() == [2023, 2024] and model.sketch_.tally.counts.tolist() == [2000, 1000]


def test_only_the_columns_asked_for_are_read_and_in_their_order(tmp_path: Path) -> None:
    for batch in pp.scan(write_parquet(tmp_path)).batches(["CD8", "CD3"]):
        assert batch.schema.names == ["CD8", "CD3"]


def test_a_source_can_be_read_again(tmp_path: Path) -> None:
    source = pp.scan(write_stream(tmp_path))
    assert np.array_equal(MODEL.predict(source), MODEL.predict(source))


@pytest.mark.parametrize(
    "stream",
    [
        lambda: pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=100)),
        type("Query", (), {"columns": list(FRAME), "__arrow_c_stream__": TABLE.__arrow_c_stream__}),
    ],
    ids=["reader", "query"],
)
def test_what_offers_an_arrow_stream_is_a_source(stream: Callable[[], Any]) -> None:
    np.testing.assert_array_equal(MODEL.sketch(stream()).sums, EXPECTED.sums)  # type: ignore[attr-defined]
    same_model(rffm().fit(stream(), "population"), MODEL)


@pytest.mark.parametrize("table", [TABLE.select(NAMES), pl.from_pandas(FEATURES), TABLE.select(NAMES).combine_chunks()])
def test_tables_of_arrow_and_polars_are_tables(table: Any) -> None:
    np.testing.assert_array_equal(MODEL.sketch(table).sums, EXPECTED.sums)  # type: ignore[attr-defined]
    batches = TABLE.select(NAMES).to_batches(max_chunksize=100)
    np.testing.assert_array_equal(MODEL.sketch(iter(batches)).sums, EXPECTED.sums)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint16(), pa.int64(), pa.float16(), pa.float64(), pa.bool_(), pa.decimal128(9, 2)]
)
def test_every_type_of_number_keeps_its_values(kind: Any) -> None:
    values = (
        pa.array([1, 0, 1, 1], pa.int8()).cast(pa.float32()).cast(kind)
        if kind != pa.float16()
        else pa.array(np.float16([1, 0, 1, 1]))
    )
    table = pa.table({"a": values, "b": pa.array([0.5, 1, 2, 3])})
    model = rffm().fit(pd.DataFrame({"a": [1.0, 0, 1, 1], "b": [0.5, 1, 2, 3]}), [0, 1, 0, 1])
    again = rffm().fit(table, [0, 1, 0, 1])
    np.testing.assert_array_equal(model.sketch_.sums, again.sketch_.sums)  # type: ignore[attr-defined]


class Halves(pp.Source):
    """A source of one's own, which yields pandas frames."""

    name = "two halves"
    columns = tuple(FRAME)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        for half in (FRAME[:1500], FRAME[1500:]):
            yield half[list(columns or self.columns)]


def test_a_class_of_ones_own_is_a_source() -> None:
    np.testing.assert_array_equal(MODEL.sketch(Halves()).sums, EXPECTED.sums)  # type: ignore[attr-defined]
    same_model(rffm().fit(Halves(), "population"), MODEL)


def test_one_job_reads_without_threads(tmp_path: Path) -> None:
    source = pp.scan(write_parquet(tmp_path))
    names: list[str] = []

    def note(done: int, total: int | None) -> None:
        names.extend(t.name for t in threading.enumerate())

    rffm(n_jobs=1).fit(FEATURES, LABELS).sketch(source, progress=note)
    assert not [n for n in names if n.startswith("proportio")]
    assert not source.alone().threads  # type: ignore[attr-defined]


def test_progress_hears_of_every_row(tmp_path: Path) -> None:
    heard: list[tuple[int, int | None]] = []
    MODEL.estimate(pp.scan(write_parquet(tmp_path), batch_rows=1000), progress=lambda *a: heard.append(a))
    assert heard == [(1000, N), (2000, N), (3000, N)]
    heard.clear()
    MODEL.sketch(pp.scan(write_csv(tmp_path)), progress=lambda *a: heard.append(a))
    assert heard[-1] == (N, None)
    MODEL.estimate(FEATURES, progress=lambda *a: heard.append(a))
    assert heard[-1] == (N, N)


# -- fitting more rows than memory holds ---------------------------------------------------------------------------


@pytest.fixture
def small_sample(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(fitting, "SAMPLE", 500)
    return 500


def test_a_large_source_fits_its_map_on_a_sample_and_sums_all_rows(tmp_path: Path, small_sample: int) -> None:
    source = pp.scan(write_parquet(tmp_path))
    model = rffm().fit(source, "population")
    sample = draw_sample(source, "population", small_sample, 0, "raise")
    by_hand = rffm().fit(sample.rows.values, sample.labels)
    np.testing.assert_array_equal(model.features_.center_, by_hand.features_.center_)
    assert model.sketch_.tally.counts.tolist() == [int((k == LABELS).sum()) for k in "abc"]
    phi = model.features_.transform(FEATURES)
    means = np.stack([phi[k == LABELS].mean(axis=0) for k in "abc"], axis=1)
    np.testing.assert_allclose(model.sketch_.means(), means, atol=1e-6)  # type: ignore[attr-defined]
    np.testing.assert_allclose(model.predict(source), [np.mean(k == LABELS) for k in "abc"], atol=1e-5)


def test_of_a_large_source_no_row_is_embedded_by_a_classifier_that_it_trained(
    tmp_path: Path, small_sample: int
) -> None:
    source = pp.scan(write_parquet(tmp_path))
    model = pp.DFM(pp.features.Posterior(cv=3)).fit(source, "population")
    sample = draw_sample(source, "population", small_sample, 0, "raise")
    phi = model.features_
    folds = pp.features.Posterior(cv=3).fit(sample.rows.values, sample.labels).folds_
    assert folds is not None and len(phi.members_) == 3
    expected = np.zeros((3, 3))
    unseen = np.ones(N, dtype=bool)
    unseen[sample.positions] = False
    for i, k in enumerate("abc"):
        expected[i] = phi._raw(X[unseen & (k == LABELS)], None).sum(axis=0)
        for fold, member in enumerate(phi.members_):
            rows = sample.rows.values[(folds == fold) & (sample.labels == k)]
            expected[i] += member.predict_proba(rows.astype(np.float64)).sum(axis=0)
    np.testing.assert_allclose(model.sketch_.sums.sum(axis=1), expected, rtol=1e-10)  # type: ignore[attr-defined]
    assert model.sketch_.n_rows == N


@pytest.mark.parametrize("size", [1, 100, N - 1, N, N + 1])
def test_a_sample_and_the_rest_are_all_rows_once_however_they_are_divided(tmp_path: Path, size: int) -> None:
    path = write_parquet(tmp_path)
    found = []
    for batch_rows in (None, 333):
        source = pp.scan(path, batch_rows=batch_rows)
        sample = draw_sample(source, "population", size, 7, "raise")
        assert len(sample.labels) == min(size, N) and sample.n_rows == N and (np.diff(sample.positions) > 0).all()
        np.testing.assert_array_equal(sample.rows.values, X[sample.positions])
        np.testing.assert_array_equal(sample.labels, LABELS[sample.positions])
        rest = list(rest_of(source, "population", sample, "raise"))
        whole = np.concatenate([sample.rows.values, *(b.rows.values for b in rest)])
        np.testing.assert_array_equal(np.sort(whole, axis=0), np.sort(X, axis=0))
        found.append(sample.positions)
    np.testing.assert_array_equal(*found)


def test_every_row_is_as_likely_to_be_in_the_sample(tmp_path: Path) -> None:
    source = pp.scan(write_parquet(tmp_path), batch_rows=1000)
    taken = np.zeros(N)
    draws = 200
    for seed in range(draws):
        taken[draw_sample(source, "population", 300, seed, "raise").positions] += 1
    thirds = taken.reshape(3, -1).sum(axis=1) / (draws * 300)
    sd = np.sqrt(1 / 3 * 2 / 3 / (draws * 300))
    assert (np.abs(thirds - 1 / 3) < 4 * sd).all()  # of three shares, four standard errors
    assert ((taken - draws / 10) ** 2 / (draws / 10 * 0.9)).sum() < N + 5 * np.sqrt(2 * N)


def test_what_can_be_read_only_once_is_refused_where_two_passes_are_needed(small_sample: int) -> None:
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches())
    with pytest.raises(pp.InputError, match=r"gave no rows|two passes over"):
        rffm().fit(reader, "population")


# -- what goes wrong -----------------------------------------------------------------------------------------------


def holed(tmp_path: Path) -> Path:
    frame = FRAME.copy()
    frame.loc[[5, 2900], "CD4"] = np.nan
    frame.loc[7, "CD8"] = np.nan
    frame.to_parquet(tmp_path / "holed.parquet", row_group_size=1000)
    return tmp_path / "holed.parquet"


def test_dropped_rows_are_counted_over_all_batches(tmp_path: Path) -> None:
    source = pp.scan(holed(tmp_path), batch_rows=1000)
    with pytest.raises(
        pp.InputError, match=r"holed\.parquet \(rows 0 to 999\) contains NaN in column 'CD4' and 1 more, 2 of 1000"
    ):
        MODEL.estimate(source)
    kept = np.setdiff1d(np.arange(N), [5, 7, 2900])
    model = rffm(on_missing="drop").fit(source, "population")
    est = model.estimate(source)
    assert est.dropped == 3 and est.n_target == N - 3
    same_model(model, rffm(on_missing="drop").fit(FEATURES.iloc[kept], LABELS[kept]))


def broken(tmp_path: Path, name: str, text: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(error: type[Exception], match: str, act: Callable[[], Any]) -> None:
    before = threading.active_count()
    with pytest.raises(error, match=match) as caught:
        act()
    assert isinstance(caught.value, pp.ProportioError)
    assert threading.active_count() == before


def test_files_that_cannot_be_read_are_named_with_the_remedy(tmp_path: Path) -> None:
    good = write_parquet(tmp_path).read_bytes()
    ragged = broken(tmp_path, "ragged.csv", "CD3,CD4\n1,2\n3,4,5\n")
    refused(
        pp.FileError, r"ragged\.csv: cannot be read.*Expected 2 columns, got 3.*mend the row", lambda: pp.scan(ragged)
    )
    cut = broken(tmp_path, "cut.parquet", good[: len(good) // 2])
    refused(pp.FileError, r"cut\.parquet: cannot be read.*Copy it again", lambda: pp.scan(cut))
    late = broken(tmp_path, "late.csv", "CD3,CD4,CD8\n" + "1,2,3\n" * 300_000 + "1,x,3\n")
    refused(pp.FileError, r"late\.csv: cannot be read.*invalid value 'x'", lambda: MODEL.sketch(pp.scan(late)))
    empty = broken(tmp_path, "empty.csv", "")
    refused(pp.FileError, r"empty\.csv: cannot be read", lambda: pp.scan(empty))
    header = broken(tmp_path, "header.csv", "CD3,CD4,CD8\n")
    refused(pp.FileError, r"header\.csv gave no rows: 0 samples", lambda: MODEL.sketch(pp.scan(header)))
    refused(pp.FileError, r"header\.csv gave no rows: 0 samples", lambda: rffm().fit(pp.scan(header), "CD3"))


def test_a_parquet_file_with_a_damaged_page_is_named(tmp_path: Path) -> None:
    data = bytearray(write_parquet(tmp_path).read_bytes())
    data[4:2000] = b"\xff" * 1996
    refused(
        pp.FileError,
        r"bad\.parquet: cannot be read",
        lambda: MODEL.sketch(pp.scan(broken(tmp_path, "bad.parquet", bytes(data)))),
    )


def test_paths_that_lead_nowhere_are_named_with_what_is_there(tmp_path: Path) -> None:
    write_parquet(tmp_path)
    refused(
        pp.FileError,
        r"row\.parquet: no such file; the directory has rows\.parquet",
        lambda: pp.scan(tmp_path / "row.parquet"),
    )
    refused(pp.FileError, r"\*\.csv: no file matches", lambda: pp.scan(tmp_path / "*.csv"))
    (tmp_path / "nothing").mkdir()
    refused(pp.FileError, r"nothing: no file in this directory", lambda: pp.scan(tmp_path / "nothing"))
    refused(
        pp.FileError,
        r"the suffix '\.rows' tells no format.*format='csv'",
        lambda: pp.scan(broken(tmp_path, "a.rows", "x\n1\n")),
    )
    write_csv(tmp_path)
    refused(
        pp.FileError, "files of several formats", lambda: pp.scan([tmp_path / "rows.csv", tmp_path / "rows.parquet"])
    )
    refused(pp.FileError, "no paths", lambda: pp.scan([]))
    refused(pp.InputError, "format='xls' is unknown", lambda: pp.scan(tmp_path / "rows.csv", format="xls"))
    refused(pp.InputTypeError, "no option 'sep'", lambda: pp.scan(tmp_path / "rows.csv", sep=";"))
    refused(pp.InputTypeError, "no option 'delimiter'", lambda: pp.scan(tmp_path / "rows.parquet", delimiter=";"))
    refused(pp.InputError, "batch_rows=0", lambda: pp.scan(tmp_path / "rows.csv", batch_rows=0))


def test_a_format_can_be_named_and_csv_has_its_options(tmp_path: Path) -> None:
    path = broken(tmp_path, "a.txt", "CD3;CD4;CD8\n1,5;2;-\n0,5;1;2\n")
    source = pp.scan(path, format="csv", delimiter=";", decimal_point=",", null_values=["-"])
    assert [b.to_pydict() for b in source.batches(["CD8", "CD3"])] == [{"CD8": [None, 2.0], "CD3": [1.5, 0.5]}]


def test_columns_that_are_missing_or_no_numbers_are_named(tmp_path: Path) -> None:
    source = pp.scan(write_parquet(tmp_path))
    refused(
        pp.MismatchError,
        r"rows\.parquet.*missing: 'CD8'",
        lambda: MODEL.sketch(pp.scan(tmp_path / "rows.parquet", columns=["CD3", "CD4"])),
    )
    refused(
        pp.MismatchError,
        r"no column 'CD9': its columns are 'CD3'",
        lambda: pp.scan(tmp_path / "rows.parquet", columns=["CD9"]),
    )
    refused(pp.InputError, "leaves no column", lambda: pp.scan(tmp_path / "rows.parquet", columns=[]))
    refused(pp.InputTypeError, r"not numbers: 'population' \(string\)", lambda: rffm().fit(X, LABELS).sketch(source))
    refused(pp.MismatchError, "no column 'label' to take the labels from", lambda: rffm().fit(source, "label"))
    refused(pp.MismatchError, "no column 'label' to take the labels from", lambda: rffm().fit(FRAME, "label"))
    refused(pp.InputError, "name their column", lambda: rffm().fit(source, LABELS))
    refused(pp.InputError, "sample_weight goes with tables", lambda: rffm().fit(source, "population", np.ones(N)))
    refused(pp.InputError, "sample_weight goes with one table", lambda: MODEL.sketch(source, sample_weight=np.ones(N)))
    refused(pp.InputTypeError, "no columns with names", lambda: rffm().fit(X, "population"))
    pq.write_table(TABLE.drop_columns("CD4"), tmp_path / "s.parquet")
    files = pp.scan([tmp_path / "rows.parquet", tmp_path / "s.parquet"])
    refused(pp.FileError, r"s\.parquet: has no column 'CD4', which the first file has", lambda: MODEL.sketch(files))


def test_missing_labels_are_counted(tmp_path: Path) -> None:
    path = broken(tmp_path, "a.csv", "x,label\n1,a\n2,\n3,\n4,b\n")
    refused(
        pp.InputError,
        r"column 'label' of .*a\.csv.*contains 2 missing labels",
        lambda: rffm().fit(pp.scan(path), "label"),
    )


def test_whole_numbers_of_a_csv_are_integer_labels(tmp_path: Path) -> None:
    path = broken(tmp_path, "a.csv", "x,label\n1,1\n2,0\n3.5,1\n4,0\n")
    assert rffm().fit(pp.scan(path), "label").classes_.dtype == np.int64


# -- the reader's thread -------------------------------------------------------------------------------------------


def test_the_reader_is_two_ahead_and_ends_with_the_iteration() -> None:
    before = threading.active_count()
    given: list[int] = []

    def numbers() -> Iterator[int]:
        try:
            for i in range(100):
                given.append(i)
                yield i
        finally:
            given.append(-1)

    batches = ahead(numbers())
    assert [next(batches) for _ in range(10)] == list(range(10))
    assert len(given) <= 10 + 3
    batches.close()
    assert given[-1] == -1 and threading.active_count() == before
    assert list(ahead(iter(range(7)))) == list(range(7))


LONG = """
import sys, threading
import numpy as np, pandas as pd
import proportio as pp
model = pp.RFFM(n_features=40, bandwidth=1.0).fit(pd.read_parquet(sys.argv[1])[["CD3", "CD4", "CD8"]], np.arange(3000) % 2)
class Endless(pp.Source):
    name, columns = "endless", ("CD3", "CD4", "CD8")
    def batches(self, columns=None):
        while True:
            yield from pp.scan(sys.argv[1]).batches(columns)
def progress(done, total):
    if done > 1_000_000:
        print("running", flush=True)
try:
    model.sketch(Endless(), progress=progress).save(sys.argv[2])
except KeyboardInterrupt:
    left = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    print("interrupted", left, flush=True)
    raise
"""


def test_an_interrupted_run_leaves_no_thread_no_process_and_no_file(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-c", LONG, str(write_parquet(tmp_path)), str(out / "batch.safetensors")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        assert run.stdout is not None and run.stderr is not None
        assert "running" in run.stdout.readline()
        run.send_signal(signal.SIGINT)
        said, errors = run.communicate(timeout=60)
    assert "interrupted []" in said and "KeyboardInterrupt" in errors
    assert run.returncode == -signal.SIGINT
    assert not list(out.iterdir())
    group = subprocess.run(["ps", "-o", "pid=", "-g", str(run.pid)], capture_output=True, text=True, check=False)
    assert not group.stdout.strip()
