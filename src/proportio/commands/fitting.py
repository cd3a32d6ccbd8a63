"""`proportio fit`: labelled rows in, a model out."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proportio.commands import reading
from proportio.commands.console import Console, Quiet, Verbose
from proportio.commands.outputs import Outputs

if TYPE_CHECKING:
    from proportio.quantifier import Quantifier


FITTING = "The model"  # a section of the help


class Method(StrEnum):
    """The methods that need files only."""

    auto = "auto"
    rffm = "rffm"
    kmm = "kmm"
    bbse = "bbse"


class Kernel(StrEnum):
    gaussian = "gaussian"
    laplace = "laplace"
    energy = "energy"


class Missing(StrEnum):
    raise_ = "raise"
    drop = "drop"


MethodOption = Annotated[
    Method | None,
    typer.Option(
        "--method",
        "-m",
        rich_help_panel=FITTING,
        help="auto (the default): a classifier's decisions where they are typical, beside Fourier features; rffm: random Fourier "
        "features; kmm: exact kernels; bbse: a classifier.",
    ),
]
Soft = Annotated[
    bool | None,
    typer.Option(
        "--soft/--hard",
        rich_help_panel=FITTING,
        help="Leave room for a share that no class explains (the default), or do not.",
    ),
]
NFeatures = Annotated[
    int | None,
    typer.Option(
        "--n-features", rich_help_panel=FITTING, min=2, help="auto, rffm: Fourier features, 1000 unless told."
    ),
]
Bandwidth = Annotated[
    str | None,
    typer.Option(
        "--bandwidth", rich_help_panel=FITTING, help="rffm (which it implies), kmm: auto, median, or a number."
    ),
]
KernelOption = Annotated[
    Kernel | None,
    typer.Option(
        "--kernel",
        rich_help_panel=FITTING,
        help="rffm (which it implies), kmm: gaussian unless told; energy of kmm only.",
    ),
]
Seed = Annotated[
    int | None, typer.Option("--seed", rich_help_panel=FITTING, help="The seed of everything random, 0 unless told.")
]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; all unless told.")]
OnMissing = Annotated[
    Missing | None,
    typer.Option("--on-missing", help="Rows with NaN: raise (the default) refuses them, drop counts them."),
]


def build(
    method: Method | None,
    soft: bool | None,
    n_features: int | None,
    bandwidth: str | None,
    kernel: Kernel | None,
    seed: int | None,
    jobs: int | None,
    on_missing: Missing | None,
) -> Quantifier:
    """The model that the options describe, not fitted yet."""
    import proportio as pp
    from proportio.errors import InputError

    given: dict[str, Any] = {
        "n_features": n_features,
        "bandwidth": _bandwidth(bandwidth),
        "kernel": kernel and kernel.value,
    }
    method = method or (Method.rffm if bandwidth or kernel else Method.auto)
    takes = {
        Method.auto: {"n_features"},
        Method.rffm: set(given),
        Method.kmm: {"bandwidth", "kernel"},
        Method.bbse: set(),
    }[method]
    stray = [k for k, v in given.items() if v is not None and k not in takes]
    if stray or (method is Method.rffm and kernel is Kernel.energy):
        what = f"--{stray[0].replace('_', '-')}" if stray else "--kernel energy"
        raise InputError(f"{what} does not go with --method {method.value}: leave one of them out.")
    options = {k: v for k, v in given.items() if v is not None}
    kinds: dict[Method, Any] = {
        Method.auto: pp.AutoDFM,
        Method.rffm: pp.RFFM,
        Method.kmm: pp.KMM,
        Method.bbse: pp.BBSE,
    }
    missing = (on_missing or Missing.raise_).value
    model: Quantifier = kinds[method](
        soft=soft is not False, random_state=seed or 0, n_jobs=jobs, on_missing=missing, **options
    )
    return model


def _bandwidth(word: str | None) -> float | str | None:
    from proportio.errors import InputError

    if word is None or word in ("auto", "median"):
        return word
    try:
        return float(word)
    except ValueError as error:
        raise InputError(f"--bandwidth {word!r} is neither auto, median nor a number.") from error


def fitted(
    model: Quantifier, paths: list[Path], label: str, features: list[str] | None, how: reading.Reading, console: Console
) -> Quantifier:
    """The model fitted on labelled files."""
    from proportio.errors import InputTypeError

    source, column = reading.reference(paths, label, features, how)
    console.detail(f"fitting {type(model).__name__} on {source!r}")
    try:
        model.fit(source, y=column)
    except InputTypeError as error:
        if features is None:
            raise InputTypeError(f"{error} Here: name the columns to use, --features A,B,C.") from error
        raise
    console.detail(f"classes: {', '.join(map(str, model.classes_))}")
    return model


def fit(
    references: reading.Reference,
    label: reading.Label,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file for the model, such as ref.safetensors.")],
    features: reading.Features = None,
    method: MethodOption = None,
    soft: Soft = None,
    n_features: NFeatures = None,
    bandwidth: Bandwidth = None,
    kernel: KernelOption = None,
    seed: Seed = None,
    jobs: Jobs = None,
    on_missing: OnMissing = None,
    format_: reading.Format = None,
    delimiter: reading.Delimiter = None,
    compensation: reading.Compensation = None,
    transform: reading.Transform = None,
    layer: reading.Layer = None,
    use_rep: reading.UseRep = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Fit a model on labelled reference rows, and save it: numbers and JSON, no rows (but for kmm) and no code."""
    with Console(quiet, verbose) as console:
        Outputs(output, inputs=references)
        how = reading.Reading(format_, delimiter, compensation, transform, layer, use_rep)
        model = build(method, soft, n_features, bandwidth, kernel, seed, jobs, on_missing)
        fitted(model, references, label, features, how, console)
        data = model.to_bytes()
        Outputs.write({output: data})
        n = int(model.sketch_.tally.counts.sum())
        console.note(
            f"{output}: {len(model.classes_)} classes, {model.n_features_in_} columns, {n:,} rows, {len(data):,} bytes"
        )
