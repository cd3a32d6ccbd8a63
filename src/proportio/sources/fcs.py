"""FCS 2.0, 3.0 and 3.1 files: what they say of their channels, and their events in batches.

    HEADER, 58 bytes    version, first and last byte of TEXT, DATA and ANALYSIS
    TEXT                /$PAR/7/$TOT/30000/$P1N/FL1-A/$P1S/CD3/...      the first byte is the separator, doubled within a value
    DATA                $TOT events of $PAR numbers, $PnB bits each

    y = 10^(f₁ y / $PnR) f₂ on a logarithmic channel ($PnE = f₁,f₂);   y / $PnG on a linear one;   y · $TIMESTEP of Time

A channel is called by its marker ($PnS) where it has one, else by its detector ($PnN). No number in a file is believed before
it agrees with the file's length.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from proportio.errors import FileError

VERSIONS = ("FCS2.0", "FCS3.0", "FCS3.1")
HEADER = 58
LONGEST_TEXT = 1 << 24  # bytes; a TEXT segment has some thousands
ORDERS = {"1,2,3,4": "<", "1,2": "<", "4,3,2,1": ">", "2,1": ">", "1,2,3,4,5,6,7,8": "<", "8,7,6,5,4,3,2,1": ">"}
ESCAPED = "\U0010fffe"  # stands for a doubled separator; no file can mean it, it is no character
NOT_FLUORESCENCE = re.compile(r"(fsc|ssc|time|event)", re.IGNORECASE)
AGAIN = "Copy it again, or export it anew from the software that wrote it."


@dataclass(frozen=True)
class Channel:
    """One channel: how it is called, and how its numbers are stored and scaled."""

    name: str
    detector: str
    dtype: np.dtype[Any]
    mask: int | None
    decades: float
    at_zero: float
    top: float
    factor: float

    @property
    def fluorescence(self) -> bool:
        """Neither scatter nor time: what compensation and transforms are for."""
        return NOT_FLUORESCENCE.match(self.detector) is None

    def scaled(self, raw: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The numbers that the stored ones stand for."""
        y = raw if self.mask is None else raw & raw.dtype.type(self.mask)
        if y.dtype == np.float32 and self.decades == 0 and self.factor == 1.0:
            return y
        y = y.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # to infinity and NaN, for the boundary to refuse
            return 10.0 ** (self.decades * y / self.top) * self.at_zero if self.decades > 0 else y * self.factor


@dataclass(frozen=True)
class Layout:
    """What the HEADER and the TEXT of a file say."""

    where: str
    channels: tuple[Channel, ...]
    n_rows: int
    begin: int
    text: dict[str, str]

    @property
    def row(self) -> np.dtype[Any]:
        """One event as it is stored."""
        return np.dtype([(f"P{i}", c.dtype) for i, c in enumerate(self.channels)])

    def read(self, file: BinaryIO, start: int, stop: int) -> npt.NDArray[Any]:
        """Events `start` to `stop` as they are stored: (events, channels), or structured where channels differ in type."""
        row = self.row
        file.seek(self.begin + start * row.itemsize)
        data = file.read((stop - start) * row.itemsize)
        if len(data) < (stop - start) * row.itemsize:
            raise FileError(
                f"{self.where}: ends within event {start + len(data) // row.itemsize} of {self.n_rows}. {AGAIN}"
            )
        kinds = {c.dtype for c in self.channels}
        return (
            np.frombuffer(data, kinds.pop()).reshape(-1, len(self.channels))
            if len(kinds) == 1
            else np.frombuffer(data, row)
        )

    def column(self, raw: npt.NDArray[Any], i: int) -> npt.NDArray[Any]:
        """The numbers of channel i, of events that `read` returned."""
        values = raw[:, i] if raw.dtype.names is None else raw[f"P{i}"]
        native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
        return self.channels[i].scaled(native)

    def spillover(self) -> tuple[tuple[str, ...], npt.NDArray[np.float64]]:
        """The file's own spillover matrix: detectors, and the part of each one's light (row) that each of them sees (column)."""
        for key in ("SPILLOVER", "SPILL", "COMP"):
            if key in self.text:
                return _matrix(self.text[key], f"{self.where}: ${key}")
        raise FileError(
            f"{self.where}: has no spillover matrix ($SPILLOVER or SPILL) to compensate by. "
            "Give one in a file, or read without compensation."
        )


