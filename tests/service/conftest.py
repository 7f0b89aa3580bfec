"""One small model for all tests of the service."""

from pathlib import Path

import pytest
import torch

from expansion.clinic import INVENTORY, clinic_corpus, random_model
from lmcells import Expander
from lmcells.expansion import save_inventory


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
    return Expander.from_pretrained(folder / "model", inventory=folder / "inventory.csv")
