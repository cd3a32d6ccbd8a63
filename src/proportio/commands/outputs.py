"""What a command writes: refused beforehand where it cannot be, then all of it or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

STDOUT = Path("-")


class Outputs:
    """The files that a command was asked for. `inputs` are those that it reads, which it will not overwrite."""

    def __init__(self, *paths: Path | None, inputs: Sequence[Path | None] = ()) -> None:
        from proportio import storage
        from proportio.errors import InputError

        asked = [p for p in paths if p is not None]
        read = {p.resolve() for p in inputs if p is not None}
        seen: set[Path] = set()
        for path in asked:
            if path != STDOUT:
                storage.check_writable(path)
            whole = path if path == STDOUT else path.resolve()
            if whole in seen:
                raise InputError(f"{path}: asked for twice; give every output a path of its own.")
            if whole in read:
                raise InputError(f"{path}: is read and would be overwritten; write to another path.")
            seen.add(whole)

    @staticmethod
    def write(files: Mapping[Path | None, str | bytes]) -> None:
        """Everything at once; the standard output after the files, so that what is printed was also kept."""
        from proportio import storage

        asked = {p: data.encode() if isinstance(data, str) else data for p, data in files.items() if p is not None}
        storage.write_all({p: data for p, data in asked.items() if p != STDOUT})
        for path, data in asked.items():
            if path == STDOUT:
                typer.echo(data.decode(), nl=False)
