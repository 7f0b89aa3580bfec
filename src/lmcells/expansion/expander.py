"""Expanding the short forms of notes."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any, Literal, Protocol, Self, TypeVar, overload

import numpy as np

from lmcells.errors import InputError
from lmcells.expansion.calibration import Calibration
from lmcells.expansion.expansion import LOW_CONFIDENCE, Candidate, Expansion
from lmcells.expansion.explain import Explanation, explain
from lmcells.expansion.inventory import Sense, SenseInventory
from lmcells.expansion.layers import LayerLike, extend, shipped_inventory, standalone
from lmcells.expansion.lexicon import Lexicon, Lexicons, MakeRanker
from lmcells.expansion.long_forms import Floats
from lmcells.expansion.ranking import best_ranker, share_within_notes
from lmcells.expansion.reader import NoteReader, Occurrence
from lmcells.expansion.windows import Mention
from lmcells.pretrained import PretrainedModel
from lmcells.pretrained.folder import model_folder, push_folder

Context = TypeVar("Context")

_MOST_MENTIONS = 8192  # in one batch, to bound memory for long notes


class SectionedNote(Protocol):
    """A text with its sections (None: they are found), such as `lmcells.notes.note.Note`."""

    @property
    def text(self) -> str: ...

    @property
    def sections(self) -> Sequence[Any] | None: ...


class Expander:
    """Finds the short forms in clinical notes and ranks the long forms of each.

    Examples:
        ```python
        expander = Expander.from_pretrained()                    # the shipped model, or a model folder
        expander("PMH: CVA in 2019, now in PT twice weekly.")    # a list of Expansion
        expander(note, sections=[(0, 40, "PMH")], inventory="mine.csv")
        for expansions in expander.pipe(notes, batch_size=256): ...   # streams notes, in order
        expander.explain(note)                                   # what each answer is based on
        ```

    The long forms come from the inventory, or from the note if it defines the abbreviation. Probabilities are
    calibrated, and the expander abstains if it is unsure. It can be pickled, and shared by threads.
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
            sections: how to find sections: "rules", "paper" or "none".
            header_rules: a file with your own headers, `{"NAME": ["alias", ...]}`.
            letters: also expand short forms outside the inventory, by their letters.
            codes: also expand codes such as pT3a, L5 and CD20.
            make_ranker: creates the ranker of an inventory.
        """
        self.model = model
        self.calibration = calibration or Calibration()
        rules = None if header_rules is None else Path(header_rules)
        make_reader = partial(NoteReader, sections=sections, codes=codes, header_rules=rules)
        self._lexicons = Lexicons(
            model, inventory, letters=letters, make_reader=make_reader, make_ranker=make_ranker
        )

    @property
    def inventory(self) -> SenseInventory:
        """The inventory that notes are expanded with, unless a call gives another."""
        return self._lexicons.inventory

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
            folder: a model folder; None or "default" is the shipped model, "org/name" a model in the local cache of
                the Hugging Face hub.
            inventory: senses and rules that extend the shipped inventory: a file or several, an inventory, or a list.
            only_inventory: the same, replacing the shipped inventory.
            calibration: by default the model's own.
            sections: how to find sections: "rules", "paper" or "none".
            header_rules: a file with your own headers, `{"NAME": ["alias", ...]}`.
            letters: also expand short forms outside the inventory, by their letters.
            codes: also expand codes such as pT3a, L5 and CD20.
            verify: compare the checksums of the model's files.
            revision: a branch, tag or commit of a model on the hub.
            download: fetch a model from the hub if it is not cached (`pip install 'lmcells[hub]'`).
        """
        path = model_folder(folder, revision=revision, download=download)
        model = PretrainedModel.from_pretrained(path, verify=verify)
        below = shipped_inventory() if only_inventory is None else standalone(only_inventory)
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
            sections: the note's sections, if known: (start, end, header) each.
            inventory: senses and rules that extend the expander's, for this note.
            only_inventory: senses that replace the expander's, for this note.
            metadata: of the note, such as {"category": "Cardiology"}, for rules that depend on it.
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
        """Explain each expansion of a note, in the same order; None for one that needed no ranking."""
        lexicon = self.lexicon(inventory, only_inventory)
        return self.explain_read(lexicon.read(_checked(note), sections, metadata), lexicon)

    def explain_read(
        self, note: Sequence[Occurrence], lexicon: Lexicon, starts: Container[int] | None = None
    ) -> list[Explanation | None]:
        """Explain the occurrences of a note read by a lexicon: all, or those that begin at `starts`."""
        expanded = dict.fromkeys(each.start for each in self.expand_read([note], lexicon)[0])
        ranked = [(each, each.ranked) for each in note if each.ranked is not None]
        asked, evidence = {}, []
        for (each, mention), (own, shared, _) in zip(ranked, self._scores([note], lexicon), strict=True):
            if each.start in expanded and (starts is None or each.start in starts):
                asked[each.start] = mention
                added = np.subtract(shared, own, out=np.zeros_like(shared), where=np.isfinite(own))
                added += np.array(lexicon.prior_of(mention)[0]) * self.calibration.temperature
                if each.allowed is not None:
                    added[np.setdiff1d(np.arange(added.size), each.allowed)] = -inf
                evidence.append(added)
        temperature = self.calibration.temperature / lexicon.priors.weight
        explained = explain(lexicon.ranker, list(asked.values()), evidence=evidence, temperature=temperature)
        explanation_at = dict(zip(asked, explained, strict=True))
        return [explanation_at.get(start) for start in expanded]

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
        """Expand a stream of notes in bounded memory; yields a list of expansions per note, in order.

        Args:
            notes: texts, or objects with `text`, `sections` and, optionally, `metadata`.
            batch_size: notes that are ranked together.
            as_tuples: take (note, context) pairs, and yield (expansions, context) pairs.
            inventory: senses and rules that extend the expander's.
            only_inventory: senses that replace the expander's.
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
        id: str | None = None,  # noqa: A002 - as in all readers
        metadata: Sequence[str] = (),
        batch_size: int = 256,
        inventory: LayerLike | None = None,
    ) -> Any:
        """Expand a frame of notes lazily: a `pyarrow.RecordBatchReader` with one row per expansion.

        Args:
            frame: a pandas, polars or Arrow frame, or any other that supports the Arrow C stream interface.
            text: the text column; a missing text gives no row.
            id: the id column, returned unchanged; None numbers the rows from 0.
            metadata: columns of metadata, such as "category", for rules that depend on it.
            batch_size: notes that are ranked together.
            inventory: senses and rules that extend the expander's.
        """
        from lmcells.expansion.frames import expand_frame

        return expand_frame(
            self, frame, text=text, id=id, metadata=metadata, batch_size=batch_size, inventory=inventory
        )

    def push_to_hub(self, repository: str, *, private: bool = True, message: str | None = None) -> str:
        """Upload the model to the Hugging Face hub (`pip install 'lmcells[hub]'`); -> the URL of the commit.

        A model contains words and phrases of its training text: review them before you share a model trained on notes.
        """
        return push_folder(self.model.folder, repository, private=private, message=message)

    def lexicon(self, inventory: LayerLike | None = None, only_inventory: LayerLike | None = None) -> Lexicon:
        """Return the lexicon of the expander's inventory, extended by `inventory` or replaced by `only_inventory`."""
        return self._lexicons.of(self.inventory if only_inventory is None else only_inventory, inventory)

    def expand_read(self, notes: Sequence[Sequence[Occurrence]], lexicon: Lexicon) -> list[list[Expansion]]:
        """Expand notes read by a lexicon, ranking their mentions together."""
        scores = iter(self._scores(notes, lexicon))
        by_letters: Iterator[tuple[Candidate, ...]] = iter(())
        if lexicon.letters is not None:
            spelt = [
                each.mention for note in notes for each in note if each.mention and each.source == "letters"
            ]
            by_letters = lexicon.letters.candidates(spelt, temperature=self.calibration.temperature)
        expanded: list[list[Expansion]] = []
        for note in notes:
            expanded.append([])
            for each in note:
                abstained = None
                if each.defined is not None:
                    candidates: tuple[Candidate, ...] = (each.defined,)
                elif each.ranked is None:
                    candidates = next(by_letters)
                else:
                    candidates, abstained = self._rank(each.ranked, next(scores), each.allowed, lexicon)
                if not candidates:
                    continue
                if abstained is None and candidates[0].probability < self.calibration.least_probability:
                    abstained = LOW_CONFIDENCE
                best = candidates[0]
                is_answer = abstained is None
                expanded[-1].append(
                    Expansion(
                        each.start,
                        each.end,
                        each.short_form,
                        each.section,
                        best.long_form if is_answer else None,
                        best.probability if is_answer else None,
                        each.source,
                        candidates,
                        abstained,
                        lexicon.is_error_prone(each.short_form, best.long_form),
                    )
                )
        return expanded

    def _scores(
        self, notes: Sequence[Sequence[Occurrence]], lexicon: Lexicon
    ) -> list[tuple[Floats, Floats, float]]:
        """Score the mentions of notes: by their own window, shared within the note, and as an ordinary word."""
        ranked = [[each.ranked for each in note if each.ranked is not None] for note in notes]
        mentions = list(chain.from_iterable(ranked))
        own = lexicon.ranker.scores(mentions) if mentions else []
        ordinary = [-inf] * len(mentions)
        if lexicon.ordinary is not None:
            ordinary = lexicon.ordinary.log_odds(mentions, own, self.calibration)
        return list(zip(own, share_within_notes(ranked, own), ordinary, strict=True))

    def _rank(
        self,
        mention: Mention,
        scores: tuple[Floats, Floats, float],
        allowed: Sequence[int] | None,
        lexicon: Lexicon,
    ) -> tuple[tuple[Candidate, ...], str | None]:
        """Return the candidates of a mention, best first, and why to abstain; none for an ordinary word.

        Its own scores decide whether any sense fits, those shared within the note which one.
        """
        own, shared, ordinary = scores
        senses: Sequence[Sense] = lexicon.inventory.by_short_form[mention.short_form]
        prior, none_prior = lexicon.prior_of(mention)
        if allowed is not None:
            chosen = list(allowed)
            senses, prior = [senses[at] for at in chosen], [prior[at] for at in chosen]
            own, shared = own[chosen], shared[chosen]
        probabilities, abstained = self.calibration.judge(
            own,
            shared,
            prior=prior,
            none_prior=none_prior,
            ordinary=ordinary,
            weight=lexicon.priors.weight,
        )
        order = sorted(range(len(probabilities)), key=lambda index: -probabilities[index])
        candidates = [
            Candidate(senses[at].long_form, probabilities[at], senses[at].concept_id) for at in order
        ]
        return tuple(candidates), abstained


def _checked(note: object) -> str:
    if not isinstance(note, str):
        raise InputError(f"a note is text (str), found: {type(note).__name__}.")
    return note


def _parts(note: object) -> tuple[str, Sequence[Any] | None, Mapping[str, object] | None]:
    if isinstance(note, str):
        return note, None, None
    try:
        return _checked(note.text), note.sections, getattr(note, "metadata", None)  # type: ignore[attr-defined]
    except AttributeError:
        kind = type(note).__name__
        raise InputError(f"a note is text (str), or has `text` and `sections`, found: {kind}.") from None
