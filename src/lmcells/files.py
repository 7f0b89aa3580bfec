"""Atomic writing of files and folders, and folders whose index holds the checksum of every file."""

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

import lmcells
from lmcells.errors import FormatError, InputError

T = TypeVar("T")
FileTable = dict[str, dict[str, Any]]  # file name -> {"bytes", "sha256"}

CONTINUE = " Mend that, then continue with --resume."

_LOCK = ".lock"
_POLL_SECONDS = 0.1


@contextmanager
def explain_unwritable(output: object, *, advice: str = "") -> Iterator[None]:
    """Say in one line that an output cannot be written; errors of reading are InputErrors already."""
    try:
        yield
    except OSError as error:
        # numpy's has no number when the disk is full: "100 requested and 50 written"
        why = error.strerror or ("the disk is full" if "requested and" in str(error) else error)
        raise InputError(f"{output} cannot be written: {why}.{advice}") from error


@contextmanager
def atomic_write(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield an empty temporary file to write to; it becomes `path` only if the block ends without an error.

    A killed process leaves no partial file. `durable` also waits for the disk, so neither does a power failure. What
    is replaced stays as private as it was.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is not a file, so it is not replaced. Choose another output.")
    temporary = _beside(path, f"{path.name}.", ".partial")
    try:
        # Nobody else has made it: it may be in a folder in which others may write.
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        _keep_private(temporary, path)
        yield temporary
        if durable:
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def open_private(path: Path, *, append: bool = False) -> Iterator[TextIO]:
    """Open a file for writing that only its owner may read."""
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", newline="") as file:
        if path.is_file():  # not /dev/stdout
            path.chmod(0o600)
        yield file


@contextmanager
def atomic_folder(path: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a temporary folder to fill; it is renamed to `path` only if the block ends without an error.

    `overwrite` replaces an existing folder, which stays as it is until the new one is complete, and as private.
    """
    temporary = _beside(path, f".{path.name}.", ".partial")
    temporary.mkdir(parents=True)
    try:
        _keep_private(temporary, path)
        yield temporary
        if overwrite:
            put_in_place(temporary, path)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def put_in_place(folder: Path, path: Path) -> None:
    """Rename a complete folder to `path`, replacing any folder of that name; it is as private as that one was."""
    old = _beside(path, f".{path.name}.", ".old")
    if path.exists():
        _keep_private(folder, path)
        path.rename(old)
    try:
        folder.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _beside(path: Path, before: str, after: str) -> Path:
    """Return a new name next to a path: processes on several machines may have the same number."""
    return path.with_name(f"{before}{secrets.token_hex(4)}{after}")


def _keep_private(new: Path, old: Path) -> None:
    """Give a new file or folder the permissions of the one it replaces, if any; its owner keeps all."""
    if old.exists():
        given = stat.S_IMODE(new.stat().st_mode)
        wanted = stat.S_IMODE(old.stat().st_mode) | (given & stat.S_IRWXU)
        if wanted != given:
            new.chmod(wanted)


@contextmanager
def work_folder(work: Path, plan: str, *, keep: bool) -> Iterator[None]:
    """Hold a folder for work in progress, which no other process may use meanwhile.

    What an earlier job left in it is removed, unless `keep`; a folder of anything else is refused.
    """
    left = {path.name for path in work.iterdir()} - {_LOCK} if work.is_dir() else set()
    if (left and not any(name.startswith(plan) for name in left)) or work.is_symlink() or work.is_file():
        raise InputError(
            f"{work} is needed for work in progress, but was not made by lmcells. Rename it, or choose another output."
        )
    with locked(work, by="another job"):
        work.chmod(0o700)  # it holds text of the notes
        for path in () if keep else work.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != _LOCK:
                path.unlink()
        yield


@contextmanager
def locked(folder: Path, *, by: str, seconds: float = 0.0) -> Iterator[int | None]:
    """Make a folder and keep other processes out; wait so long for one to end. Yields the number of the lock's file."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # not a Unix: nobody is kept out
        yield None
        return
    until = time.monotonic() + seconds
    with (folder / _LOCK).open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    wait = "Wait for it, or end it."
                    raise InputError(f"{folder} is being worked on by {by}. {wait}") from None
                time.sleep(_POLL_SECONDS)
            except OSError:  # a file system without locks
                break
        yield lock.fileno()


def write_json(path: Path, value: Any, *, indent: int | None = None) -> None:
    """Write a value as JSON, atomically; without `indent`, as small as possible.

    A lone surrogate, as in a file name that is not UTF-8, is escaped.
    """
    separators = (",", ":") if indent is None else None
    with atomic_write(path) as temporary:
        written = json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
        temporary.write_text(written + "\n", encoding="utf-8", errors="backslashreplace")


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def read_saved(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file; an empty one if the file is missing or holds anything else."""
    try:
        saved = read_json(path)
    except (OSError, ValueError, RecursionError):
        return {}
    return saved if isinstance(saved, dict) else {}


def write_tensors(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, str] | None = None
) -> None:
    """Write named arrays as safetensors, atomically and durably; a full disk raises OSError."""
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    with atomic_write(path, durable=True) as temporary:
        mode = temporary.stat().st_mode  # the user's default; save_file would let only the owner read
        try:
            save_file(contiguous, temporary, dict(metadata) if metadata else None)
        except SafetensorError as error:
            if (code := re.search(r"(?:os error|code:) (\d+)", str(error))) is None:
                raise
            raise OSError(int(code[1]), os.strerror(int(code[1])), str(path)) from None
        temporary.chmod(mode)


def read_tensors(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read the named arrays of a safetensors file into memory, without pickle.

    A truncated file is refused; changed values are found only by checksums.
    """
    try:
        return load_file(path)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
        why = " ".join(str(error).split())[:200]
        raise FormatError(
            f"{path} is not a complete safetensors file ({why}). Make or download it again."
        ) from None


def under(prefix: str, tensors: Mapping[str, T]) -> dict[str, T]:
    """Return the tensors whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def sha256(path: Path) -> str:
    """Return the checksum of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderFormat:
    """A kind of folder that lmcells writes: a corpus, a model, a language model.

    One JSON file, the index, names the format and lists the size and checksum of every other file. It is written last,
    so a folder with an index is complete.
    """

    what: str  # "corpus"
    format: str  # "lmcells-corpus"
    version: int
    index: str  # "manifest.json"
    fields: Mapping[str, type]  # of the index, besides format, version and files; `object` allows anything
    required: tuple[str, ...]  # files that must be listed
    error: type[InputError]
    made_with: str  # "lmcells prepare NOTES --output CORPUS"
    again: str  # what to do about a damaged folder: "Prepare the corpus again."

    def describe_files(self, folder: Path) -> FileTable:
        """Return the size and checksum of every file except the index."""
        paths = sorted(path for path in folder.iterdir() if path.name != self.index)
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing releases the GIL
            checksums = pool.map(sha256, paths)
            return {
                path.name: {"bytes": path.stat().st_size, "sha256": checksum}
                for path, checksum in zip(paths, checksums, strict=True)
            }

    def write_index(self, folder: Path, fields: Mapping[str, Any]) -> None:
        """Write the index, the last file of a folder; `fields` include "files" from `describe_files`."""
        write_json(folder / self.index, {"format": self.format, "version": self.version, **fields}, indent=1)

    def is_format_of(self, folder: Path) -> bool:
        """Whether a folder claims to be of this format; it may still be damaged."""
        return read_saved(folder / self.index).get("format") == self.format

    def require_free(self, folder: Path, *, overwrite: bool) -> None:
        """Refuse an output that exists, unless it is an empty folder or, with `overwrite`, one of this format."""
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return
        if not overwrite:
            raise InputError(
                f"{folder} already exists. Choose another output, or replace it with --overwrite."
            )
        if not self.is_format_of(folder):
            raise InputError(
                f"{folder} is not a {self.what}, so it is not overwritten. Choose another output."
            )

    def read_index(self, folder: Path, *, verify: bool = False) -> dict[str, Any]:
        """Read the index, and check that every file exists and has its size; `verify` also compares checksums."""
        if not folder.is_dir():
            found = "is not a folder" if folder.exists() else "does not exist"
            raise self.error(f"{folder} {found}. Make a {self.what} with: {self.made_with}")
        if not (folder / self.index).is_file():
            raise self.error(
                f"{folder} is not a {self.what}: it has no {self.index}. Make one with: {self.made_with}"
            )
        try:
            saved = read_json(folder / self.index)
        except (OSError, ValueError, RecursionError):
            raise self.error(f"{folder / self.index} is damaged: it is not JSON. {self.again}") from None
        fields = self.parse_index(saved, source=folder)
        for name, expected in fields["files"].items():
            path = folder / name
            if not path.is_file():
                raise self.error(f"{path} is missing. {self.again}")
            n_bytes = path.stat().st_size
            if n_bytes != expected["bytes"]:
                raise self.error(
                    f"{path} is damaged: found {n_bytes:,} bytes, expected {expected['bytes']:,}. {self.again}"
                )
            if verify and sha256(path) != expected["sha256"]:
                raise self.error(f"{path} is damaged: its checksum differs. {self.again}")
        return fields

    def parse_index(self, saved: Any, *, source: Path) -> dict[str, Any]:
        """Return the fields of an index, without format and version, or say why it cannot be used."""
        if not isinstance(saved, dict) or saved.get("format") != self.format:
            raise self.error(
                f"{source} is not a {self.what}: its {self.index} is of another format. "
                f"Make one with: {self.made_with}"
            )
        if saved.get("version") != self.version:
            raise self.error(
                f"{source} has {self.what} format {saved.get('version')!r}, made by lmcells "
                f"{saved.get('written_by')}; this lmcells ({lmcells.__version__}) reads {self.version}. "
                f"Upgrade lmcells, or: {self.again}"
            )
        problem = self._problem_in(saved)
        if problem:
            raise self.error(f"{source}: its {self.index} is damaged: {problem}. {self.again}")
        return {name: value for name, value in saved.items() if name not in ("format", "version")}

    def _problem_in(self, saved: dict[str, Any]) -> str | None:
        fields = {**self.fields, "files": dict}
        missing = [name for name in fields if name not in saved]
        if missing:
            return f"it lacks {', '.join(missing)}"
        for name, kind in fields.items():
            if not isinstance(saved[name], kind):
                return f"{name} is not {'a mapping' if kind is dict else f'of type {kind.__name__}'}"
        for name, entry in saved["files"].items():
            is_plain = name == Path(name).name and name not in ("", "..")
            is_entry = isinstance(entry, dict) and type(entry.get("bytes")) is int
            is_entry = is_entry and isinstance(entry.get("sha256"), str)
            if not is_plain or not is_entry:
                return f"files has no size and checksum of {name!r}"
        unlisted = [name for name in self.required if name not in saved["files"]]
        return f"files lacks {', '.join(unlisted)}" if unlisted else None
