"""From a corpus to a model folder: what `lmcells train` does, and `lmcells.train` from Python."""

import os
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmcells.corpus import Corpus
from lmcells.errors import ConfigError, MissingExtra, nearest
from lmcells.evaluation.evaluate import BEST, TrainingScorer
from lmcells.expansion.calibration import CALIBRATION, PRIORS
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.inventory_files import load_inventory
from lmcells.expansion.layers import shipped_inventory
from lmcells.expansion.long_forms import with_plurals, wordings
from lmcells.files import atomic_folder
from lmcells.language_model.config import LanguageModelConfig, load_language_model_configuration
from lmcells.language_model.folder import FORMAT as LANGUAGE_MODEL
from lmcells.language_model.folder import save_language_model
from lmcells.model import ModelConfig
from lmcells.pretrained import PretrainedModel, save_pretrained
from lmcells.pretrained.folder import FORMAT as CELL_MODEL
from lmcells.pretrained.folder import model_folder
from lmcells.pretrained.save import StoredDtype
from lmcells.training import Progress, TrainingSettings, TrainingWarning, load_configuration
from lmcells.training.settings import ADAPT, DEFAULT_PRESET, Overrides

if TYPE_CHECKING:
    from lmcells.language_model.model import LanguageModel
    from lmcells.model import CellModel
    from lmcells.pretrained.phrase_store import PhraseStore
    from lmcells.training.prototypes import Prototypes

ELMO = "elmo"
_LONG = 1800.0  # seconds of training on a CPU, beyond which the user is told what is faster
KINDS = ("lmc", "bsg", "mbsge", ELMO)


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """The result of a training run."""

    folder: Path  # of the model
    model: "CellModel | LanguageModel"  # in torch, in evaluation mode
    record: dict[str, Any]  # settings, steps, losses...: what the model folder says about its training


