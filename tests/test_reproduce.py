"""The reproduction: worlds as described, results that interruption cannot change, verdicts that follow the numbers."""

from __future__ import annotations

import importlib
import importlib.util
import json
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import proportio as pp
from proportio import cli
from proportio.datasets import Cells
from proportio.errors import FileError, InputError, InputTypeError
from proportio.reproduce import Method, Noise, document, full, quick, run
from proportio.reproduce.bounds import departures, embeddings
from proportio.reproduce.cells import errors
from proportio.reproduce.claims import verdicts
from proportio.reproduce.describe import canonical, key_of, rng_of
from proportio.reproduce.document import fill, verdict_table
from proportio.reproduce.hipc import Hipc
from proportio.reproduce.plan import COMPANIONS, NOISES, PAPER
from proportio.reproduce.robustness import Robustness, Sizes, drawn
from proportio.reproduce.runner import tasks_of
from proportio.reproduce.style import STYLE
from proportio.reproduce.tables import load, summary
from proportio.reproduce.worlds import apportion, background, far, gaussians, middle
from small_plan import SIZES, small_plan, timed_plan

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
SCRIPT = HERE / "small_plan.py"


def identical_parts(out: Path) -> dict[str, bytes]:
    """Everything but the timings: what must be the same bits."""
    files = [p for p in sorted(out.rglob("*")) if p.is_file() and "timings" not in p.relative_to(out).parts]
    return {str(p.relative_to(out)): p.read_bytes() for p in files}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small plan run once without interruption, in this process."""
    out = tmp_path_factory.mktemp("finished")
    run(small_plan(), out, jobs=1)
    return out


# -- worlds ------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(2, 10))
def test_classes_lie_apart_and_shares_are_shares(seed: int, d: int) -> None:
    world = gaussians(np.random.default_rng(seed), 5, d)
    gaps = np.linalg.norm(world.means[:, None] - world.means, axis=2)[np.triu_indices(5, 1)]
    assert gaps.min() >= 4 and world.shares.min() >= 0 and world.shares.sum() == pytest.approx(1)
    variances = np.linalg.eigvalsh(world.factors @ world.factors.transpose(0, 2, 1))
    assert variances.min() > 0.5 - 1e-9 and variances.max() < 1.5 + 1e-9


def test_a_world_that_cannot_be_is_refused_with_a_remedy() -> None:
    with pytest.raises(
        InputError, match=r"5 means at least 9 apart were not found in a cube of side 4 .*widen the cube"
    ):
        gaussians(np.random.default_rng(0), 5, 2, cube=2.0, apart=9.0)


@given(st.lists(st.floats(0.001, 1), min_size=2, max_size=8), st.integers(0, 10_000))
def test_apportioned_counts_add_up_and_follow_the_shares(shares: list[float], total: int) -> None:
    s = np.array(shares)
    counts = apportion(s, total)
    assert counts.sum() == total and np.abs(counts - s / s.sum() * total).max() < 1 + 1e-9


def test_each_noise_is_where_its_name_says() -> None:
    rng = np.random.default_rng(0)
    for d in (2, 5, 10):
        world = gaussians(rng, 5, d)
        X, _ = world.rows(rng, [500] * 5)
        radius = np.linalg.norm(world.means - world.centre, axis=1).max()
        flat = background(rng, 2000, world, X)
        assert (flat >= X.min(axis=0)).all() and (flat <= X.max(axis=0)).all()
        assert np.abs(flat.mean(axis=0) - (X.min(axis=0) + X.max(axis=0)) / 2).max() < 1
        away = np.linalg.norm(far(rng, 2000, world, X).mean(axis=0) - world.centre)
        assert away == pytest.approx(2.5 * radius, abs=0.3)
        assert np.linalg.norm(middle(rng, 2000, world, X).mean(axis=0) - world.centre) < 0.2


def test_a_higher_contamination_keeps_the_rows_of_a_lower_one_and_has_its_share() -> None:
    data = drawn(0, 2, 0, Sizes(5, 50, 900))
    (_, low), (_, high) = data.batches(NOISES[0], (0.1, 0.4), np.random.default_rng(1))
    assert len(low) == 1000 and len(high) == 1500
    assert np.array_equal(high[: len(low)], low)


@given(st.floats(0, 0.8), st.integers(0, 2**32 - 1))
def test_the_three_errors_agree_where_nothing_is_unknown(level: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    alpha, true = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))
    found = errors(alpha, true)
    assert found["error"] == pytest.approx(found["error_normalised"]) == pytest.approx(found["error_rescaled"])
    scaled = errors((1 - level) * alpha, (1 - level) * true)
    assert scaled["error_rescaled"] == pytest.approx(found["error"], abs=1e-9)
    assert scaled["error"] == pytest.approx((1 - level) * found["error"], abs=1e-9)  # type: ignore[operator]
    assert scaled["unknown_estimate"] == pytest.approx(level, abs=1e-9)


def test_closed_form_embeddings_are_what_many_rows_tend_to() -> None:
    rng = np.random.default_rng(0)
    world = gaussians(rng, 5, 2)
    X, y = world.rows(rng, [40_000] * 5)
    model = pp.RFFM(100, 2.0, standardize=False).fit(X, y)
    B = model.sketch_.means()  # type: ignore[attr-defined]
    assert np.linalg.norm(embeddings(world, model) - B, axis=0).max() < 4 / np.sqrt(40_000)


def test_departures_vanish_without_contamination_and_grow_with_it() -> None:
    P = np.eye(4)[:, :3]
    shares, beyond = np.array([0.2, 0.3, 0.5]), np.eye(4)[:, 3]
    assert departures(P, shares, beyond, 0.0)[:2] == pytest.approx((0.0, 0.0), abs=1e-6)
    inside = departures(P, shares, P @ shares, 0.3)
    assert inside[0] < 1e-6 and inside[1] > 0 and inside[2] == pytest.approx(np.linalg.norm(P @ shares))
    perpendicular, _, reach = departures(P, shares, beyond, 0.3)
    assert perpendicular > 0.5 and reach == pytest.approx(0)


# -- descriptions ------------------------------------------------------------------------------------------


def test_keys_follow_the_description_and_nothing_else() -> None:
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert key_of(Noise("x", far)) != key_of(Noise("x", far, {"reach": 3.0}))
    assert rng_of(0, "a").random() == rng_of(0, "a").random() != rng_of(1, "a").random()


def test_adding_a_method_changes_no_other_task() -> None:
    grid = Robustness(PAPER, NOISES, (), repetitions=2, sizes=SIZES)
    more = replace(grid, methods=(*PAPER, Method("mine", pp.BBSE)))
    plan = replace(small_plan(), experiments=(grid,))
    before, after = ({t.key for t in tasks_of(replace(plan, experiments=(g,)))} for g in (grid, more))
    assert before < after


def test_what_another_process_could_not_import_is_refused() -> None:
    with pytest.raises(InputTypeError, match="has no name to import it by: define it with def"):
        canonical(Method("mine", lambda: pp.BBSE(cv=3)))
    with pytest.raises(InputTypeError, match="numbers, text, functions and classes"):
        canonical({"classifier": pp.RFFM()})


def test_a_method_gets_what_it_knows_and_its_bandwidth_can_be_scaled() -> None:
    data = drawn(0, 2, 0, SIZES)
    whole = Method("a", pp.RFFM, {"n_features": 50}).fitted(data.X, data.y, 3)
    half = Method("b", pp.RFFM, {"n_features": 50}, factor=0.5).fitted(data.X, data.y, 3)
    assert whole.random_state == 3 and whole.n_jobs == 1
    assert half.bandwidth_ == pytest.approx(whole.bandwidth_ / 2)


def test_both_plans_have_the_papers_grid_and_the_full_one_its_sizes() -> None:
    grid = next(e for e in full().experiments if e.name == "robustness")
    assert isinstance(grid, Robustness)
    assert grid.dims == tuple(range(2, 11)) and grid.repetitions == 20 and grid.sizes == Sizes(5, 2_000, 10_000)
    assert grid.levels == (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
    assert [e.name for e in quick().experiments] == [e.name for e in full().experiments]
    assert len(tasks_of(quick())) < len(tasks_of(full())) / 5
    with pytest.raises(InputError, match="no experiment 'hipc': it has noises, robustness"):
        tasks_of(full(), ["hipc"])


# -- runs --------------------------------------------------------------------------------------------------


def parts(out: Path) -> list[Path]:
    return sorted((out / "parts").rglob("*.json"))


def wait_for_parts(process: subprocess.Popen[str], out: Path, count: int) -> None:
    end = time.monotonic() + 60
    while len(parts(out)) < count and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    assert process.poll() is None, "the run ended before it was to be interrupted"


def workers(out: Path) -> set[int]:
    return {json.loads(p.read_text())["process"] for p in (out / "timings" / "seconds").glob("*.json")}


def gone(pids: set[int]) -> bool:
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if not any(Path(f"/proc/{pid}").exists() and "Z" not in _state(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="watches processes through /proc")
def test_killed_at_any_instant_and_resumed_the_results_are_the_same_bits(finished: Path, tmp_path: Path) -> None:
    for already in (1, 12):
        process = subprocess.Popen([sys.executable, SCRIPT, tmp_path, "2"], stdout=subprocess.DEVNULL, text=True)
        wait_for_parts(process, tmp_path, already)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert gone(workers(tmp_path)), "a process outlived its killed parent"
        assert len(parts(tmp_path)) < len(parts(finished))
        assert all(json.loads(p.read_text())["rows"] for p in parts(tmp_path))
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path, "1"], capture_output=True, text=True, check=True, timeout=120
    )
    assert "tasks are there already" in done.stdout
    assert identical_parts(tmp_path) == identical_parts(finished)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="watches processes through /proc")
def test_ctrl_c_leaves_no_partial_file_and_no_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "proportio.cli", "reproduce", str(tmp_path), "--quick", "--only", "robustness"]
    process = subprocess.Popen([*command, "--jobs", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_parts(process, tmp_path, 2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130 and out == "" and "the same command resumes" in err and "Traceback" not in err
    assert gone(workers(tmp_path))
    assert not [p for p in tmp_path.rglob(".*") if p.is_file()]
    assert all(json.loads(p.read_text())["rows"] for p in parts(tmp_path))


def test_a_finished_run_computes_nothing_again(finished: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in parts(finished)}
    said: list[str] = []
    outcome = run(small_plan(), finished, jobs=1, report=said.append)
    assert {p: p.stat().st_mtime_ns for p in parts(finished)} == before
    assert said[0] == f"{len(before)} of {len(before)} tasks are there already"
    assert sorted(outcome.results) == ["bandwidth", "bounds", "fourier", "noises", "robustness"]


def test_a_damaged_part_is_named_and_what_a_kill_left_is_swept(finished: Path, tmp_path: Path) -> None:
    plan = replace(small_plan(), experiments=small_plan().experiments[:1])
    run(plan, tmp_path, jobs=1)
    left = tmp_path / "parts" / "noises" / ".x.json.abc"
    left.write_text("half")
    run(plan, tmp_path, jobs=1)
    assert not left.exists()
    parts(tmp_path)[0].write_text("{")
    with pytest.raises(FileError, match=r"not a part that proportio wrote.*Delete it and run again"):
        run(plan, tmp_path, jobs=1)


def test_times_are_kept_apart_from_results(tmp_path: Path) -> None:
    run(timed_plan(), tmp_path, jobs=2)
    assert {p.name for p in tmp_path.iterdir()} == {"timings", "plan.json"}
    table = load(tmp_path)["speed"]
    assert (table["seconds"] > 0).all() and set(table["rows"]) == {500, 1_000}


def ring(rng: np.random.Generator, size: int, world: Any, source: Any) -> Any:
    turn = rng.uniform(0, 2 * np.pi, size)
    return world.centre + 30 * np.column_stack([np.cos(turn), np.sin(turn)])


def cells_from(path: str) -> dict[int, Cells]:
    """Labelled samples of one's own: two patients, three populations."""
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b", "c"], 200)
    centres = {"a": 0.0, "b": 4.0, "c": 8.0}
    middles = np.array([centres[k] for k in y])
    return {p: Cells((middles[:, None] + rng.normal(size=(600, 2))).astype(np.float32), y) for p in (1, 2)}


