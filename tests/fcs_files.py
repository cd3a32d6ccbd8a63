"""FCS files of every kind, written from the standard: what the reader is tested against, beside flowio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def fcs(
    events: npt.NDArray[Any],
    names: Sequence[str],
    *,
    version: str = "FCS3.1",
    markers: Sequence[str] = (),
    types: Sequence[str] = (),
    order: str = "<",
    separator: str = "/",
    **keywords: Any,
) -> bytes:
    """The bytes of a file with these events; `types` are NumPy's (f4 unless told), `keywords` replace or (None) remove."""
    types = types or ["f4"] * len(names)
    kind = {"f4": "F", "f8": "D"}.get(types[0], "I")
    row = np.dtype([(f"P{i}", order + t) for i, t in enumerate(types)])
    stored = np.zeros(len(events), row)
    for i in range(len(names)):
        stored[f"P{i}"] = events[:, i]
    data = stored.tobytes()
    text: dict[str, Any] = {
        "$BEGINDATA": "",
        "$ENDDATA": "",
        "$BYTEORD": "1,2,3,4" if order == "<" else "4,3,2,1",
        "$DATATYPE": kind,
        "$MODE": "L",
        "$NEXTDATA": "0",
        "$PAR": str(len(names)),
        "$TOT": str(len(events)),
    }
    for i, (name, t) in enumerate(zip(names, types, strict=True), 1):
        text |= {f"$P{i}N": name, f"$P{i}B": str(8 * int(t[1:])), f"$P{i}R": "262144", f"$P{i}E": "0,0"}
    text |= {f"$P{i}S": m for i, m in enumerate(markers, 1) if m}
    text |= {k if k.startswith("_") or k == "SPILL" else f"${k}": v for k, v in keywords.items()}
    text = {k: str(v) for k, v in text.items() if v is not None}
    width = 12  # of an offset, padded with blanks
    own = [k for k in ("$BEGINDATA", "$ENDDATA") if text.get(k) == ""]

    def body(begin: int, end: int) -> bytes:
        places = {"$BEGINDATA": f"{begin:<{width}}", "$ENDDATA": f"{end:<{width}}"}
        words = text | {k: places[k] for k in own}
        pairs = separator.join(f"{k}{separator}{v.replace(separator, separator * 2)}" for k, v in words.items())
        return f"{separator}{pairs}{separator}".encode()

    begin = 256 + len(body(0, 0))
    end = begin + len(data) - 1
    header = f"{version:<10}{256:>8}{begin - 1:>8}{begin:>8}{end:>8}{0:>8}{0:>8}"
    return header.encode().ljust(256) + body(begin, end) + data
