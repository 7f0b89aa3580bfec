"""`lmcells train`: a corpus -> a model."""

import argparse
import os
import signal
import sys
import warnings
from pathlib import Path

from lmcells.cli.arguments import REPEATED, Command, Options, picked
from lmcells.cli.terminal import ProgressLine, print_result
from lmcells.pretrain import ELMO, KINDS, train
from lmcells.training import PRESETS, TrainingStopped, TrainingWarning

_ASKED_FOR = ("seed", "settings", "corpus")  # parts of a record that only repeat the command line
_SETTINGS = ("epochs", "seed", "batch_size", "learning_rate", "metadata")  # of training, and flags


def _add_arguments(add: Options) -> None:
    add("corpus CORPUS", "corpus folder", type=Path)
    add("--output MODEL", "folder to write", required=True, type=Path)
    add("--from MODEL", "model to adapt: default, or a model folder", dest="from_model")
    add = add.group("settings")
    add("--kind", "kind of model (lmc)", choices=KINDS)
    text = "paper: to the letter; tuned: the paper's model, tuned; default: the best we have measured; "
    add("--preset", text + "adapt: for --from", choices=PRESETS)
    text = "TOML file with [model] (for elmo [language_model]) and [training]; it may name a preset"
    add("--config FILE", text, type=Path)
    add("--epochs N", "passes over the corpus")
    add("--batch-size N", "center words per step, of all processes together")
    add("--learning-rate X", "of Adam")
    add("--seed N", "random seed")
    add("--metadata KIND", "kind of metadata to condition on (section)")
    text = "any other setting of the TOML file; may be repeated"
    add("--set TABLE.KEY=VALUE", text, dest="overrides", **REPEATED)
    add = add.group("saving")
    text = "type of the stored weights; int8: word vectors in eight bits, the rest in sixteen"
    add("--dtype", text, one_of=("float32", "float16", "int8"))
    add("--prototypes N", "maximum number of phrases in the phrase store, 50 bytes each (128000)", type=int)
    text = "senses whose long forms go into the store first, besides the shipped ones; may be repeated"
    add("--long-forms INVENTORY", text, type=Path, **REPEATED)
    add = add.running(resumes="a run")
    add.overwrite(replaces="a model and its MODEL.training")
    add("--device auto|cpu|cuda", "where to train (auto)", default="auto")
    text = "score this dataset after each epoch or check (see training.evaluations); may be repeated"
    add("--evaluate DATASET", text, type=Path, **REPEATED)
    text = "senses for --evaluate: once for all datasets, or once for each"
    add("--inventory FILE", text, type=Path, **REPEATED)
    add("--keep-best", "for each dataset, keep the model that is best on the others, in MODEL.training/best")


def _run(options: argparse.Namespace) -> None:
    flags = ((flag, getattr(options, flag)) for flag in _SETTINGS)
    named = [f"training.{flag}={value}" for flag, value in flags if value is not None]
    given = picked(options, train, overrides=[*named, *options.overrides])
    shown: list[str] = []

    def show(message: str) -> None:
        """The first two messages (the plan, and the estimated time) stay on the screen."""
        if len(shown) < 2:
            shown.append(message)
            print(f"lmcells train: {message}", file=sys.stderr, flush=True)
        else:
            line.update(message)

    with ProgressLine() as line, warnings.catch_warnings():
        warnings.simplefilter("always", TrainingWarning)
        warnings.showwarning = lambda message, *_: print(f"lmcells train: {message}", file=sys.stderr)
        try:
            trained = train(**given, on_progress=show)
        except TrainingStopped as stopped:
            print(f"lmcells train: {stopped}", file=sys.stderr)
            number = signal.SIGINT if "SIGINT" in str(stopped) else signal.SIGTERM
            raise SystemExit(128 + number) from None
    if int(os.environ.get("RANK", "0")) != 0:  # torchrun starts several processes, of which one prints
        return
    kind = trained.model.config.kind
    record = {name: value for name, value in trained.record.items() if name not in _ASKED_FOR}
    losses = record.pop("losses", {})
    named_kind = {"kind": kind} if kind in KINDS else {"kind": ELMO, "encoder": kind}
    summary = {"model": str(trained.folder), **named_kind, **record, **losses}
    rows = [
        (name.replace("_", " "), f"{value:,.4g}" if isinstance(value, float) else value)
        for name, value in summary.items()
        if name != "model" and not isinstance(value, dict)
    ]
    print_result(options, summary, [(str(trained.folder), rows)])


_TRAIN = """\
train a model on a corpus

Train Latent Meaning Cells (lmc), or the paper's baselines bsg, mbsge and elmo, on a corpus made by `lmcells prepare`.
Settings come from a preset, then a TOML file, then flags; later ones win. metrics.jsonl and checkpoints are written to
MODEL.training, the finished model to MODEL. After an interruption, --resume continues from the last checkpoint.

examples:
  lmcells train corpus --output model
  lmcells train corpus --output model --kind bsg --preset paper --epochs 3 --seed 7
  lmcells train corpus --output model --config mine.toml --set model.window=5 --set training.gradient_clip=10
  lmcells train corpus --output model --kind elmo --set language_model.layers=4 --set training.flat_patience=5
  lmcells train corpus --output model --from default
  lmcells train corpus --output model --resume
  lmcells train corpus --output model --evaluate dev.jsonl --inventory senses.json
  torchrun --nproc-per-node 8 -m lmcells train corpus --output model"""
COMMANDS = {"train": Command(_TRAIN, _add_arguments, _run)}
