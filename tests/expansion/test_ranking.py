"""The paper's ranking, against a loop over examples, long forms and sections with the model in torch."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from expansion.clinic import (
    CLOTTING,
    INVENTORY,
    THERAPY,
    UNHEARD,
    WORDS_OF,
    clinic_corpus,
    mention,
    random_model,
    random_network,
)
from lmcells.corpus import Corpus
from lmcells.corpus.sections import NO_SECTION
from lmcells.errors import UnknownShortForm
from lmcells.expansion.long_forms import long_form_words, words_section_weights
from lmcells.expansion.ranking import CellRanker
from lmcells.expansion.windows import Mention, SectionIds, WindowReader
from lmcells.model import Windows
from lmcells.model.prior import ModelNetwork
from lmcells.pretrained import PretrainedModel, save_pretrained
from lmcells.training import TrainingSettings, train

KINDS = pytest.mark.parametrize("kind", ["lmc", "bsg", "mbsge"])
TEXTS = ("gait with PT on stairs", "warfarin, bleeding: PT in seconds", "PT", "nothing known around PT here")
MENTIONS = [mention(text, section=section) for text in TEXTS for section in ("PLAN", "labs", "new", None)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    torch.set_num_threads(1)
    return clinic_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def models(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, PretrainedModel]:
    folder = tmp_path_factory.mktemp("models")
    return {kind: random_model(folder / kind, corpus, kind) for kind in ("lmc", "bsg", "mbsge")}


def slow_divergence(model: PretrainedModel, one: Mention, words: list[int]) -> float:
    """KL(q || p) from the formula; for the LMC summed over beta(section | long form)."""
    network = model.to_torch()
    windows = WindowReader(model.word_ids, radius=model.sizes.window)([one])
    with torch.no_grad():
        q = network.posterior(
            Windows(
                center=torch.from_numpy(windows.center),
                context=torch.from_numpy(windows.context),
                context_mask=torch.from_numpy(windows.context_mask),
                metadata=torch.tensor([SectionIds(model)[one.section]]),
                center_mask=torch.from_numpy(windows.center_mask),
            )
        ).cell
        mean_q, variance_q = q.mean[0].tolist(), float(q.log_variance[0].exp())
        prior = network.prior
        if isinstance(prior, ModelNetwork):
            vector = torch.stack([prior.words.weight[word] for word in words]).mean(dim=0)
            each = [
                prior.of_vectors(vector, torch.tensor(section))
                for section in range(network.config.n_metadata)
            ]
            beta = words_section_weights(model)(THERAPY, words).tolist()
        else:
            each = [prior(torch.tensor(words))]
            each[0] = type(each[0])(each[0].mean.mean(dim=0), each[0].log_variance.mean(dim=0))
            beta = [1.0]
    total = 0.0
    for weight, p in zip(beta, each, strict=True):
        variance_p = float(p.log_variance.exp())
        for mu_q, mu_p in zip(mean_q, p.mean.tolist(), strict=True):
            ratio = variance_q / variance_p
            total += weight * 0.5 * (ratio + (mu_q - mu_p) ** 2 / variance_p - 1 - math.log(ratio))
    return total


@KINDS
def test_scores_are_the_papers_divergences(models: dict[str, PretrainedModel], kind: str) -> None:
    model = models[kind]
    ranker = CellRanker(model, INVENTORY)
    for one, scores in zip(MENTIONS, ranker.scores(MENTIONS), strict=True):
        expected = [
            -slow_divergence(model, one, long_form_words(sense, model)) for sense in INVENTORY.senses("PT")
        ]
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


@KINDS
@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(len(MENTIONS))))
def test_a_score_does_not_depend_on_the_other_mentions(
    models: dict[str, PretrainedModel], kind: str, order: list[int]
) -> None:
    ranker = CellRanker(models[kind], INVENTORY)
    expected = ranker.scores(MENTIONS)
    for index, scores in zip(order, ranker.scores([MENTIONS[index] for index in order]), strict=True):
        np.testing.assert_allclose(scores, expected[index], rtol=1e-4, atol=1e-4)


def test_mentions_of_several_short_forms_keep_their_places(models: dict[str, PretrainedModel]) -> None:
    ranker = CellRanker(models["lmc"], INVENTORY)
    mixed = [MENTIONS[0], mention("valve MS gait", "MS"), MENTIONS[1]]
    alone = [ranker.scores([one])[0] for one in mixed]
    for found, expected in zip(ranker.scores(mixed), alone, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_more_mentions_than_a_batch_are_all_scored(
    models: dict[str, PretrainedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = CellRanker(models["lmc"], INVENTORY)
    expected = ranker.scores(MENTIONS)
    monkeypatch.setattr("lmcells.expansion.ranking._BATCH", 3)
    np.testing.assert_allclose(ranker.scores(MENTIONS), expected, rtol=1e-4)


def test_a_long_form_without_a_known_word_has_the_score_minus_infinity(
    models: dict[str, PretrainedModel],
) -> None:
    scores = CellRanker(models["lmc"], INVENTORY.add(UNHEARD)).scores(MENTIONS[:1])[0]
    assert np.isfinite(scores).tolist() == [True, True, False]
    assert scores[2] == -np.inf


def test_sections_are_found_by_name_and_alias_and_fall_back_to_none(
    models: dict[str, PretrainedModel],
) -> None:
    model = models["lmc"]
    sections = SectionIds(model)
    assert sections["plan"] == model.section_ids["PLAN"]
    assert sections["never heard of"] == sections[None] == model.section_ids[NO_SECTION]


def test_no_mentions_have_no_scores(models: dict[str, PretrainedModel]) -> None:
    assert CellRanker(models["lmc"], INVENTORY).scores([]) == []


def test_a_short_form_that_is_not_in_the_inventory_is_an_error(models: dict[str, PretrainedModel]) -> None:
    with pytest.raises(UnknownShortForm, match="'XY' is not in the inventory"):
        CellRanker(models["lmc"], INVENTORY).scores([mention("an XY here", "XY")])


@KINDS
def test_planted_senses_are_told_apart(tmp_path: Path, kind: str) -> None:
    torch.set_num_threads(1)
    corpus = clinic_corpus(tmp_path, n_notes=150)
    config = random_network(
        corpus, kind, window=6, cell_dim=10, embedding_dim=10, hidden_dim=8, dropout=0.0
    ).config
    result = train(
        corpus,
        model_config=config,
        settings=TrainingSettings(
            epochs=6, batch_size=256, learning_rate=5e-3, subsampling=0.0, smoothing=0.1
        ),
        output=tmp_path / "run",
        device="cpu",
    )
    save_pretrained(result.model, tmp_path / "model", corpus=corpus)
    ranker = CellRanker(PretrainedModel.from_pretrained(tmp_path / "model"), INVENTORY)
    right = 0
    draw = np.random.default_rng(0)
    expected = {"PLAN": THERAPY, "LABS": CLOTTING}
    for header, words in WORDS_OF.items():
        texts = [" ".join([*draw.choice(words, 5), "PT", *draw.choice(words, 5)]) for _ in range(20)]
        for scores in ranker.scores([mention(text, section=header) for text in texts]):
            right += INVENTORY.senses("PT")[int(scores.argmax())] == expected[header]
    assert right >= 36
