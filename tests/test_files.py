"""What is written is whole, as private as what it replaces, and nobody else's."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from lmcells.errors import InputError
from lmcells.files import atomic_folder, atomic_write, open_private, put_in_place


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("before", "after"), [(None, 0o644), (0o600, 0o600), (0o664, 0o664), (0o400, 0o600)])
def test_a_file_that_is_replaced_stays_private(tmp_path: Path, before: int | None, after: int) -> None:
    path = tmp_path / "out.jsonl"
    if before is not None:
        path.touch()
        path.chmod(before)
    with atomic_write(path) as temporary:
        assert mode(temporary) == after  # from the start: others may not read along
        temporary.write_text("new")
    assert (path.read_text(), mode(path)) == ("new", after)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("before", "after"), [(None, 0o755), (0o700, 0o700), (0o500, 0o700)])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_is_replaced_stays_private(
    tmp_path: Path, before: int | None, after: int, overwrite: bool
) -> None:
    path = tmp_path / "out"
    if before is not None:
        path.mkdir()
        path.chmod(before)
    with atomic_folder(path, overwrite=overwrite) as temporary:
        assert mode(temporary) == after
        (temporary / "new").touch()
    assert ([each.name for each in path.iterdir()], mode(path)) == (["new"], after)
    (tmp_path / "built").mkdir()
    put_in_place(tmp_path / "built", path)
    assert mode(path) == after
    assert list(tmp_path.iterdir()) == [path]


def test_the_temporary_file_is_never_one_that_others_made(tmp_path: Path) -> None:
    """Two containers that share a folder often have the same process number."""
    path = tmp_path / "out"
    with atomic_write(path) as first, atomic_write(path) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert path.read_text() == "first"  # the last to end


def test_what_is_not_a_file_is_not_replaced(tmp_path: Path) -> None:
    """As root, a device would be: everybody's /dev/null."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="pipe is not a file, so it is not replaced"), atomic_write(pipe):
        pass
    assert pipe.is_fifo()


@pytest.mark.parametrize("before", [None, 0o644])
def test_a_private_file_is_only_its_owners(tmp_path: Path, before: int | None) -> None:
    path = tmp_path / "errors.tsv"
    if before is not None:
        path.write_text("of an earlier run")
        path.chmod(before)
    for append, text in ((False, "a\r\n"), (True, "b\n")):
        with open_private(path, append=append) as file:
            assert mode(path) == 0o600
            file.write(text)
    assert path.read_bytes() == b"a\r\nb\n"


def test_a_device_keeps_its_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", lambda *_: pytest.fail("the mode of a device was changed"))
    with open_private(Path("/dev/null")) as file:
        file.write("nothing")