def test_a_method_a_noise_and_samples_of_ones_own(tmp_path: Path) -> None:
    mine = Method("softLaplace", pp.RFFM, {"kernel": "laplace", "soft": True})
    grid = Robustness((mine,), (Noise("ring", ring),), dims=(2,), repetitions=2, levels=(0.0, 0.2), sizes=SIZES)
    samples = Hipc((mine,), "anywhere", load=cells_from)
    outcome = run(replace(small_plan(), experiments=(grid, samples)), tmp_path, jobs=1)
    assert outcome.verdicts == [] and len(outcome.figures) >= 6
    table = load(tmp_path)["robustness"]
    assert set(table["noise"]) == {"ring"} and table["error"].max() < 0.1
    cells = load(tmp_path)["hipc"]
    assert set(cells["withheld"]) == {"none", "a", "b", "c"} and len(cells) == 4 * 2
    assert cells.loc[cells["withheld"] != "none", "contamination"].to_numpy() == pytest.approx(1 / 3)
    assert cells.loc[cells["withheld"] == "none", "error"].max() < 0.1


def test_where_the_samples_lie_does_not_change_what_they_are() -> None:
    here, there = (Hipc(PAPER[:1], path, load=cells_from).cells() for path in ("here", "there"))
    assert [key_of(c) for c in here] == [key_of(c) for c in there]


