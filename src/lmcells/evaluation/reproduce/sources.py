"""The files that a protocol names: where they are, and a checksum of what they hold."""

import hashlib
import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lmcells.errors import InputError
from lmcells.files import read_json, sha256, write_json

DATA = "LMCELLS_DATA"  # the folder of the training text
_DATA_HINT = (
    f"{DATA} is the folder that holds train/, train2/, dev/ and benchmarks/; docs/data.md describes it."
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_PACKAGE = "package:"


class MissingSource(InputError):  # noqa: N818 - it names a thing, like MissingExtra
    """A file that the protocol names is not on this machine."""


@dataclass(frozen=True, slots=True)
class Source:
    """A path as a protocol writes it: relative to its file, with `${VARIABLE}`, or `package:NAME/FOLDER`."""

    written: str
    folder: Path  # of the protocol's file
    hints: Mapping[str, str] = field(default_factory=dict)  # variable or path as written -> how to get it

    def __repr__(self) -> str:
        return repr(self.written)  # as messages show it

    def path(self) -> Path:
        """Return where it is; MissingSource says how to get it."""
        if self.written.startswith(_PACKAGE):
            return self._in_package(*self.written.removeprefix(_PACKAGE).partition("/")[::2])
        names = _VARIABLE.findall(self.written)
        for name in names:
            if not os.environ.get(name):
                how = "Give --data FOLDER, or" if name == DATA else "Then"
                raise MissingSource(
                    f"the variable {name} is not set.{self._hint(name)} {how}: export {name}=PATH"
                )
        path = self.folder / _VARIABLE.sub(lambda found: os.environ[found[1]], self.written)
        if not path.exists():
            hint = self._hint(*names, self.written)
            raise MissingSource(f"{self.written} does not exist (looked for {path}).{hint}")
        return path

    def _in_package(self, package: str, inside: str) -> Path:
        found = importlib.util.find_spec(package)
        if found is None or not found.submodule_search_locations:
            raise MissingSource(f"the package {package} is not installed.{self._hint(self.written)}")
        path = Path(found.submodule_search_locations[0]) / inside
        if not path.exists():
            raise MissingSource(f"{self.written} does not exist: {package} has no {inside!r}.")
        return path

    def _hint(self, *names: str) -> str:
        hints = {DATA: _DATA_HINT, **self.hints}
        return next((f" {hints[name]}" for name in names if name in hints), "")


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
            listing = "".join(f"{file.relative_to(path)} {sha256(file)}\n" for file in files)
            digest = hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
            self._known[source.written] = {"sha256": digest, "stamps": stamps}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, self._known, indent=1)
        return str(self._known[source.written]["sha256"])
