"""`lmcells train --kind elmo`: a corpus -> the paper's language-model baseline."""

import argparse
from pathlib import Path
from typing import Any

from lmcells.cli.terminal import ProgressLine
from lmcells.corpus import Corpus
from lmcells.evaluation.evaluate import elmo_evaluation_hook
from lmcells.language_model.config import load_language_model_configuration
from lmcells.language_model.folder import save_language_model
from lmcells.language_model.train import LanguageModelProgress, language_model_record, train_language_model
from lmcells.training.loop import printed_record


def train_elmo(
    options: argparse.Namespace, *, corpus: Corpus, run_folder: Path, overrides: list[str], line: ProgressLine
) -> dict[str, Any]:
    """Train and save a language model; return what the command prints in the end."""
    configuration = load_language_model_configuration(
        preset=options.preset,
        file=options.config,
        overrides=[override for override in overrides if override != "model.kind=elmo"],
    )
    config, settings = configuration.config(corpus), configuration.training
    hook = None
    if options.evaluate:
        hook = elmo_evaluation_hook(options.evaluate, inventory=options.inventory, corpus=corpus)
    result = train_language_model(
        corpus,
        config=config,
        settings=settings,
        output=run_folder,
        device=options.device,
        resume=options.resume,
        on_progress=lambda progress: line.update(elmo_progress_message(progress)),
        evaluate=hook,
    )
    record = language_model_record(result, settings=settings)
    save_language_model(result.model, options.output, corpus=corpus, training=record, overwrite=True)
    printed = printed_record(record)
    return {"model": str(options.output), "kind": "elmo", "encoder": config.kind, **printed}


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
