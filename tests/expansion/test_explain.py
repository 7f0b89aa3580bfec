"""What a model leaned on: gate, attention and the effect of each thing read, at the words of the note."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from expansion.clinic import INVENTORY
from lmcells.errors import InputError
from lmcells.expansion import Sense, SenseInventory
from lmcells.expansion.explain import Explanation, explain
from lmcells.expansion.ranking import CellRanker
from lmcells.expansion.reader import NoteReader
from lmcells.expansion.windows import NULL, Mention, WindowReader, section_id_finder
from lmcells.pretrained import PretrainedModel, ReadWindows

NOTE = (
    "😀 HPI: other filler.\n\nLABS: clotting, PT with warfarin and bruise. "
    + "filler " * 400
    + "gait PT stairs\n\nPMH: multiple sclerosis (MS)."
)


@pytest.fixture(scope="module")
def model(plain_model: PretrainedModel) -> PretrainedModel:
    return plain_model


def mentions_of(note: str, inventory: SenseInventory = INVENTORY) -> list[Mention]:
    return [each.mention for each in NoteReader(inventory)(note) if each.mention is not None]


def test_words_stand_where_the_note_has_them(model: PretrainedModel) -> None:
    first, second = explain(CellRanker(model, INVENTORY), mentions_of(NOTE))
    assert [NOTE[word.start : word.end] for word in first.words] == [
        "clotting",
        "warfarin",
        "bruise",
        "filler",
    ]
    assert [word.word for word in second.words][-2:] == ["gait", "stairs"]
    assert NOTE[second.words[-1].start : second.words[-1].end] == "stairs"
    for explanation in (first, second):
        assert sum(word.weight for word in explanation.words) == pytest.approx(1, abs=1e-5)
        assert 0 < explanation.section_weight < 1


def test_weights_are_those_of_the_posterior(model: PretrainedModel) -> None:
    _, mention, windows, explanation = first_of_the_note(model)
    posterior = model.variational.posterior(windows, np.array([section_id_finder(model)(mention.section)]))
    assert explanation.section_weight == pytest.approx(float(posterior.gate[0]))
    present = posterior.attention[0][windows.context_mask[0]].tolist()
    assert [word.weight for word in explanation.words] == pytest.approx(present)


def test_a_marked_gap_is_named_by_the_short_form(model: PretrainedModel) -> None:
    ranker = CellRanker(model, INVENTORY)  # that reads as a ranker of gaps does
    ranker.read = WindowReader(model.word_ids, radius=model.sizes.window, mask_id=0, hides_center=True)
    (explanation,) = explain(ranker, mentions_of("warfarin PT bruise"))
    assert [(word.start, word.word) for word in explanation.words] == [
        (0, "warfarin"),
        (9, "PT"),
        (12, "bruise"),
    ]
    assert explanation.words[1].effect is None  # there is nothing to hide


def test_an_effect_is_what_the_odds_lose_without_the_word(model: PretrainedModel) -> None:
    ranker, mention, windows, explanation = first_of_the_note(model)
    (scores,) = ranker.window_scores(windows, [mention])
    best = int(scores.argmax())
    for position, word in zip(np.flatnonzero(windows.context_mask[0]), explanation.words, strict=True):
        mask = windows.context_mask.copy()
        mask[0, position] = False
        (without,) = ranker.window_scores(replace(windows, context_mask=mask), [mention])
        assert word.effect == pytest.approx(log_odds(scores, best) - log_odds(without, best), abs=1e-6)
    assert any(word.effect != 0 for word in explanation.words)


def test_effects_are_those_on_what_the_note_makes_likeliest(model: PretrainedModel) -> None:
    ranker, mention, windows, own = first_of_the_note(model)
    (scores,) = ranker.window_scores(windows, [mention])
    evidence = np.where(np.arange(scores.size) == scores.argmin(), 100.0, 0.0)  # the rest of the note is sure
    (turned,) = explain(ranker, [mention], evidence=[evidence])
    assert scores.size == 2
    effects = [[word.effect for word in each.words] for each in (own, turned)]
    assert effects[1] == pytest.approx([-effect for effect in effects[0] if effect is not None])


def test_the_section_s_effect_is_what_the_odds_lose_without_it(model: PretrainedModel) -> None:
    ranker, mention, windows, explanation = first_of_the_note(model)
    (scores,) = ranker.window_scores(windows, [mention])
    posterior = ranker.posterior(windows, np.array([NULL]))
    (without,) = ranker.posterior_scores(mention.short_form, posterior, windows.context_mask)
    best = int(scores.argmax())
    assert explanation.section_effect == pytest.approx(
        log_odds(scores, best) - log_odds(without, best), abs=1e-6
    )
    assert explanation.section_effect != 0


def test_effects_are_on_the_scale_of_the_probabilities(model: PretrainedModel) -> None:
    pair = SenseInventory.from_senses(
        [Sense("PT", "warfarin"), Sense("PT", "gait")]
    )  # two: odds are a difference
    mentions = mentions_of("clotting PT bruise", pair)
    (plain,), (calibrated,) = (
        explain(CellRanker(model, pair), mentions, temperature=temperature) for temperature in (1.0, 2.0)
    )
    assert plain.words[0].effect
    assert [word.effect for word in calibrated.words] == pytest.approx(
        [word.effect / 2 for word in plain.words]
    )


def test_the_only_sense_rests_on_nothing(model: PretrainedModel) -> None:
    alone = SenseInventory.from_senses([Sense("PT", "warfarin")])
    (explanation,) = explain(CellRanker(model, alone), mentions_of("clotting PT bruise", alone))
    assert explanation.section_effect is None
    assert [word.effect for word in explanation.words] == [None, None]


def test_without_a_section_none_has_an_effect(model: PretrainedModel) -> None:
    (explanation,) = explain(CellRanker(model, INVENTORY), mentions_of("clotting PT bruise"))
    assert explanation.section_effect is None
    assert None not in [word.effect for word in explanation.words]


def test_the_work_has_an_end(model: PretrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmcells.expansion.explain.MOST_EXPLAINED", 2)
    explained = explain(CellRanker(model, INVENTORY), mentions_of("gait PT " * 4))
    assert [each.words[0].effect is not None for each in explained] == [
        True,
        True,
        False,
        False,
    ]


def first_of_the_note(model: PretrainedModel) -> tuple[CellRanker, Mention, ReadWindows, Explanation]:
    ranker = CellRanker(model, INVENTORY)
    mention = mentions_of(NOTE)[0]
    (explanation,) = explain(ranker, [mention])
    return ranker, mention, ranker.read([mention]), explanation


def log_odds(scores: Any, best: int) -> float:
    others = np.exp(np.delete(scores, best))
    return float(scores[best] - np.log(others.sum()))


def test_words_are_in_no_representation(model: PretrainedModel) -> None:
    (explanation,) = explain(CellRanker(model, INVENTORY), mentions_of("warfarin PT"))
    assert "warfarin" not in repr(explanation)


def test_nothing_to_explain(model: PretrainedModel) -> None:
    assert explain(CellRanker(model, INVENTORY), []) == []


def test_a_ranker_without_cells_cannot_be_explained() -> None:
    with pytest.raises(InputError, match="a object cannot be explained"):
        explain(object(), [])
