"""What a model knows of an inventory, said before a note is read."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from expansion.clinic import (
    CLOTTING,
    INVENTORY,
    THERAPY,
    UNHEARD,
    clinic_corpus,
    mention,
    random_model,
    random_network,
)
from expansion.gap_clinic import SETTINGS
from lmcells.corpus import Corpus
from lmcells.expansion import Sense
from lmcells.expansion.inventory_check import inventory_knowledge, suggest_spellings
from lmcells.expansion.ranking import MaskedSpanRanker
from lmcells.pretrained import PretrainedModel, save_pretrained
from lmcells.training.prototypes import build_prototypes

BY_WORDS = Sense("PT", "gait balance", ("gait balance", "gait xylophone"))
SENSES = INVENTORY.add(UNHEARD, BY_WORDS, Sense("PT", "out-patient", ("out-patient",)))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    torch.set_num_threads(1)
    return clinic_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def model(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    folder = tmp_path_factory.mktemp("model") / "model"
    network = random_network(corpus, "lmc", phrase_dim=4, masks_span=True)
    prototypes = build_prototypes(network, corpus, settings=SETTINGS)
    save_pretrained(network, folder, corpus=corpus, prototypes=prototypes)
    return PretrainedModel.from_pretrained(folder)


def test_each_sense_is_known_by_its_places_by_its_words_or_not(model: PretrainedModel) -> None:
    known = {each.sense.long_form: each for each in inventory_knowledge(model, SENSES)}
    assert known["physical therapy"].how == "frequent"
    assert known["physical therapy"].count == 40
    assert known["physical therapy"].unknown_words == ("physiotherapy",)
    assert (known["gait balance"].how, known["gait balance"].count) == ("words", 0)
    assert known["gait balance"].unknown_words == ("xylophone",)
    assert (known["xylophone"].how, known["xylophone"].unknown_words) == ("unknown", ("xylophone",))
    assert known["out-patient"].how == "unknown"
    assert all(each.n_in_corpus is None for each in known.values())


def test_they_come_in_the_inventory_s_order_and_sort_worst_first(model: PretrainedModel) -> None:
    known = inventory_knowledge(model, SENSES)
    assert [each.sense for each in known] == list(SENSES)
    hows = [each.how for each in sorted(known, key=lambda each: each.badness)]
    assert hows == sorted(hows, key=("unknown", "words", "frequent").index)


def test_unknown_is_what_is_ranked_last(model: PretrainedModel) -> None:
    scores = MaskedSpanRanker(model, SENSES).scores([mention("gait PT stairs")])[0]
    hows = [each.how for each in inventory_knowledge(model, SENSES) if each.sense.short_form == "PT"]
    assert np.isneginf(scores).tolist() == [how == "unknown" for how in hows]


def test_a_model_without_a_phrase_store_knows_words_alone(corpus: Corpus, tmp_path: Path) -> None:
    known = inventory_knowledge(random_model(tmp_path / "plain", corpus, "lmc"), SENSES)
    hows = {each.sense.long_form: each.how for each in known}
    assert set(hows.values()) == {"words", "unknown"}
    assert hows["physical therapy"] == "words"
    assert hows["xylophone"] == "unknown"


def test_a_corpus_says_how_often_a_sense_stands_in_it(model: PretrainedModel, corpus: Corpus) -> None:
    known = {each.sense: each for each in inventory_knowledge(model, SENSES, corpus=corpus)}
    assert known[THERAPY].n_in_corpus == known[CLOTTING].n_in_corpus == 40
    assert known[UNHEARD].n_in_corpus == 0
    for each in known.values():
        if each.how == "frequent" and each.count:
            assert each.n_in_corpus >= each.count  # the store has frequent wordings only


def test_the_nearest_known_spelling_is_suggested() -> None:
    vocabulary = ["gastrostomy", "gastritis", "pain", "<digit>"]
    assert suggest_spellings(["gastrostmy", "pian", "zzz", ""], vocabulary) == {"gastrostmy": "gastrostomy"}


def test_a_large_vocabulary_and_many_words_take_no_more_than_a_moment() -> None:
    vocabulary = [f"w{number:07d}" for number in range(3000)]
    suggestions = suggest_spellings([f"w9{number:06d}" for number in range(2000)], vocabulary)
    assert len(suggestions) <= 300


@given(st.lists(st.text(max_size=8), max_size=6), st.lists(st.text(max_size=8), max_size=6))
def test_suggestions_are_words_of_the_vocabulary(words: list[str], vocabulary: list[str]) -> None:
    suggestions = suggest_spellings(words, vocabulary)
    assert suggestions.keys() <= set(words)
    assert set(suggestions.values()) <= set(vocabulary)
