"""The report: one file, honest in words, small whatever the data, harmless whatever the names."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

import proportio as pp
from proportio import report
from proportio.bandwidth import BandwidthCurve
from proportio.profile import ColumnContrast, UnknownProfile
from proportio.report import words

pytestmark = pytest.mark.filterwarnings("ignore::proportio.errors.ProportioWarning")  # small worlds

ROOT = Path(__file__).resolve().parents[1]


def reference(c: int, n: int, gap: float = 6.0) -> tuple[Any, Any]:
    """c Gaussian classes of n rows on a grid."""
    rng = np.random.default_rng(c)
    y = np.repeat(np.arange(c), n)
    return rng.normal(size=(c * n, 2)) + gap * np.stack([y % 10, y // 10], axis=1), np.array([f"k{v}" for v in y])


def batch(X: Any, y: Any, size: int, seed: int) -> Any:
    return X[np.random.default_rng(seed).choice(len(X), size)]


@pytest.fixture(scope="module")
def two() -> pp.Estimate:
    rng = np.random.default_rng(0)
    y = np.where(rng.random(3000) < 0.05, "fraud", "genuine")
    X = rng.normal(size=(3000, 2)) + 4.0 * (y == "fraud")[:, None]
    late = np.where(rng.random(3000) < 0.12, 4.0, 0.0)
    return pp.RFFM(n_features=200, bandwidth=1.5).fit(X, y).estimate(rng.normal(size=(3000, 2)) + late[:, None])


@pytest.fixture(scope="module")
def ten() -> Any:
    X, y = reference(10, 60)
    model = pp.RFFM(n_features=300, bandwidth=3.0, soft=True).fit(X, y)
    model.bandwidth_curve_ = BandwidthCurve(
        "error", np.array([1.0, 2, 4]), np.array([[np.nan, 0.1, 0.2], [0.3, 0.1, 0.3]]), 2.0
    )
    return (
        model,
        model.estimate(X[200:]),
        model.estimate(np.concatenate([X, np.random.default_rng(1).normal([27.0, 30.0], size=(150, 2))])),
    )


class Outline(HTMLParser):
    """What a page is made of, for those who do not see it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def data_of(text: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


# -- what it says ----------------------------------------------------------------------------------------------------


def test_the_answer_is_a_sentence_with_its_interval(two: pp.Estimate) -> None:
    said = words.shares(two)
    share, low, high = (round(100 * v) for v in (two.proportions[0], *two.interval()[0]))
    assert said.startswith(f"Of this batch, about {share}% is fraud ({low} to {high}%) and ")
    text = two.to_html()
    assert said in text and "New shares of the known classes explain this batch." in text
    assert "fraud most of all, from 5% of the reference" in text


def test_broken_label_shift_is_said_before_the_shares(ten: Any) -> None:
    text = ten[2].to_html()
    assert text.index("Something else is in this batch.") < text.index("Of this batch, about")
    assert "No class explains about" in text


def test_an_estimate_without_evidence_claims_no_certainty() -> None:
    est = pp.Estimate.of(["a", "b"], np.array([0.3, 0.7]), source_prior=np.array([0.5, 0.5]))
    text = est.to_html()
    assert "carries no test" in text and "carries no error bars" in text and "95% interval</span>" not in text


def test_classes_that_cannot_be_told_apart_are_said_beside_the_answer() -> None:
    X, y = reference(2, 60)
    est = (
        pp.RFFM(n_features=40, bandwidth=2.0)
        .fit(np.concatenate([X, X[y == "k1"]]), np.append(y, ["k1 too"] * 60))
        .estimate(X)
    )
    text = est.to_html()
    place = text.index("Dependent classes: the features cannot tell k1, k1 too apart")
    assert text.index("Of this batch") < place < text.index('id="shares"')


@pytest.mark.parametrize(
    ("width", "share", "said"),
    [
        (0.2, 0.1234, "12%"),
        (0.01, 0.1234, "12.3%"),
        (0.001, 0.1234, "12.34%"),
        (0.2, 0.0001, "under 1%"),
        (0.2, 0, "0%"),
    ],
)
def test_a_share_has_the_digits_that_its_interval_supports(width: float, share: float, said: str) -> None:
    assert words.percent(share, words.decimals(width)) == said


def test_many_samples_say_how_many_alarms_chance_makes(ten: Any) -> None:
    _, good, bad = ten
    text = report.page({"monday": good, "tuesday": bad})
    assert "In 1 of the 2 samples something else" in text and "Chance alone accounts for up to about 1." in text
    assert len(Outline(text).of("figure")) == 11  # ten classes and the unknown


def test_truth_curve_and_profile_add_their_parts(ten: Any, tmp_path: Path) -> None:
    model, est, _ = ten
    profile = UnknownProfile((ColumnContrast("width", 1.0, 2.0, 0.9, 0.1),), 0.1, 20.0, 0.3)
    truth = {str(k): 0.1 for k in est.classes}
    path = tmp_path / "report.html"
    text = est.to_html(path, truth=truth, curve=model.bandwidth_curve_, profile=profile, title="Plate <7>")
    assert path.read_text() == text
    assert len(Outline(text).of("figure")) == 3
    assert "What the unknown looks like" in text and "<title>Plate &lt;7&gt;</title>" in text
    assert report.page(est, truth=truth, model=model, profile=profile, title="Plate <7>") == text
    error = np.linalg.norm(est.proportions - 0.1)
    assert f"{error:.4f}" in text


def test_nothing_is_written_where_it_cannot_be(two: pp.Estimate, tmp_path: Path) -> None:
    with pytest.raises(pp.FileError, match="cannot be written"):
        two.to_html(tmp_path / "missing" / "report.html")
    assert list(tmp_path.iterdir()) == []


# -- how it is built -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [2, 10, 100])
def test_a_page_stays_far_below_a_megabyte_at_every_number_of_classes(c: int) -> None:
    X, y = reference(c, 30)
    est = pp.RFFM(n_features=60, bandwidth=2.0).fit(X, y).estimate(batch(X, y, 500, 0))
    text = est.to_html(truth=est.proportions)
    assert len(text.encode()) < 150_000
    assert data_of(text)["kind"] == "report" and ("estimate" in data_of(text)) == (c < 100)


@pytest.mark.parametrize(("c", "samples"), [(10, 200), (100, 200), (1000, 300)])
def test_a_page_of_many_samples_stays_below_a_megabyte(c: int, samples: int) -> None:
    shares = np.random.default_rng(0).dirichlet(np.ones(c), samples)
    names = [f"a class with a rather long name, number {k}" for k in range(c)]
    estimates = {f"sample {i}": pp.Estimate.of(names, a, source_prior=np.full(c, 1 / c)) for i, a in enumerate(shares)}
    text = report.page(estimates)
    assert len(text.encode()) < 1_000_000
    data = data_of(text)
    assert len(data["samples"]) + data["left_out"]["samples"] == samples
    assert len(data["classes"]) + data["left_out"]["classes"] == c
    np.testing.assert_allclose(
        data["samples"][0]["proportions"][0], shares[0][names.index(data["classes"][0])], atol=1e-6
    )


def test_the_embedded_json_is_the_estimate(two: pp.Estimate) -> None:
    again = pp.Estimate.from_dict(data_of(two.to_html())["estimate"])
    np.testing.assert_array_equal(again.interval(), two.interval())


def test_no_name_can_end_the_script_or_become_markup() -> None:
    names = ["</script><script>alert(1)</script>", "<!--", "$x^2$ & \u2028", "漢字"]
    est = pp.Estimate.of(names, np.full(4, 0.25), source_prior=np.full(4, 0.25))
    for text in (
        est.to_html(truth=np.full(4, 0.25)),
        report.page({"<b>": est, "$a_b^$": est}, title="</title><script>"),
    ):
        outline = Outline(text)
        assert len(outline.of("script")) == 2 and outline.of("b") == [] and "alert(1)</script>" not in text
        data = data_of(text)
        assert (data.get("estimate") or data)["classes"] == names


def test_the_page_is_whole_and_asks_for_nothing(ten: Any) -> None:
    model, est, _ = ten
    text = est.to_html(truth=est.proportions, curve=model.bandwidth_curve_)
    assert not re.search(r"""(src|href)=["'](?!#|data:)""", text) and "@import" not in text and "url(h" not in text
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert len(ids) == len(set(ids))
    outline = Outline(text)
    heads = outline.of("th")
    assert heads and all(h.get("scope") in ("col", "row") for h in heads)
    assert len(outline.of("caption")) == len(outline.of("table"))
    described = [d for d in outline.of("div") if d.get("role") == "img"]
    assert len(described) == len(outline.of("figure")) == 3 and all(d["aria-label"] for d in described)
    assert outline.of("html")[0]["lang"] == "en" and len(outline.of("h1")) == 1


def test_the_files_of_the_page_are_in_a_built_wheel(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="building a wheel takes hatchling: pip install hatchling")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"proportio/report/assets/page.{end}" for end in ("html.j2", "css", "js")} <= names


