"""Spark, in a real local session: the sketch and the estimate of one machine."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import proportio as pp
from proportio.engines import spark as engine

pyspark = pytest.importorskip("pyspark")
pytestmark = [
    pytest.mark.skipif(
        shutil.which("java") is None and "JAVA_HOME" not in os.environ,
        reason="Spark needs Java 17 or newer: apt-get install default-jre-headless",
    ),
    # py4j leaves its sockets to Java to the garbage collector, which complains of them in whatever test it then runs
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

RNG = np.random.default_rng(3)
N = 4000
LABELS = RNG.choice(["a", "b"], N)
FRAME = pd.DataFrame(RNG.normal(size=(N, 2)) + 2.0 * (LABELS == "b")[:, None], columns=["x", "y.z"], dtype=np.float32)
MODEL = pp.RFFM(n_features=40, bandwidth=1.0).fit(FRAME, LABELS)
HERE = MODEL.estimate(FRAME)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")  # type: ignore[attr-defined]
    builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    made = (
        builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    )
    yield made
    made.stop()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def frame(session: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    FRAME.assign(label=LABELS).to_parquet(path, row_group_size=1000)
    return session.read.parquet(str(path)).repartition(3)


def same(sketch: Any) -> None:
    whole = MODEL.sketch(FRAME)
    np.testing.assert_array_equal(sketch.sums.sum(axis=1), whole.sums.sum(axis=1))  # type: ignore[attr-defined]
    np.testing.assert_array_equal(sketch.tally.stacked().sum(axis=2), whole.tally.stacked().sum(axis=2))


def test_a_spark_frame_is_sketched_where_it_is(frame: Any) -> None:
    same(MODEL.sketch(frame))
    est = MODEL.estimate(frame)
    np.testing.assert_allclose(est.proportions, HERE.proportions, rtol=0, atol=1e-10)
    np.testing.assert_allclose(est.interval(), HERE.interval(), atol=0.01)


def test_executors_read_the_files_of_a_source_and_deal_to_the_same_blocks(session: Any, tmp_path: Path) -> None:
    for i in range(0, N, 1000):
        FRAME[i : i + 1000].to_parquet(tmp_path / f"part-{i}.parquet", row_group_size=300)
    source = pp.scan(tmp_path)
    sketch, whole = MODEL.sketch(source, engine="spark"), MODEL.sketch(FRAME)
    np.testing.assert_array_equal(sketch.sums, whole.sums)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(sketch.tally.stacked(), whole.tally.stacked())


def test_executors_merge_the_sketches_of_many_partitions(frame: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MANY", 2)
    same(MODEL.sketch(frame))


def test_dropped_rows_and_empty_partitions(session: Any) -> None:
    holed = FRAME.astype(float).copy()
    holed.iloc[[1, 1500, 3999], 1] = np.nan
    frame = session.createDataFrame(holed[:200]).repartition(8).filter("x > 1")
    here = holed[:200][holed[:200]["x"] > 1]
    model = pp.RFFM(n_features=40, bandwidth=1.0, on_missing="drop").fit(FRAME, LABELS)
    est = model.estimate(frame)
    assert est.dropped == int(here.isna().any(axis=1).sum()) and est.n_target + est.dropped == len(here)
    np.testing.assert_allclose(est.proportions, model.predict(here), rtol=0, atol=1e-10)
    with pytest.raises(pp.InputError, match="the DataFrame gave no rows"):
        model.sketch(frame.filter("x > 100"))


def test_a_task_has_the_processors_that_spark_gave_it(session: Any) -> None:
    model = pp.DFM(pp.features.Function(readers)).fit(FRAME[["x"]], LABELS)
    assert not model.sketch(session.createDataFrame(FRAME[:100][["x"]])).sums.any()  # type: ignore[attr-defined]


def readers(rows: Any) -> Any:
    """1 where a thread of ours reads beside the task's own, which has all of its one processor."""
    import threading

    return np.full((len(rows), 1), float(any(t.name.startswith("proportio") for t in threading.enumerate())))


def test_what_spark_cannot_do_is_refused_with_the_reason(frame: Any) -> None:
    with pytest.raises(pp.MismatchError, match=r"the Spark DataFrame\): missing: 'y\.z'"):
        MODEL.sketch(frame.select("x"))
    with pytest.raises(pp.InputError, match="every worker would send back all of its rows"):
        pp.KMM(bandwidth=1.0).fit(FRAME, LABELS).sketch(frame)


def test_a_sketch_of_spark_adds_to_one_of_a_file(frame: Any, tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "rows.parquet")
    both = MODEL.sketch(frame) + MODEL.sketch(pp.scan(tmp_path / "rows.parquet"), start=1 << 60)
    np.testing.assert_allclose(MODEL.predict(both), HERE.proportions, atol=1e-10)