def read_layout(file: BinaryIO, where: str) -> Layout:
    """Read and check the HEADER and TEXT of an open file."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    header = file.read(HEADER)
    version = header[:6].decode("latin-1")
    if not version.startswith("FCS"):
        raise FileError(f"{where}: not an FCS file: it begins with {header[:6]!r} instead of FCS3.1 or so.")
    if version not in VERSIONS:
        raise FileError(f"{where}: {version} is not read; {', '.join(VERSIONS)} are. Export it as FCS3.1.")
    if len(header) < HEADER:
        raise FileError(f"{where}: ends within the header, after {len(header)} of {HEADER} bytes. {AGAIN}")
    begin, end, data_begin, data_end = (
        _digits(header[i : i + 8], f"{where}: bytes {i} to {i + 7} of the header") for i in (10, 18, 26, 34)
    )
    text = _text(_segment(file, begin, end, size, f"{where}: TEXT"), f"{where}: TEXT")
    if version != "FCS2.0":
        extra = (_integer(text, "BEGINSTEXT", where, 0), _integer(text, "ENDSTEXT", where, 0))
        if extra[0] > 0 and extra != (begin, end):
            text = (
                _text(_segment(file, *extra, size, f"{where}: supplemental TEXT"), f"{where}: supplemental TEXT") | text
            )
    if _integer(text, "NEXTDATA", where, 0):
        raise FileError(f"{where}: holds more than one data set ($NEXTDATA): export each to a file of its own.")
    if _required(text, "MODE", where).upper() != "L":
        raise FileError(f"{where}: holds histograms ($MODE={text['MODE']}), not a list of events: export the events.")
    channels = _channels(text, where)
    width = sum(c.dtype.itemsize for c in channels)
    places = [(data_begin, data_end)]
    if version != "FCS2.0" and "BEGINDATA" in text:
        places.insert(0, (_integer(text, "BEGINDATA", where), _integer(text, "ENDDATA", where)))
    n_rows = _integer(text, "TOT", where, (data_end + 1 - data_begin) // width if version == "FCS2.0" else None)
    return Layout(where, channels, n_rows, _data_begin(places, n_rows, width, size, where), text)


def _data_begin(places: list[tuple[int, int]], n_rows: int, width: int, size: int, where: str) -> int:
    """The first byte of DATA: TEXT's word or else the HEADER's, whichever agrees with the events and the length of the file.

    Files are about that name the byte after the last as the last.
    """
    needed = n_rows * width
    for begin, end in places:
        if end + 1 - begin in (needed, needed + 1) and HEADER <= begin <= size - needed:
            return begin
    if needed == 0:
        return HEADER
    begin, end = places[0]
    if begin >= HEADER and end + 1 - begin in (needed, needed + 1):
        there = max(size - begin, 0) // width
        raise FileError(
            f"{where}: truncated: {n_rows} events of {width} bytes end at byte {begin + needed}, but the file has {size} bytes, "
            f"{there} whole events. {AGAIN}"
        )
    raise FileError(
        f"{where}: damaged: $TOT={n_rows} events of {width} bytes do not fit the DATA segment, "
        f"{' or '.join(f'bytes {b} to {e}' for b, e in places)}. {AGAIN}"
    )


def _channels(text: dict[str, str], where: str) -> tuple[Channel, ...]:
    count = _integer(text, "PAR", where)
    if count < 1:
        raise FileError(f"{where}: $PAR={count}: the file has no channels.")
    kind = _required(text, "DATATYPE", where).upper()
    if kind not in ("I", "F", "D"):
        raise FileError(f"{where}: $DATATYPE={kind} is not read; I, F and D (binary numbers) are. Export it as FCS3.1.")
    byte_order = _required(text, "BYTEORD", where).replace(" ", "")
    if byte_order not in ORDERS:
        raise FileError(f"{where}: $BYTEORD={byte_order} is not read; 1,2,3,4 and 4,3,2,1 are. Export it as FCS3.1.")
    detectors, markers, channels = [], [], []
    for n in range(1, count + 1):
        detectors.append(_required(text, f"P{n}N", where).strip())
        markers.append(text.get(f"P{n}S", "").strip() or detectors[-1])
        channels.append(_stored(text, n, kind, ORDERS[byte_order], where))
    shared = Counter(markers)
    names = [f"{m} {d}" if shared[m] > 1 and m != d else m for m, d in zip(markers, detectors, strict=True)]
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise FileError(f"{where}: {times} channels are called {name!r} ($PnS, $PnN). Rename them and export anew.")
    return tuple(Channel(name, d, *c) for name, d, c in zip(names, detectors, channels, strict=True))


def _stored(
    text: dict[str, str], n: int, kind: str, order: str, where: str
) -> tuple[np.dtype[Any], int | None, float, float, float, float]:
    """Type, mask, decades, value at zero, range and factor of channel n."""
    bits = _integer(text, f"P{n}B", where)
    allowed = {"I": (8, 16, 32, 64), "F": (32,), "D": (64,)}[kind]
    if bits not in allowed:
        raise FileError(
            f"{where}: $P{n}B={bits} bits of $DATATYPE={kind}; {', '.join(map(str, allowed))} are read. Export it as FCS3.1."
        )
    dtype = np.dtype(f"{order}{'u' if kind == 'I' else 'f'}{bits // 8}")
    top = _number(text, f"P{n}R", where)
    mask = None
    if kind == "I" and 0 < top < 2.0**bits:
        mask = (1 << (math.ceil(top) - 1).bit_length()) - 1
    exponents = text.get(f"P{n}E", "0,0").split(",")
    try:
        decades, at_zero = map(float, exponents)
    except ValueError as error:
        raise FileError(f"{where}: $P{n}E={text[f'P{n}E']!r} is not two numbers. {AGAIN}") from error
    if not (math.isfinite(decades) and math.isfinite(at_zero) and decades >= 0 and (decades == 0 or top > 0)):
        raise FileError(
            f"{where}: the scale of channel {n} makes no sense: $P{n}E={','.join(exponents)}, $P{n}R={top:g}. {AGAIN}"
        )
    if text[f"P{n}N"].strip().lower() == "time":
        factor = _number(text, "TIMESTEP", where, 1.0) or 1.0
    else:
        factor = 1 / (_number(text, f"P{n}G", where, 1.0) or 1.0)
    return dtype, mask, decades, at_zero or 1.0, top, factor


def _segment(file: BinaryIO, begin: int, end: int, size: int, what: str) -> bytes:
    if not HEADER <= begin <= end < size:
        raise FileError(f"{what}, bytes {begin} to {end}, lies outside the file of {size} bytes. {AGAIN}")
    if end - begin >= LONGEST_TEXT:
        raise FileError(f"{what} of {end - begin + 1} bytes is longer than any: more than {LONGEST_TEXT}. {AGAIN}")
    file.seek(begin)
    return file.read(end - begin + 1)


def _text(data: bytes, what: str) -> dict[str, str]:
    """The keywords, in capitals and without the dollar sign, and their values."""
    try:
        words = data.decode()
    except UnicodeDecodeError:
        words = data.decode("latin-1")
    mark, words = words[0], words[1:].rstrip("\0 \r\n")
    parts = [p.replace(ESCAPED, mark) for p in words.removesuffix(mark).replace(mark * 2, ESCAPED).split(mark)]
    if len(parts) % 2:
        raise FileError(f"{what}: {len(parts)} words, and the last keyword {parts[-1][:40]!r} has no value. {AGAIN}")
    return {k.strip().upper().removeprefix("$"): v for k, v in zip(parts[::2], parts[1::2], strict=True)}


def _matrix(value: str, what: str) -> tuple[tuple[str, ...], npt.NDArray[np.float64]]:
    """n,name₁,…,nameₙ,s₁₁,s₁₂,…,sₙₙ."""
    words = [w.strip() for w in value.split(",")]
    try:
        n = int(words[0])
        numbers = np.array(words[1 + n :], dtype=np.float64)
        matrix = numbers.reshape(n, n) if n > 0 else None
    except (ValueError, OverflowError) as error:
        raise FileError(f"{what} is not n, n names and n × n numbers ({error}).") from error
    if matrix is None or not np.isfinite(matrix).all():
        raise FileError(f"{what} is not n, n names and n × n finite numbers.")
    return tuple(words[1 : 1 + n]), matrix


def _required(text: dict[str, str], key: str, where: str) -> str:
    if key not in text:
        raise FileError(f"{where}: TEXT lacks the keyword ${key}. {AGAIN}")
    return text[key].strip()


def _integer(text: dict[str, str], key: str, where: str, default: int | None = None) -> int:
    if default is not None and not text.get(key, "").strip():
        return default
    return _digits(_required(text, key, where), f"{where}: ${key}")


def _digits(word: str | bytes, what: str) -> int:
    try:
        value = int(word)
    except ValueError as error:
        raise FileError(f"{what} is {word[:20]!r}, not a whole number. {AGAIN}") from error
    if not 0 <= value < 2**63:
        raise FileError(f"{what} is {value}: no file is that long. {AGAIN}")
    return value


def _number(text: dict[str, str], key: str, where: str, default: float | None = None) -> float:
    word = _required(text, key, where) if default is None or text.get(key, "").strip() else str(default)
    try:
        value = float(word)
    except ValueError as error:
        raise FileError(f"{where}: ${key} is {word[:20]!r}, not a number. {AGAIN}") from error
    if not math.isfinite(value):
        raise FileError(f"{where}: ${key} is {word[:20]!r}, not a finite number. {AGAIN}")
    return value
