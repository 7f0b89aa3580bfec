"""A model of few words with random weights, and one without metadata beside it."""

import pytest
import torch

from expansion.clinic import clinic_corpus, random_model
from lmcells.pretrained import PretrainedModel


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("interpolation")
    corpus = clinic_corpus(folder / "corpus")
    random_model(folder / "bsg", corpus, "bsg")
    return random_model(folder / "lmc", corpus, "lmc")
