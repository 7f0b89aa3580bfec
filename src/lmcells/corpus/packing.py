"""A corpus as one compressed file that travels.

What follows from the tokens (counts, occurrences) is left out and made again, and numbers are stored as byte
planes, which compress far better. The manifest's checksums are those of the unpacked files, so all is verified.
"""

import errno
import json
import lzma
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lmcells.corpus import layout
from lmcells.corpus.assemble import write_occurrences
from lmcells.corpus.corpus import Corpus
from lmcells.corpus.layout import ArrayWriter, map_array
from lmcells.errors import CorpusError, InputError
from lmcells.files import atomic_write

_BLOCK = 1 << 22  # numbers
_DERIVED = (layout.WORD_COUNTS, layout.WORD_OFFSETS, layout.OCCURRENCES)
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    KeyError,
    ValueError,
    NotImplementedError,
    RuntimeError,
)


def pack_corpus(corpus: Corpus, output: Path) -> int:
    """Write a corpus to one file and return its size in bytes."""
    if output.exists():
        raise InputError(f"{output} exists already. Choose another --output.")
    output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(output) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_LZMA) as archive:
        for name in (layout.MANIFEST, *corpus.manifest.files):
            if name in _DERIVED:
                continue
            with archive.open(name, "w", force_zip64=True) as entry:
                if name.endswith(".npy"):
                    for block in _blocks(map_array(corpus.folder / name)):
                        entry.write(_to_planes(block))
                else:
                    entry.write((corpus.folder / name).read_bytes())
    return output.stat().st_size


def unpack_corpus(packed: Path, output: Path) -> Corpus:
    """Write the corpus folder that was packed, and check every file of it."""
    if output.exists():
        raise InputError(f"{output} exists already. Choose another --output.")
    if not packed.is_file():
        raise CorpusError(f"{packed} does not exist. Make it with: lmcells pack CORPUS --output {packed}")
    work = output.with_name(f"{output.name}.building")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        manifest = _extract(packed, work)
        _derive(work, manifest)
        Corpus.open(work, verify=True)
    except (*_BROKEN, OSError) as error:
        if (
            isinstance(error, OSError) and error.errno != errno.EINVAL
        ):  # zipfile, asked to read before the start
            raise
        raise CorpusError(
            f"{packed} is damaged or truncated ({error.__class__.__name__}). Copy or pack it again."
        ) from None
    except CorpusError as error:
        raise CorpusError(f"{packed} is damaged: {error}") from None
    else:
        work.rename(output)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return Corpus.open(output)


def _extract(packed: Path, folder: Path) -> layout.Manifest:
    with zipfile.ZipFile(packed) as archive:
        manifest = layout.Manifest.from_dict(
            layout.FORMAT.parse_index(json.loads(archive.read(layout.MANIFEST)), source=packed)
        )
        for name in (layout.MANIFEST, *manifest.files):
            if Path(name).name != name:
                raise CorpusError("a file name leads out of the folder.")
            if name in _DERIVED:
                continue
            with archive.open(name) as entry:
                if not name.endswith(".npy"):
                    (folder / name).write_bytes(entry.read())
                    continue
                with ArrayWriter(folder / name, np.int32) as array:
                    while planes := entry.read(4 * _BLOCK):
                        array.append(_from_planes(planes))
    return manifest


def _derive(folder: Path, manifest: layout.Manifest) -> None:
    tokens = map_array(folder / layout.TOKENS)
    counts = np.zeros(manifest.sizes["n_words"], np.int64)
    for start in range(0, tokens.size, _BLOCK):
        counts += np.bincount(tokens[start : start + _BLOCK], minlength=counts.size)
    np.save(folder / layout.WORD_COUNTS, counts)
    np.save(folder / layout.WORD_OFFSETS, write_occurrences(folder / layout.OCCURRENCES, tokens, counts))


def _blocks(array: npt.NDArray[np.integer]) -> Iterator[npt.NDArray[np.int32]]:
    for start in range(0, array.size, _BLOCK):
        yield np.asarray(array[start : start + _BLOCK], np.int32)


def _to_planes(block: npt.NDArray[np.int32]) -> bytes:
    return np.ascontiguousarray(block.astype("<i4").view(np.uint8).reshape(-1, 4).T).tobytes()


def _from_planes(planes: bytes) -> npt.NDArray[np.int32]:
    return np.ascontiguousarray(np.frombuffer(planes, np.uint8).reshape(4, -1).T).view("<i4").ravel()
