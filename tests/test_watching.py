"""`proportio monitor`: each file counts once, whatever happens in between, and says what the library's monitor says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

import proportio as pp
from proportio import cli, schema

RNG = np.random.default_rng(0)
Y = np.where(np.arange(600) % 2, "sick", "well")
X = RNG.normal(size=(600, 2)) + 3 * (Y == "sick")[:, None]


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pp.RFFM(n_features=40, bandwidth=2.0, soft=True).fit(pd.DataFrame(X, columns=["a", "b"]), Y).save("m.safetensors")
    Path("in").mkdir()
    return tmp_path


def batch(name: str, seed: int, strange: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = X[rng.choice(600, 100)] + (np.array([9.0, -9.0]) * (rng.random((100, 1)) < 0.5) if strange else 0)
    frame = pd.DataFrame(rows, columns=["a", "b"])
    frame.to_csv(f"in/{name}.csv", index=False)
    return frame


WATCH = ["monitor", "in", "--model", "m.safetensors", "--state", "s.safetensors"]


def test_batches_are_added_once_and_as_the_library_adds_them(here: Path) -> None:
    monitor = pp.Monitor(pp.load("m.safetensors"))
    steps = [monitor.update(batch(f"day{k}", k), batch_id=f"day{k}.csv") for k in range(3)]
    done = run(*WATCH, "--once", "--json", "--prometheus", "p.prom")
    assert done.exit_code == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines == [step.to_dict() for step in steps]
    for line in lines:
        Draft202012Validator(schema.load("monitor_step")).validate(line)
    monitor.write_prometheus("expected.prom")
    assert Path("p.prom").read_text() == Path("expected.prom").read_text()
    assert run(*WATCH, "--once").stdout == ""
    step = monitor.update(batch("day3", 3), batch_id="day3.csv")
    again = run(*WATCH, "--once")
    shares = "  ".join(f"{k} {p:.3f}" for k, p in zip(["sick", "well"], step.proportions, strict=True))
    assert again.stdout == f"4  day3.csv  100 rows  {shares}  unknown {step.unknown:.3f}\n"


def test_sketches_are_batches_too(here: Path) -> None:
    frame = batch("rows", 0)
    pp.load("m.safetensors").sketch(frame).save("in/sent.safetensors")
    lines = [json.loads(line) for line in run(*WATCH, "--once", "--json").stdout.splitlines()]
    assert [line["batch_id"] for line in lines] == ["rows.csv", "sent.safetensors"]
    assert lines[0]["proportions"] == lines[1]["proportions"]


def test_an_alarm_is_told_and_may_decide_the_exit_code(here: Path) -> None:
    for k in range(12):
        batch(f"{k:02}", k, strange=True)
    done = run(*WATCH, "--once", "--fail-on", "shift")
    assert done.exit_code == 1 and "ALARM" in done.stdout.splitlines()[-1]
    assert "shift since batch" in done.stdout.splitlines()[-1]


def test_a_file_that_cannot_be_read_stops_one_look_and_adds_nothing(here: Path) -> None:
    batch("a", 0)
    Path("in/b.csv").write_text("a,b\n1,2,3\n")
    done = run(*WATCH, "--once")
    assert done.exit_code == 2 and "in/b.csv" in done.stderr and len(done.stdout.splitlines()) == 1
    batch("b", 1)
    assert [line.split()[:2] for line in run(*WATCH, "--once").stdout.splitlines()] == [["2", "b.csv"]]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (WATCH, "either --once or --every"),
        ([*WATCH, "--once", "--every", "5"], "either --once or --every"),
        (["monitor", "out", *WATCH[2:], "--once"], "out: not a directory"),
        ([*WATCH[:4], "--state", "no/s.safetensors", "--once"], "there is no directory no"),
        ([*WATCH[:4], "--state", "m.safetensors", "--once"], "would be overwritten"),
        ([*WATCH, "--once", "--level", "2"], "level=2"),
    ],
)
def test_what_cannot_be_watched_is_refused(arguments: list[str], says: str, here: Path) -> None:
    done = run(*arguments)
    assert done.exit_code == 2 and says in done.stderr and len(done.stderr.splitlines()) == 1
    assert not Path("s.safetensors").exists()


def test_an_empty_directory_has_no_batch_yet(here: Path) -> None:
    done = run(*WATCH, "--once")
    assert (done.exit_code, done.stdout) == (0, "") and "no batch yet" in done.stderr


def test_an_interrupt_keeps_the_state_and_the_same_command_goes_on(here: Path) -> None:
    for k in range(2):
        batch(str(k), k)
        os.utime(f"in/{k}.csv", (0, 0))
    command = [sys.executable, "-u", "-m", "proportio.cli", *WATCH, "--every", "0.2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        lines = [process.stdout.readline() for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == "proportio: interrupted: the same command goes on from s.safetensors\n"
    assert [line.split()[:2] for line in lines] == [["1", "0.csv"], ["2", "1.csv"]]
    batch("2", 2)
    assert [line.split()[:2] for line in run(*WATCH, "--once").stdout.splitlines()] == [["3", "2.csv"]]
