"""Files as sources: CSV, Parquet and Arrow by pyarrow, and a registry that other formats join.

`scan` picks the opener by suffix. Only the columns asked for are read, a file at a time, some batches at a time.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from proportio.errors import FileError, InputError, InputTypeError
from proportio.sources.base import Source, listed, rows_of, select

PathLike: TypeAlias = str | os.PathLike[str]
Opener: TypeAlias = Callable[..., Source]

COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
PART_ROWS = 1 << 20  # of a Parquet file that one task of an engine reads, in whole row groups
ENCODINGS = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".pq": "parquet"}


def scan(
    paths: PathLike | Sequence[PathLike],
    *,
    format: str | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int | None = None,
    **options: Any,
) -> Source:
    """Files as a source that is never in memory at once: `model.estimate(pp.scan("cells/*.parquet"))`.

    `paths` are a file, a pattern, a directory (its `key=value` folders become columns), or a list of these, all of one format:
    CSV (and .tsv, .csv.gz), Parquet, Arrow, FCS, h5ad, or what else `proportio.sources.OPENERS` lists by suffix. `columns` keeps
    these only, for example the features and the label. `options` go to the format's opener; of CSV: `delimiter`,
    `decimal_point`, `encoding`, `null_values`; of FCS: `compensation`, `transform`, `along`; of h5ad: `layer`, `use_rep`, `along`.

    >>> import pathlib, tempfile, proportio as pp
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "batch.csv"
    >>> _ = path.write_text("x,y,label\\n1,2.5,a\\n3,4,b\\n")
    >>> source = pp.scan(path, columns=["x", "label"])
    >>> source.columns
    ('x', 'label')
    >>> [batch.to_pydict() for batch in source.batches(["x"])]
    [{'x': [1.0, 3.0]}]
    """
    if batch_rows is not None and (isinstance(batch_rows, bool) or not isinstance(batch_rows, int) or batch_rows < 1):
        raise InputError(f"batch_rows={batch_rows!r}: give a whole number of rows, 1 or more, or None.")
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise FileError("scan got no paths: name at least one file.")
    base = Path(given[0]) if len(given) == 1 and Path(given[0]).is_dir() else None
    suffix = None if format is None else f".{format.lower().removeprefix('.')}"
    if suffix is not None and suffix not in OPENERS:
        raise InputError(f"format={format!r} is unknown: use one of {_known()}.")
    files = [file for path in given for file in expand(path, suffix)]
    found = {suffix or _suffix(file) for file in files}
    openers = {OPENERS[s] for s in found}
    if len(openers) > 1 or len({ENCODINGS.get(s) for s in found}) > 1:
        raise FileError(
            f"{_named(files)}: files of several formats ({', '.join(sorted(found))}), but one source has one format. "
            "Scan each apart and merge the sketches, or name one pattern."
        )
    source = openers.pop()(files, suffix=min(found), base=base, batch_rows=batch_rows, **options)
    return source if columns is None else select(source, columns)


@dataclass(frozen=True, repr=False)
class Files(Source):
    """Fragments of a pyarrow data set: files, or row groups of Parquet files; pickled as their paths."""

    name: str
    fragments: tuple[Any, ...]
    schema: Any
    countable: bool  # without reading the rows
    batch_rows: int | None = None
    threads: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    @property
    def n_rows(self) -> int | None:
        return sum(map(self._count, self.fragments)) if self.countable else None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        names = list(self.columns if columns is None else columns)
        for fragment in self.fragments:
            with Reading(fragment.path):
                lost = set(names) - set(fragment.physical_schema.names) - _keys(fragment)
                if lost:
                    raise FileError(
                        f"{fragment.path}: has no column {', '.join(map(repr, sorted(lost)))}, which the first file has. "
                        "Leave the file out, or scan the columns that all files have: scan(..., columns=[...])."
                    )
                scanner = fragment.scanner(
                    schema=self.schema,
                    columns=names,
                    batch_size=self.batch_rows or rows_of(len(names)),
                    batch_readahead=2,
                    fragment_scan_options=self._unbuffered(fragment),
                    use_threads=self.threads,
                )
                yield from scanner.to_batches()

    def parts(self) -> Iterator[tuple[Source, int | None]]:
        """Files, or stretches of row groups of about 2²⁰ rows."""
        start = 0
        for fragment in self.fragments:
            for piece in _stretches(fragment):
                yield replace(self, fragments=(piece,)), start if self.countable else None
                start += self._count(piece) if self.countable else 0

    def alone(self) -> Source:
        return replace(self, threads=False)

    @staticmethod
    def _unbuffered(fragment: Any) -> Any:
        """Row groups column by column, as local disks have them: reading whole ones at once doubles the memory."""
        from pyarrow import dataset as ds

        parquet = isinstance(fragment, ds.ParquetFileFragment)
        return ds.ParquetFragmentScanOptions(pre_buffer=False) if parquet else None

    @staticmethod
    def _count(fragment: Any) -> int:
        with Reading(fragment.path):
            return int(fragment.count_rows())


def _stretches(fragment: Any) -> Iterator[Any]:
    groups = getattr(fragment, "row_groups", None)
    if not groups:
        yield fragment
        return
    ids: list[int] = []
    rows = 0
    for group in groups:
        ids, rows = [*ids, group.id], rows + group.num_rows
        if rows >= PART_ROWS:
            yield fragment.subset(row_group_ids=ids)
            ids, rows = [], 0
    if ids:
        yield fragment.subset(row_group_ids=ids)


def _keys(fragment: Any) -> set[str]:
    """The columns that the folders of a file give."""
    from pyarrow.dataset import get_partition_keys

    return set(get_partition_keys(fragment.partition_expression))


def open_arrow(
    files: Sequence[Path], *, suffix: str, base: Path | None, batch_rows: int | None, **options: Any
) -> Source:
    """CSV, Parquet and Arrow files, the folders below `base` as columns."""
    import pyarrow as pa
    from pyarrow import dataset as ds

    encoding = ENCODINGS.get(suffix, "ipc")
    form = _csv(suffix, options) if encoding == "csv" else encoding
    if encoding != "csv" and options:
        raise InputTypeError(f"{suffix} files take no option {', '.join(map(repr, options))}: leave it out.")
    partitions: dict[str, Any] = {} if base is None else {"partitioning": "hive", "partition_base_dir": str(base)}
    if encoding == "ipc" and all(map(_is_stream, files)):
        return Streams(tuple(map(str, files)), batch_rows)
    with Reading(_named(files)):
        found = ds.dataset([str(f) for f in files], format=form, **partitions)
        schema = found.schema
        fragments = tuple(found.get_fragments())
    if encoding == "csv":  # whole numbers in the first block, others further on
        numbers = [pa.types.is_integer(f.type) or pa.types.is_null(f.type) for f in schema]
        schema = pa.schema([f.with_type(pa.float64()) if n else f for f, n in zip(schema, numbers, strict=True)])
    return Files(_named(files), fragments, schema, encoding != "csv", batch_rows)


def _csv(suffix: str, options: dict[str, Any]) -> Any:
    """The format of a CSV file; empty text is missing, as it is among numbers."""
    from pyarrow import csv
    from pyarrow import dataset as ds

    unknown = set(options) - {"delimiter", "decimal_point", "encoding", "null_values"}
    if unknown:
        raise InputTypeError(
            f"CSV files take no option {listed(sorted(unknown))}: use delimiter, decimal_point, encoding or null_values."
        )
    given = dict(options)
    parse = csv.ParseOptions(delimiter=given.pop("delimiter", "\t" if suffix == ".tsv" else ","))
    read = csv.ReadOptions(encoding=given.pop("encoding", "utf8"))
    return ds.CsvFileFormat(
        parse, convert_options=csv.ConvertOptions(strings_can_be_null=True, **given), read_options=read
    )


@dataclass(frozen=True, repr=False)
class Streams(Source):
    """Files in Arrow's streaming format, one after the other."""

    paths: tuple[str, ...]
    batch_rows: int | None = None

    @property
    def name(self) -> str:  # type: ignore[override]  # read only
        return _named(self.paths)

    @property
    def columns(self) -> tuple[str, ...]:
        with Reading(self.paths[0]), self._open(self.paths[0]) as reader:
            return tuple(reader.schema.names)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        for path in self.paths:
            with Reading(path), self._open(path) as reader:
                for batch in reader:
                    yield batch if columns is None else batch.select(list(columns))

    def parts(self) -> Iterator[tuple[Source, int | None]]:
        return ((replace(self, paths=(path,)), None) for path in self.paths)

    @staticmethod
    def _open(path: str) -> Any:
        import pyarrow as pa

        return pa.ipc.open_stream(pa.OSFile(path))


