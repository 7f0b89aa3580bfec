"""`lmcells train --kind elmo`: a corpus -> the paper's language-model baseline."""

import argparse
from pathlib import Path
from typing import Any

from lmcells.cli.progress import ProgressLine
from lmcells.corpus import Corpus
from lmcells.language_model.configuration import load_language_model_configuration
from lmcells.language_model.folder import save_language_model
from lmcells.language_model.train import LanguageModelProgress, train_language_model
from lmcells.model import count_parameters


def train_elmo(
    options: argparse.Namespace, *, corpus: Corpus, run_folder: Path, overrides: list[str], line: ProgressLine
) -> dict[str, Any]:
    """Train and save a language model; return what the command prints in the end."""
    configuration = load_language_model_configuration(
        preset=options.preset,
        file=options.config,
        overrides=[override for override in overrides if override != "model.kind=elmo"],
    )
    config = configuration.config(corpus)
    result = train_language_model(
        corpus,
        config=config,
        settings=configuration.training,
        output=run_folder,
        device=options.device,
        resume=options.resume,
        on_progress=lambda progress: line.update(elmo_progress_message(progress)),
    )
    known = {
        "steps": result.n_steps,
        "words": result.n_words,
        "seconds": result.seconds,
        "held_out_loss": result.held_out_loss,
        "is_flat": result.is_flat,
        "parameters": count_parameters(result.model),
    }
    settings = configuration.training.to_dict()
    training = {"seed": configuration.training.seed, "settings": settings, **known}
    save_language_model(result.model, options.output, corpus=corpus, training=training, overwrite=True)
    return {"model": str(options.output), "kind": "elmo", "encoder": config.kind, **known}


def elmo_progress_message(progress: LanguageModelProgress) -> str:
    """One line about a run."""
    parts = [
        f"epoch {progress.epoch}/{progress.n_epochs}",
        f"step {progress.step:,}",
        f"{progress.words_per_second:,.0f} words/s",
        f"loss {progress.loss:.3f}",
    ]
    if progress.best_held_out_loss is not None:
        parts.append(f"held out {progress.best_held_out_loss:.3f}")
    parts.append(f"{progress.peak_memory / 1e9:.1f} GB")
    return ", ".join(parts)
