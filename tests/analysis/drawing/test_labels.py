"""Names beside points: none covers another or a mark, whatever the dpi of the figure they were placed in."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.drawn import drawn_texts
from lmcells.analysis.figure_labels import overlapping, section_label, write_names
from lmcells.analysis.names import NULL_SECTION


def test_marks_without_a_name_get_none_and_are_not_covered() -> None:
    figure = Figure(figsize=(3, 2))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])
    places = np.array([[0.5, 0.5], [0.62, 0.5]])
    assert write_names(axes, ["left", ""], places, radii=[2, 6]) == 1
    texts, (box,) = drawn_texts(figure)
    assert texts == ["left"]
    covered = axes.transData.transform(places[1])
    assert not (box[0] <= covered[0] <= box[2] and box[1] <= covered[1] <= box[3])


@pytest.mark.parametrize("dpi", [50, 72, 100, 200])
def test_names_have_the_room_that_they_will_take_when_saved(dpi: int) -> None:
    figure = Figure(figsize=(5, 4), dpi=dpi)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])
    places = np.random.default_rng(0).uniform(0.1, 0.9, (60, 2))
    names = [f"ILLIMITABLE SECTION {number}" for number in range(60)]
    n_written = write_names(axes, names, places, radii=[1.5] * 60, font_size=6)
    texts, boxes = drawn_texts(figure)
    assert len(texts) == n_written > 20
    assert overlapping(boxes) == []


def test_what_has_no_header_is_named_in_words() -> None:
    assert [section_label(name) for name in (NULL_SECTION, "<no section>", "<other>", "PLAN")] == [
        "no section",
        "no section",
        "rare sections",
        "PLAN",
    ]
