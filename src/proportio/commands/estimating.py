"""`proportio estimate` and `proportio check`: a batch in, its shares or its verdict out, and gates on both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proportio.commands import fitting, reading
from proportio.commands.console import Console, Quiet, Verbose
from proportio.commands.outputs import STDOUT, Outputs

if TYPE_CHECKING:
    from proportio.commands.answers import Answer
    from proportio.commands.gates import Gate
    from proportio.estimate import Estimate
    from proportio.quantifier import Quantifier

FEW = 200_000  # rows that are read once more to say what the unknown among them looks like

ModelPath = Annotated[Path | None, typer.Option("--model", help="A model that `proportio fit` saved.")]
ReferencePath = Annotated[
    Path | None, typer.Option("--reference", help="Labelled rows to fit on, in the place of --model.")
]
LabelOption = Annotated[str | None, typer.Option("--label", "-l", help="The column of labels in the reference.")]
Level = Annotated[float, typer.Option("--level", help="The level of the intervals.")]
By = Annotated[
    str | None,
    typer.Option("--by", help="A column that tells samples apart, or 'file': a sample a file. One estimate each."),
]
FailOn = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-on",
        help="Exit with 1 if: shift, 'unknown > 0.05', 'share:fraud > 0.03'. Repeat for more; the interval decides.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Gates by the point estimate in the place of the interval.")]
Json = Annotated[
    Path | None, typer.Option("--json", help="Write JSON to this file, - for stdout; with --by one line a sample.")
]


def estimate(
    batch: reading.Batch,
    model: ModelPath = None,
    reference: ReferencePath = None,
    label: LabelOption = None,
    features: reading.Features = None,
    level: Level = 0.95,
    by: By = None,
    json: Json = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Write the tidy table, one line for each sample and class.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write a report that opens in any browser.")] = None,
    fail_on: FailOn = None,
    strict: Strict = False,
    method: fitting.MethodOption = None,
    soft: fitting.Soft = None,
    n_features: fitting.NFeatures = None,
    bandwidth: fitting.Bandwidth = None,
    kernel: fitting.KernelOption = None,
    seed: fitting.Seed = None,
    jobs: fitting.Jobs = None,
    on_missing: fitting.OnMissing = None,
    format_: reading.Format = None,
    delimiter: reading.Delimiter = None,
    compensation: reading.Compensation = None,
    transform: reading.Transform = None,
    layer: reading.Layer = None,
    use_rep: reading.UseRep = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Estimate the share of each class in a batch, with intervals, what no class explains, and a verdict on label shift."""
    from proportio.commands import answers, gates
    from proportio.errors import InputError

    with Console(quiet, verbose) as console:
        wanted = [gates.parse(text) for text in fail_on or ()]
        _check_level(level)
        how = reading.Reading(format_, delimiter, compensation, transform, layer, use_rep)
        if (model is None) == (reference is None):
            raise InputError("give either --model FILE or --reference FILE --label COLUMN.")
        Outputs(json, csv, html, inputs=[*batch, model, reference])
        page = None if html is None else _report()
        if model is not None:
            _refuse_with_model(
                label=label,
                features=features,
                method=method,
                soft=soft,
                n_features=n_features,
                bandwidth=bandwidth,
                kernel=kernel,
                seed=seed,
            )
            fitted = load(model)
            fitted.set_params(
                **({} if jobs is None else {"n_jobs": jobs}),
                **({} if on_missing is None else {"on_missing": on_missing.value}),
            )
        else:
            if label is None:
                raise InputError("--reference needs --label COLUMN: which column has the classes?")
            new = fitting.build(method, soft, n_features, bandwidth, kernel, seed, jobs, on_missing)
            fitted = fitting.fitted(new, [reference], label, features, how, console)  # type: ignore[list-item]  # checked above
            how = reading.Reading(format_, delimiter)
        found = list(_answers(fitted, batch, by, how, level, wanted, strict, console))
        written: dict[Path | None, str | bytes] = {}
        if page is not None:
            estimates = {a.sample or "batch": a.estimate for a in found}
            written[html] = page(estimates, model=fitted, profile=_profile(found, batch, fitted, how))
        if csv is not None:
            written[csv] = answers.as_csv(found)
        if json is not None:
            written[json] = answers.as_json([a.to_dict() for a in found], many=by is not None)
        Outputs.write(written)
        if json != STDOUT:
            typer.echo(found[0].text() if by is None else answers.as_table(found))
        _judge(found, console)


