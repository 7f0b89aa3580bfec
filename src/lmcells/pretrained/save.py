"""A trained model -> a folder, which appears only when it is complete."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from lmcells.corpus import Corpus, count_words_by_metadata
from lmcells.errors import InputError, ModelError
from lmcells.files import read_json, write_json
from lmcells.pretrained import folder as layout
from lmcells.pretrained.folder import FolderConfig, save_statistics
from lmcells.pretrained.phrase_store import PhraseStore
from lmcells.pretrained.pretrained_model import PretrainedModel
from lmcells.pretrained.quantized import SCALE, to_eight_bits
from lmcells.pretrained.subwords import (
    TABLE,
    KnownSpellings,
    SubwordSettings,
    average_vector,
    blend,
    neighbour_weights,
)
from lmcells.tensor_files import write_tensors

if TYPE_CHECKING:
    from lmcells.model import CellModel
    from lmcells.pretrained.pretrained_model import PretrainedModel
    from lmcells.training.prototypes import Prototypes


# The README of a model folder: what it is, what it was made from, what it is for, and what it is not for.


_NAME_OF = {
    "lmc": "Latent Meaning Cells",
    "bsg": "Bayesian skip-gram",
    "mbsge": "metadata Bayesian skip-gram ensemble",
}


def model_card(config: FolderConfig) -> str:
    """Markdown for people; everything in it is in config.json for machines."""
    sizes = config.corpus["sizes"]
    corpus = ", ".join(f"{count:,} {name.removeprefix('n_')}" for name, count in sizes.items())
    return f"""# {_NAME_OF[config.kind]} by {config.metadata_kind}

A `{config.kind}` model of lmcells {config.written_by}: from a word, its {config.metadata_kind} and the
words around it to a Gaussian in {config.model["cell_dim"]} dimensions, its meaning there. Trained without
labels; it expands acronyms by comparing the meaning of a short form in its context with those of its possible
long forms.

## Use

```python
from lmcells.pretrained import PretrainedModel

model = PretrainedModel.from_pretrained("path/to/this/folder")  # numpy alone
network = model.to_torch()  # with lmcells[train]: to train on, or to take apart
```

## Data

Corpus `{config.corpus["fingerprint"]}`: {corpus}. Prepared with:

{_table(config.corpus["settings"])}

`vocabulary.json` and `sections.json` hold words and section names of that corpus, each seen several times. Look
through them before you pass a model of private notes on.

## Settings

{_table(config.model)}

Seed: {config.seed}. Weights stored as {config.dtype}. Training:

{_table(_flat(config.training))}

## Intended use and limits

For research, for search and for the preparation of text, where a wrong expansion is noticed or does little
harm. **Not for clinical decisions.** It knows the words of its corpus only, does best on notes like those, and
repeats what is common in them, biases included; rare meanings are the ones it gets wrong.

## Licence

