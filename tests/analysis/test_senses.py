"""Nearest words, and senses: a planted word moves with its section, and the probabilities add up."""

import json

import numpy as np
import pytest

from analysis.planted import LOG_VARIANCE, SECTIONS, WORDS
from lmcells.analysis.cells import WordCells
from lmcells.analysis.names import NULL_SECTION
from lmcells.analysis.senses import measure_movement, nearest_words, word_senses
from lmcells.errors import InputError
from lmcells.pretrained import PretrainedModel


@pytest.mark.parametrize(
    ("section", "nearest"),
    [("SOCIAL HISTORY", "alcohol"), ("FAMILY HISTORY", "father"), ("LABORATORY DATA", "potassium")],
)
def test_the_section_pulls_a_word_to_the_words_of_the_section(
    cells: WordCells, section: str, nearest: str
) -> None:
    found = nearest_words(cells, "history", section, against="expected", n=2)
    assert found.neighbors[0].word == nearest
    assert found.moved > 0
    assert found.section == section


def test_divergences_and_cosines_are_those_of_the_planted_vectors(cells: WordCells) -> None:
    found = nearest_words(cells, "history", "SHX", n=6)
    own = np.add(WORDS["history"], SECTIONS["SHX"])
    for each in found.neighbors:
        other = np.add(WORDS[each.word], SECTIONS["SHX"])
        assert each.divergence == pytest.approx(
            0.5 * ((own - other) ** 2).sum() / np.exp(LOG_VARIANCE), rel=1e-4
        )
        assert each.cosine == pytest.approx(
            own @ other / np.linalg.norm(own) / np.linalg.norm(other), rel=1e-4
        )
    divergences = [each.divergence for each in found.neighbors]
    assert divergences == sorted(divergences)


def test_by_cosine_the_words_are_in_order_of_cosine(cells: WordCells) -> None:
    found = nearest_words(cells, "history", "FAMILY HISTORY", measure="cosine", n=6)
    cosines = [each.cosine for each in found.neighbors]
    assert cosines == sorted(cosines, reverse=True)
    assert {each.word for each in found.neighbors} == WORDS.keys() - {"history"}


def test_counts_are_said(cells: WordCells) -> None:
    found = nearest_words(cells, "HISTORY", "family history")
    assert (found.word, found.section) == ("history", "FAMILY HISTORY")
    assert (found.count, found.count_in_section) == (16, 6)
    assert found.variance == pytest.approx(np.exp(LOG_VARIANCE), rel=1e-5)
    on_average = nearest_words(cells, "history")
    assert (on_average.section, on_average.count_in_section, on_average.moved) == (None, None, 0)


def test_rare_words_are_left_out(cells: WordCells) -> None:
    found = nearest_words(cells, "history", "LABORATORY DATA", min_count=11)
    assert [each.word for each in found.neighbors] == ["sodium"]
    assert found.n_candidates == 1


@pytest.mark.parametrize("min_count", [16, 17])  # "history" itself was seen 16 times
def test_where_no_other_word_is_frequent_enough_it_says_so(cells: WordCells, min_count: int) -> None:
    for look in (nearest_words, word_senses):
        with pytest.raises(InputError, match=f"no other word was seen at least {min_count} times"):
            look(cells, "history", min_count=min_count)


@pytest.mark.parametrize("kind", ["bsg", "mbsge"])
def test_models_without_sections_have_one_cell_a_word(
    kind: str, small_models: dict[str, PretrainedModel]
) -> None:
    model = small_models[kind]
    cells = WordCells(model)
    found = nearest_words(cells, "gait")
    assert found.neighbors == nearest_words(cells, "gait", NULL_SECTION).neighbors
    every = model.prior(np.arange(len(model.words)))  # type: ignore[call-arg]
    here = model.word_ids["gait"]
    direct = 0.5 * (
        6 * (np.exp(every.log_variance[here] - every.log_variance) - 1)
        - 6 * (every.log_variance[here] - every.log_variance)
        + np.square(every.mean[here] - every.mean).sum(axis=1) / np.exp(every.log_variance)
    )
    direct[here] = np.inf
    assert found.neighbors[0].word == model.words[direct.argmin()]
    assert found.neighbors[0].divergence == pytest.approx(direct.min(), rel=1e-4)
    with pytest.raises(InputError, match="does not use sections"):
        nearest_words(cells, "gait", "PLAN")


@pytest.mark.parametrize(
    ("word", "near"), [("smoking", "cigarette"), ("cancer", "cancers"), ("culture", "cultures")]
)
def test_the_shipped_model_knows_words_that_are_alike(shipped_cells: WordCells, word: str, near: str) -> None:
    assert near in [
        each.word for each in nearest_words(shipped_cells, word, "PAST MEDICAL HISTORY").neighbors
    ]


def test_each_section_pulls_the_word_to_its_own_words(cells: WordCells) -> None:
    senses = word_senses(
        cells, "history", sections=["SOCIAL HISTORY", "FAMILY HISTORY"], words=["smoking", "mother"]
    )
    social, family = senses.sections
    for sense, own, other in ((social, 0, 1), (family, 1, 0)):
        assert sense.likenesses[own].probability > 0.9
        assert sense.likenesses[own].ratio > 1 > sense.likenesses[other].ratio
    assert (social.neighbors[0].word, family.neighbors[0].word) == ("alcohol", "father")


