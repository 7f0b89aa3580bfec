"""Figures: what they say, and that no name covers another."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis.planted import planted_variances
from lmcells.analysis import Row
from lmcells.analysis.cells import WordCells
from lmcells.analysis.figures import (
    draw_gate,
    draw_interpolation,
    draw_nearest_sections,
    draw_senses,
    section_label,
)
from lmcells.analysis.gate import WeighedExample, check_gate, summarise_gate, weigh_alone
from lmcells.analysis.interpolation import interpolate
from lmcells.analysis.mixtures import compare, section_mixture, word_mixture
from lmcells.analysis.names import NULL_SECTION
from lmcells.analysis.point_figures import draw_mixtures, draw_section_map, draw_uncertainty, write_names
from lmcells.analysis.sections import nearest_sections
from lmcells.analysis.senses import word_senses
from lmcells.analysis.uncertainty import associations
from lmcells.errors import MissingExtra
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.figure_style import DPI, label, save_as
from lmcells.pretrained import PretrainedModel

Boxes = npt.NDArray[np.float64]


def drawn_texts(figure: Figure) -> tuple[list[str], Boxes]:
    """The visible texts that are not slanted, and their boxes (n, 4) as saved: left, bottom, right, top, in pixels."""
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    shown = [
        text
        for text in figure.findobj(Text)
        if text.get_text().strip() and text.get_visible() and not text.get_rotation() % 90
    ]
    boxes = [text.get_window_extent(canvas.get_renderer()).extents for text in shown]
    return [text.get_text() for text in shown], np.array(boxes)


def overlapping(boxes: Boxes) -> list[tuple[int, int]]:
    """The pairs of boxes that overlap."""
    return [
        (first, second)
        for first in range(len(boxes))
        for second in range(first)
        if (boxes[first, :2] < boxes[second, 2:]).all() and (boxes[second, :2] < boxes[first, 2:]).all()
    ]


def svg_texts(figure: Figure, path: Path) -> list[str]:
    save_as(figure, path)
    return ["".join(text.itertext()) for text in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def empty_figure() -> Figure:
    figure = Figure(figsize=(3, 2.5), dpi=DPI)
    figure.add_axes((0, 0, 1, 1)).set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])
    return figure


def test_marks_without_a_name_get_none_and_are_not_covered() -> None:
    figure = empty_figure()
    places = np.array([[0.5, 0.5], [0.62, 0.5]])
    assert write_names(figure.axes[0], ["left", ""], places, radii=[2, 6]) == 1
    texts, (box,) = drawn_texts(figure)
    assert texts == ["left"]
    covered = figure.axes[0].transData.transform(places[1])
    assert not (box[0] <= covered[0] <= box[2] and box[1] <= covered[1] <= box[3])


def test_in_a_crowd_no_name_covers_another_and_those_without_room_are_left_out() -> None:
    figure = empty_figure()
    places = np.random.default_rng(0).uniform(0.1, 0.9, (40, 2))
    names = [f"ILLIMITABLE SECTION {number}" for number in range(40)]
    n_written = write_names(figure.axes[0], names, places, radii=[1.5] * 40, font_size=6)
    texts, boxes = drawn_texts(figure)
    assert 10 < len(texts) == n_written < 40
    assert overlapping(boxes) == []
    assert (boxes >= 0).all()
    assert (boxes[:, 2:] <= figure.bbox.size).all()


def test_without_adjusttext_names_are_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adjustText", None)
    with pytest.raises(MissingExtra, match=r"Drawing names needs adjustText.*lmcells\[report\]"):
        write_names(empty_figure().axes[0], ["left"], np.array([[0.5, 0.5]]), radii=[2])


def test_text_without_a_header_is_named_in_words() -> None:
    names = (NULL_SECTION, "<no section>", "<other>", "PLAN")
    assert [section_label(name) for name in names] == ["no section", "no section", "rare sections", "PLAN"]


def test_no_two_names_on_the_map_overlap(mapped: Row) -> None:
    figure = draw_section_map(mapped)
    texts, boxes = drawn_texts(figure)
    n_named = len(figure.axes[0].texts)
    assert overlapping(boxes) == []
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= figure.bbox.size).all()
    assert len(texts) - len(mapped.clusters) - 2 == n_named  # less the legend, its title and the note
    assert n_named > 0.6 * len(mapped.sections)
    assert any(f"{n_named} of {len(mapped.sections)} sections named" in text for text in texts)


def test_the_figure_of_nearest_sections_names_them_all(shipped: PretrainedModel) -> None:
    found = nearest_sections(shipped, "ALLERGIES", n=5)
    texts, boxes = drawn_texts(draw_nearest_sections(found))
    assert {label(each.section) for each in (*found.variational, *found.prior)} <= set(texts)
    assert {"variational network", "model network"} <= set(texts)
    assert overlapping(boxes) == []


@pytest.mark.parametrize(("n_words", "n_sections"), [(1, 1), (12, 3), (30, 1)])
def test_no_two_numbers_or_names_of_senses_overlap(
    shipped_cells: WordCells, n_words: int, n_sections: int
) -> None:
    senses = word_senses(shipped_cells, "history", n_words=n_words, n_sections=n_sections)
    texts, boxes = drawn_texts(draw_senses(senses))
    assert len(texts) > 2 * n_sections * n_words  # two numbers a cell
    assert overlapping(boxes) == []
    assert {*(label(sense.section or "") for sense in senses.sections), "average"} <= set(texts)


def test_the_figure_of_the_gate_names_the_sections(
    shipped_ranker: PosteriorRanker, of_note: list[WeighedExample], tmp_path: Path
) -> None:
    summary, alone = summarise_gate(shipped_ranker, of_note), weigh_alone(shipped_ranker)
    figure = draw_gate(summary, check_gate(of_note, summary, alone), alone)
    drawn = " ".join(svg_texts(figure, tmp_path / "gate.svg"))
    for name in ("ANESTHESIA", "MEDICATIONS", "Weight of the section", "Tokens in training", "ρ = −"):
        assert name in drawn
    assert "mathdefault" not in drawn


@pytest.mark.parametrize("sections", [["MEDICATIONS"], ["IMAGING", "MEDICATIONS", "PLAN", "LABORATORY DATA"]])
def test_the_figure_of_an_interpolation_names_sections_and_long_forms(
    shipped_ranker: PosteriorRanker, tmp_path: Path, sections: list[str]
) -> None:
    paths = [interpolate(shipped_ranker, "MS", section=section) for section in sections]
    drawn = " ".join(svg_texts(draw_interpolation(paths), tmp_path / "ms.svg"))
    for name in ("Probability", "Weight of the section", "others"):
        assert name in drawn
    for path in paths:
        ends = {max(path.long_forms, key=lambda each: each.probabilities[end]).long_form for end in (0, -1)}
        assert all(name in drawn for name in ends)  # the most probable by the words, and by the section
        assert f"MS in {path.section}" in drawn
        assert f"learnt {path.learnt_weight:.2f}" in drawn


def test_several_mixtures_show_their_parts_and_their_divergences(
    model: PretrainedModel, tmp_path: Path
) -> None:
    marginals = [section_mixture(model, name) for name in ("LABS", "PLAN")]
    divergences = compare(marginals, n_samples=200).divergences
    written = svg_texts(draw_mixtures(marginals, divergences, part="word"), tmp_path / "mixtures.svg")
    assert written.count("LABS") == written.count("PLAN") == 3  # on the plane and at both sides of the matrix
    assert marginals[0].parts[0] in written
    assert f"{divergences[0].sampled['value']:.2f}" in " ".join(written)
    assert any(text.startswith("a  Means by word") for text in written)


@pytest.mark.parametrize("word", ["pt", "gait"])  # of two components and of one
def test_one_mixture_has_a_plane_alone(model: PretrainedModel, word: str, tmp_path: Path) -> None:
    figure = draw_mixtures([word_mixture(model, word)], [], part="section")
    assert len(figure.axes) == 1
    assert word in svg_texts(figure, tmp_path / "one.svg")


def test_no_name_of_a_mixture_covers_another(shipped: PretrainedModel) -> None:
    words = ("cold", "fever", "discharge", "culture")
    marginals = [word_mixture(shipped, word) for word in words]
    figure = draw_mixtures(marginals, compare(marginals, n_samples=20).divergences, part="section")
    texts, boxes = drawn_texts(figure)
    assert [(texts[one], texts[other]) for one, other in overlapping(boxes)] == []
    names = [text.get_text() for text in figure.axes[0].texts]
    assert set(words) <= set(names) <= set(texts)
    assert len(names) >= 16


def test_the_figure_of_uncertainty_names_words_and_correlations(tmp_path: Path) -> None:
    variances = planted_variances()
    found = associations(variances, n_resamples=50)
    first, second = tmp_path / "first.svg", tmp_path / "second.svg"
    for path in (first, second):
        figure = draw_uncertainty(variances, found, named=[variances[3], variances[7]])
        written = svg_texts(figure, path)
    assert first.read_bytes() == second.read_bytes()
    assert written.count("w3") == 4  # panels by frequency and by sections, of two variances
    rho = next(each.rho for each in found if (each.variance, each.against) == ("between", "sections"))
    assert f"e  ρ = {rho.estimate:.2f} [{rho.low:.2f}, {rho.high:.2f}]" in written
    assert not any("mathdefault" in text for text in written)
