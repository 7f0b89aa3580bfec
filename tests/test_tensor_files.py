"""Arrays in safetensors files: they survive a round trip, and what is not whole is refused in one line."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from safetensors.numpy import load_file, save_file

from lmcells.errors import FormatError
from lmcells.files import read_tensors, write_tensors

DTYPES = st.sampled_from(
    [np.float64, np.float32, np.float16, np.int64, np.int8, np.uint32, np.uint8, np.bool_]
)
ARRAYS = arrays_of.arrays(DTYPES, arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
SMALL = {
    "weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "step": np.array(7.0),
    "ids": np.array([1, 2]),
}


@given(arrays=st.dictionaries(st.text("ab.é", min_size=1, max_size=4), ARRAYS, max_size=4))
def test_arrays_survive_a_round_trip(
    arrays: dict[str, np.ndarray], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("tensors") / "t.safetensors"
    write_tensors(path, arrays, {"format": "pt"})
    found = read_tensors(path)
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found[name], array)


def test_arrays_of_any_layout_are_written_and_what_is_read_may_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "t"
    write_tensors(path, {"turned": SMALL["weight"].T, "thinned": np.arange(9)[::3]})
    found = read_tensors(path)
    np.testing.assert_array_equal(found["turned"], SMALL["weight"].T)
    assert found["thinned"].tolist() == [0, 3, 6]
    found["thinned"][0] = 5  # a resumed run trains in place
    assert read_tensors(path)["thinned"].tolist() == [0, 3, 6]


def test_the_files_are_ordinary_and_equal_arrays_give_equal_bytes(tmp_path: Path) -> None:
    write_tensors(tmp_path / "ours", SMALL, {"format": "pt"})
    write_tensors(tmp_path / "again", dict(reversed(SMALL.items())), {"format": "pt"})
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "again").read_bytes()
    assert load_file(tmp_path / "ours").keys() == SMALL.keys()
    save_file(SMALL, tmp_path / "theirs")
    np.testing.assert_array_equal(read_tensors(tmp_path / "theirs")["weight"], SMALL["weight"])


def test_a_file_cut_anywhere_or_with_more_behind_it_is_refused_in_one_line(tmp_path: Path) -> None:
    write_tensors(tmp_path / "whole", SMALL)
    whole = (tmp_path / "whole").read_bytes()
    for content in (*(whole[:n] for n in range(len(whole))), whole + b"\0", b"\xff" * 9 + whole, b"[]" * 9):
        (tmp_path / "damaged").write_bytes(content)
        with pytest.raises(FormatError, match=r"damaged is not a complete safetensors file") as refused:
            read_tensors(tmp_path / "damaged")
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["absent", "."])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        read_tensors(tmp_path / name)


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t", SMALL)
    with pytest.raises(Exception, match=r"dtype|object"):
        write_tensors(tmp_path / "t", {"weight": np.array([object()])})
    assert read_tensors(tmp_path / "t").keys() == SMALL.keys()
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_a_tensor_file_may_be_read_by_whom_other_files_may(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.safetensors", {"x": np.zeros(3)})
    (tmp_path / "b").touch()
    assert (tmp_path / "a.safetensors").stat().st_mode == (tmp_path / "b").stat().st_mode