def test_probabilities_are_a_softmax_of_the_divergences_to_expected_cells(cells: WordCells) -> None:
    senses = word_senses(cells, "history", sections=["CHEMISTRY"], words=["sodium", "mother", "alcohol"])
    own = np.add(WORDS["history"], SECTIONS["CHEMISTRY"])
    social, family, laboratory = (
        np.array(SECTIONS[name]) for name in ("SOCIAL HISTORY", "FAMILY HISTORY", "LABORATORY DATA")
    )
    expected = {
        "sodium": WORDS["sodium"]
        + (8 * laboratory + 2 * np.array(SECTIONS["CHEMISTRY"]) + np.array(SECTIONS["PLAN"])) / 11,
        "mother": WORDS["mother"] + (8 * family + 2 * np.array(SECTIONS["FHX"])) / 10,
        "alcohol": WORDS["alcohol"] + (7 * social + 2 * np.array(SECTIONS["SHX"])) / 9,
    }
    divergences = np.array(
        [0.5 * ((own - mean) ** 2).sum() / np.exp(LOG_VARIANCE) for mean in expected.values()]
    )
    found = senses.sections[0].likenesses
    assert [each.word for each in found] == list(expected)
    assert [each.divergence for each in found] == pytest.approx(divergences.tolist(), rel=1e-4)
    softmax = np.exp(-divergences) / np.exp(-divergences).sum()
    assert [each.probability for each in found] == pytest.approx(softmax.tolist(), rel=1e-4)


def test_ratios_are_against_the_average(cells: WordCells) -> None:
    senses = word_senses(cells, "history")
    for sense in senses.sections:
        for each, average in zip(sense.likenesses, senses.average.likenesses, strict=True):
            assert each.ratio == pytest.approx(each.probability / average.probability)
    assert all(each.ratio == 1 for each in senses.average.likenesses)
    assert senses.average.moved == 0


def test_without_sections_those_that_the_word_was_seen_in_are_shown(cells: WordCells) -> None:
    senses = word_senses(cells, "history")
    assert [(sense.section, sense.count) for sense in senses.sections] == [
        ("SOCIAL HISTORY", 9),
        ("FAMILY HISTORY", 6),
        ("LABORATORY DATA", 1),
    ]
    assert len(word_senses(cells, "history", n_sections=2).sections) == 2


def test_without_words_those_that_tell_the_sections_apart_are_chosen(cells: WordCells) -> None:
    chosen = word_senses(cells, "history", sections=["SOCIAL HISTORY", "FAMILY HISTORY"], n_words=4).words
    assert set(chosen[:2]) == {"smoking", "alcohol"}
    assert set(chosen[2:]) == {"mother", "father"}


def test_with_one_section_the_nearest_words_are_chosen(cells: WordCells) -> None:
    senses = word_senses(cells, "history", sections=["FHX"], n_words=2)
    assert senses.words == tuple(each.word for each in senses.sections[0].neighbors[:2])


def test_never_more_words_than_there_are(cells: WordCells) -> None:
    senses = word_senses(cells, "history", n_words=100)
    assert set(senses.words) == WORDS.keys() - {"history"}


def test_null_metadata_is_a_section_too(cells: WordCells) -> None:
    senses = word_senses(cells, "history", sections=[NULL_SECTION, "SHX"])
    assert [(sense.section, sense.count) for sense in senses.sections] == [(NULL_SECTION, None), ("SHX", 0)]


def test_what_is_named_twice_is_shown_once(cells: WordCells) -> None:
    senses = word_senses(
        cells, "history", sections=["SHX", "shx", "FHX"], words=["mother", "MOTHER", "sodium"]
    )
    assert [sense.section for sense in senses.sections] == ["SHX", "FHX"]
    assert senses.words == ("mother", "sodium")


def test_the_same_question_has_the_same_answer_and_is_plain_data(cells: WordCells) -> None:
    one, other = word_senses(cells, "history"), word_senses(WordCells(cells.model), "history")
    assert one == other
    assert json.loads(json.dumps(one.to_dict()))["sections"][0]["likenesses"][0]["word"] == one.words[0]


def test_a_model_without_sections_has_no_senses(small_models: dict[str, PretrainedModel]) -> None:
    with pytest.raises(InputError, match="Allowed: a model of kind 'lmc'"):
        word_senses(WordCells(small_models["bsg"]), "gait")


@pytest.mark.parametrize(
    ("section", "risen", "fallen"),
    [
        ("SOCIAL HISTORY", "smoking", "surgery"),
        ("FAMILY HISTORY", "mother", "surgery"),
        ("PAST MEDICAL HISTORY", "allergies", "mother"),
    ],
)
def test_history_moves_with_its_section_in_the_shipped_model(
    shipped_cells: WordCells, section: str, risen: str, fallen: str
) -> None:
    words = ["smoking", "mother", "allergies", "surgery"]
    (sense,) = word_senses(shipped_cells, "history", sections=[section], words=words).sections
    ratio_of = {each.word: each.ratio for each in sense.likenesses}
    assert ratio_of[risen] > 1.1
    assert ratio_of[fallen] < ratio_of[risen] - 0.3


def test_where_words_and_sections_only_add_up_nothing_is_of_pairs(cells: WordCells) -> None:
    movement = measure_movement(cells)
    assert movement.of_pairs == pytest.approx(0, abs=1e-9)
    assert movement.of_sections > 0.01
    assert movement.of_words + movement.of_sections + movement.of_pairs == pytest.approx(1)
    assert (movement.n_words, movement.n_sections) == (len(WORDS), len(SECTIONS))


def test_shares_of_the_movement_add_up_to_one(model: PretrainedModel) -> None:
    movement = measure_movement(WordCells(model))
    shares = (movement.of_words, movement.of_sections, movement.of_pairs)
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0  # the ReLU makes a section matter more to some words than to others
