"""Write a trained model to a folder, which appears only when it is complete."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.corpus import Corpus, WordMetadataCounts, count_words_by_metadata
from lmcells.errors import ModelError
from lmcells.files import atomic_folder, write_json, write_tensors
from lmcells.pretrained import folder as layout
from lmcells.pretrained.folder import Array, FolderConfig
from lmcells.pretrained.phrase_store import PhraseStore
from lmcells.pretrained.pretrained_model import PretrainedModel
from lmcells.pretrained.subwords import TABLE, fit_subwords

if TYPE_CHECKING:
    from lmcells.model import CellModel
    from lmcells.training.prototypes import Prototypes

StoredDtype = Literal["float32", "float16", "int8"]

_LEAST_COUNT = 12  # of a word under a section that "int8" keeps
_WORD_TABLE = ".words.weight"  # ends the names of the tensors that "int8" stores in eight bits
_NAME_OF = {
    "lmc": "Latent Meaning Cells",
    "bsg": "Bayesian skip-gram",
    "mbsge": "metadata Bayesian skip-gram ensemble",
}


class Vocabulary(NamedTuple):
    """Words and metadata, with their counts, of a model that knows more than its corpus has."""

    words: list[str]
    metadata_names: list[str]
    counts: WordMetadataCounts
    word_counts: npt.NDArray[np.int64]


def save_pretrained(
    model: "CellModel",
    folder: Path | str,
    *,
    corpus: Corpus,
    metadata_kind: str = "section",
    training: Mapping[str, Any] = {},
    prototypes: "Prototypes | PhraseStore | None" = None,
    vocabulary: Vocabulary | None = None,
    dtype: StoredDtype = "float32",
    overwrite: bool = False,
) -> None:
    """Write a model folder: weights, vocabulary, metadata names, statistics, config and model card.

    `training` is plain JSON data to record about the training; its "seed" is recorded as the model's. `prototypes` of
    frequent phrases become the phrase store. "float16" and "int8" (word vectors in eight bits, the rest in half
    precision) make a small file to ship. `vocabulary` is the model's, if it is not the corpus'. `overwrite` replaces a
    model folder that is there.
    """
    folder = Path(folder)
    layout.FORMAT.require_free(folder, overwrite=overwrite)
    if vocabulary is None:
        names = corpus.metadata_names(metadata_kind)
        require_corpus_of(corpus, "words", model.config.n_words, len(corpus.words))
        if model.config.kind != "bsg":
            require_corpus_of(corpus, f"metadata {metadata_kind!r}", model.config.n_metadata, len(names))
        counts = count_words_by_metadata(corpus, metadata_kind)
        vocabulary = Vocabulary(corpus.words, names, counts, np.asarray(corpus.word_counts))
    words, names, counts, word_counts = vocabulary
    with atomic_folder(folder, overwrite=overwrite) as temporary:
        weights = stored_weights(model.state_dict(), dtype)
        write_tensors(temporary / layout.WEIGHTS, weights, metadata={"format": "pt"})
        write_json(temporary / layout.VOCABULARY, words)
        write_json(temporary / layout.SECTIONS, names)
        if dtype == "int8":
            counts = counts.at_least(_LEAST_COUNT)
        layout.save_statistics(temporary / layout.STATISTICS, counts, word_counts)
        if prototypes is not None:
            if not isinstance(prototypes, PhraseStore):
                prototypes = PhraseStore.of_prototypes(prototypes)
            prototypes.save(temporary)
            table = model.state_dict()[TABLE].detach().cpu().float().numpy()
            if subwords := fit_subwords(words, table, word_counts):
                subwords.save(temporary)
        config = FolderConfig(
            kind=model.config.kind,
            model=asdict(model.config),
            metadata_kind=metadata_kind,
            tokenizer=layout.TOKENIZER,
            dtype=dtype,
            corpus=corpus_record(corpus),
            training=dict(training),
            seed=training.get("seed"),
            files=layout.FORMAT.describe_files(temporary),
        )
        # People may edit the card, so no checksum covers it.
        (temporary / layout.MODEL_CARD).write_text(_model_card(config), encoding="utf-8")
        config.save(temporary)


def save_compiled(
    model: PretrainedModel,
    folder: Path | str,
    *,
    store: PhraseStore,
    inventory: str,
    corpus: Corpus,
    n_phrases: int,
    overwrite: bool = False,
) -> None:
    """Copy a model folder, with all other files in it, and a phrase store that has an inventory's phrases.

    Config and card record the name of the inventory, the corpus, and how many phrases were compiled.
    """
    folder = Path(folder)
    layout.FORMAT.require_free(folder, overwrite=overwrite)
    fingerprint = corpus.manifest.fingerprint
    compiled = {"inventory": inventory, "corpus": fingerprint, "phrases": n_phrases}
    line = f"- {n_phrases:,} phrases of `{inventory}`, by their occurrences in corpus `{fingerprint}`\n"
    with atomic_folder(folder, overwrite=overwrite) as temporary:
        for path in model.folder.iterdir():
            if path.is_file():
                shutil.copyfile(path, temporary / path.name)
        store.save(temporary)
        _add_to_card(temporary / layout.MODEL_CARD, line, heading="## Compiled inventories\n\n")
        before, described = model.config.training.get("compiled", []), layout.FORMAT.describe_files(temporary)
        training = model.config.training | {"compiled": before if compiled in before else [*before, compiled]}
        files = {name: described[name] for name in model.config.files}
        replace(model.config, training=training, files=files).save(temporary)


def corpus_record(corpus: Corpus) -> dict[str, Any]:
    """Return what a model records about its corpus."""
    return {name: getattr(corpus.manifest, name) for name in ("fingerprint", "sizes", "settings")}


def require_corpus_of(corpus: Corpus, what: str, of_model: int, of_corpus: int) -> None:
    """Refuse a corpus with another number of words or metadata than the model has."""
    if of_model != of_corpus:
        raise ModelError(
            f"the model has {of_model:,} {what}, {corpus.folder} has {of_corpus:,}. "
            "Give the corpus that the model was trained on."
        )


def stored_weights(tensors: Mapping[str, Any], dtype: StoredDtype) -> dict[str, Array]:
    """Return the tensors of a `state_dict` as they are stored; values that are not finite are refused."""
    floats = "float16" if dtype == "int8" else dtype
    limit = float(np.finfo(floats).max)
    weights: dict[str, Array] = {}
    for name, tensor in tensors.items():
        array = tensor.detach().cpu().float().numpy()
        if not (np.abs(array) <= limit).all():  # refuses NaN too
            raise ModelError(
                f"{name} holds values that are not finite in {dtype}: training has diverged. Train again."
            )
        if dtype == "int8" and name.endswith(_WORD_TABLE):
            weights[name], weights[name + layout.SCALE] = layout.to_eight_bits(array)
        else:
            weights[name] = array.astype(floats)
    return weights


def _model_card(config: FolderConfig) -> str:
    """Return the README of a model folder; all facts in it are in config.json too."""
    corpus = ", ".join(f"{n:,} {name.removeprefix('n_')}" for name, n in config.corpus["sizes"].items())
    training: dict[str, object] = {}
    for name, value in config.training.items():
        training |= value if isinstance(value, dict) else {name: value}
    return f"""# {_NAME_OF[config.kind]} by {config.metadata_kind}

