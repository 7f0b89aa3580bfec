"""Expanding the short forms of whole notes.

expander = Expander.from_pretrained()                    # the shipped model; or a folder
expander("PMH: CVA in 2019, now in PT twice weekly.")    # a list of Expansion
expander(note, sections=[(0, 40, "PMH")], inventory="mine.csv")
for expansions in expander.pipe(notes, batch_size=256): ...   # texts, or notes with `text` and `sections`
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol, Self, TypeVar, overload

import numpy as np

from lmcells.errors import InputError
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.expansion import Candidate, Expansion
from lmcells.expansion.explain import Explanation, explain
from lmcells.expansion.inventory import InventoryLike, Sense, SenseInventory, as_inventory, load_inventory
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.ranking import Ranker, best_ranker, share_within_notes
from lmcells.expansion.reader import NoteReader, Occurrence
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder

SHIPPED_INVENTORY = "clinical_inventory.csv"

Context = TypeVar("Context")

_KEPT_INVENTORIES = 8
_MOST_MENTIONS = 8192  # in one batch, whatever the notes are like


MakeRanker = Callable[[PretrainedModel, SenseInventory], Ranker]


class SectionedNote(Protocol):
    """A text with the caller's own sections, None to have them found; `lmcells.notes.note.Note` is one."""

    @property
    def text(self) -> str: ...

    @property
    def sections(self) -> Sequence[Any] | None: ...


@cache
def shipped_inventory() -> SenseInventory:
    """Return the inventory that comes with the package."""
    with resources.as_file(resources.files(__package__).joinpath(SHIPPED_INVENTORY)) as path:
        if not path.is_file():
            raise InputError("no inventory is shipped in this build. Give one: inventory=FILE, JSON or CSV.")
        return load_inventory(path)