def test_jobs_below_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="jobs=0: give the number of processes"):
        run(small_plan(), tmp_path, jobs=0)


# -- tables, figures, verdicts -------------------------------------------------------------------------------


def test_tables_are_tidy_and_every_repetition_has_every_method(finished: Path) -> None:
    table = load(finished)["robustness"]
    cells = table.groupby(["method", "noise", "d", "repetition", "contamination"]).size()
    assert (cells == 1).all() and len(cells) == 4 * 3 * 2 * 2 * 3
    assert (table[table["method"] == "RFFM"]["unknown_estimate"] < 1e-9).all()
    hard = table[table["method"] == "RFFM"]
    assert (hard["error"] >= hard["contamination"] / np.sqrt(5) - 1e-3).all()
    clean = table[table["contamination"] == 0]
    assert np.allclose(clean["error"] - clean["error_normalised"], 0)


def test_an_interval_over_repetitions_covers_its_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"world": np.repeat(np.arange(2000), 10), "x": rng.normal(3, 1, 20_000)})
    found = summary(frame, ["world"], "x")
    covered = ((found["low"] <= 3) & (found["high"] >= 3)).mean()
    assert covered == pytest.approx(0.95, abs=0.015)  # three standard errors
    assert (summary(frame.assign(x=np.exp(frame["x"])), ["world"], "x", log=True)["mean"] > 0).all()


