"""The clinic's corpus, and models of it, once for all tests of a process."""

import pytest

from expansion.clinic import clinic_corpus, random_model
from expansion.masked_span_clinic import trained_model
from lmcells.corpus import Corpus
from lmcells.pretrained import PretrainedModel


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return clinic_corpus(tmp_path_factory.mktemp("clinic"))


@pytest.fixture(scope="session")
def plain_model(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    """An LMC that was never trained."""
    return random_model(tmp_path_factory.mktemp("plain") / "model", corpus, "lmc")


@pytest.fixture(scope="session")
def masked_span_model(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> PretrainedModel:
    """A model that ranks by masked spans."""
    return trained_model(tmp_path_factory.mktemp("trained"), corpus)
