"""Inventories prepared for use: the reader and the rankers of each, and a cache of those used last."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

from lmcells.expansion.calibration import OrdinaryReadings, SensePriors, Writing
from lmcells.expansion.inventory import SenseInventory
from lmcells.expansion.inventory_files import as_rules
from lmcells.expansion.layers import LayerLike, extend, standalone
from lmcells.expansion.letters import LetterSenses
from lmcells.expansion.ranking import MaskedSpanRanker, PosteriorRanker, Ranker
from lmcells.expansion.reader import NoteReader
from lmcells.expansion.windows import Mention
from lmcells.notes.tokens import is_in_capitals
from lmcells.pretrained import PretrainedModel

MakeRanker = Callable[[PretrainedModel, SenseInventory], Ranker]

_CACHED_LEXICONS = 8
_OTHER_CASE = 5.0  # in log-odds, against a sense that is usually written in another case
_ONE_SENSE = 1.0  # in log-odds, against "no sense fits": most short forms with one sense mean it


@dataclass(frozen=True, eq=False)
class Lexicon:
    """An inventory with its note reader, and what ranks its senses, senses by letters and ordinary words."""

    inventory: SenseInventory
    read: NoteReader
    ranker: Ranker
    letters: LetterSenses | None
    ordinary: OrdinaryReadings | None
    priors: SensePriors
    other_cases: Mapping[str, tuple[str, ...]]  # "PT" -> "Pt"; also short forms of inventories below
    _priors: dict[Any, tuple[list[float], float]] = field(default_factory=dict, init=False)
    _other_case: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False)

    def prior_of(self, mention: Mention) -> tuple[list[float], float]:
        """Return what the priors add to the log-odds of each sense of a mention, and of "no sense fits"."""
        short_form = mention.short_form
        writing = Writing.of(mention)
        in_other_case = self._in_other_case(short_form)
        if in_other_case and (writing.in_lower_case or is_in_capitals(mention.text)):
            in_other_case = ()
        key = short_form, writing, in_other_case
        if key not in self._priors:
            names = [sense.long_form for sense in self.inventory.by_short_form[short_form]]
            of_senses, of_none = self.priors.of(short_form, names, writing)
            if len(names) == 1:
                of_none -= _ONE_SENSE
            for index in in_other_case:
                of_senses[index] -= _OTHER_CASE
            self._priors[key] = of_senses, of_none
        return self._priors[key]

    def is_error_prone(self, short_form: str, long_form: str) -> bool:
        """Whether patient-safety lists advise against a short form for a sense."""
        senses = self.inventory.by_short_form.get(short_form, ())
        return any(each.error_prone for each in senses if each.long_form == long_form)

    def _in_other_case(self, short_form: str) -> tuple[int, ...]:
        """Return senses of a form in capitals that are usual in another case: PT is "patient" only in all-caps text."""
        if short_form not in self._other_case:
            senses, names = self.inventory.by_short_form, self.other_cases.get(short_form, ())
            others = {sense.long_form for each in names for sense in senses.get(each, ())}
            at = [index for index, sense in enumerate(senses[short_form]) if sense.long_form in others]
            self._other_case[short_form] = tuple(at) if len(at) < len(senses[short_form]) else ()
        return self._other_case[short_form]


class Lexicons:
    """Builds the lexicons of a model, and caches the latest ones, so that switching between a few is free."""

    def __init__(
        self,
        model: PretrainedModel,
        inventory: LayerLike,
        *,
        letters: bool,
        make_reader: Callable[..., NoteReader],
        make_ranker: MakeRanker,
    ) -> None:
        self.inventory = standalone(inventory)
        self._model = model
        self._make_reader = make_reader
        self._priors = SensePriors.load(model.folder)
        self._make_ranker = make_ranker
        self._has_letters = letters and model.phrase_store is not None
        self._start()
        self.of(self.inventory)  # refuses a wrong style or inventory here

    def _start(self) -> None:
        """Make what is not pickled."""
        self._letters = LetterSenses(self._model) if self._has_letters else None
        self._kept: OrderedDict[Any, tuple[Any, Lexicon]] = OrderedDict()
        self._lock = RLock()

    def of(self, below: LayerLike, above: LayerLike | None = None) -> Lexicon:
        """Return the lexicon of one inventory extending another; equal senses or an unchanged file are built once."""
        (key_below, below), (key_above, above) = _identity(below), _identity(above)
        key = key_below, key_above
        with self._lock:
            if key not in self._kept:
                self._kept[key] = (below, above), self._new(below, above)
                if len(self._kept) > _CACHED_LEXICONS:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key][1]

    def _new(self, below: LayerLike, above: LayerLike | None) -> Lexicon:
        if above is not None:
            base = self.of(below)
            return self._build(extend(base.inventory, above), base)
        if below is self.inventory:
            return self._build(below)
        return self._build(standalone(below), self.of(self.inventory))

    def _build(self, inventory: SenseInventory, base: Lexicon | None = None) -> Lexicon:
        """Prepare an inventory, reusing what is known about the short forms and senses of another."""
        if base is not None and isinstance(base.ranker, PosteriorRanker):
            ranker: Ranker = base.ranker.over(inventory)
        else:
            ranker = self._make_ranker(self._model, inventory)
        if base is not None:
            read, ordinary = base.read.over(inventory), base.ordinary
        else:
            read = self._make_reader(inventory, letters=self._letters)
            has_ordinary = isinstance(ranker, MaskedSpanRanker)
            ordinary = OrdinaryReadings(self._model) if has_ordinary else None
        priors = self._priors if inventory.has_priors else SensePriors({})
        before = {} if base is None else base.inventory.by_short_form
        other_cases = {} if base is None else dict(base.other_cases)
        for short_form in inventory.by_short_form.keys() - before.keys():
            if short_form != (capitals := short_form.upper()):
                other_cases[capitals] = *other_cases.get(capitals, ()), short_form
        return Lexicon(inventory, read, ranker, self._letters, ordinary, priors, other_cases)

    def __getstate__(self) -> dict[str, Any]:
        not_pickled = ("_letters", "_kept", "_lock")
        return {name: value for name, value in self.__dict__.items() if name not in not_pickled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._start()


def _identity(given: Any) -> tuple[Any, Any]:
    """Return a cache key for a layer, and the layer itself, which must live as long as the key."""
    if given is None or isinstance(given, SenseInventory):
        return id(given), given
    if isinstance(given, str | Path):
        path = Path(given)
        try:
            status = path.stat()
        except OSError:
            return path, given  # reading it will report the problem
        return (path.absolute(), status.st_mtime_ns, status.st_size), given
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        return id(given), given  # refused where it is read
    entries = list(given)
    if entries and all(isinstance(each, str | Path) for each in entries):
        return tuple(_identity(each)[0] for each in entries), entries
    rules = as_rules(entries)
    return tuple(rules), rules
