"""FCS files estimated in one command, against reading them alone: time, peak memory, and their ratio.

    python benchmarks/files.py [--files 200] [--rows 30000]

Writes the files to a temporary folder (7 channels, 5 populations). Then, in one process and after the imports, the best of three
runs each: the command with `--by file` and intervals; our reader alone; and flowio, the usual reader, alone.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import flowio
import numpy as np

import proportio as pp
from proportio import cli

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from fcs_files import fcs  # noqa: E402  # the files are written as the tests write theirs

MARKERS = ["CD3", "CD4", "CD8", "CD38", "CD45RA", "CCR7", "HLADR"]


def write(folder: Path, files: int, rows: int) -> list[Path]:
    """A reference, and files whose populations are mixed differently."""
    rng = np.random.default_rng(0)
    centres = rng.normal(5, 1.5, size=(5, len(MARKERS)))

    def events(n: int, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kind = rng.choice(5, n, p=shares)
        return 50 * np.exp(centres[kind] + 0.5 * rng.normal(size=(n, len(MARKERS)))), kind

    X, kind = events(rows, np.full(5, 0.2))
    names = [f"FL{k}-A" for k in range(len(MARKERS))]
    (folder / "ref").mkdir()
    known = np.column_stack([X, kind])
    (folder / "ref/ref.fcs").write_bytes(fcs(known, [*names, "pop"], markers=[*MARKERS, "population"]))
    paths = []
    for i in range(files):
        path = folder / f"s{i:03}.fcs"
        path.write_bytes(fcs(events(rows, rng.dirichlet(np.full(5, 2.0)))[0], names, markers=MARKERS))
        paths.append(path)
    return paths


def command(*arguments: str) -> None:
    """The command, in this process."""
    with contextlib.redirect_stdout(io.StringIO()):
        cli.app(list(arguments), standalone_mode=False)


def timed(work: Callable[[], None], repeats: int = 3) -> float:
    """The least seconds of several runs."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def ours(paths: list[str]) -> None:
    """Read every event with the package's reader, transformed as the model has it."""
    for path in paths:
        for _ in pp.scan(path, transform="arcsinh:150").batches():
            pass


def flowio_alone(paths: list[str]) -> None:
    """Read every event with flowio."""
    for path in paths:
        flowio.FlowData(path).as_array()


def peak(*arguments: str) -> float:
    """Peak megabytes of the command in a process of its own."""
    code = (
        "import resource, sys\nfrom proportio import cli\ncli.app(sys.argv[1:], standalone_mode=False)\n"
        "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="Many FCS files in one command.")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--small", action="store_true", help="as the tests run it")
    asked = parser.parse_args()
    if asked.small:
        asked.files, asked.rows = 2, 400
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = list(map(str, write(folder, asked.files, asked.rows)))
        model, out = str(folder / "m.safetensors"), folder / "out.csv"
        reference = ["fit", str(folder / "ref/ref.fcs"), "--label", "population", "--transform", "arcsinh:150"]
        command(*reference, "-o", model, "-q")
        whole = ["estimate", *paths, "--model", model, "--by", "file", "--csv", str(out)]
        times = {
            "proportio estimate --by file": timed(lambda: command(*whole)),
            "our reader alone": timed(lambda: ours(paths)),
            "flowio alone": timed(lambda: flowio_alone(paths)),
        }
        lines = len(out.read_text().splitlines()) - 1
        print(f"{asked.files} files of {asked.rows:,} events and {len(MARKERS)} channels; {lines} lines of CSV")
        for what, seconds in times.items():
            print(f"{what:<30}{seconds:8.2f} s{1000 * seconds / asked.files:8.1f} ms a file")
        answer, mine, theirs = times.values()
        print(f"ratio to our reader alone {answer / mine:.2f}, to flowio alone {answer / theirs:.2f}")
        print(f"peak memory of the command {peak(*whole):.0f} MB")


if __name__ == "__main__":
    main()
