"""Files that carry numbers and never code: safetensors with JSON metadata and a checksum.

A file is `arrays` (named tensors) and `meta` (one JSON object). The checksum covers both, so that a truncated
or altered file is refused; writing goes to a temporary file beside the target, then renames.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load as _load
from safetensors.numpy import save as _save

from proportio.errors import FileError

SCHEMA = 1

Arrays = dict[str, npt.NDArray[Any]]


def digest(meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """SHA-256 of the canonical JSON of `meta` and of every array's name, type, shape and bytes."""
    h = hashlib.sha256(json.dumps(meta, sort_keys=True, allow_nan=False).encode())
    for name in sorted(arrays):
        a = np.ascontiguousarray(arrays[name])
        h.update(f"{name}:{a.dtype.str}:{a.shape}".encode())
        h.update(a.tobytes())
    return h.hexdigest()


def pack(kind: str, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """The bytes of a file of one `kind` ("model", "sketch")."""
    body = {"kind": kind, "schema": SCHEMA, **meta}
    tensors = {k: np.ascontiguousarray(v) for k, v in arrays.items()}
    header = {"proportio": json.dumps(body, sort_keys=True, allow_nan=False), "sha256": digest(body, tensors)}
    data: bytes = _save(tensors, header)
    return data


def unpack(data: bytes, kind: str, where: str = "the bytes given") -> tuple[dict[str, Any], Arrays]:
    """Inverse of `pack`; refuses what is truncated, altered, of a newer schema, or of another kind."""
    try:
        header = _header(data)
        arrays: Arrays = dict(_load(data))
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FileError(
            f"{where}: truncated or not a proportio file ({error}). Copy it again or save it anew."
        ) from error
    if not isinstance(header, dict) or "proportio" not in header:
        raise FileError(f"{where}: a safetensors file, but proportio did not write it.")
    try:
        meta: dict[str, Any] = json.loads(header["proportio"])
        intact = digest(meta, arrays) == header.get("sha256")
    except (ValueError, TypeError, RecursionError) as error:
        raise FileError(f"{where}: its metadata is damaged ({error}). Copy it again or save it anew.") from error
    if not (isinstance(meta, dict) and type(meta.get("schema")) is int and isinstance(meta.get("kind"), str)):
        raise FileError(f"{where}: its metadata lacks a kind or a schema: not a file that proportio wrote.")
    if not intact:
        raise FileError(f"{where}: the checksum does not match: altered or damaged. Copy it again or save it anew.")
    if meta["schema"] > SCHEMA:
        raise FileError(
            f"{where}: written by a newer proportio (schema {meta['schema']}; this one reads up to {SCHEMA}). Upgrade proportio."
        )
    if meta["kind"] != kind:
        raise FileError(f"{where}: holds a {meta['kind']}, but a {kind} was asked for.")
    return meta, arrays


def plain(record: Any) -> dict[str, Any]:
    """The fields of a frozen record as JSON knows them: NaN and infinity as None."""
    values = {f.name: getattr(record, f.name) for f in fields(record)}
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """All of the file or none of it: write beside the target, flush, rename."""
    write_all({path: data})


def write_all(files: Mapping[str | os.PathLike[str], bytes]) -> None:
    """All of the files or none of them: each is written beside its target and flushed, then all are renamed."""
    beside: dict[Path, Path] = {}
    target = Path()
    try:
        for path, data in files.items():
            target = Path(path)
            with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as f:
                beside[target] = Path(f.name)
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            beside[target].chmod(
                0o666 & ~_umask()
            )  # a temporary file is private, a result is for whom the user lets in
        for target, written in beside.items():
            written.replace(target)
    except OSError as error:
        raise FileError(f"{target}: cannot be written ({error.strerror or error}).") from error
    finally:
        for written in beside.values():
            written.unlink(missing_ok=True)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that `write` could not write to, before the work that it is to hold."""
    target = Path(path)
    if target.is_dir():
        why = "it is a directory; name a file in it"
    elif target.exists() and not target.is_file():
        why = "it is a device or a pipe; name a file"
    elif not target.parent.is_dir():
        why = f"there is no directory {target.parent}; make it first"
    elif not os.access(target.parent, os.W_OK):
        why = f"the directory {target.parent} may not be written to"
    else:
        return
    raise FileError(f"{target}: cannot be written: {why}.")


def _umask() -> int:
    """The process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def read(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file, or a `FileError` that says why not."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from error


def _header(data: bytes) -> Any:
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= len(data) - 8:
        raise ValueError(f"header of {length} bytes in a file of {len(data)}")
    return json.loads(data[8 : 8 + length]).get("__metadata__", {})