A `{config.kind}` model of lmcells {config.written_by}: it maps a word, its {config.metadata_kind} and the words
around it to a Gaussian in {config.model["cell_dim"]} dimensions, the meaning of the word there. Trained without
labels, it expands acronyms by comparing the meaning of a short form in its context with those of its long forms.

## Use

```python
from lmcells.pretrained import PretrainedModel

model = PretrainedModel.from_pretrained("path/to/this/folder")  # numpy alone
network = model.to_torch()  # with lmcells[train]
```

## Data

Corpus `{config.corpus["fingerprint"]}`: {corpus}. Prepared with:

{_table(config.corpus["settings"])}

`vocabulary.json` and `sections.json` hold words and section names of that corpus. Look through them before you
share a model of private notes.

## Settings

{_table(config.model)}

Random seed: {config.seed}. Weights stored as {config.dtype}. Training:

{_table(training)}

## Intended use and limits

For research, search and text preparation, where a wrong expansion is noticed or does little harm.
**Not for clinical decisions.** It works best on notes like those of its corpus, reproduces their biases, and gets
rare meanings wrong more often than common ones.

## Licence

To be filled in by whoever publishes this model: it depends on the notes that the weights were trained on.
"""


def _table(settings: Mapping[str, object]) -> str:
    if not settings:
        return "(not recorded)"
    cells = ((str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) for row in settings.items())
    return "\n".join(
        ["| setting | value |", "|---|---|", *(f"| {name} | {value} |" for name, value in cells)]
    )


def _add_to_card(card: Path, line: str, *, heading: str) -> None:
    """Append a line to a card unless it is there; people edit cards, so the rest is left alone."""
    text = card.read_bytes() if card.is_file() else b""
    if line.encode() not in text:
        heading = "" if heading.encode() in text else f"\n{heading}"
        card.write_bytes(text + heading.encode() + line.encode())
