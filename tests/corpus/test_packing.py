"""A packed corpus: the same when unpacked, refused when damaged."""

import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpora import corpus_of
from lmcells.corpus import Corpus
from lmcells.corpus.packing import pack_corpus, unpack_corpus
from lmcells.errors import CorpusError, InputError


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    notes = [f"HPI: chest pain é {i % 7} mg\n\nPLAN: rest w{i} w{i % 5}" for i in range(300)]
    return corpus_of(tmp_path_factory.mktemp("corpus"), notes)


@pytest.fixture(scope="module")
def packed(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("packed") / "corpus.packed"
    assert pack_corpus(corpus, path) == path.stat().st_size
    return path


def test_unpacking_gives_the_same_files(corpus: Corpus, packed: Path, tmp_path: Path) -> None:
    unpacked = unpack_corpus(packed, tmp_path / "corpus")
    for path in corpus.folder.iterdir():
        assert (unpacked.folder / path.name).read_bytes() == path.read_bytes(), path.name
    assert unpacked.manifest == corpus.manifest


@given(data=st.data())
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_or_truncated_file_is_refused_by_name(
    packed: Path, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray(packed.read_bytes())
    where = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:where]
    else:
        content[where] ^= data.draw(st.integers(1, 255))
    broken, output = tmp_path / "broken.packed", tmp_path / "corpus"
    broken.write_bytes(content)
    try:
        unpacked = unpack_corpus(broken, output)
    except CorpusError as error:
        assert "broken.packed" in str(error)  # noqa: PT017 - some bytes zip does not use
        assert not output.exists()
    else:  # then nothing at all may differ
        assert unpacked.manifest == Corpus.open(output, verify=True).manifest
        for path in output.iterdir():
            path.unlink()
        output.rmdir()
    assert [path.name for path in tmp_path.iterdir()] == ["broken.packed"]


@pytest.mark.parametrize("change", [{"n_tokens": 10**15}, {"n_words": 10**13}, {"n_segments": 10**15}])
def test_sizes_that_its_content_does_not_have_take_no_memory(
    packed: Path, tmp_path: Path, change: dict[str, int]
) -> None:
    forged = tmp_path / "forged.packed"
    with zipfile.ZipFile(packed) as archive, zipfile.ZipFile(forged, "w", zipfile.ZIP_LZMA) as copy:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                content = json.dumps(manifest | {"sizes": manifest["sizes"] | change}).encode()
            copy.writestr(name, content)
    with pytest.raises(CorpusError, match=r"forged\.packed is damaged"):
        unpack_corpus(forged, tmp_path / "corpus")
    assert [path.name for path in tmp_path.iterdir()] == ["forged.packed"]


def test_nothing_is_overwritten(corpus: Corpus, packed: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="already exists"):
        unpack_corpus(packed, corpus.folder)
    with pytest.raises(CorpusError, match=r"nowhere\.packed does not exist"):
        unpack_corpus(tmp_path / "nowhere.packed", tmp_path / "corpus")
