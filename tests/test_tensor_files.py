"""The safetensors format of our own: others read what we write, and damage is refused."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from lmcells.errors import FormatError
from lmcells.tensor_files import read_tensors, write_tensors

Arrays = dict[str, npt.NDArray[Any]]

DTYPES = [
    *("float64", "float32", "float16", "bool"),
    *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)),
]
SMALL: Arrays = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "flags": np.array([True, False, True]),
    "scalar": np.array(7, np.int64),
    "none": np.zeros((0, 4), np.int16),
}
NAMES = st.text(st.characters(codec="utf-8"), max_size=8).filter(lambda name: name != "__metadata__")
ARRAYS = st.dictionaries(
    NAMES, st.sampled_from(DTYPES).flatmap(lambda t: hnp.arrays(t, hnp.array_shapes(min_dims=0, min_side=0)))
)


def assert_same_arrays(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert found[name].tobytes() == array.tobytes()


def write_raw(path: Path, header: Any, data: bytes = b"") -> Path:
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)
    return path


def entry(dtype: Any = "U8", shape: Any = (4,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@settings(max_examples=60, deadline=None)
@given(arrays=ARRAYS, metadata=st.dictionaries(NAMES, st.text(st.characters(codec="utf-8"))))
def test_any_arrays_survive_a_round_trip_and_the_safetensors_package_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, arrays: Arrays, metadata: dict[str, str]
) -> None:
    path = tmp_path_factory.mktemp("tensors") / "arrays.safetensors"
    write_tensors(path, arrays, metadata=metadata)
    found, found_metadata = read_tensors(path)
    assert_same_arrays(found, arrays)
    assert found_metadata == metadata
    assert_same_arrays(load_file(path), arrays)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_the_safetensors_package_writes_is_read(tmp_path: Path, dtype: str) -> None:
    arrays = {"b": np.arange(6).reshape(3, 2).astype(dtype), "a": np.ones(1, np.uint8)}
    save_file(arrays, tmp_path / "theirs.safetensors", metadata={"made by": "them"})
    found, metadata = read_tensors(tmp_path / "theirs.safetensors")
    assert_same_arrays(found, arrays)
    assert metadata == {"made by": "them"}


def test_arrays_that_are_not_contiguous_or_of_another_byte_order_are_written_by_value(tmp_path: Path) -> None:
    square = np.arange(9, dtype=np.int32).reshape(3, 3)
    arrays = {
        "turned": square.T,
        "step": square[::2, ::2],
        "big": square.astype(">i4"),
        "f": np.float64(2) * np.ones(()),
    }
    write_tensors(tmp_path / "t", arrays)
    found, _ = read_tensors(tmp_path / "t")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)


def test_equal_arrays_give_equal_files_in_whatever_order_they_are_given(tmp_path: Path) -> None:
    write_tensors(tmp_path / "one", SMALL, metadata={"a": "1", "b": "2"})
    write_tensors(
        tmp_path / "two", dict(reversed(SMALL.items())), metadata={"b": "2", "a": "1"}, durable=True
    )
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_views_are_read_only_and_aligned_and_copies_are_neither_bound_to_the_file(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t", SMALL)
    views, _ = read_tensors(tmp_path / "t")
    assert not any(view.flags.writeable for view in views.values())
    assert all(view.flags.aligned for view in views.values())
    copies, _ = read_tensors(tmp_path / "t", copy=True)
    assert all(copy.flags.writeable and copy.flags.owndata for copy in copies.values())


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    write_tensors(tmp_path / "whole", SMALL, metadata={"kind": "test"})
    whole = (tmp_path / "whole").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:length])
        with pytest.raises(FormatError, match="cut is not a whole safetensors file"):
            read_tensors(tmp_path / "cut")
    (tmp_path / "cut").write_bytes(whole + b"\0")
    with pytest.raises(FormatError, match="take 35 bytes of the 36"):
        read_tensors(tmp_path / "cut")


@pytest.mark.parametrize("change", [0x01, 0x20, 0xFF])
def test_any_changed_byte_is_refused_or_gives_other_values_never_another_error(
    tmp_path: Path, change: int
) -> None:
    write_tensors(tmp_path / "whole", SMALL, metadata={"kind": "test"})
    whole = (tmp_path / "whole").read_bytes()
    refused = 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= change
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            arrays, _ = read_tensors(tmp_path / "damaged", copy=True)
        except FormatError:
            refused += 1
        else:
            assert sum(array.nbytes for array in arrays.values()) == sum(
                array.nbytes for array in SMALL.values()
            )
    assert refused > 100


@settings(max_examples=300, deadline=None)
@given(content=st.binary(max_size=40))
def test_arbitrary_bytes_are_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary"
    path.write_bytes(content)
    with suppress(FormatError):
        read_tensors(path)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"a": entry(offsets=(0, 5))}, "0 to 5 of 4"),
        ({"a": entry(offsets=(4, 0))}, "4 to 0 of 4"),
        ({"a": entry(offsets=(-4, 0))}, "not lists of sizes"),
        ({"a": entry(offsets=(0, 4, 4))}, "not lists of sizes"),
        ({"a": entry(offsets=(True, 4))}, "not lists of sizes"),
        ({"a": entry(shape=(2.0, 2))}, "not lists of sizes"),
        ({"a": entry(shape=4)}, "not lists of sizes"),
        ({"a": entry(shape=(1,) * 99 + (4,))}, "a shape that no array has"),
        ({"a": entry(), "e": entry(shape=(0, 10**30), offsets=(4, 4))}, "a shape that no array has"),
        ({"a": entry(), "b": entry()}, "overlap"),
        ({"a": entry(shape=(2,), offsets=(0, 2)), "b": entry(shape=(1,), offsets=(3, 4))}, "a gap at byte 2"),
        ({"a": entry(shape=(2,), offsets=(0, 2))}, "2 bytes of the 4"),
        ({"a": entry(dtype="BOOL")}, "other than 0 and 1"),
        ({"a": entry(dtype="F8_E4M3")}, "dtype F8_E4M3; allowed: F64"),
        ({"a": entry(dtype=["U8"])}, "allowed: F64"),
        ({"a": {"dtype": "U8"}}, "without dtype, shape"),
        ({"a": [1]}, "without dtype, shape"),
        ({"__metadata__": {"n": 1}, "a": entry()}, "not a mapping of text"),
        ({"__metadata__": [], "a": entry()}, "not a mapping of text"),
        ([], "not a JSON object"),
        (b'{"a":1,"a":2}', "has a name twice"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":' + b"9" * 5000 + b"}", "not JSON"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, header: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_tensors(write_raw(tmp_path / "lies", header, b"\0\2\0\0"))


def test_a_header_that_asks_for_the_whole_memory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "huge").write_bytes(b"\xff" * 8 + b"{}")
    with pytest.raises(FormatError, match="a header of"):
        read_tensors(tmp_path / "huge")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"absent.safetensors cannot be read"):
        read_tensors(tmp_path / "absent.safetensors")


@pytest.mark.parametrize("array", [np.zeros(2, np.complex64), np.array(["text"]), np.array([None])])
def test_an_array_that_the_format_has_no_dtype_for_is_not_written(
    tmp_path: Path, array: npt.NDArray[Any]
) -> None:
    with pytest.raises(ValueError, match="allowed: F64"):
        write_tensors(tmp_path / "t", {"array": array})
    assert not list(tmp_path.iterdir())
