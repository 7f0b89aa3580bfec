"""Compiling an inventory: adding prototypes of its long forms, from their occurrences in a corpus, to a model.

The corpus need not be the one that the model was trained on: words are matched by spelling, and sections by the rules
for notes. Long forms with out-of-vocabulary words are also found, but these words have no vectors.

Needs torch; nothing that expands notes imports this module.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from lmcells.corpus import Corpus
from lmcells.corpus.sections import NO_SECTION
from lmcells.errors import InputError, ModelError
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.long_forms import Wording, with_plurals, wordings
from lmcells.expansion.windows import section_id_finder
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.phrase_store import PhraseStore
from lmcells.pretrained.save import save_compiled
from lmcells.training import TrainingSettings
from lmcells.training.prototypes import MIN_COUNT, ModelText, read_long_forms


@dataclass(frozen=True, slots=True)
class Compilation:
    """The counts of a compilation."""

    n_senses: int
    n_senses_found: int  # with a wording that is frequent enough in the corpus
    n_added: int  # phrases new to the store
    n_replaced: int  # phrases at least as frequent in the corpus
    n_kept: int  # phrases that the store has from more occurrences

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def compile_inventory(
    model: PretrainedModel,
    inventory: SenseInventory,
    corpus: Corpus,
    *,
    output: Path,
    name: str,
    device: torch.device,
    min_count: int = MIN_COUNT,
    max_prototypes: int | None = None,
    kept: Iterable[SenseInventory] = (),
    overwrite: bool = False,
) -> Compilation:
    """Write a copy of a model with prototypes of the long forms that occur at least `min_count` times in a corpus.

    `name` is the inventory's name in the model card. With `max_prototypes` the least frequent phrases are dropped,
    except long forms of the inventory and of those in `kept`.
    """
    if model.phrase_network is None or model.phrase_store is None:
        raise ModelError(
            f"{model.folder} has no phrase network and store, which a compiled inventory needs. "
            "Train with the preset default."
        )
    store = model.phrase_store
    require_same_words(model, corpus)

    def phrases_in(senses: Iterable[Sense]) -> dict[Sense, list[Wording]]:
        stop_words = model.reads_stop_words
        return {sense: with_plurals(wordings(sense.forms, stop_words=stop_words)) for sense in senses}

    phrases_of = phrases_in(inventory)
    phrases = {phrase for of_sense in phrases_of.values() for phrase in of_sense}
    network = model.to_torch().to(device)
    text = ModelText.of_corpus(
        corpus,
        config=network.config,
        settings=TrainingSettings(
            metadata=model.config.metadata_kind,
            uncounted=model.config.training.get("settings", {}).get("uncounted", ""),
        ),
        device=device,
        vocabulary=model.words,
        metadata=metadata_ids(model, corpus) if model.sizes.kind != "bsg" else (),
        kept={word for phrase in phrases for word in phrase},
    )
    prototypes = read_long_forms(
        network,
        text,
        long_forms=phrases,
        masked_span_center=store.masked_span_center,
        phrase_center=store.phrase_center,
        min_count=min_count,
    )
    if not prototypes.phrases:
        raise InputError(
            f"{corpus.folder} has none of the long forms of {inventory.n_senses:,} senses at least {min_count} times. "
            "Give a corpus of notes that write them out."
        )
    found = PhraseStore.of_prototypes(prototypes)
    updated = store.updated(found)
    result = _account(phrases_of, before=store, found=found, after=updated)
    n_taken = result.n_added + result.n_replaced
    if max_prototypes is not None:
        all_kept = (phrases_of, *map(phrases_in, kept))
        names = {" ".join(phrase) for each in all_kept for found in each.values() for phrase in found}
        updated = updated.trimmed(max_prototypes, kept=names)
    save_compiled(
        model,
        output,
        store=updated,
        inventory=name,
        corpus=corpus,
        n_phrases=n_taken,
        overwrite=overwrite,
    )
    return result


def require_same_words(model: PretrainedModel, corpus: Corpus) -> None:
    """Refuse a corpus with stop words for a model without them, and the reverse."""
    if model.reads_stop_words != corpus.reads_stop_words:
        found, needed = ("no ", "with") if model.reads_stop_words else ("", "without")
        raise InputError(
            f"{corpus.folder}: found {found}stop words ('of', 'the'), unlike what {model.folder} was trained on. "
            f"Prepare the corpus {needed} --stop-words."
        )


def metadata_ids(model: PretrainedModel, corpus: Corpus) -> list[int]:
    """Return the model's id of each metadata value of a corpus: by name, or mapped like a header in a note."""
    section_id = section_id_finder(model)
    names = corpus.metadata_names(model.config.metadata_kind)
    return [section_id(None if name == NO_SECTION else name) for name in names]


def _account(
    phrases_of: dict[Sense, list[Wording]], *, before: PhraseStore, found: PhraseStore, after: PhraseStore
) -> Compilation:
    counts = dict(zip(found.phrases, found.arrays["counts"].tolist(), strict=True))
    n_kept = sum(
        known.count != count
        for phrase, count in counts.items()
        if (known := after.find(tuple(phrase.split(" "))))
    )
    n_added = len(after) - len(before)
    return Compilation(
        n_senses=len(phrases_of),
        n_senses_found=sum(any(" ".join(words) in counts for words in each) for each in phrases_of.values()),
        n_added=n_added,
        n_replaced=len(found) - n_added - n_kept,
        n_kept=n_kept,
    )
