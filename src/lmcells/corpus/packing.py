"""Packing a corpus into one compressed file.

What can be computed from the tokens (counts, occurrences) is left out, and numbers are stored as byte planes, which
compress far better. The manifest's checksums are those of the unpacked files, so unpacking verifies everything.
"""

import errno
import json
import lzma
import shutil
import zipfile
import zlib
from pathlib import Path

import numpy as np

from lmcells.corpus import corpus as files
from lmcells.corpus.corpus import FORMAT, Corpus, Manifest, create_array, map_array
from lmcells.corpus.statistics import create_occurrences, place_occurrences, write_section_statistics
from lmcells.errors import CorpusError
from lmcells.files import atomic_folder, atomic_write

_BLOCK = 1 << 22  # numbers
_PER_TOKEN = (files.TOKENS, files.TOKEN_SEGMENT)  # other arrays have one number per segment
_DERIVED = (
    *(files.WORD_COUNTS, files.WORD_OFFSETS, files.OCCURRENCES),
    *(files.OCCURRENCE_SECTIONS, *files.SECTION_COUNTS),
)
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    *(KeyError, ValueError, NotImplementedError, RuntimeError),
)


def pack_corpus(corpus: Corpus, output: Path) -> int:
    """Write a corpus to one file and return its size in bytes."""
    output.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(output) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_LZMA) as archive:
        for name in (files.MANIFEST, *corpus.manifest.files):
            if name in _DERIVED:
                continue
            with archive.open(name, "w", force_zip64=True) as entry:
                if not name.endswith(".npy"):
                    entry.write((corpus.folder / name).read_bytes())
                    continue
                array = map_array(corpus.folder / name)
                for start in range(0, array.size, _BLOCK):
                    planes = array[start : start + _BLOCK].astype("<i4").view(np.uint8).reshape(-1, 4).T
                    entry.write(np.ascontiguousarray(planes).tobytes())
    return output.stat().st_size


def unpack_corpus(packed: Path, output: Path, *, overwrite: bool = False) -> Corpus:
    """Unpack a corpus folder, and verify every file."""
    FORMAT.require_free(output, overwrite=overwrite)
    if not packed.is_file():
        raise CorpusError(f"{packed} does not exist. Make it with: lmcells pack CORPUS --output {packed}")
    try:
        with atomic_folder(output, overwrite=True) as work:
            _extract(packed, work)
            Corpus.open(work, verify=True)
    except (*_BROKEN, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:  # zipfile seeking before the start
            raise
        raise CorpusError(f"{packed} is damaged or truncated. Copy or pack it again.") from None
    except CorpusError as error:
        raise CorpusError(f"{packed} is damaged: {error}") from None
    return Corpus.open(output)


def _extract(packed: Path, folder: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        saved = FORMAT.parse_index(json.loads(archive.read(files.MANIFEST)), source=packed)
        manifest = Manifest.from_dict(saved, source=packed)
        for name in (files.MANIFEST, *manifest.files):  # plain file names: `parse_index` has checked them
            if name in _DERIVED:
                continue
            with archive.open(name) as entry:
                if not name.endswith(".npy"):
                    with (folder / name).open("wb") as copy:
                        shutil.copyfileobj(entry, copy)
                    continue
                size = manifest.sizes["n_tokens" if name in _PER_TOKEN else "n_segments"]
                if archive.getinfo(name).file_size != 4 * size:
                    raise ValueError  # before so much is allocated
                array, n_read = create_array(folder / name, size), 0
                while planes := entry.read(4 * _BLOCK):
                    numbers = np.ascontiguousarray(np.frombuffer(planes, np.uint8).reshape(4, -1).T)
                    array[n_read : n_read + len(numbers)] = numbers.view("<i4")[:, 0]
                    n_read += len(numbers)
    corpus = Corpus(folder, manifest)
    counts = np.zeros(len(corpus.words), np.int64)
    blocks = [slice(start, start + _BLOCK) for start in range(0, corpus.tokens.size, _BLOCK)]
    for block in blocks:
        counts += np.bincount(corpus.tokens[block], minlength=counts.size)
    np.save(folder / files.WORD_COUNTS, counts)
    cursor = create_occurrences(folder, counts)[:-1].copy()
    place_occurrences(folder, ((block.start, corpus.tokens[block]) for block in blocks), cursor=cursor)
    write_section_statistics(corpus)
