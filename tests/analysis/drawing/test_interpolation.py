"""The figure of a path from the words to the section."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lmcells.analysis.interpolation import interpolate
from lmcells.expansion.ranking import PosteriorRanker

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("sections", [["MEDICATIONS"], ["IMAGING", "MEDICATIONS", "PLAN", "LABORATORY DATA"]])
def test_the_figure_names_sections_and_long_forms(
    shipped_ranker: PosteriorRanker, tmp_path: Path, sections: list[str]
) -> None:
    pytest.importorskip("matplotlib")
    from lmcells.analysis.figures import draw_interpolation
    from lmcells.figure_style import save_as

    paths = [interpolate(shipped_ranker, "MS", section=section) for section in sections]
    save_as(draw_interpolation(paths), tmp_path / "ms.svg")
    drawn = " ".join(text.text or "" for text in ET.parse(tmp_path / "ms.svg").iter(f"{SVG}text"))
    for name in ("musculoskeletal", "morphine sulfate", "Probability", "Weight of the section", "others"):
        assert name in drawn
    for path in paths:
        assert f"MS in {path.section}" in drawn
        assert f"learnt {path.learnt_weight:.2f}" in drawn
