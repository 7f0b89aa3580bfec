"""The figure of the gate."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lmcells.analysis.gate import WeighedExample, check_gate, summarise_gate, weigh_alone
from lmcells.expansion.ranking import PosteriorRanker


def test_the_figure_names_the_sections(
    shipped_ranker: PosteriorRanker, of_note: list[WeighedExample], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    from lmcells.analysis.figures import draw_gate
    from lmcells.figure_style import save_as

    summary, alone = summarise_gate(shipped_ranker, of_note), weigh_alone(shipped_ranker)
    save_as(draw_gate(summary, check_gate(of_note, summary, alone), alone), tmp_path / "gate.svg")
    svg = ET.parse(tmp_path / "gate.svg").iter("{http://www.w3.org/2000/svg}text")
    drawn = " ".join(text.text or "" for text in svg)
    for name in ("ANESTHESIA", "MEDICATIONS", "Weight of the section", "Tokens in training", "ρ = −"):
        assert name in drawn
    assert "mathdefault" not in drawn
