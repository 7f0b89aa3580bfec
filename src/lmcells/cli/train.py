"""`lmcells train`: a corpus -> a model."""

import argparse
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lmcells.cli.arguments import add_running
from lmcells.cli.terminal import ProgressLine, print_json, print_table
from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, MissingExtra

SUMMARY = "train a model on a corpus"
DESCRIPTION = """\
Train Latent Meaning Cells (lmc), or the paper's baselines bsg, mbsge and elmo, on a corpus made by `lmcells prepare`.
Settings come from a preset, then a TOML file, then flags; the later wins. metrics.jsonl and checkpoints are written to
MODEL.training, the finished model to MODEL; after a stop, planned or not, --resume goes on from the last checkpoint."""
EXAMPLE = """\
examples:
  lmcells train corpus --output model
  lmcells train corpus --output model --kind bsg --preset paper --epochs 3 --seed 7
  lmcells train corpus --output model --config mine.toml --set model.window=5 --set training.gradient_clip=10
  lmcells train corpus --output model --kind elmo --set language_model.layers=4 --set training.flat_patience=5
  lmcells train corpus --output model --resume
  lmcells train corpus --output model --evaluate dev.jsonl --inventory senses.json
  torchrun --nproc-per-node 8 -m lmcells train corpus --output model"""

_ELMO = "elmo"
_KINDS = ("lmc", "bsg", "mbsge", _ELMO)
_PRESETS = ("paper", "tuned", "default")
_DTYPES = ("float32", "float16", "int8")
_NAMED = {
    "kind": "model.kind",
    "epochs": "training.epochs",
    "seed": "training.seed",
    "batch_size": "training.batch_size",
    "learning_rate": "training.learning_rate",
    "metadata": "training.metadata",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    parser.add_argument("corpus", type=Path, metavar="CORPUS", help="corpus folder")
    parser.add_argument("--output", required=True, type=Path, metavar="MODEL", help="folder to write")
    settings = parser.add_argument_group("settings")
    settings.add_argument("--kind", choices=_KINDS, help="kind of model (lmc)")
    settings.add_argument(
        "--preset",
        choices=_PRESETS,
        help="paper: to the letter; tuned: its details tuned; default: the best measured",
    )
    settings.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="TOML file with [model] ([language_model] of elmo) and [training]; it may name a preset",
    )
    settings.add_argument("--epochs", metavar="N", help="passes over the corpus")
    settings.add_argument("--batch-size", metavar="N", help="center words a step, of all processes together")
    settings.add_argument("--learning-rate", metavar="X", help="of Adam")
    settings.add_argument("--seed", metavar="N", help="decides everything that is drawn")
    settings.add_argument("--metadata", metavar="KIND", help="kind of metadata to condition on (section)")
    settings.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        dest="overrides",
        help="any other setting of the TOML file; may be repeated",
    )
    saving = parser.add_argument_group("saving")
    saving.add_argument(
        "--dtype",
        choices=_DTYPES,
        default=_DTYPES[0],
        help="of the stored weights; int8: word vectors in eight bits, the rest in sixteen (float32)",
    )
    saving.add_argument(
        "--prototypes",
        type=int,
        metavar="N",
        help="at most so many in the store of phrases, 50 bytes each (128000)",
    )
    saving.add_argument(
        "--long-forms",
        action="append",
        type=Path,
        default=[],
        metavar="INVENTORY",
        help="senses whose long forms the store should know first, beside the shipped ones; may be repeated",
    )
    running = add_running(parser, resumes="a run")
    running.add_argument("--device", default="auto", metavar="auto|cpu|cuda", help="where to train (auto)")
    running.add_argument(
        "--evaluate",
        action="append",
        type=Path,
        default=[],
        metavar="DATASET",
        help="score this dataset after each epoch or check (or training.evaluate_minutes); may be repeated",
    )
    running.add_argument("--inventory", type=Path, metavar="FILE", help="senses for --evaluate")


def run(options: argparse.Namespace) -> None:
    """Train, save the model, and print how it went."""
    try:
        import torch  # noqa: F401
    except ImportError:
        raise MissingExtra("torch", extra="train", purpose="Training") from None

    _require_free(options.output, resume=options.resume)
    if bool(options.evaluate) != bool(options.inventory):
        raise ConfigError("--evaluate and --inventory go together: a dataset, and the senses to choose from.")
    corpus = Corpus.open(options.corpus)
    overrides = [*_named_overrides(options), *options.overrides]
    with ProgressLine() as line, _told_in_one_line():
        trained = _trainer(options.kind)(
            options, corpus=corpus, run_folder=run_folder(options.output), overrides=overrides, line=line
        )
    if trained is not None:
        _print_summary(trained, options)


def _trainer(kind: str | None) -> Callable[..., dict[str, Any] | None]:
    """What trains and saves a model of this kind; imported late, for it imports torch."""
    if kind == _ELMO:
        from lmcells.cli.train_elmo import train_elmo

        return train_elmo
    from lmcells.cli.train_cells import train_cells

    return train_cells


def run_folder(output: Path) -> Path:
    """Where a run keeps its state: beside the model, which is then a folder to ship as it is."""
    return output.with_name(f"{output.name}.training")


def _require_free(output: Path, *, resume: bool) -> None:
    """Say before training what would go wrong after it."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not resume:
        raise ConfigError(f"{output} exists already. Choose another folder, or go on with --resume.")
    if not (output / "config.json").is_file():
        raise ConfigError(f"{output} is not a model folder, and is not overwritten. Choose another folder.")


def _named_overrides(options: argparse.Namespace) -> list[str]:
    given = {setting: getattr(options, flag) for flag, setting in _NAMED.items()}
    return [f"{setting}={value}" for setting, value in given.items() if value is not None]


def _print_summary(summary: Mapping[str, Any], options: argparse.Namespace) -> None:
    if options.json:
        print_json(summary)
        return
    rows = [
        (name.replace("_", " "), value)
        for name, value in summary.items()
        if name != "model" and not isinstance(value, dict)
    ]
    print_table(
        [(name, f"{value:,.4g}" if isinstance(value, float) else value) for name, value in rows],
        title=str(options.output),
    )


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    """A damaged checkpoint is a line of warning, and a stop that was asked for is one and an exit code."""
    from lmcells.training import DamagedCheckpoint, TrainingStopped

    with warnings.catch_warnings():
        warnings.simplefilter("always", DamagedCheckpoint)
        warnings.showwarning = _show_warning  # type: ignore[assignment]
        try:
            yield
        except TrainingStopped as stopped:
            print(f"lmcells train: {stopped}", file=sys.stderr)
            raise SystemExit(128 + signal.SIGTERM) from None


def _show_warning(message: Warning | str, *_details: Any) -> None:
    print(f"lmcells train: {message}", file=sys.stderr)
