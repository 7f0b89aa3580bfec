"""The files that a protocol names, and what they held when they were last seen."""

import hashlib
import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lmcells.errors import InputError
from lmcells.files import read_json, sha256, write_json

_VARIABLE = re.compile(r"\$\{(\w+)\}")
_PACKAGE = "package:"


class MissingSource(InputError):  # noqa: N818 - it names a thing, like MissingExtra
    """A file that the protocol names is not on this machine."""


@dataclass(frozen=True, slots=True)
class Source:
    """A path as it is written in a protocol: relative to its file, with `${VARIABLE}`, or `package:NAME/FOLDER`."""

    written: str
    folder: Path  # of the file that it is written in
    hints: Mapping[str, str]  # variable or path as written -> how to get what it stands for

    def path(self) -> Path:
        """Where it is, or an error that says how to get it."""
        if self.written.startswith(_PACKAGE):
            return self._in_package(self.written.removeprefix(_PACKAGE))
        for name in _VARIABLE.findall(self.written):
            if not os.environ.get(name):
                raise MissingSource(
                    f"the variable {name} is not set; it stands for a file that the protocol needs."
                    f"{self._hint(name)} Then: export {name}=PATH"
                )
        path = self.folder / _VARIABLE.sub(lambda found: os.environ[found[1]], self.written)
        if not path.exists():
            names = _VARIABLE.findall(self.written)
            raise MissingSource(
                f"{self.written} does not exist (looked for {path}).{self._hint(*names, self.written)}"
            )
        return path

    def _in_package(self, written: str) -> Path:
        package, _, inside = written.partition("/")
        found = importlib.util.find_spec(package)
        if found is None or not found.submodule_search_locations:
            raise MissingSource(f"the package {package} is not installed.{self._hint(self.written)}")
        path = Path(found.submodule_search_locations[0]) / inside
        if not path.exists():
            raise MissingSource(f"{self.written} does not exist: {package} has no {inside!r}.")
        return path

    def _hint(self, *names: str) -> str:
        return next((f" {self.hints[name]}" for name in names if name in self.hints), "")


class Digests:
    """Checksums of sources, computed once and remembered: a machine without the files still knows what they held."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, dict[str, Any]] = read_json(path) if path.is_file() else {}

    def of(self, source: Source) -> str:
        """Return the checksum of a file, or of all files of a folder with their names."""
        before = self._known.get(source.written)
        try:
            path = source.path()
        except MissingSource:
            if before is None:
                raise
            return str(before["sha256"])
        files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
        stamps = [[file.stat().st_size, file.stat().st_mtime_ns] for file in files]
        if before is None or before["stamps"] != stamps:
            digest = _digest(path, files)
            self._known[source.written] = {"sha256": digest, "stamps": stamps}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, self._known, indent=1)
        return str(self._known[source.written]["sha256"])


def _digest(path: Path, files: list[Path]) -> str:
    if files == [path]:
        return sha256(path)
    listing = "".join(f"{file.relative_to(path)} {sha256(file)}\n" for file in files)
    return hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
