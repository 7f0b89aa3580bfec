"""From the words and sections that a person names to a model's ids; an unknown name gets the nearest known ones."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from lmcells.errors import InputError
from lmcells.expansion.windows import NULL
from lmcells.notes.sections import find_alias, load_aliases, upper_name
from lmcells.pretrained import PretrainedModel

# From the words and sections that a person names to a model's ids; an unknown name gets the nearest known ones.


NULL_SECTION = "<null>"  # how a person asks for null metadata
_N_SUGGESTED = 5


def word_id(model: PretrainedModel, word: str) -> int:
    """The id of a word of the vocabulary, however it is capitalised."""
    ids = model.word_ids
    for spelling in (word, word.lower()):
        if spelling in ids:
            return ids[spelling]
    parts = [part for part in word.lower().split() if part in ids]
    if len(word.split()) > 1:
        such = f", such as: {', '.join(parts)}" if parts else ""
        raise InputError(f"{word!r} is not one word. Give one word{such}.")
    raise InputError(f"the model does not know the word {word!r}. {_suggest(word.lower(), model.words)}")


def section_id(model: PretrainedModel, section: str) -> int:
    """The id of a section, by its name, however it is capitalised, or by a name that means the same."""
    require_sections(model)
    if section in model.section_ids:
        return model.section_ids[section]
    ids = {name.casefold(): id_ for name, id_ in model.section_ids.items()}
    alias = find_alias(load_aliases(None), section)
    for name in (upper_name(section), alias.name if alias else ""):
        if name.casefold() in ids:
            return ids[name.casefold()]
    raise InputError(f"the model does not know the section {section!r}. {_suggest(section, model.sections)}")


def metadata_id(model: PretrainedModel, section: str) -> int:
    """The same, where null metadata may be asked for as well."""
    return NULL if section == NULL_SECTION else section_id(model, section)


def section_name(model: PretrainedModel, section: str) -> str:
    """The model's own name of the section, or of null metadata, that a person means."""
    return NULL_SECTION if section == NULL_SECTION else model.sections[section_id(model, section)]


def require_sections(model: PretrainedModel) -> None:
    """Only a model that reads metadata has cells of a word under a section."""
    if model.sizes.kind != "lmc":
        raise InputError(
            f"{model.folder} is a model of kind {model.sizes.kind!r}, whose words do not move with their section. "
            "Allowed: a model of kind 'lmc'."
        )


def _suggest(name: str, known: Iterable[str]) -> str:
    """The likest names, however capitalised; where none is like it, those with the same beginning, else the first."""
    by_spelling = {each.casefold(): each for each in known if not each.startswith("<")}  # no placeholders
    name = " ".join(name.casefold().split())
    near: Sequence[str] = difflib.get_close_matches(name, by_spelling, n=_N_SUGGESTED, cutoff=0.5)
    near = near or [each for each in by_spelling if each[:2] == name[:2]][:_N_SUGGESTED]
    if near:
        return f"Nearest: {', '.join(by_spelling[each] for each in near)}."
    return f"It knows: {', '.join(islice(by_spelling.values(), _N_SUGGESTED))}, and others."


# How large and how topical the sections of a model were in training, from its counts of words under sections.


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SectionStatistics:
    """One value a section; a section without counts has no topicality and no entropy (NaN).

    Both are of the words that were counted: a model that leaves out small counts to save room (the shipped one) knows
    less of its small sections. The topicality of a small sample is overrated, so compare it at equal size.
    """

    n_tokens: npt.NDArray[np.int64]
    topicality: (
        Floats  # KL(p(word | section) || p(word)), in nats: 0 where a section has the words of all text
    )
    entropy: Floats  # of p(word | section), in nats: small where a section repeats few words


def section_statistics(model: PretrainedModel) -> SectionStatistics:
    """Sum the counts of a model up by section."""
    table = model.statistics
    words = np.repeat(np.arange(table.offsets.size - 1), np.diff(table.offsets))
    counts = table.counts.astype(np.float64)
    n_tokens = _sums(table.metadata, counts, table.n_metadata)
    of_words = _sums(words, counts, table.offsets.size - 1) / max(counts.sum(), 1)
    share = counts / n_tokens[table.metadata]
    has_counts = n_tokens > 0
    topicality = _sums(table.metadata, share * np.log(share / of_words[words]), table.n_metadata)
    entropy = _sums(table.metadata, -share * np.log(share), table.n_metadata)
    return SectionStatistics(
        n_tokens.astype(np.int64),
        np.where(has_counts, topicality, np.nan),
        np.where(has_counts, entropy, np.nan),
    )


def _sums(ids: npt.NDArray[np.integer], values: Floats, size: int) -> Floats:
    return np.asarray(np.bincount(ids, weights=values, minlength=size), np.float64)
