"""An estimate for people: a table of shares with their 95% intervals and the source's shares, as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

MOST = 24  # lines of text before a table is cut
LEVEL = 0.95


class Line(NamedTuple):
    """One class: its share, the interval where there is one, and the source's share (None for the unknown)."""

    name: str
    share: float
    limits: tuple[float, float] | None
    prior: float | None


def text(title: str, lines: Sequence[Line], notes: Sequence[str], level: float = LEVEL) -> str:
    """The table as text."""
    width = max(len("class"), *(len(line.name) for line in lines))
    longest = max(line.share for line in lines) or 1.0
    ranged = any(line.limits for line in lines)
    shown = lines if len(lines) <= MOST else lines[:20]
    head = f"{f'{level:.4g} interval' if (100 * level) % 1 else f'{level:.0%} interval':>15}" if ranged else ""
    table = [f"{'class':<{width}}   share{head}   source"]
    for name, share, limits, prior in shown:
        between = "" if not ranged else f"  {limits[0]:.3f} to {limits[1]:.3f}" if limits else " " * 16
        source = " " * 6 if prior is None else f"{prior:6.4f}"
        table.append(
            f"{name:<{width}}  {share:6.4f}{between}  {source}  {'█' * round(20 * max(share, 0) / longest)}".rstrip()
        )
    if len(shown) < len(lines):
        table.append(f"... and {len(lines) - len(shown)} more classes")
    return "\n".join([title, *table, *notes])


def page(title: str, lines: Sequence[Line], notes: Sequence[str]) -> str:
    """The table as HTML: bars of the shares, their intervals as whiskers, a tick where the source stands."""
    longest = max(max(line.share, line.prior or 0.0, line.limits[1] if line.limits else 0.0) for line in lines) or 1.0
    cell = "style='text-align:right;padding:0 .8em;font-variant-numeric:tabular-nums'"
    name_cell = "style='text-align:left;padding:0 .8em 0 0'"
    rows = "".join(
        f"<tr><td {name_cell}>{html.escape(line.name)}</td><td {cell}>{line.share:.4f}</td>"
        f"<td {cell}>{f'{line.limits[0]:.3f} to {line.limits[1]:.3f}' if line.limits else ''}</td>"
        f"<td {cell}>{'' if line.prior is None else f'{line.prior:.4f}'}</td><td>{_bar(line, 12 / longest)}</td></tr>"
        for line in lines
    )
    head = f"<th {name_cell}>class</th>" + "".join(f"<th {cell}>{h}</th>" for h in ("share", "95% interval", "source"))
    said = "".join(f"<p>{html.escape(n)}</p>" for n in notes)
    return (
        f"<div><p><b>{html.escape(title)}</b></p><table><thead><tr>{head}<th>share, — interval, │ source</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>{said}</div>"
    )


def _bar(line: Line, scale: float) -> str:
    """A bar of the share, `scale` em a unit."""
    whisker = tick = ""
    if line.limits:
        low, high = line.limits
        whisker = (
            f"<div style='position:absolute;top:.38em;left:{scale * low:.2f}em;width:{scale * (high - low):.2f}em;"
            "border-top:2px solid #e69f00'></div>"
        )
    if line.prior is not None:
        tick = f"<div style='position:absolute;top:-.1em;left:{scale * line.prior:.2f}em;height:1em;border-left:2px solid'></div>"
    return (
        f"<div role='img' aria-label='{line.share:.1%}' style='position:relative;width:12.2em;height:1em'>"
        f"<div style='background:#0072b2;height:.8em;width:{scale * max(line.share, 0):.2f}em'></div>{whisker}{tick}</div>"
    )
