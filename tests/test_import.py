"""What `import proportio` costs, and what it leaves for later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import sys, time
began = time.process_time()
import proportio
print(time.process_time() - began, sorted({"numpy", "numba", "sklearn", "scipy", "pandas", "daqp"} & set(sys.modules)))
"""

FIT = """
import numpy as np, proportio as pp
rng = np.random.default_rng(0)
y = np.arange(200) % 2
X = rng.normal(size=(200, 2)) + y[:, None]
pp.RFFM(n_features=20, bandwidth=1.0).fit(X, y).predict(X)
"""


def python(code: str, cache: Path) -> str:
    env = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


def test_import_takes_less_than_half_a_second_and_loads_nothing_heavy(tmp_path: Path) -> None:
    best = min(python(CODE, tmp_path) for _ in range(3))
    assert float(best.split()[0]) < 0.5
    assert best.split(maxsplit=1)[1].strip() == "[]"


def test_nothing_compiles_before_the_first_fit_and_its_result_is_kept_on_disk(tmp_path: Path) -> None:
    python("import proportio as pp; pp.RFFM, pp.KMM, pp.BBSE, pp.DFM, pp.load", tmp_path)
    assert not list(tmp_path.rglob("*.nbc"))
    python(FIT, tmp_path)
    first = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.nbc")}
    assert first
    python(FIT, tmp_path)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.nbc")} == first


def test_help_waits_for_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, time; began = time.process_time()\n"
        "from proportio import cli\n"
        "try:\n    sys.argv[1:] = ['--help']; cli.main()\n"
        "except SystemExit:\n    pass\n"
        "print(time.process_time() - began, sorted({'numpy', 'numba', 'sklearn', 'scipy'} & set(sys.modules)), file=sys.stderr)"
    )
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = [
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    assert min(float(d.stderr.split()[0]) for d in done) < 0.5
    assert done[0].stderr.split(maxsplit=1)[1].strip() == "[]" and "reproduce" in done[0].stdout
