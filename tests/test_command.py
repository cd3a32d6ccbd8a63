"""The command `proportio`: what it prints, where, and how it exits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import proportio as pp
from proportio import cli
from proportio.demo import Batch, digits, estimates

COMMAND = [sys.executable, "-m", "proportio.cli"]


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli.app, list(arguments))


@pytest.fixture(scope="module")
def four() -> list[str]:
    """The demo as a user gets it: the installed command, in a process of its own."""
    script = Path(sys.executable).with_name("proportio")
    done = subprocess.run([str(script), "demo"], capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def batch() -> Batch:
    return digits(4)


def row(lines: list[str], name: str) -> list[str]:
    return next(line.split() for line in lines if line.strip().startswith(name))


def test_demo_says_what_was_withheld(four: list[str]) -> None:
    assert four[0].startswith("Reference: ") and four[0].endswith("without a single 4.")
    assert "1000 unlabelled digits" in four[1] and four[1].endswith("of them a 4.")


def test_demo_prints_one_row_a_known_digit(four: list[str]) -> None:
    assert row(four, "digit") == ["digit", "reference", "true", "RFFM", "softRFFM", "softBBSE+", "AutoDFM"]
    table = [line.split() for line in four if line.strip()[:1].isdigit()]
    assert [int(cells[0]) for cells in table] == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    shares = np.array([[float(v) for v in cells[1:]] for cells in table])
    assert shares.shape == (9, 6)
    np.testing.assert_allclose(shares[:, 0].sum(), 1, atol=0.006)
    np.testing.assert_allclose(shares[:, 2].sum(), 1, atol=0.006)  # RFFM hands everything to the known digits


def test_demo_shares_and_the_unknown_add_up(four: list[str]) -> None:
    table = np.array([[float(v) for v in line.split()[1:]] for line in four if line.strip()[:1].isdigit()])
    unknown = row(four, "unknown")
    assert unknown[2] == "-"
    for column, value in ((1, unknown[1]), (3, unknown[3]), (4, unknown[4]), (5, unknown[5])):
        np.testing.assert_allclose(table[:, column].sum() + float(value), 1, atol=0.006)


def test_leaving_room_for_the_unknown_digit_comes_nearer_the_truth(four: list[str]) -> None:
    rffm, soft, _, default = (float(v) for v in row(four, "l2")[2:])
    assert default < soft < rffm


def test_the_printed_errors_are_those_of_the_estimates(four: list[str], batch: Batch) -> None:
    found = estimates(batch)
    true = np.array([batch.share(int(k)) for k in found["RFFM"].classes])
    errors = {name: float(np.linalg.norm(est.proportions - true)) for name, est in found.items()}
    assert [f"{e:.3f}" for e in errors.values()] == row(four, "l2")[2:]
    assert errors["softRFFM"] < errors["RFFM"]
    assert found["softRFFM"].unknown > 0.05 and found["RFFM"].unknown == 0


def test_the_reference_never_saw_the_withheld_digit(batch: Batch) -> None:
    assert 4 not in batch.y and 4 in batch.y_new
    assert abs(batch.share(4) - 0.2) < 0.05
    assert sorted(set(batch.y.tolist())) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_another_digit_can_be_withheld() -> None:
    done = run("demo", "--withhold", "8")
    assert done.exit_code == 0, done.output
    assert "without a single 8." in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines() if line.strip()[:1].isdigit()] == list("012345679")
    assert "try --withhold 8" not in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["demo", "--withhold", "10"],
        ["demo", "--withhold", "-1"],
        ["demo", "--withhold", "four"],
        ["dmo"],
        ["demo", "x"],
        ["--loud"],
    ],
)
def test_bad_usage_exits_with_2_and_says_so_on_stderr(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == "" and "Usage" in done.stderr


def test_version_is_printed_alone() -> None:
    done = run("--version")
    assert (done.exit_code, done.stdout) == (0, f"proportio {pp.__version__}\n")


def test_help_names_the_subcommands() -> None:
    done = run("--help")
    assert done.exit_code == 0 and "demo" in done.stdout and "share of each class" in done.stdout


def test_help_of_the_demo_names_its_option() -> None:
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        [*COMMAND, "demo", "--help"], capture_output=True, text=True, check=True, timeout=60, env=environment
    )
    assert "--withhold" in done.stdout and "never seen" in done.stdout


def test_no_arguments_show_the_help() -> None:
    done = run()
    assert "Usage" in done.output and "demo" in done.output


def test_an_error_of_the_library_exits_with_2_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise pp.InputError("X has 0 rows: check the filter.")

    monkeypatch.setattr(cli, "app", fail)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    out, err = capsys.readouterr()
    assert out == "" and err == "proportio: X has 0 rows: check the filter.\n"