def _is_stream(path: Path) -> bool:
    """Arrow's file format begins with a magic word, its streaming format with a length."""
    with Reading(str(path)), path.open("rb") as f:
        return f.read(6) != b"ARROW1"


class Reading:
    """What goes wrong while a file is read, as a `FileError` that names it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import pyarrow as pa

        if isinstance(error, FileError) or error is None:
            return
        if isinstance(error, (pa.ArrowException, OSError, KeyError, UnicodeDecodeError)):
            words = " ".join(str(error).replace(f"'{self.name}'", "it").split())
            raise FileError(
                f"{self.name}: cannot be read: truncated, damaged, or its rows differ in their columns ({words}). "
                "Copy it again, mend the row, or leave the file out."
            ) from error


def expand(path: PathLike, suffix: str | None) -> list[Path]:
    """The files that a path, a pattern or a directory stands for."""
    text = os.fspath(path)
    here = Path(text).expanduser()
    if here.is_dir():
        inside = (p for p in here.rglob("*") if p.is_file() and not _hidden(p.relative_to(here)))
        files = sorted(p for p in inside if suffix is not None or _suffix(p, ask=False))
        if not files:
            raise FileError(f"{text}: no file in this directory that can be read here ({_known()}). Check the path.")
        return files
    if here.exists():
        return [here]
    if glob.has_magic(text):
        files = sorted(p for p in map(Path, glob.glob(str(here), recursive=True)) if p.is_file())  # noqa: PTH207  # absolute too
        if not files:
            raise FileError(f"{text}: no file matches this pattern. Check the folder and the suffix.")
        return files
    beside = sorted(p.name for p in here.parent.iterdir()) if here.parent.is_dir() else []
    near = f"the directory has {', '.join(beside[:5])}" if beside else f"{here.parent} has no files"
    raise FileError(f"{text}: no such file; {near}. Check the path.")


def _hidden(path: Path) -> bool:
    """Files of a data set that hold no rows: markers and checksums."""
    return any(part.startswith((".", "_")) for part in path.parts)


def _suffix(path: Path, *, ask: bool = True) -> str:
    """The suffix that tells the format, that of a compression aside."""
    plain = path.with_suffix("") if path.suffix.lower() in COMPRESSED else path
    suffix = plain.suffix.lower()
    if suffix in OPENERS or not ask:
        return suffix if suffix in OPENERS else ""
    raise FileError(
        f"{path}: the suffix {suffix!r} tells no format that can be read here ({_known()}). Name it: scan(..., format='csv')."
    )


def _named(files: Sequence[PathLike]) -> str:
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _known() -> str:
    return ", ".join(sorted(OPENERS))


OPENERS: dict[str, Opener] = dict.fromkeys(
    (".csv", ".tsv", ".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc"), open_arrow
)
"""By suffix, what opens files: called with their paths, and suffix, base (a directory scanned), batch_rows and the options."""
