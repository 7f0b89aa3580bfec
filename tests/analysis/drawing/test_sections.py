"""Figures of sections: names that can be read."""

import pytest

from analysis.drawn import drawn_texts
from lmcells.analysis.figure_labels import overlapping
from lmcells.analysis.sections import SectionMap, map_sections, nearest_sections
from lmcells.figure_style import label
from lmcells.pretrained import PretrainedModel


@pytest.fixture(scope="module")
def mapped(shipped: PretrainedModel) -> SectionMap:
    return map_sections(shipped)


def test_no_two_names_on_the_map_overlap(mapped: SectionMap) -> None:
    from lmcells.analysis.figures import draw_section_map

    drawn = draw_section_map(mapped)
    texts, boxes = drawn_texts(drawn.figure)
    assert overlapping(boxes) == []
    assert (boxes[:, :2] >= 0).all()
    assert (boxes[:, 2:] <= drawn.figure.bbox.size).all()
    n_beside = len(texts) - len(mapped.clusters) - 2  # less the legend, its title and the note
    assert n_beside == drawn.n_labelled
    assert 100 < drawn.n_labelled < len(mapped.sections)
    assert any(f"{drawn.n_labelled} of 200 sections named" in text for text in texts)
    often = {section.section for section in mapped.sections[:20]}
    assert len(often & set(texts)) >= 16  # frequent sections come first


def test_the_figure_of_neighbors_names_them_all(shipped: PretrainedModel) -> None:
    from lmcells.analysis.figures import draw_nearest_sections

    found = nearest_sections(shipped, "ALLERGIES", n=5)
    texts, boxes = drawn_texts(draw_nearest_sections(found))
    assert {label(each.section) for each in (*found.variational, *found.prior)} <= set(texts)
    assert {"variational network", "model network"} <= set(texts)
    assert overlapping(boxes) == []
