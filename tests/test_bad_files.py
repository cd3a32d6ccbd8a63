"""Bad input at the command line: one clear line on stderr, exit 2, nothing on stdout, and no file written."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from fcs_files import fcs
from proportio import cli

COMMAND = [sys.executable, "-m", "proportio.cli"]
RNG = np.random.default_rng(0)
Y = np.where(np.arange(300) % 2, "sick", "well")
X = RNG.normal(size=(300, 3)) + 2 * (Y == "sick")[:, None]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"]).assign(state=Y)
FIT = ["--n-features", "30", "--bandwidth", "1"]


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: bytes) -> Path:
    """A folder with a reference, a batch and a model, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("ref.csv", index=False)
    FRAME.drop(columns="state").to_csv("batch.csv", index=False)
    FRAME.to_parquet("ref.parquet", index=False)
    Path("m.safetensors").write_bytes(model)
    return tmp_path


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("model")
    FRAME.to_csv(folder / "ref.csv", index=False)
    assert run("fit", folder / "ref.csv", "--label", "state", "-o", folder / "m", *FIT).exit_code == 0
    return (folder / "m").read_bytes()


def fitting(path: str = "ref.csv", *more: str, label: str = "state") -> list[str]:
    return ["fit", path, "--label", label, "-o", "new.safetensors", *FIT, *more]


def estimating(path: str = "batch.csv", *more: str) -> list[str]:
    return ["estimate", path, "--model", "m.safetensors", "--csv", "new.csv", *more]


def by(model: str, *more: str) -> list[str]:
    return ["estimate", "batch.csv", "--model", model, "--csv", "new.csv", *more]


def correcting(path: str) -> list[str]:
    return ["correct", path, "--estimate", "est.json", "-o", "new.csv"]


def empty() -> None:
    Path("empty").mkdir()
    Path("empty/notes.md").write_text("nothing here\n")


def ragged() -> None:
    lines = Path("ref.csv").read_text().splitlines()
    lines[200] += ",surplus"
    Path("ragged.csv").write_text("\n".join(lines) + "\n")


def with_nan() -> None:
    FRAME.assign(b=FRAME["b"].where(FRAME.index != 7)).to_csv("nan.csv", index=False)


def only_header() -> None:
    Path("header.csv").write_text("a,b,c\n")


def one_class() -> None:
    FRAME[FRAME["state"] == "sick"].to_csv("one.csv", index=False)


def without_labels() -> None:
    FRAME.assign(state=FRAME["state"].where(FRAME.index != 7)).to_csv("gap.csv", index=False)


