"""The report: one HTML file without a network, of one estimate or of many samples, under a megabyte whatever the data."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from proportio import display
from proportio.errors import InputError
from proportio.estimate import Estimate
from proportio.profile import UnknownProfile
from proportio.report import compact, words
from proportio.report.figures import bland_altman, plot_bandwidth, plot_error, plot_samples, svg
from proportio.report.truth import Estimates, named, pairs

LIMIT = 1_000_000  # bytes
ROOM = (500, 200, 60, 15)  # lines of a table, tried in turn until the page is small enough
PANELS = 12  # classes shown sample by sample


class Figure(NamedTuple):
    """An SVG with its caption, and what it shows for those who do not see it."""

    svg: Markup
    caption: str
    alt: str


def page(
    estimates: Estimates,
    *,
    truth: Any = None,
    model: Any = None,
    profile: UnknownProfile | None = None,
    title: str | None = None,
    curve: Any = None,
) -> str:
    """The report's HTML. `estimates` is one, or a mapping of samples; `truth` as `true_shares` takes it, or by sample.

    `model` adds the curve of its bandwidth (or give `curve`), `profile` what the unknown looks like (`explain_unknown`).
    """
    found = named(estimates)
    first = next(iter(found.values()))
    curve = curve if curve is not None else getattr(model, "bandwidth_curve_", None)
    one = isinstance(estimates, Estimate) or len(found) == 1
    true = pairs(truth, estimates)[0][1] if one and truth is not None else None
    context: dict[str, Any] = {
        "title": title or ("Class shares of a batch" if one else f"Class shares of {len(found)} samples"),
        "first": first,
        "notes": _notes(found),
        "figures": _figures(found, truth, estimates, curve),
        "profile": profile,
        "one": one,
        "about": _about(found),
    }
    if one:
        verdict = words.verdict(first)
        context |= {
            "tone": verdict[0] if verdict else "unsure",
            "caution": words.caution(verdict),
            "answer": words.shares(first),
            "status": words.status(first),
            "moved": words.moved(first),
            "test": verdict[1] if verdict else None,
        }
    else:
        tones = {name: words.verdict(est) for name, est in found.items()}
        context |= {
            "tone": "alarm" if any(v and v[0] == "alarm" for v in tones.values()) else "good",
            "caution": words.many([v and v[0] for v in tones.values()]),
            "panels": _panels(found),
        }
    for most in ROOM:
        lines = _lines(first, true) if one else []
        text = _environment().get_template("page.html.j2").render(
            **context,
            lines=sorted(lines, key=lambda line: -line["share"])[:most] if len(lines) > most else lines,
            left_out=max(0, (len(lines) if one else len(found)) - most),
            samples=[] if one else [_sample(name, est, tones[name]) for name, est in list(found.items())[:most]],
            data=Markup(compact.script(compact.embedded(found, most))),
        )  # fmt: skip
        if len(text.encode()) < LIMIT:
            return text
    raise InputError(
        f"the report exceeds {LIMIT:,} bytes even with {ROOM[-1]} lines: shorten the names of classes and samples."
    )


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("proportio.report", "assets"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def _lines(est: Estimate, truth: Any) -> list[dict[str, Any]]:
    """The table of classes: numbers, and the bar in hundredths of the longest."""
    lines = est._lines()
    longest = max(_longest(lines), 0 if truth is None else float(np.max(truth)))
    counts = [*est.counts.tolist(), *([None] if est.soft else [])]
    return [
        {
            "name": words.clipped(line.name, 120),
            "share": line.share,
            "limits": line.limits,
            "prior": line.prior,
            "rows": n,
            "truth": None if truth is None else float(truth[i]),
            "bar": [
                round(100 * v / longest, 2)
                for v in (line.share, *(line.limits or (0, 0)), line.prior or 0, 0 if truth is None else truth[i])
            ],
            "tip": f"{words.clipped(line.name, 60)}: {' '.join(words.amount(line)).replace('  ', ' ')}"
            + ("" if line.prior is None else f"; reference {words.percent(line.prior, 1)}"),
        }
        for i, (line, n) in enumerate(zip(lines, counts, strict=True))
    ]


def _longest(lines: list[display.Line]) -> float:
    return max(max(line.share, line.prior or 0.0, line.limits[1] if line.limits else 0.0) for line in lines) or 1.0


def _sample(name: str, est: Estimate, verdict: Any) -> dict[str, Any]:
    """A line of the table of samples."""
    lines = est._lines()
    change = est.proportions - est.source_prior
    i = int(np.argmax(np.abs(change)))
    return {
        "name": words.clipped(name, 80),
        "rows": est.n_target,
        "tone": verdict[0] if verdict else "unsure",
        "verdict": verdict[1].verdict if verdict else "not tested",
        "effect": verdict[1].effect_size if verdict and np.isfinite(verdict[1].effect_size) else None,
        "unknown": words.amount(lines[-1]) if est.soft else None,
        "unknown_share": est.unknown,
        "moved": words.clipped(lines[i].name, 40),
        "change": float(change[i]),
        "share": words.amount(lines[i]),
        "share_value": lines[i].share,
    }


def _panels(found: Mapping[str, Estimate]) -> list[Figure]:
    """Small multiples: the classes whose shares vary most between samples, one panel each, the unknown first."""
    first = next(iter(found.values()))
    spread = np.std([est.proportions for est in found.values()], axis=0)
    kept = np.sort(np.argsort(-spread, kind="stable")[:PANELS])
    names = (["(unknown)"] if first.soft else []) + [str(first.classes[i]) for i in kept]
    shown = dict(list(found.items())[:400])
    return [
        Figure(
            Markup(svg(plot_samples, shown, of=name, width=3.1, height=1.7)),
            "",
            f"Share of {words.clipped(name, 60)} in each of {len(shown)} samples, with 95% intervals.",
        )
        for name in names
    ]


def _figures(found: Mapping[str, Estimate], truth: Any, given: Estimates, curve: Any) -> list[Figure]:
    """What a truth or a model adds."""
    out = []
    if truth is not None:
        known = pairs(truth, given)
        errors = [float(np.linalg.norm(t[: len(est.classes)] - est.proportions)) for est, t in known]
        out += [
            Figure(
                Markup(svg(plot_error, truth, given, height=3.6)),
                f"Estimated against true shares. l2 error over the classes: {np.mean(errors):.4f}"
                + (f" on average, {max(errors):.4f} at most." if len(errors) > 1 else "."),
                "Scatter of estimated against true shares about the diagonal.",
            ),
            Figure(
                Markup(svg(bland_altman, truth, given, height=3.6)),
                "Bland and Altman's plot: what the estimate is off by, against the size of the share.",
                "Scatter of estimate minus truth against their mean, with the mean difference and limits of agreement.",
            ),
        ]
    if curve is not None:
        out.append(
            Figure(
                Markup(svg(plot_bandwidth, curve)),
                "The bandwidth was chosen on the reference alone, where this curve is "
                f"{'lowest' if curve.criterion == 'error' else 'highest'}: σ = {curve.chosen:.4g}.",
                f"Curve of the criterion over bandwidths from {curve.sigmas[0]:.3g} to {curve.sigmas[-1]:.3g}.",
            )
        )
    return out


def _notes(found: Mapping[str, Estimate]) -> list[str]:
    """Statuses and warnings, each once, with the samples that they concern."""
    seen: dict[str, list[str]] = {}
    for name, est in found.items():
        for note in est._notes():
            seen.setdefault(words.clipped(note, 600), []).append(name)
        if est.dropped:
            seen.setdefault(f"note: {est.dropped:,} incomplete rows were dropped.", []).append(name)
    several = len(found) > 1
    return [
        note + (f" ({len(names)} samples: {words.clipped(', '.join(names), 120)})" if several else "")
        for note, names in list(seen.items())[:20]
    ]


def _about(found: Mapping[str, Estimate]) -> list[tuple[str, str]]:
    """Method, numbers and versions."""
    est = next(iter(found.values()))
    d = est.diagnostics
    rows = [
        ("Method", f"{est.method} ({'leaves room for an unknown share' if est.soft else 'shares sum to one'})"),
        ("Rows of the batch" if len(found) == 1 else "Rows of all batches", f"{sum(e.n_target for e in found.values()):,}"),
        ("Rows of the reference", f"{int(est.counts.sum()):,} in {len(est.classes):,} classes"),
        ("Features", None if d.n_features is None else f"{d.n_features:,}"),
        ("Bandwidth σ", None if d.bandwidth is None else f"{d.bandwidth:.4g}"),
        ("Δ_min, λ_min", f"{d.delta_min:.3g}, {d.lambda_min:.3g}" if np.isfinite(d.delta_min) else None),
        ("Optimality residual", f"{max(e.diagnostics.kkt for e in found.values()):.1e}" if np.isfinite(d.kkt) else None),
        ("Versions", ", ".join(f"{k} {v}" for k, v in (est.versions or {"proportio": version("proportio")}).items())),
    ]  # fmt: skip
    return [(k, v) for k, v in rows if v]
