"""The figure of uncertainty: the words asked for are named, the correlations written, the file small."""

import xml.etree.ElementTree as ET
from pathlib import Path

from analysis.planted_variances import planted_variances
from lmcells.analysis.figures import draw_uncertainty
from lmcells.figure_style import save_as


def texts(path: Path) -> list[str]:
    return ["".join(text.itertext()) for text in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_the_figure_names_the_words_asked_for_and_says_the_correlations(tmp_path: Path) -> None:
    variances = planted_variances()
    associations = variances.associations(n_resamples=50)
    figure = draw_uncertainty(variances, associations, named=[variances.of(3), variances.of(7)])
    save_as(figure, tmp_path / "uncertainty.svg")
    written = texts(tmp_path / "uncertainty.svg")
    assert sum(text == "w3" for text in written) == 4  # panels by frequency and by sections, of two variances
    rho = next(each.rho for each in associations if (each.variance, each.against) == ("between", "sections"))
    assert f"e  ρ = {rho.estimate:.2f} [{rho.low:.2f}, {rho.high:.2f}]" in written
    assert not any("mathdefault" in text for text in written)
    again = tmp_path / "again.svg"
    save_as(draw_uncertainty(variances, associations, named=[variances.of(3), variances.of(7)]), again)
    assert again.read_bytes() == (tmp_path / "uncertainty.svg").read_bytes()
