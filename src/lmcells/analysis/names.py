"""From the words and sections that a person names to a model's ids, and what sections were like in training."""

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmcells.analysis.statistics import Floats
from lmcells.errors import InputError
from lmcells.notes.sections import find_alias, load_aliases, upper_name
from lmcells.pretrained import PretrainedModel

NULL_SECTION = "<null>"  # how a person asks for null metadata
_N_SUGGESTED = 5


def word_id(model: PretrainedModel, word: str) -> int:
    """The id of a word of the vocabulary, however it is capitalised."""
    ids = model.word_ids
    for spelling in (word, word.lower()):
        if spelling in ids:
            return ids[spelling]
    if len(word.split()) > 1:
        parts = [part for part in word.lower().split() if part in ids]
        such = f", such as: {', '.join(parts)}" if parts else ""
        raise InputError(f"{word!r} is not one word. Give one word{such}.")
    raise InputError(f"the model does not know the word {word!r}. {_suggest(word.lower(), model.words)}")


def section_id(model: PretrainedModel, section: str) -> int:
    """The id of a section by its name, however it is capitalised, or by an alias."""
    require_sections(model)
    if section in model.section_ids:
        return model.section_ids[section]
    ids = {name.casefold(): id_ for name, id_ in model.section_ids.items()}
    alias = find_alias(load_aliases(None), section)
    for name in (upper_name(section), alias.name if alias else ""):
        if name.casefold() in ids:
            return ids[name.casefold()]
    raise InputError(f"the model does not know the section {section!r}. {_suggest(section, model.sections)}")


def section_name(model: PretrainedModel, section: str) -> str:
    return NULL_SECTION if section == NULL_SECTION else model.sections[section_id(model, section)]


def require_sections(model: PretrainedModel) -> None:
    """Refuse a model without metadata: its words have one cell, whatever the section."""
    if model.sizes.kind != "lmc":
        raise InputError(
            f"{model.folder} is a model of kind {model.sizes.kind!r}, which does not use sections. "
            "Allowed: a model of kind 'lmc'."
        )


def _suggest(name: str, known: Iterable[str]) -> str:
    """The most similar names in any case; else those with the same first letters, else the first ones."""
    by_spelling = {each.casefold(): each for each in known if not each.startswith("<")}  # no placeholders
    name = " ".join(name.casefold().split())
    near: Sequence[str] = difflib.get_close_matches(name, by_spelling, n=_N_SUGGESTED, cutoff=0.5)
    near = near or [each for each in by_spelling if each[:2] == name[:2]][:_N_SUGGESTED]
    if near:
        return f"Nearest: {', '.join(by_spelling[each] for each in near)}."
    return f"It knows: {', '.join(islice(by_spelling.values(), _N_SUGGESTED))}, and others."


class SectionStatistics(NamedTuple):
    """How large and how topical each section was in training; topicality and entropy are NaN without counts.

    Computed from the counts that the model kept: one that dropped small counts to save space (the shipped one) knows
    less of its small sections. A small sample looks more topical than it is, so compare at equal size.
    """

    n_tokens: npt.NDArray[np.int64]
    topicality: Floats  # KL(p(word | section) || p(word)), in nats: 0 for the words of all text
    entropy: Floats  # of p(word | section), in nats: small where a section repeats few words


def section_statistics(model: PretrainedModel) -> SectionStatistics:
    """Sum the model's counts of words by section."""
    table = model.statistics
    n_words = table.offsets.size - 1
    words = np.repeat(np.arange(n_words), np.diff(table.offsets))
    counts = table.counts.astype(np.float64)

    def by_section(values: Floats) -> Floats:
        return np.asarray(np.bincount(table.metadata, weights=values, minlength=table.n_metadata), np.float64)

    n_tokens = by_section(counts)
    of_words = np.bincount(words, weights=counts, minlength=n_words) / max(counts.sum(), 1)
    share = counts / n_tokens[table.metadata]
    topicality, entropy = (
        np.where(n_tokens > 0, by_section(share * logs), np.nan)
        for logs in (np.log(share / of_words[words]), -np.log(share))
    )
    return SectionStatistics(n_tokens.astype(np.int64), topicality, entropy)