def check(
    batch: reading.Batch,
    model: Annotated[Path, typer.Option("--model", help="A model that `proportio fit` saved.")],
    by: By = None,
    json: Json = None,
    fail_on: FailOn = None,
    strict: Strict = False,
    format_: reading.Format = None,
    delimiter: reading.Delimiter = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Say only whether new shares of the known classes explain the batch, or something else is in it."""
    from proportio.commands import answers, gates

    with Console(quiet, verbose) as console:
        wanted = [gates.parse(text) for text in fail_on or ()]
        Outputs(json, inputs=[*batch, model])
        how = reading.Reading(format_, delimiter)
        found = list(_answers(load(model), batch, by, how, 0.95, wanted, strict, console))
        if json is not None:
            Outputs.write({json: answers.as_json([a.verdict() for a in found], many=by is not None)})
        if json != STDOUT:
            for a in found:
                typer.echo(f"{'' if a.sample is None else f'{a.sample}: '}{a.test}")
        _judge(found, console)


def load(path: Path) -> Quantifier:
    """A model from its file."""
    import proportio as pp

    return pp.load(path)


def _answers(
    model: Quantifier,
    paths: list[Path],
    by: str | None,
    how: reading.Reading,
    level: float,
    gates: list[Gate],
    strict: bool,
    console: Console,
) -> Iterator[Answer]:
    from proportio.commands.answers import Answer

    for gate in gates:
        gate.check(model.classes_.tolist(), model.soft)
    for sample, est in samples(model, paths, by, how, console):
        yield Answer.of(sample, est, level, gates, strict)


def samples(
    model: Quantifier, paths: list[Path], by: str | None, how: reading.Reading, console: Console
) -> Iterator[tuple[str | None, Estimate]]:
    """The estimate of every sample: one of all the rows, one a file, or one a value of a column."""
    from dataclasses import replace

    from proportio.errors import InputError
    from proportio.sketch import Sketch

    if reading.sketches(paths):
        if by not in (None, reading.FILE):
            raise InputError(f"--by {by}: sketches have no columns; --by file makes an estimate of each.")
        if by is None:
            yield None, model.estimate(Sketch.merge(map(reading.load_sketch, paths)))
        else:
            for name, path in reading.by_file(paths, reading.Reading("safetensors")).items():
                yield name, model.estimate(reading.load_sketch(path))
    elif by == reading.FILE:
        found = reading.by_file(paths, how)
        kept = reading.kept_by(model, list(found.values()), how)
        with console.progress("files") as bar:
            for k, (name, path) in enumerate(found.items()):
                console.detail(f"reading {path}")
                yield name, model.estimate(how.scan([path], kept))
                bar(k + 1, len(found))
    else:
        source = reading.batch(paths, model, how, [] if by is None else [by])
        console.detail(f"reading {source!r}")
        with console.progress("rows") as bar:
            if by is None:
                yield None, model.estimate(source, progress=bar)
            else:
                for name, sketch, dropped in reading.grouped(source, by, model, bar):
                    yield name, replace(model.estimate(sketch), dropped=dropped)


def _judge(found: list[Answer], console: Console) -> None:
    """What the gates say, and the exit code that follows."""
    for a in found:
        for outcome in a.outcomes:
            if outcome.failed:
                typer.echo(f"proportio: {'' if a.sample is None else f'{a.sample}: '}{outcome}", err=True)
            else:
                console.note(f"{'' if a.sample is None else f'{a.sample}: '}{outcome}")
    if any(a.failed for a in found):
        raise typer.Exit(1)


def _report() -> Any:
    """What makes the report, or an error that says how to install it, before any work."""
    from proportio import report

    return report.page


def _profile(found: list[Answer], paths: list[Path], model: Quantifier, how: reading.Reading) -> Any:
    """What the unknown of one batch looks like, where it has any and its rows fit in memory."""
    first = found[0]
    if len(found) > 1 or first.sample is not None or not first.estimate.soft or reading.sketches(paths):
        return None
    source = reading.batch(paths, model, how)
    if first.limits[-1][0] <= 0 or first.estimate.dropped or first.estimate.n_target > FEW:
        return None
    return model.explain_unknown(reading.table(source, model.columns_.names))


def _check_level(level: float) -> None:
    from proportio.intervals import check_level

    check_level(level)


def _refuse_with_model(**given: object) -> None:
    from proportio.errors import InputError

    stray = [name for name, value in given.items() if value is not None]
    if stray:
        raise InputError(
            f"--{stray[0].replace('_', '-')} goes with --reference: what is in --model is fitted already. Leave one of them out."
        )