def cut(suffix: str) -> Callable[[], None]:
    def write() -> None:
        if suffix == "h5ad":
            anndata.AnnData(X.astype(np.float32), obs=FRAME[["state"]].set_axis(map(str, range(300)))).write_h5ad(
                "whole"
            )
            data = Path("whole").read_bytes()
        else:
            data = fcs(X, ["a", "b", "c"]) if suffix == "fcs" else Path("ref.parquet").read_bytes()
        Path(f"cut.{suffix}").write_bytes(data[: len(data) * 2 // 3])

    return write


def other_channels() -> None:
    Path("other.fcs").write_bytes(fcs(X, ["FL1-A", "FL2-A", "FL3-A"], markers=["a", "b", "CD3"]))


def transformed() -> None:
    codes = np.column_stack([X, Y == "sick"])
    Path("ref.fcs").write_bytes(fcs(codes, ["a", "b", "c", "state"]))
    assert (
        run("fit", "ref.fcs", "--label", "state", "--transform", "arcsinh:5", "-o", "fcs.safetensors", *FIT).exit_code
        == 0
    )


def sketched() -> None:
    assert run("sketch", "batch.csv", "--model", "m.safetensors", "-o", "s.safetensors").exit_code == 0


def foreign_sketch() -> None:
    assert run("fit", "ref.csv", "--label", "state", "-o", "other.safetensors", "--n-features", "40").exit_code == 0
    assert run("sketch", "batch.csv", "--model", "other.safetensors", "-o", "s.safetensors").exit_code == 0


def hard_model() -> None:
    assert run("fit", "ref.csv", "--label", "state", "-o", "hard.safetensors", "--hard", *FIT).exit_code == 0


def folder_in_the_way() -> None:
    Path("new.csv").mkdir()


def estimate_of_others() -> None:
    Path("est.json").write_text("{}")


def predictions() -> None:
    assert run("estimate", "batch.csv", "--model", "m.safetensors", "--json", "est.json").exit_code == 0
    pd.DataFrame({"sick": [0.5, 0.7], "well": [0.5, 0.7]}).to_csv("p.csv", index=False)


BAD: dict[str, tuple[Callable[[], None] | None, list[str], str]] = {
    "a missing file": (None, estimating("nowhere.csv"), "nowhere.csv: no such file"),
    "a missing reference": (None, fitting("nowhere.csv"), "nowhere.csv: no such file"),
    "a missing model": (None, by("no.safetensors"), "no.safetensors"),
    "a pattern that matches nothing": (None, estimating("*.tsv"), "no file matches"),
    "a directory without data": (empty, estimating("empty"), "empty: no file in this directory"),
    "a suffix that tells nothing": (empty, estimating("empty/notes.md"), "suffix '.md'"),
    "a ragged row": (ragged, fitting("ragged.csv"), "ragged.csv"),
    "a text column among the features": (None, fitting(label="a"), "'state'"),
    "a text column, and what to do": (None, fitting(label="a"), "--features"),
    "an unknown label column": (None, fitting(label="diagnosis"), "no column 'diagnosis'"),
    "an unknown feature": (None, fitting("ref.csv", "--features", "a,z"), "no column 'z'"),
    "a label among the features": (None, fitting("ref.csv", "--features", "a,state"), "which is the label"),
    "one class only": (one_class, fitting("one.csv"), "one class only"),
    "missing labels": (without_labels, fitting("gap.csv"), "missing labels"),
    "NaN in the reference": (with_nan, fitting("nan.csv"), "NaN in column 'b'"),
    "NaN in the batch": (with_nan, estimating("nan.csv"), "NaN in column 'b'"),
    "no rows": (only_header, estimating("header.csv"), "no rows"),
    "a column that the model knows missing": (None, fitting("ref.csv", "--features", "a,b,q"), "'q'"),
    "channels that do not match the model": (other_channels, estimating("other.fcs"), "missing: 'c'"),
    "a truncated FCS file": (cut("fcs"), estimating("cut.fcs"), "cut.fcs: truncated"),
    "a truncated Parquet file": (cut("parquet"), estimating("cut.parquet"), "cut.parquet"),
    "a truncated h5ad file": (cut("h5ad"), estimating("cut.h5ad"), "cut.h5ad"),
    "a model that is a table": (None, by("ref.csv"), "ref.csv"),
    "a model that is a sketch": (sketched, by("s.safetensors"), "holds a sketch"),
    "a sketch that is a model": (None, estimating("m.safetensors"), "holds a model"),
    "a sketch of another model": (foreign_sketch, estimating("s.safetensors"), "made by another model"),
    "rows and sketches together": (sketched, estimating("batch.csv", "s.safetensors"), "rows and sketches"),
    "sketches by a column": (sketched, estimating("s.safetensors", "--by", "day"), "sketches have no columns"),
    "an unknown sample column": (None, estimating("batch.csv", "--by", "day"), "no column 'day'"),
    "neither model nor reference": (None, ["estimate", "batch.csv", "--csv", "new.csv"], "either --model"),
    "both model and reference": (None, estimating("batch.csv", "--reference", "ref.csv"), "either --model"),
    "a reference without a label": (None, ["estimate", "batch.csv", "--reference", "ref.csv"], "needs --label"),
    "a model and a label": (None, estimating("batch.csv", "--label", "state"), "--label goes with --reference"),
    "a model and a method": (None, estimating("batch.csv", "--hard"), "--soft goes with --reference"),
    "a model and a transform": (None, estimating("batch.csv", "--transform", "arcsinh:5"), "--transform goes with the reference"),
    "a transform of a table": (None, fitting("ref.csv", "--transform", "arcsinh:5"), "take no option 'transform'"),
    "a batch of another format than a transformed reference": (
        transformed, by("fcs.safetensors"), "was read from fcs files with transform",
    ),
    "a transform that is none": (transformed, fitting("ref.fcs", "--transform", "log"), "no scale"),
    "an option of another method": (None, fitting("ref.csv", "--method", "bbse"), "does not go with --method bbse"),
    "a kernel of another method": (None, fitting("ref.csv", "--kernel", "energy"), "--kernel energy does not go"),
    "a bandwidth of words": (None, fitting("ref.csv", "--bandwidth", "wide"), "neither auto, median nor a number"),
    "quiet and verbose": (None, estimating("batch.csv", "-q", "-v"), "exclude each other"),
    "a level beyond 1": (None, estimating("batch.csv", "--level", "95"), "level=95"),
    "a gate that does not parse": (None, estimating("batch.csv", "--fail-on", "unknown >> 1"), "a share expected before '> 1'"),
    "a gate on a class that is not there": (None, estimating("batch.csv", "--fail-on", "share:dead > 0"), "'dead' is not a class"),
    "a gate that a hard model cannot answer": (
        hard_model, by("hard.safetensors", "--fail-on", "unknown > 0"), "this model is hard",
    ),
    "an output below nothing": (None, estimating("batch.csv", "--json", "no/where.json"), "there is no directory no"),
    "an output that is a directory": (folder_in_the_way, estimating(), "it is a directory"),
    "an output that is a device": (None, estimating("batch.csv", "--json", "/dev/null"), "it is a device"),
    "two outputs in one": (None, estimating("batch.csv", "--json", "new.csv"), "asked for twice"),
    "an output that is read": (None, estimating("batch.csv", "--json", "batch.csv"), "would be overwritten"),
    "scores of no format": (None, ["explain", "batch.csv", "--model", "m.safetensors", "-o", "new.txt"], ".csv or .parquet"),
    "an estimate that is none": (
        estimate_of_others, correcting("batch.csv"), "est.json: not the JSON of one estimate",
    ),
    "predictions without a class": (
        predictions, correcting("batch.csv"), "no column 'sick', 'well'",
    ),
    "predictions that are no shares": (
        predictions, correcting("p.csv"), "the posteriors of row 1 are not shares",
    ),
}  # fmt: skip


def listed() -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in Path().rglob("*") if p.is_file()}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_line_exit_2_and_no_file(what: str, here: Path) -> None:
    prepare, arguments, says = BAD[what]
    if prepare is not None:
        prepare()
    before = listed()
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("proportio: ") and says in lines[0], done.stderr
    assert listed() == before


def test_missing_options_are_told_with_the_usage(here: Path) -> None:
    done = run("fit", "ref.csv", "-o", "new.safetensors")
    assert done.exit_code == 2 and done.stdout == "" and "--label" in done.stderr and "Usage" in done.stderr


def test_dropped_rows_are_counted(here: Path) -> None:
    with_nan()
    done = run(*estimating("nan.csv", "--on-missing", "drop", "--json", "-"))
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert (found["rows"], found["estimate"]["dropped"]) == (299, 1)
    FRAME.assign(b=FRAME["b"].where(FRAME.index != 7), day="monday").to_csv("nan.csv", index=False)
    done = run(*estimating("nan.csv", "--on-missing", "drop", "--by", "day", "--json", "-"))
    found = json.loads(done.stdout)
    assert (found["sample"], found["rows"], found["estimate"]["dropped"]) == ("monday", 299, 1)


# -- what only a process of its own shows --------------------------------------------------------------------------


def real(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, `before` run in it first."""
    code = f"{before}\nfrom proportio import cli; import sys; sys.argv[1:] = {list(arguments)!r}; cli.main()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


def test_answers_go_to_stdout_and_all_else_to_stderr(here: Path) -> None:
    done = subprocess.run(
        [*COMMAND, *estimating("batch.csv", "--json", "-", "--fail-on", "unknown >= 0", "-v")],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert json.loads(done.stdout)["estimate"]["classes"] == ["sick", "well"]
    said = done.stderr.splitlines()
    assert all(line.startswith("proportio: ") for line in said) and any(
        "gate unknown >= 0: FAILED" in line for line in said
    )
    assert (here / "new.csv").read_text().startswith("sample,class,share,low,high,count,source_share\n")
    bad = subprocess.run([*COMMAND, *estimating("no.csv")], capture_output=True, text=True, check=False, timeout=120)
    assert (bad.returncode, bad.stdout, len(bad.stderr.splitlines())) == (2, "", 1)


INTERRUPT = """
import os, signal, time
def interrupted(*_, **__):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
"""


@pytest.mark.parametrize(
    "where",
    [
        "import proportio.quantifier as q; q.Quantifier._match = interrupted",
        "import os; os.fsync = interrupted",
        "import proportio.sources.files as f; f.Files.batches = interrupted",
    ],
)
def test_an_interrupt_leaves_no_file_and_exits_with_130(where: str, here: Path) -> None:
    before = listed()
    done = real(*estimating("batch.csv", "--json", "new.json"), before=INTERRUPT + where)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "proportio: interrupted: nothing was written\n")
    assert listed() == before


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 kilobytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system to fill")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_leaves_no_file(full_disk: Path, here: Path) -> None:
    (full_disk / "filler").write_bytes(b"x" * 40_000)
    done = run("fit", "ref.csv", "--label", "state", "-o", full_disk / "m.safetensors", *FIT)
    assert done.exit_code == 2 and done.stdout == ""
    assert done.stderr == f"proportio: {full_disk / 'm.safetensors'}: cannot be written (No space left on device).\n"
    assert [p.name for p in full_disk.iterdir()] == ["filler"]
    with contextlib.suppress(OSError), (full_disk / "filler").open("ab", buffering=0) as f:
        while True:
            f.write(b"x" * 1024)
    done = run(*estimating("batch.csv", "--json", str(full_disk / "answer.json")))
    assert done.exit_code == 2 and "No space left" in done.stderr
    assert not (here / "new.csv").exists()  # none of the files, not only not this one
