"""`proportio doctor`: what this installation has, for a bug report or before a long run."""

from __future__ import annotations

import json as json_
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

CORE = ("numpy", "scipy", "scikit-learn", "numba", "daqp", "safetensors", "narwhals", "typer")
ENGINES = {"torch": "torch", "dask": "dask", "spark": "pyspark"}
FORMATS = {"csv, parquet, arrow": "pyarrow", "h5ad": "anndata", "report": "jinja2", "figures": "matplotlib"}


def findings() -> dict[str, Any]:
    """Versions, threads, engines, formats and the cache of compiled kernels."""
    import numba

    from proportio import _compiled

    cache = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(_compiled.__file__).parent / "__pycache__")
    kernels = list(cache.rglob("*.nbc")) if cache.is_dir() else []
    return {
        "proportio": version("proportio"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": {name: _version(name) for name in CORE},
        "threads": {
            "processors": os.cpu_count(),
            "used": int(numba.get_num_threads()),
            "layer": numba.config.THREADING_LAYER,
        },
        "engines": {"local": version("numba"), **{name: _version(package) for name, package in ENGINES.items()}},
        "formats": {"fcs": version("proportio"), **{name: _version(package) for name, package in FORMATS.items()}},
        "kernels": {
            "directory": str(cache),
            "writable": os.access(cache if cache.is_dir() else cache.parent, os.W_OK),
            "files": len(kernels),
            "bytes": sum(p.stat().st_size for p in kernels),
        },
    }


def doctor(json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False) -> None:
    """Say what is installed: versions, threads, engines, formats, and the cache of compiled kernels."""
    found = findings()
    if json:
        typer.echo(json_.dumps(found, indent=1))
        return
    typer.echo(f"proportio {found['proportio']} on Python {found['python']}, {found['platform']} ({sys.executable})")
    for title in ("versions", "threads", "engines", "formats", "kernels"):
        typer.echo(f"{title}")
        for name, value in found[title].items():
            typer.echo(f"  {name:<20} {'not installed' if value is None else value}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return "?" if find_spec(package) else None
