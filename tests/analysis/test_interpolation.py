"""Moving the gate by hand: it ends where it should, meets the plain ranking on the way, and is drawn with its names."""

import json
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from expansion.clinic import INVENTORY, clinic_corpus, random_model
from lmcells.analysis.interpolation import Interpolation, interpolate
from lmcells.analysis.one_window import cells, empty_window, read_window
from lmcells.analysis.rankings import calibration_of, section_ranker
from lmcells.errors import ConfigError, InputError, UnknownShortForm
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.context import Mention
from lmcells.expansion.expander import Expander, shipped_inventory
from lmcells.expansion.posterior_ranking import PosteriorRanker
from lmcells.expansion.section_ids import NULL
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.shipped import shipped_model

TEXT = "warfarin, MG for the bleeding gait"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def shipped() -> PosteriorRanker:
    return section_ranker(PretrainedModel.from_pretrained(shipped_model()), shipped_inventory())


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("interpolation")
    corpus = clinic_corpus(folder / "corpus")
    random_model(folder / "bsg", corpus, "bsg")
    return random_model(folder / "lmc", corpus, "lmc")


def probabilities(path: Interpolation, step: int) -> dict[str, float]:
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


def test_the_learnt_weight_gives_the_plain_ranking(shipped: PosteriorRanker) -> None:
    calibration = calibration_of(shipped.model)
    path = interpolate(shipped, "MG", section="MEDICATIONS", text=TEXT, calibration=calibration)
    learnt = {each.long_form: each.learnt for each in path.long_forms}
    assert learnt == pytest.approx(plain(shipped, TEXT, "MEDICATIONS", calibration), abs=1e-6)


def test_the_learnt_weight_by_hand_is_the_learnt_weight(shipped: PosteriorRanker) -> None:
    window = read_window(shipped, "MG", text=TEXT)
    section = np.array([shipped.model.section_ids["MEDICATIONS"]])
    learnt = cells(shipped.model, window, section)
    by_hand = cells(shipped.model, window, section, gate=learnt.gate)
    np.testing.assert_allclose(by_hand.mean, learnt.mean, atol=1e-6)


def test_it_is_what_the_expander_says(shipped: PosteriorRanker) -> None:
    note = "MEDICATIONS: MS 2 mg IV for pain."
    (expansion, *_) = Expander.from_pretrained()(note)
    path = interpolate(
        shipped,
        "MS",
        section="MEDICATIONS",
        text=note.removeprefix("MEDICATIONS:"),
        calibration=calibration_of(shipped.model),
    )
    said = {each.long_form: each.probability for each in expansion.candidates}
    assert {each.long_form: each.learnt for each in path.long_forms} == pytest.approx(said, abs=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    words=st.lists(st.sampled_from("gait stairs warfarin plasma filler unheard-of".split()), max_size=5),
    section=st.sampled_from(["PLAN", "LABS"]),
    steps=st.integers(2, 9),
)
def test_probabilities_sum_to_one_and_the_section_alone_does_not_depend_on_words(
    small: PretrainedModel, words: list[str], section: str, steps: int
) -> None:
    ranker = section_ranker(small, INVENTORY)
    path = interpolate(ranker, "PT", section=section, text=" ".join([*words, "PT", *words]), steps=steps)
    assert path.weights == pytest.approx(np.linspace(0, 1, steps))
    for step in range(steps):
        assert sum(probabilities(path, step).values()) == pytest.approx(1)
    alone = interpolate(ranker, "PT", section=section, steps=2)
    assert probabilities(path, -1) == pytest.approx(probabilities(alone, -1), abs=1e-5)


def test_the_paths_begin_at_the_words_and_end_at_the_section(shipped: PosteriorRanker) -> None:
    medications = interpolate(shipped, "MG", section="DISCHARGE MEDICATIONS")
    imaging = interpolate(shipped, "MG", section="IMAGING")
    assert probabilities(medications, 0) == pytest.approx(probabilities(imaging, 0), abs=1e-5)
    assert medications.long_forms[0].long_form == "milligram"
    assert imaging.long_forms[0].long_form == "mammogram"
    assert probabilities(medications, -1)["milligram"] > 0.5
    assert probabilities(imaging, -1)["mammogram"] > 0.5


def test_no_section_is_null_metadata(shipped: PosteriorRanker) -> None:
    window = read_window(shipped, "MG", text=TEXT)
    posterior = cells(shipped.model, window, np.array([NULL]))
    assert posterior.gate[0] == 0
    path = interpolate(shipped, "MG", section="IMAGING", text=TEXT)
    other = interpolate(shipped, "MG", section="MEDICATIONS", text=TEXT)
    assert {each.long_form: each.without_section for each in path.long_forms} == pytest.approx(
        {each.long_form: each.without_section for each in other.long_forms}
    )


def test_it_takes_less_than_fifty_milliseconds(shipped: PosteriorRanker) -> None:
    def seconds() -> float:
        begin = time.process_time()
        interpolate(shipped, "MG", section="MEDICATIONS", text=TEXT)
        return time.process_time() - begin

    assert min(seconds() for _ in range(5)) < 0.05


