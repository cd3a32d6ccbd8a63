"""`python -m proportio.reproduce.document OUT DOCS`: put what came out into DOCS/reproduction.md.

What stands between <!-- begin NAME --> and <!-- end NAME --> is written by this module and by no one else; the figures and
the verdicts are copied to DOCS/reproduction/.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from proportio import storage
from proportio.errors import FileError
from proportio.reproduce.claims import Verdict, as_markdown
from proportio.reproduce.tables import load, summary

MEASURES = {
    "error": "‖α̂ − α\\*‖₂",
    "error_normalised": "‖α̂ − α\\*/(1 − α_0)‖₂",
    "error_rescaled": "‖α̂/1ᵀα̂ − α\\*/(1 − α_0)‖₂",
}


def verdict_table(claims: str) -> str:
    """The table of verdicts from the text of claims.json."""
    return as_markdown([Verdict(**v) for v in json.loads(claims)])


def pivot(means: pd.DataFrame, rows: str, columns: str, order: Sequence[object] | None = None) -> str:
    """A summary as a Markdown table: mean ± half its interval."""
    heads = list(dict.fromkeys(means[columns])) if order is None else list(order)
    lines = [f"| {rows} | " + " | ".join(map(str, heads)) + " |", "|---" * (len(heads) + 1) + "|"]
    for name in dict.fromkeys(means[rows]):
        cells = means[means[rows] == name].set_index(columns)
        half = cells["high"] - cells["mean"]
        told = [f"{cells['mean'][k]:.3f} ± {half[k]:.3f}" if k in cells.index else "" for k in heads]
        lines.append(f"| {name} | " + " | ".join(told) + " |")
    return "\n".join(lines) + "\n"


def robustness_table(table: pd.DataFrame) -> str:
    """The paper's methods at the highest contamination, by noise and measure; then all methods where all of them ran."""
    level = table["contamination"].max()
    top = table[table["contamination"] == level]
    ran = top.groupby("method")["d"].nunique()
    first = top[top["method"].isin(ran[ran == ran.max()].index)]
    parts = [f"{MEASURES[m]} at ε = {level:g}, all dimensions:\n\n{_by_noise(first, m)}" for m in MEASURES]
    common = top[top["d"].isin(set.intersection(*(set(d) for _, d in top.groupby("method")["d"])))]
    where = ", ".join(map(str, sorted(common["d"].unique())))
    parts.append(
        f"{MEASURES['error']} at ε = {level:g}, all methods in dimensions {where}:\n\n{_by_noise(common, 'error')}"
    )
    return "\n".join(parts)


def _by_noise(table: pd.DataFrame, measure: str) -> str:
    return pivot(summary(table, ["method", "noise"], measure), "method", "noise")


def hipc_table(table: pd.DataFrame) -> str:
    """Methods by withheld class, sorted by share."""
    rows = table.sort_values("share", kind="stable")
    names = [w if w == "none" else f"{w} {s:.1%}" for w, s in zip(rows["withheld"], rows["share"], strict=True)]
    means = summary(rows.assign(withheld=names), ["withheld", "method"], "error")
    return pivot(means, "withheld", "method", list(dict.fromkeys(table["method"])))


def speed_table(table: pd.DataFrame) -> str:
    """Seconds by method and size."""
    named = table.assign(rows=table["rows"].map("{:,}".format))
    return pivot(
        summary(named, ["method", "rows"], "seconds"), "method", "rows", sorted(set(named["rows"]), key=_number)
    )


def _number(text: object) -> int:
    return int(str(text).replace(",", ""))


def run_table(out: Path) -> str:
    """What the run took: seconds of computing by experiment, and the largest process."""
    kept = {p.stem for folder in (out, out / "timings") for p in (folder / "parts").rglob("*.json")}
    told = [p for p in sorted((out / "timings" / "seconds").glob("*.json")) if p.stem in kept]
    spent = pd.DataFrame([json.loads(storage.read(p)) for p in told])
    lines = ["| experiment | tasks | seconds of computing | largest process, MB |", "|---|---|---|---|"]
    for name, mine in spent.groupby("experiment"):
        lines.append(f"| {name} | {len(mine)} | {mine['seconds'].sum():.0f} | {mine['peak_mb'].max():.0f} |")
    lines.append(f"| all | {len(spent)} | {spent['seconds'].sum():.0f} | {spent['peak_mb'].max():.0f} |")
    return "\n".join(lines) + "\n"


def fill(text: str, blocks: dict[str, str]) -> str:
    """The text with each named block replaced; blocks it does not name are left alone.

    >>> fill("a <!-- begin x -->old<!-- end x --> b", {"x": "new"})
    'a <!-- begin x -->\\n\\nnew\\n<!-- end x --> b'
    """
    for name, body in blocks.items():
        pattern = re.compile(rf"(<!-- begin {name} -->).*?(<!-- end {name} -->)", re.DOTALL)
        text = pattern.sub(lambda found, body=body: f"{found[1]}\n\n{body}\n{found[2]}", text)  # type: ignore[misc]
    return text


def write(out: Path, docs: Path) -> None:
    """Fill the page and copy the figures."""
    page = docs / "reproduction.md"
    if not page.is_file():
        raise FileError(f"{page}: no such page. Give the documentation folder that has reproduction.md.")
    found = [
        v
        for part in (out, out / "timings")
        if (part / "claims.json").is_file()
        for v in _read_json(part / "claims.json")
    ]
    claims = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    tables = load(out)
    blocks = {"claims": verdict_table(claims), "run": run_table(out)}
    for name, make in (("robustness", robustness_table), ("hipc", hipc_table), ("speed", speed_table)):
        if name in tables:
            blocks[name] = make(tables[name])
    storage.write(page, fill(page.read_text(encoding="utf-8"), blocks).encode())
    folder = docs / "reproduction"
    folder.mkdir(exist_ok=True)
    storage.write(folder / "claims.json", claims.encode())
    for path in [*(out / "figures").glob("*"), *(out / "timings" / "figures").glob("*")]:
        storage.write(folder / path.name, storage.read(path))


def _read_json(path: Path) -> list[dict[str, object]]:
    out: list[dict[str, object]] = json.loads(storage.read(path))
    return out


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
