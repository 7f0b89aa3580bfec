"""Chance, the commonest sense, and the section alone."""

from pathlib import Path

import numpy as np
import pytest

from corpora import corpus_of
from expansion.clinic import CLOTTING, INVENTORY, THERAPY, mention
from lmcells.evaluation import rankers
from lmcells.evaluation.dataset import Example
from lmcells.evaluation.evaluate import predict
from lmcells.evaluation.metrics import measure
from lmcells.expansion.long_forms import LongFormOccurrences
from lmcells.expansion.ranking import Ranker


def example(number: int, long_form: str, section: str | None = None, short_form: str = "PT") -> Example:
    return Example(
        f"e{number}", short_form, 0, len(short_form), short_form, section, long_form, f"n/{number // 2}"
    )


def probabilities(ranker: Ranker, section: str | None) -> list[float]:
    scores = ranker.scores([mention("PT", section=section)])[0]
    weights = np.exp(scores)
    return (weights / weights.sum()).tolist()


THERAPY_AND_CLOTTING = [
    *(example(number, THERAPY.long_form, "PLAN") for number in range(3)),
    example(3, THERAPY.long_form, "LABS"),
    example(4, CLOTTING.long_form, "LABS"),
    example(5, CLOTTING.long_form),
]


def test_chance_is_right_as_often_as_there_are_candidates() -> None:
    examples = [example(number, THERAPY.long_form) for number in range(4_000)]
    metrics = measure(predict("random", rankers.random_ranker(INVENTORY, seed=1), examples, INVENTORY))
    assert metrics.accuracy == pytest.approx(0.5, abs=0.04)
    assert metrics.nll == pytest.approx(np.log(2), abs=1e-6)


def test_chance_is_the_same_for_one_seed_and_another_for_another() -> None:
    mentions = [mention("PT")] * 50
    first, again, other = (rankers.random_ranker(INVENTORY, seed=seed).scores(mentions) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (np.argmax(first, axis=1) != np.argmax(other, axis=1)).any()


def test_the_commonest_sense_scores_its_share() -> None:
    ranker = rankers.dominant_ranker(INVENTORY, THERAPY_AND_CLOTTING)
    metrics = measure(predict("dominant", ranker, THERAPY_AND_CLOTTING, INVENTORY))
    assert metrics.accuracy == pytest.approx(4 / 6)
    assert probabilities(ranker, None) == pytest.approx([4 / 6, 2 / 6])


def test_the_commonest_sense_of_a_short_form_without_examples_is_any() -> None:
    ranker = rankers.dominant_ranker(INVENTORY, [])
    assert probabilities(ranker, "PLAN") == pytest.approx([0.5, 0.5])


def test_section_mle_is_the_share_of_a_long_forms_places_in_the_section() -> None:
    ranker = rankers.SectionRanker(INVENTORY, rankers.count_sections_of_examples(THERAPY_AND_CLOTTING))
    # p(LABS | therapy) = 1/4 and p(LABS | clotting) = 1/2: the rarer sense wins, there is no prior.
    assert probabilities(ranker, "LABS") == pytest.approx([1 / 3, 2 / 3])
    assert probabilities(ranker, "PLAN")[0] == pytest.approx(1, abs=1e-5)


def test_no_section_is_a_section_of_its_own() -> None:
    counts = rankers.count_sections_of_examples(THERAPY_AND_CLOTTING)
    assert probabilities(rankers.SectionRanker(INVENTORY, counts), None)[1] == pytest.approx(1, abs=1e-5)


def test_a_section_that_was_never_seen_is_left_to_chance() -> None:
    ranker = rankers.SectionRanker(INVENTORY, rankers.count_sections_of_examples(THERAPY_AND_CLOTTING))
    scores = ranker.scores([mention("PT", section="NEW")] * 200)
    np.testing.assert_allclose(scores, np.log(rankers.FLOOR), atol=1e-6)
    assert 60 < sum(int(row.argmax()) for row in scores) < 140


def test_a_long_form_that_was_never_seen_has_the_floor_and_not_an_error() -> None:
    ranker = rankers.SectionRanker(INVENTORY, rankers.count_sections_of_examples(THERAPY_AND_CLOTTING[:3]))
    scores = ranker.scores([mention("PT", section="PLAN")])[0]
    assert np.isfinite(scores).all()
    assert scores[1] == pytest.approx(np.log(rankers.FLOOR))


def test_sections_are_counted_where_a_corpus_writes_long_forms_out(tmp_path: Path) -> None:
    corpus = corpus_of(
        tmp_path,
        ["PLAN: physical therapy\n\nLABS: prothrombin time", "PLAN: physiotherapy, prothrombin time"],
    )
    counts = rankers.count_sections_in_corpus(INVENTORY, LongFormOccurrences(corpus))
    assert counts["PT", "physical therapy"] == {"PLAN": 2}
    assert counts["PT", "prothrombin time"] == {"LABS": 1, "PLAN": 1}
    assert counts["MS", "multiple sclerosis"] == {}
