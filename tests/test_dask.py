"""Dask, with worker processes of its own: the sketch and the estimate of one machine, whatever happens to a worker."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dask import delayed
from distributed import Client, LocalCluster
from sklearn.tree import DecisionTreeClassifier

import proportio as pp
from proportio.engines import Recipe

RNG = np.random.default_rng(3)
N = 4000
LABELS = RNG.choice(["a", "b"], N)
FRAME = pd.DataFrame(
    RNG.normal(size=(N, 3)) + 2.0 * (LABELS == "b")[:, None], columns=["x", "y", "z"], dtype=np.float32
)
MODEL = pp.RFFM(n_features=40, bandwidth=1.0).fit(FRAME, LABELS)
HERE = MODEL.estimate(FRAME)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Client]:
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as workers,
        Client(workers) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    table = pa.Table.from_pandas(FRAME.assign(label=LABELS), preserve_index=False)
    for i in range(0, N, 1000):
        pq.write_table(table[i : i + 1000], folder / f"part-{i}.parquet", row_group_size=300)
    return folder


def same(sketch: Any, model: Any = MODEL) -> None:
    """The same totals to the last bit, and the same estimate to 1e-10 beside what the dealing to blocks does to error bars."""
    whole = model.sketch(FRAME)
    np.testing.assert_array_equal(sketch.sums.sum(axis=1), whole.sums.sum(axis=1))
    np.testing.assert_array_equal(sketch.tally.stacked().sum(axis=2), whole.tally.stacked().sum(axis=2))
    np.testing.assert_allclose(
        model.estimate(sketch).proportions, model.estimate(whole).proportions, rtol=0, atol=1e-10
    )


def test_a_dask_frame_is_sketched_where_it_is(cluster: Client, files: Path) -> None:
    frame = dd.read_parquet(files)
    same(MODEL.sketch(frame))
    est = MODEL.estimate(frame)
    np.testing.assert_allclose(est.proportions, HERE.proportions, rtol=0, atol=1e-10)
    np.testing.assert_allclose(est.interval(), HERE.interval(), atol=0.01)
    np.testing.assert_array_equal(MODEL.predict(dd.from_pandas(FRAME, npartitions=3)), HERE.proportions)


def test_a_source_is_spread_over_the_workers_and_dealt_to_the_same_blocks(cluster: Client, files: Path) -> None:
    heard: list[tuple[int, int | None]] = []
    source = pp.scan(files)
    sketch = MODEL.sketch(source, engine="dask", progress=lambda *a: heard.append(a))
    whole = MODEL.sketch(source)
    np.testing.assert_array_equal(sketch.sums, whole.sums)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(sketch.tally.stacked(), whole.tally.stacked())
    assert MODEL.estimate(source, engine="dask").interval().tolist() == MODEL.estimate(source).interval().tolist()
    assert heard == [(N, N)]


def test_delayed_tables_of_any_kind_are_parts(cluster: Client, files: Path) -> None:
    paths = sorted(files.glob("*.parquet"))
    same(MODEL.sketch([delayed(pd.read_parquet)(p) for p in paths]))
    same(MODEL.sketch([delayed(pq.read_table)(p) for p in paths]))
    plain = pp.RFFM(n_features=40, bandwidth=1.0).fit(FRAME.to_numpy(), LABELS)
    same(plain.sketch([delayed(np.asarray)(FRAME[i : i + 1000].to_numpy()) for i in range(0, N, 1000)]), plain)


def test_many_partitions_merge_in_a_tree_and_empty_ones_add_nothing(cluster: Client) -> None:
    same(MODEL.sketch([delayed(FRAME[i : i + 40]) for i in range(0, N + 200, 40)]))


def test_dropped_rows_are_counted_over_all_partitions(cluster: Client) -> None:
    holed = FRAME.copy()
    holed.iloc[[1, 1500, 3999], 1] = np.nan
    frame = dd.from_pandas(holed, npartitions=4)
    with pytest.raises(pp.InputError, match=r"partition \d \(rows 0 to 999\) contains NaN in column 'y', 1 of 1000"):
        MODEL.sketch(frame)
    model = pp.RFFM(n_features=40, bandwidth=1.0, on_missing="drop").fit(FRAME, LABELS)
    est = model.estimate(frame)
    assert est.dropped == 3 and est.n_target == N - 3
    np.testing.assert_array_equal(est.proportions, model.predict(holed))
    with pytest.raises(pp.InputError, match="the list gave no rows: all 2 rows have a NaN"):
        model.sketch([delayed(holed[1:2]), delayed(holed[1500:1501])])


def slow(table: pd.DataFrame) -> pd.DataFrame:
    time.sleep(0.25)
    return table


def test_a_killed_worker_changes_nothing(cluster: Client) -> None:
    pids = cluster.run(os.getpid)
    tables = [delayed(slow)(FRAME[i : i + 100]) for i in range(0, N, 100)]
    killed: list[int] = []

    def strike() -> None:
        victim = next(iter(pids.values()))
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    timer = threading.Timer(1.5, strike)  # forty tasks of a quarter of a second on two workers take five
    timer.start()
    sketch = MODEL.sketch(tables)
    timer.join()
    assert killed and killed[0] not in cluster.run(os.getpid).values()
    same(sketch)


@pytest.mark.parametrize("threads", [None, 2])
def test_a_task_has_one_thread_unless_the_model_asks_for_more(cluster: Client, threads: int | None) -> None:
    model = pp.DFM(pp.features.Function(threads_now), n_jobs=threads).fit(FRAME, LABELS)
    seen = model.sketch([delayed(FRAME[i : i + 1000]) for i in range(0, N, 1000)]).sums  # type: ignore[attr-defined]
    readers = seen.sum() / N
    assert readers == (0 if threads is None else 1)


def threads_now(rows: Any) -> Any:
    """How many threads of ours there are beside the task's own: a reader, or none."""
    ours = sum(t.name.startswith("proportio") for t in threading.enumerate())
    return np.full((len(rows), 1), float(ours))


