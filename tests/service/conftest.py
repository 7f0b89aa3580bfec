"""The models that all tests of the service share."""

from pathlib import Path

import pytest
import torch

from analysis.planted import planted_model
from expansion.clinic import INVENTORY, clinic_corpus, random_model
from lmcells import Expander
from lmcells.expansion import save_inventory
from service.serving import PLANTED


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `model` and `inventory.csv`."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("service")
    random_model(folder / "model", clinic_corpus(folder / "corpus"), "lmc")
    save_inventory(INVENTORY, folder / "inventory.csv")
    return folder


@pytest.fixture(scope="session")
def expander(folder: Path) -> Expander:
    return Expander.from_pretrained(folder / "model", only_inventory=folder / "inventory.csv")


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Expander:
    """A model set by hand: "history" is near smoking under SOCIAL HISTORY, near mother under FAMILY HISTORY."""
    torch.manual_seed(0)
    return Expander(planted_model(tmp_path_factory.mktemp("planted")), PLANTED)
