"""What a language model's folder says about how it was trained."""

from typing import Any

from lmcells.language_model.settings import LanguageModelSettings
from lmcells.language_model.train import LanguageModelResult
from lmcells.model import count_parameters
from lmcells.training.record import run_record


def language_model_record(result: LanguageModelResult, *, settings: LanguageModelSettings) -> dict[str, Any]:
    """What is known of every run, why this one ended, and what came of it, as plain data for JSON."""
    return {
        **run_record(result, settings=settings),
        "words": result.n_words,
        "held_out_loss": result.held_out_loss,
        "ended_by": result.ending,
        "parameters": count_parameters(result.model),
    }