def train(
    corpus: Corpus | Path | str,
    *,
    output: Path | str,
    kind: str | None = None,
    preset: str | None = None,
    config: Path | str | None = None,
    overrides: Overrides = (),
    device: str = "auto",
    resume: bool = False,
    overwrite: bool = False,
    dtype: StoredDtype = "float32",
    prototypes: int | None = None,
    long_forms: Sequence[Path | str] = (),
    from_model: Path | str | None = None,
    evaluate: Sequence[Path | str] = (),
    inventory: Path | str | Sequence[Path | str] | None = None,
    keep_best: bool = False,
    on_progress: Callable[[str], None] | None = None,
) -> TrainedModel:
    """Train a model on a corpus and save it as a folder; metrics.jsonl and checkpoints go to OUTPUT.training.

    kind: lmc (the default, unless the settings say otherwise), bsg, mbsge or elmo.
    preset, config, overrides: the settings; later ones win. `config` is a TOML file, `overrides` are strings such as
        `training.epochs=1`, or a mapping such as `{"training.epochs": 1}`.
    resume: continue from the last checkpoint; on a CPU the result is the same, bit for bit.
    overwrite: replace an existing model and its OUTPUT.training.
    dtype: of the stored weights; int8 stores word vectors in eight bits and the rest in sixteen.
    prototypes: the size of the phrase store of a model with a phrase network (at most 128,000 by default).
    long_forms: inventories whose long forms enter the phrase store first, as the shipped ones do.
    from_model: a model folder, or "default", to adapt: training continues from its weights, and it keeps what it knows.
    evaluate, inventory: datasets to score during training, and their inventories: one for all, or one each.
    keep_best: for each of several datasets, also save the model that was best on the others, in OUTPUT.training/best.
    on_progress: called with progress messages.

    Under torchrun only the main process saves the model.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", extra="train", purpose="Training") from None
    from lmcells.training.loop import explain_failures

    output, say = Path(output), on_progress or (lambda _: None)
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"kind is {kind!r}; allowed: {', '.join(KINDS)}.{nearest(kind, KINDS)}")
    senses = [inventory] if isinstance(inventory, Path | str) else list(inventory or ())
    if bool(evaluate) != bool(senses):
        raise ConfigError("--evaluate and --inventory go together: a dataset, and its sense inventory.")
    _require_free(output, resume=resume, overwrite=overwrite)
    corpus = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    file = None if config is None else Path(config)
    running: dict[str, Any] = {
        "output": output.with_name(f"{output.name}.training"),
        "device": device,
        "resume": resume,
        "overwrite": overwrite,
        "on_start": say,
        "on_progress": lambda progress: say(str(progress)),
    }
    scorer = None
    if evaluate:
        scorer = TrainingScorer(
            list(map(Path, evaluate)),
            inventories=list(map(Path, senses)),
            corpus=corpus,
            keep_in=running["output"] / BEST if keep_best else None,
        )
    if kind != ELMO and (device == "cpu" or not torch.cuda.is_available()):
        running["on_progress"] = _advising(say, is_adapting=from_model is not None)
    given: dict[str, Any] = {"preset": preset, "file": file, "overrides": overrides}
    with explain_failures(running["output"]):
        if kind == ELMO:
            if from_model is not None:
                raise ConfigError("--from is for models of the kind lmc. Leave out --from or --kind elmo.")
            return _train_elmo(corpus, output, running, scorer=scorer, **given)
        return _train_cells(
            corpus,
            output,
            running,
            kind=kind,
            from_model=from_model,
            known=[load_inventory(Path(path)) for path in long_forms],  # refuses a bad one before training
            scorer=scorer,
            max_prototypes=prototypes,
            dtype=dtype,
            say=say,
            **given,
        )


def _advising(say: Callable[[str], None], *, is_adapting: bool) -> Callable[[Progress], None]:
    """Forward progress reports; if training on a CPU will take long, also say what suits the machine better."""
    others = ["--preset tuned (no phrases)", "fewer --epochs", "a GPU"]
    if not is_adapting:
        others.insert(0, "--from default (adapts the shipped model)")
    is_told = False

    def report(progress: Progress) -> None:
        nonlocal is_told
        text = str(progress)
        if progress.seconds_left is not None and not is_told:
            is_told = True
            if progress.seconds_left > _LONG:
                text = f"{text}. That is long for a CPU; quicker: {', '.join(others)}"
        say(text)

    return report


def _train_elmo(
    corpus: Corpus, output: Path, running: dict[str, Any], *, scorer: TrainingScorer | None, **given: Any
) -> TrainedModel:
    from lmcells.language_model.train import train_language_model

    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError("a language model is trained in a single process. Start it without torchrun.")
    elmo = load_language_model_configuration(**given)
    if scorer is not None:
        running["evaluate"] = scorer.elmo
    config = LanguageModelConfig(**elmo.model, n_words=len(corpus.words))
    result = train_language_model(corpus, model_config=config, settings=elmo.training, **running)
    with _in_place_of(output) as folder:
        save_language_model(result.model, folder, corpus=corpus, training=result.record)
    return TrainedModel(output, result.model, result.record)


def _train_cells(
    corpus: Corpus,
    output: Path,
    running: dict[str, Any],
    *,
    kind: str | None,
    from_model: Path | str | None,
    preset: str | None,
    file: Path | None,
    overrides: Overrides,
    known: Sequence[SenseInventory],
    scorer: TrainingScorer | None,
    max_prototypes: int | None,
    dtype: StoredDtype,
    say: Callable[[str], None],
) -> TrainedModel:
    from lmcells.training.cells import CellTask
    from lmcells.training.loop import run_task

    adaptation = initial = None
    if from_model is not None:
        from lmcells.expansion.adaptation import Adaptation, average_weights

        adaptation = Adaptation(PretrainedModel.from_pretrained(model_folder(from_model)), corpus)
    otherwise = DEFAULT_PRESET if adaptation is None else ADAPT
    cells = load_configuration(
        preset=preset, file=file, overrides=_with_kind(overrides, kind), otherwise=otherwise
    )
    settings, metadata = cells.training, cells.training.metadata
    if adaptation is None:
        model_kind = cells.model.get("kind", "lmc")
        model_config = ModelConfig(
            **cells.model,
            n_words=len(corpus.word_counts),
            n_metadata=0 if model_kind == "bsg" else corpus.n_metadata(metadata),
            n_categories=corpus.n_metadata("category") if model_kind == "mbsge" else 0,
        )
    else:
        usual = load_configuration(preset=ADAPT).model
        changed = {name: value for name, value in cells.model.items() if usual[name] != value}
        model_config = adaptation.model_config(changed)
        initial = adaptation.initial_weights(seed=settings.seed)
    _require_consistent(settings, is_adapting=adaptation is not None)
    if scorer is not None:
        running["evaluate"] = partial(scorer.cells, metadata_kind=metadata, settings=asdict(settings))
    is_main = int(os.environ.get("RANK", "0")) == 0
    if is_main and model_config.kind != "bsg":
        _warn_of_one_value(corpus, metadata)
    create_task = partial(CellTask, initial=initial)
    trained = run_task(create_task, corpus, model_config=model_config, settings=settings, **running)
    model, record, vocabulary = trained.model, trained.record, None
    if settings.initial_share and initial is not None:
        average_weights(model, initial, share=settings.initial_share)
    if not is_main:
        return TrainedModel(output, model, record)
    store: Prototypes | PhraseStore | None = None
    if model.phrases is not None and settings.n_contrastive_spans:
        from lmcells.training.prototypes import MAX_PROTOTYPES, build_prototypes

        say("reading occurrences of frequent words and phrases")
        stop_words = corpus.reads_stop_words
        senses = (sense for inventory in [shipped_inventory(), *known] for sense in inventory)
        forms = (form for sense in senses for form in wordings(sense.forms, stop_words=stop_words))
        most = MAX_PROTOTYPES if max_prototypes is None else max_prototypes
        store = build_prototypes(
            model, corpus, settings=settings, long_forms=with_plurals(forms), max_prototypes=most
        )
        if adaptation is not None and store is not None:
            store = adaptation.merged_store(model, store, settings=settings)
            model, vocabulary = adaptation.merged(model)
            record = record | {"from": adaptation.base.config.corpus["fingerprint"]}
    with _in_place_of(output) as folder:
        save_pretrained(
            model,
            folder,
            corpus=corpus,
            metadata_kind=metadata,
            training=record,
            prototypes=store,
            vocabulary=vocabulary,
            dtype=dtype,
        )
        if adaptation is not None:
            for name in (CALIBRATION, PRIORS):  # they suit the adapted model about as well
                if (kept := adaptation.base.folder / name).is_file():
                    shutil.copyfile(kept, folder / name)
    return TrainedModel(output, model, record)


def _require_consistent(settings: TrainingSettings, *, is_adapting: bool) -> None:
    """Refuse settings that have no effect without --from, or break what it makes."""
    if not is_adapting and settings.initial_share:
        found = f"training.initial_share is {settings.initial_share}, but no model is adapted"
        raise ConfigError(f"{found}. Add --from MODEL, or leave it out.")
    if is_adapting and not settings.n_contrastive_spans:
        found = "training.contrastive_weight and training.phrase_weight are 0, but adapting needs one of them"
        raise ConfigError(f"{found}. Leave them out.")


def _with_kind(overrides: Overrides, kind: str | None) -> Overrides:
    """Put the kind before the other settings, which may change it."""
    if kind is None:
        return overrides
    if isinstance(overrides, Mapping):
        return {"model.kind": kind} | dict(overrides)
    return [f"model.kind={kind}", *overrides]


def _warn_of_one_value(corpus: Corpus, metadata: str) -> None:
    if corpus.n_metadata(metadata) == 1:
        kinds = ", ".join(corpus.metadata_kinds)
        warnings.warn(
            f"{corpus.folder} has only one value of {metadata!r}, which carries no information. Choose a kind that "
            f"varies ({kinds}) with training.metadata, or train --kind bsg.",
            TrainingWarning,
            stacklevel=3,
        )


def _require_free(output: Path, *, resume: bool, overwrite: bool) -> None:
    """Refuse before training what saving would refuse after it."""
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite contradict each other: continue a run, or replace it.")
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not resume and not overwrite:
        raise ConfigError(
            f"{output} already exists. Choose another folder, continue with --resume, or replace it with --overwrite."
        )
    if not any(model.is_format_of(output) for model in (CELL_MODEL, LANGUAGE_MODEL)):
        raise ConfigError(f"{output} is not a model folder, so it is not overwritten. Choose another folder.")


def _in_place_of(output: Path) -> AbstractContextManager[Path]:
    """A folder to write a model to: once complete it replaces a model of either format, and nothing else."""
    _require_free(output, resume=False, overwrite=True)  # it may have been made during the training
    return atomic_folder(output, overwrite=True)
