"""Ranking by the gap that a short form leaves."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from expansion.clinic import (
    CLOTTING,
    INVENTORY,
    THERAPY,
    UNHEARD,
    clinic_corpus,
    mention,
    random_model,
)
from expansion.gap_clinic import gap_model, gap_texts
from lmcells.corpus import Corpus
from lmcells.errors import ModelError
from lmcells.expansion import Sense
from lmcells.expansion.explain import explain
from lmcells.expansion.ranking import MaskedSpanRanker
from lmcells.expansion.reader import NoteReader
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained import folder as layout
from lmcells.pretrained.subwords import SubwordSettings


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    torch.set_num_threads(1)
    return clinic_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def model(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    return gap_model(tmp_path_factory.mktemp("trained"), corpus)


@pytest.fixture(scope="module")
def reader_of_all(model: PretrainedModel, tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    """The same model, with sub-words."""
    folder = tmp_path_factory.mktemp("subwords") / "model"
    shutil.copytree(model.folder, folder)
    SubwordSettings(sharpness=2.0, caution=1.0, explained=0.1).save(folder)
    described = layout.describe_files(folder)
    files = {name: described[name] for name in [*model.config.files, layout.SUBWORDS]}
    replace(model.config, files=files).save(folder)
    return PretrainedModel.from_pretrained(folder, verify=True)


def test_the_long_form_that_fits_the_gap_comes_first(model: PretrainedModel) -> None:
    ranker = MaskedSpanRanker(model, INVENTORY)
    n_right = 0
    for header, sense in (("PLAN", THERAPY), ("LABS", CLOTTING)):
        for scores in ranker.scores([mention(text, section=header) for text in gap_texts(header)]):
            n_right += INVENTORY.senses("PT")[int(scores.argmax())] == sense
    assert n_right >= 11  # of 12


def test_senses_looked_up_together_are_as_each_alone_is(reader_of_all: PretrainedModel) -> None:
    others = (Sense("GT", "walkings", ("walkings",)), Sense("GT", "!!", ("!!",)))
    inventory = INVENTORY.add(UNHEARD).add(others[0]).add(others[1])
    together = MaskedSpanRanker(reader_of_all, inventory)
    together.scores([mention("gait with PT on stairs"), mention("gait with GT", "GT")])
    for short_form in ("PT", "GT"):
        alone = MaskedSpanRanker(reader_of_all, inventory).prototypes(short_form)
        for one, other in zip(together.prototypes(short_form), alone, strict=True):
            assert one.is_known == other.is_known
            assert one.count == other.count
            np.testing.assert_array_equal(one.by_occurrences, other.by_occurrences)
            np.testing.assert_array_equal(one.shares, other.shares)
            if other.by_words is not None:
                assert one.by_words is not None
                np.testing.assert_array_equal(one.by_words, other.by_words)
    assert not together.prototypes("GT")[1].is_known


def test_the_short_form_itself_is_not_read(model: PretrainedModel) -> None:
    ranker = MaskedSpanRanker(model, INVENTORY)
    one = mention("gait with PT on stairs")
    other = replace(one, text=one.text.replace("PT", "XX"))
    np.testing.assert_allclose(ranker.scores([one])[0], ranker.scores([other])[0])


def test_a_long_form_that_never_occurred_is_known_by_its_words(model: PretrainedModel) -> None:
    never = Sense("PT", "gait balance", ("gait balance",))
    known, unknown = MaskedSpanRanker(model, INVENTORY.add(never).add(UNHEARD)).prototypes("PT")[2:]
    assert known.by_words is not None
    assert known.count == 0
    assert unknown.by_words is None
    scores = MaskedSpanRanker(model, INVENTORY.add(never).add(UNHEARD)).scores([mention("gait PT stairs")])[0]
    assert np.isfinite(scores).tolist() == [True, True, True, False]


def test_a_mention_scores_the_same_alone_and_among_others(model: PretrainedModel) -> None:
    ranker = MaskedSpanRanker(model, INVENTORY)
    mentions = [mention(text) for text in ("gait PT stairs", "PT", "warfarin PT seconds plasma")]
    for one, scores in zip(mentions, ranker.scores(mentions), strict=True):
        np.testing.assert_allclose(scores, ranker.scores([one])[0], rtol=1e-5)
    assert ranker.scores([]) == []


def test_a_model_without_a_phrase_store_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no phrase network"):
        MaskedSpanRanker(random_model(tmp_path / "plain", corpus, "lmc"), INVENTORY)


def test_a_misspelt_word_is_read_as_the_word_that_was_meant(reader_of_all: PretrainedModel) -> None:
    ranker = MaskedSpanRanker(reader_of_all, INVENTORY)
    right, wrong = (
        mention("walking strength PT exercise balance"),
        mention("wallking strenght PT exercse balnace"),
    )
    np.testing.assert_allclose(ranker.scores([right])[0], ranker.scores([wrong])[0], rtol=1e-5)


def test_without_subwords_an_unknown_word_is_left_out(
    model: PretrainedModel, reader_of_all: PretrainedModel
) -> None:
    assert model.subwords is None
    given, without = mention("gait qwertyish PT stairs"), mention("gait PT stairs")
    ranker = MaskedSpanRanker(model, INVENTORY)
    np.testing.assert_array_equal(ranker.scores([given])[0], ranker.scores([without])[0])
    assert ranker.read([given]).unknown is None
    window = MaskedSpanRanker(reader_of_all, INVENTORY).read([given])
    assert window.context_mask.sum() == 4  # three words and the mark of the gap
    clotting = INVENTORY.senses("PT").index(CLOTTING)  # where all is known nothing changes
    scores = MaskedSpanRanker(reader_of_all, INVENTORY).scores([without])[0]
    assert scores[clotting] == ranker.scores([without])[0][clotting]


def test_a_long_form_of_unknown_words_is_known_by_its_subwords(reader_of_all: PretrainedModel) -> None:
    walker = Sense("PT", "walkings", ("walkings",))
    unheard, walking = MaskedSpanRanker(reader_of_all, INVENTORY.add(UNHEARD).add(walker)).prototypes("PT")[
        2:
    ]
    assert unheard.by_words is not None
    (known,) = MaskedSpanRanker(
        reader_of_all, INVENTORY.add(Sense("GT", "walking", ("walking",)))
    ).prototypes("GT")
    assert walking.by_words is not None
    assert known.by_words is not None
    np.testing.assert_allclose(walking.by_words, known.by_words)


def test_an_explanation_names_unknown_words_too(reader_of_all: PretrainedModel) -> None:
    note = "PLAN: gait and wallking before PT, qwertyish ct on stairs."
    (explanation,) = explain(MaskedSpanRanker(reader_of_all, INVENTORY), NoteReader(INVENTORY)(note))
    assert explanation is not None
    assert [word.word for word in explanation.words] == ["gait", "wallking", "PT", "qwertyish", "stairs"]
    assert sum(word.weight for word in explanation.words) == pytest.approx(1, abs=1e-5)
