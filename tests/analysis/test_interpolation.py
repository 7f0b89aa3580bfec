"""Moving the gate by hand: it ends where it should, and meets the plain ranking on the way."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from expansion.clinic import INVENTORY
from lmcells.analysis import Row
from lmcells.analysis.interpolation import cells, empty_window, interpolate, read_window, section_ranker
from lmcells.errors import ConfigError, InputError
from lmcells.evaluation.rankers import calibration_of
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.expander import Expander
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.layers import shipped_inventory
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.expansion.windows import NULL, Mention
from lmcells.pretrained import PretrainedModel

TEXT = "warfarin, MG for the bleeding gait"


def probabilities(path: Row, step: int) -> dict[str, float]:
    return {each.long_form: each.probabilities[step] for each in path.long_forms}


def plain(
    ranker: PosteriorRanker, text: str, section: str | None, calibration: Calibration
) -> dict[str, float]:
    short_form = "MG" if "MG" in text else "PT"
    start = text.index(short_form)
    mention = Mention(text, start, start + len(short_form), short_form, section)
    ranked = calibration.probabilities(ranker.scores([mention])[0])
    names = [sense.long_form for sense in ranker.inventory.senses(short_form)]
    return dict(zip(names, ranked.tolist(), strict=True))


def test_the_learnt_weight_gives_the_plain_ranking(shipped_ranker: PosteriorRanker) -> None:
    calibration = calibration_of(shipped_ranker.model)
    path = interpolate(shipped_ranker, "MG", section="MEDICATIONS", text=TEXT, calibration=calibration)
    learnt = {each.long_form: each.learnt for each in path.long_forms}
    assert learnt == pytest.approx(plain(shipped_ranker, TEXT, "MEDICATIONS", calibration), abs=1e-6)


def test_it_is_what_the_expander_says(shipped_ranker: PosteriorRanker) -> None:
    note = "MEDICATIONS: MS 2 mg IV for pain."
    senses = SenseInventory.from_senses(
        shipped_inventory()
    )  # an inventory of one's own is ranked without priors
    (expansion, *_) = Expander.from_pretrained(only_inventory=senses)(note)
    calibration, text = calibration_of(shipped_ranker.model), note.removeprefix("MEDICATIONS:")
    path = interpolate(shipped_ranker, "MS", section="MEDICATIONS", text=text, calibration=calibration)
    total = sum(each.probability for each in expansion.candidates)
    said = {each.long_form: each.probability / total for each in expansion.candidates}
    assert {each.long_form: each.learnt for each in path.long_forms} == pytest.approx(said, abs=1e-6)


@settings(max_examples=15)
@given(
    words=st.lists(st.sampled_from("gait stairs warfarin plasma filler unheard-of".split()), max_size=5),
    section=st.sampled_from(["PLAN", "LABS"]),
    steps=st.integers(2, 9),
)
def test_probabilities_sum_to_one_and_the_section_alone_does_not_depend_on_words(
    model: PretrainedModel, words: list[str], section: str, steps: int
) -> None:
    ranker = section_ranker(model, INVENTORY)
    path = interpolate(ranker, "PT", section=section, text=" ".join([*words, "PT", *words]), steps=steps)
    assert path.weights == pytest.approx(np.linspace(0, 1, steps))
    for step in range(steps):
        assert sum(probabilities(path, step).values()) == pytest.approx(1)
    alone = interpolate(ranker, "PT", section=section, steps=2)
    assert probabilities(path, -1) == pytest.approx(probabilities(alone, -1), abs=1e-5)


def test_the_paths_begin_at_the_words_and_end_at_the_section(shipped_ranker: PosteriorRanker) -> None:
    history = interpolate(shipped_ranker, "MG", section="PAST MEDICAL HISTORY")
    imaging = interpolate(shipped_ranker, "MG", section="IMAGING")
    assert probabilities(history, 0) == pytest.approx(probabilities(imaging, 0), abs=1e-5)
    assert probabilities(imaging, -1)["mammogram"] > 0.5
    of_disease = [probabilities(path, -1)["myasthenia gravis"] for path in (history, imaging)]
    assert of_disease[0] > max(0.5, of_disease[1] + 0.2)


def test_no_section_is_null_metadata(shipped_ranker: PosteriorRanker) -> None:
    window = read_window(shipped_ranker, "MG", text=TEXT)
    posterior = cells(shipped_ranker.model, window, np.array([NULL]))
    assert posterior.gate[0] == 0
    path = interpolate(shipped_ranker, "MG", section="IMAGING", text=TEXT)
    other = interpolate(shipped_ranker, "MG", section="MEDICATIONS", text=TEXT)
    assert {each.long_form: each.without_section for each in path.long_forms} == pytest.approx(
        {each.long_form: each.without_section for each in other.long_forms}
    )


def test_paths_are_plain_data(shipped_ranker: PosteriorRanker) -> None:
    path = interpolate(shipped_ranker, "mg", section="Medications", steps=3)
    saved = json.loads(json.dumps(path.to_dict()))
    assert (saved["short_form"], saved["section"], saved["n_words"]) == ("MG", "MEDICATIONS", 0)
    assert [len(each["probabilities"]) for each in saved["long_forms"]] == [3] * 4
    among = interpolate(shipped_ranker, "MG", section="MEDICATIONS", text="daily MG of aspirin", steps=3)
    assert among.n_words == 3  # "of" is read too


def test_the_papers_ranking_meets_the_plain_one_as_well(model: PretrainedModel) -> None:
    ranker = section_ranker(model, INVENTORY)
    text = "clotting PT with warfarin"
    path = interpolate(ranker, "PT", section="LABS", text=text)
    learnt = {each.long_form: each.learnt for each in path.long_forms}
    assert learnt == pytest.approx(plain(ranker, text, "LABS", Calibration()), abs=1e-6)


def test_what_cannot_be_interpolated_is_refused_in_one_line(
    shipped_ranker: PosteriorRanker, small_models: dict[str, PretrainedModel]
) -> None:
    with pytest.raises(InputError, match=r"kind 'bsg'.*Allowed: a model of kind 'lmc'"):
        section_ranker(small_models["bsg"], INVENTORY)
    with pytest.raises(InputError, match="--ranking divergence"):
        section_ranker(shipped_ranker.model, INVENTORY, null_metadata=True)
    with pytest.raises(ConfigError, match="steps: found 1, allowed: 2 to 1,001"):
        interpolate(shipped_ranker, "MG", section="MEDICATIONS", steps=1)
    with pytest.raises(InputError) as refused:
        interpolate(shipped_ranker, "MG", section="MEDICATIONS", text="a secret about OMG")
    assert "secret" not in str(refused.value)


def test_long_forms_under_null_metadata_are_single_cells(model: PretrainedModel) -> None:
    ranker = section_ranker(model, INVENTORY, null_metadata=True)
    window = read_window(ranker, "PT", text="clotting PT with warfarin")
    posterior = cells(model, window, np.array([model.section_ids["LABS"]]))
    path = interpolate(ranker, "PT", section="LABS", text="clotting PT with warfarin")
    divergences = []
    for sense in INVENTORY.senses("PT"):
        words = [
            model.word_ids[word] for form in sense.forms for word in form.split() if word in model.word_ids
        ]
        prior = model.prior.of_vectors(model.prior.phrase(np.array(words)), None)  # type: ignore[union-attr]
        log_ratio = float(posterior.log_variance[0] - prior.log_variance)
        gap = float(((posterior.mean[0] - prior.mean) ** 2).sum() / np.exp(prior.log_variance))
        dim = model.sizes.cell_dim
        divergences.append(0.5 * (dim * np.exp(log_ratio) + gap - dim - dim * log_ratio))
    expected = Calibration().probabilities(-np.array(divergences))
    learnt = {each.long_form: each.learnt for each in path.long_forms}
    names = [sense.long_form for sense in INVENTORY.senses("PT")]
    assert [learnt[name] for name in names] == pytest.approx(expected.tolist(), abs=1e-5)


def test_without_words_the_paper_ranking_reads_the_short_form_itself(model: PretrainedModel) -> None:
    ranker = section_ranker(model, INVENTORY)
    null = np.array([NULL])
    of_word = cells(model, read_window(ranker, "PT"), null)
    of_nothing = cells(model, empty_window(ranker), null)
    assert np.abs(of_word.mean - of_nothing.mean).max() > 1e-4
