"""Small models that were never trained, to look into."""

from pathlib import Path

from expansion.clinic import clinic_corpus, random_model
from lmcells.pretrained import PretrainedModel


def small_model(folder: Path, kind: str = "lmc") -> PretrainedModel:
    """Two sections, PLAN and LABS, each with words of its own."""
    return random_model(folder / "model", clinic_corpus(folder), kind)
