"""A corpus on disk: what its arrays say, and that damage is noticed."""

import json
import shutil
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpora import corpus_of
from lmcells.corpus import Corpus, count_words_by_metadata, occurrence_metadata, statistics, subsample
from lmcells.corpus.corpus import FORMAT
from lmcells.corpus.statistics import WordArrays, keep_probability
from lmcells.errors import ConfigError, CorpusError
from lmcells.files import sha256

NOTES = [
    f"HPI: chest pain {'fever ' * (i % 3)}cough\n\nPLAN: rest pain {'ice' if i % 2 else 'heat'}"
    for i in range(20)
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return corpus_of(tmp_path_factory.mktemp("corpus"), NOTES)


@pytest.fixture
def copy(corpus: Corpus, tmp_path: Path) -> Path:
    return Path(shutil.copytree(corpus.folder, tmp_path / "copy"))


def test_occurrences_are_the_places_of_each_word_in_order(corpus: Corpus) -> None:
    for word in range(len(corpus.words)):
        assert corpus.occurrences_of(word).tolist() == np.flatnonzero(corpus.tokens == word).tolist()
        assert corpus.word_counts[word] == corpus.occurrences_of(word).size


@pytest.mark.parametrize(
    ("kind", "block"), [("section", 1), ("document", 1), ("document", 30), ("document", 1 << 22)]
)
def test_word_and_metadata_counts_are_those_of_the_tokens(
    corpus: Corpus, kind: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "_MAX_OCCURRENCES", block)
    counts = count_words_by_metadata(corpus, kind)
    of_token = corpus.segment_metadata(kind)[corpus.token_segment]
    for word in range(len(corpus.words)):
        expected = np.bincount(of_token[corpus.tokens == word], minlength=counts.n_metadata) + 1.0
        np.testing.assert_allclose(counts.metadata_given_word(word, add=1.0), expected / expected.sum())
    for metadata in range(counts.n_metadata):
        expected = np.bincount(corpus.tokens[of_token == metadata], minlength=len(corpus.words)) + 0.5
        np.testing.assert_allclose(counts.word_given_metadata(metadata, add=0.5), expected / expected.sum())


@pytest.mark.parametrize("n_metadata", [2, 1000])  # most pairs of a word and a value occur, or hardly any
def test_a_block_of_words_has_the_counts_of_each(n_metadata: int) -> None:
    draw = np.random.default_rng(0)
    offsets = np.append(0, np.cumsum(draw.integers(1, 9, 50)))
    metadata = draw.integers(n_metadata, size=offsets[-1])
    block = WordArrays(offsets, metadata.__getitem__, n_metadata).gather((3, 50))
    expected = [
        np.unique(metadata[start:end], return_counts=True) for start, end in pairwise(offsets[3:].tolist())
    ]
    assert block.n_metadata.tolist() == [values.size for values, _ in expected]
    assert block.metadata.tolist() == np.concatenate([values for values, _ in expected]).tolist()
    assert block.counts.tolist() == np.concatenate([counts for _, counts in expected]).tolist()
    assert block.occurrences.tolist() == metadata[offsets[3] :].tolist()


def test_sections_of_occurrences_are_those_of_the_tokens(corpus: Corpus) -> None:
    expected = [
        corpus.segment_metadata("section")[corpus.token_segment[corpus.occurrences_of(word)]].tolist()
        for word in range(len(corpus.words))
    ]
    assert occurrence_metadata(corpus).tolist() == list(chain.from_iterable(expected))


@pytest.mark.parametrize(("max_per_word", "entries", "block"), [(3, 1 << 22, 1 << 22), (7, 16, 8), (5, 4, 1)])
def test_of_a_frequent_word_one_occurrence_of_each_stretch_is_kept(
    corpus: Corpus, max_per_word: int, entries: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "_ENTRIES", entries)
    monkeypatch.setattr(statistics, "_MAX_OCCURRENCES", block)
    monkeypatch.setattr(statistics, "MAX_PER_WORD", max_per_word)
    found = occurrence_metadata(corpus, "document")
    expected: list[int] = []
    for word in range(len(corpus.words)):
        documents = corpus.segment_metadata("document")[corpus.token_segment[corpus.occurrences_of(word)]]
        for rank in range(min(documents.size, max_per_word)):
            first = len(expected) // entries * entries
            chances = np.random.Generator(np.random.Philox(key=[0, first])).random(
                entries if entries < 99 else 999
            )
            stretch = documents.size / min(documents.size, max_per_word)
            expected.append(int(documents[int((rank + chances[len(expected) - first]) * stretch)]))
    assert found.tolist() == expected


def test_probabilities_of_what_was_never_seen_are_uniform(corpus: Corpus) -> None:
    counts = count_words_by_metadata(corpus, "section")
    unseen = corpus.metadata_names("section").index("<no section>")
    np.testing.assert_allclose(counts.word_given_metadata(unseen, add=0), 1 / len(corpus.words))


def kept(
    corpus: Corpus, *ranges: tuple[int, int], threshold: float = 0.01, seed: int = 7
) -> list[tuple[int, int]]:
    """The tokens that stay, with their segments."""
    pieces = subsample(corpus, threshold=threshold, seed=seed, ranges=ranges or ((0, corpus.tokens.size),))
    return [pair for piece in pieces for pair in zip(*(array.tolist() for array in piece), strict=True)]


@pytest.mark.parametrize("block", [7, 1 << 20])
def test_subsampling_depends_on_the_seed_and_the_place_alone(
    corpus: Corpus, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "_BLOCK", block)
    whole, n_tokens = kept(corpus), corpus.tokens.size
    middle = n_tokens // 2
    assert whole == kept(corpus, (0, middle)) + kept(corpus, (middle, n_tokens))
    assert whole == kept(corpus, (0, 5), (5, 6), (6, n_tokens))
    assert kept(corpus, (0, 9), (20, 31)) == kept(corpus, (0, 9)) + kept(corpus, (20, 31))
    assert whole != kept(corpus, seed=8)
    assert 0 < len(whole) < n_tokens


def test_a_threshold_of_zero_keeps_every_token(corpus: Corpus) -> None:
    everything = zip(corpus.tokens.tolist(), corpus.token_segment.tolist(), strict=True)
    assert kept(corpus, threshold=0) == list(everything)


def test_frequent_words_stay_as_often_as_the_word2vec_formula_says() -> None:
    counts = np.array([500_000, 1_000, 10])
    share = counts[0] / counts.sum()
    probability = keep_probability(counts, threshold=1e-3)
    assert probability[0] == pytest.approx((1e-3 / share) ** 0.5 + 1e-3 / share)
    assert probability[2] == 1
    with pytest.raises(ConfigError, match="-1"):
        keep_probability(counts, threshold=-1)


def test_an_unknown_kind_of_metadata_is_refused_with_the_nearest(corpus: Corpus) -> None:
    with pytest.raises(CorpusError, match=r"section, category, document.* Nearest: 'section'"):
        corpus.segment_metadata("sections")


@pytest.mark.parametrize("name", ["tokens.npy", "vocabulary.json", "occurrences.npy", "metadata.section.npy"])
def test_damage_is_noticed(copy: Path, name: str) -> None:
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    Corpus.open(copy)  # as long as before: only reading it all can tell
    with pytest.raises(CorpusError, match=name):
        Corpus.open(copy, verify=True)
    (copy / name).write_bytes(content[:-1])
    with pytest.raises(CorpusError, match=f"{name} is damaged"):
        Corpus.open(copy)
    (copy / name).unlink()
    with pytest.raises(CorpusError, match=f"{name} is missing"):
        Corpus.open(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(version=99), r"format 99, made by lmcells .*Upgrade"),
        (lambda m: m.update(format="lmcells-model"), "of another format"),
        (lambda m: m.pop("sizes"), "it lacks sizes"),
        (lambda m: m.update(files=[]), "files is not a mapping"),
        (lambda m: m["files"].pop("tokens.npy"), r"files lacks tokens\.npy"),
        (lambda m: m["files"]["tokens.npy"].update(bytes="9"), r"no size and checksum of 'tokens\.npy'"),
        (
            lambda m: m["files"].update({"../x": {"bytes": 0, "sha256": ""}}),
            r"no size and checksum of '\.\./x'",
        ),
        (lambda m: m["files"]["tokens.npy"].update(sha256=1.5), r"no size and checksum of 'tokens\.npy'"),
        (lambda m: m["sizes"].update(n_words="7"), "sizes and metadata are not whole numbers"),
        (lambda m: m["sizes"].pop("n_tokens"), "sizes and metadata are not whole numbers"),
        (lambda m: m["metadata"].update(section=-1), "sizes and metadata are not whole numbers"),
        (lambda m: m["metadata"].update({"../x": 1}), "metadata are not those of its files"),
        (lambda m: m["settings"].pop("stop_words"), "settings lack stop_words"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused_with_the_reason(
    copy: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    change(manifest)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CorpusError, match=message) as refused:
        Corpus.open(copy)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", ["{", "[]", '{"format": "lmcells-corpus", "version": 1}'])
def test_a_folder_without_a_whole_manifest_is_refused(copy: Path, content: str) -> None:
    (copy / "manifest.json").write_text(content)
    with pytest.raises(CorpusError, match="copy"):
        Corpus.open(copy)
    (copy / "manifest.json").unlink()
    with pytest.raises(CorpusError, match=r"no manifest\.json"):
        Corpus.open(copy)


def read_all(folder: Path) -> None:
    corpus = Corpus.open(folder)
    assert corpus.words
    assert corpus.metadata_names("section")
    assert corpus.segment_metadata("section").size
    for word in range(len(corpus.words)):
        corpus.occurrences_of(word)
    count_words_by_metadata(corpus)
    count_words_by_metadata(corpus, "document")
    occurrence_metadata(corpus)
    list(subsample(corpus, threshold=0, seed=0, ranges=[(0, corpus.tokens.size)]))


def list_of_dicts(values: Any) -> Any:
    return np.array([{"value": each} for each in values.tolist()], dtype=object)


@pytest.mark.parametrize(
    "change",
    [
        lambda values: values[:-1],
        lambda values: values.reshape(-1, 1),
        lambda values: values[0],
        lambda values: values.astype(complex),
        lambda values: values.astype(str),
        list_of_dicts,
    ],
    ids=["short", "table", "number", "complex", "text", "pickled"],
)
@pytest.mark.parametrize("name", [name for name in FORMAT.required if name.endswith(".npy")])
def test_an_array_of_another_kind_is_refused(copy: Path, name: str, change: Callable[[Any], Any]) -> None:
    np.save(copy / name, change(np.load(copy / name)), allow_pickle=True)
    forge(copy, name)
    with pytest.raises(CorpusError, match=f"{name} is damaged") as refused:
        read_all(copy)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("value", [-1, 2**31 - 1])
@pytest.mark.parametrize(
    "name", ["tokens.npy", "token_segment.npy", "occurrences.npy", "metadata.section.npy"]
)
def test_an_id_that_nothing_has_is_refused(copy: Path, name: str, value: int) -> None:
    ids = np.load(copy / name)
    ids[ids.size // 2] = value
    np.save(copy / name, ids)
    with pytest.raises(CorpusError, match=f"{name} is damaged"):
        read_all(copy)


@pytest.mark.parametrize("content", ["", "{}", "[1]", "[[]]", '["a"]', "[" * 100_000, '"\\ud800"'])
@pytest.mark.parametrize("name", ["vocabulary.json", "metadata.section.json"])
def test_names_that_are_none_are_refused(copy: Path, name: str, content: str) -> None:
    (copy / name).write_text(content)
    forge(copy, name)
    with pytest.raises(CorpusError, match=f"{name} is damaged") as refused:
        read_all(copy)
    assert "\n" not in str(refused.value)


def test_the_header_of_an_array_that_is_no_header_is_refused(copy: Path) -> None:
    content = bytearray((copy / "tokens.npy").read_bytes())
    content[8] = 0x15  # its length
    (copy / "tokens.npy").write_bytes(content)
    with pytest.raises(CorpusError, match=r"tokens\.npy is damaged"):
        read_all(copy)


def forge(folder: Path, name: str) -> None:
    """Write a file's size and checksum into the manifest, so that only its content is wrong."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": (folder / name).stat().st_size, "sha256": sha256(folder / name)}
    (folder / "manifest.json").write_text(json.dumps(manifest))
