"""Models that several tests look into, opened once."""

import pytest

from analysis.planted import planted_model
from analysis.short_note import NOTE
from lmcells.analysis.cells import WordCells
from lmcells.analysis.gate import WeighedExample, places_in_notes, weigh
from lmcells.analysis.interpolation import section_ranker
from lmcells.expansion.expander import shipped_inventory
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.notes.note import Note
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import shipped_model


@pytest.fixture(scope="session")
def shipped() -> PretrainedModel:
    return PretrainedModel.from_pretrained(shipped_model())


@pytest.fixture(scope="session")
def shipped_cells(shipped: PretrainedModel) -> WordCells:
    return WordCells(shipped)


@pytest.fixture(scope="session")
def shipped_ranker(shipped: PretrainedModel) -> PosteriorRanker:
    return section_ranker(shipped, shipped_inventory())


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    return planted_model(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="session")
def cells(planted: PretrainedModel) -> WordCells:
    return WordCells(planted)


@pytest.fixture(scope="session")
def of_note(shipped_ranker: PosteriorRanker) -> list[WeighedExample]:
    return list(weigh(shipped_ranker, places_in_notes([Note("n/1", NOTE)], shipped_ranker.inventory)))
