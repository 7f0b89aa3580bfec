"""`lmcells train --kind lmc|bsg|mbsge`: a corpus -> a cell model."""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lmcells.cli.terminal import ProgressLine
from lmcells.corpus import Corpus
from lmcells.evaluation.evaluate import evaluation_hook
from lmcells.expansion.expander import shipped_inventory
from lmcells.expansion.inventory import SenseInventory, load_inventory
from lmcells.expansion.long_forms import Wording, with_plurals, wordings
from lmcells.pretrained import save_pretrained
from lmcells.training import Progress, load_configuration, train
from lmcells.training.loop import printed_record, training_record
from lmcells.training.prototypes import MAX_PROTOTYPES, build_prototypes


def train_cells(
    options: argparse.Namespace, *, corpus: Corpus, run_folder: Path, overrides: list[str], line: ProgressLine
) -> dict[str, Any] | None:
    """Train and save a cell model; return what the command prints in the end, None but in the main process."""
    configuration = load_configuration(preset=options.preset, file=options.config, overrides=overrides)
    settings = configuration.training
    inventories = [load_inventory(path) for path in options.long_forms]
    hook = None
    if options.evaluate:
        hook = evaluation_hook(
            options.evaluate, inventory=options.inventory, corpus=corpus, metadata_kind=settings.metadata
        )
    config = configuration.model_config(corpus)
    is_main = int(os.environ.get("RANK", "0")) == 0
    if is_main and config.kind != "bsg" and corpus.n_metadata(settings.metadata) == 1:
        print(
            f"lmcells train: {corpus.folder} has one value of {settings.metadata!r} only, which tells nothing. Take a "
            f"kind that varies ({', '.join(corpus.metadata_kinds)}): training.metadata, or train --kind bsg.",
            file=sys.stderr,
        )
    result = train(
        corpus,
        model_config=config,
        settings=settings,
        output=run_folder,
        device=options.device,
        resume=options.resume,
        on_progress=lambda progress: line.update(progress_message(progress)),
        evaluate=hook,
    )
    if not is_main:
        return None
    record = training_record(result, settings=settings)
    prototypes = None
    if result.model.phrases is not None and settings.n_contrastive_spans:
        line.update("reading the places of frequent words and phrases")
        prototypes = build_prototypes(
            result.model,
            corpus,
            settings=settings,
            long_forms=_long_forms([shipped_inventory(), *inventories], stop_words=corpus.reads_stop_words),
            max_prototypes=MAX_PROTOTYPES if options.prototypes is None else options.prototypes,
        )
    save_pretrained(
        result.model,
        options.output,
        corpus=corpus,
        metadata_kind=settings.metadata,
        training=record,
        prototypes=prototypes,
        dtype=options.dtype,
        overwrite=True,  # of a finished run that went on for more epochs
    )
    printed = printed_record(record)
    losses = printed.pop("losses")
    return {"model": str(options.output), "kind": result.model.config.kind, **printed, **losses}


def _long_forms(inventories: Iterable[SenseInventory], *, stop_words: bool) -> list[Wording]:
    """All ways to write the long forms of some inventories: what a model should know best."""
    return with_plurals(
        wording
        for inventory in inventories
        for sense in inventory
        for wording in wordings(sense.forms, stop_words=stop_words)
    )


def progress_message(progress: Progress) -> str:
    """One line about a run: epoch, speed, both parts of the loss under their names, time left, memory."""
    parts = [
        f"epoch {progress.epoch}/{progress.n_epochs}",
        f"step {progress.step:,}/{progress.n_steps:,}",
        f"{progress.centers_per_second:,.0f} centers/s",
        f"reconstruction {progress.reconstruction:.3f}",
        f"prior divergence {progress.prior_divergence:.3f}",
    ]
    if progress.contrastive is not None:
        parts.append(f"contrastive {progress.contrastive:.3f}")
    left = round(progress.seconds_left)
    parts.append(f"{left // 3600}:{left // 60 % 60:02d}:{left % 60:02d} left")
    parts.append(f"{progress.peak_memory / 1e9:.1f} GB")
    return ", ".join(parts)
