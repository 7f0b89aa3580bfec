"""What a model knows of long forms: wordings, prototypes, moments, and occurrences in a corpus."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora import corpus_of, segments
from expansion.clinic import CLOTTING, STENOSIS, THERAPY, UNHEARD, clinic_corpus, random_model
from lmcells.corpus import Corpus
from lmcells.errors import InputError
from lmcells.expansion import Sense
from lmcells.expansion.long_form_moments import (
    LongFormOccurrences,
    counted_section_weights,
    long_form_moments,
    long_form_words,
    words_section_weights,
)
from lmcells.expansion.long_forms import (
    OF_OCCURRENCES,
    PRIOR,
    TEMPERATURE,
    SensePrototypes,
    SensesOfShortForm,
    remaining_words,
    with_plurals,
    wordings,
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


@settings(max_examples=20)
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
    trained = replace(model, config=replace(model.config, training={"settings": {"smoothing": 0.5}}))
    weights = counted_section_weights(trained, places)(CLOTTING, long_form_words(CLOTTING, model))
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
    with pytest.raises(InputError, match="the model was trained on another corpus"):
        counted_section_weights(model, LongFormOccurrences(other))


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        (["out-patient", "outpatient"], [("outpatient",)]),  # "patient" alone is another word
        (["out patient"], []),
        (["culture and sensitivity"], [("culture", "sensitivity")]),  # dropped inside, as in a corpus
        (["alzheimer s disease"], [("alzheimer", "disease")]),
        (["Alzheimer's disease"], [("alzheimer", "disease")]),
        (["protein C", "Protein c"], [("protein", "c")]),
        (["the"], []),
    ],
)
def test_forms_become_the_tokens_of_a_corpus(forms: list[str], expected: list[tuple[str, ...]]) -> None:
    assert wordings(forms, stop_words=False) == expected


def test_what_is_left_of_a_form_can_still_be_read() -> None:
    assert remaining_words(["out patient", "the"], stop_words=False) == [("patient",)]


def test_with_stop_words_every_form_is_whole() -> None:
    forms = ["out-patient", "culture and sensitivity", "as needed"]
    assert wordings(forms, stop_words=True) == [
        ("out", "patient"),
        ("culture", "and", "sensitivity"),
        ("as", "needed"),
    ]
    assert remaining_words(["the"], stop_words=True) == [("the",)]


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("receptor", "receptors"),
        ("receptors", "receptor"),
        ("biopsy", "biopsies"),
        ("biopsies", "biopsy"),
        ("mass", "masses"),
    ],
)
def test_the_other_number_of_the_last_word_is_added(word: str, other: str) -> None:
    assert ("one", other) in with_plurals([("one", word)])


@given(st.lists(st.lists(st.text("abcys", min_size=1), min_size=1).map(tuple)))
def test_what_was_given_comes_first_and_nothing_twice(given_wordings: list[tuple[str, ...]]) -> None:
    distinct = list(dict.fromkeys(given_wordings))
    found = with_plurals(given_wordings)
    assert found[: len(distinct)] == distinct
    assert len(set(found)) == len(found)


DIM = 6
Floats = npt.NDArray[np.float64]


def prototypes(n: int, seed: int) -> Floats:
    rows = np.random.default_rng(seed).normal(size=(n, DIM))
    found: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return found


def sense(*, words: bool = True, n_places: int = 0, count: int = 0, seed: int = 0) -> SensePrototypes:
    shares = np.arange(1, n_places + 1) / max(1, n_places * (n_places + 1) / 2)
    by_words = prototypes(1, seed)[0] if words else None
    return SensePrototypes(by_words, prototypes(n_places, seed + 100), shares, count)


def by_the_formula(gap: Floats, known: SensePrototypes, *, t: float, a: float, b: float) -> float:
    of_words = None if known.by_words is None else gap @ known.by_words / t
    of_occurrences = None
    if len(known.shares):
        of_occurrences = np.log((known.shares * np.exp(known.by_occurrences @ gap / t)).sum())
    prior = b * np.log(1 + known.count)
    if of_words is None and of_occurrences is None:
        return -np.inf
    if of_words is None:
        return float(of_occurrences + prior)
    if of_occurrences is None:
        return float(of_words + prior)
    return float(a * of_occurrences + (1 - a) * of_words + prior)


ALL_KINDS = [
    sense(n_places=3, count=40, seed=1),
    sense(seed=2),
    sense(words=False, n_places=2, count=9, seed=3),
    sense(words=False),
    sense(n_places=1, count=4, seed=5),
]


@pytest.mark.parametrize(
    "senses", [ALL_KINDS, ALL_KINDS[::-1], ALL_KINDS[1:2], ALL_KINDS[3:4], ALL_KINDS[2:3]]
)
@pytest.mark.parametrize(
    ("t", "a", "b"), [(TEMPERATURE, OF_OCCURRENCES, PRIOR), (0.1, 0.0, 0.0), (TEMPERATURE, 1.0, PRIOR)]
)
def test_scores_are_those_of_the_formula(
    senses: list[SensePrototypes], t: float, a: float, b: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TEMPERATURE", t), ("OF_OCCURRENCES", a), ("PRIOR", b)):
        monkeypatch.setattr(f"lmcells.expansion.long_forms.{name}", value)
    gaps = prototypes(7, seed=9)
    expected = [[by_the_formula(gap, each, t=t, a=a, b=b) for each in senses] for gap in gaps]
    np.testing.assert_allclose(SensesOfShortForm(senses).scores(gaps), expected, rtol=1e-12)


def test_a_sense_of_which_nothing_is_known_comes_last() -> None:
    assert [each.is_known for each in ALL_KINDS] == [True, True, True, False, True]
    assert (SensesOfShortForm(ALL_KINDS).scores(prototypes(3, seed=4)).argmin(axis=1) == 3).all()
