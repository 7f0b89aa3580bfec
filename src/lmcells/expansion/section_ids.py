"""The header of a section -> the metadata id under which a model knows it."""

from lmcells.corpus.sections import NO_SECTION, OTHER
from lmcells.notes.section_aliases import find_alias, load_aliases
from lmcells.notes.sections import upper_name
from lmcells.pretrained import PretrainedModel

NULL = -1


class SectionIds:
    """Looks up headers, each once."""

    def __init__(self, model: PretrainedModel) -> None:
        self._ids = model.section_ids
        self._aliases = load_aliases(None)
        self._found: dict[str | None, int] = {}

    def __getitem__(self, section: str | None) -> int:
        """The id of a header: its own, that of its canonical name, that of "other", or that of no section."""
        if section not in self._found:
            if len(self._found) > 100_000:  # headers of a million notes need not all be remembered
                self._found.clear()
            self._found[section] = self._find(section)
        return self._found[section]

    def _find(self, section: str | None) -> int:
        if section is not None:
            alias = find_alias(self._aliases, section)
            for name in (upper_name(section), alias.name if alias else "", OTHER):
                if name in self._ids:
                    return self._ids[name]
        return self._ids.get(NO_SECTION, NULL)
