"""Arrays on disk that are written piece by piece and read through a memory map."""

import io
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt


class ArrayWriter:
    """Writes a one-dimensional `.npy` file whose length is known only at the end."""

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self._file = path.open("wb")
        self._dtype = np.dtype(dtype)
        self.length = 0
        self._write_header()

    def append(self, values: npt.NDArray[np.integer]) -> None:
        """Add values at the end."""
        self._file.write(np.ascontiguousarray(values, self._dtype).data)
        self.length += values.size

    def _write_header(self) -> None:
        # numpy's header leaves room for the first axis to grow, so the final one is as long as this one.
        header = io.BytesIO()
        description = {"descr": self._dtype.str, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(header, description)
        self._file.write(header.getbuffer())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()


def map_array(path: Path, *, mode: str = "r") -> npt.NDArray[np.integer]:
    """Open an array through a memory map."""
    array: npt.NDArray[np.integer] = np.load(path, mmap_mode=mode, allow_pickle=False)  # type: ignore[arg-type]
    return array


def id_dtype(size: int) -> type[np.integer]:
    """Return the narrowest of the two signed types that torch indexes with and that can count to `size`."""
    return np.int32 if size < 2**31 else np.int64
