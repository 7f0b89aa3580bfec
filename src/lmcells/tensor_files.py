"""Arrays with names in one file, in the safetensors format (https://github.com/huggingface/safetensors).

The length of a header (8 bytes, little-endian), the header as JSON, and the arrays' bytes one after another.
Written here rather than with the `safetensors` package because what trains must run with torch and numpy
alone; the tests hold the two interchangeable. Nothing is ever unpickled.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lmcells.errors import FormatError
from lmcells.files import atomic_write

Array = npt.NDArray[Any]

_DTYPES = (
    {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BOOL": "|b1"}
    | {"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1"}
    | {"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1"}
)
_NAME_OF = {dtype: name for name, dtype in _DTYPES.items()}
_METADATA = "__metadata__"
_PREFIX = 8  # bytes of the header's length
_ALIGNMENT = 64  # the header is padded so that the arrays begin at a multiple of this
_MAX_HEADER = 100_000_000  # as in the safetensors package: no file can ask for more memory than that


def write_tensors(
    path: Path, arrays: Mapping[str, Array], *, metadata: Mapping[str, str] = {}, durable: bool = False
) -> None:
    """Write named arrays, atomically; the same arrays and metadata always give the same bytes.

    `durable` waits for the disk, so that the file survives a power failure.
    """
    # The widest items first, as the safetensors package does, so that every array stays aligned to its items.
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {_METADATA: dict(sorted(metadata.items()))} if metadata else {}
    start = 0
    for name in order:
        array = arrays[name]
        stop = start + array.nbytes
        header[name] = {
            "dtype": _dtype_name(name, array),
            "shape": list(array.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    encoded = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    encoded += b" " * (-(_PREFIX + len(encoded)) % _ALIGNMENT)
    with atomic_write(path, durable=durable) as temporary, temporary.open("wb") as file:
        file.write(len(encoded).to_bytes(_PREFIX, "little"))
        file.write(encoded)
        for name in order:
            little_endian = np.asarray(arrays[name], arrays[name].dtype.newbyteorder("<"), order="C")
            file.write(little_endian.reshape(-1).view(np.uint8).data)


def read_tensors(path: Path, *, copy: bool = False) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays by name, and the metadata.

    The arrays are read-only views of a memory map, or with `copy` arrays of their own. A file that is not
    whole is refused with a FormatError; changed numbers are not seen here (checksums are for that).
    """
    try:
        content = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror}.") from None
    header, data_start = _read_header(path, content)
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise _damaged(path, f"its {_METADATA} is not a mapping of text to text")
    data = content[data_start:].view(np.ndarray)
    arrays, spans = {}, []
    for name, entry in header.items():
        array, span = _view(path, name, entry, data)
        arrays[name] = array.copy() if copy else array
        spans.append(span)
    _require_tiling(path, spans, data.size)
    return arrays, metadata


def _dtype_name(name: str, array: Array) -> str:
    found = _NAME_OF.get(array.dtype.newbyteorder("<").str)
    if name == _METADATA or found is None:
        raise ValueError(f"{name!r} of {array.dtype} cannot be written; allowed: {', '.join(_DTYPES)}.")
    return found


def _damaged(path: Path, why: str) -> FormatError:
    return FormatError(f"{path} is not a whole safetensors file: {why}. Make or download it again.")


def _read_header(path: Path, content: npt.NDArray[np.uint8]) -> tuple[dict[str, Any], int]:
    length = int.from_bytes(content[:_PREFIX].tobytes(), "little")
    data_start = _PREFIX + length
    if content.size < data_start or not 2 <= length <= _MAX_HEADER:
        raise _damaged(path, f"its {content.size:,} bytes begin with a header of {length:,}")
    try:
        header = json.loads(content[_PREFIX:data_start].tobytes().decode(), object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        raise _damaged(path, "its header is not JSON, or has a name twice") from None
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not a JSON object")
    return header, data_start


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _view(path: Path, name: str, entry: Any, data: npt.NDArray[np.uint8]) -> tuple[Array, tuple[int, int]]:
    """The array that a header's entry describes, and the bytes it takes."""
    if not isinstance(entry, dict) or not entry.keys() >= {"dtype", "shape", "data_offsets"}:
        raise _damaged(path, f"its header describes {name!r} without dtype, shape and data_offsets")
    if entry["dtype"] not in tuple(_DTYPES):
        found = str(entry["dtype"])[:20]
        raise FormatError(f"{path} holds {name!r} of dtype {found}; allowed: {', '.join(_DTYPES)}.")
    dtype = np.dtype(_DTYPES[entry["dtype"]])
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise _damaged(path, f"shape or offsets of {name!r} are not lists of sizes")
    start, stop = offsets
    if not start <= stop <= data.size or stop - start != math.prod(shape) * dtype.itemsize:
        raise _damaged(path, f"the bytes {start:,} to {stop:,} of {data.size:,} are not those of {name!r}")
    try:
        array = data[start:stop].view(dtype).reshape(shape)
    except (ValueError, OverflowError):  # more axes than numpy has, or an impossible axis beside an empty one
        raise _damaged(path, f"{name!r} has a shape that no array has") from None
    if dtype == np.bool_ and data[start:stop].max(initial=0) > 1:
        raise _damaged(path, f"{name!r} is of BOOL but holds bytes other than 0 and 1")
    return array, (start, stop)


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _require_tiling(path: Path, spans: list[tuple[int, int]], size: int) -> None:
    """Refuse arrays that overlap, leave a gap, or leave bytes at the end."""
    end = 0
    for start, stop in sorted(spans):
        if start != end:
            raise _damaged(path, f"arrays overlap or leave a gap at byte {min(start, end):,} of its data")
        end = stop
    if end != size:
        raise _damaged(path, f"its arrays take {end:,} bytes of the {size:,} there are")