class Expander:
    """Finds the short forms of notes, and ranks what they may stand for; see the module.

    It may be shared by threads, and pickled.
    """

    def __init__(
        self,
        model: PretrainedModel,
        inventory: InventoryLike,
        *,
        calibration: Calibration | None = None,
        sections: str = "rules",
        make_ranker: MakeRanker = best_ranker,
    ) -> None:
        self.model = model
        self.inventory = as_inventory(inventory)
        self.calibration = calibration or Calibration()
        self._style = sections
        self._make_ranker = make_ranker
        self._lexicons = _Lexicons(self._build)
        self._lexicons.of(self.inventory)  # a wrong style or inventory is refused here

    @classmethod
    def from_pretrained(
        cls,
        folder: Path | str | None = None,
        *,
        inventory: InventoryLike | None = None,
        calibration: Calibration | None = None,
        sections: str = "rules",
        verify: bool = False,
    ) -> Self:
        """Open a model folder (the shipped one without it, or as "default") and an inventory (or the shipped one)."""
        path = model_folder(folder)
        model = PretrainedModel.from_pretrained(path, verify=verify)
        return cls(
            model,
            shipped_inventory() if inventory is None else inventory,
            calibration=calibration or Calibration.load(path),
            sections=sections,
        )

    def __call__(
        self, note: str, sections: Sequence[Any] | None = None, inventory: InventoryLike | None = None
    ) -> list[Expansion]:
        """Expand the short forms of one note; see `pipe` for many."""
        lexicon = self.lexicon(inventory)
        return self.expand_read([lexicon.read(_checked(note), sections)], lexicon)[0]

    def explain(
        self, note: str, sections: Sequence[Any] | None = None, inventory: InventoryLike | None = None
    ) -> list[Explanation | None]:
        """Say what each expansion of one note rests on, in the same order; None where the note defines it."""
        lexicon = self.lexicon(inventory)
        return self.explain_read(lexicon.read(_checked(note), sections), lexicon)

    def explain_read(self, note: Sequence[Occurrence], lexicon: "Lexicon") -> list[Explanation | None]:
        """Explain the occurrences of a note that a lexicon has read."""
        evidence = [
            np.subtract(shared, own, out=np.zeros_like(shared), where=np.isfinite(own))
            for own, shared in _scores([note], lexicon)
        ]
        return explain(lexicon.ranker, note, evidence=evidence, temperature=self.calibration.temperature)

    @overload
    def pipe(
        self,
        notes: Iterable[str | SectionedNote],
        *,
        batch_size: int = ...,
        as_tuples: Literal[False] = ...,
        inventory: InventoryLike | None = ...,
    ) -> Iterator[list[Expansion]]: ...

    @overload
    def pipe(
        self,
        notes: Iterable[tuple[str | SectionedNote, Context]],
        *,
        batch_size: int = ...,
        as_tuples: Literal[True],
        inventory: InventoryLike | None = ...,
    ) -> Iterator[tuple[list[Expansion], Context]]: ...

    def pipe(
        self,
        notes: Iterable[Any],
        *,
        batch_size: int = 256,
        as_tuples: bool = False,
        inventory: InventoryLike | None = None,
    ) -> Iterator[Any]:
        """Expand a stream of notes, ranking those of a batch together; one list a note, in order.

        A note is a text, or an object with a `text` and `sections` of the caller's own. With `as_tuples` notes are
        pairs of a note and anything, and results are pairs of a list and the same.
        """
        if batch_size < 1:
            raise InputError(f"batch_size: found {batch_size}, allowed: 1 or more.")
        return self._pipe(notes, batch_size, as_tuples, self.lexicon(inventory))

    def _pipe(
        self, notes: Iterable[Any], batch_size: int, as_tuples: bool, lexicon: "Lexicon"
    ) -> Iterator[Any]:
        read: list[list[Occurrence]] = []
        contexts: list[Any] = []
        n_mentions = 0

        def finish() -> Iterator[Any]:
            expanded = self.expand_read(read, lexicon)
            return zip(expanded, contexts, strict=True) if as_tuples else iter(expanded)

        for given in notes:
            note, context = given if as_tuples else (given, None)
            read.append(lexicon.read(*_text_and_sections(note)))
            contexts.append(context)
            n_mentions += len(read[-1])
            if len(read) == batch_size or n_mentions >= _MOST_MENTIONS:
                yield from finish()
                read, contexts, n_mentions = [], [], 0
        yield from finish()

    def expand_read(self, notes: Sequence[Sequence[Occurrence]], lexicon: "Lexicon") -> list[list[Expansion]]:
        """Expand notes that a lexicon has read, ranking their mentions together."""
        scores = iter(_scores(notes, lexicon))
        return [
            [
                _defined(each, each.defined)
                if each.defined is not None
                else self._ranked(each, lexicon.inventory.by_short_form[each.short_form], *next(scores))
                for each in note
            ]
            for note in notes
        ]

    def _ranked(self, place: Occurrence, senses: Sequence[Sense], own: Floats, shared: Floats) -> Expansion:
        """Whether any sense fits is a matter of the place itself; which one, of the whole note."""
        probabilities = self.calibration.probabilities(shared)
        candidates = tuple(
            Candidate(senses[index].long_form, float(probabilities[index]), senses[index].concept_id)
            for index in np.argsort(-probabilities, kind="stable").tolist()
        )
        reason = self.calibration.reason_to_abstain(own, probabilities)
        return Expansion(
            place.start,
            place.end,
            place.short_form,
            place.section,
            None if reason else candidates[0].long_form,
            None if reason else candidates[0].probability,
            "model",
            candidates,
            reason,
        )

    def lexicon(self, inventory: InventoryLike | None = None) -> "Lexicon":
        """Return what reads and ranks notes with an inventory (without one, the expander's own)."""
        return self._lexicons.of(self.inventory if inventory is None else inventory)

    def _build(self, inventory: SenseInventory) -> "Lexicon":
        return Lexicon(
            inventory,
            NoteReader(inventory, sections=self._style),
            self._make_ranker(self.model, inventory),
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lexicons"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lexicons = _Lexicons(self._build)


def _checked(note: object) -> str:
    if not isinstance(note, str):
        raise InputError(f"a note is text (str), found: {type(note).__name__}.")
    return note


def _text_and_sections(note: object) -> tuple[str, Sequence[Any] | None]:
    if isinstance(note, str):
        return note, None
    try:
        return _checked(note.text), note.sections  # type: ignore[attr-defined]
    except AttributeError:
        kind = type(note).__name__
        raise InputError(f"a note is text (str), or has `text` and `sections`, found: {kind}.") from None


def _defined(place: Occurrence, candidate: Candidate) -> Expansion:
    return Expansion(
        place.start,
        place.end,
        place.short_form,
        place.section,
        candidate.long_form,
        candidate.probability,
        "definition",
        (candidate,),
    )


def _scores(notes: Sequence[Sequence[Occurrence]], lexicon: "Lexicon") -> list[tuple[Floats, Floats]]:
    """Score the mentions of notes, each by its own place and by what the others of its note say too."""
    mentions = [each.mention for note in notes for each in note if each.mention is not None]
    own = lexicon.ranker.scores(mentions) if mentions else []
    return list(zip(own, share_within_notes(notes, own), strict=True))


class Lexicon:
    """An inventory with all that is computed for it once."""

    def __init__(self, inventory: SenseInventory, read: NoteReader, ranker: Ranker) -> None:
        self.inventory = inventory
        self.read = read
        self.ranker = ranker


class _Lexicons:
    """The lexicons of the inventories used last: changing between a few of them costs nothing."""

    def __init__(self, build: Callable[[SenseInventory], Lexicon]) -> None:
        self._build = build
        self._kept: OrderedDict[Any, tuple[Any, Lexicon]] = OrderedDict()
        self._lock = Lock()

    def of(self, given: InventoryLike) -> Lexicon:
        """Return the lexicon of an inventory: the same object, the same unchanged file, or equal senses."""
        key, held = _identity(given)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = held, self._build(as_inventory(held))
                if len(self._kept) > _KEPT_INVENTORIES:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key][1]


def _identity(given: InventoryLike) -> tuple[Any, InventoryLike]:
    """Return what tells an inventory from others, and the inventory, to be held as long as that is."""
    if isinstance(given, SenseInventory):
        return id(given), given
    if isinstance(given, str | Path):
        path = Path(given)
        try:
            status = path.stat()
        except OSError:
            return path, given  # loading it says what is wrong
        return (path.absolute(), status.st_mtime_ns, status.st_size), given
    inventory = as_inventory(given)
    return tuple(inventory), inventory
