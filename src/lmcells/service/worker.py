"""The threads that expand notes: each takes batches from its lane, made of notes of many requests."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from threading import Lock, Thread

from lmcells.errors import InputError, InventoryError, nearest
from lmcells.expansion import SenseInventory, expand_text
from lmcells.expansion.expander import Expander
from lmcells.expansion.inventory import SenseRule
from lmcells.expansion.inventory_files import as_rules
from lmcells.expansion.lexicon import Lexicon
from lmcells.expansion.long_forms import Ids
from lmcells.expansion.ranking import PosteriorRanker
from lmcells.expansion.reader import Occurrence
from lmcells.pretrained import ReadWindows
from lmcells.pretrained.network import NumpyPosterior
from lmcells.service.jobs import Batch, Job, Lane, write_answer
from lmcells.service.messages import InventoryEdits
from lmcells.service.metrics import ServiceMetrics
from lmcells.service.middleware import describe_error

_log = logging.getLogger("lmcells.service")

_MAX_INVENTORIES = 8  # that a lane keeps, as the expander does

LANES = ("interactive", "bulk", "heavy")
_INTERACTIVE, _BULK = 4_500, 50_000  # the most that a request may cost, and a note: see `Job.cost`


class Workers:
    """The lanes, each with its own thread, so that a small request never waits for a large one.

    The threads start with the first request, since a mounted application may have no start-up event.
    """

    def __init__(self, expander: Expander, metrics: ServiceMetrics) -> None:
        self._lanes = {name: Lane() for name in LANES}
        self._workers = {name: Worker(expander, metrics) for name in LANES}
        self._threads: list[Thread] = []
        self._starting = Lock()

    @property
    def n_waiting(self) -> int:
        """The number of notes waiting for a batch."""
        return sum(lane.n_waiting for lane in self._lanes.values())

    def put(self, job: Job) -> None:
        """Queue a request in the lane for its size."""
        self._lanes[lane_of(job)].put(job)
        with self._starting:
            if not self._threads:
                for name, worker in self._workers.items():
                    batches = iter(self._lanes[name].take, None)
                    thread = Thread(target=worker.run, args=(batches,), name=f"lmcells-{name}", daemon=True)
                    self._threads.append(thread)
                    thread.start()

    def stop(self) -> None:
        """Answer all queued requests, then end the threads."""
        for lane in self._lanes.values():
            lane.close()
        for thread in self._threads:
            thread.join()


def lane_of(job: Job) -> str:
    """Return the first lane that takes requests of this size."""
    costs = [job.cost(index) for index in range(len(job.notes))]
    if sum(costs) <= _INTERACTIVE:
        return "interactive"
    return "bulk" if max(costs) <= _BULK else "heavy"


class Nobody(Exception):  # noqa: N818 - an event, not an error
    """Raised when nobody is waiting for the answer any more."""


class Worker:
    """Expands the notes of a batch together; an invalid request fails alone."""

    def __init__(self, expander: Expander, metrics: ServiceMetrics) -> None:
        self._expander = expander
        self._metrics = metrics
        self._lexicon = lru_cache(_MAX_INVENTORIES)(self._lexicon_of)
        self._jobs: Sequence[Job] = ()  # whose notes are being expanded

    def run(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            self._metrics.batch_notes.observe(len(batch))
            try:
                with self._metrics.batch_seconds.time():
                    self.expand(batch)
            except Exception as error:  # the thread must survive it: no other answers the waiting requests
                _log.error("%s", describe_error(error))

    def expand(self, batch: Batch) -> None:
        """Answer every note of a batch, or fail its request."""
        by_edits: dict[InventoryEdits | None, Batch] = defaultdict(list)
        for job, index in batch:
            by_edits[job.request.inventory].append((job, index))
        for edits, notes in by_edits.items():
            try:
                self._expand(edits, notes)
            except Exception:
                # Each request is tried alone, so that only the faulty one fails; those given up are skipped.
                for each in dict.fromkeys(job for job, _ in notes):
                    own = [(job, index) for job, index in notes if job is each and index not in job.answers]
                    try:
                        self._expand(edits, own)
                    except Exception as error:
                        each.fail(error)

    def check(self) -> None:
        """Raise `Nobody` if all requests of the batch were cancelled or timed out."""
        if all(job.answered.done() for job in self._jobs):
            raise Nobody

    def _expand(self, edits: InventoryEdits | None, notes: Batch) -> None:
        self._jobs = list(dict.fromkeys(job for job, _ in notes))
        try:
            lexicon = self._lexicon(edits)
        except InputError as error:
            for job in self._jobs:
                job.fail(error)
            return
        read: list[tuple[Job, int, list[Occurrence]]] = []
        for job, index in notes:
            if job.answered.done() or index in job.answers:
                continue
            note = job.notes[index]
            try:
                read.append((job, index, lexicon.read(note.text, note.sections, dict(note.metadata))))
            except InputError as error:
                job.fail(error, index)
        if not read:
            return
        expanded = self._expander.expand_read([occurrences for *_, occurrences in read], lexicon)
        answers = list(zip(read, expanded, strict=True))
        answers.sort(key=lambda each: bool(each[0][0].request.explain))  # they take long: others come first
        for (job, index, occurrences), expansions in answers:
            note, request = job.notes[index], job.request
            explanations = None
            if request.explain:
                starts = None if isinstance(request.explain, bool) else set(request.explain)
                explanations = self._expander.explain_read(occurrences, lexicon, starts)
            written_out = None
            if request.expanded_text:
                written_out = expand_text(note.text, expansions, style=request.expanded_text)
            if note.text:  # without, it is the readiness probe
                self._metrics.count_note(note.text, expansions)
            job.answer(index, write_answer(note.id, expansions, explanations, written_out))

    def _lexicon_of(self, edits: InventoryEdits | None) -> Lexicon:
        """Return the lexicon of an edited inventory; its ranker stops as soon as nobody waits for the answer."""
        edits = edits or InventoryEdits()
        rules = rules_of(edits, SenseInventory() if edits.only else self._expander.inventory)
        expander = self._expander
        lexicon = expander.lexicon(only_inventory=rules) if edits.only else expander.lexicon(rules or None)
        if not isinstance(lexicon.ranker, PosteriorRanker):
            return lexicon
        ranker = copy(lexicon.ranker)
        posterior = ranker.posterior

        def checked(windows: ReadWindows, sections: Ids) -> NumpyPosterior:
            self.check()
            return posterior(windows, sections)

        ranker.posterior = checked  # type: ignore[method-assign]
        return replace(lexicon, ranker=ranker)


def rules_of(edits: InventoryEdits, inventory: SenseInventory) -> list[SenseRule]:
    """Return the changes of a request as a layer over an inventory; InventoryError if the two contradict each other."""
    for name in edits.remove:
        senses = inventory.senses(name.short_form)
        names = [sense.long_form for sense in senses]
        if name.long_form is not None and name.long_form.casefold() not in map(str.casefold, names):
            near = nearest(name.long_form, names)
            raise InventoryError(f"{name.long_form!r} is not a sense of {name.short_form!r}.{near}")
    added: dict[tuple[str, str], int] = {}
    for index, sense in enumerate(edits.add):
        first = added.setdefault((sense.short_form, " ".join(sense.long_form.casefold().split())), index)
        if first != index:
            raise InventoryError(
                f"inventory.add.{index}: {sense.long_form!r} is already a sense of {sense.short_form!r} "
                f"(inventory.add.{first}). Leave one out, and give all forms with the other."
            )
    removed = [each.model_dump() | {"action": "forbid"} for each in edits.remove]
    changed = as_rules([*removed, *(each.model_dump() for each in edits.add)])
    return [*changed, *as_rules(each.model_dump() for each in edits.rules)]