def test_every_figure_is_drawn_as_vectors_and_as_pixels(finished: Path) -> None:
    drawn = {p.name for p in (finished / "figures").iterdir()}
    for name in ("noises", "robustness", "dimension", "companions", "bounds", "fourier", "bandwidth"):
        assert {f"{name}.svg", f"{name}.png"} <= drawn
        assert ET.parse(finished / "figures" / f"{name}.svg").getroot().tag.endswith("svg")
        assert (finished / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_no_two_methods_of_a_figure_look_alike() -> None:
    named = [m.name for m in (*PAPER, *COMPANIONS) if m.name in STYLE]
    looks = [STYLE[name][:2] for name in named]
    assert len(set(looks)) == len(looks)


def test_verdicts_follow_the_numbers(finished: Path) -> None:
    tables = load(finished)
    stated = {v.words: v.verdict for v in verdicts(tables)}
    claim = "Far class: softRFFM significantly outperforms the others"
    assert stated[claim] == "holds"
    swapped = tables["robustness"].replace({"method": {"softRFFM": "softBBSE+", "softBBSE+": "softRFFM"}})
    assert {v.words: v.verdict for v in verdicts({"robustness": swapped})}[claim] == "differs"
    without = tables["robustness"].query("method != 'softEnergy'")
    assert verdicts({"robustness": without}) == []


def test_the_page_states_the_verdicts_that_the_run_gave() -> None:
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    table = verdict_table((DOCS / "reproduction" / "claims.json").read_text(encoding="utf-8"))
    assert fill(page, {"claims": table}) == page


def test_the_page_is_filled_from_a_run_and_nothing_else_of_it_changes(finished: Path, tmp_path: Path) -> None:
    page = tmp_path / "reproduction.md"
    blocks = "".join(f"<!-- begin {b} -->old<!-- end {b} -->\n" for b in ("claims", "run", "robustness", "hipc"))
    page.write_text(f"before\n{blocks}after\n", encoding="utf-8")
    document.write(finished, tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n") and text.endswith("after\n") and text.count(">old<") == 1  # no cells were run
    assert "| softRFFM | 0." in text and "Far class: softRFFM" in text
    assert (tmp_path / "reproduction" / "robustness.svg").is_file()
    with pytest.raises(FileError, match="no such page"):
        document.write(finished, tmp_path / "nowhere")


def test_the_pages_figures_exist_and_stay_small() -> None:
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    files = list((DOCS / "reproduction").iterdir())
    shown = [p.name for p in files if p.suffix == ".svg"]
    assert shown and all(f"reproduction/{name}" in page for name in shown)
    assert sum(p.stat().st_size for p in files) < 1_500_000


# -- the command -------------------------------------------------------------------------------------------


def test_the_command_prints_json_alone_and_verdicts_beside_it(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.app, ["reproduce", str(tmp_path), "--quick", "--only", "noises", "--jobs", "1"])
    assert done.exit_code == 0, done.output
    answer: dict[str, Any] = json.loads(done.stdout)
    assert Path(answer["results"]["noises"]).is_file() and all(Path(p).is_file() for p in answer["figures"])
    assert "experiment on cells is left out" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "sped"], "no experiment 'sped': it has noises"),
        (["--hipc", "nowhere", "--only", "hipc"], "nowhere: no such directory"),
        (["--jobs", "0"], "Invalid value for"),
    ],
)
def test_bad_requests_exit_with_2(
    arguments: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["proportio", "reproduce", str(tmp_path), "--quick", *arguments])
    monkeypatch.setenv("NO_COLOR", "1")
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    out, err = capsys.readouterr()
    assert stopped.value.code == 2 and out == "" and said in err


def test_a_gate_that_fails_exits_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the small plan's bounds, eq. 1 is above eq. 2 somewhere, as it is at any size: not every claim holds."""
    small = replace(small_plan(), experiments=tuple(e for e in small_plan().experiments if e.name == "bounds"))
    monkeypatch.setattr("proportio.reproduce.plan.quick", lambda hipc: small)
    arguments = ["reproduce", str(tmp_path), "--quick", "--jobs", "1"]
    assert CliRunner().invoke(cli.app, arguments).exit_code == 0
    assert CliRunner().invoke(cli.app, [*arguments, "--check"]).exit_code == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"file/parts.*cannot be made"):
        run(small_plan(), tmp_path / "file", jobs=1)


def test_a_missing_library_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    import proportio.reproduce

    find = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "matplotlib" else find(name))
    with pytest.raises(InputError, match=r"needs matplotlib: pip install 'proportio\[reproduce\]'"):
        importlib.reload(proportio.reproduce)


def test_help_does_not_load_what_only_the_reproduction_needs() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from proportio import cli; "
        "CliRunner().invoke(cli.app, ['--help']); "
        "sys.exit(any(m in sys.modules for m in ('matplotlib', 'pandas', 'numba', 'proportio.reproduce')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
