"""Models that several tests look into, opened once."""

import pytest

from analysis.planted import NOTE, planted_model
from expansion.clinic import clinic_corpus, random_model
from lmcells.analysis import Row
from lmcells.analysis.cells import WordCells
from lmcells.analysis.gate import WeighedExample, occurrences_in, weigh
from lmcells.analysis.interpolation import section_ranker
from lmcells.analysis.sections import map_sections
from lmcells.expansion.layers import shipped_inventory
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
def mapped(shipped: PretrainedModel) -> Row:
    return map_sections(shipped, n_sections=80)


@pytest.fixture(scope="session")
def of_note(shipped_ranker: PosteriorRanker) -> list[WeighedExample]:
    return list(weigh(shipped_ranker, occurrences_in([Note("n/1", NOTE)], shipped_ranker.inventory)))


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    return planted_model(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="session")
def cells(planted: PretrainedModel) -> WordCells:
    return WordCells(planted)


@pytest.fixture(scope="session")
def small_models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PretrainedModel]:
    """Untrained models of each kind, with two sections, PLAN and LABS, that have words of their own."""
    folder = tmp_path_factory.mktemp("small")
    corpus = clinic_corpus(folder / "corpus")
    return {kind: random_model(folder / kind, corpus, kind) for kind in ("lmc", "bsg", "mbsge")}


@pytest.fixture(scope="session")
def model(small_models: dict[str, PretrainedModel]) -> PretrainedModel:
    return small_models["lmc"]