@pytest.mark.parametrize(("library", "name"), [("jinja2", "page"), ("matplotlib", "plot_shares")])
def test_a_missing_library_is_named_with_its_remedy(library: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    for module in ("render", "figures"):
        monkeypatch.delitem(sys.modules, f"proportio.report.{module}", raising=False)
        monkeypatch.delattr(report, module, raising=False)
    with pytest.raises(ImportError, match=rf"needs {library}: pip install 'proportio\[report\]'"):
        getattr(importlib.import_module("proportio.report"), name)


# -- figures ---------------------------------------------------------------------------------------------------------


def test_every_figure_draws_on_the_axis_given(ten: Any) -> None:
    model, est, other = ten
    truth = est.proportions
    for draw in (
        lambda ax: est.plot(ax, truth=truth),
        lambda ax: report.plot_bandwidth(model.bandwidth_curve_, ax),
        lambda ax: report.plot_error(truth, est, ax),
        lambda ax: report.bland_altman({"a": truth, "b": truth}, {"a": est, "b": other}, ax),
        lambda ax: report.plot_samples({"a": est, "b": other}, "(unknown)", ax),
    ):
        ax = Figure().subplots()
        assert draw(ax) is ax and ax.has_data()


def test_the_bars_are_the_shares(ten: Any) -> None:
    est = ten[1]
    ax = est.plot(Figure().subplots())
    np.testing.assert_allclose([p.get_width() for p in ax.patches], [*est.proportions, est.unknown])
    assert [t.get_text() for t in ax.get_yticklabels()] == [*est.classes, "(unknown)"]


def test_the_limits_of_agreement_are_those_of_the_differences() -> None:
    est = pp.Estimate.of(["a", "b", "c"], np.array([0.2, 0.3, 0.5]), source_prior=np.full(3, 1 / 3))
    ax = report.bland_altman({"a": 0.1, "b": 0.3, "c": 0.6}, est, Figure().subplots())
    levels = sorted(float(np.asarray(line.get_ydata())[0]) for line in ax.lines[:3])
    np.testing.assert_allclose(levels, [-0.196, 0, 0.196], atol=1e-12)


@pytest.mark.parametrize("truth", [[0.5], [0.5, 0.2, 0.1, 0.1, 0.1], [2.0, -1.0], {"a": np.nan}, "half"])
def test_a_truth_that_is_none_is_refused(truth: Any) -> None:
    est = pp.Estimate.of(["a", "b"], np.array([0.3, 0.7]), source_prior=np.array([0.5, 0.5]))
    with pytest.raises((pp.InputError, ValueError)):
        report.page(est, truth=truth)


def test_samples_of_other_classes_and_none_at_all_are_refused(two: pp.Estimate, ten: Any) -> None:
    with pytest.raises(pp.InputError, match="'b' has other classes"):
        report.page({"a": two, "b": ten[1]})
    with pytest.raises(pp.InputError, match="no estimate"):
        report.page({})
    with pytest.raises(pp.InputError, match="names none of the samples a, b"):
        report.page({"a": two, "b": two}, truth={"c": [0.5, 0.5]})
