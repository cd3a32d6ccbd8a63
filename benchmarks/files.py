"""FCS files estimated in one command, against reading them alone: time, peak memory, and their ratio.

    python benchmarks/files.py [--files 200] [--rows 30000]

Writes the files to a temporary folder (7 channels, 5 populations), then runs, each in a process of its own: the command with
`--by file` and intervals; our reader alone; and flowio, the usual reader, alone. Start-up (imports) is timed apart and taken off.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from fcs_files import fcs  # noqa: E402  # the files are written as the tests write theirs

MARKERS = ["CD3", "CD4", "CD8", "CD38", "CD45RA", "CCR7", "HLADR"]
OURS = "import sys, proportio as pp\nfor p in sys.argv[1:]:\n    for batch in pp.scan(p, transform='arcsinh:150').batches():\n        pass"
FLOWIO = "import sys, flowio\nfor p in sys.argv[1:]:\n    flowio.FlowData(p).as_array()"


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


def run(arguments: list[str]) -> tuple[float, float]:
    """Seconds and peak megabytes of a process."""
    began = time.perf_counter()
    code = "import resource, runpy, sys\nsys.argv = sys.argv[1:]\ntry:\n    " + (
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=False)\n"
        "finally:\n    print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    command = [sys.executable, *arguments] if arguments[0] == "-c" else [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    peak = [float(line.split()[1]) / 1024 for line in done.stderr.splitlines() if line.startswith("peak")]
    return time.perf_counter() - began, peak[-1] if peak else resource.getrusage(
        resource.RUSAGE_CHILDREN
    ).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="Many FCS files in one command.")
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rows", type=int, default=30_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = list(map(str, write(folder, asked.files, asked.rows)))
        model, reference = str(folder / "m.safetensors"), str(folder / "ref/ref.fcs")
        run(["proportio", "fit", reference, "--label", "population", "--transform", "arcsinh:150", "-o", model, "-q"])

        def estimate(some: list[str]) -> tuple[float, float]:
            return run(
                ["proportio", "estimate", *some, "--model", model, "--by", "file", "--csv", str(folder / "out.csv")]
            )

        estimate(paths[:1])  # compiles, if nothing did before
        found = {"proportio estimate --by file": (estimate(paths), estimate(paths[:1]))}
        for what, code in (("our reader alone", OURS), ("flowio alone", FLOWIO)):
            found[what] = (run(["-c", code, *paths]), run(["-c", code, paths[0]]))
        lines = len((folder / "out.csv").read_text().splitlines())
        print(
            f"{asked.files} files of {asked.rows:,} events, {len(MARKERS)} channels; {lines - 1 if lines else 0} lines of CSV"
        )
        net = {
            what: max(whole[0] - one[0], 1e-3) * asked.files / max(asked.files - 1, 1)
            for what, (whole, one) in found.items()
        }
        for what, (whole, _) in found.items():
            print(f"{what:<30}{whole[0]:8.2f} s with start-up {net[what]:8.2f} s without")
        ours = net["proportio estimate --by file"]
        print(f"peak memory of the command {found['proportio estimate --by file'][0][1]:.0f} MB")
        print(
            f"ratio to our reader alone {ours / net['our reader alone']:.2f}, to flowio alone {ours / net['flowio alone']:.2f}"
        )


if __name__ == "__main__":
    main()
