"""The figure of mixtures: what it says, and that no name covers another."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from analysis.small_models import small_model
from lmcells.analysis.figure_labels import overlapping
from lmcells.analysis.figures import draw_mixtures
from lmcells.analysis.mixtures import compare, section_mixture, word_mixture
from lmcells.figure_style import save_as
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import shipped_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    return small_model(tmp_path_factory.mktemp("lmc"))


def texts(path: Path) -> list[str]:
    return ["".join(text.itertext()) for text in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def name_boxes(figure: Figure) -> list[list[float]]:
    boxes = [
        text.get_window_extent().extents
        for text in figure.axes[0].texts
        if isinstance(text, Annotation) and text.get_text()
    ]
    return [list(map(float, box)) for box in boxes]


def test_several_mixtures_show_their_parts_and_their_divergences(
    model: PretrainedModel, tmp_path: Path
) -> None:
    comparison = compare([section_mixture(model, name) for name in ("LABS", "PLAN")], n_samples=200)
    save_as(draw_mixtures(comparison, part="word"), tmp_path / "mixtures.svg")
    written = texts(tmp_path / "mixtures.svg")
    assert (
        written.count("LABS") == written.count("PLAN") == 3
    )  # on the plane, and at both sides of the matrix
    assert comparison.marginals[0].parts[0] in written
    assert f"{comparison.divergences[0, 1].sampled.value:.2f}" in " ".join(written)
    assert any(text.startswith("a  Means by word") for text in written)


def test_one_mixture_has_a_plane_alone(model: PretrainedModel, tmp_path: Path) -> None:
    figure = draw_mixtures(compare([word_mixture(model, "pt")], n_samples=20), part="section")
    assert len(figure.axes) == 1
    save_as(figure, tmp_path / "one.pdf")
    one_component = draw_mixtures(compare([word_mixture(model, "gait")], n_samples=20), part="section")
    save_as(one_component, tmp_path / "gait.png")


def test_no_name_covers_another_in_a_crowd(tmp_path: Path) -> None:
    shipped = PretrainedModel.from_pretrained(shipped_model())
    words = ("cold", "fever", "discharge", "culture", "history", "depression")
    comparison = compare([word_mixture(shipped, word) for word in words], n_samples=20)
    figure = draw_mixtures(comparison, part="section")
    save_as(figure, tmp_path / "crowd.svg")
    boxes = name_boxes(figure)
    assert len(boxes) >= 20
    assert overlapping(np.array(boxes) + np.array([0.5, 0.5, -0.5, -0.5])) == []
    assert set(words) <= set(texts(tmp_path / "crowd.svg"))