To be filled in by whoever publishes this model: it depends on the notes that the weights were trained on.
"""


def _flat(settings: dict[str, object]) -> dict[str, object]:
    """Put settings that are given as a group in the place of the group."""
    flat: dict[str, object] = {}
    for name, value in settings.items():
        flat |= value if isinstance(value, dict) else {name: value}
    return flat


def _table(settings: dict[str, object]) -> str:
    if not settings:
        return "(not recorded)"
    rows = (f"| {_cell(name)} | {_cell(value)} |" for name, value in settings.items())
    return "\n".join(["| setting | value |", "|---|---|", *rows])


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


# How much unknown words may be read as known ones that are spelt alike: found out on words that are held out.


_HELD_OUT = 0.05
_FEWEST, _MOST = 50, 2000  # words that are held out: fewer tell nothing, more would not change the choice
_SHARPNESSES = (2.0, 3.0, 4.0, 6.0)
_CAUTIONS = (0.1, 0.3, 1.0, 3.0, 10.0)


def fit_subwords(
    words: Sequence[str], table: npt.NDArray[Any], counts: npt.NDArray[np.integer], *, seed: int = 0
) -> SubwordSettings | None:
    """Choose the weights that explain most of the vectors of held-out words; None where spelling explains nothing.

    `table` holds the vectors of the words in its first rows. Slips of the pen play no part: a held-out word is none.
    """
    spelt = np.array(KnownSpellings.of(words, counts).ids)
    order = np.random.default_rng(seed).permutation(spelt)
    n_held_out = min(int(len(order) * _HELD_OUT), _MOST)
    if n_held_out < _FEWEST:
        return None
    held_out, rest = order[:n_held_out], order[n_held_out:]
    known = KnownSpellings.of([words[id_] for id_ in rest.tolist()], counts[rest])
    deviations = np.asarray(table[: len(words)], np.float32) - average_vector(table, counts, rest)
    nearest, likeness = known.nearest([words[id_] for id_ in held_out.tolist()])
    nearest = rest[nearest]
    weights = np.log1p(counts[held_out])
    variance = weights @ np.square(deviations[held_out]).sum(axis=1)
    best = None
    for sharpness, caution in product(_SHARPNESSES, _CAUTIONS):
        shares = neighbour_weights(likeness, counts[nearest], sharpness=sharpness, caution=caution)
        guesses = blend(shares, deviations[nearest])
        errors = weights @ np.square(deviations[held_out] - guesses).sum(axis=1)
        explained = float(1 - errors / variance) if variance > 0 else 0.0
        if explained > (best.explained if best else 0.0):
            best = SubwordSettings(sharpness, caution, explained)
    return best


def add_subwords(folder: Path) -> SubwordSettings | None:
    """Give a model folder sub-words, in place; nothing is written where spelling explains nothing."""
    model = PretrainedModel.from_pretrained(folder)
    settings = fit_subwords(model.words, model.arrays[TABLE], model.word_counts)
    if settings is not None:
        settings.save(folder)
        described = layout.describe_files(folder)
        vouched = dict.fromkeys([*model.config.files, layout.SUBWORDS])
        replace(model.config, files={name: described[name] for name in vouched}).save(folder)
    return settings


# A trained model -> a folder, which appears only when it is complete.


StoredDtype = Literal["float32", "float16", "int8"]
_LEAST_COUNT = 12  # of a word under a section that is stored under "int8"
_TABLE = ".words.weight"  # what is stored in eight bits under "int8"; the rest is then of half precision


def save_pretrained(
    model: "CellModel",
    folder: Path | str,
    *,
    corpus: Corpus,
    metadata_kind: str = "section",
    training: Mapping[str, Any] = {},
    prototypes: "Prototypes | None" = None,
    dtype: StoredDtype = "float32",
    overwrite: bool = False,
) -> None:
    """Write a model folder: weights, vocabulary, metadata names, statistics, config and model card.

    `training` is whatever should be known about the training, as plain JSON data; its "seed" is kept as the
    model's. `prototypes` are what occurrences taught about phrases. "float16" and "int8" (word vectors in eight
    bits, the rest in half precision) make the file small for shipping. With `overwrite` a model folder that is there
    is replaced whole.
    """
    folder = Path(folder)
    _require_free(folder, overwrite=overwrite)
    names = _metadata_names(model, corpus, metadata_kind)
    with _new_folder(folder) as temporary:
        write_tensors(
            temporary / layout.WEIGHTS, _weights(model, dtype), metadata={"format": "pt"}, durable=True
        )
        write_json(temporary / layout.VOCABULARY, corpus.words)
        write_json(temporary / layout.SECTIONS, names)
        counts = count_words_by_metadata(corpus, metadata_kind)
        if dtype == "int8":
            counts = counts.at_least(_LEAST_COUNT)
        save_statistics(temporary / layout.STATISTICS, counts, np.asarray(corpus.word_counts))
        if prototypes is not None:
            PhraseStore.of_prototypes(prototypes).save(temporary)
            table = model.state_dict()[TABLE].detach().cpu().float().numpy()
            if subwords := fit_subwords(corpus.words, table, np.asarray(corpus.word_counts)):
                subwords.save(temporary)
        config = layout.FolderConfig(
            kind=model.config.kind,
            model=asdict(model.config),
            metadata_kind=metadata_kind,
            tokenizer=layout.TOKENIZER,
            dtype=dtype,
            corpus={
                "fingerprint": corpus.manifest.fingerprint,
                "sizes": corpus.manifest.sizes,
                "settings": corpus.manifest.settings,
            },
            training=dict(training),
            seed=training.get("seed"),
            files=layout.describe_files(temporary),
        )
        # The card is for people to edit, so no checksum vouches for it.
        (temporary / layout.MODEL_CARD).write_text(model_card(config), encoding="utf-8")
        config.save(temporary)


def save_compiled(
    model: "PretrainedModel",
    folder: Path | str,
    *,
    store: PhraseStore,
    inventory: str,
    corpus: Corpus,
    n_phrases: int,
) -> None:
    """Write a copy of a model folder, whatever else lies in it, with a store that knows an inventory's phrases.

    `inventory` is its name; it is kept with the corpus and how many phrases it was worth, in config and card.
    """
    folder = Path(folder)
    _require_free(folder, overwrite=False)
    fingerprint = corpus.manifest.fingerprint
    compiled = {"inventory": inventory, "corpus": fingerprint, "phrases": n_phrases}
    line = f"- {n_phrases:,} phrases of `{inventory}`, by their occurrences in corpus `{fingerprint}`\n"
    with _new_folder(folder) as temporary:
        for path in model.folder.iterdir():
            if path.is_file():
                shutil.copyfile(path, temporary / path.name)
        store.save(temporary)
        _add_line(temporary / layout.MODEL_CARD, line, heading="## Compiled inventories\n\n")
        before, described = model.config.training.get("compiled", []), layout.describe_files(temporary)
        replace(
            model.config,
            training=model.config.training
            | {"compiled": before if compiled in before else [*before, compiled]},
            files={name: described[name] for name in model.config.files},
        ).save(temporary)


def _add_line(card: Path, line: str, *, heading: str) -> None:
    """Put a line at the end of a card, unless it is there; the rest stays as it is, for people edit it."""
    text = card.read_bytes() if card.is_file() else b""
    if line.encode() not in text:
        heading = "" if heading.encode() in text else f"\n{heading}"
        card.write_bytes(text + heading.encode() + line.encode())


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder to fill; it takes the place of `folder` only when the block ends without an error."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        _put_in_place(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _require_free(folder: Path, *, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not overwrite:
        raise InputError(f"{folder} exists already. Choose another folder, or replace it with overwrite.")
    if not folder.is_dir() or (any(folder.iterdir()) and not _is_model(folder)):
        raise InputError(f"{folder} is not a model folder, and is not overwritten. Choose another folder.")


def _is_model(folder: Path) -> bool:
    try:
        config = read_json(folder / layout.CONFIG)
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("format") == layout.FORMAT


def _metadata_names(model: "CellModel", corpus: Corpus, kind: str) -> list[str]:
    names = corpus.metadata_names(kind)
    pairs = [
        ("words", model.config.n_words, len(corpus.words)),
        (f"metadata {kind!r}", model.config.n_metadata, len(names)),
    ]
    for what, of_model, of_corpus in pairs[:1] if model.config.kind == "bsg" else pairs:
        if of_model != of_corpus:
            raise ModelError(
                f"the model has {of_model:,} {what}, {corpus.folder} has {of_corpus:,}. "
                "Give the corpus that the model was trained on."
            )
    return names


def _weights(model: "CellModel", dtype: StoredDtype) -> dict[str, npt.NDArray[Any]]:
    floats = "float16" if dtype == "int8" else dtype
    limit = float(np.finfo(floats).max)
    weights: dict[str, npt.NDArray[Any]] = {}
    for name, tensor in model.state_dict().items():
        array = tensor.detach().cpu().float().numpy()
        if not (np.abs(array) <= limit).all():  # nor is NaN
            raise ModelError(
                f"{name} holds values that are not finite in {dtype}: training has diverged. Train again."
            )
        if dtype == "int8" and name.endswith(_TABLE):
            weights[name], weights[name + SCALE] = to_eight_bits(array)
        else:
            weights[name] = array.astype(floats)
    return weights


def _put_in_place(temporary: Path, folder: Path) -> None:
    if not folder.exists():
        temporary.rename(folder)
        return
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    folder.rename(old)
    try:
        temporary.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old)
