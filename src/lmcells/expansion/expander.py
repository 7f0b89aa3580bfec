"""Expanding the short forms of whole notes."""

import csv
from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from math import inf
from pathlib import Path
from threading import RLock
from typing import Any, Literal, Protocol, Self, TypeVar, overload

import numpy as np

from lmcells.errors import InputError
from lmcells.expansion.calibration import ORDINARY_WORD, Calibration, OrdinaryReadings, SensePriors
from lmcells.expansion.expansion import Candidate, Expansion, Source
from lmcells.expansion.explain import Explanation, explain
from lmcells.expansion.inventory import Sense, SenseInventory, as_rules
from lmcells.expansion.layers import LayerLike, extend, read_layers
from lmcells.expansion.letters import LetterSenses
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.ranking import (
    MaskedSpanRanker,
    PosteriorRanker,
    Ranker,
    best_ranker,
    share_within_notes,
)
from lmcells.expansion.reader import NoteReader, Occurrence
from lmcells.notes.tokens import is_in_capitals
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder
from lmcells.pretrained.hub import push_folder

SHIPPED_INVENTORY = "clinical_inventory.csv"

Context = TypeVar("Context")
MakeRanker = Callable[[PretrainedModel, SenseInventory], Ranker]

_KEPT_INVENTORIES = 8
_OTHER_CASE = 5.0  # in log-odds, against a sense that is usually written in another case
_MOST_MENTIONS = 8192  # in one batch, however long the notes are


class SectionedNote(Protocol):
    """A text with the caller's own sections, None to have them found; `lmcells.notes.note.Note` is one."""

    @property
    def text(self) -> str: ...

    @property
    def sections(self) -> Sequence[Any] | None: ...


@cache
def shipped_inventory() -> SenseInventory:
    """Return the inventory that comes with the package; equal to what `load_inventory` reads, in half the time."""
    path = resources.files(__package__).joinpath(SHIPPED_INVENTORY)
    if not path.is_file():
        raise InputError("this build comes without an inventory. Give one: inventory=FILE, JSON or CSV.")
    senses: dict[str, list[Sense]] = {}
    for row in list(csv.reader(path.read_text("utf-8").splitlines()))[1:]:
        short_form, long_form, forms, concept_id, *error_prone = row
        sense = Sense(
            short_form, long_form, tuple(forms.split(";")), concept_id or None, "yes" in error_prone
        )
        senses.setdefault(short_form, []).append(sense)
    return SenseInventory({name: tuple(found) for name, found in senses.items()}, has_priors=True)


@dataclass(frozen=True)
class Lexicon:
    """An inventory, with what reads notes for it and ranks its senses, those found by letters, and ordinary words."""

    inventory: SenseInventory
    read: NoteReader
    ranker: Ranker
    letters: tuple[LetterSenses, Ranker] | None = None
    priors: SensePriors = field(default_factory=lambda: SensePriors({}))
    ordinary: OrdinaryReadings | None = None
    below: "Lexicon | None" = None  # the lexicon over which this one is laid,
    changed: Collection[str] = ()  # and the short forms whose senses are others

    def prior_of(self, short_form: str, *, in_capitals: bool) -> tuple[list[float], float]:
        """Return what the priors add to the log-odds of each sense of a short form, and of none."""
        key = short_form, in_capitals
        if key not in self._known_priors:
            names = [sense.long_form for sense in self.inventory.by_short_form[short_form]]
            of_senses, of_none = self.priors.of(short_form, names)
            if not in_capitals:
                for index in self.in_other_case(short_form):
                    of_senses[index] -= _OTHER_CASE
            self._known_priors[key] = of_senses, of_none
        return self._known_priors[key]

    def is_error_prone(self, short_form: str, long_form: str) -> bool:
        """Whether patient-safety lists advise against a short form for a sense."""
        senses = self.inventory.by_short_form.get(short_form, ())
        return any(each.error_prone for each in senses if each.long_form == long_form)

    def in_other_case(self, short_form: str) -> list[int]:
        """Which senses of a form in capitals an entry in other case has: PT is a "patient" in all-caps text only."""
        if short_form not in self._known_in_other_case:
            names = self._spellings(short_form) if short_form == short_form.upper() else []
            senses = self.inventory.by_short_form
            others = {sense.long_form for each in names if each != short_form for sense in senses[each]}
            at = [index for index, sense in enumerate(senses[short_form]) if sense.long_form in others]
            self._known_in_other_case[short_form] = at if len(at) < len(senses[short_form]) else []
        return self._known_in_other_case[short_form]

    def _spellings(self, capitals: str) -> list[str]:
        """Return the short forms that differ in case only."""
        below = self.below._spellings(capitals) if self.below else []
        return [*below, *self._own_spellings.get(capitals, ())]

    @cached_property
    def _own_spellings(self) -> dict[str, list[str]]:
        """The short forms that the inventory below lacks, by their capitals."""
        spellings: dict[str, list[str]] = {}
        for short_form in self.inventory.short_forms if self.below is None else self.changed:
            if self.below is None or short_form not in self.below.inventory:
                spellings.setdefault(short_form.upper(), []).append(short_form)
        return spellings

    @cached_property
    def _known_in_other_case(self) -> dict[str, list[int]]:
        return {}

    @cached_property
    def _known_priors(self) -> dict[tuple[str, bool], tuple[list[float], float]]:
        return {}


