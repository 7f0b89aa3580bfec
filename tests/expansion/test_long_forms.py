"""Long forms as the prior sees them, and where the corpus writes them out."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora import corpus_of, segments
from expansion.clinic import CLOTTING, STENOSIS, THERAPY, UNHEARD, clinic_corpus, random_model
from lmcells.corpus import Corpus
from lmcells.errors import InputError
from lmcells.expansion import Sense
from lmcells.expansion.long_forms import (
    LongFormOccurrences,
    counted_section_weights,
    long_form_moments,
    long_form_words,
    words_section_weights,
)
from lmcells.pretrained import PretrainedModel


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return clinic_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def model(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    return random_model(tmp_path_factory.mktemp("model") / "lmc", corpus, "lmc")


def counts_of(corpus: Corpus, *forms: str) -> dict[str, int]:
    found = LongFormOccurrences(corpus).metadata_counts(Sense("X", forms[0], forms))
    names = corpus.metadata_names("section")
    return {names[index]: int(found[index]) for index in found.nonzero()[0]}


def test_alternatives_are_pooled_into_one_bag_of_distinct_known_words(model: PretrainedModel) -> None:
    words = [model.words[word] for word in long_form_words(STENOSIS, model)]
    assert words == ["mitral", "stenosis", "valve"]


def test_a_long_form_without_a_known_word_has_no_moments_and_an_infinite_divergence(
    model: PretrainedModel,
) -> None:
    weights = words_section_weights(model)
    moments = long_form_moments([THERAPY, UNHEARD], model, section_weights=weights)
    assert moments.known.tolist() == [True, False]
    divergences = moments.divergences(np.zeros((2, 6)), np.zeros(2))
    assert np.isfinite(divergences[:, 0]).all()
    assert np.isinf(divergences[:, 1]).all()


def test_phrases_are_counted_under_their_sections(tmp_path: Path) -> None:
    notes = [
        "HPI: seen by physical therapy. Physical  Therapy again.\n\nPLAN: physical therapy",
        "PLAN: physiotherapy; not physical\n\nHPI: therapy",  # never across a section
        "PLAN: physical",
        "HPI: therapy",  # nor across notes
    ]
    corpus = corpus_of(tmp_path, notes)
    assert counts_of(corpus, "physical therapy") == {"HPI": 2, "PLAN": 1}
    assert counts_of(corpus, "physical therapy", "physiotherapy") == {"HPI": 2, "PLAN": 2}


def test_stop_words_that_the_tokenizer_drops_do_not_matter(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ["PLAN: stenosis of the mitral valve, then stenosis mitral valve"])
    assert counts_of(corpus, "stenosis of mitral valve") == {"PLAN": 2}


def test_a_form_inside_a_longer_form_of_the_sense_is_counted_once(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ["HPI: congestive heart failure. heart failure."])
    assert counts_of(corpus, "heart failure", "congestive heart failure") == {"HPI": 2}


def test_a_form_with_a_word_that_the_corpus_lacks_is_found_nowhere(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, ["HPI: physical therapy"])
    assert counts_of(corpus, "unheard physical therapy") == {}
    assert counts_of(corpus, "of the") == {}


@settings(max_examples=20, deadline=None)
@given(
    text=st.lists(st.sampled_from("abcd"), max_size=40),
    phrase=st.lists(st.sampled_from("abcd"), min_size=1, max_size=3),
)
def test_places_are_those_a_loop_finds(
    tmp_path_factory: pytest.TempPathFactory, text: list[str], phrase: list[str]
) -> None:
    spelt = {letter: f"word{letter}" for letter in "abcd"}
    written = " ".join(spelt[letter] for letter in text)
    corpus = corpus_of(tmp_path_factory.mktemp("c"), [f"HPI: {written} wordz\n\nPLAN: {written} wordz"])
    wanted = [spelt[letter] for at, letter in enumerate(phrase) if not at or letter != phrase[at - 1]]
    n = sum(
        words[at : at + len(wanted)] == wanted for _, words in segments(corpus) for at in range(len(words))
    )
    form = " ".join(spelt[letter] for letter in phrase)
    assert LongFormOccurrences(corpus).of_sense(Sense("X", form)).size == n


def test_weights_are_smoothed_counts_of_the_long_form(corpus: Corpus, model: PretrainedModel) -> None:
    places = LongFormOccurrences(corpus)
    weights = counted_section_weights(model, places, add=0.5)(CLOTTING, long_form_words(CLOTTING, model))
    n = places.metadata_counts(CLOTTING)
    assert n[model.section_ids["LABS"]] == n.sum() == 40
    np.testing.assert_allclose(weights, (n + 0.5) / (40 + 0.5 * n.size))


def test_a_long_form_that_does_not_occur_takes_its_words_mean(corpus: Corpus, model: PretrainedModel) -> None:
    sense = Sense("PE", "plasma exercise")
    words = long_form_words(sense, model)
    np.testing.assert_allclose(
        counted_section_weights(model, LongFormOccurrences(corpus))(sense, words),
        words_section_weights(model)(sense, words),
    )


def test_a_corpus_with_other_sections_is_refused(tmp_path: Path, model: PretrainedModel) -> None:
    other = corpus_of(tmp_path, ["SOMETHING ELSE: pain"])
    with pytest.raises(InputError, match="not the corpus that the model was trained on"):
        counted_section_weights(model, LongFormOccurrences(other))
