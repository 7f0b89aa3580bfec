"""From the words and sections that a person names to a model's ids; an unknown name gets the nearest known ones."""

import difflib
from collections.abc import Iterable, Sequence
from itertools import islice

from lmcells.errors import InputError
from lmcells.expansion.section_ids import NULL
from lmcells.notes.section_aliases import find_alias, load_aliases
from lmcells.notes.sections import upper_name
from lmcells.pretrained import PretrainedModel

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