class Expander:
    """Finds the short forms of clinical notes and ranks what each may stand for.

    Examples:
        ```python
        expander = Expander.from_pretrained()                    # the shipped model, or a model folder
        expander("PMH: CVA in 2019, now in PT twice weekly.")    # a list of Expansion
        expander(note, sections=[(0, 40, "PMH")], inventory="mine.csv")
        for expansions in expander.pipe(notes, batch_size=256): ...   # a stream, in order
        expander.explain(note)                                   # what each answer is based on
        ```

    The long forms come from the inventory, or from the note where it defines an abbreviation itself. Probabilities are
    calibrated, and the expander abstains where it is not sure. Threads may share an expander; it can be pickled.
    """

    def __init__(
        self,
        model: PretrainedModel,
        inventory: LayerLike,
        *,
        calibration: Calibration | None = None,
        sections: str = "rules",
        header_rules: Path | str | None = None,
        letters: bool = True,
        codes: bool = False,
        make_ranker: MakeRanker = best_ranker,
    ) -> None:
        """Combine a model and an inventory; `from_pretrained` opens both from files.

        Args:
            model: the model that ranks.
            inventory: the long forms of each short form: a `SenseInventory`, a file, or a list of senses.
            calibration: turns scores into probabilities, and decides when to abstain.
            sections: how sections are found: "rules", "paper" or "none".
            header_rules: a file of own headers, `{"NAME": ["alias", ...]}`.
            letters: also expand short forms that are in no inventory, by their letters.
            codes: also read out codes such as pT3a, L5 and CD20.
            make_ranker: what ranks the senses of an inventory with the model.
        """
        self.model = model
        self.inventory = _alone(inventory)
        self.calibration = calibration or Calibration()
        self._style = sections
        self._header_rules = None if header_rules is None else Path(header_rules)
        self._codes = codes
        self._letters = _letter_senses(model) if letters else None
        self._priors = SensePriors.load(model.folder)
        self._make_ranker = make_ranker
        self._lexicons = _Lexicons(self.inventory, self._build)
        self._lexicons.of(self.inventory)  # refuses a wrong style or inventory here

    @classmethod
    def from_pretrained(
        cls,
        folder: Path | str | None = None,
        *,
        inventory: LayerLike | None = None,
        only_inventory: LayerLike | None = None,
        calibration: Calibration | None = None,
        sections: str = "rules",
        header_rules: Path | str | None = None,
        letters: bool = True,
        codes: bool = False,
        verify: bool = False,
        revision: str | None = None,
        download: bool = False,
    ) -> Self:
        """Open a model folder and an inventory.

        Args:
            folder: a model folder; None or "default" is the shipped model, "org/name" one in the cache of the
                Hugging Face hub.
            inventory: own senses and rules over the shipped inventory: a file or several, an inventory, or a list.
            only_inventory: the same, in place of the shipped inventory.
            calibration: None takes the model's own.
            sections: how sections are found: "rules", "paper" or "none".
            header_rules: a file of own headers, `{"NAME": ["alias", ...]}`.
            letters: also expand short forms that are in no inventory, by their letters.
            codes: also read out codes such as pT3a, L5 and CD20.
            verify: compare the checksums of the model's files.
            revision: of a model on the hub: a branch, tag or commit.
            download: fetch a model from the hub if it is not in its cache (`pip install 'lmcells[hub]'`).
        """
        path = model_folder(folder, revision=revision, download=download)
        model = PretrainedModel.from_pretrained(path, verify=verify)
        below = shipped_inventory() if only_inventory is None else _alone(only_inventory)
        return cls(
            model,
            below if inventory is None else extend(below, inventory),
            calibration=calibration or Calibration.load(path),
            sections=sections,
            header_rules=header_rules,
            letters=letters,
            codes=codes,
        )

    def __call__(
        self,
        note: str,
        sections: Sequence[Any] | None = None,
        inventory: LayerLike | None = None,
        *,
        only_inventory: LayerLike | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> list[Expansion]:
        """Expand the short forms of one note; see `pipe` for many.

        Args:
            note: the text of the note.
            sections: the note's sections, if they are known: (start, end, header) each.
            inventory: senses and rules over the expander's, for this note.
            only_inventory: senses in place of the expander's, for this note.
            metadata: what is known of the note, such as {"category": "Cardiology"}, for rules that ask for it.
        """
        lexicon = self.lexicon(inventory, only_inventory)
        return self.expand_read([lexicon.read(_checked(note), sections, metadata)], lexicon)[0]

    def explain(
        self,
        note: str,
        sections: Sequence[Any] | None = None,
        inventory: LayerLike | None = None,
        *,
        only_inventory: LayerLike | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> list[Explanation | None]:
        """Say what each expansion of a note is based on, in the same order; None where the note defines it."""
        lexicon = self.lexicon(inventory, only_inventory)
        return self.explain_read(lexicon.read(_checked(note), sections, metadata), lexicon)

    def explain_read(
        self, note: Sequence[Occurrence], lexicon: Lexicon, starts: Container[int] | None = None
    ) -> list[Explanation | None]:
        """Explain the occurrences of a note that a lexicon has read: all, or those that begin at `starts`."""
        expanded = {each.start for each in self.expand_read([note], lexicon)[0]}
        ranked, evidence = [], []
        scores = iter(self._scores([note], lexicon))
        for each in note:
            if each.source == "letters":
                continue
            own, shared = next(scores)[:2] if each.mention is not None else (None, None)
            if each.start not in expanded:
                continue
            is_asked = starts is None or each.start in starts
            ranked.append(each if is_asked else replace(each, mention=None))
            if is_asked and own is not None and shared is not None:
                evidence.append(np.subtract(shared, own, out=np.zeros_like(shared), where=np.isfinite(own)))
        explained = iter(
            explain(lexicon.ranker, ranked, evidence=evidence, temperature=self.calibration.temperature)
        )
        # What letters say is not explained.
        return [
            None if each.source == "letters" else next(explained) for each in note if each.start in expanded
        ]

    @overload
    def pipe(
        self,
        notes: Iterable[str | SectionedNote],
        *,
        batch_size: int = ...,
        as_tuples: Literal[False] = ...,
        inventory: LayerLike | None = ...,
        only_inventory: LayerLike | None = ...,
    ) -> Iterator[list[Expansion]]: ...

    @overload
    def pipe(
        self,
        notes: Iterable[tuple[str | SectionedNote, Context]],
        *,
        batch_size: int = ...,
        as_tuples: Literal[True],
        inventory: LayerLike | None = ...,
        only_inventory: LayerLike | None = ...,
    ) -> Iterator[tuple[list[Expansion], Context]]: ...

    def pipe(
        self,
        notes: Iterable[Any],
        *,
        batch_size: int = 256,
        as_tuples: bool = False,
        inventory: LayerLike | None = None,
        only_inventory: LayerLike | None = None,
    ) -> Iterator[Any]:
        """Expand a stream of notes in bounded memory; yields one list of expansions a note, in order.

        Args:
            notes: texts, or objects with `text` and `sections`, and perhaps `metadata`.
            batch_size: notes that are ranked together.
            as_tuples: notes are pairs of a note and anything, results pairs of a list and the same.
            inventory: senses and rules over the expander's.
            only_inventory: senses in place of the expander's.
        """
        if batch_size < 1:
            raise InputError(f"batch_size: found {batch_size}, allowed: 1 or more.")
        return self._pipe(notes, batch_size, as_tuples, self.lexicon(inventory, only_inventory))

    def _pipe(
        self, notes: Iterable[Any], batch_size: int, as_tuples: bool, lexicon: Lexicon
    ) -> Iterator[Any]:
        read: list[list[Occurrence]] = []
        contexts: list[Any] = []
        n_mentions = 0

        def finish() -> Iterator[Any]:
            expanded = self.expand_read(read, lexicon)
            return zip(expanded, contexts, strict=True) if as_tuples else iter(expanded)

        for given in notes:
            note, context = given if as_tuples else (given, None)
            read.append(lexicon.read(*_parts(note)))
            contexts.append(context)
            n_mentions += len(read[-1])
            if len(read) == batch_size or n_mentions >= _MOST_MENTIONS:
                yield from finish()
                read, contexts, n_mentions = [], [], 0
        yield from finish()

    def expand_frame(
        self,
        frame: Any,
        *,
        text: str = "text",
        id: str | None = None,  # noqa: A002 - the word of all readers
        batch_size: int = 256,
        inventory: LayerLike | None = None,
    ) -> Any:
        """Expand a frame of notes lazily: a `pyarrow.RecordBatchReader` with one row per expansion.

        Args:
            frame: a pandas, polars or Arrow frame, or any other with the Arrow interchange.
            text: the column of the texts; a missing text gives no row.
            id: the column of the ids, which come back as they were given; None numbers the rows from 0.
            batch_size: notes that are ranked together.
            inventory: other senses than the expander's.
        """
        from lmcells.expansion.frames import expand_frame

        return expand_frame(self, frame, text=text, id=id, batch_size=batch_size, inventory=inventory)

    def push_to_hub(self, repository: str, *, private: bool = True, message: str | None = None) -> str:
        """Upload the model to the Hugging Face hub (`pip install 'lmcells[hub]'`); -> the address of the commit.

        Its words and phrases are those of its training text: look through them before you share a model of notes.
        """
        return push_folder(self.model.folder, repository, private=private, message=message)

    def expand_read(self, notes: Sequence[Sequence[Occurrence]], lexicon: Lexicon) -> list[list[Expansion]]:
        """Expand notes that a lexicon has read, ranking their mentions together."""
        scores = iter(self._scores(notes, lexicon))
        by_letters = self._by_letters(notes, lexicon)
        senses = lexicon.inventory.by_short_form
        expanded: list[list[Expansion]] = []
        for note in notes:
            expanded.append([])
            for each in note:
                if each.defined is not None:
                    expanded[-1].append(_expansion(each, (each.defined,), each.source, lexicon))
                elif each.source != "letters":
                    ranked = self._ranked(each, senses[each.short_form], lexicon, next(scores))
                    expanded[-1] += [ranked] if ranked is not None else []
                elif candidates := next(by_letters):
                    expanded[-1].append(_expansion(each, candidates, "letters", lexicon))
        return expanded

    def _by_letters(
        self, notes: Sequence[Sequence[Occurrence]], lexicon: Lexicon
    ) -> Iterator[tuple[Candidate, ...]]:
        """Yield the candidates of each occurrence that was found by its letters; none where none convinces."""
        mentions = [
            each.mention for note in notes for each in note if each.source == "letters" and each.mention
        ]
        if lexicon.letters is not None and mentions:
            senses, ranker = lexicon.letters
            for mention, fits in zip(mentions, ranker.scores(mentions), strict=True):
                yield senses.decide(mention.short_form, fits, temperature=self.calibration.temperature)

    def _ranked(
        self,
        occurrence: Occurrence,
        senses: Sequence[Sense],
        lexicon: Lexicon,
        scores: tuple[Floats, Floats, float],
    ) -> Expansion | None:
        """Whether any sense fits is judged by the mention's own scores; which one, by those of the whole note.

        Returns None for what is an ordinary word.
        """
        own, shared, ordinary = scores
        mention = occurrence.mention
        assert mention is not None
        # Whether a text is in capitals matters only to few short forms.
        in_capitals = not lexicon.in_other_case(occurrence.short_form) or is_in_capitals(mention.text)
        prior, none_prior = lexicon.prior_of(occurrence.short_form, in_capitals=in_capitals)
        if occurrence.allowed is not None:
            allowed = list(occurrence.allowed)
            senses = [senses[at] for at in allowed]
            own, shared, prior = own[allowed], shared[allowed], [prior[at] for at in allowed]
        probabilities, abstained = self.calibration.judge(
            own, shared, prior=prior, none_prior=none_prior, ordinary=ordinary
        )
        if abstained == ORDINARY_WORD:
            return None
        order = sorted(range(len(senses)), key=lambda index: -probabilities[index])
        candidates = tuple(
            Candidate(senses[index].long_form, probabilities[index], senses[index].concept_id)
            for index in order
        )
        return _expansion(occurrence, candidates, "model", lexicon, abstained)

    def _scores(
        self, notes: Sequence[Sequence[Occurrence]], lexicon: Lexicon
    ) -> list[tuple[Floats, Floats, float]]:
        """Score the mentions of notes, each by its own window, together with the others of its note, and as a word."""
        mentions = [
            each.mention
            for note in notes
            for each in note
            if each.mention is not None and each.source != "letters"
        ]
        own = lexicon.ranker.scores(mentions) if mentions else []
        ordinary = [-inf] * len(mentions)
        if lexicon.ordinary is not None:
            ordinary = lexicon.ordinary.log_odds(mentions, own, self.calibration)
        return list(zip(own, share_within_notes(notes, own), ordinary, strict=True))

    def lexicon(self, inventory: LayerLike | None = None, only_inventory: LayerLike | None = None) -> Lexicon:
        """Return what reads and ranks notes with senses laid over the expander's, or in their place."""
        return self._lexicons.of(self.inventory if only_inventory is None else only_inventory, inventory)

    def _build(
        self, inventory: SenseInventory, base: Lexicon | None = None, changed: Collection[str] | None = None
    ) -> Lexicon:
        """Prepare an inventory; with a base only the short forms that changed are looked at, None: all."""
        if base is None:
            read = NoteReader(
                inventory,
                sections=self._style,
                letters=self._letters[0] if self._letters is not None else None,
                codes=self._codes,
                header_rules=self._header_rules,
            )
        else:
            read = base.read.over(inventory, changed)
        if base is not None and isinstance(base.ranker, PosteriorRanker):
            ranker: Ranker = base.ranker.over(inventory, changed)
        else:
            ranker = self._make_ranker(self.model, inventory)
        priors = self._priors if inventory.has_priors else SensePriors({})
        if base is not None:
            ordinary = base.ordinary
        else:
            has_ordinary = isinstance(ranker, MaskedSpanRanker)
            ordinary = OrdinaryReadings(self.model, MaskedSpanRanker) if has_ordinary else None
        below = (None, ()) if changed is None else (base, changed)
        return Lexicon(inventory, read, ranker, self._letters, priors, ordinary, *below)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_lexicons"}
        is_shipped = self.inventory is shipped_inventory()  # which has priors, so it must stay what it is
        return state | {"_letters": self._letters is not None} | ({"inventory": None} if is_shipped else {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.inventory = shipped_inventory() if state["inventory"] is None else state["inventory"]
        self._letters = _letter_senses(self.model) if state["_letters"] else None
        self._lexicons = _Lexicons(self.inventory, self._build)


def _letter_senses(model: PretrainedModel) -> tuple[LetterSenses, Ranker] | None:
    """What finds and ranks short forms by their letters; None for a model without a phrase store."""
    if model.phrase_store is None:
        return None
    senses = LetterSenses(model)
    # It has senses of any short form, which is all that a ranker asks of an inventory.
    return senses, MaskedSpanRanker(model, senses)  # type: ignore[arg-type]


def _expansion(
    occurrence: Occurrence,
    candidates: tuple[Candidate, ...],
    source: Source,
    lexicon: Lexicon,
    abstained: str | None = None,
) -> Expansion:
    return Expansion(
        occurrence.start,
        occurrence.end,
        occurrence.short_form,
        occurrence.section,
        None if abstained else candidates[0].long_form,
        None if abstained else candidates[0].probability,
        source,
        candidates,
        abstained,
        lexicon.is_error_prone(occurrence.short_form, candidates[0].long_form),
    )


def _checked(note: object) -> str:
    if not isinstance(note, str):
        raise InputError(f"a note is text (str), found: {type(note).__name__}.")
    return note


def _parts(note: object) -> tuple[str, Sequence[Any] | None, Mapping[str, object] | None]:
    """Return the text of a note, its sections and metadata."""
    if isinstance(note, str):
        return note, None, None
    try:
        return _checked(note.text), note.sections, getattr(note, "metadata", None)  # type: ignore[attr-defined]
    except AttributeError:
        kind = type(note).__name__
        raise InputError(f"a note is text (str), or has `text` and `sections`, found: {kind}.") from None


class _Lexicons:
    """The lexicons of the inventories used last, so that switching between a few costs nothing."""

    def __init__(self, inventory: SenseInventory, build: Callable[..., Lexicon]) -> None:
        self._inventory = inventory
        self._build = build
        self._kept: OrderedDict[Any, tuple[Any, Lexicon]] = OrderedDict()
        self._lock = RLock()

    def of(self, below: LayerLike, above: LayerLike | None = None) -> Lexicon:
        """Return the lexicon of one inventory over another: the same objects, unchanged files, or equal senses."""
        (key_below, below), (key_above, above) = _identity(below), _identity(above)
        key = key_below, key_above
        with self._lock:
            if key not in self._kept:
                self._kept[key] = (below, above), self._new(below, above)
                if len(self._kept) > _KEPT_INVENTORIES:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key][1]

    def _new(self, below: LayerLike, above: LayerLike | None) -> Lexicon:
        if above is None:
            if below is self._inventory:
                return self._build(below)
            return self._build(_alone(below), self.of(self._inventory))
        base, layers = self.of(below), read_layers(above)
        inventory = base.inventory
        for rules in layers:
            inventory = extend(inventory, rules)
        changed = dict.fromkeys(rule.sense.short_form for rules in layers for rule in rules)
        return self._build(inventory, base, changed)


def _alone(given: LayerLike) -> SenseInventory:
    inventory = given if isinstance(given, SenseInventory) else extend(SenseInventory(), given)
    if not len(inventory):
        raise InputError("the inventory is empty. Give at least one sense.")
    return inventory


def _identity(given: Any) -> tuple[Any, Any]:
    """Return a key for a layer, and the layer, to be held as long as the key is."""
    if given is None or isinstance(given, SenseInventory):
        return id(given), given
    if isinstance(given, str | Path):
        path = Path(given)
        try:
            status = path.stat()
        except OSError:
            return path, given  # loading it says what is wrong
        return (path.absolute(), status.st_mtime_ns, status.st_size), given
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        return id(given), given  # refused where it is read
    entries = list(given)
    if entries and all(isinstance(each, str | Path) for each in entries):
        return tuple(_identity(each)[0] for each in entries), entries
    rules = as_rules(entries)
    return tuple(rules), rules
