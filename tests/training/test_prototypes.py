"""What occurrences teach: prototypes of frequent words and phrases, and their way into a model folder and back."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from expansion.clinic import clinic_corpus, random_network
from lmcells.corpus import Corpus
from lmcells.errors import ModelError
from lmcells.pretrained import PretrainedModel, save_pretrained
from lmcells.pretrained import folder as layout
from lmcells.training import TrainingSettings
from lmcells.training.prototypes import (
    SEVERAL,
    ModelText,
    Prototypes,
    _spherical_means,
    build_prototypes,
    read_long_forms,
)

SETTINGS = TrainingSettings(contrastive_max_words=3, contrastive_min_count=4, smoothing=0.0)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    torch.set_num_threads(1)
    return clinic_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def prototypes(corpus: Corpus) -> Prototypes:
    model = random_network(corpus, "lmc", phrase_dim=4, masks_span=True)
    return build_prototypes(model, corpus, settings=SETTINGS)


def test_frequent_words_and_phrases_have_directions(prototypes: Prototypes, corpus: Corpus) -> None:
    assert {"pt", "gait", "physical therapy", "prothrombin time"} <= set(prototypes.phrases)
    assert not any("<" in phrase for phrase in prototypes.phrases)
    counts = dict(zip(prototypes.phrases, prototypes.counts.tolist(), strict=True))
    assert counts["pt"] == int(corpus.word_counts[corpus.words.index("pt")])
    np.testing.assert_allclose(np.linalg.norm(prototypes.prototypes, axis=1), 1, rtol=1e-5)
    for begin, end in zip(prototypes.offsets[:-1], prototypes.offsets[1:], strict=True):
        assert prototypes.shares[begin:end].sum() == pytest.approx(1)


def test_a_rare_phrase_has_one_direction_the_average_of_its_gaps(corpus: Corpus) -> None:
    model = random_network(corpus, "lmc", phrase_dim=4, masks_span=True)
    built = build_prototypes(model, corpus, settings=SETTINGS)
    n_prototypes = np.diff(built.offsets)
    assert (n_prototypes[built.counts < SEVERAL[0]] == 1).all()
    assert (n_prototypes[built.counts >= SEVERAL[0]] > 1).all()
    assert (n_prototypes <= 1 + len(SEVERAL)).all()


def test_there_are_never_more_directions_than_there_is_room_for(corpus: Corpus) -> None:
    model = random_network(corpus, "lmc", phrase_dim=4, masks_span=True)
    built = build_prototypes(model, corpus, settings=SETTINGS, max_prototypes=7)
    assert 0 < len(built.prototypes) <= 7
    assert built.counts.min() >= np.sort(np.asarray(corpus.word_counts))[-7]


def test_long_forms_alone_are_read_as_among_all_units(tmp_path: Path) -> None:
    corpus = clinic_corpus(tmp_path, n_notes=70)  # enough for a second direction
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
        ModelText.of_corpus(corpus, config=model.config, settings=SETTINGS, device=torch.device("cpu")),
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


def test_a_text_without_any_of_the_long_forms_has_no_prototypes(corpus: Corpus) -> None:
    model = random_network(corpus, "lmc", phrase_dim=4, masks_span=True)
    text = ModelText.of_corpus(corpus, config=model.config, settings=SETTINGS, device=torch.device("cpu"))
    zeros = np.zeros(model.config.cell_dim, np.float32)
    for long_forms in ([("never", "seen")], []):
        built = read_long_forms(
            model, text, long_forms=long_forms, masked_span_center=zeros, phrase_center=zeros, min_count=1
        )
        assert built.phrases == []
        assert built.offsets.tolist() == [0]
        assert built.prototypes.shape == (0, model.config.cell_dim)


def test_k_means_finds_two_bundles_of_directions() -> None:
    generator = torch.Generator().manual_seed(0)
    ways = functional.normalize(torch.randn(2, 16, generator=generator), dim=-1)
    points = torch.cat([ways[0].expand(40, -1), ways[1].expand(24, -1)])
    points = functional.normalize(points + 0.02 * torch.randn(64, 16, generator=generator), dim=-1)
    means, shares = _spherical_means(points.unsqueeze(0), 2)
    assert (means[0] @ ways.T).amax(dim=0).min() > 0.98
    assert sorted((shares[0] * 64).round().tolist()) == [24, 40]


def test_a_store_survives_the_way_through_a_folder(
    prototypes: Prototypes, corpus: Corpus, tmp_path: Path
) -> None:
    network = random_network(corpus, "lmc", phrase_dim=4, masks_span=True)
    save_pretrained(network, tmp_path / "model", corpus=corpus, prototypes=prototypes)
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


def test_a_damaged_store_is_refused_by_name(prototypes: Prototypes, corpus: Corpus, tmp_path: Path) -> None:
    network = random_network(corpus, "lmc", phrase_dim=4, masks_span=True)
    save_pretrained(network, tmp_path / "model", corpus=corpus, prototypes=prototypes)
    phrases = tmp_path / "model" / layout.PHRASES
    phrases.write_text(phrases.read_text().replace('"pt",', "", 1))
    with pytest.raises(ModelError, match=r"phrases\.json is damaged"):
        PretrainedModel.from_pretrained(tmp_path / "model")


def test_the_phrase_network_is_the_same_in_numpy(corpus: Corpus, tmp_path: Path) -> None:
    network = random_network(corpus, "lmc", phrase_dim=4)
    save_pretrained(network, tmp_path / "model", corpus=corpus)
    in_numpy = PretrainedModel.from_pretrained(tmp_path / "model").phrase_network
    assert in_numpy is not None
    words = torch.tensor([[1, 2, 3], [4, 5, 0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    with torch.no_grad():
        expected = network.phrase_means(words, mask).numpy()
    found = in_numpy([np.array([1, 2, 3]), np.array([4, 5])])
    np.testing.assert_allclose(found, expected, atol=1e-5)
