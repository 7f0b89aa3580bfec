"""Prototypes of frequent words and phrases, in a corpus under the ids of a model, and their way through a folder."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from corpora import corpus_of
from expansion.clinic import clinic_corpus, random_network
from lmcells.corpus import Corpus
from lmcells.errors import ModelError
from lmcells.model import CellModel, Windows
from lmcells.pretrained import PretrainedModel, save_pretrained
from lmcells.pretrained import folder as layout
from lmcells.pretrained.subwords import TABLE
from lmcells.training import TrainingSettings
from lmcells.training.prototypes import (
    SEVERAL,
    ModelText,
    Prototypes,
    _spherical_means,
    build_prototypes,
    read_long_forms,
)
from training.small_runs import tiny_config, tiny_settings

SETTINGS = TrainingSettings(contrastive_max_words=3, contrastive_min_count=4, smoothing=0.0)

CPU = torch.device("cpu")
NOTES = [
    {"id": "t/0", "sections": [{"header": "A", "text": "gait zinc stairs gait"}]},
    {"id": "t/1", "sections": [{"header": "B", "text": "zinc copper"}, {"header": "A", "text": "stairs"}]},
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return clinic_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def model(corpus: Corpus) -> CellModel:
    return random_network(corpus, "lmc", phrase_dim=4, masks_span=True)


@pytest.fixture(scope="module")
def prototypes(model: CellModel, corpus: Corpus) -> Prototypes:
    return build_prototypes(model, corpus, settings=SETTINGS)


def test_text_of_an_uncounted_note_type_is_read_and_not_counted(tmp_path: Path) -> None:
    notes = [
        {"id": f"t/{n}", "category": kind, "sections": [{"header": "A", "text": text}]}
        for n, (kind, text) in enumerate(
            [("written", "zinc copper gait"), ("seen", "gait stairs copper")] * 3
        )
    ]
    corpus = corpus_of(tmp_path, notes, min_count=1)
    model = random_network(corpus, "lmc", phrase_dim=4, masks_span=True)
    counts = []
    for uncounted in ("", "written", "no such type"):
        settings = replace(SETTINGS, contrastive_min_count=2, uncounted=uncounted)
        found = build_prototypes(model, corpus, settings=settings)
        assert found is not None
        counts.append(dict(zip(found.phrases, found.counts.tolist(), strict=True)))
    assert counts[0].keys() == counts[1].keys()
    assert counts[0] == counts[2]
    assert [(of["gait"], of["stairs"], of["zinc copper"]) for of in counts[:2]] == [(6, 3, 3), (3, 3, 1)]


def test_frequent_words_and_phrases_have_prototypes(prototypes: Prototypes, corpus: Corpus) -> None:
    assert {"pt", "gait", "physical therapy", "prothrombin time"} <= set(prototypes.phrases)
    assert not any("<" in phrase for phrase in prototypes.phrases)
    counts = dict(zip(prototypes.phrases, prototypes.counts.tolist(), strict=True))
    assert counts["pt"] == int(corpus.word_counts[corpus.words.index("pt")])
    np.testing.assert_allclose(np.linalg.norm(prototypes.prototypes, axis=1), 1, rtol=1e-5)
    for begin, end in zip(prototypes.offsets[:-1], prototypes.offsets[1:], strict=True):
        assert prototypes.shares[begin:end].sum() == pytest.approx(1)


def test_a_frequent_phrase_has_several_prototypes_and_a_rare_one_has_one(prototypes: Prototypes) -> None:
    n_prototypes = np.diff(prototypes.offsets)
    assert (n_prototypes[prototypes.counts < SEVERAL[0]] == 1).all()
    assert (n_prototypes[prototypes.counts >= SEVERAL[0]] > 1).all()
    assert (n_prototypes <= 1 + len(SEVERAL)).all()


def test_there_are_never_more_prototypes_than_there_is_room_for(model: CellModel, corpus: Corpus) -> None:
    built = build_prototypes(model, corpus, settings=SETTINGS, max_prototypes=7)
    assert 0 < len(built.prototypes) <= 7
    assert built.counts.min() >= np.sort(np.asarray(corpus.word_counts))[-7]


def test_long_forms_alone_are_read_as_among_all_spans(tmp_path: Path) -> None:
    corpus = clinic_corpus(tmp_path, n_notes=70)  # enough for a second prototype
    model = random_network(corpus, "lmc", phrase_dim=4, masks_span=True)
    long_forms = [
        ("physical", "therapy"),
        ("gait",),
        ("prothrombin", "time"),
        ("therapy", "physical"),
        ("x",) * 9,
    ]
    among_all = build_prototypes(model, corpus, settings=SETTINGS, long_forms=long_forms)
    alone = read_long_forms(
        model,
        ModelText.of_corpus(corpus, config=model.config, settings=SETTINGS, device=CPU),
        long_forms=long_forms,
        masked_span_center=among_all.masked_span_center,
        phrase_center=among_all.phrase_center,
    )
    assert set(alone.phrases) == {"physical therapy", "gait", "prothrombin time"}
    for row, phrase in enumerate(alone.phrases):
        same = among_all.phrases.index(phrase)
        assert alone.counts[row] == among_all.counts[same]
        assert alone.offsets[row + 1] - alone.offsets[row] >= 2
        for name in ("prototypes", "shares"):
            mine, theirs = (
                getattr(built, name)[built.offsets[at] : built.offsets[at + 1]]
                for built, at in ((alone, row), (among_all, same))
            )
            np.testing.assert_allclose(mine, theirs, atol=1e-5)


def test_a_text_without_any_of_the_long_forms_has_no_prototypes(model: CellModel, corpus: Corpus) -> None:
    text = ModelText.of_corpus(corpus, config=model.config, settings=SETTINGS, device=CPU)
    zeros = np.zeros(model.config.cell_dim, np.float32)
    for long_forms in ([("never", "seen")], []):
        built = read_long_forms(
            model, text, long_forms=long_forms, masked_span_center=zeros, phrase_center=zeros, min_count=1
        )
        assert built.phrases == []
        assert built.offsets.tolist() == [0]
        assert built.prototypes.shape == (0, model.config.cell_dim)


def test_k_means_finds_two_clusters() -> None:
    generator = torch.Generator().manual_seed(0)
    ways = functional.normalize(torch.randn(2, 16, generator=generator), dim=-1)
    points = torch.cat([ways[0].expand(40, -1), ways[1].expand(24, -1)])
    points = functional.normalize(points + 0.02 * torch.randn(64, 16, generator=generator), dim=-1)
    means, shares = _spherical_means(points.unsqueeze(0), 2)
    assert (means[0] @ ways.T).amax(dim=0).min() > 0.98
    assert sorted((shares[0] * 64).round().tolist()) == [24, 40]


def test_a_store_survives_the_way_through_a_folder(
    model: CellModel, prototypes: Prototypes, corpus: Corpus, tmp_path: Path
) -> None:
    save_pretrained(model, tmp_path / "model", corpus=corpus, prototypes=prototypes)
    store = PretrainedModel.from_pretrained(tmp_path / "model").phrase_store
    assert store is not None
    row = prototypes.phrases.index("physical therapy")
    found = store.find(("physical", "therapy"))
    assert found is not None
    assert found.count == prototypes.counts[row]
    begin, end = prototypes.offsets[row : row + 2]
    assert ((found.prototypes * prototypes.prototypes[begin:end]).sum(axis=1) > 0.97).all()  # four bits
    np.testing.assert_allclose(found.shares, prototypes.shares[begin:end], atol=0.01)
    np.testing.assert_array_equal(store.masked_span_center, prototypes.masked_span_center)
    assert store.find(("never", "seen")) is None


def test_a_damaged_store_is_refused_by_name(
    model: CellModel, prototypes: Prototypes, corpus: Corpus, tmp_path: Path
) -> None:
    save_pretrained(model, tmp_path / "model", corpus=corpus, prototypes=prototypes)
    phrases = tmp_path / "model" / layout.PHRASES
    phrases.write_text(phrases.read_text().replace('"pt",', "", 1))
    with pytest.raises(ModelError, match=r"phrases\.json is damaged"):
        PretrainedModel.from_pretrained(tmp_path / "model")


def test_the_phrase_network_is_the_same_in_numpy(corpus: Corpus, tmp_path: Path) -> None:
    network = random_network(corpus, "lmc", phrase_dim=4)
    save_pretrained(network, tmp_path / "model", corpus=corpus)
    saved = PretrainedModel.from_pretrained(tmp_path / "model")
    assert saved.phrase_network is not None
    words = torch.tensor([[1, 2, 3], [4, 5, 0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    with torch.no_grad():
        expected = network.phrase_means(words, mask).numpy()
    found = saved.phrase_network([saved.arrays[TABLE][ids] for ids in ([1, 2, 3], [4, 5])])
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.fixture
def other(tmp_path: Path) -> Corpus:
    """A corpus that a model was not trained on."""
    return corpus_of(tmp_path, NOTES)


def words_of(text: ModelText) -> list[str]:
    return [text.words[word] for word in text.chunk.tokens.tolist()]


def test_the_training_corpus_has_the_ids_of_the_model(other: Corpus) -> None:
    text = ModelText.of_corpus(
        other, config=tiny_config(other), settings=tiny_settings(subsampling=1e-6), device=CPU
    )
    assert text.chunk.tokens.tolist() == other.tokens.tolist()  # nothing is subsampled
    assert text.chunk.segments.tolist() == other.token_segment.tolist()
    assert text.segment_metadata is not None
    assert text.segment_metadata.tolist() == other.segment_metadata("section").tolist()


def test_words_go_by_their_spelling_and_out_of_vocabulary_words_are_dropped(other: Corpus) -> None:
    config = tiny_config(other, n_words=3, n_metadata=8)
    names = other.metadata_names("section")
    ids = {"vocabulary": ["stairs", "pain", "gait"], "metadata": [{"A": 7}.get(name, -1) for name in names]}
    text = ModelText.of_corpus(other, config=config, settings=tiny_settings(), device=CPU, **ids)
    assert words_of(text) == ["gait", "stairs", "gait", "stairs"]
    assert text.chunk.tokens.tolist() == [2, 0, 2, 0]
    assert text.segment_metadata is not None
    of_tokens = text.segment_metadata[text.chunk.segments]
    assert of_tokens.tolist() == [7, 7, 7, 7]
    assert sorted(text.segment_metadata.tolist()) == [-1, 7, 7]


def test_a_kept_word_can_be_found_and_is_never_read(other: Corpus) -> None:
    config = tiny_config(other, n_words=2, n_metadata=8, masks_span=True)
    ids = {"vocabulary": ["stairs", "gait"], "metadata": [0] * other.n_metadata("section")}
    kept = {"zinc", "gait", "absent"}
    text = ModelText.of_corpus(other, config=config, settings=tiny_settings(), device=CPU, kept=kept, **ids)
    assert words_of(text) == ["gait", "zinc", "stairs", "gait", "zinc", "stairs"]
    zinc = text.words.index("zinc")
    assert zinc > config.mask_id
    given = Windows(
        center=torch.tensor([zinc]),
        context=torch.tensor([[0, zinc, config.mask_id]]),
        context_mask=torch.tensor([[True, True, True]]),
    )
    windows = text.readable(given)
    assert windows.context_mask.tolist() == [[True, False, True]]
    assert int(windows.context.max()) < config.n_read
    assert int(windows.center.max()) < config.n_read


def test_without_metadata_there_is_none(other: Corpus) -> None:
    text = ModelText.of_corpus(other, config=tiny_config(other, "bsg"), settings=tiny_settings(), device=CPU)
    assert text.segment_metadata is None