def test_paths_are_plain_data(shipped: PosteriorRanker) -> None:
    path = interpolate(shipped, "mg", section="Medications", steps=3)
    saved = json.loads(json.dumps(path.to_dict()))
    assert (saved["short_form"], saved["section"], saved["n_words"]) == ("MG", "MEDICATIONS", 0)
    assert [len(each["probabilities"]) for each in saved["long_forms"]] == [3] * 4
    assert interpolate(shipped, "MG", section="MEDICATIONS", text="daily MG of aspirin", steps=3).n_words == 2


def test_the_papers_ranking_meets_the_plain_one_as_well(small: PretrainedModel) -> None:
    ranker = section_ranker(small, INVENTORY)
    text = "clotting PT with warfarin"
    path = interpolate(ranker, "PT", section="LABS", text=text)
    learnt = {each.long_form: each.learnt for each in path.long_forms}
    assert learnt == pytest.approx(plain(ranker, text, "LABS", Calibration()), abs=1e-6)


def test_without_words_the_paper_ranking_reads_the_short_form_itself(small: PretrainedModel) -> None:
    ranker = section_ranker(small, INVENTORY)
    null = np.array([NULL])
    of_word = cells(small, read_window(ranker, "PT"), null)
    of_nothing = cells(small, empty_window(ranker), null)
    assert np.abs(of_word.mean - of_nothing.mean).max() > 1e-4


def test_long_forms_under_null_metadata_are_single_cells(small: PretrainedModel) -> None:
    ranker = section_ranker(small, INVENTORY, null_metadata=True)
    window = read_window(ranker, "PT", text="clotting PT with warfarin")
    posterior = cells(small, window, np.array([small.section_ids["LABS"]]))
    path = interpolate(ranker, "PT", section="LABS", text="clotting PT with warfarin")
    divergences = []
    for sense in INVENTORY.senses("PT"):
        words = [
            small.word_ids[word] for form in sense.forms for word in form.split() if word in small.word_ids
        ]
        prior = small.prior.of_vectors(small.prior.phrase(np.array(words)), None)  # type: ignore[union-attr]
        log_ratio = float(posterior.log_variance[0] - prior.log_variance)
        gap = float(((posterior.mean[0] - prior.mean) ** 2).sum() / np.exp(prior.log_variance))
        dim = small.sizes.cell_dim
        divergences.append(0.5 * (dim * np.exp(log_ratio) + gap - dim - dim * log_ratio))
    expected = Calibration().probabilities(-np.array(divergences))
    learnt = {each.long_form: each.learnt for each in path.long_forms}
    names = [sense.long_form for sense in INVENTORY.senses("PT")]
    assert [learnt[name] for name in names] == pytest.approx(expected.tolist(), abs=1e-5)


def test_what_cannot_be_interpolated_is_refused_in_one_line(
    shipped: PosteriorRanker, small: PretrainedModel
) -> None:
    bsg = PretrainedModel.from_pretrained(small.folder.parent / "bsg")
    with pytest.raises(InputError, match=r"kind 'bsg'.*Allowed: a model of kind 'lmc'"):
        section_ranker(bsg, INVENTORY)
    with pytest.raises(InputError, match="--ranking divergence"):
        section_ranker(shipped.model, INVENTORY, null_metadata=True)
    with pytest.raises(UnknownShortForm, match="Nearest: 'MG'"):
        interpolate(shipped, "MGX", section="MEDICATIONS")
    with pytest.raises(InputError, match="Nearest: MEDICATIONS"):
        interpolate(shipped, "MG", section="MEDICATONS")
    with pytest.raises(ConfigError, match="steps: found 1, allowed: 2 to 1,001"):
        interpolate(shipped, "MG", section="MEDICATIONS", steps=1)
    with pytest.raises(InputError) as refused:
        interpolate(shipped, "MG", section="MEDICATIONS", text="a secret about OMG")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("sections", [["MEDICATIONS"], ["IMAGING", "MEDICATIONS", "PLAN", "LABORATORY DATA"]])
def test_the_figure_names_sections_and_long_forms(
    shipped: PosteriorRanker, tmp_path: Path, sections: list[str]
) -> None:
    pytest.importorskip("matplotlib")
    from lmcells.analysis.drawing_interpolation import draw_interpolation
    from lmcells.figure_style import save_as

    paths = [interpolate(shipped, "MS", section=section) for section in sections]
    save_as(draw_interpolation(paths), tmp_path / "ms.svg")
    drawn = " ".join(text.text or "" for text in ET.parse(tmp_path / "ms.svg").iter(f"{SVG}text"))
    for name in ("musculoskeletal", "morphine sulfate", "Probability", "Weight of the section", "others"):
        assert name in drawn
    for path in paths:
        assert f"MS in {path.section}" in drawn
        assert f"learnt {path.learnt_weight:.2f}" in drawn