def test_a_classifier_of_the_users_travels_too(cluster: Client) -> None:
    model = pp.BBSE(DecisionTreeClassifier(max_depth=3), cv=2).fit(FRAME, LABELS)
    same(model.sketch(dd.from_pandas(FRAME, npartitions=3)), model)


@pytest.mark.filterwarnings(
    "ignore:Running on a single-machine scheduler"
)  # the cluster of the other tests idles beside it
def test_without_a_cluster_dask_its_own_threads_do_it(files: Path) -> None:
    import dask

    with dask.config.set(scheduler="threads"):
        same(MODEL.sketch(pp.scan(files), engine="dask"))


# -- recipes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        MODEL,
        pp.RFFM(n_features=40, bandwidth=1.0, kind="structured").fit(FRAME, LABELS),
        pp.BBSE(cv=2).fit(FRAME, LABELS),
        pp.DFM(pp.features.Histogram(bins=4), on_missing="drop").fit(FRAME, LABELS),
    ],
    ids=["RFFM", "structured", "BBSE", "Histogram"],
)
def test_a_recipe_travels_without_code(model: Any) -> None:
    recipe = model._recipe()
    again = pickle.loads(pickle.dumps(recipe))
    assert (again.seed, again.map_id, again.columns, again.on_missing) == (
        recipe.seed, recipe.map_id, recipe.columns, recipe.on_missing,
    )  # fmt: skip
    np.testing.assert_array_equal(again.features.transform(FRAME), recipe.features.transform(FRAME))
    assert b"sklearn" not in pickle.dumps(recipe) and len(Recipe.from_bytes(recipe.to_bytes()).to_bytes()) < 100_000


def test_what_no_engine_can_do_is_refused_with_the_reason(files: Path) -> None:
    frame = dd.from_pandas(FRAME, npartitions=2)
    with pytest.raises(pp.InputError, match="every worker would send back all of its rows: use RFFM"):
        pp.KMM(bandwidth=1.0).fit(FRAME, LABELS).sketch(frame)
    with pytest.raises(pp.InputError, match=r"not DataFrame: fit on a sample .* fit\(pp\.scan"):
        pp.RFFM().fit(frame, LABELS)
    with pytest.raises(pp.MismatchError, match=r"the Dask DataFrame\): missing: 'z'"):
        MODEL.sketch(frame[["x", "y"]])
    with pytest.raises(pp.InputError, match="sample_weight goes with tables in memory, not with the engine 'dask'"):
        MODEL.sketch(frame, sample_weight=np.ones(N))
    with pytest.raises(pp.InputError, match="engine='dask' cannot take DataFrame: 'dask' takes Dask DataFrames"):
        MODEL.sketch(FRAME, engine="dask")
    with pytest.raises(pp.InputError, match="engine='spark' cannot take DataFrame"):
        MODEL.sketch(frame, engine="spark")
    with pytest.raises(pp.InputError, match="engine='ray' is not one of 'auto', 'local', 'torch', 'dask', 'spark'"):
        MODEL.sketch(FRAME, engine="ray")  # type: ignore[arg-type]
